"""A live session: owner of the turn, verbs in, one ordered stream out.

One task takes turns and runs commands that change the window, in the order they were asked for;
commands that only look run at once. Everything a client hears comes through one queue, after the
entry it is about is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from mindstone_tui.core import entries, errors, events
from mindstone_tui.core.agent.turn import go_on, take_turn
from mindstone_tui.core.entries import conversation
from mindstone_tui.core.events.from_entry import appeared, used_elsewhere
from mindstone_tui.core.library.lease import Holder, Lease, SharedLease
from mindstone_tui.core.session import draft, inbox, options, questions, recover
from mindstone_tui.core.session.attachments import attach, keep, not_taken
from mindstone_tui.core.session.services import FIRST_PICTURE, SessionServices
from mindstone_tui.core.transcript.follow import changes

if TYPE_CHECKING:
    from mindstone_tui.core.shared.copies import Feed  # psycopg: 0.15 s


_BEFORE_IT_WAS_SAID: Final = (errors.EntryNotSaved, errors.DamagedTranscript, errors.PlaceError)
"""What keeps a message from becoming a turn; whoever said it gets it back."""
_TAKEN_BACK: Final = "taken back"
_A_MOMENT: Final = 0.5
"""Seconds in which a program that asked goes on with its answer, if it is still there."""


class Session:
    """A conversation that is happening now; see `events.Conversation` for the contract."""

    def __init__(self, services: SessionServices, lease: Lease, *, wait: bool) -> None:
        self.services = services
        """What commands and screens may look at."""
        self._context = services.context
        self._lease = lease
        self._wait = wait
        self._out = inbox.Outbox(services)
        self.events = self._out.stream
        self._emit = self._out.emit
        self._report = self._out.report
        self._complain = self._out.complain
        self._inbox = inbox.Inbox()
        self._work: asyncio.Task[bool] | None = None
        """The turn or the command that can be interrupted."""
        self._turn = 0
        """Its number, once it has begun."""
        self._wanted = ""
        """The queued message whose turn can begin when another surface's is over."""
        self._turns = 0
        """How many were taken here: after one, vectors are left to others; who stays makes them."""
        self._read_only_tasks: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._feed: Feed | None = None
        self._questions = questions.SharedQuestions(services.context, self._emit)
        services.context.questions.on_ask = partial(self._questions.have_patience, self.answer)
        services.answer = partial(self._questions.answer_all, lease, self.answer)
        self._closing = self._unattended = self._in_turn = False
        self.on_away: Callable[[inbox.SentMessage | None], None] | None = None
        """Told that the server went away, with the message that had no turn, if there is one; who
        listens takes it on. None where nobody does, and then it is handed back."""
        self._unsent: dict[str, str] = {}  # what a program that stopped had queued
        self._draft = draft.DraftWriter(services.places.draft, services.context.transcript.clean)
        self._others = draft.Onlooker(services.places.draft, self._emit)
        self._onlooker: asyncio.Task[None] | None = None

    def start(self, *, follow: bool) -> None:
        """Begin to listen; call once, on the loop."""
        self._context.window.on_replaced = self._on_replaced
        self._context.tell = self._emit
        self.services.on_vectors = self._vectors_followed
        self._owner = asyncio.create_task(self._run_queue(), name="session")
        if isinstance(self._lease, SharedLease):
            self._lease.on_lost = partial(
                asyncio.get_running_loop().call_soon_threadsafe,
                self.interrupt,
                "Another machine took over this session.",
            )
        if follow:
            self._follower = asyncio.create_task(self._follow(), name="follower")
            self._onlooker = asyncio.create_task(
                self._others.watch(lambda: not self._inbox.serving), name="onlooker"
            )
        alone = follow and self._settle()
        self._emit(self.services.ready())
        for told in filter(None, (self.services.unheeded, self.services.greeting)):
            self._emit(events.Noticed(message=told, level="warning"))
        self._report()
        if follow:
            self._remind(alone)
            self._resuming = asyncio.create_task(self._announce_resume(), name="resuming")
            if self.services.recall.by_words:
                self.services.tidy(after=FIRST_PICTURE)

    def _listen(self) -> None:
        """Have what other machines write brought here as they write it, until this is closed."""
        if self.services.store is not None:
            from mindstone_tui.core.shared.copies import Feed  # psycopg: 0.15 s

            self._feed = Feed(self.services.places, self.services.store.another())
            self._feed.start()

    def _on_replaced(self, what: str) -> None:
        """Another history stands in this one's place: a turn of the old one cannot go on in it."""
        self._emit(events.Noticed(message=what, level="error"))
        turn = self._turn

        def stop() -> None:
            if turn and turn == self._turn:
                self.interrupt("Another history was put in the transcript's place.")

        # Not at once: this may be the turn's own end being written.
        asyncio.get_running_loop().call_soon(stop)

    def _vectors_followed(self, by_words: int) -> None:
        """More can be found by meaning; a running turn reports on its own requests."""
        if not self._in_turn:
            self.services.recall.by_words = by_words
            self._report()

    def send(
        self,
        text: str,
        *,
        attachments: Sequence[events.Attachment] = (),
        images: Sequence[entries.Image] = (),
        steer: bool = False,
        before: Sequence[options.ForeignExchange] = (),
        matched: conversation.ClientMatched | None = None,
        added: tuple[str, str] = ("", ""),
    ) -> None:
        """Say something; while a turn runs it is queued, or steers that turn when told to.

        Raises when an attachment cannot be used or the session is closed.
        """
        if self._closing:
            raise errors.UsageError("This session is closed.", "Open it again.")
        attached = attach(text, [each.path for each in attachments], self._context.transcript)
        shown = (*images, *attached.images)
        if untaken := self.not_taken(shown):
            self._emit(events.Noticed(message=untaken, level="warning"))
        said = inbox.SentMessage(attached.text, shown, "", tuple(before), matched, added)
        idle = self._inbox.idle.is_set() and not (self._wait and self._others.running.is_set())
        said = said if idle else self._out.queue(said)
        if steer and self._in_turn and not idle:
            self._context.steering.append(said.message)
        else:
            self._inbox.put(said)

    def keep(self, data: bytes, seen: entries.Image) -> entries.Image:
        """Keep a picture or a sound that a message will show."""
        return keep(data, seen, self._context.transcript)

    def not_taken(self, images: Sequence[entries.Image]) -> str:
        """What a person should know about those that the model cannot be shown; else nothing."""
        return not_taken(images, self._context.info)

    def take_on(self, said: inbox.SentMessage, other: Session) -> None:
        """Say what was said to another session, which could not take it."""
        with (
            contextlib.suppress(errors.MindstoneError),
            other._context.transcript.history() as history,
        ):
            for image in said.images:
                self._context.transcript.keep_blob(history.blob(image.sha256))
        self._inbox.put(said)

    def command(self, line: str, *, how: str = "", seen: float = 0.0, writing: float = 0.0) -> None:
        """Run a slash command: at once if it only looks, in its turn if it changes the window."""
        try:
            feature, command, argument = self.services.features.command(line)
        except errors.MindstoneError as error:
            inbox.end_command(line, error, self._emit)
            return
        read = self._out.read_before(writing)
        asked = inbox.AskedCommand(feature, command, line, argument, how, seen, read)
        back = command.name in inbox.GO_BACK
        if back and (self._turn or self._others.take_a_turn(self._lease, self._catch_up)):
            inbox.end_command(line, errors.UsageError(*inbox.NOT_DURING_A_TURN), self._emit)
        elif asked.changes_window:
            self._inbox.put(asked)
            if self._turn:
                self._emit(events.Noticed(message=inbox.AFTER_THE_TURN.format(line)))
        else:
            if recover.open_turn(self._context, self.services.history):
                self._take_over("not yet")  # its program may be gone: what it left is told, too
            looking = asyncio.create_task(self._run_command(asked), name=command.name)
            self._read_only_tasks.add(looking)
            looking.add_done_callback(lambda task: self._read_only_done(task, line))

    async def _announce_resume(self) -> None:
        """Say what was left open; git is asked for what changed, so not on the loop."""
        with contextlib.suppress(errors.MindstoneError):
            for message in await asyncio.to_thread(self.services.left_open):
                self._emit(events.Noticed(message=message))

    def _read_only_done(self, task: asyncio.Task[None], line: str) -> None:
        self._read_only_tasks.discard(task)
        if task.cancelled():
            inbox.end_command(line, errors.Interrupted("Interrupted before it began."), self._emit)

    def answer(self, call: str, answer: events.Answer) -> None:
        """Answer a `ToolAsked`."""
        try:
            with contextlib.suppress(errors.EntryNotSaved):  # writing it says so, and ends the turn
                self._catch_up()
            self._take_over("not yet", "" if answer.allowed else call)
            written = self._questions.write(call, answer)
            self._catch_up()  # what others wrote before it comes first, an answer among it
            if written is not None:
                self._questions.hear(written)
                self._take_over()
        except errors.MindstoneError as error:
            self._complain(error)

    def _take_over(self, answered: str = "here", declined: str = "") -> None:
        """Go on with the turn whose question was just answered, if its program left it.

        Before that is answered, a turn that nobody can go on with is ended, and that is told.
        """
        if self._closing or self._inbox.serving or not self._lease.try_take():
            return
        try:
            if answered == "not yet":
                if self._questions.left() is None:
                    self._questions.tell_left(self._lease, declined)
                    self._take_in(self.services.close_open_turn())
            elif self._questions.to_go_on_with() is not None:
                self._inbox.put(inbox.LeftTurn(), first=True)
            elif answered == "here" and not self._questions.has_yes():
                self._take_in(self.services.close_open_turn())
        except errors.MindstoneError as error:
            self._complain(error)
        finally:
            self._lease.give_back()

    def attend(self, somebody: bool) -> None:
        """Say whether anybody looks at this surface; whoever waits for its turn is told."""
        self._unattended = not somebody
        self._inbox.attend(somebody)
        self._context.permissions.attend(somebody)
        self._lease.note(Holder(self._context.transcript.channel, self._unattended))

    def withdraw(self, entry: str) -> None:
        """Take a queued message back."""
        if self._inbox.take_back(self._context.steering, entry):
            self._out.withdrawn(entry)
        elif entry == self._wanted and self._work is not None:
            self._wanted = _TAKEN_BACK
            self._work.cancel()
        else:
            self._emit(events.Noticed(message="That message was sent already."))

    def stop(self, why: str = "", how: str = "") -> None:
        """Stop the running turn, here or, while it waits for an answer, on another surface.

        `how` is the key or the click of the person who stops it. It goes on record, and what waits
        in the queue goes back to them: nothing begins behind a stop.
        """
        if how:
            self._context.stopped_by = how
            self._out.give_back(self._inbox)
        asked = (how or not self._work) and self._questions.stop(self._lease, self.answer, why, how)
        if not (asked or self._in_turn) and self._others.running.is_set():
            self._emit(inbox.STOP_THERE)
        self.interrupt(why)

    def interrupt(self, why: str = "") -> None:
        """Stop the running turn; what was streamed so far is kept.

        While there is none, commands that only look are stopped instead.
        """
        for task in (self._work,) if self._work is not None else tuple(self._read_only_tasks):
            if not task.cancelling():
                task.cancel(why or None)

    @property
    def busy(self) -> bool:
        """Whether a turn runs, here or on another surface."""
        return self._in_turn or self._others.running.is_set()

    async def settled(self) -> None:
        """Wait until nothing runs and nothing waits."""
        await self._inbox.idle.wait()

    async def close(self) -> None:
        """Finish, and end the stream: a running turn is interrupted, its chores are done.

        One that waits for an answer is left to whoever opens the session next. What still waits is
        in history as queued, and the next one is told.
        """
        if self._closing:
            return
        self._closing = True
        self._persist_pending()
        if not self._questions.hand_on():
            self.interrupt("The session was closed.")
        await self._inbox.idle.wait()
        if self._context.leaves_failures and self._lease.try_take():
            with contextlib.suppress(errors.MindstoneError):
                self.services.close_open_turn()
            self._lease.give_back()
        with contextlib.suppress(errors.MindstoneError):
            await self._out.close()
            ended = await self._context.hooks.end(self._context.settings.hooks.end_seconds)
            for notice in ended.notices:
                self._emit(notice)
        ours = (self._owner, self._follower, self._onlooker, self._resuming)
        for task in filter(None, (*ours, *self._read_only_tasks)):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._feed is not None:
            await asyncio.to_thread(self._feed.stop)
        if self._turns:
            await self.services.publish()
        await self.services.close()
        name, head = str(self.services.key), self._context.transcript.head
        if (path := self._out.rescue()) is not None:
            told = f"What could not be saved is in {path}."
            self._emit(events.Noticed(message=told, level="error"))
        self._context.transcript.close()
        self._emit(events.SessionClosed(session=name, seq=head.seq, hash=head.hash))

    def _persist_pending(self) -> None:
        """Write down what was said and has no turn; commands that wait are over."""
        self._inbox.drop_commands("the session was closed first", self._emit)
        for item in self._inbox.empty():
            if isinstance(item, inbox.SentMessage) and not item.queued:
                self._out.queue(item)

    def _strand(self, said: inbox.SentMessage | None) -> None:
        if self.on_away is not None:
            self.on_away(said)

    def hand_back(self, said: inbox.SentMessage, error: errors.MindstoneError) -> None:
        """End what was begun with a message that nobody could take on."""
        self._complain(error)
        self._out.hand_back(said)
        self._emit(events.TurnEnded(turn=0, ending="failed", why=error.what, remedy=error.remedy))

    def _settle(self) -> bool:
        """End what a program that stopped left open; False while another one has the session."""
        try:
            if not self._lease.try_take():
                return False
            if self._questions.left() is None:
                self._questions.tell_left(self._lease)
                self.services.close_open_turn()
            elif self._questions.to_go_on_with() is not None:
                self._inbox.put(inbox.LeftTurn())
            self._unsent = recover.never_sent(self.services.history)
            for queued in self._unsent:  # it is said once, and stands in history as what it is
                self._context.window.record(conversation.MessageWithdrawn(queued=queued), None)
        except errors.EntryNotSaved as error:
            self._complain(error)
        finally:
            self._lease.give_back()
        return True

    def _remind(self, alone: bool) -> None:
        """Hand back what was queued when the program stopped, unless another one still has it."""
        if not alone:
            waits = recover.never_sent(self.services.history)
            self._others.join(self.services.history, self._context.transcript.last_turn, waits)
        self._questions.find(left=alone)
        for queued, text in reversed(self._unsent.items()):  # each goes above what is written
            self._emit(events.MessageWithdrawn(entry=queued, text=text))

    async def _run_queue(self) -> None:
        """Take what was asked for, one after the other."""
        while True:
            item = await self._inbox.take()
            try:
                await self._serve(item)
            finally:
                self._lease.give_back()
                self._inbox.done()
                if not self._closing:
                    self._hear_others()  # what came meanwhile announces itself no more
                    self.services.tidy() if self._follower or self._turns > 1 else None

    async def _serve(self, asked: inbox.Item) -> None:
        """One turn or command, which can be interrupted, and the chores, which cannot."""
        is_turn = not isinstance(asked, inbox.AskedCommand)
        match asked:
            case inbox.SentMessage():
                work = self._take_turn(asked)
            case inbox.AskedCommand():
                work = self._change(asked)
            case inbox.LeftTurn():
                work = self._go_on()
        self._work = asyncio.create_task(work, name="turn" if is_turn else "command")
        self._in_turn = is_turn
        self._turns += is_turn
        self._context.stopped_by = ""
        await asyncio.wait({self._work})
        began = not self._work.cancelled() and self._work.result()
        if self._work.cancelled():
            self._never_began(asked)
        self._work = None
        self._in_turn = False
        for waiting in reversed(self._context.take_following()):
            said = inbox.SentMessage(waiting.text, waiting.images, waiting.queued)
            self._inbox.put(said, first=True)
        if self._closing:
            self._persist_pending()
        if began and self._lease.held:
            await self._do_chores()

    def _never_began(self, asked: inbox.Item) -> None:
        """Interrupted before its first step: it has an end all the same."""
        why = "The person interrupted before this began."
        if isinstance(asked, inbox.AskedCommand):
            inbox.end_command(asked.line, errors.Interrupted(why), self._emit)
        elif isinstance(asked, inbox.SentMessage):
            if self._closing and not asked.queued:
                self._out.queue(asked)
            self._emit(events.TurnEnded(turn=0, ending="interrupted", why=why))

    async def _do_chores(self) -> None:
        try:
            async for event in self.services.after_turn():
                self._emit(event)
        except errors.MindstoneError as error:
            self._complain(error)
        except Exception as error:  # a bug in the chores around a turn must not end the session
            self._context.report_bug(error)

    async def _take_turn(self, said: inbox.SentMessage) -> bool:
        """One turn under the lease; the stream hears how it ended; False if the disk refused it."""
        turn, ended = 0, False

        def tell(event: events.AnyEvent) -> None:
            nonlocal turn, ended
            if isinstance(event, events.TurnStarted):
                turn = self._turn = event.turn
                self._out.begin(said.text)
            ended = isinstance(event, events.TurnEnded)
            self._pass_on(event)

        def fail(ending: conversation.TurnEnding, why: str, remedy: str = "") -> None:
            if not ended and self._wanted != _TAKEN_BACK:
                self._emit(events.TurnEnded(turn=turn, ending=ending, why=why, remedy=remedy))

        try:
            free = self._lease.try_take() and self._questions.others_to_answer() is None
            if not (said.again or free or said.queued) and self._wait:
                said = self._out.queue(said)
            self._wanted = said.queued
            if not await self._take_lease(said):
                return False
            self._wanted = ""
            async for exchange in inbox.unhurried(said.before):
                number = self._context.transcript.last_turn + 1
                self._context.window.record_all(exchange.entries, number)
            origin = "queued" if said.queued else "message"
            beside = () if said.matched is None else (said.matched,)
            if said.again and (left := recover.open_turn(self._context, self.services.history)):
                await go_on(self._context, left, None, tell, beside)
            else:
                await take_turn(self._context, said.message, tell, origin, beside)
        except asyncio.CancelledError as cancelled:
            if not turn and self._closing and not said.queued:
                self._out.queue(said)
            elif said.queued and not turn and not self._closing:
                self._out.withdrawn(said.queued, said.text if self._wanted != _TAKEN_BACK else "")
            fail("interrupted", str(cancelled) or "The person interrupted before the turn began.")
        except errors.MindstoneError as error:
            away = isinstance(error.__cause__, errors.HistoryAway) and self.on_away is not None
            if away and not turn and not said.queued and not self._closing:
                self._strand(said)
                return False
            if isinstance(error, errors.EntryNotSaved):
                self._complain(error)
            if away and turn and not self._closing:
                asyncio.get_running_loop().call_soon(self._strand, None)
            if not turn and isinstance(error, _BEFORE_IT_WAS_SAID):
                self._out.hand_back(said)
            fail("failed", error.what, error.remedy)
        except Exception as error:  # a bug before the turn must not end the session, either
            self._context.report_bug(error)
            fail("failed", errors.Bug(error).what, errors.Bug(error).remedy)
        finally:
            self._turn_is_over()
        return turn > 0

    def _turn_is_over(self) -> None:
        self._turn, self._wanted = 0, ""
        self._context.permissions.end("turn")
        self._draft.clear()
        self._out.rescue()

    def _pass_on(self, event: events.AnyEvent) -> None:
        """Announce what happens in a turn of ours."""
        for shown in self._draft.pass_on(event):
            if not self._questions.is_shown(shown):
                self._emit(shown)

    async def _go_on(self) -> bool:
        """Go on with a turn that was left waiting, unless somebody else does by now."""
        found = self._questions.to_go_on_with() if self._lease.try_take() else None
        if found is None:
            return False
        self.attend(not self._unattended)
        self._others.running.clear()
        self._turn = found[1].line.turn
        try:
            await go_on(self._context, *found, self._pass_on)
        finally:
            self._turn_is_over()
        return not self._closing

    async def _change(self, asked: inbox.AskedCommand) -> bool:
        """A command that changes the window, under the lease as a turn is."""
        try:
            if not await self._take_lease(asked):
                return False
        except errors.MindstoneError as error:
            inbox.end_command(asked.line, error, self._emit)
        except asyncio.CancelledError as cancelled:
            inbox.end_command(asked.line, inbox.stopped(cancelled), self._emit)
        else:
            await self._run_command(asked)
        return False

    async def _take_lease(self, asked: inbox.SentMessage | inbox.AskedCommand) -> bool:
        """Have the right to a turn, with everything that others wrote taken in first.

        False where a turn that was left waiting comes before what was asked for, which waits.
        """
        await self._questions.have_lease(self._lease, self._catch_up, wait=self._wait)
        self.attend(not self._unattended)
        with contextlib.suppress(errors.EntryNotSaved):  # the next entry says so as well
            self._context.window.save()
        self._catch_up()
        left = self._questions.to_go_on_with() is not None and not self._closing
        if left or (self._unattended and isinstance(asked, inbox.SentMessage) and asked.queued):
            if isinstance(asked, inbox.SentMessage) and not asked.queued:
                asked = self._out.queue(asked)
            self._inbox.put(asked, first=True)
            if left:
                self._inbox.put(inbox.LeftTurn(), first=True)
            return False
        self._questions.tell_left(self._lease)
        again = isinstance(asked, inbox.SentMessage) and asked.again
        # What had arrived when the program was killed is an answer of its own, to be kept.
        if not again or draft.read_draft(self.services.places.draft) is not None:
            self._take_in(self.services.close_open_turn())
        return True

    def _catch_up(self) -> None:
        self._take_in(self.services.catch_up())

    async def _run_command(self, asked: inbox.AskedCommand) -> None:
        if (said := await inbox.run_command(asked, self._context, self._emit)) is not None:
            self._inbox.put(inbox.SentMessage(said.text), first=True)  # what happens next

    async def _follow(self) -> None:
        """Take in what another surface writes while we are idle."""
        # After the watch below is set, so that the first line it brings is seen.
        asyncio.get_running_loop().call_soon(self._listen)
        async for _ in changes(self.services.places.transcript):
            # While a turn of ours runs, all that others can add to it is an answer.
            if not self._inbox.serving or self._questions.waiting:
                self._hear_others()

    def _hear_others(self) -> None:
        try:
            self._take_in(self.services.catch_up(fetch=False) if self._follower else ())
        except errors.MindstoneError as error:
            self._complain(error)

    def _take_in(self, lines: Sequence[entries.Line]) -> None:
        for line in lines:
            self._others.hear(line)
            self._emit(appeared(line))
            for event in used_elsewhere(line, self._context.whole):
                self._emit(event)
            if isinstance(line.entry, conversation.MessageWithdrawn):  # it was told elsewhere
                self._inbox.take_back([], line.entry.queued)
            elif isinstance(line.entry, conversation.ToolAnswered) and line.entry.stops:
                # Whoever stopped it wants nothing to begin behind it.
                self._out.give_back(self._inbox)
            self._questions.hear(line)
        if lines:
            self._report()
        if any(isinstance(line.entry, conversation.ToolAnswered) for line in lines):
            asyncio.get_running_loop().call_later(_A_MOMENT, self._take_over, "elsewhere")
