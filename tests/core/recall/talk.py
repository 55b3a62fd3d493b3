"""Passages and a model for tests: small, made up, the same in every run."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Sequence

import numpy as np

from mindstone_tui.core.errors import VectorsUnavailable
from mindstone_tui.core.language.words import words_of
from mindstone_tui.core.recall.embedding import LONGEST_INPUT, Encoded, Floats
from mindstone_tui.core.recall.passages import Passage


def said(text: str, seq: int = 1, **changes: object) -> Passage:
    """A passage of a user; a test names what it is about."""
    fields: dict[str, object] = {
        "id": f"e{seq}#0",
        "session": "agent:default:main",
        "seq": seq,
        "entry": f"e{seq}",
        "turn": (seq + 1) // 2,
        "ts": f"2026-01-{1 + seq // 1000 % 28:02}T{seq // 60 % 24:02}:{seq % 60:02}:00Z",
        "role": "user",
        "speaker": "user",
        "kind": "user_message",
        "text": text,
        **changes,
    }
    return Passage(**fields)  # type: ignore[arg-type]


class WordModel:
    """Each word has a vector made from its hash; a text is the mean of its words."""

    def __init__(self, name: str = "word-model", dims: int = 64) -> None:
        self._name = name
        self._dims = dims
        self.seen: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def dims(self) -> int:
        return self._dims

    def embed(self, texts: Sequence[str]) -> Floats:
        return np.stack([self.encode(text).vector for text in texts])

    def encode(self, text: str) -> Encoded:
        self.seen.append(text)
        words = tuple(itertools.islice(words_of(text), LONGEST_INPUT)) or ("nothing",)
        rows = np.stack([_vector(self._name, word, self._dims) for word in words])
        mean = rows.mean(axis=0)
        wide = np.zeros((len(words), 256), np.float32)
        wide[:, : self._dims] = rows[:, :256]
        return Encoded(mean / np.linalg.norm(mean), words, wide)


@functools.lru_cache(maxsize=2_000)
def _vector(model: str, word: str, dims: int) -> Floats:
    seed = int.from_bytes(hashlib.sha256(f"{model} {word}".encode()).digest()[:8])
    vector = np.random.default_rng(seed).standard_normal(dims, np.float32)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


class BrokenModel:
    """A model whose files are gone."""

    name = "broken"
    dims = 64

    def embed(self, texts: Sequence[str]) -> Floats:
        raise VectorsUnavailable("No model today.", "Try again.")


class PickyModel(WordModel):
    """A model that refuses one text."""

    def encode(self, text: str) -> Encoded:
        if "Biscuit" in text:
            raise VectorsUnavailable("Not that one.", "Leave it out.")
        return super().encode(text)
