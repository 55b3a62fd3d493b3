"""Counting offline, with the vocabulary closest to the model's own.

The vocabularies lie in litellm's folder; litellm itself is never imported. Loading one takes up to
half a second, so it happens on first use, and `ready` does it off the loop. Where no vocabulary
can be had the count comes from characters and errs high; `method` says which it was.
"""

from __future__ import annotations

import asyncio
import functools
import math
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from mindstone_tui.core.entries import Message, ToolSchema
from mindstone_tui.core.lockdown import litellm_folder
from mindstone_tui.core.tokens.rough import rough_count

if TYPE_CHECKING:
    import tiktoken

MESSAGE_OVERHEAD: Final = 4
"""The role and the marks around one message."""
REPLY_OVERHEAD: Final = 3
"""The marks that begin the answer; counted once a request."""
CALL_OVERHEAD: Final = 8
"""Id and framing of one tool call."""
SCHEMA_OVERHEAD: Final = 8
TOOLS_OVERHEAD: Final = 16
UNKNOWN_IMAGE: Final = 1_600
"""A picture whose size nobody knows."""

CHARACTERS: Final = "characters"
_CHUNK: Final = 200_000
_FILES: Final = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
_OLDER: Final = ("gpt-4-", "gpt-4", "gpt-3.5", "claude", "llama", "mistral", "mixtral", "smollm")
_NEWER: Final = ("gpt-4o", "gpt-4.1", "gpt-4.5")
_loading: Final = threading.Lock()


class Counter(Protocol):
    """Someone who knows how large things are for one model."""

    @property
    def method(self) -> str:
        """The vocabulary, or `characters`."""
        ...

    def text(self, text: str) -> int:
        """Tokens in a text."""
        ...

    def message(self, message: Message) -> int:
        """Tokens of one chat message, its overhead included."""
        ...

    def tools(self, tools: Sequence[ToolSchema]) -> int:
        """Tokens of the tool schemas that a request carries."""
        ...

    def image(self, width: int, height: int) -> int:
        """Tokens of a picture."""
        ...

    async def ready(self) -> None:
        """Load what counting needs, off the loop."""
        ...


def encoding_for(model: str) -> str:
    """The vocabulary nearest to a model's own, by its family."""
    name = model.rsplit("/", 1)[-1].lower()
    if name.startswith(_NEWER):
        return "o200k_base"
    return "cl100k_base" if name.startswith(_OLDER) else "o200k_base"


class TokenCounter:
    """Counts for one model's family; made cheaply, loaded on first use."""

    def __init__(self, model: str) -> None:
        self.encoding = encoding_for(model)
        self._encoder: tiktoken.Encoding | None = None
        self._asked = False

    @property
    def method(self) -> str:
        """The vocabulary, or `characters` when it cannot be had; loads it if need be."""
        return CHARACTERS if self._load() is None else self.encoding

    async def ready(self) -> None:
        """Load the vocabulary off the loop."""
        if not self._asked:
            await asyncio.to_thread(self._load)

    def text(self, text: str) -> int:
        """Tokens in a text; special tokens that it spells out are text like any other."""
        encoder = self._load()
        if encoder is None:
            return rough_count(text)
        return sum(len(encoder.encode_ordinary(piece)) for piece in _pieces(text))

    def message(self, message: Message) -> int:
        """Tokens of one chat message: content, calls, reasoning and overhead."""
        total = MESSAGE_OVERHEAD + self._content(message.get("content"))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            total += CALL_OVERHEAD + self.text(function["name"]) + self.text(function["arguments"])
        for block in message.get("thinking_blocks") or ():
            total += self.text(str(block.get("thinking", "")))
        return total

    def tools(self, tools: Sequence[ToolSchema]) -> int:
        """Tokens of the tool schemas, as compact JSON."""
        if not tools:
            return 0
        return TOOLS_OVERHEAD + sum(
            SCHEMA_OVERHEAD + self.text(msgspec.json.encode(tool).decode()) for tool in tools
        )

    def image(self, width: int, height: int) -> int:
        """Tokens of a picture: the dearer of the two common ways to charge for one."""
        if width <= 0 or height <= 0:
            return UNKNOWN_IMAGE
        return max(_by_tiles(width, height), _by_area(width, height))

    def _content(self, content: Any) -> int:
        if content is None:
            return 0
        if isinstance(content, str):
            return self.text(content)
        return sum(
            self.text(part["text"]) if part.get("type") == "text" else UNKNOWN_IMAGE
            for part in content
        )

    def _load(self) -> tiktoken.Encoding | None:
        if not self._asked:
            self._encoder = _load_encoding(self.encoding)
            self._asked = True
        return self._encoder


@functools.cache
def _by_name(encoding: str, model: str) -> TokenCounter:
    del encoding
    return TokenCounter(model)


def counter_for(model: str) -> TokenCounter:
    """The counter for a model; models with one vocabulary share one."""
    encoding = encoding_for(model)
    return _by_name(encoding, "gpt-4" if encoding == "cl100k_base" else "gpt-4o")


@functools.cache
def _load_encoding(name: str) -> tiktoken.Encoding | None:
    """The vocabulary from litellm's folder, or None: the network is never asked."""
    package = litellm_folder()
    if package is None:
        return None
    folder = package / "litellm_core_utils" / "tokenizers"
    if not (folder / _FILES[name]).is_file():
        return None
    with _loading:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        try:
            import tiktoken

            return tiktoken.get_encoding(name)
        except (ImportError, OSError, ValueError):
            return None


def _pieces(text: str) -> Iterator[str]:
    """Long texts in parts, so that no single word can make counting slow."""
    for start in range(0, len(text), _CHUNK):
        yield text[start : start + _CHUNK]


def _by_tiles(width: int, height: int) -> int:
    """Scaled into 2,048 squared, the short side to 768, then 170 for each tile of 512."""
    scale = min(1.0, 2_048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _by_area(width: int, height: int) -> int:
    """One for each 750 pixels after scaling the long side to 1,568."""
    scale = min(1.0, 1_568 / max(width, height))
    return math.ceil(width * scale * height * scale / 750)
