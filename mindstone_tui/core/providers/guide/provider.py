"""Decides what the guide does with a request, and streams it.

What it knows about the product are a few lines a topic (`topics.toml`). The words on the screen,
and every number, come from the glossary of the settings in force.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import bounded_json, errors, values
from mindstone_tui.core.config.glossary import Term, glossary
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries import Message, Part, Request, ToolSchema
from mindstone_tui.core.language.lists import expression, lists_in, pattern_beside
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.providers import base
from mindstone_tui.core.statements.recogniser import recognise
from mindstone_tui.core.statements.statement import Utterance

_BLOCK: Final = pattern_of(
    r'<data-(?P<nonce>[0-9a-z]{8,64}) origin="(?P<origin>[^"]*)">\n?'
    r"(?P<text>.*?)\n?</data-(?P=nonce)>",
    re.DOTALL,
)
_PARAGRAPHS: Final = pattern_of(r"\n\s*\n")
_POINTER: Final = pattern_of(r"(?m)^\[(?P<pointer>[^\]\n]*·[^\]\n]*)\][ \t]*\n?")
"""The line above a recalled passage: where it stands, in facts divided by points."""
_NOTE: Final = pattern_of(r"\A(?:\[[^\n]*\]\n\n)+")
"""What the program tells the model before a message: nobody asked that."""


class ToolOutcome(Part):
    """What a tool gave back in this exchange."""

    name: str
    arguments: dict[str, Any]
    text: str


class Situation(Part):
    """One request, read."""

    question: str
    results: tuple[ToolOutcome, ...] = ()


def read(request: Request) -> Situation:
    """Find the question, and what tools answered to it."""
    messages = list(request.messages)
    while len(messages) > 1 and is_context(messages[-1]):
        messages.pop()
    asked = max((at for at, each in enumerate(messages) if each["role"] == "user"), default=-1)
    question = _NOTE.sub("", text_of(messages[asked])) if asked >= 0 else ""
    return Situation(question=question.strip(), results=tuple(_results(messages[asked + 1 :])))


def text_of(message: Message) -> str:
    """A message's text, with pictures left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def passages(text: str) -> list[str]:
    """The quotable pieces of labelled blocks, or of a tool's plain answer: what stands under
    pointers of their own, and paragraphs."""
    found: list[str] = []
    for inside in [block["text"] for block in _BLOCK.finditer(text)] or [text]:
        before, *pointed = _POINTER.split(inside)
        found += [*_PARAGRAPHS.split(before), *pointed[1::2]]
    return [piece.strip() for piece in found if piece.strip()]


def unwrapped(text: str) -> str:
    """A tool's answer without the delimiters around it."""
    return _BLOCK.sub(lambda block: block["text"], text)


def is_context(message: Message) -> bool:
    """Whether a message is a block of labelled data, and nobody's own words."""
    return message["role"] == "user" and _BLOCK.search(text_of(message)) is not None


def _results(messages: list[Message]) -> Iterator[ToolOutcome]:
    asked: dict[str, dict[str, Any]] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            asked[call["id"]] = call["function"]
        if message["role"] == "tool":
            function = asked.get(message.get("tool_call_id", ""), {})
            yield ToolOutcome(
                name=str(function.get("name", "tool")),
                arguments=bounded_json.read_arguments(str(function.get("arguments", ""))) or {},
                text=text_of(message),
            )


class Wish(Part):
    """A tool that was asked for, with what was said about it."""

    tool: str
    values: dict[str, str]


_PATH: Final = r"""(?P<path>"[^"]+"|'[^']+'|`[^`]+`|[^\s"'`]+?)"""
_PLEASE: Final = r"\A\s*(?:please\s+|can you\s+|could you\s+)?"
_END: Final = r"\s*[.?!]?\s*\Z"

_ALSO_CALLED: Final = values.shipped(__file__, "also_called.json", dict[str, tuple[str, ...]])
"""What an argument may be called by the tools that take it."""
_QUOTE_MARKS: Final = "\"'`"


@cache
def _wished() -> list[tuple[str, re.Pattern[str]]]:
    """The tools and the expressions of what is said to want them, in `wishes.txt`."""
    return [
        (tool, re.compile(_PLEASE + filled, re.IGNORECASE | re.DOTALL))
        for tool, expressions in lists_in(Path(__file__).with_name("wishes.txt")).items()
        for said in expressions
        for filled in (said.replace("{path}", _PATH).replace("{end}", _END),)
    ]


