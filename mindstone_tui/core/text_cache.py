"""What was found out about texts, remembered without holding more of them than a few words.

A cache whose keys are texts holds every one of them: messages of any length, and of a history that
has long left the window. Here a text is known by its digest; only short ones are their own keys.
"""

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_DIGEST: Final = 16
_MOST_KNOWN: Final = 65_536
_LONGEST_KNOWN: Final = 100


def remembers(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function of texts remember what it said of the `most` it met last, about.

    There are two halves, and the older one goes when the younger is full: what is asked for again
    and again stays, and threads need not wait for each other.
    """

    def remembering(function: Callable[P, T]) -> Callable[P, T]:
        halves: list[dict[bytes, T]] = [{}, {}]

        @wraps(function)
        def remembered(*texts: P.args, **named: P.kwargs) -> T:
            data = "\0".join(map(str, (*texts, *named.values()))).encode("utf-8", "surrogatepass")
            key = hashlib.blake2b(data, digest_size=_DIGEST).digest()
            younger, older = halves
            if key in younger:
                return younger[key]
            said = older[key] if key in older else function(*texts, **named)
            if len(younger) >= most // 2:
                halves[:] = younger, older = {}, younger
            younger[key] = said
            return said

        return remembered

    return remembering


class Known(dict[str, T]):
    """What `find` says of words and the like: most of a long text was met before.

    All of it is forgotten when it would become too much; a text that is long is not kept at all.
    """

    def __init__(self, find: Callable[[str], T]) -> None:
        self._find = find

    def __missing__(self, text: str) -> T:
        found = self._find(text)
        if len(text) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[text] = found
        return found
