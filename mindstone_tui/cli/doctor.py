"""`mindstone doctor`: whether everything here can do what it should, and what to do if not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import typer

from mindstone_tui import __version__
from mindstone_tui.cli.options import JsonOption, SessionOption, places, session_key
from mindstone_tui.cli.output import say, say_json
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.doctor import Check, CheckEnvironment, passed, refused
from mindstone_tui.core.doctor.engines import plugin_states
from mindstone_tui.core.errors import ExitCode, MindstoneError
from mindstone_tui.core.paths import DEFAULT_SESSION

ROOMS: Final = (
    "mindstone_tui.core.doctor.home:home",
    "mindstone_tui.core.doctor.engines:engines",
    "mindstone_tui.core.doctor.home:continuity",
    "mindstone_tui.core.doctor.home:history_server",
)
"""Functions `(CheckEnvironment) -> Iterable[Check]`, in the order in which they are shown."""

_SIGNS: Final = {"pass": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def doctor(session: SessionOption = "", json: JsonOption = False) -> None:
    """Check this installation. Exits with 1 if a check fails."""
    found: list[Check] = []
    for check in _examine(session):
        found.append(check)
        if not json:
            _print(check)
    worst = [check for check in found if check.outcome == "fail"]
    if json:
        say_json({"version": __version__, "ok": not worst, "checks": found})
    else:
        warnings = sum(check.outcome == "warn" for check in found)
        say(f"\n{len(found)} checks: {len(worst)} failed, {warnings} to look at.")
    if worst:
        raise typer.Exit(ExitCode.FAILED)


def _examine(session: str) -> Iterator[Check]:
    settings, key = Settings(), DEFAULT_SESSION
    try:
        settings = load(places(), os.environ).settings
        key = session_key(session)
        yield passed("config", "The settings are valid.")
    except MindstoneError as error:
        yield refused("config", error)
    around = CheckEnvironment(places(), os.environ, settings, key)
    for room in ROOMS:
        module, _, function = room.partition(":")
        try:
            yield from getattr(import_module(module), function)(around)
        except MindstoneError as error:
            yield refused(function, error)


def _print(check: Check) -> None:
    sign, colour = _SIGNS[check.outcome]
    say(f"{sign} {check.id:<20} {check.detail}", colour if check.outcome != "pass" else "")
    if check.remedy:
        say(f"  {'':<20} → {check.remedy}")


def plugins(json: JsonOption = False) -> None:
    """List what installed packages add to MindStone.

    Formats to import, providers of models, and features with their tools and commands. What cannot
    be used is named with its reason; everything else goes on without it.
    """
    rows = [
        {
            "name": each.plugin.name,
            "brings": each.plugin.group.removeprefix("mindstone."),
            "package": each.plugin.package,
            "version": each.plugin.version,
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
