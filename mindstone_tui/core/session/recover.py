"""Going on where a program stopped: nothing is run again by itself, and nothing is forgotten.

A turn that has no end gets one. What had arrived of its answer becomes part of history, as an
answer that was interrupted. A call without a result gets one that says whether it had begun.
"""

import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.run_tools import interrupted, refused
from mindstone_tui.core.context.manual import take_back
from mindstone_tui.core.entries import Draft, Entry, Line
from mindstone_tui.core.entries.conversation import (
    NOBODY,
    STOPPED,
    AssistantMessage,
    AssistantPartial,
    MessageQueued,
    MessageWithdrawn,
    ModelFailed,
    ToolAnswered,
    ToolApproved,
    ToolCalled,
    ToolRefused,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
    usage_in,
)
from mindstone_tui.core.entries.derived import RecallDropped
from mindstone_tui.core.entries.window import PromptPlanned, Rewound
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.library.open_questions import was_withheld
from mindstone_tui.core.providers.scripted import PREFIX
from mindstone_tui.core.session.draft import read_draft
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.rescue import left_behind, read_rescued

_LOOKED_BACK: Final = 512
"""Lines that are searched for messages nobody sent."""
_LOOKED_BACK_FOR_DROPS: Final = 20_000
"""Lines in which dropped passages are looked for, so that opening does not cost the history."""
BEGUN: Final = (
    "The program stopped while this ran. What it did until then is unknown; look before you do it "
    "again."
)
NEVER_BEGUN: Final = "The program stopped before this began; it did not run."


def open_turn(context: TurnContext, history: History) -> list[Line]:
    """Every line of the newest turn, if it began and has no end."""
    lines = history.turn(context.transcript.last_turn)
    kinds = {type(line.entry) for line in lines}
    return lines if TurnStarted in kinds and TurnEnded not in kinds else []


def close_open_turn(context: TurnContext, history: History, draft: Path) -> list[Line]:
    """End a turn that has no end: never run anything again, only say what happened."""
    if not (lines := open_turn(context, history)):
        return []
    turn = lines[0].turn
    why = "The program stopped before this was finished."
    begun = {_permitted(line) for line in lines}
    answered = {line.entry.call for line in lines if isinstance(line.entry, ToolReturned)}
    asked = [
        call
        for line in lines
        if isinstance(line.entry, AssistantMessage)
        for call in line.entry.calls
    ]
    said = {line.entry.call: line.entry for line in lines if isinstance(line.entry, ToolAnswered)}
    no = {line.entry.call: line.entry for line in lines if isinstance(line.entry, ToolRefused)}
    results: list[Entry] = []
    for call in asked:
        if call.id in answered:
            continue
        given = said.get(call.id)
        if call.id in no:
            results.append(refused(call, no[call.id].by, no[call.id].why)[1])
        elif given is not None and not given.allowed:
            results += refused(call, NOBODY if given.how == NOBODY else "person", given.why)
        else:
            results.append(interrupted(call, BEGUN if call.id in begun else NEVER_BEGUN))
    heard = [line.entry for line in lines if isinstance(line.entry, AssistantMessage | ModelFailed)]
    if heard and isinstance(heard[-1], ModelFailed):  # and nobody asked again
        stopped = heard[-1].error == STOPPED
        ended = TurnEnded(ending="interrupted" if stopped else "failed", why=heard[-1].why)
    else:
        ended = TurnEnded(ending="interrupted", why=why)
    closed = context.window.record_all([*results, *_arrived(lines, draft, why), ended], turn)
    if was_withheld(lines) and not any(isinstance(line.entry, Rewound) for line in lines):
        closed.append(take_back(context.window, turn))
    return closed


_SPOKEN: Final = (
    *(TurnStarted, UserMessage, AssistantMessage, AssistantPartial),
    *(ToolCalled, ToolReturned, TurnEnded),
)
"""What is taken in of a rescued turn; what was decided for its window belongs to that window."""


