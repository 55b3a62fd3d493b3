"""The ground everything stands on: folders, permissions, space, the session and its server.

Also what continuity rests on: memories, the checkpoint, the last alerts.
"""

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from mindstone_tui.core import disk, doctor, errors, text, tokens, transcript
from mindstone_tui.core.entries import Line
from mindstone_tui.core.handoff.checkpoint_store import load_proven
from mindstone_tui.core.health.metrics import table
from mindstone_tui.core.health.monitor import Monitor
from mindstone_tui.core.interchange.attach import without_rules
from mindstone_tui.core.interchange.launcher import LAUNCHER, check_content, check_place
from mindstone_tui.core.memory.files import invariants, read_shelf
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.shared import copies, passage_store
from mindstone_tui.core.shared.postgres import INSTALL, PostgresStore, available, place_of
from mindstone_tui.core.transcript.rescue import waiting

_SPACE_TO_WORK: Final = 100 << 20
_SPACE_TO_FEEL_WELL: Final = 1 << 30
_MOST_LOOKED_AT: Final = 200_000
_MOST_OF_A_PERSON: Final = 2_000
_MOST_NAMED: Final = 20
_SECONDS_TO_VERIFY: Final = 2.0
_REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "sshfs", "fuse.sshfs", "ncpfs", "davfs"}
)


def home(around: doctor.CheckEnvironment) -> Iterator[doctor.Check]:
    """Folders, permissions, file system, space, the session."""
    yield doctor.passed("python", f"Python {sys.version.split()[0]} on {sys.platform}.")
    yield from _places(around)
    yield _permissions(around)
    yield from _launcher(around)
    yield _file_system(around)
    yield _space(around)
    yield _sessions(around)
    yield from unaltered(around)
    yield _session(around)
    yield from _rescued(around)


def _places(around: doctor.CheckEnvironment) -> Iterator[doctor.Check]:
    places = around.places
    for name, folder in (("config", places.config), ("data", places.data), ("state", places.state)):
        why = _cannot_write(folder)
        yield doctor.Check(
            f"places.{name}",
            "fail" if why else "pass",
            f"{folder} cannot be written: {why}." if why else str(folder),
            "Set MINDSTONE_HOME to a folder of your own that can be written." if why else "",
        )


