"""What counts as kept by a summary, and what is given back of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.handoff.checkpoint import Sourced
from mindstone_tui.core.library.compactions import certify, given_back

RULE = "Never rename the staging port 5433."


@pytest.mark.parametrize(
    ("kind", "text", "summary", "kept"),
    [
        ("rule", RULE, f"Notes. {RULE}", True),
        ("rule", RULE, "The port for staging (5433) must not be renamed.", True),
        ("rule", RULE, "The staging port 5433 was renamed.", False),
        ("rule", RULE, "Never rename the staging port.", False),
        ("rule", RULE, "Never rename things. The staging port is 5433.", False),
        ("decision", "We use SQLite for the cache.", "Cache: uses SQLite", True),
        ("decision", "We use SQLite for the cache.", "The cache is fast.", False),
        ("task", "Fix the parser. Then ship it.", "Fixing the parser, then they ship.", True),
        ("file", "src/parser.py", "They changed `src/parser.py`.", True),
        ("file", "src/parser.py", "They changed the parser in src.", False),
        ("command", "make build", "They built with make.", False),
        ("command", "make build", "It was built with `make build`.", True),
        ("command", "make build", "It was built with `make buildall`.", False),
    ],
)
def test_a_thing_is_kept_where_its_telling_words_stand_together(
    kind: str, text: str, summary: str, kept: bool
) -> None:
    entry, lost = certify("claude-code", [Sourced(kind=kind, seq=3, text=text)], summary, 1_000)
    assert (entry.kept, [one.text for one in lost]) == (((3,), []) if kept else ((), [text]))


def test_what_does_not_fit_leaves_room_for_what_does_and_is_named() -> None:
    large = Sourced(kind="failing", seq=5, text="error " * 900)
    small = Sourced(kind="rule", seq=7, text=RULE)
    entry, lost = certify("codex", [large, small], "", 100)
    assert (entry.lost, entry.recoverable) == ((7,), (5,))
    block = given_back(lost, entry.recoverable, "agent:default:main")
    assert f"- #7 rule: {RULE}" in block
    assert "no room for lines 5" in block


@given(
    st.lists(st.text(min_size=1, max_size=60), max_size=8),
    st.text(max_size=300),
    st.integers(0, 90),
)
def test_everything_is_kept_lost_or_recoverable_and_nothing_twice(
    texts: list[str], summary: str, room: int
) -> None:
    precious = [Sourced(kind="rule", seq=at, text=text) for at, text in enumerate(texts)]
    entry, lost = certify("codex", precious, summary, room)
    found = [*entry.kept, *entry.recoverable, *entry.lost]
    assert sorted(found) == list(range(len(texts)))
    assert [one.seq for one in lost] == list(entry.lost)
