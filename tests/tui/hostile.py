"""Run by the test beside it, on a terminal of its own: hostile text through every widget.

`python -m tests.tui.hostile COUNT HOME` shows COUNT payloads in each place, one place after the
other, and leaves. `COUNT` 0 shows harmless text instead, to learn what the app itself writes.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from textual.events import Paste
from textual.pilot import Pilot

from mindstone_tui.core import events as ev
from mindstone_tui.core.context.report import Block
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.ports import CommandHelp, ModelChoice, SessionHit, SessionRow
from mindstone_tui.tui.screens.sessions import SessionsScreen
from mindstone_tui.tui.widgets.fold import Fold
from mindstone_tui.tui.widgets.line_input import LineInput
from mindstone_tui.tui.widgets.recalled import Card
from tests.builders import say, transcript_in, use_tool
from tests.corpora import lines, unescaped
from tests.tui.shelf import Hasty, Shelf
from tests.tui.staged import (
    Staged,
    around,
    asked,
    left,
    passage,
    ready,
    recalled,
    report,
    settle,
    tool,
    until,
)

BRACKETS = (
    "[TODO] plan",
    "[/b] end",
    "[bold]x[/bold]",
    "[@click=app.quit]go[/]",
    "[link=http://e.x]y[/link]",
    "[[double]]",
    "[red on blue",
    "]stray[",
    "[$primary]v",
    "[not a tag!]",
)


def payloads(count: int) -> list[str]:
    """So many different hostile strings: each alone, then in pairs and around brackets."""
    alone = [unescaped(case) for case in lines("escapes.txt")]
    mixed: Iterator[str] = (f"{a}x{b}" for a, b in itertools.product(alone, alone))
    around_brackets = (f"{a}{b}" for a, b in itertools.product(alone, BRACKETS))
    return list(itertools.islice(itertools.chain(alone, around_brackets, mixed), count))


def text_of(count: int) -> str:
    """The payloads as one text, several a line."""
    if not count:
        return "harmless words"
    parts = [payload.replace("\n", "") for payload in payloads(count)]
    rows = [" ".join(parts[at : at + 6]) for at in range(0, len(parts), 6)]
    return "\n".join([*BRACKETS, *rows])


def events_of(text: str) -> list[ev.AnyEvent]:
    """The text in every event that carries some."""
    one = " ".join(text.split())
    return [
        ready(),
        asked(1, text),
        recalled(1, passage(text)),
        ev.ThinkingDelta(turn=1, text=text),
        *tool(1, "c1", text, text, text, finding=text, diff=text),
        ev.ToolStarted(turn=1, call="c2", name="shell", shown=text),
        ev.ToolOutput(turn=1, call="c2", text=text),
        ev.TextDelta(turn=1, text=text),
        ev.AnswerRecorded(turn=1, entry="a", text=f"```\n{text}\n```\n\n{text}", calls=0),
        ev.AlertRaised(turn=1, level="critical", metric=one, message=text, remedy=text),
        ev.Noticed(message=text, level="warning"),
        ev.NotSaved(what=text, remedy=text, unsaved=1),
        ev.CommandPrinted(command=one, text=text),
        ev.WindowPruned(
            turn=1,
            entry="p",
            left=(left(1, reason=text),),
            tokens_before=2,
            tokens_after=1,
            policy=text,
            trigger=text,
        ),
        ev.MemoryProposed(proposal="m", path=text, before="", after=text, why=text, sources=(1,)),
        ev.MessageQueued(entry="q", text=text),
        ev.EntryAppeared(
            entry="e",
            seq=1,
            kind="assistant_message",
            role="assistant",
            channel=text,
            turn=1,
            text=text,
        ),
        ev.ContextReported(
            report=report(
                "red",
                0.97,
                model=one,
                warnings=(text,),
                blocks=(
                    Block(
                        entry=one,
                        seq=1,
                        kind=one,
                        role=one,
                        turn=1,
                        tokens=1,
                        protected=True,
                        why=one,
                        preview=text,
                        parts={one: 1.0},
                    ),
                ),
            )
        ),
        ev.TurnEnded(turn=1, ending="failed", why=text, remedy=text),
    ]


class HostileShelf(Shelf):
    """A library whose every word is hostile."""

    def __init__(self, home: Path, text: str) -> None:
        super().__init__(home)
        self._text = text

    async def sessions(self) -> Sequence[SessionRow]:
        return [SessionRow(key=self._text, title=self._text, changed=self._text)]

    async def search(self, text: str) -> Sequence[SessionHit]:
        one = self._text
        return [SessionHit(key=one, seq=1, turn=1, ts=one, speaker=one, text=one)]


class Loaded(Staged):
    """A staged conversation that knows its text."""

    def __init__(self, text: str) -> None:
        super().__init__(events_of(text))
        self.text = text


async def tour(pilot: Pilot[object], app: MindstoneApp, talk: Loaded) -> None:
    """Show everything once."""
    await settle(pilot, talk)
    for fold in app.chat.query(Fold):
        fold.opened = True
    for card in app.chat.query(Card):
        card.action_unfold()
    await pilot.pause(0.1)
    prompt = app.chat.desk.prompt
    prompt.write(talk.text)
    await pilot.pause()
    prompt.clear()
    await pilot.press("slash")
    await pilot.pause()
    prompt.clear()
    app.notify(talk.text, markup=False)
    for key in ("f2", "f4", "f5", "f8", "f1", "f6"):
        await pilot.press(key)
        await pilot.pause(0.1)
        if key == "f4":
            await pilot.press("home", "down", "down")
            await pilot.pause(0.1)
        await pilot.press("escape")
        await pilot.pause()
    await pilot.press("f3")
    await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
    await pilot.press(*"abc")
    app.screen.query_one(LineInput).post_message(Paste(talk.text))
    await pilot.pause(0.1)
    await pilot.press("escape")
    wish = ev.ToolAsked(
        turn=1,
        call="c",
        name=talk.text,
        risk=talk.text,
        shown=talk.text,
        digest="0",
        diff=talk.text,
        why=talk.text,
        remember=(talk.text,),
    )
    talk.announce(wish)
    await pilot.pause(0.2)
    await pilot.press("n")
    app.exit(0)


def main(count: int, home: Path) -> None:
    text = text_of(count)
    talk = Loaded(text)
    with closing(transcript_in(home, disk=Hasty())) as transcript:
        say(transcript, text, text)
        use_tool(transcript, text, text, text)

    async def open_conversation(key: str) -> ev.Conversation:
        return talk

    async def models() -> list[ModelChoice]:
        return [ModelChoice(name=text, note=text, found=True)]

    given = msgspec.structs.replace(
        around(),
        library=HostileShelf(home, text),
        models=models,
        commands=(CommandHelp(name="x", usage=text, help=text),),
    )
    app = MindstoneApp(open_conversation, given)
    app.run(auto_pilot=lambda pilot: tour(pilot, app, talk))


if __name__ == "__main__":
    os.environ["COLORTERM"] = "truecolor"
    main(int(sys.argv[1]), Path(sys.argv[2]))
