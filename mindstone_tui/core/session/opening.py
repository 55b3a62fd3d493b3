"""Which session is opened, for whom, and how it may act."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.disk import REAL, Disk
from mindstone_tui.core.places import Places, SessionKey
from mindstone_tui.core.values import Value


class Opening(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """All that a surface says when it opens a session."""

    key: SessionKey
    places: Places
    environ: Mapping[str, str]
    cwd: Path
    channel: str
    model: str = ""
    """Answers while this surface is open; empty takes the session's own."""
    context_window: int = 0
    profile: str = ""
    approve: str = ""
    max_rounds: int = 0
    wait: bool = True
    """Wait for another surface's turn instead of refusing."""
    asks: bool = True
    """A person is there who can be asked."""
    follow: bool = True
    """Take in what other surfaces write while idle."""
    offered: tuple[str, ...] = ()
    """The only tools that are offered; empty for all."""
    disk: Disk = REAL
    """How bytes of the transcript reach the disk."""

    def settings(self) -> Settings:
        """The user's settings, with what this surface wants otherwise."""
        flags: dict[str, object] = {}
        if self.max_rounds:
            flags["tools.max_rounds"] = self.max_rounds
        if self.approve:
            flags["approvals.mode"] = self.approve
        return load(
            self.places, self.environ, profile=self.profile, flags=flags, project=self.cwd
        ).settings

    def for_child(
        self, key: SessionKey, *, model: str, offered: tuple[str, ...], calls: int
    ) -> Opening:
        """The same for a sub-agent: it looks with few tools, changes nothing and asks nobody."""
        return msgspec.structs.replace(
            self,
            key=key,
            channel="delegate",
            model=model,
            approve="read-only",
            max_rounds=calls,
            asks=False,
            follow=False,
            offered=offered,
        )
