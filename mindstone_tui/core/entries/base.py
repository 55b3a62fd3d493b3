"""What every entry has in common, and the small values that entries share.

An entry is a value: frozen, equal by content, named in the past tense by its `kind`. The kind is
derived from the class name once and never renamed, because transcripts outlive programs.
"""

import re
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec

from mindstone_tui.core.values import Value

Role = Literal["user", "assistant", "tool", "system", "event"]
Label = Literal["measured", "anchored", "estimated", "assumed", "set"]
"""How a number is known; `set`: a person said so."""
Zone = Literal["green", "yellow", "orange", "red"]
ShareLevel = Literal["free", "soft", "hard"]
"""How full a share of the window is: below its marks, over the soft one, over the hard one."""

Place = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""The number of a line or a turn. One that no index could hold was not written by this program."""

ZONES: tuple[Zone, ...] = ("green", "yellow", "orange", "red")


def kind_of(class_name: str) -> str:
    """`ToolResultsTrimmed` → `tool_results_trimmed`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class Entry(
    msgspec.Struct,
    metaclass=Value,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    tag=kind_of,
    omit_defaults=True,
):
    """Something that happened, as one line of the transcript remembers it.

    Fields that still have their default are left out of the line, so that a later version may
    add fields without touching what is already written.
    """

    role: ClassVar[Role] = "event"

    @property
    def kind(self) -> str:
        """The name by which the transcript knows this entry."""
        return str(self.__struct_config__.tag)

    @property
    def leans(self) -> bool:
        """Whether other lines are needed to know all of it."""
        return False

    def as_written(self) -> Any:
        """What the line holds of it: the same, said once where the entry itself says it twice."""
        return self


class TextEntry(Entry):
    """It holds text that a person, a model or a tool wrote: redacted before it is written."""


class Part(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True, omit_defaults=True):
    """A value inside an entry."""


class ByHand(Part):
    """What a person did, and for how many seconds they had it in view, as in `tool_answered`."""

    how: str = ""
    seen: float = 0.0


class Span(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A run of sequence numbers, both ends included."""

    first: int
    last: int

    def __contains__(self, seq: int) -> bool:
        return self.first <= seq <= self.last


class Blob(Part):
    """Bytes kept beside the transcript, in a file named by their hash."""

    sha256: str
    size: int


class Usage(Part):
    """Tokens and money as the provider reported them; None where it said nothing."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    """Prompt tokens that the provider read from its cache."""
    cache_written: int | None = None
    reasoning: int | None = None
    cost: float | None = None
    """In US dollars; None when nobody knows the price."""
    cache_hour: int | None = None
    """Those of the written tokens that are kept for an hour, which costs more than five minutes."""


def added(one: Usage, other: Usage, sign: int = 1) -> Usage:
    """Both together, or the difference; what neither knows stays unknown, nothing falls below 0."""
    sums: dict[str, int | float | None] = {}
    for name in Usage.__struct_fields__:
        mine, theirs = getattr(one, name), getattr(other, name)
        unknown = mine is None and theirs is None
        sums[name] = None if unknown else max((mine or 0) + sign * (theirs or 0), 0)
    return msgspec.convert(sums, Usage)


class ToolCall(Part):
    """A model's wish to use a tool, as the model wrote it."""

    id: str
    name: str
    arguments: str
    """JSON text exactly as received; it may be broken, and then the call fails, not the turn."""


MORE_TOOLS: Final = "more_tools"
"""The tool that stands for those that are offered on demand."""


class ToolSchema(Part):
    """What the model is told about a tool."""

    name: str
    description: str
    parameters: dict[str, object]


class Sampling(Part):
    """What a program asks of an answer beside its words; None leaves it to whoever else decides."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    """Texts before which the answer ends."""
    effort: str = ""
    """`minimal`, `low`, `medium` or `high`."""
    tool_choice: Literal["", "none", "required", "named"] = ""
    """Whether tools may, must not or must be used; empty leaves it to the model."""
    tool: str = ""
    """The one that must be used, where the choice is `named`."""
    parallel_calls: bool | None = None
    output_format: dict[str, object] = {}
    """The form that the answer must have, as chat completions name it."""


class Image(Part):
    """A picture or a sound a person attached; its bytes are a blob."""

    sha256: str
    media_type: str
    width: int
    height: int
    name: str = ""
    seconds: float = 0.0
    """How long a sound is; 0 for pictures."""

    @property
    def is_sound(self) -> bool:
        """Whether it is heard, not seen."""
        return self.media_type.startswith("audio/")


def spans_of(seqs: list[int]) -> tuple[Span, ...]:
    """Ascending sequence numbers as the fewest runs that hold exactly them."""
    spans: list[Span] = []
    for seq in seqs:
        if spans and spans[-1].last + 1 == seq:
            spans[-1] = Span(spans[-1].first, seq)
        else:
            spans.append(Span(seq, seq))
    return tuple(spans)
