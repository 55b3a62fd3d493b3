"""`mindstone fix`, `how` and `about`: work that was done before, found again as work."""

import os
from collections.abc import Sequence
from typing import Annotated, TypeVar

import typer

from mindstone_tui.cli import options, recall
from mindstone_tui.cli.output import Progress, hint, say, say_json, say_words
from mindstone_tui.core.config import load
from mindstone_tui.core.entries.provenance import MARK
from mindstone_tui.core.entries.store import NOBODY_KNOWS
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.search import SessionHit
from mindstone_tui.core.library.work import OFTEN, Act, Remedy, Subject, WorkDone
from mindstone_tui.core.numbers import local
from mindstone_tui.core.text import one_line, path_end, plural

Count = Annotated[
    int, typer.Option("-n", "-k", metavar="N", help="Number to show.", min=1, max=100)
]
_WIDE = 160
_T = TypeVar("_T")


def fix(
    error: str = typer.Argument("", help="What the error says."),
    session: str = options.SESSION,
    json: bool = options.JSON,
    k: Count = 5,
) -> None:
    """Show what ended an error before.

    Only where it did not come back. Without an error: those met in three sessions or more.
    """
    with Progress("sessions", quiet=json) as bars:
        work = _work(bars, session)
        if not error.strip():
            often = work.met_often(k)
            if json:
                say_json({"recurring": often})
                return
            if not often:
                say(f"No error was met in {OFTEN} sessions or more.")
            for each in often:
                say(f"{each.sessions} sessions  {one_line(each.last.reason, _WIDE)}", "bold")
                say(f"    last in {each.last.session}", "dim")
                say(f"    {_place(each.last)}", "dim")
            if often:
                hint('What ended one of them: mindstone fix "…"')
            return
        found = work.fixes(error, k)
    none = (
        "No tool printed this error in a session that got past it. What was said or pasted is not "
        "looked at: `mindstone search` finds it there."
    )
    for remedy in _to_print(found, none, {"error": error, "remedies": found}, json=json):
        _print_remedy(remedy)


def how(
    program: Annotated[str, typer.Argument(help="A program, such as make or pytest.")],
    session: str = options.SESSION,
    json: bool = options.JSON,
    k: Count = 10,
) -> None:
    """Show how a program was run here, when it worked. The newest come first."""
    name = _wanted(program, "mindstone how make").rpartition("/")[2]
    with Progress("sessions", quiet=json) as bars:
        found = _work(bars, session).how(name, k)
    none = f"No call ran {name} with success; what ran in the background is not counted."
    above = ""
    for each in _to_print(found, none, {"program": name, "invocations": found}, json=json):
        times = f"  {each.times} times" if each.times > 1 else ""
        above = _under(above, each.last.session, each.last.imported, each.folder)
        say(f"  {one_line(each.last.about, _WIDE)}", "bold")
        say(f"    {_place(each.last, each.last.imported)}{times}", "dim")


def about(
    subject: Annotated[str, typer.Argument(help="A path, or some words.")],
    session: str = options.SESSION,
    json: bool = options.JSON,
    k: Count = 10,
) -> None:
    """Show which sessions worked on a file or a topic. What they changed is told, too."""
    wanted = _wanted(subject, "mindstone about src/app.py")
    with Progress("sessions", quiet=json) as bars:
        found = _work(bars, session).about(wanted, k)
    none = "No session was found that worked on it or speaks of it."
    above = ""
    for each in _to_print(found, none, {"subject": wanted, "exchanges": found}, json=json):
        above = _print_subject(each, above)


def _to_print(found: Sequence[_T], none: str, data: object, *, json: bool) -> Sequence[_T]:
    """What a person is shown one by one; a program has it all, and nothing is told in words."""
    if json:
        say_json(data)
    elif not found:
        say(none)
    return () if json else found


def _work(bars: Progress, session: str) -> WorkDone:
    home = options.places()
    only = options.session_to_read(session) if session else None
    return WorkDone(home, load(home, os.environ).settings, bars.at, only)


def _wanted(text: str, example: str) -> str:
    if not text.strip():
        raise UsageError("Nothing was asked for.", f"For example: {example}")
    return text.strip()


def _print_remedy(remedy: Remedy) -> None:
    error = remedy.error
    recall.say_session(error.session, error.imported, remedy.folder)
    say(f"  {_place(error, error.imported)}", "bold")
    say(f"    {one_line(error.about, _WIDE)}")
    say(f"    {one_line(error.reason, _WIDE)}", "red")
    for step in remedy.steps:
        verb = "ran" if step.kind == "command" else "changed"
        say(f"    then {verb} {one_line(step.about, _WIDE)}{recall.marks(step, error.imported)}")
    if (worked := remedy.worked) is not None:
        say(f"    and it worked, #{worked.seq}{recall.marks(worked, error.imported)}", "green")


def _print_subject(each: Subject, above: str) -> str:
    """Under its session, which is named if it is not the one above; what now stands above."""
    spoke = each.said is not None and each.said.says
    close = "may be close to it" if each.said else "may have changed it"
    what = "worked on it" if each.touched else "spoke of it" if spoke else close
    known: list[Subject | SessionHit] = [each] if each.said is None else [each, each.said]
    source = next((one for it in known for one in it.marks if one.startswith(MARK)), "")
    above = _under(above, each.session, source, each.folder)
    said = dict.fromkeys(mark for it in known for mark in recall.marks(it, source).split("  "))
    place = f"turn {each.turn}  {local(each.ts)[:10]}"
    say("  ".join(("", place, what, *filter(None, said))), "bold")
    if each.said is not None:
        say_words(each.said.excerpt, "    ")
    if each.files:
        say(f"    changed {_listed(each.files, each.folder)}", "dim")
    if each.unsure:
        say(f"    {NOBODY_KNOWS}: {_listed(each.unsure, each.folder)}", "dim")
    return above


def _under(above: str, session: str, source: str, folder: str) -> str:
    """Name a session with its source, unless that is what stands above; returns what stands now."""
    now = f"{session} {source} {folder}"
    if now != above:
        recall.say_session(session, source, folder)
    return now


def _listed(files: Sequence[str], folder: str) -> str:
    inside = [path.removeprefix(f"{folder}/") for path in files[:5]]
    shown = ", ".join(path_end(path, 60) for path in inside)
    return shown if len(files) <= 5 else f"{shown} and {plural(len(files) - 5, 'other')}"


def _place(act: Act, source: str = "") -> str:
    return f"turn {act.turn}  #{act.seq}  {local(act.ts)[:10]}{recall.marks(act, source)}"
