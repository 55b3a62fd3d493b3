"""Every entry and every event has words, and the same ones wherever they are shown."""

from __future__ import annotations

import io
import typing
import unicodedata
from contextlib import redirect_stderr, redirect_stdout

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.cli.history import _print
from mindstone_tui.cli.line_chat import EventPrinter
from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import KINDS, Entry, Unknown, conversation, store, window
from mindstone_tui.core.entries.base import ShareLevel, Zone
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.events.from_entry import events_of
from mindstone_tui.core.events.narrate import (
    aside,
    describe,
    describe_line,
    in_brief,
    is_bookkeeping,
)
from mindstone_tui.core.events.narrate_entry import EventLine, turn_names, without_name
from mindstone_tui.core.interchange.export.story import marker_of
from mindstone_tui.core.transcript import Damaged
from mindstone_tui.tui.screens.transcript import row_of
from mindstone_tui.tui.widgets.exchange import Aside
from tests.builders import line_of
from tests.core.specimens import specimen
from tests.tui.staged import pruned

EVENTS = typing.get_args(ev.AnyEvent)


def assert_reads_well(line: EventLine) -> None:
    for part in (line.text, line.detail):
        assert part == part.strip()
        assert not [sign for sign in part if unicodedata.category(sign) in ("Cc", "Zl", "Zp", "Cs")]
    assert line.text
    assert line.text[-1] not in ":,;·(–"
    assert "  " not in line.text
    assert "()" not in line.text
    assert not line.text.startswith(line.sign)
    assert len(line.sign) == 1


def specimen_without_text(kind: type) -> typing.Any:
    """A specimen whose texts are all empty, as a careless writer might leave them."""
    full = specimen(kind)
    blank = {name: "" for name, hint in typing.get_type_hints(kind).items() if hint is str}
    return msgspec.structs.replace(full, **{k: v for k, v in blank.items() if hasattr(full, k)})


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_has_words(kind: type[ev.AnyEvent]) -> None:
    assert_reads_well(describe(specimen(kind)))
    assert describe(specimen_without_text(kind)).text


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_entry_has_words(kind: type[Entry]) -> None:
    assert_reads_well(describe_line(line_of(specimen(kind))))
    assert describe_line(line_of(specimen_without_text(kind))).text


def test_a_sensitive_memory_says_so_where_it_is_proposed() -> None:
    asked = "you asked for it to be remembered"
    plain = ev.MemoryProposed(
        proposal="m1", path="memory/x.md", before="", after="x", why=asked, sources=(1,)
    )
    line = describe(plain)
    assert line is not None
    assert line.text == "Remember this? x"
    health = msgspec.structs.replace(plain, why=f"{asked}; CAUTION: holds something about health")
    line = describe(health)
    assert line is not None
    assert line.text == "Remember this? x (holds something about health)"


@pytest.mark.parametrize(
    ("after", "used", "text", "sign"),
    [
        ("free", 1_400, "Tool results back within their share · 1.4k of 1.5k tokens", "✓"),
        ("free", 5_000, "Tool results fewer, still over their share · 5.0k of 1.5k tokens", "▪"),
        ("soft", 1_400, "Tool results near their share · 1.4k of 1.5k tokens", "▪"),
        ("soft", 6_600, "Tool results over their share · 6.6k of 1.5k tokens", "▪"),
    ],
)
def test_a_share_is_called_within_only_where_it_is(
    after: ShareLevel, used: int, text: str, sign: str
) -> None:
    told = describe(
        ev.ShareCrossed(
            turn=1, component="tool_results", before="hard", after=after, tokens=used, limit=1_500
        )
    )
    assert (told.text, told.sign) == (text, sign)


def test_all_decisions_of_a_turn_are_one_short_phrase() -> None:
    answers = [
        ev.ToolAnswered(turn=7, call=str(at), allowed=at != 1, channel="tui", how="y")
        for at in range(3)
    ]
    saved = ev.CheckpointSaved(turn=7, version=2, path="p")
    assert in_brief([answers[0], saved, *answers[1:]]) == [
        "checkpoint 2 saved",
        "2 allowed, 1 declined (/why turn 7)",
    ]


def test_files_that_several_calls_of_a_turn_changed_are_counted_once_each() -> None:
    one = ev.FilesChanged(turn=1, entry="e", call="c", name="write", total=1, changes=())
    changed = [
        msgspec.structs.replace(one, changes=(store.FileChange(path=path),))
        for path in ("a.txt", "b.txt", "a.txt")
    ]
    assert in_brief(changed) == ["2 files changed, /undo takes it back"]
    assert in_brief(changed[:1]) == ["1 file changed, /undo takes it back"]


def test_bookkeeping_in_brief_says_where_the_window_stands_now() -> None:
    zones: tuple[tuple[Zone, Zone], ...] = (
        ("green", "yellow"),
        ("yellow", "red"),
        ("red", "green"),
    )
    moved = [ev.ZoneChanged(turn=1, before=a, after=b, utilization=0.5) for a, b in zones]
    saved = ev.CheckpointSaved(turn=1, version=1, path="c")
    assert in_brief([*moved[:2], saved, moved[2]]) == [
        "checkpoint 1 saved",
        "the window is green now",
    ]


