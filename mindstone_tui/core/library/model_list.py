"""The models of this machine: what can answer, what it costs, how to add a key or fetch one."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.config.load import store
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context.window_view import PromptPrices
from mindstone_tui.core.disk import ensure_folder, replace_file
from mindstone_tui.core.entries import Part, Request, ToolSchema
from mindstone_tui.core.errors import MindstoneError, ProviderUnreachable, UsageError
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import address, key_store, local_models, weights
from mindstone_tui.core.providers.address import check_address as check_address
from mindstone_tui.core.providers.base import CallDelta, Finished, Options, Provider, TextPart
from mindstone_tui.core.providers.discovery import discover, look_at, usual_places
from mindstone_tui.core.providers.local_provider import LocalProvider
from mindstone_tui.core.providers.registry import EXAMPLES, available, default_model
from mindstone_tui.core.providers.registry import Availability as Availability
from mindstone_tui.core.providers.registry import resolve as resolve
from mindstone_tui.core.replay.what_if import PriceOf
from mindstone_tui.core.values import Value, alike

_PATIENCE: Final = 30.0
"""Seconds in which a new key must have led to an answer."""


class NewKey(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A key that somebody entered, and what to try it with."""

    provider: str
    secret: str
    model: str = ""
    """Empty takes one that the provider is known for, or the first that a server names."""
    base_url: str = ""
    """Address of an OpenAI-compatible server of the user's own."""

    def __repr__(self) -> str:
        return f"NewKey(provider={self.provider!r})"


def key_providers() -> list[tuple[str, str]]:
    """Providers that take a key, each with a model to begin with (empty if we know none)."""
    return [(name, EXAMPLES.get(name, "")) for name in address.VARIABLES]


async def list_models(
    home: Places, settings: Settings, environ: Mapping[str, str]
) -> list[Availability]:
    """Every model that is known here, usable or not; local servers are asked, nobody else is."""
    return list(available(settings.models, home, environ, await discover(usual_places(environ))))


async def window_of(
    home: Places, settings: Settings, environ: Mapping[str, str], model: str = ""
) -> int | None:
    """The room that a model has here, the default one if none is named; None if nobody knows."""
    if settings.context.window:
        return settings.context.window
    name = model or default_model(settings.models)
    try:
        provider = resolve(name, settings.models, home, environ)
        window = provider.info(name).window or await provider.served_window(name)
        await provider.close()
    except MindstoneError:
        return None
    return window.tokens if window is not None else None


def store_key(home: Places, provider: str, secret: str) -> key_store.Kept:
    """Keep a key for one provider where only its owner can read it."""
    return key_store.store_key(home.keys, provider, secret)


def remove_key(home: Places, provider: str) -> bool:
    """Forget a stored key; False if there was none."""
    stored = key_store.stored_key(home.keys, provider) is not None
    key_store.store_key(home.keys, provider, "")
    return stored


async def add_key(home: Places, environ: Mapping[str, str], new: NewKey) -> str:
    """Store a key and try it at once; returns the model that answered.

    Raises with the reason if nothing answers; a key that did not work is not kept.
    """
    if new.base_url:
        new = msgspec.structs.replace(new, base_url=address.whole_address(new.base_url))
    before = load(home, environ).settings.models
    name = address.server_name(new.base_url) if new.base_url else new.provider
    old = key_store.stored_key(home.keys, name)
    key_store.store_key(home.keys, name, new.secret)
    if new.base_url:
        store(home, "models.base_url", new.base_url)
    try:
        model = new.model or await _first_model(new)
        await _try(model, load(home, environ).settings.models, home, environ)
    except MindstoneError:
        key_store.store_key(home.keys, name, old.secret if old else "")
        if new.base_url:
            store(home, "models.base_url", before.base_url)
        raise
    store(home, "models.default", model)
    return model


