"""Settings from everywhere, merged.

Defaults < profile < the user's file < the project's file < environment < flags. Every key knows
where its value comes from. `MINDSTONE_CONTEXT__CEILING=80` sets `context.ceiling`: two underscores
stand for the dot. A project's own file is data from outside: it may change looks and marks, and
nothing that could reach a key, an address or a command; what it may not change is named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mindstone_tui.core.config.checking import check
from mindstone_tui.core.config.editing import with_value
from mindstone_tui.core.config.keys import Key, all_keys, key_named, nearest, sections
from mindstone_tui.core.config.settings import BudgetSettings, Settings, ZoneSettings
from mindstone_tui.core.disk import place_error, replace_file
from mindstone_tui.core.errors import ConfigError, UnknownName
from mindstone_tui.core.places import Places

Rank = Literal["default", "profile", "user", "project", "environment", "flag"]

PROJECT_FILE: Final = Path(".mindstone") / "config.toml"
PROJECT_MAY_SET: Final = frozenset(
    (
        "context.ceiling",
        "context.floor",
        "context.min_recent",
        "context.trim",
        "context.trim_to",
        "context.checkpoint",
        "context.emergency",
        "context.policy",
        "context.marker",
        "context.pin_budget",
        "tui.theme",
        "tui.panel",
        *(f"zones.{field}" for field in ZoneSettings.__struct_fields__),
        *(f"budget.{field}" for field in BudgetSettings.__struct_fields__),
    )
)
"""All that a project's own file may change."""

PROFILE_VARIABLE: Final = "MINDSTONE_PROFILE"
_VARIABLE: Final = "MINDSTONE_"


class Source(msgspec.Struct, frozen=True):
    """Where a value comes from."""

    rank: Rank
    where: str = ""
    """The file, the variable or the flag."""

    def __str__(self) -> str:
        if self.rank == "profile":
            return f"profile {self.where}"
        return self.where or self.rank


class Ignored(msgspec.Struct, frozen=True):
    """Something a project's file asked for and did not get."""

    file: str
    key: str
    why: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that hold, and how they came about."""

    settings: Settings
    sources: dict[str, Source]
    profile: str = ""
    ignored: tuple[Ignored, ...] = ()


class _Layer(msgspec.Struct, frozen=True):
    values: dict[str, Any]
    sources: dict[str, Source]


def load(
    places: Places,
    environ: Mapping[str, str],
    *,
    profile: str = "",
    flags: Mapping[str, object] | None = None,
    project: Path | None = None,
) -> Loaded:
    """Merge all sources; raises `ConfigError` naming file, key and the nearest spelling."""
    profile = profile or environ.get(PROFILE_VARIABLE, "")
    below = [*_profile_layers(places, profile), *_file_layer(places.config_file, "user")]
    above = [_environment_layer(environ), _flag_layer(flags or {})]
    plain = _merge(places, profile, [*below, *above], ())
    if project is None or not (project / PROJECT_FILE).is_file():
        return plain
    layer, ignored = _project_layer(project / PROJECT_FILE)
    try:
        return _merge(places, profile, [*below, layer, *above], ignored)
    except ConfigError as error:
        whole = Ignored(str(project / PROJECT_FILE), "", error.what)
        return msgspec.structs.replace(plain, ignored=(*ignored, whole))


def store(places: Places, name: str, text: str) -> Path:
    """Set one key in the user's file, keeping the rest of it as it is; the file is returned.

    Nothing is written unless the settings would be sound with it.
    """
    file = places.config_file.resolve()
    key = key_named(name)
    value = value_of_text(key, text)
    if file.exists():
        _read(file)
    before = _text_of(file) if file.exists() else ""
    after = with_value(before, name, value)
    _merge(places, "", [_typed(tomllib.loads(after), str(file), Source("user", str(file)))], ())
    replace_file(file, after.encode())
    return file


def profiles(places: Places) -> dict[str, str]:
    """Every profile by name: `shipped`, or the user's own file."""
    shipped = {
        file.name.removesuffix(".toml"): "shipped"
        for file in _shipped().iterdir()
        if file.name.endswith(".toml")
    }
    own = {file.stem: str(file) for file in sorted(places.profiles.glob("*.toml"))}
    return dict(sorted({**shipped, **own}.items()))


def _merge(
    places: Places, profile: str, layers: list[_Layer], ignored: tuple[Ignored, ...]
) -> Loaded:
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for layer in [*_budget_layers(places, layers), *layers]:
        for key, value in layer.values.items():
            both = isinstance(value, dict) and isinstance(values.get(key), dict)
            values[key] = {**values[key], **value} if both else value
            sources[key] = layer.sources[key]
    nested: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, field = key.partition(".")
        nested.setdefault(section, {})[field] = value
    settings = msgspec.convert(nested, Settings)
    check(settings, lambda key: str(sources.get(key, Source("default"))))
    everything = {key: sources.get(key, Source("default")) for key in all_keys()}
    return Loaded(settings=settings, sources=everything, profile=profile, ignored=ignored)


