"""Commands that only a surface can carry out, and the help for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mindstone_tui.core.commands.registry import COMMANDS, command, parse, wrong_use
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import Answer, AnyEvent, CommandPrinted, ScreenAsked
from mindstone_tui.core.text import exact, one_line

if TYPE_CHECKING:
    from mindstone_tui.core.session.services import SessionServices


@command("help", usage="[COMMAND]", words=())
async def show_help(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """List every command, or explain one."""
    own = services.prompts.commands()
    if (name := argument.removeprefix("/").lower()) in own:
        each = own[name]
        text = f"/{each.name} {each.hint}".rstrip() + f"\n\n{each.description}\n\n{each.path}"
        yield CommandPrinted(command="help", text=text)
    elif argument:
        found, _ = parse(argument)
        text = "\n\n".join(part for part in (found.synopsis, found.help, found.details) if part)
        yield CommandPrinted(command="help", text=text)
    else:
        rows = [f"{each.synopsis:44} {each.help}" for each in COMMANDS.values()]
        rows += [f"{f'/{each.name} {each.hint}':44} {each.description}" for each in own.values()]
        text = "\n".join(rows)
        yield ScreenAsked(screen="help", otherwise=text)


@command("shell", usage="COMMAND")
async def shell(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Run a shell command yourself; the model does not see it."""
    if not argument:
        raise wrong_use("shell", "Which command?")
    result = await services.run_shell(argument)
    yield CommandPrinted(command="shell", text=result.text, ok=result.status == "ok")


@command("jobs", usage="[N | kill N]", words=("kill",))
async def jobs(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """List commands that run in the background, show the output of one, or end it.

    They end with the session, unless you agreed to one that stays.
    """
    verb, _, number = argument.rpartition(" ")
    if not argument:
        rows = [
            f"{job.number:>3}  {job.state:32} {one_line(job.command, 80)}\n     {job.log}"
            for job in services.jobs.all.values()
        ]
        if rows:
            rows.append(
                "/jobs N shows output, /jobs kill N ends one. /undo leaves their work alone."
            )
        yield CommandPrinted(command="jobs", text="\n".join(rows) or "Nothing runs.")
        return
    if not number.isdigit() or verb not in ("", "kill"):
        raise wrong_use("jobs", f"`{argument}` names no job.")
    job = services.jobs.get(int(number))
    if verb == "kill":
        job = await services.jobs.kill(job.number)
    text = f"{services.jobs.tail(job).rstrip()}\n[job {job.number}: {job.state}]".lstrip()
    yield CommandPrinted(command="jobs", text=text)


@command("answer", usage="[yes | no [WHY]]", words=("yes", "no"))
async def answer(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show what another program's turn in this session waits to be told, or answer it.

    `no` declines, from anywhere; the model is told why. `yes` allows it once, and counts only
    where questions are shown: in the app, the line chat, the page or an editor.
    """
    word, _, why = argument.partition(" ")
    if word not in ("", "yes", "no"):
        raise wrong_use("answer", f"`{argument}` is no answer.")
    if word == "yes" and not services.context.permissions.asks:
        raise UsageError(
            "A yes is for somebody who saw the question.",
            "Answer it in the app, the line chat or on the page; /answer no declines it here.",
        )
    given = Answer(allowed=word == "yes", why=why.strip()) if word else None
    found = services.answer(given)
    now = datetime.now(UTC)
    told = [
        f"{'Allowed once' if word == 'yes' else 'Declined'}: {one_line(each.what, 200)}"
        if word
        else f"{each.sentence(now)}\n{exact(each.what)}"
        for each in found
    ]
    yield CommandPrinted(command="answer", text="\n".join(told) or "Nothing waits for an answer.")


@command("theme", usage="[NAME]")
async def theme(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Choose how the app looks."""
    del services
    yield ScreenAsked(
        screen="theme", argument=argument, otherwise="Themes can be chosen in the app only."
    )


@command("copy", usage="[N]")
async def copy(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Copy the newest answer, or the one before it, to the clipboard."""
    del services
    yield ScreenAsked(screen="copy", argument=argument, otherwise="Copying works in the app only.")


@command("editor")
async def editor(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Write the next message in your own editor."""
    del services, argument
    yield ScreenAsked(screen="editor", otherwise="The editor opens from the app only.")


@command("quit")
async def leave(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Leave; everything is saved already."""
    del services, argument
    yield ScreenAsked(screen="quit", otherwise="Everything is saved.")


@command("sample")
async def sample(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Open the sample session: nine days of work to search, replay and ask about."""
    del services, argument
    yield ScreenAsked(screen="sample", otherwise="Import it with `mindstone import --sample`.")


@command("key", usage="[PROVIDER]")
async def key(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Store an API key and try it at once; it is entered unseen, never on this line."""
    del services
    otherwise = "Store it with `mindstone models key PROVIDER`."
    yield ScreenAsked(screen="key", argument=argument, otherwise=otherwise)


@command("fetch")
async def fetch(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Download a small language model that runs on this machine."""
    del services, argument
    yield ScreenAsked(screen="fetch", otherwise="Use `mindstone models list`.")


FORMATS = ("html", "md", "json", "cast")


@command("replay", usage="[turn N]")
async def replay(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Play this session again, and see what the model saw at each moment."""
    turn = argument.removeprefix("turn").strip()
    if turn and not turn.isdigit():
        raise wrong_use("replay", f"`{argument}` is not a turn.")
    watch = f"Watch it with `mindstone replay {services.key}`"
    prove = "prove every request with `--all --check`."
    yield ScreenAsked(screen="replay", argument=turn, otherwise=f"{watch}; {prove}")


@command("export", usage="[html|md|json|cast] [FILE]", words=FORMATS)
async def export(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Write this session to a file: a page, a document, data or a recording."""
    kind, _, name = argument.partition(" ")
    kind = kind or "html"
    if kind not in FORMATS:
        raise wrong_use("export", f"There is no format {kind}; known: {', '.join(FORMATS)}.")
    path = services.cwd / (name.strip() or f"mindstone-{services.key.main}.{kind}")
    await services.export(kind, path)
    yield CommandPrinted(command="export", text=f"Written to {path}.", data={"path": str(path)})
