from __future__ import annotations

import contextlib
import json
import subprocess
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import ConfigError, SandboxUnavailable, ToolError
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.tools.approvals import (
    MODES,
    Approval,
    Decision,
    Mode,
    carry_out,
    check_mode,
    decide,
    prepare,
    under,
)
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult, declare
from mindstone_tui.core.tools.files import FILE_TOOLS
from mindstone_tui.core.tools.history import RememberArguments, remember_tool
from mindstone_tui.core.tools.shell import SHELL, ShellArguments
from mindstone_tui.core.tools.shell_rules import Rule, offered
from mindstone_tui.core.tools.workspace import Workspace
from tests.corpora import lines, unescaped

READ, WRITE, EDIT = FILE_TOOLS
NONCE = "0f1e2d3c4b5a6978"
RULES = tuple(
    Rule.parse("allow", f"shell {text}")
    for text in (
        *("ls *", "cat *", "git status *", "git diff *", "grep *", "echo *", "find *", "head *"),
        *("wc *", "pwd", "git log *", "git show *", "git cat-file *", "git grep *"),
        *("pytest *", "mypy *", "go test *", "date *", "cksum *", "npm test *"),
    )
)


async def told(arguments: RememberArguments, context: ToolContext) -> ToolResult:
    return ToolResult(text="remembered")


REMEMBER = remember_tool(told, lambda arguments: f"+{arguments.text}")


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(workspace=Workspace((tmp_path,)), call="c1")


def verdict(
    command: str, mode: Mode = "ask", rules: tuple[Rule, ...] = RULES, *, sandboxed: bool = False
) -> str:
    preview = Preview(title="run", command=command)
    return decide(SHELL, preview, mode=mode, rules=rules, sandboxed=sandboxed).verdict


def test_no_composition_slips_through_a_prefix_rule() -> None:
    cases = [unescaped(line) for line in lines("shell_compositions.txt")]
    assert len(cases) >= 300
    assert [case for case in cases if verdict(case) == "allow"] == []


def test_plain_commands_under_the_same_rules_go_through() -> None:
    assert [case for case in lines("shell_plain.txt") if verdict(case) != "allow"] == []


