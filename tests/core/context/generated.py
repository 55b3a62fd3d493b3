"""Generated sessions: what people, models, crashes and other processes do to a window."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from mindstone_tui.core.context import manual
from mindstone_tui.core.context.plan import Prepared
from mindstone_tui.core.entries import ToolCall, ToolSchema
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    Thinking,
    TurnEnded,
    UserMessage,
)
from mindstone_tui.core.entries.derived import RecallInjected, TaskDone, TaskStarted
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import DoesNotFit, NoSuchEntry, WindowError
from tests.builders import transcript_in
from tests.core.context.stage import MODEL, Stage, Unsynced, finish, with_context, words

FULL = os.environ.get("MINDSTONE_FAULTS") == "1"
SLASH = "SLASH-OUTPUT-THAT-NO-MODEL-MAY-SEE"

generated = settings(
    max_examples=3_000 if FULL else 12,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # a session shrinks too slowly to be worth the wait
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


class Act(msgspec.Struct, frozen=True):
    """One thing that happens, with its sizes."""

    what: str
    size: int = 0
    number: int = 0


def _act(what: str, weight: int, sizes: st.SearchStrategy[int]) -> list[st.SearchStrategy[Act]]:
    return [st.builds(Act, st.just(what), sizes, st.integers(0, 12))] * weight


_small, _large = st.integers(1, 120), st.integers(100, 900)
ACTS = st.lists(
    st.one_of(
        *_act("chat", 6, _small),
        *_act("chat", 2, _large),
        *_act("tools", 4, _small),
        *_act("tools", 2, _large),
        *_act("parallel", 2, _small),
        *_act("interrupt", 1, _small),
        *_act("crash", 1, _small),
        *_act("recall", 1, _small),
        *_act("slash", 1, _small),
        *_act("pin", 1, _small),
        *_act("unpin", 1, _small),
        *_act("prune", 1, st.integers(1, 4)),
        *_act("restore", 1, _small),
        *_act("rewind", 1, st.integers(1, 3)),
        *_act("model", 1, _small),
        *_act("policy", 1, _small),
        *_act("instructions", 1, _small),
        *_act("break_index", 1, _small),
        *_act("mend_index", 1, _small),
        *_act("usage", 2, st.integers(80, 140)),
        *_act("task", 1, _small),
        *_act("meanwhile", 1, _small),
        *_act("huge", 1, st.integers(3_000, 12_000)),
    ),
    min_size=8,
    max_size=40,
)
WINDOWS = (2_000, 4_000, 8_000, 32_768)
POLICIES = ("fifo", "lru", "priority", "semantic_merge", "type_based", "hybrid")
SETTINGS = st.sampled_from(
    [
        with_context(),
        with_context(policy="hybrid"),
        with_context(policy="semantic_merge", marker=False),
        with_context(ceiling=80.0, floor=60.0, min_recent=4, trim=70.0, trim_to=50.0),
    ]
)


class Player:
    """Plays acts on a stage and lets a watcher look at every request."""

    def __init__(self, stage: Stage, watch: Callable[[Prepared], None]) -> None:
        self.stage = stage
        self._watch = watch
        self.refused: list[DoesNotFit] = []

    def play(self, acts: list[Act]) -> None:
        for act in acts:
            getattr(self, act.what)(act)

    def plan(self, call: int = 1, tail: tuple[int, ...] = ()) -> bool:
        """Plan a call; False when it was refused, in one clear sentence."""
        try:
            prepared = self.stage.plan(call, tail=tail)
        except DoesNotFit as refused:
            self.refused.append(refused)
            return False
        self._watch(prepared)
        return True

    def chat(self, act: Act) -> None:
        self.stage.ask(words(act.size, f"q{self.stage.turn}"))
        if self.plan():
            self.stage.answer(words(act.size * 2, f"a{self.stage.turn}"))
        self.stage.end()

    def huge(self, act: Act) -> None:
        self.chat(act)

    def tools(self, act: Act) -> None:
        stage = self.stage
        turn = stage.ask(words(10, f"src/file_{act.number}.py"))
        for call in range(1, 2 + act.number % 5):
            if not self.plan(call):
                break
            wish = ToolCall(
                id=f"call_{call}", name="read", arguments=f'{{"path":"src/file_{call}.py"}}'
            )
            stage.transcript.append(
                AssistantMessage(
                    text="",
                    model=MODEL,
                    calls=(wish,),
                    thinking=(Thinking(text=f"thought {turn}", signature="s"),),
                ),
                turn=turn,
            )
            stage.result(wish.id, words(act.size, f"r{turn}.{call}"))
        else:
            if self.plan(9):
                stage.answer("done")
        stage.end()

    def parallel(self, act: Act) -> None:
        stage = self.stage
        stage.ask("look at all of them")
        if self.plan():
            calls = [ToolCall(id=f"p{n}", name="read", arguments="null") for n in range(3)]
            stage.answer("all at once", calls)
            for n in (2, 0, 1):
                stage.result(f"p{n}", words(act.size, f"par{n}"))
            if self.plan(2):
                stage.answer("done")
        stage.end()

    def interrupt(self, act: Act) -> None:
        turn = self.stage.ask(words(act.size))
        if self.plan():
            self.stage.transcript.append(AssistantPartial(text="half an ans"), turn=turn)
        self.stage.transcript.append(TurnEnded(ending="interrupted"), turn=turn)

    def crash(self, act: Act) -> None:
        """A call without its result, and nothing else: the program died."""
        self.stage.ask(words(act.size))
        if self.plan():
            self.stage.answer("", [ToolCall(id="lost", name="shell", arguments="{}")])

    def recall(self, act: Act) -> None:
        turn = self.stage.ask("do you remember?")
        line = self.stage.transcript.append(
            RecallInjected(query="q", passages=(), text=words(act.size, "recalled"), tokens=1),
            turn=turn,
        )
        if self.plan(tail=(line.seq,)):
            self.stage.answer("yes")
        self.stage.end()

    def slash(self, act: Act) -> None:
        self.stage.transcript.append(CommandRun(command="/context", output=SLASH * act.size))

    def pin(self, act: Act) -> None:
        self._may_refuse(
            lambda: manual.pin(self.stage.window, max(self.stage.turn - act.number, 1))
        )

    def unpin(self, act: Act) -> None:
        pins = self.stage.window.fold.state.pins
        if pins:
            manual.unpin(self.stage.window, pins[act.number % len(pins)])

    def prune(self, act: Act) -> None:
        finish(manual.prune(self.stage.window, count=act.size))

    def restore(self, act: Act) -> None:
        turn = max(self.stage.turn - act.number, 1)
        self._may_refuse(lambda: manual.restore(self.stage.window, [turn]))

    def rewind(self, act: Act) -> None:
        self._may_refuse(
            lambda: finish(manual.rewind(self.stage.window, self.stage.turn - act.size))
        )

    def model(self, act: Act) -> None:
        window = WINDOWS[act.number % len(WINDOWS)]
        self.stage.window.set_model(MODEL, window=window, label="measured")

    def policy(self, act: Act) -> None:
        self.stage.window.set_policy(POLICIES[act.number % len(POLICIES)])

    def instructions(self, act: Act) -> None:
        self.stage.window.set_instructions(
            [Section(name="identity", text=words(act.size, "rules"))]
        )
        self.stage.window.set_tools(
            [ToolSchema(name="recall", description="d" * act.size, parameters={})]
        )

    def break_index(self, act: Act) -> None:
        if act.number % 2:
            self.stage.index.failing = True
        else:
            self.stage.index.refused = {self.stage.turn - act.number, 2}

    def mend_index(self, act: Act) -> None:
        self.stage.index.failing = False
        self.stage.index.refused = set()

    def usage(self, act: Act) -> None:
        if self.stage.prepared:
            self.stage.report_usage(self.stage.prepared[-1].tokens * act.size // 100)

    def task(self, act: Act) -> None:
        entry = TaskStarted(title="t") if act.number % 2 else TaskDone(title="t")
        self.stage.transcript.append(entry)

    def meanwhile(self, act: Act) -> None:
        """At the next prune somebody else writes to the session."""

        def other_surface() -> None:
            other = transcript_in(self.stage.transcript.places.folder.parents[3], disk=Unsynced())
            other.append(UserMessage(text=f"meanwhile {act.number}"), turn=self.stage.turn)
            other.close()

        self.stage.index.meanwhile = other_surface

    def _may_refuse(self, work: Callable[[], object]) -> None:
        with contextlib.suppress(NoSuchEntry, WindowError):
            work()
