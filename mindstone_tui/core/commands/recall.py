"""Commands about recall: search, explain, drop, switch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from mindstone_tui.core.commands.registry import command, wrong_use
from mindstone_tui.core.entries.derived import RecallDropped
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import one_line

if TYPE_CHECKING:
    from mindstone_tui.core.recall.passages import Passage
    from mindstone_tui.core.recall.ranking import Hit
    from mindstone_tui.core.session.services import SessionServices


_SHOWN = 8
_SOURCE = pattern_of(r"(?:[0-9A-HJKMNP-TV-Z]{26}|[\w/.-]+\.md)(?: \S+)?")
"""A line's id or a file's name, and whose it is."""


@command(
    "recall",
    usage="QUERY | why N | drop N | drop ENTRY [SESSION] | on | off",
    words=("why", "drop"),
)
async def recall(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Search history; explain or drop a hit; switch automatic recall on or off."""
    word, _, rest = argument.partition(" ")
    if not argument:
        raise wrong_use("recall", "What should be found?")
    if word == "why" and rest.strip().isdigit():
        yield _why(_hit(services, int(rest)))
    elif word == "drop" and rest.strip().isdigit():
        yield _drop(services, _Source.of(_hit(services, int(rest)).passage))
    elif word == "drop" and _SOURCE.fullmatch(rest.strip()):
        yield _drop(services, _source(services, *rest.split()))
    elif argument in ("on", "off"):
        services.recall.switch(on=argument == "on")
        yield CommandPrinted(command="recall", text=f"Automatic recall is {argument}.")
    else:
        found = await services.recall.search(
            argument,
            _SHOWN,
            services.context.settings.recall.scope,
            pinned=services.context.window.fold.state.pins,
            memories=True,
        )
        yield CommandPrinted(
            command="recall",
            text="\n".join(_row(at, hit) for at, hit in enumerate(found.hits, 1))
            or "Nothing in history matches.",
        )


def _row(number: int, hit: Hit) -> str:
    passage = hit.passage
    where = f"{passage.pointer}, {passage.ts[:10]}, {passage.speaker or passage.role}"
    return f"{number:>2}. {hit.score:.2f}  {where}\n    {one_line(hit.text, 200)}"


def _hit(services: SessionServices, number: int) -> Hit:
    found = services.recall.last
    if found is None or not 1 <= number <= len(found.hits):
        raise wrong_use("recall", f"The last search has no hit {number}.")
    return found.hits[number - 1]


class _Source(msgspec.Struct, frozen=True):
    """Where a passage stands, and how to call that."""

    session: str
    entry: str
    name: str

    @staticmethod
    def of(passage: Passage) -> _Source:
        name = f"#{passage.seq}" if passage.seq >= 0 else passage.entry
        return _Source(passage.session, passage.entry, name)


def _source(services: SessionServices, entry: str, session: str = "") -> _Source:
    """The source of a passage that was recalled at any time; raises `NoSuchEntry`.

    What stands elsewhere is taken at its word: a pointer to nothing keeps nothing out.
    """
    found = services.recall.last
    for hit in found.hits if found is not None else ():
        if hit.passage.entry == entry and session in ("", hit.passage.session):
            return _Source.of(hit.passage)
    if session in ("", str(services.key)):
        line = services.refer(entry)
        return _Source(str(services.key), line.id, f"#{line.seq}")
    return _Source(session, entry, f"{entry} of {session}")


def _why(hit: Hit) -> CommandPrinted:
    parts = "\n".join(f"  {name:14} {value:+.3f}" for name, value in hit.parts.items())
    text = f"{hit.score:.3f} for {hit.passage.pointer}, made of\n{parts}"
    return CommandPrinted(command="recall", text=text, data={"parts": dict(hit.parts)})


def _drop(services: SessionServices, source: _Source) -> CommandPrinted:
    entry = RecallDropped(from_session=source.session, entry=source.entry)
    services.context.window.record(entry, services.context.transcript.last_turn)
    services.recall.drop(source.session, source.entry)
    return CommandPrinted(command="recall", text=f"{source.name} is not recalled here any more.")