async def _first_model(new: NewKey) -> str:
    if not new.base_url:
        if example := EXAMPLES.get(new.provider):
            return example
        raise UsageError(f"Which model of {new.provider}?", "Write its name into the last field.")
    found = await asyncio.to_thread(look_at, "openai", new.base_url)
    if found is None or not found.models:
        raise ProviderUnreachable(
            f"{new.base_url} does not answer, or not with the models it has.",
            "Check the address and whether the server runs, or write the model's name into the "
            "last field.",
        )
    return found.models[0].name


async def _try(
    model: str, settings: ModelSettings, home: Places, environ: Mapping[str, str]
) -> None:
    """Ask for one word; raises what a turn would have failed with."""
    provider = resolve(model, settings, home, environ)
    asked = Request(model=model, messages=({"role": "user", "content": "Say: ok"},))
    options = Options(max_tokens=16, timeout=_PATIENCE, retries=0)
    try:
        async with asyncio.timeout(_PATIENCE):
            async for delta in provider.stream(asked, options):
                if isinstance(delta, Finished):
                    return
    except TimeoutError:
        raise ProviderUnreachable(
            f"{model} did not answer within {_PATIENCE:.0f} seconds.", "Try again later."
        ) from None
    finally:
        await provider.close()


def prices_of(home: Places, settings: Settings, environ: Mapping[str, str]) -> PriceOf:
    """What prompts cost with each model, as far as is known without asking anybody."""

    @cache
    def price_of(model: str) -> PromptPrices:
        try:
            info = resolve(model, settings.models, home, environ).info(model)
        except MindstoneError:
            return PromptPrices()
        return PromptPrices(prompt=info.prompt_price, cached=info.cached_price)

    return price_of


_LONGEST: Final = 64
_ONE_PIECE: Final = 0.05
"""Seconds between the first word and the end of what came at once."""


class _TrialQuestion(Part):
    about: str
    question: str
    notes: str = ""
    """What is recalled for it."""


class _Trial(Part):
    """What a model is tried with (`model_trial.json`)."""

    head: str
    tool: ToolSchema
    questions: tuple[_TrialQuestion, ...]


