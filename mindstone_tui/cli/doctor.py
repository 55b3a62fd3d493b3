"""`mindstone doctor`: whether everything here can do what it should, and what to do if not."""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import typer

from mindstone_tui import __version__
from mindstone_tui.cli.options import JSON, SESSION, places, session_key
from mindstone_tui.cli.output import in_lines, say, say_exactly, say_json, styled
from mindstone_tui.core import errors, paths
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.doctor import Check, CheckEnvironment, passed, refused
from mindstone_tui.core.doctor.engines import plugin_states
from mindstone_tui.core.values import picked

ROOMS: Final = {
    "mindstone_tui.core.doctor.home:home": "Files",
    "mindstone_tui.core.doctor.engines:engines": "What works inside",
    "mindstone_tui.core.doctor.home:continuity": "Memory",
    "mindstone_tui.core.doctor.home:history_server": "Shared history",
}
"""Functions `(CheckEnvironment) -> Iterable[Check]`, in the order in which they are shown, each
with the heading that a person sees above its checks."""

_SIGNS: Final = {"pass": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def doctor(session: str = SESSION, json: bool = JSON) -> None:
    """Check this installation. Exits with 1 if a check fails."""
    found: list[Check] = []
    shown = ""
    for heading, check in _examine(session):
        found.append(check)
        if not json:
            if sys.stdout.isatty() and heading != shown:
                shown = heading
                say(f"\n{heading}", "bold")
            _print(check)
    worst = [check for check in found if check.outcome == "fail"]
    if json:
        say_json({"version": __version__, "ok": not worst, "checks": found})
    else:
        warnings = sum(check.outcome == "warn" for check in found)
        told = f"\n{len(found)} checks: {len(worst)} failed, {warnings} to look at."
        say(told, "red" if worst else "yellow" if warnings else "green")
    if worst:
        raise typer.Exit(errors.ExitCode.FAILED)


def _examine(session: str) -> Iterator[tuple[str, Check]]:
    """Every check under its heading."""
    settings, key, own = Settings(), paths.DEFAULT_SESSION, next(iter(ROOMS.values()))
    try:
        settings = load(places(), os.environ).settings
        key = session_key(session, begun=True)
        yield own, passed("config", "The settings are valid.")
    except errors.MindstoneError as error:
        yield own, refused("config", error)
    around = CheckEnvironment(places(), os.environ, settings, key)
    for room, heading in ROOMS.items():
        module, _, function = room.partition(":")
        try:
            for check in getattr(import_module(module), function)(around):
                yield heading, check
        except errors.MindstoneError as error:
            yield heading, refused(function, error)


def _print(check: Check) -> None:
    sign, colour = _SIGNS[check.outcome]
    say_exactly(f"{styled(sign, colour)} {styled(f'{check.id:<20}', 'dim')} ")
    behind = f"\n{'':<23}"
    say(behind.join(in_lines(check.detail, 23)), colour if check.outcome != "pass" else "")
    if check.remedy:
        say(f"  {'':<20} → {f'{behind}  '.join(in_lines(check.remedy, 25))}")


def plugins(json: bool = JSON) -> None:
    """List what installed packages add to MindStone.

    Formats to import, providers of models, and features with their tools and commands. What cannot
    be used is named with its reason; everything else goes on without it.
    """
    rows = [
        {
            "name": each.plugin.name,
            "brings": each.plugin.group.removeprefix("mindstone."),
            **picked(each.plugin, "package version"),
            "state": "left out" if each.why else "in use",
            "why": each.why,
        }
        for each in plugin_states()
    ]
    if json:
        say_json({"plugins": rows})
    elif not rows:
        say("No installed package brings anything. docs/plugins.md says how one does.")
    for row in [] if json else rows:
        package = f"{row['package']} {row['version']}"
        say(f"{row['name']:<20} {row['brings']:<10} {package:<28} {row['state']}")
        if row["why"]:
            say(f"  → {row['why']}")
