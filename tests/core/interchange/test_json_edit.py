"""Somebody else's JSON keeps every byte that is not ours."""

from __future__ import annotations

import json

import pytest

from mindstone_tui.core.errors import InterchangeError
from mindstone_tui.core.interchange.json_edit import parse, plain, with_item, with_member, without

FILES = [
    "{}",
    "{\n}\n",
    '{"a": 1}',
    '{\n  "a": 1\n}\n',
    '{\n\t"a": [1, 2],\n\t"hooks": {}\n}',
    '{\n    "hooks": {\n        "Stop": []\n    },\n    "z": null\n}\n',
    '{"hooks": {"Stop": [{"x": "\\u00e9\\n"}]}, "a": {"b": [[]]}}',
]


@pytest.mark.parametrize("text", FILES)
def test_what_is_put_in_can_be_read_and_taking_it_out_leaves_what_was_there(text: str) -> None:
    was = json.loads(text)
    more = with_item(text, ("hooks", "Stop"), {"command": "ours"})
    now = json.loads(more)
    assert now["hooks"]["Stop"][-1] == {"command": "ours"}
    assert {key: now[key] for key in was if key != "hooks"} == {
        key: was[key] for key in was if key != "hooks"
    }
    less = without(more, ("hooks", "Stop", len(now["hooks"]["Stop"]) - 1))
    left = json.loads(less)
    assert left["hooks"]["Stop"] == was.get("hooks", {}).get("Stop", [])


def test_comments_and_trailing_commas_stay() -> None:
    text = '{\n  // mine\n  "a": [1, /* two */ 2,],\n}\n'
    more = with_member(text, ("servers",), "ours", {"command": "x"})
    assert "// mine" in more
    assert "/* two */" in more
    assert plain(parse(more)) == {"a": [1, 2], "servers": {"ours": {"command": "x"}}}
    assert plain(parse(without(more, ("servers", "ours")))) == {"a": [1, 2], "servers": {}}


def test_the_member_that_counts_is_the_last_of_its_name() -> None:
    assert plain(parse(without('{"a": 1, "b": 2, "a": 3}', ("a",)))) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', '{"a": }', "[1 2]", '{"a": 01x}', "{} {}", "{'a': 1}", "[" * 200]
)
def test_what_is_no_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InterchangeError, match="no JSON from line 1"):
        parse(text)


def test_a_list_where_an_object_should_be_is_not_touched() -> None:
    with pytest.raises(InterchangeError, match="`hooks` is no object"):
        with_member('{"hooks": []}', ("hooks",), "Stop", [])
    with pytest.raises(InterchangeError, match=r"`hooks\.Stop` is no list"):
        with_item('{"hooks": {"Stop": {}}}', ("hooks", "Stop"), {})
