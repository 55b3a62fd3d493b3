"""What a session is: whose it was, where it took place, which models answered, what it took.

A profile is read off the transcript once and kept in a small file beside it, so that the next look
reads only the lines that are new. The file can be deleted at any time.

One set of filters says for every surface which sessions, and which lines of them, are meant: the
command line has them as options, a search field among the words, `program:codex project:api port`.
What is said of days, models, roles, tools and files must be true of the same days.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final, Literal

import msgspec

from mindstone_tui.core import disk, errors, numbers, paths, patterns, transcript
from mindstone_tui.core.entries import IMPORTED, Line, Usage, conversation
from mindstone_tui.core.entries.base import added
from mindstone_tui.core.entries.provenance import ImportSource, Provenance, is_imported
from mindstone_tui.core.entries.store import SessionDescribed
from mindstone_tui.core.entries.window import InstructionsChanged, PromptPlanned, Restored, Rewound
from mindstone_tui.core.providers.catalogue import PriceBook
from mindstone_tui.core.text import one_line
from mindstone_tui.core.transcript import directory, reader
from mindstone_tui.core.values import alike

ROLES: Final = ("user", "assistant", "tool")
EXAMPLE: Final = "program:codex project:api since:2026-11-01"
"""How filters are typed into a search field."""
_DAY: Final = len("2026-03-31")
_THERE: Final = "~"
_NAMED: Final = patterns.pattern_of(
    r"""(?<!\S)(program|project|since|until|model|role|tool|file):("[^"]*"?|\S*)""", re.IGNORECASE
)


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions and lines are meant; empty means all."""

    program: str = ""
    """Its name, or the first word of it: `claude` is Claude Code and Claude.ai."""
    project: str = ""
    """Part of the folder's path."""
    since: str = ""
    until: str = ""
    model: str = ""
    """Part of a model's name."""
    role: str = ""
    tool: str = ""
    """Name of a tool that was called."""
    file: str = ""
    """Part of a file's path that a call names, or of the text that a line has."""

    @property
    def needs_profile(self) -> bool:
        """Whether a session must be on this machine to tell whether it is meant."""
        return bool(self.program or self.project or self.model)

    def whose(self) -> SessionFilter:
        """The same, without what must be asked of each line."""
        return msgspec.structs.replace(self, role="", tool="", file="")

    def takes(self, session: ListedSession, profile: SessionProfile) -> bool:
        """Whether a session is among them."""
        return (
            self._takes_program(session.program)
            and self.project.casefold() in session.folder.casefold()
            and (not self.since or max(session.used, numbers.local(session.used)) >= self.since)
            and (
                not self.until
                or min(session.began, numbers.local(session.began))[:_DAY] <= self.until
            )
            and self._takes_days(profile)
        )

    def takes_line(self, *, role: str, tool: str, text: str, ts: str) -> bool:
        """Whether a line of a session that is meant is; `tool` is whose result it is."""
        day = numbers.local(ts)[:_DAY]
        return (
            (not self.role or role == self.role)
            and (not self.tool or (role == "tool" and tool.casefold() == self.tool.casefold()))
            and self.file.casefold() in text.casefold()
            and (not self.since or day >= self.since)
            and (not self.until or day <= self.until)
        )

    def _takes_program(self, program: str) -> bool:
        asked = self.program.casefold()
        return not asked or program == asked or program.startswith(f"{asked}-")

    def _takes_days(self, profile: SessionProfile) -> bool:
        """Whether the days that are meant have what is looked for, not all on the same day."""
        if not (self.model or self.role or self.tool or self.file):
            return True
        days = [day for _, day in profile.days_between(self.since, self.until)]
        return (
            _contains(self.model, (name for day in days for name in (*day.models, *day.used)))
            and (not self.role or any(day.said.get(self.role) for day in days))
            and (not self.tool or any(_called(day, self.tool) for day in days))
            and _contains(self.file, (path for day in days for path in day.files))
        )


def _contains(part: str, names: Iterable[str]) -> bool:
    return not part or any(part.casefold() in name.casefold() for name in names)


def _called(day: DayProfile, tool: str) -> bool:
    return any(name.casefold() == tool.casefold() for name in day.tools)


class TypedSearch(msgspec.Struct, frozen=True):
    """What somebody typed into a search field."""

    words: str
    wanted: SessionFilter | None
    """None where no filter was typed."""


