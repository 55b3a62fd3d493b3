"""Does what left the window still come back? A number, or the admission that nobody measured.

Probes are drawn from what left: what people settled, what came of the work and what is open, the
files it was about. Each is asked the way a person would ask, and counts when its fact stands in
what came back within the budget. A question takes what it is about from the sentence's own words;
where they do not name a thing or a deed by themselves, there is none: fewer are better than one
that nobody would ask.

A model may judge what a shorter text still knows: strictly read, unmeasured when in doubt.
Questions are asked of the whole originals, never of their first characters. What the originals
themselves do not answer is left out instead of being counted as agreement.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core import bounded_json, entries, errors, values
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context import digest, extract, prompts
from mindstone_tui.core.context.summary_call import Ask, Count, ask_model, asked_about
from mindstone_tui.core.entries import derived
from mindstone_tui.core.language import intent, sentences
from mindstone_tui.core.language.clause import content_words, read
from mindstone_tui.core.language.lists import lists_in, pattern_beside, verb
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements.statement import Statement, StatementKind

_FILE: Final = Path(__file__).with_name("questions.txt")
_NAME: Final = pattern_of(r"\w[._/-]\w|\d|_|`|[a-z][A-Z]|\A[A-Z]{2,}\Z")
_TYPED: Final = pattern_beside(str(_FILE), "typed")
"""A command, a path of pictures or the head of a paste: nobody talks like that."""
_POLITE: Final = pattern_beside(str(_FILE), "polite")
_REQUEST: Final = pattern_of(r"[,;:!?()…]+(?:\s|\Z)|\.(?:\s|\Z)|\.{2,}|\s[–—-]+\s")
_MOST_WORDS: Final = 7
_LONGEST_REQUEST: Final = 12


@cache
def _words(name: str) -> frozenset[str]:
    """The words of a list in `questions.txt`."""
    return frozenset(word for line in lists_in(_FILE)[name] for word in line.split())


@cache
def _trailing() -> frozenset[str]:
    return (_words("leading") - {"use"}) | _words("trailing")


@cache
def _between() -> re.Pattern[str]:
    """What stands between the parts of a sentence: signs, and words that are about none of them."""
    signs = r"[,;:.!?()\[\]{}<>…|]+(?=\s|\Z)|[\[\](){}|]|\s[–—=-]+>?\s|\.{2,}|…"
    words = "|".join(lists_in(_FILE)["between"])
    return re.compile(rf"{signs}|(?<![\w'-])(?:{words})(?![\w'-])", re.IGNORECASE)


class Matter(msgspec.Struct, metaclass=values.Value, frozen=True):
    """What a sentence is about: a deed with its object, or a thing."""

    words: str
    deed: bool

    @property
    def thing(self) -> str:
        """A deed as what a rule is about: "write code" as "writing code"."""
        if not self.deed:
            return self.words
        verb, _, rest = self.words.partition(" ")
        verb = verb.lower()
        stem = verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb
        doubled = stem[-1] if verb in _words("doubled") else ""
        return f"{stem}{doubled}ing {rest}"


def question_about(one: Statement) -> str:
    """The question whose answer is this statement; empty when its words name nothing."""
    if (about := matter(one.words, subject=one.kind == "correction")) is None:
        return ""
    if one.kind == "commitment":
        return f"Is anybody still going to {about.words}?" if about.deed else ""
    if one.kind == "decision" and one.reason:
        return f"What did we decide about {about.thing}, and why?"
    return f"{_KINDS[one.kind][1]} {about.thing}?"


def question_of_request(said: str) -> str:
    """Ask what came of a request, when it names a deed and what it is done to."""
    core = read(said).whole.rstrip("?!. ")
    polite = _POLITE.match(core)
    asked = core[polite.end() :] if polite else core
    asked = _REQUEST.split(asked, maxsplit=1)[0].strip(" \"'`*-")
    words = asked.split()
    if len(words) < 2 or len(words) > _LONGEST_REQUEST or _TYPED.search(asked):
        return ""
    if not _deed().fullmatch(words[0]) or words[-1] in _trailing() or not _tells_enough(words[1:]):
        return ""
    if not _words("then").isdisjoint(words):
        return ""
    return f"What came of the request to {_as_written(asked, said)}?"


def matter(said: str, *, subject: bool = False) -> Matter | None:
    """What a sentence is about, as somebody would name it; None when no part of it does.

    With `subject`, what is said of its subject is no answer: it is what a question asks for.
    """
    core = (read(said).core or said).replace("`", "").replace('"', "")
    at, ordered = 0, True
    for joint in (*_between().finditer(core), None):
        part = core[at : joint.start() if joint else len(core)].strip(" \"'*-").split()
        said_of = joint is not None and joint[0].lower() in _words("says of")
        words = _trimmed(part)
        deed = words[:1] == part[:1] and ordered and not said_of and (at > 0 or _is_a_deed(words))
        words = _as_written(" ".join(words), said).split()
        if words and _names(words, deed=deed, of_something=said_of):
            return None if subject and deed else Matter(" ".join(words), deed)
        if part and subject:
            return None
        if joint is not None:
            word = joint[0].lower()
            ordered = (
                (ordered and word in _words("carries"))
                or word in _words("orders")
                or word in ("make sure", "be sure")
                or word.endswith("'ll")
            )
            at = joint.end()
    return None


def _names(words: list[str], *, deed: bool, of_something: bool) -> bool:
    """Whether words name a deed with its object, or a thing that somebody knows by them."""
    lowered = [word.lower() for word in words]
    if (
        _TYPED.search(" ".join(words))
        or lowered[0] in _words("tells")
        or not _words("vague").isdisjoint(lowered)
    ):
        return False
    if deed:
        return len(words) > 1 and not lowered[0].endswith(("ing", "ed")) and _tells(words[1:])
    if not _words("told").isdisjoint(lowered[1:]) or (
        lowered[0].endswith("ed") and lowered[1:2] == ["the"]
    ):
        return False
    if len(words) == 1:
        name = _NAME.search(words[0]) is not None or words[0][0].isupper()
        return name and not words[0].isdigit()
    if lowered[0] in _words("kept") and len(words) == 2:
        return of_something and len(words[1]) > 3
    return _tells_enough(words)


def _is_a_deed(words: list[str]) -> bool:
    return bool(words) and _deed().fullmatch(words[0].lower()) is not None


@cache
def _deed() -> re.Pattern[str]:
    return re.compile(verb())


def _trimmed(words: list[str]) -> list[str]:
    """Words without those that only lead to a thing or away from it; a long one ends at a joint."""
    article = ""
    while words and words[0].lower() in _words("leading"):
        article = words[0].lower() if words[0].lower() in _words("kept") else ""
        words = words[1:]
    words = [article, *words] if article and words else words
    if len(words) > _MOST_WORDS:
        joints = [at for at in range(3, _MOST_WORDS) if words[at].lower() in _words("joints")]
        words = words[: joints[-1]] if joints else []
    while words and words[-1].lower() in _trailing():
        words = words[:-1]
    return words


def _tells(words: list[str]) -> bool:
    """Whether one of them carries meaning."""
    telling = content_words(" ".join(words).lower())
    return any(word not in _words("vague") and len(word) > 2 for word in telling)


def _tells_enough(words: list[str]) -> bool:
    """Two words that carry meaning, or a name."""
    telling = [one for one in content_words(" ".join(words).lower()) if one not in _words("vague")]
    return len(telling) > 1 or any(_NAME.search(word) and not word.isdigit() for word in words)


def _as_written(part: str, said: str) -> str:
    """A part of a folded sentence with the capitals that it had; a first word loses its own."""
    if (at := said.lower().find(part.lower())) < 0:
        return part
    found = said[at : at + len(part)]
    first = found.partition(" ")[0]
    return found[:1].lower() + found[1:] if first[1:].islower() and at == 0 else found


GATE: Final = 0.85
"""What a change of prompts or ranking must not fall below."""
PROBES: Final = 20
TOP: Final = 6
_IDENTIFIER: Final = pattern_of(r"[A-Za-z_][\w.-]{4,80}(?:\(\))?")
_DISTINCT: Final = pattern_of(r"[a-z0-9][A-Z]|_|[a-zA-Z]\d|[A-Z]-\d")
"""A name that nobody takes for a plain word."""
_PATH: Final = pattern_of(r"(?:[^/]+/){2,}[^/]+|.*\.\w{1,5}")
_MACHINES: Final = pattern_beside(str(_FILE), "machines")
"""Addresses, hashes, versions and folders of programs: no person asks for them."""
_AT_HOME: Final = pattern_of(r"\A(?:~|/(?:Users|home)/[^/]+|[A-Za-z]:\\Users\\[^\\]+)[/\\]")
_LONGEST_NAMED: Final = 300
"""Characters of a sentence in which a name is talked about; a longer one is a list or a paste."""
_LONGEST_TALK: Final = 1_500
_SPOKEN: Final = 4
"""Words of a sentence in which a name is talked about."""
_NAMES_SHARE: Final = 3
"""One question in so many may be after a name, where there is anything else to ask."""
_MENTIONED: Final = 2
"""Turns in which a model must have used a name before it is asked for."""

ProbeKind = Literal["rule", "correction", "decision", "open", "state", "path", "identifier"]
_KINDS: Final[dict[StatementKind, tuple[ProbeKind, str]]] = {
    "rule": ("rule", "What is the rule about"),
    "preference": ("rule", "What do I prefer about"),
    "memory": ("rule", "What should be remembered about"),
    "correction": ("correction", "What did I correct about"),
    "decision": ("decision", "What did we decide about"),
    "question": ("open", "What is still open about"),
    "commitment": ("open", ""),
}
"""What a statement is a probe of, and how it is asked for; a promise has a question of its own."""


class FidelityProbe(entries.Part):
    """A question whose answer left the window."""

    kind: ProbeKind
    query: str
    expected: str
    seq: int
    turn: int


Recall = Callable[[str, int], Awaitable[Sequence[str]]]
"""`recall(query, k)`: the passages that it brings back, best first; raises a `RecallError`."""


class Fidelity(entries.Part, omit_defaults=False):
    """How much comes back; the score is None when nothing was measured."""

    score: float | None
    asked: int
    found: int
    missed: tuple[FidelityProbe, ...] = ()
    why: str = ""

    def sentence(self) -> str:
        """The number in words."""
        if self.score is None:
            return f"Fidelity is unmeasured: {self.why}."
        return f"Recall brought back {self.found} of {self.asked} probes ({self.score:.0%})."


def draw(passages: extract.Passages, limit: int = PROBES) -> tuple[FidelityProbe, ...]:
    """Probes from what left, the same for the same passages: rules first, then spread evenly.

    Text that only a tool said is left out: nobody asked to keep it.
    """
    talk = [one for one in passages if one.speaker != "tool"]
    found: dict[str, FidelityProbe] = {}
    for probe in (*_settled(talk), *_state(talk), *_probes_of_names(talk)):
        found.setdefault(extract.folded(probe.expected), probe)
    asked: dict[str, FidelityProbe] = {}
    for probe in found.values():
        asked.setdefault(extract.folded(probe.query), probe)
    probes = list(asked.values())
    rules = [one for one in probes if one.kind in ("rule", "correction")][:limit]
    rest = sorted(
        (one for one in probes if one.kind not in ("rule", "correction")), key=lambda one: one.seq
    )
    room = limit - len(rules)
    told = [one for one in rest if one.kind not in ("path", "identifier")]
    named = [one for one in rest if one.kind in ("path", "identifier")]
    chosen = _spread(told, max(room - min(len(named), limit // _NAMES_SHARE), 0))
    chosen += _spread(named, min(room - len(chosen), limit // _NAMES_SHARE if told else room))
    return (*rules, *sorted(chosen, key=lambda one: one.seq))


def _spread(probes: list[FidelityProbe], room: int) -> list[FidelityProbe]:
    """At most so many, evenly from all of them."""
    if len(probes) <= room:
        return probes
    return [probes[at * len(probes) // room] for at in range(room)] if room > 0 else []


def _settled(talk: extract.Passages) -> Iterator[FidelityProbe]:
    """What stands, asked for by what it is about."""
    for one in extract.settled_in(talk).standing:
        if not one.sure or (one.kind == "commitment" and one.speaker != "user"):
            continue  # a model says what it does next all the time
        if question := question_about(one):
            yield FidelityProbe(
                kind=_KINDS[one.kind][0],
                query=question,
                expected=one.words,
                seq=one.line,
                turn=one.turn,
            )


def _state(talk: extract.Passages) -> Iterator[FidelityProbe]:
    """What was done about a request, and what is still on a list."""
    request: extract.SourceMessage | None = None
    for one in talk:
        if one.speaker == "user":
            request = None if intent.is_small_talk(one.text) else one
            continue
        for box in extract.unchecked(one.words)[:1]:
            yield FidelityProbe(
                kind="state",
                query="What is still to be done?",
                expected=box,
                seq=one.seq,
                turn=one.turn,
            )
        done = digest.outcomes_in(one.words)
        if request is not None and done and not done[-1].endswith("…"):
            asked = next((each.text for each in sentences.prose(request.text)), "")
            if question := question_of_request(asked):
                yield FidelityProbe(
                    kind="state", query=question, expected=done[-1], seq=one.seq, turn=one.turn
                )


def _probes_of_names(talk: extract.Passages) -> Iterator[FidelityProbe]:
    """Files and names that people used more than once; plain words and fragments are none."""
    used: dict[str, list[extract.SourceMessage]] = {}
    for one in talk:
        for kind, name in _talked_about(one.words):
            wanted = (
                _PATH.fullmatch(name)
                if kind == "path"
                else _IDENTIFIER.fullmatch(name) and _DISTINCT.search(name)
            )
            if wanted and kind != "number" and not _MACHINES.search(name):
                used.setdefault(_AT_HOME.sub("", name), []).append(one)
    alike: set[str] = set()
    for name, where in used.items():
        pattern = _DIGITS.sub("#", name.rpartition("/")[2])
        if pattern in alike or not _is_known(name, where):
            continue
        alike.add(pattern)  # of mod-16.zip, mod-28.zip and so on, one is enough
        short = name if name.count("/") <= 1 else "/".join(name.rsplit("/", 2)[1:])
        yield FidelityProbe(
            kind="path" if "/" in name or "." in name else "identifier",
            query=f"What did we do with {short}?",
            expected=short,
            seq=where[0].seq,
            turn=where[0].turn,
        )


def _is_known(name: str, where: extract.Passages) -> bool:
    """Whether the person used a name; a file is known, too, that came up again in a later turn."""
    if any(one.speaker == "user" for one in where):
        return True
    return ("/" in name or "." in name) and len({one.turn for one in where}) >= _MENTIONED


def _talked_about(text: str) -> Iterator[tuple[str, str]]:
    """Names in the sentences that somebody said about them, and not in lists and pastes."""
    for sentence in sentences.prose(text) if len(text) <= _LONGEST_TALK else ():
        said = sentence.text
        if len(said) <= _LONGEST_NAMED and len(_WORDS.findall(said)) >= _SPOKEN:
            yield from extract.names_in(said)


_DIGITS: Final = pattern_of(r"\d+")
_WORDS: Final = pattern_of(r"(?<![\w./-])[A-Za-z']{2,}(?![\w./-])")


async def measure(
    probes: Sequence[FidelityProbe],
    recall: Recall,
    count: Count,
    *,
    k: int = TOP,
    budget: int = 2_000,
) -> Fidelity:
    """Ask recall for each probe; a fact counts when it stands within the top k and the budget."""
    if not probes:
        return Fidelity(score=None, asked=0, found=0, why="nothing left that could be asked for")
    missed: list[FidelityProbe] = []
    for probe in probes:
        try:
            passages = await recall(probe.query, k)
        except errors.RecallError as error:
            return Fidelity(score=None, asked=0, found=0, why=error.what)
        if not _comes_back(probe, passages[:k], count, budget):
            missed.append(probe)
    found = len(probes) - len(missed)
    return Fidelity(score=found / len(probes), asked=len(probes), found=found, missed=tuple(missed))


def _comes_back(probe: FidelityProbe, passages: Sequence[str], count: Count, budget: int) -> bool:
    spent = 0
    expected = extract.folded(probe.expected)
    for passage in passages:
        spent += count(passage)
        if spent > budget:
            return False
        if extract.holds(extract.folded(passage), expected):
            return True
    return False


QUESTIONS: Final = 12
LEAST: Final = 3
"""Answerable questions below which no number is given."""
UNANSWERABLE: Final = "UNANSWERABLE"


class Judged(derived.SummaryScore, omit_defaults=False):
    """A score, and which prompts were used for it."""

    prompt_versions: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The number in words."""
        if self.score is None:
            return f"Unmeasured: {self.why.rstrip('.')}."
        return (
            f"{self.consistent} of {self.judged} answers survive in the summary "
            f"({self.score:.0%}); {self.excluded} questions were left out."
        )


