"""Commands about what turns did to files: take it back, do it again, look at it."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.run_tools import ask_beside
from mindstone_tui.core.agent.undo import FileKeeper
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import JobStarted
from mindstone_tui.core.entries.marks import by_a_line, told
from mindstone_tui.core.entries.store import NOBODY_KNOWS, OWN_SHELL, CommandRun
from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.events import AskedScope, CommandPrinted, ToolAsked
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.events.narrate_entry import turn_names
from mindstone_tui.core.library.file_states import NOT_KEPT, FilesOfSession
from mindstone_tui.core.library.lineage import ancestors
from mindstone_tui.core.library.open_questions import check_was_there
from mindstone_tui.core.paths import from_home
from mindstone_tui.core.session.features import Feature, Happening, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import exact, fresh_nonce, one_line, plural
from mindstone_tui.core.tools.verdicts import judge
from mindstone_tui.core.transcript.reader import standings_of
from mindstone_tui.core.undo.changes import ChangeSet, PathChange, described, diff_of, summary
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.restore import Outlook
from mindstone_tui.core.undo.scan import Node
from mindstone_tui.core.undo.steps import Direction, FileSteps, wanted

Way = Literal["ask", "anyway", "rest"]
WAYS: Final = ("--anyway", "--rest")
_SHOWN: Final = 60
"""Lines of one diff."""
_MOST_SHOWN: Final = 20
"""Files whose three sides are shown."""
_LONGEST_DIFF: Final = 200_000
_FILES: Final = ("files_changed", "files_restored")


class UndoFeature(Feature):
    """What turns did to files, taken back and done again."""

    name = "undo"

    def untold(self) -> Sequence[str]:
        """Files that were put back, or stay as turns left them that the model no longer sees."""
        return (self.context.files.untold(),)

    async def close(self) -> None:
        """Let go of the kept files."""
        self.context.files.store.close()

    @command("undo", usage="[N] [--anyway | --rest]", changes_window=True, words=WAYS)
    async def undo(self, argument: str) -> AsyncIterator[Happening]:
        """Take back what the last turn that changed files did to them, or the last N such turns.

        Created, deleted, renamed and changed files come back byte for byte; the conversation stays
        as it is. If somebody else changed a file since, nothing is touched before you saw all three
        sides: `--anyway` overwrites such files, `--rest` leaves them and takes back the others.
        `/redo` does it again. What the project's .gitignore names and files over undo.file_bytes
        are not kept.
        """
        count, way = _counted(argument)
        turns, sets = wanted(await asyncio.to_thread(self.context.files.steps), "undo", count)
        if not turns:
            raise UndoError("No turn of this session changed a file that is not undone already.")
        check_nothing_since(self.context, _FILES, -1)
        if not argument:
            _check_own_shell(self.context, turns)
        async for event in put_back(self.session, "undo", turns, sets, way):
            yield event

    @command("redo", usage="[--anyway | --rest]", changes_window=True, words=WAYS)
    async def redo(self, argument: str) -> AsyncIterator[Happening]:
        """Do again to files what the last `/undo` took back.

        It can be done until a tool changes a file again.
        """
        count, way = _counted(argument)
        if count != 1:
            raise WrongUse("/redo takes no number; use it again for the undo before.")
        turns, sets = wanted(await asyncio.to_thread(self.context.files.steps), "redo", 1)
        if not turns:
            raise UndoError("There is nothing to do again.", "`/undo` comes first.")
        check_nothing_since(self.context, _FILES, -1)
        async for event in put_back(self.session, "redo", turns, sets, way):
            yield event

    @command("diff", usage="[turn N]")
    async def diff(self, argument: str) -> AsyncIterator[Happening]:
        """Show what a turn did to files; without a turn, the last that changed any."""
        number = re.fullmatch(r"(?:turn\s*)?(\d+)|", argument)
        if number is None:
            raise WrongUse(f"`{argument}` is not a turn.")
        turn, sets, store = await asyncio.to_thread(_changes_of, self.session, number[1])
        text = await asyncio.to_thread(_diff, store, sets)
        with self.context.transcript.history() as history:
            known = standings_of(history).undone
        marks = told(by_a_line("undone", known.of_turn(turn), known.left_in(turn)))
        undone = "".join(f" ({one})" for one in marks)
        heading = f"Turn {turn}{undone}: {summary([c for each in sets for c in each.changes])}."
        if unsure := sorted(exact(path) for each in sets for path in each.unsure):
            heading += f" {NOBODY_KNOWS.capitalize()}: {', '.join(unsure[:_MOST_SHOWN])}."
        clean = self.context.redactor.redact(f"{heading}\n{text}").text
        yield CommandPrinted(text=clean)

    @command("blame", usage="FILE")
    async def blame(self, argument: str) -> AsyncIterator[Happening]:
        """Show which turn made each line of a file, in any session.

        By the bytes that were kept around every call, never by a guess: `before` was there when a
        turn first touched the file, `unknown` was changed by hand or cannot be proven.
        """
        from mindstone_tui.core.library.blame import KeptFiles, runs  # 40 ms, and seldom asked for

        if not argument:
            raise WrongUse("Which file?")
        place = (self.session.cwd / from_home(Path(argument))).resolve()

        def told() -> str:
            kept = KeptFiles(self.session.home, place.parent, self.session.opening.environ)
            return "\n".join(
                f"{run[0].line:>6}-{run[-1].line:<6} {kept.words(run[0])}"
                for run in runs(kept.blame(place))
            )

        text = f"{place}\n{await asyncio.to_thread(told)}"
        yield CommandPrinted(text=self.context.redactor.redact(text).text)


def _stories(session: SessionServices) -> Iterator[tuple[FileSteps, ObjectStore, str]]:
    """What turns did to files here, then in what this session was forked from, as far as that is
    its past; of which session it is, for who names its lines."""
    yield session.context.files.steps(), session.context.files.store, ""
    for past in ancestors(session.home, session.places):
        kept = FilesOfSession(past.places, past.at)
        yield kept.story, kept.store, f" of {past.places.key}"


def _changes_of(
    session: SessionServices, named: str | None
) -> tuple[int, list[ChangeSet], ObjectStore]:
    """What a turn did to files, or the last that changed any; raises `UndoError`."""
    touched: set[int] = set()
    for story, store, _ in _stories(session):
        turns = {step.turn for step in story.steps if step.restored is None}
        turn = int(named) if named else max(turns, default=0)
        if sets := story.of_turns([turn]):
            return turn, sets, store
        touched |= turns
    known = f"These did: {turn_names(sorted(touched))}." if touched else "No turn did so far."
    what = f"Turn {named} changed no files that are kept. " if named else ""
    raise UndoError(f"{what}{known}")


def check_nothing_since(context: TurnContext, kinds: Sequence[str], turn: int) -> None:
    """Raise where lines of these kinds came after this turn and after a command was begun."""
    with context.transcript.history() as history:
        newest = next(iter(history.newest(kinds, history.head.seq + 1)), None)
    if newest is not None and newest.turn > turn:
        did = f"Turn {newest.turn} began"
        if newest.kind in _FILES:
            put_back = newest.kind == "files_restored"
            did = "Files were put back" if put_back else f"Turn {newest.turn} changed files"
        look = "`/diff` shows what turns did to files; the same command again goes on from there."
        check_was_there(newest.seq, context.read_through, did, look)


def _check_own_shell(context: TurnContext, turns: tuple[int, ...]) -> None:
    """Raise where a person's own command came last, which a plain `/undo` may be meant for."""
    with context.transcript.history() as history:
        kinds = ("command_run", "files_changed", "files_restored")
        newest = next(
            (
                line.entry
                for line in history.newest(kinds, history.head.seq + 1)
                if not isinstance(line.entry, CommandRun)
                or _may_change_files(line.entry.command, context)
            ),
            None,
        )
    if isinstance(newest, CommandRun):
        ran = one_line(newest.command.removeprefix(OWN_SHELL), 80)
        raise UndoError(
            f"You ran `!{ran}` since, which /undo cannot take back. Nothing was touched.",
            f"`/undo 1` takes back what {turn_names(turns)} did to files.",
        )