def _cannot_write(folder: Path) -> str:
    """Why nothing can be written there or, while it is missing, into its nearest parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _permissions(around: doctor.CheckEnvironment) -> doctor.Check:
    """Files and folders of ours that others on this machine could open, or put others in place."""
    for folder in around.places.own:
        try:
            disk.require_ours(folder)
        except errors.PlaceError as error:
            return doctor.Check("permissions", "fail", error.what, error.remedy)
    seen = 0
    open_to_others: list[Path] = []
    for path, mode in islice(_ours(around.places), _MOST_LOOKED_AT):
        seen += 1
        if mode is None:
            if commands := disk.open_to_changes(path):
                what = f"Others can change {path}, or what it leads to, and it is used here."
                return doctor.warned("permissions", what, f"Run: {'; '.join(commands)}")
        elif mode & 0o077 and len(open_to_others) <= _MOST_NAMED:
            open_to_others.append(path)
    if not open_to_others:
        more = ", and more were not looked at" if seen == _MOST_LOOKED_AT else ""
        detail = f"Readable only by you: {seen:,} files and folders{more}."
        return doctor.passed("permissions", detail)
    return doctor.warned(
        "permissions",
        f"{text.plural(len(open_to_others), 'file or folder', 'files or folders')} can be read by "
        f"others, first {open_to_others[0]}.",
        f"chmod -R go= {shlex.join(map(str, _outermost(open_to_others)))}",
    )


def _ours(places: Places) -> Iterator[tuple[Path, int | None]]:
    """Every file and folder that we made, with its permissions.

    What a person put there, and a link, has none that are ours to say.
    """
    theirs = {places.themes, places.profiles, places.commands, places.skills, places.hooks}
    for top in filter(os.path.lexists, theirs):
        walked = os.walk(top, followlinks=True)
        inside = (Path(one, name) for one, two, three in walked for name in (*two, *three))
        yield from ((path, None) for path in (top, *islice(inside, _MOST_OF_A_PERSON)))
    todo = _outermost(list(dict.fromkeys((places.data, places.state))))
    apart = (places.config, places.config_file, places.keys)
    for path in (*(one for one in apart if not any(map(one.is_relative_to, todo))), *todo):
        with contextlib.suppress(OSError):
            yield path, path.stat().st_mode
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if path in theirs:
                    continue
                if entry.is_symlink():
                    yield path, None
                    continue
                with contextlib.suppress(OSError):
                    yield path, entry.stat(follow_symlinks=False).st_mode
                if entry.is_dir():
                    todo.append(path)


def _launcher(around: doctor.CheckEnvironment) -> Iterator[doctor.Check]:
    """Whether what attached programs call is ours, and can only be changed by us."""
    launcher = around.places.state / LAUNCHER
    if not os.path.lexists(launcher):
        return
    try:
        check_place(launcher)
        check_content(launcher)
    except errors.MindstoneError as error:
        yield doctor.refused("launcher", error)
    else:
        said = f"{launcher} is what `mindstone attach` wrote, and only you can change it."
        yield doctor.passed("launcher", said)
    for name in without_rules(around.places):
        said = f"{name} was attached before rules could hold there, and none does."
        program, _, folder = name.partition(" ")
        again = f"mindstone attach {program}"
        yield doctor.warned(
            "attached.rules", said, f"In {folder}: {again} --project" if folder else again
        )


def _outermost(paths: list[Path]) -> list[Path]:
    """Those that stand in none of the others."""
    return [path for path in paths if not any(other in path.parents for other in paths)]


def _file_system(around: doctor.CheckEnvironment) -> doctor.Check:
    if (kind := file_system_of(around.places.data)) in _REMOTE:
        return doctor.warned(
            "disk.kind",
            f"Sessions live on a network file system ({kind}), where appends may mix.",
            "Set MINDSTONE_HOME to a local folder.",
        )
    return doctor.passed("disk.kind", f"File system: {kind or 'unknown'}.")


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of file system under a folder; empty where the system does not say."""
    try:
        table = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    path = os.path.realpath(folder)
    for row in table:
        fields = row.split()
        point = fields[1].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _space(around: doctor.CheckEnvironment) -> doctor.Check:
    folder = around.places.data
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    outcome: doctor.Outcome = "pass" if free > _SPACE_TO_FEEL_WELL else "warn"
    if free < _SPACE_TO_WORK:
        outcome = "fail"
    return doctor.Check(
        "disk.space",
        outcome,
        f"{free / 1e9:.1f} GB free.",
        "" if outcome == "pass" else "Free some space: the transcript is never deleted.",
    )


def _sessions(around: doctor.CheckEnvironment) -> doctor.Check:
    found = transcript.list_sessions(around.places)
    bad = [summary.session for summary in found if not summary.readable]
    size = sum(summary.size for summary in found)
    if bad:
        return doctor.failed(
            "sessions",
            f"{len(bad)} of {len(found)} sessions cannot be read, first {bad[0]}.",
            f"mindstone verify --session {bad[0]}",
        )
    many = text.plural(len(found), "session")
    detail = f"{many}, {size / 1e6:.1f} MB." if found else "No sessions yet."
    return doctor.passed("sessions", detail)


