"""What was said and done: messages, tool calls and their results, and the turn around them."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec

from mindstone_tui.core.entries.base import Entry, Image, Part, Role, TextEntry, ToolCall, Usage
from mindstone_tui.core.entries.line import Message
from mindstone_tui.core.values import Value

TurnEnding = Literal["done", "interrupted", "failed"]
ToolStatus = Literal["ok", "error", "refused", "interrupted", "timeout"]
NOBODY: Final = "nobody"
"""Who refused where no person did: the wait was over, or whoever asked has ended."""


class SessionOpened(Entry):
    """Line 0: which session this is, and where it came from when it is a fork."""

    agent: str
    main: str
    program: str
    """Name and version of the program that made the file."""
    salt: str
    """Random, so that no two sessions share a chain."""
    forked_from: ForkPoint | None = None
    folder: str = ""
    """Where it was begun."""


class ForkPoint(Part):
    """The exact place in another session at which this one begins."""

    session: str
    seq: int
    hash: str


class TurnStarted(Entry):
    """A turn began; exactly one `turn_ended` follows it."""

    origin: str = "message"
    """`message`, `queued`, `steered`, `delegated`, `resumed`, or `adopted` from a client."""


class ClientMatched(Entry):
    """How a program's own idea of the conversation was matched with this history, by content."""

    format: str
    """The wire format it came in."""
    prior: str = ""
    """SHA-256 of what the program sent before its new message; empty if that was nothing."""
    root: str = ""
    """SHA-256 of the first thing in it: the same for every request of one conversation."""
    known: int = 0
    """Messages of it that stood in this history already."""
    adopted: int = 0
    """Messages of it that were new, and were written down before this turn."""
    action: str = "appended"
    """`appended`, `rewound`, `forked`, or `retried` for one more attempt at a message."""


class UserMessage(TextEntry):
    """What a person said. The only kind whose line has the role `user`."""

    role: ClassVar[Role] = "user"

    text: str
    name: str = ""
    """Who said it, where several people share a session or an import names its speakers."""
    images: tuple[Image, ...] = ()
    source_id: str = ""
    """The message's id in the system it was imported from."""
    queued: str = ""
    """Id of the `message_queued` entry it waited in."""
    note: str = ""
    """What the program tells the model before these words; nobody said it."""
    after: str = ""
    """The same, behind them."""


class Thinking(Part):
    """Reasoning as the provider gave it; its signature lets it be sent back in the same turn."""

    text: str
    signature: str = ""
    redacted: str = ""


class AnswerUsage(Part):
    """What the provider counted and charged for an answer."""

    call: int
    usage: Usage
    by: str = "provider"
    """`provider`, or `us` when it reported nothing and the numbers are our own count."""
    served: str = ""
    """The model that really answered, when the provider names another one."""
    elapsed: float = 0.0
    first_token: float = 0.0
    retries: int = 0
    position: int = 0
    """Replies taken so far, where the model is a script."""


class AssistantMessage(TextEntry):
    """One complete answer of a model: text, and the tool calls it wants."""

    role: ClassVar[Role] = "assistant"

    text: str
    model: str = ""
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[Thinking, ...] = ()
    finish: str = "stop"
    name: str = ""
    source_id: str = ""
    reported: AnswerUsage | None = None
    """What it took. Imported answers have none, older ones a `usage_reported` behind them."""

    @property
    def only_quotes(self) -> bool:
        """Whether the built-in guide said it: nothing is decided, promised or done by that."""
        return self.model == "local/guide"


class AssistantPartial(TextEntry):
    """Text streamed so far when the turn was interrupted or the stream broke."""

    role: ClassVar[Role] = "assistant"

    text: str
    model: str = ""
    why: str = ""
    source_id: str = ""


class ToolCalled(TextEntry):
    """A tool is about to run: written, and on disk, before it does."""

    call: str
    """Id of the call in the assistant's message."""
    name: str
    shown: str
    """What a person is shown: exactly what will run, in one text."""
    digest: str
    """SHA-256 of the exact arguments that run."""
    risk: str = "read"
    source_id: str = ""
    understood: tuple[str, ...] = ()
    """Which arguments came by other names, such as "text as content"."""
    approved: str = ""
    """`read-only tool` where that was permission enough; else a `tool_approved` follows."""


class AskedPart(Part, omit_defaults=False):
    """One simple command of what is asked about, or one file, and what it does."""

    text: str
    verdict: str
    """`reads`, `writes`, `unknown`, `network`, `outside the workspace`, `deletes`, `force-push`,
    `privilege` or `pipe to shell`: the worst that it does."""
    reason: str
    """What it does, in a few words."""
    also: tuple[str, ...] = ()
    """Verdicts that hold as well."""


