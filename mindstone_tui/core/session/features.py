"""What a session can do beside talking: its features, in order, and what each may take part in.

A feature is a class; the session makes one of it, asks it for its tools, commands and sections, and
tells it when a turn begins and ends. The session knows none by name: `SHIPPED` is the table of
contents of the product, and whoever installs a plug-in adds to it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec

from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.context.cascade import Apply, StepName
from mindstone_tui.core.entries import Line, derived
from mindstone_tui.core.entries.window import Alert
from mindstone_tui.core.errors import EntryNotSaved, MindstoneError, UnknownName, UsageError
from mindstone_tui.core.events import AnyEvent, Noticed
from mindstone_tui.core.plugins import FEATURES, LeftOut, load, loaded
from mindstone_tui.core.tools.base import Tool

if TYPE_CHECKING:
    from mindstone_tui.core.session.services import SessionServices

SHIPPED: Final = (
    *("app:AppFeature", "jobs:JobsFeature", "undo:UndoFeature", "working_set:WindowFeature"),
    *("standing_files:StandingFeature", "toolbox:ToolboxFeature", "hook_files:HooksFeature"),
    *("prompt_files:PromptFilesFeature", "tasks:TasksFeature", "plans:PlansFeature"),
    *("rules:RulesFeature", "memory:MemoryFeature", "recall:RecallFeature"),
    *("handoffs:HandoffsFeature", "health:HealthFeature", "review:ReviewFeature"),
    *("delegation:DelegationFeature", "sessions:SessionsFeature"),
)
"""Every feature of this program, as `module:Class` of `core/features/`.

The order is that of sections in the prompt, of what a prompt ends with, of chores after a turn and
of commands in lists.
"""


class Say(msgspec.Struct, frozen=True):
    """What a command gives instead of an event to have a message sent in the person's name."""

    text: str


class EndedTurn(msgspec.Struct, frozen=True):
    """A turn that is over, as its lines tell it."""

    number: int
    lines: Sequence[Line]
    question: str
    answer: str


Happening = AnyEvent | Sequence[AnyEvent] | Say
"""What a command gives: an event, all that tell of one thing, or a message to send."""
Handler = Callable[[Any, str], AsyncIterator[Happening]]
"""A method of a feature: what was typed behind the command's name in, events out."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command as everybody sees it."""

    name: str
    help: str
    handler: Handler
    usage: str = ""
    details: str = ""
    changes_window: bool = False
    """Waits until no turn is running, because the running one plans with the window."""
    words: tuple[str, ...] = ()
    """Completions for its argument."""
    looks: tuple[str, ...] = ()
    """First words with which it only looks, and waits for nothing."""

    @property
    def synopsis(self) -> str:
        """`/name usage`."""
        return f"/{self.name} {self.usage}".rstrip()


def command(
    name: str,
    *,
    usage: str = "",
    changes_window: bool = False,
    words: tuple[str, ...] = (),
    looks: tuple[str, ...] = (),
) -> Callable[[Handler], Handler]:
    """Make a method of a feature a slash command; the first line of its docstring is its help."""

    def declare(handler: Handler) -> Handler:
        if not handler.__doc__:
            raise ValueError(f"/{name} needs a docstring")
        summary, _, details = inspect.cleandoc(handler.__doc__).partition("\n")
        handler.declared = Command(  # type: ignore[attr-defined]
            name=name,
            help=summary,
            handler=handler,
            usage=usage,
            details=details.strip(),
            changes_window=changes_window,
            words=words,
            looks=looks,
        )
        return handler

    return declare


class WrongUse(UsageError):
    """A command was used in a way it does not know; its usage is told with it."""

    def __init__(self, why: str) -> None:
        super().__init__(why, "")


