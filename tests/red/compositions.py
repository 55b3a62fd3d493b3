"""Commands that must be asked about, whatever rules were given; and plain ones that must not."""

from __future__ import annotations

from collections.abc import Iterator

from mindstone_tui.core.tools.approvals import decide
from mindstone_tui.core.tools.base import Preview
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.shell_rules import Rule, offered
from tests.core.tools.test_approvals import RULES
from tests.corpora import lines, unescaped
from tests.red import Case, Tried


def compositions(tried: Tried) -> Iterator[Case]:
    """Each line of the corpora, under rules and under what is offered for a harmless command."""
    step = tried.sized(7, 1)
    for line in lines("shell_compositions.txt")[::step]:
        command = unescaped(line)
        problem = "it is allowed unasked" if _verdict(command, RULES) == "allow" else ""
        wide = [rule for rule in offered("shell", _preview(command)) if rule.open_ended]
        harm = f"{command}; rm -rf x"
        if any(_verdict(harm, (rule,)) == "allow" for rule in wide):
            problem = "a rule offered for it allows anything"
        yield Case(f"asked about: {line[:70]}", problem)
    for line in lines("shell_plain.txt")[::step]:
        problem = "" if _verdict(line, RULES) == "allow" else "it is asked about"
        yield Case(f"allowed: {line[:70]}", problem)


def _preview(command: str) -> Preview:
    return Preview(title="run", command=command)


def _verdict(command: str, rules: tuple[Rule, ...]) -> str:
    return decide(SHELL, _preview(command), mode="ask", rules=rules, sandboxed=False).verdict
