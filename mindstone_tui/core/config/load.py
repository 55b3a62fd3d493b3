"""Settings from everywhere, merged.

Defaults < profile < the user's file < the project's file < environment < flags. Every key knows
where its value comes from. `MINDSTONE_CONTEXT__CEILING=80` sets `context.ceiling`: two underscores
stand for the dot. A project's own file is data from outside: it may change looks and marks, and
nothing that could reach a key, an address or a command; what it may not change is named.
"""

import errno
import os
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mindstone_tui.core import disk, paths
from mindstone_tui.core.config import edit
from mindstone_tui.core.config.settings import (
    BudgetSettings,
    McpServerSettings,
    Settings,
    ZoneSettings,
)
from mindstone_tui.core.errors import ConfigError, SessionNameError, UnknownName
from mindstone_tui.core.text import one_line

Origin = Callable[[str], str]
"""Where a key's value comes from, in words."""

_ASCENDING: Final = (
    ("context.trim_to", "context.trim", "context.emergency"),
    ("context.checkpoint", "context.emergency"),
    ("context.floor", "context.ceiling", "context.emergency"),
    ("zones.yellow", "zones.orange", "zones.red"),
)
_TABLES: Final = {"priority": True, "hybrid": True, "worth": False, "turns_to_live": False}
"""Tables of weights, and whether each must add up to 1."""
_SHARES: Final = (
    *("system_prompt", "tool_definitions", "message_history", "tool_results"),
    *("memory_injection", "output_reserve"),
)


def check(settings: Settings, origin: Origin) -> None:
    """Raise `ConfigError` for the first thing that is wrong, naming keys, values and origins."""

    def value(key: str) -> float:
        section, _, field = key.partition(".")
        number: float = getattr(getattr(settings, section), field)
        return number

    def said(key: str) -> str:
        return f"{key} is {value(key):g} ({origin(key)})"

    for run in _ASCENDING:
        for lower, upper in pairwise(run):
            if value(lower) >= value(upper):
                raise ConfigError(
                    f"{said(lower)}, but must be below {upper}, which is {value(upper):g} "
                    f"({origin(upper)}).",
                    f"Set them so that {' < '.join(run)}.",
                )
    _check_early_marks(value, said, origin)
    _check_budget(settings)
    _check_cascade(settings, said)
    _check_tables(settings, origin)
    _check_others(settings, origin)


def _check_early_marks(
    value: Callable[[str], float], said: Callable[[str], str], origin: Origin
) -> None:
    """What happens before exchanges leave, unless only the ceiling was lowered, on its own."""
    ceiling = "context.ceiling"
    for early in ("context.trim", "context.checkpoint"):
        together = origin(ceiling) in (origin(early), "default") and origin(early) != "default"
        if together and value(early) > value(ceiling):
            raise ConfigError(
                f"{said(early)}, above the ceiling: {said(ceiling)}.",
                f"Set it at most as high as {ceiling}, or raise that.",
            )


def _check_budget(settings: Settings) -> None:
    total = sum(getattr(settings.budget, share) for share in _SHARES)
    if abs(total - 100) > 0.01:
        raise ConfigError(
            f"The shares in [budget] add up to {total:g}, not to 100.",
            f"Change one of {', '.join(_SHARES)}.",
        )


def _check_cascade(settings: Settings, said: Callable[[str], str]) -> None:
    steps = ("target", "tool_results", "evict", "progressive", "compaction", "delegate")
    for lower, upper in pairwise(steps):
        if getattr(settings.cascade, lower) > getattr(settings.cascade, upper):
            raise ConfigError(
                f"{said(f'cascade.{lower}')}, but may not be above cascade.{upper}.",
                f"Cheap steps come first: {' ≤ '.join(steps)}.",
            )
    first, second = settings.cascade.ages
    if not 0 < first < second:
        raise ConfigError(
            f"cascade.ages is {first}, {second}.", "Use two numbers of turns, the smaller first."
        )


