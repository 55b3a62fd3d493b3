"""The front door: what other programs may rely on, and the page that tells them how."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mindstone_tui
from mindstone_tui import Answer, events
from tests.core.session.stage import calls, script

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "embedding.md"


async def said(conversation: mindstone_tui.Conversation, text: str) -> list[events.AnyEvent]:
    return [event async for event in conversation.ask(text)]


def test_importing_the_package_loads_nothing() -> None:
    program = "import sys, mindstone_tui; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("mindstone_tui")}
    assert ours == {"mindstone_tui"}
    assert not loaded & {"typing", "msgspec", "textual", "litellm", "asyncio"}


def test_every_name_of_the_door_is_there_and_no_other() -> None:
    for name in mindstone_tui.__all__:
        assert getattr(mindstone_tui, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = mindstone_tui.nonsense


async def test_a_turn_is_asked_for_and_read_to_its_end(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Port 8443."})
    async with mindstone_tui.open(session="work", model=model, home=home) as conversation:
        heard = await said(conversation, "Which port is staging on?")
        assert isinstance(heard[-1], events.TurnEnded)
        assert heard[-1].ending == "done"
        spoken = "".join(event.text for event in heard if isinstance(event, events.TextDelta))
        assert spoken == "Port 8443."
        assert conversation.session == "agent:default:work"
        assert conversation.verify().ok
        assert [hit.turn for hit in conversation.recall("staging port", 1).hits] == [1]
        assert conversation.context().turn == 1
        kinds = [line.kind for line in conversation.log(kinds=["user_message"])]  # type: ignore[union-attr]
        assert kinds == ["user_message"]


async def test_a_command_is_asked_for_like_a_turn(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "fine"})
    async with mindstone_tui.open(model=model, home=home) as conversation:
        heard = await said(conversation, "/context")
    assert isinstance(heard[-1], events.CommandEnded)
    assert heard[-1].exit_code == 0


async def test_a_tool_is_declined_by_whoever_asked_to_be_asked(home: Path, tmp_path: Path) -> None:
    wanted = calls(("write", {"path": "a.txt", "text": "x"}))
    model = script(tmp_path, wanted, {"text": "All right."})
    async with mindstone_tui.open(
        model=model, home=home, cwd=tmp_path, approve="ask", asks=True
    ) as conversation:
        async for event in conversation.ask("write it"):
            if isinstance(event, events.ToolAsked):
                conversation.answer(event.call, Answer(allowed=False, why="not here"))
    assert not (tmp_path / "a.txt").exists()
    refused = list(mindstone_tui.log(kinds=["tool_refused"], home=home))
    assert len(refused) == 1


def test_what_is_wrong_is_said_in_one_sentence(home: Path) -> None:
    with pytest.raises(mindstone_tui.MindstoneError) as missing:
        mindstone_tui.recall("anything", session="nowhere", home=home)
    assert missing.value.what.endswith(".")
    assert missing.value.remedy
    with pytest.raises(mindstone_tui.MindstoneError, match="nothing to look for"):
        mindstone_tui.recall("  ", home=home)
    with pytest.raises(mindstone_tui.MindstoneError, match="Unknown scope"):
        mindstone_tui.recall("x", scope="galaxy", home=home)


def test_the_programs_of_the_page_run(tmp_path: Path, home: Path) -> None:
    page, _, _ = PAGE.read_text("utf-8").partition("## From any language")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) >= 5
    book = tmp_path / "page.py"
    parts = [f"def part_{number}():\n{_indented(text)}\n" for number, text in enumerate(programs)]
    calls_of = "".join(f"part_{number}()\n" for number in range(len(programs)))
    book.write_text("".join(parts) + calls_of)
    done = subprocess.run(
        [sys.executable, str(book)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "[done]" in done.stdout


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


def test_a_long_first_message_is_read_with_expressions_that_were_compiled_before() -> None:
    program = (
        "import re\n"
        "from mindstone_tui.api import warm_up\n"
        "from mindstone_tui.core.statements.recogniser import worth_asking_about\n"
        "warm_up()\n"
        "compiled, compile = [], re.compile\n"
        "re.compile = lambda *given: compiled.append(given) or compile(*given)\n"
        "worth_asking_about('''\n"
        "It is what it needs to be, and we only keep what was said once.\n"
        "Then nothing leaves it again, so they can be found there.\n"
        "He was to list what is next, but code of an item is not needed.''' * 100)\n"
        "print(len(compiled))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert not done.stderr
    assert int(done.stdout) <= 3  # of some eighty, 100 ms in all
