"""Search across sessions, down to the exchange; by the library if it can answer, else by reading.

A session that cannot be brought into the library is read instead, and all of them are where the
library itself cannot be used, so that search never comes back empty because something is being
rebuilt.
"""

import contextlib
import hashlib
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import errors, numbers, transcript
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries import Line, conversation, provenance
from mindstone_tui.core.entries.derived import Replacement
from mindstone_tui.core.entries.standings import Rewinds, Standings
from mindstone_tui.core.entries.store import SessionDescribed
from mindstone_tui.core.language.sentences import pieces
from mindstone_tui.core.language.words import plain_words, query_terms, root
from mindstone_tui.core.library import profile as profiles
from mindstone_tui.core.library.all_sessions import AllSessions, Progress
from mindstone_tui.core.library.file_states import FilesOfSession
from mindstone_tui.core.library.lineage import as_they_stand
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.recall import candidates, catch_up, embedding, index, speak, thresholds
from mindstone_tui.core.recall.acts import Done
from mindstone_tui.core.recall.ranking import Hit, quoted_by
from mindstone_tui.core.text import as_written, shortened, unfenced, without_reminders
from mindstone_tui.core.values import alike, shared

_AROUND: Final = 80
_READ: Final = 8_000
"""Characters on either side of a word in which the sentence to show is looked for."""
_FILTERED: Final = 8
"""How many times as many hits are looked at when some will be dropped."""
_AN_EXCHANGE: Final = 3
"""How many times as many hits are looked at, because several may stand in one exchange."""
_KINDS: Final = {
    "": frozenset[str](),
    "user": frozenset({"user_message"}),
    "assistant": frozenset({"assistant_message", "assistant_partial"}),
    "tool": frozenset({"tool_returned"}),
}
"""The lines in which each role speaks."""
_LEAST: Final = 0.4
"""The share of what recall asks for before it speaks that somebody who searches is shown."""
_FURTHER: Final = 0.5
"""What each further hit of a session adds to its best one, of what the hit before it added."""
_COARSE: Final = 0.001
"""Seconds that the time of a line leaves out."""
EXCERPT: Final = 240
"""Characters of a hit that are shown."""


