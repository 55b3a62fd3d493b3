"""What a message is after: does it ask, tell, order or correct something, or is it small talk?

Small talk gets nothing, and an order without a question in it is no question. English is told by
expressions of its own, other languages by their small phrases (`data/phrases.txt`); where a
language has no list there, its question marks count.
"""

import re
from functools import cache
from typing import Final, Literal

from mindstone_tui.core.language.clause import content_words, read
from mindstone_tui.core.language.languages import ENGLISH, language_of, small_words
from mindstone_tui.core.language.lists import english, lists_of, pattern_beside
from mindstone_tui.core.language.sentences import parts_of, sentences
from mindstone_tui.core.language.words import fold, stopwords, words_of
from mindstone_tui.core.patterns import pattern_of

Intent = Literal["nothing", "asks", "tells"]

_ASKS: Final = pattern_of(r"((?:\A|\w)[^\w?？؟]*)[?？؟]\W*\Z")
_MARKS: Final = pattern_of(r"[?？؟¿]")
_LAST_SIGNS: Final = 16
"""Characters at the end of a text among which its last question mark stands."""
_LONGEST_SMALL_TALK: Final = 12
_ABOUT_THE_MODEL: Final = pattern_beside(__file__, "about the model", re.IGNORECASE)
_REQUEST: Final = pattern_beside(__file__, "request", re.IGNORECASE)
_QUESTION_WORD: Final = pattern_beside(__file__, "question word", re.IGNORECASE)
_REFERS_TO_THE_PAST: Final = pattern_beside(__file__, "refers to the past", re.IGNORECASE)
_FOR_A_TASK: Final = pattern_beside(__file__, "for a task", re.IGNORECASE)
_TELL_ME: Final = pattern_beside(__file__, "tell me", re.IGNORECASE)
_GREETS: Final = pattern_beside(__file__, "greets")
_ONLY_GREETS: Final = pattern_beside(__file__, "only greets", re.IGNORECASE)
_SAYS_LITTLE: Final = 2
"""Telling words without which a message only goes on with what was said before it."""
_COMMAND_WORDS: Final = 3
_TALK_READ: Final = 4_000
_CORRECTION: Final = pattern_beside(__file__, "correction")
_CORRECTS_WITHIN: Final = 400
"""Characters of a message within which it says that it corrects something."""
_EMOJI: Final = pattern_of(r"u[0-9a-f]{4,5}")
_SENTENCE: Final = pattern_of(r"[^.!?。！？؟;\n]+[.!?。！？؟;]*")
_MARKED: Final = pattern_of(r"[?？؟]")
_GREEK_MARK: Final = pattern_of(r"[;?]\W*$")


def only_asks(text: str) -> bool:
    """Whether a text ends in a question: its answer stands elsewhere, most likely right after."""
    end = text[-_LAST_SIGNS:]
    return ("?" in end or not end.isascii()) and bool(_ASKS.search(end))


def as_statement(text: str) -> str:
    """The text without its question marks: an encoder of sentences finds other questions by them,
    and what is looked for is an answer."""
    return _MARKS.sub(" ", _ASKS.sub(r"\1.", text)).strip()


def is_for_a_task(text: str) -> bool:
    """Whether something was said for the task under way: it ends with it."""
    return bool(_FOR_A_TASK.search(text))


def is_small_talk(text: str) -> bool:
    """Whether a message asks for nothing by itself: a greeting, thanks, a name, a bare yes."""
    if text.startswith("/") and len(text.split()) <= _COMMAND_WORDS:
        return True
    for sentence in sentences(text[:_TALK_READ]):
        if sentence.form == "code":
            return False
        clause = read(sentence.text)
        core = clause.core or clause.whole
        if not _GREETS.match(core) and len(content_words(core)) >= _SAYS_LITTLE:
            return False
    return True


def only_greets(text: str) -> bool:
    """Whether a message is a greeting or thanks and no more: nobody has to answer it."""
    return bool(_ONLY_GREETS.fullmatch(text))