def wishes(question: str) -> list[Wish]:
    """The tools a question asks for, in order; several paths mean several calls."""
    for tool, pattern in _wished():
        if found := pattern.match(question):
            values = {
                name: value if name in ("command", "content") else value.strip(_QUOTE_MARKS)
                for name, value in found.groupdict().items()
                if value
            }
            return [Wish(tool=tool, values=values)]
    return _several(question)


def _several(question: str) -> list[Wish]:
    """`read a.txt, b.txt and c.txt` as one wish each."""
    found = re.match(_PLEASE + r"(?:read|cat)\s+(?P<rest>\S.*?)" + _END, question, re.IGNORECASE)
    paths = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", found["rest"]) if found else []
    if len(paths) < 2 or any(re.search(r"\s", path) or not path for path in paths):
        return []
    return [Wish(tool="read", values={"path": path.strip(_QUOTE_MARKS)}) for path in paths]


def arguments_for(wish: Wish, schema: ToolSchema) -> dict[str, Any]:
    """What was said, under the names the tool's schema gives it."""
    properties = schema.parameters.get("properties")
    known: dict[str, Any] = properties if isinstance(properties, dict) else {}
    filled: dict[str, Any] = {}
    for name, value in _with_extras(wish, known).items():
        target = next((each for each in _ALSO_CALLED.get(name, ()) if each in known), name)
        filled[target] = _typed(value, known.get(target))
    required = schema.parameters.get("required")
    for name in required if isinstance(required, list | tuple) else ():
        if name not in filled and (default := _default(known.get(name))) is not None:
            filled[name] = default
    return filled


def _with_extras(wish: Wish, known: dict[str, Any]) -> dict[str, str]:
    """What was said, and what a tool may want to know besides: a title, a source."""
    text = wish.values.get("text", "")
    extras = {"title": " ".join(text.split()[:8])[:80], "source": "the user's own message"}
    return {**{name: it for name, it in extras.items() if text and name in known}, **wish.values}


def _typed(value: str, declared: object) -> object:
    """A number where the schema wants one."""
    wants_number = isinstance(declared, dict) and declared.get("type") == "integer"
    return int(value) if wants_number and value.isdecimal() else value


def _default(declared: object) -> object:
    """A harmless value for a field nobody spoke of: the general choice, or here."""
    if not isinstance(declared, dict):
        return None
    choices = declared.get("enum")
    if isinstance(choices, list | tuple) and choices:
        return "misc" if "misc" in choices else choices[0]
    return declared.get("default", "." if declared.get("type") == "string" else None)


GUIDE: Final = "local/guide"
WINDOW: Final = 32_768

_MARKER: Final = pattern_of(r"[<‹]/?data-[0-9a-z]{8,64}\b[^>›\n]*[>›]\n?")
"""What is left of a block's delimiter when the block was cut."""
_OUTPUT_LENGTH: Final = 4_000
_TOPICS: Final = Path(__file__).with_name("topics.txt")
_QUESTION: Final = pattern_beside(str(_TOPICS), "question", re.IGNORECASE)
_STANDING: Final = pattern_of(r"\b(?:always|never|from now on|call me)\b", re.IGNORECASE)
_LINE: Final = pattern_of(r"\A(?P<how>Answer|Nearest): (?P<text>.+?)(?:\n\n|\Z)", re.DOTALL)
"""The line of history that recall found, before the passages: it answers, or only comes near."""
_NO_MATCH: Final = "Nothing in history matches."
"""What recall gives back where it looked and found nothing."""

_LONGEST_QUERY: Final = 1_000
"""Recall refuses a book as a question; the beginning of one finds its topic."""


class GuideAnswer(Part):
    """What the guide does: say something, or use tools."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each tool."""


