"""Regular expressions that cost nothing until they are used.

A command reads some four hundred of them from its modules and uses a few dozen; compiling them all
took a sixth of a short command's time.
"""

import re
from collections.abc import Callable
from typing import Any, AnyStr, Final, cast

_METHODS: Final = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _Uncompiled:
    """Stands for a pattern, and becomes it when something is first asked of it."""

    def __init__(self, source: str | bytes | Callable[[], str | bytes], flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by the interpreter, which takes no for an answer
            raise AttributeError(name)
        source = self._source() if callable(self._source) else self._source
        if name == "pattern":
            return source
        compiled = re.compile(source, self._flags)
        for method in _METHODS:  # found without this function from now on
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def pattern_of(source: AnyStr | Callable[[], AnyStr], flags: int = 0) -> re.Pattern[AnyStr]:
    """This expression for a module's constant; a mistake in it shows when it is first used.

    One that stands elsewhere is given as what reads it from there. Functions of `re` do not take
    it: ask it instead, `NAME.sub(…)`.
    """
    return cast("re.Pattern[AnyStr]", _Uncompiled(source, flags))
