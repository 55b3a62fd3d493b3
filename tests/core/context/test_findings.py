"""What a placeholder says of the result that it stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.core.context.findings import finding_of
from mindstone_tui.core.entries.conversation import ToolReturned, ToolStatus
from mindstone_tui.core.text import as_data
from mindstone_tui.core.tools.base import ToolContext, ToolLimits, bounded
from mindstone_tui.core.tools.workspace import Workspace

SOURCE = """[src/ingest.py, lines 1-40]
import csv


class Loader:
    def read_rows(self) -> list[str]:
        return []


def load_rows(path: str) -> int:
    raise ValueError("never shown: it is only code")


async def merge_rows(rows: list[str]) -> int:
    return len(rows)
"""
HITS = "src/a.py:12:def load_a\nsrc/a.py:40:def load_b\nsrc/b.py:7:def load_c: ValueError: no\n"
FAILED = """collected 24 items
E   ValueError: row 17 has no tenant
1 failed, 23 passed in 2.31s
[exit code 1]"""
PASSED = "building\n0 errors, 12 warnings; nothing failed\ndone in 3 s\n[exit code 0]"


def quarter(text: str) -> int:
    return (len(text) + 3) // 4


def found(text: str, *, status: ToolStatus = "ok", finding: str = "", room: int = 40) -> str:
    result = ToolReturned(call="c", name="any", text=text, status=status, finding=finding)
    return finding_of(result, room, quarter)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SOURCE, "defines Loader, load_rows, merge_rows, read_rows"),
        (HITS, "3 hits in 2 files: src/a.py:12,40, src/b.py:7"),
        (
            FAILED,
            "collected 24 items; E ValueError: row 17 has no tenant; "
            "1 failed, 23 passed in 2.31s; exit code 1",
        ),
        (PASSED, "building; 0 errors, 12 warnings; nothing failed; done in 3 s"),
        ("ok\nsrc/x.py:3: KeyError: tenant\nok\nok\n", "ok; src/x.py:3: KeyError: tenant"),
        (
            "export class A {}\nfunc (r *Row) Total() int {\npub fn go_on() {",
            "defines A, Total, go_on",
        ),
    ],
)
def test_a_finding_is_what_came_of_the_call(text: str, wanted: str) -> None:
    assert found(text) == wanted


COMMITS = "\n".join(
    f"commit {at:07x}\nAuthor: a <a@b>\n\n    {said}\n"
    for at, said in enumerate([f"tidy {one}" for one in "abcdefghijklmnopqrstuvwxyz"] * 3)
)
ROWS = "".join(f" {at} | somebody else\n" for at in range(60))
STATES = ("ok", "bad", "new")
MIXED = json.dumps([{"id": at, "state": STATES[at % 3]} for at in range(30)])
FILES = "".join(f"-rw-r--r-- 1 a a 9 Jan 1 10:00 f{at}.txt\n" for at in range(39))
LOGGED = "".join(
    f"10:00:{at % 60:02d} {'INFO' if at % 9 else 'ERROR'} step {at}\n" for at in range(2_000)
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "".join(f"src/f{at}.py:1: TODO\n" for at in range(40)),
            "40 hits in 40 files: src/f0.py:1",
        ),
        (COMMITS, "78 commits; newest: tidy a"),
        (LOGGED, "2,000 lines, 223 errors, 0 warnings; first: 10:00:00 ERROR step 0"),
        ("f.py-1-a\nf.py:2:b\nf.py-3-c\n--\nf.py:7:b\nf.py:8:b\nf.py:9:b", "4 hits: f.py:2,7,8,9"),
        (f" id | who\n----+----\n{ROWS}(60 rows)", "60 rows: id | who; last: 59 | somebody else"),
        (MIXED, '30 (the first: {id: 0, state: "ok"})'),
        (f"{FILES}-rw-r--r-- 1 a a 9 Jan 1 10:00 my file.txt", "40 entries (39 .txt)"),
    ],
    ids=["hits", "commits", "log", "hits among other lines", "rows", "objects", "files"],
)
def test_what_is_counted_is_what_the_tool_found(text: str, wanted: str) -> None:
    """Neither the label of the output nor how it ended is part of it."""
    data = as_data(f"{text.rstrip()}\n[exit code 0]", origin="shell", nonce="0123456789abcdef")
    assert found(data, room=400).startswith(wanted)


def test_what_a_linter_complains_of_is_told_and_not_only_where() -> None:
    long = "".join(f"src/m{at}.py:{at}:1: E501 line too long\n" for at in range(2, 40))
    text = f"{long}src/x.py:7:1: F821 undefined name y\n{long}[exit code 1]"
    assert "src/x.py:7:1: F821 undefined name y" in found(text, room=60)
    assert found(text.replace("code 1", "code 0"), room=60).startswith("77 hits in 39 files")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "".join(f"10:00:0{at} {'ERROR' if at in (2, 5) else 'WARN'} {at}\n" for at in range(8)),
            "8 lines, 2 errors, 6 warnings; first: 10:00:02 ERROR 2; 10:00:00 WARN 0",
        ),
        ("".join(f"10:00:0{at} WARN {at}\n" for at in range(7)), "10:00:00 WARN 0; "),
        (" id | who\n----+----\n 1 | a\n 2 | b\n(2 rows)", "2 rows: id | who; last: 2 | b"),
        (" id | who\n----+----\n 1 | a\n(1 row)", "id | who; 1 | a"),
        (
            json.dumps([{"s": "ok"}] * 3 + [{"s": "bad"}]),
            '4 (the first: {s: "ok"}; odd: {s: "bad"})',
        ),
        (json.dumps([{"s": "ok"}] * 2 + [{"s": "bad"}]), '3 (the first: {s: "ok"})'),
        (f"{FILES}-rw-r--r-- 1 a a 9 Jan 1 10:00 go.sh", "40 entries (39 .txt); also go.sh; 9 f0"),
        ('{"s": "ok"}\n' * 3 + '{"s": "bad"}', '4 (the first: {s: "ok"}; odd: {s: "bad"})'),
        ('{"s": "ok"}\n{"s": "bad"}', "s: ok; s: bad"),
    ],
)
def test_a_few_lines_are_no_kind_of_output_and_what_is_odd_is_named(text: str, wanted: str) -> None:
    assert found(text, room=400).startswith(wanted)


def test_lines_of_a_file_are_counted_with_those_between_its_titles() -> None:
    text = as_data(
        "[a.md, lines 1-5]\n# A\n\nb\n\n# C\n", origin="file a.md", nonce="0123456789abcdef"
    )
    assert found(text) == "5 lines; # A, # C"


def test_what_is_counted_in_a_part_of_an_output_says_so(tmp_path: Path) -> None:
    context = ToolContext(workspace=Workspace((tmp_path,)), limits=ToolLimits(shown=2_000))
    cut, _ = bounded(LOGGED, context)
    said = found(as_data(cut, origin="shell", nonce="0123456789abcdef"), room=400)
    assert said.startswith(f"at both ends of {len(LOGGED):,} bytes: 8")
    assert "left out" not in said
    long = "".join(f"src/f.py:{at}: {'x' * 60}\n" for at in range(3_000))
    assert found(long).startswith("at both ends of 3,000 lines: 1,")
    part = "[a.md, lines 1-3; go on with first=4]\n# A\n\nb"
    assert found(part, room=400).startswith("in lines 1-3")


ASKED = "".join(
    f'10.0.0.{at} - [18/Nov/2026:00:00:{at:02d} +0000] "GET /rooms/{at} HTTP/1.1" '
    f"{502 if at in (20, 30) else 200} 31\n"
    for at in range(60)
)
TYPES = "".join(f"src/{at}.ts(3,7): error TS2322: no such type\n" for at in range(40))
SENT = '{"ts": "10:00:00", "level": "info", "msg": "sent"}\n' * 40
MAVEN = (
    "[ERROR]   BasketTest.dropsOne:16 Expected a price\n[INFO]\n[ERROR] Tests run: 8, Failures: 1"
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (ASKED, "60 lines, 2 errors, 0 warnings; first: 10.0.0.20"),
        (TYPES, "40 complaints"),
        (f'{SENT}{{"ts": "10:00:01", "level": "warn", "msg": "port unset"}}', "msg: port unset"),
        (f"building\n{MAVEN}", "failed: BasketTest.dropsOne:16; "),
    ],
    ids=["answers", "types", "objects", "maven"],
)
def test_what_went_wrong_is_found_among_much_that_did_not(text: str, kept: str) -> None:
    assert kept in found(text, room=138)


def test_what_the_tool_itself_said_stands_where_nothing_better_is_found() -> None:
    assert found("plain prose about a bridge", finding="1 passage") == "1 passage"
    assert found("plain prose about a bridge") == "plain prose about a bridge"
    assert found("") == ""


def test_names_that_find_no_room_are_counted() -> None:
    many = "\n".join(f"def function_number_{number}(): ..." for number in range(60))
    said = found(many)
    assert said.startswith("defines function_number_0, ")
    assert said.endswith(" more")
    assert quarter(said) <= 40


@pytest.mark.parametrize("room", [0, 1, 8, 40])
@pytest.mark.parametrize("text", [SOURCE, HITS, FAILED, "x" * 100_000, "😀" * 5_000, "[" * 7_000])
def test_a_finding_is_one_line_within_its_room(text: str, room: int) -> None:
    said = found(text, room=room)
    assert "\n" not in said
    assert quarter(said) <= room


PODS = "\n".join(f"shop web-z{at}k 1/1 Running {at} {at}d" for at in range(60))
SIZES = "\n".join(f"{at} 0.{at} 1{at} worker{at}" for at in range(10, 60))
DUMPS = "\n".join(f"-rw-r--r-- 1 a a 409{at} Jan 1 10:00 shop-{at}.dump" for at in range(10, 60))
GONE = "-a = 1\n" * 80
CHECKS = ",".join(f'{{"name": "q{at}", "status": "ok", "ms": {at}}}' for at in range(20))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (PODS.replace("\nshop web-z49k 1/1 Running", "\nshop pay-77f 0/1 Pending"), "pay-77f"),
        (f"{SIZES}\n71 398.7 17 train\n{SIZES}", "71 398.7 17 train"),
        (f'[{CHECKS},{{"name": "mq", "status": "fail", "ms": 5}}]', 'odd: {name: "mq"'),
        (f'{COMMITS}commit abcdef0\nAuthor: a <a@b>\n\n    Revert "old"\n', 'Revert "old"'),
        (f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n{GONE}+def new():", "+def new()"),
        (DUMPS.replace(" 40955 ", " 12 "), "12 shop-55.dump"),
    ],
    ids=["row", "number", "object", "commit", "definition", "small"],
)
def test_what_differs_from_the_rest_of_a_table_or_list_stays(text: str, kept: str) -> None:
    assert kept in found(text, room=138)


CORPORA = Path(__file__).parents[2] / "corpora"


@pytest.mark.parametrize(
    ("outputs", "least"),
    [
        ("outputs", 0.96),
        ("outputs_apart", 0.9),
        ("outputs_later", 0.78),
        ("outputs_blind", 0.52),
        ("outputs_fresh", 0.9),
        ("outputs_strange", 0.84),
        ("outputs_next", 0.9),
    ],
)
def test_what_stays_of_an_output_is_what_a_reader_needs_to_go_on(
    outputs: str, least: float
) -> None:
    """Of 189 outputs of 80 programs, and of others whose needs were written by somebody who did
    not know what findings look for, five times: before anybody looked at them 79, 48, 48, 74 and 88
    in a hundred stayed; of the half of the third that nobody looked at 54 stay since. Of 80 that
    were run here, with needs from before, 92 stayed, and 96 of the half that nobody looked at.
    """
    kept: list[bool] = []
    for line in (CORPORA / f"{outputs}.jsonl").read_text(encoding="utf-8").splitlines():
        output = json.loads(line)
        result = ToolReturned(call="c", name=output["tool"], text=output["text"])
        found = " ".join(finding_of(result, 138, lambda text: len(text) // 4).lower().split())
        kept += [need.lower() in found for need in output["needs"]]
    assert sum(kept) >= least * len(kept)
