"""One turn as a stream of events, exactly as the design of the turn says:

receive, append, load standing context, fold, measure, make room, recall, record the plan, send,
append the answer. Everything from the fold to sending repeats before every model call. However it
goes, the turn ends once, and every call that was made has a result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import errors, events
from mindstone_tui.core.agent import answer, hooks, oversize
from mindstone_tui.core.agent.context import TurnContext, breathe
from mindstone_tui.core.agent.run_tools import LeftQuestion, LoopWatch, interrupted, use_tools
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context import build_report, plan, window_view
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.entries import Entry, Line, Sampling, ToolCall, Usage, base, derived
from mindstone_tui.core.entries.conversation import (
    AnswerUsage,
    AssistantMessage,
    AssistantPartial,
    ModelFailed,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.window import PromptPlanned, WindowRepaired
from mindstone_tui.core.events.from_entry import announcements, model_called, tool_ended
from mindstone_tui.core.text import without_reminders


def check_budget(spent: Usage, limits: ModelSettings) -> None:
    """Stop a turn that has become more expensive than it may be."""
    tokens = (spent.prompt or 0) + (spent.completion or 0)
    cost = spent.cost or 0.0
    if limits.turn_tokens and tokens > limits.turn_tokens:
        raise errors.MindstoneError(
            f"This turn used {tokens:,} tokens; models.turn_tokens allows {limits.turn_tokens:,}.",
            "Say `continue` to go on, or raise the limit.",
        )
    if limits.turn_cost and cost > limits.turn_cost:
        raise errors.MindstoneError(
            f"This turn cost ${cost:.2f}; models.turn_cost allows ${limits.turn_cost:.2f}.",
            "Say `continue` to go on, or raise the limit.",
        )


LONG_TEXT: Final = 50_000
"""Characters of a message from which on reading it would hold up whoever types meanwhile."""
MOST_SHRINKS: Final = 2
"""How often a request is made smaller because its provider calls it too long."""


async def take_turn(
    context: TurnContext,
    said: UserMessage,
    tell: Callable[[events.AnyEvent], None],
    origin: str = "message",
    beside: Sequence[Entry] = (),
) -> None:
    """Take one turn; the last event that is told is its one `TurnEnded`.

    What is `beside` the message is written down with it.
    """
    turn = _Turn(context, context.transcript.last_turn + 1, tell)
    await _to_its_end(context, turn, turn.run(said, origin, beside))


async def go_on(
    context: TurnContext,
    lines: Sequence[Line],
    left: LeftQuestion | None,
    tell: Callable[[events.AnyEvent], None],
    beside: Sequence[Entry] = (),
) -> None:
    """Go on with a turn that was left open; it ends as any turn does.

    Either its program left it waiting for an answer, or its model failed and is asked again.
    """
    turn = _Turn(context, lines[-1].turn, tell)
    await _to_its_end(context, turn, turn.resume(lines, left, beside))


async def _to_its_end(context: TurnContext, turn: _Turn, happens: Awaitable[None]) -> None:
    ending: TurnEnding = "failed"
    why = remedy = ""
    try:
        await happens
        ending = "done"
    except asyncio.CancelledError as cancelled:
        # Swallowed on purpose: interrupting a turn ends the turn, not the session's task.
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        ending, why = "interrupted", str(cancelled) or "The person interrupted."
        if context.leaves_failures and why == errors.CLIENT_GONE and not turn.open_calls:
            turn.leave(ending, why)
            return
    except errors.HandedOn as left:
        turn.tell(turn.ended("interrupted", left.what, left.remedy))
        return
    except errors.Interrupted as stopped:
        ending, why, remedy = "interrupted", stopped.what, stopped.remedy
    except errors.EntryNotSaved as error:
        why, remedy = error.what, error.remedy
        unsaved = len(context.transcript.unsaved)
        turn.tell(events.NotSaved(what=why, remedy=remedy, unsaved=unsaved))
    except errors.MindstoneError as error:
        turn.error, why, remedy = error, error.what, error.remedy
        if context.leaves_failures and isinstance(error, errors.ProviderError):
            turn.leave("failed", why, remedy)
            return
    except Exception as error:  # a bug ends the turn as any failure does, and not the session
        context.report_bug(error)
        why, remedy = errors.Bug(error).what, errors.Bug(error).remedy
    await turn.finish(ending, why, remedy)


class _Turn:
    """The state of one turn while it runs."""

    def __init__(
        self, context: TurnContext, number: int, tell: Callable[[events.AnyEvent], None]
    ) -> None:
        self._context = context
        self._tell = tell
        self._turn = number
        self._started = time.monotonic()
        self.error: errors.MindstoneError | None = None
        """What it fails of."""
        self._calls = 0
        self._tools = 0
        self._declined: list[events.DeclinedCall] = []
        self._spent = Usage()
        self._tail: tuple[int, ...] = ()
        self._asked_at: int | None = None
        """The line of the message."""
        self._watch = LoopWatch()
        self._asking: answer.ModelCall | None = None
        self._asked: tuple[ToolCall, ...] = ()
        self._call_ids: set[str] = set()
        self._prepared: plan.Prepared | None = None
        self._target = window_view.SESSIONS_OWN
        self._last_answer = ""
        self._sampled: Sampling | None = None
        """What was asked of the answer before, which its choice of a tool holds for."""
        self._sent_on = False
        """A hook had the turn go on when it was about to end."""

    def tell(self, *told: events.AnyEvent) -> None:
        """Say what happens, one after the other."""
        for event in told:
            self._tell(event)

    async def run(self, said: UserMessage, origin: str, beside: Sequence[Entry]) -> None:
        """Everything between the two ends of the turn."""
        context, turn = self._context, self._turn
        notes = [*context.services.untold(), said.note]
        said = msgspec.structs.replace(said, note="\n\n".join(filter(None, notes)))
        if len(said.text) > LONG_TEXT:
            cleaned = await asyncio.to_thread(context.transcript.clean_ahead, said.text)
            said = msgspec.structs.replace(said, text=cleaned)
        asked = context.window.record_all([TurnStarted(origin=origin), said, *beside], turn)[1]
        text = asked.entry.text if isinstance(asked.entry, UserMessage) else said.text
        self._asked_at = asked.seq
        self.tell(events.TurnStarted(turn=turn, entry=asked.id, text=text, queued=said.queued))
        await breathe()
        text = without_reminders(text) or text
        self.tell(*await context.services.make_ready())
        await self._submit(text)
        # What a person corrects is out of the head of this turn's prompts already.
        lines = context.services.heard(asked, text)
        await breathe()
        self.tell(*announcements(*lines, *await self._load()))
        found = await oversize.find_oversized(context, asked, self._target)
        if found is not None and context.permissions.asks:
            await oversize.ask_how(context, turn, found, self._target, self._tell)
        self.tell(*_told(await context.make_room(self._target)))
        await breathe()
        await self._recall(text)
        await self._rounds()

    async def resume(
        self, lines: Sequence[Line], left: LeftQuestion | None, beside: Sequence[Entry]
    ) -> None:
        """Everything from where the turn was left to its end."""
        context = self._context
        asked = self._restore(lines)
        context.window.record_all([*self._without_partial(lines), *beside], self._turn)
        text = _text_of(asked)
        self.tell(events.TurnStarted(turn=self._turn, entry=asked.id, text=text, resumed=True))
        self.tell(*await context.services.make_ready())
        await self._submit(None)
        self.tell(*announcements(*await self._load()))
        if left is not None:
            await self._act(left)
        elif not self._calls:  # it failed before it came to that
            await self._recall(_text_of(context.whole(asked)))
        await self._rounds()

    def _without_partial(self, lines: Sequence[Line]) -> list[Entry]:
        """An answer that broke off stays in history; who is asked again does not go on in it."""
        fold = self._context.window.fold
        broken = [line.seq for line in lines if isinstance(line.entry, AssistantPartial)]
        if not (seqs := tuple(seq for seq in broken if seq in fold.lines)):
            return []
        state = fold.without_lines(seqs)
        return [WindowRepaired(why="The model was asked again.", seqs=seqs, state=state)]

    def _restore(self, lines: Sequence[Line]) -> Line:
        """Know what the turn was about when it was left; the line of its message."""
        done: set[str] = set()
        message = lines[0]
        for line in lines:
            match line.entry:
                case UserMessage() if self._asked_at is None:
                    message, self._asked_at = line, line.seq
                case PromptPlanned(purpose="", call=call, tail=tail):
                    self._calls, self._tail = call, tail
                case AssistantMessage(calls=calls, reported=AnswerUsage() as report, text=text):
                    self._asked, self._last_answer = calls, text
                    self._call_ids.update(call.id for call in calls)
                    self._spent = base.added(self._spent, report.usage)
                    self._context.position = report.position
                case ModelFailed(purpose="", position=position):
                    self._context.position = position
                case ToolReturned(call=result):
                    self._tools += 1
                    done.add(result)
                    self._note_declined(tool_ended(line))
        self._asked = tuple(call for call in self._asked if call.id not in done)
        return message

    async def _load(self) -> list[Line]:
        """Have there what prompts are made of; what of it has changed."""
        context = self._context
        await context.learn_window()
        self._target = target = context.target
        await context.window.ledger(target.model).counter.ready()
        return await context.load_standing_context(self._turn, target)

    async def _rounds(self) -> None:
        """Ask the model and run what it wants, until it wants nothing more."""
        context = self._context
        for _ in range(context.settings.tools.max_rounds - self._calls):
            await self._ask()
            if not self._asked:
                ended = await self._before_the_end()
                self.tell(*ended.notices)
                if ended.blocked is None:
                    return
                self._sent_on = True
                context.hear(ended)
                continue
            await self._act()
        raise errors.MindstoneError(
            f"Stopped after {context.settings.tools.max_rounds} model calls in one turn.",
            "Say `continue` to go on, or raise tools.max_rounds.",
        )

    async def _act(self, left: LeftQuestion | None = None) -> None:
        """Run what the model wants."""
        context = self._context
        check_budget(self._spent, context.settings.models)
        self._tools += len(self._asked)
        await use_tools(context, self._turn, self._asked, self._watch, self._tell_of_use, left)
        self._asked = ()
        self.tell(*announcements(*context.offer_tools()))
        self._steer()

    def _tell_of_use(self, *told: events.AnyEvent) -> None:
        for event in told:
            self._note_declined(event)
            self._tell(event)

    def leave(self, ending: TurnEnding, why: str, remedy: str = "") -> None:
        """Keep what arrived, and the turn open: its program is going to ask for it again."""
        context = self._context
        context.questions.abandon()
        context.following.clear()
        partial = self._asking.partial(why) if self._asking is not None else []
        for line in context.window.record_all(partial, self._turn) if partial else ():
            self.tell(self._closed(line))
        self.tell(self.ended(ending, why, remedy))

    @property
    def open_calls(self) -> list[ToolCall]:
        """What the model asked for and has no result of."""
        answered = self._answered()
        return [call for call in self._asked if call.id not in answered]

    async def finish(self, ending: TurnEnding, why: str, remedy: str) -> None:
        """Close whatever is open, write the end, and announce it."""
        context, turn = self._context, self._turn
        context.questions.abandon()
        if ending != "done":
            context.following.clear()
        partial = self._asking.partial(why) if self._asking is not None else []
        ended = self._end(ending, why, remedy)
        results = [interrupted(call, why or "The turn ended.") for call in self.open_calls]
        try:
            for line in context.window.record_all([*partial, *results, ended], turn)[:-1]:
                self.tell(self._closed(line))
            await breathe()
            if (
                self._asked_at is not None
            ):  # it may have been stopped before its message was counted
                live = context.window
                await live.count_ahead(live.call(context.target), self._asked_at)
            if context.reports:
                self.tell(events.ContextReported(report=context.report()))
        except errors.EntryNotSaved as error:
            told, ending, why, remedy = why, "failed", error.what, error.remedy
            if why != told:
                unsaved = len(context.transcript.unsaved)
                self.tell(events.NotSaved(what=why, remedy=remedy, unsaved=unsaved))
        self.tell(self.ended(ending, why, remedy))

    def _end(self, ending: TurnEnding, why: str, remedy: str) -> TurnEnded:
        """The end of the turn, as history has it."""
        return TurnEnded(
            ending=ending,
            why=why,
            remedy=remedy,
            calls=self._calls,
            tools=self._tools,
            usage=self._spent,
            how=self._context.stopped_by if ending == "interrupted" else "",
        )

    def ended(self, ending: TurnEnding, why: str, remedy: str) -> events.TurnEnded:
        """The same, as clients hear it."""
        error = self.error if isinstance(self.error, errors.ProviderError) else None
        return events.TurnEnded(
            turn=self._turn,
            **msgspec.structs.asdict(self._end(ending, why, remedy)),
            elapsed=round(time.monotonic() - self._started, 3),
            declined=tuple(self._declined),
            failure=error.failure if error else self._too_long(),
            status=error.status if error else 0,
            retry_after=error.retry_after if error else None,
        )

    def _too_long(self) -> str:
        return errors.ContextTooLong.failure if isinstance(self.error, errors.DoesNotFit) else ""

    def _note_declined(self, event: events.AnyEvent) -> None:
        match event:
            case events.ToolEnded(status="refused", call=call, name=name, shown=shown, text=why):
                self._declined.append(
                    events.DeclinedCall(call=call, name=name, shown=shown, why=why)
                )

    async def _submit(self, text: str | None) -> None:
        """Let hooks see a new message before anybody else does; one may stop it."""
        context, turn = self._context, self._turn
        context.added.clear()
        started = await context.hooks.begin(resumed=turn > 1 or text is None, turn=turn)
        fired = hooks.Fired()
        if text is not None:
            fired = await context.hooks.fire("UserPromptSubmit", {"prompt": text}, turn=turn)
        self.tell(*started.notices, *fired.notices)
        context.hear(fired)
        if (why := started.blocked if started.blocked is not None else fired.blocked) is not None:
            raise errors.MindstoneError(
                f"A hook stopped this message: {why}", "`/hooks` lists them."
            )

    @property
    def _may_go_on(self) -> bool:
        """Whether a hook could still send the turn on after its answer."""
        return not self._sent_on and bool(self._context.hooks.wanted("Stop"))

    async def _before_the_end(self) -> hooks.Fired:
        """What hooks say to the end of the turn; one can send it on, once."""
        if not self._may_go_on:
            return hooks.Fired()
        told = {"stop_hook_active": False, "last_assistant_message": self._last_answer}
        return await self._context.hooks.fire("Stop", told, turn=self._turn)

    async def _recall(self, text: str) -> None:
        share = self._context.share("memory_injection", self._target)
        async for found in self._context.services.bring(text, share):
            if isinstance(found, derived.RecallInjected):
                found = msgspec.structs.replace(found, asked=self._asked_at)
            seq = self._context.window.record(found, self._turn).seq
            line = self._context.window.fold.recalled(seq)
            self._tail = (*self._tail, seq)
            self.tell(*announcements(line))
            if isinstance(line.entry, derived.RecallInjected):
                fired = await self._context.hooks.fire(
                    "AfterRecall", _of_recall(line.entry), turn=self._turn
                )
                self._context.hear(fired)
                self.tell(*fired.notices)

    async def _ask(self) -> None:
        """One model call; tried again, with less, when the provider says it is too long."""
        refusal: errors.ContextTooLong | None = None
        for _ in range(MOST_SHRINKS + 1):
            try:
                await self._ask_once()
                return
            except errors.ContextTooLong as error:
                if self._prepared is None or (self._asking is not None and self._asking.heard):
                    raise
                refusal = refusal or error
                self._context.shrink(self._prepared)
                self._target = self._context.target
            except errors.DoesNotFit:
                if refusal is None:
                    raise
                break
        self._context.forget_window()
        if refusal is not None:
            raise refusal

    async def _ask_once(self) -> None:
        context, turn = self._context, self._turn
        self._calls += 1
        tail = (*self._tail, *context.added)
        sampling = context.services.sampling()
        if sampling is self._sampled:  # whoever must use a tool could never answer
            sampling = msgspec.structs.replace(sampling, tool_choice="", tool="")
        prepared = await plan.prepare(
            context.window, self._target, call=self._calls, tail=tail, sampling=sampling
        )
        self._prepared = prepared
        self.tell(*_told(prepared.lines))
        if context.reports:  # before anybody else is let in, who may write
            report = build_report.report(context.window, self._target, tail=tail, call=self._calls)
            self.tell(events.ContextReported(report=context.with_panel(report)))
        await breathe()
        if isinstance(prepared.plan.entry, PromptPlanned):
            self.tell(model_called(turn, prepared.plan.entry))
        asking = answer.ModelCall(
            context, prepared, self._target, turn=turn, call=self._calls, taken=self._call_ids
        )
        self._asking = asking
        async for event in asking.stream():
            self.tell(event)
        self._asking = None
        self._asked = asking.calls
        self._call_ids.update(call.id for call in asking.calls)
        self._keep(asking)
        if not context.reports:  # a program has its answer before the disk is waited for once more
            await breathe()

    def _keep(self, asking: answer.ModelCall) -> None:
        """Write the answer down, and what it took."""
        context, turn = self._context, self._turn
        message, report = asking.answer()
        said = context.window.record(message, turn)
        self._spent = base.added(self._spent, report.usage)
        self._last_answer = message.text
        self._sampled = context.services.sampling()
        self.tell(
            events.AnswerRecorded(
                turn=turn,
                entry=said.id,
                text=_text_of(context.whole(said)),
                calls=len(message.calls),
                finish=message.finish,
                last=not message.calls and not self._may_go_on,
            )
        )
        if remark := asking.remark():
            self.tell(events.Noticed(message=remark, level="warning"))
        context.window.note_usage(said)  # a prompt that was cut is told of by the turn's health
        used = report.usage
        self.tell(
            events.UsageReported(turn=turn, call=report.call, model=message.model, usage=used)
        )

    def _answered(self) -> frozenset[str]:
        """The calls of this turn that have a result, on disk or waiting to be written."""
        window = self._context.window
        written = (line.entry for line in window.fold.lines.values() if line.turn == self._turn)
        waiting = (draft.entry for draft in window.transcript.unsaved if draft.turn == self._turn)
        return frozenset(
            entry.call for entry in (*written, *waiting) if isinstance(entry, ToolReturned)
        )

    def _closed(self, line: Line) -> events.AnyEvent:
        """The event for something that the end of the turn wrote down."""
        line = self._context.whole(line)
        if isinstance(line.entry, ToolReturned):
            return tool_ended(line)
        return events.AnswerRecorded(
            turn=self._turn, entry=line.id, text=_text_of(line), calls=0, partial=True
        )

    def _steer(self) -> None:
        """Put what the person added meanwhile in front of the next model call."""
        for waiting in self._context.take_steering():
            line = self._context.window.record(waiting, self._turn)
            text = _text_of(self._context.whole(line))
            self.tell(
                events.MessageSteered(
                    turn=self._turn, entry=line.id, queued=waiting.queued, text=text
                )
            )


def _told(lines: Sequence[Line]) -> list[events.AnyEvent]:
    """Decisions about the window, and what became of hooks that heard of them first."""
    return [*hooks.notices_of(lines), *announcements(*lines)]


def _of_recall(entry: derived.RecallInjected) -> dict[str, object]:
    """What hooks are told of recalled passages."""
    found = [
        {"session": each.session, "turn": each.turn, "entry": each.entry, "text": each.text}
        for each in entry.passages
    ]
    return {"query": entry.query, "passages": found}


def _text_of(line: Line) -> str:
    """What a message says, as it was recorded."""
    entry = said(line)
    return entry.text if entry is not None else ""