def test_an_entry_of_a_later_version_and_a_damaged_line_have_words() -> None:
    later = Unknown(kind="dream_dreamt", fields={"kind": "dream_dreamt", "of": "sheep"})
    line = msgspec.structs.replace(line_of(conversation.UserMessage(text="")), entry=later)
    assert describe_line(line).text == 'dream dreamt: {"of":"sheep"}'
    damaged = describe_line(Damaged(40, b"{", "not JSON"))
    assert "byte 40" in damaged.text
    assert damaged.tone == "error"


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_an_entry_reads_as_its_event_does(kind: type[Entry]) -> None:
    line = line_of(specimen(kind))
    told = [describe(event).text for event in events_of(line)]
    assert not told or describe_line(line).text.startswith(tuple(told)), "and by whose hand"


@given(text=st.text())
def test_no_text_from_outside_breaks_out_of_its_line(text: str) -> None:
    for event in (ev.Noticed(message=text), ev.TurnEnded(turn=1, ending="failed", why=text)):
        assert_harmless(describe(event))
    assert_harmless(describe_line(line_of(conversation.UserMessage(text=text))))


def assert_harmless(line: EventLine) -> None:
    assert line.text
    assert line.text.splitlines() == [line.text]
    assert not [sign for sign in line.text if unicodedata.category(sign) == "Cc"]


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_reads_the_same_in_the_app_in_lines_and_in_a_replay(
    kind: type[ev.AnyEvent],
) -> None:
    event = specimen(kind)
    line = aside(event)
    if line is None:
        return
    words = f"{line.sign} {line.text}"
    assert words in str(Aside(line).content)
    live, recorded = io.StringIO(), io.StringIO()
    with redirect_stderr(live):
        EventPrinter().show(event)
    with redirect_stdout(recorded):
        EventPrinter(recorded=True).show(event)
    assert line.text in live.getvalue()
    assert words in recorded.getvalue()


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_an_entry_reads_the_same_in_the_browser_the_log_and_an_export(kind: type[Entry]) -> None:
    line = line_of(specimen(kind))
    told = describe_line(line)
    assert told.text in row_of(line, 0, 500).plain
    if line.role not in ("user", "assistant"):
        logged = io.StringIO()
        with redirect_stdout(logged):
            _print(line, Standings(), json=False)
        assert told.text in logged.getvalue()
    if marker := marker_of(line):
        assert (marker.sign, marker.title) == (told.sign, told.text)


def test_good_news_is_marked_as_good_and_trouble_as_trouble() -> None:
    cleared = ev.AlertRaised(turn=1, level="info", metric="burn_rate", message="Back to normal.")
    lasting = ev.AlertRaised(turn=1, level="info", metric="recall", message="…", remedy="Look.")
    critical = ev.AlertRaised(turn=1, level="critical", metric="disk", message="Full.")
    assert (describe(cleared).sign, describe(cleared).tone) == ("✓", "good")
    assert describe(lasting).tone == "note"
    assert describe(critical).tone == "error"
    assert describe(ev.SavedAgain(entries=1)).text == "Everything is saved again (1 entry)"


def test_turns_are_named_as_runs_in_singular_and_plural() -> None:
    assert turn_names([7]) == "turn 7"
    assert turn_names([9, 3, 4, 5]) == "turns 3–5, 9"
    told = describe(pruned(9, 3, 4, 5, 8, 10, 11))
    assert "turns 3–5, 8, 10–11" in told.text
    assert "113k → 85.9k tokens" in told.text


def test_all_that_lies_before_an_imported_window_is_named() -> None:
    (last,) = pruned(1, 74).left
    before = msgspec.structs.replace(last, exchanges=74)
    told = describe(msgspec.structs.replace(pruned(1, 74), left=(before,)))
    assert told.text.startswith("74 exchanges left the window: turns 1–74 ·")


def test_what_a_person_declined_is_told_to_that_person() -> None:
    refused = conversation.ToolRefused(call="c", by="person", why="")
    assert describe_line(line_of(refused)).text == "You declined this"


@pytest.mark.parametrize(
    ("shown", "name", "told"),
    [
        ('read {"path":"a/b.py"}', "read", "a/b.py"),
        ('Bash {"description":"look","command":"ls -l"}', "Bash", "ls -l look"),
        ('x {"half', "x", '{"half'),
        ("run ls", "shell", "ls"),
        ("edit /w/a.py", "edit", "/w/a.py"),
    ],
)
def test_a_call_is_shown_by_what_it_is_about(shown: str, name: str, told: str) -> None:
    assert without_name(shown, name) == told


@pytest.mark.parametrize(("level", "folds"), [("info", 1), ("warning", 1), ("critical", 0)])
def test_only_critical_alerts_stand_beside_the_answer(
    level: typing.Literal["info", "warning", "critical"], folds: bool
) -> None:
    alert = ev.AlertRaised(turn=1, level=level, metric="m", message="It grew.", remedy="Stop it.")
    assert is_bookkeeping(alert) == folds


def test_an_import_names_what_it_skipped() -> None:
    entry = store.Imported(
        path="x",
        format="codex",
        sha256="0",
        added=1,
        already_there=0,
        skipped=(store.Skipped(line=3, why="no role"),),
    )
    told = describe_line(line_of(entry))
    assert told.text == "Imported 1 message from codex"
    assert told.more == ("line 3: no role",)


def test_a_pin_is_told_with_its_reason() -> None:
    told = describe_line(line_of(specimen(window.Pinned)))
    assert told.text == "Turn 7 is pinned"
    assert told.more


def test_exchanges_that_left_are_named_and_not_counted_one_by_one() -> None:
    assert turn_names([7]) == "turn 7"
    assert turn_names([17, range(3, 9), range(5, 15)]) == "turns 3–14, 17"
    assert turn_names([range(1, 1 << 60)]) == f"turns 1–{(1 << 60) - 1}"
