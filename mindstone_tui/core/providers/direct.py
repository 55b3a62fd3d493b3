"""Models whose wire format we speak ourselves, without a library between.

litellm takes seconds to import, and most people ask one of four formats. Those are asked here; all
others go through litellm. `models.transport` overrules the choice.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from mindstone_tui.core import bounded_json, entries, errors
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.providers import anthropic_messages, ollama, openai_chat, openai_responses
from mindstone_tui.core.providers.address import Address
from mindstone_tui.core.providers.base import Delta, Deltas, Finished, Options
from mindstone_tui.core.providers.catalogue import look_up
from mindstone_tui.core.providers.dialect import Dialect, failure_in, failure_of_status, wire_name
from mindstone_tui.core.providers.errors import Failure, failure_of
from mindstone_tui.core.providers.http import Client, HttpAnswer
from mindstone_tui.core.providers.model_server import LAST_WORDS, ModelServer, reason_of
from mindstone_tui.core.providers.stream import Translator

_END: Final = b"[DONE]"


def dialect_of(address: Address) -> Dialect | None:
    """The format in which a model can be asked without litellm; None when there is none."""
    match address.provider:
        case "anthropic":
            return anthropic_messages.DIALECT
        case "ollama" | "ollama_chat":
            return ollama.DIALECT
        case "openai" if _wants_responses(address):
            return openai_responses.DIALECT
    host = openai_chat.HOSTS.get(address.provider)
    reachable = host is not None and bool(address.base_url or host.base_url)
    return openai_chat.DIALECT if reachable else None


def _wants_responses(address: Address) -> bool:
    if wire_name(address).startswith(openai_responses.PREFIX):
        return True
    listing = look_up(address.model)
    return listing is not None and listing.mode == "responses"


def direct_provider(
    address: Address, settings: ModelSettings, **timing: Any
) -> DirectProvider | None:
    """Who asks this model directly; None when litellm should."""
    dialect = None if settings.transport == "litellm" else dialect_of(address)
    if dialect is not None:
        return DirectProvider(address, dialect, settings, **timing)
    if settings.transport == "direct":
        raise errors.UnknownName(
            f"{address.provider} can only be asked through litellm.",
            "Set models.transport to auto, or choose another model.",
        )
    return None


class DirectProvider(ModelServer):
    """One model at one address, asked in its own format."""

    def __init__(
        self,
        address: Address,
        dialect: Dialect,
        settings: ModelSettings,
        *,
        now: Callable[[], float] = time.monotonic,
        **timing: Any,
    ) -> None:
        super().__init__(address, **timing)
        self._dialect = dialect
        self._settings = settings
        self._now = now
        self._client: Client | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _attempt(self, request: entries.Request, options: Options, attempt: int) -> Deltas:
        call = self._dialect.call(request, options, self._address)
        if self._client is None:
            self._client = Client(call.url, self._settings.connect_timeout)
        await self._client.prepare()
        heard = Heard(self._dialect)
        answer = await self._guarded(self._client.post(call, options.timeout), options.timeout)
        try:
            if not answer.is_success:
                page = await answer.beginning(options.timeout)
                raise self._translated(failure_of_status(answer, page))
            async with contextlib.aclosing(self._read(answer, heard, options.timeout)) as said:
                async for delta in said:
                    yield delta
            for delta in heard.translator.end():
                yield delta
            self._check_end(heard)
            yield Finished(
                reason=reason_of(heard.translator),
                usage=heard.translator.usage,
                model=heard.translator.model or self._address.model,
                retries=attempt,
            )
            await answer.finish()
        finally:
            await answer.close()

    async def _read(self, answer: HttpAnswer, heard: Heard, patience: float) -> Deltas:
        """Everything that is said; once the answer is complete, whatever fails is its end."""
        clock = Clock(patience, self._settings.answer_timeout, self._now)
        try:
            while not heard.over:
                if clock.is_up:
                    raise errors.ProviderUnreachable(
                        f"{self._where} came to no end within {self._settings.answer_timeout:g} s.",
                        "Ask again, or raise models.answer_timeout.",
                    )
                if (left := clock.left(heard.complete)) <= 0:
                    raise self._translated(Failure(kind="TimeoutError"))
                pieces = await self._guarded(answer.read(), left)
                for delta in self._understood(heard, pieces):
                    yield delta
                    clock.restart()
                if pieces is None:
                    return
        except errors.ProviderError:
            if not heard.complete:
                raise

    def _understood(self, heard: Heard, pieces: Iterator[bytes] | None) -> Iterator[Delta]:
        try:
            yield from heard.take(pieces)
        except StreamFailed as error:
            raise self._translated(error.failure) from error
        except (ValueError, zlib.error) as error:
            if heard.began:
                raise self._translated(failure_of(error)) from error
            raise self._unfinished(began=False) from error

    def _check_end(self, heard: Heard) -> None:
        if heard.complete:
            return
        if not heard.began and (failure := failure_in(bounded_json.read_object(heard.stray) or {})):
            raise self._translated(failure)
        raise self._unfinished(began=heard.began)


class StreamFailed(Exception):
    """A stream in which the server says that it failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Heard:
    """One answer as far as it came: from bytes to events to chunks to deltas."""

    def __init__(self, dialect: Dialect) -> None:
        self.translator = Translator()
        self.began = False
        """The server said something that only a model says."""
        self._interpreter = dialect.interpreter()
        self._reader = dialect.reader()
        self._ended = False

    @property
    def complete(self) -> bool:
        """The server said that the answer is over."""
        return self._interpreter.complete

    @property
    def over(self) -> bool:
        """Nothing that matters follows."""
        return self._ended or self._interpreter.over

    @property
    def stray(self) -> bytes:
        """What came instead of events."""
        return self._reader.stray

    def take(self, pieces: Iterator[bytes] | None) -> Iterator[Delta]:
        """What more bytes say; None is the end of them."""
        if pieces is None:
            for payload in self._reader.end():
                with contextlib.suppress(ValueError):  # torn, as the end will show
                    yield from self._event(payload)
            return
        for piece in pieces:
            for payload in self._reader.feed(piece):
                yield from self._event(payload)
                if self.over:
                    return

    def _event(self, payload: bytes) -> Iterator[Delta]:
        if payload.strip() == _END:
            self._ended = True
            return
        try:
            event = bounded_json.read_json(payload)
        except ValueError as error:
            raise ValueError("an event that is not JSON") from error
        if not isinstance(event, dict):
            return
        if failure := failure_in(event):
            raise StreamFailed(failure)
        for chunk in self._interpreter.chunks(event):
            self.began = True
            yield from self.translator.take(chunk)


class Clock:
    """How long to wait for what comes next.

    Only what was said counts: a server that sends nothing but signs of life is not answering.
    """

    def __init__(self, patience: float, whole: float, now: Callable[[], float]) -> None:
        self._patience = patience
        self._now = now
        self._end = now() + whole
        self._last: float | None = None
        self.restart()

    @property
    def is_up(self) -> bool:
        """Whether the whole answer takes too long."""
        return self._now() > self._end

    def restart(self) -> None:
        """Something was said."""
        self._next = self._now() + self._patience

    def left(self, complete: bool) -> float:
        """Seconds until it has taken too long; a complete answer has only its last words left."""
        now = self._now()
        if not complete:
            return self._next - now
        if self._last is None:
            self._last = now + min(self._patience, LAST_WORDS)
        return self._last - now