class _Unmeasured(Exception):
    """A model's answer cannot be used; says why."""


async def judge(
    ask: Ask,
    original: str,
    shorter: str,
    *,
    questions: int = QUESTIONS,
    within: float = ModelSettings().timeout,
) -> Judged:
    """Ask about the original, answer from both texts, and compare: four calls in all."""
    versions = tuple(
        prompts.load(name).version
        for name in ("judge_questions", "judge_answers", "judge_verdicts")
    )
    try:
        asked = await _list(
            ask, prompts.load("judge_questions").fill(count=questions), original, None, within
        )
        right = await _answers(ask, asked, original, within)
        kept = [n for n, answer in enumerate(right) if not _unanswerable(answer)]
        excluded = len(asked) - len(kept)
        if len(kept) < LEAST:
            raise _Unmeasured(f"the originals answer only {len(kept)} of the questions")
        asked, right = [asked[n] for n in kept], [right[n] for n in kept]
        given = await _answers(ask, asked, shorter, within)
        verdicts = await _verdicts(ask, asked, right, given, within)
    except _Unmeasured as why:
        return Judged(score=None, why=str(why), prompt_versions=versions)
    consistent = sum(
        verdict == "YES" and not _unanswerable(answer)
        for verdict, answer in zip(verdicts, given, strict=True)
    )
    return Judged(
        score=consistent / len(asked),
        consistent=consistent,
        judged=len(asked),
        excluded=excluded,
        prompt_versions=versions,
    )


