"""Rules in attached programs: what they say to a call there, and the record that they spoke."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mindstone_tui.core.diagnostics import note
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.derived import RuleFired
from mindstone_tui.core.library.project_recall import appending
from mindstone_tui.core.paths import Places, SessionKey, project_of
from mindstone_tui.core.rules.book import RuleBook, Ruling, ruling
from mindstone_tui.core.rules.checks import SeenCommand
from mindstone_tui.core.rules.deeds import below, done_lately, of_call
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.encode import Clean


def ruling_on(
    home: Places,
    call: ToolCall,
    folder: Path,
    session: SessionKey | None,
    catch_up: Callable[[], None],
) -> Ruling:
    """What the rules of a folder say to a call of a program that works there.

    What was done before counts as far as `session`, which mirrors the program's, tells it.
    """
    named = {str(folder), os.path.realpath(folder)}
    rules = [
        one
        for one in RuleBook(home).all()
        if one.check is not None and any(one.holds_in(each, str(session)) for each in named)
    ]
    if not rules:
        return Ruling("allow")

    def done() -> Sequence[SeenCommand]:
        catch_up()
        if session is None or not home.session(session).transcript.exists():
            return ()
        with History(home.session(session)) as history:
            return done_lately(history, folder)

    deed = of_call(call, folder)
    base = project_of(folder)  # a program may have gone further down since it began
    changes = tuple(below(os.path.normpath(folder / one), base) for one in deed.changes)
    return ruling(rules, msgspec.structs.replace(deed, changes=changes, done=done))


def record_firing(
    home: Places, said: Ruling, call: ToolCall, session: SessionKey | None, clean: Clean
) -> None:
    """Write down that a rule spoke: in the session that mirrors the program's, else in our log."""
    assert said.rule is not None
    assert said.verdict != "allow"
    fired = RuleFired(number=said.rule.number, call=call.id, verdict=said.verdict)
    if session is not None and home.session(session).transcript.exists():
        with appending(home, session, clean) as transcript:
            if transcript is not None:
                transcript.append(fired, turn=transcript.last_turn)
                return
    note(f"rule {fired.number}: {fired.verdict} for a call of {call.name} in {session}", home.log)
