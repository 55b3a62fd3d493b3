"""JSON that somebody else wrote, bounded in depth before it is read.

A parser gives up on deep nesting where its stack ends, and that depends on who called it: what a
short stack still reads, a deeper one does not. So depth is counted in the text, before it is
parsed, and a live turn and its replay agree about everything that was ever written.
"""

import json
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

DEEPEST: Final = 100
"""Objects and lists within each other; real answers, arguments and files have a tenth of it."""
_NO_JOINTS: Final = bytes(sign for sign in range(256) if sign not in b'{[,"')
_NO_SIGNS: Final = bytes(sign for sign in range(256) if sign not in b'{}[]"')


def is_too_deep(text: bytes | str, deepest: int = DEEPEST) -> bool:
    """Whether brackets outside of strings are nested deeper than anything real."""
    data = _bytes(text)
    # `replace` finds signs several times as fast as `count`, and stops where it may.
    rest = data.replace(b"{", b"", deepest + 1).replace(b"[", b"", deepest + 1)
    if len(data) - len(rest) <= deepest:
        return False
    depth = 0
    for sign in _outside(data, _NO_SIGNS):
        if sign in b"{[":
            depth += 1
            if depth > deepest:
                return True
        else:
            depth -= 1
    return False


def is_crowded(text: bytes, most: int) -> bool:
    """Whether it stands for more values than this: parsing them would take long in one go."""
    if len(text) <= most * 2:
        return False
    strings = (text.count(b'"') - text.count(b'\\"')) // 2
    return strings > most * 2 or len(_outside(text, _NO_JOINTS)) > most


def _outside(data: bytes, dropped: bytes) -> bytes:
    """What stands outside of strings, but for what is dropped."""
    signs = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, dropped)
    return b"".join(signs.split(b'"')[::2])


def read_json(text: bytes | str) -> Any:
    """The value that a text stands for; ValueError when it stands for none, or is too deep."""
    data = _bytes(text)
    if is_too_deep(data):
        raise ValueError("JSON that is nested too deeply")
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        # Half a character as an escape is legal JSON, and servers do cut there; msgspec refuses it.
        return json.loads(data.decode("utf-8", "strict"))


def read_object(text: bytes | str) -> dict[str, Any] | None:
    """The object that a text stands for; None when it stands for anything else."""
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_as(text: bytes | str, kind: type[T]) -> T:
    """A value of this type; `msgspec.DecodeError` when it is none, or is nested too deeply."""
    if is_too_deep(text):
        raise msgspec.DecodeError("JSON is nested too deeply")
    try:
        return msgspec.json.decode(text, type=kind)
    except UnicodeError as error:  # half a character, in a text or in a file
        raise msgspec.DecodeError(f"JSON holds what is no text: {error}") from error


def read_arguments(written: str) -> dict[str, Any] | None:
    """A tool's arguments as a model wrote them, or None when they are no object or too deep."""
    try:
        return read_as(written, dict[str, Any])
    except msgspec.DecodeError:
        return None


def mapping(value: object) -> dict[str, Any]:
    """An object, or an empty one where the value is none."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """An array, or an empty one where the value is none."""
    return value if isinstance(value, list) else []


def objects_in(value: object) -> list[dict[str, Any]]:
    """The objects in an array; none where the value is no array."""
    return [each for each in sequence(value) if isinstance(each, dict)]


def words_in(value: object) -> str:
    """A text, or nothing where the value is none."""
    return value if isinstance(value, str) else ""


def _bytes(text: bytes | str) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
