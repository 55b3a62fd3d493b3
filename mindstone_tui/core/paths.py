"""Session keys, and where their files live.

A session is `agent:<agentId>:<mainKey>`. Any text may be a name: folder names are an encoding of
it that is safe on every file system, reversible, and never the same for two keys.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from mindstone_tui.core.errors import HistoryMissing, NoSuchSession, PlaceError, SessionNameError
from mindstone_tui.core.patterns import pattern_of

ALIASES: Final = {"mindstone": "agent:default:main"}
CHILD: Final = "~"
"""Stands between a session's name and the call that its sub-agent serves."""
OF_OTHERS: Final = "@"
"""Stands between a session's name and the hash of what another machine went on with in it."""
SAMPLE_AGENT: Final = "sample"
"""Whose sessions only demonstrate: what was done in them nobody did here."""
EARLIER_INDEX: Final = "index.db"
"""What recall kept of a session alone, before there was a library."""
SERVE_TOKEN: Final = "serve-token"
LONGEST_NAME: Final = 1_500
"""In bytes of UTF-8, both parts together: what still fits into a path after encoding."""

_PLAIN: Final = pattern_of(r"[a-z0-9_-](?:[a-z0-9._-]*[a-z0-9_-])?")
_RESERVED: Final = pattern_of(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")
_FOLDER_LENGTH: Final = 200
_MOST_ALIKE: Final = 3


def from_home(path: Path | str) -> Path:
    """A path with `~` read as a shell does: where nobody has such a home, it stands as written."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib's own raises for `~nobody`


LONGEST_PATH: Final = 4_096
"""Bytes; no system has a longer one, and going up a name of a megabyte takes minutes."""


def can_be(path: str | Path) -> bool:
    """Whether a name that somebody wrote down could be one of a file here at all."""
    with contextlib.suppress(UnicodeEncodeError):  # half a character
        return "\0" not in str(path) and len(os.fsencode(path)) <= LONGEST_PATH
    return False


def is_folder(path: str | Path) -> bool:
    """Whether there is such a folder; a name that no system has is of none."""
    return bool(path) and can_be(path) and os.path.isdir(path)  # noqa: PTH112 - Path's own raises


def is_file(path: str | Path) -> bool:
    """Whether there is such a file; a name that no system has is of none."""
    return can_be(path) and os.path.isfile(path)  # noqa: PTH113 - Path's own raises


def project_of(folder: Path) -> Path:
    """The repository that a folder is in, else the folder itself."""
    for each in (folder, *folder.parents) if can_be(folder) else ():
        if os.path.lexists(each / ".git"):
            return each
    return folder


def program(name: str, path: str | None, *work: Path) -> str | None:
    """A program that is started without asking: none that lies where the agent works.

    Whatever a repository brings, or a command left behind there, `PATH` may lead to it.
    """
    roots = [folder.resolve() for folder in work]
    for folder in (os.defpath if path is None else path).split(os.pathsep):
        found = shutil.which(name, path=folder) if folder.startswith("/") else None
        places = (Path(found), Path(found).parent.resolve(), Path(found).resolve()) if found else ()
        if found and not any(place.is_relative_to(root) for place in places for root in roots):
            return found
    return None


def helper(name: str) -> str | None:
    """A program of this machine that is started beside the work: none of the folder we are in."""
    with contextlib.suppress(OSError):
        return program(name, os.environ.get("PATH"), Path.cwd())
    return None


def telling_projects() -> Callable[[str], str]:
    """Tells the project of one folder after the other; each is looked up once."""
    return cache(lambda folder: _project_named(folder) if folder else "")


def _project_named(folder: str) -> str:
    # `resolve` fails where a link has come that leads in circles.
    return str(project_of(Path(os.path.realpath(folder)))) if can_be(folder) else folder


class SessionKey(msgspec.Struct, frozen=True, order=True):
    """Which conversation: an agent, and one of its threads."""

    agent: str
    main: str

    def __str__(self) -> str:
        return f"agent:{self.agent}:{self.main}"

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        """Read a key, an alias, or a bare name (a thread of the default agent)."""
        text = ALIASES.get(text, text)
        if not text.startswith("agent:"):
            text = f"agent:default:{text}"
        _, agent, main = (*text.split(":", 2), "")[:3]
        for part in (agent, main):
            _check_name(part, text)
        _check_length(agent + main)
        return cls(agent, main)


def free_name(base: str, taken: Collection[str], first: int = 1) -> str:
    """The base with the lowest number behind it that nobody has."""
    names = (f"{base}-{number}" for number in count(first))
    return next(name for name in names if name not in taken)


DEFAULT_SESSION: Final = SessionKey("default", "main")


def _check_name(name: str, key: str) -> None:
    example = "Write agent:<agentId>:<mainKey>, for example agent:default:main."
    if not name:
        raise SessionNameError(f"The session key {key!r} has an empty part.", example)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise SessionNameError(
            f"The session key {key!r} is not valid Unicode text.", example
        ) from error


def _check_length(names: str) -> None:
    if (size := len(names.encode())) > LONGEST_NAME:
        raise SessionNameError(
            f"A session name of {size} bytes is too long.",
            f"Use at most {LONGEST_NAME} bytes; a short name is easier to type, too.",
        )


def folder_for(name: str) -> Path:
    """The folder, relative, that stands for a name; several levels deep if the name is long."""
    _check_name(name, name)
    plain = _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name)
    encoded = name if plain else _escape(name)
    if len(encoded) > _FOLDER_LENGTH:
        encoded = "=" + base64.b32encode(name.encode()).decode().rstrip("=").lower()
    pieces = [encoded[at : at + _FOLDER_LENGTH] for at in range(0, len(encoded), _FOLDER_LENGTH)]
    return Path(*(f"{piece}+" for piece in pieces[:-1]), pieces[-1])


def name_of(folder: Path) -> str:
    """The name that a folder made by `folder_for` stands for."""
    encoded = "".join(part.removesuffix("+") for part in folder.parts)
    if encoded.startswith("="):
        body = encoded[1:].upper()
        return base64.b32decode(body + "=" * (-len(body) % 8)).decode()
    raw = re.sub(rb"%([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), encoded.encode())
    return raw.decode()


def _escape(name: str) -> str:
    """Percent-encode, in lower case, all that some file system folds, forbids or reserves."""
    last = len(name) - 1
    reserved = _RESERVED.fullmatch(name.lower()) is not None
    return "".join(
        character
        if re.fullmatch(r"[a-z0-9_.-]", character)
        and not (character == "." and at in (0, last))
        and not (reserved and at == 0)
        else "".join(f"%{byte:02x}" for byte in character.encode())
        for at, character in enumerate(name)
    )


class Under:
    """A file or folder by its name, in one of the folders of a place."""

    def __init__(self, name: str, within: str = "folder") -> None:
        self._name = name
        self._within = within

    def __get__(self, place: object, kind: type) -> Path:
        folder: Path = getattr(place, self._within)
        return folder / self._name


class SessionPlaces(msgspec.Struct, frozen=True):
    """The files of one session."""

    key: SessionKey
    folder: Path
    library: Path
    """Words and vectors of every session of its home: recall's cache."""
    transcript = Under("transcript.jsonl")
    """History, the only truth."""
    offsets = Under("transcript.offsets")
    """Where each line starts: a cache of the transcript's own."""
    blobs = Under("blobs")
    """Bodies too large for a line, named by their hash."""
    torn = Under("torn")
    """Fragments that recovery set aside."""
    indexed = Under("index.mark")
    """There once something of it went into the library: without a transcript, it was lost."""
    lease = Under("turn.lock")
    """Locked by the surface that takes a turn."""
    given = Under("given")
    """Which answers in history allow something and were given at this home; no copy has it."""
    draft = Under("draft.json")
    """What the running turn has said so far; no part of history."""
    next_lease = Under("turn-next.lock")
    """Locked by whoever waits for the lease and has it next."""
    handoffs = Under("handoffs")
    """Handoffs to later windows."""
    checkpoint = Under("checkpoint.json")
    """The task's state for machines."""
    progress = Under("progress.md")
    """The task's state for people."""
    notes = Under("notes.md")
    """The session's notes."""
    title = Under("title")
    """The name a person gave it, for lists; the transcript has it as the command that did."""
    server = Under("server")
    """There if the transcript is the copy of one on a server; says which."""
    profile = Under("profile.json")
    """What the session is, read off the transcript for lists; can be deleted at any time."""
    lost = Under("lost")
    """What was left of histories whose transcript is gone."""
    files = Under("files")
    """What workspace files were before and after tools changed them."""
    jobs = Under("jobs")
    """What commands in the background printed."""

    @property
    def derived(self) -> tuple[Path, ...]:
        """Files that are there and can only have come from a transcript."""
        made = (
            self.folder / EARLIER_INDEX,
            self.indexed,
            self.checkpoint,
            self.progress,
            self.notes,
            self.handoffs,
            self.blobs,
            self.files,
        )
        return tuple(path for path in made if os.path.lexists(path))

    def missing(self) -> NoSuchSession:
        """Why there is no transcript: nobody began it, or it is gone."""
        left = [path.name for path in self.derived]
        return HistoryMissing(self.key, left) if left else NoSuchSession(self.key, self._alike())

    def _alike(self) -> list[str]:
        """Sessions of the same agent that have this one's name in theirs, or nearly; a few."""
        from difflib import get_close_matches  # only whoever mistyped needs it

        with contextlib.suppress(OSError):
            others = sorted(path.name for path in self.folder.parent.iterdir())
            name = self.folder.name
            found = [other for other in others if name in other]
            return (found or get_close_matches(name, others))[:_MOST_ALIKE]
        return []


class AgentPlaces(msgspec.Struct, frozen=True):
    """The files of one agent."""

    agent: str
    folder: Path
    library: Path
    """Words and vectors of everything in its home: recall's cache."""
    identity = Under("IDENTITY.md")
    """Who the agent is."""
    user = Under("USER.md")
    """Whom it works for."""
    memory = Under("memory")
    """What it was allowed to remember."""
    log = Under("LOG.md")
    """Its operational ledger."""
    journals = Under("journals")
    """What consolidation wrote, a file a day."""
    sessions = Under("sessions")
    """A folder per session."""


class Places(msgspec.Struct, frozen=True):
    """Where this user's files live."""

    config: Path
    data: Path
    state: Path

    @classmethod
    def resolve(cls, environ: Mapping[str, str]) -> Places:
        """The system's own places, or all of them under `MINDSTONE_HOME`."""
        if home := environ.get("MINDSTONE_HOME"):
            try:
                root = Path(home).expanduser().absolute()
            except RuntimeError as error:
                raise PlaceError(
                    f"MINDSTONE_HOME is {home!r}, and nobody has such a home.",
                    "Set it to the path of a folder.",
                ) from error
            return cls(root, root, root / "state")
        dirs = platformdirs.PlatformDirs("mindstone", appauthor=False)
        return cls(dirs.user_config_path, dirs.user_data_path, dirs.user_state_path)

    @property
    def own(self) -> tuple[Path, ...]:
        """The folders that are ours alone: no tool looks into them."""
        return self.config, self.data, self.state

    config_file = Under("config.toml", "config")
    """The user's settings."""
    profiles = Under("profiles", "config")
    """Settings for kinds of work, a file each."""
    themes = Under("themes", "config")
    """The user's own themes."""
    hooks = Under("hooks.json", "config")
    """Programs that run at certain moments."""
    commands = Under("commands", "config")
    """The user's own slash commands, a Markdown file each."""
    skills = Under("skills", "config")
    """The user's skills, a folder each."""
    keys = Under("keys.toml", "config")
    """API keys, readable by their owner alone."""
    serve_token = Under(SERVE_TOKEN, "state")
    """What opens the resident: the token, and nothing else."""
    log = Under("mindstone.log", "state")
    """Tracebacks and diagnostics; never on the terminal."""
    rescued = Under("rescued", "state")
    """Where lines lie that no transcript could take."""
    models = Under("models", "data")
    """Weights that were fetched on request."""
    trust = Under("trust.json", "state")
    """Which project folders were trusted."""
    tool_pins = Under("tool-pins.json", "state")
    """What the tools of servers were declared as when they were first seen."""
    tool_tokens = Under("tool-tokens", "state")
    """What remote tool servers gave whoever signed in, a file for each."""
    library = Under("library.db", "data")
    """Words and vectors of every session: recall's cache."""
    agents = Under("agents", "data")
    """A folder per agent."""

    def agent(self, agent: str) -> AgentPlaces:
        """The places of one agent."""
        return AgentPlaces(agent, self.agents / folder_for(agent), self.library)

    def session(self, key: SessionKey) -> SessionPlaces:
        """The places of one session."""
        folder = self.agent(key.agent).sessions / folder_for(key.main)
        return SessionPlaces(key, folder, self.library)

    def sessions(self) -> Iterator[SessionPlaces]:
        """Every session that has a transcript, in no particular order."""
        if self.data.exists() and not self.data.is_dir():
            raise PlaceError(
                f"{self.data} is a file, but a folder is needed there.",
                "Move it away, or set MINDSTONE_HOME to another folder.",
            )
        for agent, agent_folder in _named_folders(self.agents):
            for main, folder in _named_folders(agent_folder / "sessions"):
                if os.path.lexists(f"{folder}/transcript.jsonl"):
                    yield SessionPlaces(SessionKey(agent, main), folder, self.library)


def _named_folders(root: Path) -> Iterator[tuple[str, Path]]:
    """Folders below `root`, through the levels of long names, that stand for a name."""
    for encoded, path in _leaves(str(root), ""):
        if (named := _named(encoded, path)) is not None:
            yield named


@lru_cache(8_192)  # all of them are listed for every prompt of an attached program
def _named(encoded: str, path: str) -> tuple[str, Path] | None:
    name = _name_or_none(encoded)
    return None if name is None else (name, Path(path))


def _leaves(root: str, relative: str) -> Iterator[tuple[str, str]]:
    """Relative and full paths; strings, because there may be thousands."""
    try:
        children = os.scandir(root)
    except (FileNotFoundError, NotADirectoryError):
        return
    with children:
        for child in children:
            inner = f"{relative}/{child.name}" if relative else child.name
            if not child.is_dir(follow_symlinks=False):
                continue
            if not child.name.endswith("+"):
                yield inner, child.path
            elif len(inner) < 2 * LONGEST_NAME:  # no name is longer, as it is written here
                yield from _leaves(child.path, inner)


def _name_or_none(encoded: str) -> str | None:
    """The name behind a folder; None for a folder that no name leads to."""
    if _PLAIN.fullmatch(encoded) and not _RESERVED.fullmatch(encoded):
        return encoded
    try:
        name = name_of(Path(encoded))
    except ValueError:
        return None
    return name if name and folder_for(name) == Path(encoded) else None


def written_beside(places: Places) -> Path:
    """There while files of other programs are written, and names them."""
    return places.state / "beside"


CUT_SHORT: Final = "…"


def session_named(places: Places, text: str, *, begun: bool = False) -> SessionKey:
    """The session that somebody names; one that ends in `…` is the only one that begins so.

    So is one that is meant to be `begun` and is not, if there is any. A bare name that the default
    agent has no session for may be another agent's.
    """
    name, cut = text.removesuffix(CUT_SHORT), text.endswith(CUT_SHORT)
    key = SessionKey.parse(name)
    if not cut and (not begun or places.session(key).folder.exists()):
        return key
    own = [each.key for each in places.sessions()]
    found = _that_begin(own, key)
    if not found and name == key.main:
        found = _that_begin(own, *{SessionKey(each.agent, name) for each in own})
    if not (found or cut):
        return key
    if len(found) != 1:
        raise SessionNameError(
            f"{len(found) or 'No'} sessions have a name that begins with {text}",
            "Write the whole name; `mindstone sessions --json` lists them.",
        )
    return found[0]


def _that_begin(own: Iterable[SessionKey], *with_one_of: SessionKey) -> list[SessionKey]:
    """Those whose name begins with one of these; not the sub-agents of a session that does."""
    wanted = tuple(map(str, with_one_of))
    return [
        each
        for each in own
        if any(
            str(each).startswith(start) and CHILD not in str(each)[len(start) :] for start in wanted
        )
    ]
