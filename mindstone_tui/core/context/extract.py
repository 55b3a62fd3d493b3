"""What must not be lost when a text gets shorter, found without a model.

Names, paths, numbers, the user's rules, open items, decisions and errors, as they stand in the
text. Every pattern runs in time linear in the text. The same facts audit summaries, fill handoffs
and become the probes that measure whether recall still finds what left the window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from mindstone_tui.core.context.messages import argument_values
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries import Line, Part, Span, spans_of
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolApproved,
    ToolReturned,
    UserMessage,
)

Speaker = Literal["user", "assistant", "tool"]

_CALL_SHOWN: Final = 400


class SourceMessage(Part):
    """One message or tool result, whole, with its place in history."""

    seq: int
    turn: int
    speaker: Speaker
    text: str
    entry: str = ""
    name: str = ""
    """The tool's name."""
    finding: str = ""
    """The deterministic line that stands for a tool result."""


def passages_of(lines: Iterable[Line]) -> tuple[SourceMessage, ...]:
    """What was said and what tools gave back; bookkeeping and derived entries are no material."""
    found = (_passage(line) for line in lines)
    return tuple(passage for passage in found if passage is not None)


def _passage(line: Line) -> SourceMessage | None:
    match line.entry:
        case UserMessage(text=text):
            return SourceMessage(
                seq=line.seq, turn=line.turn, speaker="user", text=text, entry=line.id
            )
        case AssistantMessage(text=text, calls=calls):
            asked = [
                f"[called {call.name} {argument_values(call.arguments)[:_CALL_SHOWN]}]"
                for call in calls
            ]
            said = "\n".join(filter(None, [text, *asked]))
            return SourceMessage(
                seq=line.seq, turn=line.turn, speaker="assistant", text=said, entry=line.id
            )
        case AssistantPartial(text=text):
            return SourceMessage(
                seq=line.seq, turn=line.turn, speaker="assistant", text=text, entry=line.id
            )
        case ToolReturned(text=text, name=name, finding=finding):
            return SourceMessage(
                seq=line.seq,
                turn=line.turn,
                speaker="tool",
                text=text,
                entry=line.id,
                name=name,
                finding=finding,
            )
    return None


def approvals_of(lines: Iterable[Line]) -> tuple[str, ...]:
    """Permissions that outlive their call, as one sentence each."""
    return tuple(
        f"{line.entry.rule} is allowed ({line.entry.remember}, said by {line.entry.by})"
        for line in lines
        if isinstance(line.entry, ToolApproved) and line.entry.rule and line.entry.remember
    )


def as_text(passages: Iterable[SourceMessage]) -> str:
    """The passages as a model reads them, each under its turn and speaker."""
    return "\n\n".join(
        f"[turn {passage.turn} · {passage.name or passage.speaker}]\n{passage.text}"
        for passage in passages
    )


def spans_over(passages: Sequence[SourceMessage]) -> tuple[Span, ...]:
    """Which lines of history these are."""
    return spans_of(sorted({passage.seq for passage in passages}))


LONGEST_SENTENCE: Final = 400
"""A rule or an item longer than this is cut there, with a sign."""

