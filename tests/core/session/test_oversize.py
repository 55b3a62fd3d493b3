"""A message larger than the window: somebody is asked how to send it, and its text is kept."""

from __future__ import annotations

import shutil
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core import events
from mindstone_tui.core.agent.oversize import parts_of
from mindstone_tui.core.entries.conversation import MessageCut, UserMessage
from mindstone_tui.core.entries.window import ContextWindowPruned
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.key_store import store_key
from mindstone_tui.core.recall.embedding import Encoded
from tests.core.recall.talk import WordModel
from tests.core.session.coding_session import configure
from tests.core.session.stage import PATIENCE, Stage, calls, on_stage, script

ROWS = [f"row {number} of the table holds {number * 7} stones" for number in range(3_000)]
LONG = "\n".join([*ROWS, "Which row is wrong?"])
WINDOW = 16_000


def answer_for(asked: events.ToolAsked, word: str) -> events.Answer:
    """The yes whose label says so."""
    (scope,) = [scope for scope in asked.scopes if word in scope.label]
    return events.Answer(allowed=True, remember=scope.remember, keep=scope.keep)


async def asked_about(stage: Stage, text: str) -> events.ToolAsked:
    stage.session.send(text)
    asked = await stage.until(events.ToolAsked)
    # What was said is in history before anybody is asked, and nothing has been sent.
    assert [entry.text for entry in stage.entries(UserMessage)] == [text]
    assert not stage.all(events.ModelCalled)
    return asked


def last_words(stage: Stage, request: int = -1) -> str:
    said = [each["content"] for each in stage.requests()[request] if each["role"] == "user"]
    return str(said[-1])


