"""An answer from its first byte to its end, asked directly: what counts, and how it may end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.errors import (
    ProviderError,
    ProviderNonsense,
    ProviderRefused,
    ProviderUnreachable,
    UnknownName,
)
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import openai_chat
from mindstone_tui.core.providers.address import Address, address_of
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.direct import (
    Clock,
    Heard,
    StreamFailed,
    dialect_of,
    direct_provider,
)
from tests.core.providers.requests import request
from tests.core.providers.ways import address_at, at, outcome
from tests.loopback.formats import CHAT, FORMATS, WireFormat
from tests.loopback.server import (
    DONE,
    USAGE,
    chunk,
    event,
    fails,
    hangs,
    head,
    sends,
    serving,
    stream_of,
)

OPTIONS = Options(max_tokens=64, timeout=20, retries=0)
USED = event({**chunk(), "choices": [], "usage": USAGE})
WORD = event(chunk({"content": "Port"}))
END = event(chunk(finish="stop"))


async def answered(*acts: Any, retries: int = 0) -> tuple[Any, ProviderError | None, int]:
    """What is heard of servers that act so, one after the other, and how often they are asked."""
    async with serving() as server:
        server.play(*acts)
        made = at("direct", CHAT, server)
        options = Options(max_tokens=64, timeout=20, retries=retries)
        heard, error = await outcome(made, CHAT, options)
        await made.close()
        return heard, error, len(server.calls)


@pytest.mark.parametrize(
    ("body", "text", "usage"),
    [
        (WORD + END + USED + DONE, "Port", True),
        (WORD + END + USED, "Port", True),
        (WORD + END + DONE, "Port", False),
        (WORD + END, "Port", False),
        (WORD + END + b"data: [DONE]\n\n" + WORD, "Port", False),
        (WORD + event([1, 2]) + event("x") + event(None) + END + USED + DONE, "Port", True),
        (WORD + END + b"data: torn {", "Port", False),
        (WORD + END + b"data: nonsense\n\n", "Port", False),
        (WORD + END + USED + b"data:  [DONE] \n\n", "Port", True),
        (WORD + END[:-1], "Port", False),
        (END, "", False),
    ],
)
async def test_an_answer_is_whole_once_the_server_says_so_whatever_follows(
    body: bytes, text: str, usage: bool
) -> None:
    heard, error, _ = await answered(sends(head() + body))
    assert error is None
    assert heard.text == text
    assert heard.finished is not None
    assert (heard.finished.reason, heard.finished.retries) == ("stop", 0)
    assert (heard.finished.usage.prompt == 100) is usage
    assert heard.finished.model == "served-model"


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (WORD, ProviderUnreachable, "broke off in the middle"),
        (WORD + DONE, ProviderUnreachable, "broke off in the middle"),
        (WORD + b"data: torn {", ProviderUnreachable, "broke off in the middle"),
        (WORD + b"data: nonsense\n\n", ProviderError, "not JSON"),
        (b"data: nonsense\n\n", ProviderNonsense, "not as a model does"),
        (b"<html>hello</html>", ProviderNonsense, "not as a model does"),
        (b"", ProviderNonsense, "not as a model does"),
        (DONE, ProviderNonsense, "not as a model does"),
        (b'{"error": {"message": "the key is wrong", "code": 401}}', ProviderRefused, "key"),
        (WORD + event({"error": {"message": "out of moss"}}), ProviderError, "out of moss"),
        (event({"error": {"message": "out of moss"}}), ProviderError, "out of moss"),
    ],
)
async def test_an_answer_that_is_none_or_has_no_end_is_told_for_what_it_is(
    body: bytes, kind: type[ProviderError], says: str
) -> None:
    heard, error, _ = await answered(sends(head() + body))
    assert isinstance(error, kind)
    assert says in f"{error.what} {error.remedy}"
    assert heard.text == ("Port" if body.startswith(WORD) else "")
    assert heard.finished is None


async def test_packed_bytes_that_are_broken_are_told_by_what_came_before() -> None:
    packed = gzip.compress(WORD + END + USED + DONE)
    encoded = head(Content_Encoding="gzip")
    heard, error, _ = await answered(sends(encoded + packed))
    assert (heard.text, error) == ("Port", None)
    _, error, _ = await answered(sends(encoded + b"no gzip at all"))
    assert isinstance(error, ProviderNonsense)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        ("401 Unauthorized", "wrong key", ProviderRefused),
        ("404 Not Found", "no such model", ProviderError),
        ("500 Internal Server Error", "on fire", ProviderError),
    ],
)
async def test_a_status_is_told_with_the_servers_words(
    status: str, message: str, kind: type[ProviderError]
) -> None:
    _, error, _ = await answered(fails(status, {"error": {"message": message}}))
    assert isinstance(error, kind)
    assert status[:3] in error.what or message in f"{error.what} {error.remedy}"


async def test_what_failed_before_a_word_is_tried_again_and_counted() -> None:
    broken = fails("503 Service Unavailable", {"error": {"message": "busy"}})
    good = sends(head() + WORD + END + DONE)
    heard, error, calls = await answered(broken, broken, good, retries=3)
    assert (heard.text, error, calls) == ("Port", None, 3)
    assert heard.finished.retries == 2
    heard, error, calls = await answered(sends(head() + WORD), good, retries=3)
    assert (heard.text, calls) == ("Port", 1)
    assert error is not None


async def test_a_model_that_the_server_does_not_name_is_the_one_that_was_asked() -> None:
    nameless = [{**chunk({"content": "Port"}), "model": ""}, {**chunk(finish="stop"), "model": ""}]
    heard, _, _ = await answered(sends(head() + stream_of(nameless, usage=None)))
    assert heard.finished.model == "openai/m"


@pytest.mark.parametrize("wire", FORMATS, ids=str)
@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_every_format_ends_with_its_reason_and_its_figures(
    wire: WireFormat, finish: str
) -> None:
    async with serving() as server:
        server.asides["/api/show"] = head("404 Not Found")
        server.play(wire.says("Port 8443.", finish))
        made = at("direct", wire, server)
        heard, error = await outcome(made, wire, OPTIONS)
        await made.close()
    assert error is None
    assert (heard.text, heard.finished.reason) == ("Port 8443.", finish)  # type: ignore[union-attr]
    assert heard.finished.usage.completion > 0  # type: ignore[union-attr,operator]


class HandClock:
    """A clock that only the test moves."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_the_clock_counts_from_what_was_said_last_and_the_whole_has_an_end() -> None:
    now = HandClock()
    clock = Clock(20, 50, now)
    assert (clock.left(False), clock.is_up) == (20, False)
    now.seconds += 15
    assert clock.left(False) == 5
    clock.restart()
    assert clock.left(False) == 20
    now.seconds += 25
    assert clock.left(False) == -5
    clock.restart()
    now.seconds += 10
    assert not clock.is_up, "the fiftieth second is still in time"
    now.seconds += 0.1
    assert clock.is_up


