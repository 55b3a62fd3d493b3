"""`mindstone plugins`: what installed packages bring, and why something is left out."""

from __future__ import annotations

import typer

from mindstone_tui.cli.options import JsonOption
from mindstone_tui.cli.output import say, say_json
from mindstone_tui.core.doctor.engines import plugin_states


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("plugins")(plugins)


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
