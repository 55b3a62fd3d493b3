"""Whether the notes bear out what a small model answered from them.

A small model that finds nothing in its notes invents something, in a sentence that sounds like all
the others. So its answer is held against the notes, by counting and comparing alone: what it names
must be named there or in the question, what the question names must be named there, it must say
more than the question did, and both must hold something of the kind that was asked for. What passes
may still be wrong; what does not pass is not shown. English questions only: other languages get no
opinion.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindstone_tui.core.language.languages import ENGLISH, language_of
from mindstone_tui.core.language.lists import expression
from mindstone_tui.core.language.words import fold, plain_words, root, stopwords, tokens_of
from mindstone_tui.core.patterns import pattern_of

NOTHING_SAYS_SO: Final = "I don't know, nothing I have says so."
"""What is said instead of an answer that the notes do not bear out."""
_KINDS: Final = {
    "numbers": ("numbers",),
    "times": ("numbers", "times"),
    "often": ("often",),
    "digits": ("digits",),
    "hours": ("hours",),
}
"""What some questions ask for, and of what notes and an answer must hold something to be one."""
_ASKS_WHO: Final = pattern_of(r"\bwho(?:se|m)?\b", re.IGNORECASE)
_ASKS_WHICH: Final = pattern_of(r"\b(?:which|what) ([^\W\d_]+)", re.IGNORECASE)
_SENTENCE: Final = pattern_of(r"(?:\A|[.!?:]\s+|\n)\W*(\w+)")
_THING: Final = pattern_of(
    r"\b(?:the|an?|my|our|your|his|her|its|their|this|that|these|those) (\w+) (\w+)"
)
_SPOKEN_OF: Final = pattern_of(
    r"\b(?P<whose>the|my|our|your|his|her|their) (?P<words>[^\W\d_]+(?: [^\W\d_]+)?)", re.IGNORECASE
)
_IS_VERB: Final = pattern_of(
    r"(?:ed|en|ing)\Z|\A(?:have|has|had|do|go|run|use|take|need|cost|come|open|close|start|stop|begin"
    r"|end|leave|lie|live|work|get|want|make|look|wear|pay|play|eat|drink|say|mean|last|sleep"
    r"|built|kept|set|sent|sold|made|found|called|like)\Z"
)
_WORD: Final = pattern_of(r"[^\W\d_]+")
_FIGURE: Final = pattern_of(r"\d[\d.,:/-]*\d")
_SHORTEST_NAME: Final = 3


def _says(what: str) -> re.Pattern[str]:
    return expression(Path(__file__).with_suffix(".txt"), what)


def bears_out(notes: Sequence[str], question: str, answer: str) -> bool:
    """Whether an answer can have come from the notes."""
    if not _says("question").search(question) or language_of(question) != ENGLISH:
        return True
    said = fold(f"{' '.join(notes)} {question}")
    if any(name not in said for name in _named(answer, question)):
        return False
    if _says("yes or no").match(question):
        return True
    added = _telling(answer) - _telling(question)
    return (
        bool(added)
        and not _is_of_another(notes, question, added)
        and not _asks_of_another(notes, question)
        and _is_of_the_kind(notes, question, answer)
        and not _only_repeats(question, answer, added)
        and not _names_the_kind_alone(notes, question, answer)
    )


def unnamed_things(notes: Sequence[str], question: str) -> list[str]:
    """What a question speaks of and no note names: "the screen", "our pet".

    The notes may call it otherwise, which no comparing of words can tell.
    """
    if _says("yes or no").match(question) or language_of(question) != ENGLISH:
        return []
    known = {root(word) for word in plain_words(fold(" ".join(notes)))}
    things: list[str] = []
    for found in _SPOKEN_OF.finditer(question):
        words = [word for word in found.group("words").split() if word.lower() not in stopwords()]
        if len(words) > 1 and _IS_VERB.search(words[-1]):
            words.pop()
        named = " ".join(words)
        # "The name of the boat" is looked for in what is said of the boat.
        is_attribute = question[found.start("words") + len(named) :].startswith(" of ")
        if words and not is_attribute and root(fold(words[0])) not in known:
            things.append(f"{found.group('whose')} {named}".lower())
    return things


def _is_of_the_kind(notes: Sequence[str], question: str, answer: str) -> bool:
    """Whether notes and answer hold a number, a time and the like where one was asked for."""
    told, news = (_without_figures_of(question, text) for text in (" ".join(notes), answer))
    return all(
        any(_says(each).search(text) for each in found)
        for kind, found in _KINDS.items()
        if _says(f"asks {kind}").search(question)
        for text in (told, news)
    )


def _only_repeats(question: str, answer: str, added: set[str]) -> bool:
    """Whether an answer names nobody where it was asked who, or no reason where it was why."""
    if _ASKS_WHO.search(question):
        return all(word.isdigit() for word in added)
    if not re.search(r"\bwhy\b", question, re.IGNORECASE) or _says("reason").search(answer):
        return False
    # What is to be explained usually stands last.
    explained = [root(word) for word in plain_words(question) if word not in stopwords()]
    return bool(explained) and explained[-1] in _telling(answer)


def _names_the_kind_alone(notes: Sequence[str], question: str, answer: str) -> bool:
    """Whether it was asked which region, no note speaks of one, and the answer is the region."""
    asked = _ASKS_WHICH.search(question)
    kind = asked.group(1).lower() if asked else ""
    if not kind or root(kind) in _telling(" ".join(notes)):
        return False
    return re.search(rf"\b(?:in|on|at|from|by|with|to|of) (?:the|an?) {kind}\b", answer) is not None


def _asks_of_another(notes: Sequence[str], question: str) -> bool:
    """Whether a question is about somebody or something that no note is about.

    It names what no note names; or what it asks about is called something else wherever it
    occurs: where notes know the staging server, the production server is another one.
    """
    told = fold(" ".join(notes))
    begins = {found.start(1) for found in _SENTENCE.finditer(question)}
    names = (
        fold(found.group())
        for found in _WORD.finditer(question)
        if found.group().istitle()
        and found.start() not in begins
        and len(found.group()) >= _SHORTEST_NAME
        and not _says("date").match(found.group())
    )
    if any(name not in told and name not in stopwords() for name in names):
        return True
    words = Counter(root(word) for word in plain_words(told))
    called = _called(told)
    return any(
        thing in called and name not in words and len(called[thing]) == words[thing]
        for thing, names in _called(fold(question)).items()
        for name in names
    )


def _called(text: str) -> dict[str, list[str]]:
    """What things are called in a text: "the staging server" is a server, called staging."""
    found: dict[str, list[str]] = {}
    for name, thing in _THING.findall(text):
        if name not in stopwords() and thing not in stopwords():
            found.setdefault(root(thing), []).append(root(name))
    return found


def _named(answer: str, question: str) -> set[str]:
    """What an answer names that nobody could know without having read it: figures and names."""
    begins = {found.start(1) for found in _SENTENCE.finditer(answer)}
    found = {fold(figure.group()) for figure in _FIGURE.finditer(answer)}
    found |= {fold(ordinal) for ordinal in _says("ordinal").findall(answer)}
    at = 0
    for token in tokens_of(answer):
        at = answer.index(token, at)
        # A sentence begins with a capital letter anyway, unless it is asked who did something.
        is_name = token[:1].isupper() and (at not in begins or _ASKS_WHO.search(question))
        name = fold(token.removesuffix("'s").removesuffix("’s"))
        if is_name and len(name) >= _SHORTEST_NAME and name not in stopwords():
            found.add(name)
        at += len(token)
    return found


def _without_figures_of(question: str, answer: str) -> str:
    for figure in re.findall(r"\d+", question):
        answer = answer.replace(figure, "")
    return answer


def _is_of_another(notes: Sequence[str], question: str, added: set[str]) -> bool:
    """Whether what an answer says stands only in notes that speak less of what was asked."""
    asked = _telling(question)
    spoken_of = [(len(asked & _telling(note)), bool(added & _telling(note))) for note in notes]
    of_sources = [shared for shared, is_source in spoken_of if is_source]
    return bool(of_sources) and max(of_sources) < max(shared for shared, _ in spoken_of)


def _telling(text: str) -> set[str]:
    """The words that say something, each by its root."""
    return {root(word) for word in plain_words(text) if word not in stopwords()}
