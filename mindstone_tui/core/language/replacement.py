"""Whether a later statement replaces an earlier one, told only where that is certain.

Two texts are compared, sentence by sentence, and nothing is looked up. A statement is replaced
where the later one says what no longer holds ("not 5 seconds", "black is gone"), says that it
changes or corrects something and gives the same thing another value ("standup moved to Friday"), or
states the same attribute of the same thing with another value. What is about something else stands
beside it: invoice 18 and 19, staging and production, yesterday's run and today's. So does all that
is only asked, proposed, quoted or added. Where none of this tells, the answer is no.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from typing import Final

import msgspec

from mindstone_tui.core.language import clause, content, intent, sentences
from mindstone_tui.core.language.lists import english, lists_of, pattern_beside
from mindstone_tui.core.language.words import stopwords
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text_cache import remembers

_READ: Final = 600
"""Characters within which somebody says what has changed."""
_MOST_NEW: Final = 14
_MOST_OLD: Final = 16
"""Telling words of a sentence that says one thing; with more it says several."""
_MOST_ALIKE: Final = 7
"""Telling words of a sentence that says of one thing that it changed, and nothing else."""
_ALIKE: Final = 0.5
"""Share of the shorter sentence's words that both have where they speak of the same thing."""
_SHORTEST_START: Final = 5
_SHORTEST_STEM: Final = 4
_ENDINGS: Final = (
    *("'s", "ments", "ment", "ings", "ing", "ions", "ion", "ers", "er"),
    *("ied", "ies", "ed", "es", "s", "y", "e"),
)
_CALENDAR: Final = frozenset({"day", "month", "time", "date", "number"})

_WORD: Final = pattern_of(r"`?\w[\w.'/@%:+-]*")
_NAMED_BY_NUMBER: Final = pattern_of(r"(?!v\d)[a-z]\w*\d")
_DIGIT: Final = pattern_of(r"\d")
_CLOCK: Final = pattern_of(r"\d{1,2}:\d\d(?:am|pm)?|\d{1,2}(?:am|pm)")
_ORDINAL: Final = pattern_of(r"\d{1,2}(?:st|nd|rd|th)")
_THOUSANDS: Final = pattern_of(r"(?<=\d),(?=\d)")
_STATES: Final = pattern_beside(__file__, "states")
_FORBIDS: Final = pattern_of(r"\b(?:never|don't|do not|avoid|no(?= \w))\b")
_SCOPE: Final = pattern_of(r"\s+(?:in|for|on|inside|within)\s+(?:the |a |an |our |my )?(\w+)")
_UNSURE: Final = pattern_beside(__file__, "unsure")
_ADDS: Final = pattern_beside(__file__, "adds")
_AT_A_TIME: Final = pattern_beside(__file__, "at a time")
_OPENS: Final = pattern_beside(__file__, "opens")
_OWNS_UP: Final = pattern_beside(__file__, "owns up")
_NO_MORE: Final = pattern_of(r"\b(?:any ?more|any longer|no longer|these days|used to)\b")
_CHANGES: Final = pattern_beside(__file__, "changes")
_HENCEFORTH: Final = pattern_beside(__file__, "henceforth")
_DENIES: Final = pattern_beside(__file__, "denies")
_PERMITS: Final = pattern_beside(__file__, "permits")
_DENIED: Final = tuple(pattern_beside(__file__, name) for name in ("denied", "left behind"))
_THERE: Final = pattern_of(rf"\b(?:not|instead of|rather than) [\w-]+{_SCOPE.pattern}\W*\Z")
"""At the end of what holds in one place: "npm instead of pnpm in Docker"."""
_ANOTHER: Final = pattern_of(
    r"\b([a-z]+) (\d[\w.-]*(?: again| now)?,? (?:and |but )?(?:not|instead of|rather than) )(\d)"
)
_BUT_NOT: Final = pattern_of(
    r"(?:[,;]|[,;]? (?:and|but)|(?= (?:instead|rather))) (?:not|instead of|rather than) "
    r"(?:(?! (?:in|for|on|inside|within) )[^,;])*\Z"
)
_OF_NO_USE: Final = pattern_beside(__file__, "of no use")


