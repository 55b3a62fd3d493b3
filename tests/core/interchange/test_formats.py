"""Each program's sessions come over with their calls, results, ids, times and models."""

from __future__ import annotations

import io
import json
import random
import re
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.interchange.formats import claude_code, codex, format_of, formats
from mindstone_tui.core.interchange.read_bytes import Flaw, elements, lines, moment
from tests.core.interchange.helpers import (
    FIXTURES,
    NESTED,
    SESSIONS,
    STORED,
    assert_sound,
    outline,
    take_over,
    told,
    write_lines,
)
from tests.faults import FULL, sized

WHOLE = [
    "messages.jsonl",
    "claude-code.jsonl",
    "codex.jsonl",
    "pi.jsonl",
    "gemini-cli.json",
    "opencode.json",
    "goose.json",
    "chatgpt.json",
]
BEGINNINGS = ["codex-bare.jsonl", "gemini-cli.jsonl", "goose.jsonl"]
STORY = [
    "Which port does the server use?",
    "I will look.",
    "port = 8080",
    "It uses port 8080.",
    "No, from now on it is 9090.",
    "I will change it.",
]


def _texts(home: Path) -> list[str]:
    return [text for _, _, text in outline(home) if text]


@pytest.mark.parametrize("name", [*WHOLE, *BEGINNINGS])
def test_a_session_of_each_program_tells_the_same_story(home: Path, name: str) -> None:
    report = take_over(home, FIXTURES / name)

    assert report.format == next(each for each in formats() if name.startswith(each))
    assert report.skipped == ()
    story = STORY if name in WHOLE else STORY[:4]
    if name == "chatgpt.json":
        story = [text for text in story if text != "I will change it."]
    assert [text for text in _texts(home) if text in STORY] == story
    assert_sound(home)


@pytest.mark.parametrize("name", [*SESSIONS, STORED])
def test_importing_it_again_adds_nothing(home: Path, name: str) -> None:
    first = take_over(home, FIXTURES / name)
    before = told(home)
    again = take_over(home, FIXTURES / name)
    assert (again.added, again.already_there) == (0, first.added)
    assert told(home) == before


@pytest.mark.parametrize("name", WHOLE)
def test_the_call_without_a_result_is_interrupted(home: Path, name: str) -> None:
    take_over(home, FIXTURES / name)
    results = [line.entry for line in told(home) if isinstance(line.entry, ToolReturned)]
    assert [each.status for each in results] == ["ok", "interrupted"]
    assert results[0].text == "port = 8080"


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "messages.jsonl"])
def test_times_and_models_are_the_original_ones(home: Path, name: str) -> None:
    take_over(home, FIXTURES / name)
    answers = [line for line in told(home) if isinstance(line.entry, AssistantMessage)]
    entry = answers[0].entry
    assert isinstance(entry, AssistantMessage)
    assert "example" in entry.model or name == "goose.json"
    assert answers[0].ts.startswith("2026-03-01T09:00:0")


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("messages.jsonl", ["m1", "m2", "m3", "m4", "m5", "m6"]),
        ("claude-code.jsonl", ["u-1", "u-2", "u-5", "u-6", "u-7", "u-8"]),
        ("pi.jsonl", ["a0000001", "a0000002", "a0000003", "a0000004", "a0000007", "a0000008"]),
        ("gemini-cli.json", ["g1", "g2", "g3", "g4", "g5"]),
        ("opencode.json", ["msg_1", "msg_2", "prt_8", "msg_3", "msg_4"]),
        ("goose.json", ["msg_1", "msg_2", "msg_4", "msg_5", "msg_6"]),
        ("chatgpt.json", ["n2", "n3", "n4", "n5", "n6", "n7", "n8", "k1", "k2"]),
    ],
)
def test_original_ids_are_kept(home: Path, name: str, ids: list[str]) -> None:
    take_over(home, FIXTURES / name)
    found = [getattr(line.entry, "source_id", "") for line in told(home)]
    assert [each for each in found if each] == ids


