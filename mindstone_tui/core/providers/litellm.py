"""Every model that is reached through litellm.

litellm is imported on the first request, off the loop, through `lockdown`. A request is tried again
only while nothing of the answer was passed on, so no text can appear twice; after the first delta a
broken stream is an error. litellm's own retries are off.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any, Final, TypeVar

import msgspec

from mindstone_tui.core.entries import Message, Request, Usage
from mindstone_tui.core.errors import ProviderError, ProviderNonsense, ProviderUnreachable
from mindstone_tui.core.lockdown import import_litellm
from mindstone_tui.core.providers.address import Address, require_key
from mindstone_tui.core.providers.base import Delta, Finished, ModelInfo, Options, Retrying, Window
from mindstone_tui.core.providers.catalogue import Listing, look_up
from mindstone_tui.core.providers.discovery import loaded_window
from mindstone_tui.core.providers.errors import LOST, Failure, translate
from mindstone_tui.core.providers.stream import Translator, field

NO_KEY: Final = "none"
"""Sent where a server wants no key: litellm insists on some text."""
_MOST_MARKS: Final = 4
TOLD_ITS_WINDOW: Final = ("ollama", "ollama_chat")
"""Servers that load a model with the window that a request names, else with a small one."""
_CACHE: Final = {"type": "ephemeral"}
_THINKING_FIELDS: Final = ("thinking_blocks", "reasoning_content")


def call_of(request: Request, options: Options, address: Address) -> dict[str, Any]:
    """The keyword arguments of one call."""
    call: dict[str, Any] = {
        "model": address.model,
        "messages": messages_for(request, options, address.model),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": options.max_tokens,
        "timeout": options.timeout,
        "num_retries": 0,
        "max_retries": 0,
        "api_key": address.key.secret if address.key else None,
        "api_base": address.base_url or None,
        "temperature": options.temperature,
        "tools": [_tool(tool) for tool in request.tools] or None,
    }
    if address.key is None and address.base_url:
        call["api_key"] = NO_KEY
    if address.provider in TOLD_ITS_WINDOW and options.window:
        call["num_ctx"] = options.window
    return {name: value for name, value in call.items() if value is not None}


def messages_for(request: Request, options: Options, model: str) -> list[Message]:
    """The messages, fit for this model."""
    keeps_thinking = understands_marks(model)
    fit = [_fit(message, keeps_thinking) for message in request.messages]
    if keeps_thinking:
        for mark in options.cache_marks[-_MOST_MARKS:]:
            if 0 <= mark < len(fit):
                fit[mark] = _marked(fit[mark])
    return fit


def understands_marks(model: str) -> bool:
    """Whether a model wants to be told where to cache, and takes its own reasoning back."""
    return "claude" in model.lower() or model.startswith("anthropic/")


def _tool(tool: Any) -> dict[str, Any]:
    return {"type": "function", "function": msgspec.to_builtins(tool)}


def _fit(message: Message, keeps_thinking: bool) -> Message:
    dropped = () if keeps_thinking else _THINKING_FIELDS
    fit = {name: value for name, value in message.items() if name not in dropped}
    if calls := fit.get("tool_calls"):
        fit["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _parsable(call["function"])}}
            for call in calls
        ]
    return fit


def _parsable(function: dict[str, Any]) -> str:
    """Arguments as written where they are an object; else an object that shows what was written."""
    written = str(function.get("arguments", ""))
    try:
        msgspec.json.decode(written, type=dict[str, Any])
    except msgspec.MsgspecError:
        return msgspec.json.encode({"unreadable_arguments": written[:2_000]}).decode()
    return written


def _marked(message: Message) -> Message:
    """The message with a mark at its end; an empty one cannot carry it."""
    content = message.get("content")
    if message["role"] == "tool":
        return {**message, "cache_control": _CACHE}
    if isinstance(content, str) and content:
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        return message
    return {**message, "content": [*content[:-1], {**content[-1], "cache_control": _CACHE}]}


FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
"""A server that asks for more patience than this is reported at once."""
LAST_WORDS: Final = 5.0
"""Seconds in which the usage must follow a complete answer."""


class UnprocessableRequest(Exception):
    """Stands for an answer that litellm swallowed."""

    status_code = 422


T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]


def warm_up() -> None:
    """Import litellm now, so that the first request does not wait for it."""
    with contextlib.suppress(ProviderError):
        import_litellm()


def info_from(model: str, listing: Listing | None, note: str = "") -> ModelInfo:
    """What the catalogue says about a model; what it does not say is unknown."""
    if listing is None:
        return ModelInfo(name=model, note=note)

    def per_million(price: float | None) -> float | None:
        return None if price is None else price * 1e6

    return ModelInfo(
        name=model,
        window=Window(tokens=listing.window, label="measured") if listing.window else None,
        max_output=listing.max_output,
        prompt_price=per_million(listing.prices.prompt),
        completion_price=per_million(listing.prices.completion),
        cached_price=per_million(listing.prices.cached),
        tools=listing.tools,
        images=listing.images,
        note=note,
    )


class RemoteProvider:
    """One model at one address."""

    def __init__(
        self,
        address: Address,
        *,
        pause: Pause = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._address = address
        self._pause = pause
        self._jitter = jitter
        self._litellm: ModuleType | None = None
        self._where = address.base_url or address.provider

    def info(self, model: str) -> ModelInfo:
        """What the catalogue knows; who is asked, and whether the request leaves the machine."""
        place = "this machine" if self._address.local else self._where
        return info_from(model, look_up(model), note=f"Answers come from {place}.")

    async def served_window(self, model: str) -> Window | None:
        """The window a server on this machine runs with; Ollama is told one with each request."""
        address = self._address
        if not address.local or address.provider in TOLD_ITS_WINDOW:
            return None
        tokens = await loaded_window(address.model, address.base_url)
        return Window(tokens=tokens, label="measured") if tokens else None

    async def stream(self, request: Request, options: Options) -> AsyncIterator[Delta | Retrying]:
        """Ask, and ask again while nothing was said; ends once, or raises once."""
        require_key(self._address)
        litellm = self._litellm = await asyncio.to_thread(import_litellm)
        call = call_of(request, options, self._address)
        for attempt in range(options.retries + 1):
            said_something = False
            try:
                answer = self._attempt(litellm, call, options.timeout, attempt)
                async with contextlib.aclosing(answer):
                    async for delta in answer:
                        said_something = True
                        yield delta
                return
            except ProviderError as error:
                wait = self._wait(error, attempt)
                if said_something or attempt >= options.retries or wait is None:
                    raise
                yield Retrying(attempt=attempt + 1, wait=wait, why=error.what)
                await self._pause(wait)

    async def close(self) -> None:
        """Close the connections litellm keeps open, if it was ever used here."""
        if self._litellm is None:
            return
        await self._litellm.close_litellm_async_clients()
        self._litellm.in_memory_llm_clients_cache.flush_cache()
        self._litellm = None

    async def _attempt(
        self, litellm: ModuleType, call: Mapping[str, Any], patience: float, retries: int
    ) -> AsyncGenerator[Delta, None]:
        translator = Translator()
        stream = await self._guarded(litellm.acompletion(**call), patience)
        if stream is None:  # what litellm returns after it met a status 422 twice
            raise self._translated(UnprocessableRequest("the request was not understood"))
        try:
            chunks = aiter(stream)
            while (chunk := await self._following(stream, chunks, patience)) is not None:
                for delta in translator.take(chunk):
                    yield delta
        finally:
            await _close(stream)
        for delta in translator.end():
            yield delta
        self._check_end(stream)
        yield Finished(
            reason=_reason(translator),
            usage=translator.usage if _was_reported(stream) else Usage(),
            model=translator.model or self._address.model,
            retries=retries,
        )

    async def _following(
        self, stream: object, chunks: AsyncIterator[object], patience: float
    ) -> object | None:
        """The next chunk; once the answer is complete, whatever fails is its end."""
        if not _is_complete(stream):
            return await self._guarded(_next(chunks), patience)
        try:
            return await self._guarded(_next(chunks), min(patience, LAST_WORDS))
        except ProviderUnreachable:
            return None

    async def _guarded(self, work: Awaitable[T], patience: float) -> T:
        """Wait for litellm, and say in our words what went wrong."""
        try:
            async with asyncio.timeout(patience):
                return await work
        except ProviderError:
            raise
        except Exception as error:  # litellm and the clients below it share no common error
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> ProviderError:
        key = self._address.key
        return translate(
            failure_of(error),
            model=self._address.model,
            where=self._where,
            secret=key.secret if key else "",
        )

    def _check_end(self, stream: object) -> None:
        """litellm ends a stream that was cut like one that was finished; we do not."""
        if _is_complete(stream):
            return
        if not field(stream, "chunks"):
            raise ProviderNonsense(
                f"{self._where} answered, but not as a model does.",
                "Check the address; for an OpenAI-compatible server it usually ends in /v1.",
            )
        raise ProviderUnreachable(
            f"{self._where} broke off in the middle of the answer.",
            "What was received is kept; ask again.",
        )

    def _wait(self, error: ProviderError, attempt: int) -> float | None:
        """Seconds until the next attempt; None when there should be none."""
        if not error.retryable:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= LONGEST_WAIT else None
        backoff = FIRST_WAIT * float(2**attempt) * (1 + self._jitter() / 2)
        return round(min(backoff, LONGEST_WAIT), 2)


def failure_of(error: BaseException) -> Failure:
    """The parts of a foreign error that decide what it means."""
    inner = field(error, "original_exception")
    if type(error).__name__ == "MidStreamFallbackError" and isinstance(inner, Exception):
        return failure_of(inner)
    chain = _chain(error)
    names = [type(link).__name__ for link in chain]
    status = field(error, "status_code")
    response = field(error, "response")
    headers = field(error, "litellm_response_headers") or field(response, "headers")
    return Failure(
        kind=next((name for name in names if name in LOST), names[0]),
        message=str(error),
        causes=" ".join(str(link) for link in chain[1:]),
        status=status if isinstance(status, int) and not LOST.intersection(names) else None,
        headers={str(name): str(value) for name, value in headers.items()}
        if isinstance(headers, Mapping)
        else {},
    )


def _chain(error: BaseException, depth: int = 8) -> list[BaseException]:
    """An error and its causes; the real reason is often the innermost."""
    cause = error.__cause__ or error.__context__
    return [error, *(_chain(cause, depth - 1) if cause is not None and depth else ())]


def _is_complete(stream: object) -> bool:
    """Whether the server said that the answer is over."""
    return field(stream, "received_finish_reason") is not None


def _was_reported(stream: object) -> bool:
    """Whether the server reported usage; where it did not, litellm counts for itself."""
    chunks = field(stream, "chunks")
    return isinstance(chunks, list) and any(field(chunk, "usage") is not None for chunk in chunks)


def _reason(translator: Translator) -> str:
    """Some servers say `stop` although they asked for tools."""
    if translator.called and translator.reason in ("stop", ""):
        return "tool_calls"
    return translator.reason or "stop"


async def _next(chunks: AsyncIterator[object]) -> object | None:
    return await anext(chunks, None)


async def _close(stream: object) -> None:
    """Give the connection back, whatever state the stream is in."""
    close = field(stream, "aclose")
    if callable(close):
        # A broken stream may fail to close; it is gone either way.
        with contextlib.suppress(Exception):
            await close()