def _check_tables(settings: Settings, origin: Origin) -> None:
    """Weights by name: none unknown, none negative, and those that are shares add up to 1."""
    defaults = type(settings.eviction)()
    for field, together in _TABLES.items():
        known: dict[str, float] = getattr(defaults, field)
        given: dict[str, float] = getattr(settings.eviction, field)
        where = f"eviction.{field} ({origin(f'eviction.{field}')})"
        if odd := sorted(given.keys() - known.keys()):
            raise ConfigError(f"{where} knows no {odd[0]!r}.", f"It has {', '.join(known)}.")
        if any(number < 0 for number in given.values()):
            raise ConfigError(f"{where} has a number below 0.", "Use 0 or more.")
        total = sum({**known, **given}.values())
        if together and abs(total - 1) > 0.001:
            raise ConfigError(
                f"The weights of {where} add up to {total:g}, not to 1.",
                f"Change one of {', '.join(known)}.",
            )
        if field == "turns_to_live" and 0 in given.values():
            raise ConfigError(f"{where} has 0 turns.", "Use 1 or more.")


def _check_others(settings: Settings, origin: Origin) -> None:
    try:
        if settings.session.default:
            paths.SessionKey.parse(settings.session.default)
    except SessionNameError as error:
        raise ConfigError(
            f"session.default ({origin('session.default')}): {error.what}", error.remedy
        ) from error
    for name, server in settings.tools.mcp.items():
        if bool(server.command) == bool(server.url):
            raise ConfigError(
                f"The tool server {name!r} ({origin('tools.mcp')}) needs a command or a url, "
                "and not both.",
                _EXAMPLE.format(name),
            )
    for url in (settings.history.url, *settings.history.sessions.values()):
        if url and not url.startswith(("postgresql://", "postgres://")):
            raise ConfigError(
                f"history.url ({origin('history.url')}) or one of history.sessions is not the "
                "address of a PostgreSQL server.",
                "Write postgresql://user@host/database.",
            )
    temperature = settings.models.temperature
    if temperature is not None and not 0 <= temperature <= 5:
        raise ConfigError(
            f"models.temperature is {temperature:g} ({origin('models.temperature')}).",
            "Use 0 to 2, or leave it out.",
        )


SERVERS: Final = "tools.mcp"
_OTHERS_FIELDS: Final = frozenset({"type", "transport", "disabled", "autoApprove", "alwaysAllow"})
"""What other programs write beside it: how it is reached follows from the rest."""
_EXAMPLE: Final = 'Write, for example: [tools.mcp.{}] command = "program", args = ["argument"].'

Rank = Literal["default", "profile", "user", "project", "environment", "flag"]

PROJECT_FILE: Final = Path(".mindstone") / "config.toml"
LARGEST_FOREIGN: Final = 64 << 10
"""Bytes of a project's file."""
MOST_BRACKETS: Final = 200
MOST_DOTS: Final = 2_000
MOST_IGNORED: Final = 50
"""Keys that a project's file may get wrong; with more, all of it is ignored."""
LONGEST_KEY: Final = 100
PROJECT_MAY_SET: Final = frozenset(
    (
        *("context.ceiling", "context.floor", "context.min_recent", "context.trim"),
        *("context.trim_to", "context.trim_step", "context.checkpoint", "context.emergency"),
        *("context.policy", "context.marker", "context.pin_budget", "tui.theme", "tui.panel"),
        *(f"zones.{field}" for field in ZoneSettings.__struct_fields__),
        *(f"budget.{field}" for field in BudgetSettings.__struct_fields__),
    )
)
"""All that a project's own file may change."""

PROFILE_VARIABLE: Final = "MINDSTONE_PROFILE"
_VARIABLE: Final = "MINDSTONE_"


class SettingSource(msgspec.Struct, frozen=True):
    """Where a value comes from."""

    rank: Rank
    where: str = ""
    """The file, the variable or the flag."""

    def __str__(self) -> str:
        return f"profile {self.where}" if self.rank == "profile" else self.where or self.rank


