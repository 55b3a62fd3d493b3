"""The programs that run at certain moments: read anew before each turn, listed by `/hooks`."""

from collections.abc import AsyncIterator, Sequence

from mindstone_tui.core.agent.hooks import shown
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.session.features import Feature, command


class HooksFeature(Feature):
    """Hooks of the person and of a trusted project."""

    name = "hooks"

    def standing(self) -> SystemPrompt:
        """What hooks said when the session began."""
        said = self.context.hooks.started
        return SystemPrompt(
            (Section(name="hooks", text=said, source="SessionStart"),) if said else ()
        )

    async def before_turn(self) -> Sequence[str]:
        """Read the files again; what is wrong in them."""
        self.context.hooks.refresh()
        return self.context.hooks.problems

    @command("hooks")
    async def hooks(self, argument: str) -> AsyncIterator[AnyEvent]:
        """List the programs that run at certain moments, with their exact commands.

        They stand in hooks.json beside config.toml, and in .mindstone/hooks.json of a trusted
        project.
        """
        found = self.context.hooks
        found.refresh()
        text = (
            shown(found.all)
            or f"There are no hooks. They would stand in {self.session.home.hooks}."
        )
        yield CommandPrinted(text="\n".join([text, *found.problems]))
