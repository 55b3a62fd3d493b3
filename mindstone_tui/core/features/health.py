"""The six measures of the working set after every turn, alerts, and `/health`."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui import __version__
from mindstone_tui.core.agent.health import Health
from mindstone_tui.core.disk import replace_file
from mindstone_tui.core.entries.derived import SummaryJudged
from mindstone_tui.core.entries.window import Alert, ContextWindowPruned
from mindstone_tui.core.events import AlertsCleared, AnyEvent, CommandPrinted
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.features.recall import RecallFeature
from mindstone_tui.core.health.metrics import otlp, prometheus
from mindstone_tui.core.health.monitor import health_data, health_text
from mindstone_tui.core.session.features import EndedTurn, Feature, Happening, WrongUse, command
from mindstone_tui.core.session.services import SessionServices

FORMATS: Final = ("prometheus", "otlp")


class HealthFeature(Feature):
    """How well the working set does."""

    name = "health"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self.health = Health(self.context, session.places, session.past, self._probe)

    async def _probe(self, query: str, k: int) -> Sequence[str]:
        found = await self.session.recall.search(query, k, "session", aside=True)
        return [hit.text for hit in found.hits]

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Take the turn's six measures; what left the window is probed for."""
        health, recall = self.health, self.session.recall
        left = [each.entry for each in turn.lines if isinstance(each.entry, ContextWindowPruned)]
        probed = await health.probe([one.span for one in left[-1].left]) if left else None
        written = health.after_turn(
            turn.lines,
            measured=probed.score if probed is not None else None,
            lag=await recall.unindexed(),
            recall_failed=bool(self.session.features.get(RecallFeature).failed),
            vectors=recall.vectors,
        )
        told = list(announcements(*written))
        if health.cleared:
            told.append(AlertsCleared(turn=turn.number, metrics=health.cleared))
        return told

    def alerts(self) -> Sequence[Alert]:
        """What `/health` says is wrong."""
        return self.health.monitor.alerts

    def forget(self) -> None:
        """Read the measures anew."""
        self.health.forget()

    @command("health", usage="[prometheus [FILE] | otlp [FILE] | judge]", words=(*FORMATS, "judge"))
    async def show_health(self, argument: str) -> AsyncIterator[Happening]:
        """Show the six measures of the working set, alerts and the trend.

        `prometheus` and `otlp` export them, to a file where one is named. `judge` lets the model
        say how much of its originals the newest summary still knows.
        """
        monitor = self.health.monitor
        verb, _, name = argument.partition(" ")
        if verb in FORMATS:
            text = self._exported(verb)
            if name.strip():
                replace_file(Path(self.session.cwd) / name.strip(), text.encode())
                text = f"Written to {name.strip()}."
            yield CommandPrinted(text=text)
        elif verb == "judge":
            judged, lines = await self.health.judge(self.session.modes.ask)
            yield announcements(*lines[1:])
            verdict = lines[0].entry
            assert isinstance(verdict, SummaryJudged)
            gate = "passes" if verdict.passes else "does not pass"
            held = f" It {gate} the gate of {verdict.gate:.0%}." if judged.score is not None else ""
            yield CommandPrinted(
                text=judged.sentence() + held,
                data={
                    **msgspec.to_builtins(judged),
                    "gate": verdict.gate,
                    "passes": verdict.passes,
                },
            )
        elif argument:
            raise WrongUse(f"/health does not know `{argument}`.")
        else:
            report = self.context.report()
            full = report.prompt.tokens / max(report.usable, 1)
            yield CommandPrinted(
                text=health_text(monitor, full, report.usable, report.outside.count),
                data=health_data(monitor),
            )

    def _exported(self, form: str) -> str:
        monitor, session = self.health.monitor, str(self.session.key)
        history = monitor.history
        if form == "prometheus":
            return prometheus(
                [(session, each) for each in history[-1:]],
                [(session, each) for each in monitor.alerts],
            )
        return msgspec.json.encode(otlp(session, history, version=__version__)).decode()