@pytest.mark.parametrize(("patience", "last"), [(20, 5), (3, 3)])
def test_a_complete_answer_has_only_its_last_words_left(patience: float, last: float) -> None:
    now = HandClock()
    clock = Clock(patience, 1_000, now)
    now.seconds += 2
    assert clock.left(True) == last
    now.seconds += 1
    clock.restart()
    assert clock.left(True) == last - 1, "and no sign of life makes it longer"
    assert clock.left(False) == patience


async def played(said: bytes, patience: float) -> tuple[list[str], ProviderError | None]:
    """What is heard of a server that says this, and then nothing more."""
    async with serving() as server:
        server.play(hangs(head() + said))
        made = at("direct", CHAT, server)
        options = Options(max_tokens=9, timeout=patience, retries=0)
        texts, error = [], None
        try:
            async for delta in made.stream(request("hi", model="openai/m"), options):
                texts.append(getattr(delta, "text", type(delta).__name__))
        except ProviderError as failed:
            error = failed
        await made.close()
    return texts, error


async def test_a_server_that_falls_silent_is_given_up_after_its_patience() -> None:
    texts, error = await played(WORD, patience=0.05)
    assert texts == ["Port"]
    assert isinstance(error, ProviderUnreachable)


async def test_after_a_complete_answer_silence_is_its_end_and_no_error() -> None:
    texts, error = await played(WORD + END, patience=0.05)
    assert (texts, error) == (["Port", "Finished"], None)


