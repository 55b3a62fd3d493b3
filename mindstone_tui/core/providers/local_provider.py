"""A language model on this machine (`local/…`): one child process, no key, no network.

With tools, its reply is held to a schema, so that a call cannot be malformed. Text is passed on as
it comes; an answer that begins to turn in a circle is stopped. A process that dies is started
again and the answer goes on where it was, once. What concerns MindStone itself is answered by the
guide at once.

A stop is asked for first, because a process that stays keeps its model loaded and its prompt
cached; one that does not hear it soon is killed. When the process dies, `ChildDied` says so and the
next request starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import disk, entries, paths, signals
from mindstone_tui.core.config.settings import ModelSettings, Settings
from mindstone_tui.core.errors import ContextTooLong, ProviderRefused, ProviderUnreachable
from mindstone_tui.core.numbers import megabytes
from mindstone_tui.core.providers import base, errors, local_evidence, local_models, local_prompt
from mindstone_tui.core.providers.guide.provider import GUIDE, about_mindstone
from mindstone_tui.core.providers.stream import Translator

CHILD: Final = (sys.executable, "-P", str(Path(__file__).with_name("local_child.py")))
_LOADING: Final = 180.0
_LONGEST_LINE: Final = 1 << 20
_STOP_PATIENCE: Final = 15.0
"""Seconds in which a child must have heard that nobody listens any more.