def is_correction(text: str) -> bool:
    """Whether a message sounds like it changes something said before."""
    said = text[:_CORRECTS_WITHIN].lower()
    begins, holds = _correcting()
    # Looked for first, since that costs little.
    if not said.startswith(begins) and not any(words in said for words in holds):
        return False
    return bool(_CORRECTION.search(said))


@cache
def _correcting() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How a correction begins, and what stands in one."""
    known = lists_of("english")
    return tuple(known["corrections begin"]), tuple(known["corrections hold"])


def intent_of(message: str) -> Intent:
    """Whether a message asks for something, tells or orders something, or neither."""
    if not (text := message.strip()) or text[0] in "/!":
        return "nothing"
    if (language := language_of(text)) != ENGLISH:
        return _intent_in(text, language)
    words = _spoken(text)
    small = all(word in english("small talk") or word in stopwords() for word in words)
    if len(words) <= _LONGEST_SMALL_TALK and (small or _ABOUT_THE_MODEL.search(text)):
        return "nothing"
    if _REFERS_TO_THE_PAST.search(text) or _TELL_ME.search(text):
        return "asks"
    parts = [part for part in parts_of(text) if not _REQUEST.search(part)]
    if any(only_asks(part) for part in parts):
        return "asks"
    return "asks" if len(parts) == 1 and _QUESTION_WORD.search(text) else "tells"


def _spoken(text: str) -> list[str]:
    """The words of a message; faces are none."""
    return [word for word in words_of(text) if not _EMOJI.fullmatch(word)]


# Other languages than English


def _intent_in(text: str, language: str) -> Intent:
    """Whether a message in another language asks, tells or orders something, or neither."""
    if _is_talk_in(text, language):
        return "nothing"
    lowered = text.lower()
    if _has("past", language, lowered):
        return "asks"
    parts = [part.strip() for part in _SENTENCE.findall(lowered) if part.strip()]
    asking = [part for part in parts if _asks(part, language)]
    if any(_MARKED.search(part) for part in asking):
        return "asks"
    return "asks" if asking and len(parts) == 1 else "tells"


def _is_talk_in(text: str, language: str) -> bool:
    if phrases := _phrases("small phrases", language):
        return not any(map(str.isalnum, phrases.sub("", text)))
    words = _spoken(text)
    return len(words) <= _LONGEST_SMALL_TALK and _small_talk(language).issuperset(words)


def _asks(sentence: str, language: str) -> bool:
    """Whether a sentence asks for something that may have been said; a request does not."""
    plain = sentence.lstrip(" ¿«\"'“„(،,")
    if _begins("requests", language, plain) or _has("wishes", language, sentence):
        return False
    if _MARKED.search(sentence) or (language == "el" and _GREEK_MARK.search(sentence)):
        return True
    return _begins("questions", language, plain) or _has("anywhere", language, sentence)


def _has(what: str, language: str, text: str) -> bool:
    phrases = _phrases(what, language)
    return phrases is not None and phrases.search(text) is not None


def _begins(what: str, language: str, text: str) -> bool:
    """Whether a text begins with one of the phrases, as whole words."""
    phrases = _phrases(what, language, whole=True)
    return phrases is not None and phrases.match(text) is not None


@cache
def _phrases(what: str, language: str, *, whole: bool = False) -> re.Pattern[str] | None:
    """An expression for any of a language's phrases; None where it has no list."""
    if (listed := lists_of("phrases").get(f"{what} {language}")) is None:
        return None
    return re.compile(rf"(?:{'|'.join(listed)})" + (r"\b" if whole else ""))


@cache
def _small_talk(language: str) -> frozenset[str]:
    """The words of small talk as they are indexed, and those that say nothing in a language."""
    talk = (word for text in lists_of("phrases")["small talk"] for word in words_of(text))
    return frozenset((*talk, *map(fold, small_words().get(language, ()))))
