"""`mindstone config`: which settings hold, where each comes from, and how to change one."""

import os
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from mindstone_tui.cli.options import JSON, PROFILE, places, switch
from mindstone_tui.cli.output import hint, say, say_json
from mindstone_tui.core import config, disk, errors, redaction
from mindstone_tui.core.config.edit import sections, toml_value

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="Setting, such as context.ceiling.")
]

_NEW_FILE = """\
# MindStone's settings. `mindstone config explain` says what there is; what is not set here has
# its default.
"""


config_app = typer.Typer(
    help="Show and change settings.", no_args_is_help=True, rich_markup_mode=None
)


@config_app.command("show")
def show(
    json: bool = JSON,
    profile: str = PROFILE,
    changed: bool = switch("--changed", "Only settings that differ from the default."),
) -> None:
    """Print every setting with its value and its source."""
    loaded = _load(profile)
    wanted = {
        key: source
        for key, source in loaded.sources.items()
        if not changed or source.rank != "default"
    }
    if json:
        values = {
            key: {"value": _value(loaded, key), "source": source.rank, "where": source.where}
            for key, source in wanted.items()
        }
        say_json({"settings": values, "ignored": loaded.ignored})
        return
    _print_settings(loaded, wanted)
    for item in loaded.ignored:
        hint(f"ignored: {item.file}: {item.why}")


@config_app.command("path")
def path(json: bool = JSON) -> None:
    """Print the files that settings are read from."""
    file = places().config_file
    if json:
        say_json({"config": str(file), "exists": file.exists(), "profiles": str(places().profiles)})
    else:
        say(str(file))


@config_app.command("set", context_settings={"ignore_unknown_options": True})
def set_key(
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="Value as TOML; text needs no quotes.")
    ],
) -> None:
    """Set one key in your config file. Comments stay; invalid values are refused."""
    plain = value.strip('"').strip("'")
    if key in ("models.base_url", "models.default"):
        from mindstone_tui.core.library import model_list  # 138 ms

        if key == "models.base_url":
            model_list.check_address(plain)
        elif "/" in plain:
            model_list.resolve(plain, _load("").settings.models, places(), os.environ)
    if key == "tui.theme":
        _check_theme(plain)
    file = config.store(places(), key, value)
    hint(f"{key} is set in {file}.")


def _check_theme(name: str) -> None:
    """Refuse a theme that the app would not find."""
    from textual.theme import BUILTIN_THEMES

    from mindstone_tui.tui import themes  # 190 ms, Textual with it

    found = themes.find_named(name, themes.shipped(), places().themes)
    if name not in found.themes and name not in BUILTIN_THEMES:
        known = ", ".join(sorted(found.themes))
        raise errors.UnknownName(themes.why_not(name, found), f"Those there are: {known}.")


@config_app.command("explain")
def explain(key: str = typer.Argument("", metavar="[KEY]"), json: bool = JSON) -> None:
    """Explain a setting: what it does, its values, its current value. Without a key, all."""
    chosen = [config.key_named(key)] if key and key not in sections() else _of_section(key)
    loaded = _load("")
    if json:
        told = [
            {
                "key": item.name,
                "text": item.text,
                "type": item.wants,
                "default": item.default,
                "value": _value(loaded, item.name),
                "source": str(loaded.sources[item.name]),
            }
            for item in chosen
        ]
        say_json(told[0] if key and len(told) == 1 else {"settings": told})
        return
    for item in chosen:
        say(item.name, "bold")
        say(f"    {item.text}")
        say(f"    {item.wants}; default {toml_value(item.default)}")
        if loaded.sources[item.name].rank != "default":
            now = toml_value(_value(loaded, item.name))
            say(f"    now {now}, from {loaded.sources[item.name]}")


@config_app.command("edit")
def edit() -> None:
    """Open your config file in $VISUAL or $EDITOR."""
    file = places().config_file
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise errors.UsageError("No editor is set.", f"Set $EDITOR, or open {file} in your editor.")
    if not file.exists():
        disk.replace_file(file, _NEW_FILE.encode())
    subprocess.run(["/bin/sh", "-c", f'{editor} "$1"', "sh", str(file)], check=False)
    _load("")
    hint(f"{file} is sound.")


@config_app.command("profiles")
def list_profiles(json: bool = JSON) -> None:
    """List the profiles for `--profile`."""
    found = config.profiles(places())
    if json:
        say_json({"profiles": [{"name": name, "from": where} for name, where in found.items()]})
        return
    for name, where in found.items():
        say(f"{name:<12}  {where}")


def _load(profile: str) -> config.Loaded:
    return config.load(places(), os.environ, profile=profile, project=Path.cwd())


def _value(loaded: config.Loaded, key: str) -> Any:
    """A setting's value, as it may be shown: without the password in an address."""
    section, _, field = key.partition(".")
    value = getattr(getattr(loaded.settings, section), field)
    match value:
        case str():
            return redaction.without_password(value)
        case dict():
            return {
                name: redaction.without_password(each) if isinstance(each, str) else each
                for name, each in value.items()
            }
        case _:
            return value


def _of_section(section: str) -> list[Any]:
    return [key for key in config.all_keys().values() if key.name.startswith(section)]


def _print_settings(loaded: config.Loaded, wanted: dict[str, config.SettingSource]) -> None:
    if not wanted:
        hint("All settings are at their defaults.")
    section = ""
    for key, source in wanted.items():
        name, _, field = key.partition(".")
        if name != section:
            say(f"{chr(10) if section else ''}[{name}]", "bold")
            section = name
        line = f"{field} = {toml_value(_value(loaded, key))}"
        if source.rank == "default":
            say(line)
        else:
            say(f"{line:<34}  # {source}", "cyan")
