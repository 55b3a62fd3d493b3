"""Search over sessions that are only on the server: found there, proven, and nobody else's."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from mindstone_tui import api
from mindstone_tui.cli.main import run as main
from mindstone_tui.core.config import load
from mindstone_tui.core.entries.conversation import AssistantMessage, TurnStarted, UserMessage
from mindstone_tui.core.entries.window import Restored, Rewound, WindowState
from mindstone_tui.core.errors import PlaceError
from mindstone_tui.core.library.search import search_everywhere
from mindstone_tui.core.library.shared_search import Published, publish
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.candidates import Filter
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.embedding import EmbeddedModel, Encoded
from mindstone_tui.core.recall.index import Asked, Inquiry, RecallIndex
from mindstone_tui.core.recall.server_candidates import search_server
from mindstone_tui.core.shared.passage_store import PassageStore, SearchBounds
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import History, Transcript
from tests.core.recall.talk import WordModel

_NUMBER = itertools.count()
TALK = {
    "kitchen": ("The kettle lives on the third shelf.", "Noted: third shelf for the kettle."),
    "garage": ("Our car needs new tyres before winter.", "Tyres before winter, understood."),
    "zurich": ("Der Bahnhof in Zürich heißt 东京站 nicht.", "Zürich, alles klar."),
}


class Synonyms(WordModel):
    """A model to which an automobile is a car."""

    def encode(self, text: str) -> Encoded:
        return super().encode(text.replace("automobile", "car"))


def machine(folder: Path, url: str) -> api.Home:
    """A home that has the database search."""
    environ = {
        "MINDSTONE_HOME": str(folder),
        "MINDSTONE_HISTORY__URL": url,
        "MINDSTONE_HISTORY__SEARCH": "server",
        "MINDSTONE_RECALL__BACKGROUND": "false",
    }
    return api.Home(environ=environ)


def said(home: Places, store: PostgresStore, name: str, *texts: str) -> SessionKey:
    """A session on the server with one exchange."""
    key = SessionKey.parse(f"agent:default:{name}")
    with contextlib.closing(Transcript(home.session(key), upstream=store)) as transcript:
        turn = transcript.last_turn + 1
        transcript.append(TurnStarted(), turn=turn)
        for text, kind in zip(texts, itertools.cycle((UserMessage, AssistantMessage))):
            transcript.append(kind(text=text), turn=turn)
    return key


def published(
    home: Places, store: PostgresStore, key: SessionKey, model: WordModel, *, vectors: bool = True
) -> Published:
    """What the server can find in a session after its machine told it."""
    own = home.session(key)
    with contextlib.closing(RecallIndex.of(own, model)) as index, History(own) as history:
        catch_up(index, reading(history))
        while vectors and index.embed_pending():
            pass
        return publish(history, index, model, store)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with contextlib.closing(PostgresStore(url, timeout=20)) as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(tmp_path / "writer")})


def search(store: PostgresStore, query: str, model: WordModel, **allowed: object) -> list[str]:
    """What is found, best first."""
    inquiry = Inquiry(Asked(model, query), 10, msgspec.convert(allowed, Filter))
    found = search_server(PassageStore(store), inquiry)
    return [hit.text for hit in found.hits]


def test_what_was_rewound_is_not_found_on_the_server_and_what_was_restored_is(
    home: Places, store: PostgresStore
) -> None:
    model = WordModel()
    key = said(home, store, "kitchen", *TALK["kitchen"])
    own = home.session(key)
    published(home, store, key, model)
    assert len(search(store, "Where is the kettle?", model)) == 2
    for entry, found in (
        (Rewound(to_turn=0, state=WindowState(through=9)), 0),
        (Restored(turns=(1,), state=WindowState(through=9)), 2),
    ):
        with contextlib.closing(Transcript(own, upstream=store.another())) as transcript:
            transcript.append(entry)
        published(home, store, key, model)
        assert len(search(store, "Where is the kettle?", model)) == found


def test_what_another_machine_said_is_found_without_fetching_it(
    home: Places, store: PostgresStore, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = WordModel()
    for name, texts in TALK.items():
        published(home, store, said(home, store, name, *texts), model)
    reader = machine(tmp_path / "reader", url)
    settings = load(reader.places, reader.environ).settings
    for query, wanted in (("kettles", "kitchen"), ("zurich", "zurich"), ("东京站", "zurich")):
        found = search_everywhere(reader.places, settings, query, 5)
        assert found.hits[0].session == f"agent:default:{wanted}"
        assert found.sessions == len(TALK)
    assert not search_everywhere(reader.places, settings, "submarine", 5).hits
    assert not list(reader.places.sessions())
    hits = api.recall("kettle shelf", scope="all", session="new", home=reader).hits
    assert hits[0].session == "agent:default:kitchen"


def test_what_the_server_cannot_find_yet_is_fetched(
    home: Places, store: PostgresStore, url: str, tmp_path: Path
) -> None:
    model = WordModel()
    done = said(home, store, "kitchen", *TALK["kitchen"])
    published(home, store, done, model)
    said(home, store, "garage", *TALK["garage"])
    reader = machine(tmp_path / "reader", url)
    reader.fetch_news(reader.key(""), everything=True)
    assert [each.key.main for each in reader.places.sessions()] == ["garage"]
    said(home, store, "kitchen", "The kettle is broken now.")
    reader.fetch_news(reader.key(""), everything=True)
    assert {each.key.main for each in reader.places.sessions()} == {"garage", "kitchen"}


def test_meaning_finds_what_no_word_of_the_question_says(
    home: Places, store: PostgresStore
) -> None:
    if not PassageStore(store).has_meaning:
        pytest.skip("this PostgreSQL has no pgvector")
    model = Synonyms(EmbeddedModel.name, EmbeddedModel.dims)  # which has an index of its own
    for name, texts in TALK.items():
        done = published(home, store, said(home, store, name, *texts), model)
        assert done.meaning
        assert done.vectors == 2
    assert search(store, "automobile", model)[0] == TALK["garage"][0]
    assert search(store, "automobile", WordModel("another")) == []


def test_a_machine_goes_on_where_another_one_was(home: Places, store: PostgresStore) -> None:
    model = WordModel()
    key = said(home, store, "kitchen", *TALK["kitchen"])
    first = published(home, store, key, model, vectors=False)
    assert (first.passages, first.vectors) == (2, 0)
    again = published(home, store, key, model)
    assert (again.passages, again.vectors) == (0, 2 if again.meaning else 0)
    said(home, store, "kitchen", "Now the kettle is in the cellar.")
    assert published(home, store, key, model).passages == 1
    said(home, store, "kitchen")  # a line in which nothing is said
    assert published(home, store, key, model).passages == 0
    kept = store.find(key)
    assert kept is not None
    assert PassageStore(store).mark(key).seq == kept.head.seq
    assert PassageStore(store).size() == 3
    assert "Now the kettle is in the cellar." in search(store, "kettle", model)
    assert search(store, "kettle", model, kinds=["assistant_message"]) == [TALK["kitchen"][1]]


def test_a_passage_that_no_line_says_is_not_shown(
    home: Places, store: PostgresStore, url: str, tmp_path: Path
) -> None:
    published(home, store, said(home, store, "kitchen", *TALK["kitchen"]), WordModel())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "update mindstone.passage set body = convert_to(replace(convert_from(body, 'UTF8'), "
            "'third', 'ninth'), 'UTF8')"
        )
    reader = machine(tmp_path / "reader", url)
    settings = load(reader.places, reader.environ).settings
    assert search(store, "kettle", WordModel())[0].count("ninth") == 1
    assert not search_everywhere(reader.places, settings, "kettle", 5).hits


def test_a_passage_that_is_none_counts_as_no_answer(
    home: Places, store: PostgresStore, url: str, tmp_path: Path
) -> None:
    published(home, store, said(home, store, "kitchen", *TALK["kitchen"]), WordModel())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update mindstone.passage set body = 'no passage'")
    reader = machine(tmp_path / "reader", url)
    settings = load(reader.places, reader.environ).settings
    assert not search_everywhere(reader.places, settings, "kettle", 5).hits


def test_nobody_finds_what_is_not_theirs(home: Places, store: PostgresStore, url: str) -> None:
    assert store.owner == "postgres"
    ann, bob = (f"seeker{next(_NUMBER)}" for _ in range(2))
    shared = PassageStore(store)
    with psycopg.connect(url, autocommit=True) as connection:
        for role in (ann, bob):
            connection.execute(f"create role {role} login")
        if shared.has_meaning:
            pass  # made before the grants, so that they hold for it, too
        for role in (ann, bob):
            connection.execute(
                f"grant usage on schema mindstone to {role}; "
                f"grant select on all tables in schema mindstone to {role}; "
                f"grant execute on all functions in schema mindstone to {role}"
            )
    model = WordModel()
    with contextlib.closing(
        PostgresStore(url.replace("postgres@", f"{ann}@"), timeout=20)
    ) as of_ann:
        published(home, of_ann, said(home, of_ann, "kitchen", *TALK["kitchen"]), model)
        assert search(of_ann, "kettle", model)
    as_bob = url.replace("postgres@", f"{bob}@")
    with contextlib.closing(PostgresStore(as_bob, timeout=20)) as of_bob:
        assert PassageStore(of_bob).size() == 0
        assert search(of_bob, "kettle", model) == []
    with (
        contextlib.closing(PostgresStore(as_bob, team=ann, timeout=20)) as pretending,
        pytest.raises(PlaceError, match="may not use these sessions"),
    ):
        PassageStore(pretending).by_words({"kettl": 1.0}, SearchBounds(), 5)
    tables = ["searched", "passage", *(["meaning"] if shared.has_meaning else [])]
    with psycopg.connect(as_bob, autocommit=True) as connection:
        for table in tables:
            assert connection.execute(f"select count(*) from mindstone.{table}").fetchone() == (0,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"delete from mindstone.{table}")


def test_without_vectors_search_is_by_words_and_says_so(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    role = f"plain{next(_NUMBER)}"
    name = url.rsplit("/", 1)[1]
    with psycopg.connect(url, autocommit=True) as connection:
        # May make tables, and no extension.
        connection.execute(f"create role {role} login; grant create on database {name} to {role}")
    theirs = url.replace("postgres@", f"{role}@")
    home = Places.resolve({"MINDSTONE_HOME": str(tmp_path / "writer")})
    with contextlib.closing(PostgresStore(theirs, timeout=20)) as store:
        done = published(home, store, said(home, store, "kitchen", *TALK["kitchen"]), WordModel())
    assert not done.meaning
    for variable, value in machine(tmp_path / "reader", theirs).environ.items():
        monkeypatch.setenv(variable, value)
    assert main(["search", "kettle"]) == 0
    shown = capsys.readouterr()
    assert "agent:default:kitchen" in shown.out
    assert "by words only" in shown.err
