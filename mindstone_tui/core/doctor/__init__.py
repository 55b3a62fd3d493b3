"""Checks of an installation: the home, the engines under it, and what continuity rests on.

A room offers checks as functions `(CheckEnvironment) -> Iterable[Check]`; `mindstone doctor` lists
them. A check looks and reports; it repairs nothing, and it probes rather than assumes.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from mindstone_tui.core import config, errors, paths

Outcome = Literal["pass", "warn", "fail"]


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    id: str
    """Stable, as in `disk.space`: programs rely on it."""
    outcome: Outcome
    detail: str
    """What was found, in a sentence."""
    remedy: str = ""
    """What to do about it; empty when it passed."""


def passed(name: str, detail: str) -> Check:
    """All is well."""
    return Check(name, "pass", detail)


def warned(name: str, detail: str, remedy: str) -> Check:
    """Something to look at."""
    return Check(name, "warn", detail, remedy)


def failed(name: str, detail: str, remedy: str) -> Check:
    """Something that must be mended."""
    return Check(name, "fail", detail, remedy)


def refused(name: str, error: errors.MindstoneError) -> Check:
    """A check that met an error, in the error's own words."""
    return failed(name, error.what, error.remedy)


class CheckEnvironment(msgspec.Struct, frozen=True):
    """All that a check may look at."""

    places: paths.Places
    environ: Mapping[str, str]
    settings: config.Settings
    session: paths.SessionKey
