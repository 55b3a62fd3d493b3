"""From messages to statements: one reader for everything that keeps what people settled.

Only a person can set a rule, state a preference, correct, or ask for something to be remembered;
a model may decide, promise or leave a question open; a tool settles nothing. The same message
gives the same statements, on every machine and whatever was said before.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import Final

import msgspec

from mindstone_tui.core.language.clause import (
    Clause,
    after_denial,
    clause_starts,
    content_words,
    read,
)
from mindstone_tui.core.language.content import Content, parts, reason_of
from mindstone_tui.core.language.lists import english, verb
from mindstone_tui.core.language.sentences import Sentence, parts_of, prose, shortened
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements.cues import Cue, cues_in
from mindstone_tui.core.statements.statement import Pointer, Statement, StatementKind, Utterance
from mindstone_tui.core.text_cache import remembers
from mindstone_tui.core.values import shared

LONGEST_WORDS: Final = 600
"""Characters of a statement that are carried along; its pointer leads to the rest."""
_REMEMBERED: Final = 1_024
"""Messages whose statements are known without reading them again."""

_BARE_DENIAL: Final = pattern_of(
    r"(?:no+[,.!]? +)?(?:no+|nope|nah|(?:still |all )?(?:wrong|incorrect|false)"
    r"|not (?:quite|true|correct|right|exactly|so)"
    r"|(?:that|this|it)(?:'s| is| seems)"
    r"(?: just| still| all| simply| also| totally| completely| clearly| plain)?"
    r" (?:wrong|incorrect|false|not (?:right|true|correct|it|what i (?:meant|said|asked for)))"
    r"|you(?:'re| are)(?: still)? (?:wrong|mistaken|missing the point)"
    r"|(?:this|that|these|those|it)(?: [\w.-]+){0,2} (?:is|are|'s|'re|was|were)(?:n't| not) "
    r"what (?:i|we) (?:asked|wanted|meant|said)\b[\w ]{0,40}"
    r"|you(?:'ve)? (?:got|misunderstood|misread)(?: (?:it|that|this|me))?(?: wrong)?)[.!…,\s]*\Z"
)
"""It says that something is wrong, and nothing else: what is right comes next."""
_SAYS: Final = pattern_of(
    r"\b(?:is|are|was|were|be|'s|'re|has|have|had|should|must|needs?|uses?|does|do|goes|listens?"
    r"|runs?|lives?|lies|stays?|works?|there's|it's|that's|won't|can't|isn't|aren't|don't|doesn't"
    r"|we'll|will|means?|stands?|belongs?|called|named|wants?)\b"
    r"|\A(?:the|this|that|it|they|our|my|your|all|both|each|every) \S+ \S+"
)
_FAILS: Final = pattern_of(
    r"\b(?:doesn't|does not|didn't|did not|isn't working|not work\w*|still|errors?|fail\w*|crash\w*"
    r"|blank|empty|broken|nothing|no change|regress\w*|same (?:issue|problem|error|thing)|can't"
    r"|cannot|i get|i see)\b"
)
"""After "no": what went wrong once more, and not what is right."""
_WANTED: Final = pattern_of(
    r"i (?:only |just |really |still )*(?:want(?:ed)?|(?:didn't|did not) (?:ask|want|say|mean)"
    r"|meant|said|asked)\b"
)
_BELIEVES: Final = pattern_of(r"i(?:'m| was| am)? (?:believe|think|talking about)\b")
_NAMES: Final = pattern_of(r"(?:the|that|my) (?!same|other|way)[\w.`/-]+(?: [\w.`/-]+)?[.!]*\Z")
"""After "no": only the thing that was meant."""
_FIRST_PERSON: Final = ("i ", "i'm ", "i've ", "i don't", "i still", "i didn't")
_SHOWS: Final = pattern_of(
    r"\b(?:errors?|output|logs?|trace|warnings?|console|response|prints?)\b[^.]*:\s*\Z"
)
"""What follows is shown, not said, until somebody speaks again."""
_PERSON: Final = pattern_of(
    r"\b(?:i|i'm|i'll|we|we're|we'll|you|please|let's|my|our|don't|shouldn't|instead|want|need)\b"
)
_MYSELF: Final = pattern_of(
    r"\b(?:i|i'm|i'll|i've|i'd|we|we're|we'll|let's|my|our|can you|could you)\b"
)
"""After a line that a program printed, the next is its own unless somebody speaks in it."""
_WHY: Final = pattern_of(r",? (?:because|since|'cause|so that|in order to)\b")
_BEFORE_WHY: Final = 8
_PROPOSES: Final = pattern_of(
    r"if (?:we|i|you|it)\b|what if|should we|seems? (?:like|we|to me|that)|it seems"
    r"|could we|would it"
)
"""A decision that is only thought of."""
_ORDERS: Final = pattern_of(
    r"(?:maybe )?(?:you (?:have|need) to\b"
    r"|(?:read|look|check|try|see|go|modify|fix|add|change|remove) )"
)
_CHEERS: Final = pattern_of(
    r"\b(?:give up|quit(?:ting)?|dreams?|goals|hang in there|proud of|believing|just do it|success"
    r"|keep (?:going|pushing|shining|moving|it up|up the|your (?:head|chin))"
    r"|believe in (?:you|us|me|him|her|them)|cheer(?:ing)?|stay (?:positive|strong|true|motivated)"
    r"|here for you|got this|go for it|(?:stop|bring|hold) you|optimistic|positive|fun|celebrat\w+"
    r"|together|enjoy\w*|take care(?: of (?:your|our)\w+)?[.!]*\Z|care of (?:your|our)sel\w+"
    r"|take breaks)(?:\b|\Z)"
)
_TECHNICAL: Final = pattern_of(
    r"[`_/\\@#]|\d|\w\.\w|\b(?:code|tests?|files?|commits?|branch|api|config|docs?|user|app)\b"
)
"""Encouragement sounds like orders; it binds nobody, unless it is about the work."""
_REPORTED: Final = pattern_of(
    r"\b(?:docs?|documentation|readme|spec|error|article|tutorial|warning|manual|page|guide"
    r"|comment)"
    r" (?:also )?(?:says?|said|states?|claims?|mentions?)\b"
)
"""What a text says, and not the person."""
_POLITE: Final = pattern_of(
    r"(?:can|could|would|will) (?:you|we) (?:please |also |maybe |just )*(?=\w)"
)
_ONLY_OPEN: Final = frozenset({"question", "commitment"})
"""They bind nobody, so that a wrong one costs a line to read."""
_ONE_FACT: Final = 8
"""Words in which somebody gives one thing its right value; longer sentences tell a story."""
_NEEDS_CONTENT: Final = frozenset({"rule", "decision", "preference", "correction", "commitment"})
_MODEL_DEFERS: Final = pattern_of(
    r"\A(?:once|after|when|as soon as) (?:you|we|the|that|this)\b.{3,80}\b(?:i'll|i will)\b"
    r"|\b(?:i'll|i will)\b.{3,80}\b(?:later|tomorrow|afterwards?|next time|in a follow-?up"
    r"|once (?:you|the|we)|when you|as soon as|after you)\b(?! (?:on|step))"
)
_MODEL_DECIDES: Final = pattern_of(
    r"\A(?:final )?decision ?[:–—-]"
    r"|\b(?:i|we)(?:'ve| have)? (?:decided|agreed|settled on|chose|chosen|opted|went with)\b"
)
_MODEL_ASKS: Final = pattern_of(
    r"\bopen (?:question|issue|point)\b|\btbd\b|\bto be (?:decided|determined|clarified)\b"
    r"|\bstill (?:open|undecided|unclear)\b"
)
_CITED: Final = pattern_of(r"(?m)^.*\((?:[^()\n]{1,40}, )?line \d+[^()\n]{0,200}\)$")
"""A row that a model quotes from history, with its line: it was settled there."""
_LOOKED_AT: Final = 200
_PRINTED_OPENS: Final = pattern_of(
    r"[⨯✖❌✗×]|\W*(?:at [\w.<>$]+ ?\(|file \"|traceback\b|error (?:code|\w+ing)\b"
    r"|\[[\w ]{2,20}\]: |\[\d{1,5}\] (?:user|assistant|tool|system)\b"
    r"|[a-z][\w.-]{1,20} --[a-z][\w-]+[ =]"
    r"|failed to \w+ \w+:|\[(?:info|debug|error|warn)\b|(?:info|debug|error|warn(?:ing)?):"
    r"|\d{1,4}[-/]\d{1,2}[-/]\d{1,4}[ t]\d|\[\d\d[:/]|https?://\S+\Z|[$➜❯%#] ?\w+ |line \d+:"
    r"|each child in a list should|the order and size of this array"
    r"|<[/!]?[\w-]+|\"[\w-]+\": |[\w./-]{1,80}:\d+:\d*|[\w./-]{1,80}\.\w{1,4}:\d+\b)"
)
_PRINTED_HOLDS: Final = pattern_of(
    r"(?:error|warning|exception)(?: [a-z]{1,4}\d{2,5})?: |[<>]=?\d+\.\d|\w = \w+\(|</[a-z]"
    r"|[;{}]\s*\Z|=>|:=|&&|\|\||\b(?:const|let|var|def|import|func|class) \w+ ?[=({]"
)
_PASTED: Final = 6_000
"""Characters from which on a message is a paste with words around it."""
_LONGEST_WHOLE: Final = 100_000
_PASTE_HEAD: Final = 1_500
_PASTE_TAIL: Final = 800
_SHOUTED: Final = 30
"""Capitals of a sentence that nobody writes calmly."""
_QUOTES: Final = ('"', "'", "“", "”", "`")
_PRINTED_CALL: Final = pattern_of(r"[\w.]+\(.*\);?\Z")
_PRINTED_PLACE: Final = pattern_of(r"\S:\d+:\d+\W*\Z")
_PRINTED_SIGNS: Final = frozenset(";{}=<>&|:")

_MARK: Final = pattern_of(r"\b(?:DO_NOT_EVICT|IMPORTANT)\b")
"""In capitals, as people write it who mean it."""
_STANDS: Final = frozenset({"rule", "memory", "preference"})
_READ_FOR_RULES: Final = 20_000
"""Characters of a message that are looked at; a longer one is a paste."""

_Verdict = tuple[StatementKind | None, Cue | None]


class StandingInstruction(msgspec.Struct, frozen=True):
    """A sentence that a person may want to keep, what kind it is, and the form it was said in."""

    text: str
    kind: StatementKind
    form: str


def recognise(utterance: Utterance) -> tuple[Statement, ...]:
    """What a message settles or leaves open, in the order in which it says so."""
    if utterance.speaker == "tool" or utterance.imported:
        return ()
    read_out = _by_model if utterance.speaker == "assistant" else _by_person
    return tuple(
        msgspec.structs.replace(
            one, at=Pointer(utterance.line, start + one.at.start), turn=utterance.turn
        )
        for start, text in _ends(utterance.text)
        for one in read_out(text)
    )


def _ends(text: str) -> Iterator[tuple[int, str]]:
    """A text, or of a very long one the words around what was pasted, each with its place.

    The middle of such a text is read by nobody, and cutting it into sentences takes a second.
    """
    if len(text) <= _LONGEST_WHOLE:
        yield 0, text
        return
    yield 0, text[: text.rfind("\n", 0, _PASTE_HEAD) + 1 or _PASTE_HEAD]
    start = text.find("\n", len(text) - _PASTE_TAIL) + 1 or len(text) - _PASTE_TAIL
    if text.count("\n```", 0, start) % 2:  # it stands in a block that was pasted
        closed = text.find("\n```", start)
        start = text.find("\n", closed + 1) if closed >= 0 else -1
    if start >= 0:
        yield start, text[start:]


# A task under way reads the messages since its last checkpoint again after each turn.
@remembers(_REMEMBERED)
def _by_person(text: str) -> tuple[Statement, ...]:
    return tuple(_found(Utterance(speaker="user", text=text, line=0)))


@remembers(_REMEMBERED)
def _by_model(text: str) -> tuple[Statement, ...]:
    own = _CITED.sub(lambda row: " " * len(row[0]), text)
    return tuple(_found(Utterance(speaker="assistant", text=own, line=0)))


def kind_of_sentence(sentence: str) -> StatementKind | None:
    """The kind of one sentence by itself, said by a person."""
    found = recognise(Utterance(speaker="user", text=sentence, line=0))
    return found[0].kind if found else None


def recognise_standing_instruction(text: str) -> StandingInstruction | None:
    """The first sentence of a person's message that is marked or states a lasting rule, if any.

    Similarity finds such sentences badly later ("always use tabs" shares no word with the file that
    is being written), so they are noticed when they are spoken and offered as a pin or a memory.
    """
    for _, part in _ends(text):
        if _MARK.search(part):
            return StandingInstruction(_marked(part), "rule", "IMPORTANT")
    for one in recognise(Utterance(speaker="user", text=text[:_READ_FOR_RULES], line=0)):
        if _is_standing(one):
            return StandingInstruction(one.words, one.kind, one.form)
    return None


def worth_asking_about(text: str, but: Collection[str] = ()) -> StandingInstruction | None:
    """The first sentence of a person's message that they may want to keep, if any.

    A standing instruction, or what sounds like something settled without saying so for certain;
    none of the forms that they were asked about already and did not keep.
    """
    if (rule := recognise_standing_instruction(text)) is not None and rule.form not in but:
        return rule
    for one in recognise(Utterance(speaker="user", text=text[:_READ_FOR_RULES], line=0)):
        if one.form not in but and (not one.sure or _is_standing(one)):
            return StandingInstruction(one.words, one.kind, one.form)
    return None


def _is_standing(one: Statement) -> bool:
    return one.kind in _STANDS and one.lasting and not one.permits


def _marked(text: str) -> str:
    """The sentence that carries the mark; the whole message when the mark stands alone."""
    carrying = next((one for one in parts_of(text) if _MARK.search(one)), "")
    return carrying if re.search(r"\w", _MARK.sub("", carrying)) else text.strip()


def restate(
    kind: StatementKind, words: str, at: Pointer, turn: int = 0, *, sure: bool = True
) -> Statement:
    """A statement that was recognised earlier and is known by its kind and its words."""
    clause = read(words)
    sentence = Sentence(text=words, start=at.start)
    cue = next((one for one in cues_in(clause) if one.kind == kind), None)
    said = Utterance(speaker="user", text=words, line=at.line, turn=turn)
    return msgspec.structs.replace(_statement(kind, cue, sentence, clause, said), sure=sure)


def _found(utterance: Utterance) -> Iterator[Statement]:
    denied = False
    for sentence, clause in _said(utterance):
        if _BARE_DENIAL.match(clause.core):
            denied = utterance.speaker == "user"
            continue
        if denied and sentence.text[:1] in "\"“'>":
            continue  # the words that are denied, quoted; what is right comes after them
        if utterance.speaker == "assistant":
            kind, cue = _of_model(clause), None
        else:
            kind, cue = _of_person(clause, denied)
        denied = False
        if kind is not None and _says_something(kind, clause):
            yield _statement(kind, cue, sentence, clause, utterance)


def _said(utterance: Utterance) -> Iterator[tuple[Sentence, Clause]]:
    """The sentences that somebody said, without those that were pasted."""
    shown = False
    printed = 0
    long = len(utterance.text) > _PASTED
    for sentence in prose(utterance.text):
        if long and _PASTE_HEAD < sentence.start < len(utterance.text) - _PASTE_TAIL:
            continue
        if _is_quoted(sentence.text):
            continue
        if _is_printed(sentence.text):
            printed = sentence.end
            continue
        clause = read(sentence.text)
        follows = (
            printed
            and sentence.form == "prose"
            and "\n\n" not in utterance.text[printed : sentence.start]
        )
        if _is_shouted(sentence.text) or (shown and not _PERSON.search(clause.whole)):
            continue
        if follows and not _MYSELF.search(clause.whole):
            continue
        printed = 0
        shown = bool(_SHOWS.search(clause.whole))
        yield sentence, clause


def _of_person(clause: Clause, denied: bool) -> _Verdict:
    if clause.denies:
        return _after_no(clause)
    cue = next(_fitting(_without_reason(clause)), None) or next(_fitting(clause), None)
    kind = cue.kind if cue is not None else None
    if kind == "decision" and _PROPOSES.match(clause.core):
        return None, None
    if denied and kind not in ("decision", "commitment", "memory"):
        says = len(clause.words) >= 3 and not clause.asks and _SAYS.search(clause.core)
        if says:
            sets_right = not _ORDERS.match(clause.core) and not _FAILS.search(clause.core)
            return ("correction", cue) if sets_right else (None, None)
    if kind is None and not clause.asks and clause.stressed:
        return "rule", None
    return kind, cue


def _without_reason(clause: Clause) -> Clause:
    """What is settled, without why: "… because nobody has to run it" is no rule about nobody."""
    why = _WHY.search(clause.core, _BEFORE_WHY)
    if why is None:
        return clause
    core = clause.core[: why.start()]
    return msgspec.structs.replace(clause, core=core, starts=clause_starts(core))


@cache
def _ordered() -> re.Pattern[str]:
    return re.compile(rf"(?:just )?{verb()}\b")


def _after_no(clause: Clause) -> _Verdict:
    """A sentence that begins with no: what is right, what is wanted instead, or only a report."""
    rest = after_denial(clause.core)
    shorter = msgspec.structs.replace(clause, core=rest, starts=clause_starts(rest))
    cue = next(_fitting(shorter), None)
    if cue is not None and cue.kind in ("decision", "memory", "preference", "question"):
        return cue.kind, cue
    wanted = _WANTED.match(rest)
    tells = _SAYS.search(rest) and not _FAILS.search(rest) and not _ORDERS.match(rest)
    ordered = cue is None and _ordered().match(rest) and not _ORDERS.match(rest)
    if _NAMES.match(rest):
        return "correction", None
    if len(rest.split()) >= (2 if ordered else 3) and (wanted or tells or ordered):
        believes = _BELIEVES.match(rest)
        mine = not wanted and not believes and rest.startswith(_FIRST_PERSON)
        return (None, None) if mine else ("correction", None)
    return (cue.kind, cue) if cue is not None else (None, None)


def _fitting(clause: Clause) -> Iterator[Cue]:
    """Cues in their order; a question says little, a polite request means what it asks for."""
    if clause.asks and not clause.core:
        if polite := _POLITE.match(clause.whole):
            asked = read(clause.whole[polite.end() :].rstrip("? "))
            yield from (cue for cue in cues_in(asked) if cue.lasting)
        return
    for cue in cues_in(clause):
        if cue.kind != "question" or not clause.asks or "open" in clause.words:
            yield cue


def _of_model(clause: Clause) -> StatementKind | None:
    """A model's word counts where it binds itself, or names what is open; never as a rule."""
    if clause.asks:
        return None
    if _MODEL_ASKS.search(clause.whole):
        return "question"
    if _MODEL_DECIDES.search(clause.core):
        return "decision"
    promises = any(cue.kind == "commitment" for cue in cues_in(clause))
    return "commitment" if promises and _MODEL_DEFERS.search(clause.whole) else None


