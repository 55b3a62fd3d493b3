"""The embedded models in a process of their own, for a program that is open all day.

Loaded they take one to three hundred megabytes, and a vector is needed once a turn at most. The
process is started when a vector is first wanted and ends by itself: some minutes after the last
one, and as soon as whoever started it is gone. It answers on its standard streams and on nothing
else; each message is a length and msgpack.
"""

import contextlib
import os
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import IO, Any, Final

import msgspec

from mindstone_tui.core.errors import VectorsInterrupted, VectorsUnavailable
from mindstone_tui.core.recall import embedding, import_numpy_on_one_thread, multilingual

_LINGERS: Final = 300.0
"""Seconds without a question after which the process ends; starting it again takes one."""
_LESS_URGENT: Final = 5
"""It yields to whoever draws or answers."""
_LENGTH: Final = struct.Struct("<I")
_LOST: Final = VectorsUnavailable(
    "The process that makes vectors ended.",
    "Recall goes on with words alone; the next vector starts it again.",
)


class _Wanted(msgspec.Struct, frozen=True, array_like=True):
    text: str
    language: bool
    """By the model for other languages; by the one for English otherwise."""


class _Made(msgspec.Struct, frozen=True, array_like=True):
    vector: bytes = b""
    pieces: tuple[str, ...] = ()
    token_vectors: bytes = b""
    what: str = ""
    """Why there is no vector."""
    remedy: str = ""


class _Process:
    """One child, started on first use and again after it ended; one question at a time."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._interrupted = False

    def ask(self, wanted: _Wanted) -> _Made:
        """What it makes of a text; raises `VectorsUnavailable`."""
        with self._asking:
            self._interrupted = False
            # A child that ended for want of questions is found out by asking it once more.
            for child in (self._running(), None):
                try:
                    made = self._exchange(child or self._started(), wanted)
                except (OSError, EOFError, msgspec.DecodeError):
                    self._end()
                    if self._interrupted:
                        raise VectorsInterrupted("Nobody waits for this vector.") from None
                else:
                    break
            else:
                raise _LOST
        if made.what:
            raise VectorsUnavailable(made.what, made.remedy)
        return made

    def interrupt(self) -> None:
        """End it, whatever it is doing; whoever waits for it goes on at once."""
        self._interrupted = True
        if (child := self._child) is not None:
            child.kill()
        if self._asking.acquire(blocking=False):  # else whoever waits for it clears it away
            try:
                self._end()
            finally:
                self._asking.release()

    def _running(self) -> subprocess.Popen[bytes] | None:
        child = self._child
        return child if child is not None and child.poll() is None else None

    def _started(self) -> subprocess.Popen[bytes]:
        self._end()
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl+C is for whoever has the terminal
        )
        return self._child

    def _exchange(self, child: subprocess.Popen[bytes], wanted: _Wanted) -> _Made:
        assert child.stdin is not None
        assert child.stdout is not None
        _send(child.stdin, wanted)
        return msgspec.msgpack.decode(_received(child.stdout), type=_Made)

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()


class ModelApart:
    """The embedded model for English, in another process: the same name, the same vectors."""

    name: Final = embedding.EmbeddedModel.name
    dims: Final = embedding.EmbeddedModel.dims
    english_only: Final = embedding.EmbeddedModel.english_only

    def __init__(self) -> None:
        self._process = _Process()

    def interrupt(self) -> None:
        """Give the models' memory back, and wait for no vector that is being made."""
        self._process.interrupt()

    @property
    def companion(self) -> embedding.Embedder | None:
        """The model for other languages, if the extra `languages` brought it; over there, too."""
        return None if multilingual.open_multilingual() is None else _LanguagesApart(self._process)

    def embed(self, texts: Sequence[str]) -> embedding.Floats:
        """One unit vector a text."""
        return embedding.stacked([self.encode(text).vector for text in texts], self.dims)

    def encode(self, text: str) -> embedding.Encoded:
        """The text's vector and its tokens' vectors."""
        made = self._process.ask(_Wanted(text, language=False))
        rows = _floats(made.token_vectors).reshape(-1, self.dims)
        return embedding.Encoded(_floats(made.vector), made.pieces, rows)


class _LanguagesApart:
    name: Final = multilingual.MultilingualModel.name
    dims: Final = multilingual.MultilingualModel.dims

    def __init__(self, process: _Process) -> None:
        self._process = process

    def embed(self, texts: Sequence[str]) -> embedding.Floats:
        """One unit vector a text."""
        asked = (self._process.ask(_Wanted(text, language=True)) for text in texts)
        return embedding.stacked([_floats(made.vector) for made in asked], self.dims)


def _floats(raw: bytes) -> embedding.Floats:
    import_numpy_on_one_thread()
    import numpy as np

    return np.frombuffer(raw, np.float32)


def open_embedder_apart(name: str) -> embedding.Embedder:
    """The embedder a setting names, for a program that is open all day."""
    return _model_apart() if name == "minilm" else embedding.RemoteEmbedder(name)


@cache
def _model_apart() -> ModelApart:
    """One process for all sessions of a program."""
    return ModelApart()


# the other side


def _send(stream: IO[bytes], message: Any) -> None:
    body = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes:
    return _exactly(stream, _LENGTH.unpack(_exactly(stream, _LENGTH.size))[0])


def _exactly(stream: IO[bytes], size: int) -> bytes:
    raw = b""
    while len(raw) < size:
        if not (piece := stream.read(size - len(raw))):
            raise EOFError
        raw += piece
    return raw


def _make(wanted: _Wanted, english: embedding.EmbeddedModel) -> _Made:
    try:
        if not wanted.language:
            made = english.encode(wanted.text)
            return _Made(made.vector.tobytes(), made.pieces, made.token_vectors.tobytes())
        languages = english.companion
        if languages is None:
            return _Made(what="The model for other languages is gone.", remedy="Install it again.")
        return _Made(languages.embed([wanted.text])[0].tobytes())
    except VectorsUnavailable as error:
        return _Made(what=error.what, remedy=error.remedy)


def main() -> None:
    """Answer until nobody asks any more."""
    questions = os.fdopen(0, "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no answer
    os.chdir("/")
    os.nice(_LESS_URGENT)
    english = embedding.EmbeddedModel()
    with contextlib.suppress(OSError, EOFError, msgspec.DecodeError, KeyboardInterrupt):
        while select.select([questions], [], [], _LINGERS)[0]:
            wanted = msgspec.msgpack.decode(_received(questions), type=_Wanted)
            _send(answers, _make(wanted, english))


if __name__ == "__main__":
    main()