def test_thinking_stays_with_the_answer_it_led_to(home: Path, tmp_path: Path) -> None:
    for name in ("claude-code.jsonl", "codex.jsonl", "pi.jsonl", "gemini-cli.json", "goose.json"):
        other = tmp_path / name
        take_over(other, FIXTURES / name)
        first = next(line.entry for line in told(other) if isinstance(line.entry, AssistantMessage))
        assert "The config will tell." in first.thinking[0].text, name
        assert first.text == "I will look.", name


def test_what_is_no_conversation_is_counted_by_name(home: Path, tmp_path: Path) -> None:
    report = take_over(home, FIXTURES / "claude-code.jsonl")
    assert report.left_out == {
        "command of the program": 1,
        "file-history-snapshot": 1,
        "meta": 1,
        "side chain of a sub-agent": 1,
        "system": 1,
    }
    assert report.title == "Finding the port"
    chat = take_over(tmp_path / "other", FIXTURES / "chatgpt.json")
    assert chat.left_out == {"hidden or empty message": 1, "message on another branch": 1}


def _nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


MANY = sized(6_000, 30_000)
LARGE = "a line of 10 MB"
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "NULs": b"\x00" * 4096,
    LARGE: b'{"role":"user","content":"' + b"x" * (10 << 20) + b'"}',
    "deeply nested": _nested(200_000),
    "nested to the brink": b"\n".join(
        b'{"role":"assistant","content":"","tool_calls":[{"arguments":%s}]}' % _nested(depth)
        for depth in range(880, 1000, 3)
    ),
    "wrong types": b'{"type":["x"],"message":7,"uuid":{},"sessionId":[],"role":{},"content":3}',
    "a number without end": b'{"role":"user","content":[{"text":1' + b"0" * 9_000 + b"}]}",
    "text of numbers": b"1\n2\n3\n",
    "very many calls": json.dumps(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"{n}", "arguments": {}} for n in range(2_000)],
        }
    ).encode(),
    "very long ids": json.dumps(
        {"role": "assistant", "content": "", "tool_calls": [{"id": "x" * 600_000}] * 3}
    ).encode()
    + b'\n{"role":"tool","content":"y","tool_call_id":"'
    + b"x" * 600_000
    + b'"}',
    "very many thoughts": json.dumps(
        {
            "type": "message",
            "message": {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": f"{n}"} for n in range(MANY)],
            },
        }
    ).encode(),
    "very many kinds": b"\n".join(b'{"type":"kind-%d"}' % n for n in range(3_000)),
    "an array of nonsense": b'[1,"x",null,{"mapping":3},{"mapping":{"a":5}},[],{}]',
    "an unfinished array": b'[{"mapping":{"a":{"message":{"author":',
    "a circle": json.dumps(
        [
            {
                "current_node": "a",
                "mapping": {
                    "a": {"parent": "b", "message": {"author": {"role": "user"}, "content": {}}},
                    "b": {"parent": "a", "message": {"author": {"role": "user"}, "content": {}}},
                },
            }
        ]
    ).encode(),
    "an unfinished object": b'{"info":{"id":"x"},"messages":[{"info":',
    "messages that are none": b'{"info":5,"messages":[1,{"info":{"role":"user"},"parts":"x"}]}',
    "lone surrogates": b'{"type":"message","message":{"role":"user","content":"\\ud800"}}',
    "binary": random.Random(7).randbytes(100_000),
}


SHARP = ("wrong types", "an array of nonsense", "an unfinished array", "lone surrogates", "binary")
"""What every reader is tried with; the rest is about what all of them share."""
SHAPES = ("messages", "claude-code", "opencode", "chatgpt")
"""Readers of lines, of trees, of one object and of one array."""
OLDER = [each for each in formats() if any(name.startswith(each) for name in SESSIONS)]
PAIRS = [
    (what, name)
    for what in HOSTILE
    for name in formats()
    if what in SHARP or name in (OLDER if FULL and what != LARGE else SHAPES)
]


@pytest.mark.parametrize(("what", "format_name"), PAIRS)
def test_a_hostile_file_gives_a_report_and_no_crash(
    home: Path, tmp_path: Path, what: str, format_name: str
) -> None:
    for suffix in (".jsonl", ".json"):
        path = tmp_path / f"hostile{suffix}"
        path.write_bytes(HOSTILE[what])
        report = take_over(home, path, format=format_name)
        assert report.added + report.already_there + report.skipped_total >= 0
    assert_sound(home)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "message", "id", "parts"]), inner
        )
    ),
    max_leaves=6,
)


