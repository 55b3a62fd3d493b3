"""A project's instructions in one step, as the tests look at them."""

from __future__ import annotations

from mindstone_tui.core.tools.trust import Looking, ProjectInstructions, judged, read_told
from mindstone_tui.core.tools.workspace import Workspace


def project_instructions(
    workspace: Workspace, trusted: str | None, *, limit: int = 32 * 1024
) -> ProjectInstructions:
    """Read a project's instructions; `trusted` is the digest its folder was trusted with."""
    told = read_told(workspace, Looking(workspace.cwd), limit=limit)
    return judged(told, workspace.cwd, trusted)
