"""Steps of a foreign session as lines of the transcript: in batches, nothing twice.

A batch ends with an exchange wherever it can. A crash leaves whole lines and perhaps an exchange
without its end; the next import of the same file finds it open and goes on inside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.entries import IMPORTED, Draft, Entry, Line
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    Thinking,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.store import FilesRestored, Imported, SessionDescribed
from mindstone_tui.core.interchange import pictures, steps
from mindstone_tui.core.interchange.formats.base import NO_RESULT, Said
from mindstone_tui.core.transcript import Transcript, blackened_in, encode, reader
from mindstone_tui.core.values import alike

Message = UserMessage | AssistantMessage | AssistantPartial | ToolReturned
"""What an import brings; everything else around it is bookkeeping."""


class Seen(msgspec.Struct, eq=False):
    """Which messages were there, each told apart from its equals."""

    _hashes: set[int] = set()

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, key: int) -> bool:
        return key in self._hashes

    def holds(self, name: str) -> bool:
        """Whether a message of this name was there."""
        return _hash(name, 0) in self._hashes

    def take(self, name: str, *, once: bool) -> int | None:
        """Count one more message of this name and return its key.

        With `once` there can be no second: None is returned for it.
        """
        if (key := _hash(name, 0)) in self._hashes:
            if once:
                return None
            key = self._next(name)
        self._hashes.add(key)
        return key

    def _next(self, name: str) -> int:
        """The first number of its kind that is free; they are taken without gaps."""
        low, high = 0, 1
        while _hash(name, high) in self._hashes:
            low, high = high, 2 * high
        while low + 1 < high:
            middle = (low + high) // 2
            if _hash(name, middle) in self._hashes:
                low = middle
            else:
                high = middle
        return _hash(name, high)


def name_of(entry: Message, ts: str, shown: Callable[[str], str] = str) -> str:
    """What a message is known by; `shown` is what becomes of a text on its way to disk."""
    source = shown(entry.source_id)
    call = shown(entry.call) if isinstance(entry, ToolReturned) else ""
    kind = "assistant_message" if isinstance(entry, AssistantPartial) else entry.kind
    return "\x00".join((kind, source, "" if source else ts, call, shown(entry.text)))


def _hash(name: str, occurrence: int) -> int:
    said = f"{occurrence}\x00{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest()) or 1


_BATCH: Final = 256
"""Entries after which a batch is written at the next end of an exchange."""
_LARGEST_BATCH: Final = 2_048
_BATCH_TEXT: Final = 4 << 20
"""Characters after which a batch is written wherever the exchange stands."""
_MOST_THOUGHTS: Final = 64
_BLACKENED: Final = b"[redacted:"

Index = Callable[[Sequence[Line]], None]
"""Called with the lines of each batch, right after they are on disk."""


class Writer(msgspec.Struct, dict=True, eq=False):
    """Writes what is new of each step, and remembers where it stands."""

    _transcript: Transcript
    clean: encode.Clean = str
    index: Index | None = None
    before: ImportedBefore | None = None
    added: int = 0
    already_there: int = 0
    first_turn: int = 0
    last_turn: int = 0
    blackened: dict[int, int] = {}
    """How many places were blacked out, by the line that they stand in."""
    _batch: list[Draft] = []
    _batch_text: int = 0
    _run: Seen = msgspec.field(default_factory=Seen)
    _ts: str = ""
    _touched: bool = False
    """Whether this import wrote something in the open turn."""
    _ending: TurnEnding = "done"
    """Of the exchange that was read last."""

    def __post_init__(self) -> None:
        self._turn = self._transcript.last_turn
        self.known = self.before or ImportedBefore(self._transcript)
        self.taken_before = self.known.unrecorded
        """Messages that earlier looks wrote without coming to an end."""
        self.described = self.known.described
        """What an earlier import said of the conversation as a whole."""

    def write(self, step: steps.WriteStep) -> None:
        """Write what is new of a step."""
        if step.opens and self._touched:
            self.end_turn()
        message = _message_of(step.said)
        is_new = self._is_new(message, step.said.ts, counts=not step.said.stands_in)
        fresh = [each for each in step.answered if self._is_new(_returned(each), each.result.ts)]
        if not is_new and not fresh:
            self._note_ending(step)
            return
        self._ts = step.said.ts or self._ts
        if is_new and step.opens and not self.known.nothing_said:
            self.end_turn()
        self._begin_turn(resumes=not (is_new and step.opens))
        if is_new:
            if isinstance(message, UserMessage) and step.said.images:
                kept = pictures.keep_pictures(step.said.images, self._transcript)
                message = msgspec.structs.replace(message, images=kept)
            self.put(message, step.said.ts)
        elif late := [each.call for each in fresh if each.call.id not in self.known.pending]:
            # The message stands in a turn that is over: its late results need it once more.
            again = AssistantMessage(text="", model=step.said.model, calls=tuple(late))
            self.put(again, step.said.ts)
        for each in fresh:
            self._put_answered(each)
        self._note_ending(step)
        if len(self._batch) >= _LARGEST_BATCH or self._batch_text >= _BATCH_TEXT:
            self.pause()

    def _note_ending(self, step: steps.WriteStep) -> None:
        if step.opens or step.ending != "done":
            self._ending = step.ending

    def end_turn(self) -> None:
        """Close the open turn, if there is one."""
        if not (self._touched or self.known.open_turn):
            return
        for call, name in self.known.pending.items():
            self._ending = "interrupted"
            lost = ToolReturned(call=call, name=name, text=NO_RESULT, status="interrupted")
            self.put(lost, self._ts)
        self.put(TurnEnded(ending=self._ending), self._ts)
        self.known.close()
        self._touched, self._ending = False, "done"
        if len(self._batch) >= _BATCH:
            self.pause()

    def finish(self) -> None:
        """Close what is open and write what is left."""
        self.end_turn()
        self.pause()

    def wrote_apart(self, first: Said, more: Said) -> bool:
        """Whether an earlier import wrote one piece of an answer, and then met the other."""
        if not first.id or not self._has(first):
            return False
        if more.calls:
            return not self.known.asked_with(first.id, more.calls[0].id)
        return bool(more.text) and not self._has(steps.joined_pieces(first, more))

    def _has(self, said: Said) -> bool:
        if not self.known.seen:
            return False
        name = name_of(_message_of(said), said.ts, lambda text: encode.visible(self.clean(text)))
        return self.known.seen.holds(name)

    def _begin_turn(self, *, resumes: bool) -> None:
        if self._touched:
            return
        self._touched = True
        if self.known.open_turn:
            self._turn = self.known.open_turn
        else:
            self._turn += 1
            self.put(TurnStarted(origin="resumed" if resumes else "message"), self._ts)
        self.first_turn = self.first_turn or self._turn
        self.last_turn = self._turn

    def _put_answered(self, each: steps.AnsweredCall) -> None:
        if each.call.id not in self.known.called:
            self.put(_called(each.call.id, each.call.name, each.call.arguments), each.result.ts)
        result = _returned(each)
        if each.result.images:
            kept = pictures.keep_pictures(each.result.images, self._transcript)
            result = msgspec.structs.replace(result, images=kept)
        self.put(result, each.result.ts)
        self.known.pending.pop(each.call.id, None)

    def _is_new(self, message: Message, ts: str, *, counts: bool = True) -> bool:
        """Whether neither the transcript nor this file had the message; it is counted."""
        name = name_of(message, ts, lambda text: encode.visible(self.clean(text)))
        key = self._run.take(name, once=bool(message.source_id))
        is_new = key is not None and key not in self.known.seen
        if counts and message.text != NO_RESULT:
            self.added += is_new
            self.already_there += not is_new
        return is_new

    def put(self, entry: Entry, ts: str) -> None:
        """Write one more line of the turn that was written last."""
        self._ts = ts or self._ts
        self._batch.append(Draft(entry=entry, turn=self._turn, channel=IMPORTED, ts=self._ts))
        self._batch_text += len(getattr(entry, "text", ""))

    def pause(self) -> bool:
        """Write what is left, if anything is, and leave what is open as it is."""
        if not self._batch:
            return False
        written = self._transcript.append_all(self._batch)
        self._batch = []
        self._batch_text = 0
        self._count_blackened(written)
        if self.index is not None:
            self.index(written)
        return True

    def _count_blackened(self, written: Sequence[Line]) -> None:
        for line in written:
            if line.blobs or _BLACKENED in line.raw:
                whole = reader.with_blobs(line, self._transcript.places)
                if count := len(blackened_in(whole.entry)):
                    self.blackened[line.seq] = count


_OF_AN_IMPORT: Final = (Imported, SessionDescribed, TurnStarted, TurnEnded)


class ImportedBefore:
    """What earlier imports left in the transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.seen = Seen()
        self.open_turn = 0
        """An imported turn at the end of history that has no end yet."""
        self.pending: dict[str, str] = {}
        """Its calls without a result, with the tools' names."""
        self.called: set[str] = set()
        self.nothing_said = False
        """The open turn has a beginning and no more."""
        self.described: SessionDescribed | None = None
        self.unrecorded = 0
        """Messages after the newest entry that says an import is complete."""
        self.said_of: dict[str, tuple[tuple[int, ...], dict[int, str]]] = {}
        """What the newest import of each file said was taken back, or does not simply hold."""
        self.told: tuple[frozenset[str], dict[str, str]] = (frozenset(), {})
        """What a file that is followed said of messages at the last look, by their ids."""
        self.put_back: set[tuple[str, str]] = set()
        """Acts that took back or did again what was done to files, each in its folder."""
        self._asked: set[int] = set()
        self.learned = -1
        """The newest line that was looked at."""
        if transcript.head.seq > 0:
            self.learn(transcript)

    def learn(self, transcript: Transcript) -> None:
        """Take in the lines that are new since the last time."""
        with transcript.history() as history:
            for line in history.read(self.learned + 1):
                if isinstance(line, Line) and (
                    line.channel == IMPORTED or isinstance(line.entry, _OF_AN_IMPORT)
                ):
                    self._learn(history.whole(line))
        self.learned = transcript.head.seq

    def close(self) -> None:
        """The open turn has its end."""
        self.open_turn = 0
        self.nothing_said = False
        self.pending.clear()
        self.called.clear()

    def asked_with(self, message: str, call: str) -> bool:
        """Whether a message was written together with a call."""
        return _hash(f"{message}\x00{steps.short_id(call)}", 0) in self._asked

    def _learn(self, line: Line) -> None:
        match line.entry:
            case TurnStarted() | TurnEnded() if line.channel != IMPORTED:
                self.close()  # somebody went on here, and ended what was open
            case TurnStarted():
                self.close()
                self.open_turn = line.turn
                self.nothing_said = True
            case TurnEnded():
                self.close()
            case Imported(path=path) as imported:
                self.unrecorded = 0
                self.said_of[path] = (imported.taken_back, imported.judged)
            case FilesRestored(token=token, root=root):
                self.put_back.add((token, root))
            case SessionDescribed() as described:
                self.described = described
            case UserMessage() | AssistantPartial() as message:
                self._remember(message, line.ts)
            case AssistantMessage() as message:
                self._remember(message, line.ts)
                for call in message.calls if message.source_id else ():
                    self._asked.add(_hash(f"{message.source_id}\x00{call.id}", 0))
                self.pending |= {call.id: call.name for call in message.calls}
            case ToolCalled(call=call):
                self.called.add(call)
            case ToolReturned() as message:
                self._remember(message, line.ts)
                self.pending.pop(message.call, None)

    def _remember(self, message: Message, ts: str) -> None:
        """Take in a message, whose own file may or may not have said when it was."""
        self.nothing_said = False
        self.unrecorded += 1
        self.seen.take(name_of(message, ts), once=bool(message.source_id))
        if not message.source_id:
            self.seen.take(name_of(message, ""), once=False)


def _message_of(said: Said) -> UserMessage | AssistantMessage | AssistantPartial:
    if said.role == "user":
        return UserMessage(text=said.text, name=said.name, source_id=said.id)
    if said.cut_off and not said.calls:
        return AssistantPartial(text=said.text, model=said.model, source_id=said.id)
    thinking = _bounded(said.thinking)
    return alike(AssistantMessage, said, thinking=thinking, source_id=said.id)


def _bounded(thinking: tuple[Thinking, ...]) -> tuple[Thinking, ...]:
    """Thoughts as a line can hold them: very many become one."""
    if len(thinking) <= _MOST_THOUGHTS:
        return thinking
    return (Thinking(text="\n\n".join(each.text for each in thinking if each.text)),)


def _called(call: str, name: str, arguments: str) -> ToolCalled:
    digest = hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).hexdigest()
    return ToolCalled(call=call, name=name, shown=f"{name} {arguments}", digest=digest)


def _returned(each: steps.AnsweredCall) -> ToolReturned:
    return ToolReturned(
        call=each.call.id,
        name=each.call.name,
        text=each.result.text,
        status=each.result.status,
        source_id=each.result.id,
    )
