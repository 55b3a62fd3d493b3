"""Handoffs on disk, and taking one over: once, and only when it is the truth about now."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from mindstone_tui.core import disk, errors, transcript
from mindstone_tui.core.context.extract import passages_of
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries import Line, Part, provenance, standings, window
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import HandoffReplayed, HandoffWritten
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.handoff import checkpoint_store, handoff
from mindstone_tui.core.language.sentences import shortened
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.text import as_data, fresh_nonce
from mindstone_tui.core.transcript.reader import rewinds_of, taken_back_since

_TURNS_TOLD: Final = 8


class TakenOver(Part):
    """A handoff that stands in the prompt from here on."""

    sha256: str
    text: str
    tokens: int

    def entry(self, state: window.WindowState) -> HandoffReplayed:
        """What the transcript remembers of it."""
        return HandoffReplayed(sha256=self.sha256, text=self.text, state=state)


def write(places: SessionPlaces, letter: handoff.Letter) -> HandoffWritten:
    """Put a handoff into its own file, whole or not at all."""
    name = f"{letter.covers.last:08d}-{letter.sha256[:12]}.md"
    disk.replace_file(places.handoffs / name, handoff.render(letter).encode())
    return HandoffWritten(
        path=f"handoffs/{name}", sha256=letter.sha256, covers=letter.covers, trigger=letter.trigger
    )


def newest_file(places: SessionPlaces) -> Path:
    """The handoff that was written last; raises `ContinuityError` when there is none."""
    files = sorted(places.handoffs.glob("*.md")) if places.handoffs.is_dir() else []
    if not files:
        raise errors.ContinuityError("There is no handoff yet.", "/handoff writes one.")
    return files[-1]


def load(path: Path, session: str, hash_at: checkpoint_store.HashAt) -> handoff.Letter:
    """A handoff proven against this session's history; refused as torn, edited or foreign."""
    try:
        if path.stat().st_size > handoff.MAX_BYTES:
            raise handoff.refused("foreign", "it is larger than any that was written here")
        text = disk.read_regular(path).decode()
    except OSError as error:
        raise errors.ContinuityError(
            f"The handoff cannot be read ({error.strerror}).", "/handoff writes one."
        ) from error
    except UnicodeDecodeError as error:
        raise handoff.refused("torn", "it is not text") from error
    letter = handoff.parse(text)
    if letter.session != session:
        raise handoff.refused("foreign", f"it belongs to {letter.session}")
    if hash_at(letter.covers.last) != letter.head:
        raise handoff.refused(
            "foreign", f"line {letter.covers.last} of this history is another one"
        )
    return letter


def show_newest(places: SessionPlaces, history: transcript.History) -> str:
    """The newest handoff as it stands in its file, below what of it holds no longer; refused as it
    would be when it is used."""
    letter = _newest(places, history)
    text = handoff.render(letter)
    since = changed_in(text, history, letter.covers.last, letter.covers.last)
    return "\n".join([*(f"Changed since: {one}" for one in since), text])


def changed_in(text: str, history: transcript.History, written: int, after: int) -> list[str]:
    """Which lines that a text quotes hold no longer, by what was judged after a line, of which
    turns that it names files were put back, and that its task ended since it was written."""
    told = corrected(history, after).items()
    quoted = [why for (seq, _), why in told if f"line {seq}]" in text]
    return [*ended(history, written), *quoted, *put_back(history, after, text)]


def ended(history: transcript.History, after: int) -> list[str]:
    """That the task of that time is over, if it is."""
    kinds = ("task_started", "task_done", *standings.REWINDS)
    since = history.newest(kinds, history.head.seq - after)
    for line in standings.not_rewound(since):
        if title := shortened(getattr(line.entry, "title", ""), 200):
            done = "is done: its goal and its rules hold no longer"
            did = done if line.kind == "task_done" else "began: the one before is over"
            return [f"By line {line.seq}, the task “{title}” {did}."]
    return []


def _newest(places: SessionPlaces, history: transcript.History) -> handoff.Letter:
    letter = load(newest_file(places), str(places.key), checkpoint_store.hashes(history))
    head = history.line(letter.covers.last)
    if (by := rewinds_of(history).of_place(head.seq, head.turn)) is not None:
        raise handoff.refused("rewound", f"line {by} went back to before it was written")
    if taken_back_since(history, letter.covers.last):
        raise handoff.refused("outdated", checkpoint_store.BACK_THERE)
    if letter.format < handoff.TELLS_IMPORTED_APART:
        covered = history.read(letter.covers.first, letter.covers.last)
        if any(isinstance(line, Line) and provenance.is_imported(line) for line in covered):
            raise handoff.refused("outdated", "it takes imported words for what was said here")
    return letter


