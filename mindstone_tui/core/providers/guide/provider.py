"""Decides what the guide does with a request, and streams it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.entries import Part, Request, ToolSchema
from mindstone_tui.core.errors import ProviderRefused
from mindstone_tui.core.providers.guide.asking import Wish, arguments_for, wishes
from mindstone_tui.core.providers.guide.reading import (
    HERE,
    Passage,
    Result,
    Situation,
    is_asking,
    overlap,
    passages,
    read,
    terms,
    unwrapped,
)
from mindstone_tui.core.providers.guide.topics import (
    BEYOND,
    GREETING,
    courtesy,
    explanation,
    is_greeting,
    is_work,
)
from mindstone_tui.core.providers.protocol import (
    CallDelta,
    Delta,
    Finished,
    ModelInfo,
    Options,
    Retrying,
    TextDelta,
    Window,
)

GUIDE: Final = "local/guide"
WINDOW: Final = 32_768

_ENOUGH: Final = 0.5
"""Share of a question's words that a passage must hold to be quoted without looking further."""
_QUOTES: Final = 3
_QUOTE_LENGTH: Final = 600
_OUTPUT_LENGTH: Final = 4_000
_QUESTION: Final = re.compile(
    r"\?|\A\s*(?:what|who|whom|whose|when|where|which|why|how|did|do|does|is|are|was|were|can|could|"
    r"tell me|find|search|look for|recall|remind me)\b",
    re.IGNORECASE,
)
_STANDING: Final = re.compile(r"\b(?:always|never|from now on|call me)\b", re.IGNORECASE)
_SAID: Final = "This was said before:"
_CLOSEST: Final = "The closest I found:"
_NOTHING: Final = re.compile(r"\A\W*(?:nothing|no\b|none|0 )", re.IGNORECASE)
_NOT_FOUND: Final = (
    "I found nothing about that in what was said before. I am only the guide and cannot make up an "
    "answer; a language model may know more (`mindstone models`)."
)
_NOTED: Final = (
    "Saved: it stands in the transcript and recall can find it later. I am the guide, not a "
    "language model, so I have nothing to add; ask me about it any time."
)

_LONGEST_QUERY: Final = 1_000
"""Recall refuses a book as a question; the beginning of one finds its topic."""


class Answer(Part):
    """What the guide does: say something, or use tools."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each tool."""


class GuideProvider:
    """Answers by rule, always the same way."""

    def info(self, model: str) -> ModelInfo:
        """The guide costs nothing and says what it is."""
        return ModelInfo(
            name=model,
            window=Window(tokens=WINDOW, label="measured"),
            prompt_price=0.0,
            completion_price=0.0,
            cached_price=0.0,
            note="The built-in guide answers by rule; it is not a language model.",
        )

    async def served_window(self, model: str) -> Window | None:
        """There is no server."""
        return None

    async def stream(self, request: Request, options: Options) -> AsyncIterator[Delta | Retrying]:
        """Answer word by word, or ask for tools."""
        answer = _for_purpose(request, options.purpose) if options.purpose else respond(request)
        for piece in re.findall(r"\s*\S+|\s+\Z", answer.text):
            await asyncio.sleep(0)
            yield TextDelta(text=piece)
        mark = len(request.messages)
        for index, (name, arguments) in enumerate(answer.calls):
            call_id = f"guide_{request.hash[:8]}_{mark}_{index}"
            yield CallDelta(index=index, id=call_id, name=name, arguments=arguments)
        yield Finished(reason="tool_calls" if answer.calls else "stop", model=request.model)

    async def close(self) -> None:
        """Nothing is held."""


def respond(request: Request) -> Answer:
    """The guide's whole behaviour, from one request alone."""
    situation = read(request)
    tools = {tool.name: tool for tool in request.tools}
    if situation.results:
        return Answer(text=_report(situation))
    if is_greeting(situation.question):
        return Answer(text=GREETING)
    if polite := courtesy(situation.question):
        return Answer(text=polite)
    if wanted := wishes(situation.question):
        return _use(wanted, tools)
    if known := explanation(situation.question):
        return Answer(text=known)
    if is_work(situation.question):
        return Answer(text=BEYOND)
    if not _QUESTION.search(situation.question):
        return Answer(text=_acknowledge(situation.question))
    found = _quotable(situation)
    # What stands in the window has no pointer that the guide could see; recall knows it.
    if found and ("recall" not in tools or any(each.pointer != HERE for each in found)):
        return Answer(text=_quote(found, _SAID))
    if "recall" in tools:
        return _use(
            [Wish(tool="recall", values={"query": situation.question[:_LONGEST_QUERY]})], tools
        )
    return Answer(text=_NOT_FOUND)