class _Words(msgspec.Struct, frozen=True):
    """The telling words of a sentence, apart from the values that it gives."""

    stems: frozenset[str]
    values: Mapping[str, frozenset[str]]
    """By kind: days, times, dates, months and numbers."""
    labels: frozenset[str]
    """What tells one thing from others of its sort: staging, tomorrow, step 83."""

    counted: frozenset[str]
    """Values that may do the same, by the word before them: check 7."""

    @property
    def given(self) -> frozenset[str]:
        """All values."""
        return frozenset().union(*self.values.values())


def could_replace(text: str) -> bool:
    """Whether a text says anything that could make an earlier one hold no more; cheap."""
    said = [one for _, one in _stated(text)]
    telling = (_OPENS, _CHANGES, _HENCEFORTH, _OWNS_UP, _NO_MORE, _OF_NO_USE, *_DENIED)
    return not _UNSURE.search(" ".join(said)) and any(
        _words(one).values or content.parts(one).slot or any(each.search(one) for each in telling)
        for one in said
    )


def replaces(later: str, earlier: str) -> bool:
    """Whether what was said later makes something that was said earlier hold no more."""
    return bool(replaced_in(later, earlier))


@remembers(16_384)  # The same are compared whenever they are found again.
def replaced_in(later: str, earlier: str) -> tuple[str, ...]:
    """The sentences of what was said earlier that hold no more, as they were said."""
    new = [one for _, one in _stated(later)]
    ends = any(map(_NO_MORE.search, new))  # It says itself that there was something to end.
    old = [(said, _asserted(one)) for said, one in _stated(earlier) if ends or _states(one)]
    if not old or not new or _UNSURE.search(" ".join(new)):
        return ()
    pairs = [(one, following, not at) for at, (one, following) in enumerate(pairwise([*new, ""]))]
    return tuple(
        said
        for said, each in old
        if any(_replaces(one, following, each, first=first) for one, following, first in pairs)
    )


def permits(later: str, earlier: str) -> bool:
    """Whether a text allows what an earlier one forbids, and names most of it."""
    barred = [_words(one).stems for _, one in _stated(earlier) if _FORBIDS.search(one)]
    return any(
        len(_shared(_words(one).stems, stems)) >= max(2, 2 / 3 * len(stems))
        for _, one in _stated(later)
        if _PERMITS.search(one) and not (_DENIES.search(one) or _UNSURE.search(one))
        for stems in barred
    )


def says_more(text: str, gone: Collection[str]) -> bool:
    """Whether a text says something beside the sentences that hold no more, small talk apart."""
    known, said = {*map(plain, gone)}, map(plain, sentences.parts_of(text))
    return any(one not in known and intent.intent_of(one) != "nothing" for one in said)


def left_of(text: str, gone: Collection[str]) -> str:
    """A text without the sentences that hold no more; as it is where it has none of them."""
    known, said = {*map(plain, gone)}, sentences.parts_of(text) if gone else ()
    left = [one for one in said if plain(one) not in known]
    return text if len(left) == len(said) else " ".join(left)


def plain(sentence: str) -> str:
    """A sentence to be compared: in lower case, with one kind of apostrophe."""
    return sentence.replace("’", "'").lower()


def meant_by(later: str, earlier: Sequence[str]) -> set[int]:
    """Which of several statements, by their place, a later one makes hold no more.

    Where it could mean one of several things, such as the timeout of the frontend or that of the
    backend, and does not tell which, none of them.
    """
    every_gone = ([plain(one) for one in replaced_in(later, text)] for text in earlier)
    found = {at: gone for at, gone in enumerate(every_gone) if gone}
    said = plain(later[:_READ])
    denies = found and any(each.search(said) for each in (*_DENIED, _OF_NO_USE, _NO_MORE))
    if denies and _words(said).stems:
        return {*found}  # it says which
    every = [one for gone in found.values() for one in gone]
    clear = (at for at, gone in found.items() if not _parallel(gone, every))
    return {*clear}


