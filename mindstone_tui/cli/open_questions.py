"""`mindstone waiting`: whatever waits for a person, in any session, and its answer from here."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import Final

import typer

from mindstone_tui.api import connect
from mindstone_tui.cli import line_chat, options, output
from mindstone_tui.cli.typed_lines import TypedLines
from mindstone_tui.core import events
from mindstone_tui.core.errors import ExitCode, UsageError
from mindstone_tui.core.library.open_questions import OpenQuestion, WaitingRoom
from mindstone_tui.core.paths import is_folder
from mindstone_tui.core.text import as_exact, one_line

_CHANNEL: Final = "waiting"
_IN_SENTENCE: Final = 100
"""Characters of a command that the sentence about it surely holds."""


def waiting(
    words: list[str] | None = typer.Argument(
        None, metavar="[answer N yes|no]", help="Answer the question with that number."
    ),
    why: str = options.given("", "TEXT", "With a no: what the model is told.", "--why"),
    json: bool = options.JSON,
) -> None:
    """List what waits for a decision, and answer it.

    Approvals, plans, memories and trust in folders wait. `answer N no` declines, from anywhere.
    `answer N yes` allows it, once: it shows exactly what was asked and wants the word written in
    full, on a terminal.
    """
    found = WaitingRoom(options.places()).look()
    if words:
        question, allowed = _meant(words, found)
        if why and allowed:
            raise UsageError("A reason goes with a no.", "Leave --why out, or answer no.")
        raise typer.Exit(asyncio.run(_decide(question, allowed, " ".join(why.split()))))
    if json:
        output.say_json({"waiting": found})
    elif not found:
        output.hint("Nothing waits for a decision.")
    for each in [] if json else found:
        output.say(f"{each.number}  {each.sentence(datetime.now(UTC))}", "bold")
        output.say(f"   {each.session}, turn {each.turn}" + (f" · {each.why}" if each.why else ""))
        in_full = each.risk == "run" and len(each.what) > _IN_SENTENCE
        for line in as_exact(each.what).splitlines() if in_full else ():
            output.say(f"   {line}")
        output.say(f"   {each.how()}")


def _meant(words: list[str], found: list[OpenQuestion]) -> tuple[OpenQuestion, bool]:
    """Which question is answered, and how."""
    match words:
        case ["answer", number, ("yes" | "no") as word]:
            named = [each for each in found if number in (str(each.number), each.call)]
            if not named:
                raise UsageError(
                    f"Nothing waits with the number {one_line(number, 40)}.",
                    "`mindstone waiting` lists what does.",
                )
            question = named[0]
        case _:
            raise UsageError(
                f"`{one_line(' '.join(words), 60)}` is no answer.",
                "For example: mindstone waiting answer 1 no",
            )
    if word == "yes" and question.gone:
        raise UsageError(question.sentence(datetime.now(UTC)), question.remedy)
    if word == "yes" and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "A yes is for somebody who saw the question.",
            "Give it on a terminal; `no` declines it from anywhere.",
        )
    return question, word == "yes"


def _folder_of(question: OpenQuestion, *, allowed: bool) -> str | None:
    """Where its session is opened: there a yes begins what it was given for, and nowhere else."""
    if is_folder(question.folder):
        return question.folder
    if not allowed:
        return None
    raise UsageError(
        f"{question.folder or 'The folder in which it was asked'} is not there any more.",
        f"`mindstone chat -s {question.session}` goes on with the session where you are.",
    )


async def _decide(question: OpenQuestion, allowed: bool, why: str) -> int:
    """Decide it in its session, a yes after everything was shown; what became of it."""
    is_approval, folder = question.kind == "approval", _folder_of(question, allowed=allowed)
    # Typed into a shell: nothing came into view here.
    given = events.Answer(allowed=False, how="typed waiting answer no", seen=-1.0)
    typed = TypedLines()
    if allowed and not is_approval:
        decided = await _agreed(question, typed)
        if decided is None:
            output.hint("Nothing was decided: it waits on.")
            return ExitCode.DECLINED
        given, allowed, why = decided, decided.allowed, decided.why
    # The work of a plan that begins may ask as well. Nobody here waits for a turn of another
    # program, which may wait for a person itself: what cannot be done now is told.
    talk = await connect(
        question.session, channel=_CHANNEL, asks=allowed, wait=False, follow=allowed, cwd=folder
    )
    chat = line_chat.LineChat(
        talk, typed.read, interactive=allowed, typed=typed, settled=talk.settled
    )
    if allowed and is_approval:  # shown there, as any question of another surface
        still = {each.mark for each in WaitingRoom(options.places()).look()}
        if question.mark not in still:  # the answer to it came before anybody here listened
            return await chat.run(only=f"/answer {question.mark}")
        return await chat.run(until=(question.call, question.since))
    only = f"{question.command(yes=allowed)} {why}".strip()
    return await chat.run(only=only, how=given.how, seen=given.seen)


async def _agreed(question: OpenQuestion, typed: TypedLines) -> events.Answer | None:
    """Show what is no question about a tool, and take the first whole word that is entered.

    None where the input ends before one is.
    """
    given: list[events.Answer] = []
    questions = line_chat.LineQuestions(lambda call, answer: given.append(answer), typed=typed)
    questions.kept = ""
    questions.ask(question.as_asked(datetime.now(UTC)))
    while not given and (line := await typed.read()):
        questions.take(line)
    return given[0] if given else None