def read_typed(text: str) -> TypedSearch:
    """Tell filters from the words between them; a filter without a value is not there yet."""
    given: dict[str, str] = {}
    for found in _NAMED.finditer(text):
        given[found[1].casefold()] = found[2].strip('"').strip()
    words = " ".join(_NAMED.sub(" ", text).split())
    wanted = SessionFilter(**given)
    return TypedSearch(words, checked(wanted) if wanted != SessionFilter() else None)


def checked(wanted: SessionFilter) -> SessionFilter:
    """The same filter, its days as dates; raises a `UsageError` where it can mean nothing."""
    if wanted.role and wanted.role not in ROLES:
        raise errors.UsageError(f"Unknown role {wanted.role}.", "Use user, assistant or tool.")
    return msgspec.structs.replace(
        wanted, since=day_named(wanted.since, 0), until=day_named(wanted.until, 1)
    )


def day_named(text: str, end: Literal[0, 1]) -> str:
    """The date that somebody wrote or named, such as yesterday; of a week its first or last."""
    with contextlib.suppress(ValueError):
        if not text or date.fromisoformat(text).isoformat() == text:
            return text
    from mindstone_tui.core.recall.course import days_named  # half of what recall knows: 30 ms

    if (days := days_named(text, date.today())) is None:
        raise errors.UsageError(
            f"{text} is not a date.",
            "Write it as 2026-03-31, 3 feb, monday, yesterday or last week.",
        )
    return days[end].isoformat()


def _day_in(told: str) -> str:
    """The day that a time begins with; empty for one that never was, as others may tell it."""
    with contextlib.suppress(ValueError):
        return date.fromisoformat(told[:_DAY]).isoformat() if "1970" <= told < "9999" else ""
    return ""


OWN: Final = "mindstone"
"""The program of a session that began here."""
NO_NAME: Final = "unknown"
"""Stands where a session names no project, an answer no model, or a line no day."""
_MOST: Final = 2_000
"""Different files, tools and models that one day of a profile counts."""
_LONGEST_ARGUMENTS: Final = 20_000
_LONGEST_PATH: Final = 400
_MODELS_NAMED: Final = 3
_READ_ON: Final = 1 << 20
"""Bytes of a transcript beyond its kept profile that a list reads."""
_PATH: Final = patterns.pattern_of(
    r'"(?:file_?path|path|target_file|notebook_path|filename)"\s*:\s*"((?:[^"\\]|\\.){1,400})"',
    re.IGNORECASE,
)
_TELLS_NOTHING: Final = frozenset((b"tool_called", b"turn_ended"))
"""Kinds of which there are many, and nothing is taken here; they are not decoded."""
_TOOL_RESULT: Final = b"tool_returned"


def _version() -> str:
    """The rules that make a profile, and the time zone that its days are of."""
    return f"10 {time.tzname} {time.timezone}"


