"""Text that arrives in pieces, blacked out as if it had come at once.

A secret can be cut in two anywhere. What could still become one is held back until the text goes
on: the word that is not finished, the rest of a line after a telling name, the lines of a private
key. Everything before it is shown, and was judged together with what had been shown before.
"""

from __future__ import annotations

import re

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction.blocks import LONGEST_BLOCK, open_block
from mindstone_tui.core.redaction.findings import Redacted
from mindstone_tui.core.redaction.redactor import Redactor, Span, blacked_out

__all__ = ["RedactedPieces"]

_CONTEXT = 512
"""Characters before a secret that can tell what it is."""
_LONGEST_HELD = LONGEST_BLOCK + 4096
"""Characters that are held back at most."""
_OVERLAP = 4096
"""Characters that stay when a text without any end of a word grows longer than that."""

_TELLING = pattern_of(
    r"pass|pw|secret|token|key|auth|mnemonic|login|echo |identified|securestring", re.I
)
_UNFINISHED = pattern_of(
    r"(?:(?:pass|pw|secret|token|key|auth)[A-Za-z0-9_-]{0,40}[\"'`\]]{0,2}[\s,+\d/>\\nrt]{0,60}"
    r"|login\s{1,8}\S{1,100}\s{1,8})\Z",
    re.IGNORECASE,
)
"""A name at the end of a line whose value may stand on the next one."""
_TAIL = 180


class RedactedPieces:
    """Takes the pieces of a text and gives out what may be shown of it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._shown = ""
        """The end of what was given out, as it came."""
        self._held = ""
        self._lines = 0

    def feed(self, piece: str) -> Redacted:
        """What may be shown now that this piece has come."""
        self._held += piece
        return self._release(self._safe_until())

    def end(self) -> Redacted:
        """The rest, once nothing more will come."""
        return self._release(len(self._held))

    def _safe_until(self) -> int:
        """Where what must be held back begins: a word that is whole, and all before it, may go."""
        held = self._held
        doubtful = min(
            _unfinished_name(held), open_block(held), self._redactor.known.open_from(held)
        )
        until = max(held.rfind(space, 0, doubtful) for space in " \t\r\n") + 1
        return until if len(held) - until <= _LONGEST_HELD else len(held) - _OVERLAP

    def _release(self, until: int) -> Redacted:
        """Give out what is held, up to here or to the secret that this place would cut in two."""
        if until <= 0:
            return Redacted("")
        context = len(self._shown)
        spans: list[Span] = []
        for start, end, kind in self._redactor.secrets(self._shown + self._held):
            if end <= context:
                continue
            if end - context > until and len(self._held) > _LONGEST_HELD:
                until = end - context  # longer than any secret we know: black out what there is
            elif end - context > until:
                until = min(until, max(start - context, 0))
                break
            spans.append((max(start - context, 0), end - context, kind))
        clean = blacked_out(self._held[:until], spans)
        found = tuple(
            msgspec.structs.replace(finding, line=finding.line + self._lines)
            for finding in clean.found
        )
        self._lines += self._held.count("\n", 0, until)
        self._shown = (self._shown + self._held[:until])[-_CONTEXT:]
        self._held = self._held[until:]
        return Redacted(clean.text, found)


def _unfinished_name(text: str) -> int:
    """Where a telling name begins on the last line, or at the end of the one before it."""
    line = max(text.rfind("\n"), text.rfind("\r")) + 1
    if found := _TELLING.search(text, line):
        return found.start()
    if found := _UNFINISHED.search(text, max(len(text) - _TAIL, 0)):
        return found.start()
    return len(text)
