from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from mindstone_tui.core.entries import Line, ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolCalled,
    ToolReturned,
    UserMessage,
)
from mindstone_tui.core.paths import EARLIER_INDEX
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.library_file import load_vectors
from mindstone_tui.core.recall.passages import Passage, passages_of
from mindstone_tui.core.transcript import History, Transcript
from tests.builders import places_in, say, transcript_in, use_tool
from tests.core.recall.talk import WordModel


def history(home: Path) -> History:
    return History(places_in(home))


def test_a_transcript_is_taken_in_once_and_then_only_what_is_new(
    tmp_path: Path, home: Path
) -> None:
    transcript = transcript_in(home)
    for number in range(8):
        say(transcript, f"What about topic{number}?", f"Topic{number} is settled.")
    index = RecallIndex.open(tmp_path / "index.db", None)
    heard: list[int] = []
    assert catch_up(index, reading(history(home)), heard.append) == 16
    assert heard[-1] == transcript.head.seq
    assert len(index) == 16
    say(transcript, "And topic8?", "Also settled.")
    assert catch_up(index, reading(history(home))) < 6
    assert len(index) == 18
    assert index.search("topic8").hits


def test_an_exchange_that_grows_is_completed(tmp_path: Path, home: Path) -> None:
    transcript = transcript_in(home)
    index = RecallIndex.open(tmp_path / "index.db", None)
    transcript.append(UserMessage(text="Which port is taken?"), turn=1)
    catch_up(index, reading(history(home)))
    _call(transcript, "npm start", "Error: listen EADDRINUSE :::3000", turn=1)
    catch_up(index, reading(history(home)))
    hit = index.search("npm start EADDRINUSE").hits[0]
    assert hit.passage.kind == "tool_returned"
    assert index.receipts(passages_of(history(home).turn(1)))[0].passages == 2


def test_an_index_of_another_history_starts_anew(tmp_path: Path, home: Path) -> None:
    other = tmp_path / "other"
    for place, subject in ((home, "lighthouse"), (other, "submarine")):
        transcript = transcript_in(place)
        say(transcript, f"About the {subject}", "Yes.")
        say(transcript, f"More about the {subject}", "Yes, yes.")
        say(transcript, "The end", "Bye.")
    index = RecallIndex.open(tmp_path / "index.db", None)
    catch_up(index, reading(History(places_in(other))))
    catch_up(index, reading(history(home)))
    assert "lighthouse" in index.search("lighthouse").hits[0].text
    assert all("submarine" not in hit.text for hit in index.search("submarine").hits)


def test_a_damaged_index_comes_back_from_the_transcript(tmp_path: Path, home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "The safe's code is 7719.", "Noted.")
    say(transcript, "Thanks", "Sure.")
    path = tmp_path / "index.db"
    path.write_bytes(b"this was an index once" * 999)
    index = RecallIndex.open(path, None)
    catch_up(index, reading(history(home)))
    assert index.search("7719").hits[0].passage.turn == 1
    assert index.damaged is not None


def test_receipts_of_an_exchange_match_what_catching_up_stored(tmp_path: Path, home: Path) -> None:
    transcript = transcript_in(home)
    turn = use_tool(transcript, "Read the notes", "line one\nline two", "They say two things.")
    index = RecallIndex.open(tmp_path / "index.db", None)
    catch_up(index, reading(history(home)))
    passages = passages_of(history(home).turn(turn))
    (receipt,) = index.receipts(passages)
    assert receipt.passages == len(passages) == 3


@pytest.mark.thorough
def test_an_early_correction_comes_back_after_five_hundred_turns_before_what_it_corrects(
    tmp_path: Path, home: Path
) -> None:
    transcript = transcript_in(home)
    say(transcript, "We deploy the payment service to the cluster in Dublin.", "Dublin, noted.")
    for number in range(6):
        say(transcript, f"Sketch screen {number} of the shop.", f"Screen {number} has a basket.")
    turn = say(
        transcript,
        "No, actually we deploy the payment service to the cluster in Oslo, not Dublin.",
        "Understood: Oslo.",
    )
    for number in range(500):
        say(transcript, f"Draw icon {number} a bit larger.", f"Icon {number} is larger now.")
    index = RecallIndex.open(tmp_path / "index.db", WordModel())
    catch_up(index, reading(history(home)))
    while index.embed_pending(200):
        pass
    found = index.search("Where does the payment service get deployed?", 5)
    order = [hit.passage.turn for hit in found.hits]
    assert not found.abstained
    assert order.index(turn) < order.index(1)
    correction = found.hits[order.index(turn)]
    assert correction.supersedes
    line = history(home).find(correction.passage.entry)
    assert line.seq == correction.passage.seq
    assert isinstance(line.entry, UserMessage)
    assert correction.text == line.entry.text
    assert (
        sum(correction.parts.values()) == correction.score
        or abs(sum(correction.parts.values()) - correction.score) < 1e-6
    )


def _call(transcript: Transcript, shown: str, result: str, *, turn: int) -> None:
    call = ToolCall(id="call_1", name="shell", arguments="{}")
    transcript.append(AssistantMessage(text="", calls=(call,)), turn=turn)
    transcript.append(
        ToolCalled(call="call_1", name="shell", shown=shown, digest="0" * 64), turn=turn
    )
    transcript.append(
        ToolReturned(call="call_1", name="shell", text=result, status="error"), turn=turn
    )


def test_vectors_of_the_index_a_session_had_to_itself_are_not_made_again(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "The kettle is copper.", "Noted.")
    say(transcript, "The teapot is porcelain.", "Noted as well.")
    model = WordModel()
    with History(transcript.places) as lines:
        passages = passages_of([line for line in lines.read() if isinstance(line, Line)])
    kept = [each for each in passages if "kettle" in each.text]
    _index_as_before(transcript.places.folder / EARLIER_INDEX, kept, model)
    model.seen.clear()
    index = RecallIndex.of(transcript.places, model)
    catch_up(index, reading(history(home)))
    while index.embed_pending():
        pass
    assert index.pending() == 0
    assert [text for text in model.seen if "kettle" in text] == []
    assert [text for text in model.seen if "teapot" in text] != []
    assert index.search("kettle").vectors
    assert (transcript.places.folder / EARLIER_INDEX).exists(), "the old file is left alone"


def _index_as_before(path: Path, passages: Sequence[Passage], model: WordModel) -> None:
    """The tables of an index that held one session, as far as they are read."""
    database = apsw.Connection(str(path))
    assert load_vectors(database)
    database.execute(
        f"""
        create table facts (name text primary key, value);
        insert into facts values ('model', '{model.name}');
        create table passages (row integer primary key, hash blob, vector integer);
        create table tokens (row integer primary key, signs blob);
        create table uses (entry text primary key, injected integer, used integer);
        create virtual table vectors using vec0(embedding float[{model.dims}]);
        """
    )
    for row, passage in enumerate(passages, start=1):
        database.execute("insert into passages values (?, ?, 1)", (row, passage.content_hash))
        database.execute("insert into tokens values (?, ?)", (row, b""))
        vector = model.embed([passage.indexed_text])[0]
        database.execute("insert into vectors values (?, ?)", (row, vector.tobytes()))
    database.close()