def unaltered(
    around: doctor.CheckEnvironment, seconds: float = _SECONDS_TO_VERIFY
) -> Iterator[doctor.Check]:
    """Whether transcripts are what was written: the newest ones, as many as can be read so fast."""
    until, found = time.monotonic() + seconds, transcript.list_sessions(around.places)
    looked_at, damaged = 0, list[transcript.Verdict]()
    for each in found:
        verdict = transcript.verify(around.places.session(SessionKey.parse(each.session)))
        looked_at += 1
        damaged += [] if verdict.ok else [verdict]
        if time.monotonic() > until:
            break
    rest = f"the {looked_at} newest of {len(found)}; `mindstone verify --all` reads all"
    of = rest if looked_at < len(found) else text.plural(looked_at, "session")
    if damaged:
        first = damaged[0]
        yield doctor.failed(
            "sessions.unaltered",
            f"{len(damaged)} damaged, of {of}. The first is {first.session}, line "
            f"{first.problems[0].line}: {first.problems[0].detail}.",
            f"`mindstone verify -s {first.session}` names every such line. Put its "
            "transcript.jsonl back from a backup; until then `mindstone sync` leaves it alone.",
        )
    elif found:
        yield doctor.passed("sessions.unaltered", f"Every line is what was written: {of}.")


def _rescued(around: doctor.CheckEnvironment) -> Iterator[doctor.Check]:
    """What a session could not write into its transcript, and nobody took away since."""
    if kept := sorted(around.places.rescued.glob("*.jsonl")):
        names = ", ".join(map(str, kept[:_MOST_NAMED]))
        waits = waiting(around.places.rescued).most_common(_MOST_NAMED)
        told = "".join(
            f" {text.plural(count, 'line')} of {name or 'no session'}." for name, count in waits
        )
        yield doctor.warned(
            "rescued",
            f"{text.plural(len(kept), 'file')} with lines that no transcript has: {names}.{told}",
            "Opening their session writes them first; `mindstone import FILE` makes one of them.",
        )


def _session(around: doctor.CheckEnvironment) -> doctor.Check:
    """Whether the session opens, and whether its table of offsets agrees with it."""
    places = around.places.session(around.session)
    if not places.transcript.exists():
        if places.derived:
            gone = places.missing()
            return doctor.failed("session", gone.what, gone.remedy)
        return doctor.passed("session", f"{around.session} has not been started yet.")
    try:
        with transcript.History(places) as history:
            history.header  # noqa: B018 (reading it is the check)
            head = history.head
            lines = len(history.offsets)
    except errors.MindstoneError as error:
        return doctor.refused("session", error)
    if lines != head.seq + 1:
        return doctor.failed(
            "session",
            f"{around.session} has {lines} lines, but its newest is number {head.seq}.",
            f"mindstone verify --session {around.session}",
        )
    return doctor.passed("session", f"{around.session} opens: {lines} lines.")


_LOOKED_BACK: Final = 2_000
"""Lines at the end of history in which measures are looked for."""


def continuity(around: doctor.CheckEnvironment) -> Iterator[doctor.Check]:
    """What continuity rests on: memories, the checkpoint, the last alerts."""
    yield from _memory(around)
    places = around.places.session(around.session)
    if places.transcript.exists():
        with transcript.History(places) as history:
            yield _checkpoint(places, history)
            yield from _health(around, history)


def _memory(around: doctor.CheckEnvironment) -> Iterator[doctor.Check]:
    places = around.places.agent(around.session.agent)
    shelf = read_shelf(places)
    yield doctor.passed("memory", f"{text.plural(len(shelf.live), 'memory', 'memories')} in force.")
    for one in shelf.unreadable:
        yield doctor.warned(
            "memory.file",
            f"{one.file}: {one.why}",
            f"Correct it, or move it out of {places.memory}.",
        )
    room = around.settings.memory.invariant_tokens
    if warning := invariants(shelf, room, tokens.counter_for("").text).warning:
        yield doctor.warned(
            "memory.invariants", f"{warning}.", "Shorten them, or raise memory.invariant_tokens."
        )


def _checkpoint(places: SessionPlaces, history: transcript.History) -> doctor.Check:
    if not places.checkpoint.exists():
        return doctor.passed("checkpoint", "None was saved yet.")
    try:
        found = load_proven(places, history)
    except errors.ContinuityError as error:
        return doctor.warned("checkpoint", error.what, error.remedy)
    return doctor.passed(
        "checkpoint", f"Version {found.version} of {found.saved_at} can be resumed from."
    )


