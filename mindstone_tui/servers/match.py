"""What a client sends, matched by content with what history has.

A client that keeps its own copy of a conversation sends all of it with every request. What history
has already is recognised, what is new is appended, and where the client went back and said
something else, history goes on from there: by a rewind, or by a fork where others have spoken
since. Nothing is ever written over. Pure functions and values, except for `Record`, which reads.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec

from mindstone_tui.core import paths, transcript
from mindstone_tui.core.entries import Entry, Image, Line, conversation, window
from mindstone_tui.core.session.options import ForeignExchange
from mindstone_tui.core.text import EXAMPLES_END, added_around, without_reminders
from mindstone_tui.core.transcript.follow import Follower
from mindstone_tui.servers.wire import ClientMessage

_MOST_MARKS: Final = 10_000
_LONG: Final = 500
_SLICE: Final = 100_000
"""Characters that are looked at in one go: nobody else has the interpreter meanwhile."""
"""Characters from which looking a mark up is quicker than making it."""


class KnownMessage(msgspec.Struct, frozen=True):
    """One message of history, by its marks."""

    turn: int
    marks: frozenset[str]
    ours: bool
    """Whether a client of the gateway had it."""
    partial: bool = False
    """An answer that broke off."""


class Sibling(msgspec.Struct, frozen=True):
    """A turn that a client began from the same past."""

    turn: int
    root: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a request goes into a session."""

    action: Literal["appended", "rewound", "forked", "retried"] = "appended"
    to_turn: int = 0
    """The turn to go on from, unless the end is meant."""
    known: int = 0
    """Messages of the past that history has."""


def mark_of(role: str, text: str, names: Iterable[str] = ()) -> str:
    """A message by its content: white space and what programs add do not count."""
    words = without_reminders(text) if role == "user" else text
    mark = hashlib.sha256(f"{role}\0".encode())
    empty = mark.digest()
    for start in range(0, len(words), _SLICE):
        mark.update("".join(words[start : start + _SLICE].split()).encode("utf-8", "replace"))
    if mark.digest() == empty:
        mark.update(" ".join(sorted(names)).encode("utf-8", "replace"))
    return mark.hexdigest()


def mark_of_message(message: ClientMessage) -> str:
    """The mark of a message as a client holds it."""
    if message.role == "tool":
        return mark_of("tool", "", [message.call])
    shown = [picture.mark for picture in message.pictures]
    return mark_of(message.role, message.text, [*(call.id for call in message.calls), *shown])


class MarkCache(msgspec.Struct, eq=False):
    """Marks of long messages, which clients send again with every request."""

    _known: dict[bytes, str] = {}

    def of(self, message: ClientMessage) -> str:
        """The mark of a message; its white space is looked at only the first time."""
        if len(message.text) < _LONG or message.role == "tool":
            return mark_of_message(message)
        key = hashlib.sha256(f"{message.role}\0{message.text}".encode("utf-8", "replace")).digest()
        if (mark := self._known.get(key)) is None:
            if len(self._known) >= _MOST_MARKS:
                self._known.clear()
            mark = self._known[key] = mark_of_message(message)
        return mark


def digest(marks: Sequence[str]) -> str:
    """A past as one value; empty for none."""
    return hashlib.sha256("\n".join(marks).encode()).hexdigest() if marks else ""


class Record:
    """The messages of one session's present branch, read along as they are written."""

    def __init__(self, places: paths.SessionPlaces, channel: str) -> None:
        self._channel = channel
        self._follower = Follower(places, after=-1)
        self._places = places
        self.messages: list[KnownMessage] = []
        self.siblings: dict[str, Sibling] = {}
        self.channels: dict[int, tuple[str, str]] = {}
        """Each turn's surface, and the root of the conversation it belongs to."""
        self.open = 0
        """The turn that began and has no end; 0 for none."""
        self._spoken: dict[int, str] = {}

    def look(self) -> None:
        """Read what is new."""
        with transcript.History(self._places) as history:
            for item in self._follower.poll():
                if isinstance(item, Line):
                    self._take(history.whole(item) if item.blobs else item)

    def close(self) -> None:
        """Give the file back."""
        self._follower.close()

    def _take(self, line: Line) -> None:
        match line.entry:
            case conversation.TurnStarted():
                self.open = line.turn
            case conversation.TurnEnded():
                self.open = 0
            case conversation.UserMessage(text=text, images=images, note=note):
                self.channels.setdefault(line.turn, (line.channel, ""))
                self._spoken.pop(line.turn, None)
                text = text if text or images else note  # a program's alone
                self._add(line, {mark_of("user", text, [image.sha256 for image in images])})
            case conversation.AssistantMessage(text=text, calls=calls):
                whole = self._spoken.get(line.turn, "") + text
                self._spoken[line.turn] = whole
                names = [call.id for call in calls]
                marks = {mark_of("assistant", text, names), mark_of("assistant", whole, names)}
                self._add(line, marks)
            case conversation.AssistantPartial(text=text):
                self._add(line, {mark_of("assistant", text)}, partial=True)
            case conversation.ToolReturned(call=call):
                self._add(line, {mark_of("tool", "", [call])})
            case conversation.ClientMatched(prior=prior, root=root):
                self.channels[line.turn] = (line.channel, root)
                if prior:
                    self.siblings[prior] = Sibling(line.turn, root)
            case window.Rewound(to_turn=kept):
                self.messages = [one for one in self.messages if one.turn <= kept]
                self.siblings = {key: it for key, it in self.siblings.items() if it.turn <= kept}
                self.channels = {turn: one for turn, one in self.channels.items() if turn <= kept}

    def _add(self, line: Line, marks: set[str], *, partial: bool = False) -> None:
        ours = line.channel == self._channel
        self.messages.append(KnownMessage(line.turn, frozenset(marks), ours, partial))


