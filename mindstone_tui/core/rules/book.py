"""The rules of a home: a file that says which stand, and for which work.

Each rule is an entry of the session in which it was set, which proves it; this file is what every
session, verb and hook reads, in one look. A rule is retired, never deleted.
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core import disk, errors, paths, transcript, values
from mindstone_tui.core.context.extract import folded
from mindstone_tui.core.entries import Line, derived, provenance, standings
from mindstone_tui.core.language.replacement import left_of
from mindstone_tui.core.rules.checks import Deed, RuleCheck, Verdict, verdict_of
from mindstone_tui.core.rules.grammar import compile_rule

RULES: Final = "rules.json"
Scope = Literal["session", "project", "everywhere"]
_RANK: Final[tuple[Verdict, ...]] = ("allow", "ask", "deny")


class StandingRule(
    msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True, omit_defaults=True
):
    """A rule as a person set it."""

    number: int
    words: str
    """Theirs, word for word."""
    scope: Scope
    session: str
    """Where it was set."""
    line: int
    since: str
    folder: str = ""
    """The project that it is for."""
    check: RuleCheck | None = None
    """What can be checked of it; None where nothing can."""
    retired: str = ""
    """When it stopped to stand."""

    def holds_in(self, folder: str, session: str) -> bool:
        """Whether it binds work in a folder, in a session."""
        if self.retired:
            return False
        if self.scope == "session":
            return self.session == session
        inside = folder == self.folder or folder.startswith(self.folder.rstrip("/") + "/")
        return self.scope == "everywhere" or inside

    @property
    def sentence(self) -> str:
        """Whose words they are, and where they stand."""
        name = self.session.rpartition(":")[2]
        where = f"line {self.line} of {name}" if self.line else f"taken along by {name}"
        return f'"{self.words}" (your rule {self.number}, {self.since[:10]}, {where})'


class Ruling(msgspec.Struct, frozen=True):
    """What the rules say to an act, and the rule that says it."""

    verdict: Verdict
    rule: StandingRule | None = None

    @property
    def why(self) -> str:
        """The person's words, and what would be allowed."""
        if self.rule is None:
            return ""
        told = self.rule.check or "can be retired by the person only."
        return f"{self.rule.sentence}. It {told}"


class _Corrections(msgspec.Struct, eq=False):
    """The rules of a session, and what became of their lines up to one of its lines."""

    through: int = -1
    words: dict[int, str] = {}
    judged: standings.Standings = msgspec.field(default_factory=standings.Standings)

    def take(self, line: Line, when: str) -> None:
        """Take in the next line; of what is known later than a time, only which rules there are."""
        if isinstance(line.entry, derived.RuleSet):
            self.words[line.seq] = line.entry.words
        elif line.ts <= when:
            self.judged.take(line)

    def left(self, until: float) -> dict[str, str]:
        """The words of each rule without those that lines up to one of them corrected."""
        told: dict[str, str] = {}
        for seq, words in self.words.items():
            by, parts = self.judged.replaced_by(seq), self.judged.corrected_by(seq).items()
            gone = [one for at, part in parts if at <= until for one in part]
            told[words] = "" if by is not None and by <= until else left_of(words, gone)
        return told


