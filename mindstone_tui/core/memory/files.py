"""A memory as a Markdown file: front matter for the program, text for everyone.

    ---
    name: Tests before commits
    kind: preference
    sources: [120, 131]
    created: 2026-01-01T00:00:00Z
    invariant: Run the tests before every commit.
    ---
    The user wants the whole suite to pass before anything is committed.

Values are plain text, numbers, true or false, or JSON where they start with `"` or `[`. Keys that
this version does not know are kept when it writes the file again.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from mindstone_tui.core import bounded_json, disk, paths, patterns
from mindstone_tui.core.config.settings import MemorySettings
from mindstone_tui.core.context.extract import first_sentence
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries import Part, window
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.memory.notes import KEPT_BY_PERSON, Note
from mindstone_tui.core.memory.notes import render as render_notes
from mindstone_tui.core.text import as_data

Kind = Literal["preference", "decision", "lesson", "procedure", "fact", "project", "reference"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
INDEX: Final = "MEMORY.md"
LARGEST: Final = 256 * 1024
"""Bytes of a memory file; a larger one is not read."""

_FENCE: Final = "---"
_KEY: Final = patterns.pattern_of(r"[a-z][a-z0-9_]{0,40}")
_NUMBER: Final = patterns.pattern_of(r"-?\d{1,15}(?:\.\d{1,6})?")


class Memory(Part):
    """Something that lasts, and what is known about its use."""

    name: str
    kind: Kind
    body: str
    description: str = ""
    sources: tuple[int, ...] = ()
    session: str = ""
    created: str = ""
    hits: int = 0
    """How often an answer leaned on it."""
    prevented: int = 0
    """How often it kept a mistake from happening again."""
    last_applied: str = ""
    critical: bool = False
    evergreen: bool = False
    """Does not fade with age."""
    half_life_days: float = 30.0
    invariant: str = ""
    """One sentence that is always in force."""
    tags: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    """File names of the memories that this one replaces."""
    doubted: str = ""
    """`SESSION#LINE` of a person's words that replace it, until they decide about the change."""
    extra: dict[str, Any] = {}
    """Keys of a newer version."""


_FIELDS: Final = tuple(name for name in Memory.__struct_fields__ if name not in ("body", "extra"))
_DEFAULTS: Final = Memory(name="", kind="fact", body="")


class Shelved(Part):
    """A memory and the file it stands in."""

    file: str
    memory: Memory


class Unreadable(Part):
    """A file in the memory folder that is no memory, and why."""

    file: str
    why: str


class Shelf(Part):
    """All memories of an agent; damaged files are listed, not dropped."""

    memories: tuple[Shelved, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def live(self) -> tuple[Shelved, ...]:
        """Those that hold: no other one replaces them, and nobody corrected them."""
        return tuple(one for one in self.kept if not one.memory.doubted)

    @property
    def kept(self) -> tuple[Shelved, ...]:
        """Those that no other one replaces."""
        replaced = {(one.file, file) for one in self.memories for file in one.memory.supersedes}
        gone = {file for by, file in replaced if by != file}
        return tuple(one for one in self.memories if one.file not in gone)


def read_shelf(places: paths.AgentPlaces) -> Shelf:
    """Every memory in the agent's folder, by file name."""
    memories: list[Shelved] = []
    unreadable: list[Unreadable] = []
    for path in _files(places.memory):
        try:
            memories.append(Shelved(file=path.name, memory=parse(read_text(path))))
        except ContinuityError as error:
            unreadable.append(Unreadable(file=path.name, why=error.what))
    return Shelf(memories=tuple(memories), unreadable=tuple(unreadable))


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.suffix == ".md" and path.name != INDEX and not path.name.startswith("."):
                yield path


def read_text(path: Path) -> str:
    """A memory file's text; a link, a folder or something huge is refused."""
    if path.is_symlink() or not path.is_file():
        raise ContinuityError(f"{path.name} is not a plain file.", "Put a plain file there.")
    if path.stat().st_size > LARGEST:
        raise ContinuityError(f"{path.name} is larger than a memory may be.", "Split it.")
    try:
        return disk.read_regular(path, most=LARGEST, follow=False).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ContinuityError(f"{path.name} cannot be read: {error}.", "Restore it.") from error


def parse(text: str) -> Memory:
    """Read a memory; raises `ContinuityError` that says what is wrong with it."""
    lines = text.split("\n")
    if not lines or lines[0].strip() != _FENCE or _FENCE not in (one.strip() for one in lines[1:]):
        raise ContinuityError(
            "A memory begins with front matter between two lines of three dashes.",
            "Add it, or move the file out of the memory folder.",
        )
    end = next(at for at, line in enumerate(lines) if at and line.strip() == _FENCE)
    fields: dict[str, Any] = {}
    for line in lines[1:end]:
        key, colon, value = line.partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not colon or not _KEY.fullmatch(key.strip()):
            raise ContinuityError(f"{line!r} is not a line of front matter.", "Write key: value.")
        fields[key.strip()] = _value(value.strip())
    known = {key: _plain(key, value) for key, value in fields.items() if key in _FIELDS}
    known["extra"] = {key: value for key, value in fields.items() if key not in _FIELDS}
    known["body"] = "\n".join(lines[end + 1 :]).strip()
    try:
        return msgspec.convert(known, Memory)
    except msgspec.ValidationError as error:
        raise ContinuityError(f"The front matter is wrong: {error}.", "Correct it.") from error


def _value(text: str) -> Any:
    if text[:1] in ('"', "["):
        try:
            return text if bounded_json.is_too_deep(text) else msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def _plain(key: str, value: Any) -> Any:
    """A number where text is meant is text that looks like a number."""
    wants_text = isinstance(getattr(_DEFAULTS, key), str)
    return str(value) if wants_text and not isinstance(value, str) else value


def render(memory: Memory) -> str:
    """The file's text; `parse` gives the same memory back."""
    lines = [_FENCE]
    for name in _FIELDS:
        value = getattr(memory, name)
        if value != getattr(_DEFAULTS, name) or name in ("name", "kind"):
            lines.append(f"{name}: {_written(value)}")
    lines += [f"{name}: {_written(value)}" for name, value in memory.extra.items()]
    return "\n".join([*lines, _FENCE, memory.body.strip(), ""])


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str) and _is_plain(value):
        return value
    return msgspec.json.encode(value).decode()


