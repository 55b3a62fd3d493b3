"""Work that was done before: what ended an error, how a tool is run here, who touched a file.

Answered from what tools did in every session, each with the line that proves it.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Final, TypeVar

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.language.words import plain_words
from mindstone_tui.core.library import profile as profiles
from mindstone_tui.core.library.all_sessions import AllSessions, Progress
from mindstone_tui.core.library.lineage import standing_in
from mindstone_tui.core.library.search import SessionHit, folder_of, search_everywhere
from mindstone_tui.core.paths import SAMPLE_AGENT, Places, SessionKey, SessionPlaces
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.recall import acts, embedding
from mindstone_tui.core.recall.acts import Act as Act
from mindstone_tui.core.transcript import History
from mindstone_tui.core.values import shared

T = TypeVar("T")

_FOLLOWED: Final = 40
"""Steps after an error in which its end is looked for."""
_LOOKED_AT: Final = 5_000
"""Failures that are compared with an error word by word."""
_NAMES: Final = pattern_of(rf"\b(?:{'|'.join(errno.errorcode.values())})\b")
_MOST_WORDS: Final = 0.7
"""The share of an error's words that another one must have to be taken for the same."""
_SHOWN: Final = 4
"""Steps of a remedy that are told."""
_LEFT_OUT: Final = 100
"""How many more passages are looked at, because some stand in sessions that are not meant."""
OFTEN: Final = 3
"""Sessions in which an error must have been met to be listed without being asked for."""


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """An error that was met, and what was done until it was gone."""

    error: Act
    steps: tuple[Act, ...]
    """Commands and changed files after it, as many as are told."""
    worked: Act | None
    """The same command, when it worked again."""
    folder: str = ""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """A command that worked."""

    last: Act
    times: int
    folder: str = ""


class Recurring(msgspec.Struct, frozen=True, kw_only=True):
    """An error that comes again."""

    last: Act
    sessions: int


class Subject(acts.TurnMarks, frozen=True, kw_only=True):
    """What one exchange had to do with a file or a topic."""

    session: str
    turn: int
    ts: str
    said: SessionHit | None
    """Where it was spoken of; None where a file was only worked on."""
    files: tuple[str, ...]
    """Files that were changed in that exchange."""
    unsure: tuple[str, ...] = ()
    """Files that were changed by a call of it that was cut short or since, nobody knows."""
    touched: bool = False
    """Whether the file that was asked about was read or changed there."""
    folder: str = ""


