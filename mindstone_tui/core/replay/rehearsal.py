"""A rehearsal while it is held: each line is said again, done again, or left to the planners."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import errors, transcript
from mindstone_tui.core.agent.context import vacancy_beside
from mindstone_tui.core.config.settings import RecallSettings, Settings
from mindstone_tui.core.context import cascade, manual, modes, plan, policies, summaries
from mindstone_tui.core.context.budget import ASSUMED_WINDOW
from mindstone_tui.core.context.summary_call import Ask, Count
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import ExchangeLines, Target
from mindstone_tui.core.entries import Line, Part, Unknown, conversation, derived, standings, window
from mindstone_tui.core.handoff import checkpoint, handoff, handoff_store
from mindstone_tui.core.handoff.environment import Environment
from mindstone_tui.core.recall import candidates, index, passages, store
from mindstone_tui.core.recall.embedding import Embedder, EmbedsOnce, open_embedder
from mindstone_tui.core.recall.inject import CONSIDERED, Vacancy, choose, inject, queries, room_in
from mindstone_tui.core.replay.in_memory import InMemoryTranscript
from mindstone_tui.core.replay.survey import Place, Reference, references_in
from mindstone_tui.core.tokens import Calibration, Counter, counter_for


class Continuing:
    """Saves checkpoints and hands over, as entries alone."""

    def __init__(self, sketch: InMemoryTranscript, live: LiveWindow, count: Count) -> None:
        self._sketch = sketch
        self._window = live
        self._count = count
        self._state = checkpoint.fresh(str(sketch.places.key))
        self._letter: handoff.Letter | None = None

    @property
    def steps(self) -> dict[cascade.StepName, cascade.Apply]:
        """The steps of the modes that write something down."""
        return {"checkpoint": self._save, "handoff": self._write, "handoff_replay": self._take_over}

    async def _save(self, _excess: int) -> cascade.Effect:
        self._advance()
        saved = msgspec.structs.replace(self._state, version=self._state.version + 1)
        self._state = saved
        entry = derived.CheckpointSaved(
            version=saved.version,
            path="checkpoint.json",
            sha256=checkpoint.digest(saved),
            trigger="window",
        )
        return cascade.Effect(lines=(self._window.record(entry),))

    async def _write(self, _excess: int) -> cascade.Effect:
        self._advance()
        usable = self._window.now().room.usable
        try:
            self._letter = handoff.compose(
                self._state,
                self._window_lines(),
                Environment(),
                judged=standings.Standings(self._sketch.lines),
                written=self._sketch.lines[-1].ts,
                trigger="window",
                count=self._count,
                budget=min(handoff.BUDGET, usable * cascade.HANDOFF_SHARE // 100),
            )
        except errors.ContinuityError as error:
            return cascade.Effect(held=False, why=error.what)
        entry = derived.HandoffWritten(
            path=f"handoffs/{self._letter.covers.last:08d}-{self._letter.sha256[:12]}.md",
            sha256=self._letter.sha256,
            covers=self._letter.covers,
            trigger="window",
        )
        return cascade.Effect(lines=(self._window.record(entry),))

    async def _take_over(self, _excess: int) -> cascade.Effect:
        if self._letter is None:
            return cascade.Effect(held=False, why="no handoff was written")
        since = self._sketch.lines[self._letter.covers.last + 1 :]
        used = {one.entry.sha256 for one in since if isinstance(one.entry, derived.HandoffReplayed)}
        try:
            taken = handoff_store.take_over(
                self._letter,
                since,
                self._count,
                judged=standings.Standings(self._sketch.lines),
                replayed=used,
                nonce=self._letter.sha256[:16],
            )
        except errors.ContinuityError as error:
            return cascade.Effect(held=False, why=error.what)
        return cascade.Effect(lines=(self._window.record(taken.entry(self._window.fold.state)),))

    def _advance(self) -> None:
        self._state = checkpoint.advance(
            self._state, self._sketch.lines[self._state.head.seq + 1 :]
        )

    def _window_lines(self) -> list[Line]:
        spans = self._window.fold.state.spans
        lines = self._sketch.lines
        held = [line for span in spans for line in lines[span.first : span.last + 1]]
        return [*held, *lines[(held[-1].seq if held else -1) + 1 :]]


ASKED_FOR: Final = 6
"""Hits that a model sees when it asks for something itself."""
_AT_ONCE: Final = 64


class Recollection:
    """What a rehearsed session can find again."""

    def __init__(self, settings: RecallSettings, embedder: Embedder | None = None) -> None:
        self.on = settings.auto
        self._most = settings.max_passages
        self._has_vectors = embedder is not None
        self._index = index.InMemoryIndex(embedder)

    def learn(self, lines: Sequence[Line]) -> None:
        """Take a finished exchange in, with its meaning where there is a model for it."""
        if lines:
            self._index.add(
                passages.passages_of(lines), store.IndexMark(lines[-1].seq, lines[-1].hash)
            )
            while self._has_vectors and self._index.embed_pending(_AT_ONCE):
                pass

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, window.Receipt]:
        """Index exchanges and read them back, as the law wants it before anything leaves."""
        receipts: dict[int, window.Receipt] = {}
        for exchange in turns:
            found = self._index.ensure(passages.passages_of(exchange.lines))
            receipt = found[0] if found else window.Receipt(turn=exchange.turn, passages=0)
            if not self._has_vectors:
                receipt = msgspec.structs.replace(receipt, vectors="")
            receipts[exchange.turn] = receipt
        return receipts

    def gather(self, text: str, vacancy: Vacancy) -> derived.RecallInjected | None:
        """What would be brought back for a message; None when nothing is good enough."""
        if not self.on:
            return None
        nonce = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        room = room_in(vacancy, nonce)
        for query in queries(text, vacancy.recent):
            found = self.search(query, CONSIDERED, vacancy.shown)
            own = found.hits[0].passage.session if found.hits else ""
            choice = choose(
                text, [found], room, vacancy.count, most=self._most, session=own, said=vacancy.said
            )
            if choice.injected:
                return inject(text, choice, vacancy, nonce)
        return None

    def search(
        self,
        query: str,
        k: int = ASKED_FOR,
        window: Collection[int] = (),
        pinned: Collection[int] = (),
    ) -> index.SearchResult:
        """The k best hits outside the window; pinned turns gain."""
        allowed = candidates.Filter(exclude=frozenset(window), without=candidates.DERIVED)
        return self._index.search(query, k, allowed=allowed, pinned_turns=pinned)

    def close(self) -> None:
        """Forget everything."""
        self._index.close()


UNNAMED: Final = "unnamed"
"""Stands in the plans of a session that does not say who answered."""
_NONCE: Final = "0" * 16
_KEPT: Final = frozenset(
    {"user_message", "assistant_message", "assistant_partial", "turn_started", "turn_ended"}
    | {"tool_called", "tool_approved", "tool_refused", "tool_returned", "note_taken"}
    | {"task_started", "task_done", "delegated", "delegation_ended", "imported"}
    | {"message_queued", "message_withdrawn"}
)
"""What was said and done; everything else is decided anew."""


class Resolved(Part, omit_defaults=False):
    """A reference, and where its source would have been."""

    reference: Reference
    place: Place


SHIPPED_EMBEDDER: Final = "minilm"


class RehearsalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a rehearsal is held."""

    embedder: Embedder | None = None
    """Makes recall search by meaning, too; without it, by words alone."""
    fixed: frozenset[str] = frozenset()
    """Keys that were asked for and win over what the session itself changed."""
    counting: bool = False
    """Hold only what still counts: nothing that was rewound."""
    ask: Ask | None = None
    """Writes summaries; without it sentences of the originals are chosen."""
    model: str = ""
    counters: Callable[[str], Counter] = counter_for
    progress: Callable[[int, int], None] | None = None
    """Hears (lines done, lines in all)."""