def count_known(prior: Sequence[str], known: Sequence[KnownMessage]) -> int:
    """How many of the past's first messages history has, in this order, others in between."""
    at = 0
    for message in known:
        if at < len(prior) and prior[at] in message.marks:
            at += 1
    return at


def turn_of_last(prior: Sequence[str], known: Sequence[KnownMessage]) -> int:
    """The turn of the newest message that ends this past; 0 when history does not have it."""
    last = prior[-1] if prior else ""
    return next((one.turn for one in reversed(known) if last in one.marks), 0)


def plan(prior: Sequence[str], record: Record, new: str = "") -> Plan:
    """How a request with this past, and this new message, goes into its session."""
    if _is_retry([*prior, new], record):
        return Plan(action="retried", known=len(prior))
    if not prior:
        return _again(record, new)
    known = count_known(prior, record.messages)
    root = digest(prior[:1])
    if known == len(prior):
        if (sibling := record.siblings.get(digest(prior))) is None:
            return Plan(known=known)
        return _go_back(record, _before(record, sibling.turn), root, known)
    if known == 0:
        return _other_first_words(prior, record)
    turn = turn_of_last(prior[:known], record.messages)
    later = [number for number in record.channels if number > turn]
    return _go_back(record, turn, root, known) if later else Plan(known=known)


def _before(record: Record, turn: int) -> int:
    """The turn that a turn followed: those between them were taken back."""
    return max((one.turn for one in record.messages if one.turn < turn), default=turn - 1)


def _is_retry(marks: Sequence[str], record: Record) -> bool:
    """Whether this was asked before, word for word, and failed, and nobody has spoken since."""
    last = next((one for one in reversed(record.messages) if not one.partial), None)
    if last is None or last.turn != record.open or marks[-1] not in last.marks:
        return False
    return last.ours and count_known(marks, record.messages) == len(marks)


def _again(record: Record, new: str) -> Plan:
    """A message that got no answer and is sent again takes the place of the first try."""
    last = record.messages[-1] if record.messages else None
    if last is None or new not in last.marks or not last.ours or last.turn < 2:
        return Plan()
    back = _go_back(record, _before(record, last.turn), digest([new]), 0)
    return back if back.action == "rewound" else Plan()


def _other_first_words(prior: Sequence[str], record: Record) -> Plan:
    """A past that begins as none here does: another conversation, or one whose first message was
    said anew, if its answer and what was said to that are known. An answer alone proves nothing:
    two conversations may both begin with "Done."
    """
    for answer, reply in pairwise(record.messages):
        known = answer.ours and reply.ours and reply.turn > answer.turn
        if known and prior[2:] and prior[1] in answer.marks and prior[2] in reply.marks:
            root = record.channels.get(answer.turn, ("", ""))[1]
            return _go_back(record, _before(record, answer.turn), root, 0)
    return Plan()


def _go_back(record: Record, turn: int, root: str, known: int) -> Plan:
    """Go on from an earlier turn: here if only this conversation came after it, else in a fork."""
    others = [
        channel for number, (channel, of) in record.channels.items() if number > turn and of != root
    ]
    return Plan(action="forked" if others else "rewound", to_turn=turn, known=known)


def exchanges(
    messages: Sequence[ClientMessage],
    keep: Callable[[ClientMessage], tuple[Image, ...]] = lambda message: (),
) -> Iterator[ForeignExchange]:
    """Messages that history does not have as exchanges, each with results for its calls.

    `keep` puts a message's pictures where history can name them.
    """
    said = conversation.UserMessage(text="")
    answers: list[Entry] = []
    ends = [at for at, each in enumerate(messages) if each.text.startswith(EXAMPLES_END)]
    for at, message in enumerate(messages):
        if message.role == "user":
            if said.text or said.note or said.images or answers:
                yield ForeignExchange(said, tuple(_closed(answers)))
            note, words, after = added_around(message.text)
            if ends and at < ends[-1]:
                note, words, after = message.text, "", ""
            shown = keep(message)
            said = conversation.UserMessage(text=words, images=shown, note=note, after=after)
            answers = []
        elif message.role == "assistant":
            answers = list(_closed(answers))
            answers.append(conversation.AssistantMessage(text=message.text, calls=message.calls))
        else:
            answers.append(_returned(message, answers))
    if said.text or said.note or said.images or answers:
        yield ForeignExchange(said, tuple(_closed(answers)))


def _returned(message: ClientMessage, answers: Sequence[Entry]) -> conversation.ToolReturned:
    names = {
        call.id: call.name
        for entry in answers
        if isinstance(entry, conversation.AssistantMessage)
        for call in entry.calls
    }
    return conversation.ToolReturned(
        call=message.call,
        name=names.get(message.call, "tool"),
        text=message.text,
        status="error" if message.failed else "ok",
    )


def _closed(answers: Sequence[Entry]) -> Iterator[Entry]:
    """The same, with a result for every call that has none and no result without a call."""
    asked = [
        call
        for entry in answers
        if isinstance(entry, conversation.AssistantMessage)
        for call in entry.calls
    ]
    names = {call.id for call in asked}
    given = {entry.call for entry in answers if isinstance(entry, conversation.ToolReturned)}
    for entry in answers:
        if not isinstance(entry, conversation.ToolReturned) or entry.call in names:
            yield entry
    for call in asked:
        if call.id not in given:
            text = "The client told of no result."
            yield conversation.ToolReturned(
                call=call.id, name=call.name, text=text, status="interrupted"
            )
