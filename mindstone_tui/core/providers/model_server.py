"""A model behind a server, whichever way it is asked: tried again with care, told in our words.

A request is tried again only while nothing of the answer was passed on, so no text can appear
twice; after the first delta a broken stream is an error. How one attempt is made is left to those
who know a way: litellm, or our own over plain HTTP.
"""

import abc
import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mindstone_tui.core.entries import Request
from mindstone_tui.core.errors import ProviderError, ProviderNonsense, ProviderUnreachable
from mindstone_tui.core.providers import base, catalogue, discovery, errors
from mindstone_tui.core.providers.address import Address, require_key
from mindstone_tui.core.providers.base import Deltas, ModelInfo, Options, Retrying, Streamed, Window
from mindstone_tui.core.providers.stream import Translator
from mindstone_tui.core.values import shared

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
"""A server that asks for more patience than this is reported at once."""
LAST_WORDS: Final = 5.0
"""Seconds in which the usage must follow a complete answer."""
TOLD_ITS_WINDOW: Final = ("ollama", "ollama_chat")
"""Servers that load a model with the window that a request names, else with a small one."""

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]


class ModelServer(abc.ABC):
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
        self._where = address.shown

    def info(self, model: str) -> ModelInfo:
        """What the catalogue knows; who is asked, and whether the request leaves the machine."""
        place = "this machine" if self._address.local else self._where
        return info_from(model, catalogue.look_up(model), note=f"Answers come from {place}.")

    async def served_window(self, model: str) -> Window | None:
        """The window a server on this machine runs with; Ollama is told one with each request."""
        address = self._address
        if not address.local or address.provider in TOLD_ITS_WINDOW:
            return None
        tokens = await discovery.loaded_window(address.model, address.base_url)
        return Window(tokens=tokens, label="measured") if tokens else None

    async def stream(self, request: Request, options: Options) -> Streamed:
        """Ask, and ask again while nothing was said; ends once, or raises once."""
        require_key(self._address)
        for attempt in range(options.retries + 1):
            said_something = False
            try:
                async with contextlib.aclosing(self._attempt(request, options, attempt)) as answer:
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

    def warm_up(self) -> None:  # noqa: B027  # most have nothing to load
        """Load what a first request needs, if that is heavy; blocks."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Give back every connection."""

    @abc.abstractmethod
    def _attempt(self, request: Request, options: Options, attempt: int) -> Deltas:
        """Ask once; every failure is a `ProviderError`."""

    async def _guarded(self, work: Awaitable[T], patience: float) -> T:
        """Wait for a library, and say in our words what went wrong."""
        try:
            async with asyncio.timeout(patience):
                return await work
        except ProviderError:
            raise
        except Exception as error:  # the libraries below share no common error
            raise self._translated(errors.failure_of(error)) from error

    def _translated(self, failure: errors.Failure) -> ProviderError:
        key = self._address.key
        return errors.translate(
            failure, model=self._address.model, where=self._where, secret=key.secret if key else ""
        )

    def _unfinished(self, *, began: bool) -> ProviderError:
        """The stream is over, but nobody said that the answer is."""
        if began:
            return ProviderUnreachable(
                f"{self._where} broke off in the middle of the answer.",
                "What was received is kept; ask again.",
            )
        return ProviderNonsense(
            f"{self._where} answered, but not as a model does.",
            "Check the address; for an OpenAI-compatible server it usually ends in /v1.",
        )

    def _wait(self, error: ProviderError, attempt: int) -> float | None:
        """Seconds until the next attempt; None when there should be none."""
        if not error.retryable:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= LONGEST_WAIT else None
        backoff = FIRST_WAIT * float(2**attempt) * (1 + self._jitter() / 2)
        return round(min(backoff, LONGEST_WAIT), 2)


def info_from(model: str, listing: catalogue.Listing | None, note: str = "") -> ModelInfo:
    """What the catalogue says about a model; what it does not say is unknown."""
    if listing is None:
        return ModelInfo(name=model, note=note)
    return ModelInfo(
        name=model,
        window=Window(tokens=listing.window, label="measured") if listing.window else None,
        prompt_price=catalogue.per_million(listing.prices.prompt),
        completion_price=catalogue.per_million(listing.prices.completion),
        cached_price=catalogue.per_million(listing.prices.cached),
        note=note,
        **shared(base.Abilities, listing),
    )


def reason_of(translator: Translator) -> str:
    """Why the answer ended; some servers say `stop` although they asked for tools."""
    if translator.called and translator.reason in ("stop", ""):
        return "tool_calls"
    return translator.reason or "stop"
