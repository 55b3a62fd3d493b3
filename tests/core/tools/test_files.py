from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.tools.approvals import carry_out, prepare
from mindstone_tui.core.tools.base import Preview, ToolContext, ToolLimits, ToolResult
from mindstone_tui.core.tools.files import FILE_TOOLS, FOLDER_TOOLS, GREP, _matches, _step
from mindstone_tui.core.tools.workspace import Workspace

TOOLS = {tool.name: tool for tool in (*FILE_TOOLS, *FOLDER_TOOLS, GREP)}


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(
        workspace=Workspace((tmp_path,)), call="c9", environ={"PATH": os.environ["PATH"]}
    )


async def use(name: str, context: ToolContext, **arguments: object) -> ToolResult:
    return await TOOLS[name].run(arguments, context)


async def test_a_file_is_read_in_ranges_that_say_how_to_go_on(
    tmp_path: Path, context: ToolContext
) -> None:
    (tmp_path / "f").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    part = await use("read", context, path="f", first=10, lines=2)
    assert part.text == "[f, lines 10-11; go on with first=12]\nline 10\nline 11\n"
    assert (await use("read", context, path="f", first=99)).text.endswith("line 99\nline 100\n")
    assert "only 100 lines" in (await use("read", context, path="f", first=500)).text


async def test_reading_is_bounded_whatever_the_file(tmp_path: Path, context: ToolContext) -> None:
    (tmp_path / "wide").write_bytes(b"x" * 5_000_000)
    (tmp_path / "tall").write_bytes(b"short line\n" * 500_000)
    for name in ("wide", "tall"):
        result = await use("read", context, path=name, lines=10_000)
        assert len(result.text) < context.limits.shown + 4096
    assert "more bytes in this line" in (await use("read", context, path="wide")).text


async def test_binary_files_are_described_not_dumped(tmp_path: Path, context: ToolContext) -> None:
    (tmp_path / "b").write_bytes(b"\x89PNG\r\n\x1a\n\0" + os.urandom(5000))
    assert "an image, 5,009 bytes" in (await use("read", context, path="b")).text
    (tmp_path / "late").write_bytes(b"text " * 4000 + b"\0\xff\n")
    assert "\0" not in (await use("read", context, path="late")).text


async def test_an_edit_needs_exactly_one_match(tmp_path: Path, context: ToolContext) -> None:
    target = tmp_path / "f.py"
    target.write_text("a = 1\nb = 1\n")
    for old in ("= 1", "c", "a = 1\n\nb"):
        with pytest.raises(ToolError, match="occur"):
            await use("edit", context, path="f.py", old=old, new="x")
    result = await use("edit", context, path="f.py", old="a = 1", new="a = 2")
    assert target.read_text() == "a = 2\nb = 1\n"
    assert result.diff == "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n-a = 1\n+a = 2\n b = 1"
    assert "+1 −1" in result.text


async def test_an_edit_keeps_windows_line_ends(tmp_path: Path, context: ToolContext) -> None:
    (tmp_path / "w").write_bytes(b"one\r\ntwo\r\n")
    await use("edit", context, path="w", old="one\ntwo", new="1\n2")
    assert (tmp_path / "w").read_bytes() == b"1\r\n2\r\n"


async def test_every_file_tool_names_a_path_from_the_working_folder_on(
    tmp_path: Path, context: ToolContext
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("one\n")
    given: dict[str, dict[str, object]] = {
        "read": {},
        "list": {},
        "write": {"content": "x\n"},
        "edit": {"old_string": "one", "new_string": "two"},
    }
    for path in ("src/a.py", str(tmp_path / "src" / "a.py")):
        for name, more in given.items():
            preview = TOOLS[name].preview({"path": path, **more}, context)
            assert preview.title == f"{name} src/a.py"
    changed = await use("edit", context, path="src/a.py", old_string="one", new_string="two")
    assert changed.text.startswith("Changed src/a.py:")
    climbing = TOOLS["read"].preview({"path": "../elsewhere.txt"}, context)
    assert climbing.title == "read ../elsewhere.txt"


async def test_a_link_that_is_swapped_after_the_last_look_leads_nowhere(
    tmp_path: Path, context: ToolContext
) -> None:
    for folder in ("notes", ".vscode"):
        (tmp_path / folder).mkdir()
    link, write, looks = tmp_path / "d", TOOLS["write"], []
    link.symlink_to("notes")

    def preview(given: Mapping[str, object], context: ToolContext) -> Preview:
        looks.append(write.preview(given, context))
        if len(looks) == 2:
            link.unlink()
            link.symlink_to(".vscode")
        return looks[-1]

    tool = msgspec.structs.replace(write, preview=preview)
    approval = prepare(tool, "c9", '{"path":"d/tasks.json","content":"x"}', context)
    result, _ = await carry_out(tool, approval, context, redactor=Redactor(), nonce="n")
    assert (result.status, list((tmp_path / ".vscode").iterdir())) == ("refused", [])


async def test_a_new_file_makes_its_folders_and_shows_its_whole_content(
    tmp_path: Path, context: ToolContext
) -> None:
    preview = TOOLS["write"].preview({"path": "n/m/f", "text": "hi\u202e\n"}, context)
    assert not (tmp_path / "n").exists()
    assert preview.body.endswith("+hi⟦U+202E⟧")
    await use("write", context, path="n/m/f", text="hi\u202e\n")
    assert (tmp_path / "n/m/f").read_text() == "hi\u202e\n"


async def test_hostile_names_are_listed_harmlessly(tmp_path: Path, context: ToolContext) -> None:
    (tmp_path / "a\x1b[2J\nb\u202e").write_text("x")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "sub").mkdir()
    listed = (await use("list", context)).text
    assert listed == "sub/\na⟦U+001B⟧[2J\nb⟦U+202E⟧ (1 bytes)\nlink (link)"