class Tried(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One question and how it was answered."""

    about: str
    question: str
    answer: str
    """What it said, or the tool that it asked for."""
    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int
    first_token: float
    """Seconds until its first word."""
    seconds: float
    tokens_per_second: float
    """Of the answer, after its first word; 0 for what was said in one piece."""
    memory: int
    """The most bytes of memory that its process had taken by then."""


async def try_model(
    home: Places, settings: ModelSettings, name: str, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Tried]:
    """Ask the three questions, one after the other."""
    told = Path(__file__).with_name("model_trial.json").read_bytes()
    trial = msgspec.json.decode(told, type=_Trial)
    model = local_models.find(name)
    provider = LocalProvider(model, home, settings, environ)
    try:
        for each in trial.questions:
            said = (("system", trial.head), ("user", each.question), ("user", each.notes))
            messages = tuple({"role": role, "content": text} for role, text in said if text)
            asked = Request(model=model.full_name, messages=messages, tools=(trial.tool,))
            yield await _tried(provider, asked, settings, each.about, each.question)
    finally:
        await provider.close()


async def _tried(
    provider: LocalProvider, asked: Request, settings: ModelSettings, about: str, question: str
) -> Tried:
    heard = await hear(provider, asked, Options(max_tokens=_LONGEST, timeout=settings.timeout))
    usage = heard.finished.usage
    return Tried(
        about=about,
        question=question,
        answer=heard.call or heard.said,
        prompt_tokens=usage.prompt or 0,
        cached_tokens=usage.cached or 0,
        answer_tokens=usage.completion or 0,
        first_token=round(heard.first, 2),
        seconds=round(heard.seconds, 2),
        tokens_per_second=round(heard.speed, 1),
        memory=provider.process.memory,
    )


class TimedAnswer(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One answer, and how long it took."""

    said: str
    call: str
    """The tool that it asked for, with its arguments."""
    finished: Finished
    first: float
    """Seconds until something was said."""
    seconds: float

    @property
    def speed(self) -> float:
        """Tokens a second after the first word; 0 for what was said in one piece.

        A call is, and so is a short answer from notes, which is checked before it is passed on.
        """
        rest = self.seconds - self.first
        spoken = (self.finished.usage.completion or 0) - 1
        return spoken / rest if rest > _ONE_PIECE and spoken > 0 else 0.0


async def hear(provider: Provider, asked: Request, options: Options) -> TimedAnswer:
    """Ask, and look at the clock."""
    said, call, first = "", "", 0.0
    finished = Finished(reason="stop")
    began = time.monotonic()
    async for delta in provider.stream(asked, options):
        match delta:
            case TextPart():
                said += delta.text
                first = first or time.monotonic() - began
            case CallDelta():
                call = f"{delta.name} {delta.arguments}"
            case Finished():
                finished = delta
    took = time.monotonic() - began
    return TimedAnswer(said=said, call=call, finished=finished, first=first or took, seconds=took)


_REFUSED: Final = "offer-refused"


class Download(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One model of the catalogue, as it would be on this machine."""

    name: str
    title: str
    bytes: int
    """Size of its file, which is what is downloaded."""
    memory: int
    """Bytes of memory that it needs at least."""
    licence: str
    skills: str
    sources: tuple[str, ...]
    """Where its file comes from, in this order."""
    window: int
    """Tokens of context that free memory allows now; 0 when it does not fit."""
    path: str = ""
    """Where its file is; empty until it is fetched."""


def catalogue(home: Places, settings: ModelSettings) -> list[Download]:
    """Every model that can be fetched, the best first."""
    free = local_models.free_memory()
    return [
        _download(home, model, local_models.window_for(model, free, settings))
        for model in local_models.CATALOGUE
    ]


def _download(home: Places, model: local_models.LocalModel, window: int) -> Download:
    packages = model.pieces[0].package.replace("part1", "part…")
    return alike(
        Download,
        model,
        name=model.full_name,
        bytes=model.size,
        memory=model.memory(local_models.SMALLEST_WINDOW),
        sources=(*([model.official] if model.official else ()), f"package index: {packages}"),
        window=window,
        path=str(local_models.path_of(home, model)) if local_models.present(home, model) else "",
    )


def fetched(home: Places, name: str) -> tuple[str, Path | None]:
    """The full name of a model that can be fetched, and where it is if it was."""
    model = local_models.find(name)
    return model.full_name, local_models.path_of(home, model) if local_models.present(
        home, model
    ) else None


async def fetch_model(
    home: Places,
    environ: Mapping[str, str],
    name: str,
    progress: Callable[[int, int], None],
    tell: Callable[[str], None],
) -> Path:
    """Bring a model's file here; its hash is checked before it is used.

    `tell` gets a sentence when it has to come from somewhere else than from its makers.
    """
    return await weights.fetch(home, environ, local_models.find(name), progress, tell)


def remove_model(home: Places, environ: Mapping[str, str], name: str) -> tuple[int, bool]:
    """Delete a model's file: bytes that this freed, and whether it was the default model.

    A default that cannot answer any more is unset, so that the guide answers again.
    """
    model = local_models.find(name)
    if not (freed := weights.remove(home, model)):
        raise UsageError(f"{model.full_name} is not on this machine.", "`mindstone models list`")
    was_default = load(home, environ).settings.models.default == model.full_name
    if was_default:
        store(home, "models.default", "")
    return freed, was_default


def offered(home: Places, settings: Settings, environ: Mapping[str, str]) -> Download | None:
    """The best model that fits, for somebody who has none and was not asked yet."""
    if settings.models.default or settings.models.base_url or local_models.installed(home):
        return None
    if _refusal(home).exists() or any(
        address.has_key(provider, environ, home.keys) for provider in address.VARIABLES
    ):
        return None
    if (best := local_models.best_for(local_models.free_memory(), settings.models)) is None:
        return None
    return _download(
        home, best, local_models.window_for(best, local_models.free_memory(), settings.models)
    )


def refuse_offer(home: Places) -> None:
    """Remember that the answer was no."""
    ensure_folder(home.state)
    replace_file(_refusal(home), b"")


def _refusal(home: Places) -> Path:
    return home.state / _REFUSED