def _parallel(some: Sequence[str], every: Sequence[str]) -> bool:
    """Whether statements say the same of other things than some of all do."""
    for one, other in product(some, every):
        mine, its = _words(one), _words(other)
        labels = (mine.labels - its.labels) and (its.labels - mine.labels)
        counted = mine.counted and its.counted and mine.counted.isdisjoint(its.counted)
        subjects = _words(_subject(one)).stems, _words(_subject(other)).stems
        apart = all(subjects) and not (_shared(*subjects) or mine.labels & its.labels)
        if labels or counted or apart or _of_others(one, other):
            return True
    return False


def _states(sentence: str) -> bool:
    """Whether a sentence says how something is or shall be, and not only that somebody is glad."""
    told = _STATES.search(sentence) or ":" in sentence or "=" in sentence
    return bool(told or _words(sentence).values or content.parts(sentence).value)


def _stated(text: str) -> Iterator[tuple[str, str]]:
    """What a text states, as it was said and to be compared; questions state nothing."""
    for part in sentences.parts_of(text[:_READ]):
        if not part.rstrip(" )\"'’!.").endswith(("?", "？", "؟")):
            yield part, _ANOTHER.sub(_numbered_alike, plain(part))


def _numbered_alike(found: re.Match[str]) -> str:
    """ "Room 14, not 12" speaks of room 12."""
    named = found[1] if found[1].removesuffix("s") in english("numbered") else ""
    return f"{found[1]} {found[2]}{named and f'{named} '}{found[3]}"


def _replaces(sentence: str, following: str, earlier: str, *, first: bool) -> bool:
    pair = _pair(sentence, following, earlier)
    if pair is None or _stands_beside(pair):
        return False
    if _HENCEFORTH.search(sentence) and _chooses_another(sentence, earlier):
        return True
    new, old, opens = pair.new, pair.old, pair.opens
    named = len(pair.shared) == len(new.stems)
    if not _states(earlier):  # Any deed can be ended, by whoever names all of it.
        ended = _NO_MORE.search(sentence) and not _DENIES.search(earlier)
        return bool(ended) and named and len(new.stems) > 1 and pair.covers(pair.shared)
    ours, theirs = content.parts(sentence, corrects=opens), content.parts(earlier)
    narrower = bool(ours.slot) and not set(ours.slot) <= {*theirs.slot, *theirs.subject}
    if not narrower and _denies(pair):
        return True
    changes = _CHANGES.search(sentence) is not None
    owns_up = _OWNS_UP.search(f"{sentence} {following}") is not None
    if ours.slot and ours.slot == theirs.slot and ours.value and theirs.value:
        forbids = _FORBIDS.search(sentence) or _FORBIDS.search(earlier)
        framed = _framed(sentence, ours.value) == _framed(earlier, theirs.value)
        same = opens or changes or owns_up or framed
        return same and not forbids and set(ours.value).isdisjoint(theirs.value)
    if (opens and _of_others(sentence, earlier)) or _denies_another_value(sentence, old):
        return False
    shared, least = pair.shared, min(len(new.stems), len(old.stems))
    alike = len(shared) >= 2 and len(shared) >= _ALIKE * least
    clashes = [
        kind
        for kind in {*new.values} & {*old.values}
        if new.values[kind].isdisjoint(old.values[kind])
    ]
    if opens and first:
        # Each with a thing of its own first: the pump and the fan both need volts.
        mine, its = _first_stem(sentence, new), _first_stem(earlier, old)
        label = new.labels & old.labels
        if mine and its and not (label or _shared([mine], old.stems) or _shared([its], new.stems)):
            return False
        # Without a word of the thing, "no, it is 8790" is about whatever was said just before.
        mostly = alike and len(shared) >= _ALIKE * len(new.stems) and pair.covers(shared)
        return mostly or bool(clashes and (shared or label))
    if owns_up:
        return alike or bool(clashes and shared)
    if new.labels - old.labels:
        return False
    alike = alike and pair.covers(shared) and len(new.stems) <= _MOST_ALIKE
    if changes and (alike or (shared and (clashes or _both_dated(new, old)))):
        return True
    if _NO_MORE.search(sentence):
        # "No longer in Docker" says nothing of what is done elsewhere.
        there = named or not _SCOPE.search(sentence)
        return (alike and there) or bool(shared and new.given & old.given)
    return len(clashes) == 1 and _fills_its_place(pair)