_URL: Final = re.compile(r"https?://[^\s<>()\"'`]{3,200}")
_PATH: Final = re.compile(
    r"(?<![\w/.:@-])(?:~?/|\.{1,2}/)?(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{1,80}"
    r"|(?<![\w/.-])[\w-]{1,80}\.(?:py|pyi|md|txt|toml|json|jsonl|ya?ml|js|ts|tsx|jsx|rs|go|c|h|cc|cpp"
    r"|java|rb|sh|sql|html|css|csv|ini|cfg|lock|db|env|log|xml|ipynb)\b"
)
_IDENTIFIER: Final = re.compile(
    r"\b[A-Za-z_][A-Za-z0-9]{0,60}(?:_[A-Za-z0-9]{1,60}){1,12}\b"  # snake_case, CONSTANT_CASE
    r"|\b[A-Z][a-z0-9]{1,40}(?:[A-Z][a-z0-9]{1,40}){1,8}\b"  # CamelCase
    r"|\b[a-z]{1,40}(?:[A-Z][a-z0-9]{1,40}){1,8}\b"  # camelCase
    r"|\b[A-Z]{2,12}-\d{1,8}\b"  # ticket numbers
    r"|\b(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b"  # commit hashes
    r"|\bv?\d{1,5}(?:\.\d{1,5}){2,3}\b"  # versions, addresses
)
_QUOTED_CODE: Final = re.compile(r"`([^`\n]{2,80})`")
_NUMBER: Final = re.compile(
    r"(?<![\w.,:/-])[$€£]?\d{1,3}(?:[,_ ]\d{3}){1,4}(?:\.\d{1,6})?(?![\w-])"
    r"|(?<![\w.,:/-])[$€£]?\d{1,12}(?:\.\d{1,6})?\s?(?:%|ms|s|min|h|[KMGT]i?B|kB|bytes|tokens|px|x|×)?"
    r"(?![\w-])"
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9ÄÖÜ`])|\n+")

_RULE: Final = re.compile(
    r"\b(?:must(?: not|n['’]t)?|never|always|do not|don['’]t|shall not|from now on|make sure"
    r"|at most|at least|no more than|only (?:use|ever|if|when|in)"
    r"|without (?:using|touching|changing)|i (?:prefer|want|need|like|hate)"
    r"|please (?:use|keep|avoid|call)|call me|my name is"
    r"|keep (?:it|the|all|every)|avoid|forbidden|not allowed|required|deadline|budget is)\b",
    re.IGNORECASE,
)
_DECISION: Final = re.compile(
    r"\b(?:decided|decision|we(?:['’]ll| will)? (?:go with|use|keep|drop|choose)"
    r"|let['’]s (?:go with|use|keep|drop|take|do)|chose|chosen|agreed|settled on|instead of"
    r"|we went with|approved|rejected|i(?:['’]ll| will) (?:go with|use))\b",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    r"^\s*[-*]?\s*\[ \]\s+|\b(?:todo|fixme|next step|next up|still (?:need|to|open|missing)"
    r"|remaining|not yet|unresolved|open question|waiting for|blocked (?:on|by)|follow[- ]up"
    r"|left to do)\b",
    re.IGNORECASE,
)
_ERROR: Final = re.compile(
    r"\b\w{0,60}(?:Error|Exception|Warning)\b\s?:|\b(?:traceback|segfault|panic|fatal|failed|failure"
    r"|exit (?:code|status) [1-9])\b",
    re.IGNORECASE,
)
_LESSON: Final = re.compile(
    r"\b(?:root cause|turns? out|the (?:bug|problem|cause|reason|trick|fix) (?:was|is)|lesson"
    r"|learned|learnt|because of this|caused by|was wrong|my mistake|note to self|gotcha)\b",
    re.IGNORECASE,
)


class Facts(Part):
    """What stands in a text, each as it stands there, in order of first appearance."""

    constraints: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class ExtractLimits(Part):
    """How many facts of a kind count, most used first; None for all of them."""

    decisions: int | None = None
    errors: int | None = None
    paths: int | None = None
    identifiers: int | None = None
    numbers: int | None = None


EVERYTHING: Final = ExtractLimits()
SURVIVORS: Final = ExtractLimits(decisions=0, errors=0, paths=12, identifiers=16, numbers=10)
"""What a summary is held to: every rule and open item, and the names used most."""


def sentences(text: str) -> Iterator[str]:
    """Sentences and list items, trimmed, each at most `LONGEST_SENTENCE` long."""
    for piece in _SENTENCE_END.split(text):
        said = piece.strip()
        if said:
            yield said if len(said) <= LONGEST_SENTENCE else said[: LONGEST_SENTENCE - 1] + "…"


def is_rule(sentence: str) -> bool:
    """Whether a sentence of the user binds later work; a question does not."""
    return bool(_RULE.search(sentence)) and not sentence.rstrip().endswith("?")


def is_decision(sentence: str) -> bool:
    """Whether a sentence settles something."""
    return bool(_DECISION.search(sentence)) and not sentence.rstrip().endswith("?")


def is_open(sentence: str) -> bool:
    """Whether a sentence names work that is not finished."""
    return bool(_OPEN.search(sentence))


def is_error(sentence: str) -> bool:
    """Whether a sentence reports that something went wrong."""
    return bool(_ERROR.search(sentence))


def is_lesson(sentence: str) -> bool:
    """Whether a sentence says what was learned."""
    return bool(_LESSON.search(sentence)) and not sentence.rstrip().endswith("?")


def facts_of(passages: Sequence[SourceMessage], limits: ExtractLimits = EVERYTHING) -> Facts:
    """Everything that counts in the passages; names are ranked by use.

    Rules are taken from the user alone: text from a tool cannot bind anybody.
    """
    said = [(passage.speaker, one) for passage in passages for one in sentences(passage.text)]
    talk = [sentence for speaker, sentence in said if speaker != "tool"]
    names = _ranked_names(passages)
    return Facts(
        constraints=_unique(one for speaker, one in said if speaker == "user" and is_rule(one)),
        open_items=_unique(filter(is_open, talk)),
        decisions=_unique(filter(is_decision, talk))[: limits.decisions],
        errors=_unique(one for _, one in said if is_error(one))[: limits.errors],
        paths=names["path"][: limits.paths],
        identifiers=names["identifier"][: limits.identifiers],
        numbers=names["number"][: limits.numbers],
    )


def missing(facts: Facts, text: str) -> tuple[str, ...]:
    """Which facts do not stand in a text, whatever its case and its spaces."""
    haystack = folded(text)
    groups = (
        facts.constraints,
        facts.open_items,
        facts.paths,
        facts.identifiers,
        facts.numbers,
        facts.decisions,
        facts.errors,
    )
    return tuple(fact for group in groups for fact in group if not holds(haystack, folded(fact)))


def holds(haystack: str, needle: str) -> bool:
    """Whether a folded text contains a folded fact as a whole: 24 does not stand in 2024."""
    at = haystack.find(needle)
    while at >= 0:
        before, after = haystack[at - 1 : at], haystack[at + len(needle) : at + len(needle) + 1]
        if not (before.isalnum() and needle[:1].isalnum()) and not (
            after.isalnum() and needle[-1:].isalnum()
        ):
            return True
        at = haystack.find(needle, at + 1)
    return False


def _ranked_names(passages: Iterable[SourceMessage]) -> dict[str, tuple[str, ...]]:
    """Names by kind: what the user said and what came up often stands first."""
    weights: dict[str, Counter[str]] = {
        "path": Counter(),
        "identifier": Counter(),
        "number": Counter(),
    }
    for passage in passages:
        weight = {"user": 4, "assistant": 2, "tool": 1}[passage.speaker]
        for kind, name in _names(passage.text):
            weights[kind][name] += weight
    return {kind: tuple(name for name, _ in found.most_common()) for kind, found in weights.items()}


def _names(text: str) -> Iterator[tuple[str, str]]:
    """Each name with its kind; what is part of a path is not counted again."""
    rest = text
    for pattern in (_URL, _PATH):
        for match in pattern.finditer(rest):
            name = match.group().rstrip(".,;:")
            if len(name) > 3 and not name.replace("/", "").isdigit():
                yield "path", name
        rest = pattern.sub(" ", rest)
    for match in _QUOTED_CODE.finditer(rest):
        yield "identifier", match.group(1).strip()
    rest = _QUOTED_CODE.sub(" ", rest)
    for match in _IDENTIFIER.finditer(rest):
        yield "identifier", match.group()
    rest = _IDENTIFIER.sub(" ", rest)
    for match in _NUMBER.finditer(rest):
        number = match.group().strip()
        if len(number) > 1:
            yield "number", number


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def folded(text: str) -> str:
    """The text for comparing: case and spacing do not count."""
    return " ".join(text.casefold().split())


SECTIONS: Final = (
    "Constraints",
    "Open",
    "Decisions",
    "Problems",
    "Asked",
    "Came of it",
    "Names and numbers",
)
WORD_FOR_WORD: Final = "Word for word:"
_TITLE_LENGTH: Final = 80
_MANDATORY: Final = frozenset({"Constraints", "Open", "Names and numbers"})


def extract(
    passages: Sequence[SourceMessage],
    must: Facts,
    target: int,
    count: Count,
    *,
    rules: bool = False,
) -> str:
    """The sentences that count, with the turn they were said in, within about `target` tokens.

    What must survive is there even when that takes more. Rules are left to `verbatim`, unless
    they are asked for.
    """
    chosen: dict[str, list[str]] = {section: [] for section in SECTIONS}
    seen: set[str] = set()
    spent = 0
    for section, line in sorted(_candidates(passages, must), key=_urgency):
        key = folded(line)
        cost = count(line) + 1
        if section == "Constraints" and not rules:
            continue
        if key in seen or (section not in _MANDATORY and spent + cost > target):
            continue
        seen.add(key)
        spent += cost
        chosen[section].append(line)
    blocks = [
        f"{section}:\n" + "\n".join(f"- {line}" for line in lines)
        for section, lines in chosen.items()
        if lines
    ]
    return "\n".join(blocks)


def titles(passages: Sequence[SourceMessage]) -> str:
    """One line per turn: what was asked."""
    asked: dict[int, str] = {}
    for passage in passages:
        if passage.speaker == "user" or passage.turn not in asked:
            asked[passage.turn] = first_sentence(passage.text, _TITLE_LENGTH)
    return "\n".join(f"- turn {turn}: {title}" for turn, title in asked.items())


def verbatim(must: Facts, approvals: Sequence[str], text: str) -> str:
    """Rules and permissions word for word, and the open items that a text does not hold as such."""
    haystack = folded(text)
    kept = [
        *(f"- constraint: {said}" for said in must.constraints),
        *(f"- permission: {said}" for said in approvals),
        *(f"- open: {said}" for said in must.open_items if not holds(haystack, folded(said))),
    ]
    return "\n".join([WORD_FOR_WORD, *map(_one_line, kept)]) if kept else ""


def rules_in(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules and the permissions that a text carries word for word."""
    block = text.partition(WORD_FOR_WORD)[2].splitlines()
    found = (
        tuple(line.removeprefix(label) for line in block if line.startswith(label))
        for label in ("- constraint: ", "- permission: ")
    )
    rules, permissions = found
    return rules, permissions


def _one_line(text: str) -> str:
    return " ".join(text.split())


NOTE: Final = re.compile(
    r"(?P<category>task_progress|decisions|bugs|constraints|learnings|misc)\s*\|\s*"
    r"(?P<importance>critical|high|normal)\s*\|\s*(?P<text>\S.*)"
)
"""A note on a line of its own: `category | importance | text`."""

_NOTE_OF: Final = {
    "Constraints": "constraints | critical",
    "Open": "task_progress | high",
    "Decisions": "decisions | high",
    "Problems": "bugs | high",
    "Asked": "task_progress | normal",
    "Came of it": "misc | normal",
    "Names and numbers": "misc | normal",
}


def as_notes(passages: Sequence[SourceMessage], must: Facts, target: int, count: Count) -> str:
    """The same choice of sentences, a note a line."""
    section = ""
    notes: list[str] = []
    for line in extract(passages, must, target, count, rules=True).splitlines():
        if line.startswith("- "):
            notes.append(f"{_NOTE_OF[section]} | {line[2:]}")
        else:
            section = line.removesuffix(":")
    return "\n".join(notes)


def notes_kept(must: Facts, approvals: Sequence[str], text: str) -> str:
    """Rules, permissions and open items that notes do not hold word for word, as notes."""
    kind = {
        "constraint": "constraints | critical",
        "permission": "constraints | high",
        "open": "task_progress | high",
    }
    lines = verbatim(must, approvals, text).splitlines()[1:]
    split = (line.removeprefix("- ").split(": ", 1) for line in lines)
    return "\n".join(f"{kind[label]} | {said}" for label, said in split)


def notes_form(text: str) -> str:
    """What is wrong with the form of notes, or nothing."""
    wrong = [line for line in text.splitlines() if line.strip() and not NOTE.match(line.strip())]
    return f"not a note: {wrong[0][:80]}" if wrong else ""


def first_sentence(text: str, limit: int) -> str:
    """The beginning of a text as one line."""
    first = next(sentences(text), "")
    line = " ".join(first.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _candidates(passages: Sequence[SourceMessage], must: Facts) -> Iterator[tuple[str, str]]:
    for passage in passages:
        where = f" (turn {passage.turn})"
        for sentence in sentences(passage.text):
            section = _section(passage, sentence)
            if section:
                yield section, " ".join(sentence.split()) + where
        if passage.speaker == "user":
            yield "Asked", first_sentence(passage.text, 200) + where
        elif passage.speaker == "tool":
            found = passage.finding or first_sentence(passage.text, 160)
            yield "Came of it", f"{passage.name or 'tool'}: {found}{where}"
        elif passage.text:
            yield "Came of it", first_sentence(passage.text, 200) + where
    names = (*must.paths, *must.identifiers, *must.numbers)
    if names:
        yield "Names and numbers", "; ".join(names)


def _section(passage: SourceMessage, sentence: str) -> str:
    if passage.speaker == "user" and is_rule(sentence):
        return "Constraints"
    if passage.speaker != "tool" and is_open(sentence):
        return "Open"
    if passage.speaker != "tool" and is_decision(sentence):
        return "Decisions"
    return "Problems" if is_error(sentence) else ""


def _urgency(candidate: tuple[str, str]) -> int:
    section = candidate[0]
    return -1 if section in _MANDATORY else SECTIONS.index(section)
