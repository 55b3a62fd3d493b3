"""Rules that a person set: word for word in every prompt, and checked before anything happens."""

import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import bounded_json
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.diagnostics import note
from mindstone_tui.core.entries import Line, ToolCall, actions, conversation, derived, window
from mindstone_tui.core.errors import MindstoneError, NoSuchSession, UsageError
from mindstone_tui.core.events import AnyEvent, CommandPrinted, ContextReported, Noticed
from mindstone_tui.core.language.replacement import meant_by, permits, replaces
from mindstone_tui.core.language.sentences import prose
from mindstone_tui.core.library.lease import appending
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces, project_of
from mindstone_tui.core.rules import checks, deeds
from mindstone_tui.core.rules.book import (
    RuleBook,
    Ruling,
    Scope,
    StandingRule,
    may_be_corrected,
    rule_of,
    ruling,
)
from mindstone_tui.core.rules.grammar import compile_rule
from mindstone_tui.core.session.features import EndedTurn, Feature, Happening, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.tools.approvals import Approval, Decision
from mindstone_tui.core.tools.base import Tool
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.encode import Clean, timestamp, utc_now

_SCOPES: Final[dict[str, Scope]] = {
    "--session": "session",
    "--project": "project",
    "--everywhere": "everywhere",
}
_IN_PANEL: Final = 4
_UNCHECKED: Final = "is an instruction: nothing of it can be checked"
_LIKE: Final = "“never run `npm publish`”, “never edit migrations/”, “never use `eval`”"
_ALL: Final = 200
"""Commands of a check that are named to whoever asks why."""
_ELSE: Final = "If that is not what you mean"