def test_a_rule_for_git_allows_no_program_that_a_repository_sets(
    tmp_path: Path, context: ToolContext
) -> None:
    def judged(command: str, *, sandboxed: bool = False) -> Decision:
        rules = (*RULES, Rule.parse("allow", "shell cd sub"))
        preview = SHELL.preview({"command": command}, context)
        return decide(SHELL, preview, mode="ask", rules=rules, sandboxed=sandboxed)

    for folder in (tmp_path, tmp_path / "sub"):
        subprocess.run(["git", "init", "-q", folder], check=True)
    own = tmp_path / ".git" / "config"
    plain = own.read_text()
    for setting in (
        "[core]\nfsmonitor = ./x",
        '[filter "x"]\nclean = ./x',
        "[include]\npath = more",
        "[core]\nalternateRefsCommand = ./x",
        '[protocol "ext"]\nallow = always',
        '[gpg "ssh"]\ndefaultKeyCommand = ./x',
    ):
        (tmp_path / ".git" / "more").write_text('[diff "x"]\ntextconv = ./x')
        own.write_text(f"{plain}{setting}\n")
        decision = judged("git status -s")
        assert (decision.verdict, "git would run" in decision.reason) == ("ask", True), setting
        assert judged("git status -s", sandboxed=True).verdict == "allow"
        assert judged("ls -l").verdict == "allow"
    own.write_text(f"{plain}[core]\nfsmonitor = true\n")
    assert judged("cd sub && git status -s").verdict == "allow"
    hook = tmp_path / ".git" / "hooks" / "post-index-change"
    hook.write_text("#!/bin/sh\n")
    assert "hooks/post-index-change" in judged("git diff --stat").reason
    hook.unlink()
    with (tmp_path / "sub" / ".git" / "config").open("a") as config:
        config.write("[core]\nfsmonitor = ./x\n")
    assert judged("git status -s").verdict == "allow"
    assert judged("cd sub && git status -s").verdict == "ask"
    assert SHELL.preview({"command": "timeout 5 git -C sub status"}, context).git_runs
    # Git looks into what is recorded as a submodule, with the settings that it finds there.
    own.write_text(plain)
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(
        [*git, "-C", "sub", "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path, check=True
    )
    subprocess.run([*git, "add", "sub"], cwd=tmp_path, check=True, capture_output=True)
    assert judged("git status -s").verdict == "ask"
    asked = prepare(SHELL, "c1", '{"command": "git status -s"}', context)
    assert asked.warnings == ("Git may run what this repository sets: core.fsmonitor.",)


@given(
    st.text(st.characters(codec="utf-8"), max_size=60), st.sampled_from(["", "ls ", "ls; ", "cat "])
)
def test_judging_a_command_never_fails_and_never_allows_without_rules(
    text: str, start: str
) -> None:
    assert verdict(start + text, rules=()) == "ask"
    assert verdict(start + text) in ("allow", "ask")


@pytest.mark.parametrize(
    ("tool", "standing", "expected"),
    [
        (READ, "open", "allow allow allow allow"),
        (WRITE, "open", "refuse ask allow allow"),
        (WRITE, "sensitive", "refuse ask ask ask"),
        (WRITE, "protected", "refuse refuse refuse refuse"),
        (SHELL, "open", "refuse ask ask allow"),
        (REMEMBER, "open", "refuse ask ask ask"),
    ],
)
def test_each_mode_gives_what_it_promises(tool: Tool, standing: str, expected: str) -> None:
    preview = msgspec.convert({"title": "x", "standing": standing}, Preview)
    verdicts = [
        decide(tool, preview, mode=mode, rules=(), sandboxed=True).verdict for mode in MODES
    ]
    assert verdicts == expected.split()


def test_without_a_sandbox_nothing_runs_by_itself_and_full_auto_says_why() -> None:
    assert verdict("ls", "full-auto", ()) == "ask"
    with pytest.raises(SandboxUnavailable, match="confine"):
        check_mode("full-auto", sandboxed=False)
    check_mode("auto-edit", sandboxed=False)


def test_a_command_let_through_by_mode_or_rule_is_confined_and_has_no_network() -> None:
    preview = Preview(title="run", command="ls")
    for mode, rules in (("full-auto", ()), ("ask", RULES)):
        decision = decide(
            SHELL, preview, mode=msgspec.convert(mode, Mode), rules=rules, sandboxed=True
        )
        assert (decision.verdict, decision.confined, decision.network) == ("allow", True, False)


def test_a_call_that_must_be_confined_never_runs_in_the_open(context: ToolContext) -> None:
    decision = Decision(verdict="allow", reason="", confined=True)
    with pytest.raises(SandboxUnavailable):
        under(decision, context, None)
    by_person = Decision(verdict="allow", reason="", by="person")
    assert under(by_person, context, None).sandbox is None


def test_the_network_opens_only_when_every_rule_involved_says_so() -> None:
    rules = (Rule.parse("allow", "shell git fetch", network=True), Rule.parse("allow", "shell ls"))
    for command, network in (("git fetch", True), ("git fetch && ls", False)):
        preview = Preview(title="run", command=command)
        assert decide(SHELL, preview, mode="ask", rules=rules, sandboxed=True).network is network


def test_refusals_win_over_questions_and_questions_over_permissions() -> None:
    allow = Rule.parse("allow", "shell git push *")
    ask, refuse = Rule.parse("ask", "shell git *"), Rule.parse("refuse", "shell git push --force *")
    assert verdict("git push", rules=(allow,)) == "allow"
    assert verdict("git push", rules=(allow, ask)) == "ask"
    assert (
        verdict("ls && git push --force x", "full-auto", (allow, refuse), sandboxed=True)
        == "refuse"
    )
    assert verdict("git $(echo push)", "full-auto", (refuse,), sandboxed=True) == "ask"


def test_read_only_wins_over_every_permission() -> None:
    assert verdict("ls", "read-only") == "refuse"


def test_a_rule_that_would_allow_anything_is_refused_when_it_is_read() -> None:
    for text in ("shell", "shell bash *", "shell sudo *", "shell ./run *", "shell *", "shell 'x"):
        with pytest.raises(ConfigError):
            Rule.parse("allow", text)
    Rule.parse("allow", "shell make test")


def test_a_rule_for_files_covers_its_folder_only() -> None:
    rules = (Rule.parse("allow", "edit src/*"),)
    for place, expected in (
        (("src", "a.py"), "allow"),
        (("srcs", "a.py"), "ask"),
        (("a.py",), "ask"),
    ):
        preview = Preview(title="edit", place=place)
        assert decide(EDIT, preview, mode="ask", rules=rules, sandboxed=False).verdict == expected


def offers(command: str, context: ToolContext) -> list[str]:
    return [rule.text for rule in offered("shell", SHELL.preview({"command": command}, context))]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git diff --stat", ["shell git diff --stat", "shell git diff *"]),
        ("ls -la", ["shell ls -la", "shell ls *"]),
        ("pytest -q", ["shell pytest -q", "shell pytest *"]),
        ("bash x.sh", ["shell bash x.sh"]),
        ("ls && pwd", ["shell -- 'ls && pwd'"]),
        ("find . -delete", ["shell find . -delete"]),
        ("cat /etc/hosts", ["shell cat /etc/hosts"]),
        ("ls $(id)", []),
        ("git push --force", []),
        ("sudo ls", []),
        ("curl x | sh", []),
        ("cp a .envrc", []),
    ],
)
def test_the_rules_offered_beside_a_question_are_narrow(
    command: str, expected: list[str], context: ToolContext
) -> None:
    assert offers(command, context) == expected


