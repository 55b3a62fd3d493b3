"""A language model on this machine (`local/…`): one child process, no key, no network.

With tools, its reply is held to a schema, so that a call cannot be malformed. Text is passed on as
it comes; an answer that begins to turn in a circle is stopped. A process that dies is started
again and the answer goes on where it was, once. What concerns MindStone itself is answered by the
guide at once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mindstone_tui.core.bounded_json import read_arguments
from mindstone_tui.core.config.settings import ModelSettings, Settings
from mindstone_tui.core.entries import Request
from mindstone_tui.core.errors import ContextTooLong, ProviderRefused, ProviderUnreachable
from mindstone_tui.core.numbers import megabytes
from mindstone_tui.core.paths import Places
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.providers.base import (
    CallDelta,
    Delta,
    Finished,
    ModelInfo,
    Options,
    Retrying,
    TextPart,
    Window,
)
from mindstone_tui.core.providers.errors import Failure, translate
from mindstone_tui.core.providers.guide.provider import GUIDE, about_mindstone
from mindstone_tui.core.providers.local_evidence import NOTHING_SAYS_SO
from mindstone_tui.core.providers.local_models import (
    SMALLEST_WINDOW,
    LocalModel,
    free_memory,
    path_of,
    present,
    window_for,
)
from mindstone_tui.core.providers.local_process import CHILD, ChildDied, ModelProcess, Start
from mindstone_tui.core.providers.local_prompt import (
    TOOLS,
    NoteCheck,
    body_of,
    check_of,
    doubt_body,
    is_yes,
)
from mindstone_tui.core.providers.stream import Translator

_ANSWER: Final = pattern_of(r'\s*\{\s*"tool"\s*:\s*"answer"\s*,\s*"text"\s*:\s*"')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LONGEST_LOOP: Final = 400
_ENOUGH_LOOPED: Final = 96
"""Characters that a loop must fill before it counts: a short one has to turn often."""
_FEWEST_TURNS: Final = 3
_DRAWN: Final = 600
"""Characters that a loop without letters or digits must fill: rules and tables are drawn so."""


class AnswerReader:
    """Turns the JSON of an answer into its text; what is no answer is kept for its end."""

    def __init__(self) -> None:
        self.raw = ""
        """Everything the model said, as it said it."""
        self._at = 0
        """How much of it was turned into text."""
        self._inside = False
        self._ended = False

    def feed(self, piece: str) -> str:
        """More of the answer's text; empty while it is not clear that it is one."""
        self.raw += piece
        if self._ended:
            return ""
        if not self._inside:
            begun = _ANSWER.match(self.raw)
            if begun is None:
                return ""
            self._inside, self._at = True, begun.end()
        return self._decode()

    @property
    def is_answer(self) -> bool:
        """Whether the model answers, instead of asking for a tool."""
        return self._inside

    def call(self) -> tuple[str, str] | None:
        """The tool it asks for and its arguments as JSON; None when it does not."""
        if self._inside:
            return None
        asked = read_arguments(self.raw)
        if not asked or not isinstance(name := asked.pop("tool", None), str):
            return None
        return name, msgspec.json.encode(asked).decode()

    def _decode(self) -> str:
        """Unescape what can be; an escape that is cut waits for its rest."""
        text: list[str] = []
        raw, at = self.raw, self._at
        while at < len(raw):
            sign = raw[at]
            if sign == '"':
                self._ended = True
                break
            if sign != "\\":
                text.append(sign)
                at += 1
                continue
            length = _escape_length(raw, at)
            if at + length > len(raw):
                break
            text.append(_unescaped(raw[at : at + length]))
            at += length
        self._at = at
        return "".join(text)


def _escape_length(raw: str, at: int) -> int:
    """How many characters an escape takes: a pair of surrogates is one character."""
    if raw[at + 1 : at + 2] != "u":
        return 2
    code = raw[at + 2 : at + 6].lower()
    is_first_half = len(code) == 4 and "d800" <= code <= "dbff"
    return 12 if is_first_half else 6