def _is_plain(value: str) -> bool:
    """Whether text stands in front matter as it is and is read back as the same text."""
    return value.isprintable() and value == value.strip() != "" and _value(value) == value


def file_name(kind: str, name: str, taken: frozenset[str] = frozenset()) -> str:
    """A file for a new memory: its kind and its name, in plain letters."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].rstrip("-") or "memory"
    number = 1
    while (file := f"{kind}_{slug}{f'-{number}' if number > 1 else ''}.md") in taken:
        number += 1
    return file


LIKENESS: Final = 0.76
KIND_WEIGHT: Final = {
    "preference": (0.06, 0.25),
    "lesson": (0.06, 0.20),
    "decision": (0.05, 0.20),
    "procedure": (0.05, 0.15),
    "project": (0.04, 0.05),
    "fact": (0.03, 0.10),
    "reference": (0.02, 0.05),
}
"""What each kind adds to a memory's score, and its share of the digest's room, so that one
talkative kind cannot crowd out the others."""
CRITICAL: Final = 0.08
EVERGREEN: Final = 0.03
MOST_USE: Final = 0.06
RECENT: Final = 0.04


class Resonance(Part):
    """A score between 0 and 1, and what it is made of."""

    total: float
    parts: dict[str, float]


def resonance(memory: Memory, likeness: float, now: datetime) -> Resonance:
    """Weigh a memory; a prevented mistake counts three times a mere use."""
    half_life = max(memory.half_life_days, 0.01)
    fading = 1.0 if memory.evergreen else 0.5 ** min(1_000.0, age_days(memory, now) / half_life)
    parts = {
        "likeness": LIKENESS * max(0.0, min(1.0, likeness)),
        "kind": KIND_WEIGHT[memory.kind][0],
        "critical": CRITICAL * memory.critical,
        "evergreen": EVERGREEN * memory.evergreen,
        "use": min(MOST_USE, 0.02 * math.log1p(memory.hits + 3 * memory.prevented)),
        "age": RECENT * fading,
    }
    return Resonance(total=min(1.0, sum(parts.values())), parts=parts)


def age_days(memory: Memory, now: datetime) -> float:
    """Days since it was last applied, or made; 0 when nobody knows."""
    try:
        then = datetime.fromisoformat(memory.last_applied or memory.created)
        return max(0.0, (now - then).total_seconds() / 86_400)
    except (ValueError, TypeError):
        return 0.0


RELEVANT: Final = 0.25
"""Likeness below which a memory is not worth a line."""
_LINE_LENGTH: Final = 320


class Rendered(Part):
    """A text for the prompt, what stands in it, and what had to be left out."""

    text: str = ""
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    warning: str = ""


def head_sections(
    shelf: Shelf, notes: Sequence[Note], settings: MemorySettings, count: Count
) -> tuple[tuple[window.Section, ...], tuple[str, ...]]:
    """What memory adds to the head of every prompt, and a warning for what does not fit.

    Invariants, the index and what was kept hold words that a person agreed to; the other notes
    stand there as data. The same notes always give the same bytes.
    """
    kept = [one for one in notes if one.by == "person" and one.category in KEPT_BY_PERSON]
    notes = [one for one in notes if one not in kept]
    ruling = invariants(shelf, settings.invariant_tokens, count)
    listed = index(shelf, settings.digest_tokens, count)
    own = render_notes(kept, count, settings.notes_tokens)
    noted = render_notes(notes, count, settings.notes_tokens - count(own))
    texts = (
        ("invariants", "Always in force:", ruling.text),
        ("kept", "Said by the person, who wants it kept:", own),
        ("memory", "Memories; read_entry reads one by its file:", listed.text),
        (
            "notes",
            "Your notes:",
            as_data(noted, origin="notes", nonce=_seal(noted)) if noted else "",
        ),
    )
    sections = tuple(
        window.Section(name=name, text=f"{title}\n{text}", source="memory", raw_size=len(text))
        for name, title, text in texts
        if text
    )
    return sections, tuple(filter(None, (ruling.warning, listed.warning)))


def _seal(text: str) -> str:
    """A marker that the text cannot contain, the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def invariants(shelf: Shelf, budget: int, count: Count) -> Rendered:
    """Every rule that is always in force; where room ends its name stands for it."""
    ruling = sorted(
        (one for one in shelf.live if one.memory.invariant),
        key=lambda one: (not one.memory.critical, one.file),
    )
    full = [f"- {' '.join(one.memory.invariant.split())}" for one in ruling]
    short = [f"- {one.memory.name} (in {one.file}, shortened for room)" for one in ruling]
    for whole in range(len(ruling), -1, -1):
        text = "\n".join([*full[:whole], *short[whole:]])
        if count(text) <= budget:
            return _ruled(ruling, text, whole)
    named = len(ruling)
    while named and count("\n".join([*short[:named], _more(len(ruling) - named)])) > budget:
        named -= 1
    text = "\n".join([*short[:named], _more(len(ruling) - named)])
    return _ruled(ruling, text, 0)


