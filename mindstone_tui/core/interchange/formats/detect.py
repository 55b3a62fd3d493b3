"""Which program wrote a file: asked by name, or told from how it begins."""

from __future__ import annotations

import difflib
import shlex
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mindstone_tui.core.errors import InterchangeError, NotASession, UnknownName
from mindstone_tui.core.interchange.formats.aider import AIDER
from mindstone_tui.core.interchange.formats.base import Format, Sample
from mindstone_tui.core.interchange.formats.chatgpt import CHATGPT
from mindstone_tui.core.interchange.formats.claude_ai import CLAUDE_AI
from mindstone_tui.core.interchange.formats.claude_code import CLAUDE_CODE
from mindstone_tui.core.interchange.formats.cline import CLINE, KILO_CODE, ROO_CODE
from mindstone_tui.core.interchange.formats.codex import CODEX
from mindstone_tui.core.interchange.formats.continue_dev import CONTINUE
from mindstone_tui.core.interchange.formats.copilot_cli import COPILOT_CLI
from mindstone_tui.core.interchange.formats.crush import CRUSH
from mindstone_tui.core.interchange.formats.cursor import CURSOR
from mindstone_tui.core.interchange.formats.droid import DROID
from mindstone_tui.core.interchange.formats.gemini_cli import GEMINI_CLI
from mindstone_tui.core.interchange.formats.goose import GOOSE
from mindstone_tui.core.interchange.formats.kiro import KIRO
from mindstone_tui.core.interchange.formats.messages import MESSAGES
from mindstone_tui.core.interchange.formats.mindstone import MINDSTONE
from mindstone_tui.core.interchange.formats.opencode import OPENCODE
from mindstone_tui.core.interchange.formats.openhands import OPENHANDS
from mindstone_tui.core.interchange.formats.parts import array_of, document, is_array
from mindstone_tui.core.interchange.formats.pi import PI
from mindstone_tui.core.interchange.formats.qwen_code import QWEN_CODE
from mindstone_tui.core.interchange.formats.specstory import SPECSTORY
from mindstone_tui.core.interchange.read_bytes import BOM, decode_object, lines, open_file

FORMATS: Final = MappingProxyType(
    {
        each.name: each
        for each in (
            MINDSTONE,
            QWEN_CODE,
            CLAUDE_CODE,
            CODEX,
            COPILOT_CLI,
            DROID,
            PI,
            GEMINI_CLI,
            CRUSH,
            GOOSE,
            CHATGPT,
            CLAUDE_AI,
            CURSOR,
            KIRO,
            CONTINUE,
            OPENHANDS,
            OPENCODE,
            KILO_CODE,
            ROO_CODE,
            CLINE,
            AIDER,
            SPECSTORY,
            MESSAGES,
        )
    }
)
"""Every format by name, the most particular first."""

_SAMPLE: Final = 1 << 18
_ZSTANDARD: Final = b"\x28\xb5\x2f\xfd"
_LINES: Final = 64
_ELEMENTS: Final = 2


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
        if not start.strip():
            raise NotASession(f"{path} is empty.", "There is nothing in it to import.")
        stream.seek(0)
        # A line may be far longer than the sample: somebody pasted a file as the first message.
        has_lines = b"\x00" not in start and not start.removeprefix(BOM).lstrip().startswith(b"[")
        begun = [raw for _, raw in islice(lines(stream), _LINES)] if has_lines else []
    if not has_lines and is_array(path):
        first = islice(array_of(path), _ELEMENTS)
        return Sample(
            path, start, elements=tuple(each[1] for each in first if isinstance(each, tuple))
        )
    found = [decode_object(raw) for raw in begun if isinstance(raw, bytes) and b"{" in raw[:4]]
    known = tuple(each for each in found if isinstance(each, dict))
    if begun and not known and start.removeprefix(BOM).lstrip().startswith(b"{"):
        # One object over many lines: what it is may stand behind a first message of any length.
        one = document(path)
        known = (one,) if isinstance(one, dict) else ()
    return Sample(path, start, known)
