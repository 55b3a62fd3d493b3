"""Questions about tools that any surface may answer: each is asked and answered once, in history.

Whoever takes the turn writes the question down and waits. An answer is an entry, too, whoever gives
it; the first one on disk holds, and every later one comes to nothing. Whoever else wants a turn
meanwhile is told who waits for what, since when, and how to answer.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Final

import msgspec

from mindstone_tui.core import errors, events, numbers, values
from mindstone_tui.core.agent import run_tools
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.run_tools import LeftQuestion, asked_before, record_answer
from mindstone_tui.core.entries import Line, base, conversation, derived, standings
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.entries.window import Restored, Rewound
from mindstone_tui.core.events import Answer, AnyEvent, from_entry, narrate, narrate_entry
from mindstone_tui.core.library import open_questions
from mindstone_tui.core.library.lease import Lease
from mindstone_tui.core.transcript import Transcript

TOO_LATE = "That question is no longer open."
_ENDED: Final = "The program that asked has ended."
_NOT_HERE: Final = "It was allowed on another machine, which counts for nothing here."
_NONE_LEFT: Final = 1e-3
"""Seconds of patience when there is none left; 0 is for ever."""
_LOOK_AGAIN: Final = 0.25
"""Seconds between two looks at what somebody else's turn waits for."""
_ABOUT_TURNS: Final = ("files_restored", *standings.REWINDS)


def decisions_of(transcript: Transcript, turn: int) -> list[str]:
    """What was decided in a turn, in words: each question with where and how it was answered.

    Of what was decided later, that which takes the turn or its files back, or brings them again.
    """
    with transcript.history() as history:
        later = takewhile(lambda line: line.turn > turn, history.newest(_ABOUT_TURNS, sys.maxsize))
        since = [line for line in later if _is_about(turn, line.entry)]
        lines = [*map(history.whole, history.turn(turn)), *reversed(since)]
    told: list[str] = []
    asked: dict[str, str] = {}
    names: dict[str, str] = {}
    for line in lines:
        said = narrate.describe_line(line)
        if isinstance(line.entry, FilesRestored):  # what could be done then is no order now
            said = msgspec.structs.replace(said, detail="")
        words = str(said).lstrip("· ")
        words += f" (in turn {line.turn})" if line.turn > turn else ""
        match line.entry:
            case conversation.ToolCalled(call=call, name=name, shown=shown):
                names[call] = narrate_entry.call_line(name, shown)
            case conversation.ToolAsked(call=call, name=name, shown=shown):
                asked[call] = narrate_entry.call_line(name, shown)
            # A later answer comes to nothing.
            case conversation.ToolAnswered(call=call) as given if call in asked:
                wide = f": {given.remember} ({given.keep})" if given.keep else ""
                told.append(f"{asked.pop(call)} · {words}{'' if given.granted else wide}")
            case conversation.AssistantMessage(calls=calls):
                names |= {one.id: one.name for one in calls}
            case conversation.ToolApproved(call=call, by="rule") if call in names:
                told.append(f"{names[call]} · {words}")
            case conversation.ToolRefused(call=call, by=by) if by != "person" and call in names:
                told.append(f"{names[call]} · {words}")
            case base.ByHand(how=how) as entry if how or isinstance(entry, derived.MemoryDecided):
                told.append(words)
            case Restored(turns=turns) if turn in turns:
                told.append(words)
            case conversation.TurnEnded(how=how) if how:
                told.append(f"stopped · {how} · {line.channel}")
    return told


def _is_about(turn: int, entry: object) -> bool:
    """Whether something takes an earlier turn or its files back, or brings them again."""
    if isinstance(entry, Rewound):
        return entry.to_turn < turn
    return isinstance(entry, Restored | FilesRestored) and turn in entry.turns


