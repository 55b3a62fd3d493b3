"""The small language model (`local/smollm2`): real, tiny, offline, in a child process.

SmolLM2-135M-Instruct has 135 million parameters. It can chat and rephrase a note; it cannot choose
tools and is never given any. The child is started by the first request, killed by an interruption,
and gone when the provider is closed or this process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.disk import FILE_MODE, ensure_folder
from mindstone_tui.core.entries import Message, Request
from mindstone_tui.core.errors import ProviderError, ProviderRefused, ProviderUnreachable
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import weights
from mindstone_tui.core.providers.base import (
    CallDelta,
    Delta,
    Finished,
    ModelInfo,
    Options,
    Retrying,
    Window,
)
from mindstone_tui.core.providers.dialect import wishes
from mindstone_tui.core.providers.errors import Failure, translate
from mindstone_tui.core.providers.guide.provider import is_context, passages, text_of
from mindstone_tui.core.providers.stream import Translator

SMOLLM2: Final = "local/smollm2"
WINDOW: Final = 8_192
THREADS: Final = 1
"""More threads wait for each other by spinning: on busy cores they are ten times slower."""

_CHILD: Final = Path(__file__).with_name("smollm2_child.py")
_LOADING: Final = 120.0
_LONGEST_LINE: Final = 1 << 20
_LONGEST_NOTE: Final = 1_200
_SYSTEM: Final = "You are a helpful assistant. Answer briefly."
_KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")


def why_not(places: Places) -> str:
    """Why the small model cannot answer now; empty when it can."""
    if not weights.present(places):
        return "its weights are not here; `mindstone models add smollm2` fetches them (98 MB)"
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp, which runs it, is not installed; install mindstone-tui[local]"
    return ""


class SmolProvider:
    """One child process that answers one request at a time."""

    def __init__(
        self,
        places: Places,
        environ: Mapping[str, str] = os.environ,
        *,
        command: tuple[str, ...] = (sys.executable, "-P", str(_CHILD)),
        missing: Callable[[Places], str] = why_not,
    ) -> None:
        self._places = places
        self._missing = missing
        self._command = command
        self._environ = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    def info(self, model: str) -> ModelInfo:
        """What it is, without flattery."""
        return ModelInfo(
            name=model,
            window=Window(tokens=WINDOW, label="measured"),
            max_output=WINDOW // 4,
            prompt_price=0.0,
            completion_price=0.0,
            cached_price=0.0,
            tools=False,
            note="SmolLM2-135M, a tiny model on this machine: it chats, errs often, uses no tools.",
        )

    async def served_window(self, model: str) -> Window | None:
        """There is no server."""
        return None

    async def stream(self, request: Request, options: Options) -> AsyncIterator[Delta | Retrying]:
        """Answer from the child; whatever interrupts the answer ends the child."""
        if missing := self._missing(self._places):
            raise ProviderRefused(
                f"{SMOLLM2} cannot answer: {missing}.", "`/model local/guide` works at once."
            )
        async with self._turn:
            complete = False
            try:
                async for delta in self._ask(_body(request, options), options):
                    complete = isinstance(delta, Finished)
                    yield delta
            finally:
                if not complete:
                    await self._kill()

    async def close(self) -> None:
        """End the child."""
        await self._kill()

    async def _ask(self, body: dict[str, Any], options: Options) -> AsyncIterator[Delta]:
        child = await self._started()
        assert child.stdin is not None
        child.stdin.write(msgspec.json.encode(body) + b"\n")
        await self._within(child.stdin.drain(), options.timeout)
        translator = Translator()
        while "done" not in (message := await self._heard(child, options.timeout)):
            if "error" in message:
                raise self._failed(str(message["error"]))
            for delta in translator.take(message.get("chunk")):
                if not isinstance(delta, CallDelta):
                    yield delta
        for delta in translator.end():
            yield delta
        yield Finished(
            reason=translator.reason or "stop",
            usage=translator.usage,
            model="SmolLM2-135M-Instruct",
        )

    async def _started(self) -> asyncio.subprocess.Process:
        """The child with its model loaded; started when there is none."""
        if self._child is not None and self._child.returncode is None:
            return self._child
        ensure_folder(self._places.state)
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                str(weights.path_of(self._places)),
                str(WINDOW),
                str(THREADS),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environ,
                start_new_session=True,
                limit=_LONGEST_LINE,
            )
        except OSError as error:
            raise self._failed(f"it cannot be started: {error}") from error
        finally:
            os.close(log)
        first = await self._heard(self._child, _LOADING)
        if "ready" not in first:
            raise self._failed(str(first.get("error", "it did not start")))
        return self._child

    async def _heard(self, child: asyncio.subprocess.Process, patience: float) -> dict[str, Any]:
        """The child's next line."""
        assert child.stdout is not None
        line = await self._within(child.stdout.readline(), patience)
        if not line:
            raise self._failed("its process ended")
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise self._failed(f"its process said {line[:80]!r}") from error

    async def _within(self, work: Any, patience: float) -> Any:
        try:
            async with asyncio.timeout(patience):
                return await work
        except (OSError, ValueError, TimeoutError) as error:
            raise self._failed(str(error) or "no answer in time") from error

    async def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        if child.stdin is not None:
            child.stdin.close()
        await asyncio.shield(child.wait())

    @property
    def _log(self) -> Path:
        return self._places.state / "smollm2.log"

    def _failed(self, why: str) -> ProviderError:
        error = translate(
            Failure(kind="child", message=why), model=SMOLLM2, where="the small model"
        )
        if type(error).__name__ == "ContextTooLong":
            return error
        return ProviderUnreachable(
            f"The small model failed: {why}.", f"Its log is {self._log}; ask again."
        )


def _body(request: Request, options: Options) -> dict[str, Any]:
    """A request in plain words: no tools, a system prompt, a bounded answer."""
    messages = [_plain(message) for message in request.messages if not is_context(message)]
    recalled = [message for message in request.messages if is_context(message)]
    if recalled and messages and messages[-1]["role"] == "user":
        messages[-1] = _with_note(messages[-1], text_of(recalled[-1]))
    if not messages or messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": _SYSTEM})
    return {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": min(options.max_tokens, WINDOW // 4),
        "temperature": 0.2 if options.temperature is None else options.temperature,
        **{name: value for name, value in wishes(options).items() if value is not None},
        "repeat_penalty": 1.1,
        "cache_prompt": True,
    }


def _with_note(question: Message, block: str) -> Message:
    """The question behind the best recalled passage: this model can use one note, hardly three."""
    best = next(iter(passages(block)), None)
    if best is None:
        return question
    note = best.text[:_LONGEST_NOTE]
    return {"role": "user", "content": f"Note: {note}\n\n{question['content']}"}


def _plain(message: Message) -> Message:
    text = text_of(message)
    if message["role"] == "tool":
        return {"role": "user", "content": f"A tool answered:\n{text}"}
    return {"role": message["role"], "content": text}
