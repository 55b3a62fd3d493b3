"""Commands about recall: search, explain, drop, switch."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from mindstone_tui.core.commands.bench import Bench
from mindstone_tui.core.commands.registry import command, wrong_use
from mindstone_tui.core.entries.memory import RecallDropped
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.foreign import one_line

if TYPE_CHECKING:
    from mindstone_tui.core.recall.ranking import Hit

_SHOWN = 8
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


@command("recall", usage="QUERY | why N | drop N | drop ID | on | off", words=("why", "drop"))
async def recall(bench: Bench, argument: str) -> AsyncIterator[AnyEvent]:
    """Search history; explain or drop a hit; switch automatic recall on or off."""
    word, _, rest = argument.partition(" ")
    if not argument:
        raise wrong_use("recall", "What should be found?")
    if word in ("why", "drop") and rest.strip().isdigit():
        hit = _hit(bench, int(rest))
        yield _why(hit) if word == "why" else _drop(bench, hit)
    elif word == "drop" and _ID.fullmatch(rest.strip()):
        yield _drop(bench, _hit_at(bench, rest.strip()))
    elif argument in ("on", "off"):
        bench.desk.recaller.switch(on=argument == "on")
        yield CommandPrinted(command="recall", text=f"Automatic recall is {argument}.")
    else:
        found = await bench.recall(argument, _SHOWN, bench.desk.settings.recall.scope)
        yield CommandPrinted(
            command="recall",
            text="\n".join(_row(at, hit) for at, hit in enumerate(found.hits, 1))
            or "Nothing in history fits.",
        )


def _row(number: int, hit: Hit) -> str:
    passage = hit.passage
    where = f"turn {passage.turn}, {passage.ts[:10]}, {passage.speaker or passage.role}"
    return f"{number:>2}. {hit.score:.2f}  {where}  #{passage.seq}\n    {one_line(hit.text, 200)}"


def _hit(bench: Bench, number: int) -> Hit:
    found = bench.last_recall()
    if found is None or not 1 <= number <= len(found.hits):
        raise wrong_use("recall", f"The last search has no hit {number}.")
    return found.hits[number - 1]


def _hit_at(bench: Bench, entry: str) -> Hit:
    """The hit of the last search whose passage stands in this entry."""
    found = bench.last_recall()
    for hit in found.hits if found is not None else ():
        if hit.passage.entry == entry:
            return hit
    raise wrong_use("recall", f"The last search has no hit in {entry}.")


def _why(hit: Hit) -> CommandPrinted:
    parts = "\n".join(f"  {name:14} {value:+.3f}" for name, value in hit.parts.items())
    text = f"{hit.score:.3f} for #{hit.passage.seq}, made of\n{parts}"
    return CommandPrinted(command="recall", text=text, data={"parts": dict(hit.parts)})


def _drop(bench: Bench, hit: Hit) -> CommandPrinted:
    entry = RecallDropped(from_session=hit.passage.session, entry=hit.passage.entry)
    bench.desk.record(entry, bench.desk.transcript.last_turn)
    bench.desk.recaller.drop(hit.passage.session, hit.passage.entry)
    return CommandPrinted(command="recall", text=f"#{hit.passage.seq} stays out of this session.")
