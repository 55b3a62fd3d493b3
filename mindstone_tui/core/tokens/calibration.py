"""What was learned about each model's own way of counting.

After every answer the provider says how many tokens the prompt really had. The ratio to our own
count is kept, a few per model, and the median of them corrects the next estimate. The file is a
cache: a plan records the factor it used, so nothing is lost with it.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.disk import replace_file
from mindstone_tui.core.errors import NotSaved, PlaceError

UNCALIBRATED: Final = 1.05
"""Applied to a count nobody has checked yet."""
_KEPT: Final = 15
_SMALLEST: Final = 200
"""Prompts below this size say more about overhead than about the vocabulary."""
_PLAUSIBLE: Final = (0.4, 3.0)
_CUT_SHARE: Final = 0.6
_CUT_TOKENS: Final = 512


class _File(msgspec.Struct):
    ratios: dict[str, list[float]] = {}


class Calibration:
    """Ratios of reported to counted prompt tokens, per model, kept in a small file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._ratios: dict[str, list[float]] = {}
        if path is not None:
            try:
                self._ratios = msgspec.json.decode(path.read_bytes(), type=_File).ratios
            except (OSError, msgspec.DecodeError, msgspec.ValidationError):
                self._ratios = {}

    def factor(self, model: str) -> float | None:
        """The learned correction, or None before the first report."""
        ratios = self._ratios.get(model)
        return round(statistics.median(ratios), 4) if ratios else None

    def learn(self, model: str, counted: int, reported: int) -> bool:
        """Take in one report; False when it teaches nothing about the vocabulary."""
        if counted < _SMALLEST or not _PLAUSIBLE[0] <= reported / counted <= _PLAUSIBLE[1]:
            return False
        before = self.factor(model)
        ratios = [*self._ratios.get(model, ()), reported / counted][-_KEPT:]
        self._ratios[model] = ratios
        after = self.factor(model)
        if before is None or after is None or abs(after - before) > 0.005:
            self._save()
        return True

    def _save(self) -> None:
        if self._path is None:
            return
        rounded = {name: [round(r, 4) for r in kept] for name, kept in self._ratios.items()}
        try:
            replace_file(self._path, msgspec.json.encode(_File(ratios=rounded)))
        except (NotSaved, PlaceError):
            # A cache that cannot be written costs the next process its head start, nothing else.
            return


def detect_cut(sent: int, reported: int) -> bool:
    """Whether a server counted so much less than was sent that it must have dropped a part."""
    return reported < sent * _CUT_SHARE and sent - reported > _CUT_TOKENS


def error_percent(estimated: int, reported: int) -> float | None:
    """How far an estimate was off, in percent of what the provider reported."""
    return round((estimated - reported) / reported * 100, 2) if reported > 0 else None
