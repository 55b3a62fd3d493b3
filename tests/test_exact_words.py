"""Every character that somebody writes arrives as it was: stored, sent and printed exactly."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from textual.events import Paste

from mindstone_tui.cli.main import run as main
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.text import is_editable
from mindstone_tui.tui.prompt.paste import Pastes, with_newlines
from mindstone_tui.tui.terminal import PasteParser
from tests.builders import places_in, transcript_in
from tests.core.session.stage import KEY, on_stage, read, script
from tests.faults import FULL
from tests.servers.residence import residing
from tests.tui.staged import settle, staged, until

FAMILY = "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
MANY = 2_000 if FULL else 60
IN_A_MESSAGE = 100
SIGNS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
TEXTS = st.text(SIGNS, max_size=40)


SEVERAL = """
import json, sys
from mindstone_tui.cli.main import run
for words in json.loads(sys.argv[1]):
    assert run(words) == 0, words
    print(end=chr(0), flush=True)
"""


@pytest.fixture(autouse=True)
def no_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes back beside the words is not looked at, and its models take seconds to load."""
    monkeypatch.setenv("MINDSTONE_RECALL__AUTO", "false")


@cache
def all_signs() -> list[str]:
    return [chr(n) for n in range(1, 0x110000) if not 0xD800 <= n <= 0xDFFF]


def some_texts(seed: int, count: int) -> list[str]:
    """Texts of signs from all of Unicode, the same every time."""
    chance = random.Random(seed)
    return ["".join(chance.choices(all_signs(), k=chance.randint(1, 30))) for _ in range(count)]


def messages(seed: int) -> list[str]:
    """Many such texts in messages that fit a window, some hundred in each."""
    texts = some_texts(seed, MANY)
    parts = [texts[at : at + IN_A_MESSAGE] for at in range(0, MANY, IN_A_MESSAGE)]
    return ["\n".join(["  " + FAMILY, PERSIAN, *part]) + "\u3000" for part in parts]


