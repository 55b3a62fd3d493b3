"""How a request is put to a small model: few words, one form, nothing that it could write wrongly.

What was recalled stands as short numbered notes before the question. Tools are a few lines of text
and a schema that its reply must follow; earlier replies are shown in the same form, so that the
prompt of the next turn begins exactly as this one ended and need not be read again. A reply is read
as it comes, and one that begins to turn in a circle is noticed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import bounded_json, patterns, values
from mindstone_tui.core.entries import Message, Part, Request, ToolSchema
from mindstone_tui.core.language.intent import only_asks
from mindstone_tui.core.language.lists import expression
from mindstone_tui.core.providers import base, dialect
from mindstone_tui.core.providers.guide import provider as guide
from mindstone_tui.core.providers.local_evidence import NOTHING_SAYS_SO, bears_out, unnamed_things
from mindstone_tui.core.providers.local_models import LocalModel

_NOTES: Final = f"""\
Answer the question from the notes. If they do not say what is asked, answer: {NOTHING_SAYS_SO}
Example: The car is red. Question: Who owns the car? -> {NOTHING_SAYS_SO}
Notes:
"""
_ASKED: Final = "\n\nQuestion: "
_LONGEST_NOTE: Final = 1_200
_LONGEST_RESULT: Final = 6_000
_PLAIN: Final = "You are a helpful assistant. Answer briefly."
_PLACE: Final = "You work in "
"""How the head of a prompt says where the program was started."""
_EXAMPLES: Final = values.shipped(
    __file__, "local_prompt.json", tuple[tuple[str, str, dict[str, str]], ...]
)
"""One request for each tool: small models follow examples better than rules."""
TOOLS: Final = tuple(name for name, _, _ in _EXAMPLES)
"""What a small model is offered: more names than these only confuse it."""
_PARAMETERS: Final = {name: tuple(arguments) for name, _, arguments in _EXAMPLES}
"""What of a tool's arguments is shown; the others have defaults that serve."""
ANSWER: Final = "answer"
"""The tool that is none: saying something."""
_FORM: Final = "Reply with one JSON object that names a tool, as in these examples:\n"
_SPEAK: Final = "they_do"


def _says(what: str) -> re.Pattern[str]:
    return expression(Path(__file__).with_suffix(".txt"), what)


def body_of(request: Request, options: base.Options, model: LocalModel) -> dict[str, Any]:
    """The request as the model's process takes it, with the schema that the reply must follow."""
    tools = offered(request.tools) if model.tools and not options.purpose else []
    messages = _conversation(request, model, as_json=bool(tools))
    if not messages or messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": _PLAIN})
    if tools:
        head = messages[0]["content"]
        messages[0] = {"role": "system", "content": f"{head}\n\n{tool_text(tools)}"}
    body: dict[str, Any] = {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "max_tokens": min(options.max_tokens, model.max_output),
        "temperature": 0.0 if options.temperature is None else options.temperature,
        **{name: value for name, value in dialect.wishes(options).items() if value is not None},
        "repeat_penalty": 1.0 if model.tools else 1.1,
        "cache_prompt": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    if tools:
        usable = [] if needs_no_tool(messages) else _fresh(tools, request.messages)
        shape = {"name": "reply", "strict": True, "schema": reply_schema(usable)}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return body


def offered(tools: Iterable[ToolSchema]) -> list[ToolSchema]:
    """The tools that a small model is shown, in our own order."""
    known = {tool.name: tool for tool in tools}
    return [known[name] for name in TOOLS if name in known]


def _fresh(tools: Sequence[ToolSchema], messages: Sequence[Message]) -> list[ToolSchema]:
    """The tools without the one whose result came last: small models like to ask twice.

    Unless more than one thing was asked for, and it did not ask for the very same one again.
    """
    if messages[-1]["role"] != "tool":
        return list(tools)
    at = max(at for at, each in enumerate(messages) if each["role"] == "user")
    calls = [
        (call["function"]["name"], call["function"]["arguments"])
        for each in messages[at:]
        for call in each.get("tool_calls") or ()
    ]
    if not calls or (
        _says("several").search(guide.text_of(messages[at])) and calls.count(calls[-1]) == 1
    ):
        return list(tools)
    return [tool for tool in tools if tool.name != calls[-1][0]]


def tool_text(tools: Sequence[ToolSchema]) -> str:
    """The tools, each by an example."""
    names = [tool.name for tool in tools]
    lines = [
        f"{said} -> {call_text(name, arguments)}"
        for name, said, arguments in _EXAMPLES
        if name in names
    ]
    result = 'Result of {"tool":"read","path":"a.ini"}: port = 80'
    lines.append(f"{result} -> {call_text(ANSWER, {'text': 'The port is 80.'})}")
    lines.append(f"Hello! -> {call_text(ANSWER, {'text': 'Hello! What can I do?'})}")
    return _FORM + "\n".join(lines)


def needs_no_tool(messages: Sequence[Message]) -> bool:
    """Whether the last message can only be answered, and asks for nothing to be done.

    A question behind notes: they were searched for already, and a small model would rather search
    again than read them. Or something that a person tells: it would rather write it to a file.
    """
    if messages[-1]["role"] != "user":
        return False
    last = guide.text_of(messages[-1])
    if last.startswith(_NOTES):
        return _says("acts").search(last.rpartition(_ASKED)[2]) is None
    tells = _says("tells").match(last) is not None and _says("wishes").search(last) is None
    return tells and _says("acts").search(last) is None


class NoteCheck(Part):
    """What holds an answer against the notes that it must come from."""

    notes: tuple[str, ...]
    """The notes, and what else the window says."""
    question: str

    def bears_out(self, answer: str) -> bool:
        """Whether the answer can have come from there."""
        return bears_out(self.notes, self.question, answer)

    def doubt(self, answer: str) -> str:
        """What the question speaks of and no note names; empty where there is nothing to ask.

        An answer that says that it does not know needs no proof.
        """
        if _says("knows not").search(answer):
            return ""
        return next(iter(unnamed_things(self.notes, self.question)), "")


def check_of(messages: Sequence[Message]) -> NoteCheck | None:
    """The check for an answer to the last message; None where it need not come from notes."""
    if not guide.text_of(messages[-1]).startswith(_NOTES) or not needs_no_tool(messages):
        return None
    notes, _, question = guide.text_of(messages[-1]).removeprefix(_NOTES).rpartition(_ASKED)
    return NoteCheck(notes=(*notes.splitlines(), *_said_before(messages)), question=question)


def doubt_body(notes: Sequence[str], thing: str) -> dict[str, Any]:
    """Asks whether notes speak of a thing by another word; `is_yes` reads the reply."""
    shape = {"anyOf": [_object({_SPEAK: {"const": word}}) for word in ("yes", "no")]}
    examples = [
        each
        for asked, word in (("the stove", "no"), ("the water boiler", "yes"))
        for each in (_speak_of("- The kettle is in the kitchen.", asked), _spoken(word))
    ]
    return {
        "messages": [*examples, _speak_of("\n".join(notes)[-_LONGEST_RESULT:], thing)],
        "stream": True,
        "max_tokens": 12,
        "temperature": 0.0,
        "cache_prompt": True,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": shape},
        },
    }