def _chooses_another(sentence: str, earlier: str) -> bool:
    """Whether each says to use one of several things, and nothing of where, and not the same."""
    said = [_asserted(each) for each in (sentence, earlier)]
    ours, theirs = ({*content.topic(each)} for each in said)
    return not any(map(_DENIES.search, said)) and any(
        len(mine := ours & things) == len(its := theirs & things) == 1
        and mine != its
        and ours | theirs <= things | beside
        for things, beside in _one_of()
    )


@cache
def _one_of() -> Sequence[tuple[frozenset[str], frozenset[str]]]:
    """Things of which one is used, and the words that say what for."""
    rows = (row.partition(":") for row in lists_of("english")["one of"])
    return [(frozenset(things.split()), frozenset(beside.split())) for things, _, beside in rows]


def others_of(words: Collection[str]) -> frozenset[str]:
    """What nobody uses beside the things that are named."""
    return frozenset().union(*(things for things, _ in _one_of() if not things.isdisjoint(words)))


class _Pair(msgspec.Struct, frozen=True):
    """A later sentence, what follows it, and an earlier one."""

    sentence: str
    following: str
    earlier: str
    new: _Words
    old: _Words
    opens: bool
    """The later one opens as a correction does."""
    shared: Collection[str]
    """Telling words that both have."""

    def covers(self, words: Collection[str]) -> bool:
        """Whether these words are most that the earlier one is about: without a value that holds
        no more, talk of something near says nothing of it."""
        least = 1 / 3 if self.opens else _ALIKE
        return len(words) >= least * len(self.old.stems)


def _pair(sentence: str, following: str, earlier: str) -> _Pair | None:
    """Two sentences to be compared; None where one of them says too much for that."""
    new, old = _words(sentence), _words(earlier)
    opens = _OPENS.match(sentence) is not None
    if opens and len(new.stems) <= 2 and _STATES.search(following):
        new = _together(new, _words(following))  # "No, that was wrong. It is 30 books."
    if len(new.stems) > _MOST_NEW or len(old.stems) > _MOST_OLD:
        return None
    return _Pair(sentence, following, earlier, new, old, opens, _shared(new.stems, old.stems))


def _stands_beside(pair: _Pair) -> bool:
    """Whether the two are of several things, whatever else they say."""
    sentence, earlier, new, old = pair.sentence, pair.earlier, pair.new, pair.old
    apart = (new.labels - old.labels) and (old.labels - new.labels - _denied(earlier).labels)
    if apart and pair.opens and english("told by time").isdisjoint(new.labels | old.labels):
        return True
    if _AT_A_TIME.search(sentence) and _AT_A_TIME.search(earlier):
        return True
    if any(_WORD.findall(earlier).count(value) > 1 for value in _denied(sentence).given):
        return True  # the parser has 2 tests, and the lexer has 2
    others = apart or _ADDS.search(sentence) or _of_others(sentence, earlier)
    return not pair.opens and bool(others)


def _fills_its_place(pair: _Pair) -> bool:
    """Whether the two say the same but for the value."""
    new, old, shared = pair.new, pair.old, pair.shared
    beside_it = len(new.stems) > len(shared) and len(old.stems) > len(shared)
    same = (new.labels, new.counted) == (old.labels, old.counted)
    enough = bool(shared) and len(shared) >= _ALIKE * len(new.stems | old.stems)
    return same and enough and not beside_it and _framed(pair.sentence) == _framed(pair.earlier)


def _is_value(word: str) -> bool:
    """Whether a word gives a value; p95 and b2 are names, and v2 is a version."""
    return bool(_kind(word, _numbers().get(word, word))) and not _NAMED_BY_NUMBER.match(word)


