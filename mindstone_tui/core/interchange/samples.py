"""A long session that ships with the package, and questions whose answers stand in it.

Somebody builds a tide gauge service over nine days: early corrections matter late, decisions are
changed, and most of the room is taken by tool results. It is fiction, written for this purpose.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core.interchange.import_session import ImportReport, import_file
from mindstone_tui.core.paths import SAMPLE_AGENT
from mindstone_tui.core.transcript import Transcript

SAMPLE_SESSION: Final = f"agent:{SAMPLE_AGENT}:tidewatch"
"""Where the sample goes unless another session is named."""


class SampleProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A question about the sample, and how to tell a good answer from an outdated one."""

    family: Literal["fact", "correction", "why", "never said"]
    question: str
    expects: tuple[str, ...]
    """Words that stand in the source and belong into an answer."""
    outdated: tuple[str, ...]
    """Words of a statement that was corrected later."""
    sources: tuple[str, ...]
    """`source_id` of the messages that say it."""


def sample_file() -> Path:
    """The sample as plain messages."""
    return Path(str(files(__package__).joinpath("sample", "tidewatch.jsonl")))


def sample_probes() -> tuple[SampleProbe, ...]:
    """The questions, in the order of the conversation within each family."""
    raw = files(__package__).joinpath("sample", "probes.json").read_bytes()
    return msgspec.json.decode(raw, type=tuple[SampleProbe, ...])


def import_sample(transcript: Transcript) -> ImportReport:
    """Take the sample over; a second time adds nothing."""
    return import_file(sample_file(), transcript, format="messages")
