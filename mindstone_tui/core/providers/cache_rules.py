"""What a provider's cache reads of a prompt, told from sizes and times alone.

A cache knows beginnings: of the next prompt it can read what the one before it had, if that was not
too long ago and nothing in front changed. Nobody promises a hit; what was reported is always
believed first. The rules say what to expect where nothing went wrong, and so what did.
"""

from typing import Final

import msgspec

from mindstone_tui.core.entries import Part


class CacheRules(Part):
    """How one provider keeps prompts."""

    keeps: float
    """Seconds for which a beginning is kept after its last use."""
    may_lose: float = 0.0
    """The share of a prompt that may go at its end, as thinking does, while the rest is read."""
    behind: int = 0
    """Tokens by which what is read lags behind the prompt before it."""
    step: int = 1


ANTHROPIC: Final = CacheRules(keeps=300, may_lose=0.1)
ANTHROPIC_HOUR: Final = CacheRules(keeps=3_600, may_lose=0.1)
OPENAI: Final = CacheRules(keeps=3_600, behind=512, step=128)


class SentPrompt(msgspec.Struct, frozen=True):
    """One request, as far as its size and its times tell."""

    model: str
    prompt: int
    began: float
    """When it was sent, in seconds."""
    at: float
    """When its answer began."""


def rules_of(model: str, *, hour: bool = False) -> CacheRules | None:
    """The rules for a model, if they are known; `hour` where its prompts are kept for one."""
    name = model.rpartition("/")[2]
    if name.startswith("claude"):
        return ANTHROPIC_HOUR if hour else ANTHROPIC
    return OPENAI if name.startswith(("gpt-", "codex-", "o3", "o4")) else None


def expect(
    rules: CacheRules, before: SentPrompt | None, now: SentPrompt, shared: int = 0
) -> tuple[int, str]:
    """How much of a prompt the cache should read, and why: `first`, `goes on`, `shrank`, `expired`.

    `before` is the last prompt to the same model; `shared` how much of the beginning other
    conversations keep in the cache, such as tools and instructions.
    """
    if before is None:
        return min(shared, now.prompt), "first"
    if now.prompt < before.prompt * (1 - rules.may_lose):
        return min(shared, now.prompt), "shrank"
    if now.began - before.at > rules.keeps:
        return min(shared, now.prompt), "expired"
    known = max(before.prompt - rules.behind, 0) // rules.step * rules.step
    return min(known, now.prompt), "goes on"