def _ruled(ruling: Sequence[Shelved], text: str, whole: int) -> Rendered:
    named = tuple(one.file for one in ruling)
    told, left_out = named[:whole], named[whole:]
    warning = f"{len(left_out)} invariants do not fit their room" if left_out else ""
    return Rendered(text=text, files=told, left_out=left_out, warning=warning)


def _more(number: int) -> str:
    return f"- {number} more invariants do not fit here; `/memory` lists them"


def index_text(shelf: Shelf) -> str:
    """`MEMORY.md`: every live memory on a line, by kind."""
    blocks = ["# Memory"]
    for kind in KINDS:
        if filed := [one for one in shelf.live if one.memory.kind == kind]:
            blocks.append("\n".join([f"\n## {kind}", *map(_entry, filed)]))
    return "\n".join(blocks) + "\n"


def _entry(one: Shelved) -> str:
    about = one.memory.description or first_sentence(one.memory.body, 120)
    return f"- [{one.memory.name}]({one.file}): {about}"


def index(shelf: Shelf, budget: int, count: Count) -> Rendered:
    """The index for the prompt: whole, else names alone, else as many names as fit."""
    live = shelf.live
    if not live:
        return Rendered()
    files = tuple(one.file for one in live)
    if count(whole := index_text(shelf).strip()) <= budget:
        return Rendered(text=whole, files=files)
    names = [f"- {one.memory.name} ({one.file})" for one in live]
    shown = len(names)
    while shown and count(_names(names, shown)) > budget:
        shown -= 1
    return Rendered(
        text=_names(names, shown) if shown else "",
        files=files[:shown],
        left_out=files[shown:],
        warning=f"the memory index is shortened to its room; {INDEX} has it whole",
    )


def _names(names: Sequence[str], shown: int) -> str:
    rest = len(names) - shown
    return "\n".join([*names[:shown], *([f"({rest} more in {INDEX})"] if rest else [])])


def digest(
    shelf: Shelf, likeness: Mapping[str, float], budget: int, count: Count, now: datetime
) -> Rendered:
    """The memories that bear on this turn, by resonance, each kind within its share.

    `likeness` is recall's word on each file. Room that a kind leaves over goes to the best of the
    rest.
    """
    scored = [
        (resonance(one.memory, likeness[one.file], now).total, one)
        for one in shelf.live
        if likeness.get(one.file, 0.0) >= RELEVANT
    ]
    ranked = [one for _, one in sorted(scored, key=lambda pair: (-pair[0], pair[1].file))]
    room = {kind: int(budget * share) for kind, (_, share) in KIND_WEIGHT.items()}
    chosen: dict[str, str] = {}
    spent = 0
    for within_share in (True, False):
        for one in ranked:
            line = _digest_line(one)
            cost = count(line) + 1
            if one.file in chosen or spent + cost > budget:
                continue
            if within_share and cost > room[one.memory.kind]:
                continue
            room[one.memory.kind] -= cost
            spent += cost
            chosen[one.file] = line
    shown = [one.file for one in ranked if one.file in chosen]
    return Rendered(
        text="\n".join(chosen[file] for file in shown),
        files=tuple(shown),
        left_out=tuple(one.file for one in ranked if one.file not in chosen),
    )


def _digest_line(one: Shelved) -> str:
    body = " ".join(one.memory.body.split())
    if len(body) > _LINE_LENGTH:
        body = body[: _LINE_LENGTH - 1] + "…"
    return f"- [{one.memory.kind}] {one.memory.name}: {body} (memory/{one.file})"
