"""Long pastes, pictures and sounds as short signs in the prompt; sent is what was pasted."""

import os
import shlex
from pathlib import Path
from typing import Final

from mindstone_tui.core import paths, patterns
from mindstone_tui.core.text import for_terminal, is_editable, plural

LONG_LINES: Final = 8
LONG_CHARACTERS: Final = 1_200
_TELLING: Final = 8
"""Characters by which a paste is told from what was typed around it."""
PICTURES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
SOUNDS: Final = frozenset({".wav", ".mp3"})
_SIGN: Final = patterns.pattern_of(
    r"\[(?:pasted [\d,]+ (?:lines|characters)|(?:image|sound|file) [^\]\n]+) #\d+\]"
)
_MENTIONED: Final = patterns.pattern_of(r'(?:^|\s)@(?:"([^"\n]+)"|(\S+))')


def with_newlines(pasted: str) -> str:
    """Terminals paste the end of a line as Enter would type it: as a carriage return."""
    return pasted.replace("\r\n", "\n").replace("\r", "\n")


class Pastes:
    """What the signs in the prompt stand for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts: dict[str, str] = {}
        self._harmless: dict[str, str] = {}
        """What was pasted, by how it is shown."""
        self._pictures: dict[str, Path] = {}

    def fold(self, pasted: str) -> str:
        """What to put into the prompt for a paste: itself if it is short, else a sign.

        What cannot be shown as it is stands there made harmless, and is sent with every character.
        """
        text = with_newlines(pasted)
        if picture := self._dropped(text):
            sign = f"[{_kind(picture)} {picture.name.replace(']', '_')} {self._number()}]"
            self._pictures[sign] = picture
            return sign
        lines = text.count("\n") + 1
        short = lines <= LONG_LINES and len(text) <= LONG_CHARACTERS
        if short and (shown := self.shown(text)) is not None:
            return shown
        size = plural(lines, "line") if lines > LONG_LINES else f"{len(text):,} characters"
        sign = f"[pasted {size} {self._number()}]"
        self._texts[sign] = text
        return sign

    def shown(self, text: str) -> str | None:
        """How a text stands in the prompt; `unfold` gives it back. None for one that cannot."""
        if is_editable(text):
            return text
        shown = for_terminal(text)
        told = len(shown) >= _TELLING and self._harmless.setdefault(shown, text) == text
        return shown if told else None

    def _number(self) -> str:
        return f"#{len(self._texts) + len(self._pictures) + 1}"

    def unfold(self, text: str) -> str:
        """The text with every paste in its place; pictures stay signs."""
        for shown, pasted in self._harmless.items():
            text = text.replace(shown, pasted)
        return _SIGN.sub(lambda found: self._texts.get(found.group(), found.group()), text)

    def sign_at(self, text: str, column: int) -> tuple[int, int, str] | None:
        """The folded paste at a column of a line: from, to, and how its text is shown.

        None for one that can only be shown folded.
        """
        for found in _SIGN.finditer(text):
            kept = self._texts.get(found.group(), "")
            if found.start() <= column <= found.end() and (shown := self.shown(kept)):
                return found.start(), found.end(), shown
        return None

    def files_in(self, text: str) -> list[Path]:
        """Files that go with a text: those that were dropped on it, or named after an `@`."""
        signs = (found.group() for found in _SIGN.finditer(text))
        pasted = [self._pictures[sign] for sign in signs if sign in self._pictures]
        named = (self._folder / (a or b) for a, b in _MENTIONED.findall(text))
        return pasted + [path for path in named if _is_file(path)]

    def _dropped(self, text: str) -> Path | None:
        """The file whose path this is, as terminals write it when one is dropped on them.

        The path of anything but a picture or a sound may be meant as it stands.
        """
        if "\n" in text.strip() or len(text) > 4_096:
            return None
        try:
            words = shlex.split(text.strip().removeprefix("file://"))
        except ValueError:
            return None
        if len(words) != 1:
            return None
        path = self._folder / paths.from_home(words[0])
        meant = text.strip().startswith("file://") or _kind(path) != "file"
        return path if meant and _is_file(path) else None


def _is_file(path: Path) -> bool:
    """What names no file that can be looked at, because it is too long or closed, is none."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib's own raises for both


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    return "image" if suffix in PICTURES else "sound" if suffix in SOUNDS else "file"
