"""Commands that look at the working set and steer it. Each change is an entry, and undoable."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, get_args

import msgspec

from mindstone_tui.core import entries, errors, transcript
from mindstone_tui.core.config.settings import Mode, Policy
from mindstone_tui.core.context import build_report, manual, measure
from mindstone_tui.core.entries.conversation import SessionOpened
from mindstone_tui.core.events import AnyEvent, CommandPrinted, ScreenAsked, from_entry, report_text
from mindstone_tui.core.events.narrate import describe
from mindstone_tui.core.events.narrate_entry import turn_names
from mindstone_tui.core.features import undo
from mindstone_tui.core.features.recall import RecallFeature, why_recalled
from mindstone_tui.core.session.features import Feature, Happening, WrongUse, command
from mindstone_tui.core.session.questions import decisions_of
from mindstone_tui.core.session.services import CHOICES, SessionServices
from mindstone_tui.core.text import exact, one_line
from mindstone_tui.core.transcript.reader import unheard

MODES: tuple[str, ...] = get_args(Mode)
POLICIES: tuple[str, ...] = get_args(Policy)


BROKE_OFF: Final = "[Your answer before this message broke off: no more of it was said.]"


class WindowFeature(Feature):
    """The working set: looked at, and steered by hand."""

    name = "the window"

    def untold(self) -> Sequence[str]:
        """An answer that broke off reads as one that ended, to the model that goes on after it."""
        shown = self.context.window.fold.lines
        with self.context.transcript.history() as history:
            lines = unheard(history, ("assistant_partial",))
            broken = any(line.kind == "assistant_partial" and line.seq in shown for line in lines)
        return (BROKE_OFF,) * broken

    @command("context", usage="[list|detail]", words=("list", "detail"))
    async def show_context(self, argument: str) -> AsyncIterator[Happening]:
        """Show what the model sees next, and what takes the room.

        In the app this opens the inspector; `list` and `detail` print.
        """
        if argument not in ("", "list", "detail"):
            raise WrongUse(f"/context does not know `{argument}`.")
        report = self.context.report()
        listed = report_text.context_list(report)
        if not argument:
            yield ScreenAsked(screen="context", otherwise=listed)
            return
        text = report_text.context_detail(report) if argument == "detail" else listed
        yield CommandPrinted(text=text)

    @command("prune", usage="[N | N% | ID… | results]", changes_window=True, words=("results",))
    async def prune(self, argument: str) -> AsyncIterator[Happening]:
        """Let exchanges leave the window: N of them, down to N %, or the ones named.

        Each is indexed and read back first; `/restore` brings it back. `results` lets only older
        tool results become placeholders; the newest few and what nobody answered yet stay.
        """
        window = self.context.window
        fired = await self.context.hooks.before_compact("manual")
        for notice in fired.notices:
            yield notice
        if fired.blocked is not None:
            raise errors.NotAllowed(f"A hook stopped this: {fired.blocked}", "`/hooks` lists them.")
        nothing = "Nothing left: everything in the window is protected."
        if argument == "results":
            lines, nothing = await manual.trim(window), "No older tool result is left to trim."
        elif percent := re.fullmatch(r"(\d{1,3})\s*%", argument):
            lines = (await manual.prune(window, to_percent=float(percent[1]))).lines
        elif argument.isdecimal() or not argument:
            lines = (await manual.prune(window, count=int(argument or 1))).lines
        else:
            lines = (await manual.prune(window, turns=_turns(self.session, argument))).lines
        yield _tell(lines, nothing)

    @command("pin", usage="[ID | turn N]", changes_window=True)
    async def pin(self, argument: str) -> AsyncIterator[Happening]:
        """Keep an exchange in the window until it is unpinned; without an argument, the newest."""
        turn = self.session.refer(argument).turn if argument else self.context.transcript.last_turn
        lines = manual.pin(self.context.window, turn)
        yield _tell(lines, f"Turn {turn} is pinned already.")

    @command("unpin", usage="ID | turn N", changes_window=True)
    async def unpin(self, argument: str) -> AsyncIterator[Happening]:
        """Let a pinned exchange leave again."""
        if not argument:
            raise WrongUse("Which one? `/context` lists the pins.")
        turn = self.session.refer(argument).turn
        yield _tell([manual.unpin(self.context.window, turn)], "")

    @command("restore", usage="ID… | turn N…", changes_window=True)
    async def restore(self, argument: str) -> AsyncIterator[Happening]:
        """Bring exchanges back to their old place in the window."""
        if not argument:
            raise WrongUse("Which ones? The panel and `/why` name what left.")
        lines = manual.restore(self.context.window, _turns(self.session, argument))
        self.session.read_anew()
        await self.session.features.get(RecallFeature).judge()
        yield _tell(lines, "They are in the window already.")

    @command(
        "rewind",
        usage="[before] turn N | ID [--files]",
        changes_window=True,
        words=("before", "--files"),
    )
    async def rewind(self, argument: str) -> AsyncIterator[Happening]:
        """Go on from an earlier turn; what came later stays in history, out of the window.

        With `before`, from what stood before that turn. `--files` also takes back what later turns
        did to files, as `/undo` would, before anything else; `--anyway` and `--rest` mean the same
        as there.
        """
        words = argument.split()
        options = [word for word in words if word.startswith("--")]
        pointer = " ".join(word for word in words if word not in options)
        before = pointer.startswith("before ")
        pointer = pointer.removeprefix("before ")
        if not pointer or set(options) - {"--files", *undo.WAYS}:
            raise WrongUse("To which turn?")
        turn = self.session.refer(pointer).turn
        turn = manual.turn_before(self.context.window, turn) if before else turn
        manual.check_rewind(self.context.window, turn)
        kinds = ("user_message", *(("files_changed",) if "--files" in options else ()))
        undo.check_nothing_since(self.context, kinds, turn)
        turns, sets = undo.rewind_files(await asyncio.to_thread(self.context.files.steps), turn)
        if "--files" in options and turns:
            way: undo.Way = (
                "anyway" if "--anyway" in options else "rest" if "--rest" in options else "ask"
            )
            again = f"/rewind {'before ' * before}{pointer} --files"
            async for event in undo.put_back(self.session, "undo", turns, sets, way, again):
                yield event
        rewound = await manual.rewind(self.context.window, turn, **self.context.by_hand())
        self.session.read_anew()
        await self.session.features.get(RecallFeature).judge()
        yield _tell([rewound], "")
        if sets and "--files" not in options:
            changes = [change for each in sets for change in each.changes]
            names = ", ".join(exact(path) for path in dict.fromkeys(one.path for one in changes))
            text = (
                f"Files stay as {turn_names(turns)} left them: {one_line(names, 400)}. "
                f"`/rewind turn {turn} --files` puts them back."
            )
            yield CommandPrinted(text=text)

    @command("why", usage="ID | turn N | PATH | recall", words=("recall",))
    async def why(self, argument: str) -> AsyncIterator[Happening]:
        """Say why an entry is in the window or out of it, or which turn and call made a file so.

        What is no entry, turn or id is a path in the workspace. `recall` tells what was brought
        back for the newest message, or why nothing was.
        """
        if not argument:
            raise WrongUse("About which entry or file?")
        if argument == "recall":
            yield await asyncio.to_thread(why_recalled, self.session)
            return
        try:
            line = self.session.refer(argument)
        except errors.NoSuchEntry as error:
            told = await asyncio.to_thread(undo.why_file, self.session, argument)
            if told is None:
                opened = self.session.history.header.entry
                point = opened.forked_from if isinstance(opened, SessionOpened) else None
                own = f" after this fork of {point.session}" if point else ""
                what = f"{error.what.rstrip('.')}, and no turn{own} changed a file of that name."
                raise errors.NoSuchEntry(what, error.remedy) from None
            yield told
            return
        reason = manual.why(self.context.window, line.seq)
        parts = "".join(f"\n  {name:14} {value:+.3f}" for name, value in reason.parts.items())
        score = (
            "" if not reason.parts else f"\nKeep score {reason.score:.2f}, the lowest leaves first:"
        )
        gone = reason.turn and not reason.in_window
        back = f"\n/restore turn {reason.turn} brings it back." if gone else ""
        with self.context.transcript.history() as history:
            known = [one.words for one in transcript.standings_of(history).of(line)]
        standing = f"\nStanding: {'; '.join(known)}.".replace(".”.", ".”") if known else ""
        decided = decisions_of(self.context.transcript, reason.turn)
        head = f"\nDecisions in turn {reason.turn}:" if decided else ""
        decisions = head + "".join(f"\n  {each}" for each in decided)
        said = f"Turn {reason.turn}, line {reason.seq}: {reason.why}{standing}{score}{parts}{back}"
        yield CommandPrinted(
            text=f"{said}{decisions}",
            data={**msgspec.to_builtins(reason), "standing": known, "decisions": decided},
        )

    @command("policy", usage="[NAME]", changes_window=True, words=POLICIES)
    async def policy(self, argument: str) -> AsyncIterator[Happening]:
        """List or set the order in which exchanges and tool results leave."""
        window = self.context.window
        yield _chosen("policy", argument, window.policy, window.set_policy)

    @command("mode", usage="[NAME]", changes_window=True, words=MODES)
    async def mode(self, argument: str) -> AsyncIterator[Happening]:
        """List or set how room is made: sliding_window, auto_compact or cascade."""
        window = self.context.window
        yield _chosen("mode", argument, window.mode, window.set_mode)

    @command("budget", usage="[TOKENS [SHARE]] [--json]", words=measure.COMPONENTS)
    async def budget(self, argument: str) -> AsyncIterator[Happening]:
        """Show the six shares of the window, how full each is and how fast it fills.

        With a number it says whether so many tokens more would fit, into the message history or the
        share that is named. `--json` prints it as data.
        """
        words = argument.split()
        if asked := " ".join(word for word in words if word != "--json"):
            told = _admission(self.session, asked)
        else:
            report = self.context.report()
            told = CommandPrinted(
                text=report_text.budget_text(report),
                data=report_text.budget_data(report),
            )
        if "--json" in words:
            data = msgspec.json.format(msgspec.json.encode(told.data), indent=0).decode()
            told = msgspec.structs.replace(told, text=data)
        yield told


def _chosen(
    name: str, argument: str, now: str, choose: Callable[[str], entries.Line | None]
) -> list[AnyEvent]:
    """Set what was named; else every choice with its consequence, a star at the one in force."""
    known = CHOICES[name]
    if argument and argument not in known:
        raise WrongUse(f"There is no {name} {argument}; known: {', '.join(known)}.")
    if argument:
        changed = choose(argument)
        return _tell([changed] if changed else [], "That is set already.")
    rows = [f"{'*' if each == now else ' '} {each:15} {known[each]}" for each in known]
    text = "\n".join([*rows, f"* is in force; `/{name} NAME` changes it from here on."])
    return [CommandPrinted(text=text, data={"now": now, "choices": known})]


def _admission(services: SessionServices, argument: str) -> CommandPrinted:
    """Whether something of a size may be added to the next prompt."""
    number, _, named = argument.partition(" ")
    share = next(
        (name for name in measure.COMPONENTS if name == (named.strip() or "message_history")), None
    )
    if not number.isdecimal() or share is None:
        raise WrongUse(f"Write a number of tokens, and one of {', '.join(measure.COMPONENTS)}.")
    context = services.context
    found = build_report.check_before_add(context.window, share, int(number), context.target)
    verdict = "would fit" if found.allowed else "would not fit"
    said = [
        f"{int(number):,} tokens more {verdict}: the prompt would be at "
        f"{found.utilization_after:.1%} of its room.",
        found.reason,
        found.warning,
    ]
    return CommandPrinted(text=" ".join(filter(None, said)), data=msgspec.to_builtins(found))


def _turns(services: SessionServices, argument: str) -> list[int]:
    """The turns that are meant: behind `turn` or `turns` every number is one."""
    found: list[int] = []
    for numbers, pointer in re.findall(r"turns?((?:[\s,]+\d+\b)+)|(\S+)", argument):
        named = [f"turn {number}" for number in re.findall(r"\d+", numbers)] or [pointer]
        found += [services.refer(each).turn for each in named]
    return found


def _tell(lines: Sequence[entries.Line], nothing: str) -> list[AnyEvent]:
    """What a change led to, as events and as a sentence."""
    told = from_entry.announcements(*lines)
    text = "\n".join(f"{line.text}. {line.detail}".strip() for line in map(describe, told))
    return [*told, CommandPrinted(text=text or nothing, repeats=bool(text))]