class SessionHit(Replacement, kw_only=True, omit_defaults=False):
    """One exchange that matches, and the line in it that matches best."""

    session: str
    turn: int
    seq: int
    score: float
    excerpt: str
    ts: str = ""
    speaker: str = ""
    kind: str = ""
    by: str = "index"
    """`index`, or `reading` when the session had to be read."""
    says: bool = True
    """Whether a word of the question stands in it; else it is only near in meaning."""
    program: str = profiles.OWN
    folder: str = ""
    imported: provenance.ImportSource | None = None
    """The program and the file that the words come from, if they were not said here."""
    changed_since: int = 0
    """How many of the files that the exchange touched were changed since, as far as it is known."""


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and in which sessions the search was by reading."""

    query: str
    hits: tuple[SessionHit, ...]
    sessions: int
    read: tuple[str, ...] = ()
    words_only: tuple[str, ...] = ()
    """Servers that were searched by words only, because they cannot compare meanings."""
    failure: str = ""
    """Why the library could not be used, and all sessions were read instead."""


def _best(hits: Iterable[SessionHit], count: int) -> list[SessionHit]:
    """The best, best first, one hit an exchange."""
    best: dict[tuple[str, int], SessionHit] = {}
    for hit in hits:
        place = (hit.session, hit.turn)
        if place not in best or hit.score > best[place].score:
            best[place] = hit
    return heapq.nlargest(count, best.values(), key=lambda hit: hit.score)


def _read(
    query: str, session: SessionPlaces, wanted: profiles.SessionFilter, count: int
) -> list[SessionHit]:
    """The best matches of a session by reading it: the phrase first, then the words."""
    phrase = " ".join(query.casefold().split())
    if not (words := list(dict.fromkeys(plain_words(phrase)))):
        return []
    try:
        with transcript.History(session) as history:
            standings = transcript.standings_of(history)
            read = _lines(history, wanted, standings.rewinds)
            scored = _scored(str(session.key), read, phrase, words, standings)
            return heapq.nlargest(count, scored, key=lambda hit: (hit.score, hit.seq))
    except (errors.MindstoneError, OSError):  # `doctor` says what is wrong with it
        return []


def _scored(
    session: str, lines: Iterable[Line], phrase: str, words: list[str], standings: Standings
) -> Iterator[SessionHit]:
    for line in lines:
        if not (said := _said(line)):
            continue
        speaker, text = said
        score, word = _score(text, phrase, words)
        start = max(text.casefold().find(word) - _READ, 0)
        if score > 0:
            yield alike(
                SessionHit,
                line,
                session=session,
                score=score,
                excerpt=excerpt(text[start : start + 2 * _READ], words),
                speaker=speaker,
                by="reading",
                **shared(Replacement, standings.stored(line.seq, line.turn, line.kind))
                | {"imported": provenance.UNKNOWN if provenance.is_imported(line) else None},
            )


def _said(line: Line) -> tuple[str, str] | None:
    match line.entry:
        case conversation.UserMessage(text=text, name=name):
            return name or "user", as_written(text)
        case conversation.AssistantMessage(text=text, name=name):
            return name or "assistant", text
        case conversation.AssistantPartial(text=text):
            return "assistant", text
        case conversation.ToolReturned(text=text, name=name):
            return name, unfenced(text)
        case _:
            return None


def _score(text: str, phrase: str, words: list[str]) -> tuple[float, str]:
    """1 for the whole phrase, else the share of words that occur, and what was found."""
    folded = text.casefold()
    if phrase in folded:
        return 1.0, phrase
    present = [word for word in words if word in folded]
    if not present:
        return 0.0, ""
    return 0.9 * len(present) / len(words), max(present, key=len)


def excerpt(text: str, words: Iterable[str]) -> str:
    """The sentences around those of some words that are rarest in the text, on one line."""
    parts = pieces(text)
    folded = [part.casefold() for part in parts]
    counts = {word: sum(word in part for part in folded) for word in words}
    met = [word for word in counts if counts[word]]
    if len(text) <= EXCERPT or not met:
        return shortened(text, EXCERPT)
    scores = [sum(1 / counts[word] for word in met if word in part) for part in folded]
    first = scores.index(max(scores))
    rarest = min(filter(folded[first].__contains__, met), key=counts.__getitem__)
    # Of a sentence that has no room the beginning gives way.
    inside = max(folded[first].find(rarest) - _AROUND, 0) if len(parts[first]) > EXCERPT else 0
    while first and not inside and sum(map(len, parts[first - 1 :])) <= EXCERPT:
        first -= 1
    lead = "…" if first or inside else ""
    return lead + shortened("".join(parts[first:])[inside:], EXCERPT)


def search_everywhere(
    home: Places,
    settings: Settings,
    query: str,
    count: int,
    wanted: profiles.SessionFilter | None = None,
    progress: Progress | None = None,
) -> SessionAnswer:
    """The best exchanges of all sessions, or of those lines that are meant."""
    asked = index.Asked(embedding.open_embedder(settings.recall.embedder), query)
    wanted = wanted or profiles.SessionFilter()
    return _Search(home, settings, query, count, wanted, asked).answer(progress)


class _Search(msgspec.Struct, frozen=True):
    """One question to all sessions of a home."""

    home: Places
    settings: Settings
    query: str
    count: int
    wanted: profiles.SessionFilter
    asked: index.Asked

    def answer(self, progress: Progress | None) -> SessionAnswer:
        """What the library says, what reading finds beside it, and what servers have."""
        chosen = self._chosen()
        failure = ""
        try:
            hits, read, failure = self._ask(chosen, progress)
        except errors.RecallError as error:
            hits, read, failure = [], chosen, error.sentence
        hits += [hit for each in read for hit in _read(self.query, each, self.wanted, self.count)]
        found = SessionAnswer(
            query=self.query,
            hits=tuple(_best(hits, self.count)),
            sessions=len(chosen),
            read=tuple(str(each.key) for each in read),
            failure=failure,
        )
        if self.settings.history.search == "server" and not self.wanted.needs_profile:
            found = self._with_servers(found)
        hits = [_told_whose(self.home, hit) for hit in found.hits]
        hits = as_they_stand(self.home, _with_changes(self.home, hits))
        return msgspec.structs.replace(found, hits=tuple(hits))

    def _chosen(self) -> list[SessionPlaces]:
        """The sessions that are meant and not left out of recall."""
        whose, excluded = self.wanted.whose(), set(self.settings.recall.exclude)
        everybody = whose == profiles.SessionFilter()
        meant = (
            () if everybody else {one.session for one in profiles.list_described(self.home, whose)}
        )
        keys = ((str(each.key), each) for each in self.home.sessions())
        return [each for key, each in keys if key not in excluded and (everybody or key in meant)]

    def _ask(
        self, chosen: Sequence[SessionPlaces], progress: Progress | None
    ) -> tuple[list[SessionHit], list[SessionPlaces], str]:
        """What the library says, the sessions that have to be read, and what became of it."""
        wanted, more = self.wanted, _more(self.count, self.wanted)
        with contextlib.closing(AllSessions(self.home, self.asked.embedder)) as library:
            unread = library.bring_up_to_date(chosen, progress)
            keys = [each.key for each in chosen if each not in unread]
            found = library.search(self._inquiry(), keys)
            news = library.news()
        taken = [hit for hit in found.hits if _takes(wanted, hit)]
        kept = [
            _as_hit(hit.passage.session, hit, self.query)
            for hit, sources in zip(taken, quoted_by(taken, query_terms(self.query)), strict=True)
            if is_found(hit) and not sources
        ]
        lines = {(hit.session, hit.seq) for hit in kept}
        passages = [hit.passage for hit in taken]
        recorded = {(each.session, each.seq) for each in passages if each.superseded}
        # What replaces it is named by its line, which is one of the same session.
        kept = [
            hit
            if (hit.session, hit.superseded_by) in lines or (hit.session, hit.seq) in recorded
            else msgspec.structs.replace(hit, superseded_by=None)
            for hit in kept
        ]
        if len(taken) < self.count and len(found.hits) == more and (wanted.tool or wanted.file):
            # There may be more of them below those that were looked at.
            unread = list(chosen)
        return supported(in_order(kept)), unread, news

    def _inquiry(self) -> index.Inquiry:
        return index.Inquiry(self.asked, _more(self.count, self.wanted), _allowed(self.wanted))

    def _with_servers(self, here: SessionAnswer) -> SessionAnswer:
        """The same, with the best of the sessions that are only on a server."""
        # Deferred: nobody else needs what talks to a server.
        from mindstone_tui.core.library.shared_search import ask_servers

        there = ask_servers(self.home, self.settings, self._inquiry())
        best: dict[tuple[str, int], SessionHit] = {}
        for hit in there.found.hits if there.found is not None else ():
            if _takes(self.wanted, hit) and is_found(hit):
                session = hit.passage.session
                best.setdefault((session, hit.passage.turn), _as_hit(session, hit, self.query))
        every = sorted((*here.hits, *best.values()), key=lambda hit: -hit.score)
        return msgspec.structs.replace(
            here,
            hits=tuple(every[: self.count]),
            sessions=here.sessions + there.sessions,
            words_only=there.words_only,
        )


def is_found(hit: Hit) -> bool:
    """Whether a hit has a word of the question or means something like it.

    Those that only stand beside one that has are left out.
    """
    return hit.parts.get("words", 0.0) > 0 or speak.evidence(hit) >= _LEAST * thresholds.FLOOR


def in_order(hits: Sequence[SessionHit]) -> list[SessionHit]:
    """The same, none with a lower score than one below it: a correction stands above its past."""
    ordered: list[SessionHit] = []
    height = -math.inf
    for hit in reversed(hits):
        height = max(height, hit.score)
        ordered.append(msgspec.structs.replace(hit, score=height))
    return ordered[::-1]


def supported(hits: Sequence[SessionHit]) -> list[SessionHit]:
    """The same, the best of each session raised by the others: its work was about this."""
    first: dict[str, int] = {}
    share: dict[str, float] = {}
    raised = list(hits)
    for at, hit in enumerate(hits):
        share[hit.session] = share.get(hit.session, 1 / _FURTHER) * _FURTHER
        best = first.setdefault(hit.session, at)
        if best != at:
            score = raised[best].score + share[hit.session] * max(hit.score, 0.0)
            raised[best] = msgspec.structs.replace(raised[best], score=score)
    return raised


def _told_whose(home: Places, hit: SessionHit) -> SessionHit:
    """The hit, with what is known of its session."""
    profile = (
        profiles.stored_profile(home.session(SessionKey.parse(hit.session)))
        or profiles.SessionProfile()
    )
    return msgspec.structs.replace(hit, program=profile.program, folder=profile.folder)


def folder_of(home: Places, session: str, seq: int) -> str:
    """Where a line was said; what another program did was done where its file says, if it does."""
    places = home.session(SessionKey.parse(session))
    with contextlib.suppress(errors.MindstoneError), transcript.History(places) as history:
        if provenance.is_imported(history.line(seq)):
            told = history.newest(("session_described",), history.head.seq + 1)
            about = (line.entry for line in told if isinstance(line.entry, SessionDescribed))
            return next((entry.folder for entry in about), "")
    profile = profiles.stored_profile(places)
    return profile.folder if profile is not None else ""


def _with_changes(home: Places, hits: Sequence[SessionHit]) -> list[SessionHit]:
    """The same, with how many files of each exchange changed since."""

    def touched(done: Done) -> list[dict[str, str]]:
        acts = (done.of_turn(hit.session, hit.turn) for hit in hits)
        return [{act.about: act.ts for act in each if act.kind != "command"} for each in acts]

    keys = {SessionKey.parse(hit.session) for hit in hits}
    try:
        with contextlib.closing(AllSessions(home, None)) as library:
            files = library.done(keys, touched) if keys else []
    except errors.RecallError:
        return list(hits)
    kept = cache(lambda session: FilesOfSession(home.session(SessionKey.parse(session))))
    return [
        msgspec.structs.replace(hit, changed_since=_changed(home, hit, acts, kept))
        for hit, acts in zip(hits, files, strict=True)
    ]


def _changed(
    home: Places, hit: SessionHit, acts: dict[str, str], kept: Callable[[str], FilesOfSession]
) -> int:
    """How many files are no longer as an exchange left them, each with when it last did something.

    What was written again since is compared where the session keeps what stood there.
    """
    with contextlib.suppress(ValueError, OSError, errors.MindstoneError):
        folder = Path(folder_of(home, hit.session, hit.seq) if acts else "")
        times = {folder / it: datetime.fromisoformat(ts).timestamp() for it, ts in acts.items()}
        files = [path for path in times if path.is_absolute() and path.is_file()]
        written = [it for it in files if it.stat().st_mtime > times[it] + _COARSE]
        states = kept(hit.session).at(hit.turn) if written else []
        left = {Path(one.root, one.path): one.sha256 for one in states if one.kind == "file"}
        return sum(1 for path in written if path not in left or left[path] != _digest(path))
    return 0


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lines(
    history: transcript.History, wanted: profiles.SessionFilter, rewinds: Rewinds
) -> Iterator[Line]:
    """The lines of a session that are meant and in force."""
    calls: dict[str, str] = {}
    for line in catch_up.reading(history)(0):
        if rewinds.of(line) is not None:
            continue
        if isinstance(line.entry, conversation.AssistantMessage):
            calls |= {call.id: call.arguments for call in line.entry.calls}
        if (said := _said(line)) is None:
            continue
        result = line.entry if isinstance(line.entry, conversation.ToolReturned) else None
        about = calls.pop(result.call, "") if result else ""
        tool, text = result.name if result else "", f"{about}\n{said[1]}"
        if wanted.takes_line(role=line.role, tool=tool, text=text, ts=line.ts):
            yield line


def _more(count: int, wanted: profiles.SessionFilter) -> int:
    """How many hits to look at: what a filter drops leaves room for what it keeps."""
    return count * (_FILTERED if wanted.tool or wanted.file else _AN_EXCHANGE)


def _allowed(wanted: profiles.SessionFilter) -> candidates.Filter:
    """As much of a filter as an index knows."""
    return candidates.Filter(
        since=numbers.midnight(wanted.since) if wanted.since else None,
        until=numbers.midnight(wanted.until, after=1) if wanted.until else None,
        kinds=_KINDS["tool" if wanted.tool else wanted.role],
    )


def _takes(wanted: profiles.SessionFilter, hit: Hit) -> bool:
    passage = hit.passage
    text = f"{passage.about}\n{hit.text}"
    return wanted.takes_line(role=passage.role, tool=passage.speaker, text=text, ts=passage.ts)


def _as_hit(session: str, hit: Hit, query: str) -> SessionHit:
    return alike(
        SessionHit,
        hit.passage,
        session=session,
        score=hit.score,
        excerpt=excerpt(unfenced(without_reminders(hit.text)), map(root, query_terms(query))),
        says=hit.parts.get("words", 0.0) > 0,
        **shared(Replacement, hit),
    )