class Ignored(msgspec.Struct, frozen=True):
    """Something a project's file asked for and did not get."""

    file: str
    key: str
    why: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that hold, and how they came about."""

    settings: Settings
    sources: dict[str, SettingSource]
    profile: str = ""
    ignored: tuple[Ignored, ...] = ()

    @property
    def unheeded(self) -> str:
        """What a project's file did not get, in one sentence; empty when there is nothing."""
        if not self.ignored:
            return ""
        first, count = self.ignored[0], len(self.ignored)
        why = one_line(first.why.rstrip("."), 300)
        more = f", and {count - 1} more (`mindstone config show` lists them)" if count > 1 else ""
        where = "" if why.startswith(first.file) else f" in {first.file}"
        return f"Ignored{where}: {why}{more}."


class _Layer(msgspec.Struct, frozen=True):
    values: dict[str, Any]
    sources: dict[str, SettingSource]


def load(
    places: paths.Places,
    environ: Mapping[str, str],
    *,
    profile: str = "",
    flags: Mapping[str, object] | None = None,
    project: Path | None = None,
) -> Loaded:
    """Merge all sources; raises `ConfigError` naming file, key and the nearest spelling."""
    for folder in places.own:  # settings and hooks name programs, which run as whoever reads them
        disk.require_ours(folder)
    profile = profile or environ.get(PROFILE_VARIABLE, "")
    below = [*_profile_layers(places, profile), *_file_layer(places.config_file, "user")]
    above = [_environment_layer(environ), _flag_layer(flags or {})]
    plain = _merge(places, profile, [*below, *above], ())
    if project is None or not os.path.lexists(project / PROJECT_FILE):
        return plain
    layer, ignored = _project_layer(project / PROJECT_FILE)
    try:
        return _merge(places, profile, [*below, layer, *above], ignored)
    except ConfigError as error:
        whole = Ignored(str(project / PROJECT_FILE), "", error.what)
        return msgspec.structs.replace(plain, ignored=(*ignored, whole))


def store(places: paths.Places, name: str, text: str) -> Path:
    """Set one key in the user's file, keeping the rest of it as it is; the file is returned.

    Nothing is written unless the settings would be sound with it.
    """
    file = places.config_file.resolve()
    value = value_of_text(edit.key_named(name), text)
    if file.exists():
        _read(file)
    after = edit.with_value(_text_of(file) if file.exists() else "", name, value)
    _merge(
        places, "", [_typed(tomllib.loads(after), str(file), SettingSource("user", str(file)))], ()
    )
    disk.replace_file(file, after.encode())
    return file


def profiles(places: paths.Places) -> dict[str, str]:
    """Every profile by name: `shipped`, or the user's own file."""
    shipped = {
        file.name.removesuffix(".toml"): "shipped"
        for file in _shipped().iterdir()
        if file.name.endswith(".toml")
    }
    own = {file.stem: str(file) for file in sorted(places.profiles.glob("*.toml"))}
    return dict(sorted({**shipped, **own}.items()))


def _merge(
    places: paths.Places, profile: str, layers: list[_Layer], ignored: tuple[Ignored, ...]
) -> Loaded:
    values: dict[str, Any] = {}
    sources: dict[str, SettingSource] = {}
    for layer in [*_budget_layers(places, layers), *layers]:
        for key, value in layer.values.items():
            both = isinstance(value, dict) and isinstance(values.get(key), dict)
            values[key] = {**values[key], **value} if both else value
            sources[key] = layer.sources[key]
    nested: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, field = key.partition(".")
        nested.setdefault(section, {})[field] = value
    for key, value in values.items():
        bounds = edit.key_named(key).range
        if bounds is not None and not bounds[0] <= value <= bounds[1]:
            what = f"{key} is {value:g} ({sources[key]}), which is out of range."
            raise ConfigError(what, f"Use {bounds[0]:,g} to {bounds[1]:,g}.")
    settings = msgspec.convert(nested, Settings)
    check(settings, lambda key: str(sources.get(key, SettingSource("default"))))
    everything = {key: sources.get(key, SettingSource("default")) for key in edit.all_names()}
    return Loaded(settings=settings, sources=everything, profile=profile, ignored=ignored)


def _profile_layers(places: paths.Places, name: str) -> Iterator[_Layer]:
    if name:
        yield _typed(_profile_text(places, name), f"profile {name}", SettingSource("profile", name))


