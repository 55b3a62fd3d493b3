"""The parts of which the wire formats are made, without any wire: pure, bounded, indifferent."""

from __future__ import annotations

import gzip
import itertools
import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindstone_tui.core.bounded_json import is_too_deep, read_json, read_object
from mindstone_tui.core.entries import Usage
from mindstone_tui.core.errors import ProviderBusy, ProviderError, ProviderRefused
from mindstone_tui.core.providers.anthropic_messages import MessagesInterpreter, in_turn
from mindstone_tui.core.providers.base import CallDelta, Delta, TextPart, ThinkingPart
from mindstone_tui.core.providers.dialect import Interpreter, failure_in
from mindstone_tui.core.providers.errors import plain_words, translate
from mindstone_tui.core.providers.http import (
    EventStream,
    JsonLines,
    Lines,
    Oversized,
    Unpacked,
)
from mindstone_tui.core.providers.ollama import OllamaInterpreter, Thoughts
from mindstone_tui.core.providers.openai_chat import ChatInterpreter
from mindstone_tui.core.providers.openai_responses import ResponsesInterpreter
from mindstone_tui.core.providers.stream import Translator
from mindstone_tui.core.providers.tool_names import (
    NINE,
    PLAIN_ID,
    STRICT_ID,
    plain_id,
    valid_id,
    valid_name,
    with_valid_calls,
)
from tests.faults import sized

DEEPEST = 100

INTERPRETERS = (ChatInterpreter, ResponsesInterpreter, MessagesInterpreter, OllamaInterpreter)

# -- bytes to events ------------------------------------------------------------------------------

payloads = st.lists(
    st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1), max_size=6
)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(payloads, st.lists(st.integers(0, 400), max_size=8), st.sampled_from(["\n", "\r\n", "\r"]))
def test_events_are_the_same_however_they_are_cut_and_ended(
    said: list[str], cuts: list[int], end: str
) -> None:
    told = "".join(f": hi{end}event: x{end}data: {each}{end}{end}" for each in said)
    reader = EventStream()
    found = [
        event for piece in pieces_of(told.encode(), cuts) for event in reader.feed(piece)
    ] + reader.end()
    assert found == [each.encode() for each in said]


@given(payloads, st.lists(st.integers(0, 400), max_size=8))
def test_lines_are_the_same_however_they_are_cut(said: list[str], cuts: list[int]) -> None:
    told = "\ufeff" + "".join(f"{each}\n\n" for each in said)
    reader = JsonLines()
    found = [line for piece in pieces_of(told.encode(), cuts) for line in reader.feed(piece)]
    assert found + reader.end() == [each.encode() for each in said if each.encode().strip()]


def test_an_event_of_several_lines_is_one() -> None:
    assert EventStream().feed(b'data: {"a":\ndata:1}\n\n') == [b'{"a":\n1}']


def test_what_is_no_event_is_kept_for_whoever_looks_for_an_error() -> None:
    reader = EventStream()
    assert reader.feed(b'{"error": {"message": "no"}}') == []
    assert reader.end() == []
    assert json.loads(reader.stray) == {"error": {"message": "no"}}


def test_neither_a_line_nor_an_event_grows_without_end() -> None:
    lines, events = Lines(longest=1_000), EventStream(longest=1_000)
    lines.feed(b"x" * 900)
    with pytest.raises(Oversized):
        lines.feed(b"x" * 200)
    events.feed(b"data: " + b"x" * 900 + b"\n")
    with pytest.raises(Oversized):
        events.feed(b"data: " + b"x" * 200 + b"\n")


@given(st.binary(max_size=5_000), st.lists(st.integers(0, 5_000), max_size=5))
def test_what_was_packed_is_unpacked(data: bytes, cuts: list[int]) -> None:
    unpacked = Unpacked("gzip")
    packed = pieces_of(gzip.compress(data), cuts)
    assert b"".join(piece for each in packed for piece in unpacked.feed(each)) == data


def test_a_bomb_is_noticed_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(50 << 20))
    unpacked = Unpacked("gzip")
    given_out = list(itertools.islice(unpacked.feed(bomb), 16))
    assert sum(map(len, given_out)) == 1 << 20
    with pytest.raises(Oversized):
        list(Unpacked("gzip").feed(bomb))
    with pytest.raises(Oversized):
        list(Unpacked("", longest=100).feed(bytes(101)))
    with pytest.raises(ValueError, match="br"):
        Unpacked("br")


