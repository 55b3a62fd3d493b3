"""Runs the program in this process, in a home of its own, and says what is being looked at."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mindstone_tui.cli.main import run
from mindstone_tui.core.paths import Places, SessionKey

LABELS = ("●", "✓", "✗")
_STEPS = "▁▂▃▄▅▆▇█"


class Failed(AssertionError):
    """Something was not as it should be."""


class Show:
    """One smoke run: tells what it does, and stops at the first thing that is wrong."""

    def __init__(self, title: str, home: Path, tell: Callable[[str], None] = print) -> None:
        self.home = home
        self._tell = tell
        tell(f"\n━━ {title}")

    def say(self, text: str) -> None:
        self._tell(f"   {text}")

    def check(self, what: str, holds: bool) -> None:
        self._tell(f" {'✓' if holds else '✗'} {what}")
        if not holds:
            raise Failed(what)

    def run(self, *arguments: str, stdin: str = "") -> str:
        """What the command prints; it must end well."""
        code, out, err = self.attempt(*arguments, stdin=stdin)
        if code:
            raise Failed(f"mindstone {' '.join(arguments)} ended with {code}: {err.strip()}")
        return out

    def attempt(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        out, err, before = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.StringIO(stdin)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(arguments)
        finally:
            sys.stdin = before
        return code, out.getvalue(), err.getvalue()

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def script(self, name: str, replies: Iterable[Mapping[str, Any]]) -> str:
        """A scripted model that says these things."""
        path = self.home.parent / f"{name}.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted/{path}"

    def transcript(self, key: str = "agent:default:main") -> bytes:
        places = Places.resolve({"MINDSTONE_HOME": str(self.home)})
        return places.session(SessionKey.parse(key)).transcript.read_bytes()

    def gauge(self, report: Mapping[str, Any]) -> None:
        """One line of the window's state."""
        share = float(report["utilization"])
        cells = round(min(share, 1.0) * 40)
        bar = "█" * cells + "░" * (40 - cells)
        self.say(
            f"turn {report['turn']:>2}  {bar} {share:6.1%}  {report['zone']:6} "
            f"{report['prompt']['tokens']:,} of {report['usable']:,} tokens, "
            f"{report['outside']['exchanges']} outside"
        )
