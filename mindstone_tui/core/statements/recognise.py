"""From messages to statements: one reader for everything that keeps what people settled.

Only a person can set a rule, state a preference, correct or ask for something to be remembered;
a model may decide, promise or leave a question open; a tool settles nothing. The same messages
give the same statements, on every machine and in every order of asking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mindstone_tui.core.statements.clause import Clause, after_denial, from_a_machine, read
from mindstone_tui.core.statements.content import content_words, parts, reason_of
from mindstone_tui.core.statements.cues import Cue, cues_in
from mindstone_tui.core.statements.sentences import Sentence, prose, shortened
from mindstone_tui.core.statements.statement import Pointer, Statement, StatementKind, Utterance

LONGEST_WORDS: Final = 600
"""Characters of a statement that are carried along; its pointer leads to the rest."""
_BARE_DENIAL: Final = re.compile(
    r"\A(?:no+[,.!]? +)?(?:no+|nope|nah|(?:still |all )?(?:wrong|incorrect|false)|not (?:quite|true|correct|right|exactly|so)|(?:that|this|it)(?:'s| is| seems)(?: just| still| all| simply| also)?"
    r" (?:wrong|incorrect|false|not (?:right|true|correct|it|what i (?:meant|said|asked for)))|you(?:'re| are)(?: still)? (?:wrong|mistaken|missing the point)"
    r"|you(?:'ve)? (?:got|misunderstood|misread)(?: (?:it|that|this|me))?(?: wrong)?)[.!…,\s]*\Z"
)
_SAYS: Final = re.compile(
    r"\b(?:is|are|was|were|be|'s|'re|has|have|had|should|must|needs?|uses?|does|do|goes|listens?|runs?|lives?|lies|stays?|works?"
    r"|there's|it's|that's|won't|can't|isn't|aren't|don't|doesn't|we'll|will|means?|stands?|belongs?|called|named|wants?)\b"
    r"|\A(?:the|this|that|it|they|our|my|your|all|both|each|every) \S+ \S+"
)
_FAILS: Final = re.compile(
    r"\b(?:doesn't|does not|didn't|did not|isn't working|not work\w*|still|errors?|fail\w*|crash\w*|blank|empty|broken|nothing"
    r"|no change|regress\w*|same (?:issue|problem|error|thing)|can't|cannot|i get|i see)\b"
)
"""After "no": what went wrong once more, and not what is right."""
_WANTED: Final = re.compile(
    r"i (?:only |just |really |still )*(?:want(?:ed)?|didn't (?:ask|want|say|mean)|did not (?:ask|want|say|mean)|meant|said|asked)\b"
)
_SHOWS: Final = re.compile(
    r"\b(?:errors?|output|logs?|trace|warnings?|console|response|prints?)\b[^.]*:\s*\Z"
)
"""What follows is shown, not said, until somebody speaks again."""
_PERSON: Final = re.compile(r"\b(?:i|i'm|i'll|we|we're|we'll|you|please|let's|my|our|don't|shouldn't|instead|want|need)\b")
_MYSELF: Final = re.compile(
    r"\b(?:i|i'm|i'll|i've|i'd|we|we're|we'll|let's|my|our|can you|could you)\b"
)
"""After a line that a program printed, the next is its own unless somebody speaks in it."""
_GENERIC: Final = frozenset(
    "again time sense work working point part bit day people good great nice better best fucking fuck shit"
    " damn guy yay help mess mistake".split()
)
_PROPOSES: Final = re.compile(
    r"\A(?:if (?:we|i|you|it)\b|what if|should we|seems? (?:like|we|to me|that)|it seems|could we|would it)"
)
"""A decision that is only thought of."""
_ORDERS: Final = re.compile(
    r"(?:maybe )?(?:you (?:have|need) to\b|(?:read|look|check|try|see|go|modify|fix|add|change|remove) )"
)
_CHEERS: Final = re.compile(
    r"\b(?:give up|quit(?:ting)?|dreams?|goals|keep (?:going|pushing|shining|moving|it up|up the|your (?:head|chin))|hang in there|proud of"
    r"|believe in (?:you|us|me|him|her|them)|believing|cheer(?:ing)?|stay (?:positive|strong|true|motivated)|here for you|got this|go for it|(?:stop|bring|hold) you|just do it"
    r"|success|optimistic|positive|fun|celebrat\w+|together|enjoy\w*|take care(?: of (?:your|our)\w+)?[.!]*\Z|care of (?:your|our)sel\w+|take breaks)(?:\b|\Z)"
)
_TECHNICAL: Final = re.compile(r"[`_/\\@#]|\d|\w\.\w|\b(?:code|tests?|files?|commits?|branch|api|config|docs?|user|app)\b")
"""Encouragement sounds like orders; it binds nobody, unless it is about the work."""
_STRESS: Final = frozenset({"ONLY", "NEVER", "ALWAYS", "MUST"})
_REPORTED: Final = re.compile(
    r"\b(?:docs?|documentation|readme|spec|error|article|tutorial|warning|manual|page|guide|comment) (?:also )?(?:says?|said|states?|claims?|mentions?)\b"
)
"""What a text says, and not the person."""
_POLITE: Final = re.compile(
    r"\A(?:can|could|would|will) (?:you|we) (?:please |also |maybe |just )*(?=\w)"
)
_NEEDS_CONTENT: Final = frozenset({"rule", "decision", "preference", "correction", "commitment"})
_ASSISTANT_DEFERS: Final = re.compile(
    r"\A(?:once|after|when|as soon as) (?:you|we|the|that|this)\b.{3,80}\b(?:i'll|i will)\b"
    r"|\b(?:i'll|i will)\b.{3,80}\b(?:later|tomorrow|afterwards?|next time|in a follow-?up|once (?:you|the|we)|when you|as soon as|after you)\b(?! (?:on|step))"
)
_ASSISTANT_DECIDES: Final = re.compile(
    r"\A(?:final )?decision ?[:–—-]|\b(?:i|we)(?:'ve| have)? (?:decided|agreed|settled on|chose|chosen|opted|went with)\b"
)
_ASSISTANT_ASKS: Final = re.compile(
    r"\bopen (?:question|issue|point)\b|\btbd\b|\bto be (?:decided|determined|clarified)\b|\bstill (?:open|undecided|unclear)\b"
)


def recognise(utterance: Utterance) -> tuple[Statement, ...]:
    """What a message settles or leaves open, in the order in which it says so."""
    if utterance.speaker == "tool":
        return ()
    return tuple(_found(utterance))


def recognise_all(utterances: Iterable[Utterance]) -> tuple[Statement, ...]:
    """The statements of many messages; nothing is superseded yet."""
    return tuple(one for utterance in utterances for one in recognise(utterance))


def kind_of_sentence(sentence: str) -> StatementKind | None:
    """The kind of one sentence by itself, said by a person."""
    found = recognise(Utterance(speaker="user", text=sentence, line=0))
    return found[0].kind if found else None


def _found(utterance: Utterance) -> Iterator[Statement]:
    denied = pasted = False
    printed = -1
    for sentence in prose(utterance.text):
        if from_a_machine(sentence.text):
            printed = sentence.end
            continue
        clause = read(sentence.text)
        if (pasted and not _PERSON.search(clause.whole)) or (
            printed >= 0
            and sentence.form == "prose"
            and not _MYSELF.search(clause.whole)
            and "\n\n" not in utterance.text[printed : sentence.start]
        ):
            continue
        printed = -1
        pasted = bool(_SHOWS.search(clause.whole))
        if _BARE_DENIAL.match(clause.core):
            denied = utterance.speaker == "user"
            continue
        if denied and sentence.text[:1] in "\"“'>":
            continue  # the words that are denied, quoted; what is right comes after them
        kind, cue = _judged(clause, utterance, denied)
        denied = False
        if kind is not None and _says_something(kind, clause):
            yield _statement(kind, cue, sentence, clause, utterance)


def _judged(
    clause: Clause, utterance: Utterance, denied: bool
) -> tuple[StatementKind | None, Cue | None]:
    if utterance.speaker == "assistant":
        return _of_assistant(clause), None
    if clause.denies:
        rest = after_denial(clause.core)
        first = next(_fitting(msgspec.structs.replace(clause, core=rest)), None)
        if first is not None and first.kind in ("decision", "memory", "preference", "question"):
            return first.kind, first
        tells = _SAYS.search(rest) and not _FAILS.search(rest) and not _ORDERS.match(rest)
        if len(rest.split()) >= 3 and (tells or _WANTED.match(rest)):
            mine = _first_person(rest) and not _WANTED.match(rest)
            return (None, None) if mine else ("correction", None)
        return (first.kind, first) if first is not None else (None, None)
    first = next(_fitting(clause), None)
    if first is not None and first.kind == "decision" and _PROPOSES.search(clause.core):
        return None, None
    if first is not None and first.kind in ("decision", "commitment", "memory"):
        return first.kind, first
    if denied and not clause.asks and len(clause.words) >= 3 and _SAYS.search(clause.core):
        tells = not _ORDERS.match(clause.core) and not _FAILS.search(clause.core)
        return ("correction", first) if tells else (None, None)
    if first is None and not clause.asks and clause.stressed & _STRESS:
        return "rule", None
    return (first.kind, first) if first is not None else (None, None)


def _fitting(clause: Clause) -> Iterator[Cue]:
    """Cues in their order; a question says little, a polite request means what it asks for."""
    if clause.asks and not clause.core:
        polite = _POLITE.match(clause.whole)
        if polite is None:
            return
        asked = read(clause.whole[polite.end() :].rstrip("? "))
        yield from (cue for cue in cues_in(asked) if cue.lasting)
        return
    for cue in cues_in(clause):
        if cue.kind == "question" and clause.asks and "open" not in clause.words:
            continue
        yield cue


def _of_assistant(clause: Clause) -> StatementKind | None:
    """A model's word counts where it binds itself, or names what is open; never as a rule."""
    if clause.asks:
        return None
    if _ASSISTANT_ASKS.search(clause.whole):
        return "question"
    if _ASSISTANT_DECIDES.search(clause.core):
        return "decision"
    if any(cue.kind == "commitment" for cue in cues_in(clause)):
        return "commitment" if _ASSISTANT_DEFERS.search(clause.whole) else None
    return None


