"""How large the next prompt is, piece by piece, each entry counted once.

Every figure anybody is shown comes from one list of pieces: the components are sums over it, and
so is the total, so parts always add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from mindstone_tui.core.context.fold import Fold, Placed
from mindstone_tui.core.context.messages import Key
from mindstone_tui.core.entries import Label, Line, ToolSchema, conversation
from mindstone_tui.core.entries.window import Anchor
from mindstone_tui.core.tokens import MESSAGE_OVERHEAD, REPLY_OVERHEAD, SOUND_SECOND, Counter

if TYPE_CHECKING:
    from mindstone_tui.core.context.window_view import Call

ComponentName = Literal[
    "system_prompt", "tool_definitions", "message_history", "tool_results", "memory_injection"
]
COMPONENTS: Final[tuple[ComponentName, ...]] = get_args(ComponentName)


_KEPT_TEXTS: Final = 256


class Piece(msgspec.Struct, frozen=True):
    """A part of the prompt that comes from one entry."""

    key: Key
    component: ComponentName
    raw: int
    line: Line | None = None
    name: str = ""
    """What it is, when it is no message: `identity`, `tools`, `recall` …"""


class TokenCache(msgspec.Struct, eq=False):
    """Counts that were made once and stay valid: entries never change."""

    counter: Counter
    _counts: dict[Key, int] = {}
    _texts: dict[str, int] = {}
    _tools: tuple[tuple[ToolSchema, ...], int] | None = None

    def message(self, placed: Placed, *, images: bool = True, sounds: bool = False) -> int:
        """Tokens of a message as it is sent."""
        key = (*placed.key, images, sounds)
        if key not in self._counts:
            self._counts[key] = self._count(placed, images=images, sounds=sounds)
        return self._counts[key]

    def text(self, text: str) -> int:
        """Tokens of a text that stands in the head or the tail."""
        if text not in self._texts:
            if len(self._texts) >= _KEPT_TEXTS:
                self._texts.clear()
            self._texts[text] = self.counter.text(text)
        return self._texts[text]

    def keep(self, keys: Iterable[Key]) -> None:
        """Forget messages that are not in the window any more."""
        kept = {key[0] for key in keys}
        self._counts = {key: count for key, count in self._counts.items() if key[0] in kept}

    def tools(self, fold: Fold) -> int:
        """Tokens of the tool schemas."""
        if self._tools is None or self._tools[0] is not fold.tools:
            self._tools = (fold.tools, self.counter.tools(fold.tools))
        return self._tools[1]

    def _count(self, placed: Placed, *, images: bool, sounds: bool) -> int:
        tokens, entry = self.counter.message(placed.message()), placed.entry
        if not isinstance(entry, conversation.UserMessage):
            return tokens
        for each in entry.images:
            if each.is_sound and sounds:
                tokens += math.ceil(each.seconds * SOUND_SECOND)
            elif images and not each.is_sound:
                tokens += self.counter.image(each.width, each.height)
        return tokens


def pieces(fold: Fold, ledger: TokenCache, call: Call) -> list[Piece]:
    """Everything the next prompt is made of, in its order, with our own count of each."""
    head = fold.head_key()
    found = [
        Piece(
            (*head, name, number),
            "system_prompt",
            ledger.text(text) + (MESSAGE_OVERHEAD + REPLY_OVERHEAD if number == 0 else 1),
            name=name,
        )
        for number, (name, text) in enumerate(_head_texts(fold))
    ]
    found += [
        Piece((*head, "derived", number), "message_history", ledger.text(text) + 1, name="derived")
        for number, text in enumerate(fold.derived.values())
    ]
    if fold.tools:
        found.append(Piece((*head, "tools"), "tool_definitions", ledger.tools(fold), name="tools"))
    for placed in fold.placed(model=call.model, turn=call.turn):
        is_result = isinstance(placed.line.entry, conversation.ToolReturned)
        found.append(
            Piece(
                placed.key,
                "tool_results" if is_result else "message_history",
                ledger.message(placed, images=call.images, sounds=call.sounds),
                placed.line,
            )
        )
    if passing := fold.tail_text(call.tail):
        found.append(
            Piece(
                ("tail", *call.tail),
                "memory_injection",
                ledger.text(passing) + MESSAGE_OVERHEAD,
                name="recall",
            )
        )
    return found


def _head_texts(fold: Fold) -> list[tuple[str, str]]:
    texts = [(section.name, section.text) for section in fold.sections if section.text]
    if fold.marker:
        texts.append(("marker", fold.marker))
    return texts


class Measured(msgspec.Struct, frozen=True):
    """Pieces with their corrected sizes; `total` is their sum."""

    pieces: Sequence[Piece]
    sizes: Sequence[int]
    total: int
    raw: int
    factor: float
    label: Label

    @property
    def sized(self) -> Iterator[tuple[Piece, int]]:
        """Each piece with its size."""
        return zip(self.pieces, self.sizes, strict=True)

    def component(self, name: ComponentName) -> int:
        """Tokens of one share of the budget."""
        return sum(size for piece, size in self.sized if piece.component == name)


def scaled(
    found: Sequence[Piece], factor: float, label: Label, total: int | None = None
) -> Measured:
    """Apply a correction so that the sizes are whole numbers and add up exactly.

    With `total`, the factor is the one that makes them add up to it.
    """
    raw = sum(piece.raw for piece in found)
    if total is not None and raw:
        factor = total / raw
    sizes: list[int] = []
    before = passed = 0
    for piece in found:
        passed += piece.raw
        after = round(passed * factor)
        sizes.append(after - before)
        before = after
    return Measured(found, sizes, before, raw, factor, label)


def corrected(found: Sequence[Piece], anchor: Anchor | None, factor: float, *, at: int) -> Measured:
    """The prompt's size: reported where it is, else anchored on the last report, else estimated."""
    raw = sum(piece.raw for piece in found)
    if anchor is None or anchor.at != at or anchor.raw <= 0:
        return scaled(found, factor, "estimated")
    # The provider counted the prompt that this one grew from, so only what was added since is our
    # own estimate. Where the two are far apart the report was about something else: a cut prompt,
    # or a cache that is counted in part.
    grown = raw - anchor.raw
    total = anchor.reported + round(grown * factor)
    if total <= 0 or not 0.3 < total / max(raw * factor, 1) < 3:
        return scaled(found, factor, "estimated")
    label: Label = "measured" if grown == 0 else "anchored"
    return scaled(found, factor, label, total)
