"""`mindstone models`: who can answer now, why others cannot, and how to add one."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import typer

from mindstone_tui.cli.options import JsonOption, places
from mindstone_tui.cli.output import ProgressBars, hint, say, say_json, table
from mindstone_tui.core.config import load
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.session.model_list import (
    Availability,
    fetch_model,
    fetched,
    list_models,
    store_key,
)

models_app = typer.Typer(help="List models and add new ones.", no_args_is_help=False)


def register(app: typer.Typer) -> None:
    """Add the verb with its own verbs."""
    app.add_typer(models_app, name="models")


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context, json: JsonOption = False) -> None:
    """List available models, and why others are unavailable.

    Local servers are only looked for on this machine.
    """
    if context.invoked_subcommand is not None:
        return
    home = places()
    found = asyncio.run(list_models(home, load(home, os.environ).settings, os.environ))
    if json:
        say_json(found)
        return
    table(
        ("", "model", "window", ""),
        [_row(each) for each in sorted(found, key=lambda each: not each.usable)],
    )
    hint("* is the default. To change it: mindstone config set models.default NAME")
    hint("To store an API key: mindstone models key PROVIDER")


@models_app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="smollm2, the small model that runs offline.")],
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Print nothing if it is already installed.")
    ] = False,
) -> None:
    """Download a model that runs on this machine. Its hash is checked."""
    home = places()
    full, path = fetched(home, name)
    if path is not None:
        if not if_missing:
            say(f"{full} is installed: {path}")
        return
    with ProgressBars() as bars:
        path = asyncio.run(fetch_model(home, os.environ, bars))
    say(f"{full} is ready: {path}")


@models_app.command("key")
def key(
    provider: Annotated[str, typer.Argument(help="Provider: openai, anthropic, …")],
) -> None:
    """Store an API key, read from stdin.

    That keeps it out of your shell history. Only you can read the file. The key is sent to that
    provider and nowhere else.
    """
    if sys.stdin.isatty():
        secret = typer.prompt(f"Key for {provider}", hide_input=True)
    else:
        secret = sys.stdin.readline()
    if not secret.strip():
        raise UsageError("No key given.", "Pipe it in, or type it when asked.")
    file = store_key(places(), provider, secret.strip())
    say(f"The key for {provider} is stored in {file}.")


def _row(each: Availability) -> tuple[str, str, str, str]:
    sign = "*" if each.default else "" if each.usable else "–"
    window = f"{each.window:,}" if each.window else "unknown"
    return sign, each.name, window if each.usable else "", each.why