# -- JSON -----------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@given(values)
def test_shallow_json_is_read_as_ever(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@given(st.integers(1, 400), st.text(string.printable, max_size=20))
def test_depth_is_counted_outside_of_strings_only(depth: int, noise: str) -> None:
    inner = json.dumps("[{" * 200 + noise)
    text = "[" * depth + inner + "]" * depth
    assert is_too_deep(text.encode()) == (depth > DEEPEST)
    assert (read_object('{"a":' + text + "}") is None) == (depth > DEEPEST - 1)


@pytest.mark.parametrize(
    "text",
    ["", "{", "nothing", "[" * 100_000, '{"a":' * 5_000, "9" * 5_000, '"\ud800'],
    ids=lambda text: repr(text[:9]),
)
def test_what_is_no_json_is_no_value(text: str) -> None:
    assert read_object(text) is None
    with pytest.raises(ValueError, match=r"JSON|Expecting|decode|Extra|Unterminated|limit"):
        read_json(text)


# -- names of tools -------------------------------------------------------------------------------


@given(st.text())
def test_a_name_is_made_valid_once(name: str) -> None:
    made = valid_name(name)
    assert valid_name(made) == made
    assert len(made) <= 64
    assert set(made) <= set(string.ascii_letters + string.digits + "_-")
    assert bool(made) == bool(name)


@given(
    st.lists(st.text(st.characters(codec=None), min_size=1), min_size=2, max_size=5, unique=True)
)
def test_ids_are_made_valid_once_and_stay_apart(ids: list[str]) -> None:
    for allowed in (STRICT_ID, PLAIN_ID, NINE):
        made = [valid_id(each, allowed) for each in ids]
        assert all(allowed.fullmatch(each) for each in made)
        assert [valid_id(each, allowed) for each in made] == made
        assert len(set(made)) == len(ids)


def test_a_call_and_its_result_keep_one_id() -> None:
    odd = "x\n" * 5_000
    function = {"name": "../shell rm", "arguments": "{}"}
    asked = with_valid_calls(
        {"role": "assistant", "content": "", "tool_calls": [{"id": odd, "function": function}]}
    )
    result = with_valid_calls({"role": "tool", "tool_call_id": odd, "content": ""})
    assert asked["tool_calls"][0]["id"] == result["tool_call_id"]
    assert asked["tool_calls"][0]["function"]["name"] == "_shell_rm"
    assert plain_id(odd) == ""
    assert plain_id("call_1") == "call_1"


def test_odd_names_and_ids_are_valid_when_they_are_heard() -> None:
    function = {"name": "\x1b[31m../shell rm", "arguments": "{}"}
    chunk = {"choices": [{"delta": {"tool_calls": [{"id": "a b", "function": function}]}}]}
    (heard,) = Translator().take(chunk)
    assert isinstance(heard, CallDelta)
    assert (heard.id, heard.name) == ("", "_31m_shell_rm")


# -- answers --------------------------------------------------------------------------------------


def heard(interpreter: Interpreter, *events: dict[str, Any]) -> tuple[list[Delta], Translator]:
    translator = Translator()
    deltas = [
        delta
        for event in events
        for chunk in interpreter.chunks(event)
        for delta in translator.take(chunk)
    ]
    return deltas, translator


NAMES = (
    *("type", "index", "delta", "text", "thinking", "content_block", "message", "usage", "item"),
    *("choices", "content", "tool_calls", "function", "name", "arguments", "response", "output"),
    *("done", "model", "output_index", "input", "error", "input_tokens", "x_groq", "partial_json"),
)
KINDS = (
    *("content_block_start", "content_block_delta", "content_block_stop", "message_start"),
    *("message_delta", "tool_use", "text_delta", "input_json_delta", "thinking", "function_call"),
    *("response.output_item.added", "response.output_item.done", "response.completed"),
    *("response.function_call_arguments.delta", "response.output_text.delta", "response.failed"),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(KINDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
    ),
    max_leaves=25,
)
events = st.dictionaries(st.sampled_from(NAMES), anything, max_size=6)


@pytest.mark.thorough
@settings(max_examples=sized(70, 10_000))
@given(st.lists(events, max_size=5))
def test_no_event_can_break_an_interpreter(said: list[dict[str, Any]]) -> None:
    for made in INTERPRETERS:
        try:
            heard(made(), *said)
        except ProviderError:
            continue
        for each in said:
            failure_in(each)


def test_an_item_that_comes_whole_is_heard_once() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}
    asked = {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"a":1}'}
    ended = {"output": [message, asked], "usage": {"input_tokens": 3, "output_tokens": 1}}
    whole = {"type": "response.output_item.done", "output_index": 0, "item": message}
    deltas, translator = heard(
        ResponsesInterpreter(), whole, {"type": "response.completed", "response": ended}
    )
    assert [each.text for each in deltas if isinstance(each, TextPart)] == ["Hello."]
    arguments = [each.arguments for each in deltas if isinstance(each, CallDelta)]
    assert "".join(arguments) == '{"a":1}'
    assert translator.usage == Usage(prompt=3, completion=1)


