"""A conversation in fewer words without a model: what was settled, what came of the work.

Newest first, and made of outcomes: what was found and done, which files changed, how commands
ended, what failed with its line, what is half done. Cheers and intentions are left out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mindstone_tui.core.context.extract import (
    Facts,
    SourceMessage,
    boxes_of,
    first_sentence,
    folded,
    holds,
    is_error,
)
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.language.intent import is_small_talk
from mindstone_tui.core.language.lists import pattern_beside
from mindstone_tui.core.language.sentences import prose, shortened
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements.recogniser import restate
from mindstone_tui.core.statements.register import Register
from mindstone_tui.core.statements.statement import Pointer, Statement, StatementKind

SECTIONS: Final = (
    *("Half done", "Open", "Came of it", "Errors", "Files changed", "Commands", "Asked"),
    "Names and numbers",
)
WORD_FOR_WORD: Final = "Word for word:"
_TITLE_LENGTH: Final = 80
_LINE: Final = 240
_OUTCOMES: Final = 3
"""Sentences of one answer at most."""
_MANDATORY: Final = frozenset({"Half done", "Open", "Names and numbers"})
_SETTLED: Final[dict[StatementKind, tuple[str, str]]] = {
    "rule": ("Rules", "constraints | critical"),
    "correction": ("Corrections", "constraints | critical"),
    "memory": ("To be remembered", "constraints | high"),
    "preference": ("Preferences", "constraints | high"),
    "decision": ("Decisions", "decisions | high"),
    "question": ("Open questions", "task_progress | high"),
    "commitment": ("Promised", "task_progress | high"),
}
"""What each kind of statement is headed by in a summary, and how it is filed as a note."""
_PERHAPS: Final = "Said, perhaps only for that step"
_APPROVALS: Final = "Approvals"
_KIND_OF: Final = {heading: kind for kind, (heading, _) in _SETTLED.items()}
_TURN: Final = pattern_of(r"(?<!\s)\s*\(turn (\d+)(?:; [^)]{0,700})?\)\Z")
_OUTCOME: Final = pattern_beside(__file__, "outcome", re.IGNORECASE)
_INTENDS: Final = pattern_beside(__file__, "intends", re.IGNORECASE)
_WEIGHS: Final = pattern_beside(__file__, "weighs", re.IGNORECASE)
"""What could be done, and what somebody thinks of it, is nothing that was done."""
_LEAST_WORDS: Final = 5


def extract(passages: Sequence[SourceMessage], must: Facts, target: int, count: Count) -> str:
    """What came of the passages, each with its turn, within about `target` tokens.

    What must survive is there even when that takes more; what was settled is left to `verbatim`.
    """
    chosen: dict[str, list[str]] = {section: [] for section in SECTIONS}
    seen: set[str] = set()
    spent = 0
    for section, line in _candidates(passages, must):
        key = folded(line)
        cost = count(line) + 1
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


def _candidates(passages: Sequence[SourceMessage], must: Facts) -> Iterator[tuple[str, str]]:
    yield from (("Half done", one) for one in half_done(passages))
    yield from (("Open", box) for box in dict.fromkeys(boxes_of(passages)))
    names = (*must.paths, *must.identifiers, *must.numbers)
    if names:
        yield "Names and numbers", "; ".join(names)
    touched: set[str] = set()
    for passage in reversed(passages):
        where = f" ({passage.place})"
        if passage.speaker == "assistant":
            for said in outcomes_in(passage.words):
                yield "Came of it", said + where
        elif passage.speaker == "user":
            if not is_small_talk(passage.text):
                yield "Asked", first_sentence(passage.text, _LINE) + where
        else:
            yield from _by_tool(passage, touched, where)


def _by_tool(passage: SourceMessage, touched: set[str], where: str) -> Iterator[tuple[str, str]]:
    action = passage.action
    if action is None:
        if passage.finding or is_error(passage.text):
            found = passage.finding or _error_line(passage.text)
            yield "Came of it", f"{passage.name or 'tool'}: {shortened(found, _LINE)}{where}"
        return
    about = shortened(" ".join(action.about.split()), _LINE)
    if action.error:
        code = f"exit {action.exit}, " if action.exit else ""
        said = shortened(_error_line(action.error), _LINE)
        yield "Errors", f"{about}: {said} ({code}{passage.place}, line {passage.seq})"
    elif action.kind == "change" and about not in touched:
        touched.add(about)
        yield "Files changed", about + where
    elif action.kind == "command":
        code = f" → exit {action.exit}" if action.exit is not None else ""
        yield "Commands", about + code + where


def _error_line(text: str) -> str:
    """The line that says what went wrong, else the last one."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return ([line for line in lines if is_error(line)] or lines or [""])[-1]


def outcomes_in(text: str) -> list[str]:
    """Sentences of an answer that say what was found or done; intentions and cheers are none."""
    said = [
        shortened(" ".join(one.text.split()), _LINE)
        for one in prose(text)
        if one.form != "heading" and not one.text.rstrip(" *_").endswith(("?", ":"))
    ]
    telling = [
        one
        for one in said
        if len(one.split()) >= _LEAST_WORDS and not (_INTENDS.match(one) or _WEIGHS.search(one))
    ]
    return [one for one in telling if _OUTCOME.search(one)][:_OUTCOMES]


def half_done(passages: Sequence[SourceMessage]) -> list[str]:
    """What nobody answered yet, and what failed last and was not done again."""
    found: list[str] = []
    asked = next((one for one in reversed(passages) if one.speaker != "tool"), None)
    if asked is not None and asked.speaker == "user" and not is_small_talk(asked.text):
        found.append(f"not answered: {first_sentence(asked.text, _LINE)} ({asked.place})")
    return found


