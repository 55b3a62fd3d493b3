"""The tools of a live session: who brings them, and who switches them off."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.core.session.stage import Stage, on_stage, script

SERVER = Path(__file__).parents[1] / "tools" / "servers" / "honest.py"


def with_server(home: Path, disabled: str) -> None:
    """A home whose settings name a tool server and switch one tool off."""
    home.mkdir()
    command = json.dumps([sys.executable, str(SERVER)])
    (home / "config.toml").write_text(
        f'[tools]\ndisabled = ["{disabled}"]\n[tools.mcp.here]\ncommand = {command}\n'
    )


def served(stage: Stage) -> list[str]:
    """The server's tools that the model is offered now."""
    return sorted(
        name for name in stage.session.services.context.tools if name.startswith("here__")
    )


@pytest.mark.thorough
async def test_accepting_a_servers_tools_brings_back_none_that_were_switched_off(
    home: Path, tmp_path: Path
) -> None:
    with_server(home, disabled="here__environment")
    model = script(tmp_path, {"text": "hello"})
    environ = {"PATH": os.environ["PATH"]}
    async with on_stage(home, model=model, environ=environ) as stage:
        await stage.say("hi")
        assert served(stage) == ["here__add", "here__shout"]
        await stage.run("/tools off here__shout")
        ended, text = await stage.run("/tools accept here")
        assert ended.ok
        assert served(stage) == ["here__add"]
        assert "off here__shout" in text
        await stage.run("/tools on here__environment")
        await stage.run("/tools accept here")
        assert served(stage) == ["here__add", "here__environment"]


def without(home: Path, tool: str) -> Path:
    """A home whose settings switch one tool off."""
    home.mkdir()
    (home / "config.toml").write_text(f'[tools]\ndisabled = ["{tool}"]\n')
    return home


@pytest.mark.parametrize("disabled", ["shell", ""])
async def test_who_switches_the_shell_off_switches_its_commands_off(
    home: Path, tmp_path: Path, disabled: str
) -> None:
    says = script(tmp_path, {"text": "Hi."})
    async with on_stage(without(home, disabled), model=says) as stage:
        if not disabled:
            await stage.run("/tools off shell")
        assert {"shell", "background"}.isdisjoint(stage.session.services.context.tools)
        await stage.run("/tools on background")
        assert "background" in stage.session.services.context.tools


async def test_the_tools_of_a_new_session_fit_their_share_of_a_small_window(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Hi."})) as stage:
        await stage.say("hello")
        report = stage.session.services.context.report()
        assert report.window.tokens == 32_768
        (share,) = (part for part in report.components if part.name == "tool_definitions")
        assert 0 < share.tokens <= share.hard
