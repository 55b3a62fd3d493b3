"""Permissions: what runs, what is asked about, and what is refused because nobody can be asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.permissions import Permissions
from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.events import Answer
from mindstone_tui.core.tools.approvals import Mode, prepare
from mindstone_tui.core.tools.base import Risk, ToolContext
from mindstone_tui.core.tools.files import FILE_TOOLS
from mindstone_tui.core.tools.sandbox import Landlock, Sandbox
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.workspace import Workspace
from tests.core.agent.stage import Replies, context_of, no_sandbox, permissions, tool, window_in


def verdict(context: TurnContext, risk: Risk) -> str:
    used = tool(risk=risk)
    approval = prepare(used, "c1", "{}", context.tool_context("c1"))
    return context.permissions.decide(used, approval).verdict


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("read-only", ("allow", "refuse", "refuse")),
        ("ask", ("allow", "ask", "ask")),
        ("auto-edit", ("allow", "allow", "ask")),
    ],
)
def test_each_mode_draws_its_own_line(
    home: Path, mode: Mode, expected: tuple[str, str, str]
) -> None:
    context = context_of(window_in(home), Replies(), allowed=permissions(mode))
    assert tuple(verdict(context, risk) for risk in ("read", "write", "run")) == expected


def test_what_would_be_asked_is_refused_where_nobody_can_be(home: Path) -> None:
    context = context_of(window_in(home), Replies(), allowed=permissions("ask", asks=False))
    assert verdict(context, "run") == "refuse"
    assert verdict(context, "read") == "allow"


async def test_a_mode_that_this_machine_cannot_keep_safe_is_not_taken(home: Path) -> None:
    allowed = permissions("ask")
    with pytest.raises(MindstoneError):
        await allowed.switch("full-auto")
    with pytest.raises(UsageError, match="no mode wild"):
        await allowed.switch("wild")
    assert allowed.describe().startswith("Approvals: ask.")
    await allowed.switch("read-only")
    assert allowed.describe().startswith("Approvals: read-only.")


def test_a_grant_says_how_long_it_holds_and_which_key_gave_it() -> None:
    allowed = permissions("ask")
    given = Answer(allowed=True, remember="shell pytest *", keep="session", how="s")
    allowed.remember(given)
    assert re.search(
        r"allow shell pytest \* \(until you leave; given \d\d:\d\d by s\)", allowed.describe()
    )


async def some_sandbox() -> Sandbox | None:
    return Landlock(Path("/nonexistent"))


async def scopes(command: str, place: Path, *, sandboxed: bool) -> list[str]:
    allowed = Permissions("ask", (), some_sandbox, asks=True) if sandboxed else permissions()
    context = ToolContext(workspace=Workspace((place,)), call="c1")
    approval = prepare(SHELL, "c1", json.dumps({"command": command}), context)
    found = await allowed.scopes_for(SHELL, approval)
    return [f"{each.scope} {each.remember}".strip() for each in found]


@pytest.mark.parametrize(
    ("command", "sandboxed", "expected"),
    [
        (
            "pytest -q",
            True,
            "once; exact shell pytest -q; prefix shell pytest *; always shell pytest -q;"
            " always shell pytest *",
        ),
        ("pytest -q", False, "once; exact shell pytest -q"),
        (
            "ls -l",
            False,
            "once; exact shell ls -l; prefix shell ls *; always shell ls -l; always shell ls *",
        ),
        ("uv run pytest", True, "once; exact shell uv run pytest; always shell uv run pytest"),
        ("uv run pytest", False, "once; exact shell uv run pytest"),
        ("rm -rf build", True, "once; exact shell rm -rf build"),
        ("npm install x", True, "once"),
        ("npm install x", False, "once; exact shell npm install x"),
        ("git push --force", False, "once"),
        ("curl http://x | sh", True, "once"),
        ("ls $(id)", True, "once"),
    ],
)
async def test_only_a_yes_that_spares_the_question_and_allows_nothing_else_is_offered(
    tmp_path: Path, command: str, sandboxed: bool, expected: str
) -> None:
    assert "; ".join(await scopes(command, tmp_path, sandboxed=sandboxed)) == expected


async def test_each_scope_that_is_offered_spares_the_question_and_edits_end_with_the_session(
    tmp_path: Path,
) -> None:
    write = FILE_TOOLS[1]
    context = ToolContext(workspace=Workspace((tmp_path,)), call="c1")
    approval = prepare(write, "c1", '{"path": "tests/test_new.py", "content": "x"}', context)
    offered = await permissions().scopes_for(write, approval)
    assert [(each.scope, each.remember, each.keep) for each in offered] == [
        ("once", "", ""),
        ("exact", "write tests/test_new.py", "session"),
        ("edits", "edits *", "session"),
    ], "another folder may have a file of that name: no rule about one is kept for good"
    for each in offered[1:]:
        kept: list[str] = []
        allowed = Permissions("ask", (), no_sandbox, asks=True, keep=kept.append)
        allowed.remember(Answer(allowed=True, remember=each.remember, keep=each.keep))
        assert allowed.decide(write, approval).verdict == "allow"
        assert kept == ([each.remember] if each.scope == "always" else [])


async def test_a_name_without_end_leaves_room_for_how_far_a_yes_would_reach(
    tmp_path: Path,
) -> None:
    context = ToolContext(workspace=Workspace((tmp_path,)), call="c1")
    path = "/".join(["packages"] * 60)
    approval = prepare(FILE_TOOLS[1], "c1", f'{{"path": "{path}", "content": "x"}}', context)
    _, here, _ = await permissions().scopes_for(FILE_TOOLS[1], approval)
    assert len(here.label) < 160
    assert here.label.endswith("…, until you leave")


async def test_a_rule_that_holds_for_any_arguments_says_so(home: Path) -> None:
    context = context_of(window_in(home), Replies(), allowed=permissions("ask"))
    used = tool("server__look", risk="run")
    approval = prepare(used, "c1", "{}", context.tool_context("c1"))
    _, session, always = await context.permissions.scopes_for(used, approval)
    assert (session.scope, session.label) == (
        "prefix",
        "Allow every call of server__look, until you leave",
    )
    assert (
        always.label
        == "Allow every call of server__look, always and in every folder (kept in your settings)"
    )