def titles(passages: Sequence[SourceMessage]) -> str:
    """One line per turn: what was asked."""
    asked: dict[int, str] = {}
    for passage in passages:
        if passage.speaker == "user" or passage.turn not in asked:
            title = first_sentence(passage.text, _TITLE_LENGTH)
            asked[passage.turn] = f"- {passage.place}: {title}"
    return "\n".join(asked.values())


def verbatim(settled: Register, approvals: Sequence[str]) -> str:
    """What was settled and left open, word for word in sections."""
    sections = [
        (heading, [_line_of(one) for one in settled.of(kind)])
        for kind, (heading, _) in _SETTLED.items()
    ]
    sections.append((_PERHAPS, [_line_of(one) for one in settled.perhaps(*_SETTLED)]))
    sections.append((_APPROVALS, [_one_line(said) for said in approvals]))
    blocks = [
        "\n".join([f"{heading}:", *(f"- {line}" for line in lines)])
        for heading, lines in sections
        if lines
    ]
    return "\n".join([WORD_FOR_WORD, *blocks]) if blocks else ""


def _line_of(one: Statement) -> str:
    words = _one_line(one.words)
    if not one.turn and not one.old:
        return words
    old = f"; instead of: {shortened(_one_line(one.old), 200)}" if one.old else ""
    return f"{words} (turn {one.turn}{old.replace(')', ']').replace('(', '[')})"


NEVER_LEFT_OUT: Final = ("rule: ", "correction: ", "memory: ")
"""How what `rules_in` finds begins when it is carried on whatever room there is."""


def rules_in(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a text carries word for word, each with its kind, and the approvals."""
    rules: list[str] = []
    approvals: list[str] = []
    heading = ""
    for line in text.partition(WORD_FOR_WORD)[2].splitlines():
        if not line.startswith("- "):
            heading = line.removesuffix(":")
            continue
        said = line[2:]
        if said.startswith("constraint: "):  # as summaries wrote it before they had sections
            rules.append(f"rule: {said.removeprefix('constraint: ')}")
        elif said.startswith("permission: "):
            approvals.append(said.removeprefix("permission: "))
        elif heading in _KIND_OF:
            rules.append(f"{_KIND_OF[heading]}: {said}")
        elif heading == _PERHAPS:
            rules.append(f"perhaps: {said}")
        elif heading == _APPROVALS:
            approvals.append(said)
    return tuple(rules), tuple(approvals)


def carried(rules: Iterable[str]) -> Register:
    """What an earlier summary carried, as statements again; `rules` as `rules_in` gives them."""
    standing: list[Statement] = []
    for number, rule in enumerate(rules):
        label, _, words = rule.partition(": ")
        kind = next((each for each in _SETTLED if each == label), None)
        sure = label != "perhaps"
        said = words if kind or not sure else rule
        found = _TURN.search(said)
        turn = int(found[1]) if found else 0
        text = _TURN.sub("", said)
        standing.append(restate(kind or "rule", text, Pointer(0, number), turn=turn, sure=sure))
    return Register(standing=tuple(standing))


def _one_line(text: str) -> str:
    return " ".join(text.split())


NOTE: Final = pattern_of(
    r"(?P<category>task_progress|decisions|bugs|constraints|learnings|misc)\s*\|\s*"
    r"(?P<importance>critical|high|normal)\s*\|\s*(?P<text>\S.*)"
)
"""A note on a line of its own: `category | importance | text`."""


def as_notes(passages: Sequence[SourceMessage]) -> str:
    """What failed last and was not mended, a note a line; what was settled is `notes_kept`."""
    latest: dict[str, SourceMessage] = {}
    for passage in passages:
        if passage.action is not None and passage.action.kind == "command":
            latest[passage.action.about] = passage
    return "\n".join(
        f"bugs | high | `{shortened(_one_line(action.about), 120)}` fails: "
        f"{shortened(_error_line(action.error), _LINE)} (turn {one.turn}, line {one.seq})"
        for one in latest.values()
        if (action := one.action) is not None and action.error
    )


def notes_kept(settled: Register, approvals: Sequence[str], text: str) -> str:
    """What was settled and notes do not hold word for word, as notes with their pointers."""
    haystack = folded(text)
    lines = [
        f"{filed} | {_one_line(one.words)} {_pointed(one)}"
        for kind, (_, filed) in _SETTLED.items()
        for one in settled.of(kind)
        if not holds(haystack, folded(one.words))
    ]
    lines += [
        f"constraints | normal | {_PERHAPS}: {_one_line(one.words)} {_pointed(one)}"
        for one in settled.perhaps(*_SETTLED)
        if not holds(haystack, folded(one.words))
    ]
    lines += [f"constraints | high | {_one_line(said)}" for said in approvals]
    return "\n".join(lines)


def _pointed(one: Statement) -> str:
    old = f"instead of: {shortened(_one_line(one.old), 200)}; " if one.old else ""
    return f"({old}turn {one.turn}, line {one.line})"


def notes_form(text: str) -> str:
    """What is wrong with the form of notes, or nothing; a line too many is no reason to refuse."""
    lines = [line for line in text.splitlines() if line.strip()]
    good = [line for line in lines if NOTE.match(line.strip())]
    if 2 * len(good) >= len(lines):
        return ""
    wrong = next(line for line in lines if line not in good)
    return f"not a note: {wrong[:80]}"