def _says_something(kind: StatementKind, clause: Clause) -> bool:
    """Whether anything is left without the words that point elsewhere: "don't do that again"."""
    if _CHEERS.search(clause.whole) and not _TECHNICAL.search(clause.whole):
        return False
    if kind not in _NEEDS_CONTENT:
        return True
    if kind == "rule" and _REPORTED.search(clause.whole):
        return False
    return any(word not in english("vague") for word in content_words(clause.core or clause.whole))


def _statement(
    kind: StatementKind, cue: Cue | None, sentence: Sentence, clause: Clause, utterance: Utterance
) -> Statement:
    about = parts(clause.core or clause.whole, corrects=kind == "correction")
    stressed = bool(clause.stressed & {"NEVER", "ALWAYS"})
    return Statement(
        kind=kind,
        words=shortened(sentence.text, LONGEST_WORDS),
        at=Pointer(utterance.line, sentence.start),
        turn=utterance.turn,
        speaker=utterance.speaker,
        **shared(Content, about),
        reason=reason_of(sentence.text),
        forbids=cue is not None and cue.forbids,
        permits=cue is not None and cue.permits,
        lasting=stressed or (cue is not None and cue.lasting),
        sure=(
            stressed
            or (cue is not None and cue.sure)
            or kind in _ONLY_OPEN
            or (kind == "correction" and _sets_right(clause, about))
            or utterance.speaker == "assistant"
        ),
        form=cue.example if cue is not None else kind,
    )


