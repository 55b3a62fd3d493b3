"""What the tests of a file share because it takes long to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.core.interchange.export.browser import shared


@pytest.fixture(autouse=True, scope="module")
def one_browser() -> Iterator[None]:
    """One browser, from its first page on; each test has a profile of its own in it."""
    with shared():
        yield
