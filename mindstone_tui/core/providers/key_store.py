"""API keys that a person stored: in the system's keyring where there is one, else in a file.

The file has a line for every key; where the keyring holds the key itself, a sign stands for it. A
keyring that refuses is not asked again for a while, because each time may open a window.
"""

import importlib
import importlib.util
import time
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from mindstone_tui.core import disk, patterns, text
from mindstone_tui.core.errors import ConfigError, UsageError

_NAME: Final = patterns.pattern_of(r"[a-z0-9_]{1,64}")
_SIGN: Final = "(in the keyring)"
_SERVICE: Final = "mindstone"
_GRUDGE: Final = 60.0
"""Seconds for which a keyring that refused is left alone."""
KEYRING: Final = "the system's keyring"


class StoredKey(NamedTuple):
    """A key, or why it cannot be had."""

    secret: str
    origin: str
    problem: str = ""

    def __repr__(self) -> str:
        return f"StoredKey(origin={self.origin!r})"


class Kept(NamedTuple):
    """Where a key went."""

    place: str
    problem: str = ""
    """Why not into the keyring, where there is one."""


class _SystemKeyring(msgspec.Struct, eq=False):
    """The keyring of the system, if there is one that can hold a key."""

    _refused_by: object = None
    _refused_at: float = 0.0
    _problem: str = ""

    def _backend(self) -> Any:
        if importlib.util.find_spec("keyring") is None:
            raise LookupError("the extra `keyring` is not installed")
        backend = importlib.import_module("keyring").get_keyring()
        if backend.priority < 1:
            raise LookupError("there is none on this machine")
        if backend is self._refused_by and time.monotonic() < self._refused_at + _GRUDGE:
            raise PermissionError(self._problem)
        return backend

    def _refuse(self, backend: object, error: Exception) -> str:
        problem = text.one_line(str(error), 120).rstrip(".!") or type(error).__name__
        if backend is not None:
            self._refused_by, self._refused_at = backend, time.monotonic()
            self._problem = problem
        return problem

    def get(self, name: str) -> StoredKey:
        """The key under a name, or why there is none."""
        backend = None
        try:
            backend = self._backend()
            secret = backend.get_password(_SERVICE, name)
        except Exception as error:  # whatever a backend raises: it has no key for us
            return StoredKey("", KEYRING, self._refuse(backend, error))
        return StoredKey(secret or "", KEYRING, "" if secret else "it has none under that name")

    def put(self, name: str, secret: str) -> str | None:
        """Keep a key; None when that is done, else why not, empty where there is no keyring."""
        backend = None
        try:
            backend = self._backend()
            backend.set_password(_SERVICE, name, secret)
            held = backend.get_password(_SERVICE, name)
        except LookupError:
            return ""
        except Exception as error:  # locked, refused, gone: the file is there for that
            return self._refuse(backend, error)
        return None if held == secret else "it gave back something else"

    def remove(self, name: str) -> str | None:
        """Forget a key; None when it is not there any more, else why not."""
        backend = None
        try:
            backend = self._backend()
            if backend.get_password(_SERVICE, name) is not None:
                backend.delete_password(_SERVICE, name)
        except Exception as error:
            return self._refuse(backend, error)
        return None


_SYSTEM: Final = _SystemKeyring()


def stored_key(path: Path, name: str) -> StoredKey | None:
    """One key; None if none was stored. The keyring is asked for no other."""
    if not (value := _lines(path).get(name)):
        return None
    return _SYSTEM.get(name) if value == _SIGN else StoredKey(value, path.name)


def written_keys(path: Path) -> dict[str, str]:
    """Every key that stands in the file itself; no keyring is asked."""
    return {name: value for name, value in _lines(path).items() if value != _SIGN}


def store_key(path: Path, provider: str, secret: str) -> Kept:
    """Keep a provider's key; an empty one removes it."""
    secret = secret.strip()
    if not _NAME.fullmatch(provider):
        raise UsageError(f"{provider!r} is not a provider's name.", "For example: anthropic.")
    if not secret.isascii() or not secret.isprintable():
        raise UsageError("A key is one line of plain characters.", "Copy it again.")
    disk.require_ours(path.parent)
    lines = _lines(path)
    was_in_keyring = lines.pop(provider, "") == _SIGN
    if not secret:
        problem = _SYSTEM.remove(provider) if was_in_keyring else None
        if problem is not None:
            raise ConfigError(
                f"The key for {provider} is still in {KEYRING}: {problem}.",
                "Unlock the keyring and try again.",
            )
        _write(path, lines)
        return Kept("")
    problem = _SYSTEM.put(provider, secret)
    _write(path, {**lines, provider: _SIGN if problem is None else secret})
    return Kept(KEYRING) if problem is None else Kept(str(path), problem)


def _lines(path: Path) -> dict[str, str]:
    """The file's own words; refuses a file that others can read."""
    try:
        mode = path.stat().st_mode
        raw = disk.read_regular(path).decode()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", "Repair its permissions, or delete it."
        ) from error
    if mode & 0o077:
        raise ConfigError(
            f"{path} can be read by others, so its keys are not used.",
            f"Run `chmod 600 {path}`, and consider replacing the keys.",
        )
    try:
        return msgspec.convert(tomllib.loads(raw), dict[str, str])
    except (ValueError, RecursionError) as error:  # no TOML, or not of this form
        raise ConfigError(
            f"{path} is not a list of keys: {error}.", 'Each line is: provider = "key".'
        ) from error


def _write(path: Path, keys: dict[str, str]) -> None:
    from tomlkit import dumps  # 20 ms, for whoever stores a key

    kept = {name: value for name, value in sorted(keys.items()) if value}
    disk.replace_file(path, dumps(kept).encode())
