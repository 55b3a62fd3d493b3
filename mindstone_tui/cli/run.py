"""`mindstone run`: one turn without a screen, for pipes, scripts and cron."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
import typer

from mindstone_tui.cli.options import JsonOption, ProfileOption, SessionOption, places, session_key
from mindstone_tui.cli.output import PIPE_CLOSED, complain, hint, say, say_piece, say_raw_json
from mindstone_tui.core import events
from mindstone_tui.core.errors import ExitCode, UsageError
from mindstone_tui.core.text import one_line, plural

if TYPE_CHECKING:
    from mindstone_tui.core.session.build import Opening
    from mindstone_tui.core.session.session import Session


ModelOption = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME", help="Who answers, for now.")
]
WindowOption = Annotated[
    int,
    typer.Option(
        "--context-window", metavar="TOKENS", min=0, help="The model's window; 0 for what is known."
    ),
]

FolderOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where the tools work; here if left out.")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run)


def run(
    prompt: Annotated[
        str, typer.Argument(help="What to ask, or a slash command; `-` or nothing reads stdin.")
    ] = "",
    session: SessionOption = "",
    json: JsonOption = False,
    model: ModelOption = "",
    context_window: WindowOption = 0,
    profile: ProfileOption = "",
    cwd: FolderOption = None,
    approve: Annotated[
        str,
        typer.Option(metavar="MODE", help="read-only, ask, auto-edit or full-auto, for this turn."),
    ] = "",
    max_rounds: Annotated[
        int, typer.Option(metavar="N", min=0, help="Model calls in one turn; 0 takes the setting.")
    ] = 0,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="How long the turn may take; 0 for no limit."),
    ] = 0.0,
    image: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A picture; repeatable.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer.")] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Refuse when another program takes a turn.")
    ] = False,
) -> None:
    """Take one turn and print the answer.

    With --json every event is one line, as it happens. Exit code 0 done, 1 failed, 2 wrong use,
    130 interrupted.
    """
    # Deferred, here and below: help does not wait for the rooms behind a session.
    from mindstone_tui.core.session.build import Opening

    opening = Opening(
        key=session_key(session),
        places=places(),
        environ=dict(os.environ),
        channel="run",
        model=model,
        context_window=context_window,
        profile=profile,
        cwd=working_folder(cwd),
        approve=approve,
        max_rounds=max_rounds,
        wait=not no_wait,
        asks=False,
        follow=False,
    )
    text = _prompt(prompt)
    is_command = text.startswith("/") and "\n" not in text
    show: _Show = _Events() if json else _Words(quiet=quiet, introduce=not is_command)
    ending = asyncio.run(_take(opening, text, image or [], timeout, show))
    raise typer.Exit(ending)


def working_folder(named: Path | None) -> Path:
    """The folder the tools work in."""
    folder = (named or Path.cwd()).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", "Name one that exists with --cwd.")
    return folder


def _prompt(argument: str) -> str:
    """What to ask: the argument, or all of stdin."""
    if argument.strip() and argument != "-":
        return argument
    if argument != "-" and sys.stdin.isatty():
        raise UsageError("There is nothing to ask.", 'Write it: mindstone run "…"')
    text = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    if not text:
        raise UsageError(
            "There is nothing to ask: neither words nor stdin.", 'Write it: mindstone run "…"'
        )
    return text


async def _take(
    opening: Opening, prompt: str, images: list[Path], seconds: float, show: _Show
) -> int:
    """Open the session, take the turn, close it, and show everything on the way."""
    from mindstone_tui.core.session.build import open_session

    conversation = await open_session(opening)
    _interrupt_on_signals(conversation)
    outcome = asyncio.create_task(_listen(conversation, show))
    try:
        if prompt.startswith("/") and "\n" not in prompt:
            conversation.command(prompt)
        else:
            attachments = [events.Attachment(path=path) for path in images]
            conversation.send(prompt, attachments=attachments)
        done, _ = await asyncio.wait({outcome}, timeout=seconds or None)
        if not done:
            why = f"The turn took longer than {seconds:g} seconds."
            complain(why, "Raise --timeout.")
            conversation.interrupt(why)
            await outcome
            return ExitCode.FAILED
        return outcome.result()
    finally:
        await conversation.close()
        async for event in conversation.events():
            _show_trouble(event)


def _show_trouble(event: events.AnyEvent) -> None:
    """What went wrong after the turn was over is said on stderr, whatever else is printed."""
    match event:
        case events.NotSaved(what=what, remedy=remedy):
            complain(what, remedy)
        case events.Noticed(message=message, level="error"):
            complain(message)
        case _:
            pass


async def _listen(conversation: Session, show: _Show) -> int:
    """Show events until the turn or the command is over, or nobody reads any more."""
    async for event in conversation.events():
        try:
            show.event(event)
        except SystemExit:  # a task that raises this would end the loop before the session
            return PIPE_CLOSED
        match event:
            case events.TurnEnded(ending="done"):
                return ExitCode.DONE
            case events.TurnEnded(ending="interrupted"):
                return ExitCode.INTERRUPTED
            case events.TurnEnded():
                return ExitCode.FAILED
            case events.CommandEnded(exit_code=code):
                return code
            case _:
                pass
    return ExitCode.FAILED


def _interrupt_on_signals(conversation: Session) -> None:
    """The first signal interrupts the turn; a second one ends the program."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):

        def stop(number: int = number) -> None:
            loop.remove_signal_handler(number)
            conversation.interrupt()

        loop.add_signal_handler(number, stop)


