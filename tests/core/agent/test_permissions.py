"""Permissions: what runs, what is asked about, and what is refused because nobody can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.tools.approvals import Mode, prepare
from mindstone_tui.core.tools.base import Risk
from tests.core.agent.stage import Replies, context_of, permissions, tool, window_in


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
    assert allowed.describe().startswith("The mode is ask;")
    await allowed.switch("read-only")
    assert allowed.describe().startswith("The mode is read-only;")
