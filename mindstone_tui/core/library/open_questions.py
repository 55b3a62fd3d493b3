"""Whatever waits for a person, in any session: derived from history, so that no surface holds it.

A question that nobody answered is in the transcript of its session, whoever asked it and whatever
became of them. Who takes the turn is known from its lease.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import msgspec

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import (
    ToolAnswered,
    ToolAsked,
    ToolReturned,
    TurnEnded,
)
from mindstone_tui.core.entries.derived import MemoryDecided, MemoryProposed, PlanChanged
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.events.narrate_entry import SURFACES
from mindstone_tui.core.library.lease import Holder, Lease
from mindstone_tui.core.numbers import ago
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.text import one_line
from mindstone_tui.core.transcript import History

_LOOKED_BACK: Final = 2_000
"""Lines of a session in which something that waits is looked for."""
_KINDS: Final = (
    "tool_asked",
    "tool_answered",
    "tool_returned",
    "turn_ended",
    "memory_proposed",
    "memory_decided",
    "plan_changed",
)


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a person: who asked what, and since when nobody has answered."""

    session: str
    turn: int
    kind: Literal["approval", "memory", "plan"] = "approval"
    call: str
    """What an answer names: a call, or a proposal."""
    name: str
    risk: str = ""
    shown: str
    why: str = ""
    channel: str
    """The surface that asked."""
    since: str
    """ISO 8601."""
    unattended: bool = False
    """Nobody looks any more at the surface that asked."""
    gone: bool = False
    """The program that asked has ended, and its turn with it: a yes cannot begin anything."""

    @property
    def what(self) -> str:
        """Exactly what is asked about: a command without its title."""
        title, _, body = self.shown.partition("\n")
        return body or title.removeprefix("run ") if self.risk == "run" else self.shown

    @property
    def asker(self) -> str:
        """The surface that asked, in words."""
        other = f"another program ({one_line(self.channel, 20)})"
        _, surface = SURFACES.get(self.channel, ("by", other))
        return surface[0].upper() + surface[1:]

    def sentence(self, now: datetime) -> str:
        """Who waits for what since when."""
        when = ago(datetime.fromisoformat(self.since), now)
        what = self.what if self.risk == "run" else self.what.partition("\n")[0]
        if self.kind != "approval":
            return f"{one_line(what, 120)}, proposed {when}, waits for a decision."
        verb = "run" if self.risk == "run" else "allow"
        told = f"{self.asker} asked {when} whether to {verb} `{one_line(what, 120)}`"
        if self.gone:
            return f"{told}, and has ended before anybody answered; nothing ran."
        told = f"{told}, and waits for an answer"
        return f"{told}; nobody has it open any more." if self.unattended else f"{told}."

    @property
    def remedy(self) -> str:
        """How anybody can end the wait."""
        name = self.session.removeprefix("agent:default:")
        match self.kind:
            case "memory":
                both = (f"`mindstone memory {verb} {self.call}" for verb in ("approve", "refuse"))
                return " or ".join(f"{each} -s {name}`" for each in both) + " decides."
            case "plan":
                return f'`mindstone run -s {name} "/plan approve"` begins it.'
        if self.gone:
            return f"Say `go on` in {name}: it is asked again where it is still wanted."
        return f'`mindstone run -s {name} "/answer no"` declines it.'


def still_open(lines: Iterable[Line]) -> list[Line]:
    """The questions among the lines of a turn that nothing has answered, oldest first."""
    asked: dict[str, Line] = {}
    for line in lines:
        match line.entry:
            case ToolAsked(call=call):
                asked[call] = line
            case ToolAnswered(call=call) | ToolReturned(call=call):
                asked.pop(call, None)
            case TurnEnded():
                asked.clear()
    return list(asked.values())


def question_in(line: Line, lease: Lease, *, gone: bool = False) -> OpenQuestion:
    """A line that asks about a tool, as what waits."""
    assert isinstance(line.entry, ToolAsked)
    asked = line.entry
    return OpenQuestion(
        session=str(lease.key),
        turn=line.turn,
        call=asked.call,
        name=asked.name,
        risk=asked.risk,
        shown=asked.shown,
        why=asked.why,
        channel=line.channel,
        since=line.ts,
        unattended=lease.holder == Holder(line.channel, unattended=True),
        gone=gone,
    )


def waiting_in(places: SessionPlaces) -> list[OpenQuestion]:
    """What waits in one session, oldest first."""
    with History(places) as history:
        lines = list(history.newest(_KINDS, _LOOKED_BACK))[::-1]
    found = [*_proposed(places.key, lines), *_planned(places.key, lines)]
    if asked := still_open(lines):
        lease = Lease(places)
        gone = lease.try_take()
        lease.give_back()
        found += [question_in(line, lease, gone=gone) for line in asked]
    return sorted(found, key=lambda one: one.since)


def waiting_everywhere(places: Places) -> list[OpenQuestion]:
    """What waits in any session, oldest first; a session that cannot be read has nothing to say."""
    found: list[OpenQuestion] = []
    for session in places.sessions():
        with contextlib.suppress(MindstoneError, OSError):
            found += waiting_in(session)
    return sorted(found, key=lambda one: one.since)


def _proposed(key: SessionKey, lines: Iterable[Line]) -> list[OpenQuestion]:
    waiting: dict[str, OpenQuestion] = {}
    for line in lines:
        match line.entry:
            case MemoryProposed(proposal=proposal, path=path, after=after, why=why):
                waiting[proposal] = OpenQuestion(
                    session=str(key),
                    turn=line.turn,
                    kind="memory",
                    call=proposal,
                    name=path,
                    shown=f"The memory {path}\n{after}",
                    why=why,
                    channel=line.channel,
                    since=line.ts,
                )
            case MemoryDecided(proposal=proposal):
                waiting.pop(proposal, None)
    return list(waiting.values())


def _planned(key: SessionKey, lines: Iterable[Line]) -> list[OpenQuestion]:
    """A plan that was made, since a turn ended after planning began, and not decided on."""
    plan: Line | None = None
    made: Line | None = None
    for line in lines:
        match line.entry:
            case PlanChanged(stage=stage):
                plan = line if stage in ("planning", "edited") else None
                made = line if stage == "edited" else None
            case TurnEnded(ending="done") if plan is not None and line.turn > plan.turn:
                made = line
    if plan is None or made is None:
        return []
    return [
        OpenQuestion(
            session=str(key),
            turn=made.turn,
            kind="plan",
            call="plan",
            name="plan",
            shown="A plan",
            channel=made.channel,
            since=made.ts,
        )
    ]
