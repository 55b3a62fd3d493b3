"""Entries and the events that announce them."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries import Entry, ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    UserMessage,
)
from mindstone_tui.core.events.from_entry import ANNOUNCED_AS, Announcer, announcements
from tests.builders import line_of
from tests.core.specimens import specimen

PAIRS = pytest.mark.parametrize(
    ("entry", "event"), ANNOUNCED_AS.items(), ids=lambda kind: kind.__name__
)


@PAIRS
def test_an_event_asks_for_nothing_that_its_entry_does_not_say(
    entry: type[Entry], event: type[events.AnyEvent]
) -> None:
    says = {**get_type_hints(entry), "turn": int, "entry": str}
    asks = get_type_hints(event)
    fields = event.__struct_fields__
    assert {name: asks[name] for name in fields} == {name: says.get(name) for name in fields}


@PAIRS
def test_an_event_says_what_its_entry_says(
    entry: type[Entry], event: type[events.AnyEvent]
) -> None:
    written = specimen(entry)
    (told,) = announcements(line_of(written, turn=12))
    assert isinstance(told, event)
    own: dict[str, Any] = {"turn": 12, "entry": "id1"}
    for name in event.__struct_fields__:
        assert getattr(told, name) == own.get(name, getattr(written, name, None))


def test_what_was_said_is_not_announced_as_a_decision() -> None:
    assert announcements(line_of(UserMessage(text="hello"))) == []


CALL = ToolCall(id="c", name="x", arguments="{}")


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (AssistantMessage(text="All of it."), "done"),
        (AssistantMessage(text="Let me see.", calls=(CALL,)), "interrupted"),
        (AssistantPartial(text="All of", why="stopped"), "interrupted"),
    ],
)
def test_a_turn_without_an_end_is_whole_if_it_was_answered(answer: Entry, ending: str) -> None:
    """A fork copies earlier turns without their ends."""
    announcer = Announcer()
    told = [
        event
        for line in (
            line_of(UserMessage(text="go"), turn=1),
            line_of(answer, turn=1),
            line_of(UserMessage(text="on"), turn=2),
        )
        for event in announcer.events_of(line)
    ]
    assert [e.ending for e in told if isinstance(e, events.TurnEnded)] == [ending]