def _budget_layers(places: paths.Places, layers: list[_Layer]) -> Iterator[_Layer]:
    """The shares of the profile that `budget.profile` names, below all that is set by hand."""
    for layer in reversed(layers):
        if (name := layer.values.get("budget.profile")) is None:
            continue
        if name != "default":
            shares = _typed(_profile_text(places, name), name, SettingSource("profile", name))
            chosen = {key: shares.values[key] for key in shares.values if key.startswith("budget.")}
            yield _Layer(chosen, {key: shares.sources[key] for key in chosen})
        return


def _profile_text(places: paths.Places, name: str) -> dict[str, Any]:
    available = profiles(places)
    if name not in available:
        near = edit.nearest(name, available)
        raise UnknownName(
            f"There is no profile {name!r}.",
            f"{f'Did you mean {near}? ' if near else ''}There are: {', '.join(available)}.",
        )
    own = places.profiles / f"{name}.toml"
    if own.is_file():
        return _read(own)
    return tomllib.loads((_shipped() / f"{name}.toml").read_text("utf-8"))


def _shipped() -> Path:
    return Path(__file__).with_name("profiles")


def _file_layer(file: Path, rank: Rank) -> Iterator[_Layer]:
    if file.exists():
        yield _typed(_read(file), str(file), SettingSource(rank, str(file)))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text_of(file))
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number like no other
        raise ConfigError(
            f"{file} is not TOML: {_fault_in(error)}.", "Correct that line, or move the file away."
        ) from error


def _text_of(file: Path) -> str:
    try:
        return disk.read_regular(file).decode()
    except OSError as error:
        raise disk.place_error(file, error) from error


def _read_foreign(file: Path) -> dict[str, Any]:
    """A file that somebody else wrote: no links, and bounded before it is parsed.

    Every bracket could be a level and every dot a table, wherever they stand: counting all of them
    needs no parser, and a file of settings has few.
    """
    try:
        if file.parent.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(file.parent))
        text = disk.read_regular(file, most=LARGEST_FOREIGN, follow=False).decode()
    except OSError as error:
        raise ConfigError(disk.place_error(file, error).what) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}.") from error
    if text.count("[") + text.count("{") > MOST_BRACKETS or text.count(".") > MOST_DOTS:
        raise ConfigError(f"{file} is too intricate for a file of settings.")
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{file} is not TOML: {_fault_in(error)}.") from error


def _fault_in(error: Exception) -> str:
    """What the parser complains of; Python's own advice about long numbers helps nobody here."""
    if isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError):
        return str(error)
    return "a number or a list in it goes on without end"


def _typed(nested: dict[str, Any], where: str, source: SettingSource) -> _Layer:
    """A file's values by key, each of its key's type."""
    values = {
        name: typed_value(edit.key_named(name, where), value, where)
        for name, value in _flat(nested, where)
    }
    return _Layer(values, dict.fromkeys(values, source))


