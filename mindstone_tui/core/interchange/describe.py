"""What a foreign file says of its conversation as a whole, gathered while it is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.entries.base import added
from mindstone_tui.core.entries.store import SessionDescribed, UsedOn
from mindstone_tui.core.interchange.formats import base
from mindstone_tui.core.paths import is_folder
from mindstone_tui.core.text import one_line

_LONGEST: Final = 1_024
_LONGEST_PATH: Final = 4_096
_LONGEST_TITLE: Final = 200
_MOST_MODELS: Final = 64
_MOST_DAYS: Final = 4_000
"""Pairs of a day and a model; a line of the transcript must hold them all."""
_DAY: Final = len("2026-03-31")


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """What there is beside a file's own word for the folder that it names."""

    believes: Callable[[str, Path], bool] = lambda program, file: False
    """Whether a program's file is its own, on this machine."""
    folder: str = ""
    """Where the conversation takes place, if a person or the running program said so."""


NO_TRUST: Final = Trust()


class AnswerCounts:
    """Counts an answer once: what a file says again of the same answer replaces it."""

    def __init__(self) -> None:
        self._answer = ""
        self._counted = self._so_far = Usage()

    def more(self, record: base.Used) -> tuple[Usage, bool]:
        """What a record tells beyond the one before it, and whether it is of another answer."""
        if record.so_far:
            before, self._so_far = self._so_far, record.usage
            return added(record.usage, before, -1), True
        is_new = not record.answer or record.answer != self._answer
        before = Usage() if is_new else self._counted
        self._answer, self._counted = record.answer, record.usage
        return added(record.usage, before, -1), is_new


class Description(msgspec.Struct, eq=False):
    """Takes every record of one conversation, and remembers what describes it."""

    title: str = ""
    _began: str = ""
    _ended: str = ""
    _source: str = ""
    _about: base.About = msgspec.field(default_factory=base.About)
    _models: dict[str, None] = {}
    _used: dict[tuple[str, str], Usage] = {}
    _counts: AnswerCounts = msgspec.field(default_factory=AnswerCounts)

    def take(self, record: base.Record) -> None:
        """One more record."""
        match record:
            case base.Began(id=name, ts=ts):
                self._source = self._source or one_line(name, _LONGEST_TITLE)
                self._began = self._began or ts
            case base.Titled(title=title):
                self.title = one_line(title, _LONGEST_TITLE) or self.title
            case base.About():
                self._about = base.About(
                    folder=self._about.folder or one_line(record.folder, _LONGEST),
                    branch=one_line(record.branch, _LONGEST_TITLE) or self._about.branch,
                    parent=self._about.parent or one_line(record.parent, _LONGEST_TITLE),
                )
            case base.Used():
                self._use(record)
            case base.Said(ts=ts, model=model):
                self._date(ts)
                if model and model not in self._models and len(self._models) < _MOST_MODELS:
                    self._models[one_line(model, _LONGEST_TITLE)] = None
            case base.Gave(ts=ts):
                self._date(ts)

    def entry(
        self, program: str, parent_key: Callable[[str], str], file: Path, trust: Trust
    ) -> SessionDescribed:
        """What is known; `parent_key` turns the id of another conversation into its session."""
        folder = trust.folder or self._about.folder
        is_there = is_folder(folder)
        return SessionDescribed(
            program=program,
            path=one_line(str(file.absolute()), _LONGEST_PATH),
            believed=is_there and (bool(trust.folder) or trust.believes(program, file)),
            title=self.title,
            folder=folder,
            branch=self._about.branch,
            started_by=parent_key(self._about.parent) if self._about.parent else "",
            conversation=self._source,
            began=self._began,
            ended=self._ended,
            models=tuple(self._models),
            used=tuple(
                UsedOn(day=day, model=model, usage=usage)
                for (day, model), usage in sorted(self._used.items())
            ),
        )

    def _date(self, ts: str) -> None:
        self._began = self._began or ts
        self._ended = max(self._ended, ts)

    def _use(self, record: base.Used) -> None:
        """Count an answer for its day."""
        place = (self._ended[:_DAY], one_line(record.model, _LONGEST_TITLE))
        if place not in self._used and len(self._used) >= _MOST_DAYS:
            return
        self._used[place] = added(self._used.get(place, Usage()), self._counts.more(record)[0])