def _framed(sentence: str, value: Collection[str] = ()) -> frozenset[str]:
    """What a sentence says beside the value that it gives: another word makes it another thing.

    The value is the last one: who says the second day or version speaks of it, as with room 12.
    """
    words = (clause.singular(word) for word in _WORD.findall(sentence) if word != "always")
    told = frozenset(word for word in words if word not in stopwords())
    values = {*value} or {word for word in told if _is_value(word)}
    return told - values - english("frame verbs")


def _denies(pair: _Pair) -> bool:
    """Whether a sentence says of something in the earlier one that it is not so, or of no use."""
    sentence, earlier, opens = pair.sentence, pair.earlier, pair.opens
    new, old, shared = pair.new, pair.old, pair.shared
    if dead := _OF_NO_USE.search(sentence):
        what = _words(dead[1])
        if (
            what.given & old.given
            or (_shared(what.stems, old.stems) and len(shared) >= min(2, len(old.stems)))
            or _shared(what.stems, _words(" ".join(content.parts(earlier).value)).stems)
        ):
            return True
    if _DENIES.search(sentence) and _DENIES.search(earlier):
        return False  # Both say no; it may be the same no.
    told = _NO_MORE.search(sentence) or _CHANGES.search(sentence) or _OWNS_UP.search(sentence)
    there = None if opens or told else _THERE.search(earlier)
    if there is not None and not _shared(_words(there[1]).stems, new.stems):
        return False  # What is said for everywhere leaves an exception as it is.
    for found in (found for each in _DENIED for found in each.finditer(sentence)):
        what = _words(found[1])
        if (scope := _SCOPE.match(sentence, found.end())) and not _shared(
            _words(scope[1]).stems, old.stems
        ):
            continue  # It holds no more in one place: "tabs instead of spaces in Makefiles".
        if what.given & old.given:
            said = _unopened(sentence)
            mine, about = _words(_subject(said)).stems, _words(said).stems - what.stems
            # Without a word of the thing, "no, it is 8790, not 8765" is about whatever had it.
            if _shared(mine or about, old.stems) or (not about and (opens or told)):
                return True
        if what.given or (what.labels and what.labels.isdisjoint(old.labels)):
            continue  # It names the value: the unit alone, "volts", is that of many things.
        means = _shared(what.stems, old.stems)
        enough = len({*shared, *means}) >= 2 and len(shared) >= 0.4 * min(
            len(new.stems), len(old.stems)
        )
        clear = len(means) >= 2 or pair.covers({*shared, *means})
        if means and (enough or told or opens) and clear:
            return True
    return False


def _denies_another_value(sentence: str, old: _Words) -> bool:
    """Whether a sentence names the value that holds no more, and the earlier one gave others."""
    denied = _denied(sentence).given
    return bool(denied and old.given) and denied.isdisjoint(old.given)


def _denied(sentence: str) -> _Words:
    """What a sentence says is not so: "floor 5, not floor 3" is about floor 5."""
    found = (found[1] for each in _DENIED for found in each.finditer(sentence))
    return _words(". ".join(found))


def _of_others(sentence: str, earlier: str) -> bool:
    """Whether the two speak of several things: the Lagos and the Osaka cluster, the port and the
    admin port."""
    ours, theirs = (_words(_subject(each)).stems for each in (sentence, earlier))
    shared = _shared(ours, theirs)
    return bool(shared) and len(ours) > len(shared)


def _first_stem(sentence: str, words: _Words) -> str:
    """The first telling word of a sentence, behind what opens it: usually what it is about."""
    said = _WORD.finditer(_unopened(sentence))
    stems = (_stem(found[0].strip(".:'`-/").removesuffix("'s")) for found in said)
    return next((stem for stem in stems if stem in words.stems), "")


def _unopened(sentence: str) -> str:
    """A sentence behind what opens a correction."""
    opening = _OPENS.match(sentence)
    return sentence[opening.end() :] if opening else sentence


