"""Counting: offline, close to the truth, and high rather than low where it must guess."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindstone_tui.core.entries import ToolSchema
from mindstone_tui.core.tokens import (
    Calibration,
    LengthCounter,
    TokenCounter,
    counter_for,
    detect_cut,
    encoding_for,
    error_percent,
    quick_count,
    rough_count,
)

SAMPLES = {
    "prose": "The transcript is history, and the prompt is a working set of it. " * 40,
    "code": "def add(a: int, b: int) -> int:\n    return a + b  # plain\n\n" * 40,
    "cjk": "石は覚えている。过去的一切都在记录里。" * 40,
    "cyrillic": "Камень помнит всё, что было сказано. " * 40,
    "emoji": "🪨🧗🏽‍♀️👩‍👩‍👧‍👦🇩🇪" * 40,
    "base64": base64.b64encode(bytes(range(256)) * 12).decode(),
    "json": '{"path":"/src/main.py","lines":[1,2,3],"ok":true}' * 40,
    "digits": "3.14159265358979 2718281828 1,000,000 " * 40,
    "empty": "",
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai/gpt-4"])
def test_the_rough_count_errs_high_and_not_absurdly(name: str, model: str) -> None:
    exact = TokenCounter(model).text(SAMPLES[name])
    assert exact <= rough_count(SAMPLES[name]) <= 4 * exact + 8


@settings(max_examples=60, deadline=None, database=None)
@given(st.text(max_size=300))
def test_any_text_can_be_counted(text: str) -> None:
    counter = counter_for("openai/gpt-4o")
    assert counter.text(text) >= (1 if text else 0)
    assert rough_count(text) >= (1 if text else 0)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_length_tells_the_size_within_a_factor(name: str) -> None:
    exact = counter_for("").text(SAMPLES[name])
    assert exact / 3 - 8 <= quick_count(SAMPLES[name]) <= 3 * exact + 8
    assert LengthCounter().text(SAMPLES[name]) == quick_count(SAMPLES[name])


def test_special_tokens_are_only_text() -> None:
    assert counter_for("openai/gpt-4o").text("<|endoftext|>") > 1


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("openai/gpt-4o-mini", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("openai/o3", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("anthropic/claude-sonnet-4-5", "cl100k_base"),
        ("ollama/llama3.2", "cl100k_base"),
        ("scripted/replies.jsonl", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_each_family_has_its_vocabulary(model: str, encoding: str) -> None:
    assert encoding_for(model) == encoding


def test_blanks_without_end_are_counted_in_one_pass() -> None:
    assert rough_count(f"a{' ' * 4_000_000}b") == 250_001


def test_a_very_long_word_is_counted_in_reasonable_pieces() -> None:
    assert counter_for("gpt-4o").text("a" * 1_000_000) > 10_000


def test_messages_calls_and_schemas_have_their_overhead() -> None:
    counter = counter_for("gpt-4o")
    plain = counter.message({"role": "user", "content": "hello"})
    assert plain == counter.text("hello") + 4
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    assert counter.message({"role": "assistant", "content": "", "tool_calls": [call]}) > 8
    tool = ToolSchema(name="read", description="Reads a file.", parameters={"type": "object"})
    assert counter.tools([tool, tool]) - counter.tools([tool]) < counter.tools([tool])
    assert counter.tools([]) == 0


def test_pictures_count_by_their_size_and_never_as_text() -> None:
    counter = counter_for("gpt-4o")
    assert 0 < counter.image(100, 100) < counter.image(2_000, 2_000) < 5_000
    assert counter.image(0, 0) == 1_600
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
    assert counter.message({"role": "user", "content": [url]}) < 2_000


def test_without_vocabularies_it_counts_characters_and_says_so() -> None:
    probe = (
        "import sys; sys.modules['tiktoken'] = sys.modules['regex'] = None\n"
        "from mindstone_tui.core.tokens import TokenCounter\n"
        "counter = TokenCounter('gpt-4o')\n"
        "print(counter.method, counter.text('hello there, stone'))"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    method, count = run.stdout.split()
    assert method == "characters"
    assert int(count) >= 4


def test_counting_a_little_imports_neither_litellm_nor_tiktoken() -> None:
    probe = (
        "import sys; from mindstone_tui.core.tokens import TokenCounter\n"
        "counter = TokenCounter('gpt-4o'); print('tiktoken' in sys.modules)\n"
        "counter.text('hello'); print({'litellm', 'tiktoken'} & set(sys.modules) or 'neither')"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "neither"]


async def test_the_vocabulary_is_loaded_off_the_loop_when_asked() -> None:
    counter = TokenCounter("gpt-4o")
    await counter.ready()
    assert counter.method == "o200k_base"


def test_a_model_is_corrected_by_the_median_of_what_was_reported(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    calibration = Calibration(path)
    assert calibration.factor("m") is None
    for reported in (1_200, 1_210, 2_900, 1_190):
        assert calibration.learn("m", 1_000, reported)
    assert calibration.factor("m") == pytest.approx(1.205)
    assert Calibration(path).factor("m") == pytest.approx(1.205, abs=0.01)


def test_nonsense_teaches_nothing(tmp_path: Path) -> None:
    calibration = Calibration(tmp_path / "calibration.json")
    assert not calibration.learn("m", 1_000, 10)
    assert not calibration.learn("m", 1_000, 9_000)
    assert not calibration.learn("m", 20, 30)
    assert calibration.factor("m") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"ratios": {"m": "x"}}', b"\xff\xfe"])
def test_a_damaged_calibration_is_forgotten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calibration.json"
    path.write_bytes(content)
    assert Calibration(path).factor("m") is None


def test_a_calibration_that_cannot_be_stored_still_works(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    calibration = Calibration(blocked / "calibration.json")
    assert calibration.learn("m", 1_000, 1_100)
    assert calibration.factor("m") == 1.1


def test_a_server_that_cut_the_prompt_is_noticed() -> None:
    assert detect_cut(8_000, 2_048)
    assert not detect_cut(8_000, 7_000)
    assert not detect_cut(300, 100)
    assert not detect_cut(1_000, 1_400)


def test_the_error_of_an_estimate_is_in_percent_of_the_truth() -> None:
    assert error_percent(1_050, 1_000) == 5.0
    assert error_percent(1_050, 0) is None
