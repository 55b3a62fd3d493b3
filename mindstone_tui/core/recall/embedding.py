"""Meaning as numbers: the embedder protocol, the model that ships with the package, remote ones.

The embedded model answers offline, right after installation. It is loaded on first use, and numpy
with it, and blocks while it works, so callers run it in a thread. Vectors carry the name of their
model and are never compared with another model's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard

import msgspec

from mindstone_tui.core import errors, lockdown, recall
from mindstone_tui.core.language.languages import is_english
from mindstone_tui.core.recall.multilingual import MultilingualModel, open_multilingual

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
else:
    Floats = Any

LONGEST_INPUT: Final = 256
"""Tokens the embedded model was trained on; more are cut."""

TOKEN_BITS: Final = 256
"""Dimensions of a token that are kept as signs: the rest adds size, not quality."""
BYTES_A_TOKEN: Final = TOKEN_BITS // 8


class Encoded(msgspec.Struct, frozen=True):
    """A text as one vector, and as one vector for each of its tokens."""

    vector: Floats
    pieces: tuple[str, ...]
    """The tokens' own text, word beginnings without a mark, continuations with `##`."""
    token_vectors: Floats
    """One row a token, of unit length."""


class Embedder(Protocol):
    """Turns texts into unit vectors of `dims` numbers; `name` says which model did."""

    @property
    def name(self) -> str: ...
    @property
    def dims(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Floats: ...


class TokenEmbedder(Embedder, Protocol):
    """An embedder that can also say what each token means in its place."""

    def encode(self, text: str) -> Encoded: ...


def tells_tokens_apart(embedder: Embedder) -> TypeGuard[TokenEmbedder]:
    """Whether it is a `TokenEmbedder`, found out without asking a remote one anything."""
    return callable(getattr(embedder, "encode", None))


def companion_of(embedder: Embedder | None) -> Embedder | None:
    """The model for texts that this one does not understand; None when it needs or has none."""
    companion: Embedder | None = getattr(embedder, "companion", None)
    return companion


def knows_english_only(embedder: Embedder | None) -> bool:
    """Whether other languages must not be compared by this model."""
    return bool(getattr(embedder, "english_only", False))


def understands(embedder: Embedder | None, text: str) -> bool:
    """Whether a text may be compared by this model."""
    return is_english(text) or not knows_english_only(embedder)


def encode(embedder: Embedder, text: str) -> Encoded:
    """A text's meaning, with its tokens where the model can tell them apart."""
    if tells_tokens_apart(embedder):
        return embedder.encode(text)
    vector = embedder.embed([text])
    return Encoded(vector[0], (), vector[:0])


def stacked(vectors: Sequence[Floats], dims: int) -> Floats:
    """Vectors as the rows of one matrix, which may have none."""
    recall.import_numpy_on_one_thread()
    import numpy as np

    return np.stack(vectors) if vectors else np.empty((0, dims), np.float32)


class EmbeddedModel:
    """all-MiniLM-L6-v2, int8, run by onnxruntime on one thread, one text a run.

    Two threads collapse when the cores are busy, and in a batch the padding of one text changes
    the quantised vectors of another.
    """

    name: Final = "minilm-l6-v2-int8/1"
    dims: Final = 384
    english_only: Final = True

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._runtime: tuple[Any, Any] | None = None

    @property
    def companion(self) -> MultilingualModel | None:
        """The model for other languages, if the extra `languages` brought it."""
        return open_multilingual()

    def embed(self, texts: Sequence[str]) -> Floats:
        """One unit vector a text."""
        return stacked([self.encode(text).vector for text in texts], self.dims)

    def encode(self, text: str) -> Encoded:
        """The text's vector and its tokens' vectors, from one run."""
        tokenizer, model = self._runtime or self._load()
        import numpy as np

        encoding = tokenizer.encode(text)
        ids = np.array([encoding.ids], np.int64)
        pooled, hidden = model.run(None, {"input_ids": ids})
        inner = hidden[0, 1:-1]
        inner = inner / np.maximum(np.linalg.norm(inner, axis=1, keepdims=True), 1e-9)
        return Encoded(pooled[0], tuple(encoding.tokens[1:-1]), inner.astype(np.float32))

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._runtime is None:
                self._runtime = _load_runtime()
            return self._runtime


def _load_runtime() -> tuple[Any, Any]:
    """Tokenizer and session; both imports are heavy and may be missing, so they wait until here."""
    home = Path(__file__).with_name("minilm")
    try:
        from tokenizers import Tokenizer

        recall.import_numpy_on_one_thread()
        onnxruntime = lockdown.import_onnxruntime()
        tokenizer = Tokenizer.from_str((home / "tokenizer.json").read_text(encoding="utf-8"))
        tokenizer.enable_truncation(LONGEST_INPUT)
        tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = onnxruntime.InferenceSession(
            str(home / "minilm-int8.onnx"),
            options,
            providers=["CPUExecutionProvider"],
            # Fused, a sum and its normalisation take five times as long.
            disabled_optimizers=["SkipLayerNormFusion"],
        )
    except Exception as error:  # onnxruntime and tokenizers raise bare Exceptions of their own
        raise errors.VectorsUnavailable(
            f"The embedded model cannot be loaded: {error}.",
            "Recall works on words alone; reinstalling the package usually brings it back.",
        ) from error
    return tokenizer, model


class RemoteEmbedder:
    """A model behind litellm, by name; `call` takes `model` and `input` as litellm does."""

    def __init__(self, model: str, call: Callable[..., Any] | None = None) -> None:
        self.name: Final = model
        self._call = call or _through_litellm
        self._dims = 0

    @property
    def dims(self) -> int:
        """The size of its vectors, learned from the first one."""
        return self._dims or self.embed(["size"]).shape[1]

    def embed(self, texts: Sequence[str]) -> Floats:
        """One request for all texts; a wrong count or size is an error, not a guess."""
        recall.import_numpy_on_one_thread()
        import numpy as np

        if not texts:
            return np.empty((0, self._dims), np.float32)
        try:
            answer = self._call(model=self.name, input=list(texts))
            rows = np.array([row["embedding"] for row in answer["data"]], np.float32)
        except Exception as error:  # litellm's own tree is known only after its slow import
            raise errors.VectorsUnavailable(
                f"{self.name} gave no embeddings: {error}.",
                "Check the model's name and key; words still work meanwhile.",
            ) from error
        self._dims = self._dims or rows.shape[-1]
        if rows.shape != (len(texts), self._dims):
            raise errors.VectorsUnavailable(
                f"{self.name} gave vectors of shape {rows.shape}, not {(len(texts), self._dims)}.",
                "Words still work; choose another embedding model if this goes on.",
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.maximum(lengths, 1e-9), np.float32)


class EmbedsOnce(msgspec.Struct, eq=False):
    """An embedder that never reads the same text twice: several indexes of one history share it."""

    _embedder: Embedder
    _known: dict[str, Encoded] = {}

    @property
    def name(self) -> str:
        """The model's own name: its vectors are the same."""
        return self._embedder.name

    @property
    def companion(self) -> Embedder | None:
        """The model's own: it is quick enough to read a text twice."""
        return companion_of(self._embedder)

    @property
    def english_only(self) -> bool:
        """Whether the model is."""
        return knows_english_only(self._embedder)

    @property
    def dims(self) -> int:
        """As many numbers as the model's."""
        return self._embedder.dims

    def embed(self, texts: Sequence[str]) -> Floats:
        """One unit vector a text."""
        return stacked([self.encode(text).vector for text in texts], self.dims)

    def encode(self, text: str) -> Encoded:
        """The text's meaning, from memory where it was asked for before."""
        if text not in self._known:
            self._known[text] = encode(self._embedder, text)
        return self._known[text]


def open_embedder(name: str) -> Embedder:
    """The embedder a setting names: `minilm` is the embedded one, all others are litellm's."""
    return _embedded_model() if name == "minilm" else RemoteEmbedder(name)


@cache
def _embedded_model() -> EmbeddedModel:
    """One for the whole process: each that is loaded takes a hundred megabytes."""
    return EmbeddedModel()


def _through_litellm(**request: Any) -> Any:
    return lockdown.import_litellm().embedding(**request)