def is_yes(reply: str) -> bool:
    """Whether such a reply was a yes."""
    return (bounded_json.read_arguments(reply) or {}).get(_SPEAK) == "yes"


def _speak_of(notes: str, thing: str) -> Message:
    return {"role": "user", "content": f"Notes:\n{notes}\nDo the notes speak of {thing}?"}


def _spoken(word: str) -> Message:
    return {"role": "assistant", "content": msgspec.json.encode({_SPEAK: word}).decode()}


def _said_before(messages: Sequence[Message]) -> Iterator[str]:
    """What the window holds beside the notes: an answer may come from there as well.

    Questions are left out, since they say nothing that could be answered with.
    """
    head = guide.text_of(messages[0]).partition(_FORM)[0]
    # Where it works says nothing about anybody, though a folder may be called like somebody.
    yield from (line for line in head.splitlines() if not line.startswith(_PLACE))
    for message in messages[1:-1]:
        text = guide.text_of(message)
        if text.startswith(_NOTES):
            yield text.removeprefix(_NOTES).rpartition(_ASKED)[0]
        elif not only_asks(text):
            yield text


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A reply as the model itself writes it."""
    return msgspec.json.encode({"tool": name, **arguments}).decode()


def reply_schema(tools: Sequence[ToolSchema]) -> dict[str, Any]:
    """What a reply may be: an answer, or one of the tools with exactly its arguments."""
    named = {tool.name: _PARAMETERS[tool.name] for tool in tools} | {ANSWER: ("text",)}
    return {
        "anyOf": [
            _object(
                {"tool": {"const": name}}
                | {parameter: {"type": "string"} for parameter in parameters}
            )
            for name, parameters in named.items()
        ]
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _conversation(request: Request, model: LocalModel, *, as_json: bool) -> list[Message]:
    messages: list[Message] = []
    called: dict[str, str] = {}
    for message in request.messages:
        if guide.is_context(message) and messages and messages[-1]["role"] == "user":
            messages[-1] = _with_notes(messages[-1], guide.text_of(message), model.notes)
            continue
        for call in message.get("tool_calls") or ():
            called[call["id"]] = _call_text(call["function"])
        messages.append(_rendered(message, called, as_json=as_json))
    return messages


def _rendered(message: Message, called: dict[str, str], *, as_json: bool) -> Message:
    text = guide.text_of(message)
    if message["role"] == "tool":
        about = called.get(message.get("tool_call_id", ""), "the tool")
        result = guide.unwrapped(text)[:_LONGEST_RESULT]
        return {"role": "user", "content": f"Result of {about}: {result}"}
    if message["role"] != "assistant" or not as_json:
        return {"role": message["role"], "content": text}
    if calls := message.get("tool_calls") or ():
        return {"role": "assistant", "content": called[calls[0]["id"]]}
    return {"role": "assistant", "content": call_text(ANSWER, {"text": text})}


def _call_text(function: dict[str, Any]) -> str:
    """A call of the conversation in that form, with the arguments that it was shown."""
    name = str(function.get("name", ""))
    arguments = bounded_json.read_arguments(str(function.get("arguments", ""))) or {}
    known = _PARAMETERS.get(name, tuple(arguments))
    return call_text(name, {key: arguments[key] for key in known if key in arguments})


def _with_notes(question: Message, block: str, most: int) -> Message:
    """The question behind what was recalled for it, the best note nearest to it."""
    notes = [passage[:_LONGEST_NOTE] for passage in guide.passages(block)[:most]]
    if not notes:
        return question
    shown = "\n".join(f"- {' '.join(note.split())}" for note in notes)
    return {"role": "user", "content": f"{_NOTES}{shown}{_ASKED}{question['content']}"}


# -- reading its reply ----------------------------------------------------------------------------

_ANSWER: Final = patterns.pattern_of(r'\s*\{\s*"tool"\s*:\s*"answer"\s*,\s*"text"\s*:\s*"')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LONGEST_LOOP: Final = 400
_ENOUGH_LOOPED: Final = 96
"""Characters that a loop must fill before it counts: a short one has to turn often."""
_FEWEST_TURNS: Final = 3
_DRAWN: Final = 600
"""Characters that a loop without letters or digits must fill: rules and tables are drawn so."""


class AnswerReader(msgspec.Struct, eq=False):
    """Turns the JSON of an answer into its text; what is no answer is kept for its end."""

    raw: str = ""
    """Everything the model said, as it said it."""
    _at: int = 0
    """How much of it was turned into text."""
    is_answer: bool = False
    """Whether the model answers, instead of asking for a tool."""
    _ended: bool = False

    def feed(self, piece: str) -> str:
        """More of the answer's text; empty while it is not clear that it is one."""
        self.raw += piece
        if self._ended:
            return ""
        if not self.is_answer:
            if (begun := _ANSWER.match(self.raw)) is None:
                return ""
            self.is_answer, self._at = True, begun.end()
        return self._decode()

    def call(self) -> tuple[str, str] | None:
        """The tool it asks for and its arguments as JSON; None when it does not."""
        if self.is_answer:
            return None
        asked = bounded_json.read_arguments(self.raw)
        if not asked or not isinstance(name := asked.pop("tool", None), str):
            return None
        return name, msgspec.json.encode(asked).decode()

    def _decode(self) -> str:
        """Unescape what can be; an escape that is cut waits for its rest."""
        text: list[str] = []
        raw, at = self.raw, self._at
        while at < len(raw):
            if (sign := raw[at]) == '"':
                self._ended = True
                break
            if sign != "\\":
                text.append(sign)
                at += 1
                continue
            length = _escape_length(raw, at)
            if at + length > len(raw):
                break
            text.append(_unescaped(raw[at : at + length]))
            at += length
        self._at = at
        return "".join(text)