class RuleBook:
    """Which rules were set in a home."""

    def __init__(self, home: paths.Places) -> None:
        self._home = home
        self._corrected: dict[str, _Corrections] = {}
        self._path = home.data / RULES
        self._binds = home.state / "rules-bind"

    def all(self) -> list[StandingRule]:
        """Every rule, oldest first, retired ones with the rest."""
        try:
            return msgspec.json.decode(disk.read_regular(self._path), type=list[StandingRule])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise errors.PlaceError(
                f"The rules in {self._path} cannot be read: {error}.",
                "Mend or move the file; `mindstone log` shows each rule where it was set.",
            ) from None

    def standing(self, folder: str, session: str = "") -> list[StandingRule]:
        """The rules that bind work there, without what was corrected in the session since."""
        rules = [one for one in self.all() if one.holds_in(folder, session)]
        if not any(map(may_be_corrected, rules)):
            return rules
        left = self.left_in(session, since=min(r.line for r in rules if may_be_corrected(r)))
        told = ((one, left.get(one.words, one.words)) for one in rules)
        return [
            msgspec.structs.replace(one, words=words) if may_be_corrected(one) else one
            for one, words in told
            if words or not may_be_corrected(one)
        ]

    def corrected(self, folder: str, session: str) -> list[int]:
        """The rules set there that bind no more, or not in all their words, by what was said."""
        stands = {(one.number, one.words) for one in self.standing(folder, session)}
        bound = [one for one in self.all() if one.holds_in(folder, session)]
        return [one.number for one in bound if (one.number, one.words) not in stands]

    def left_in(
        self, session: str, until: float = math.inf, when: str = "~", since: int = 0
    ) -> dict[str, str]:
        """What corrections up to a line, as known at a time, left of each rule set since another.

        What was read for it once is not read again: a turn costs what was said since the last one.
        """
        known = _Corrections(through=since - 1)
        if when == "~":
            known = self._corrected.setdefault(session, known)
        with (
            contextlib.suppress(errors.MindstoneError, OSError),
            transcript.History(self._home.session(paths.SessionKey.parse(session))) as history,
        ):
            if history.head.seq < known.through:
                known = self._corrected[session] = _Corrections()
            kinds = (*standings.CHANGES, "rule_set")
            for line in [*history.newest(kinds, history.head.seq - known.through)][::-1]:
                known.take(line, when)
            known.through = history.head.seq
        return known.left(until)

    def binding(self, folder: Path) -> list[StandingRule]:
        """The rules that bind a program of others in a folder, whichever way it is named."""
        named = {str(folder), os.path.realpath(folder)}
        return [one for one in self.all() if any(one.holds_in(at, "") for at in named)]

    def add(self, written: Callable[[int], StandingRule]) -> StandingRule:
        """Set a rule with the next number, once history has it: `written` says where."""
        with self._changing() as rules:
            rules.append(written(len(rules) + 1))
            return rules[-1]

    def retire(self, number: int, when: str, session: str = "") -> StandingRule:
        """Let a rule stand no longer; what binds only one session is retired there."""
        with self._changing() as rules:
            at = next((at for at, one in enumerate(rules) if one.number == number), None)
            if at is None or rules[at].retired:
                raise errors.UsageError(f"No rule {number} stands.", "/rules lists those that do.")
            if session and rules[at].scope == "session" and rules[at].session != session:
                raise errors.UsageError(
                    f"Rule {number} binds {rules[at].session} and nothing here.",
                    f"`mindstone rules retire {number} -s {rules[at].session}` retires it there.",
                )
            rules[at] = msgspec.structs.replace(rules[at], retired=when)
            return rules[at]

    def take_over(self, places: paths.SessionPlaces) -> list[StandingRule]:
        """Take in what was settled on another machine, in a session that came from there.

        Returns what stands since, and what does not any more. Imported words make no rule, nor does
        what a fork copied.
        """
        with transcript.History(places) as history:
            lines = _lines_in(history)
        before = self.all()
        if with_those_in(lines, before) == before:
            return []
        with self._changing() as rules:
            rules[:] = with_those_in(lines, rules)
            stood = {one.number for one in before}
            return [
                one for one in rules if one not in before if one.number in stood or not one.retired
            ]

    def _tell_hooks(self, rules: Sequence[StandingRule]) -> None:
        """Leave hooks a line for each folder where something is checked, empty for everywhere."""
        bound = [one for one in rules if one.check and one.scope != "session" and not one.retired]
        folders = {"" if "\n" in one.folder else one.folder.rstrip("/") for one in bound}
        disk.ensure_folder(self._binds.parent)
        disk.replace_file(self._binds, "".join(f"{each}\n" for each in sorted(folders)).encode())

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[StandingRule]]:
        disk.ensure_folder(self._path.parent)
        lock = disk.REAL.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        try:
            with disk.held(lock, wait=5.0, busy="The rules are being changed by another program."):
                rules = self.all()
                yield rules
                text = msgspec.json.format(msgspec.json.encode(rules))
                disk.replace_file(self._path, text + b"\n")
                self._tell_hooks(rules)
        finally:
            os.close(lock)


def may_be_corrected(rule: StandingRule) -> bool:
    """Whether a correction in conversation ends a rule: what is checked, and what binds more than
    a session, stands until a person retires it."""
    return rule.check is None and rule.scope == "session"


def rule_of(entry: derived.RuleSet, line: Line, number: int) -> StandingRule:
    """A rule as the line that sets it tells it; what can be checked of it is compiled."""
    return StandingRule(
        number=number,
        words=entry.words,
        scope=entry.scope,
        session=line.session,
        line=entry.source if entry.source >= 0 else line.seq,
        since=line.ts,
        folder=entry.folder,
        check=compile_rule(entry.words),
    )


def _lines_in(history: transcript.History) -> list[Line]:
    return [*history.newest(("rule_set", "rule_retired"), history.head.seq + 1)][::-1]


def retired_in(history: transcript.History) -> dict[str, str]:
    """Until when what a session set as rules stood, by their folded words; "" for what stands."""
    return {folded(one.words): one.retired for one in with_those_in(_lines_in(history), ())}


def with_those_in(lines: Iterable[Line], rules: Sequence[StandingRule]) -> list[StandingRule]:
    """Rules, and those that lines of a session set or retired, with the next numbers."""
    found = list(rules)
    numbered: dict[int, int] = {}
    for line in lines:
        match line.entry:
            case derived.RuleSet() as one if not (line.parent or provenance.is_imported(line)):
                place = (line.session, one.source if one.source >= 0 else line.seq, one.words)
                known = [at for at, r in enumerate(found) if (r.session, r.line, r.words) == place]
                numbered[one.number] = known[0] if known else len(found)
                found += [] if known else [rule_of(one, line, len(found) + 1)]
            case derived.RuleRetired(number=number) if number in numbered:
                at = numbered[number]
                found[at] = msgspec.structs.replace(found[at], retired=found[at].retired or line.ts)
    return found


def ruling(rules: Sequence[StandingRule], act: Deed) -> Ruling:
    """What the rules say: a refusal before a question, and of equals the oldest rule."""
    lifted = [
        one.words[-1]
        for one in act.commands
        if {"rules", "retire"} <= set(one.words) and "mindstone" in " ".join(one.words[:3])
    ]
    lifts = next((one for one in rules if str(one.number) in lifted), None)
    # A rule is the person's: an agent that retires one has them asked.
    worst = Ruling("ask", lifts) if lifts else Ruling("allow")
    for rule in rules:
        if rule.check is not None:
            said = verdict_of(rule.check, act)
            if _RANK.index(said) > _RANK.index(worst.verdict):
                worst = Ruling(said, rule)
    return worst
