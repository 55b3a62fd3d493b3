"""The exported page in a real browser: it searches, folds, changes colours, and calls nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindstone_tui.core.interchange.export import export
from tests.core.interchange.export.browser import Browser, chromium, find_chromium
from tests.core.interchange.rich_session import rich_session

PROGRAM = find_chromium()
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")


@pytest.fixture
def page(home: Path, tmp_path: Path) -> Iterator[Browser]:
    transcript = rich_session(home)
    with transcript.history() as history:
        path = tmp_path / "session.html"
        path.write_text("".join(export(history, "html")), encoding="utf-8")
    transcript.close()
    assert PROGRAM is not None
    with chromium(PROGRAM, tmp_path / "profile") as browser:
        browser.open(path.as_uri())
        yield browser


def _shown(browser: Browser) -> int:
    found = browser.run("[...document.querySelectorAll('.turn')].filter(t => !t.hidden).length")
    assert isinstance(found, int)
    return found


def _type(browser: Browser, text: str) -> None:
    browser.run(
        "(() => { const field = document.getElementById('search');"
        f"field.value = {text!r};"
        "field.dispatchEvent(new Event('input')); })()"
    )


@needs_browser
def test_the_page_works_alone_in_a_browser(page: Browser) -> None:
    assert _shown(page) == 4

    _type(page, "NOTE 17")
    page.until("document.documentElement.dataset.found === '1'")
    assert _shown(page) == 1
    assert page.run("document.getElementById('found').value") == "1 of 4 turns"
    assert page.run("document.querySelector('#turn-2 .tool').open") is True
    _type(page, "said nowhere")
    page.until("document.documentElement.dataset.found === '0'")
    assert _shown(page) == 0
    _type(page, "")
    page.until("document.documentElement.dataset.found === ''")
    assert _shown(page) == 4

    assert page.run("document.querySelectorAll('.tool[open]').length") == 1
    page.run("document.getElementById('fold').click()")
    assert page.run("document.querySelectorAll('.tool[open]').length") == 0
    page.run("document.getElementById('fold').click()")
    assert page.run("document.querySelectorAll('.tool[open]').length") == 1
    page.run("document.querySelector('#turn-1 > summary').click()")
    assert page.run("document.querySelector('#turn-1').open") is False
    page.run("location.hash = '#s2'")
    page.until("document.querySelector('#turn-1').open")

    ground = "getComputedStyle(document.body).backgroundColor"
    page.prefer("light")
    light = page.run(ground)
    page.prefer("dark")
    dark = page.run(ground)
    assert light != dark
    page.run("document.getElementById('theme').click()")
    assert page.run(ground) == light

    assert page.run("document.querySelectorAll('.timeline rect').length") == 2
    assert page.run("getComputedStyle(document.querySelector('rect.red')).fill") != "rgb(0, 0, 0)"
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith("file://")] == []
