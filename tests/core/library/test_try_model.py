"""What is told of a model that is tried out is measured, or not told."""

from __future__ import annotations

import pytest

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.library.model_list import TimedAnswer
from mindstone_tui.core.providers.base import Finished


@pytest.mark.parametrize(
    ("first", "tokens", "speed"),
    [(1.0, 11, 10.0), (2.0, 11, 0.0), (1.999, 11, 0.0), (1.0, 0, 0.0)],
    ids=["word by word", "in one piece", "checked, then said", "uncounted"],
)
def test_only_what_was_said_word_by_word_has_a_speed(
    first: float, tokens: int, speed: float
) -> None:
    finished = Finished(reason="stop", usage=Usage(completion=tokens))
    heard = TimedAnswer(said="Paris.", call="", finished=finished, first=first, seconds=2.0)
    assert heard.speed == speed