def _unescaped(escape: str) -> str:
    if escape[1] != "u":
        return _ESCAPES.get(escape[1], escape[1])
    try:
        return msgspec.json.decode(f'"{escape}"'.encode(), type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "\N{REPLACEMENT CHARACTER}"


class RepetitionWatch:
    """Notices when a text has begun to turn in a circle."""

    def __init__(self) -> None:
        self._tail = ""

    def feed(self, piece: str) -> bool:
        """Whether the text, with this at its end, repeats itself."""
        self._tail = (self._tail + piece)[-_LONGEST_LOOP * (_FEWEST_TURNS + 1) :]
        return is_loop(self._tail)


def is_loop(text: str) -> bool:
    """Whether a text ends with the same words again and again."""
    if not text:
        return False
    last_word = next((at for at in range(len(text) - 1, -1, -1) if text[at].isalnum()), -1)
    at = len(text) - 1
    while (at := text.rfind(text[-1], max(0, len(text) - _LONGEST_LOOP - 1), at)) >= 0:
        unit = text[at + 1 :]
        needed = _ENOUGH_LOOPED if last_word > at else _DRAWN
        turns = max(_FEWEST_TURNS, -(-needed // len(unit)))
        if len(unit) * turns <= len(text) and text.endswith(unit * turns):
            return True
    return False


Missing = Callable[[Places, LocalModel, ModelSettings], str]
_ATTEMPTS: Final = 2
_SLOW: Final = 5
"""How many times as long a process may be silent as a server: it works, however slowly."""
_LONGEST_CHECKED: Final = 400
"""Characters of an answer from notes that are held back to be checked; more is an explanation."""


def why_not(places: Places, model: LocalModel, settings: ModelSettings) -> str:
    """Why a model cannot answer now; empty when it can."""
    if not present(places, model):
        fetch = f"`mindstone models add {model.name}` fetches it ({megabytes(model.size)})"
        return f"its file is not here; {fetch}"
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp, which runs it, is not installed; install mindstone-tui[local]"
    if not window_for(model, free := free_memory(), settings):
        needed = model.memory(SMALLEST_WINDOW) + settings.local_memory_left * 1_000_000
        return f"it needs {megabytes(needed)} of free memory, and {megabytes(free)} are free"
    return ""


class LocalProvider:
    """One model on this machine, which answers one request at a time."""

    def __init__(
        self,
        model: LocalModel,
        places: Places,
        settings: ModelSettings,
        environ: Mapping[str, str] = os.environ,
        *,
        explained: Settings | None = None,
        command: tuple[str, ...] = CHILD,
        missing: Missing = why_not,
    ) -> None:
        self._model = model
        self._places = places
        self._settings = settings
        self._explained = explained
        self._missing = missing
        self._command = command
        self._window = 0
        self.process = ModelProcess(environ)

    def info(self, model: str) -> ModelInfo:
        """What it is, without flattery."""
        return ModelInfo(
            name=model,
            window=Window(tokens=self._planned(), label="measured"),
            max_output=self._model.max_output,
            prompt_price=0.0,
            completion_price=0.0,
            cached_price=0.0,
            tools=self._model.tools,
            only_tools=TOOLS if self._model.tools else (),
            small=True,
            note=f"{self._model.title} on this machine: {self._model.skills}.",
        )

    async def served_window(self, model: str) -> Window | None:
        """The window that its process runs with, which free memory decided."""
        return Window(tokens=self._planned(), label="measured")

    async def stream(self, request: Request, options: Options) -> AsyncIterator[Delta | Retrying]:
        """Answer from the child; whoever stops listening stops the answer at once."""
        if not options.purpose and (known := about_mindstone(request, self._explained)):
            yield TextPart(text=known)
            yield Finished(reason="stop", model=GUIDE)
            return
        if missing := self._missing(self._places, self._model, self._settings):
            raise ProviderRefused(
                f"{self._model.full_name} cannot answer: {missing}.",
                "`/model local/guide` works at once.",
            )
        body = body_of(request, options, self._model)
        call_id = f"local_{request.hash[:8]}_{len(request.messages)}"
        check = None if options.purpose else check_of(body["messages"])
        answer = _Answer(call_id, as_json="response_format" in body, check=check)
        for attempt in range(_ATTEMPTS):
            try:
                asked = self._ask(answer, body, options)
                async with contextlib.aclosing(asked) as deltas:
                    async for delta in deltas:
                        yield delta
                return
            except ChildDied as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                if not answer.began:
                    yield Retrying(attempt=attempt + 1, wait=0.0, why=error.what)
                body = answer.rest_of(body)

    async def close(self) -> None:
        """End the child."""
        await self.process.close()

    async def _ask(
        self, answer: _Answer, body: dict[str, Any], options: Options
    ) -> AsyncGenerator[Delta, None]:
        """One attempt; what the model said before it stays in `answer`."""
        translator = Translator()
        try:
            chunks = self.process.ask(self._start(), body, _SLOW * options.timeout)
            async with contextlib.aclosing(chunks) as heard:
                async for chunk in heard:
                    for delta in translator.take(chunk):
                        if isinstance(delta, TextPart) and (text := answer.feed(delta.text)):
                            yield TextPart(text=text)
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
        yield Finished(
            reason="tool_calls" if answer.called else reason,
            usage=translator.usage,
            model=self._model.title,
        )

    async def _speak_of(self, notes: Sequence[str], thing: str, options: Options) -> bool:
        """Let the model say whether notes speak of a thing that they do not call so.

        One that cannot say so has not found it.
        """
        said, translator = "", Translator()
        patience = _SLOW * options.timeout
        chunks = self.process.ask(self._start(), doubt_body(notes, thing), patience)
        with contextlib.suppress(ProviderUnreachable):
            async with contextlib.aclosing(chunks) as heard:
                async for chunk in heard:
                    parts = translator.take(chunk)
                    said += "".join(each.text for each in parts if isinstance(each, TextPart))
        return is_yes(said)

    def _start(self) -> Start:
        return Start(
            weights=path_of(self._places, self._model),
            window=self._planned(),
            threads=self._settings.local_threads or max(1, _cores() - 1),
            log=self._places.state / f"{self._model.name}.log",
            command=self._command,
        )

    def _planned(self) -> int:
        """The running child's window; before there is one, what free memory allows."""
        if not self._window:
            free = free_memory()
            self._window = window_for(self._model, free, self._settings) or SMALLEST_WINDOW
        return self.process.window or self._window

    def _told(self, error: ProviderUnreachable) -> Exception:
        """The same error, unless the prompt was too long: that has a remedy of its own."""
        failure = Failure(kind="child", message=error.what)
        told = translate(failure, model=self._model.full_name, where="the local model")
        return told if isinstance(told, ContextTooLong) else error


class _Answer:
    """What the model has said so far, across attempts."""

    def __init__(self, call_id: str, *, as_json: bool, check: NoteCheck | None = None) -> None:
        self.began = False
        """Some of it was passed on."""
        self.is_loop = False
        self.called = False
        self._call_id = call_id
        self._reader = AnswerReader() if as_json else None
        self._plain = ""
        self._check = check
        self._held = ""
        """What is not passed on before it is whole and was checked."""
        self._watch = RepetitionWatch()

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
        self._held, self._check = NOTHING_SAYS_SO, None

    def end(self) -> list[TextPart | CallDelta]:
        """What was held back, or what is said instead; or the tool it asks for, if it does."""
        if self._held:
            shown = self._check is None or self._check.bears_out(self._held)
            return [TextPart(text=self._held if shown else NOTHING_SAYS_SO)]
        asked = None if self._reader is None or self.is_loop else self._reader.call()
        if asked is None:
            return []
        self.called = True
        name, arguments = asked
        return [CallDelta(index=0, id=self._call_id, name=name, arguments=arguments)]

    def rest_of(self, body: dict[str, Any]) -> dict[str, Any]:
        """What to ask for after the process died: the rest of an answer that has begun.

        A call of which nothing was passed on begins anew.
        """
        said = self._plain if self._reader is None else self._reader.raw
        if self._reader is not None and not self._reader.is_answer:
            self._reader = AnswerReader()
            return body
        if not said:
            return body
        begun = {"role": "assistant", "content": said}
        # A schema is about whole replies; this one is begun, and in its text by now.
        rest = {key: value for key, value in body.items() if key != "response_format"}
        return {**rest, "messages": [*body["messages"], begun]}


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