def take_in_rescued(context: TurnContext, history: History, folder: Path) -> int:
    """Write down what earlier programs could not save of this session; how many lines it were."""
    own, written = str(context.transcript.places.key), 0
    for path in left_behind(folder):
        drafts: list[Draft] = []
        with contextlib.suppress(MindstoneError, OSError):  # doctor names what nobody can read
            drafts = [draft for session, draft in read_rescued(path) if session == own]
        if drafts:
            fresh = _placed(drafts, history, context.transcript.last_turn)
            context.transcript.append_all(fresh)
            path.unlink(missing_ok=True)
            written += len(fresh)
    return written


def _placed(drafts: Sequence[Draft], history: History, newest: int) -> list[Draft]:
    """Rescued entries where they belong, without those that history has by now.

    A message that never had a turn waits to be sent. A turn that others have begun meanwhile under
    the same number is put behind theirs.
    """
    lines = itertools.islice(history.back(), _LOOKED_BACK_FOR_DROPS)
    known = {(line.kind, line.ts) for line in lines if isinstance(line, Line)}
    spoken = (_waiting(one) for one in drafts if isinstance(one.entry, _SPOKEN))
    fresh = [one for one in spoken if (one.entry.kind, one.ts) not in known]
    began = min((one.turn or 0 for one in fresh if isinstance(one.entry, TurnStarted)), default=0)
    behind = max(newest + 1 - began, 0) if began else 0
    return [
        msgspec.structs.replace(one, turn=one.turn + behind)
        if one.turn and one.turn >= began
        else one
        for one in fresh
    ]


def _waiting(one: Draft) -> Draft:
    """The same; a message that never had a turn as one that waits for it."""
    if isinstance(one.entry, UserMessage) and one.turn is None:
        queued = MessageQueued(text=one.entry.text, images=one.entry.images)
        return msgspec.structs.replace(one, entry=queued)
    return one


def _arrived(lines: Sequence[Line], draft: Path, why: str) -> list[Entry]:
    """What had come of a turn's answer; nothing when history has it, or a piece of it, already."""
    found = read_draft(draft)
    if found is None or not found.text or found.turn != lines[-1].turn:
        return []
    asked = [
        line
        for line in lines
        if isinstance(line.entry, PromptPlanned)
        and not line.entry.purpose
        and line.entry.call == found.call
    ]
    kept = AssistantMessage | AssistantPartial
    if not asked or any(isinstance(one.entry, kept) for one in lines if one.seq > asked[-1].seq):
        return []
    planned = asked[-1].entry
    assert isinstance(planned, PromptPlanned)
    return [AssistantPartial(text=found.text, model=planned.model, why=why)]


def _permitted(line: Line) -> str | None:
    """The call that a line lets run; None for every other line."""
    match line.entry:
        case ToolApproved(call=call):
            return call
        case ToolCalled(call=call, approved=approved) if approved:
            return call
    return None


def position_in(history: History, model: str) -> int:
    """How many replies of the conversation a session already took from a script."""
    return positions_in(history, model, until="").get("", 0)


def positions_in(history: History, model: str, until: str | None = None) -> dict[str, int]:
    """How many replies each purpose took from a script; `until` ends the search at a purpose."""
    positions: dict[str, int] = {}
    if not model.startswith(PREFIX):
        return positions
    for item in history.back():
        entry = item.entry if isinstance(item, Line) else None
        asked = entry if isinstance(entry, ModelFailed) else usage_in(entry)
        if asked is not None and asked.model == model:
            positions.setdefault(asked.purpose, asked.position)
            if asked.purpose == until:
                break
    return positions


def dropped_in(history: History) -> set[str]:
    """Passages a person dropped from recall, as `session entry`."""
    return {
        f"{item.entry.from_session} {item.entry.entry}"
        for item in itertools.islice(history.back(), _LOOKED_BACK_FOR_DROPS)
        if isinstance(item, Line) and isinstance(item.entry, RecallDropped)
    }


def never_sent(history: History) -> dict[str, str]:
    """Messages that were queued lately and neither sent nor taken back, by their ids."""
    waiting: dict[str, str] = {}
    settled: set[str] = set()
    for item in itertools.islice(history.back(), _LOOKED_BACK):
        match item.entry if isinstance(item, Line) else None:
            case UserMessage(queued=queued) | MessageWithdrawn(queued=queued):
                settled.add(queued)
            case MessageQueued(text=text) if isinstance(item, Line) and item.id not in settled:
                waiting[item.id] = text
    return dict(reversed(waiting.items()))