def _may_change_files(command: str, context: TurnContext) -> bool:
    """Whether it is a person's own shell command, and not known to only look."""
    ran = command.removeprefix(OWN_SHELL)
    workspace = context.tool_context("shell").workspace
    return ran != command and any(part.verdict != "reads" for part in judge(ran, workspace))


def _counted(argument: str) -> tuple[int, Way]:
    """How many turns, and what happens to files that somebody else changed."""
    count = 1
    way: Way = "ask"
    for word in argument.split():
        if word in WAYS:
            way = "anyway" if word == "--anyway" else "rest"
        elif word.isdecimal() and 0 < int(word) < 100_000:
            count = int(word)
        else:
            raise WrongUse(f"`{word}` is neither a number of turns nor an option.")
    return count, way


async def put_back(
    services: SessionServices,
    direction: Direction,
    turns: tuple[int, ...],
    sets: Sequence[ChangeSet],
    way: Way,
    again: str = "",
) -> AsyncIterator[Happening]:
    """Put files back, after a look at every one of them; all or nothing unless told otherwise.

    `again` is the command that does so, where it is neither `/undo` nor `/redo`.
    """
    go_on = _how_to_go_on(again or f"/{direction}")
    keeper, how = services.context.files, services.context.hand[0]
    agreed: list[Outlook] | None = None
    while True:
        looks = [await asyncio.to_thread(keeper.outlook, each) for each in sets]
        conflicts = [each for outlook in looks for each in outlook.conflicts]
        if way != "ask" or not conflicts:
            break
        if looks == agreed:
            way = "anyway"
            break
        # A question may stand for hours: what was agreed to is what is there afterwards as well.
        sides = _three_sides(keeper, direction, looks)
        sides = services.context.redactor.redact(sides).text
        if not services.context.permissions.asks:
            raise UndoError(f"{sides}\nNothing was touched.", go_on)
        question = _question(f"{direction}-{fresh_nonce()}", direction, sides, len(conflicts))
        if not (await ask_beside(services.context, question)).allowed:
            raise UndoError("Nothing was touched.", go_on)
        agreed = looks
    found = [(each, look, *_decided(look, way)) for each, look in zip(sets, looks, strict=True)]
    told: list[str] = []
    # Each line tells of all folders what was left: the newest is what counts of a turn.
    stayed = tuple(one for *_, left in found for one in left)
    for each, outlook, changes, left in found:
        if not changes and not left and each is not found[-1][0]:
            continue
        done = await asyncio.to_thread(
            keeper.put_back, direction, turns, each.root, changes, stayed, how
        )
        yield announcements(done.line)
        left = (*left, *done.left[len(stayed) :])
        stayed = done.left
        told.append(_told(direction, turns, done.changes, left, outlook))
    if not found:
        # Written down as well, or the same turns would be taken back for ever.
        await asyncio.to_thread(
            keeper.put_back, direction, turns, str(keeper.roots[0]), (), (), how
        )
        told.append(f"The files of {turn_names(turns)} are as they were before.")
    told += await asyncio.to_thread(_jobs_of, services, turns)
    yield CommandPrinted(
        command=direction,
        text=services.context.redactor.redact("\n".join(told)).text,
        data={"turns": list(turns), "files": sum(len(each.changes) for each in sets)},
    )