def _sets_right(clause: Clause, about: Content) -> bool:
    """Whether a correction says what is right, and nothing else: "no, the port is 8081"."""
    return bool(about.slot and about.value) and len(clause.words) <= _ONE_FACT


def _is_shouted(sentence: str) -> bool:
    """Whether somebody only vents: a long sentence in capitals, about nothing in particular."""
    capitals, small = sum(map(str.isupper, sentence)), sum(map(str.islower, sentence))
    return capitals > _SHOUTED and capitals > 4 * small


def _is_quoted(sentence: str) -> bool:
    """Whether a sentence stands in quotes as a whole, or ends a quotation: nobody said it."""
    if sentence.startswith(_QUOTES) and sentence.rstrip(" ,.").endswith(_QUOTES):
        return sentence.count(sentence[0]) <= 2
    return sentence.count('"') == 1 and sentence.endswith(('."', '!"', '?"'))


def _is_printed(sentence: str) -> bool:
    """Whether a program printed a line: nobody said it."""
    start = sentence[:_LOOKED_AT].lower()
    if (
        _PRINTED_OPENS.match(start)
        or _PRINTED_CALL.match(start)
        or _PRINTED_PLACE.search(sentence[-40:])
    ):
        return True
    if not _PRINTED_SIGNS.isdisjoint(start) and _PRINTED_HOLDS.search(start):
        return True
    if start.replace(" ", "").isalpha():
        return False
    return sum(map(str.isalpha, start)) + start.count(" ") < len(start) // 2