def _flat(nested: dict[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for section, fields in nested.items():
        if not isinstance(fields, dict) or not (fields or section in edit.sections()):
            edit.key_named(section, where)
            continue
        yield from ((f"{section}.{field}", value) for field, value in fields.items())


def typed_value(key: edit.SettingKey, value: object, where: str) -> Any:
    """The value as the key's type, or an error that says what the key wants."""
    if key.name == SERVERS and isinstance(value, dict):
        return {name: server_of(name, told, where) for name, told in value.items()}
    try:
        return msgspec.convert(value, key.type)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{f'{where}: ' if where else ''}{key.name} wants {key.wants}, not {_shown(value)}.",
            f"{key.text} `mindstone config explain {key.name}` says more.",
        ) from error


def server_of(name: str, told: object, where: str = "") -> McpServerSettings:
    """A tool server in the shape that every program knows, or an error that names the field.

    `command` may be a text with `args` beside it, or a list of both.
    """
    at = f"{where}: " if where else ""
    if not isinstance(told, dict):
        raise ConfigError(f"{at}{SERVERS}.{name} is no table.", _EXAMPLE.format(name))
    fields = {field: each for field, each in told.items() if field not in _OTHERS_FIELDS}
    if told.get("disabled") is True:
        fields["enabled"] = False
    command, args = fields.get("command", ()), fields.pop("args", ())
    fields["command"] = [command] if isinstance(command, str) else command
    if args and isinstance(fields["command"], list):
        listed = isinstance(args, list) and all(isinstance(each, str) for each in args)
        if not listed:
            what = f"{at}{SERVERS}.{name}.args wants a list of texts, not {_shown(args)}."
            raise ConfigError(what, _EXAMPLE.format(name))
        fields["command"] = [*fields["command"], *args]
    hints = typing.get_type_hints(McpServerSettings)
    for field, each in fields.items():
        if field not in hints:
            near = edit.nearest(field, [*hints, "args"])
            hint = f"Did you mean {near}? " if near else ""
            what = f"{at}{SERVERS}.{name} knows no {field!r}."
            raise ConfigError(what, f"{hint}It has {', '.join([*hints, 'args'])}.")
        try:
            msgspec.convert(each, hints[field])
        except msgspec.ValidationError:
            what = f"{at}{SERVERS}.{name}.{field} wants {edit.in_words(hints[field])}"
            raise ConfigError(f"{what}, not {_shown(each)}.", _EXAMPLE.format(name)) from None
    return msgspec.convert(fields, McpServerSettings)


def _shown(value: object) -> str:
    """A wrong value in an error, however large it is."""
    try:
        return one_line(repr(value), 200)
    except ValueError:  # Python spells no number of so many digits
        return "a number of thousands of digits"


def value_of_text(key: edit.SettingKey, text: str, where: str = "") -> Any:
    """A value written on a command line or in a variable, as the key's type."""
    if key.type is str:
        return text
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        lists = isinstance(key.default, tuple)
        value = [part.strip() for part in text.split(",") if part.strip()] if lists else text
    try:
        if key.name != SERVERS:
            return msgspec.convert(value, key.type, strict=False)
    except msgspec.ValidationError:
        pass
    return typed_value(key, value, where)


def _environment_layer(environ: Mapping[str, str]) -> _Layer:
    values: dict[str, Any] = {}
    sources: dict[str, SettingSource] = {}
    for variable, text in sorted(environ.items()):
        section, double, field = variable.removeprefix(_VARIABLE).partition("__")
        if variable.startswith(_VARIABLE) and double:
            key = edit.key_named(f"{section}.{field}".lower(), variable)
            values[key.name] = value_of_text(key, text, variable)
            sources[key.name] = SettingSource("environment", variable)
    return _Layer(values, sources)


_FLAGS: Final = {"approvals.mode": "--approve", "tools.max_rounds": "--max-rounds"}
"""What a flag is called on the command line."""


def _flag_layer(flags: Mapping[str, object]) -> _Layer:
    values = {}
    for name, value in flags.items():
        key, where = edit.key_named(name), _FLAGS.get(name, "")
        values[name] = (
            value_of_text(key, value, where)
            if isinstance(value, str)
            else typed_value(key, value, where)
        )
    return _Layer(values, {name: SettingSource("flag", "flag") for name in values})


def _project_layer(file: Path) -> tuple[_Layer, tuple[Ignored, ...]]:
    """What a project's own file may change, and what it may not."""
    ignored: list[Ignored] = []
    values: dict[str, Any] = {}
    try:
        nested = _read_foreign(file)
    except ConfigError as error:
        return _Layer({}, {}), (Ignored(str(file), "", error.what),)
    for section, fields in nested.items():
        for field, value in fields.items() if isinstance(fields, dict) else [("", fields)]:
            name = f"{section}.{field}" if field else section
            if len(ignored) >= MOST_IGNORED:
                ignored[-1] = Ignored(str(file), "", "too much in it is none of its business")
                return _Layer({}, {}), tuple(ignored)
            if len(name) > LONGEST_KEY:
                ignored.append(Ignored(str(file), name[:LONGEST_KEY], "there is no such key"))
                continue
            try:
                if name not in PROJECT_MAY_SET:
                    edit.key_named(name, str(file))
                    raise ConfigError(f"a project's file may not set {name}")
                values[name] = typed_value(edit.key_named(name), value, str(file))
            except ConfigError as error:
                ignored.append(Ignored(str(file), name, error.what))
    source = SettingSource("project", str(file))
    return _Layer(values, dict.fromkeys(values, source)), tuple(ignored)
