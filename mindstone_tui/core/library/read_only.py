"""Looking at a session's window without opening anything for writing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mindstone_tui.core.config import load
from mindstone_tui.core.context import build_report
from mindstone_tui.core.context.build_report import report_at
from mindstone_tui.core.context.plan import plans_of_turn
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.context.window_view import Call, View
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.library.vectors import pending_in
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.providers.registry import resolve, session_model
from mindstone_tui.core.tokens import Calibration
from mindstone_tui.core.transcript import History
from mindstone_tui.core.values import Value


class Look(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What to look at, and with whose eyes."""

    key: SessionKey
    places: Places
    environ: Mapping[str, str]
    turn: int = 0
    call: int = 0
    model: str = ""
    context_window: int = 0
    profile: str = ""


def look_at(look: Look) -> ContextReport:
    """The report on the next prompt, or on one of the past."""
    settings = load(look.places, look.environ, profile=look.profile).settings
    with History(look.places.session(look.key)) as history:
        if look.turn:
            return report_at(history, settings, _plan(history, look.turn, look.call))
        calibration = Calibration(look.places.state / "calibration.json")
        view = View(history, settings, calibration=calibration)
        waiting = pending_in(look.places.session(look.key))
        view.by_words = lambda: waiting
        plan = view.fold.plan
        last = plan.entry if plan is not None else None
        before = last.model if isinstance(last, PromptPlanned) else ""
        model = look.model or session_model(view.fold.model_changed, settings.models, before)
        info = resolve(model, settings.models, look.places, look.environ).info(model)
        known = info.window
        tokens = look.context_window or settings.context.window
        if not tokens and isinstance(last, PromptPlanned) and model == last.model:
            tokens, label = last.window, last.window_label
        elif tokens:
            label = "set"
        else:
            tokens, label = (known.tokens, known.label) if known else (0, "assumed")
        call = Call(
            model=model,
            turn=view.fold.turn,
            room=view.room(0 if label == "assumed" else tokens, label),
            images=info.images,
            sounds=info.sounds,
        )
        return build_report.build(view, call)


def _plan(history: History, turn: int, call: int) -> Line:
    plans = plans_of_turn(history, turn)
    chosen = [line for line in plans if not call or _number(line) == call]
    if chosen:
        return chosen[-1]
    raise NoSuchEntry(
        f"Turn {turn} sent no request{f' {call}' if call else ''}.",
        "Imported turns never did; `mindstone log` shows what there is.",
    )


def _number(plan: Line) -> int:
    return plan.entry.call if isinstance(plan.entry, PromptPlanned) else 0
