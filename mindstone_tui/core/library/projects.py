"""Which project a folder belongs to, which sessions are a project's, and which one goes on there.

A project is a repository, or a folder that is in none. A session belongs to the project in which it
was begun (an older one, which does not say that, to the one in which it was last at work). What was
imported belongs to one only if more than a file's word says so.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from mindstone_tui.core import paths
from mindstone_tui.core.interchange.discover import keeps_its_own
from mindstone_tui.core.library import profile as profiles


def session_in(home: paths.Places, folder: Path) -> paths.SessionKey:
    """The session that goes on in a folder: its project's last, else a new one named after it."""
    project = paths.project_of(folder.resolve())
    for found in sessions_held_in(home, project):
        return found.key
    if project == paths.from_home("~").resolve():
        return paths.DEFAULT_SESSION
    name = re.sub(r"\W+", "-", project.name.lower()).strip("-") or "root"
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    keys = (paths.SessionKey(paths.DEFAULT_SESSION.agent, each) for each in names)
    return next(key for key in keys if key != paths.DEFAULT_SESSION and _is_free(home.session(key)))


def sessions_held_in(home: paths.Places, project: Path) -> Iterator[paths.SessionPlaces]:
    """The sessions that somebody holds here in a project, the one used last first.

    Those of other programs and of sub-agents are not among them. What a sync brought beside a
    session was used elsewhere: it comes last until it was opened here.
    """
    found = [places for places, _ in reversed(ProjectSessions(home, {}).of(project))]
    for places in sorted(
        found, key=lambda each: paths.OF_OTHERS in each.key.main and not each.lease.exists()
    ):
        profile = profiles.current_profile(places)
        if profile is None or profile.program != profiles.OWN or profile.started_by:
            continue
        if paths.CHILD not in places.key.main:
            yield places


def folded(sessions: list[profiles.ListedSession]) -> list[profiles.ListedSession]:
    """The same sessions, each sub-agent right behind the session that started it."""
    listed = {each.session for each in sessions}
    children: dict[str, list[profiles.ListedSession]] = {}
    for each in sessions:
        if each.started_by in listed and each.started_by != each.session:
            children.setdefault(each.started_by, []).append(each)
    ordered: list[profiles.ListedSession] = []
    placed: set[str] = set()
    # Sub-agents that started each other in a circle have no beginning; they come last.
    roots = [each for each in sessions if each.started_by not in listed]
    for root in (*roots, *sessions):
        waiting = [root]
        while waiting:
            each = waiting.pop()
            if each.session not in placed:
                placed.add(each.session)
                ordered.append(each)
                waiting += reversed(children.get(each.session, []))
    return ordered


def by_project(
    sessions: Sequence[profiles.ListedSession],
) -> list[tuple[str, list[profiles.ListedSession]]]:
    """Sessions under the projects they belong to, in the order in which each first comes.

    The heading is empty where none belongs to any.
    """
    groups: dict[str, list[profiles.ListedSession]] = {}
    for each in sessions:
        groups.setdefault(each.project, []).append(each)
    if not any(groups):
        return [("", list(sessions))] if sessions else []
    return [(shown_folder(project), found) for project, found in groups.items()]


def shown_folder(project: str) -> str:
    """A project's folder for people: the user's own folder is `~`."""
    own = str(paths.from_home("~").resolve())
    inside = project == own or project.startswith(f"{own}{os.sep}")
    return f"~{project[len(own) :]}" if inside else project or "in no project"


def whose_and_where(program: str, folder: str) -> str:
    """A session's program and project in a few words: `codex · api`, and if that is not here."""
    away = "(not here)" if folder and not paths.is_folder(folder) else ""
    return " · ".join(filter(None, (program, Path(folder).name or folder, away)))


def _is_free(places: paths.SessionPlaces) -> bool:
    """Whether nobody has a session of this name, or one that never was in any project."""
    if not places.transcript.exists():
        return True
    profile = profiles.profile_of(places)
    return profile is not None and profile.program == profiles.OWN and not profile.project


class ProjectSessions:
    """The sessions of projects, those of other programs among them; for whoever asks often."""

    def __init__(self, home: paths.Places, environ: Mapping[str, str]) -> None:
        self._home = home
        self._environ = environ
        self._known: dict[paths.SessionKey, tuple[int, str]] = {}
        """When the profile was written that a session's folder is from, and the folder."""

    def of(self, project: Path) -> list[tuple[paths.SessionPlaces, int]]:
        """The project's sessions and how long each is, the one used last at the end.

        Where nothing was said yet, being opened counts: the lease is made then.

        Below a folder that is no repository, anything may lie: there only the folder itself counts.
        """
        place, is_repository = str(project), os.path.lexists(project / ".git")
        below = os.path.join(place, "")  # noqa: PTH118 - as text
        found: list[tuple[int, paths.SessionKey, paths.SessionPlaces, int]] = []
        for each in self._home.sessions():
            folder = self._folder(each)
            if folder != place and not (is_repository and folder.startswith(below)):
                continue
            with contextlib.suppress(OSError):
                told = os.stat(f"{each.folder}/transcript.jsonl")  # noqa: PTH116 - as below
                used = told.st_mtime_ns
                with contextlib.suppress(OSError):  # never opened
                    used = max(used, os.stat(f"{each.folder}/turn.lock").st_mtime_ns)  # noqa: PTH116
                found.append((used, each.key, each, told.st_size))
        return [(places, size) for _, _, places, size in sorted(found, key=lambda each: each[:2])]

    def _folder(self, places: paths.SessionPlaces) -> str:
        """Where a session took place, looked up again only when its profile changed."""
        changed = 0
        with contextlib.suppress(OSError):
            # As text: there may be hundreds, looked at for every prompt.
            changed = os.stat(f"{places.folder}/profile.json").st_mtime_ns  # noqa: PTH116
        known, folder = self._known.get(places.key, (-1, ""))
        if known != changed:
            profile = profiles.current_profile(places)
            project = _believed(profile, self._environ) if profile else ""
            folder = str(Path(project)) if project else ""
            self._known[places.key] = changed, folder
        return folder


def _believed(profile: profiles.SessionProfile, environ: Mapping[str, str]) -> str:
    """The project that a session belongs to; a file's word alone makes it belong to none.

    What was imported before that was written down is judged by where its file lay.
    """
    if profile.project or profile.sources.described.path or not profile.sources.taken:
        return profile.project
    _, source = profile.sources.taken[-1]
    return profile.folder if keeps_its_own(environ, source.program, Path(source.path)) else ""
