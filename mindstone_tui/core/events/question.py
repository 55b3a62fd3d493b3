"""A question about a tool as every surface puts it, and the answer to a choice of it."""

from __future__ import annotations

from typing import Final, Literal

from mindstone_tui.core.events import Answer, AskedScope, ToolAsked

_KEPT: Final[tuple[tuple[Literal["exact", "always"], str, Literal["session", "config"]], ...]] = (
    ("exact", "Allow for this session", "session"),
    ("always", "Allow always", "config"),
)


def scopes_of(asked: ToolAsked) -> tuple[AskedScope, ...]:
    """Every yes that is offered, once first; a question of an older program names only rules."""
    if asked.scopes:
        return asked.scopes
    once = AskedScope(scope="once", label="Allow once")
    kept = [
        AskedScope(scope=scope, label=f"{said}: {rule}", remember=rule, keep=keep)
        for rule in asked.remember
        for scope, said, keep in _KEPT
    ]
    return (once, *kept)


def answer_to(
    asked: ToolAsked, choice: str, *, why: str = "", how: str = "", seen: float = 0.0
) -> Answer:
    """A person's word: `allow-N` is the yes of that number, and whatever was not offered a no."""
    seen = round(seen, 3)
    for number, scope in enumerate(scopes_of(asked)):
        if choice == f"allow-{number}":
            return Answer(
                allowed=True, remember=scope.remember, keep=scope.keep, how=how, seen=seen
            )
    return Answer(allowed=False, why=why, how=how, seen=seen)