class RulesFeature(Feature):
    """What a person settled holds, in this session, this project or everywhere."""

    name = "rules"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self.book = RuleBook(session.home)
        self.context.permissions.settled = self._decide
        if session.store is not None:  # other machines may have settled something in it
            brought_with(session.home, str(session.key))
        self._inherit()

    def _inherit(self) -> None:
        """What bound the session that this one was forked from binds here; once, and for itself.

        It did when the fork was made, whatever was retired there before anybody opened this one.
        """
        header = self.session.history.header
        opened = header.entry
        point = opened.forked_from if isinstance(opened, conversation.SessionOpened) else None
        if point is None:
            return
        every = self.book.all()
        left = self.book.left_in(point.session, point.seq, header.ts)
        known = {one.words for one in every if one.session == str(self.session.key)}
        turns = self.session.history.newest(["turn_started"], self.context.transcript.head.seq)
        if all(turn.parent for turn in islice(turns, 1)):  # nothing was said here yet
            for one in every:
                bound = (one.scope, one.session) == ("session", point.session)
                stood = not one.retired or one.retired > header.ts
                words = left.get(one.words, one.words) if may_be_corrected(one) else one.words
                if bound and stood and one.line <= point.seq and words and words not in known:
                    self.set_rule(words, "session", 0, inherited=True)  # line 0 names the fork

    @property
    def standing_rules(self) -> list[StandingRule]:
        """The rules that bind here, oldest first."""
        return self.book.standing(str(self.session.cwd), str(self.session.key))

    def standing(self) -> SystemPrompt:
        """Every rule that binds here, in the person's words."""
        rules = self.standing_rules
        if not rules:
            return SystemPrompt(())
        lines = [f"{one.number}. {one.words}" for one in rules]
        text = "\n".join(["The person set these rules. They bind you:", *lines])
        section = window.Section(name="settled", text=text, source="/rules", raw_size=len(text))
        return SystemPrompt((section,))

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Tell the person which rules still bind although they said otherwise in this turn."""
        rules = [one for one in self.standing_rules if not may_be_corrected(one)]
        against = meant_by(turn.question, [one.words for one in rules])
        against |= {at for at, one in enumerate(rules) if permits(turn.question, one.words)}
        return [
            Noticed(
                message=f"Rule {one.number} still binds (“{one_line(one.words, 200)}”): "
                f"`/rules retire {one.number}` ends it.",
                level="warning",
            )
            for one in (rules[at] for at in sorted(against))
        ]

    def panel(self) -> Sequence[str]:
        """The rules that bind here, the newest of many."""
        rules = self.standing_rules
        more = [f"{plural(len(rules) - _IN_PANEL, 'more rule')}: /rules"]
        shown = [f"Rule {one.number}: {one.words}" for one in rules[-_IN_PANEL:]]
        return [*shown, *(more if len(rules) > _IN_PANEL else [])]

    def set_rule(
        self, words: str, scope: Scope, source: int = -1, *, inherited: bool = False
    ) -> StandingRule:
        """Set a rule in the person's words; what can be checked of it is checked from now on."""
        if self.context.redactor.redact(words).text != words:
            told = "A credential stands in that rule, which every model would be told."
            raise UsageError(told, "Say it without.")
        check = compile_rule(words)
        folder = str(self.session.cwd) if scope == "project" else ""

        def written(number: int) -> StandingRule:
            entry = derived.RuleSet(
                number=number,
                words=words,
                scope=scope,
                folder=folder,
                checked=str(check) if check else "",
                source=source,
                **({} if inherited else self.context.by_hand()),
            )
            return rule_of(entry, self.record(entry), number)

        return self.book.add(written)

    def settle(self, words: str, scope: Scope, source: int = -1) -> list[AnyEvent]:
        """Set a rule instead of those set for the same that it replaces: instructions, since
        what is checked stands until a person retires it."""
        here = str(self.session.cwd), str(self.session.key)
        before = [one for one in self.book.all() if one.holds_in(*here)]
        stands = self.standing_rules
        if known := [one for one in stands if (one.words, one.scope) == (words, scope)]:
            return [told(known[0])]
        rule = self.set_rule(words, scope, source)
        over = [
            self._retire(one.number)
            for one in before
            if one.check is None and (one.scope, one.folder) == (scope, rule.folder)
            if replaces(words, one.words)
        ]
        said = told(rule)
        text = "\n".join([said.text, *map(_over, over)])
        return [msgspec.structs.replace(said, text=text), *self._shown()]

    def _shown(self) -> Iterator[AnyEvent]:
        """The panel as it is with the rules that stand now."""
        if self.context.reports:
            yield ContextReported(report=self.context.report())

    def _retire(self, number: int) -> StandingRule:
        rule = self.book.retire(number, timestamp(utc_now()), str(self.session.key))
        self.record(derived.RuleRetired(number=rule.number, **self.context.by_hand()))
        return rule

    def record(self, entry: derived.RuleSet | derived.RuleRetired) -> Line:
        """Write down what a person said about a rule."""
        return self.context.window.record(entry, self.context.transcript.last_turn)

    def _decide(self, tool: Tool, approval: Approval) -> Decision | None:
        rules = self.standing_rules
        if not rules or tool.risk == "client":
            return None
        deed = deeds.of_preview(tool.name, approval.preview, self.session.cwd)
        said = ruling(rules, msgspec.structs.replace(deed, done=self._done))
        if said.rule is None:
            return None
        return Decision(
            verdict="refuse" if said.verdict == "deny" else "ask",
            reason=said.why,
            by="your rule",
            rule=str(said.rule.number),
        )

    def _done(self) -> Sequence[checks.SeenCommand]:
        """Commands that ended well since a file was changed."""
        with self.context.transcript.history() as history:
            return deeds.done_lately(history, self.session.cwd)

    @command(
        "rules",
        usage="[list | add TEXT [--project | --everywhere] | retire N | why N | adopt [N | all] "
        "| report | replay SESSION]",
        words=("list", "add", "retire", "why", "adopt", "report", "replay"),
        looks=("list", "why", "report", "replay"),
    )
    async def rules(self, argument: str) -> AsyncIterator[Happening]:
        """Show the rules you set, set one, or retire one.

        A rule is in every prompt in your words. What can be checked of it is checked before a call
        runs: `git push --force` is refused after "never force push". It binds this session, with
        `--project` every session in this folder, with `--everywhere` all of them.
        """
        verb, _, rest = argument.partition(" ")
        match verb:
            case "" | "list":
                yield listed_in(self.session.home, self.session.cwd, str(self.session.key))
            case "add":
                words, scope = _scope_in(rest)
                if not words:
                    raise WrongUse("/rules add needs the rule.")
                yield self.settle(words, scope)
            case "retire":
                rule = self._retire(_number(rest))
                yield [CommandPrinted(text=_over(rule), data=_data(rule)), *self._shown()]
            case "why":
                yield why(self.session.home, _number(rest))
            case "adopt":
                yield self._adopt(rest.strip())
            case "report":
                yield self._report()
            case "replay":
                yield self._replay(rest.strip())
            case _:
                raise WrongUse(f"/rules does not know `{verb}`.")

    def adoptable(self) -> list[str]:
        """Sentences of the project's instruction files that can be checked and are no rule yet."""
        found = self.session.project.instructions()
        if found.state != "trusted":
            return []
        known = {one.words for one in self.standing_rules}
        said = (
            " ".join(sentence.text.split())
            for each in found.of("instructions")
            for sentence in prose(each.text)
        )
        return [one for one in dict.fromkeys(said) if one not in known and compile_rule(one)]

    def _adopt(self, which: str) -> CommandPrinted:
        """Set sentences of the project's own files as rules of the project, one by one or all."""
        offered = self.adoptable()
        if not which:
            rows = [
                f"{at:>3}  {one}\n     {compile_rule(one)}" for at, one in enumerate(offered, 1)
            ]
            text = "\n".join([*rows, "`/rules adopt N` or `/rules adopt all` sets them."])
            none = "The files of this project, as far as they are trusted, say nothing to check."
            shown = text if rows else none
            return CommandPrinted(text=shown, data={"offered": offered})
        chosen = offered if which == "all" else offered[_number(which) - 1 :][:1]
        if not chosen:
            raise UsageError(f"Nothing is offered as {which}.", "/rules adopt lists what is.")
        return listed([self.set_rule(one, "project") for one in chosen])

    def _replay(self, other: str) -> CommandPrinted:
        """What the rules that stand here would have stopped in a recorded session."""
        key = SessionKey.parse(other) if ":" in other else self.session.key
        if other and ":" not in other:
            key = msgspec.structs.replace(self.session.key, main=other)
        places = self.session.home.session(key)
        if not places.transcript.exists():
            raise places.missing()
        with History(places) as history:
            kinds = ("assistant_message", "tool_returned")
            lines = list(history.newest(kinds, history.head.seq + 1))[::-1]
        found = list(deeds.broken_in(lines, self.standing_rules, self.session.cwd))
        rows = [
            f"turn {one.turn}, line {one.line}: {one.said.verdict}, rule "
            f"{one.said.rule.number if one.said.rule else 0}: "
            f"{one_line(' '.join(actions.targets_of(one.call)) or one.call.name, 120)}"
            for one in found
        ]
        data = [{"turn": one.turn, "line": one.line, **as_data(one.said)} for one in found]
        text = "\n".join(rows) or "Nothing in it would have been stopped."
        return CommandPrinted(text=text, data={"stopped": data})

    def _report(self) -> CommandPrinted:
        """How often each rule spoke, in which sessions and after which compaction."""
        from mindstone_tui.core.library.compactions import firings  # 8 ms, and only for this

        heard = list(firings(self.session.home))
        rows = []
        for rule in self.standing_rules:
            own = [one for one in heard if one[1].number == rule.number]
            times = Counter(fired.verdict for _, fired, _ in own)
            spoke = f"refused {times['deny']}, asked {times['ask']}" if own else "never spoke"
            where = Counter(
                f"{key.main}{f' after compaction {n}' if n else ''}" for key, _, n in own
            )
            rows.append(f"{rule.number:>3}  {spoke:24} {rule.words}")
            rows += [f"       {count} in {name}" for name, count in where.items()]
        total = Counter((fired.number, fired.verdict) for _, fired, _ in heard)
        data = [{"rule": n, "verdict": v, "times": t} for (n, v), t in sorted(total.items())]
        each = [
            {"rule": one.number, "verdict": one.verdict, "session": str(key), "compactions": n}
            for key, one, n in heard
        ]
        text = "\n".join(rows) or "No rule is set here."
        return CommandPrinted(text=text, data={"fired": data, "each": each})