WRAPPED = """
uv run pytest -q; npm exec x; npx x -y; docker run x; docker exec a b; kubectl exec a -- b; go run .
poetry run x; pnpm dlx x; yarn dlx x; pip install x; git config a b; git submodule update
git bisect run x; git push origin main; gh api x; env ls; xargs ls; nohup ls; timeout 5 ls
bash -c ls; python -c 1; make test; uvx x; cargo run x; bundle exec x; ./run x; node a.js
ssh host ls; git clone x
"""


@pytest.mark.parametrize(
    "command", [each.strip() for each in WRAPPED.replace("\n", ";").split(";") if each]
)
def test_of_what_runs_other_programs_only_the_exact_command_is_offered(
    command: str, context: ToolContext
) -> None:
    texts = offers(command, context)
    assert texts in ([], [f"shell {command}"])
    for words in (command.split()[:1], command.split()[:2]):
        with contextlib.suppress(ConfigError):
            star = (Rule.parse("allow", f"shell {' '.join(words)} *"),)
            assert verdict(f"{command} more", rules=star) == "ask"


@given(st.sampled_from(lines("shell_plain.txt")), st.sampled_from(lines("shell_compositions.txt")))
def test_a_rule_that_is_offered_spares_its_own_question_and_allows_no_composition(
    plain: str, composed: str
) -> None:
    here = ToolContext(workspace=Workspace((Path(__file__).parent,)), call="c1")
    preview = SHELL.preview({"command": plain}, here)
    other = SHELL.preview({"command": unescaped(composed)}, here)
    for rule in offered("shell", preview):
        again = Rule.parse("allow", rule.text)
        assert again == rule
        for each, expected in ((preview, "allow"), (other, "ask")):
            found = decide(SHELL, each, mode="ask", rules=(again,), sandboxed=False)
            assert found.verdict == expected


def test_a_star_stays_inside_the_workspace(context: ToolContext) -> None:
    rules = (Rule.parse("allow", "shell cat *"),)
    for command, expected in (("cat a", "allow"), ("cat ~/.netrc", "ask"), ("cat /etc/x", "ask")):
        preview = SHELL.preview({"command": command}, context)
        found = decide(SHELL, preview, mode="ask", rules=rules, sandboxed=False)
        assert found.verdict == expected


def test_a_star_reaches_nothing_through_links_and_no_variables(context: ToolContext) -> None:
    root = context.workspace.cwd
    (root / "inside").mkdir()
    (root / "inside" / "file").write_text("x")
    (root / "safe").symlink_to("inside/file")
    (root / "out").symlink_to("/etc/passwd")
    (root / "inside" / "up").symlink_to("../..")
    (root / "around").symlink_to("around")
    programs = ("cat", "head", "grep", "cd", "ls", "ps", "printenv", "diff", "rg", "find", "wc")
    rules = tuple(Rule.parse("allow", f"shell {name} *") for name in programs)
    expected = {
        "allow": "cat safe; cat inside/file; cat missing; cat around; ps aux; ps -ef; grep x safe",
        "ask": "cat out; head -n1 ./out; grep x safe out; cat inside/up/x; wc --files0-from=out; "
        "cd inside && cat up/x; cd inside/up && ls; cat safe && cat out; ps eww; ps -p 1 e; "
        "ps -E; ps -o environ; ps -auxe; ps -e -x; printenv HOME; grep -R x .; find -L .; rg -L x; "
        "diff -r a b; cd -P && cat .netrc; cd -- && cat .netrc; cd -L -e && cat .netrc",
    }
    for verdict, commands in expected.items():
        for command in commands.split("; "):
            preview = SHELL.preview({"command": command}, context)
            found = decide(SHELL, preview, mode="ask", rules=rules, sandboxed=False)
            assert found.verdict == verdict, command


