"""Which command lines are understood, why others are not, and what rules say, cover and offer."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import ConfigError
from mindstone_tui.core.tools.base import Preview
from mindstone_tui.core.tools.shell_rules import (
    NotPlain,
    Rule,
    Verdict,
    covers,
    offered,
    simple_commands,
)
from mindstone_tui.core.tools.verdicts import CommandPart

LOUD = "can stand for something that is not shown"
EXPANDS = "may expand to something else"
INTO_A_FILE = "it redirects into or from a file"
NO_TEXT = "it is very long, has several lines, or characters outside plain ASCII"


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("ls -la", ["ls -la"]),
        ("ls; pwd && git status | head -n 3 || wc", ["ls", "pwd", "git status", "head -n 3", "wc"]),
        ("ls;", ["ls"]),
        ("ls 2>&1", ["ls"]),
        ("ls >/dev/null", ["ls"]),
        ("ls </dev/null 2> /dev/null | wc", ["ls", "wc"]),
        ("echo a=b 1", ["echo a=b 1"]),
        ("; ".join(["ls"] * 50), ["ls"] * 50),
        ("x" * 10_000, ["x" * 10_000]),
    ],
)
def test_plain_lines_are_their_simple_commands(text: str, commands: list[str]) -> None:
    assert [" ".join(words) for words in simple_commands(text)] == commands


def test_quoted_words_are_what_the_shell_would_pass_on() -> None:
    found = simple_commands("cat 'a b' \"c d\" e'f' 'g'\"h\"i 'semi;colon'")
    assert found == (("cat", "a b", "c d", "ef", "ghi", "semi;colon"),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ls > x", INTO_A_FILE),
        ("ls < x", INTO_A_FILE),
        ("ls >> x", INTO_A_FILE),
        ("ls 3>&1", INTO_A_FILE),
        ("ls &>/dev/null", INTO_A_FILE),
        ("ls 2>&1 > x", INTO_A_FILE),
        ("ls &", "'&' is not a plain join"),
        ("ls |& wc", "'|&' is not a plain join"),
        ("(ls)", "it contains a subshell"),
        ("{ ls; }", "it contains a compound statement"),
        ("! ls", "it contains a negated command"),
        ("ls <<< x", "it contains a herestring redirect"),
        ("ls # x", "it contains a comment"),
        ("for x in a; do ls; done", "it contains a for statement"),
        ("[[ a ]]", "it contains a test command"),
        ("FOO=1 ls", "it contains a variable assignment"),
        ("FOO=1", "it contains a variable assignment"),
        ("'a=b' c", "it does not begin with a program"),
        ("'' a", "it does not begin with a program"),
        ("ls $HOME", f"$ {LOUD}"),
        ("ls `pwd`", f"` {LOUD}"),
        ("ls a\\ b", f"\\ {LOUD}"),
        ("ls *", f"* {EXPANDS}"),
        ("ls ~", f"~ {EXPANDS}"),
        ("ls a?", f"a? {EXPANDS}"),
        ("ls 'a", "it is not valid shell"),
        ("ls && ", "it is not valid shell"),
        ("ls\npwd", NO_TEXT),
        ("ls ä", NO_TEXT),
        ("", NO_TEXT),
        ("x" * 10_001, NO_TEXT),
        ("  ", "it can be read in more than one way"),
        ("; ".join(["ls"] * 51), "it has too many parts to judge one by one"),
    ],
)
def test_what_is_not_understood_says_what_stands_in_the_way(text: str, why: str) -> None:
    """Two locks: the second would hold as well, but could not say why."""
    with pytest.raises(NotPlain) as refused:
        simple_commands(text)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("verdict", "text", "words", "open_ended", "written"),
    [
        ("allow", "shell git status", ("git", "status"), False, "shell git status"),
        ("allow", "shell git status *", ("git", "status"), True, "shell git status *"),
        ("refuse", "shell *", (), True, "shell *"),
        ("refuse", "shell", (), False, "shell"),
        ("ask", "shell python *", ("python",), True, "shell python *"),
        ("refuse", "shell git push", ("git", "push"), True, "shell git push *"),
        ("refuse", "shell:git push", ("git", "push"), True, "shell git push *"),
        ("refuse", "shell -- 'git push'", ("--", "git push"), False, "shell -- 'git push'"),
        ("refuse", "read *", (), True, "read *"),
        ("allow", "shell ./x a", ("./x", "a"), False, "shell ./x a"),
        ("allow", "shell echo 'a b' *", ("echo", "a b"), True, "shell echo 'a b' *"),
        ("allow", "write src/*", ("src",), True, "write src/*"),
        ("allow", "write *", (), True, "write *"),
        ("allow", "write ./src//a.py", ("src", "a.py"), False, "write src/a.py"),
        ("allow", "write 'a b/*'", ("a b",), True, "write 'a b'/*"),
        ("allow", "edits", (), False, "edits"),
        ("allow", "fetch example.org", ("example.org",), False, "fetch example.org"),
    ],
)
def test_a_rule_is_read_and_written_as_a_person_would(
    verdict: Verdict, text: str, words: tuple[str, ...], open_ended: bool, written: str
) -> None:
    rule = Rule.parse(verdict, text)
    assert (rule.verdict, rule.words, rule.open_ended) == (verdict, words, open_ended)
    assert rule.text == written
    assert Rule.parse(verdict, rule.text) == rule
    assert (rule.network, Rule.parse(verdict, text, network=True).network) == (False, True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("shell", "would allow every command"),
        ("shell *", "would allow every command"),
        ("shell python *", "python runs other programs"),
        ("shell ./x *", "./x runs other programs"),
        ("shell 'x", "cannot be read"),
    ],
)
def test_a_rule_that_would_allow_anything_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        Rule.parse("allow", text)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("text", "why", "remedy"),
    [
        ("Bash(rm:*)", "names no tool", "such as `shell rm"),
        ("Bash rm *", "names no tool", "Write `shell`"),
        ("Read", "names no tool", "Write `read`"),
        ("read .env", "what read looks at cannot be picked", "Write `read`"),
        ("grep secret/*", "what grep looks at cannot be picked", "Write `grep`"),
    ],
)
def test_a_rule_that_would_never_hold_is_refused(text: str, why: str, remedy: str) -> None:
    for verdict in ("refuse", "allow"):
        with pytest.raises(ConfigError, match=why) as refused:
            Rule.parse(verdict, text)
        assert remedy in refused.value.remedy


def part(command: str, effect: Any = "reads", **more: Any) -> CommandPart:
    words = tuple(command.split())
    return CommandPart(text=command, verdict=effect, reason="", words=words, **more)


def covering(
    command: str, *rules: str, verdict: Verdict = "allow", parts: tuple[CommandPart, ...] = ()
) -> list[str]:
    parsed = tuple(Rule.parse(*each.split(" ", 1)) for each in rules)  # type: ignore[arg-type]
    preview = Preview(title="x", command=command, parts=parts)
    return [rule.text for rule in covers(parsed, verdict, "shell", preview)]


def test_a_command_is_allowed_only_if_each_of_its_parts_is() -> None:
    status, listing = "allow shell git status *", "allow shell ls"
    assert covering("git status -s; ls", status, listing) == ["shell git status *", "shell ls"]
    assert covering("git status -s; ls", status) == []
    assert covering("ls -la", listing) == []
    assert covering("ls; pwd", "allow shell -- 'ls; pwd'") == ["shell -- 'ls; pwd'"]
    assert covering("ls;  pwd", "allow shell -- 'ls; pwd'") == []
    assert covering("ls", listing, listing) == ["shell ls"]
    assert covering("ls", "allow write *") == []
    assert covering("ls") == []


def test_what_is_refused_or_asked_about_is_so_in_any_part() -> None:
    never = "refuse shell rm *"
    assert covering("ls && rm x", never, verdict="refuse") == ["shell rm *"]
    assert covering("ls", never, verdict="refuse") == []
    assert covering("ls && rm x", "ask shell rm *", verdict="ask") == ["shell rm *"]
    push = "refuse shell git push"
    for command in ("git push", "git push -f", "git -C . push", "git --no-pager -c a=b push x"):
        assert covering(command, push, verdict="refuse") == ["shell git push *"]
    assert covering("git stash push", push, verdict="refuse") == []


def test_what_is_refused_or_asked_about_is_so_in_the_background_as_well() -> None:
    def found(verdict: Verdict) -> list[str]:
        rule = Rule.parse(verdict, "shell rm *")
        preview = Preview(title="run", command="rm x")
        return [each.text for each in covers((rule,), verdict, "background", preview)]

    assert [found("refuse"), found("ask"), found("allow")] == [["shell rm *"], ["shell rm *"], []]
    place = Preview(title="edit", place=("secret", "a.txt"))
    rule = Rule.parse("refuse", "write secret/*")
    assert covers((rule,), "refuse", "edit", place) == (rule,)


def test_what_is_not_understood_is_asked_about_where_a_rule_might_mean_it() -> None:
    assert covering("ls > x", "allow shell ls *") == []
    assert covering("ls > x", "allow shell ls *", verdict="ask") == []
    stricter = ("allow shell ls *", "refuse shell rm *", "ask shell cat *")
    assert covering("ls > x", *stricter, verdict="ask") == ["shell rm *"]
    assert covering("ls > x", *stricter, verdict="refuse") == []
    for hidden in ("env rm x", "timeout 5 rm x", "/bin/rm x", "bash -c 'rm x'", "ls | xargs rm"):
        assert covering(hidden, *stricter, verdict="ask") == ["shell rm *"]
        assert covering(hidden, "allow shell ls *", verdict="ask") == []


@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("shell find *", "find . -name x", True),
        ("shell find *", "find . -exec rm x", False),
        ("shell find . -exec rm x", "find . -exec rm x", True),
        ("shell find . -exec rm x *", "find . -exec rm x", True),
        ("shell git *", "git status", True),
        ("shell git *", "git push", False),
        ("shell git *", "git -c a=b status", False),
        ("shell git *", "git", True),
        ("shell git push *", "git push", True),
        ("shell git push *", "git push origin", False),
    ],
)
def test_an_open_rule_lets_nothing_through_that_could_run_something_else(
    rule: str, command: str, allowed: bool
) -> None:
    assert bool(covering(command, f"allow {rule}")) is allowed


def test_an_open_rule_does_not_reach_outside_the_workspace() -> None:
    beyond = (part("cat a", "outside the workspace"),)
    assert covering("cat a", "allow shell cat *", parts=beyond) == []
    assert covering("cat a", "allow shell cat a", parts=beyond) == ["shell cat a"]
    assert covering("cat a", "allow shell cat *", parts=(part("cat a"),)) == ["shell cat *"]


def test_rules_about_paths_and_hosts_match_what_is_touched() -> None:
    rules = tuple(
        Rule.parse("allow", text) for text in ("write src/*", "edits docs/*", "fetch example.org")
    )

    def found(tool: str, **touched: Any) -> list[str]:
        return [rule.text for rule in covers(rules, "allow", tool, Preview(title="x", **touched))]

    assert found("write", place=("src", "a.py")) == ["write src/*"]
    assert found("edit", place=("src", "a.py")) == []
    assert found("edit", place=("docs", "a.md")) == ["edits docs/*"]
    assert found("fetch", host="example.org") == ["fetch example.org"]
    assert found("fetch", host="example.com") == []
    both = (*rules, Rule.parse("allow", "write src/a.py"))
    preview = Preview(title="x", place=("src", "a.py"))
    assert len(covers(both, "allow", "write", preview)) == 1


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("git status --short", ["shell git status --short", "shell git status *"]),
        ("ls", ["shell ls", "shell ls *"]),
        ("find . -name x", ["shell find . -name x", "shell find *"]),
        ("find . -exec rm x", ["shell find . -exec rm x"]),
        ("git push origin", ["shell git push origin"]),
        ("git", ["shell git"]),
        ("python a.py", ["shell python a.py"]),
        ("./x y", ["shell ./x y"]),
        ("ls; pwd", ["shell -- 'ls; pwd'"]),
        ("ls > x", []),
    ],
)
def test_what_is_offered_allows_no_more_than_more_of_the_same(
    command: str, texts: list[str]
) -> None:
    preview = Preview(title="x", command=command)
    found = offered("shell", preview)
    assert [rule.text for rule in found] == texts
    for rule in found:
        assert covers((rule,), "allow", "shell", preview) == (rule,)


@pytest.mark.parametrize("effect", ["pipe to shell", "privilege", "force-push"])
def test_what_does_something_else_each_time_is_never_offered(effect: Any) -> None:
    parts = (part("ls", also=(effect,)),)
    assert offered("shell", Preview(title="x", command="ls", parts=parts)) == ()
    steers = (part("ls", steers=True),)
    assert offered("shell", Preview(title="x", command="ls", parts=steers)) == ()
    outside = (part("ls", "outside the workspace"),)
    found = offered("shell", Preview(title="x", command="ls", parts=outside))
    assert [rule.text for rule in found] == ["shell ls"]


def test_for_files_the_path_and_all_edits_are_offered_and_for_a_host_the_host() -> None:
    def texts(tool: str, **touched: Any) -> list[str]:
        return [rule.text for rule in offered(tool, Preview(title="x", **touched))]

    assert texts("write", place=("src", "a.py")) == ["write src/a.py", "edits *"]
    assert texts("fetch", host="example.org") == ["fetch example.org"]


@given(st.lists(st.text("ab*/'\" -", min_size=1, max_size=6), min_size=1, max_size=4))
def test_what_is_offered_means_the_same_when_it_is_read_again(words: list[str]) -> None:
    command = " ".join(["rm", *map(shlex.quote, words)])
    previews = (Preview(title="x", command=command), Preview(title="x", place=tuple(words)))
    for tool, preview in zip(("shell", "write"), previews, strict=True):
        for rule in offered(tool, preview):
            assert Rule.parse("allow", rule.text) == rule


def test_a_star_that_is_a_name_is_not_offered_as_everything() -> None:
    for command in ("rm -f '*'", "terraform '*'", "mv a 'b/*'", "bash x.sh '*'"):
        assert offered("shell", Preview(title="x", command=command)) == ()
    (edits,) = offered("write", Preview(title="x", place=("*",)))
    assert edits.tool == "edits"
