"""`mindstone replay`: what the model really saw, rebuilt from the transcript and proved by hash."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from mindstone_tui.cli.options import JsonOption, places, session_key
from mindstone_tui.cli.output import complain, say, say_json
from mindstone_tui.core.errors import ExitCode, UsageError
from mindstone_tui.core.replay.proof import Rebuilt, prove, rebuilt_calls
from mindstone_tui.core.transcript import History


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("replay")(replay)


def replay(
    session: Annotated[
        str, typer.Argument(help="Which session; the default one if left out.", metavar="[SESSION]")
    ] = "",
    named: Annotated[
        str, typer.Option("--session", "-s", metavar="KEY", help="The same, as an option.")
    ] = "",
    turn: Annotated[int | None, typer.Option(min=1, help="One turn.")] = None,
    call: Annotated[int | None, typer.Option(min=1, help="One model call of the turn.")] = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the exact request.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Every request.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare with the recorded hash.")] = False,
    json: JsonOption = False,
) -> None:
    """Rebuild what was sent to the model, without asking it again and without writing anything.

    --turn N --prompt prints the requests of a turn; --all --check proves every request of the
    session and exits 1 if one cannot be rebuilt.
    """
    key = session_key(named or session)
    with History(places().session(key)) as history:
        if everything:
            _prove(history, json=json)
        elif turn:
            for rebuilt in rebuilt_calls(history, turn, call):
                say_json(rebuilt) if json else _print(rebuilt, whole=prompt)
                if check and rebuilt.matches is False:
                    raise typer.Exit(ExitCode.FAILED)
        else:
            raise UsageError(
                "What should be replayed?",
                "Use --turn N --prompt for one turn, or --all --check for the proof.",
            )


def _prove(history: History, *, json: bool) -> None:
    proof = prove(history)
    if json:
        say_json(
            {
                "session": str(history.places.key),
                "requests": proof.requests,
                "matched": proof.matched,
                "mismatched": proof.mismatched,
                "damaged": proof.damaged,
            }
        )
    else:
        say(f"{proof.matched:,} of {proof.requests:,} requests rebuilt byte for byte")
        for wrong in proof.mismatched:
            complain(f"turn {wrong.turn}, call {wrong.call}: another hash. {wrong.why}".strip())
        if proof.damaged:
            complain(f"{proof.damaged} lines cannot be read.", "`mindstone verify` names them.")
    if proof.mismatched or proof.damaged:
        raise typer.Exit(ExitCode.FAILED)


def _print(rebuilt: Rebuilt, *, whole: bool) -> None:
    state = {True: "matches its hash", False: "DOES NOT MATCH", None: "was imported, never sent"}
    say(
        f"turn {rebuilt.turn}, call {rebuilt.call}: {len(rebuilt.messages)} messages, "
        f"{len(rebuilt.tools)} tools, {rebuilt.tokens:,} tokens; {state[rebuilt.matches]}",
        "bold",
    )
    if whole:
        for message in rebuilt.messages:
            say(f"── {message['role']}", "dim")
            content = message.get("content")
            say(content if isinstance(content, str) else msgspec.json.encode(content).decode())
            for each in message.get("tool_calls", ()):
                say(f"→ {each['function']['name']} {each['function']['arguments']}")
