"""The folder a session works in: what it wants to tell the agent, and whether it may."""

from __future__ import annotations

from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.tools.trust import ProjectInstructions, TrustFile, project_instructions
from mindstone_tui.core.tools.workspace import Workspace


class Project:
    """One folder and the trust in it."""

    def __init__(self, workspace: Workspace, trust: TrustFile) -> None:
        self._workspace = workspace
        self._trust = trust

    def instructions(self) -> ProjectInstructions:
        """The folder's instruction files as they are now."""
        folder = self._workspace.cwd
        return project_instructions(self._workspace, self._trust.digest(folder))

    def trust(self, found: ProjectInstructions) -> None:
        """Let these files be read, with exactly this content."""
        self._trust.trust(found.folder, found.digest)

    def distrust(self) -> None:
        """Read the folder's instruction files no longer."""
        self._trust.forget(self._workspace.cwd)

    def sections(self) -> list[Section]:
        """What the folder may say, for the head of the prompt."""
        return [
            Section(
                name="project",
                text=f"Instructions of this project, from {each.path}:\n\n{each.text}",
                source=each.path,
                raw_size=each.raw_size,
            )
            for each in self.instructions().in_force
        ]

    def unread(self) -> str:
        """Which files are not read for want of trust, in a sentence; empty when there are none."""
        found = self.instructions()
        if found.state not in ("untrusted", "changed"):
            return ""
        names = ", ".join(each.path for each in found.files)
        why = "changed since it was trusted" if found.state == "changed" else "is not trusted"
        return f"This folder {why}, so {names} is not read; `/trust` allows it."
