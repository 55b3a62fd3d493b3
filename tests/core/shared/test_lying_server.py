"""A history server that lies: nothing is believed that the chain does not prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.transcript import Transcript, verify
from mindstone_tui.core.transcript.history_store import FileStore

KEY, OTHER = SessionKey("default", "main"), SessionKey("default", "other")
Lines = list[bytes]
SAID = 6


def at(home: Path, key: SessionKey = KEY) -> SessionPlaces:
    return Places.resolve({"MINDSTONE_HOME": str(home)}).session(key)


def home_store(home: Path) -> FileStore:
    return FileStore(Places.resolve({"MINDSTONE_HOME": str(home)}))


def say(places: SessionPlaces, *words: str, upstream: Any = None) -> None:
    with closing(Transcript(places, upstream=upstream)) as transcript:
        for word in words:
            transcript.append(UserMessage(text=word), turn=1)


class Lying:
    """A server that answers for another one, and changes what it reads there."""

    def __init__(self, honest: FileStore, lie: Callable[[Lines], Iterator[bytes]]) -> None:
        self._honest = honest
        self._lie = lie

    def read(self, key: SessionKey, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        return iter(self._lie(list(self._honest.read(key, first, last))))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


LIES: dict[str, Callable[[Lines], Any]] = {
    "reordered": lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
    "dropped": lambda lines: [*lines[:2], *lines[3:]],
    "doubled": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "replaced": lambda lines: [line.replace(b"stone 5", b"stone X") for line in lines],
    "begun anew": lambda lines: [*lines[:2], lines[0], *lines[1:]],
    "no JSON": lambda lines: [*lines[:2], b"hello", *lines[3:]],
    "bad UTF-8": lambda lines: [*lines[:2], lines[2][:-20] + b'\xff"}', *lines[3:]],
    "of another shape": lambda lines: [*lines[:2], b'{"v":99,"seq":3}', *lines[3:]],
    "nested": lambda lines: [*lines[:2], b"[" * 100_000, *lines[3:]],
    "two in one": lambda lines: [*lines[:2], lines[2] + b"\n" + lines[3], *lines[4:]],
    "empty": lambda lines: [*lines[:2], b"", *lines[3:]],
    "no JSON at first": lambda lines: [b"hello", *lines[1:]],
    "bad UTF-8 at first": lambda lines: [b'{"hash":"\xff"}', *lines[1:]],
    "nested at first": lambda lines: [b"[" * 100_000, *lines[1:]],
    "endless": lambda lines: chain(lines[:3], repeat(lines[2])),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("known", [0, 2], ids=["nothing known here", "some known here"])
def test_what_the_chain_does_not_prove_is_not_believed(
    tmp_path: Path, lie: str, known: int
) -> None:
    server, here = home_store(tmp_path / "server"), at(tmp_path / "here")
    words = [f"stone {number}" for number in range(1, SAID + 1)]
    say(at(tmp_path / "server"), *words[: known or 1])
    if known:
        say(here, upstream=server)
    say(at(tmp_path / "server"), *words[known or 1 :])
    before = here.transcript.read_bytes() if known else b""
    with pytest.raises(MindstoneError) as told:
        say(here, "mine", upstream=Lying(server, LIES[lie]))
    assert told.value.what
    assert "\n" not in told.value.sentence
    after = here.transcript.read_bytes() if here.transcript.exists() else b""
    assert after.startswith(before), "the copy here stays"
    whole = at(tmp_path / "server").transcript.read_bytes()
    assert whole.startswith(after), "nothing else was written"
    if after:
        assert verify(here).ok


def test_lines_of_another_session_are_not_believed(tmp_path: Path) -> None:
    say(at(tmp_path / "server"), "one")
    say(at(tmp_path / "server", OTHER), "foreign")
    server = home_store(tmp_path / "server")
    foreign = list(server.read(OTHER))
    with pytest.raises(MindstoneError):
        say(at(tmp_path / "here"), "mine", upstream=Lying(server, lambda lines: iter(foreign)))
    here = at(tmp_path / "here").transcript
    assert not here.exists() or b"foreign" not in here.read_bytes()