class SaidOfCall(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What a person said of a tool, in the words in which every surface hears it."""

    allowed: bool
    why: str = ""
    how: str = ""
    """What they did: a key, `click`, `button`, what they typed; or which setting said it."""
    seen: float = 0.0
    granted: str = ""
    """How far it reaches, in the words in which it was offered; empty for this once."""
    asked: str = ""
    """For how many seconds the question was in view, and when it was put (`ToolAsked.since`)."""


class Answer(SaidOfCall):
    """A person's word on the tool that was asked about then, and on no other of that call."""

    remember: str = ""
    """A rule of `ToolAsked.remember`, or empty for this once."""
    keep: Literal["", "turn", "session", "config"] = ""
    """For how long; `turn` is what `session` means to a program that cannot see them leave."""
    stops: bool = False
    """The turn that asks is to end with it."""


class AskedScope(Part, omit_defaults=False):
    """How far a yes may reach: what to answer with, and what to call it."""

    scope: Literal["once", "exact", "prefix", "edits", "always"]
    label: str
    """For a button, such as "commands that begin with pytest, in this session"."""
    remember: str = ""
    """For the answer, with `keep`."""
    keep: Literal["", "session", "config"] = ""


class DeclinedCall(Part, omit_defaults=False):
    """A call of a tool that was not allowed: by a person, a rule, a mode or a hook."""

    call: str
    name: str
    shown: str
    why: str


class AskedCall(Part, kw_only=True):
    """Everything that somebody is shown who says yes or no to a tool."""

    call: str
    name: str
    risk: str
    shown: str
    """Exactly what will run."""
    digest: str
    diff: str = ""
    why: str = ""
    remember: tuple[str, ...] = ()
    """Rules that can be remembered with the answer."""
    parts: tuple[AskedPart, ...] = ()
    worst: str = ""
    """The worst verdict among the parts."""
    scopes: tuple[AskedScope, ...] = ()
    """Every yes there is, from the narrowest to the widest; the first is once."""
    folder: str = ""
    """Where it would run: a yes counts there and nowhere else."""
    helper: str = ""
    """The sub-agent that wants it, by its work; empty for the turn itself."""


class ToolAsked(TextEntry, AskedCall):
    """A turn waits with a tool until somebody says yes or no, on whichever surface."""


class ToolAnswered(TextEntry, Answer, kw_only=True):
    """An answer to a question; the first one on disk holds, whoever gave it.

    Its line's channel is the surface that it was given on.
    """

    call: str

    def is_for(self, call: str, since: str) -> bool:
        """Whether it answers the question about a call that was put then."""
        return self.call == call and self.asked in ("", since)


class ToolApproved(Entry):
    """Permission was given, by whom and by which rule.

    A tool that only reads needs none: its `tool_called` says so, unless a rule or a hook had a say.
    """

    call: str
    digest: str
    by: str
    """`person`, `rule`, `mode` or `read-only tool`."""
    rule: str = ""
    remember: str = ""
    """`` (once), `session` or `config`."""
    given: str = ""
    """When and by which key a person gave the rule, and for how long, if one did here."""


class ToolRefused(TextEntry):
    """Permission was not given; the call gets a result that says so."""

    call: str
    by: str
    why: str


class Returned(Part, kw_only=True):
    """What a tool gave back."""

    text: str
    status: ToolStatus = "ok"
    finding: str = ""
    """One deterministic line that stands for the result when it is trimmed from the prompt."""
    diff: str = ""
    elapsed: float = 0.0


class CallResult(Returned, kw_only=True):
    """What came of a call."""

    call: str
    name: str
    shown: str = ""
    """What it was meant for, when it failed before it could begin."""


class ToolReturned(TextEntry, CallResult):
    """What a tool gave back, as the model will see it."""

    role: ClassVar[Role] = "tool"

    full: str = ""
    """SHA-256 of the blob with the whole output, when `text` is only its head and tail."""
    full_size: int = 0
    source_id: str = ""
    images: tuple[Image, ...] = ()
    """Pictures that it gave; the text has a word for each."""


class UsageReported(Entry, AnswerUsage, kw_only=True):
    """What the provider counted and charged for one request beside the conversation.

    An answer of the conversation carries its own; before that had a place, this followed it, too.
    """

    model: str
    purpose: str = ""
    """Empty for the conversation; else what the side call was for."""


def usage_in(entry: object) -> UsageReported | None:
    """What a request took, whichever way it was written down; None for everything else."""
    if isinstance(entry, UsageReported):
        return entry
    if not isinstance(entry, AssistantMessage) or entry.reported is None:
        return None
    return UsageReported(model=entry.model, **msgspec.structs.asdict(entry.reported))


def without_usage(entry: Entry) -> Entry:
    """The same entry for another session, which did not pay for it."""
    if isinstance(entry, AssistantMessage) and entry.reported is not None:
        return msgspec.structs.replace(entry, reported=None)
    return entry


class SideRequestSent(TextEntry):
    """A question to a model beside the conversation, whole, written before it is sent."""

    purpose: str
    """`summary`, `judge`, `handoff`, `consolidation` …"""
    model: str
    messages: tuple[Message, ...]
    prompt_hash: str
    prompt: str = ""
    """The package's prompt that was used, by name and hash."""


STOPPED: Final = "Interrupted"
"""What a request failed of that a person stopped."""


class ModelFailed(TextEntry):
    """A request got no usable answer; what was streamed before that is an `assistant_partial`."""

    call: int
    model: str
    error: str
    """Which kind of failure, by its name in the program."""
    why: str
    retries: int = 0
    position: int = 0
    purpose: str = ""


class EndOfTurn(Part, kw_only=True):
    """How a turn ended, and what it took."""

    ending: TurnEnding
    why: str = ""
    remedy: str = ""
    calls: int = 0
    tools: int = 0
    usage: Usage = Usage()
    how: str = ""
    """The key or the click with which a person stopped it, on the surface of its channel."""


class TurnEnded(Entry, EndOfTurn):
    """The turn is over."""


class MessageQueued(TextEntry):
    """A person wrote while a turn was running; it waits for its own turn."""

    text: str
    images: tuple[Image, ...] = ()


class MessageWithdrawn(Entry):
    """A queued message was taken back before its turn came."""

    queued: str


class MessageCut(TextEntry):
    """One message is larger than the window allows: this shortened text is sent instead."""

    target: int
    """Sequence number of the message, which stays whole in history."""
    text: str
    tokens_before: int
    tokens_after: int
