"""What a turn works with: every collaborator, handed in by the session."""

import asyncio
import collections
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, get_args

import msgspec

from mindstone_tui.core.agent.hooks import Fired, Hooks
from mindstone_tui.core.agent.permissions import Permissions
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.agent.undo import FileKeeper
from mindstone_tui.core.config.settings import Effort
from mindstone_tui.core.context import budget, build_report, measure, plan
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.context.report import CachePause, ContextReport
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import PromptPrices, Target
from mindstone_tui.core.entries import Line, Sampling, ToolSchema
from mindstone_tui.core.entries.base import MORE_TOOLS
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.derived import MemoryDigested, RecallInjected
from mindstone_tui.core.entries.window import Alert, AlertRaised, PromptPlanned
from mindstone_tui.core.errors import HandedOn, ToolError
from mindstone_tui.core.events import Answer, AnyEvent, ToolAsked
from mindstone_tui.core.providers import cache_rules, catalogue
from mindstone_tui.core.providers.base import ModelInfo, Options, Provider, Window
from mindstone_tui.core.recall.inject import Vacancy
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.text import exact, one_line
from mindstone_tui.core.tokens import UNCALIBRATED, Counter
from mindstone_tui.core.tools import base

ALWAYS: Final = frozenset(
    {"read", "write", "edit", "list", "grep", "shell", "recall", "read_entry"}
)
"""Never left out: without these nothing can be looked up, changed or found again."""
_MOST_WANTED: Final = 4
"""Tools that stay because they were asked for; an older one gives way to the next."""
_WORTH_SAYING: Final = 0.01
"""Dollars from which on it matters whether a cache expires."""
_ABOUT: Final = 48
"""Characters that say what a tool is for while its schema is left out."""


class MoreArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tool is wanted."""

    tool: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


_MORE_TOOLS_PARAMETERS: Final = base.parameters_of(MoreArguments)


def choose(
    tools: Sequence[ToolSchema],
    size: Callable[[Sequence[ToolSchema]], int],
    limit: int,
    order: Sequence[str],
    wanted: Collection[str] = (),
) -> tuple[ToolSchema, ...]:
    """The schemas that fit, in their own order, with a way to the others; all when all fit.

    `order` names tools by their use, most first; what is `wanted` stays in any case.
    """
    if size(tools) <= limit:
        return tuple(tools)
    rank = {name: at for at, name in enumerate(order)}
    spare = sorted(
        (tool for tool in tools if tool.name not in ALWAYS and tool.name not in wanted),
        key=lambda tool: rank.get(tool.name, len(rank)),
    )

    def without(count: int) -> tuple[ToolSchema, ...]:
        """All but the least used, and a way to those."""
        out = {tool.name for tool in spare[len(spare) - count :]}
        held = [tool for tool in tools if tool.name in out]
        return (*(tool for tool in tools if tool.name not in out), _more(held))

    # Each tool that is left out makes it smaller, and a client may bring thousands.
    fewest = bisect_left(range(1, len(spare)), True, key=lambda n: size(without(n)) <= limit) + 1
    offered = without(fewest) if spare else tuple(tools)
    # Where nothing fits: as little as possible, if that is less at all.
    return offered if size(offered) < size(tools) else tuple(tools)


def _more(held: Sequence[ToolSchema]) -> ToolSchema:
    names = "; ".join(f"{tool.name}: {one_line(tool.description, _ABOUT)}" for tool in held)
    return ToolSchema(
        name=MORE_TOOLS,
        description=f"Get one of these tools, which are not shown here: {names}",
        parameters=_MORE_TOOLS_PARAMETERS,
    )


def by_use(names: Sequence[str], fold: Fold) -> list[str]:
    """Tools by their use: offered before, called often, listed early.

    What was offered before stays ahead, so that the front of the prompt stays as it is.
    """
    calls = collections.Counter(
        call.name
        for line in fold.lines.values()
        if isinstance(line.entry, AssistantMessage)
        for call in line.entry.calls
    )
    before = {tool.name for tool in fold.tools} if fold.tools else set(names)
    return sorted(names, key=lambda name: (name not in before, -calls[name]))


def _asked_before(fold: Fold) -> list[str]:
    """What a session that was opened again had asked for: it stands among what is needed."""
    offered = [tool.name for tool in fold.tools]
    if MORE_TOOLS not in offered:
        return []
    return [name for name in offered if name not in ALWAYS and name != MORE_TOOLS][-_MOST_WANTED:]


class ToolOffer:
    """What one session offers of its tools, and what was asked for beyond that."""

    def __init__(self, tools: Mapping[str, base.Tool]) -> None:
        self._tools = tools
        self.wanted: list[str] = []
        """Tools that were asked for, the newest first."""
        self.more = base.declare(
            MORE_TOOLS,
            "Get a tool that is not shown.",
            "read",
            MoreArguments,
            self._get,
            lambda arguments, _: base.Preview(title=f"{MORE_TOOLS} {exact(arguments.tool)}"),
        )

    def schemas(
        self, fold: Fold, counter: Counter, limit: int, only: Collection[str] = ()
    ) -> list[ToolSchema]:
        """What the next request carries; a model that copes with few is shown only those."""
        known = [tool.schema for tool in self._tools.values()]
        if only:
            return [tool for tool in known if tool.name in only]
        if counter.tools(known) <= limit:
            return known
        if not self.wanted:
            self.wanted = _asked_before(fold)
        order = by_use([tool.name for tool in known], fold)
        return list(choose(known, counter.tools, limit, order, self.wanted))

    def find(self, name: str) -> base.Tool | None:
        """A tool by its name, shown or not."""
        return self.more if name == MORE_TOOLS else self._tools.get(name)

    async def _get(self, arguments: MoreArguments, context: base.ToolContext) -> base.ToolResult:
        if arguments.tool not in self._tools:
            known = ", ".join(sorted(self._tools))
            raise ToolError(f"There is no tool {arguments.tool}.", f"There are: {known}.")
        others = [each for each in self.wanted if each != arguments.tool]
        self.wanted = [arguments.tool, *others][:_MOST_WANTED]
        return base.ToolResult(
            text=f"{arguments.tool} can be called from now on.",
            finding=f"{arguments.tool} is offered from here on",
        )


class Answering(msgspec.Struct, kw_only=True):
    """Which model answers, and how it was chosen."""

    model: str
    provider: Provider
    overridden: bool = False
    """It holds for this surface's turns only and is named in their plans."""
    named_window: Window | None = None
    """A window that somebody named; None leaves it to what is known about the model."""
    position: int = 0
    """How many replies a script gave already."""


class TurnServices(msgspec.Struct, frozen=True, kw_only=True):
    """What the session does for a turn: standing files, memories, recall, tool servers."""

    untold: Callable[[], Sequence[str]]
    """What the model must hear with the next message of what changed under it."""
    make_ready: Callable[[], Awaitable[Sequence[AnyEvent]]]
    """Have there what the first model call of a turn needs; what a person should know."""
    system_prompt: Callable[[], SystemPrompt]
    """The standing part of the prompt, read anew."""
    bring: Callable[[str, int], AsyncIterator[MemoryDigested | RecallInjected]]
    """What the prompts of a turn end with, for its message and within so many tokens."""
    recalls: Callable[[], bool]
    """Whether recall looks before each turn, or only when asked."""
    heard: Callable[[Line, str], Sequence[Line]] = lambda _line, _text: ()
    """Look at a message before it is answered; the lines that were written for it."""
    panel: Callable[[], Sequence[str]] = tuple
    """Lines for the panel, beside the window."""
    alerts: Callable[[], Sequence[Alert]] = tuple
    """What is wrong now."""
    sampling: Callable[[], Sampling] = Sampling
    """What the program that asks wants of the next answer."""