def test_a_star_reaches_nothing_by_what_stands_around_a_link(context: ToolContext) -> None:
    root = context.workspace.cwd
    (root.parent / "outside/deeper").mkdir(parents=True)
    (root.parent / "outside/secret").write_text("x")
    for name in ("a", "b", "tests"):
        (root / name).mkdir()
    (root / "dir").symlink_to(root.parent / "outside/deeper")
    for name in ("link", "-x", "a/k"):
        (root / name).symlink_to(root.parent / "outside/secret")
    (root / "plain").write_text("x")
    expected = {
        "allow": "cat plain; cat a/../plain; head -n 3 -- plain; cd a && cat k2; date -u; "
        "diff plain b; diff b tests; cut -f1 plain; git blame -L1,2 plain; jq .name plain; "
        "pytest tests; mypy tests; sort -k2,2 plain; ls -la a; md5sum plain",
        "ask": "cat dir/../secret; cat ./dir/../secret; grep -r x dir/..; ls dir/..; rg x dir/..; "
        "cd dir && cat ../secret; cd -P dir && cat ../secret; cd -- dir && cat ../secret; "
        "cd && cat .netrc; cat -- -x; head -n 3 -- -x; date -flink; file -flink; hexdump -flink a; "
        "git blame -Slink plain; git blame --contents=dir/../secret plain; diff a b; diff -u b a; "
        "pytest @link; pytest @plain; mypy @plain; ruff check @plain; jq -n env; jq -n $ENV.PATH; "
        "jq -n 'import \"x\" as $x'; git ls-files -Xlink -o; sort -S1 -m dir/../secret; ls -RL .; "
        "du -aL .; file -f plain; md5sum -c plain; find dir/../ -type f; stat -c %n dir/../secret",
    }
    for verdict, commands in expected.items():
        for command in commands.split("; "):
            names = {part.split()[0] for part in command.split(" && ")}
            rules = tuple(Rule.parse("allow", f"shell {name} *") for name in names)
            preview = SHELL.preview({"command": command}, context)
            found = decide(SHELL, preview, mode="ask", rules=rules, sandboxed=False)
            assert found.verdict == verdict, command


def test_a_star_reaches_only_what_is_known_to_do_one_kind_of_work(context: ToolContext) -> None:
    commands = (
        "jq --run-tests t; curl -s file:///etc/passwd; cp notes link/; cp -rL link d; mv a link/; "
        "git apply --unsafe-paths p; git merge-index ./x -a; nm --plugin ./x.so y; jobs -x ./x; "
        "tar chf - link; zip -q -r a.zip link; bat --pager=./x a; ag --pager=./x a; "
        "ack --pager=./x a; cloc --extract-with=./x a; wget --use-askpass=./x b; "
        "prettier --plugin=./x a; yq -i .a=1 b; ldd ./x; history -a notes; nobody-knows-this a"
    )
    for command in commands.split("; "):
        words = command.split()
        for prefix in (words[:1], words[:2] if words[2:] else words[:1]):
            rules = (Rule.parse("allow", f"shell {' '.join(prefix)} *"),)
            preview = SHELL.preview({"command": command}, context)
            found = decide(SHELL, preview, mode="ask", rules=rules, sandboxed=False)
            assert found.verdict == "ask", command
    for command in ("bat --pager=./x a", "yq -i .a=1 b", "ldd ./x", "history -w notes"):
        (part,) = SHELL.preview({"command": command}, context).parts
        assert "reads" not in part.effects, command
    (part,) = SHELL.preview({"command": "curl file:///etc/passwd"}, context).parts
    assert "outside the workspace" in part.effects


def test_a_rule_for_a_file_shows_its_path_and_reads_it_back(context: ToolContext) -> None:
    preview = Preview(title="write", place=("tests", "unit", "test_new.py"))
    exact, edits = offered("write", preview)
    assert exact.text == "write tests/unit/test_new.py"
    for text in (exact.text, "write tests unit test_new.py", "write tests/unit/*", "edits *"):
        rules = (Rule.parse("allow", text),)
        assert decide(WRITE, preview, mode="ask", rules=rules, sandboxed=False).verdict == "allow"
    other = Preview(title="write", place=("tests", "unit2", "x"))
    narrow = (exact, Rule.parse("allow", "write tests/unit/*"))
    assert decide(WRITE, other, mode="ask", rules=narrow, sandboxed=False).verdict == "ask"
    assert decide(EDIT, other, mode="ask", rules=(edits,), sandboxed=False).verdict == "allow"
    sensitive = msgspec.structs.replace(other, standing="sensitive")
    assert decide(EDIT, sensitive, mode="ask", rules=(edits,), sandboxed=False).verdict == "ask"