def test_a_call_whose_input_comes_whole_has_it() -> None:
    block = {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "x"}}
    deltas, _ = heard(
        MessagesInterpreter(),
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
    )
    arguments = "".join(each.arguments for each in deltas if isinstance(each, CallDelta))
    assert json.loads(arguments) == {"path": "x"}


def test_thoughts_that_are_hidden_are_kept_as_they_came() -> None:
    block = {"type": "redacted_thinking", "data": "b64"}
    deltas, _ = heard(
        MessagesInterpreter(), {"type": "content_block_start", "index": 0, "content_block": block}
    )
    assert deltas == [ThinkingPart(redacted="b64")]


def test_thoughts_in_a_list_of_parts_are_thoughts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    content = [thought, {"type": "text", "text": "Yes."}]
    deltas, _ = heard(ChatInterpreter(), {"choices": [{"delta": {"content": content}}]})
    assert deltas == [ThinkingPart(text="Hm."), TextPart(text="Yes.")]


@pytest.mark.parametrize(("total", "completion"), [(130, 30), (110, 10)])
def test_thoughts_that_are_counted_apart_are_added(total: int, completion: int) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": total,
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    _, translator = heard(ChatInterpreter(), {"choices": [], "usage": usage})
    assert translator.usage.completion == completion


@given(
    st.text("abc<>/\n think", max_size=30),
    st.text("abc<>/\n think", max_size=30),
    st.lists(st.integers(0, 80), max_size=6),
    st.booleans(),
)
def test_thoughts_between_tags_are_parted_wherever_the_text_is_cut(
    thought: str, said: str, cuts: list[int], tagged: bool
) -> None:
    if "</think>" in thought or (not tagged and said.lstrip().startswith("<think>")):
        return
    text = f"<think>{thought}</think>{said}" if tagged else said
    parts = Thoughts()
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    heard_all = [parts.parted(text[a:b]) for a, b in itertools.pairwise(edges)]
    heard_all.append(parts.parted("", last=True))
    words, thoughts = ("".join(each) for each in zip(*heard_all, strict=True))
    assert thoughts == (thought if tagged else "")
    assert words == said or words.lstrip("\n") == said.lstrip("\n")


# -- conversations --------------------------------------------------------------------------------

roles = st.sampled_from(["user", "assistant", "tool"])


@given(st.lists(st.tuples(roles, st.text(" ab", max_size=4)), max_size=8))
def test_a_conversation_is_in_turn_whatever_it_was(said: list[tuple[str, str]]) -> None:
    messages = [
        {"role": role, "content": text, **({"tool_call_id": "x"} if role == "tool" else {})}
        for role, text in said
    ]
    told = in_turn(messages)
    assert [each["role"] for each in told] == ["user", "assistant"] * (len(told) // 2) + [
        "user"
    ] * (len(told) % 2)
    for each in told:
        assert each["content"]
        for block in each["content"]:
            assert block["type"] != "text" or block["text"].strip()


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"error": {"message": "x", "type": "overloaded_error"}}, ProviderBusy),
        ({"error": {"message": "x", "code": 429}}, ProviderBusy),
        ({"error": {"message": "x", "code": "503"}}, ProviderBusy),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "x"}, ProviderBusy),
        ({"type": "error", "error": {"type": "authentication_error"}}, ProviderRefused),
        (
            {"type": "response.failed", "response": {"error": {"code": "insufficient_quota"}}},
            ProviderRefused,
        ),
        ({"error": "model runner has unexpectedly stopped"}, ProviderError),
        ({"error": {"error": [{"detail": "deep"}]}}, ProviderError),
    ],
)
def test_an_error_in_a_stream_is_told_by_its_kind(
    event: dict[str, Any], kind: type[ProviderError]
) -> None:
    failure = failure_in(event)
    assert failure is not None
    assert isinstance(translate(failure, model="m", where="the server"), kind)


def test_what_is_no_error_is_none() -> None:
    events: list[dict[str, Any]] = [{}, {"error": None}, {"type": "message_start"}, {"choices": []}]
    assert [failure_in(event) for event in events] == [None] * 4


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("litellm.BadRequestError: OpenAIException - no", "no"),
        ('litellm.APIError: Ollama_chatException - {"error": "no"}', "no"),
        ('AnthropicException BadGatewayError - b\'{"error": {"message": "no"}}\'', "no"),
        ("no. Handle with `litellm.InternalServerError`.", "no"),
        ('{"message": 3}', '{"message": 3}'),
        ("b'", "b'"),
    ],
)
def test_a_librarys_message_is_told_in_the_servers_words(message: str, said: str) -> None:
    assert plain_words(message) == said
