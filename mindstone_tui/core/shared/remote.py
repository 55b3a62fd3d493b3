"""The sessions of another machine, asked for over one line such as ssh's: a question, an answer.

What can be asked is what a store of lines can do, and nothing else. The machine that is asked
checks as it always does: whoever asks can append what must follow, and overwrite nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, Final, cast, get_type_hints

import msgspec

from mindstone_tui.core.errors import HistoryAway, MindstoneError
from mindstone_tui.core.transcript.history_store import LineStore, in_batches

_HELLO: Final = b"mindstone sync 1\n"
"""Comes first: what a login prints before it is passed over."""
_GREETINGS: Final = 1_000
_KINDS: Final = {
    name: get_type_hints(method)
    for name, method in vars(LineStore).items()
    if name[0] != "_" and callable(method)
}
"""What can be asked for, and what it takes and gives."""


def answer(store: LineStore, asked: IO[bytes], told: IO[bytes]) -> None:
    """Answer questions about a store until nobody asks any more."""
    told.write(_HELLO)
    told.flush()
    for line in asked:
        try:
            does, given = msgspec.json.decode(line, type=tuple[str, dict[str, Any]])
            kinds = _KINDS[does]
            value = getattr(store, does)(
                **{name: msgspec.convert(each, kinds[name]) for name, each in given.items()}
            )
            reply = {"value": next(in_batches(value), []) if does == "read" else value}
        except (MindstoneError, OSError, ValueError, LookupError, TypeError) as error:
            reply = {"error": str(error) or type(error).__name__}
        told.write(msgspec.json.encode(reply) + b"\n")
        told.flush()


def remote_store(name: str, told: IO[bytes], asked: IO[bytes]) -> LineStore:
    """The store that answers at the other end."""
    for _ in range(_GREETINGS):
        if (line := asked.readline()) in (b"", _HELLO):
            break
    if line != _HELLO:
        raise _away(name)
    return cast(LineStore, _Remote(name, told, asked))


def _away(name: str) -> HistoryAway:
    return HistoryAway(
        f"{name} does not answer, or not to the end.",
        f"Try `ssh {name} mindstone --version`. What was copied stays; sync goes on from there.",
    )


class _Remote:
    """Passes every question of a `LineStore` on."""

    def __init__(self, name: str, told: IO[bytes], asked: IO[bytes]) -> None:
        self.name, self._told, self._asked = name, told, asked

    def __getattr__(self, does: str) -> Callable[..., Any]:
        if does not in _KINDS:
            raise AttributeError(does)
        return self._read if does == "read" else partial(self._ask, does)

    def _read(self, key: Any, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        while got := self._ask("read", key, first, last):
            yield from got
            first += len(got)

    def _ask(self, does: str, *given: Any, **named: Any) -> Any:
        kinds = _KINDS[does]
        question = (does, {**dict(zip(kinds, given, strict=False)), **named})
        try:
            self._told.write(msgspec.json.encode(question) + b"\n")
            self._told.flush()
            said = msgspec.json.decode(self._asked.readline(), type=dict[str, Any])
        except (OSError, ValueError) as error:
            raise _away(self.name) from error
        if "error" in said:
            raise MindstoneError(f"{self.name}: {said['error']}")
        return msgspec.convert(said["value"], list[bytes] if does == "read" else kinds["return"])
