"""A message that is larger than the window: a person says how it is sent, before anything is.

It is in history whole by then, whatever the answer. What is not sent counts as rewound: no later
prompt has it. Where nobody can be asked, its beginning and
its end are sent with a note, as of any other message that does not fit.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.run_tools import put_question
from mindstone_tui.core.context import manual, messages, trim
from mindstone_tui.core.context.window_view import Call, Target
from mindstone_tui.core.entries import Line, conversation
from mindstone_tui.core.errors import EntryNotSaved, Interrupted, ToolError
from mindstone_tui.core.events import AskedScope
from mindstone_tui.core.text import one_line, plural

_AS_FILE, _SPLIT = "as a file", "split"
_EXCERPT: Final = 10.0
"""Percent of the usable room for beginning and end of a message that became a file."""
_AT_ONCE: Final = 3
"""Parts of a message that have room beside each other."""
_MOST_PARTS: Final = 20
_SHOWN: Final = 70


class LargeMessage(msgspec.Struct, frozen=True):
    """A message that no window of its model holds beside the instructions."""

    line: Line
    text: str
    tokens: int
    room: int
    """Tokens that a message may have."""

    @property
    def size(self) -> str:
        """How large it is, as people say it."""
        return f"{plural(self.text.count(chr(10)) + 1, 'line')}, {self.tokens:,} tokens"

    @property
    def file(self) -> str:
        """The name of a file for it that nobody else has."""
        return f"message-{self.line.turn}-{self.line.id[-4:].lower()}.txt"

    @property
    def parts(self) -> tuple[str, ...]:
        """The message in parts; none where they would be too many to answer."""
        most = self.room // _AT_ONCE
        few = most > 0 and self.tokens <= most * (_MOST_PARTS - 1)
        return tuple(parts_of(self.text, self.tokens, most)) if few else ()


def parts_of(text: str, tokens: int, most: int) -> Iterator[str]:
    """A text of so many tokens in parts of about `most` or less, each up to the end of a line."""
    length = max(len(text) * most // max(tokens, 1), 1)
    at = 0
    while at < len(text):
        end = len(text)
        if at + length < end:
            end = text.rfind("\n", at, at + length) + 1 or at + length
        yield text[at:end]
        at = end


async def find_oversized(context: TurnContext, asked: Line, target: Target) -> LargeMessage | None:
    """The message of a turn, if it is larger than the window; it is counted off the loop."""
    live = context.window
    call = live.call(target)
    entry = context.whole(asked).entry
    text = entry.text if isinstance(entry, conversation.UserMessage) else ""
    if 4 * len(text) <= call.room.usable:  # a character is hardly ever more than four tokens
        return None
    await live.count_ahead(call, asked.seq)
    measured = live.measure(call)
    sizes = {piece.line.seq: size for piece, size in measured.sized if piece.line is not None}
    head = measured.component("system_prompt") + measured.component("tool_definitions")
    found = LargeMessage(asked, text, sizes[asked.seq], live.marks(call).emergency - head)
    return found if found.tokens > found.room else None


async def ask_how(
    context: TurnContext,
    turn: int,
    found: LargeMessage,
    target: Target,
    tell: Callable[[events.AnyEvent], None],
) -> None:
    """Ask how an oversized message is to be sent, and see to it; raises when it is not to be."""
    call = f"message_{found.line.id}"
    question, waiting = put_question(context, _question(turn, call, found), turn)
    sent = False
    try:
        tell(question)
        answer = await waiting
        sent = answer.allowed
    finally:
        if not sent:  # by a no, or because nobody said anything before they left
            with contextlib.suppress(EntryNotSaved):
                manual.take_back(context.window, turn)
    if not answer.allowed:
        tell(_settled(question, "refused", "not sent"))
        raise Interrupted("This message was not sent.", "It is in history as it was written.")
    done = await _carry_out(context, context.window.call(target), found, answer.remember)
    tell(_settled(question, "ok", done))


def _question(turn: int, call: str, found: LargeMessage) -> events.ToolAsked:
    start = one_line(found.text.lstrip()[:_SHOWN].partition("\n")[0], _SHOWN)
    end = one_line(found.text.rstrip()[-_SHOWN:].rpartition("\n")[2], _SHOWN)
    ways = [
        ("", "Beginning and end; the model can look up the rest in history"),
        (_AS_FILE, f"As {found.file} in this folder, to be read in parts"),
    ]
    if parts := len(found.parts):
        ways.append(
            (_SPLIT, f"Split into {parts} messages, a model call each; early parts may leave")
        )
    return events.ToolAsked(
        turn=turn,
        call=call,
        name="message",
        risk="message",
        shown=f"message of {found.size}\n{start}\n…\n{end}",
        digest="",
        why=f"{found.room:,} tokens fit beside the instructions. The text is kept in any case.",
        scopes=tuple(AskedScope(scope="once", label=said, remember=way) for way, said in ways),
    )


def _settled(
    asked: events.ToolAsked, status: conversation.ToolStatus, said: str
) -> events.ToolEnded:
    turn, call, name = asked.turn, asked.call, asked.name
    return events.ToolEnded(
        turn=turn, call=call, name=name, entry="", status=status, text=said, finding=said
    )


async def _carry_out(context: TurnContext, call: Call, found: LargeMessage, way: str) -> str:
    """Let what was chosen stand for the message in the window; what was done, in a few words."""
    if way == _AS_FILE:
        return await _keep_as_file(context, call, found)
    if way == _SPLIT and (parts := found.parts):
        first, *rest = (_numbered(part, at, len(parts)) for at, part in enumerate(parts, 1))
        await trim.stand_in(context.window, call, found.line, found.tokens, first)
        context.following += [conversation.UserMessage(text=part) for part in rest]
        return f"sent in {len(parts)} messages"
    return "beginning and end are sent"


def _numbered(part: str, at: int, of: int) -> str:
    last = "It is the last one: answer the whole." if at == of else "Say only what in it matters."
    return f"[Part {at} of {of} of one message that is larger than the window. {last}]\n{part}"


async def _keep_as_file(context: TurnContext, call: Call, found: LargeMessage) -> str:
    live, name = context.window, found.file
    workspace = context.tool_context(f"message_{found.line.id}").workspace
    try:
        place = await live.off_loop(
            lambda: workspace.replace(name, found.text.encode("utf-8", "replace"))
        )
    except ToolError as error:
        return f"{name} could not be written ({error.what}): beginning and end are sent"

    def note(missing: int) -> str:
        return (
            f"[… {missing:,} characters of this message are left out. All of it ({found.size}) is "
            f"in the file {workspace.shown(place.path)}: read it in parts, or search it. …]"
        )

    count, most = live.ledger(call.model).counter.text, call.room.tokens(_EXCERPT)
    cut = partial(messages.shorten, found.text, most, count, note, found.tokens)
    await trim.stand_in(live, call, found.line, found.tokens, await live.off_loop(cut))
    return f"kept as {name}"