class GuideProvider:
    """Answers by rule, always the same way."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._words = glossary(settings or Settings())

    def info(self, model: str) -> base.ModelInfo:
        """The guide costs nothing and says what it is."""
        return base.ModelInfo(
            name=model,
            window=base.Window(tokens=WINDOW, label="measured"),
            prompt_price=0.0,
            completion_price=0.0,
            cached_price=0.0,
            note="The built-in guide answers by rule; it is not a language model.",
        )

    async def served_window(self, model: str) -> base.Window | None:
        """There is no server."""
        return None

    async def stream(self, request: Request, options: base.Options) -> base.Streamed:
        """Answer word by word, or ask for tools."""
        answer = (
            _for_purpose(request, options.purpose)
            if options.purpose
            else respond(request, self._words)
        )
        for piece in re.findall(r"\s*\S+|\s+\Z", answer.text):
            await asyncio.sleep(0)
            yield base.TextPart(text=piece)
        mark = len(request.messages)
        for index, (name, arguments) in enumerate(answer.calls):
            call_id = f"guide_{request.hash[:8]}_{mark}_{index}"
            yield base.CallDelta(index=index, id=call_id, name=name, arguments=arguments)
        yield base.Finished(reason="tool_calls" if answer.calls else "stop", model=request.model)

    async def close(self) -> None:
        """Nothing is held."""


def respond(request: Request, words: Sequence[Term]) -> GuideAnswer:
    """The guide's whole behaviour, from one request alone."""
    situation = read(request)
    tools = {tool.name: tool for tool in request.tools}
    if situation.results:
        return GuideAnswer(text=_report(situation, words))
    if not situation.question.strip() or _means("hello").match(situation.question):
        return GuideAnswer(text=guide_texts().greeting)
    if polite := courtesy(situation.question):
        return GuideAnswer(text=polite)
    said = Utterance(speaker="user", text=situation.question, line=0)
    if any(one.kind == "memory" for one in recognise(said)):
        return GuideAnswer(text=guide_texts().proposed)
    if wanted := wishes(situation.question):
        return _use(wanted, tools)
    looks_up = "recall" in tools and not names_mindstone(situation.question)
    if not looks_up and (known := explanation(situation.question, words)):
        return GuideAnswer(text=known)
    asks = _means("noun phrase").match(situation.question) is not None
    if _means("work").match(situation.question) and not asks:
        return GuideAnswer(text=guide_texts().beyond)
    if not (asks or _QUESTION.search(situation.question) or defined(situation.question, words)):
        return GuideAnswer(text=_acknowledge(situation.question))
    if "recall" not in tools:
        return GuideAnswer(text=guide_texts().no_recall)
    return _use([Wish(tool="recall", values={"query": situation.question[:_LONGEST_QUERY]})], tools)


def about_mindstone(request: Request, settings: Settings | None) -> str:
    """What the guide says to a question about MindStone itself; empty to any other message.

    Stricter than the guide is on its own: a language model stands behind, which knows the rest.
    """
    situation = read(request)
    if situation.results or not names_mindstone(situation.question):
        return ""
    known = explanation(situation.question, glossary(settings or Settings()))
    return f"{known}\n\n*— the built-in guide*" if known else ""


def _use(wanted: Sequence[Wish], tools: dict[str, ToolSchema]) -> GuideAnswer:
    if missing := sorted({wish.tool for wish in wanted} - tools.keys()):
        return GuideAnswer(
            text=f"That needs the tool `{missing[0]}`, which is not offered in this session. "
            "`/tools` lists the ones that are."
        )
    calls = (
        (wish.tool, msgspec.json.encode(arguments_for(wish, tools[wish.tool])).decode())
        for wish in wanted
    )
    return GuideAnswer(calls=tuple(calls))


def _acknowledge(statement: str) -> str:
    if _STANDING.search(statement):
        return f"{guide_texts().noted} It sounds like a rule: `/keep` holds it in every prompt."
    return guide_texts().noted


def _report(situation: Situation, words: Sequence[Term]) -> str:
    """Say what the tools gave back."""
    return "\n\n".join(
        _recalled(result, situation.question, words) if result.name == "recall" else _shown(result)
        for result in situation.results
    )


def _recalled(result: ToolOutcome, question: str, words: Sequence[Term]) -> str:
    """What history says; where it is silent, what a word of the product means.

    What it says of a silence holds whatever was said: that is found, and not denied.
    """
    texts, told = guide_texts(), _clean(unwrapped(result.text))
    line = _LINE.match(told)
    if line is not None and line["how"] == "Answer":
        return line["text"]
    if told != _NO_MATCH and not _MARKER.search(result.text):
        return texts.not_looked.format(why=told)
    if known := defined(question, words):
        return known
    if told == _NO_MATCH:
        return texts.not_found
    return texts.unsure.format(nearest=f"Nearest comes: {line['text']}\n\n" if line else "")


def _shown(result: ToolOutcome) -> str:
    body = _shortened(_clean(unwrapped(result.text)), _OUTPUT_LENGTH)
    said = next((str(value) for value in result.arguments.values()), "")
    title = f"`{result.name} {said}`" if said and "\n" not in said else f"`{result.name}`"
    if not body.strip():
        return f"{title} gave back nothing."
    longest = max((len(run) for run in re.findall(r"`{3,}", body)), default=2)
    fence = "`" * (longest + 1)
    return f"{title}:\n\n{fence}\n{body}\n{fence}"


