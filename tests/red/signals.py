"""Whatever ends the process, in whatever it does: what was said is on disk, the screen whole."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries.conversation import AssistantPartial, TurnEnded, UserMessage
from mindstone_tui.core.transcript import verify
from tests.builders import places_in, say, transcript_in
from tests.cli.terminal import PLAIN_SCREEN, OnTerminal
from tests.core.session.stage import read
from tests.red import Case, Tried
from tests.red.apart import in_a_child, set_environment

SURFACES = {"app": ("chat",), "run": ("run", "go on"), "lines": ("chat", "--plain")}
PHASES: dict[str, list[dict[str, Any]]] = {
    "while it answers": [{"text": "streamed " * 600, "delay_ms": 60_000}],
    "while a tool runs": [
        {
            "text": "streamed first.",
            "tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}],
        },
        {"text": "streamed " * 600, "delay_ms": 60_000},
    ],
}


def _sent(number: signal.Signals) -> Callable[[OnTerminal], None]:
    return lambda terminal: terminal.process.send_signal(number)


ENDINGS: dict[str, Callable[[OnTerminal], None]] = {
    "SIGHUP": _sent(signal.SIGHUP),
    "SIGTERM": _sent(signal.SIGTERM),
    "SIGINT": _sent(signal.SIGINT),
    "SIGKILL": _sent(signal.SIGKILL),
    "the window closed": OnTerminal.close,
}


def signals(tried: Tried) -> Iterator[Case]:
    """Every surface, in every phase, with every ending."""
    cases = [(s, p, e) for s in SURFACES for p in PHASES for e in ENDINGS]
    for number, (surface, phase, ending) in enumerate(tried.some(cases[:: tried.sized(11, 1)])):
        folder = tried.folder(str(number))

        def tell(
            folder: Path = folder, case: tuple[str, str, str] = (surface, phase, ending)
        ) -> None:
            try:
                print(_ended(folder, *case))
            except BaseException as error:
                print(f"the case itself fell over: {error!r}"[:300])

        told = in_a_child(tell, 200.0)
        problem = told.strip().removesuffix("nothing") if told else "the case itself fell over"
        yield Case(f"{surface}, {phase}: {ending}", problem)


def _ended(folder: Path, surface: str, phase: str, ending: str) -> str:
    home = folder / "home"
    set_environment(home)
    say(transcript_in(home), "hello", "yes")
    (folder / "a.txt").write_text("one line\n")
    script = folder / "script.jsonl"
    script.write_text("".join(json.dumps(each) + "\n" for each in PHASES[phase]))
    terminal = OnTerminal(folder, *SURFACES[surface], "--model", f"scripted/{script}")
    try:
        if surface != "run":
            terminal.until(b"script.jsonl" if surface == "app" else b"> ")
            terminal.type(b"go on\r")
        terminal.until(b"streamed streamed")
        before = len(terminal.seen)
        ENDINGS[ending](terminal)
        if ending == "SIGINT" and surface != "run":
            # The app and the chat go on after an interrupt; a second one asks them to end.
            terminal.process.send_signal(signal.SIGTERM)
        terminal.finish()
    finally:
        terminal.process.kill()
        terminal.close()
    return _problem(home, surface, ending, terminal.seen[before:])


def _problem(home: Path, surface: str, ending: str, after: bytes) -> str:
    places = places_in(home)
    if not verify(places).ok:
        return "the chain is broken"
    entries = [line.entry for line in read(places) if line.turn == 2]
    if not [each for each in entries if isinstance(each, UserMessage) and each.text == "go on"]:
        return "the question is not on disk"
    if ending != "SIGKILL":
        if not [each for each in entries if isinstance(each, AssistantPartial)]:
            return "what was streamed is not on disk"
        if [each.ending for each in entries if isinstance(each, TurnEnded)] != ["interrupted"]:
            return "the turn has no end"
        if surface == "app" and ending != "the window closed" and PLAIN_SCREEN not in after:
            return "the terminal is left on the other screen"
    return "nothing"