class WorkDone:
    """Questions about the work in all sessions of a home but the sample, or in `only` one."""

    def __init__(
        self,
        home: Places,
        settings: Settings,
        progress: Progress | None = None,
        only: SessionKey | None = None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._progress = progress
        self._only = only
        self._origins = profiles.Origins(home)

    def fixes(self, error: str, count: int) -> list[Remedy]:
        """What was done after an error like this one, where it did not come back."""

        def ask(done: acts.Done) -> list[Remedy]:
            met = done.like(error, _FOLLOWED)
            return list(remedies(done, met or _alike(error, done.failures(_LOOKED_AT))))

        return [
            msgspec.structs.replace(
                each,
                error=self._marked(each.error),
                steps=tuple(map(self._marked, each.steps)),
                worked=each.worked and self._marked(each.worked),
                folder=folder_of(self._home, each.error.session, each.error.seq),
            )
            for each in self._ask(ask)[:count]
        ]

    def met_often(self, count: int) -> list[Recurring]:
        """Errors that were met in several sessions."""
        found = self._ask(lambda done: done.met_often(OFTEN, count))
        return [Recurring(last=self._marked(act), sessions=sessions) for act, sessions in found]

    def how(self, program: str, count: int) -> list[Invocation]:
        """The invocations of a program that worked here, the newest first."""
        return [
            Invocation(
                last=self._marked(act),
                times=times,
                folder=folder_of(self._home, act.session, act.seq),
            )
            for act, times in self._ask(lambda done: done.worked(program, count))
        ]

    def about(self, subject: str, count: int) -> list[Subject]:
        """Which exchanges worked on a file or spoke of a topic, and what they changed."""
        touching = self._ask(lambda done: done.touching(subject, _FOLLOWED))
        wanted = profiles.SessionFilter(role="user")
        meant = {str(each.key) for each in self._meant()}
        more = count + _LEFT_OUT
        hits = search_everywhere(self._home, self._settings, subject, more, wanted).hits
        spoken = [hit for hit in hits if hit.session in meant][:count]
        # A name with a dot is one word: whoever speaks of c.txt does not speak of b.txt.
        name = PurePath(subject).name.casefold() if "." in subject and " " not in subject else ""
        said = {
            (hit.session, hit.turn): msgspec.structs.replace(
                hit, says=hit.says and name in hit.excerpt.casefold()
            )
            for hit in spoken
        }
        surest = sorted(touching, key=lambda act: act.kind != "unsure")
        touched = {(act.session, act.turn): act for act in surest}
        when = {place: act.ts for place, act in touched.items()}
        when |= {place: hit.ts for place, hit in said.items()}
        newest = sorted(when, key=lambda place: when[place], reverse=True)[:count]
        did = self._ask(lambda done: {place: done.of_turn(*place) for place in newest})

        def changed(place: tuple[str, int], kind: str) -> tuple[str, ...]:
            # Beside a file that was left alone, what was taken back is not told as changed.
            stands = place in touched and not touched[place].undone
            counted = (act for act in did[place] if not (stands and act.undone))
            return tuple(dict.fromkeys(a.about for a in counted if a.kind == kind and a.ok))

        touched = {place: self._marked(touched[place]) for place in newest if place in touched}
        return [
            Subject(
                session=place[0],
                turn=place[1],
                ts=when[place],
                said=said.get(place),
                files=changed(place, "change"),
                unsure=changed(place, "unsure"),
                touched=place in touched and touched[place].kind != "unsure",
                folder=folder_of(self._home, place[0], (touched.get(place) or said[place]).seq),
                **(shared(acts.TurnMarks, touched[place]) if place in touched else {}),
            )
            for place in newest
        ]

    def _meant(self) -> list[SessionPlaces]:
        only, excluded = self._only, set(self._settings.recall.exclude)
        return [
            each
            for each in self._home.sessions()
            if each.key == only
            or not (only or str(each.key) in excluded or each.key.agent == SAMPLE_AGENT)
        ]

    def _ask(self, ask: Callable[[acts.Done], T]) -> T:
        sessions = self._meant()
        library = AllSessions(self._home, embedding.open_embedder(self._settings.recall.embedder))
        with contextlib.closing(library):
            library.bring_up_to_date(sessions, self._progress)
            return library.done([each.key for each in sessions], ask)

    def _marked(self, act: Act) -> Act:
        """With where it comes from, if another program did it, and where it was not taken back."""
        if act.rewound:
            forks = standing_in(self._home, act.session, act.seq, act.turn, act.rewound)
            act = msgspec.structs.replace(act, forks=forks)
        places = self._home.session(SessionKey.parse(act.session))
        with contextlib.suppress(MindstoneError), History(places) as history:
            if is_imported(history.line(act.seq)):
                return msgspec.structs.replace(
                    act, imported=self._origins(act.session, act.seq).words
                )
        return act


def _alike(error: str, failures: Sequence[Act]) -> list[Act]:
    """Failures of an error's kind that say most of what it says."""
    asked = _words(error)
    most = _MOST_WORDS * len(asked)
    return [
        act
        for act in failures
        if asked and len(asked & _words(act.error)) >= most and acts.is_of_kind(error, act.error)
    ]


def _words(error: str) -> set[str]:
    """The words of an error, with what the system says for a name such as EADDRINUSE."""
    said = _NAMES.sub(lambda name: os.strerror(getattr(errno, name[0], 0)), error)
    return set(plain_words(said.casefold()))


def remedies(done: acts.Done, met: Sequence[Act]) -> Iterator[Remedy]:
    """The newest first, one a session: where an error came back, only its last time counts."""
    seen: set[str] = set()
    for error in sorted(met, key=lambda act: act.ts, reverse=True):
        if error.session in seen or done.comes_back(error):
            continue
        later = done.after(error, _FOLLOWED)
        if error.rewound:  # what came afterwards did not go on from it
            later = [act for act in later if act.seq < error.rewound]
        again = [at for at, act in enumerate(later) if act.about == error.about and act.ok]
        until = again[0] if again else len(later)
        steps = [act for act in later[:until] if act.kind in ("command", "change") and act.ok]
        if steps or again:
            seen.add(error.session)
            yield Remedy(
                error=error, steps=tuple(steps[:_SHOWN]), worked=later[again[0]] if again else None
            )
