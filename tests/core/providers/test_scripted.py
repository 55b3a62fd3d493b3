"""A script says what its file says, in order, and complains when it cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import (
    ContextTooLong,
    ProviderBusy,
    ProviderError,
    ProviderNonsense,
    ProviderRefused,
    ProviderUnreachable,
    ScriptEnded,
)
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.scripted import ERRORS, ScriptedProvider, words
from tests.core.providers.requests import Broken, Heard, hear, request


def script(folder: Path, *lines: str) -> ScriptedProvider:
    path = folder / "script.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ScriptedProvider(path)


async def at(provider: ScriptedProvider, position: int, purpose: str = "") -> Heard:
    options = Options(max_tokens=64, position=position, purpose=purpose)
    return await hear(provider, request("go", model="scripted/x"), options)


async def test_replies_come_in_order_word_by_word(tmp_path: Path) -> None:
    provider = script(tmp_path, '{"text": "one fine  day\\n"}', "", '{"text": "two"}')
    first = await at(provider, 0)
    assert first.pieces == ("one", " fine", "  day", "\n")
    assert first.finished is not None
    assert first.finished.reason == "stop"
    assert (await at(provider, 1)).text == "two"


@given(st.text(alphabet=" \n\tab\u00a0é", max_size=60))
def test_the_words_of_a_text_are_the_text(text: str) -> None:
    assert "".join(words(text)) == text


async def test_tool_calls_have_ids_of_their_own_and_arguments_as_written(tmp_path: Path) -> None:
    provider = script(
        tmp_path,
        '{"tool_calls": [{"name": "read", "arguments": {"path": "a"}}, {"name": "list"}]}',
        '{"tool_calls": [{"name": "read", "arguments": "{broken"}]}',
    )
    first, second = await at(provider, 0), await at(provider, 1)
    assert first.arguments(0) == {"path": "a"}
    assert first.arguments(1) == {}
    assert second.calls[0].arguments == "{broken"
    assert len({call.id for call in (*first.calls, *second.calls)}) == 3
    assert first.finished is not None
    assert first.finished.reason == "tool_calls"


async def test_usage_is_reported_as_written_and_unknown_when_not(tmp_path: Path) -> None:
    provider = script(
        tmp_path,
        '{"text": "a", "usage": {"prompt": 7, "completion": 2, "cached": 3, "cost": 0.5}}',
        '{"text": "a", "usage": {"prompt_tokens": 9, "completion_tokens": 1}}',
        '{"text": "a"}',
    )
    own, openai, none = [(await at(provider, n)).finished for n in range(3)]
    assert own is not None
    assert openai is not None
    assert none is not None
    assert (own.usage.prompt, own.usage.cached, own.usage.cost) == (7, 3, 0.5)
    assert (openai.usage.prompt, openai.usage.completion) == (9, 1)
    assert none.usage.prompt is None


async def test_lines_for_a_purpose_serve_only_that_purpose(tmp_path: Path) -> None:
    provider = script(
        tmp_path, '{"for": "summary", "text": "short"}', '{"text": "a"}', '{"text": "b"}'
    )
    assert (await at(provider, 1)).text == "b"
    assert (await at(provider, 0, "summary")).text == "short"
    with pytest.raises(Broken) as judged:
        await at(provider, 0, "judge")
    assert isinstance(judged.value.error, ScriptEnded)


async def test_a_loop_starts_over_and_without_one_the_script_ends(tmp_path: Path) -> None:
    looping = script(tmp_path, '{"text": "a"}', '{"text": "b"}', '{"loop": true}')
    assert [(await at(looping, n)).text for n in range(5)] == ["a", "b", "a", "b", "a"]
    with pytest.raises(Broken) as ended:
        await at(script(tmp_path, '{"text": "only"}'), 1)
    assert isinstance(ended.value.error, ScriptEnded)
    assert "position 1" in str(ended.value.error)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("timeout", ProviderUnreachable),
        ("cut", ProviderUnreachable),
        ("rate_limit", ProviderBusy),
        ("overloaded", ProviderBusy),
        ("context_length", ContextTooLong),
        ("auth", ProviderRefused),
        ("refused", ProviderRefused),
        ("nonsense", ProviderNonsense),
        ("it rained", ProviderError),
    ],
)
async def test_errors_are_raised_by_name(
    tmp_path: Path, name: str, kind: type[ProviderError]
) -> None:
    with pytest.raises(Broken) as broken:
        await at(script(tmp_path, f'{{"error": "{name}"}}'), 0)
    assert type(broken.value.error) is kind
    assert name in ERRORS or name in str(broken.value.error)


async def test_a_cut_stream_breaks_in_the_middle(tmp_path: Path) -> None:
    with pytest.raises(Broken) as broken:
        await at(script(tmp_path, '{"text": "one two three four", "error": "cut"}'), 0)
    assert broken.value.heard.text == "one two"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "a"', "line 2"),
        ('{"txt": "a"}', "txt"),
        ('{"tool_calls": [{"name": "x", "arguments": 3}]}', "line 2"),
        ("[]", "line 2"),
    ],
)
async def test_a_wrong_line_is_named_with_its_file(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(Broken) as broken:
        await at(script(tmp_path, '{"text": "fine"}', line), 0)
    assert isinstance(broken.value.error, ProviderNonsense)
    assert "script.jsonl" in str(broken.value.error)
    assert says in str(broken.value.error)


async def test_nothing_may_follow_the_loop(tmp_path: Path) -> None:
    with pytest.raises(Broken) as broken:
        await at(script(tmp_path, '{"loop": true}', '{"text": "a"}'), 0)
    assert "line 2" in str(broken.value.error)


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Broken, match=r"nowhere\.jsonl"):
        await at(ScriptedProvider(tmp_path / "nowhere.jsonl"), 0)


async def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    provider = script(tmp_path, '{"text": "before"}')
    assert (await at(provider, 0)).text == "before"
    script(tmp_path, '{"text": "after that"}')
    assert (await at(provider, 0)).text == "after that"


async def test_a_slow_reply_can_be_interrupted_in_the_middle(tmp_path: Path) -> None:
    provider = script(tmp_path, '{"text": "a b c d", "delay_ms": 3600000}')
    stream = at(provider, 0)
    task = asyncio.ensure_future(stream)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_thinking_comes_before_the_text(tmp_path: Path) -> None:
    heard = await at(script(tmp_path, '{"thinking": "well now", "text": "yes"}'), 0)
    assert (heard.thinking, heard.text) == ("well now", "yes")