A slow processor needs ten for a batch of a prompt; after a kill all of it would be read again.
"""
_KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")


class ChildDied(ProviderUnreachable):
    """The process ended before the answer did."""


class Start(entries.Part):
    """How a child is started."""

    weights: Path
    window: int
    threads: int
    log: Path
    command: tuple[str, ...] = CHILD


class ModelProcess:
    """One child at a time, which answers one request at a time."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.window = 0
        """Tokens of context that the running child has; 0 while none runs."""
        self.memory = 0
        """The most bytes that the child has taken so far."""
        self._environ = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
        self._child: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._heard: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._number = 0
        self._idle = asyncio.Event()
        self._log: Path | None = None

    async def ask(
        self, start: Start, body: Mapping[str, Any], patience: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The chunks of an answer; leaving early stops the child's work, not the child."""
        await self._started(start)
        self._number += 1
        self._heard = asyncio.Queue()
        self._idle.clear()
        complete = False
        try:
            await self._send({"id": self._number, "body": body}, patience)
            while "done" not in (message := await self._next(patience)):
                if "error" in message:
                    raise self.failed(str(message["error"]))
                yield message.get("chunk") or {}
            complete = True
        finally:
            if not complete:
                self._stop_answer()

    async def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        reader, self._reader = self._reader, None
        watcher, self._watcher = self._watcher, None
        self.window = 0
        for task in (watcher, reader):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        if child.stdin is not None:
            child.stdin.close()
        # Pipes first: waiting for the child also waits for whoever else holds an end of them.
        signals.let_go(child)
        await asyncio.shield(child.wait())

    def failed(self, why: str, kind: type[ProviderUnreachable] = ProviderUnreachable) -> Exception:
        """What went wrong, with where more is told."""
        return kind(f"The local model failed: {why}.", f"Its log is {self._log}; ask again.")

    async def _started(self, start: Start) -> None:
        """A child with its model loaded, which is not busy with an answer nobody wants."""
        if self._watcher is not None:
            await asyncio.wait((self._watcher,))
            self._watcher = None
        if self._child is not None and self._child.returncode is None:
            return
        await self.close()
        self._log = start.log
        disk.ensure_folder(start.log.parent)
        log = disk.REAL.open(start.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self._child = await asyncio.create_subprocess_exec(
                *start.command,
                str(start.weights),
                str(start.window),
                str(start.threads),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environ,
                start_new_session=True,
                limit=_LONGEST_LINE,
            )
        except OSError as error:
            raise self.failed(f"it cannot be started: {error}") from error
        finally:
            os.close(log)
        self._heard = asyncio.Queue()
        self._reader = asyncio.ensure_future(self._read(self._child))
        try:
            first = await self._next(_LOADING)
            if "ready" not in first:
                raise self.failed(str(first.get("error", "it did not start")))
        except BaseException:
            await self.close()
            raise
        self.window = int(first.get("window") or start.window)

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        """Sort what the child says: what belongs to an answer nobody waits for is dropped."""
        assert child.stdout is not None
        try:
            while line := await child.stdout.readline():
                message = msgspec.json.decode(line, type=dict[str, Any])
                number = message.get("id", self._number)
                self.memory = int(message.get("memory") or self.memory)
                if "done" in message and number == self._number:
                    self._idle.set()
                if number == self._number:
                    self._heard.put_nowait(message)
        except (msgspec.MsgspecError, ValueError, OSError):
            with contextlib.suppress(ProcessLookupError):
                child.kill()  # what it says makes no sense any more
        await child.wait()
        self._idle.set()
        self._heard.put_nowait(None)

    async def _next(self, patience: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(patience):
                message = await self._heard.get()
        except TimeoutError as error:
            raise self.failed("no answer in time") from error
        if message is None:
            raise self.failed("its process ended", ChildDied)
        return message

    async def _send(self, message: dict[str, Any], patience: float) -> None:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        try:
            async with asyncio.timeout(patience):
                child.stdin.write(msgspec.json.encode(message) + b"\n")
                await child.stdin.drain()
        except (OSError, TimeoutError) as error:
            raise self.failed("its process does not listen", ChildDied) from error

    def _stop_answer(self) -> None:
        """Tell the child that nobody listens any more; kill it if it does not hear."""
        child = self._child
        if child is None or child.returncode is not None or child.stdin is None:
            return
        with contextlib.suppress(OSError, RuntimeError):
            child.stdin.write(msgspec.json.encode({"stop": self._number}) + b"\n")
        self._watcher = asyncio.ensure_future(self._watch(child))

    async def _watch(self, child: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(_STOP_PATIENCE):
                await self._idle.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


Missing = Callable[[paths.Places, local_models.LocalModel, ModelSettings], str]
_ATTEMPTS: Final = 2
_SLOW: Final = 5
"""How many times as long a process may be silent as a server: it works, however slowly."""
_LONGEST_CHECKED: Final = 400
"""Characters of an answer from notes that are held back to be checked; more is an explanation."""


def why_not(places: paths.Places, model: local_models.LocalModel, settings: ModelSettings) -> str:
    """Why a model cannot answer now; empty when it can."""
    if not local_models.present(places, model):
        fetch = f"`mindstone models add {model.name}` fetches it ({megabytes(model.size)})"
        return f"its file is not here; {fetch}"
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp, which runs it, is not installed; install mindstone-tui[local]"
    if not local_models.window_for(model, free := local_models.free_memory(), settings):
        needed = model.memory(local_models.SMALLEST_WINDOW) + settings.local_memory_left * 1_000_000
        return f"it needs {megabytes(needed)} of free memory, and {megabytes(free)} are free"
    return ""


class LocalProvider(msgspec.Struct, dict=True, eq=False):
    """One model on this machine, which answers one request at a time."""

    _model: local_models.LocalModel
    _places: paths.Places
    _settings: ModelSettings
    _environ: Mapping[str, str] = os.environ
    explained: Settings | None = None
    command: tuple[str, ...] = CHILD
    missing: Missing = why_not
    _window: int = 0

    @cached_property
    def process(self) -> ModelProcess:
        return ModelProcess(self._environ)

    def info(self, model: str) -> base.ModelInfo:
        """What it is, without flattery."""
        return base.ModelInfo(
            name=model,
            window=base.Window(tokens=self._planned(), label="measured"),
            max_output=self._model.max_output,
            prompt_price=0.0,
            completion_price=0.0,
            cached_price=0.0,
            tools=self._model.tools,
            only_tools=local_prompt.TOOLS if self._model.tools else (),
            small=True,
            note=f"{self._model.title} on this machine: {self._model.skills}.",
        )

    async def served_window(self, model: str) -> base.Window | None:
        """The window that its process runs with, which free memory decided."""
        return base.Window(tokens=self._planned(), label="measured")

    async def stream(self, request: entries.Request, options: base.Options) -> base.Streamed:
        """Answer from the child; whoever stops listening stops the answer at once."""
        if not options.purpose and (known := about_mindstone(request, self.explained)):
            yield base.TextPart(text=known)
            yield base.Finished(reason="stop", model=GUIDE)
            return
        if missing := self.missing(self._places, self._model, self._settings):
            raise ProviderRefused(
                f"{self._model.full_name} cannot answer: {missing}.",
                "`/model local/guide` works at once.",
            )
        body = local_prompt.body_of(request, options, self._model)
        call_id = f"local_{request.hash[:8]}_{len(request.messages)}"
        check = None if options.purpose else local_prompt.check_of(body["messages"])
        answer = _Answer(call_id, as_json="response_format" in body, check=check)
        for attempt in range(_ATTEMPTS):
            try:
                async with contextlib.aclosing(self._ask(answer, body, options)) as deltas:
                    async for delta in deltas:
                        yield delta
                return
            except ChildDied as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                if not answer.began:
                    yield base.Retrying(attempt=attempt + 1, wait=0.0, why=error.what)
                body = answer.rest_of(body)

    async def close(self) -> None:
        """End the child."""
        await self.process.close()

    async def _ask(
        self, answer: _Answer, body: dict[str, Any], options: base.Options
    ) -> base.Deltas:
        """One attempt; what the model said before it stays in `answer`."""
        translator = Translator()
        try:
            chunks = self.process.ask(self._start(), body, _SLOW * options.timeout)
            async with contextlib.aclosing(chunks) as heard:
                async for chunk in heard:
                    for delta in translator.take(chunk):
                        if isinstance(delta, base.TextPart) and (text := answer.feed(delta.text)):
                            yield base.TextPart(text=text)
                    if answer.is_loop:
                        break
            thing = answer.doubt if self._model.tools else ""
            if thing and not await self._speak_of(answer.notes, thing, options):
                answer.refuse()
        except ChildDied:
            raise
        except ProviderUnreachable as error:
            raise self._told(error) from error
        for last in answer.end():
            yield last
        reason = "repetition" if answer.is_loop else translator.reason or "stop"
        yield base.Finished(
            reason="tool_calls" if answer.called else reason,
            usage=translator.usage,
            model=self._model.title,
        )

    async def _speak_of(self, notes: Sequence[str], thing: str, options: base.Options) -> bool:
        """Let the model say whether notes speak of a thing that they do not call so.

        One that cannot say so has not found it.
        """
        said, translator = "", Translator()
        patience = _SLOW * options.timeout
        chunks = self.process.ask(self._start(), local_prompt.doubt_body(notes, thing), patience)
        with contextlib.suppress(ProviderUnreachable):
            async with contextlib.aclosing(chunks) as heard:
                async for chunk in heard:
                    parts = translator.take(chunk)
                    said += "".join(each.text for each in parts if isinstance(each, base.TextPart))
        return local_prompt.is_yes(said)

    def _start(self) -> Start:
        return Start(
            weights=local_models.path_of(self._places, self._model),
            window=self._planned(),
            threads=self._settings.local_threads or max(1, signals.usable_cores() - 1),
            log=self._places.state / f"{self._model.name}.log",
            command=self.command,
        )

    def _planned(self) -> int:
        """The running child's window; before there is one, what free memory allows."""
        if not self._window:
            self._window = (
                local_models.window_for(self._model, local_models.free_memory(), self._settings)
                or local_models.SMALLEST_WINDOW
            )
        return self.process.window or self._window

    def _told(self, error: ProviderUnreachable) -> Exception:
        """The same error, unless the prompt was too long: that has a remedy of its own."""
        failure = errors.Failure(kind="child", message=error.what)
        told = errors.translate(failure, model=self._model.full_name, where="the local model")
        return told if isinstance(told, ContextTooLong) else error


class _Answer:
    """What the model has said so far, across attempts."""

    def __init__(
        self, call_id: str, *, as_json: bool, check: local_prompt.NoteCheck | None = None
    ) -> None:
        self.began = False
        """Some of it was passed on."""
        self.is_loop = False
        self.called = False
        self._call_id = call_id
        self._reader = local_prompt.AnswerReader() if as_json else None
        self._plain = ""
        self._check = check
        self._held = ""
        """What is not passed on before it is whole and was checked."""
        self._watch = local_prompt.RepetitionWatch()

    def feed(self, piece: str) -> str:
        """The text to pass on."""
        text = piece if self._reader is None else self._reader.feed(piece)
        self._plain += piece if self._reader is None else ""
        # A call is watched as it is written, too: it could go on for ever as well.
        in_call = self._reader is not None and not self._reader.is_answer
        self.is_loop = self._watch.feed(piece if in_call else text)
        if self._check is not None:
            self._held += text
            if len(self._held) <= _LONGEST_CHECKED:
                return ""
            text, self._held, self._check = self._held, "", None
        self.began = self.began or bool(text)
        return text

    @property
    def notes(self) -> Sequence[str]:
        """What it must come from."""
        return self._check.notes if self._check is not None else ()

    @property
    def doubt(self) -> str:
        """What has to be asked about the notes before it may be shown; empty for nothing."""
        if self._check is None or not self._held or not self._check.bears_out(self._held):
            return ""
        return self._check.doubt(self._held)

    def refuse(self) -> None:
        """Say that nothing is known instead of it."""
        self._held, self._check = local_evidence.NOTHING_SAYS_SO, None

    def end(self) -> list[base.TextPart | base.CallDelta]:
        """What was held back, or what is said instead; or the tool it asks for, if it does."""
        if self._held:
            shown = self._check is None or self._check.bears_out(self._held)
            return [base.TextPart(text=self._held if shown else local_evidence.NOTHING_SAYS_SO)]
        asked = None if self._reader is None or self.is_loop else self._reader.call()
        if asked is None:
            return []
        self.called = True
        name, arguments = asked
        return [base.CallDelta(index=0, id=self._call_id, name=name, arguments=arguments)]

    def rest_of(self, body: dict[str, Any]) -> dict[str, Any]:
        """What to ask for after the process died: the rest of an answer that has begun.

        A call of which nothing was passed on begins anew.
        """
        said = self._plain if self._reader is None else self._reader.raw
        if self._reader is not None and not self._reader.is_answer:
            self._reader = local_prompt.AnswerReader()
            return body
        if not said:
            return body
        # A schema is about whole replies; this one is begun, and in its text by now.
        rest = {key: value for key, value in body.items() if key != "response_format"}
        return {**rest, "messages": [*body["messages"], {"role": "assistant", "content": said}]}
