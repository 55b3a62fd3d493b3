"""Every model that is reached through litellm.

litellm is imported on the first request, off the loop, through `lockdown`. litellm's own retries
are off.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any, ClassVar, Final

import msgspec

from mindstone_tui.core import bounded_json, errors, lockdown
from mindstone_tui.core.entries import Message, Request, Usage
from mindstone_tui.core.providers import base, dialect, model_server, tool_names
from mindstone_tui.core.providers.address import Address
from mindstone_tui.core.providers.errors import failure_of
from mindstone_tui.core.providers.stream import Translator, field

NO_KEY: Final = "none"
"""Sent where a server wants no key: litellm insists on some text."""
_MOST_MARKS: Final = 4
_CACHE: Final = {"type": "ephemeral"}
_THINKING_FIELDS: Final = ("thinking_blocks", "reasoning_content")


def call_of(request: Request, options: base.Options, address: Address) -> dict[str, Any]:
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
        "reasoning_effort": options.effort,
        "tools": dialect.function_tools(request),
        **dialect.wishes(options),
        **dialect.tool_wishes(request, options),
    }
    if address.key is None and address.base_url:
        call["api_key"] = NO_KEY
    if address.provider in model_server.TOLD_ITS_WINDOW and options.window:
        call["num_ctx"] = options.window
    return {name: value for name, value in call.items() if value is not None}


def messages_for(request: Request, options: base.Options, model: str) -> list[Message]:
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


def _fit(message: Message, keeps_thinking: bool) -> Message:
    dropped = () if keeps_thinking else _THINKING_FIELDS
    fit = {name: value for name, value in message.items() if name not in dropped}
    if calls := fit.get("tool_calls"):
        fit["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _parsable(call["function"])}}
            for call in calls
        ]
    return tool_names.with_valid_calls(fit, tool_names.PLAIN_ID)


def _parsable(function: dict[str, Any]) -> str:
    """Arguments as written where they are an object; else an object that shows what was written."""
    written = str(function.get("arguments", ""))
    if bounded_json.read_arguments(written) is None:
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


class UnprocessableRequest(Exception):
    """Stands for an answer that litellm swallowed."""

    status_code = 422


class RemoteProvider(model_server.ModelServer):
    """One model at one address, asked through litellm."""

    _litellm: ModuleType | None = None
    _users: ClassVar[weakref.WeakSet[RemoteProvider]] = weakref.WeakSet()
    """Everybody in this process who asked through litellm and is not closed."""

    def warm_up(self) -> None:
        """Import litellm; a failure is told when it is needed."""
        with contextlib.suppress(errors.ProviderError):
            lockdown.import_litellm()

    async def close(self) -> None:
        """Close the connections litellm keeps open, if nobody else asks through it."""
        litellm, self._litellm = self._litellm, None
        self._users.discard(self)
        if litellm is not None and not self._users:
            await _close_connections(litellm)

    async def _attempt(self, request: Request, options: base.Options, attempt: int) -> base.Deltas:
        litellm = self._litellm = await asyncio.to_thread(lockdown.import_litellm)
        self._users.add(self)
        translator, patience = Translator(), options.timeout
        call = call_of(request, options, self._address)
        stream = await self._guarded(litellm.acompletion(**call), patience)
        if stream is None:  # what litellm returns after it met a status 422 twice
            swallowed = UnprocessableRequest("the request was not understood")
            raise self._translated(failure_of(swallowed))
        try:
            chunks = aiter(stream)
            while (chunk := await self._following(stream, chunks, patience)) is not None:
                for delta in translator.take(chunk):
                    yield delta
        finally:
            await _close(stream)
        for delta in translator.end():
            yield delta
        if not _is_complete(stream):
            # litellm ends a stream that was cut like one that was finished; we do not.
            raise self._unfinished(began=bool(field(stream, "chunks")))
        yield base.Finished(
            reason=model_server.reason_of(translator),
            usage=translator.usage if _was_reported(stream) else Usage(),
            model=translator.model or self._address.model,
            retries=attempt,
        )

    async def _following(
        self, stream: object, chunks: AsyncIterator[object], patience: float
    ) -> object | None:
        """The next chunk; once the answer is complete, whatever fails is its end."""
        if not _is_complete(stream):
            return await self._guarded(_next(chunks), patience)
        try:
            return await self._guarded(_next(chunks), min(patience, model_server.LAST_WORDS))
        except errors.ProviderUnreachable:
            return None


async def _close_connections(litellm: ModuleType) -> None:
    """Leave nothing open that would complain when the process ends."""
    await litellm.close_litellm_async_clients()
    litellm.in_memory_llm_clients_cache.flush_cache()
    # One client is shared by several providers and forgotten above; litellm makes it on demand.
    if (shared := vars(litellm).pop("module_level_aclient", None)) is not None:
        with contextlib.suppress(Exception):
            await shared.close()


def _is_complete(stream: object) -> bool:
    """Whether the server said that the answer is over."""
    return field(stream, "received_finish_reason") is not None


def _was_reported(stream: object) -> bool:
    """Whether the server reported usage; where it did not, litellm counts for itself."""
    chunks = field(stream, "chunks")
    return isinstance(chunks, list) and any(field(chunk, "usage") is not None for chunk in chunks)


async def _next(chunks: AsyncIterator[object]) -> object | None:
    return await anext(chunks, None)


async def _close(stream: object) -> None:
    """Give the connection back, whatever state the stream is in."""
    if callable(close := field(stream, "aclose")):
        # A broken stream may fail to close; it is gone either way.
        with contextlib.suppress(Exception):
            await close()
