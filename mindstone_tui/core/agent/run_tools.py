"""Running the tools a model asked for: intent, permission and result, each on disk in its turn."""

import asyncio
import codecs
import contextlib
import hashlib
from collections.abc import Callable
from typing import Final, Literal, Protocol

import msgspec

from mindstone_tui.core import disk, errors, events, values
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.bounded_json import DEEPEST, is_too_deep
from mindstone_tui.core.entries import Line, ToolCall, conversation, derived, standings
from mindstone_tui.core.events import from_entry, narrate_entry
from mindstone_tui.core.text import exact, fresh_nonce, inside, one_line
from mindstone_tui.core.tools.approvals import Approval, Decision, carry_out, prepare
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult, subject_of
from mindstone_tui.core.tools.verdicts import worst_of

REPEATS: Final = 3
"""How often the same call may give the same result before it is not run again."""
CYCLES: Final = 3
"""How often the same sequence of calls and results may come round."""
LONGEST_CYCLE: Final = 4


class LoopWatch:
    """The calls of one turn and what each gave, as fingerprints."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, str]] = []

    def why_not(self, call: ToolCall) -> str | None:
        """Why a call should not run again, or None."""
        asked = _fingerprint(call.name, call.arguments)
        given = [result for name, result in self._seen if name == asked][-REPEATS:]
        if len(given) == REPEATS and len(set(given)) == 1:
            return f"{call.name} gave the same result {REPEATS} times in a row"
        for length in range(2, LONGEST_CYCLE + 1):
            recent = self._seen[-length * CYCLES :]
            period = recent[:length]
            if period and recent == period * CYCLES and period[0][0] == asked:
                return f"the same {length} calls came round {CYCLES} times"
        return None

    def note(self, call: ToolCall, result: str) -> None:
        """Remember what a call gave; another result breaks the circle."""
        self._seen.append((_fingerprint(call.name, call.arguments), _fingerprint(result)))


def _fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


MOST_CALLS: Final = 64
"""Calls of one answer that are run; the rest get a result that says so."""
_CHANGED: Final = (
    "Not run: since it was asked about, what it would do has changed. Ask again if it is wanted."
)
STOPPING: Final = 3.0
"""Seconds in which an interrupted program may end and hand over what it printed."""


class Tell(Protocol):
    """Takes what happens, one after the other."""

    def __call__(self, *told: events.AnyEvent) -> None: ...


class LeftQuestion(msgspec.Struct, frozen=True):
    """A question that a program put and did not hear the answer to."""

    line: Line
    asked: conversation.ToolAsked
    given: Callable[[], events.Answer | None]
    """What somebody said to it since, as history has it at that moment."""


async def use_tools(
    context: TurnContext,
    turn: int,
    calls: tuple[ToolCall, ...],
    watch: LoopWatch,
    tell: Tell,
    left: LeftQuestion | None = None,
) -> None:
    """Run each call in order; when this ends, every one of them has a result on disk.

    The first may have been asked about already.
    """
    for number, call in enumerate(calls):
        use = _Use(context, turn, call, watch, tell)
        if number < MOST_CALLS:
            was_asked = left is not None and call.id == left.asked.call
            await use.run(left if was_asked else None)
        else:
            why = f"Only the first {MOST_CALLS} calls of one answer are run."
            tell(use.returned(_failed(why)))


def refused(
    call: ToolCall, by: str, why: str
) -> tuple[conversation.ToolRefused, conversation.ToolReturned]:
    """A call that was declined without having been run: by whom, and what the model is told."""
    told = _failed(_declined(by, why), "refused")
    returned = conversation.ToolReturned(
        call=call.id, name=call.name, text=told.text, status=told.status, finding=told.finding
    )
    return conversation.ToolRefused(call=call.id, by=by, why=why), returned


def interrupted(call: ToolCall, why: str) -> conversation.ToolReturned:
    """The result of a call that was cut short or never began."""
    return conversation.ToolReturned(
        call=call.id, name=call.name, text=why, status="interrupted", finding="interrupted"
    )


class _Call(msgspec.Struct, frozen=True):
    """A call that was understood: what would run, where, and what exactly is agreed to."""

    tool: Tool
    approval: Approval
    where: ToolContext


class _Use(msgspec.Struct):
    """One call on its way to its result: everything about it is written down in its turn."""

    context: TurnContext
    turn: int
    call: ToolCall
    watch: LoopWatch
    tell: Tell
    permitted: _Call | None = None
    """The call as it may be run, once that was decided."""

    async def run(self, left: LeftQuestion | None) -> None:
        """Understand it, have it permitted, carry it out."""
        wanted = self._understood()
        if not isinstance(wanted, _Call):
            self.tell(wanted)
            return
        await (self._permit(wanted) if left is None else self._take_up(wanted, left))
        if self.permitted is not None:
            await self._carry_out(self.permitted)

    async def _take_up(self, wanted: _Call, left: LeftQuestion) -> None:
        """Wait on with a question that is on record; a yes is for exactly what was asked about."""
        context, call = self.context, self.call
        decision = context.permissions.decide(wanted.tool, wanted.approval)
        if decision.verdict == "refuse":  # what is forbidden meanwhile is not asked about, either
            self.tell(self._refused("policy", decision.reason))
            return
        now = await question_about(context, self.turn, wanted.tool, wanted.approval, decision)
        if _seen(now, context.transcript.clean) != _seen(left.asked, str):
            self.tell(self.returned(_failed(_CHANGED), shown=left.asked.shown))
            return
        waiting = context.questions.ask(call.id, left.line.ts)
        if (given := left.given()) is not None:
            context.questions.answer(call.id, given)
        else:
            self.tell(asked_before(left.line, left.asked))
        answer = await waiting
        if answer.remember not in {scope.remember for scope in now.scopes}:
            answer = msgspec.structs.replace(answer, remember="", keep="")
        self._heed(wanted, answer)

    def _understood(self) -> _Call | events.AnyEvent:
        """The call, or its result where it cannot be run at all."""
        context, call = self.context, self.call
        tool = context.offer.find(call.name)
        if tool is None:
            known = ", ".join(sorted(context.tools)) or "none"
            return self.returned(_failed(f"There is no tool {call.name}; known: {known}."))
        if is_too_deep(call.arguments):
            why = f"the arguments are nested more than {DEEPEST} deep and count as none"
            return self._refused("policy", why)
        where = context.tool_context(call.id)
        try:
            approval = prepare(tool, call.id, call.arguments, where)
        except errors.ToolError as error:
            subject = subject_of(tool, call.arguments)
            why = error.sentence
            finding = one_line(f"{subject}: {why}", 160)
            failed = ToolResult(text=why, status="error", finding=finding)
            return self.returned(failed, shown=subject)
        return _Call(tool, approval, where)

    async def _permit(self, wanted: _Call) -> None:
        """Ask loop detection, the rules, hooks and a person, in this order; what holds is recorded.

        The call itself is recorded first. `permitted` becomes the call as it may be run, if it may.
        """
        context, call, turn = self.context, self.call, self.turn
        tool, approval = wanted.tool, wanted.approval
        circle = self.watch.why_not(call) if tool.risk != "client" else None
        decision = context.permissions.decide(tool, approval)
        only_looks = (
            circle is None
            and (decision.verdict, decision.by) == ("allow", "read-only tool")
            and not context.hooks.wanted("PreToolUse", tool.name)
        )
        called = _called(call, wanted, approved=decision.by if only_looks else "")
        context.window.record(called, turn)
        if only_looks:
            self._confine(wanted, decision)
            return
        if circle is not None:
            why = f"Not run again: {circle}."
            self.tell(self._refused("loop detection", why, approval.shown))
            return
        if decision.by == "your rule":
            context.window.record(_fired(call, decision), turn)
        if decision.verdict == "refuse":
            by = decision.by if decision.by == "your rule" else "policy"
            self.tell(self._refused(by, decision.reason, approval.shown))
            return
        meant = approval.arguments.decode()  # whatever the model called them
        fired = await context.hooks.before_tool(tool.name, meant, call.id, turn)
        self.tell(*fired.notices)
        context.hear(fired)
        if fired.blocked is not None:
            self.tell(self._refused("hook", fired.blocked, approval.shown))
            return
        if fired.asks is not None:
            decision = context.permissions.ask_instead(decision, fired.asks)
            if decision.verdict == "refuse":
                self.tell(self._refused("hook", decision.reason, approval.shown))
                return
        if decision.verdict == "allow":
            allowed = conversation.ToolApproved(
                call=call.id,
                digest=approval.digest,
                by=decision.by,
                rule=decision.rule or decision.reason,
                given=context.permissions.given(decision.rule),
            )
            self._confine(wanted, decision, allowed)
            return
        await self._ask_person(wanted, decision)

    def _confine(
        self, wanted: _Call, decision: Decision, grant: conversation.ToolApproved | None = None
    ) -> None:
        """Permit the call within what the decision allows, and record what allowed it."""
        confined = self.context.permissions.confine(decision, wanted.where)
        if grant is not None:
            self.context.window.record(grant, self.turn)
        self.permitted = msgspec.structs.replace(wanted, where=confined)

    async def _ask_person(self, wanted: _Call, decision: Decision) -> None:
        """Put a call to a person, and record what they say."""
        context, turn = self.context, self.turn
        question = await question_about(context, turn, wanted.tool, wanted.approval, decision)
        if context.ask_through is not None:
            answer = await context.ask_through(question)
        else:
            question, waiting = put_question(context, question, turn)
            self.tell(question)
            if context.reports:  # it may be long in view, here and elsewhere: with the same numbers
                self.tell(events.ContextReported(report=context.report()))
            answer = await waiting
        self._heed(wanted, answer)

    def _heed(self, wanted: _Call, answer: events.Answer) -> None:
        """Record what a person said; after a yes the call is permitted."""
        if answer.stops:
            self.context.stopped_by = self.context.stopped_by or answer.how
            raise errors.Interrupted(answer.why)
        if not answer.allowed:
            by = conversation.NOBODY if answer.how == conversation.NOBODY else "person"
            self.tell(self._refused(by, answer.why))
            return
        call, digest = self.call.id, wanted.approval.digest
        self.context.hand = (f"{narrate_entry.ANSWERED}{call}", answer.seen)
        self.context.permissions.remember(answer)
        granted = conversation.ToolApproved(
            call=call, digest=digest, by="person", rule=answer.remember, remember=answer.keep
        )
        self.context.window.record(granted, self.turn)
        self.permitted = wanted

    async def _carry_out(self, allowed: _Call) -> None:
        """Run the call; its files are kept before and looked at after, and hooks hear of it."""
        context, call, turn = self.context, self.call, self.turn
        tool, approval = allowed.tool, allowed.approval
        watched = await context.files.before(tool, approval)
        for trouble in context.files.take_trouble():
            self.tell(events.Noticed(message=trouble, level="warning"))
        started = events.ToolStarted(turn=turn, call=call.id, name=tool.name, shown=approval.shown)
        self.tell(started)
        result, interruption = await self._run(allowed)
        self.watch.note(call, inside(result.text))
        changed = await context.files.after(watched)
        self.tell(self.returned(result), *from_entry.announcements(*changed))
        meant = approval.arguments.decode()
        fired = await context.hooks.after_tool(tool.name, meant, call.id, turn, result)
        context.hear(fired)
        self.tell(*fired.notices)
        if interruption is not None:
            raise interruption

    async def _run(self, allowed: _Call) -> tuple[ToolResult, asyncio.CancelledError | None]:
        """Run what was approved and hand its output on while it runs.

        Whoever is interrupted may have a result all the same: what a program printed until then.
        """
        context, tool, approval = self.context, allowed.tool, allowed.approval
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode

        def progress(data: bytes) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, decode(data))

        async def work() -> ToolResult:
            try:
                told = msgspec.structs.replace(allowed.where, progress=progress, stop=stop)
                result, _ = await carry_out(
                    tool, approval, told, redactor=context.redactor, nonce=fresh_nonce()
                )
                return result
            except errors.EntryNotSaved:
                raise
            except errors.MindstoneError as error:
                return _failed(error.sentence)
            except Exception as error:  # a bug in a tool is the tool's failure, not the turn's
                # Its words may be a stranger's: they go into the log, and not unfenced to a model.
                context.report_bug(error)
                return _failed(f"{tool.name} failed: {type(error).__name__}.")
            finally:
                pieces.put_nowait(None)

        task = asyncio.create_task(work(), name=f"tool {tool.name}")
        try:
            while (piece := await pieces.get()) is not None:
                shown = context.redactor.redact(piece).text
                self.tell(events.ToolOutput(turn=self.turn, call=approval.call, text=shown))
            return await task, None
        except asyncio.CancelledError as cancelled:
            if tool.risk == "run":
                stop.set()
                await asyncio.wait({task}, timeout=STOPPING)
            if task.done() and not task.cancelled() and task.exception() is None:
                return task.result(), cancelled
            raise
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def _refused(self, by: str, why: str, shown: str = "") -> events.ToolEnded:
        """Write a refusal; nobody was asked, so that its event says what was not run."""
        self.context.window.record(
            conversation.ToolRefused(call=self.call.id, by=by, why=why), self.turn
        )
        ended = self.returned(_failed(_declined(by, why), "refused"))
        return msgspec.structs.replace(ended, shown=shown)

    def returned(self, result: ToolResult, *, shown: str = "") -> events.ToolEnded:
        """Write a result as the model will see it; what is too long for it goes to a blob first."""
        context = self.context
        full = context.transcript.keep_blob(result.full) if result.full is not None else None
        entry = values.alike(
            conversation.ToolReturned,
            result,
            call=self.call.id,
            name=self.call.name,
            elapsed=round(result.elapsed, 3),
            full=full.sha256 if full else "",
            full_size=full.size if full else 0,
            shown=shown,
        )
        return from_entry.tool_ended(context.whole(context.window.record(entry, self.turn)))


def asked_before(line: Line, asked: conversation.ToolAsked) -> events.ToolAsked:
    """A question that is on record, as it is put on another surface."""
    fields = values.shared(conversation.AskedCall, asked)
    return events.ToolAsked(turn=line.turn, channel=line.channel, since=line.ts, **fields)


def _seen(asked: conversation.AskedCall, clean: Callable[[str], str]) -> tuple[object, ...]:
    """What a question shows of a call, and by what somebody decides about it."""
    parts = [(clean(one.text), one.verdict, clean(one.reason), one.also) for one in asked.parts]
    return asked.name, asked.risk, asked.digest, clean(asked.shown), clean(asked.diff), parts


def put_question(
    context: TurnContext, question: events.ToolAsked, turn: int
) -> tuple[events.ToolAsked, asyncio.Future[events.Answer]]:
    """Write a question down before it is put: any surface may answer, and the first answer holds.

    The place for the answer is open when this returns.
    """
    question = msgspec.structs.replace(question, folder=context.folder)
    asked = conversation.ToolAsked(**values.shared(conversation.AskedCall, question))
    line = context.window.record(asked, turn)
    waiting = context.questions.ask(question.call, line.ts)
    return msgspec.structs.replace(question, since=line.ts), waiting


def record_answer(
    context: TurnContext, given: conversation.ToolAnswered, turn: int | None = None
) -> Line | None:
    """Write an answer down; None where the file has one by now, or nobody waits for it."""
    transcript = context.transcript

    def is_awaited() -> bool:
        with transcript.history() as history:
            asked = standings.still_open(history.turn(transcript.last_turn))
        found = [line for line in asked if standings.is_answered(line, given)]
        if found and given.allowed:  # before it is in the file, where whoever waits may read it
            with contextlib.suppress(OSError):
                disk.append(transcript.places.given, f"{_yes_to(found[0], given)}\n".encode())
        return bool(found)

    return next(iter(context.window.record_all([given], turn, is_awaited)), None)


def was_given_here(context: TurnContext, asked: Line, given: conversation.ToolAnswered) -> bool:
    """Whether somebody said that yes at this home; history may come from anywhere, with any yes."""
    with contextlib.suppress(OSError):
        known = disk.read_regular(context.transcript.places.given, follow=False)
        return _yes_to(asked, given).encode() in known.split()
    return False


def _yes_to(asked: Line, given: conversation.ToolAnswered) -> str:
    said = msgspec.json.encode((asked.hash, given.remember, given.keep))
    return hashlib.sha256(said).hexdigest()


async def ask_beside(
    context: TurnContext, question: events.ToolAsked, asker: str = "command"
) -> events.Answer:
    """Put the question of a command or a sub-agent to a person, on every surface; what they say.

    No turn ends with it: whoever is stopped takes the question back.
    """
    turn = context.transcript.last_turn
    question, waiting = put_question(context, question, turn)
    context.tell(question)
    try:
        answer = await waiting
    except asyncio.CancelledError:
        why = f"The {asker} was stopped."
        stopped = conversation.ToolAnswered(call=question.call, allowed=False, why=why)
        with contextlib.suppress(errors.EntryNotSaved):
            record_answer(context, stopped, turn)
        raise
    context.tell(ended_beside(question, answer.allowed))
    return answer


def ended_beside(asked: events.ToolAsked | conversation.ToolAsked, yes: bool) -> events.ToolEnded:
    """The end of a question that no call of a model put: what comes of it is told otherwise."""
    call, name, said = asked.call, asked.name, "allowed" if yes else "declined"
    no = events.ToolEnded(
        turn=0, call=call, name=name, entry="", status="refused", text="", finding=said
    )
    return msgspec.structs.replace(no, status="ok") if yes else no


async def question_about(
    context: TurnContext, turn: int, tool: Tool, approval: Approval, decision: Decision
) -> events.ToolAsked:
    """What a person is asked before a call may run."""
    # A hook and a rule of the person's own ask each time: a wider yes would spare no question.
    each_time = decision.by in ("hook", "your rule")
    scopes = () if each_time else await context.permissions.scopes_for(tool, approval)
    parts = approval.preview.parts
    return events.ToolAsked(
        turn=turn,
        call=approval.call,
        name=tool.name,
        risk=tool.risk,
        shown=approval.shown,
        digest=approval.digest,
        diff=exact(approval.preview.body) if tool.risk == "write" else "",
        why=" ".join((f"You are asked because {decision.reason.rstrip('.')}.", *approval.warnings)),
        remember=tuple(each.remember for each in scopes if each.scope in ("exact", "prefix")),
        parts=tuple(
            events.AskedPart(
                text=exact(part.text),
                verdict=part.verdict,
                reason=exact(part.reason),
                also=part.also,
            )
            for part in parts
        ),
        worst=worst_of(parts) if parts else "",
        scopes=scopes,
    )


def _called(call: ToolCall, wanted: _Call, *, approved: str) -> conversation.ToolCalled:
    tool, approval = wanted.tool, wanted.approval
    return conversation.ToolCalled(
        call=call.id,
        name=tool.name,
        shown=approval.shown,
        digest=approval.digest,
        risk=tool.risk,
        understood=approval.understood,
        approved=approved,
    )


def _failed(why: str, status: conversation.ToolStatus = "error") -> ToolResult:
    return ToolResult(text=why, status=status, finding=one_line(why, 160))


def _fired(call: ToolCall, decision: Decision) -> derived.RuleFired:
    verdict: Literal["ask", "deny"] = "deny" if decision.verdict == "refuse" else "ask"
    return derived.RuleFired(number=int(decision.rule), call=call.id, verdict=verdict)


def _declined(by: str, why: str) -> str:
    if by == conversation.NOBODY:
        return f"Not run: {why}"
    said = f": {why}" if why and why != "declined by the user" else ""
    return f"Declined by {'the user' if by == 'person' else by}{said}"
