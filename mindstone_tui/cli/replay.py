"""`mindstone replay`: what happened, what the model saw, and what would have been otherwise."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import typer

from mindstone_tui.cli import chat, line_chat
from mindstone_tui.cli.options import (
    JSON,
    SAMPLE,
    fetch_news,
    given,
    places,
    session_to_read,
    switch,
)
from mindstone_tui.cli.output import (
    Progress,
    bar_chart,
    complain,
    flush_output,
    hint,
    line_chart,
    say,
    say_json,
    table,
)
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.errors import ExitCode, MindstoneError, NoSuchEntry, UsageError
from mindstone_tui.core.interchange.samples import sample_probes
from mindstone_tui.core.library.model_list import prices_of
from mindstone_tui.core.library.read_only import newest_window
from mindstone_tui.core.replay import compare, playback, rehearsal, verify_requests
from mindstone_tui.core.replay.what_if import WhatIf, WhatIfOutcome, parse_changes, what_if
from mindstone_tui.core.text import plural
from mindstone_tui.core.transcript import History

SESSION = typer.Argument("", help="Session; the default one if omitted.", metavar="[SESSION]")
SAME_SESSION = given("", "KEY", "The same as an option.", "--session", "-s")
VECTORS = switch("--vectors", "Also search by meaning: more accurate, slower.")


async def _in_lines(
    history: History, settings: Settings, note: str, speed: float, at: int | None, *, json: bool
) -> None:
    """Play a session in lines, without waiting unless told to."""
    replay = playback.Replay(history, settings, note=note, speed=speed, stays=False, reports=json)
    if at is not None and not replay.go_to_turn(at):
        raise NoSuchEntry(f"There is no turn {at}.", "Omit --at to play it all.")
    show = say_json if json else line_chat.EventPrinter(recorded=True).show
    async for event in replay.events():
        show(event)
    flush_output()


def _in_app(history: History, settings: Settings, note: str, speed: float, at: int | None) -> int:
    """Play a session in the app; returns the exit code."""
    # Textual is the larger part of the start; a pipe does not need it.
    from mindstone_tui.cli.app_host import host_for
    from mindstone_tui.tui.app import ReplayApp

    async def open_replay() -> playback.Replay:
        replay = playback.Replay(history, settings, note=note, speed=speed)
        if at is not None:
            replay.go_to_turn(at)
        return replay

    host = host_for(places(), settings, str(history.places.key), places().data)
    app = ReplayApp(open_replay, host)
    code = app.run(mouse=host.settings.mouse)
    return app.return_code or code or 0


_MISSED_SHOWN = 10


def replay(
    session: str = SESSION,
    named: str = SAME_SESSION,
    sample: bool = SAMPLE,
    turn: int | None = given(None, "N", "One turn.", min=1),
    call: int | None = given(None, "N", "A model call of that turn.", min=1),
    prompt: bool = switch("--prompt", "Print the exact request."),
    everything: bool = switch("--all", "Every request, of all sessions if none is named."),
    check: bool = switch("--check", "Compare with the recorded hash."),
    changes: list[str] | None = given(
        None, "KEY=VALUE", "Recalculate with another setting.", "--what-if"
    ),
    speed: float | None = given(
        None, "TIMES", "Speed factor; 0 does not wait (the default without the app).", min=0
    ),
    at: int | None = given(None, "N", "Start at this turn.", "--at", min=1),
    plain: bool = switch("--plain", "Print lines instead of opening the app."),
    vectors: bool = VECTORS,
    json: bool = JSON,
) -> None:
    """Replay a session without calling a model or writing anything.

    Alone it plays in the app: space pauses, the arrows step by turn and by request, and the panel
    shows the window as it was. --turn N --prompt prints what was sent; --all --check proves every
    request of every session, or of the one that is named, by its hash and exits 1 if one cannot be
    rebuilt. --what-if ceiling=80 --what-if
    policy=hybrid shows what other settings would have done.
    """
    if (call or prompt) and not turn:
        given = "--call" if call else "--prompt"
        raise UsageError(f"{given} needs a turn.", f"For example: --turn 17 {given}.")
    if everything and not (changes or turn or named or session or sample):
        _prove_all(json=json)
        return
    with source_of(named or session, sample=sample) as history:
        if changes:
            _what_if(history, changes, sample=sample, vectors=vectors, json=json)
        elif everything or (check and not turn):
            own = _requested(history, sample=sample, json=json)
            _say_proofs([(str(own.places.key), verify_requests.prove(own))], json=json)
        elif turn:
            for rebuilt in verify_requests.rebuilt_calls(
                _requested(history, sample=sample, json=json), turn, call
            ):
                say_json(rebuilt) if json else _print_rebuilt(rebuilt, whole=prompt)
                if check and rebuilt.matches is False:
                    raise typer.Exit(ExitCode.FAILED)
        else:  # in the app at its own pace, in lines without waiting
            in_lines = plain or json or not chat.has_terminal()
            if not in_lines:
                chat.check_terminal(os.environ)
            settings = settings_for(history, sample=sample)
            with Progress("lines", 0, quiet=json) as bar:
                options = rehearsal_options(settings, bar, vectors=vectors)
                played, note = asyncio.run(playback.playable(history, settings, options))
                if in_lines:
                    asyncio.run(_in_lines(played, settings, note, speed or 0.0, at, json=json))
                    return
                pace = 1.0 if speed is None else speed
                raise typer.Exit(_in_app(played, settings, note, pace, at))


def _requested(history: History, *, sample: bool, json: bool) -> History:
    """The session with its requests; the sample never sent any, so it is rehearsed."""
    if not sample:
        return history
    settings = settings_for(history, sample=True)
    with Progress("lines", 0, quiet=json) as bar:
        options = rehearsal_options(settings, bar, vectors=False)
        rehearsed, note = asyncio.run(playback.playable(history, settings, options))
    hint(note)
    return rehearsed


_Proofs = Sequence[tuple[str, verify_requests.Proof]]


def _prove_all(*, json: bool) -> None:
    """Prove every request of every session here."""
    fetch_news()
    proofs, unread = list[tuple[str, verify_requests.Proof]](), list[MindstoneError]()
    every = sorted(places().sessions(), key=lambda one: one.key)
    with Progress("sessions", len(every), quiet=json) as bar:
        for done, where in enumerate(every):
            bar.at(done)
            try:
                with History(where) as history:
                    proofs.append((str(where.key), verify_requests.prove(history)))
            except MindstoneError as error:
                unread.append(error)
    for each in unread:
        complain(each.what, each.remedy)
    if proofs:
        _say_proofs(proofs, json=json)
    elif not every:
        hint("No sessions yet; nothing to check.")
    if unread:
        raise typer.Exit(ExitCode.FAILED)


def _say_proofs(proofs: _Proofs, *, json: bool) -> None:
    several = len(proofs) > 1
    requests, matched = (sum(getattr(one, n) for _, one in proofs) for n in ("requests", "matched"))
    of = f" of {plural(len(proofs), 'session')}" if several else ""
    if json:
        for session, proof in proofs:
            say_json({"session": session, **msgspec.structs.asdict(proof)})
    elif requests:
        say(f"{matched:,} of {requests:,} requests{of} rebuilt byte for byte")
    else:
        which = "These sessions" if several else "This session"
        say(f"{which} sent no requests, so there is nothing to check.")
    for session, proof in () if json else proofs:
        where = f"{session}, " if several else ""
        for wrong in proof.mismatched:
            place = f"{where}turn {wrong.turn}, call {wrong.call}"
            complain(f"{place}: the hash differs. {wrong.why}".strip())
        if proof.damaged:
            told = f"{session}: {proof.damaged}" if several else proof.damaged
            complain(f"{told} lines cannot be read.", "`mindstone verify` lists them.")
    if any(proof.mismatched or proof.damaged for _, proof in proofs):
        raise typer.Exit(ExitCode.FAILED)


def _print_rebuilt(rebuilt: verify_requests.Rebuilt, *, whole: bool) -> None:
    state = {True: "matches its hash", False: "DOES NOT MATCH", None: "imported, never sent"}
    say(
        f"turn {rebuilt.turn}, call {rebuilt.call}: {len(rebuilt.messages)} messages, "
        f"{len(rebuilt.tools)} tools, {rebuilt.tokens:,} tokens; {state[rebuilt.matches]}",
        "bold",
    )
    if whole:
        for message in rebuilt.messages:
            say(f"── {message['role']}", "dim")
            content = message.get("content")
            say(content if isinstance(content, str) else msgspec.json.encode(content).decode())
            for each in message.get("tool_calls", ()):
                say(f"→ {each['function']['name']} {each['function']['arguments']}")


def _what_if(
    history: History, words: list[str], *, sample: bool, vectors: bool, json: bool
) -> None:
    changed = parse_changes(words)
    now = settings_for(history, sample=sample)
    then = settings_for(history, sample=sample, flags=changed)
    with Progress("lines", 0, quiet=json) as bar:
        found = asyncio.run(
            what_if(
                history,
                now,
                then,
                changed,
                options=rehearsal_options(now, bar, vectors=vectors),
                price_of=prices_of(places(), now, os.environ),
            )
        )
    say_json(found) if json else _print_what_if(found)


def _print_what_if(found: WhatIf) -> None:
    said = ", ".join(f"{key.partition('.')[2]} {value}" for key, value in found.changed.items())
    say(f"{found.session}: what if {said}?", "bold")
    columns = found.outcomes
    rows = [
        ("requests", [f"{one.requests:,}" for one in columns]),
        ("prunes", [f"{one.prunes:,}" for one in columns]),
        ("exchanges that left", [f"{one.exchanges_left:,}" for one in columns]),
        ("trims", [f"{one.trims:,}" for one in columns]),
        ("summaries", [f"{one.summaries:,}" for one in columns]),
        ("tokens sent", [f"{one.tokens_sent:,}" for one in columns]),
        ("stable prefix", [f"{one.stable_share:.1%}" for one in columns]),
        ("fullest", [f"{one.peak:.1%}" for one in columns]),
        ("on average", [f"{one.mean:.1%}" for one in columns]),
        ("prompts cost about", [_dollars(one) for one in columns]),
        ("could not be sent", [f"{one.refused:,}" for one in columns]),
        *(
            (f"later reference: {place}", [_found(one, place) for one in columns])
            for place in ("window", "recalled", "on request", "nowhere")
        ),
    ]
    heads = ["", *(one.name for one in columns)]
    table(heads, [[name, *cells] for name, cells in rows], right=range(1, len(heads)))
    say()
    say("How full, turn by turn", "bold")
    for outcome in columns:
        say(f"{outcome.name:9} {line_chart([each.utilization for each in outcome.moments])}")
    missed = columns[-1].missed
    for each in missed[:_MISSED_SHOWN]:
        one = each.reference
        hint(f"turn {one.turn} leans on turn {one.source} ({one.words[:60]}): nowhere")
    if len(missed) > _MISSED_SHOWN:
        hint(f"and {len(missed) - _MISSED_SHOWN:,} more; --json has them all")


def _found(outcome: WhatIfOutcome, place: str) -> str:
    return f"{outcome.found[place]:,}" if outcome.found else "–"


def _dollars(outcome: WhatIfOutcome) -> str:
    return "unknown" if outcome.cost is None else f"${outcome.cost:,.4f}"


@contextlib.contextmanager
def source_of(name: str, *, sample: bool) -> Iterator[History]:
    """The session that was named, for reading only, or the sample."""
    if sample and name:
        raise UsageError("Give a session or --sample, not both.")
    if sample:
        yield playback.open_sample(places())
        return
    with History(places().session(session_to_read(name))) as history:
        yield history


def settings_for(
    history: History | None = None, *, sample: bool, flags: Mapping[str, object] | None = None
) -> Settings:
    """The user's settings with some changed; where none names a window, with the session's own.

    A window in the user's settings is meant for their model, and would leave the sample unfilled.
    """
    wanted = dict(flags or {})
    if sample:
        wanted.setdefault("context.window", playback.SAMPLE_WINDOW)
    found = load(places(), os.environ, flags=wanted).settings
    if history is not None and not found.context.window and (own := newest_window(history)):
        return load(places(), os.environ, flags={**wanted, "context.window": own}).settings
    return found


def rehearsal_options(
    settings: Settings, bar: Progress | None, *, vectors: bool
) -> rehearsal.RehearsalOptions:
    """How to rehearse; only the model that ships with the program is asked for meaning."""
    if vectors and settings.recall.embedder != rehearsal.SHIPPED_EMBEDDER:
        hint("A rehearsal calls no model, so recall searches by words only.")
        vectors = False
    progress = None if bar is None else lambda done, total: bar.at(done, total)
    return (
        rehearsal.by_meaning(progress) if vectors else rehearsal.RehearsalOptions(progress=progress)
    )


def compare_modes(
    session: str = SESSION,
    named: str = SAME_SESSION,
    sample: bool = SAMPLE,
    modes: str = given(",".join(compare.MODES), "A,B,…", "Modes to compare."),
    window: int = given(0, "TOKENS", "Context window to fill.", "--context-window", min=0),
    model: str = given(
        "", "NAME", "Also let a model write summaries and judge answers.", "--model", "-m"
    ),
    vectors: bool = VECTORS,
    json: bool = JSON,
) -> None:
    """Compare what each context mode still remembers.

    One long session is held under several modes and asked for facts, sources, the user's
    corrections, what would wrongly be taken for true, and reasons. The questions are the same
    every time, and no model is called; --model lets one write the summaries and judge, too.
    """
    chosen = [mode.strip() for mode in modes.split(",") if mode.strip()]
    if unknown := [mode for mode in chosen if mode not in compare.MODES]:
        raise UsageError(f"Unknown mode {unknown[0]}.", f"Use {', '.join(compare.MODES)}.")
    flags: dict[str, object] = {"context.window": window} if window else {}
    with (
        source_of(named or session, sample=sample) as history,
        Progress("lines", 0, quiet=json) as bar,
    ):
        settings = {
            mode: settings_for(history, sample=sample, flags={**flags, "context.mode": mode})
            for mode in chosen
        }
        probes = (
            compare.probes_of_sample(history, sample_probes())
            if sample
            else compare.probes_of_session(history)
        )
        if not probes:
            raise UsageError(
                "This session has nothing to ask about.", "`compare --sample` shows an example."
            )
        how = _comparing(next(iter(settings.values())), bar, model, vectors=vectors)
        found = asyncio.run(compare.compare(history, settings, probes, how))
    say_json(found) if json else _print(found)


def _comparing(own: Settings, bar: Progress, model: str, *, vectors: bool) -> compare.Comparing:
    options = rehearsal_options(own, None, vectors=vectors)
    ask = None
    if model:
        ask = compare.asking(model, own.models, places(), os.environ)
        options = msgspec.structs.replace(options, ask=ask, model=model)
    return compare.Comparing(
        options=options,
        price_of=prices_of(places(), own, os.environ),
        judge=ask,
        progress=lambda mode, done, total: bar.at(done, total),
    )


def _print(found: compare.Comparison) -> None:
    how = "words and meaning" if found.vectors else "words"
    say(
        f"{found.session} in a window of {found.window:,} tokens: {found.probes} probes, "
        f"recall by {how}",
        "bold",
    )
    table(["", *(one.mode for one in found.modes)], comparison_rows(found), right=())
    say()
    say("█ in the window  ▒ by recall  · lost", "dim")
    for name, words in found.measured:
        if name != "false":
            for one in found.modes:
                say(f"{words:22} {one.mode:15} {_bar(one, name)}")
    say()
    say("How full, turn by turn", "bold")
    for one in found.modes:
        say(f"{one.mode:15} {line_chart([each.utilization for each in one.outcome.moments])}")
    missing = [words for name, words in compare.MEASURES if (name, words) not in found.measured]
    if missing:
        hint(f"Not measured: {', '.join(missing)}; too little of that was said in this session.")
    for one in found.modes:
        if one.judged is not None and one.judged.score is None:
            hint(f"{one.mode}: not judged, {one.judged.why}")


def comparison_rows(found: compare.Comparison) -> list[list[str]]:
    """The table: a row a measure, a column a mode."""
    rows = [
        [words, *(_share(one.measures[name], name) for one in found.modes)]
        for name, words in found.measured
    ]
    if any(one.judged for one in found.modes):
        rows.append(["judged by a model", *(_judged(one) for one in found.modes)])
    rows.append(["tokens sent", *(_millions(one.outcome.tokens_sent) for one in found.modes)])
    rows.append(["summaries", *(str(one.outcome.summaries) for one in found.modes)])
    return rows


def _share(share: compare.Share, name: str) -> str:
    if name == "false":
        return f"{share.hits} of {share.asked}"
    return f"{share.hits} of {share.asked} ({share.in_window} in the window)"


def _judged(one: compare.Compared) -> str:
    if one.judged is None or one.judged.score is None:
        return "–"
    return f"{one.judged.consistent} of {one.judged.judged}"


def _millions(tokens: int) -> str:
    return f"{tokens / 1_000_000:.2f} M" if tokens >= 1_000_000 else f"{tokens:,}"


def _bar(one: compare.Compared, name: str) -> str:
    share = one.measures[name]
    return f"{bar_chart(share.hits, share.asked, share.in_window)} {share.hits}/{share.asked}"
