"""How a session may act: the gate it opens with, and the rules a person keeps."""

from __future__ import annotations

from mindstone_tui.core.agent.gate import Gate
from mindstone_tui.core.config import load
from mindstone_tui.core.config.editing import toml_value
from mindstone_tui.core.config.loading import store
from mindstone_tui.core.config.settings import ApprovalSettings
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.places import Places
from mindstone_tui.core.session.opening import Opening
from mindstone_tui.core.tools import probe
from mindstone_tui.core.tools.approvals import MODES, Mode
from mindstone_tui.core.tools.rules import Rule
from mindstone_tui.core.tools.sandbox import Sandbox


def gate_for(opening: Opening, approvals: ApprovalSettings) -> Gate:
    """Who decides whether a tool may run."""

    async def find_sandbox() -> Sandbox | None:
        found, _ = await probe.find(opening.environ, hidden=opening.places.own)
        return found

    rules = (
        *(Rule.parse("refuse", text) for text in approvals.deny),
        *(Rule.parse("allow", text, network=approvals.network) for text in approvals.allow),
    )
    return Gate(
        _mode(approvals.mode),
        rules,
        find_sandbox,
        asks=opening.asks,
        keep=lambda rule: keep_rule(opening.places, rule),
    )


def keep_rule(places: Places, rule: str) -> None:
    """Add a rule to the user's own settings."""
    known = load(places, {}).settings.approvals.allow
    if rule not in known:
        store(places, "approvals.allow", toml_value([*known, rule]))


def _mode(name: str) -> Mode:
    for mode in MODES:
        if mode == name:
            return mode
    raise UsageError(f"There is no approval mode {name}.", f"Use {', '.join(MODES)}.")