def _mutated(value: Any, path: list[int], replacement: Any) -> Any:
    """The value with something else somewhere inside it."""
    if not path or not isinstance(value, dict | list) or not value:
        return replacement
    if isinstance(value, dict):
        key = list(value)[path[0] % len(value)]
        return {**value, key: _mutated(value[key], path[1:], replacement)}
    at = path[0] % len(value)
    return [*value[:at], _mutated(value[at], path[1:], replacement), *value[at + 1 :]]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from([*SESSIONS, *NESTED]),
    line=st.integers(0, 20),
    path=st.lists(st.integers(0, 20), max_size=6),
    replacement=_JSON,
)
def test_any_value_in_any_place_of_a_session_is_survived(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    line: int,
    path: list[int],
    replacement: Any,
) -> None:
    folder = tmp_path_factory.mktemp("mutated")
    source = (FIXTURES / name).read_text(encoding="utf-8")
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".jsonl"):
        parts = source.splitlines()
        at = line % len(parts)
        parts[at] = json.dumps(_mutated(json.loads(parts[at]), path, replacement))
        target.write_text("\n".join(parts), encoding="utf-8")
    else:
        target.write_text(json.dumps(_mutated(json.loads(source), path, replacement)))
    reader = next(each for each in formats() if name.startswith(each))
    take_over(folder / "home", target, format=reader)
    assert_sound(folder / "home")


@given(
    values=st.lists(_JSON, max_size=6),
    indent=st.sampled_from([None, 1]),
    chunk=st.integers(1, 7),
)
def test_an_array_is_cut_exactly_between_its_elements(
    values: list[Any], indent: int | None, chunk: int
) -> None:
    raw = json.dumps(values, indent=indent).encode()
    found = [each for _, each in elements(_Dripping(raw, chunk))]
    assert [json.loads(each) for each in found if isinstance(each, bytes)] == values


class _Dripping(io.BytesIO):
    """Gives a few bytes at a time, whatever is asked for."""

    def __init__(self, raw: bytes, size: int) -> None:
        super().__init__(raw)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size if size is None or size < 0 else min(size, self._size))


def test_too_long_elements_and_lines_are_named_and_the_rest_goes_on() -> None:
    raw = b'[{"a":"' + b"x" * 500 + b'"},{"b":1}]'
    assert [type(each) for _, each in elements(io.BytesIO(raw), longest=100)] == [Flaw, bytes]
    found = list(lines(io.BytesIO(b"short\n" + b"x" * 500 + b"\nlast"), longest=100))
    assert [(n, isinstance(each, Flaw)) for n, each in found] == [(1, False), (2, True), (3, False)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-01T09:00:00Z", "2026-03-01T09:00:00.000Z"),
        ("2026-03-01T10:00:00.5+01:00", "2026-03-01T09:00:00.500Z"),
        ("2026-03-01 09:00", "2026-03-01T09:00:00.000Z"),
        (1772355600, "2026-03-01T09:00:00.000Z"),
        (1772355600.25, "2026-03-01T09:00:00.250Z"),
        (1772355600000, "2026-03-01T09:00:00.000Z"),
        ("1772355600", "2026-03-01T09:00:00.000Z"),
        ("yesterday", ""),
        (-5, ""),
        (float("inf"), ""),
        (10**400, ""),
        (True, ""),
        (None, ""),
        ([1], ""),
    ],
)
def test_times_are_read_in_every_common_spelling(value: object, expected: str) -> None:
    assert moment(value) == expected


def test_every_format_recognises_only_its_own(tmp_path: Path) -> None:
    for name in [*SESSIONS, *NESTED, STORED]:
        assert name.startswith(format_of(FIXTURES / name).name)


