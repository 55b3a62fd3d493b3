"""The conversation: a window of mounted exchanges over everything said so far.

Only exchanges near the view have widgets. Older ones are read from history and mounted when the
view comes near them; their place on the screen does not move while that happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final

from textual import work
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.layout import WidgetPlacement
from textual.widget import Widget

from mindstone_tui.tui.host import Browse
from mindstone_tui.tui.widgets.base import GrowsQuietly

if TYPE_CHECKING:
    from mindstone_tui.core import events as ev
    from mindstone_tui.core.entries import Line
    from mindstone_tui.core.transcript.reader import Damaged
    from mindstone_tui.tui.from_entries import ExchangeEvents, Feed
    from mindstone_tui.tui.widgets.exchange import ExchangeView

PAGE: Final = 120
"""Lines of history that are read at once."""
STEP: Final = 8
"""Exchanges that are mounted at once."""
MOST: Final = 36
"""Exchanges that stay mounted; those farthest from the view give way."""

_NO_END: Final = (
    "This turn had not ended when you came: the program was stopped, or it runs elsewhere."
)


class ConversationView(VerticalScroll, GrowsQuietly):
    """Scrolls through the exchanges; stays at the end until someone scrolls away."""

    BINDINGS = [Binding("end,G", "newest", "Newest", show=False, id="chat.newest")]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's own name)
        super().__init__(id=id)
        self._views: dict[int, ExchangeView] = {}
        self._first = 0
        self._end = 0
        self._history: Browse | None = None
        self.past: Callable[[], Browse] | None = None
        """Looks the session's history up, if there is one."""
        self._unread = 0
        self._open_turn: list[Line | Damaged] = []
        self._rewinds: list[Line | Damaged] = []
        self._moving = asyncio.Lock()
        self._pages = 0
        self._held: tuple[ExchangeView, float] | None = None

    # What is said is drawn with half of our modules; the first picture does not wait for them.

    @property
    def text(self) -> str:
        """The conversation as plain text."""
        return "\n\n".join(
            part
            for one in self.feed.exchanges
            for part in ((f"> {one.question}" if one.question else ""), one.answer)
            if part
        )

    @cached_property
    def feed(self) -> Feed:
        """Everything that was read or heard so far."""
        from mindstone_tui.tui.from_entries import Feed  # 18 ms

        return Feed()

    def _view(self, exchange: ExchangeEvents) -> ExchangeView:
        """A widget for an exchange, found under it from now on."""
        from mindstone_tui.tui.widgets.exchange import ExchangeView  # 24 ms

        view = self._views[id(exchange)] = ExchangeView(exchange)
        return view

    @property
    def views(self) -> list[ExchangeView]:
        """The exchanges that have widgets, oldest first."""
        from mindstone_tui.tui.widgets.exchange import ExchangeView  # 24 ms

        return list(self.query(ExchangeView))

    def on_mount(self) -> None:
        self.anchor()

    def on_resize(self) -> None:
        """Stay at the end: an anchor is laid out with the height before, and its bar not drawn."""
        if self._follows_end:
            self.scroll_y = self.scroll_target_y = self.max_scroll_y
            self.vertical_scrollbar.refresh()

    async def show(self, event: ev.AnyEvent) -> None:
        """Draw an event where it belongs."""
        at_end = self._end == len(self.feed)
        before = len(self.feed)
        if (exchange := self.feed.add(event)) is None:
            return
        if len(self.feed) > before:
            if at_end:
                await self._mount_newest(exchange)
            return
        self._play(exchange, event)
        became = ("rewound", "restored", "statement_superseded")
        went_back = getattr(event, "kind", "") in became
        if went_back or hasattr(event, "direction"):  # files were put back
            await self._mark_turns()

    def _play(self, exchange: ExchangeEvents, event: ev.AnyEvent) -> None:
        if (view := self._views.get(id(exchange))) is not None:
            view.play(event)

    async def _mark_turns(self) -> None:
        """Let every turn say what became of it, after what counts has changed."""
        from mindstone_tui.core.entries import standings as became  # 8 ms
        from mindstone_tui.core.events import Noticed  # 10 ms

        if self.past is None:
            return
        standings = await self.past().standings()
        for exchange in self.feed.exchanges:
            before, exchange.notes = exchange.notes, standings.notes(exchange.turn)
            told = [note for note in exchange.notes if note not in before]
            gone = [note for note in before if note not in exchange.notes]
            told += [became.COUNTS_AGAIN] * (became.REWOUND in gone)
            undone = any(note.startswith(became.UNDONE) for note in gone)
            told += [became.DONE_AGAIN] * (undone and not exchange.since)
            replaced = any(note.startswith(became.REPLACED) for note in gone)
            told += [became.HOLDS_AGAIN] * (replaced and became.REWOUND not in exchange.notes)
            for note in told:
                said = Noticed(message=note, level="warning")
                exchange.add(said)
                self._play(exchange, said)
            if told and (view := self._views.get(id(exchange))) is not None:
                view.became()

    async def place(self, widget: Widget) -> None:
        """Put something at the very top, above all exchanges."""
        await self.mount(widget, before=0)

    async def _mount_newest(self, exchange: ExchangeEvents) -> None:
        self._end += 1
        await self.mount(self._view(exchange))
        if self._end - self._first > MOST and self.is_vertical_scroll_end:
            await self._unmount(self._first, self._first + STEP)
            self._first += STEP

    # history

    async def open(self, history: Browse) -> None:
        """Show the newest exchanges of a session that has some already."""
        self._history = history
        self._unread = await history.length()
        older: list[ExchangeEvents] = []
        while self._unread and len(older) < STEP:
            older = [*await self._read_page(), *older]
        if older and not older[-1].ended:
            from mindstone_tui.core.events import Noticed  # 10 ms

            older[-1].add(Noticed(message=_NO_END, level="warning"))
        self.feed.prepend(older)
        self._first = self._end = len(older)
        await self._mount_above(STEP)
        self._fill()

    async def _read_page(self) -> list[ExchangeEvents]:
        """One page further back; a turn that began before it waits for the next page."""
        # Reading transcripts is not needed for the first paint, nor for a new session.
        from mindstone_tui.core.entries.standings import NOTES
        from mindstone_tui.tui.from_entries import exchanges_in, split_at_turn

        assert self._history is not None
        first = max(0, self._unread - PAGE)
        lines = await self._history.lines(first, self._unread - first)
        self._unread = first
        # What takes a turn back stands behind it: pages are read from the end.
        self._rewinds += [one for one in lines if getattr(one, "kind", "") in NOTES]
        opening, rest = split_at_turn([*lines, *self._open_turn])
        if first == 0:
            opening, rest = [], [*opening, *rest]
        self._open_turn = opening
        return exchanges_in(rest, self._rewinds)

    async def _mount_above(self, count: int) -> None:
        first = max(0, self._first - count)
        fresh = [self._view(exchange) for exchange in self.feed.exchanges[first : self._first]]
        if not fresh:
            return
        self._first = first
        await self.mount_all(fresh, before=self._top())

    async def _mount_below(self, count: int) -> None:
        end = min(len(self.feed), self._end + count)
        fresh = [self._view(exchange) for exchange in self.feed.exchanges[self._end : end]]
        self._end = end
        await self.mount_all(fresh)

    def _top(self) -> int:
        views = self.views
        return self.children.index(views[0]) if views else len(self.children)

    async def _unmount(self, first: int, end: int) -> None:
        gone: list[Widget] = [
            view
            for exchange in self.feed.exchanges[first:end]
            if (view := self._views.pop(id(exchange), None)) is not None
        ]
        await self.remove_children(gone)

    # scrolling

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if self._held is not None:
            self._hold(self._held[0])
        near = self.size.height
        if new < old and new < near and self._more_above:
            self._go_up()
        elif new > old and self.max_scroll_y - new < near and self._more_below:
            self._go_down()

    def turn_page(self, direction: int) -> None:
        """Scroll by what is in view; pages not mounted yet are waited for, so no key is lost.

        The other direction takes back what is still to come.
        """
        waiting = self._pages
        self._pages = direction if waiting * direction < 0 else waiting + direction
        if not waiting:
            self._turn_pages()

    @work(exclusive=True, group="pages")
    async def _turn_pages(self) -> None:
        while self._pages:
            direction = 1 if self._pages > 0 else -1
            await self._turn(direction)
            if self._pages * direction > 0:
                self._pages -= direction

    async def _turn(self, direction: int) -> None:
        height = self.scrollable_content_region.height
        if direction < 0:
            while self._pages and self.scroll_y < height and self._more_above:
                await self._reach_up()
        elif self._end < len(self.feed) and self.max_scroll_y - self.scroll_y < height:
            await self._reach_down()
            await self.wait_for_refresh()
        if self._pages:
            self.scroll_to(y=self.scroll_y + direction * height, animate=False, immediate=True)

    @property
    def _more_above(self) -> bool:
        return bool(self._first or self._unread or self._open_turn)

    @property
    def _more_below(self) -> bool:
        return bool(self._views) and self._end < len(self.feed)

    @work(exclusive=True, group="fill")
    async def _fill(self) -> None:
        """Mount more until there is something to scroll to."""
        await self.wait_for_refresh()
        while self._more_above and self.virtual_size.height < 2 * self.size.height:
            await self._reach_up()

    @work(group="scroll")
    async def _go_up(self) -> None:
        if not self._moving.locked():
            await self._reach_up()

    async def _reach_up(self) -> None:
        async with self._moving:
            if not self._first and self._unread:
                await self._read_older()
            async with self._holding_still():
                await self._mount_above(STEP)
            if self._end - self._first > MOST and not self.is_vertical_scroll_end:
                keep = self._first + MOST
                await self._unmount(keep, self._end)
                self._end = keep

    async def _read_older(self) -> None:
        older: Sequence[ExchangeEvents] = []
        while self._unread and not older:
            older = await self._read_page()
        self.feed.prepend(older)
        self._first += len(older)
        self._end += len(older)

    @work(group="scroll")
    async def _go_down(self) -> None:
        if not self._moving.locked():
            await self._reach_down()

    async def _reach_down(self) -> None:
        async with self._moving:
            await self._mount_below(STEP)
            if (surplus := self._end - self._first - MOST) > 0:
                async with self._holding_still():
                    await self._unmount(self._first, self._first + surplus)
                    self._first += surplus

    @asynccontextmanager
    async def _holding_still(self) -> AsyncIterator[None]:
        """Keep the top of the view in place while things change above it."""
        top = self.scroll_offset.y
        seen = (view for view in self.views if view.virtual_region.bottom > top)
        if (first := next(seen, None)) is not None and not self._follows_end:
            self._hold(first)
        try:
            yield
            await self.wait_for_refresh()
        finally:
            self._held = None

    @property
    def _follows_end(self) -> bool:
        return self.is_anchored and not self._anchor_released

    def _hold(self, view: ExchangeView) -> None:
        self._held = (view, view.virtual_region.y - self.scroll_y)

    def process_layout(self, placements: list[WidgetPlacement]) -> list[WidgetPlacement]:
        """Scroll in the same layout that moves things, so that nobody sees them jump."""
        if self._held is not None:
            view, distance = self._held
            for placement in placements:
                if placement.widget is view:
                    self.set_reactive(Widget.scroll_y, placement.region.y - distance)
                    self.set_reactive(Widget.scroll_target_y, placement.region.y - distance)
        return placements

    async def action_newest(self) -> None:
        """Go back to the newest exchange."""
        self._pages = 0
        async with self._moving:
            if self._end < len(self.feed):
                with self.app.batch_update():
                    await self._unmount(self._first, self._end)
                    self._first = self._end = len(self.feed)
                    await self._mount_above(STEP)
        self.anchor()
