"""One model call: whose figures count, what is said about how it ended, where a script goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core.agent.answer import ModelCall
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.context.plan import prepare
from mindstone_tui.core.entries import Usage
from mindstone_tui.core.entries.conversation import TurnStarted, UserMessage
from mindstone_tui.core.errors import ProviderUnreachable
from mindstone_tui.core.providers.base import Finished, Retrying, TextPart
from tests.core.agent.stage import Replies, Reply, context_of, kinds, window_in


async def called(home: Path, reply: Reply) -> tuple[TurnContext, ModelCall]:
    """A call that was planned and may now be streamed."""
    context = context_of(window_in(home), Replies(reply))
    context.window.record_all([TurnStarted(), UserMessage(text="What is it?")], 1)
    prepared = await prepare(context.window, context.target, call=1)
    return context, ModelCall(context, prepared, context.target, turn=1, call=1, taken=())


@pytest.mark.parametrize(("counted", "by"), [(None, "us"), (77, "provider")])
async def test_the_providers_figures_win_over_our_own(
    home: Path, counted: int | None, by: str
) -> None:
    finished = Finished(reason="stop", usage=Usage(prompt=counted))
    _, call = await called(home, [TextPart(text="A stone."), finished])
    assert [event.tag async for event in call.stream()] == ["text_delta"]
    message, report = call.answer()
    assert message.text == "A stone."
    assert report.by == by
    assert (report.usage.prompt or 0) > 0
    assert call.remark() == ""


async def test_an_answer_that_was_cut_off_or_empty_is_remarked_on(home: Path) -> None:
    _, call = await called(home, [Finished(reason="length")])
    _ = [event async for event in call.stream()]
    assert "cut off" in call.remark()
    _, empty = await called(home, [Finished(reason="stop")])
    _ = [event async for event in empty.stream()]
    assert empty.remark() == "The model answered with nothing."


async def test_every_try_counts_also_when_the_last_one_fails(home: Path) -> None:
    broken = ProviderUnreachable("Nobody answers.", "Start the server.")
    context, call = await called(home, [Retrying(attempt=1, wait=0.0, why="busy"), broken])
    with pytest.raises(ProviderUnreachable):
        _ = [event async for event in call.stream()]
    assert context.position == 2
    assert not call.heard
    assert kinds(context)[-1] == "model_failed"