def by_meaning(progress: Callable[[int, int], None] | None) -> RehearsalOptions:
    """Let recall search by meaning, with the model that ships with the program and no other."""
    return RehearsalOptions(embedder=EmbedsOnce(open_embedder(SHIPPED_EMBEDDER)), progress=progress)


class Rehearsal(msgspec.Struct, dict=True, eq=False):
    """A rehearsal, while it is held and after; `sketch` is the session as it would have been."""

    _source: transcript.History
    _settings: Settings
    _options: RehearsalOptions
    _references: Mapping[int, tuple[Reference, ...]]
    resolved: list[Resolved] = []
    refused: list[str] = []
    """Requests that could not have been sent, and why."""
    _model: str = UNNAMED
    _planned: window.PromptPlanned | None = None
    """The request that was really sent next."""
    _tail: tuple[int, ...] = ()
    _number: int = 0
    _learned: int = 0

    def __post_init__(self) -> None:
        options = self._options
        self.sketch = InMemoryTranscript(self._source.places)
        self.recollection = Recollection(self._settings.recall, options.embedder)
        self.window = LiveWindow(
            self.sketch.history(),
            self._settings,
            transcript=self.sketch,
            indexer=self.recollection,
            counters=options.counters,
            calibration=Calibration(),
            threads=False,
        )
        self._count = options.counters(options.model).text
        continuing = Continuing(self.sketch, self.window, self._count)
        summarizer = summaries.Summarizer(
            count=self._count, ask=options.ask, model=options.model, nonce=lambda: _NONCE
        )
        self.window.room_maker = modes.Modes(
            modes.Means(summarizer=summarizer, steps=continuing.steps)
        ).make_room

    async def take(self, line: Line) -> None:
        """One line of history: said again, done again, or left to the planners."""
        entry = line.entry
        if isinstance(entry, Unknown):
            return
        if isinstance(entry, window.PromptPlanned):
            self._planned = None if entry.purpose else entry
        elif isinstance(entry, conversation.AssistantMessage | conversation.AssistantPartial):
            await self._call(line, entry.model)
        elif isinstance(entry, conversation.TurnStarted):
            self.learn()
        if line.kind in _KEPT:
            self.window.take(self.sketch.copy(line))
        else:
            await self._do_again(line)
        if isinstance(entry, conversation.UserMessage) and not self._number:
            await self._begin(line, entry.text)
        elif isinstance(entry, conversation.TurnEnded):
            self._number, self._tail = 0, ()

    def learn(self) -> None:
        """Let recall know what was said since."""
        self.recollection.learn(self.sketch.lines[self._learned :])
        self._learned = len(self.sketch.lines)
        self._number, self._tail = 0, ()

    async def _do_again(self, line: Line) -> None:
        """What a person changed; the window writes it down for this session."""
        live, fixed = self.window, self._options.fixed
        # Some of it makes no sense in this window, and is left out.
        with contextlib.suppress(errors.MindstoneError):
            match line.entry:
                case window.InstructionsChanged(sections=sections):
                    live.set_instructions(sections)
                case window.ToolsChanged(tools=tools):
                    live.set_tools(tools)
                case window.ModelChanged(model=model, window=tokens, window_label=label):
                    self._model = model
                    live.set_model(model, window=tokens, label=label)
                case window.PolicyChanged(policy=policy) if "context.policy" not in fixed:
                    live.set_policy(policy)
                case window.ModeChanged(mode=mode) if "context.mode" not in fixed:
                    live.set_mode(mode)
                case window.Pinned(pinned_turn=turn, why=why):
                    manual.pin(live, turn, why)
                case window.Unpinned(pinned_turn=turn):
                    manual.unpin(live, turn)
                case window.Restored(turns=turns):
                    manual.restore(live, turns)
                case window.Rewound(to_turn=turn):
                    await manual.rewind(live, turn)
                case window.ContextWindowPruned(trigger="manual", left=left):
                    await manual.prune(live, turns=[each.turn for each in left])

    async def _begin(self, line: Line, text: str) -> None:
        """Make room and look for what matters, as before every turn."""
        target = self._target()
        room = int((target.window or ASSUMED_WINDOW) * self._settings.budget.memory_injection / 100)
        try:
            await plan.make_room(self.window, target, expected=room if self.recollection.on else 0)
        except errors.WindowError:
            return  # the request itself says so in a moment
        vacancy = vacancy_beside(self.window.fold, room, self._count)
        if (injected := self.recollection.gather(text, vacancy)) is not None:
            self._tail = (self.window.record(injected, line.turn).seq,)
        turns = {each.turn for each in injected.passages} if injected else set()
        for reference in self._references.get(line.turn, ()):
            self.resolved.append(Resolved(reference=reference, place=self._find(reference, turns)))

    def _find(self, reference: Reference, recalled: set[int]) -> Place:
        """Where the source of a reference stands now."""
        fold = self.window.fold
        shown = [fold.lines[seq] for seq in fold.shown if fold.lines[seq].turn == reference.source]
        named = reference.kind == "name"
        if any(not named or reference.words in policies.text_of(line) for line in shown):
            return "window"
        if reference.source in recalled:
            return "recalled"
        # As the model's own tool asks: everything but the turn that is asking.
        asking = [seq for seq, line in fold.lines.items() if line.turn == fold.turn]
        found = self.recollection.search(reference.words, window=asking, pinned=fold.state.pins)
        turns = {hit.passage.turn for hit in found.hits}
        return "on request" if reference.source in turns else "nowhere"

    async def _call(self, line: Line, answered_by: str) -> None:
        """Plan the request that this answer came from."""
        planned, self._planned = self._planned, None
        self._number += 1
        self._model = (planned.model if planned else "") or answered_by or self._model
        try:
            await plan.prepare(
                self.window, self._target(planned), call=self._number, tail=self._tail
            )
        except errors.WindowError as error:
            self.refused.append(f"turn {line.turn}: {error.what}")

    def _target(self, planned: window.PromptPlanned | None = None) -> Target:
        """With the window asked for, else the one the request really had, else what is known."""
        if tokens := self._settings.context.window:
            return Target(model=self._model, window=tokens, label="measured")
        known = planned or self.window.last_plan
        if known is None:
            return Target(model=self._model)
        return Target(model=self._model, window=known.window, label=known.window_label)


AS_IT_IS: Final = RehearsalOptions()


async def rehearse(
    source: transcript.History, settings: Settings, options: RehearsalOptions = AS_IT_IS
) -> Rehearsal:
    """Hold the conversation once more under these settings."""
    lines = [source.whole(item) for item in source.read() if isinstance(item, Line)]
    lines = standings.not_rewound(lines) if options.counting else lines
    held = Rehearsal(source, settings, options, references_in(lines))
    for at, line in enumerate(lines):
        await held.take(line)
        if options.progress is not None:
            options.progress(at + 1, len(lines))
        await asyncio.sleep(0)  # nothing else in it waits, and somebody may want to stop it
    held.learn()
    return held