def _escape_length(raw: str, at: int) -> int:
    """How many characters an escape takes: a pair of surrogates is one character."""
    if raw[at + 1 : at + 2] != "u":
        return 2
    code = raw[at + 2 : at + 6].lower()
    is_first_half = len(code) == 4 and "d800" <= code <= "dbff"
    return 12 if is_first_half else 6


def _unescaped(escape: str) -> str:
    if escape[1] != "u":
        return _ESCAPES.get(escape[1], escape[1])
    try:
        return msgspec.json.decode(f'"{escape}"'.encode(), type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "\N{REPLACEMENT CHARACTER}"


class RepetitionWatch(msgspec.Struct, eq=False):
    """Notices when a text has begun to turn in a circle."""

    _tail: str = ""

    def feed(self, piece: str) -> bool:
        """Whether the text, with this at its end, repeats itself."""
        self._tail = (self._tail + piece)[-_LONGEST_LOOP * (_FEWEST_TURNS + 1) :]
        return is_loop(self._tail)


def is_loop(text: str) -> bool:
    """Whether a text ends with the same words again and again."""
    if not text:
        return False
    last_word = next((at for at in range(len(text) - 1, -1, -1) if text[at].isalnum()), -1)
    at = len(text) - 1
    while (at := text.rfind(text[-1], max(0, len(text) - _LONGEST_LOOP - 1), at)) >= 0:
        unit = text[at + 1 :]
        needed = _ENOUGH_LOOPED if last_word > at else _DRAWN
        turns = max(_FEWEST_TURNS, -(-needed // len(unit)))
        if len(unit) * turns <= len(text) and text.endswith(unit * turns):
            return True
    return False
