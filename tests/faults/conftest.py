"""A table of what was tried, printed when the suite is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Tell = Callable[[str, str, str], None]

_ROWS = pytest.StashKey[list[tuple[str, str, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ROWS] = []


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Add a row: what was done to it, how often, what came of it."""
    rows = request.config.stash[_ROWS]

    def add(what: str, tried: str, found: str) -> None:
        rows.append((what, tried, found))

    return add


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    rows = config.stash.get(_ROWS, [])
    if not rows:
        return
    terminalreporter.write_sep("-", "faults")
    for what, tried, found in rows:
        terminalreporter.write_line(f"{what:<44} {tried:>24}   {found}")