class Feature:
    """Something a session can do beside talking; a subclass overrides what it takes part in."""

    name: ClassVar[str]
    """How people are told about it, also when it fails."""
    for_programs: ClassVar[bool] = False
    """Its sections also stand in prompts of a program that brings its own instructions."""
    declared: ClassVar[tuple[Command, ...]] = ()

    def __init__(self, session: SessionServices) -> None:
        self.session = session
        self.context = session.context

    def __init_subclass__(cls) -> None:
        methods = [getattr(each, "declared", None) for each in vars(cls).values()]
        cls.declared = (*cls.declared, *(each for each in methods if isinstance(each, Command)))

    def tools(self) -> Sequence[Tool]:
        """What the model may call."""
        return ()

    def commands(self) -> Sequence[Command]:
        """What a person may type: the methods with `@command`, unless others come and go."""
        return self.declared

    def refused_command(self, name: str) -> MindstoneError | None:
        """Why a command that would be this feature's cannot be used now; None when it is none."""
        return None

    def standing(self) -> SystemPrompt:
        """Sections for the head of every prompt, and what a person should know about them."""
        return SystemPrompt(())

    def panel(self) -> Sequence[str]:
        """Lines for the panel beside the chat."""
        return ()

    def alerts(self) -> Sequence[Alert]:
        """What is wrong now, for the same panel."""
        return ()

    def left_open(self) -> Sequence[str]:
        """What a person who comes back to this session should be told."""
        return ()

    def room_steps(self) -> Mapping[StepName, Apply]:
        """Steps of making room that this feature carries out."""
        return {}

    async def before_turn(self) -> Sequence[str]:
        """Get ready for a turn; what a person should know, each thing told once."""
        return ()

    def untold(self) -> Sequence[str]:
        """What the model must hear with the next message of what changed under it.

        Nobody may wait for it: until it is told, the turn has not begun.
        """
        return ()

    def heard(self, line: Line, text: str) -> Sequence[Line]:
        """Look at a person's message before it is answered; the lines that were written for it."""
        return ()

    async def bring(
        self, text: str, share: int, taken: int
    ) -> derived.MemoryDigested | derived.RecallInjected | None:
        """What the prompts of this turn end with, in `share` tokens of which some are taken."""
        return None

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Do what is due after a turn; what is to be announced."""
        return ()

    def forget(self) -> None:
        """Another surface wrote: what is known from history is read anew when it is needed."""

    async def close(self) -> None:
        """Give back what is held."""


F = TypeVar("F", bound=Feature)
T = TypeVar("T")


def feature_class(found: object) -> type[Feature] | None:
    """What a door of features lets in: a feature with a name that people can be told."""
    if isinstance(found, type) and issubclass(found, Feature) and hasattr(found, "name"):
        return found
    return None


def load_features() -> tuple[list[type[Feature]], tuple[LeftOut, ...]]:
    """The classes of what ships and of what is installed, and what had to be left out."""
    found = [feature_class(loaded(f"mindstone_tui.core.features.{each}")) for each in SHIPPED]
    kinds = [each for each in found if each is not None]
    more = load(FEATURES, feature_class, [each.name for each in kinds])
    return [*kinds, *more.usable.values()], more.left_out


def known_commands() -> dict[str, Command]:
    """Every command that does not depend on a session, by name; what ships wins."""
    known: dict[str, Command] = {}
    for each in load_features()[0]:
        for one in each.declared:
            known.setdefault(one.name, one)
    return known


class Features(msgspec.Struct, dict=True, eq=False):
    """The features of one session; one that fails is told of once, and the others go on."""

    _session: SessionServices
    _kinds: Sequence[type[Feature]]
    _notices: list[Noticed]
    """What is still to be told."""
    _told: set[str] = set()
    _by_kind: dict[type[Feature], Feature] = {}

    def __iter__(self) -> Iterator[Feature]:
        for kind in self._kinds:
            try:
                yield self.get(kind)
            except Exception as error:  # somebody else's code must not end a session
                self._fail(kind, error)

    def get(self, kind: type[F]) -> F:
        """The one of a kind; a feature may use those it knows."""
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = kind(self._session)
        assert isinstance(found, kind)
        return found

    def collect(self, ask: Callable[[Feature], Iterable[T]]) -> list[T]:
        """What all of them say to a question, in order; nothing from one that fails."""
        found: list[T] = []
        for feature in self:
            try:
                found += ask(feature)
            except EntryNotSaved:
                raise
            except Exception as error:  # a feature of somebody else's must not end a turn
                self._fail(feature, error)
        return found

    async def gather(self, ask: Callable[[Feature], Awaitable[Iterable[T]]]) -> AsyncIterator[T]:
        """The same where each takes its time, one after the other."""
        for feature in self:
            try:
                for one in await ask(feature):
                    yield one
            except EntryNotSaved:
                raise
            except Exception as error:  # as above
                self._fail(feature, error)

    def _fail(self, feature: Feature | type[Feature], error: Exception) -> None:
        """Say once what went wrong with a feature; what is no error of ours goes to the log."""
        if isinstance(error, MindstoneError):
            why = error.sentence
        else:
            self._session.context.report_bug(error)
            why = f"{type(error).__name__}: {error}"
        if (told := f"{feature.name} does not work here: {why}") not in self._told:
            self._told.add(told)
            self._notices.append(Noticed(message=told, level="warning"))

    def failures(self) -> list[Noticed]:
        """What is to be told of features that failed since this was asked last."""
        told, self._notices = self._notices, []
        return told

    def forget(self) -> None:
        """Have all of them read anew what they know from history."""

        def forget(feature: Feature) -> tuple[()]:
            feature.forget()
            return ()

        self.collect(forget)

    @cached_property
    def _declared(self) -> dict[str, tuple[Feature, Command]]:
        known: dict[str, tuple[Feature, Command]] = {}
        for each in self:
            for one in each.declared:
                known.setdefault(one.name, (each, one))
        return known

    def commands(self) -> dict[str, tuple[Feature, Command]]:
        """Every command that can be typed now, and whose it is."""
        found = dict(self._declared)
        for feature in self:
            for one in feature.commands():
                found.setdefault(one.name, (feature, one))
        return found

    def command(self, line: str) -> tuple[Feature, Command, str]:
        """Whose command a line is, and its argument; raises and suggests the nearest."""
        name, _, argument = line.strip().removeprefix("/").partition(" ")
        wanted = name.lower()
        known = self._declared.get(wanted)
        if known is None:
            every = self.commands()
            # The folders before a file's name may be left out where only one has it.
            meant = [one for full, one in every.items() if full.rpartition(":")[2] == wanted]
            known = every.get(wanted) or (meant[0] if len(meant) == 1 else None)
        if known is None:
            raise next(filter(None, (each.refused_command(name) for each in self)), None) or (
                unknown(name, self.commands())
            )
        return *known, argument.strip()


_ELSEWHERE: Final = {
    "approve": "permissions approvals allowed-tools yolo",
    "compact": "compress summarize summary",
    "cost": "usage stats tokens",
    "fork": "branch",
    "help": "keys keybindings shortcuts commands",
    "key": "login auth apikey",
    "new": "clear reset",
    "quit": "exit bye q",
    "recall": "search find",
    "sessions": "resume switch continue history load",
    "title": "name rename",
}
"""Our commands, and what the same is called in other programs."""


def unknown(name: str, known: Sequence[str] | Mapping[str, object]) -> UnknownName:
    """That there is no such command, and which one may be meant."""
    wanted = name.lower()
    near = next((ours for ours, theirs in _ELSEWHERE.items() if wanted in theirs.split()), None)
    if near not in known:
        near = next(iter(difflib.get_close_matches(wanted, known, n=1, cutoff=0.65)), None)
    hint = f"Did you mean /{near}?" if near else "/help lists every command."
    return UnknownName(f"There is no command /{name}.", hint)