def listed_in(home: Places, folder: Path, session: str) -> CommandPrinted:
    """The rules that bind work in a folder and session, and those that were corrected there."""
    over = RuleBook(home).corrected(str(folder), session)
    return listed(standing_in(home, folder, session), over)


def listed(rules: Sequence[StandingRule], corrected: Sequence[int] = ()) -> CommandPrinted:
    """The rules that bind somewhere, with what is checked of each."""
    rows = []
    for one in rules:
        where = {"session": "this session", "project": one.folder}.get(one.scope, "everywhere")
        rows += [f"{one.number:>3}  {one.words}", f"     {where}; {_checked(one)}"]
    rows += [
        f"Rule {one} does not bind as it was set: what you said since corrects it. "
        f"`/rules why {one}` shows it, in a shell `mindstone rules why {one}`."
        for one in corrected
    ]
    text = (
        "\n".join(rows)
        or "No rule is set here. `/rules add TEXT` sets one, in a shell `mindstone rules add`."
    )
    return CommandPrinted(text=text, data={"rules": [_data(one) for one in rules]})


def why(home: Places, number: int) -> CommandPrinted:
    """Where a rule of a home comes from, and what is checked of it."""
    rule = next((one for one in RuleBook(home).all() if one.number == number), None)
    if rule is None:
        raise UsageError(
            f"There is no rule {number}.",
            "`/rules` lists those that stand, in a shell `mindstone rules`.",
        )
    until = f" It was retired on {rule.retired[:10]}." if rule.retired else ""
    if may_be_corrected(rule) and not until:
        left = RuleBook(home).left_in(rule.session).get(rule.words, rule.words)
        until = "" if left == rule.words else " What you said there since corrects it."
    text = (
        f"{rule.words}\nSet on {rule.since[:10]} in {rule.session}, line {rule.line}; "
        f"{rule.check.told(_ALL) if rule.check is not None else _checked(rule)}{until}"
    )
    return CommandPrinted(text=text, data=_data(rule))


