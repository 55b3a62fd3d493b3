"""What the words on the screen mean, with the numbers of the settings in force.

The app shows all of it on `?`; the guide answers "what is …?" from it. Every number is read from
the settings, so that neither can repeat a default that somebody changed.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.values import Value


class Term(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One word on the screen."""

    word: str
    text: str
    about: str = ""
    """A regular expression of what else people call it; the word itself always counts."""
    group: str = ""

    def named_in(self, text: str) -> int:
        """How long the name is by which a text calls it; 0 if it does not."""
        pattern = rf"\b(?:{re.escape(self.word)}{f'|{self.about}' if self.about else ''})\b"
        return max((len(it[0]) for it in re.finditer(pattern, text, re.IGNORECASE)), default=0)


def glossary(settings: Settings) -> tuple[Term, ...]:
    """Every word of the screen, in the order in which the panel shows them."""
    sections = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return tuple(msgspec.structs.replace(it, text=it.text.format(**sections)) for it in _terms())


@cache
def _terms() -> tuple[Term, ...]:
    text = Path(__file__).with_name("glossary.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)["term"], tuple[Term, ...])