async def test_glob_finds_below_and_never_follows_links(
    tmp_path: Path, context: ToolContext
) -> None:
    for name in ("a.py", "s/b.py", "s/t/c.py", "s/d.txt", ".git/e.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "out").symlink_to("/usr")
    assert (await use("glob", context, pattern="**/*.py")).text == "a.py\ns/b.py\ns/t/c.py"
    assert (await use("glob", context, pattern="s/*")).text == "s/b.py\ns/d.txt\ns/t"
    assert (await use("glob", context, pattern="out/**")).text == "out"
    with pytest.raises(ToolError):
        await use("glob", context, pattern="../*")


def test_a_hostile_pattern_is_matched_in_reasonable_time() -> None:
    # Finishing is the proof: a backtracking matcher would need longer than the suite may take.
    pattern = "*a" * 30 + "b"
    assert not _matches(["a" * 255] * 50, [None, _step(pattern)] * 10)


@given(st.text(max_size=20), st.text("ab*?[]/!-", max_size=12))
def test_any_pattern_gives_an_answer(path: str, pattern: str) -> None:
    steps = [_step(part) for part in pattern.split("/") if part]
    assert _matches(path.split("/"), steps) in (True, False)


@pytest.fixture(params=["ripgrep", "plain"])
def searching(request: pytest.FixtureRequest, tmp_path: Path, context: ToolContext) -> ToolContext:
    """Both ways to search; without ripgrep on the path the plain one is used."""
    if request.param == "plain":
        return ToolContext(workspace=context.workspace, environ={"PATH": "/nonexistent"}, call="c9")
    return context


async def test_grep_finds_lines_and_says_when_there_are_none(
    tmp_path: Path, searching: ToolContext
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.py").write_text("x = 1\nTODO: this\n")
    (tmp_path / "b.txt").write_text("todo\n")
    assert (await use("grep", searching, pattern="TODO")).text == "./s/a.py:2:TODO: this\n"
    both = await use("grep", searching, pattern="todo", ignore_case=True)
    assert both.text.count("\n") == 2
    only = await use("grep", searching, pattern="todo", ignore_case=True, glob="*.txt")
    assert only.text == "./b.txt:1:todo\n"
    assert "Nothing matches" in (await use("grep", searching, pattern="absent")).text
    with pytest.raises(ToolError, match="search failed"):
        await use("grep", searching, pattern="(")


async def test_our_own_files_are_not_searched(tmp_path: Path, searching: ToolContext) -> None:
    for name in ("home [x]/session/log", "src/log"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("needle\n")
    apart = Workspace((tmp_path,), protected=(tmp_path / "home [x]",))
    context = ToolContext(workspace=apart, environ=searching.environ)
    assert (await use("grep", context, pattern="needle")).text == "./src/log:1:needle\n"


async def test_what_searches_can_read_the_workspace_alone(tmp_path: Path) -> None:
    work, secret, fake = tmp_path / "work", tmp_path / "secret", tmp_path / "bin" / "rg"
    for folder in (work, fake.parent):
        folder.mkdir()
    secret.write_text("key\n")
    (work / "f").write_text("word\n")
    (work / "link").symlink_to(secret)  # where a link was put after a look at what is searched
    fake.write_text("#!/bin/sh\ncat f link 2>&-; exit 0\n")
    fake.chmod(0o755)
    context = ToolContext(workspace=Workspace((work,)), environ={"PATH": f"{fake.parent}:/bin"})
    assert (await use("grep", context, pattern="x")).text == "word\n"


async def test_what_nobody_may_read_spoils_no_search(
    tmp_path: Path, searching: ToolContext
) -> None:
    (tmp_path / "f").write_text("needle\n")
    (tmp_path / "gone").mkdir(0o000)  # root may read it all the same
    assert (await use("grep", searching, pattern="needle")).text.startswith("./f:1:needle\n")


async def test_a_pattern_that_never_ends_is_ended(tmp_path: Path, context: ToolContext) -> None:
    (tmp_path / "f").write_text("a" * 40 + "!\n")
    slow = ToolContext(
        workspace=context.workspace,
        environ={"PATH": "/nonexistent"},
        limits=ToolLimits(seconds=0.5),
    )
    result = await use("grep", slow, pattern="(a+)+$")
    assert result.status == "timeout"


async def test_an_option_as_a_pattern_is_a_pattern(tmp_path: Path, searching: ToolContext) -> None:
    (tmp_path / "f").write_text("x\n")
    assert "Nothing" in (await use("grep", searching, pattern="--pre=touch owned")).text
    assert not (tmp_path / "owned").exists()


def test_every_schema_is_plain_and_refuses_what_it_does_not_name(context: ToolContext) -> None:
    for tool in TOOLS.values():
        assert tool.parameters["type"] == "object"
        assert "maxLength" not in json.dumps(tool.parameters)
        assert "$ref" not in json.dumps(tool.parameters)
        with pytest.raises(ToolError, match="arguments are wrong"):
            tool.preview({"surprise": 1}, context)
