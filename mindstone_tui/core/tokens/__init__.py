"""How large a text is for a model: counted offline, corrected by what providers report.

`TokenCounter` counts, `Calibration` learns, `detect_cut` notices a server that dropped part of a
prompt. No number in here needs the network.
"""

from mindstone_tui.core.tokens.count import (
    UNCALIBRATED,
    Calibration,
    Counter,
    LengthCounter,
    TokenCounter,
    counter_for,
    detect_cut,
    encoding_for,
    error_percent,
    quick_count,
    rough_count,
)

__all__ = [
    "UNCALIBRATED",
    "Calibration",
    "Counter",
    "LengthCounter",
    "TokenCounter",
    "counter_for",
    "detect_cut",
    "encoding_for",
    "error_percent",
    "quick_count",
    "rough_count",
]
