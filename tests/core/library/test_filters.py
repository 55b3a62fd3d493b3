"""A filter takes what it says, and means the same wherever it is typed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.store import SessionDescribed
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.profile import (
    DayProfile,
    ListedSession,
    SessionFilter,
    SessionProfile,
    checked,
    facts_of,
    list_described,
    profile_of,
    read_typed,
)
from mindstone_tui.core.library.search import search_everywhere
from mindstone_tui.core.paths import Places
from mindstone_tui.core.recall.course import days_named
from tests.builders import transcript_in


@pytest.fixture
def places(home: Path) -> Places:
    """A session of another program in which a person, a model and two tools speak of a port."""
    transcript = transcript_in(home)
    transcript.append(UserMessage(text="which port does staging use?"), turn=1)
    calls = (
        ToolCall(id="c1", name="Read", arguments='{"file_path": "conf/Staging.toml"}'),
        ToolCall(id="c2", name="Bash", arguments='{"command": "ss -lt"}'),
    )
    transcript.append(AssistantMessage(text="Looking.", model="gpt-5", calls=calls), turn=1)
    transcript.append(ToolReturned(call="c1", name="Read", text="port = 8443"), turn=1)
    transcript.append(ToolReturned(call="c2", name="Bash", text="LISTEN port 9000"), turn=1)
    transcript.append(AssistantMessage(text="The port is 8443.", model="gpt-5"), turn=1)
    transcript.append(
        SessionDescribed(
            program="codex-cli",
            folder="/work/app",
            began="2026-03-01T09:00:00.000Z",
            ended="2026-03-02T09:00:00.000Z",
        )
    )
    transcript.close()
    profile_of(transcript.places)
    return Places.resolve({"MINDSTONE_HOME": str(home)})


@pytest.mark.parametrize(
    ("typed", "is_there"),
    [
        ("program:codex-cli", True),
        ("program:Codex", True),
        ("program:co", False),
        ("project:APP", True),
        ("project:other", False),
        ("model:GPT", True),
        ("model:claude", False),
        ("since:2026-03-02", True),
        ("until:2026-03-01", True),
        ("until:2026-02-28", False),
        ("role:tool", True),
        ("tool:bash", True),
        ("tool:bas", False),
        ("file:staging.toml", True),
        ("file:production", False),
        ("program:codex file:staging tool:read", True),
        ("program:codex file:staging tool:write", False),
    ],
)
def test_a_session_is_taken_by_what_it_is(places: Places, typed: str, is_there: bool) -> None:
    assert bool(list_described(places, read_typed(typed).wanted)) == is_there


def test_what_was_done_on_other_days_does_not_count() -> None:
    session = ListedSession(
        session="agent:default:x",
        agent="default",
        main="x",
        size=1,
        entries=1,
        turns=1,
        updated="",
        role="",
        text="",
        readable=True,
        began="2026-03-01",
        used="2026-03-09",
    )
    profile = SessionProfile(
        days={
            "2026-03-01": DayProfile(turns=1, tools={"Bash": 1}),
            "2026-03-09": DayProfile(turns=1, tools={"Read": 1}),
        }
    )
    takes = {
        typed: (read_typed(typed).wanted or SessionFilter()).takes(session, profile)
        for typed in (
            "tool:bash",
            "tool:bash since:2026-03-02",
            "tool:bash until:2026-03-02",
            "tool:read until:2026-03-02",
        )
    }
    assert list(takes.values()) == [True, False, True, False]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("port", {1, 3, 4, 5}),
        ("port role:user", {1}),
        ("port role:assistant", {5}),
        ("port role:tool", {3, 4}),
        ("port tool:bash", {4}),
        ("port file:staging.toml", {3}),
        ("port program:claude", set()),
        ("port program:codex role:user", {1}),
        ("port since:2100-01-01", set()),
    ],
)
def test_a_search_finds_only_the_lines_that_are_meant(
    places: Places, typed: str, found: set[int]
) -> None:
    asked = read_typed(typed)
    answer = search_everywhere(places, Settings(), asked.words, 10, asked.wanted)
    # An exchange is one hit: the best of the lines that are meant.
    assert {hit.seq for hit in answer.hits} <= found
    assert bool(answer.hits) == bool(found)
    assert all((hit.program, hit.folder) == ("codex-cli", "/work/app") for hit in answer.hits)


def test_filters_are_told_from_words() -> None:
    asked = read_typed('port project:"my app" http://x  tool: since:2026-03-31 file:a.py:3')
    assert asked.words == "port http://x"
    assert asked.wanted == SessionFilter(project="my app", since="2026-03-31", file="a.py:3")
    assert read_typed("plain words program:").wanted is None
    assert read_typed("subprogram:codex").wanted is None


@pytest.mark.parametrize("wanted", [SessionFilter(since="soon"), SessionFilter(until="2026-02-30")])
def test_what_is_no_date_is_refused(wanted: SessionFilter) -> None:
    with pytest.raises(UsageError, match="is not a date"):
        checked(wanted)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("yesterday", "2026-02-10", "2026-02-10"),
        ("last week", "2026-02-02", "2026-02-08"),
        ("Friday", "2026-02-06", "2026-02-06"),
        ("3 feb", "2026-02-03", "2026-02-03"),
        ("Dec 24", "2025-12-24", "2025-12-24"),
        ("2 weeks ago", "2026-01-28", "2026-01-28"),
    ],
)
def test_days_are_named_as_people_name_them(text: str, first: str, last: str) -> None:
    days = days_named(text, date(2026, 2, 11))
    assert days is not None
    assert [day.isoformat() for day in days] == [first, last]
    assert days_named(f"{text} or so", date(2026, 2, 11)) is None
    assert checked(SessionFilter(since=text)).since.startswith("20")


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(UsageError, match="Unknown role robot"):
        read_typed("role:robot")


def test_a_session_is_described_in_one_line(places: Places) -> None:
    (session,) = list_described(places, SessionFilter())
    assert facts_of(session) == "codex-cli · /work/app · gpt-5 · 2026-03-01 to 2026-03-02"
