"""Options that several verbs share, so that they are spelled and explained once."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.paths import Places, SessionKey

if TYPE_CHECKING:
    from mindstone_tui.core.session.profile import SessionFilter

SessionOption = Annotated[
    str,
    typer.Option(
        "--session",
        "-s",
        metavar="KEY",
        help="Session: agent:<agentId>:<mainKey>, or a thread name.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ProfileOption = Annotated[str, typer.Option("--profile", metavar="NAME", help="Settings profile.")]

ProgramOption = Annotated[
    str, typer.Option("--program", metavar="NAME", help="Of this program: codex, mindstone, …")
]
ProjectOption = Annotated[
    str, typer.Option("--project", metavar="TEXT", help="In a folder whose path has this in it.")
]
SinceOption = Annotated[
    str, typer.Option("--since", metavar="DATE", help="Used on this day or later.")
]
UntilOption = Annotated[
    str, typer.Option("--until", metavar="DATE", help="Begun on this day or earlier.")
]
ModelFilterOption = Annotated[
    str, typer.Option("--model", metavar="TEXT", help="Answered by a model with this in its name.")
]


def places() -> Places:
    """Where this user's files live."""
    return Places.resolve(os.environ)


def session_key(option: str) -> SessionKey:
    """The session that was named, else the one the settings name."""
    if option:
        return SessionKey.parse(option)
    from mindstone_tui.core.config import load

    return SessionKey.parse(load(places(), os.environ).settings.session.default)


def session_filter(
    program: str, project: str, since: str, until: str, model: str
) -> SessionFilter | None:
    """What the options ask for; None where they ask for nothing."""
    if not (program or project or since or until or model):
        return None
    from mindstone_tui.core.session.profile import SessionFilter, checked_day

    return SessionFilter(
        program=program,
        project=project,
        since=checked_day(since),
        until=checked_day(until),
        model=model,
    )


def check_kinds(kinds: Collection[str], known: Collection[str]) -> None:
    """Refuse a kind of line that does not exist, with the nearest one that does."""
    from mindstone_tui.core.config.edit import nearest

    for kind in kinds:
        if kind not in known:
            near = nearest(kind, known)
            raise UsageError(
                f"Unknown entry kind {kind!r}.",
                f"{f'Did you mean {near}? ' if near else ''}There are: {', '.join(sorted(known))}.",
            )
