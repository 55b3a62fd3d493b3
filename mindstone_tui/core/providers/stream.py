"""From a provider's chunks to deltas, whatever the chunks look like.

A chunk is a mapping or an object with the fields of an OpenAI stream. Servers leave fields out,
repeat headers, number every call 0 or cut a character in half; none of that may stop a turn or
reach the transcript. Anything with the wrong type is treated as absent.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from mindstone_tui.core import bounded_json, entries, errors, values
from mindstone_tui.core.bounded_json import words_in
from mindstone_tui.core.providers.base import CallDelta, Delta, TextPart, ThinkingPart
from mindstone_tui.core.providers.tool_names import plain_id, valid_name

_NAMES: Final = values.shipped(__file__, "usage_names.json", dict[str, tuple[str, ...]])
"""Under which names providers report each figure; a point leads one level down."""


def usage_of(report: object) -> entries.Usage:
    """The figures in a provider's usage report, whatever it calls them."""
    figures = {
        name: next((count for path in paths if (count := _count(report, path)) is not None), None)
        for name, paths in _NAMES.items()
    }
    cost = field(report, "cost")
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
    return entries.Usage(**figures, cost=float(cost) if known else None)  # type: ignore[arg-type]


def field(value: object, name: str) -> object:
    """A field of a mapping or of an object; None when there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _count(report: object, path: str) -> int | None:
    for name in path.split("."):
        report = field(report, name)
    if isinstance(report, bool) or not isinstance(report, int) or not 0 <= report < 1 << 53:
        return None
    return report


LONGEST_ANSWER: Final = 16 << 20
"""Characters after which an answer cannot be one."""
MOST_CALLS: Final = 512

_REASONS: Final = {
    told: reason
    for reason, words in (
        ("stop", "stop end_turn stop_sequence eos"),
        ("tool_calls", "tool_calls function_call tool_use"),
        ("length", "length max_tokens"),
        ("content_filter", "content_filter refusal safety"),
    )
    for told in words.split()
}


class Translator:
    """One answer, chunk by chunk."""

    def __init__(self, longest: int = LONGEST_ANSWER) -> None:
        self._longest = longest
        self.usage = entries.Usage()
        self.model = ""
        self.reason = ""
        self._text = Joined()
        self._thought = Joined()
        self._block = ""
        self._calls = _Calls()
        self._size = 0

    def take(self, chunk: object) -> Iterator[Delta]:
        """The deltas in one chunk; most have one, some have none."""
        self._note(chunk)
        for choice in _items(field(chunk, "choices"))[:1]:
            delta = field(choice, "delta")
            yield from self._think(delta)
            if text := self._text.add(words_in(field(delta, "content"))):
                yield TextPart(text=self._sized(text))
            for fragment in _items(field(delta, "tool_calls")):
                if (call := self._calls.add(fragment)) is not None:
                    self._sized(call.arguments)
                    yield call
            if reason := words_in(field(choice, "finish_reason")):
                self.reason = _REASONS.get(reason.lower(), "stop")

    def end(self) -> Iterator[Delta]:
        """What was held back until it was certain that nothing follows."""
        if rest := self._thought.end():
            yield ThinkingPart(text=rest)
        if rest := self._text.end():
            yield TextPart(text=rest)

    @property
    def called(self) -> bool:
        """Whether any tool was asked for."""
        return bool(self._calls)

    def _note(self, chunk: object) -> None:
        served = field(field(chunk, "_hidden_params"), "provider_response_model")
        self.model = words_in(served) or self.model or words_in(field(chunk, "model"))
        if (usage := field(chunk, "usage")) is not None and usage_of(usage) != entries.Usage():
            self.usage = usage_of(usage)

    def _think(self, delta: object) -> Iterator[Delta]:
        """Blocks where there are some: the plain field then only repeats their text."""
        if not (blocks := _items(field(delta, "thinking_blocks"))):
            plain = words_in(field(delta, "reasoning_content")) or words_in(
                field(delta, "reasoning")
            )
            if text := self._thought.add(plain):
                yield ThinkingPart(text=self._sized(text))
        for block in blocks:
            signature = words_in(field(block, "signature"))
            text = self._thought.add(
                self._new_thought(words_in(field(block, "thinking")), signature)
            )
            redacted = words_in(field(block, "data"))
            if text or signature or redacted:
                self._sized(text)
                yield ThinkingPart(text=text, signature=signature, redacted=redacted)

    def _new_thought(self, text: str, signature: str) -> str:
        """What a block adds: the one with the signature may repeat all that came before it."""
        if not signature:
            self._block += text
            return text
        before, self._block = self._block, ""
        return text.removeprefix(before)

    def _sized(self, text: str) -> str:
        self._size += len(text)
        if self._size > self._longest:
            raise errors.ProviderNonsense(
                f"The model's answer is longer than {self._longest:,} characters.",
                "Try again, or choose another model.",
            )
        return text


class Joined:
    """Text in pieces: halves of one character are joined, a lone half becomes a visible sign."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """The text that is certain now."""
        text = self._half + piece
        self._half = ""
        if not text or text.isascii():
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def end(self) -> str:
        """What is left of a half that never found the other."""
        rest, self._half = self._half, ""
        return "\N{REPLACEMENT CHARACTER}" if rest else ""


class _Calls:
    """Which fragments belong to which tool call, by id first and by number second."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._current: dict[int, int] = {}
        """The server's number → our index of the call it means now."""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, fragment: object) -> CallDelta | None:
        """A fragment under our own index; None when it says nothing."""
        call_id, function = words_in(field(fragment, "id")), field(fragment, "function")
        name, arguments = words_in(field(function, "name")), words_in(field(function, "arguments"))
        number = field(fragment, "index")
        if not (call_id or name or arguments):
            return None
        index = self._index(number if isinstance(number, int) else None, call_id, name, arguments)
        call = self._calls[index]
        new_id, new_name = "" if call.id else call_id, "" if call.name else name
        cleaned = arguments.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        call.id, call.name = call.id or call_id, call.name or name
        call.arguments.append(cleaned)
        return CallDelta(
            index=index, id=plain_id(new_id), name=valid_name(new_name), arguments=cleaned
        )

    def _index(self, number: int | None, call_id: str, name: str, arguments: str) -> int:
        index = self._known(number, call_id)
        if index >= 0 and not self._is_another(index, number, call_id, name, arguments):
            return index
        if len(self._calls) >= MOST_CALLS:
            raise errors.ProviderNonsense(
                f"The model asked for more than {MOST_CALLS} tools at once.",
                "Try again, or choose another model.",
            )
        self._calls.append(_Call(number))
        self._current[number if number is not None else -1] = len(self._calls) - 1
        return len(self._calls) - 1

    def _known(self, number: int | None, call_id: str) -> int:
        """The newest call that a fragment may belong to; -1 when there is none."""
        for at in reversed(range(len(self._calls))):
            if call_id and self._calls[at].id == call_id:
                return at
        return len(self._calls) - 1 if number is None else self._current.get(number, -1)

    def _is_another(
        self, index: int, number: int | None, call_id: str, name: str, arguments: str
    ) -> bool:
        """Whether a header opens a new call although its id or its number was seen before."""
        call = self._calls[index]
        if call_id and call.id and call_id != call.id:
            return True
        if not name or not call.name:
            return False
        if not call_id or not call.id:
            return number is None
        # One id for two calls: they differ by number, or one begins when the other is whole.
        begins = not arguments or arguments.lstrip().startswith("{")
        return begins and (call.number != number or (bool(arguments) and call.is_whole))


class _Call:
    """A tool call as far as it came."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are an object to which nothing can be added."""
        return bounded_json.read_object("".join(self.arguments)) is not None


def _items(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
