"""How close a question and a passage are, token by token, from signs alone.

Imported only when there are vectors to make or to compare, because it loads numpy; see
`import_numpy_on_one_thread`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from mindstone_tui.core.language.words import stopwords
from mindstone_tui.core.recall.embedding import BYTES_A_TOKEN, TOKEN_BITS, Encoded, Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.intp]
    Tables = NDArray[np.int16]


def signs(rows: Floats) -> NDArray[np.uint8]:
    """The signs of each row's numbers, eight a byte."""
    return np.packbits(rows > 0, axis=-1, bitorder="little")


_SCALE: Final = float(np.sqrt(TOKEN_BITS * 2 / np.pi) * np.sqrt(TOKEN_BITS / 384))
"""Turns a product with signs into an estimate of the cosine."""
_SIGNS_OF_BYTES: Final = 2.0 * np.unpackbits(
    np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"
).astype(np.float32) - np.float32(1)
"""For each value of a byte the eight signs that it stands for, as ±1."""
_LARGEST: Final = 32_000
"""What the largest product may be in a table; sixteen bits and what rounding adds hold it."""
_TOGETHER: Final = 8
"""A table's rows are as long as a multiple of this: so they are copied quickly."""
_PASSAGES_AT_ONCE: Final = 32
"""While these are compared nobody else's Python runs: a key that is typed would wait."""
_TOKENS_AT_ONCE: Final = 8_192
"""Tokens compared at a time: what stays in the processor's cache."""


class AskedTokens(msgspec.Struct, frozen=True):
    """The telling tokens of a question and how much each counts."""

    tables: Tables
    """By place and value of a byte of signs, what it adds to the product with each token."""
    unit: float
    """What 1 stands for in them."""
    weights: Floats
    starts: Words
    """Where each word begins among the tokens."""


class Nearness(msgspec.Struct, frozen=True):
    """How near passages come to a question, as a whole and word by word."""

    whole: Floats
    """For each passage the weighted mean, over the question's tokens, of the best match."""
    words: Floats
    """For each passage, a row, the best match of each of the question's words."""
    tokens: Floats
    """How many each passage has."""


def passage_tokens(encoded: Encoded) -> bytes:
    """The signs of a passage's telling tokens, `BYTES_A_TOKEN` each."""
    telling = [at for at, piece in enumerate(encoded.pieces) if _tells(piece)]
    return signs(encoded.token_vectors[telling, :TOKEN_BITS]).tobytes() if telling else b""


def asked_tokens(encoded: Encoded, rarity: Callable[[str], float]) -> AskedTokens:
    """The question's telling tokens; a word's rarity is shared by the tokens it is made of."""
    words = _whole_words(encoded.pieces)
    telling = [span for span in words if _tells(span[0])] or words
    chosen = [at for _, places in telling for at in places]
    weights = [rarity(word) / len(places) for word, places in telling for _ in places]
    sizes = [len(places) for _, places in telling]
    tables, unit = _tables(encoded.token_vectors[chosen, :TOKEN_BITS])
    return AskedTokens(
        tables,
        unit,
        np.array(weights, np.float32) + np.float32(1e-6),
        np.cumsum([0, *sizes[:-1]]).astype(np.intp),
    )


def _tables(vectors: Floats) -> tuple[Tables, float]:
    """The products of all vectors with all signs, byte by byte, and the unit they are given in."""
    count = len(vectors)
    parts = np.zeros((-(-count // _TOGETHER) * _TOGETHER, TOKEN_BITS), np.float32)
    parts[:count] = vectors
    unit = max(float(np.abs(parts).sum(axis=1).max(initial=0.0)), 1e-9) / _LARGEST
    by_byte = parts.T.reshape(BYTES_A_TOKEN, 8, -1)
    return np.rint(_SIGNS_OF_BYTES @ by_byte / np.float32(unit)).astype(np.int16), unit


def closeness(asked: AskedTokens, passages: Sequence[bytes]) -> Nearness:
    """How near each passage comes; one without tokens comes near nothing."""
    tokens = np.array([len(kept) // BYTES_A_TOKEN for kept in passages], np.float32)
    whole = np.zeros(len(passages), np.float32)
    words = np.zeros((len(passages), len(asked.starts)), np.float32)
    filled = [at for at, kept in enumerate(passages) if kept]
    if not filled or not len(asked.weights):
        return Nearness(whole, words, tokens)
    found = []
    for first in range(0, len(filled), _PASSAGES_AT_ONCE):
        some = filled[first : first + _PASSAGES_AT_ONCE]
        packed = np.frombuffer(b"".join(passages[at] for at in some), np.uint8)
        products = _products(asked.tables, packed.reshape(-1, BYTES_A_TOKEN))
        sizes = tokens[some].astype(np.intp)
        found.append(np.maximum.reduceat(products, np.cumsum(sizes) - sizes, axis=0))
    best = np.concatenate(found)[:, : len(asked.weights)] * np.float32(asked.unit / _SCALE)
    whole[filled] = best @ (asked.weights / asked.weights.sum())
    lengths = np.diff(np.append(asked.starts, len(asked.weights)))
    words[filled] = np.add.reduceat(best, asked.starts, axis=1) / lengths
    return Nearness(whole, words, tokens)


def _products(tables: Tables, tokens: NDArray[np.uint8]) -> Tables:
    """The product of every asked token with the signs of every given one.

    Looking bytes up in tables is three times faster than multiplying eight numbers for each.
    """
    wide = tables.shape[2]
    lines = tables.view(np.dtype((np.void, 2 * wide)))[..., 0]
    products = np.zeros((len(tokens), wide), np.int16)
    found = np.empty(min(len(tokens), _TOKENS_AT_ONCE), lines.dtype)
    for start in range(0, len(tokens), _TOKENS_AT_ONCE):
        places = tokens[start : start + _TOKENS_AT_ONCE].T.copy()
        here = found[: places.shape[1]]
        for line, place in zip(lines, places, strict=True):
            line.take(place, out=here, mode="wrap")
            products[start : start + len(here)] += here.view(np.int16).reshape(-1, wide)
    return products


def word_weights(asked: AskedTokens) -> Floats:
    """How much each of the question's words counts; together 1."""
    if not len(asked.weights):
        return asked.weights
    return np.asarray(np.add.reduceat(asked.weights, asked.starts) / asked.weights.sum())


def _tells(piece: str) -> bool:
    return piece not in stopwords() and any(char.isalnum() for char in piece)


def _whole_words(pieces: Sequence[str]) -> list[tuple[str, list[int]]]:
    words: list[tuple[str, list[int]]] = []
    for at, piece in enumerate(pieces):
        if piece.startswith("##") and words:
            word, places = words[-1]
            words[-1] = (word + piece[2:], [*places, at])
        else:
            words.append((piece, [at]))
    return words
