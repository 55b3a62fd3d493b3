"""Run by the test beside it, on a terminal of its own: hostile text through every widget.

`python -m tests.tui.hostile COUNT HOME` shows COUNT payloads in each place, one place after the
other, and leaves. `COUNT` 0 shows only brackets instead: what the app writes by itself.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from mindstone_tui.core import events as ev
from mindstone_tui.core.config import Settings
from mindstone_tui.core.context.report import Block, GoneExchange
from mindstone_tui.core.library.profile import ListedSession, SessionFilter
from mindstone_tui.core.library.search import SessionHit
from mindstone_tui.core.replay.playback import Replay
from mindstone_tui.core.transcript import History
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import CommandHelp, ModelChoice
from mindstone_tui.tui.screens.chat import ScreenWanted
from mindstone_tui.tui.screens.replay import ReplayScreen
from mindstone_tui.tui.widgets.base import Fold
from mindstone_tui.tui.widgets.exchange import Card
from tests.builders import places_in, say, transcript_in, use_tool
from tests.corpora import lines, unescaped
from tests.tui.shelf import Hasty, Shelf, listed
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

PLACES = "places.json"
"""Where the tour leaves its notes."""
PATIENCE = 600
"""Looks at a place before it is noted as unseen; a busy machine may need many."""
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
        return "\n".join(BRACKETS)
    parts = [payload.replace("\n", "") for payload in payloads(count)]
    rows = [" ".join(parts[at : at + 6]) for at in range(0, len(parts), 6)]
    return "\n".join([*BRACKETS, *rows])


def events_of(text: str) -> list[ev.AnyEvent]:
    """The text in every event that carries some."""
    one = " ".join(text.split())
    return [
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
                gone=(GoneExchange(turn=1, tokens=1, words=text),),
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

    async def sessions(self, wanted: SessionFilter | None = None) -> Sequence[ListedSession]:
        return [listed(self._text, self._text, self._text)]

    async def search(self, text: str, wanted: SessionFilter | None = None) -> Sequence[SessionHit]:
        one = self._text
        return [SessionHit(session=one, seq=1, turn=1, ts=one, speaker=one, excerpt=one, score=1.0)]


class Loaded(Staged):
    """A staged conversation that knows its text."""

    def __init__(self, text: str) -> None:
        super().__init__([ready(model=text, note=text)])
        self.text = text


class Tour:
    """A walk through every place that shows foreign text, and what was to be read there."""

    def __init__(self, pilot: Pilot[object], app: MindstoneApp, talk: Loaded) -> None:
        self.pilot, self.app, self.talk = pilot, app, talk
        self.seen: dict[str, bool] = {}

    async def see(self, place: str, where: str) -> None:
        """Look until the beginning of the text stands there as it is."""
        for _ in range(PATIENCE):
            await self.pilot.pause()
            self.seen[place] = BRACKETS[0] in self._read(where)
            if self.seen[place]:
                return

    def _read(self, where: str) -> str:
        """What stands in one widget of the screen: dialogs let what is below shine through."""
        screen = self.app.screen
        widgets = screen.query(where)
        strips = screen._compositor.render_strips()
        return "\n".join(
            strip.crop(widget.region.x, widget.region.right).text
            for widget in widgets
            for strip in strips[widget.region.y : widget.region.bottom]
        )

    async def paste(self, into: Callable[[], str]) -> None:
        """As a terminal pastes: the app hands it to whatever has the focus."""
        before = into()
        self.app.post_message(Paste(self.talk.text))
        await until(self.pilot, lambda: into() != before)

    async def over(self, place: str, *keys: str, where: str = "#dialog") -> None:
        """Open a screen, see it, paste into it where one can type, and come back."""
        if keys:
            await self.pilot.press(*keys)
        if where:
            await self.see(place, where)
        if isinstance(focused := self.app.focused, Input):
            await self.paste(lambda: focused.value)
            await self.pilot.press("home")
            await self.see(f"{place}, pasted", "Input:focus")
        for _ in range(4):
            if self.app.screen is self.app.chat:
                break
            await self.pilot.press("escape")
            await self.pilot.pause()

    async def chat(self) -> None:
        pilot, app, talk = self.pilot, self.app, self.talk
        await until(pilot, lambda: bool(app.screen.query("#welcome OptionList")))
        await self.see("first run", "#welcome")
        talk.announce(*events_of(talk.text))
        await settle(pilot, talk)
        await self.see("conversation", "#conversation")
        await self.see("panel", "#panel")
        for fold in app.chat.query(Fold):
            fold.opened = True
        await pilot.pause()
        for card in app.chat.query(Card):
            card.action_unfold()
        await pilot.pause()
        prompt = app.chat.input_area.prompt
        prompt.write(talk.text)
        prompt.move_cursor((0, 0))
        await self.see("prompt", "#prompt")
        prompt.clear()
        await self.paste(lambda: prompt.text)
        await pilot.press("ctrl+o")
        prompt.move_cursor((0, 0))
        await self.see("prompt, pasted", "#prompt")
        prompt.clear()
        await pilot.press("slash")
        await self.see("commands", "#completions")
        prompt.clear()
        await pilot.press("at")
        await self.see("files", "#completions")
        await pilot.press("tab")
        await until(pilot, lambda: prompt.text != "@")
        prompt.clear()
        app.notify(talk.text, markup=False)
        await self.see("notice", "Toast")

    async def screens(self) -> None:
        await self.over("inspector", "f2", where="#blocks")
        await self.pilot.press("f4")
        await until(self.pilot, lambda: bool(self.app.screen.query("LineList")))
        await self.over("transcript", "home", "down", "down", "slash", where="LineList")
        await self.over("models", "f5")
        await self.over("themes", "f8")
        await self.over("help", "f1")
        await self.over("memory", "f6", where=".decision")
        await self.over("sessions", "f3")
        await self.over("search results", "f3", *"abc")
        # Textual parses a command's help as markup: ours shows round brackets there.
        await self.over("palette", "ctrl+p", *"/x", where="")
        await self.app.navigator.open("replay", "1")
        await until(self.pilot, lambda: isinstance(self.app.screen, ReplayScreen))
        await self.over("recording", "end", "slash", where="#conversation")
        self.app.post_message(ScreenWanted(self.talk.text))
        await self.see("refused", "Toast")

    async def approval(self) -> None:
        text = self.talk.text
        wish = ev.ToolAsked(
            turn=1,
            call="c",
            name=text,
            risk=text,
            shown=text,
            digest="0",
            diff=text,
            why=text,
            remember=(text,),
            parts=(ev.AskedPart(text=text, verdict=text, reason=text, also=(text,)),),
            worst=text,
            scopes=(ev.AskedScope(scope="once", label=text),),
        )
        self.talk.announce(wish)
        await until(self.pilot, lambda: self.app.chat.input_area.decision is not None)
        await self.over("approval", where=".decision")


async def tour(
    pilot: Pilot[object], app: MindstoneApp, talk: Loaded, take: Callable[[str], object]
) -> None:
    """Show everything once, and note where the text was seen."""
    walk = Tour(pilot, app, talk)
    await walk.chat()
    await walk.screens()
    await walk.approval()
    take(json.dumps(walk.seen))
    app.exit(0)


def strew(folder: Path, text: str) -> Path:
    """Files with hostile names, and a theme that cannot be used for a hostile reason."""
    folder.mkdir(parents=True)
    text = text.encode("utf-8", "replace").decode()
    for number, part in enumerate(text.split("\n")[:40]):
        name = f"{part[:40]} {number}".replace("/", "|").replace("\0", "")
        (folder / name).touch()
    themes = folder / "themes"
    themes.mkdir()
    quoted = json.dumps(" ".join(text.split())[:400])
    (themes / "named.toml").write_text(f"name = {quoted}\nprimary = 'red'\n", encoding="utf-8")
    (themes / "broken.toml").write_text(f"primary = {quoted}\n", encoding="utf-8")
    return folder


def main(count: int, home: Path) -> None:
    text = text_of(count)
    talk = Loaded(text)
    with closing(transcript_in(home, disk=Hasty())) as transcript:
        say(transcript, text, text)
        use_tool(transcript, text, text, text)

    async def open_conversation(key: str) -> ev.Conversation:
        return talk

    async def models() -> list[ModelChoice]:
        return [ModelChoice(name=text, note=text)]

    async def recordings(key: str, turn: int) -> Replay:
        return Replay(History(places_in(home)), Settings(), speed=0.0, playing=True)

    folder = strew(home / "folder", text)
    given = msgspec.structs.replace(
        around(folder),
        library=HostileShelf(home, text),
        models=models,
        recordings=recordings,
        user_themes=folder / "themes",
        commands=lambda: (CommandHelp(name="x", usage=text, help=text),),
    )
    app = MindstoneApp(open_conversation, given)
    app.run(auto_pilot=lambda pilot: tour(pilot, app, talk, (home / PLACES).write_text))


if __name__ == "__main__":
    os.environ["COLORTERM"] = "truecolor"
    main(int(sys.argv[1]), Path(sys.argv[2]))
