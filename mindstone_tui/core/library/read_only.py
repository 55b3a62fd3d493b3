"""Looking at a session's window without opening anything for writing."""

from collections.abc import Mapping

import msgspec

from mindstone_tui.core import entries, errors, paths, transcript, values
from mindstone_tui.core.config import load
from mindstone_tui.core.context import build_report, report, window_view
from mindstone_tui.core.context.plan import plans_of_turn
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.library.vectors import pending_in
from mindstone_tui.core.providers.registry import resolve, session_model
from mindstone_tui.core.tokens import Calibration


class Look(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """What to look at, and with whose eyes."""

    key: paths.SessionKey
    places: paths.Places
    environ: Mapping[str, str]
    turn: int = 0
    call: int = 0
    model: str = ""
    context_window: int = 0
    profile: str = ""


def look_at(look: Look) -> report.ContextReport:
    """The report on the next prompt, or on one of the past."""
    settings = load(look.places, look.environ, profile=look.profile).settings
    with transcript.History(look.places.session(look.key)) as history:
        if look.turn:
            return build_report.report_at(history, settings, _plan(history, look.turn, look.call))
        calibration = Calibration(look.places.state / "calibration.json")
        waiting = pending_in(look.places.session(look.key))
        view = window_view.View(
            history, settings, calibration=calibration, by_words=lambda: waiting
        )
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
        call = window_view.Call(
            model=model,
            turn=view.fold.turn,
            room=view.room(0 if label == "assumed" else tokens, label),
            images=info.images,
            sounds=info.sounds,
        )
        return build_report.build(view, call)


def newest_window(history: transcript.History) -> int:
    """The window that the newest request of a session was made for; 0 where none was."""
    plans = (line.entry for line in history.newest(["prompt_planned"], history.head.seq + 1))
    turns = (one.window for one in plans if isinstance(one, PromptPlanned) and not one.purpose)
    return next(turns, 0)


def _plan(history: transcript.History, turn: int, call: int) -> entries.Line:
    chosen = [line for line in plans_of_turn(history, turn) if not call or _number(line) == call]
    if chosen:
        return chosen[-1]
    raise errors.NoSuchEntry(
        f"Turn {turn} sent no request{f' {call}' if call else ''}.",
        "Imported turns never did; `mindstone log` shows what there is.",
    )


def _number(plan: entries.Line) -> int:
    return plan.entry.call if isinstance(plan.entry, PromptPlanned) else 0