def _jobs_of(services: SessionServices, turns: Sequence[int]) -> list[str]:
    """Which jobs began since, whose work nobody could tell from a person's."""
    with services.context.transcript.history() as history:
        lines = list(history.newest(("job_started",), 1 << 40))
    return [
        f"Not part of it: what job {line.entry.job} (`{one_line(exact(line.entry.command), 60)}`) "
        f"changed in the background after it had begun in turn {line.turn}."
        for line in reversed(lines)
        if isinstance(line.entry, JobStarted) and line.turn >= min(turns)
    ]


def _decided(outlook: Outlook, way: Way) -> tuple[tuple[PathChange, ...], tuple[str, ...]]:
    """What is done, and what is left as it is."""
    overwritten = tuple(
        PathChange(each.wanted.path, each.now, each.wanted.after)
        for each in outlook.conflicts
        if way == "anyway"
    )
    left = [
        f"{exact(each.wanted.path)}: {NOBODY_KNOWS if each.unsure else 'changed by somebody else'}"
        for each in outlook.conflicts
        if way != "anyway"
    ]
    left += [f"{exact(each.path)}: its earlier content was not kept" for each in outlook.unkept]
    return (*outlook.ready, *overwritten), tuple(left)


def _told(
    direction: Direction,
    turns: tuple[int, ...],
    changes: tuple[PathChange, ...],
    left: tuple[str, ...],
    outlook: Outlook,
) -> str:
    did = "Taken back" if direction == "undo" else "Done again"
    lines = [f"{did}: {turn_names(turns)}, {summary(changes)}."]
    lines += [f"  {described(each)}" for each in changes[:_MOST_SHOWN]]
    if len(changes) > _MOST_SHOWN:
        lines.append(f"  … and {len(changes) - _MOST_SHOWN:,} more")
    if outlook.there:
        there = plural(len(outlook.there), "file was", "files were")
        lines.append(f"{there} like that already.")
    touched = {each.path for each in changes}
    for each in outlook.conflicts[:_MOST_SHOWN]:
        path, now = each.wanted.path, each.now
        if path in touched and now is not None and now.kind in ("file", "link"):
            how = f"`mindstone files sha256:{now.digest[:12]}` prints it"
            whose = "What was in" if each.unsure else "Somebody else's"
            lines.append(f"{whose} {exact(path)} is kept: {how}.")
    lines += [f"Left as it is: {each}" for each in left[:_MOST_SHOWN]]
    if len(left) > _MOST_SHOWN:
        lines.append(f"… and {len(left) - _MOST_SHOWN:,} more were left")
    return "\n".join(lines)


