"""The chat page in a real browser: what a person sees, types and clicks, and what cannot happen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import mindstone_tui
from mindstone_tui.core.entries.store import SessionDescribed
from tests import builders
from tests.core.interchange.export.browser import Browser, chromium, find_chromium
from tests.core.session.stage import calls, check_history
from tests.servers.residence import Residence, residing

PROGRAM = find_chromium()
HOSTILE = (
    "Here **it** is: <script>document.title='owned'</script>"
    "<img src=x onerror=\"document.title='owned'\"> [click](javascript:document.title='owned')\n\n"
    "```python\nport = 8443\n```\n<svg onload=\"document.title='owned'\"></svg>"
)


def seen(browser: Browser, selector: str = "#talk") -> str:
    return str(browser.run(f"document.querySelector('{selector}').innerText"))


def open_page(browser: Browser, served: Residence) -> None:
    browser.open(f"{served.url}/#token={served.token}")
    browser.until("document.querySelector('#panel .big') !== null")


def say(browser: Browser, text: str) -> None:
    browser.run("document.getElementById('text').focus()")
    browser.type(text, enter=True)


def waits(browser: Browser, text: str) -> None:
    browser.until(f"document.querySelector('#talk').innerText.includes({text!r})")


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_a_conversation_in_the_browser_beside_the_app(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = calls(("write", {"path": "note.txt", "content": "a stone remembers\n"}), text=HOSTILE)
    replies = (wanted, {"text": "It is written."}, {"text": "From the terminal."})

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            assert browser.run("location.hash") == "", "the token stays in the address"
            say(browser, "write it down")
            browser.until("document.querySelector('.ask') !== null")
            asked = seen(browser, ".ask")
            assert "write needs your approval" in asked
            assert "+a stone remembers" in asked
            assert browser.run("document.activeElement.textContent") == "Decline"
            assert browser.run("document.querySelector('.answer strong').textContent") == "it"
            browser.run("document.querySelector('.ask button').click()")
            waits(browser, "It is written.")
            browser.until("document.getElementById('stop').hidden")
            assert browser.run("document.querySelector('.ask') === null"), "an answered question"
            assert "write: allowed on web" in seen(browser)
            assert "<script>document.title" in seen(browser)
            assert browser.run("document.querySelectorAll('#talk script, #talk img').length") == 0
            links = "Array.from(document.querySelectorAll('#talk a')).map((a) => a.protocol)"
            assert "javascript:" not in browser.run(links)
            assert "of" in seen(browser, "#panel .big")
            assert "message history" in seen(browser, "#panel")
            asyncio.run(in_the_terminal())
            waits(browser, "said in the terminal")
            waits(browser, "From the terminal.")
            assert "via python" in seen(browser)
            browser.run("document.getElementById('query').focus()")
            browser.type("a stone remembers", enter=True)
            browser.until("document.querySelector('#found .card') !== null")
            assert "agent:default:main · line " in seen(browser, "#found")
            browser.run("document.querySelector('#found .card').click()")
            browser.until("document.querySelector('.shown') !== null")
            browser.run("document.getElementById('found').close()")
            for width, phone in ((1280, False), (390, True)):
                browser.size(width, 844, phone=phone)
                wide = "document.documentElement.scrollWidth <= innerWidth"
                assert browser.run(wide), f"the page is wider than {width}"
                assert browser.run("document.getElementById('text').offsetWidth > 150")
            assert browser.run("document.title") == "agent:default:main · MindStone"
            assert not browser.complaints
            assert all(url.startswith(served.url) for url in browser.requests)

    async def in_the_terminal() -> None:
        async with mindstone_tui.open(session="main", home=home) as app:
            async for _ in app.ask("said in the terminal"):
                pass

    async with residing(home, tmp_path, *replies) as served:
        await asyncio.to_thread(drive, served)
        check_history(served.places())
    assert await asyncio.to_thread((tmp_path / "note.txt").exists)


async def test_the_page_has_a_policy_and_nothing_on_it_needs_another_host(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:
        for path in ("/", "/page.js", "/page.css", "/icon.svg"):
            answer = await client.get(path, headers={"authorization": ""})
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.text.count("http") == answer.text.count("http://www.w3.org/2000/svg")
            assert "set-cookie" not in answer.headers
        for path in (
            "/page/sessions",
            "/page/history",
            "/page/events",
            "/page/search?query=x",
            "/page/around",
        ):
            assert (await client.get(path, headers={"authorization": ""})).status_code == 401
        assert (await client.post("/page/send", json={"text": " "})).status_code == 400
        late = await client.post("/page/answer", json={"call": "c9", "choice": "allow-0"})
        assert late.status_code == 400
        assert "no longer open" in late.json()["error"]["message"]


async def test_a_search_on_the_page_takes_filters_among_its_words(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:
        transcript = builders.transcript_in(home, "agent:default:foreign")
        builders.say(transcript, "which port does staging use?", "Staging uses port 8443.")
        transcript.append(SessionDescribed(program="codex", title="Ports", folder="/work/api"))
        transcript.close()

        async def found(typed: str) -> tuple[list[str], list[str]]:
            told = (await client.get("/page/search", params={"query": typed})).json()
            return (
                [one["session"] for one in told["sessions"]],
                [hit["session"] for hit in told["hits"]],
            )

        key = "agent:default:foreign"
        assert await found("staging port") == ([], [key])
        assert await found("program:codex project:api") == ([key], [])
        assert await found("program:codex staging port role:user") == ([key], [key])
        assert await found("program:claude staging port") == ([], [])
        wrong = await client.get("/page/search", params={"query": "since:monday port"})
        assert wrong.status_code == 400
        assert "monday is not a date" in wrong.json()["error"]["message"]