def standing_in(home: Places, folder: Path, session: str) -> list[StandingRule]:
    """The rules that bind work in a folder and session."""
    return RuleBook(home).standing(str(folder), session)


def brought_with(home: Places, session: str) -> list[StandingRule]:
    """Rules that a session brought here; whatever keeps them from being read, the session is."""
    with contextlib.suppress(MindstoneError):
        return RuleBook(home).take_over(home.session(SessionKey.parse(session)))
    return []


def tried(
    home: Places, tool: str, argument: str, folder: Path, session: str
) -> tuple[str, dict[str, Any]]:
    """What the rules say to a call, in words and for a program."""
    if (kind := actions.kind_of(tool)) == "other":
        raise UsageError(f"Rules know no tool `{tool}`.", "Name one such as shell, write or edit.")
    if kind == "command":
        deed = deeds.of_command(argument, folder, tool)
    else:
        whole = argument.startswith("{")
        if whole and bounded_json.read_arguments(argument) is None:
            raise UsageError("The arguments are no JSON object.", 'Such as {"path": "a.py"}.')
        fields = argument if whole else msgspec.json.encode({"path": argument}).decode()
        deed = deeds.of_call(ToolCall(id="", name=tool, arguments=fields), folder)
    said = ruling(standing_in(home, folder, session), deed)
    words = f"{said.verdict}: {said.why}" if said.rule else "allow: no rule speaks against it."
    return words, as_data(said)


def ruling_on(
    home: Places, call: ToolCall, folder: Path, mirror: Callable[[], SessionPlaces]
) -> Ruling:
    """What the rules of a folder say to a call of another program that works there.

    What was done before counts as far as the session tells it that mirrors the program's.
    """
    rules = RuleBook(home).binding(folder)
    if not any(one.check for one in rules):
        return Ruling("allow")

    def done() -> Sequence[checks.SeenCommand]:
        with contextlib.suppress(NoSuchSession), History(mirror()) as history:
            return deeds.done_lately(history, folder)
        return ()

    deed, base = deeds.of_call(call, folder), project_of(folder)
    # A program may have gone further down since it began.
    changes = tuple(deeds.below(os.path.normpath(folder / one), base) for one in deed.changes)
    return ruling(rules, msgspec.structs.replace(deed, changes=changes, done=done))


def record_firing(
    said: Ruling, call: ToolCall, own: SessionPlaces, log: Path, clean: Clean
) -> None:
    """Write down that a rule spoke: in the session that mirrors the program's, else in our log."""
    number = said.rule.number if said.rule else 0
    with appending(own, clean) as transcript:
        if transcript is None:
            note(f"rule {number}: {said.verdict} for a call of {call.name} in {own.key}", log)
        elif said.verdict != "allow":
            fired = derived.RuleFired(number=number, call=call.id, verdict=said.verdict)
            transcript.append(fired, turn=transcript.last_turn)


def as_data(said: Ruling) -> dict[str, Any]:
    """A ruling for a program."""
    rule = said.rule
    return {
        "verdict": said.verdict,
        "rule": rule.number if rule else None,
        "words": rule.words if rule else "",
        "why": said.why,
    }


def told(rule: StandingRule) -> CommandPrinted:
    """That a rule stands, and what is checked of it, for the person to say whether it is right."""
    text = f"Rule {rule.number} stands: {rule.words}\nIt {_checked(rule)}"
    why = f"To have it checked, name what it is about ({_LIKE})" if rule.check is None else _ELSE
    retire = f"rules retire {rule.number}"
    text += f"\n{why}: `/{retire}` (in a shell `mindstone {retire}`), and say it otherwise."
    return CommandPrinted(command="rules", text=text, data=_data(rule))


def _over(rule: StandingRule) -> str:
    return f"Rule {rule.number} stands no longer: {rule.words}"


def _checked(rule: StandingRule) -> str:
    return str(rule.check) if rule.check is not None else f"{_UNCHECKED}."


def _data(rule: StandingRule) -> dict[str, Any]:
    found = msgspec.to_builtins(rule)
    return {**found, "checks": str(rule.check) if rule.check is not None else ""}


def _scope_in(text: str) -> tuple[str, Scope]:
    words = text.split()
    scope: Scope = next((_SCOPES[one] for one in words if one in _SCOPES), "session")
    return " ".join(one for one in words if one not in _SCOPES).strip(' "“”'), scope


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise WrongUse("Name the rule by its number.")
    return int(text)