def vacancy_beside(fold: Fold, tokens: int, count: Callable[[str], int]) -> Vacancy:
    """The place that a window leaves to recalled passages."""
    said = [line for line in fold.lines.values() if isinstance(line.entry, UserMessage)]
    return Vacancy(
        shown=fold.shown, recent=recent_texts(fold), said=said, tokens=tokens, count=count
    )


def recent_texts(fold: Fold) -> list[str]:
    """What was said last before the newest message, for questions that lean on it."""
    said = [
        line.entry.text
        for line in fold.lines.values()
        if isinstance(line.entry, UserMessage | AssistantMessage) and line.entry.text
    ]
    return said[-3:-1]


_SHRINK: Final = 3 / 4


_EFFORTS: Final[dict[str, Effort]] = {name: name for name in get_args(Effort)}


class Questions:
    """Questions to the person that wait for an answer, by call."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, asyncio.Future[Answer]]] = {}
        self.on_ask: Callable[[str, asyncio.Future[Answer]], object] = lambda call, answer: None
        """Told of each question that begins to wait."""

    @property
    def waiting(self) -> dict[str, str]:
        """The calls that a turn of ours waits with, and since when."""
        return {call: since for call, (since, given) in self._open.items() if not given.done()}

    def ask(self, call: str, since: str) -> asyncio.Future[Answer]:
        """A place for the answer; open it before the question is announced."""
        future = asyncio.get_running_loop().create_future()
        since, waiting = self._open.setdefault(call, (since, future))
        self.on_ask(call, waiting)
        return waiting

    def answer(self, call: str, answer: Answer) -> bool:
        """Hand an answer over; False when nobody waits for it."""
        if call not in self.waiting:
            return False
        self._open.pop(call)[1].set_result(answer)
        return True

    def hand_on(self, call: str) -> bool:
        """Leave a question to whoever opens the session next; False when nobody waits with it."""
        if call not in self.waiting:
            return False
        self._open.pop(call)[1].set_exception(
            HandedOn("The session was closed.", "The question waits: `mindstone waiting` lists it.")
        )
        return True

    def abandon(self) -> None:
        """Nobody will answer any more."""
        for _, waiting in self._open.values():
            waiting.cancel()
        self._open.clear()


class TurnContext(Answering, kw_only=True, dict=True, eq=False):
    """The collaborators of one session, as a turn and a command see them."""

    window: LiveWindow
    tools: dict[str, base.Tool]
    """What is on offer to the model now; whoever switches tools changes it."""
    tool_context: Callable[[str], base.ToolContext]
    permissions: Permissions
    files: FileKeeper
    hooks: Hooks
    redactor: Redactor
    report_bug: Callable[[BaseException], object]
    questions: Questions = msgspec.field(default_factory=Questions)
    read_through: int = -1
    """The newest line that a person could read when they began to write this command."""
    hand: tuple[str, float] = ("", 0.0)
    """What a person did last, a command or an answer, and for how long they had seen why."""
    stopped_by: str = ""
    """The key or the click with which a person stopped the turn that runs."""
    ask_through: Callable[[ToolAsked], Awaitable[Answer]] | None = None
    """Who puts a sub-agent's questions to a person; None where a turn puts its own."""
    tell: Callable[[AnyEvent], None] = lambda event: None
    """Announces what a tool wrote down while it ran."""
    reports: bool = True
    """Whether somebody wants every report as it changes, or only the numbers of a request."""
    leaves_failures: bool = False
    """Whether a turn whose model failed stays open: a program asks for it again by itself."""
    steering: list[UserMessage] = []
    following: list[UserMessage] = []
    """Further parts of a message that was split, each for the turn after the one before it."""
    added: list[int] = []
    """Lines of this turn whose text its next prompts end with, beside what was recalled."""
    _warned: set[str] = set()
    _served: dict[str, Window] = {}
    """Windows that servers named for models of which nothing else is known."""
    _learned: dict[str, int] = {}
    """Windows of models that called a prompt too long which we had thought would fit."""

    def __post_init__(self) -> None:
        self.transcript = self.window.transcript
        self.settings = self.window.settings
        self.offer = ToolOffer(self.tools)
        self._opened = datetime.now(UTC)
        self.services: TurnServices
        """Introduced by the session once everything is built that stands on this context."""

    def by_hand(self, since: str = "") -> dict[str, Any]:
        """How a person decides now about what was put then, as the entry of it says.

        Of a typed command nobody knows how long it was seen: it is the time since both were here,
        and nothing where nothing was put, or where it was typed into a shell (a time below 0).
        """
        how, seen = self.hand
        if since and not seen:
            put = max(self._opened, datetime.fromisoformat(since))
            seen = (datetime.now(UTC) - put).total_seconds()
        return {"how": how, "seen": round(max(seen, 0.0), 3)}

    @property
    def folder(self) -> str:
        """Where tools work."""
        return str(self.tool_context("").workspace.cwd)

    @property
    def info(self) -> ModelInfo:
        """What is known about the model that answers."""
        return self.provider.info(self.model)

    @property
    def target(self) -> Target:
        """Whom prompts are made for now; a turn makes it once, and anew when it learns better."""
        info = self.info
        known = self._known_window(info)
        tokens, label = (known.tokens, known.label) if known else (0, "assumed")
        if (learned := self._learned.get(self.model)) is not None:
            tokens, label = learned, "assumed"
        return Target(
            model=self.model,
            window=tokens,
            label=label,
            images=info.images,
            sounds=info.sounds,
            max_output=self.settings.models.max_output or info.max_output or 0,
            prices=PromptPrices(prompt=info.prompt_price, cached=info.cached_price),
        )

    def _known_window(self, info: ModelInfo) -> Window | None:
        return self.named_window or info.window or self._served.get(self.model)

    async def learn_window(self) -> None:
        """Ask the model's own server for its window, when nobody else knows it."""
        if self._known_window(self.info) is None:
            served = await self.provider.served_window(self.model)
            if served is not None:
                self._served[self.model] = served

    def shrink(self, prepared: plan.Prepared) -> None:
        """Plan for less from here on: the provider called this request too long.

        What we believe about its window or its tokens is wrong, so the prompt itself is the
        measure: the next one may have three quarters of its size.
        """
        prompt = int(prepared.tokens * _SHRINK)
        self._learned[self.model] = prompt + min(prepared.max_tokens, prompt // 3)

    def forget_window(self) -> None:
        """Go back to what is known about the model: planning for less did not help."""
        self._learned.pop(self.model, None)

    def whole(self, line: Line) -> Line:
        """The line as the window has it, with its text whole however long it is."""
        return self.window.fold.lines.get(line.seq, line)

    def report(self) -> ContextReport:
        """The one accounting, of the next prompt, with what its turn will record first."""
        head = (self.services.system_prompt().sections, self._schemas())
        return self.with_panel(build_report.report(self.window, self.target, head=head))

    def with_panel(self, report: ContextReport) -> ContextReport:
        """A report with what features want shown beside it."""
        beside, alerts = tuple(self.services.panel()), tuple(self.services.alerts())
        pause = self._pause(report)
        return msgspec.structs.replace(report, beside=beside, alerts=alerts, pause=pause)

    def _pause(self, report: ContextReport) -> CachePause | None:
        """What waiting too long would cost; None where going on costs as much, or nobody knows."""
        if (answered := self.window.watch.answered) is None:
            return None
        (ts, last), usage = answered, answered[1].usage
        rules = cache_rules.rules_of(last.model, hour=bool(usage.cache_hour))
        held = usage.prompt or 0 if usage.cached or usage.cache_written else 0
        kept = min(report.stable_prefix_tokens, held)
        prices = catalogue.PriceBook(self.settings.models).prices(last.model, kept)
        again = prices.cache_hour if usage.cache_hour else prices.cache_written
        again = again if usage.cache_written else prices.prompt
        if rules is None or last.model != self.model or again is None or prices.cached is None:
            return None
        ends = datetime.fromisoformat(ts).timestamp() - last.elapsed + rules.keeps
        cost = kept * (again - prices.cached)
        return CachePause(ends=ends, cost=cost) if cost >= _WORTH_SAYING else None

    def _schemas(self) -> list[ToolSchema]:
        """The tools as the model that answers is offered them; some take none.

        Over their share, those that are used least are named instead and come on demand.
        """
        if not self.info.tools:
            return []
        counter = self.window.ledger(self.model).counter
        # What is learned about a model's counting must not change its tools in mid-session.
        limit = int(self.share("tool_definitions", self.target) / UNCALIBRATED)
        return self.offer.schemas(self.window.fold, counter, limit, self.info.only_tools)

    def offer_tools(self) -> list[Line]:
        """Show what was asked for with `more_tools` from the next request on."""
        changed = self.window.set_tools(self._schemas())
        return [changed] if changed is not None else []

    def count(self, text: str) -> int:
        """How large a text is for the model that answers."""
        return self.window.ledger(self.model).counter.text(text)

    def share(self, component: measure.ComponentName, target: Target) -> int:
        """Tokens that one component may take of a prompt."""
        room = budget.room_for(
            target.window, target.label, self.settings.budget, self.settings.context.max_tokens
        )
        return budget.limit_of(component, room, self.settings.budget)

    async def load_standing_context(self, turn: int, target: Target) -> list[Line]:
        """Read the standing files and the tools; what changed is recorded, warnings said once."""
        standing = self.services.system_prompt()
        await breathe()
        window = self.window
        # A model for this surface's turns alone is not the session's choice.
        chosen = (
            None
            if self.overridden
            else window.set_model(target.model, window=target.window, label=target.label)
        )
        changes = [chosen, window.set_instructions(standing.sections)]
        await breathe()
        changes.append(window.set_tools(self._schemas()))
        for warning in standing.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                alert = AlertRaised(level="warning", metric="standing_context", message=warning)
                changes.append(window.record(alert, turn))
        return [line for line in changes if line is not None]

    async def make_room(self, target: Target) -> list[Line]:
        """Trim and prune before recall looks, so that it knows what is out of the window."""
        expected = self.share("memory_injection", target) if self.services.recalls() else 0
        return await plan.make_room(self.window, target, expected=expected)

    def options(self, prepared: plan.Prepared, target: Target) -> Options:
        """How the planned request is made."""
        models, asked = self.settings.models, prepared.sampling
        return Options(
            max_tokens=prepared.max_tokens,
            timeout=models.timeout,
            retries=models.retries,
            temperature=models.temperature if asked.temperature is None else asked.temperature,
            effort=(_EFFORTS.get(asked.effort) if self.info.thinks else None)
            or models.effort.get(self.model),
            sampling=asked,
            position=self.position,
            window=target.window,
            cache_marks=_cache_marks(prepared),
        )

    @property
    def side_output(self) -> int:
        """Tokens that a side call's answer may have."""
        target = self.target
        room = budget.room_for(target.window, target.label, self.settings.budget)
        return min(room.reserve, self.info.max_output or 1 << 30)

    def hear(self, fired: Fired) -> None:
        """Let what hooks added join the prompts of this turn."""
        self.added += fired.tail

    def take_steering(self) -> list[UserMessage]:
        """What the person added to the running turn, once."""
        waiting, self.steering = self.steering, []
        return waiting

    def take_following(self) -> list[UserMessage]:
        """What is to have its own turn next: one more part of a message, then what steered."""
        part, self.following = self.following[:1], self.following[1:]
        return [*part, *self.take_steering()]


async def breathe() -> None:
    """Let whoever types or listens go first: a key takes several steps of the loop."""
    for _ in range(8):
        await asyncio.sleep(0)


def _cache_marks(prepared: plan.Prepared) -> tuple[int, ...]:
    """Where a provider may be told to cache: behind the head, and behind all but the tail."""
    planned = prepared.plan.entry
    tail = 1 if isinstance(planned, PromptPlanned) and planned.tail else 0
    last = len(prepared.request.messages) - 1 - tail
    return (0, last) if last > 0 else (0,)
