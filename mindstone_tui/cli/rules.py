"""`mindstone rules`: what a person settled, and whether a call would break it."""

from pathlib import Path

import typer

from mindstone_tui.cli import options, output, run
from mindstone_tui.core import errors, events
from mindstone_tui.core.features.rules import listed_in, tried, why


def rules(
    words: list[str] | None = typer.Argument(
        None, metavar="[ACTION]...", help="Action, as listed above; `list` if omitted."
    ),
    session: str = options.SESSION,
    json: bool = options.JSON,
    project: bool = typer.Option(False, "--project", help="For every session in this folder."),
    everywhere: bool = typer.Option(False, "--everywhere", help="For every session."),
) -> None:
    """Show the rules you set, set one, or try one.

    Actions: list, add TEXT, retire N, why N, adopt N, check TOOL ARGUMENT, report, replay SESSION.

    A rule stands in every prompt in your words. What can be checked of it is checked before a call
    runs, and refused with your words: after `rules add "Never force push"`, `rules check shell "git
    push -f"` says deny. An edit is tried with its path, or with its arguments as JSON.
    """
    verb, *rest = words or ["list"]
    if verb == "list":
        key = str(options.session_to_read(session))
        _print(listed_in(options.places(), Path.cwd(), key), json)
    elif verb == "why":
        if not (rest and rest[0].isdecimal()):
            raise errors.UsageError(
                "`rules why` needs a rule's number.", "`mindstone rules` lists them."
            )
        _print(why(options.places(), int(rest[0])), json)
    elif verb == "check":
        _check(rest, session, json)
    else:
        scope = ["--everywhere"] if everywhere else ["--project"] if project else []
        run.run_command("rules", [verb, *rest, *(scope if verb == "add" else [])], session, json)


def _check(rest: list[str], session: str, json: bool) -> None:
    if len(rest) < 2:
        raise errors.UsageError(
            "`rules check` needs a tool and its main argument.",
            'For example: mindstone rules check shell "git push -f"',
        )
    key = str(options.session_to_read(session))
    said, data = tried(options.places(), rest[0], " ".join(rest[1:]), Path.cwd(), key)
    output.say_json(data) if json else output.say(said)


def _print(printed: events.CommandPrinted, json: bool) -> None:
    output.say_json(printed.data) if json else output.say_words(printed.text)
