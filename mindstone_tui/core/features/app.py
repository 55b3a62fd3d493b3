"""Commands that only a surface can carry out, and the help for all of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, transcript
from mindstone_tui.core.events import Answer, AnyEvent, CommandPrinted, ScreenAsked
from mindstone_tui.core.library.open_questions import LATELY, WaitingRoom, in_short, mark_in
from mindstone_tui.core.session.features import Feature, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import as_exact, one_line

FORMATS: Final = ("html", "md", "json", "cast")


class AppFeature(Feature):
    """What a person asks of the surface that they sit at."""

    name = "the app"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self._room = WaitingRoom(session.home)

    @command("help", usage="[COMMAND]", words=())
    async def show_help(self, argument: str) -> AsyncIterator[AnyEvent]:
        """List every command, or explain one."""
        known = {name: one for name, (_, one) in self.session.features.commands().items()}
        if argument:
            _, found, _ = self.session.features.command(argument)
            text = "\n\n".join(part for part in (found.synopsis, found.help, found.details) if part)
            yield CommandPrinted(text=text)
        else:
            text = "\n".join(f"{each.synopsis:44} {each.help}" for each in known.values())
            yield ScreenAsked(screen="help", otherwise=text)

    @command("answer", usage="[yes | no [WHY]]", words=("yes", "no"))
    async def answer(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show what another program's turn in this session waits to be told, or answer it.

        `no` declines, from anywhere; the model is told why. `yes` allows it once, and counts only
        where questions are shown: in the app, the line chat, the page or an editor. There the one
        that is meant is named by its mark, as it is listed.
        """
        shown, given_word = mark_in(argument)
        word, _, rest = given_word.partition(" ")
        mark, why = mark_in(rest) if word else (shown, "")
        if word not in ("", "yes", "no") or (shown and word):
            raise WrongUse(f"`{argument}` is no answer.")
        if word == "yes" and not self.context.permissions.asks:
            raise errors.UsageError(
                "A yes is for somebody who saw the question.",
                "Answer it in the app, the line chat or on the page; /answer no declines it here.",
            )
        # Where questions are shown, the next one may be there before the word for the last is.
        in_doubt = bool(word) and not mark and self.context.permissions.asks
        decides = bool(word) and not in_doubt
        given = Answer(allowed=word == "yes", why=why) if decides else None
        now, here = datetime.now(UTC), str(self.session.key)
        told = [
            f"{'Allowed once' if word == 'yes' else 'Declined'}: {one_line(each.what, 200)}"
            if decides
            else f"{each.sentence(now)}\n{as_exact(each.what)}\n{each.how(here)}"
            for each in self.session.answer(given, mark)
        ]
        if told and in_doubt:
            told.insert(0, "Nothing is decided: name the question that is meant.")
        text = "\n".join(told) or "Nothing waits for an answer."
        yield CommandPrinted(text=text, ok=not (told and in_doubt))

    def left_open(self) -> Sequence[str]:
        """How much waits for a decision, in any session."""
        told = in_short(self._room.look(LATELY), datetime.now(UTC))
        return (told,) if told else ()

    @command("waiting")
    async def waiting(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show what waits for a decision, in every session, and how to decide it."""
        found = await asyncio.to_thread(self._room.look)
        now, here = datetime.now(UTC), str(self.session.key)
        told = [
            f"{each.number}  {each.sentence(now)}\n   {each.session}, turn {each.turn}\n"
            f"   {each.how(here)}"
            for each in found
        ]
        yield CommandPrinted(
            text="\n".join(told) or "Nothing waits for a decision.",
            data={"waiting": msgspec.to_builtins(found)},
        )

    @command("theme", usage="[NAME]")
    async def theme(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Choose how the app looks."""
        yield ScreenAsked(
            screen="theme", argument=argument, otherwise="Themes can be chosen in the app only."
        )

    @command("copy", usage="[N]")
    async def copy(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Copy the newest answer, or the one before it, to the clipboard."""
        yield ScreenAsked(
            screen="copy", argument=argument, otherwise="Copying works in the app only."
        )

    @command("editor")
    async def editor(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Write the next message in your own editor."""
        yield ScreenAsked(screen="editor", otherwise="The editor opens from the app only.")

    @command("quit")
    async def leave(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Leave; everything is saved already."""
        yield ScreenAsked(screen="quit", otherwise="Everything is saved.")

    @command("sample")
    async def sample(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Open the sample session: nine days of work to search, replay and ask about."""
        yield ScreenAsked(screen="sample", otherwise="Import it with `mindstone import --sample`.")

    @command("key", usage="[PROVIDER]")
    async def key(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Store an API key and try it at once; it is entered unseen, never on this line."""
        otherwise = "Store it with `mindstone models key PROVIDER`."
        yield ScreenAsked(screen="key", argument=argument, otherwise=otherwise)

    @command("fetch")
    async def fetch(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Download a small language model that runs on this machine."""
        yield ScreenAsked(screen="fetch", otherwise="Use `mindstone models list`.")

    @command("replay", usage="[turn N]")
    async def replay(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Play this session again, and see what the model saw at each moment."""
        turn = argument.removeprefix("turn").strip()
        if turn and not turn.isdecimal():
            raise WrongUse(f"`{argument}` is not a turn.")
        watch = f"Watch it with `mindstone replay {self.session.key}`"
        prove = "prove every request with `--all --check`."
        yield ScreenAsked(screen="replay", argument=turn, otherwise=f"{watch}; {prove}")

    @command("export", usage="[html|md|json|cast] [FILE]", words=FORMATS)
    async def export(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Write this session to a file: a page, a document, data or a recording."""
        kind, _, name = argument.partition(" ")
        kind = kind or "html"
        if kind not in FORMATS:
            raise WrongUse(f"There is no format {kind}; known: {', '.join(FORMATS)}.")
        path = self.session.cwd / (name.strip() or f"mindstone-{self.session.key.main}.{kind}")
        await self._export(kind, path)
        yield CommandPrinted(text=f"Written to {path}.", data={"path": str(path)})

    async def _export(self, kind: str, path: Path) -> None:
        """Write this session to a file."""

        def work() -> None:
            # Deferred: the page's Markdown renderer is large, and few sessions are exported.
            from mindstone_tui.core.interchange.export import export
            from mindstone_tui.core.library.stats import session_numbers  # 32 ms

            clean = self.context.transcript.clean
            with transcript.History(self.session.places) as history:
                text = "".join(export(history, kind, clean=clean, numbers=session_numbers))
            disk.replace_file(path, text.encode())

        await asyncio.to_thread(work)
