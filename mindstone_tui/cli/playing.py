"""Watching a recording: in the app, in lines, or as events for programs."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from mindstone_tui.cli.app import check_terminal, has_terminal
from mindstone_tui.cli.options import places
from mindstone_tui.cli.output import hint, say, say_piece, say_raw_json
from mindstone_tui.core import events as ev
from mindstone_tui.core.config import Settings
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.replay.playback import Replay, playable
from mindstone_tui.core.replay.rehearsal import RehearsalOptions
from mindstone_tui.core.text import one_line
from mindstone_tui.core.transcript import History
from mindstone_tui.tui.telling import tell


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """What is watched, and how."""

    history: History
    settings: Settings
    options: RehearsalOptions
    speed: float | None = None
    """None is normal in the app, and without waiting in lines."""
    at: int | None = None
    plain: bool = False
    json: bool = False


def watch(watching: Watching) -> int:
    """Play a session to whoever looks; returns the exit code."""
    if watching.plain or watching.json or not has_terminal():
        return asyncio.run(_in_lines(watching))
    check_terminal(os.environ)
    history, note = asyncio.run(playable(watching.history, watching.settings, watching.options))
    # Textual is the larger part of the start; a pipe does not need it.
    from mindstone_tui.cli.surroundings import surroundings
    from mindstone_tui.tui.replaying import ReplayApp

    async def open_replay() -> Replay:
        speed = 1.0 if watching.speed is None else watching.speed
        replay = Replay(history, watching.settings, note=note, speed=speed)
        if watching.at is not None:
            replay.go_to_turn(watching.at)
        return replay

    key = str(history.places.key)
    around = surroundings(places(), watching.settings, key, places().data)
    app = ReplayApp(open_replay, around)
    code = app.run(mouse=around.settings.mouse)
    return app.return_code or code or 0


async def _in_lines(watching: Watching) -> int:
    history, note = await playable(watching.history, watching.settings, watching.options)
    replay = Replay(
        history,
        watching.settings,
        note=note,
        speed=watching.speed or 0.0,
        stays=False,
        reports=watching.json,
    )
    if watching.at is not None and not replay.go_to_turn(watching.at):
        raise NoSuchEntry(f"There is no turn {watching.at}.", "Leave out --at to play it all.")
    async for event in replay.events():
        if watching.json:
            say_raw_json(ev.encode(event).decode().rstrip("\n"))
        else:
            _print_event(event)
    sys.stdout.flush()
    return 0


def _print_event(event: ev.AnyEvent) -> None:
    """One event as people read it; everything stands on stdout, in order."""
    match event:
        case ev.SessionReady(session=session, turns=turns, note=note):
            say(f"{session} · {turns:,} turns", "bold")
            hint(note)
        case ev.TurnStarted(turn=turn, text=text):
            say(f"\n── turn {turn}", "dim")
            say(f"> {text}", "cyan")
        case ev.EntryAppeared(text=text):
            say(f"> {text}", "cyan")
        case ev.TextDelta(text=text):
            say_piece(text)
        case ev.AnswerRecorded(text=text):
            say() if text else None
        case ev.ToolStarted(name=name, shown=shown):
            say(f"· {one_line(name, 30)}: {one_line(shown, 120)}", "dim")
        case ev.ToolEnded(status=status, finding=finding, text=text):
            say(f"  {status} {one_line(finding or text, 120)}".rstrip(), "dim")
        case ev.RecallInjected(passages=passages, tokens=tokens):
            turns_named = ", ".join(str(each.turn) for each in passages)
            say(f"↩ recalled from turn {turns_named} ({tokens:,} tokens)", "cyan")
        case ev.ModelCalled(call=call, tokens=tokens, model=model):
            say(f"→ call {call}: {tokens:,} tokens to {one_line(model, 40)}", "dim")
        case ev.TurnEnded(ending="done"):
            pass
        case _:
            if told := tell(event):
                style = "yellow" if told.tone in ("warning", "window") else ""
                say(f"{told.sign} {told.what}" + (f" ({told.hint})" if told.hint else ""), style)