def _how_to_go_on(command: str) -> str:
    return (
        f"`{command} --anyway` overwrites these files (what is there now is kept), "
        f"`{command} --rest` leaves them and puts back the others."
    )


def _question(call: str, direction: Direction, sides: str, count: int) -> ToolAsked:
    return ToolAsked(
        turn=0,
        call=call,
        name=direction,
        risk="write",
        shown=f"overwrite {plural(count, 'file')} that somebody else changed, or may have changed",
        digest="",
        diff=sides,
        why="What is there now is kept, too.",
        scopes=(AskedScope(scope="once", label="Overwrite"),),
    )


def _three_sides(keeper: FileKeeper, direction: Direction, looks: Sequence[Outlook]) -> str:
    """Every file that is not as it was left: what would go first, then how it came to that.

    The others are named that would be put back with them.
    """
    conflicts = [each for outlook in looks for each in outlook.conflicts]
    others = [each for outlook in looks for each in outlook.ready]
    unsure = sum(each.unsure for each in conflicts)
    counted = ((len(conflicts) - unsure, "changed by somebody else since"), (unsure, NOBODY_KNOWS))
    lines = [f"{plural(count, 'file')} {how}:" for count, how in counted if count]
    if others:
        acts = [
            f"{'deletes' if one.after is None else 'puts back'} {exact(one.path)}" for one in others
        ]
        more = [f"and {len(acts) - _MOST_SHOWN:,} more"] if len(acts) > _MOST_SHOWN else []
        lines = [f"It also {', '.join([*acts[:_MOST_SHOWN], *more])}.", *lines]
    for each in conflicts[:_MOST_SHOWN]:
        path, left, back = each.wanted
        did = "turn" if direction == "undo" else "undo"
        names = (f"the {did} left", f"before the {did}")
        names = ("found afterwards", names[1]) if each.unsure else names
        now = [] if each.unsure else _lines(diff_of(PathChange(path, left, each.now), keeper.store))
        lines += [
            f"── {exact(path)}",
            f"   from “{names[0]}” to “now”, which would be overwritten:",
            *(now or ["   no difference"]),
            f"   from “{names[1]}” to “{names[0]}”:",
            *_lines(diff_of(PathChange(path, back, left), keeper.store)),
            f"   {names[1]}: {_side(back)}",
            f"   {names[0]}: {_side(left)}",
            f"   now: {_side(each.now)}",
        ]
    if len(conflicts) > _MOST_SHOWN:
        lines.append(f"… and {len(conflicts) - _MOST_SHOWN:,} more")
    return "\n".join(lines)


