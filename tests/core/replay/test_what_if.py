"""Other settings over the same history, side by side."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mindstone_tui.core.context.window_view import PromptPrices
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.replay.what_if import WhatIf, parse_changes, what_if
from tests.builders import say, transcript_in
from tests.core.context.stage import MODEL, with_context
from tests.core.replay.recorded import FAST, SMALL, WITHOUT_RECALL, recorded


def test_short_names_are_those_of_the_window() -> None:
    wanted = [
        "ceiling=80",
        "policy = hybrid",
        "zones.red=85",
        "lru_half_life=3",
        "cascade.evict=60",
    ]
    assert parse_changes(wanted) == {
        "context.ceiling": "80",
        "context.policy": "hybrid",
        "zones.red": "85",
        "eviction.lru_half_life": "3",
        "cascade.evict": "60",
    }


@pytest.mark.parametrize("word", ["ceiling", "ceiling=", "=80", "models.default=x", "nonsense=1"])
def test_what_does_not_shape_the_window_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        parse_changes([word])


def test_a_misspelled_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        parse_changes(["celing=80"])
    assert "ceiling" in refused.value.remedy


async def asked(home: Path, **changes: object) -> WhatIf:
    then = msgspec.structs.replace(
        with_context(min_recent=4, **changes), recall=WITHOUT_RECALL.recall
    )
    with recorded(home) as history:
        return await what_if(
            history,
            WITHOUT_RECALL,
            then,
            {f"context.{name}": value for name, value in changes.items()},
            options=FAST,
            price_of=lambda model: (
                PromptPrices(prompt=2.0, cached=0.2) if model == MODEL else PromptPrices()
            ),
        )


async def test_what_was_recorded_stands_beside_what_would_have_been(home: Path) -> None:
    found = await asked(home, ceiling=60.0, floor=40.0)
    recorded_, as_set, then = found.outcomes
    assert [one.name for one in found.outcomes] == ["recorded", "as set", "what if"]
    assert recorded_.requests == as_set.requests == then.requests
    assert recorded_.prunes == as_set.prunes
    assert recorded_.tokens_sent == as_set.tokens_sent
    assert then.exchanges_left > as_set.exchanges_left
    assert then.tokens_sent < as_set.tokens_sent
    assert then.peak < as_set.peak
    assert len(then.moments) == 24
    assert sum(then.found.values()) == sum(as_set.found.values()) > 0


async def test_money_follows_tokens_and_their_stable_part(home: Path) -> None:
    found = await asked(home, window=64_000)
    now, then = found.outcomes[1:]
    assert now.cost is not None
    assert then.cost is not None
    assert then.prunes == 0
    assert then.stable_share > now.stable_share
    full = then.tokens_sent * 2.0 / 1_000_000
    assert full * 0.1 < then.cost < full


async def test_a_session_without_requests_has_no_recorded_column(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "hello", "hi")
    transcript.close()
    with transcript.history() as history:
        found = await what_if(
            history, SMALL, with_context(ceiling=80.0), {"context.ceiling": 80.0}, options=FAST
        )
    assert [one.name for one in found.outcomes] == ["as set", "what if"]
    assert found.outcomes[0].cost is None