class DayProfile(msgspec.Struct, omit_defaults=True):
    """One day of a session."""

    turns: int = 0
    numbered: tuple[int, int] = (0, -1)
    """The first and the last of its turns."""
    rewound: frozenset[int] = frozenset()
    """Those of its turns that were taken back since."""
    said: dict[str, int] = {}
    """Lines of each role."""
    used: dict[str, Usage] = {}
    """What each model took."""
    models: dict[str, int] = {}
    """Answers of each model."""
    tools: dict[str, int] = {}
    files: dict[str, int] = {}
    cut_off: int = 0
    """Requests without an end, which they may still come to: what they cost is not known."""

    @property
    def messages(self) -> int:
        """What people and models said."""
        return self.said.get("user", 0) + self.said.get("assistant", 0)

    def add(self, other: DayProfile) -> None:
        """Count another day, or another account of the same day, with this one."""
        self.turns += other.turns
        self.rewound |= other.rewound
        self.cut_off += other.cut_off
        for model, usage in other.used.items():
            self.used[model] = added(self.used.get(model, Usage()), usage)
        for mine, theirs in (
            (self.said, other.said),
            (self.models, other.models),
            (self.tools, other.tools),
            (self.files, other.files),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count


class SessionProfile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session as a whole."""

    version: str = ""
    """Which rules it was made by; written down, so that another rule makes it anew."""
    salt: str = ""
    """Of the transcript that this was read off; another one begins anew."""
    read: int = 0
    """Bytes of the transcript that were read."""
    program: str = OWN
    title: str = ""
    """What the other program called it."""
    folder: str = ""
    """Where it took place, by what a file says if it was imported."""
    project: str = ""
    """The same, if there is more to it than a file's word; where it was begun, if that is known."""
    begun_in: str = ""
    sources: Provenance = msgspec.field(default_factory=Provenance)
    """What it was imported from."""
    branch: str = ""
    is_fork: bool = False
    started_by: str = ""
    conversation: str = ""
    began: str = ""
    ended: str = ""
    days: dict[str, DayProfile] = {}
    """By the day, and behind it `~` for what another program did on it."""
    asked: str = ""
    """The day of the last request, until it comes to an end."""
    described: dict[str, DayProfile] = {}
    """What the other program counted; its newest word replaces the one before."""

    def whole(self) -> DayProfile:
        """All days as one."""
        total = DayProfile()
        for day in (*self.days.values(), *self.described.values()):
            total.add(day)
        return total

    def usage(self) -> Usage:
        """Everything that models took."""
        total = Usage()
        for each in self.whole().used.values():
            total = added(total, each)
        return total

    def days_between(
        self, since: str = "", until: str = "", by: str = ""
    ) -> list[tuple[str, DayProfile]]:
        """The days on which something happened, or was done by a program; what has no date falls
        on the last of them."""
        spare = _day_in(numbers.local(self.ended or self.began)) or NO_NAME
        merged: dict[str, DayProfile] = {}
        told = ((f"{name}{_THERE}", day) for name, day in self.described.items())
        for name, day in (*self.days.items(), *told):
            if not by or by == (self.program if name.endswith(_THERE) else OWN):
                merged.setdefault(_day_in(name) or spare, DayProfile()).add(day)
        return [
            (name, day)
            for name, day in merged.items()
            if day != DayProfile() and (not since or name >= since) and (not until or name <= until)
        ]


class ListedSession(directory.SessionSummary, frozen=True, kw_only=True):
    """A session in a list, with what it is."""

    program: str = OWN
    folder: str = ""
    project: str = ""
    """The repository of that folder, or the folder; empty where only a file says that it is one."""
    branch: str = ""
    models: tuple[str, ...] = ()
    rewound: int = 0
    """How many of its turns were taken back."""
    began: str = ""
    used: str = ""
    """When somebody last said something in it: the other program's own time for imported ones."""
    tokens: int | None = None
    """Prompt and answers together, as far as they were recorded."""
    cost: float | None = None
    listed: float | None = None
    """Dollars for what nobody priced, by the list of prices; only where the profile was asked."""
    started_by: str = ""
    """The session whose sub-agent this is."""
    conversation: str = ""


def list_described(
    home: paths.Places, wanted: SessionFilter | None = None, book: PriceBook | None = None
) -> list[ListedSession]:
    """Every session with what it is, the one used last first.

    Without a filter only a little is read that was said since: a list must be quick.
    """
    if wanted is None:
        listed = [_listed(home, each) for each in directory.list_sessions(home)]
    else:
        listed = [each for each, _ in profiles_of(home, wanted, book)]
    project_in = paths.telling_projects()
    known = (msgspec.structs.replace(each, project=project_in(each.project)) for each in listed)
    return sorted(known, key=lambda each: each.used, reverse=True)


def profiles_of(
    home: paths.Places, wanted: SessionFilter, book: PriceBook | None = None
) -> Iterator[tuple[ListedSession, SessionProfile]]:
    """The sessions that are wanted, each with its profile up to its last line."""
    book = book or PriceBook()
    for summary in directory.list_sessions(home):
        places = home.session(paths.SessionKey(summary.agent, summary.main))
        profile = profile_of(places) or SessionProfile()
        listed = _described(places, summary, profile)
        if wanted.takes(listed, profile):
            priced = sum(book.missing(*one) or 0.0 for one in profile.whole().used.items())
            yield msgspec.structs.replace(listed, listed=priced or None), profile


def facts_of(session: ListedSession) -> str:
    """What is known of a session, in one line."""
    branch = f" ({session.branch})" if session.branch else ""
    models = ", ".join(session.models[:_MODELS_NAMED])
    if len(session.models) > _MODELS_NAMED:
        models += f" and {len(session.models) - _MODELS_NAMED:,} more"
    facts = (
        session.program,
        f"{session.folder}{branch}" if session.folder else session.branch,
        models,
        " to ".join(sorted({session.began[:_DAY], session.used[:_DAY]} - {""})),
        f"{numbers.tokens(session.tokens)} tokens" if session.tokens else "",
        numbers.spent(session.cost, session.listed),
    )
    return " · ".join(one_line(fact, _LONGEST_PATH) for fact in facts if fact)


def _listed(home: paths.Places, summary: directory.SessionSummary) -> ListedSession:
    places = home.session(paths.SessionKey(summary.agent, summary.main))
    kept = stored_profile(places) or SessionProfile()
    if 0 <= summary.size - kept.read <= _READ_ON:
        kept = profile_of(places) or kept
    return _described(places, summary, kept)


def _described(
    places: paths.SessionPlaces, summary: directory.SessionSummary, profile: SessionProfile
) -> ListedSession:
    usage, whole = profile.usage(), profile.whole()
    known = [each for each in (usage.prompt, usage.completion) if each is not None]
    title = profile.title if profile.title and not places.title.exists() else summary.title
    fields = {**msgspec.structs.asdict(summary), "title": title}
    if profile.is_fork:  # its numbers go on from its parent's
        fields["turns"] = whole.turns
    return alike(
        ListedSession,
        profile,
        **fields,
        models=tuple(whole.models),
        rewound=len(whole.rewound),
        used=_last_used(profile, summary),
        tokens=sum(known) if known else None,
        cost=usage.cost,
    )


def _last_used(profile: SessionProfile, summary: directory.SessionSummary) -> str:
    """When somebody last said something; an import's own time is no sign of that."""
    if profile.program == OWN or not profile.ended:
        return summary.updated
    # What is kept of a session may be older than what was said in it since.
    return max(profile.ended, summary.said)


def profile_of(places: paths.SessionPlaces) -> SessionProfile | None:
    """A session's profile up to its last line, and kept so; None where it cannot be read."""
    kept = stored_profile(places)
    with contextlib.suppress(OSError):
        if kept and kept.version == _version() and kept.read == places.transcript.stat().st_size:
            return kept
    before = kept.read if kept is not None else 0
    known = read_profile(places, kept)
    if known is not None and (known is not kept or known.read > before):
        keep_profile(places, known)
    return known


def current_profile(places: paths.SessionPlaces) -> SessionProfile | None:
    """A session's profile as it was last kept; made if there is none, or other rules made it."""
    kept = stored_profile(places)
    return kept if kept and kept.version == _version() else profile_of(places)


class Origins(msgspec.Struct, eq=False):
    """Where imported lines come from, for sessions as they lie on disk; each is looked up once."""

    _home: paths.Places
    _known: dict[str, Provenance] = {}

    def __call__(self, session: str, seq: int) -> ImportSource:
        """The program and the file of an imported line."""
        if session not in self._known:
            profile = current_profile(self._home.session(paths.SessionKey.parse(session)))
            self._known[session] = profile.sources if profile else Provenance()
        return self._known[session].of(seq)


def keep_profile(places: paths.SessionPlaces, profile: SessionProfile) -> None:
    """Keep a profile for the next list; one that cannot be kept is made again then."""
    with contextlib.suppress(errors.MindstoneError, OSError):
        disk.replace_file(places.profile, msgspec.json.encode(profile))


def read_profile(
    places: paths.SessionPlaces, known: SessionProfile | None = None
) -> SessionProfile | None:
    """What is known of a session brought up to its last line; None where it cannot be read."""
    try:
        with transcript.History(places) as history:
            salt = _salt(history)
            if (
                known is None
                or known.version != _version()
                or known.salt != salt
                or known.read > history.size
            ):
                known = SessionProfile(version=_version(), salt=salt)
            for start, raw in history.raw_from(known.read):
                known.read = start + len(raw) + 1
                if (kind := reader.named_kind(raw)) == _TOOL_RESULT:
                    _take_result(known, raw)
                elif kind not in _TELLS_NOTHING:
                    line = reader.read_line(raw, start)
                    if isinstance(line, Line):
                        _take(known, line)
    except (errors.MindstoneError, OSError):
        return None
    return known


def take_next(profile: SessionProfile, line: Line) -> None:
    """Add to a profile the line that begins where it has read to."""
    profile.read += len(line.raw) + 1
    _take(profile, line)


def profile_from(lines: Iterable[Line]) -> SessionProfile:
    """The profile of a session whose lines are at hand; nothing is kept."""
    profile = SessionProfile()
    for line in lines:
        _take(profile, line)
    return profile


def stored_profile(places: paths.SessionPlaces) -> SessionProfile | None:
    """A session's profile as it was last kept, however old."""
    return disk.read_stored(places.profile, SessionProfile)


def _salt(history: transcript.History) -> str:
    entry = history.header.entry
    return entry.salt if isinstance(entry, conversation.SessionOpened) else ""


class _When(msgspec.Struct):
    """All that a profile wants of a tool's result, which may be long: the rest is not decoded."""

    ts: str
    channel: str = ""
    parent: str | None = None


def _take_result(profile: SessionProfile, raw: bytes) -> None:
    with contextlib.suppress(msgspec.MsgspecError):
        when = msgspec.json.decode(raw, type=_When)
        if not when.parent:
            _count(profile.days.setdefault(_day_of(when), DayProfile()).said, "tool")


def _day_of(line: Line | _When) -> str:
    return numbers.local(line.ts)[:_DAY] + (_THERE if line.channel == IMPORTED else "")


def _take(profile: SessionProfile, line: Line) -> None:
    """Add one line to a profile; what a fork copied is counted where it was said."""
    entry = line.entry
    if line.parent or isinstance(entry, conversation.ToolCalled | conversation.TurnEnded):
        return
    day = profile.days.setdefault(_day_of(line), DayProfile())
    profile.sources.take(line)
    match entry:
        case conversation.SessionOpened(folder=folder, forked_from=point):
            profile.began, profile.is_fork = line.ts, point is not None
            profile.begun_in = profile.project = profile.folder = folder
        case SessionDescribed() if not profile.begun_in:  # else it was taken into a session of ours
            _describe(profile, entry)
        case conversation.TurnStarted():
            day.turns += 1
            day.numbered = (day.numbered[0] or line.turn, line.turn)
        case Rewound(to_turn=kept):
            for each in profile.days.values():
                first, last = each.numbered
                each.rewound |= frozenset(range(max(first, kept + 1), last + 1))
        case Restored(turns=turns):
            for each in profile.days.values():
                each.rewound -= frozenset(turns)
        case conversation.UserMessage():
            _count(day.said, "user")
            profile.ended = max(profile.ended, line.ts)
        case conversation.ToolReturned():
            _count(day.said, "tool")
        case PromptPlanned(purpose=""):
            day.cut_off, profile.asked = day.cut_off + 1, _day_of(line)
        case conversation.AssistantPartial() if not profile.asked and not is_imported(line):
            day.cut_off += 1  # it failed when it had begun to answer
        case conversation.AssistantMessage(model=model, calls=calls):
            _count(day.said, "assistant")
            profile.ended = max(profile.ended, line.ts)
            if model:
                _count(day.models, model)
            for call in calls:
                _count(day.tools, call.name)
                for path in files_in(call.arguments):
                    _count(day.files, path)
        case InstructionsChanged():
            if place := directory.place_of(entry):
                profile.project = profile.begun_in or place
                if profile.program == OWN or not profile.folder:
                    profile.folder = place
    if profile.asked and _ends(entry):
        profile.days[profile.asked].cut_off -= 1
        profile.asked = ""
    if (report := conversation.usage_in(entry)) is not None:
        used = added(day.used.get(report.model, Usage()), report.usage)
        day.used = {**day.used, report.model: used}
    if day == DayProfile():
        del profile.days[_day_of(line)]


def _ends(entry: object) -> bool:
    """Whether a request was answered, or refused; one that a person stopped was neither."""
    if isinstance(entry, conversation.ModelFailed):
        return not entry.purpose and entry.error != conversation.STOPPED
    return isinstance(entry, conversation.AssistantMessage)


def _describe(profile: SessionProfile, entry: SessionDescribed) -> None:
    for name in ("program", "title", "branch", "started_by", "conversation"):
        setattr(profile, name, getattr(entry, name))
    profile.folder = entry.folder or profile.folder
    if entry.believed and entry.folder:
        profile.project = entry.folder
    profile.began = entry.began or profile.began
    profile.ended = max(entry.ended, profile.ended)
    profile.described = {}
    for each in entry.used:
        day = profile.described.setdefault(each.day, DayProfile())
        day.used = {**day.used, each.model: added(day.used.get(each.model, Usage()), each.usage)}


def files_in(arguments: str) -> Iterator[str]:
    """The files that a call names."""
    for found in _PATH.finditer(arguments[:_LONGEST_ARGUMENTS]):
        with contextlib.suppress(msgspec.MsgspecError):
            yield one_line(msgspec.json.decode(f'"{found[1]}"', type=str), _LONGEST_PATH)


def _count(counts: dict[str, int], name: str) -> None:
    if name in counts or len(counts) < _MOST:
        counts[name] = counts.get(name, 0) + 1
