"""Programs beside each other: each conversation its own session, and a program's words its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mindstone_tui
from mindstone_tui.core.entries import Line
from mindstone_tui.core.text import added_around, without_reminders
from tests.cli.program import ROOT
from tests.core.session.stage import check_history
from tests.loopback.server import Loopback, says, serving
from tests.servers.residence import Residence, residing

REMINDER = "<system-reminder>\nThe zebra rule: never push on Fridays.\n</system-reminder>\n"
CONTEXT = "<environment_context>\n  <cwd>{}</cwd>\n  <shell>bash</shell>\n</environment_context>"
ADDED = st.sampled_from(
    [
        REMINDER,
        "<environment_context>x</environment_context>",
        "# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>",
        "<ide_selection>\n\n</ide_selection>",
        "\n\n# File editing rules:\n\nReturn edits similar to unified diffs.",
    ]
)
WORDS = st.text("ab <>/\n", max_size=12)


@given(st.lists(ADDED | WORDS, max_size=6), st.sampled_from(["\n\n", "\n", "", "\n\n\n"]))
def test_what_programs_add_is_parted_from_the_words_and_put_together_byte_for_byte(
    pieces: list[str], between: str
) -> None:
    said = between.join(pieces)
    before, words, after = added_around(said)
    assert (before and f"{before}\n\n") + words + (after and f"\n\n{after}") == said
    if before or after:
        assert words.strip()
        assert without_reminders(words).split() == without_reminders(said).split()


@pytest.mark.parametrize("behind", ["", "\n\n" + REMINDER.rstrip()])
def test_nothing_that_a_program_adds_is_left_in_the_words(behind: str) -> None:
    said = f"{REMINDER}\n\n{CONTEXT}\n\nWhich port?{behind}"
    before, words, after = added_around(said)
    assert (before, words) == (f"{REMINDER}\n\n{CONTEXT}", "Which port?")
    assert after == behind.removeprefix("\n\n")


@pytest.mark.parametrize(
    "said",
    [
        "<session>\nWhich port?\n</session>\n\nWrite the title in the language of the session.",
        "Generate a title for this conversation:\n\n\nWhich port?",
        "This is the Qwen Code. We are setting up the context for our chat.\nToday is Tuesday.",
    ],
)
def test_what_a_program_asks_for_itself_is_no_word_of_the_person(said: str) -> None:
    assert added_around(said) == (said, "", "")
    assert added_around(f"Why does it say: {said}")[1] == f"Why does it say: {said}"


@pytest.fixture
async def model() -> AsyncIterator[Loopback]:
    async with serving() as server:
        yield server


def at(model: Loopback) -> str:
    windows = '[models.windows]\n"openai/mine" = 64000\n'
    return f'base_url = "{model.base_url}"\nretries = 0\n{windows}'


def lines(served: Residence, session: str, kind: str = "user_message") -> list[Any]:
    found = mindstone_tui.log(session=session, kinds=[kind], home=served.home)
    return [line.entry for line in found if isinstance(line, Line)]


def sessions(served: Residence) -> dict[str, list[str]]:
    """What was said in each session."""
    return {
        each.key.main: [entry.text for entry in lines(served, str(each.key))]
        for each in served.home.places.sessions()
    }


async def test_each_program_project_and_conversation_has_a_session_of_its_own(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    model.play(says("Aye."))
    folders = [tmp_path / "shop", tmp_path / "bank"]
    for folder in folders:
        folder.mkdir()
    claude = {"user-agent": "claude-cli/2.1.325 (external, cli)"}
    codex = {"user-agent": "codex_exec/0.166.0 (Debian 12)", "session-id": "thread-1"}
    async with (
        residing(home, tmp_path, settings=at(model)) as served,
        served.client() as client,
    ):

        async def ask(
            path: str, headers: dict[str, str], folder: Path, words: str, **more: Any
        ) -> str:
            said = [
                {"type": "text", "text": REMINDER},
                {"type": "text", "text": CONTEXT.format(folder)},
                {"type": "text", "text": words},
            ]
            messages = [{"role": "user", "content": said}]
            body: dict[str, Any] = {"input" if "responses" in path else "messages": messages}
            body |= {"model": "openai/mine", **more}
            answer = await client.post(path, json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            return answer.headers["x-mindstone-session"]

        def metadata(own: str) -> dict[str, Any]:
            return {"metadata": {"user_id": json.dumps({"session_id": own})}, "max_tokens": 9}

        shop, bank = folders
        first = await ask("/v1/messages", claude, shop, "The shop's port is 1.", **metadata("a"))
        same = await ask("/v1/messages", claude, shop, "What is the port?", **metadata("a"))
        new = await ask("/v1/messages", claude, shop, "Another talk.", **metadata("b"))
        other = await ask("/v1/messages", claude, bank, "What is the port?", **metadata("c"))
        third = await ask("/v1/responses", codex, shop, "What is the port?")
        named = await ask(
            "/v1/responses", {**codex, "x-mindstone-session": "mine"}, shop, "Mine alone."
        )
        assert first == same
        assert named == "agent:default:mine"
        assert len({first, new, other, third, named}) == 5
        assert first.startswith("agent:default:claude-code-")
        assert third.startswith("agent:default:codex-")
        assert sorted(sessions(served).values()) == sorted(
            [
                ["The shop's port is 1.", "What is the port?"],
                ["Another talk."],
                ["What is the port?"],
                ["What is the port?"],
                ["Mine alone."],
            ]
        )
        of_bank = [raw for call in model.calls if str(bank).encode() in (raw := call.raw)]
        assert len(of_bank) == 1
        assert b"The shop" not in of_bank[0], "nothing of one project reaches another's prompt"
        sent = model.calls[0].body["messages"][-1]["content"]
        whole = "\n\n".join((REMINDER, CONTEXT.format(shop), "The shop's port is 1."))
        assert whole in sent, "it is sent on as it came"
        kept = lines(served, first)[0]
        assert kept.note == "\n\n".join((REMINDER, CONTEXT.format(shop)))
        found = mindstone_tui.recall("never push on Fridays", scope="all", home=home)
        assert not [hit for hit in found.hits if "zebra" in hit.text]
        for each in served.home.places.sessions():
            check_history(each)


AIDER = "Act as an expert software developer.\nTake requests for changes to the supplied code.\n"
EXAMPLES = [
    ("user", "Refactor hello() into its own file."),
    ("assistant", "To make this change we need to modify `main.py`."),
    ("user", "I switched to a new code base. Please don't consider the above files."),
    ("assistant", "Ok."),
]
RULES = "\n\nTo suggest changes to a file you MUST return the entire content of the updated file."


async def test_each_conversation_of_aider_is_known_by_its_first_words(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    """It names itself nowhere, and puts its examples and a map of the project before them."""
    model.play(says("Aye."))
    map_ = [("user", "Here are summaries of some files present in my git repository.\nshop.py")]
    async with (
        residing(home, tmp_path, settings=at(model)) as served,
        served.client(headers={"user-agent": "OpenAI/Python 2.54.0"}) as client,
    ):

        async def ask(*said: tuple[str, str]) -> str:
            messages = [("system", AIDER), *EXAMPLES, *said]
            told = [{"role": role, "content": text} for role, text in messages]
            told[-1]["content"] += RULES
            body = {"model": "openai/mine", "messages": told}
            answer = await client.post("/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            sent = [each["content"] for each in model.calls[-1].body["messages"][1:]]
            for each in told[1:]:
                told_on = any(each["content"].strip() in text for text in sent)
                assert told_on, "it is sent on as it came"
            return answer.headers["x-mindstone-session"]

        ok = ("assistant", "Ok.")
        first = await ask(*map_, ok, ("user", "Rename the shop."))
        again = await ask(
            ("user", "Rename the shop.  \n"),  # as it restores them
            ("assistant", "Aye."),
            *map_,
            ok,
            ("user", "And the bank."),
        )
        other = await ask(*map_, ok, ("user", "Delete the cellar."))
        said = [[text for text in each if text] for each in sessions(served).values()]
        assert sorted(said) == [["Delete the cellar."], ["Rename the shop.", "And the bank."]]
        for each in served.home.places.sessions():
            check_history(each)
        found = mindstone_tui.recall("modify main.py", 9, scope="all", home=served.home)
        assert not any("main.py" in hit.text for hit in found.hits), "nor what answers its examples"
    assert first == again
    assert first.startswith("agent:default:aider-")
    assert other not in (first, "agent:default:main")


async def test_what_a_program_puts_among_a_persons_words_is_not_recalled_as_theirs(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    model.play(says("Aye."))
    words = f"The harbour port is 8443.\n\n{REMINDER}\nAnd the lighthouse is red."
    async with (
        residing(home, tmp_path, settings=at(model)) as served,
        served.client() as client,
    ):
        body = {"model": "openai/mine", "messages": [{"role": "user", "content": words}]}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
        assert words in model.calls[-1].body["messages"][-1]["content"]
        found = mindstone_tui.recall("zebra rule on Fridays", 9, session="main", home=served.home)
        assert not any("zebra" in hit.text for hit in found.hits)
        for asked in ("harbour port", "lighthouse"):
            found = mindstone_tui.recall(asked, 9, session="main", home=served.home)
            assert any(asked in hit.text for hit in found.hits)


async def test_an_agent_of_ones_own_needs_five_lines_of_python_or_typescript(
    home: Path, tmp_path: Path
) -> None:
    _, _, page = (ROOT / "docs/embedding.md").read_text("utf-8").partition("## From any language")
    in_python, in_typescript = re.findall(r"```(?:python|typescript)\n(.*?)```", page, re.DOTALL)
    lines_of = [len(list(filter(None, text.split("\n")))) for text in (in_python, in_typescript)]
    assert lines_of == [5, 5]
    (tmp_path / "agent.mjs").write_text(in_typescript)
    node = shutil.which("node")
    agents = [[sys.executable, "-c", in_python], [node, str(tmp_path / "agent.mjs")]]
    async with residing(home, tmp_path) as ours:
        environ = {**os.environ, "MINDSTONE_URL": ours.url, "MINDSTONE_TOKEN": ours.token}
        for command in agents if node else agents[:1]:
            run = partial(subprocess.run, command, env=environ, capture_output=True, text=True)
            done = await anyio.to_thread.run_sync(run)
            assert (done.returncode, done.stdout) == (0, "Port 8443.\n"), done.stderr
        lines = mindstone_tui.log(session="my-agent", kinds=["user_message"], home=ours.home)
        said = [getattr(line.entry, "text", "") for line in lines if isinstance(line, Line)]
    asked = ["Which port is staging on?", "And before that?"]
    assert said == (asked if node else asked[:1])
    if node is None:
        pytest.skip("node is not installed; the lines in Python ran")
