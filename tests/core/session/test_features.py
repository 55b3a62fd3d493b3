"""Features take part in a session by what they declare; one that fails costs the turn nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.core import events
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.session.features import (
    EndedTurn,
    Feature,
    Say,
    WrongUse,
    command,
    feature_class,
    known_commands,
    load_features,
)
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult, declare
from tests.core.session.stage import calls, on_stage, script


class Arguments(msgspec.Struct):
    """Which gauge."""

    gauge: str


class Tides(Feature):
    """A made-up feature that takes part in everything."""

    name = "tides"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self.read = 0
        self.ended: list[EndedTurn] = []

    def tools(self) -> Sequence[Tool]:
        return (declare("tide", "Read a gauge.", "read", Arguments, self._tide),)

    async def _tide(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        self.read += 1
        return ToolResult(text=f"{arguments.gauge} stands at 3 m")

    def standing(self) -> SystemPrompt:
        return SystemPrompt((Section(name="tides", text="The tide turns at noon."),))

    def panel(self) -> Sequence[str]:
        return [f"{self.read} gauges read"]

    async def before_turn(self) -> Sequence[str]:
        return ["The gauge at the pier is old."]

    async def after_turn(self, turn: EndedTurn) -> Sequence[events.AnyEvent]:
        self.ended.append(turn)
        return ()

    @command("tide", usage="GAUGE")
    async def ask(self, argument: str) -> AsyncIterator[events.AnyEvent | Say]:
        """Ask for a gauge."""
        if not argument:
            raise WrongUse("Which gauge?")
        yield Say(f"How high is {argument}?")


class Broken(Feature):
    """Fails wherever it is asked."""

    name = "broken things"

    def tools(self) -> Sequence[Tool]:
        raise RuntimeError("no tools today")

    def standing(self) -> SystemPrompt:
        raise RuntimeError("nothing stands")

    def heard(self, line: Line, text: str) -> Sequence[Line]:
        raise RuntimeError("deaf")

    async def after_turn(self, turn: EndedTurn) -> Sequence[events.AnyEvent]:
        raise RuntimeError("never again")


async def test_a_feature_brings_a_tool_a_section_a_command_and_a_line_in_the_panel(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, calls(("tide", {"gauge": "pier"})), {"text": "3 m."}, loop=True)
    async with on_stage(home, model=model, features=(Tides,)) as stage:
        await stage.say("How high is it?")
        await stage.idle()
        assert "pier stands at 3 m" in stage.all(events.ToolEnded)[0].text
        assert "The tide turns at noon." in str(stage.requests()[0][0])
        assert "1 gauges read" in stage.session.services.context.report().beside
        (ended,) = stage.session.services.features.get(Tides).ended
        assert (ended.question, ended.answer) == ("How high is it?", "3 m.")
        refused, told = await stage.run("/tide")
        assert not refused.ok
        assert told.endswith("Usage: /tide GAUGE")
        here = len(stage.heard)
        stage.session.command("/tide harbour")
        await stage.until(events.TurnEnded, after=here)
        assert [said.text for said in stage.entries(UserMessage)][-1] == "How high is harbour?"
        warned = [e.message for e in stage.all(events.Noticed) if "pier is old" in e.message]
        assert len(warned) == 1


async def test_a_feature_that_fails_is_told_of_once_by_name_and_the_turn_goes_on(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, model=model, features=(Broken, Tides)) as stage:
        for _ in range(3):
            assert (await stage.say("Go on.")).ending == "done"
        await stage.idle()
        assert len(stage.session.services.features.get(Tides).ended) == 3
        told = [e.message for e in stage.all(events.Noticed) if "broken things" in e.message]
    whys = ("no tools today", "nothing stands", "deaf", "never again")
    assert sorted(told) == sorted(
        f"broken things does not work here: RuntimeError: {why}" for why in whys
    )


def test_every_command_has_one_name_and_every_feature_one() -> None:
    declared = [one.name for feature in load_features()[0] for one in feature.declared]
    assert len(declared) == len(set(declared)) == len(known_commands())
    names = [feature.name for feature in load_features()[0]]
    assert len(names) == len(set(names))


def test_only_a_feature_that_has_a_name_is_let_in() -> None:
    class Nameless(Feature):
        """Nobody could be told what failed."""

    assert feature_class(Tides) is Tides
    assert [feature_class(each) for each in (Nameless, Tides.name, dict, None)] == [None] * 4


def test_a_command_without_a_docstring_is_refused() -> None:
    with pytest.raises(ValueError, match="docstring"):

        @command("mute")
        async def mute(self: Feature, argument: str) -> AsyncIterator[events.AnyEvent]:
            yield events.CommandPrinted(command="mute", text=argument)
