"""All sessions of a home, asked as one: the library is brought up to date, then searched once."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import msgspec

from mindstone_tui.core import errors, paths, transcript
from mindstone_tui.core.recall import acts, embedding, speak
from mindstone_tui.core.recall.catch_up import catch_up, news_of, reading
from mindstone_tui.core.recall.index import Inquiry, RecallIndex, SearchResult

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Told how many sessions are done, and of how many."""


class AllSessions:
    """A home's library, open for questions about any of its sessions; raises `RecallError`."""

    def __init__(self, home: paths.Places, embedder: embedding.Embedder | None) -> None:
        self._library = home.library
        self._embedder = embedder
        self._opened: RecallIndex | None = None

    @property
    def _index(self) -> RecallIndex:
        if self._opened is None:
            self._opened = RecallIndex(self._library, self._embedder, owner=None)
        return self._opened

    def close(self) -> None:
        """Give the file back."""
        if self._opened is not None:
            self._opened.close()

    def news(self) -> str:
        """What is to be told of the library: that it was damaged."""
        return news_of(self._opened)

    def bring_up_to_date(
        self, sessions: Iterable[paths.SessionPlaces], progress: Progress | None = None
    ) -> list[paths.SessionPlaces]:
        """Add the words of transcripts that were written since; those that could not be read.

        Whatever was not written since costs one look at its file.
        """
        stamps = [(each, stamp) for each in sessions if (stamp := _stamp(each))]
        known = self._index.known() if stamps else {}
        behind = [
            (each, stamp) for each, stamp in stamps if known.get(str(each.key), (0, ""))[1] != stamp
        ]
        unread: list[paths.SessionPlaces] = []
        for at, (each, stamp) in enumerate(behind, start=1):
            try:
                self._add(each, stamp)
            except (errors.MindstoneError, OSError):
                unread.append(each)
            if progress is not None:
                progress(at, len(behind))
        return unread

    def _add(self, session: paths.SessionPlaces, stamp: str) -> None:
        opened = contextlib.closing(RecallIndex.of(session, self._embedder))
        with opened as index, transcript.History(session) as history:
            catch_up(index, reading(history))
            index.note(read=stamp)

    def search(
        self,
        inquiry: Inquiry,
        sessions: Collection[paths.SessionKey],
        apart: tuple[paths.SessionKey, Sequence[int]] | None = None,
    ) -> SearchResult:
        """The k best of these sessions together; `apart` are lines of one that are left out."""
        if not sessions:
            nothing = speak.Judgement(strength=0.0, reason=speak.NOTHING_THERE)
            query = inquiry.asked.query
            return SearchResult(query=query, hits=(), judged=nothing, vectors=False)
        known = self._index.known()
        numbers = {key: found[0] for key in sessions if (found := known.get(str(key)))}
        allowed = msgspec.structs.replace(inquiry.allowed, owners=frozenset(numbers.values()))
        if apart is not None and apart[0] in numbers:
            allowed = msgspec.structs.replace(
                allowed, exclude=frozenset(apart[1]), excluded_of=numbers[apart[0]]
            )
        return msgspec.structs.replace(inquiry, allowed=allowed).of(self._index)

    def done(self, sessions: Collection[paths.SessionKey], ask: Callable[[acts.Done], T]) -> T:
        """What tools did in these sessions."""
        known = self._index.known() if sessions else {}
        numbers = [known[str(key)][0] for key in sessions if str(key) in known]
        return self._index.ask_done(numbers, ask)


def _stamp(session: paths.SessionPlaces) -> str:
    """What changes when a transcript is written; empty if there is none."""
    try:
        # As text: hundreds of times for one question.
        found = os.stat(f"{session.folder}/transcript.jsonl")  # noqa: PTH116
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"
