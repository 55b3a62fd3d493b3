"""Doors for what others write: packages that bring formats, providers or features.

A package names what it brings in an entry-point group (`mindstone.features`, say). Only packages
that are installed count: neither the folder one stands in nor `PYTHONPATH` can bring one. Looking
costs a listing of the installed packages, and is done when the first door is opened. What cannot be
loaded is named with its reason, and left out.
"""

import os
import site
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from mindstone_tui.core.text import one_line

FORMATS: Final = "mindstone.formats"
PROVIDERS: Final = "mindstone.providers"
FEATURES: Final = "mindstone.features"

T = TypeVar("T")


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an installed package brings."""

    group: str
    name: str
    target: str
    """`module:object`."""
    package: str
    version: str


class LeftOut(msgspec.Struct, frozen=True):
    """A plug-in that cannot be used, and why."""

    plugin: Plugin
    why: str

    @property
    def sentence(self) -> str:
        """What a person is told."""
        plugin = self.plugin
        package = f"{plugin.package} {plugin.version}"
        return f"The plug-in {plugin.name} of {package} is left out: {self.why}"


class Admitted(msgspec.Struct, Generic[T], frozen=True):
    """What came through a door."""

    usable: dict[str, T]
    left_out: tuple[LeftOut, ...] = ()


def load(group: str, fits: Callable[[object], T | None], ours: Sequence[str] = ()) -> Admitted[T]:
    """Everything usable of a group, by name; `ours` are names that cannot be taken again."""
    usable: dict[str, T] = {}
    left_out: list[LeftOut] = []
    for plugin in installed():
        if plugin.group != group:
            continue
        if plugin.name in (*ours, *usable):
            left_out.append(LeftOut(plugin, f"there is a {plugin.name} already."))
            continue
        try:
            found = fits(loaded(plugin.target))
        except Exception as error:  # somebody else's code: whatever it raises, the rest goes on
            why = one_line(f"{type(error).__name__}: {error}", 300)
            left_out.append(LeftOut(plugin, f"it cannot be loaded ({why})."))
            continue
        if found is None:
            left_out.append(LeftOut(plugin, f"{plugin.target} is not what {group} takes."))
        else:
            usable[plugin.name] = found
    return Admitted(usable, tuple(left_out))


def loaded(target: str) -> object:
    """The object that `module:object` names; what ships comes through here as well."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


@cache
def installed() -> tuple[Plugin, ...]:
    """What installed packages bring, by package and name."""
    found = [plugin for folder in _folders() for plugin in plugins_in(folder)]
    return tuple(sorted(found, key=lambda each: (each.package, each.group, each.name)))


def _folders() -> list[Path]:
    """Where packages are installed for this Python."""
    named = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        named.append(site.getusersitepackages())
    return [Path(each) for each in dict.fromkeys(named)]


def plugins_in(folder: Path) -> Iterator[Plugin]:
    """What the packages of a folder bring."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - plain: done for each package, at each opening
    except OSError:
        return
    for name in names:
        if not name.endswith(".dist-info"):
            continue
        try:
            with open(f"{folder}/{name}/entry_points.txt", encoding="utf-8") as file:  # noqa: PTH123
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if "mindstone." not in text:
            continue
        package, _, version = name.removesuffix(".dist-info").rpartition("-")
        group = ""
        for line in text.splitlines():
            if line.startswith("["):
                group = line.strip().strip("[]")
            elif group in (FORMATS, PROVIDERS, FEATURES) and "=" in line:
                entry, _, target = (part.strip() for part in line.partition("="))
                yield Plugin(
                    group=group,
                    name=entry,
                    target=target,
                    package=package.replace("_", "-"),
                    version=version,
                )