def _first_person(text: str) -> bool:
    return text.startswith(("i ", "i'm ", "i've ", "i don't", "i still", "i didn't"))


def _says_something(kind: StatementKind, clause: Clause) -> bool:
    """Whether anything is left without the words that point elsewhere: "don't do that again"."""
    if _CHEERS.search(clause.whole) and not _TECHNICAL.search(clause.whole):
        return False
    if kind not in _NEEDS_CONTENT:
        return True
    if kind == "rule" and _REPORTED.search(clause.whole):
        return False
    return any(word not in _GENERIC for word in content_words(clause.core or clause.whole))


def _statement(
    kind: StatementKind, cue: Cue | None, sentence: Sentence, clause: Clause, utterance: Utterance
) -> Statement:
    about = parts(clause.core or clause.whole)
    return Statement(
        kind=kind,
        words=shortened(sentence.text, LONGEST_WORDS),
        at=Pointer(utterance.line, sentence.start),
        turn=utterance.turn,
        speaker=utterance.speaker,
        subject=about.subject,
        value=about.value,
        rejected=about.rejected,
        reason=reason_of(sentence.text),
        forbids=cue is not None and cue.forbids,
        lasting=cue is not None and (cue.lasting or bool(clause.stressed & {"NEVER", "ALWAYS"})),
    )
