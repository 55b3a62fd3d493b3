"""Which program wrote a file: asked by name, or told from how it begins."""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mindstone_tui.core.errors import InterchangeError, NotASession, UnknownName
from mindstone_tui.core.interchange.formats.chatgpt import CHATGPT
from mindstone_tui.core.interchange.formats.claude_code import CLAUDE_CODE
from mindstone_tui.core.interchange.formats.codex import CODEX
from mindstone_tui.core.interchange.formats.format import Format, Sample
from mindstone_tui.core.interchange.formats.gemini_cli import GEMINI_CLI
from mindstone_tui.core.interchange.formats.goose import GOOSE
from mindstone_tui.core.interchange.formats.messages import MESSAGES
from mindstone_tui.core.interchange.formats.mindstone import MINDSTONE
from mindstone_tui.core.interchange.formats.opencode import OPENCODE
from mindstone_tui.core.interchange.formats.pi import PI
from mindstone_tui.core.interchange.reading import decode, open_file

FORMATS: Final = MappingProxyType(
    {
        each.name: each
        for each in (
            MINDSTONE,
            CLAUDE_CODE,
            CODEX,
            PI,
            GEMINI_CLI,
            GOOSE,
            CHATGPT,
            OPENCODE,
            MESSAGES,
        )
    }
)
"""Every format by name, the most particular first."""

_SAMPLE: Final = 1 << 18
_ZSTANDARD: Final = b"\x28\xb5\x2f\xfd"
_MARK: Final = b"\xef\xbb\xbf"
_LINES: Final = 64
_LONGEST_LINE: Final = 16 << 20
"""A first line may hold an image; it is read whole, so that it can be told whose it is."""


def format_of(path: Path, name: str = "auto") -> Format:
    """The format of this name, or for `auto` the one that recognises the file."""
    if name != "auto":
        return _named(name)
    sample = _sample(path)
    if sample.start.startswith(_ZSTANDARD):
        raise InterchangeError(
            f"{path} is compressed.", f"Unpack it first: zstd -d {shlex.quote(str(path))}"
        )
    for each in FORMATS.values():
        if each.recognises(sample):
            return each
    raise NotASession(
        f"{path} is not a session of any program known here.",
        f"If you know better, name it with --from: {', '.join(FORMATS)}.",
    )


def _named(name: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    close = difflib.get_close_matches(name, FORMATS, 1)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise UnknownName(
        f"There is no import format {name!r}.", f"{hint}There are: auto, {', '.join(FORMATS)}."
    )


def _sample(path: Path) -> Sample:
    with open_file(path) as stream:
        start = stream.read(_SAMPLE)
        is_whole = len(start) < _SAMPLE
        rest = b"" if is_whole or start.endswith(b"\n") else stream.readline(_LONGEST_LINE)
    lines = (start + rest if start.count(b"\n") < _LINES else start).split(b"\n")[:_LINES]
    found = [decode(raw.strip()) for raw in lines if raw.strip()]
    if is_whole and not any(isinstance(each, dict) for each in found):
        found = [decode(start.removeprefix(_MARK))]
    return Sample(path, start, tuple(each for each in found if isinstance(each, dict)))