class SharedQuestions:
    """The open questions of one session, asked by a turn of ours or of another program."""

    def __init__(self, context: TurnContext, emit: Callable[[AnyEvent], None]) -> None:
        self._context = context
        self._emit = emit
        self._elsewhere: dict[str, Line] = {}
        """Questions that another program's turn waits with, by call."""
        self._shown: dict[str, str] = {}
        """Which are asked here as well, and since when: some models name all calls alike."""
        self._own: set[str] = set()
        """Answers that were given here."""
        self._for_turn: set[str] = set()
        """When those were asked that are another program's: a lasting yes is for its turn."""
        self._told_left: set[str] = set()
        """When those were asked that programs left which have ended, and that were told here."""
        self._left = False
        """Whether what is waited for here was left by its program: nobody takes a turn."""

    @property
    def waiting(self) -> bool:
        """Whether a turn of ours waits for an answer."""
        return bool(self._context.questions.waiting)

    def write(self, call: str, answer: Answer) -> Line | None:
        """Write an answer down; None when nobody waits for it any more, which is told.

        It counts when it is heard, after everything that stands before it in the file.
        """
        entry = conversation.ToolAnswered(call=call, **msgspec.structs.asdict(answer))
        if not self._is_open(entry):
            self.find()
        if not entry.asked:  # given by an option, before there was a question
            elsewhere = self._elsewhere.get(call)
            since = self._context.questions.waiting.get(call, elsewhere.ts if elsewhere else "")
            entry = msgspec.structs.replace(entry, asked=since)
        try:
            line = record_answer(self._context, entry) if self._is_open(entry) else None
        except errors.EntryNotSaved:
            # The turn cannot go on, either, and says why; nobody is left waiting.
            self._context.questions.answer(call, answer)
            raise
        if line is None:
            self._emit(events.Noticed(message=TOO_LATE))
        else:
            self._own.add(line.id)
        return line

    def _as_it_counts_here(self, given: conversation.ToolAnswered, line: Line) -> Answer:
        """An answer; "until you leave" holds for this turn where we do not see them leave."""
        answer = Answer(**values.shared(Answer, given))
        if given.allowed and line.id not in self._own and not self._was_given_here(given):
            return Answer(allowed=False, why=_NOT_HERE, how=conversation.NOBODY)
        elsewhere = line.id not in self._own or given.asked in self._for_turn
        if answer.keep == "session" and elsewhere:
            return msgspec.structs.replace(answer, keep="turn")
        return answer

    def _was_given_here(self, given: conversation.ToolAnswered) -> bool:
        asked = [line for line in self._newest_turn() if standings.is_answered(line, given)]
        return any(run_tools.was_given_here(self._context, line, given) for line in asked)

    def _is_open(self, given: conversation.ToolAnswered) -> bool:
        """Whether the question waits that is answered."""
        waiting = self._context.questions.waiting | {
            call: line.ts for call, line in self._elsewhere.items()
        }
        return any(given.is_for(*each) for each in waiting.items())

    def have_patience(
        self, give: Callable[[str, Answer], None], call: str, waiting: asyncio.Future[Answer]
    ) -> None:
        """Decline a question that nobody has answered for as long as the settings say."""
        if left := self._patience(self._newest_turn(), call):
            no = self._out_of_patience(self._context.questions.waiting[call])
            timer = asyncio.get_running_loop().call_later(left, give, call, no)
            waiting.add_done_callback(lambda _: timer.cancel())

    def _patience(self, turn: list[Line], call: str) -> float:
        """Seconds for which a question may still wait."""
        patience = self._context.settings.approvals.patience
        since = [line.ts for line in standings.still_open(turn) if _call_of(line) == call]
        waited = numbers.age(since[0]) if since else 0.0
        return max(patience - waited, _NONE_LEFT) if patience else 0.0

    def _out_of_patience(self, since: str) -> Answer:
        patience = self._context.settings.approvals.patience
        why = f"Nobody answered for {numbers.seconds(patience)} (approvals.patience)."
        return Answer(allowed=False, why=why, how=conversation.NOBODY, asked=since)

    def left(self) -> tuple[list[Line], LeftQuestion] | None:
        """The turn that a program left waiting for an answer, for whoever has the lease.

        One that nobody answered for too long is declined, and there is none.
        """
        turn = self._newest_turn()
        line = open_questions.left_waiting(turn)
        if line is None or not isinstance(line.entry, conversation.ToolAsked):
            return None
        asked = line.entry
        given = partial(self._given, line)
        if given() is None and 0 < self._patience(turn, asked.call) <= _NONE_LEFT:
            no = msgspec.structs.asdict(self._out_of_patience(line.ts))
            answered = conversation.ToolAnswered(call=asked.call, **no)
            if record_answer(self._context, answered, line.turn) is not None:
                return None
        return turn, LeftQuestion(line, asked, given)

    def _given(self, asked: Line) -> Answer | None:
        """The first answer to a question of the newest turn."""
        for line, given in _answers(self._newest_turn(), asked):
            return self._as_it_counts_here(given, line)
        return None

    def to_go_on_with(self) -> tuple[list[Line], LeftQuestion] | None:
        """The same, where this surface can ask and works where the turn did."""
        found = self.left() if self._context.permissions.asks else None
        return found if found and found[1].asked.folder == self._context.folder else None

    def others_to_answer(self) -> LeftQuestion | None:
        """A question that waits for a person, or has its yes, where nobody can go on here."""
        found = self.left()
        if found is None or self.to_go_on_with() is not None:
            return None
        given = found[1].given()
        return found[1] if given is None or given.allowed else None

    def has_yes(self) -> bool:
        """Whether a turn that was left has its yes: it begins where it was asked for."""
        found = self.left()
        given = found[1].given() if found is not None else None
        if found is None or given is None or not given.allowed:
            return False
        told = f"It begins once this session is opened in {found[1].asked.folder}."
        self._emit(events.Noticed(message=told, level="warning"))
        return True

    def hand_on(self) -> bool:
        """Leave the question of our turn to others, for this surface closes; False without one."""
        with contextlib.suppress(errors.MindstoneError):
            line = open_questions.left_waiting(self._newest_turn()) if self.waiting else None
            return line is not None and self._context.questions.hand_on(_call_of(line))
        return False

    def tell_left(self, lease: Lease, declined: str = "") -> None:
        """Say once what a program asked that has ended since: nobody else has the lease.

        The turn that asked gets an end of its own; the question of a command gets it here, unless
        somebody declines it now.
        """
        now, turn = datetime.now(UTC), self._newest_turn()
        for line in standings.still_open(turn):
            question = open_questions.question_in(line, lease, gone=True)
            if question.since not in self._told_left:
                self._told_left.add(question.since)
                told = f"{question.sentence(now)} {question.remedy}"
                self._emit(events.Noticed(message=told, level="warning"))
            if _is_over(turn) and question.call != declined:
                ended = conversation.ToolAnswered(
                    call=question.call, allowed=False, why=_ENDED, how=conversation.NOBODY
                )
                if (written := record_answer(self._context, ended, line.turn)) is not None:
                    self._settle(ended, written)

    def hear(self, line: Line, *, left: bool = False) -> None:
        """Take in a line that somebody wrote, in the order of the file.

        `left` says that its program has ended.
        """
        match line.entry:
            case conversation.ToolAsked() as asked if (
                asked.call not in self._context.questions.waiting
            ):
                self._ask(asked, line, left=left)
            case conversation.ToolAnswered() as given:
                self._settle(given, line)
            case conversation.ToolReturned(call=call) if call in self._shown:
                del self._shown[call]
                self._elsewhere.pop(call, None)
            case conversation.TurnEnded():
                self._elsewhere.clear()
                self._shown.clear()

    def find(self, *, left: bool = False) -> None:
        """Take up what is open in a turn that runs elsewhere, or was left by its program.

        What nobody here has read so far is left to whoever reads it, after what stands before it.
        """
        for line in standings.still_open(self._newest_turn()):
            if line.seq <= self._context.transcript.head.seq:
                self.hear(line, left=left)

    def _newest_turn(self) -> list[Line]:
        """The lines of the newest turn, and of commands since; only there anything can wait."""
        transcript = self._context.transcript
        with transcript.history() as history:
            return [history.whole(line) for line in history.turn(transcript.last_turn)]

    def open(self, lease: Lease) -> list[open_questions.OpenQuestion]:
        """What a turn elsewhere waits with, oldest first."""
        lines = self._elsewhere.values()
        return [open_questions.question_in(line, lease, left=self._left) for line in lines]

    def answer_all(
        self, lease: Lease, give: Callable[[str, Answer], None], answer: Answer | None, mark: str
    ) -> list[open_questions.OpenQuestion]:
        """What a turn waits with, here or elsewhere; an answer goes to each, or to the one named.

        Raises with who was first where that one waits no longer.
        """
        self.find()
        own = self._context.questions.waiting
        lines = [
            each for each in standings.still_open(self._newest_turn()) if _call_of(each) in own
        ]
        asked = [*(open_questions.question_in(line, lease) for line in lines), *self.open(lease)]
        found = [each for each in asked if mark in ("", each.mark)]
        if mark and not found:
            raise errors.MindstoneError(TOO_LATE, self._who_was_first(mark))
        if answer is not None:
            for question in found:
                hand = self._context.by_hand(question.since)
                give(question.call, msgspec.structs.replace(answer, asked=question.since, **hand))
        return found

    def _who_was_first(self, mark: str) -> str:
        """Where and how a question of the newest turn was answered that is named by its mark."""
        turn = self._newest_turn()
        for asked in turn:
            if _call_of(asked) and open_questions.mark_of(_call_of(asked), asked.ts) == mark:
                for line, _ in _answers(turn, asked):
                    return str(narrate.describe_line(line)).lstrip("· ")
        return "`/waiting` lists what is."

    def stop(
        self, lease: Lease, give: Callable[[str, Answer], None], why: str, how: str = ""
    ) -> bool:
        """Have a turn end that waits for an answer, ours or one elsewhere; whether one did."""
        self._context.hand = (how or "stop", 0.0)
        no = Answer(allowed=False, why=why or "The person stopped it.", stops=True)
        for call, since in self._context.questions.waiting.items():
            give(call, msgspec.structs.replace(no, asked=since, **self._context.by_hand(since)))
        return bool(self.answer_all(lease, give, no, ""))

    async def have_lease(self, lease: Lease, catch_up: Callable[[], None], *, wait: bool) -> None:
        """Have the right to a turn; while it is waited for, say what its holder waits for.

        A question that its program left, and that cannot be put here, is waited for as well: to
        begin something else would end it unanswered.
        """
        watch: list[asyncio.Task[None]] = []

        def on_wait(why: str = "another program takes a turn") -> None:
            if not watch:
                self._emit(events.Noticed(message=f"Waiting: {why} in {lease.key}."))
                watch.append(asyncio.create_task(self._watch(lease, catch_up), name="holder"))

        try:
            await lease.take(wait=wait, on_wait=on_wait)
            while (left := self.others_to_answer()) is not None:
                lease.give_back()
                self._left = True
                if not wait or left.given() is not None:
                    raise errors.SessionBusy(
                        f"A turn in {lease.key} was left at a question.",
                        f"Open the session in {left.asked.folder}: it goes on there.",
                    )
                on_wait("a turn was left at a question")
                await asyncio.sleep(_LOOK_AGAIN)
                await lease.take(wait=wait, on_wait=on_wait)
        except errors.SessionBusy as busy:
            self.find()
            for question in self.open(lease)[:1]:
                told = question.sentence(datetime.now(UTC))
                raise errors.SessionBusy(f"{busy.what} {told}", question.remedy) from busy
            raise
        finally:
            self._left = False
            for task in watch:
                task.cancel()

    async def _watch(self, lease: Lease, catch_up: Callable[[], None]) -> None:
        """Say each question once, and once more when nobody is left who looks at it."""
        said: set[tuple[str, bool]] = set()
        while True:
            with contextlib.suppress(errors.MindstoneError):  # the turn that follows says so
                catch_up()
                self.find()
            for question in self.open(lease):
                if (question.since, question.unattended) not in said:
                    said.add((question.since, question.unattended))
                    told = question.sentence(datetime.now(UTC))
                    if not self._context.permissions.asks:  # else it is asked here as well
                        told = f"{told} {question.remedy}"
                    self._emit(
                        events.Noticed(message=told, level="warning", waits_for=question.call)
                    )
            await asyncio.sleep(_LOOK_AGAIN)

    def _ask(self, asked: conversation.ToolAsked, line: Line, *, left: bool) -> None:
        known, self._elsewhere[asked.call] = self._elsewhere.get(asked.call), line
        if self._context.permissions.asks and (known is None or known.ts != line.ts):
            self._shown[asked.call] = line.ts
            question = asked_before(line, asked)
            if not left:  # a yes that lasts, lasts there as long as the turn
                self._for_turn.add(line.ts)
                scopes = tuple(map(_for_turn, asked.scopes))
                question = msgspec.structs.replace(question, scopes=scopes)
            self._emit(question)

    def is_shown(self, event: AnyEvent) -> bool:
        """Whether an event puts a question that this surface shows already."""
        return isinstance(event, events.ToolAsked) and self._shown.get(event.call) == event.since

    def _settle(self, given: conversation.ToolAnswered, line: Line) -> None:
        if self._is_open(given):
            self._context.questions.answer(given.call, self._as_it_counts_here(given, line))
            asked = self._elsewhere.pop(given.call, line).entry
            self._emit(from_entry.tool_answered(line))
            over = (isinstance(one.entry, conversation.TurnEnded) for one in self._newest_turn())
            if isinstance(asked, conversation.ToolAsked) and any(over):  # a command asked elsewhere
                self._emit(run_tools.ended_beside(asked, given.allowed))


def _answers(turn: list[Line], asked: Line) -> Iterator[tuple[Line, conversation.ToolAnswered]]:
    for line in turn:
        given = line.entry
        if isinstance(given, conversation.ToolAnswered) and standings.is_answered(asked, given):
            yield line, given


def _call_of(line: Line) -> str:
    return line.entry.call if isinstance(line.entry, conversation.ToolAsked) else ""


def _for_turn(scope: events.AskedScope) -> events.AskedScope:
    label = scope.label.replace("until you leave", "for this turn")
    return msgspec.structs.replace(scope, label=label)


def _is_over(turn: list[Line]) -> bool:
    """Whether a turn needs no end: it has one, or none began."""
    kinds = {type(line.entry) for line in turn}
    return conversation.TurnEnded in kinds or conversation.TurnStarted not in kinds
