"""Files that stand in the head of every prompt: who the agent is, the user, the project's own."""

from collections.abc import AsyncIterator, Sequence

from mindstone_tui.core.agent.system_prompt import SystemPrompt, cut_sections, standing_context
from mindstone_tui.core.entries.store import ProjectTrusted, TrustAsked
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.features.rules import RulesFeature
from mindstone_tui.core.library import open_questions
from mindstone_tui.core.session.features import Feature, WrongUse, command
from mindstone_tui.core.text import plural
from mindstone_tui.core.tools.trust import ProjectInstructions


class StandingFeature(Feature):
    """The agent's own files, and the instructions of a folder that is trusted."""

    name = "standing files"

    def standing(self) -> SystemPrompt:
        """Who the agent is and whom it works for, then the project within what is left."""
        context, session = self.context, self.session
        found = standing_context(
            session.home.agent(session.key.agent),
            session.cwd,
            count=context.count,
            room=context.settings.memory.standing_tokens,
            with_tools=context.info.tools,
            small=context.info.small,
        )
        share = context.share("system_prompt", context.target)
        taken = sum(context.count(section.text) for section in found.sections)
        room = max(share - taken, share // 2)
        instructions, cut = cut_sections(session.project.sections(), room, context.count)
        return SystemPrompt((*found.sections, *instructions), (*found.warnings, *cut))

    async def before_turn(self) -> Sequence[str]:
        """Which files of the project are not read for want of trust, which then waits."""
        unread = self.session.project.unread()
        if unread and self.session.opening.channel != "delegate":
            self._ask_for_trust(self.session.project.instructions())
        return [unread] if unread else []

    def _ask_for_trust(self, found: ProjectInstructions) -> None:
        """Write down, once in a session, that this content wants to be trusted."""
        asked = TrustAsked(folder=str(found.folder), digest=found.digest, files=_sizes(found))
        with self.context.transcript.history() as history:
            before = [
                line.entry for line in history.newest(("trust_asked",), open_questions.LOOKED_BACK)
            ]
        if asked not in before:
            self.context.window.record(asked, self.context.transcript.last_turn)

    @command("trust", usage="[yes | no [WHY]]", words=("yes", "no"))
    async def trust(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show what this folder wants to tell the model, and let it, or not.

        Trust is given to the exact content: when a byte changes, it is asked for again. A turn that
        runs hears of it with its next request.
        """
        word, _, rest = argument.partition(" ")
        mark, why = open_questions.mark_in(rest)
        if word not in ("", "yes", "no") or (why and word != "no"):
            raise WrongUse(f"/trust does not know `{argument}`.")
        found = self.session.project.instructions()
        now = open_questions.mark_of(str(found.folder), found.digest)
        open_questions.check_mark(
            mark, now, f"What is to be trusted in {found.folder}", "`/trust` there shows it"
        )
        project = self.session.project
        unseen = word == "yes" and found.state != "none" and not (mark or project.shown_at(found))
        if word == "no" or (word and found.state != "none" and not unseen):
            self._decide(found, trusted=word == "yes", why=why)
        found = project.show()
        if word == "no":
            kept = "; your reason is on record" if why else ""
            text = f"Declined: nothing that this folder says is read{kept}. `/trust` shows it."
        elif found.state == "none":
            text = "This folder has no instructions for the model."
        else:
            trusted = found.state == "trusted"
            files = open_questions.content_of(found, "run" if trusted else "would run")
            # What was printed into a shell is named by its mark: the next command is another run.
            yes = f"`/trust yes {now}`" if unseen or self.context.hand[1] < 0 else "`/trust yes`"
            how = "It is read in every turn." if trusted else f"{yes} lets it be read."
            if unseen:
                how = f"Nothing was decided: you had not seen this. {yes} trusts it."
            if rules := self.session.features.get(RulesFeature).adoptable():
                count = plural(len(rules), "sentence")
                how += f" {count} of it can be checked: /rules adopt lists them."
            text = f"{files}\n\nThis folder is {found.state}. {how}"
        yield CommandPrinted(text=text, ok=not unseen)

    def _decide(self, found: ProjectInstructions, *, trusted: bool, why: str) -> None:
        """Let this folder's instruction files be read as they are now, or not."""
        self.session.project.trust(found) if trusted else self.session.project.distrust()
        hand = {"why": why, **self.context.by_hand(self.session.project.shown_at(found))}
        folder, files = str(found.folder), _sizes(found)
        entry = ProjectTrusted(folder=folder, files=files, refused=not trusted, **hand)
        self.context.window.record(entry, self.context.transcript.last_turn)


def _sizes(found: ProjectInstructions) -> dict[str, str]:
    return {each.path: str(each.raw_size) for each in found.files}
