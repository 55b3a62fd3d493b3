"""How hard a model thinks is a setting per model, said in the words of each wire format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mindstone_tui.core.entries import Request
from mindstone_tui.core.providers import (
    anthropic_messages,
    ollama,
    openai_chat,
    openai_responses,
)
from mindstone_tui.core.providers.address import Address
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.litellm import call_of

REQUEST = Request(model="m", messages=({"role": "user", "content": "hello"},), tools=())
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "openai": (openai_chat, {"reasoning_effort": "high"}),
    "responses": (openai_responses, {"reasoning": {"effort": "high"}}),
    "anthropic": (anthropic_messages, {"thinking": {"type": "enabled", "budget_tokens": 8_000}}),
    "ollama": (ollama, {"think": "high"}),
}


def address(way: str) -> Address:
    provider = "openai" if way == "responses" else way
    return Address(model=f"{provider}/m", provider=provider, base_url="http://127.0.0.1:1")


def body(way: str, **fields: Any) -> dict[str, Any]:
    options = Options(max_tokens=16_000, temperature=0.5, **fields)
    told: dict[str, Any] = json.loads(WAYS[way][0].call(REQUEST, options, address(way)).body)
    return told


@pytest.mark.parametrize("way", WAYS)
def test_the_effort_is_sent_where_one_is_set_and_only_there(way: str) -> None:
    expected = WAYS[way][1]
    told = body(way, effort="high")
    assert {name: told[name] for name in expected} == expected
    assert not expected.keys() & body(way).keys()


def test_a_model_that_thinks_has_no_temperature_of_ones_own() -> None:
    assert "temperature" not in body("anthropic", effort="high")
    short = Options(max_tokens=1_500, effort="high")
    told = json.loads(anthropic_messages.call(REQUEST, short, address("anthropic")).body)
    assert "thinking" not in told, "the answer would have no room"


def test_the_library_is_told_as_well() -> None:
    told = call_of(REQUEST, Options(max_tokens=9, effort="low"), address("openai"))
    assert told["reasoning_effort"] == "low"