def ours(home: Path, *verbs: list[str], said: str = "") -> list[str]:
    """What the program prints into a pipe, verb by verb."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(verbs)],
        input=said.encode(),
        env={**os.environ, "MINDSTONE_HOME": str(home)},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().split("\0")[:-1]


def asked_in(home: Path) -> list[str]:
    """What history says was asked."""
    entries = (line.entry for line in read(places_in(home)))
    return [entry.text for entry in entries if isinstance(entry, UserMessage)]


def test_what_is_written_into_history_is_read_back_to_the_character(home: Path) -> None:
    transcript = transcript_in(home)
    texts = [FAMILY, PERSIAN, *some_texts(1, 100_000 if FULL else 2_000)]
    for text in texts:
        transcript.append(UserMessage(text=text), turn=1)
    transcript.close()
    assert asked_in(home) == texts


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
@example("~nobody")
@example("~nobody.png")
@example("x" * 300 + ".png")
def test_what_is_pasted_is_sent_whether_it_can_be_shown_or_not(text: str) -> None:
    pastes = Pastes(Path("/nowhere"))
    shown = pastes.fold(text)
    assert is_editable(shown)
    assert pastes.unfold(shown) == with_newlines(text)
    assert pastes.files_in(f"@{text}") == [] or text.startswith("/dev/")


async def test_a_prompt_is_exactly_what_was_said(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        for said in messages(2):
            await stage.say(said)
            assert stage.entries(UserMessage)[-1].text == said
            assert said in [message["content"] for message in stage.requests()[-1]]


@pytest.mark.thorough
def test_run_takes_from_a_pipe_and_gives_into_one_every_character(
    home: Path, tmp_path: Path
) -> None:
    said = "  " + "\n".join([FAMILY, PERSIAN, *some_texts(3, MANY)]) + "\u3000"
    model = script(tmp_path, {"text": said})
    verbs = [["export", "-f", kind] for kind in ("json", "md", "html")]
    answer, log, exported, written, page = ours(
        home, ["run", "--model", model, "-"], ["log"], *verbs, said=f"{said}\n"
    )
    assert answer == f"{said}\n"
    assert asked_in(home) == [said]
    assert json.dumps(said) in json.dumps(json.loads(exported))
    assert log.count(f"\n{said}\n") == 2, "what was asked, and what was answered"
    assert f"\n{said}\n" in written, "the answer; the question is quoted"
    assert all(sign in page for sign in (FAMILY, PERSIAN))


@pytest.mark.thorough
def test_recall_and_search_give_into_a_pipe_what_was_said(home: Path, tmp_path: Path) -> None:
    said = f"The gate\x1b[31m opens\x07 at {PERSIAN} \u202e{FAMILY}"
    run = ["run", "--model", script(tmp_path, {"text": "Noted."}), "-"]
    recall, search = ["recall", "when does the gate open"], ["search", "gate opens"]
    _, recalled, found = ours(home, run, recall, search, said=said)
    assert f"       {said}\n" in recalled
    assert f"    {said}\n" in found


@pytest.mark.thorough
async def test_the_page_hands_over_every_character(home: Path, tmp_path: Path) -> None:
    texts = messages(4)
    async with residing(home, tmp_path) as served, served.client() as client:
        for number, said in enumerate(texts, start=1):
            await client.post("/page/send", json={"session": "main", "text": said})
            while len(served.kinds("main", "turn_ended")) < number:
                await client.get("/page/waiting", params={"session": "main"})
    assert asked_in(home) == texts


def test_an_import_takes_every_character(home: Path, tmp_path: Path) -> None:
    texts = [FAMILY, PERSIAN, *some_texts(6, MANY)]
    file = tmp_path / "talk.jsonl"
    rows = [{"role": "user", "content": text, "id": str(at)} for at, text in enumerate(texts)]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert main(["import", str(file), "--session", "main"]) == 0
    assert asked_in(home) == texts


async def test_the_prompt_takes_joiners_and_wide_blanks_that_are_typed() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        for key in PasteParser().feed(f"{FAMILY}\u3000{PERSIAN}"):
            assert app._driver is not None
            app._driver.send_message(key)
        await pilot.pause()
        await pilot.press("enter")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did == [("send", f"{FAMILY}\u3000{PERSIAN}", (), False)]


async def test_the_app_sends_every_character_of_what_is_pasted() -> None:
    app, talk = staged()
    texts = messages(5)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        for number, text in enumerate(texts, start=1):
            app.post_message(Paste(text))
            await until(pilot, lambda: bool(app.chat.input_area.prompt.text))
            await pilot.press("enter")
            await until(pilot, lambda: len(talk.did) == number)  # noqa: B023 - run at once
    assert [did[1] for did in talk.did] == list(map(with_newlines, texts))


@pytest.mark.thorough
def test_an_editor_hands_over_every_character(home: Path, tmp_path: Path) -> None:
    texts = [f"{said}\n" for said in messages(7)]
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    calls: list[tuple[str, Mapping[str, object]]] = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
    ]
    for text in texts:
        asked = {"sessionId": str(KEY), "prompt": [{"type": "text", "text": text}]}
        calls.append(("session/prompt", asked))
    environ = {"MINDSTONE_ACP__SESSION": str(KEY), "MINDSTONE_MODELS__DEFAULT": model}
    with subprocess.Popen(
        [sys.executable, "-m", "mindstone_tui", "acp"],
        env={**os.environ, "MINDSTONE_HOME": str(home), **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        for number, (method, params) in enumerate(calls):
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            editor.stdin.write(json.dumps(call).encode() + b"\n")
            editor.stdin.flush()
            assert any(json.loads(line).get("id") == number for line in editor.stdout)
        editor.stdin.close()
    assert asked_in(home) == texts
