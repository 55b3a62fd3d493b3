"""Looking back adds up what the profiles say: nothing twice, nothing outside the days asked for."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mindstone_tui.core.entries import Draft, Line, Usage
from mindstone_tui.core.entries.conversation import TurnStarted, UserMessage
from mindstone_tui.core.entries.store import SessionDescribed
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.interchange.export import export
from mindstone_tui.core.interchange.formats import formats
from mindstone_tui.core.library.card import YEAR, card_of, card_svg
from mindstone_tui.core.library.profile import (
    DayProfile,
    ListedSession,
    SessionFilter,
    SessionProfile,
    list_described,
    profile_from,
)
from mindstone_tui.core.library.projects import folded
from mindstone_tui.core.library.resume_command import (
    RESUME_COMMANDS,
    find_session,
    resume_command,
)
from mindstone_tui.core.library.stats import (
    StatsRow,
    add_up,
    calendar,
    session_numbers,
    stats_of,
    stats_page,
)
from mindstone_tui.core.paths import Places, SessionKey
from tests.builders import transcript_in, use_tool
from tests.core.session.stage import on_stage, script


def _listed(main: str, program: str = "codex", **fields: Any) -> ListedSession:
    return ListedSession(
        session=str(SessionKey("default", main)),
        agent="default",
        main=main,
        size=1,
        entries=1,
        turns=1,
        updated="",
        role="",
        text="",
        readable=True,
        program=program,
        **fields,
    )


def _profile(**fields: Any) -> SessionProfile:
    used = {"m/one": Usage(prompt=100, completion=10, cached=40, cost=0.5)}
    return SessionProfile(
        ended="2026-03-03T10:00:00Z",
        days={
            "2026-03-01": DayProfile(
                turns=2,
                said={"user": 1, "assistant": 3, "tool": 6},
                models={"m/one": 3},
                tools={"read": 2, "edit": 4},
                files={"a.py": 3},
            ),
            "2026-03-03": DayProfile(turns=1, tools={"edit": 1}, files={"b.py": 1}),
        },
        described={
            "2026-03-01": DayProfile(used=used),
            "": DayProfile(used={"": Usage(prompt=7)}),
        },
        **fields,
    )


def test_rows_add_up_to_the_total() -> None:
    sessions = [
        ("one", _profile(program="codex", folder="/home/ada/tide", project="/home/ada/tide")),
        ("two", _profile(program="claude-code", started_by="agent:default:one")),
    ]
    stats = add_up(sessions)
    assert stats.total == StatsRow(
        name="all",
        sessions=2,
        turns=6,
        messages=8,
        prompt=214,
        completion=20,
        cached=80,
        cost=1.0,
    )
    for rows in (stats.programs, stats.projects, stats.days):
        assert sum(row.turns for row in rows) == 6
        assert sum(row.tokens for row in rows) == stats.total.tokens
    assert sum(row.tokens for row in stats.models) == stats.total.tokens
    assert [row.name for row in stats.projects] == ["/home/ada/tide", "unknown"]
    assert [(row.name, row.turns, row.prompt) for row in stats.days] == [
        ("2026-03-01", 4, 200),
        ("2026-03-03", 2, 14),
    ]
    assert [(each.name, each.count) for each in stats.tools] == [("edit", 10), ("read", 4)]
    assert (stats.sub_agents, stats.began, stats.ended) == (1, "2026-03-01", "2026-03-03")


def test_only_the_days_that_are_asked_for_count() -> None:
    stats = add_up([("one", _profile())], since="2026-03-02")
    assert (stats.total.turns, stats.total.prompt, stats.total.cost) == (1, 7, None)
    assert [(each.name, each.count) for each in stats.tools] == [("edit", 1)]
    assert [(each.name, each.count) for each in stats.files] == [("b.py", 1)]
    assert all(row.messages == 0 for row in stats.models)
    assert add_up([("one", _profile())], until="2026-02-01").total.sessions == 0


def test_the_calendar_has_the_days_between_and_adds_up_where_there_is_no_room() -> None:
    days = add_up([("one", _profile())]).days
    unknown = StatsRow(name="unknown", turns=9)
    found = calendar([*days, unknown], 10)
    assert (found.span, found.last) == ("a day", "2026-03-03")
    assert [(row.name, row.turns) for row in found.rows] == [
        ("2026-03-01", 2),
        ("2026-03-02", 0),
        ("2026-03-03", 1),
    ]
    assert calendar((), 5).rows == ()
    year = [StatsRow(name=f"2026-{month:02}-28", turns=month) for month in range(1, 13)]
    for most, called, count in ((400, "a day", 335), (48, "a week", 48), (20, "in 3 weeks", 16)):
        found = calendar(year, most)
        assert (found.span, len(found.rows)) == (called, count)
        assert sum(row.turns for row in found.rows) == sum(row.turns for row in year)
        assert found.rows[-1].turns >= 12


def test_the_page_escapes_what_is_foreign_and_fetches_nothing() -> None:
    profile = _profile(folder='/"><img src=x>')
    profile.days["2026-03-03"].files = {"<script>alert(1)</script>.py": 1}
    page = stats_page(add_up([("one", profile)]))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert not re.search(r"https?:", page)
    for title in ("Programs", "Projects", "Models", "Tools", "Files", "Days"):
        assert f"<summary>{title}</summary>" in page


def test_the_page_of_a_session_holds_its_numbers(home: Path) -> None:
    with closing(transcript_in(home)) as transcript:
        use_tool(transcript, "Which port?", "port = 8080", "It uses 8080.")
        with transcript.history() as history:
            plain = "".join(export(history, "html"))
            page = "".join(export(history, "html", numbers=session_numbers))
            read = [line for line in history.read() if isinstance(line, Line)]
    assert 'id="numbers"' not in plain
    stats = add_up([("main", profile_from(read))])
    assert "1 turn" in page
    for each in stats.tools:
        assert f"<td>{each.name}</td>" in page
    for title in ("Models", "Tools", "Days"):
        assert f'<details class="part" open><summary>{title}</summary>' in page
    assert page.count('class="turn"') == plain.count('class="turn"')
    assert session_numbers([]) == ""


def test_each_program_is_resumed_with_its_own_command() -> None:
    assert set(RESUME_COMMANDS) - {"mindstone"} <= {*formats(), "openhands"}
    found = _listed("codex-1", conversation="0-1", folder="/home/ada/my tide")
    command = resume_command(found, lambda name: None)
    assert command.line == "cd '/home/ada/my tide' && codex resume 0-1"
    assert (command.installed, command.folder_exists) == (False, False)
    own = resume_command(_listed("main", "mindstone"), lambda name: f"/bin/{name}")
    assert own.line == "mindstone chat --session agent:default:main"
    assert own.installed


def test_a_program_without_such_a_command_is_named() -> None:
    with pytest.raises(UsageError, match="ChatGPT export has no command"):
        resume_command(_listed("c", "chatgpt", conversation="x"), lambda name: None)
    for named in ("", "--dangerously-skip-permissions", '-cnotify=["sh"]', "a b", "$(id)"):
        with pytest.raises(UsageError, match="Codex CLI has no command"):
            resume_command(_listed("c", conversation=named), lambda name: None)


def test_a_session_is_found_by_name_part_or_id(home: Path) -> None:
    sessions = [_listed("codex-ab1", conversation="ab1"), _listed("codex-ab2", conversation="ab2")]
    for name in ("agent:default:codex-ab1", "codex-ab1", "ab1"):
        assert find_session(name, sessions) is sessions[0]
    with pytest.raises(UsageError, match="may be any of 2"):
        find_session("ab", sessions)
    with pytest.raises(UsageError, match="There is no session"):
        find_session("zz", sessions)


def test_sub_agents_stand_behind_the_session_that_started_them() -> None:
    name = "agent:default:{}".format
    sessions = [
        _listed("child", started_by=name("parent")),
        _listed("alone"),
        _listed("grandchild", started_by=name("child")),
        _listed("parent"),
        _listed("orphan", started_by=name("gone")),
        _listed("ring", started_by=name("ring")),
    ]
    assert [each.main for each in folded(sessions)] == [
        *("alone", "parent", "child", "grandchild", "orphan", "ring"),
    ]


async def test_a_card_counts_a_year_and_what_was_taken_back_is_not_on_it(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.run("/title <b>Boats</b> & more")
        for number in range(3):
            await stage.say(f"remark {number} about the north wall")
        await stage.run("/rewind turn 2")
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    today = datetime.now(UTC).date()
    card = card_of(places, SessionFilter(), today)
    assert (card.turns, card.sessions, sum(card.days.values())) == (2, 1, 2)
    assert [(one.name, one.count) for one in card.programs] == [("mindstone", 2)]
    assert card.longest is not None
    assert card.longest.count == 2
    drawn = ElementTree.fromstring(card_svg(card))
    texts = ["".join(one.itertext()) for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[1:] == card.facts
    squares = drawn.findall(".//{*}rect/{*}title")
    assert [one.text for one in squares if not str(one.text).endswith(": 0 turns")] == [
        f"{today}: 2 turns"
    ]
    later = card_of(places, SessionFilter(), today + YEAR + timedelta(days=2))
    assert (later.turns, later.days, later.longest) == (0, {}, None)
    assert ElementTree.fromstring(card_svg(later)) is not None


async def test_a_fork_counts_before_anything_was_said_in_it(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Yes."})) as stage:
        await stage.say("Is the tide high?")
        assert (await stage.run("/fork second turn 1"))[0].ok
        today = stage.lines()[0].ts[:10]
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    listed = [one.turns for one in list_described(places)]
    assert sorted(listed) == [0, 1]
    for wanted in (None, SessionFilter(since=today, until=today)):
        found = stats_of(places, wanted)
        assert (found.total.turns, found.total.sessions) == (1, 2), wanted
        assert [row.sessions for row in (*found.programs, *found.projects)] == [2, 2]
    assert stats_of(places, SessionFilter(until="2020-01-01")).total.sessions == 0


async def test_a_request_that_was_replaced_gives_a_session_no_title(
    home: Path, tmp_path: Path
) -> None:
    old = "The staging server runs on host kestrel."
    new = "No, the staging server runs on host merlin, not kestrel."
    says = script(tmp_path, {"text": "ok"}, loop=True)
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    async with on_stage(home, model=says) as stage:
        await stage.say(old)
        assert [one.title for one in list_described(places)] == [old]
        await stage.say(new)
        await stage.rest()
        assert [one.title for one in list_described(places)] == [new]
        await stage.run("/rewind turn 1")
        assert [one.title for one in list_described(places)] == [old]


def test_turns_had_here_in_an_imported_session_are_not_the_other_programs(home: Path) -> None:
    old = "2025-03-02T09:00:00.000Z"
    transcript = transcript_in(home)
    theirs = (TurnStarted(), UserMessage(text="hello"))
    transcript.append_all([Draft(entry=one, turn=1, channel="import", ts=old) for one in theirs])
    transcript.append(SessionDescribed(program="codex", began=old, ended=old))
    for entry in (TurnStarted(), UserMessage(text="and on")):
        transcript.append(entry, turn=2)
    transcript.close()
    found = stats_of(Places.resolve({"MINDSTONE_HOME": str(home)}))
    assert {row.name: (row.turns, row.sessions) for row in found.programs} == {
        "codex": (1, 1),
        "mindstone": (1, 1),
    }
    assert (found.total.turns, found.total.sessions) == (2, 1)