def _side(node: Node | None) -> str:
    if node is None:
        return "not there"
    if node.kind == "folder":
        return f"a folder, {node.mode:o}"
    if node.kind == "unkept":
        return "too large to be kept"
    return f"a {node.kind}, {node.mode:o}, {node.digest[:12]}"


def _lines(text: str) -> list[str]:
    found = text.splitlines()
    cut = [f"… {len(found) - _SHOWN:,} more lines"] if len(found) > _SHOWN else []
    return [f"   {line}" for line in (*found[:_SHOWN], *cut)]


def _diff(store: ObjectStore, sets: Sequence[ChangeSet]) -> str:
    pieces: list[str] = []
    size = 0
    every = [change for each in sets for change in each.changes]
    for number, change in enumerate(every):
        piece = diff_of(change, store)
        size += len(piece)
        if size > _LONGEST_DIFF:
            rest = len(every) - number
            pieces.append(f"… {plural(rest, 'file')} more; `mindstone files` names them all\n")
            break
        pieces.append(piece)
    return "".join(pieces).rstrip("\n")


def why_file(services: SessionServices, argument: str) -> CommandPrinted | None:
    """Which turn and call made a file what it is; None when no turn has to do with that path."""
    keeper = services.context.files
    root, path = _meant(keeper, argument)
    stories = ((found, each) for each in _stories(services) if (found := each[0].why(root, path)))
    if (meant := next(stories, None)) is None:
        return None
    (step, change), (steps, _, of) = meant
    root, path = step.root, change.path
    here = Path(root) in keeper.roots
    name = exact(path if here else f"{root}/{path}")
    same = here and keeper.now(root, path) == change.after
    since = "" if same or not here else " Somebody else changed it since."
    if step.lost and not same:
        since = f" The transcript alone says so: {NOT_KEPT}."
    did = described(change).rpartition(": ")[2]
    origin = steps.made(root, path, change.after) if step.restored else step
    first = f"{did} by {step.by} in turn {step.turn} (line {step.seq}{of})"
    if step.unsure:
        first = (
            f"{did} by a call that was cut short ({step.by}, turn {step.turn}, line {step.seq}{of})"
        )
        first += " or since, nobody knows"
    if step.restored:
        left = f"{origin.by} in turn {origin.turn} left it" if origin else "it was before"
        left = f"it was found: {NOBODY_KNOWS}" if origin and origin.unsure else left
        first = f"put back by {step.by} (line {step.seq}{of}), as {left}"
    asked = _asked_in(services, origin.turn) if origin and not origin.unsure else ""
    because = f" You asked: {asked}." if asked else ""
    shows = f"\n`/diff turn {origin.turn}` shows it." if origin else ""
    return CommandPrinted(
        text=services.context.redactor.redact(f"{name}: {first}.{since}{because}{shows}").text,
        data={"path": path, "turn": step.turn, "seq": step.seq, "by": step.by},
    )


def _asked_in(services: SessionServices, turn: int) -> str:
    """What the person asked for in a turn, in one line, and how that stands."""
    for line in services.context.window.history.turn(turn):
        if isinstance(line.entry, UserMessage):
            marks = standings_of(services.context.window.history).told(line)
            said = f"“{one_line(line.entry.text, 160)}”"
            return f"{said} ({'; '.join(marks)})" if marks else said
    return ""


def _meant(keeper: FileKeeper, argument: str) -> tuple[str, str]:
    """The root and the path below it that a person means."""
    given = argument.strip()
    for root in keeper.roots:
        if given.startswith(f"{root}/"):
            return str(root), given[len(str(root)) + 1 :]
    return str(keeper.roots[0]), given.removeprefix("./")


def rewind_files(steps: FileSteps, turn: int) -> tuple[tuple[int, ...], list[ChangeSet]]:
    """All that turns after this one did to files and that is still in force."""
    later = [each for each in steps.applied if each > turn]
    return wanted(steps, "undo", len(later)) if later else ((), [])
