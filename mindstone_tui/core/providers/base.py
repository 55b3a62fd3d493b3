"""What a model looks like from inside: one request in, a stream of deltas out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Final, Protocol

from mindstone_tui.core import entries, paths
from mindstone_tui.core.config.settings import Effort, ModelSettings, Settings


class TextPart(entries.Part):
    """More of the answer."""

    text: str


class ThinkingPart(entries.Part):
    """More of the reasoning; a signature closes the block it belongs to."""

    text: str = ""
    signature: str = ""
    redacted: str = ""


class CallDelta(entries.Part):
    """More of a tool call; fragments with the same index belong together."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Finished(entries.Part):
    """The answer is complete. Every stream that does not raise ends with exactly one."""

    reason: str
    """`stop`, `tool_calls`, `length`, `repetition` or `content_filter`."""
    usage: entries.Usage = entries.Usage()
    model: str = ""
    """The model that really served, where the provider says so."""
    retries: int = 0


Delta = TextPart | ThinkingPart | CallDelta | Finished
Deltas = AsyncGenerator[Delta, None]


class Retrying(entries.Part):
    """A request failed before it said anything and is tried again."""

    attempt: int
    wait: float
    why: str


Streamed = AsyncIterator[Delta | Retrying]
"""An answer as it comes, and each time that it had to be asked for again."""

_DEFAULTS: Final = ModelSettings()


class Options(entries.Part):
    """How one request is made; nothing here changes what is asked."""

    max_tokens: int
    timeout: float = _DEFAULTS.timeout
    retries: int = _DEFAULTS.retries
    temperature: float | None = None
    effort: Effort | None = None
    """How hard the model thinks first; None leaves it to the provider."""
    sampling: entries.Sampling = entries.Sampling()
    """What a program asks beside that; what a provider does not know is left out."""
    purpose: str = ""
    """Empty for the conversation; `summary`, `judge` … for side calls."""
    position: int = 0
    """How many replies this session already took from a scripted model for this purpose."""
    window: int = 0
    """The window the prompt was planned for; servers that would cut it silently are told."""
    cache_marks: tuple[int, ...] = ()
    """Messages after which a provider may be told to cache."""


class Window(entries.Part):
    """A model's context window, and how we know it."""

    tokens: int
    label: entries.Label


class Abilities(entries.Part, kw_only=True):
    """What a model takes and gives."""

    max_output: int | None = None
    tools: bool = True
    images: bool = False
    sounds: bool = False
    thinks: bool = False
    """It is known to take an effort; many servers refuse one for a model that does not."""


class ModelInfo(Abilities):
    """What is known about a model; None is "unknown", never 0."""

    name: str
    window: Window | None = None
    prompt_price: float | None = None
    """Dollars per million tokens."""
    completion_price: float | None = None
    cached_price: float | None = None
    only_tools: tuple[str, ...] = ()
    """The tools it can cope with; empty for all."""
    small: bool = False
    """It follows a short prompt better than a thorough one."""
    note: str = ""
    """One honest sentence about who answers."""


class Asking(entries.Part):
    """Who asks for a provider: the settings, the places and the environment that hold there."""

    settings: ModelSettings
    places: paths.Places
    environ: Mapping[str, str]
    explained: Settings | None = None
    """The settings of the session that asks, for whoever explains them."""


class ProviderKind(entries.Part):
    """Who answers under all names that begin alike, such as `scripted/`."""

    prefix: str
    open: Callable[[str, Asking], Provider]
    """Someone for a model's whole name; raises `UnknownName` for one it does not have."""


class Provider(Protocol):
    """Someone who answers requests."""

    def info(self, model: str) -> ModelInfo:
        """What is known about a model, without asking the network."""
        ...

    async def served_window(self, model: str) -> Window | None:
        """The window its server has loaded it with; None where there is none who could say."""
        ...

    def stream(self, request: entries.Request, options: Options) -> Streamed:
        """Ask; ends with one `Finished`, or raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Give back connections and child processes."""
        ...