async def test_connections_are_made_once_and_closed_with_the_provider() -> None:
    async with serving() as server:
        server.keeps = True
        body = stream_of([chunk({"content": "Port"}), chunk(finish="stop")])
        whole = head().replace(b"Connection: close", b"Content-Length: %d" % len(body)) + body
        server.play(sends(whole))
        made = at("direct", CHAT, server)
        made.warm_up()
        for _ in range(2):
            assert (await outcome(made, CHAT, OPTIONS))[0].text == "Port"
        await made.close()
        await made.close()
        assert (len(server.calls), server.connections) == (2, 1)
    unused = direct_provider(address_at(CHAT, "http://127.0.0.1:1/v1"), ModelSettings())
    assert unused is not None
    await unused.close()


def test_who_is_asked_directly_is_chosen_by_provider_address_and_setting(tmp_path: Path) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(tmp_path)})
    gemini = address_of("gemini/gemini-2.5-pro", ModelSettings(), places, {})
    chat = Address(model="openai/m", provider="openai", base_url="http://127.0.0.1:1/v1")
    assert direct_provider(gemini, ModelSettings()) is None
    assert direct_provider(chat, ModelSettings()) is not None
    assert direct_provider(chat, ModelSettings(transport="direct")) is not None
    assert direct_provider(chat, ModelSettings(transport="litellm")) is None
    with pytest.raises(UnknownName, match="only be asked through litellm") as refused:
        direct_provider(gemini, ModelSettings(transport="direct"))
    assert "models.transport" in refused.value.remedy
    vllm = Address(model="hosted_vllm/m", provider="hosted_vllm")
    assert dialect_of(vllm) is None
    assert dialect_of(Address(model="groq/m", provider="groq")) is openai_chat.DIALECT
    assert dialect_of(Address(model="nobody/m", provider="nobody")) is None


def test_a_stream_is_heard_piece_by_piece_and_says_where_it_stands() -> None:
    heard = Heard(openai_chat.DIALECT)
    assert (heard.began, heard.complete, heard.over, heard.stray) == (False, False, False, b"")
    whole = WORD + END + USED + DONE + WORD
    deltas = [delta for at in range(len(WORD)) for delta in heard.take(iter([whole[at : at + 1]]))]
    assert [getattr(delta, "text", "") for delta in deltas] == ["Port"]
    assert (heard.began, heard.complete, heard.over) == (True, False, False)
    list(heard.take(iter([END])))
    assert (heard.complete, heard.over) == (True, False)
    rest = list(heard.take(iter([USED, DONE + WORD, WORD])))
    assert (rest, heard.over) == ([], True)
    assert heard.translator.usage.prompt == 100


def test_what_came_instead_of_events_is_kept_and_a_torn_end_says_nothing() -> None:
    heard = Heard(openai_chat.DIALECT)
    assert list(heard.take(iter([b'{"error": "no"}\n']))) == []
    assert json.loads(heard.stray) == {"error": "no"}
    torn = Heard(openai_chat.DIALECT)
    assert list(torn.take(iter([b'data: {"cho']))) == []
    assert list(torn.take(None)) == []
    last = Heard(openai_chat.DIALECT)
    assert list(last.take(iter([WORD[:-1]]))) == []
    assert [getattr(delta, "text", "") for delta in last.take(None)] == ["Port"]


def test_a_failure_in_a_stream_keeps_its_words() -> None:
    heard = Heard(openai_chat.DIALECT)
    with pytest.raises(StreamFailed, match="out of moss") as failed:
        list(heard.take(iter([event({"error": {"message": "out of moss"}})])))
    assert "out of moss" in failed.value.failure.message
