"""The session formats of other programs: a file each, asked for by name or told from how it begins.

Programs that come from one another share a file.
"""

import difflib
import shlex
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from mindstone_tui.core import plugins
from mindstone_tui.core.errors import InterchangeError, NotASession, UnknownName
from mindstone_tui.core.language.lists import lists_in
from mindstone_tui.core.plugins import Admitted, load, loaded

from ..read_bytes import BOM, decode_object, lines, open_file
from .base import Format as Format
from .base import Sample
from .sources import array_of, document, is_array


@cache
def door() -> Admitted[Format]:
    """Every format by name: those that ship, then those of plug-ins; and what was left out."""
    shipped = lists_in(Path(__file__).with_name("shipped.txt"))["formats"]
    ours = [loaded(f"mindstone_tui.core.interchange.formats.{each}") for each in shipped]
    known = {each.name: each for each in ours if isinstance(each, Format)}
    more = load(
        plugins.FORMATS, lambda each: each if isinstance(each, Format) else None, tuple(known)
    )
    return Admitted({**known, **{each.name: each for each in more.usable.values()}}, more.left_out)


def formats() -> Mapping[str, Format]:
    """The same, those that can be used."""
    return door().usable


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
            f"{path} is compressed.",
            f"Unpack it first: zstd -dc {shlex.quote(str(path))} > {shlex.quote(f'{path.stem}')}",
        )
    for each in formats().values():
        if each.recognises(sample):
            return each
    if {".pb", ".db"} & {path.suffix} and any("antigravity" in each for each in path.parts):
        raise NotASession(
            f"{path} is a conversation that only Antigravity itself can read.",
            "What was said in it stands in brain/*/.system_generated/logs/transcript.jsonl.",
        )
    raise NotASession(
        f"{path} is not a session of any program known here.",
        f"If you know better, name it with --from: {', '.join(formats())}.",
    )


def _named(name: str) -> Format:
    known = formats()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, 1)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise UnknownName(
        f"There is no import format {name!r}.", f"{hint}There are: auto, {', '.join(formats())}."
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
        return Sample(path, start, elements=tuple(it[1] for it in first if isinstance(it, tuple)))
    found = [decode_object(raw) for raw in begun if isinstance(raw, bytes) and b"{" in raw[:4]]
    known = tuple(each for each in found if isinstance(each, dict))
    if begun and not known and start.removeprefix(BOM).lstrip().startswith(b"{"):
        # One object over many lines: what it is may stand behind a first message of any length.
        one = document(path)
        known = (one,) if isinstance(one, dict) else ()
    return Sample(path, start, known)
