"""Search over sessions that are only on a server, and what this machine adds to it there.

A machine that writes to a session also puts what can be found in it on the server: the passages
and vectors of its own index, so nothing is cut or embedded twice. What a search finds there is
shown only if the line that it is said to stand in says it, too.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config import Settings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.errors import DamagedTranscript, MindstoneError
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.embedding import Embedder, open_embedder
from mindstone_tui.core.recall.index import Inquiry, RecallIndex, SearchResult, best_of
from mindstone_tui.core.recall.passages import CHUNKING, Passage, epoch, passages_of
from mindstone_tui.core.recall.ranking import Hit
from mindstone_tui.core.recall.server_candidates import Stemmer, search_server
from mindstone_tui.core.recall.store import Meaning
from mindstone_tui.core.shared import copies, passage_store, postgres
from mindstone_tui.core.transcript import History, encode, reader

_AT_ONCE: Final = 200
_VERSION: Final = int(CHUNKING)
_ODD: Final = (MindstoneError, ValueError, TypeError, LookupError, AttributeError)
"""What becomes of a server that is away, and of answers that are none."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What the server can find in a session after this machine added to it."""

    session: str
    passages: int
    """Added now."""
    vectors: int
    """Added now."""
    meaning: bool
    """Whether the server can compare vectors at all."""


def publish(
    history: History, index: RecallIndex, embedder: Embedder, store: postgres.PostgresStore
) -> Published:
    """Have the server find what this machine's index has of a session; goes on where it was."""
    shared, key = passage_store.PassageStore(store), history.places.key
    passages = _publish_words(history, index, shared)
    vectors = _publish_meaning(key, index, embedder, shared) if shared.has_meaning else 0
    return Published(
        session=str(key), passages=passages, vectors=vectors, meaning=shared.has_meaning
    )


def publish_session(places: SessionPlaces, settings: Settings) -> Published | None:
    """The same for a session as it lies on disk; None where no server keeps it."""
    if (store := copies.open_store(settings.history, places.key)) is None:
        return None
    embedder = open_embedder(settings.recall.embedder)
    opened = contextlib.closing(RecallIndex.of(places, embedder))
    with opened as index, contextlib.closing(store), History(places) as history:
        catch_up(index, reading(history))
        return publish(history, index, embedder, store)


def publish_quietly(places: SessionPlaces, settings: Settings) -> None:
    """The same after a turn; a server that is away learns of it the next time."""
    history = settings.history
    if history.search == "server" and history.address_for(places.key) and places.server.exists():
        with contextlib.suppress(*_ODD):
            publish_session(places, settings)


def _publish_words(history: History, index: RecallIndex, shared: passage_store.PassageStore) -> int:
    key, head = history.places.key, history.head
    mark = shared.mark(key)
    if mark.chunking > _VERSION:
        return 0  # a newer program keeps it
    if 0 < mark.chunking < _VERSION:
        shared.start_over(key, _VERSION)
    if mark.chunking != _VERSION:
        mark = passage_store.SearchMark(-1, _VERSION)
    stemmer = Stemmer()
    added = 0
    while mark.seq < head.seq:
        found = [each for each in index.after(mark.seq, _AT_ONCE) if each[1].seq <= head.seq]
        through = head
        if len(found) >= _AT_ONCE:
            last = history.line(found[-1][1].seq)
            through = reader.Head(last.seq, last.hash)
        kept = [_kept(sitting, passage, stemmer) for sitting, passage in found]
        if not shared.add(key, mark, through, kept):
            return added  # another machine is doing the same
        added += len(kept)
        mark = passage_store.SearchMark(through.seq, _VERSION)
    return added


def _kept(sitting: int, passage: Passage, stemmer: Stemmer) -> passage_store.KeptPassage:
    return passage_store.KeptPassage(
        seq=passage.seq,
        at=epoch(passage.ts),
        kind=passage.kind,
        sitting=sitting,
        wanted=passage.meaning,
        stems=stemmer.of_passage(passage),
        body=msgspec.json.encode(passage),
    )