def _profile_layers(places: Places, name: str) -> Iterator[_Layer]:
    if name:
        yield _typed(_profile_text(places, name), f"profile {name}", Source("profile", name))


def _budget_layers(places: Places, layers: list[_Layer]) -> Iterator[_Layer]:
    """The shares of the profile that `budget.profile` names, below all that is set by hand."""
    for layer in reversed(layers):
        name = layer.values.get("budget.profile")
        if name is None:
            continue
        if name != "default":
            shares = _typed(_profile_text(places, name), name, Source("profile", name))
            chosen = {key: shares.values[key] for key in shares.values if key.startswith("budget.")}
            yield _Layer(chosen, {key: shares.sources[key] for key in chosen})
        return


def _profile_text(places: Places, name: str) -> dict[str, Any]:
    available = profiles(places)
    if name not in available:
        near = nearest(name, available)
        raise UnknownName(
            f"There is no profile {name!r}.",
            f"{f'Did you mean {near}? ' if near else ''}There are: {', '.join(available)}.",
        )
    own = places.profiles / f"{name}.toml"
    if own.is_file():
        return _read(own)
    return tomllib.loads((_shipped() / f"{name}.toml").read_text("utf-8"))


def _shipped() -> Any:
    return resources.files("mindstone_tui.core.config") / "profiles"


def _file_layer(file: Path, rank: Rank) -> Iterator[_Layer]:
    if file.exists():
        yield _typed(_read(file), str(file), Source(rank, str(file)))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text_of(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} is not TOML: {error}.", "Correct that line, or move the file away."
        ) from error


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise place_error(file, error) from error


def _typed(nested: dict[str, Any], where: str, source: Source) -> _Layer:
    """A file's values by key, each of its key's type."""
    values = {
        name: typed_value(key_named(name, where), value, where)
        for name, value in _flat(nested, where)
    }
    return _Layer(values, dict.fromkeys(values, source))


def _flat(nested: dict[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for section, fields in nested.items():
        if not isinstance(fields, dict) or not (fields or section in sections()):
            key_named(section, where)
            continue
        for field, value in fields.items():
            yield f"{section}.{field}", value


def typed_value(key: Key, value: object, where: str) -> Any:
    """The value as the key's type, or an error that says what the key wants."""
    try:
        return msgspec.convert(value, key.type)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{f'{where}: ' if where else ''}{key.name} wants {key.wants}, not {value!r}.",
            f"{key.text} `mindstone config explain {key.name}` says more. ({error})",
        ) from error


def value_of_text(key: Key, text: str, where: str = "") -> Any:
    """A value written on a command line or in a variable, as the key's type."""
    if key.type is str:
        return text
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        lists = isinstance(key.default, tuple)
        value = [part.strip() for part in text.split(",") if part.strip()] if lists else text
    try:
        return msgspec.convert(value, key.type, strict=False)
    except msgspec.ValidationError:
        return typed_value(key, value, where)


def _environment_layer(environ: Mapping[str, str]) -> _Layer:
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for variable, text in sorted(environ.items()):
        section, double, field = variable.removeprefix(_VARIABLE).partition("__")
        if variable.startswith(_VARIABLE) and double:
            key = key_named(f"{section}.{field}".lower(), variable)
            values[key.name] = value_of_text(key, text, variable)
            sources[key.name] = Source("environment", variable)
    return _Layer(values, sources)


def _flag_layer(flags: Mapping[str, object]) -> _Layer:
    values = {}
    for name, value in flags.items():
        key, where = key_named(name), f"--{name}"
        values[name] = (
            value_of_text(key, value, where)
            if isinstance(value, str)
            else typed_value(key, value, where)
        )
    return _Layer(values, {name: Source("flag", "flag") for name in values})


def _project_layer(file: Path) -> tuple[_Layer, tuple[Ignored, ...]]:
    """What a project's own file may change, and what it may not."""
    ignored: list[Ignored] = []
    values: dict[str, Any] = {}
    try:
        nested = _read(file)
    except ConfigError as error:
        return _Layer({}, {}), (Ignored(str(file), "", error.what),)
    for section, fields in nested.items():
        for field, value in fields.items() if isinstance(fields, dict) else [("", fields)]:
            name = f"{section}.{field}" if field else section
            try:
                if name not in PROJECT_MAY_SET:
                    key_named(name, str(file))
                    raise ConfigError(f"a project's file may not set {name}")
                values[name] = typed_value(key_named(name), value, str(file))
            except ConfigError as error:
                ignored.append(Ignored(str(file), name, error.what))
    source = Source("project", str(file))
    return _Layer(values, dict.fromkeys(values, source)), tuple(ignored)