def _health(around: doctor.CheckEnvironment, history: transcript.History) -> Iterator[doctor.Check]:
    try:
        newest = [one for one in islice(history.back(), _LOOKED_BACK) if isinstance(one, Line)]
    except errors.MindstoneError as error:
        yield doctor.warned("health", error.what, error.remedy)
        return
    monitor = Monitor(around.settings.health, reversed(newest))
    for alert in monitor.alerts:
        yield doctor.Check(
            f"health.{alert.metric}",
            "fail" if alert.level == "critical" else "warn",
            alert.message,
            alert.remedy,
        )
    if not (turns := len(monitor.history)):
        yield doctor.passed("health", f"{monitor.nothing}.")
        return
    shown = ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value, _ in table(monitor.history)
    )
    told = "" if monitor.alerts else f"No alert holds ({text.plural(turns, 'turn')} measured); "
    yield doctor.passed("health", f"{told}the newest: {shown}.")


def history_server(around: doctor.CheckEnvironment) -> Iterator[doctor.Check]:
    """The history server, and how the copies here stand; one line where there are only files."""
    history = around.settings.history
    urls = [url for url in dict.fromkeys((history.url, *history.sessions.values())) if url]
    if not urls:
        yield doctor.passed("history.server", "Histories are in files alone.")
        return
    if not available():
        yield doctor.failed(
            "history.server",
            "history.url is set, and the PostgreSQL driver is not installed.",
            f"{INSTALL}.",
        )
        return
    for url in urls:
        yield from _server(around, url)


def _server(around: doctor.CheckEnvironment, url: str) -> Iterator[doctor.Check]:
    where = place_of(url)
    with contextlib.closing(copies.open_address(around.settings.history, url)) as store:
        try:
            owner = store.owner
            began = time.perf_counter()
            about = store.about()
            took = (time.perf_counter() - began) * 1000
            states = copies.compare(around.places, store, [])
            search = _search(around, store, states)
        except errors.MindstoneError as error:
            yield doctor.failed("history.server", error.what, error.remedy or "Check history.url.")
            return
    yield doctor.passed(
        "history.server",
        f"{where}: PostgreSQL {about.version}, sessions of {owner}, {took:.1f} ms away.",
    )
    yield doctor.Check(
        "history.encryption",
        "pass" if about.encrypted or about.local else "warn",
        "The connection is encrypted."
        if about.encrypted
        else "The connection stays on this machine."
        if about.local
        else "The connection is not encrypted.",
        "" if about.encrypted or about.local else "Add ?sslmode=verify-full to history.url.",
    )
    yield from search
    wrong = [one for one in states if one.state in ("differs", "ahead")]
    alone = sum(one.state == "only here" for one in states)
    detail = f"{text.plural(len(states), 'session')}; {alone} only here."
    yield doctor.Check(
        "history.copies",
        "warn" if wrong else "pass",
        f"{wrong[0].session} {wrong[0].state}: {len(wrong)} not as on the server."
        if wrong
        else detail,
        "`mindstone history status` shows them; push or pull the session." if wrong else "",
    )


def _search(
    around: doctor.CheckEnvironment, store: PostgresStore, states: list[copies.SessionState]
) -> list[doctor.Check]:
    """What search in the database can do, and what it misses; nothing where it is not used."""
    if around.settings.history.search != "server":
        return []
    shared = passage_store.PassageStore(store)
    heads = {SessionKey.parse(one.session): one.there for one in states if one.there is not None}
    missing = len(passage_store.uncovered(shared.marks(), heads))
    by = "words and meaning" if shared.has_meaning else "words only: the server has no pgvector"
    return [
        doctor.Check(
            "history.search",
            "warn" if missing else "pass",
            f"Search in the database, by {by}. "
            f"{text.plural(missing, 'session')} not wholly found there.",
            "`mindstone history index --all` adds those of this machine." if missing else "",
        )
    ]
