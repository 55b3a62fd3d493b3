"""Make the vocabularies that ship with the package, from those that litellm brings for tiktoken."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import tiktoken

from mindstone_tui.core import tokens
from mindstone_tui.core.tokens import _HEAD, _MAGIC, VOCABULARIES

PLACE = Path(tokens.__file__).with_name("vocabularies")


def load_encoding(name: str) -> tiktoken.Encoding:
    """The vocabulary from litellm's folder."""
    found = tokens.load_encoding(name)
    assert found is not None
    return found


def written(pattern: str, ranks: Mapping[bytes, int]) -> bytes:
    """A vocabulary as a file: splitter, hash table of numbers, ends of tokens, tokens."""
    tokens: Sequence[bytes] = sorted(ranks, key=ranks.__getitem__)
    if [ranks[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError("The ranks have gaps.")
    slots = [0] * (1 << (len(tokens) * 5 // 4).bit_length())
    ends = [0]
    for number, token in enumerate(tokens, start=1):
        slot = zlib.crc32(token) & (len(slots) - 1)
        while slots[slot]:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = number
        ends.append(ends[-1] + len(token))
    said = json.dumps({"pattern": pattern}).encode()
    said += b" " * (-len(said) % 4)
    head = _HEAD.pack(_MAGIC, len(said), len(tokens), len(slots))
    numbers = struct.pack(f"<{len(slots)}I{len(ends)}I", *slots, *ends)
    return head + said + numbers + b"".join(tokens)


def main() -> None:
    """Write both files anew."""
    for name in VOCABULARIES:
        encoding = load_encoding(name)
        made = written(encoding._pat_str, encoding._mergeable_ranks)
        (PLACE / f"{name}.bpe").write_bytes(made)


if __name__ == "__main__":
    main()