async def _answers(ask: Ask, asked: Sequence[str], text: str, within: float) -> list[str]:
    numbered = "\n".join(f"{n}. {question}" for n, question in enumerate(asked, 1))
    prompt = prompts.load("judge_answers").fill(questions=numbered)
    return await _list(ask, prompt, text, len(asked), within)


async def _verdicts(
    ask: Ask, asked: Sequence[str], right: Sequence[str], given: Sequence[str], within: float
) -> list[str]:
    rows = [
        {"question": question, "first": first, "second": second}
        for question, first, second in zip(asked, right, given, strict=True)
    ]
    text = msgspec.json.encode(rows).decode()
    said = await _list(ask, prompts.load("judge_verdicts").text, text, len(asked), within)
    if any(verdict not in ("YES", "NO") for verdict in said):
        raise _Unmeasured("a verdict is neither YES nor NO")
    return said


async def _list(ask: Ask, prompt: str, text: str, length: int | None, within: float) -> list[str]:
    """An answer that is exactly a JSON array of that many strings."""
    messages = asked_about(text, prompt, origin="originals")
    reply = await ask_model(ask, "judge", messages, within=within)
    if reply.objection:
        raise _Unmeasured(reply.objection)
    try:
        said = bounded_json.read_as(reply.text, list[str])
    except msgspec.DecodeError as error:
        raise _Unmeasured(f"the answer is no list of texts: {error}") from error
    if not said or (length is not None and len(said) != length):
        raise _Unmeasured(f"{len(said)} answers came back where {length or 'some'} were asked for")
    return said


def _unanswerable(answer: str) -> bool:
    return answer.strip().rstrip(".").upper() == UNANSWERABLE
