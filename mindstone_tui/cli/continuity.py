"""`mindstone task`, `checkpoint`, `handoff`, `memory`, `health`: the slash commands as verbs.

Each runs the command of the same name in the session, so that there is one implementation and one
record. `--json` prints what the command has for programs.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, NamedTuple

import typer

from mindstone_tui.api import connect
from mindstone_tui.cli import options
from mindstone_tui.cli.output import complain, hint, say, say_json
from mindstone_tui.core import events
from mindstone_tui.core.errors import ExitCode
from mindstone_tui.core.patterns import pattern_of

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ACTION]...", help="Action, as listed above; `show` if omitted."),
]

_BEGINNINGS: Final = frozenset({"/task start", "/memory add"})
"""What may begin a session; everything else is about one that exists."""

_SLASHED: Final = pattern_of(r"(?<![\w/])/(task|checkpoint|handoff|memory|health)\b")


def task(
    words: WordsArgument = None,
    session: options.SessionOption = "",
    json: options.JsonOption = False,
) -> None:
    """Show the task, start one or finish it. Actions: start, done, show.

    `start "TITLE | when: CRITERION | rule: CONSTRAINT"` states what counts as done and what must
    hold. `done` writes the final summary and archives the checkpoint.
    """
    _run("task", words or ["show"], Asked(session=session, json=json))


def checkpoint(
    words: WordsArgument = None,
    session: options.SessionOption = "",
    json: options.JsonOption = False,
) -> None:
    """Show, save or resume the task's checkpoint. Actions: save, show, resume.

    A stale, torn, edited or foreign checkpoint is refused with that word and exit code 1.
    """
    _run("checkpoint", words or ["show"], Asked(session=session, json=json))


def handoff(
    words: WordsArgument = None,
    session: options.SessionOption = "",
    model: options.ModelOption = "",
    context_window: options.WindowOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Show, write or load a handoff. Actions: write, show, use.

    `write prose` lets the model add a marked paragraph; everything else is word for word.
    """
    _run("handoff", words or ["show"], Asked(session, model, context_window, json))


def memory(
    words: WordsArgument = None,
    session: options.SessionOption = "",
    model: options.ModelOption = "",
    context_window: options.WindowOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Show, propose, approve or undo memories.

    Actions: show NAME, add TEXT, approve ID, edit ID TEXT, refuse ID, undo ID, consolidate.

    Nothing is remembered without a person's approval. `consolidate` reads what was said since the
    last time and proposes; `consolidate with model` lets the model propose, too.
    """
    asked = Asked(session, model, context_window, json)
    if words and words[0] == "consolidate":
        _run("consolidate", words[1:], asked)
    else:
        _run("memory", words or [], asked)


def health(
    words: WordsArgument = None,
    session: options.SessionOption = "",
    model: options.ModelOption = "",
    context_window: options.WindowOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Show health metrics, alerts and the trend.

    `prometheus [FILE]` and `otlp [FILE]` export them; `judge` asks the model how much of the
    original the newest summary still holds.
    """
    _run("health", words or [], Asked(session, model, context_window, json))


class Asked(NamedTuple):
    """Of which session, with which model, for whom."""

    session: str = ""
    model: str = ""
    context_window: int = 0
    json: bool = False


def _run(name: str, words: list[str], asked: Asked) -> None:
    line = " ".join([f"/{name}", *words])
    raise typer.Exit(asyncio.run(_command(line, asked)))


async def _command(line: str, asked: Asked) -> int:
    home, key = options.places(), options.session_to_read(asked.session)
    begins = " ".join(line.split()[:2]) in _BEGINNINGS
    if not begins and not home.session(key).transcript.exists():
        raise home.session(key).missing()
    conversation = await connect(
        str(key),
        channel="cli",
        model=asked.model,
        context_window=asked.context_window,
        follow=False,
    )
    conversation.command(line)
    ending = int(ExitCode.FAILED)
    async for event in conversation.events():
        match event:
            case events.CommandPrinted(text=text, ok=True, data=data):
                said = {"text": text} if data is None else data
                say_json(said) if asked.json else say(text)
            case events.CommandPrinted(text=text):
                complain(_at_the_shell(text))
            case events.Noticed(message=message):
                hint(message)
            case events.CommandEnded(exit_code=ending):
                break
            case _:
                pass
    await conversation.close()
    return ending


def _at_the_shell(said: str) -> str:
    """A refusal with the commands it names as they are typed here."""
    return _SLASHED.sub(r"mindstone \1", said)