def _use(wanted: Sequence[Wish], tools: dict[str, ToolSchema]) -> Answer:
    missing = sorted({wish.tool for wish in wanted} - tools.keys())
    if missing:
        return Answer(
            text=f"That needs the tool `{missing[0]}`, which is not offered in this session. "
            "`/tools` lists the ones that are."
        )
    calls = (
        (wish.tool, msgspec.json.encode(arguments_for(wish, tools[wish.tool])).decode())
        for wish in wanted
    )
    return Answer(calls=tuple(calls))


def _acknowledge(statement: str) -> str:
    if _STANDING.search(statement):
        return f"{_NOTED} It sounds like a standing rule: `/pin` keeps it in the window."
    return _NOTED


def _quotable(situation: Situation) -> list[Passage]:
    """What answers the question well enough to be quoted at once, best first."""
    wanted = terms(situation.question)
    scored = [
        (overlap(wanted, passage.text), passage)
        for passage in (*situation.recalled, *situation.earlier)
        if not is_asking(passage.text)
    ]
    good = [(score, passage) for score, passage in scored if score >= _ENOUGH]
    best = max((score for score, _ in good), default=0.0)
    return [passage for score, passage in good if score == best][:_QUOTES]


def _report(situation: Situation) -> str:
    """Say what the tools gave back."""
    return "\n\n".join(
        _recalled(result, situation) if result.name == "recall" else _shown(result)
        for result in situation.results
    )


def _recalled(result: Result, situation: Situation) -> str:
    if _NOTHING.match(unwrapped(result.text)):
        return _from_the_window(situation)
    found = [
        passage
        for passage in passages(result.text)
        if not is_asking(passage.text) and not passage.text.startswith((_SAID, _CLOSEST))
    ]
    wanted = terms(situation.question)
    good = sorted(
        (passage for passage in found if overlap(wanted, passage.text) > 0),
        key=lambda passage: -overlap(wanted, passage.text),
    )
    if good:
        return _quote(good, _SAID)
    return _quote(found, _CLOSEST) if found else _from_the_window(situation)


def _from_the_window(situation: Situation) -> str:
    found = _quotable(situation)
    return _quote(found, _SAID) if found else _NOT_FOUND


def _quote(found: Sequence[Passage], opening: str) -> str:
    quotes = []
    for passage in found[:_QUOTES]:
        body = _shortened(passage.text, _QUOTE_LENGTH).replace("\n", "\n> ")
        quotes.append(f"> {body}" + (f"\n> — {passage.pointer}" if passage.pointer else ""))
    return "\n\n".join([opening, *quotes])


def _shown(result: Result) -> str:
    body = _shortened(unwrapped(result.text).strip("\n"), _OUTPUT_LENGTH)
    said = next((str(value) for value in result.arguments.values()), "")
    title = f"`{result.name} {said}`" if said and "\n" not in said else f"`{result.name}`"
    if not body.strip():
        return f"{title} gave back nothing."
    longest = max((len(run) for run in re.findall(r"`{3,}", body)), default=2)
    fence = "`" * (longest + 1)
    return f"{title}:\n\n{fence}\n{body}\n{fence}"


def _for_purpose(request: Request, purpose: str) -> Answer:
    """A side call: it can quote for a summary; judging is beyond it."""
    if purpose != "summary":
        raise ProviderRefused(
            f"The guide is not a language model and cannot do this: {purpose}.",
            "Name a model for such work: [models] summary in config.toml.",
        )
    said = [line for line in unwrapped(read(request).question).splitlines() if line.strip()]
    lines = [f"- {_shortened(line.strip(), 160)}" for line in said[:24]]
    return Answer(text="\n".join(["Quoted, not summarised:", *lines]))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit].rstrip() + " …"