SPOOFS = [unescaped(line) for line in lines("approval_spoofs.txt")]


def recorder(ran: list[str]) -> Tool:
    async def run(arguments: ShellArguments, context: ToolContext) -> ToolResult:
        ran.append(arguments.command)
        return ToolResult(text="done")

    def preview(arguments: ShellArguments, context: ToolContext) -> Preview:
        return SHELL.preview({"command": arguments.command}, context)

    return declare("shell", "", "run", ShellArguments, run, preview)


def shell_call(command: str) -> str:
    return json.dumps({"command": command})


async def test_what_runs_is_what_was_shown_byte_for_byte(context: ToolContext) -> None:
    assert len(SPOOFS) >= 200
    ran: list[str] = []
    shown: set[str] = set()
    for spoof in SPOOFS:
        approval = prepare(recorder(ran), "c1", shell_call(spoof), context)
        await carry_out(recorder(ran), approval, context, redactor=Redactor(), nonce=NONCE)
        assert not any(
            unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp") and sign not in "\n\t"
            for sign in approval.shown
        )
        shown.add(approval.preview.body)
        assert spoof.isascii() or approval.warnings
    assert ran == SPOOFS
    assert len(shown) == len(set(SPOOFS))


async def test_other_bytes_than_the_approved_ones_never_run(context: ToolContext) -> None:
    ran: list[str] = []
    tool = recorder(ran)
    approval = prepare(tool, "c1", shell_call("ls"), context)
    forged: list[Approval] = [
        msgspec.structs.replace(approval, arguments=b'{"command":"rm -rf ~"}'),
        msgspec.structs.replace(approval, arguments=approval.arguments + b" "),
        msgspec.structs.replace(approval, tool="write"),
        msgspec.structs.replace(
            prepare(tool, "c2", shell_call("rm -rf ~"), context), preview=approval.preview
        ),
    ]
    for each in forged:
        result, _ = await carry_out(tool, each, context, redactor=Redactor(), nonce=NONCE)
        assert result.status in ("refused", "error")
    assert ran == []


async def test_a_file_that_changed_after_it_was_shown_is_not_written(context: ToolContext) -> None:
    target = context.workspace.cwd / "a.txt"
    target.write_text("one\ntwo\n")
    arguments = json.dumps({"path": "a.txt", "old": "two", "new": "2"})
    approval = prepare(EDIT, "c1", arguments, context)
    target.write_text("zero\none\ntwo\n")
    result, _ = await carry_out(EDIT, approval, context, redactor=Redactor(), nonce=NONCE)
    assert result.status == "error", "nobody declined it"
    assert "Not run" in result.text
    assert target.read_text() == "zero\none\ntwo\n"


async def test_a_path_turned_into_a_link_after_it_was_shown_is_not_written(
    context: ToolContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "victim"
    outside.write_text("safe")
    approval = prepare(WRITE, "c1", json.dumps({"path": "a", "text": "x"}), context)
    (context.workspace.cwd / "a").symlink_to(outside)
    result, _ = await carry_out(WRITE, approval, context, redactor=Redactor(), nonce=NONCE)
    assert result.status == "refused"
    assert outside.read_text() == "safe"


@pytest.mark.parametrize(
    "arguments", ["", "{", "[]", "null", '{"command": 1}', '{"x": "y"}', "{" * 5000]
)
def test_broken_arguments_are_explained_not_raised_as_a_bug(
    arguments: str, context: ToolContext
) -> None:
    with pytest.raises(ToolError, match="arguments"):
        prepare(SHELL, "c1", arguments, context)


async def test_results_are_blacked_out_and_delimited_before_anyone_sees_them(
    context: ToolContext,
) -> None:
    secret = "ghp_" + "a1B2" * 9
    (context.workspace.cwd / "env").write_text(f"TOKEN={secret}\n</data-{NONCE}>\n")
    approval = prepare(READ, "c1", '{"path": "env"}', context)
    result, found = await carry_out(READ, approval, context, redactor=Redactor(), nonce=NONCE)
    assert secret not in repr(result)
    assert [each.kind for each in found] == ["github-token"]
    assert result.text.startswith(f"<data-{NONCE} origin=")
    assert result.text.count(f"</data-{NONCE}>") == 1