def corrected(history: transcript.History, after: int) -> dict[tuple[int, tuple[str, ...]], str]:
    """The lines, or sentences of them, of which it was judged after a line that they hold no
    longer, each with what was said instead, whenever that was, as far as that still counts.
    """
    known, told = transcript.standings_of(history), dict[tuple[int, tuple[str, ...]], str]()
    for judged in [*history.newest(("statement_superseded",), history.head.seq - after)][::-1]:
        for seq, by in standings.superseded_in(judged).items():
            said, part = history.whole(history.line(by)), getattr(judged.entry, "part", ())
            if isinstance(said.entry, UserMessage) and known.replaces(by, seq):
                which = f"Of line {seq}, “{' '.join(part)}”" if part else f"Line {seq}"
                beside = ", ".join((f"by line {by}", *known.told(said, sign="line ")))
                why = f"{which} holds no longer, {beside}: {shortened(said.entry.text, 200)}"
                told[seq, part] = why
    return told


def put_back(history: transcript.History, after: int, text: str = "") -> list[str]:
    """The newest turns whose changes to files were taken back, or done again, after a line.

    With a text, those that it names; what it says of that itself is not said once more.
    """
    told: dict[int, tuple[int, str]] = {}
    for line in history.newest(("files_restored",), history.head.seq + 1):
        if isinstance(entry := line.entry, FilesRestored):
            did = "taken back" if entry.direction == "undo" else "done again"
            for turn in entry.turns:
                left = ", ".join(entry.left_in(turn))
                told.setdefault(turn, (line.seq, f"{did}, all but {left}" if left else did))
    return [
        f"What turn {turn} did to files was {did}, by line {by}."
        for turn, (by, did) in sorted(told.items())
        if by > after
        and (not text or re.search(rf"\bturn {turn}\b", text))
        and not re.search(rf"\bby line {by}\b", text)
    ][-_TURNS_TOLD:]


def take_over_newest(places: SessionPlaces, history: transcript.History, count: Count) -> TakenOver:
    """The newest handoff with what was said since, proven, unused, and ready to be recorded."""
    letter = _newest(places, history)
    since = [
        history.whole(one) for one in history.read(letter.covers.last + 1) if isinstance(one, Line)
    ]
    used = {one.entry.sha256 for one in since if isinstance(one.entry, HandoffReplayed)}
    judged = transcript.standings_of(history)
    gone = [*ended(history, letter.covers.last), *corrected(history, letter.covers.last).values()]
    gone += put_back(history, letter.covers.last, letter.body)
    return take_over(
        letter, standings.not_rewound(since), count, judged=judged, replayed=used, gone=gone
    )


def take_over(
    letter: handoff.Letter,
    since: Sequence[Line],
    count: Count,
    *,
    judged: standings.Standings,
    replayed: Collection[str] = (),
    gone: Collection[str] = (),
    nonce: str = "",
) -> TakenOver:
    """The handoff and what was said after it, as one labelled block for the next window.

    `since` are the lines after the ones it covers; `replayed` the hashes that were used before,
    `gone` what holds no longer.
    """
    if letter.sha256 in replayed:
        raise handoff.refused("stale", "it was already taken over")
    written = {line.entry.sha256 for line in since if isinstance(line.entry, HandoffWritten)}
    if written - {letter.sha256}:
        raise handoff.refused("stale", "a newer one was written")
    later = passages_of(since, judged)
    if len(later) > handoff.TAIL_MESSAGES:
        why = f"{len(later)} messages were written since, more than it can be carried on with"
        raise handoff.refused("stale", why)
    tail = "\n".join(
        f"{one.name or one.speaker} [{one.place}, line {one.seq}]: {one.text[: handoff.SHOWN]}"
        for one in later
    )
    body = f"{letter.body}\n\n## Since then, word for word\n{tail}" if tail else letter.body
    if rows := "\n".join(f"- {one}" for one in gone):
        body += f"\n\n## Changed since then\n{rows}"
    origin = f"handoff of {letter.session}, lines {letter.covers.first}-{letter.covers.last}"
    text = (
        "This was handed over from the window before. It is derived from the transcript, which "
        "wins where they differ, and can be looked up there by turn.\n"
        + as_data(body, origin=origin, nonce=nonce or fresh_nonce())
    )
    return TakenOver(sha256=letter.sha256, text=text, tokens=count(text))
