"""`mindstone run`: one turn without a screen, for pipes, scripts and cron.

`task`, `checkpoint`, `handoff`, `memory` and `health` are slash commands as verbs: each runs the
command of the same name in the session, so that there is one implementation and one record.
`--json` prints what the command has for programs.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from mindstone_tui.api import Conversation, connect
from mindstone_tui.cli import line_chat, options, output
from mindstone_tui.cli.options import given, switch
from mindstone_tui.core import events, patterns, signals, transcript
from mindstone_tui.core.errors import ExitCode, MindstoneError, UsageError
from mindstone_tui.core.events.narrate import aside
from mindstone_tui.core.library.open_questions import in_short, waiting_in

Show = Callable[[events.AnyEvent], None]
"""Prints what an event has to say, if anything."""


def run(
    prompt: str = typer.Argument("", help="Message or slash command; `-` or nothing reads stdin."),
    session: str = options.SESSION,
    json: bool = options.JSON,
    model: str = options.MODEL,
    context_window: int = options.WINDOW,
    profile: str = options.PROFILE,
    cwd: Path | None = options.FOLDER,
    approve: str = given("", "MODE", "read-only, ask, auto-edit or full-auto, for this turn."),
    max_rounds: int = given(0, "N", "Most model calls in one turn; 0 uses the setting.", min=0),
    timeout: float = given(0.0, "SECONDS", "Time limit for the turn; 0 for none.", min=0),
    image: list[Path] | None = given(
        None, "FILE", "Picture, sound or text file to attach; repeatable."
    ),
    quiet: bool = switch("--quiet", "Print only the answer.", "-q"),
    reports: bool = switch("--reports", "With --json, print the reports on the window, too."),
    no_wait: bool = switch("--no-wait", "Fail if another MindStone is using this session."),
    decline: bool = switch("--decline", "Decline what a turn of another program waits for."),
) -> None:
    """Take one turn and print the answer.

    With --json, prints one line per event. Exit code 0 done, 1 failed, 2 wrong use,
    3 done but something was declined, 130 interrupted.
    """
    text = _prompt(prompt)
    is_command = text.startswith("/") and "\n" not in text
    show: Show = line_chat.EventPrinter(quiet=quiet, introduce=not is_command, exact=True).show
    if json:
        show = output.say_json if reports else _say_all_but_reports
    opening = connect(
        session,
        channel="run",
        model=model,
        context_window=context_window,
        profile=profile,
        cwd=options.working_folder(cwd),
        approve=approve,
        max_rounds=max_rounds,
        wait=not no_wait,
        follow=False,
    )
    code = asyncio.run(_take(opening, text, image or [], timeout, show, decline))
    if not (json or quiet or is_command):
        _tell_waiting(session)
    raise typer.Exit(code)


def _say_all_but_reports(event: events.AnyEvent) -> None:
    if not isinstance(event, events.ContextReported):
        output.say_json(event)


def _tell_waiting(session: str) -> None:
    """Say on stderr what waits for a decision in the session."""
    home = options.places()
    with contextlib.suppress(MindstoneError, OSError):
        found = waiting_in(home, home.session(options.session_key(session)))
        if told := in_short(found, datetime.now(UTC), "mindstone waiting"):
            output.hint(told)


def _prompt(argument: str) -> str:
    """What to ask: the argument, or all of stdin."""
    if argument.strip() and argument != "-":
        return argument
    if argument != "-" and sys.stdin.isatty():
        raise UsageError("No message given.", 'For example: mindstone run "…"')
    # All of it is the message, but for the end of its last line.
    text = sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n")
    if not text.strip():
        raise UsageError("No message given, and stdin is empty.", 'For example: mindstone run "…"')
    return text


async def _take(
    opening: Awaitable[Conversation],
    prompt: str,
    images: list[Path],
    seconds: float,
    show: Show,
    decline: bool,
) -> int:
    """Open the session, take the turn, close it, and show everything on the way."""
    conversation = await opening
    signals.on_ending(conversation.interrupt)
    outcome = asyncio.create_task(_listen(conversation, show, decline))
    try:
        if prompt.startswith("/") and "\n" not in prompt:
            conversation.command(prompt, seen=-1.0)  # nothing was in view
        else:
            conversation.send(prompt, attachments=[events.Attachment(path=path) for path in images])
        done, _ = await asyncio.wait({outcome}, timeout=seconds or None)
        if not done:
            why = f"The turn took longer than {seconds:g} seconds."
            output.complain(why, "Raise --timeout to allow more.")
            conversation.interrupt(why)
            await outcome
            return ExitCode.FAILED
        return outcome.result()
    finally:
        # Two readers would share the events, and one of them would wait for an end the other saw.
        outcome.cancel()
        await conversation.close()
        async for event in conversation.events():
            _show_trouble(event)


def _show_trouble(event: events.AnyEvent) -> None:
    """Report on stderr what went wrong after the turn was over, whatever else is printed."""
    line = aside(event)
    noticed = isinstance(event, events.Noticed)
    if line is not None and (line.tone == "error" or (noticed and line.tone == "warning")):
        output.complain(line.text, line.detail)


async def _listen(conversation: Conversation, show: Show, decline: bool) -> int:
    """Show events until the turn or the command is over, or nobody reads any more."""
    async for event in conversation.events():
        try:
            show(event)
        except SystemExit:  # a task that raises this would end the loop before the session
            return output.PIPE_CLOSED
        match event:
            case events.Noticed(waits_for=call) if call and decline:
                conversation.answer(call, events.Answer(allowed=False, how="--decline"))
            case events.TurnEnded(ending="done", declined=declined):
                return ExitCode.DECLINED if declined else ExitCode.DONE
            case events.TurnEnded(ending="interrupted"):
                return ExitCode.INTERRUPTED
            case events.TurnEnded():
                return ExitCode.FAILED
            case events.CommandEnded(exit_code=code):
                return code
    return ExitCode.FAILED


WORDS = typer.Argument(
    None, metavar="[ACTION]...", help="Action, as listed above; `show` if omitted."
)

_BEGINNINGS: Final = frozenset({"/task start", "/memory add", "/rules add"})
"""What may begin a session; everything else is about one that exists."""

_SLASHED: Final = patterns.pattern_of(r"(?<![\w/])/(task|checkpoint|handoff|memory|health|rules)\b")
"""Commands that a refusal names, which are typed without a slash here."""


def task(
    words: list[str] | None = WORDS, session: str = options.SESSION, json: bool = options.JSON
) -> None:
    """Show the task, start one or finish it. Actions: start, done, show.

    `start "TITLE | when: CRITERION | rule: CONSTRAINT"` states what counts as done and what must
    hold. `done` writes the final summary and archives the checkpoint.
    """
    run_command("task", words or ["show"], session, json)


def checkpoint(
    words: list[str] | None = WORDS, session: str = options.SESSION, json: bool = options.JSON
) -> None:
    """Show, save or resume the task's checkpoint. Actions: save, show, resume.

    A stale, torn, edited or foreign checkpoint is refused with that word and exit code 1.
    """
    run_command("checkpoint", words or ["show"], session, json)


def handoff(
    words: list[str] | None = WORDS,
    session: str = options.SESSION,
    model: str = options.MODEL,
    context_window: int = options.WINDOW,
    json: bool = options.JSON,
) -> None:
    """Show, write or use a handoff. Actions: write, show, use.

    `write prose` lets the model add a marked paragraph; everything else is word for word.
    """
    run_command("handoff", words or ["show"], session, json, model, context_window)


def memory(
    words: list[str] | None = WORDS,
    session: str = options.SESSION,
    model: str = options.MODEL,
    context_window: int = options.WINDOW,
    json: bool = options.JSON,
) -> None:
    """Show, propose, approve or undo memories.

    Actions: show NAME, add TEXT, approve ID, edit ID TEXT, refuse ID, undo ID, consolidate.

    Nothing is remembered without a person's approval. `consolidate` reads what was said since the
    last time and proposes; `consolidate with model` lets the model propose, too.
    """
    words = words or []
    name = "consolidate" if words[:1] == ["consolidate"] else "memory"
    given = words[1:] if name == "consolidate" else words
    run_command(name, given, session, json, model, context_window)


def health(
    words: list[str] | None = WORDS,
    session: str = options.SESSION,
    model: str = options.MODEL,
    context_window: int = options.WINDOW,
    json: bool = options.JSON,
    of_compactions: bool = typer.Option(
        False, "--compactions", help="What each program's compactions kept, in all sessions."
    ),
) -> None:
    """Show health metrics, alerts and the trend.

    `prometheus [FILE]` and `otlp [FILE]` export them; `judge` asks the model how much of the
    original the newest summary still holds.
    """
    if of_compactions:
        # 45 ms, which no other verb of this module needs.
        from mindstone_tui.core.library.compactions import compactions

        text, programs = compactions(options.places())
        output.say_json({"programs": programs}) if json else output.say_words(text)
    else:
        from mindstone_tui.core.library import read_only  # 0.1 s, and only for this

        where = options.places().session(options.session_to_read(session))
        if not context_window and where.transcript.exists():
            with transcript.History(where) as history:
                context_window = read_only.newest_window(history)
        run_command("health", words or [], str(where.key), json, model, context_window)


def run_command(
    name: str, words: list[str], session: str, json: bool, model: str = "", context_window: int = 0
) -> None:
    """Run a slash command in a session, and end with its exit code."""
    line = " ".join([f"/{name}", *words])
    begins = " ".join(line.split()[:2]) in _BEGINNINGS
    named = options.session_key(session) if begins else options.session_to_read(session)
    where = options.places().session(named)
    if not begins and not where.transcript.exists():
        raise where.missing()
    opening = connect(
        str(where.key), channel="cli", model=model, context_window=context_window, follow=False
    )
    raise typer.Exit(asyncio.run(_command(opening, line, json=json)))


async def _command(opening: Awaitable[Conversation], line: str, *, json: bool) -> int:
    conversation = await opening
    typed = " ".join(line.removeprefix("/").split()[:2])
    conversation.command(line, how=f"typed mindstone {typed}", seen=-1.0)
    ending = int(ExitCode.FAILED)
    async for event in conversation.events():
        match event:
            case events.CommandPrinted(text=text, ok=True, data=data):
                said = {"text": text} if data is None else data
                output.say_json(said) if json else output.say_words(text)
            case events.CommandPrinted(text=text):
                output.complain(_SLASHED.sub(r"mindstone \1", text))
            case events.Noticed(message=message):
                output.hint(message)
            case events.CommandEnded(exit_code=ending):
                break
    await conversation.close()
    async for event in conversation.events():
        _show_trouble(event)
    return ending
