"""Permissions in one session: the mode, the rules, and who can be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import Answer
from mindstone_tui.core.tools.approvals import (
    MODES,
    Approval,
    Decision,
    Mode,
    check_mode,
    decide,
    under,
)
from mindstone_tui.core.tools.base import Tool, ToolContext
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.shell_rules import Rule, suggested


class Permissions:
    """Decides whether a call may run, must be asked about, or is refused."""

    def __init__(
        self,
        mode: Mode,
        rules: tuple[Rule, ...],
        find_sandbox: Callable[[], Awaitable[Sandbox | None]],
        *,
        asks: bool,
        keep: Callable[[str], object] = lambda rule: None,
    ) -> None:
        self.mode: Mode = mode
        self._rules = rules
        self._find_sandbox = find_sandbox
        self._sandbox: Sandbox | None = None
        self._looked = False
        self._asks = asks
        self._keep = keep

    async def make_ready(self) -> None:
        """Try the sandbox, if the mode or a rule would run something that nobody looked at."""
        runs_unasked = any(rule.verdict == "allow" for rule in self._rules)
        if self.mode == "full-auto" or runs_unasked:
            await self._look_for_sandbox()
        check_mode(self.mode, sandboxed=self._sandbox is not None)

    async def _look_for_sandbox(self) -> None:
        if not self._looked:
            self._sandbox = await self._find_sandbox()
            self._looked = True

    def decide(self, tool: Tool, approval: Approval) -> Decision:
        """What may happen; a question nobody can answer is a refusal that says so."""
        decision = self._judge(tool, approval, self._rules)
        if decision.verdict == "ask" and not self._asks:
            why = f"{decision.reason}, and nobody can be asked here; --approve sets the mode"
            return msgspec.structs.replace(decision, verdict="refuse", reason=why)
        return decision

    def confine(self, decision: Decision, context: ToolContext) -> ToolContext:
        """What the tool may use when it runs under this decision."""
        return under(decision, context, self._sandbox)

    def rules_for(self, tool: Tool, approval: Approval) -> tuple[str, ...]:
        """Rules a person may keep together with a yes: such as would spare them the question."""
        rule = suggested(tool.name, approval.preview)
        if rule is None:
            return ()
        then = self._judge(tool, approval, (*self._rules, rule))
        return (rule.text,) if then.verdict == "allow" else ()

    def _judge(self, tool: Tool, approval: Approval, rules: tuple[Rule, ...]) -> Decision:
        sandboxed = self._sandbox is not None
        return decide(tool, approval.preview, mode=self.mode, rules=rules, sandboxed=sandboxed)

    def remember(self, answer: Answer) -> None:
        """Keep the rule that came with an answer, for the session or for good."""
        if answer.allowed and answer.remember and answer.keep:
            self._rules = (*self._rules, Rule.parse("allow", answer.remember))
            if answer.keep == "config":
                self._keep(answer.remember)

    async def switch(self, mode: str) -> None:
        """Change the mode; refuses one this machine cannot keep safe."""
        for known in MODES:
            if mode == known:
                if known == "full-auto":
                    await self._look_for_sandbox()
                check_mode(known, sandboxed=self._sandbox is not None)
                self.mode = known
                return
        raise UsageError(f"There is no mode {mode}.", f"Known modes: {', '.join(MODES)}.")

    def describe(self) -> str:
        """The mode and the rules, in words."""
        sandbox = (
            f"{self._sandbox.name} confines what runs unasked"
            if self._sandbox
            else "nothing runs unasked but looking"
        )
        rules = "\n".join(f"  {rule.verdict} {rule.text}" for rule in self._rules)
        return f"The mode is {self.mode}; {sandbox}.\n{rules or '  There are no rules.'}"
