"""What holds now: statements in the order they were made, and which of them were superseded.

A later statement retires an earlier one when it says so ("Postgres is rejected; use SQLite"),
gives the same thing another value (a second port), corrects it, takes a prohibition back, or
answers it. Only earlier statements are retired and none comes back, so the relation has no circle
and whatever was superseded twice is superseded for good. Nothing else makes a rule go away: what
gets short room is chosen by kind, and rules, corrections and requests to remember always stay.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec

from mindstone_tui.core.language import replacement, sentences
from mindstone_tui.core.language.replacement import plain
from mindstone_tui.core.language.replacement import replaces as denies
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements import recogniser, statement
from mindstone_tui.core.values import Value

RECENT: Final = 8
"""Messages in which the sentence is looked for that a correction is about."""
_READ: Final = 20_000
"""Characters of one message that are searched for it."""
_PASTED_BEHIND: Final = pattern_of(r"(?:\.{2,}|…) *(?:~|\.{0,2}/)\S+\Z")
PERHAPS: Final = 8
"""Sentences of doubtful meaning that are carried along, as what they are."""
SHARING: Final = 200
"""Newest statements with a word in common that a new one is compared with.

A word that hundreds share does not say which of them is meant.
"""
_SETTLES: Final = frozenset({"rule", "decision", "preference", "correction", "memory"})


class Register(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True, omit_defaults=True):
    """The statements that hold, those that no longer do, and the newest messages."""

    standing: tuple[statement.Statement, ...] = ()
    retired: tuple[statement.Statement, ...] = ()
    recent: tuple[statement.Utterance, ...] = ()

    def of(self, *kinds: str) -> tuple[statement.Statement, ...]:
        """The standing statements of these kinds that leave no doubt, oldest first."""
        return tuple(one for one in self.standing if one.kind in kinds and one.sure)

    def perhaps(self, *kinds: str) -> tuple[statement.Statement, ...]:
        """The newest that only sound like one of these kinds: said, and perhaps for that step."""
        return tuple(one for one in self.standing if one.kind in kinds and not one.sure)[-PERHAPS:]


def advance(register: Register, utterances: Iterable[statement.Utterance]) -> Register:
    """The register after these messages, which follow those that it knows."""
    standing, retired = _Standing(register.standing), list(register.retired)
    recent = list(register.recent)
    for utterance in utterances:
        for found in recogniser.recognise(utterance):
            if standing.has_said(found):
                continue
            new = _pointed(found, recent) if found.kind == "correction" else found
            denied = {at: one.words for at, one in standing.related_to(new) if replaces(new, one)}
            unclear = _unclear(new, denied)
            gone = [at for at in denied if at not in unclear]
            if unclear:
                new = msgspec.structs.replace(new, corrects=None, old="")
            if superseded := [standing.remove(at) for at in gone]:
                new = msgspec.structs.replace(new, supersedes=tuple(one.at for one in superseded))
                retired += superseded
            standing.add(new)
        if utterance.speaker != "tool":
            recent = [*recent[1 - RECENT :], utterance]
    return Register(standing=standing.all(), retired=tuple(retired), recent=tuple(recent))


def settle(utterances: Iterable[statement.Utterance]) -> Register:
    """The register of a whole conversation."""
    return advance(Register(), utterances)


def confirmed(register: Register, line: int, gone: int, words: Collection[str]) -> Register:
    """With the corrections of a line as certain: history records that words of a line are gone.

    What they correct is where it was said first, and not where it was repeated.
    """
    standing, said = list(register.standing), {*map(plain, words)}
    for at, one in enumerate(standing):
        if one.at.line == line and one.kind == "correction":
            first = one.corrects and gone < one.corrects.line and plain(one.old) in said
            corrects = statement.Pointer(gone) if first else one.corrects
            standing[at] = msgspec.structs.replace(one, sure=True, corrects=corrects)
    return msgspec.structs.replace(register, standing=tuple(standing))


def keep(statements: Sequence[statement.Statement], most: int) -> tuple[statement.Statement, ...]:
    """At most so many, in their order: by kind, then the newest.

    What is never dropped stays even where that makes them more.
    """
    ranked = sorted(
        range(len(statements)), key=lambda at: (statement.KINDS.index(statements[at].kind), -at)
    )
    always = [at for at in ranked if statements[at].kind in statement.NEVER_DROPPED]
    room = max(0, most - len(always))
    others = [at for at in ranked if statements[at].kind not in statement.NEVER_DROPPED][:room]
    return tuple(statements[at] for at in sorted({*always, *others}))


def replaces(new: statement.Statement, old: statement.Statement) -> bool:
    """Whether an earlier statement no longer holds once the new one is made."""
    if new.at <= old.at or new.kind not in _SETTLES:
        return False
    if old.kind == "question":
        return _answers(new, old)
    if old.kind not in _SETTLES or old.is_of_task:
        return False
    if old.speaker == "user" != new.speaker:
        return False  # what a person settled ends by a person's word
    return new.corrects == old.at or _takes_back(new, old) or denies(new.words, old.words)


def _unclear(new: statement.Statement, old: dict[int, str]) -> set[int]:
    """Of what a statement denies, that among which it does not tell what it means."""
    meant = replacement.meant_by(new.words, [*old.values()])
    said = (at for place, at in enumerate(old) if place not in meant)
    return {at for at in said if denies(new.words, old[at])}


def _takes_back(new: statement.Statement, old: statement.Statement) -> bool:
    """A permission against its prohibition, or an order against its opposite."""
    mine, theirs = {*new.subject, *new.rejected}, {*old.subject, *old.rejected}
    if not mine or not theirs or old.kind != "rule" or new.kind != "rule":
        return False
    if new.permits != old.permits:
        return new.forbids != old.forbids and (theirs <= mine or mine <= theirs)
    return new.forbids != old.forbids and mine == theirs


def _answers(new: statement.Statement, question: statement.Statement) -> bool:
    """A decision about what a question asked."""
    asked = set(question.subject)
    shared = asked & {*new.subject, *new.rejected}
    return new.kind in ("decision", "rule", "correction") and 2 * len(shared) >= max(1, len(asked))


def _pointed(
    correction: statement.Statement, recent: Sequence[statement.Utterance]
) -> statement.Statement:
    """A correction with the newest sentence that it makes hold no more, judged as recall does.

    Where somebody else repeats it, what is corrected is where it was said first.
    """
    said = [
        (statement.Pointer(one.line, part.start), part.text, one.speaker == "user")
        for one in recent
        for part in sentences.prose(one.text[:_READ])
    ]
    old = ""
    for number in sorted(replacement.meant_by(correction.words, [text for _, text, _ in said])):
        at, text, own = said[number]
        if at < correction.at and (own or not old or plain(old) not in plain(text)):
            correction, old = msgspec.structs.replace(correction, corrects=at), text
    return msgspec.structs.replace(
        correction, old=sentences.shortened(old, recogniser.LONGEST_WORDS)
    )


class _Standing:
    """What stands while messages are read, found by what it says and by its words."""

    def __init__(self, statements: Iterable[statement.Statement]) -> None:
        self._by_number: dict[int, statement.Statement] = {}
        self._said: set[tuple[str, ...]] = set()
        self._by_word: dict[str, dict[int, None]] = {}
        self._next = 0
        for one in statements:
            self.add(one)

    def all(self) -> tuple[statement.Statement, ...]:
        return tuple(self._by_number.values())

    def has_said(self, new: statement.Statement) -> bool:
        return _as_said(new) in self._said

    def related_to(self, new: statement.Statement) -> list[tuple[int, statement.Statement]]:
        """The statements that share a word with a new one, oldest first."""
        numbers: set[int] = set()
        for word in _words_of(new):
            numbers.update(islice(reversed(self._by_word.get(word, {})), SHARING))
        related = {number: self._by_number[number] for number in numbers}
        if new.corrects is not None:
            related |= {at: one for at, one in self._by_number.items() if one.at == new.corrects}
        return sorted(related.items())

    def add(self, one: statement.Statement) -> None:
        self._by_number[self._next] = one
        self._said.add(_as_said(one))
        for word in _words_of(one):
            self._by_word.setdefault(word, {})[self._next] = None
        self._next += 1

    def remove(self, number: int) -> statement.Statement:
        one = self._by_number.pop(number)
        self._said.discard(_as_said(one))
        for word in _words_of(one):
            del self._by_word[word][number]
        return one


def _as_said(one: statement.Statement) -> tuple[str, ...]:
    """What makes two statements one; a message sent again with a path pasted behind it is one."""
    return (one.kind, *_PASTED_BEHIND.sub("", one.words.casefold()).rstrip(" .…!").split())


def _words_of(one: statement.Statement) -> set[str]:
    said = {*one.subject, *one.slot, *one.value, *one.rejected}
    return said | replacement.others_of(said)