def _publish_meaning(
    key: SessionKey, index: RecallIndex, embedder: Embedder, shared: passage_store.PassageStore
) -> int:
    added = 0
    while waiting := shared.without_meaning(key, embedder.name, _AT_ONCE):
        passages = [msgspec.json.decode(body, type=Passage) for _, body in waiting]
        made = [
            _kept_meaning(place, passage, meaning)
            for (place, _), passage, meaning in zip(
                waiting, passages, index.meanings(passages), strict=True
            )
            if meaning is not None
        ]
        if made:
            shared.keep_meaning(key, embedder.name, made)
        added += len(made)
        if len(made) < len(waiting):
            break  # the rest has no vector here either; those who make them add them
    return added


def _kept_meaning(place: int, passage: Passage, meaning: Meaning) -> passage_store.KeptMeaning:
    from mindstone_tui.core.recall.vector_view import as_floats  # numpy: 0.1 s

    numbers = as_floats(meaning.numbers).tolist()
    return passage_store.KeptMeaning(place, numbers, meaning.tokens, passage.content_hash)


class ServerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the servers found, and what is to be said about it."""

    found: SearchResult | None
    sessions: int = 0
    """How many sessions were looked through there."""
    words_only: tuple[str, ...] = ()
    """Servers that cannot compare meanings."""


def ask_servers(
    home: Places, settings: Settings, inquiry: Inquiry, agent: str = ""
) -> ServerAnswer:
    """The best of the sessions that are on a server and not here; none while it is away."""
    history = settings.history
    if history.search != "server":
        return ServerAnswer(found=None)
    answers: list[SearchResult] = []
    words_only: list[str] = []
    sessions = 0
    for url in filter(None, dict.fromkeys((history.url, *history.sessions.values()))):
        with (
            contextlib.suppress(*_ODD),
            contextlib.closing(copies.open_address(history, url)) as store,
        ):
            shared = passage_store.PassageStore(store)
            there = shared.marks().keys()
            skip = {key for key in there if _is_left_out(key, home, settings, url, agent)}
            if len(skip) == len(there):
                continue
            found = search_server(shared, inquiry, skip)
            answers.append(msgspec.structs.replace(found, hits=tuple(_proven(found.hits, shared))))
            sessions += len(there) - len(skip)
            words_only += [] if shared.has_meaning else [store.name]
    return ServerAnswer(
        found=best_of(*answers, k=inquiry.k) if answers else None,
        sessions=sessions,
        words_only=tuple(words_only),
    )


def _is_left_out(key: SessionKey, home: Places, settings: Settings, url: str, agent: str) -> bool:
    """Whether a session is searched here, is kept elsewhere, or is not meant."""
    return (
        home.session(key).transcript.exists()
        or settings.history.address_for(key) != url
        or str(key) in settings.recall.exclude
        or (bool(agent) and key.agent != agent)
    )


def _proven(hits: Sequence[Hit], shared: passage_store.PassageStore) -> Iterator[Hit]:
    """Those that stand in the lines they are said to stand in."""
    lines: dict[str, dict[int, bytes]] = {}
    for session in {hit.passage.session for hit in hits}:
        seqs = {hit.passage.seq for hit in hits if hit.passage.session == session}
        lines[session] = shared.lines(SessionKey.parse(session), seqs)
    for hit in hits:
        raw = lines[hit.passage.session].get(hit.passage.seq)
        line = None if raw is None else reader.read_line(raw, 0)
        if isinstance(line, Line) and _says(line, hit.passage, shared):
            # An older program did not keep there whether it was imported; the line knows.
            passage = msgspec.structs.replace(hit.passage, imported=is_imported(line))
            yield msgspec.structs.replace(hit, passage=passage, imported=passage.standing.imported)


def _says(line: Line, passage: Passage, shared: passage_store.PassageStore) -> bool:
    if line.session != passage.session:
        return False
    try:
        key = SessionKey.parse(line.session)
        whole = encode.put_back(line, lambda digest: shared.blob(key, digest).decode())
        said = passages_of([whole])
    except DamagedTranscript:
        return False
    return any(
        (each.id, each.text, each.turn, each.ts, each.role, each.speaker, each.kind)
        == (
            *(passage.id, passage.text, passage.turn, passage.ts),
            passage.role,
            passage.speaker,
            passage.kind,
        )
        for each in said
    )