def _for_purpose(request: Request, purpose: str) -> GuideAnswer:
    """A side call: it can quote for a summary; judging is beyond it."""
    if purpose != "summary":
        raise errors.ProviderRefused(
            f"The guide is not a language model and cannot do this: {purpose}.",
            "Name a model for such work: [models] summary in config.toml.",
        )
    said = [line for line in unwrapped(read(request).question).splitlines() if line.strip()]
    lines = [f"- {_shortened(line.strip(), 160)}" for line in said[:24]]
    return GuideAnswer(text="\n".join(["Quoted, not summarised:", *lines]))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit].rstrip() + " …"


def _clean(text: str) -> str:
    """A text without what is left of the delimiters around data."""
    return _MARKER.sub("", text).strip("\n")


class Topic(Part):
    """One thing that can be explained."""

    name: str
    about: str
    """Regular expression of the words that mean it."""
    text: str


class GuideTexts(Part):
    """All of `topics.toml`."""

    greeting: str
    beyond: str
    """Said where only a language model would do."""
    not_found: str
    unsure: str
    not_looked: str
    no_recall: str
    noted: str
    proposed: str
    topics: tuple[Topic, ...]


@cache
def guide_texts() -> GuideTexts:
    """What the guide says, read when it first says something."""
    return msgspec.toml.decode(_TOPICS.with_suffix(".toml").read_bytes(), type=GuideTexts)


@cache
def _openings() -> tuple[str, ...]:
    texts = msgspec.structs.asdict(guide_texts())
    said = [*(topic.text for topic in texts.pop("topics")), *texts.values()]
    said += [f"**{term.word.capitalize()}**: {term.text}" for term in glossary(Settings())]
    return tuple(one.partition("{")[0][:_OPENING] for one in said)


def is_guidance(text: str) -> bool:
    """Whether the guide said this of the program or of itself: it is no part of any history."""
    return text.startswith(_openings()) or text in guide_texts().greeting


COURTESIES: Final = (
    (r"(?:many )?thanks?(?: you)?|thx|cheers|great|nice|perfect|cool", "You are welcome."),
    (r"bye|goodbye|see you|good night", "Goodbye. Everything is saved; I will be here."),
    (r"ok(?:ay)?|yes|no|sure|fine|right|hm+|i see|got it", "All right."),
)
"""What is said out of politeness, and what is said back."""


_OPENING: Final = 28
"""Characters by which a text of the guide is known."""
_WHOLE: Final = 0.7
"""The share of what is asked for that must be a word of the product."""


def _means(what: str) -> re.Pattern[str]:
    return expression(_TOPICS, what)


def names_mindstone(text: str) -> bool:
    """Whether a question is about this program: it names it, its screen, a key or a command."""
    return _means("ours").search(text) is not None


def courtesy(text: str) -> str | None:
    """What to say to a mere politeness; None when it is more than that."""
    for said, reply in COURTESIES:
        if re.fullmatch(
            rf"\W*(?:{said})(?:\W+(?:you|a lot|so much|then))?\W*", text, re.IGNORECASE
        ):
            return reply
    return None


def explanation(text: str, terms: Sequence[Term]) -> str | None:
    """What to say when the question is about the product; None when it is about anything else."""
    uses = (found := _means("defines").match(text)) is not None and found["use"]
    if not _means("explain").match(text) or (not uses and _means("past").search(text)):
        return None
    if _means("screen").search(text):
        return on_the_screen(terms)
    length, answer = _longest_named(text, terms)
    return answer if length else None


def _longest_named(text: str, terms: Sequence[Term]) -> tuple[int, str]:
    """How many characters of a text name a topic or a word of the screen, and what it means."""
    named = [
        *((_length(topic, text), topic.text) for topic in guide_texts().topics),
        *((term.named_in(text), f"**{term.word.capitalize()}**: {term.text}") for term in terms),
    ]
    return max(named, key=lambda each: each[0])


def defined(text: str, terms: Sequence[Term]) -> str | None:
    """What a word means, where a question asks for that or how it is used, and for nothing else."""
    found = _means("defines").match(text)
    if found is None or (not found["rest"] and not found["use"]):
        return None
    rest = found["rest"] or ""
    if rest and _longest_named(rest, terms)[0] < _WHOLE * len(rest):
        return None
    return explanation(text, terms)


def on_the_screen(terms: Sequence[Term]) -> str:
    """Every word of the screen with what it means."""
    parts = ["These are the words on the screen; `?` shows them in the app at any time."]
    for group in dict.fromkeys(term.group for term in terms):
        rows = [f"- **{term.word}**: {term.text}" for term in terms if term.group == group]
        parts.append("\n".join([f"*{group}*", "", *rows]))
    return "\n\n".join(parts)


def _length(topic: Topic, text: str) -> int:
    found = re.search(rf"\b(?:{topic.about})\b", text, re.IGNORECASE)
    return len(found[0]) if found else 0