class _Show(Protocol):
    def event(self, event: events.AnyEvent) -> None:
        """Print what this event has to say, if anything."""
        ...


class _Events:
    """Every event as one line of JSON."""

    def event(self, event: events.AnyEvent) -> None:
        say_raw_json(msgspec.json.encode(event).decode())


class _Words:
    """The answer on stdout, what happens around it on stderr."""

    def __init__(self, *, quiet: bool, introduce: bool) -> None:
        self._quiet = quiet
        self._introduce = introduce
        self._open_line = False

    def event(self, event: events.AnyEvent) -> None:
        match event:
            case events.TextDelta(text=text):
                say_piece(text)
                self._open_line = not text.endswith("\n")
            case events.AnswerRecorded():
                self._end_line()
            case events.CommandPrinted(text=text, ok=ok):
                say(text) if ok else complain(text)
            case events.ScreenAsked(otherwise=text):
                say(text)
            case events.TurnEnded(ending="failed", why=why, remedy=remedy):
                self._end_line()
                complain(why, remedy)
            case events.TurnEnded(ending="interrupted"):
                self._end_line()
                hint("Interrupted.")
            case _ if not self._quiet:
                self._aside(event)
            case _:
                pass

    def _end_line(self) -> None:
        if self._open_line:
            say_piece("\n")
            self._open_line = False

    def _aside(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.SessionReady) and not self._introduce:
            return
        if text := aside(event):
            self._end_line()
            hint(text)


def aside(event: events.AnyEvent) -> str:
    """One line about something that happens around the answer; empty for what is not worth one."""
    match event:
        case events.SessionReady(note=note) if note:
            return note
        case events.ToolStarted(shown=shown):
            return f"→ {one_line(shown, 160)}"
        case events.ToolEnded(status=status, finding=finding, name=name):
            mark = "✓" if status == "ok" else "✗"
            return f"{mark} {name}: {one_line(finding, 160)}"
        case events.RecallInjected(passages=passages, tokens=tokens):
            places = ", ".join(f"turn {each.turn}" for each in passages)
            return f"recalled {plural(len(passages), 'passage')} ({tokens} tokens) from {places}"
        case events.WindowPruned(left=left, tokens_before=before, tokens_after=after):
            gone = plural(sum(each.exchanges for each in left), "exchange")
            return f"{gone} left the window: {before:,} → {after:,} tokens, all indexed"
        case events.SummaryDerived(tokens_before=before, tokens_after=after, fallback=fallback):
            what = "sentences of them stand" if fallback else "a labelled summary stands"
            return f"{what} for older messages: {before:,} → {after:,} tokens; the originals stay"
        case events.WindowChanged(kind="head_shortened" | "window_repaired", detail=detail):
            return detail
        case events.PruneBlocked(detail=detail):
            return f"nothing could leave the window: {detail}"
        case events.ShareCrossed(component="tool_results", after="hard") as share:
            return f"tool results are over their share: {share.tokens:,} of {share.limit:,} tokens"
        case events.ResultsTrimmed(results=results, tokens_before=before, tokens_after=after):
            gone = plural(len(results), "tool result")
            return f"{gone} trimmed: {before:,} → {after:,} tokens, whole in history"
        case events.ZoneChanged(after=zone, utilization=utilization):
            return f"the window is in the {zone} zone ({utilization:.0%} full)"
        case events.AlertRaised(message=message, remedy=remedy):
            return f"{message} {remedy}".strip()
        case events.InstructionOffered(text=text):
            return f"that sounds like a lasting rule; `/pin` keeps it: {one_line(text, 120)}"
        case events.ModelRetried(why=why, wait=wait):
            return f"trying again in {wait:g} s: {why}"
        case events.NotSaved(what=what, remedy=remedy):
            return f"{what} {remedy}"
        case events.Noticed(message=message):
            return message
        case _:
            return ""