@pytest.mark.parametrize(
    "name", ["gemini-cli.json", "gemini-cli.jsonl", "goose.json", "goose.jsonl"]
)
def test_the_name_of_a_file_does_not_matter(home: Path, tmp_path: Path, name: str) -> None:
    for ending in ("json", "jsonl", "bak"):
        copy = tmp_path / f"renamed.{ending}"
        copy.write_bytes((FIXTURES / name).read_bytes())
        assert take_over(tmp_path / ending, copy).added >= 4


def test_what_tools_of_the_provider_gave_back_goes_to_their_calls(
    home: Path, tmp_path: Path
) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "server_tool_use", "id": "s1", "name": "advisor", "input": {}},
        {
            "type": "advisor_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "advisor_result", "text": "Read the test first."},
        },
        {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {"query": "tide"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s2",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "Tides",
                    "url": "https://example.org/t",
                    "encrypted_content": "Zm9v",
                }
            ],
        },
        {"type": "text", "text": "Good guidance."},
    ]
    common = {"sessionId": "s", "cwd": "/work", "version": "2.1.0"}
    records = [
        {**common, "type": "user", "uuid": "u0", "message": {"role": "user", "content": "Go on"}},
        *(
            {
                **common,
                "type": "assistant",
                "uuid": f"u{at}",
                "parentUuid": f"u{at - 1}",
                "message": {"id": "m1", "role": "assistant", "model": "m", "content": [block]},
            }
            for at, block in enumerate(blocks, 1)
        ),
    ]
    take_over(home, write_lines(tmp_path / "s.jsonl", records))
    found = [line.entry for line in told(home)]
    given = [(each.status, each.text) for each in found if isinstance(each, ToolReturned)]
    assert given == [("ok", "Read the test first."), ("ok", "Tides\nhttps://example.org/t")]
    answers = [each.text for each in found if isinstance(each, AssistantMessage) and each.text]
    assert answers == ["Good guidance."]


def test_an_answer_that_is_written_again_counts_once(home: Path) -> None:
    take_over(home, FIXTURES / "gemini-cli.jsonl")
    assert [kind for _, kind, _ in outline(home)] == [
        *("user_message", "assistant_message", "tool_returned", "assistant_message")
    ]


def test_a_file_that_begins_with_a_huge_message_is_still_recognised(tmp_path: Path) -> None:
    path = tmp_path / "pasted.jsonl"
    path.write_bytes(HOSTILE[LARGE] + b'\n{"role":"assistant","content":"ok"}\n')
    assert format_of(path).name == "messages"


PARTS = ("<bash-input>", "</bash-input>", "<bash-stdout>", "</bash-stdout>", "a", "\n", "<")
COMMAND = (
    *("<user_shell_command>", "<command>", "</command>", "<result>", "</result>"),
    *("\n", "ls", "Exit code: 0\nDuration: 1 seconds\nOutput:\n"),
)


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_tags_of_a_program_are_read_as_one_expression_would_read_them(said: str) -> None:
    whole = re.findall(r"<(bash-input|bash-stdout)>(.*?)</\1>", said, re.DOTALL)
    assert claude_code._tags(said) == dict(whole)


@given(st.lists(st.sampled_from(COMMAND), max_size=9).map("".join))
def test_a_shell_command_is_read_as_one_expression_would_read_it(rest: str) -> None:
    said = f"<user_shell_command><command>{rest}"
    found = re.match(
        r"<user_shell_command>\s*<command>\n?(.*?)\n?</command>\s*<result>\n?(.*?)\n?</result>",
        said,
        re.DOTALL,
    )
    wanted = f"!{found[1]}\n\n{codex._OUTPUT.sub('', found[2], count=1)}".rstrip() if found else ""
    assert codex.shell_command(said) == wanted


@given(st.lists(st.sampled_from(["", "\n", "\r\n", "\n" * 9, " ", "a", "b c"])))
def test_lines_keep_their_numbers_however_many_between_them_are_empty(parts: list[str]) -> None:
    raw = "".join(parts).encode()
    expected = [
        (number, line.strip()) for number, line in enumerate(raw.split(b"\n"), 1) if line.strip()
    ]
    buffered = io.BufferedReader(cast(io.RawIOBase, io.BytesIO(raw)), 4)
    assert [*lines(buffered)] == [*lines(io.BytesIO(raw))] == expected