def asserted(sentence: str) -> str:
    """The same to be compared with what says no more and no less: "It is 60." and "Correction: it
    is 60, not 30."."""
    return _asserted(plain(sentence)).rstrip(" .!")


def _asserted(sentence: str) -> str:
    """What a correction says is so, without what opens it and what it says is not so."""
    return _BUT_NOT.sub("", _unopened(sentence))


def _subject(sentence: str) -> str:
    """What stands before the verb that states something; of two, "Ana's" only names whose it is."""
    found = (verb for each in (_STATES, _CHANGES) for verb in each.finditer(sentence))
    verbs = sorted(found, key=re.Match.start)
    owner = len(verbs) > 1 and verbs[0][0].endswith("'s")
    return sentence[: verbs[owner].start()].rpartition(": ")[2] if verbs else ""


def _both_dated(new: _Words, old: _Words) -> bool:
    """Whether each says when, in whatever form, and not the same."""
    kinds = {*new.values, *old.values}
    when = bool(new.values and old.values) and kinds <= _CALENDAR and kinds != {"number"}
    return when and new.given.isdisjoint(old.given)


def _together(one: _Words, other: _Words) -> _Words:
    kinds = {*one.values, *other.values}
    empty: frozenset[str] = frozenset()
    values = {kind: one.values.get(kind, empty) | other.values.get(kind, empty) for kind in kinds}
    counted = one.counted | other.counted
    return _Words(one.stems | other.stems, values, one.labels | other.labels, counted)


def _shared(ours: Collection[str], theirs: Collection[str]) -> set[str]:
    """The stems that both have; a longer one that begins like a shorter is the same."""
    return {
        mine
        for mine in ours
        for other in theirs
        if mine == other
        or (
            min(len(mine), len(other)) >= _SHORTEST_START
            and (mine.startswith(other) or other.startswith(mine))
        )
    }


@remembers(4_096)
def _words(sentence: str) -> _Words:
    nothing = english("empty") | stopwords()
    numbered, telling, numbers = english("numbered"), english("told apart"), _numbers()
    stems: set[str] = set()
    labels: set[str] = set()
    counted: set[str] = set()
    values: dict[str, set[str]] = {}
    before = ""
    for found in _WORD.finditer(sentence):
        word = found[0].strip(".:'`-/").removesuffix("'s")
        value = numbers.get(word, _THOUSANDS.sub("", word))
        if (kind := _kind(word, value)) and before in numbered:
            labels.add(f"{before} {value}")
        elif kind:
            values.setdefault(kind, set()).add(value.rstrip("s") if kind == "day" else value)
            if before and not _gives(before):
                counted.add(f"{before} {value}")
            if kind == "number":  # 127.0.0.1:8765 gives the port, too.
                values[kind].update(part for part in value.split(":") if part)
        elif word in telling:
            labels.add(word)
        elif (word not in nothing and len(word) > 2) or found[0].startswith("`"):
            stems.add(_stem(word))
        follows = sentence.startswith(" ", found.end())
        known = word in numbered or _stem(word) in stems
        before = word.removesuffix("s") if follows and known else ""
    kept = {kind: frozenset(found) for kind, found in values.items()}
    return _Words(frozenset(stems), kept, frozenset(labels), frozenset(counted))


@cache
def _numbers() -> Mapping[str, str]:
    """Small numbers by their names."""
    return {word: str(number) for number, word in enumerate(lists_of("english")["numbers"])}


def _gives(word: str) -> bool:
    """Whether the number after a word is its value; else it tells one thing from its like."""
    return word in english("one-valued") or _STATES.fullmatch(word) is not None


def _kind(word: str, value: str) -> str:
    """What kind of value a word is; empty for none."""
    if word.rstrip("s") in english("days"):
        return "day"
    if word in english("months"):
        return "month"
    if not _DIGIT.search(value) or "_" in word:
        return ""
    if _CLOCK.fullmatch(word):
        return "time"
    return "date" if _ORDINAL.fullmatch(word) else "number"


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word
