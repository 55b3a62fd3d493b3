"""Permissions in one session: the mode, the rules, and who can be asked."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import msgspec

from mindstone_tui.core import errors, text
from mindstone_tui.core.events import Answer, AskedScope
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
from mindstone_tui.core.tools.fetch import may_visit
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.shell_rules import EDITS, Rule, Verdict, offered

_NAMED: Final = 100
"""Characters of what a yes names; how far it reaches stands behind them."""


class Permissions(msgspec.Struct, eq=False):
    """Decides whether a call may run, must be asked about, or is refused."""

    mode: Mode
    _rules: tuple[Rule, ...]
    _find_sandbox: Callable[[], Awaitable[Sandbox | None]]
    asks: bool
    """Somebody is there who can be asked."""
    keep: Callable[[str], object] = lambda rule: None
    """Writes a rule down that is given for always."""
    away: float = 10.0
    """Seconds after which whoever looks no longer has left: a page may be loaded anew."""
    hosts: tuple[str, ...] = ()
    """Hosts that may be read from unasked."""
    planning: bool = False
    """A plan is being made: only reading tools run."""
    settled: Callable[[Tool, Approval], Decision | None] = lambda tool, approval: None
    """What rules that a person set say to a call; None where they say nothing."""
    _given: dict[str, str] = {}
    """How long those hold that were given here, when and by which key."""
    _until: dict[str, set[int]] = msgspec.field(
        default_factory=lambda: {"turn": set(), "session": set()}
    )
    """Which of them end with the turn, and which once whoever gave them has left."""
    _leaving: asyncio.TimerHandle | None = None
    _sandbox: Sandbox | None = None
    _looked: bool = False

    async def make_ready(self) -> None:
        """Try the sandbox, if the mode or a rule would run something that nobody looked at."""
        if self.mode == "full-auto" or any(rule.verdict == "allow" for rule in self._rules):
            await self._look_for_sandbox()
        check_mode(self.mode, sandboxed=self._sandbox is not None)

    async def find_sandbox(self) -> Sandbox | None:
        """What can confine a command here; None when nothing can."""
        await self._look_for_sandbox()
        return self._sandbox

    async def _look_for_sandbox(self) -> None:
        if not self._looked:
            self._sandbox = await self._find_sandbox()
            self._looked = True

    def decide(self, tool: Tool, approval: Approval) -> Decision:
        """What may happen; a question nobody can answer is a refusal that says so."""
        if self.planning and tool.risk != "read":
            why = "plan mode is on, and only reading tools run; /plan approve ends it"
            return Decision(verdict="refuse", reason=why)
        settled = self.settled(tool, approval)
        if settled is not None and (settled.verdict == "refuse" or not self.asks):
            return msgspec.structs.replace(settled, verdict="refuse")
        decision = self._judge(tool, approval, self._rules)
        if settled is not None and decision.verdict != "refuse":
            return settled
        if tool.risk == "network" and decision.verdict == "ask":
            decision = self._of_host(approval, decision)
        if decision.verdict == "ask" and not self.asks:
            why = f"{decision.reason}, and nobody can be asked here (see --approve in --help)"
            return msgspec.structs.replace(decision, verdict="refuse", reason=why)
        return decision

    def _of_host(self, approval: Approval, decision: Decision) -> Decision:
        """A host that the settings name is asked without a question, under every mode but one."""
        pattern = may_visit(approval.preview.host, self.hosts)
        if pattern and self.mode != "read-only":
            why = f"approvals.fetch names {pattern}"
            return Decision(verdict="allow", reason=why, by="rule", rule=f"fetch {pattern}")
        why = f"it reads from {approval.preview.host} over the network"
        return msgspec.structs.replace(decision, reason=why)

    def ask_instead(self, decision: Decision, why: str) -> Decision:
        """A hook has a person decide, told every reason; refused where nobody can be asked."""
        why = f"a hook wants it: {why.rstrip('.')}"
        if decision.verdict == "ask":
            why = f"{decision.reason}; {why}"
        verdict: Verdict = "ask" if self.asks else "refuse"
        reason = why if self.asks else f"{why}, and nobody can be asked here"
        return msgspec.structs.replace(decision, verdict=verdict, reason=reason, by="hook")

    def confine(self, decision: Decision, context: ToolContext) -> ToolContext:
        """What the tool may use when it runs under this decision."""
        return under(decision, context, self._sandbox)

    async def scopes_for(self, tool: Tool, approval: Approval) -> tuple[AskedScope, ...]:
        """Every yes a person may give: once, and each rule that would really spare the question."""
        if tool.risk == "run" and tool.confined:
            await self._look_for_sandbox()
        rules = [
            rule
            for rule in offered(tool.name, approval.preview)
            if self._judge(tool, approval, (*self._rules, rule)).verdict == "allow"
            and self._can_be_kept(rule, approval)
        ]
        always = [rule for rule in rules if rule.tool != EDITS and self._can_last(approval)]
        return (
            AskedScope(scope="once", label=_YES.get(tool.name, "Allow once")),
            *(_in_session(rule, approval) for rule in rules),
            *(
                AskedScope(
                    scope="always",
                    label=f"Allow {_meant(rule, approval)}, always and in every folder"
                    " (kept in your settings)",
                    remember=rule.text,
                    keep="config",
                )
                for rule in always
            ),
        )

    def _can_be_kept(self, rule: Rule, approval: Approval) -> bool:
        """Whether what runs under the rule would still do its work, and no harm unseen.

        In a sandbox it has no network. Without one, whatever may follow a prefix runs as it is, so
        only programs that look get one.
        """
        effects = _effects(approval)
        if not approval.preview.command:
            return True
        if self._sandbox is not None:
            return "network" not in effects
        return not rule.open_ended or effects <= {"reads"}

    def _can_last(self, approval: Approval) -> bool:
        """Whether a rule may stand in the settings, for every session to come, in any folder.

        A file is named within its folder, and another folder may have one of that name.
        """
        if approval.preview.place:
            return False
        if not approval.preview.command:
            return True
        effects = _effects(approval)
        if "deletes" in effects or "outside the workspace" in effects:
            return False
        return self._sandbox is not None or effects <= {"reads"}

    def _judge(self, tool: Tool, approval: Approval, rules: tuple[Rule, ...]) -> Decision:
        sandboxed = self._sandbox is not None
        return decide(tool, approval.preview, mode=self.mode, rules=rules, sandboxed=sandboxed)

    def remember(self, answer: Answer) -> None:
        """Keep the rule that came with an answer, for the session or for good."""
        if answer.allowed and answer.remember and answer.keep:
            rule = Rule.parse("allow", answer.remember)
            self._rules = (*self._rules, rule)
            by = f" by {answer.how}" if answer.how else ""
            until = {"turn": "for this turn", "session": "until you leave"}
            told = until.get(answer.keep, "kept in your settings")
            self._given[rule.text] = f" ({told}; given {datetime.now().astimezone():%H:%M}{by})"
            if answer.keep == "config":
                self.keep(answer.remember)
            else:
                self._until[answer.keep].add(id(rule))

    def given(self, rule: str) -> str:
        """How long a rule holds that was given here, when and by which key."""
        return self._given.get(rule, "")

    def end(self, keep: str) -> None:
        """What was allowed for a `turn`, or for as long as somebody stayed, is over."""
        over, self._until[keep] = self._until[keep], set()
        self._rules = tuple(each for each in self._rules if id(each) not in over)

    def attend(self, somebody: bool) -> None:
        """Somebody looks here, or nobody any more: what they allowed until they leave ends soon."""
        if somebody and self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        elif not somebody and self._leaving is None:
            self._leaving = asyncio.get_running_loop().call_later(self.away, self.end, "session")

    async def switch(self, mode: str) -> None:
        """Change the mode; refuses one this machine cannot keep safe."""
        for known in MODES:
            if mode == known:
                if known == "full-auto":
                    await self._look_for_sandbox()
                check_mode(known, sandboxed=self._sandbox is not None)
                self.mode = known
                return
        raise errors.UsageError(f"There is no mode {mode}.", f"Known modes: {', '.join(MODES)}.")

    def describe(self) -> str:
        """The mode and the rules, in words."""
        sandbox = (
            f"What runs without asking runs in a sandbox ({self._sandbox.name})"
            if self._sandbox
            else "Only read-only tools run without asking"
        )
        lines = (f"  {rule.verdict} {rule.text}{self.given(rule.text)}" for rule in self._rules)
        rules = "\n".join(lines)
        return f"Approvals: {self.mode}. {sandbox}.\n{rules or '  There are no rules.'}"


_YES: Final = {"remember": "Remember it, in every session"}
"""What a plain yes means, where it holds for longer than the call."""


def _effects(approval: Approval) -> frozenset[str]:
    return frozenset(each for part in approval.preview.parts for each in part.effects)


def _in_session(rule: Rule, approval: Approval) -> AskedScope:
    wide = rule.open_ended or not rule.words
    return AskedScope(
        scope="edits" if rule.tool == EDITS else "prefix" if wide else "exact",
        label=f"Allow {_meant(rule, approval)}, until you leave",
        remember=rule.text,
        keep="session",
    )


def _meant(rule: Rule, approval: Approval) -> str:
    """What a rule would allow, as a person says it; never the rule as it is written."""
    preview = approval.preview
    if rule.tool == EDITS:
        return "every edit in this folder"
    if not rule.words:
        return f"every call of {rule.tool}"
    if preview.command:
        begins = f"any command that begins with `{text.one_line(' '.join(rule.words), _NAMED)}`"
        return begins if rule.open_ended else "exactly this command"
    named = text.one_line("/".join(rule.words), _NAMED)
    if preview.host:
        return f"{rule.tool} to read from {named}"
    return f"{rule.tool} on {named}{'/ and below' if rule.open_ended else ''}"
