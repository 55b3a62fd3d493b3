"""Commands about the record: play it again, take it elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mindstone_tui.core.commands.bench import Bench
from mindstone_tui.core.commands.registry import command, wrong_use
from mindstone_tui.core.events import AnyEvent, CommandPrinted, ScreenAsked

FORMATS = ("html", "md", "json", "cast")


@command("replay", usage="[turn N]")
async def replay(bench: Bench, argument: str) -> AsyncIterator[AnyEvent]:
    """Play this session again, and see what the model saw at each moment."""
    turn = argument.removeprefix("turn").strip()
    if turn and not turn.isdigit():
        raise wrong_use("replay", f"`{argument}` is not a turn.")
    watch = f"Watch it with `mindstone replay {bench.key}`"
    prove = "prove every request with `--all --check`."
    yield ScreenAsked(screen="replay", argument=turn, otherwise=f"{watch}; {prove}")


@command("export", usage="[html|md|json|cast] [FILE]", words=FORMATS)
async def export(bench: Bench, argument: str) -> AsyncIterator[AnyEvent]:
    """Write this session to a file: a page, a document, data or a recording."""
    kind, _, name = argument.partition(" ")
    kind = kind or "html"
    if kind not in FORMATS:
        raise wrong_use("export", f"There is no format {kind}; known: {', '.join(FORMATS)}.")
    path = bench.cwd / (name.strip() or f"mindstone-{bench.key.main}.{kind}")
    await bench.export(kind, path)
    yield CommandPrinted(command="export", text=f"Written to {path}.", data={"path": str(path)})