async def test_without_a_person_beginning_and_end_are_sent(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Row 5."})
    async with on_stage(home, model=model, context_window=WINDOW, cwd=tmp_path) as stage:
        assert (await stage.say(LONG)).ending == "done"
        assert not stage.all(events.ToolAsked)
        sent = last_words(stage)
        assert sent.startswith("row 0 of")
        assert sent.endswith("Which row is wrong?")
        assert "read_entry" in sent


async def test_as_a_file_the_model_is_told_where_all_of_it_is(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Row 5."})
    work = tmp_path / "work"
    work.mkdir()
    async with on_stage(home, model=model, context_window=WINDOW, cwd=work, asks=True) as stage:
        asked = await asked_about(stage, LONG)
        assert asked.risk == "message"
        stage.session.answer(asked.call, answer_for(asked, ".txt"))
        assert (await stage.until(events.TurnEnded)).ending == "done"
        (file,) = work.iterdir()
        assert file.read_text() == LONG
        sent = last_words(stage)
        assert file.name in sent
        assert sent.endswith("Which row is wrong?")
        assert len(sent) < len(LONG) / 10


@pytest.mark.thorough
async def test_split_every_word_is_sent_in_turns_of_its_own(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Read."}, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW, cwd=tmp_path, asks=True) as stage:
        said = LONG[len(LONG) // 2 :]
        asked = await asked_about(stage, said)
        stage.session.answer(asked.call, answer_for(asked, "messages"))
        await stage.until(events.TurnEnded)
        await stage.idle()
        sent = [last_words(stage, at) for at in range(len(stage.requests()))]
        assert len(sent) > 3
        assert "".join(part.partition("]\n")[2] for part in sent) == said
        assert f"Part {len(sent)} of {len(sent)}" in sent[-1]
        assert len(stage.all(events.ToolAsked)) == 1


async def test_a_split_message_stops_where_somebody_stops_it(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Read."}, {"text": "slowly", "delay_ms": 60_000}, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW, cwd=tmp_path, asks=True) as stage:
        asked = await asked_about(stage, LONG)
        stage.session.answer(asked.call, answer_for(asked, "messages"))
        await stage.until(events.ModelCalled, lambda event: event.turn == 2)
        stage.session.interrupt()
        await stage.until(events.TurnEnded, lambda event: event.turn == 2)
        await stage.idle()
        assert len(stage.all(events.TurnStarted)) == 2


async def test_the_model_cannot_read_what_was_not_sent(home: Path, tmp_path: Path) -> None:
    wish = calls(*(("read_entry", {"entry": f"#{seq}"}) for seq in range(1, 6)))
    model = script(tmp_path, wish, {"text": "Fine."})
    async with on_stage(home, model=model, context_window=WINDOW, cwd=tmp_path, asks=True) as stage:
        asked = await asked_about(stage, LONG)
        stage.session.answer(asked.call, events.Answer(allowed=False))
        await stage.until(events.TurnEnded)
        (said,) = [one.seq for one in stage.lines() if isinstance(one.entry, UserMessage)]
        assert said < 6
        await stage.say("Look at it yourself.")
        told = [each.text for each in stage.all(events.ToolEnded)]
        assert any("kept it to themselves" in text for text in told)
        assert not any("stones" in str(request) for request in stage.requests())


@pytest.mark.parametrize("by", ["no", "esc"])
async def test_what_is_not_sent_is_kept_and_the_session_goes_on(
    home: Path, tmp_path: Path, by: str
) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW, cwd=tmp_path, asks=True) as stage:
        asked = await asked_about(stage, f"Remember that {LONG}")
        if by == "no":
            stage.session.answer(asked.call, events.Answer(allowed=False))
        else:
            stage.session.interrupt()
        assert (await stage.until(events.TurnEnded)).ending == "interrupted"
        assert not stage.all(events.ModelCalled)
        assert len(stage.entries(UserMessage)) == 1
        await stage.idle()
        assert (await stage.say("Then only this.")).ending == "done"
        assert (await stage.run("/memory"))[1] == "Nothing is remembered."
        assert "row 7" not in str(stage.requests())
        assert "Which row is wrong" not in str(stage.requests())


@pytest.mark.parametrize("killed", [False, True])
async def test_what_nobody_agreed_to_send_is_in_no_later_prompt(
    home: Path, tmp_path: Path, killed: bool
) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    opening = partial(on_stage, model=model, context_window=WINDOW, cwd=tmp_path, asks=True)
    then = tmp_path / "then"
    async with opening(home) as stage:
        await asked_about(stage, f"Remember that {LONG}")
        shutil.copytree(home, then)  # what a kill leaves at this moment
    async with opening(then if killed else home, follow=True) as stage:
        assert (await stage.say("Which row is wrong, please?")).ending == "done"
        assert "row 7" not in str(stage.requests())
        assert "row 7" not in (await stage.run("/memory"))[1]


async def test_nobody_is_asked_about_a_message_that_fits(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW, cwd=tmp_path, asks=True) as stage:
        assert (await stage.say("\n".join(ROWS[:300]))).ending == "done"
        assert not stage.all(events.ToolAsked)
        assert not stage.entries(MessageCut)


def files_with(folder: Path, text: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


async def test_a_secret_in_a_long_message_is_blacked_out(home: Path, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    model = script(tmp_path, {"text": "Fine."})
    async with on_stage(home, model=model, context_window=WINDOW, cwd=tmp_path) as stage:
        assert (await stage.say(f"{LONG}\ntoken {secret}\n{LONG}")).ending == "done"
        (said,) = stage.entries(UserMessage)
        assert secret not in said.text
        assert said.text.startswith(LONG)
        assert said.text.endswith(LONG)
    assert not files_with(home, secret)


async def test_keys_of_our_own_are_known_by_their_value(home: Path, tmp_path: Path) -> None:
    key, token = "quokka7lantern9marble4zephyr2ostrich", "harbour-lamp-kettle-twelve-okapi"
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    store_key(places.keys, "openai", key)
    places.serve_token.parent.mkdir(parents=True, exist_ok=True)
    places.serve_token.write_text(f"{token}\n")
    given, shown = "meadow4cello7thimble1walrus", "lagoon3anvil8ribbon5badger"
    (home / "config.toml").write_text(
        '[tools.mcp.it]\nurl = "https://x.example"\nenabled = false\n'
        f'env = {{ IT_TOKEN = "{given}" }}\n'
        f'headers = {{ Authorization = "Bearer {shown}", Accept = "application/json" }}\n'
    )
    model = script(tmp_path, {"text": "Fine."})
    async with on_stage(home, model=model, cwd=tmp_path) as stage:
        await stage.say(f"The files say {key}, {token}, {given}, {shown} and application/json.")
        (said,) = stage.entries(UserMessage)
    assert "[redacted:openai:" in said.text
    assert "[redacted:it-Authorization:" in said.text
    assert "application/json" in said.text
    assert not [secret for secret in (key, token, given, shown) if secret in said.text]


class Blocked(WordModel):
    """Makes no vector of the table before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def encode(self, text: str) -> Encoded:
        if "row " in text:
            self.go.wait(PATIENCE)
        return super().encode(text)


@pytest.mark.thorough
async def test_no_request_waits_for_the_vectors_of_a_very_long_message(
    home: Path, tmp_path: Path
) -> None:
    configure(home, recall="vector_wait = 3600.0")
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    slow = Blocked()
    async with on_stage(
        home, model=model, context_window=WINDOW, cwd=tmp_path, embedder=lambda name: slow
    ) as stage:
        try:
            for said in (f"{LONG}\n{LONG}\n{LONG}", "What now?", LONG, "And now?"):
                assert (await stage.say(said)).ending == "done"
                await stage.idle()
            assert stage.entries(ContextWindowPruned)
        finally:
            slow.go.set()


@given(st.text(alphabet="ab \n", max_size=400), st.integers(1, 90), st.integers(1, 50))
def test_parts_are_all_of_a_text_and_none_is_too_long(text: str, tokens: int, most: int) -> None:
    parts = list(parts_of(text, tokens, most))
    assert "".join(parts) == text
    longest = max(len(text) * most // tokens, 1)
    assert all(0 < len(part) <= longest for part in parts)
    assert all(part.endswith("\n") or "\n" not in part for part in parts[:-1])
