"""What earlier sessions of a project know at the moment of an act: one line, or nothing.

Before a file is changed, what a person settled about it; before a command, what worked where it was
called wrongly so; after a failure, the command that ended that error. Words are quoted and dated.
Each file, command and error is spoken of once in a session, and the one who acts never waits: what
is not at hand yet is not told.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from mindstone_tui.core import errors, paths, patterns, tokens, transcript
from mindstone_tui.core.entries import ToolCall, actions, conversation
from mindstone_tui.core.entries.marks import OF_ITSELF
from mindstone_tui.core.language import lists
from mindstone_tui.core.language.sentences import prose
from mindstone_tui.core.language.words import plain_words
from mindstone_tui.core.library import all_sessions, projects
from mindstone_tui.core.recall.acts import Act, Done, calls_in, named_in, programs_of, signature_of
from mindstone_tui.core.statements.recogniser import kind_of_sentence
from mindstone_tui.core.text import INJECTED, as_data, fresh_nonce, one_line
from mindstone_tui.core.tools import programs

MOST_TOKENS: Final = 120
"""Most that one act is told, label included."""
_QUOTED: Final = (200, 140, 110, 80, 60, 40)
"""Characters of a quotation, tried in this order until everything fits."""
_LEAVES_ROOM: Final = 48
"""Characters of a command beside which there is room for why the other failed."""
_LOOKED_AT: Final = 40
_EXCHANGES: Final = 4
"""Exchanges that changed a file whose words are looked at, the newest first."""
_LEAST_STEM: Final = 4
"""Letters from which on a file's name without its ending is a word of its own."""
_SAYS_SOMETHING: Final = 6
"""Words that a sentence must have."""
_NAMES_AN_ERROR: Final = 3
"""Words that an error must have beside those that any error has."""
_SOON: Final = 12
"""Acts after a failure among which its end is looked for."""
_OUTPUT: Final = "\nOutput:\n"
"""What Codex writes between how a command went and what it said."""
_END_OF_OUTPUT: Final = 400
_ALIKE: Final = 0.5
"""The share of their words that the ends of two outputs have in common if they say the same."""
_STEPS: Final = 2
"""Commands that may have ended an error together; of more, nobody knows which."""
_IN_ANY_ERROR: Final = frozenset(
    ["error", "errors", "failed", "failure", "fatal", "exception", "assert", "assertionerror",
     "traceback", "exit", "code", "the", "and", "not", "test", "tests", "line"]
)  # fmt: skip
_SETTLES: Final = frozenset(["rule", "correction", "memory", "preference", "decision"])
_DICTATED: Final = 700
"""Characters from which on a message was hardly written by hand."""
_AROUND: Final = patterns.pattern_of(
    r"\A(?:cd \S+ *(?:&&|;) *)+"
    r"|(?<!\s)\s*+(?:\d?>&\d|\d?> */dev/null|\|\s*(?:tail|head|cat)\b.*+\Z)"
)
"""What stands around a command and is no part of how it is called."""
_WHERE: Final = patterns.pattern_of(r"\A(?:/\S+/)?(?:\(eval\)|\w*sh)\S*(?: line)? ?\d*: ")
"""The shell that says it."""
_LONG_NAME: Final = patterns.pattern_of(r"(?<=-[0-9a-f]{8}-[0-9a-f]{4})-[0-9a-f-]{22}\Z")
"""What follows in another program's name for a session: its beginning is enough to find it by."""
_INTO: Final = patterns.pattern_of(r"(\A|&&|;)\s*cd (\S+) *(?:&&|;)")
_PIPED: Final = patterns.pattern_of(r"(?<!\|)\|(?!\|)(?!\s*(?:tail|head|cat)\b)")
_BEFORE_IT: Final = lists.pattern_beside(__file__, "before it", re.IGNORECASE)
_NOT_BY_ITSELF: Final = lists.pattern_beside(__file__, "not by itself", re.IGNORECASE)
"""What was pasted, and what means nothing without what was said before it."""
_FOR_ONCE: Final = lists.pattern_beside(__file__, "for once", re.IGNORECASE)
"""What is only thought of, asked for once, or to be written down somewhere."""
_BECAUSE: Final = lists.pattern_beside(__file__, "because", re.IGNORECASE)
"""What makes a request worth knowing the next time."""
_WRITTEN_OUT: Final = patterns.pattern_of(r"(?m)^(?:#{1,6} |```|\|.*\|$)|\AImplement the following")
"""A plan or a page, which a program wrote."""
_WRONG_FORM: Final = lists.pattern_beside(__file__, "wrong form", re.IGNORECASE)
"""Failures that lie in how something was called, and not in what it then found."""
_ONLY_SUMS_UP: Final = lists.pattern_beside(__file__, "only sums up", re.IGNORECASE)
"""That something failed, as it is said of any failure of this program."""
_OF_THE_PLACE: Final = lists.pattern_beside(__file__, "of the place", re.IGNORECASE)
"""Errors of where the work is done, which come again; what tests find is of the code at hand."""
_OF_THE_FOLDER: Final = lists.pattern_beside(__file__, "of the folder", re.IGNORECASE)
"""What a folder lacks, and another may have."""
_PASSES: Final = lists.pattern_beside(__file__, "passes", re.IGNORECASE)
"""What is over after a while, whatever is done meanwhile."""
_HAS_PATH: Final = patterns.pattern_of(r"(?:\A|[;&]\s*)(?:export |source |\. )|\bPATH=")
"""What changes where programs are found."""
_LOOKS: Final = frozenset(["cd", "sleep", "echo", "printf", "true", "test", "["])
_SHOWS: Final = frozenset(["cat", "tail", "head", "grep", "sed", "less"])
_NAMES_FILES: Final = frozenset(["cp", "mkdir", "mv", "rm", "touch"])
"""Programs whose failure says only what lies where, beside those that only look."""
_WAITS: Final = 0.01
"""Seconds for which an act waits while what was done lately is read."""


class AtAction:
    """Speaks before and after acts, from all sessions of their project but the one that acts."""

    def __init__(
        self, home: paths.Places, environ: Mapping[str, str], excluded: Collection[str] = ()
    ) -> None:
        self._home = home
        self._excluded = frozenset(excluded)
        self._sessions = projects.ProjectSessions(home, environ)
        self._library = all_sessions.AllSessions(home, None)
        self._known: dict[Path, tuple[paths.SessionKey, ...]] = {}
        """The sessions of each project, as they were when it was last made ready."""
        self._told: set[tuple[paths.SessionKey, str]] = set()
        self._asked: set[tuple[paths.SessionKey, str]] = set()
        """What nothing was known of since it was last made ready."""
        self._lock = threading.Lock()

    def get_ready(self, folder: Path, *, read: bool = True) -> None:
        """Learn which sessions a project has and, if told to `read`, what they did since.

        Without that it costs a look at each session; what is in the library already is known.
        """
        project = paths.project_of(folder)
        with self._lock:
            found = [
                each
                for each, _ in self._sessions.of(project)
                if str(each.key) not in self._excluded
            ]
            unread = self._library.bring_up_to_date(found) if read else []
            self._known[project] = tuple(each.key for each in found if each not in unread)
            self._asked.clear()

    def before(self, call: ToolCall, folder: Path, own: paths.SessionKey) -> str:
        """What is worth knowing before a call; empty for nothing."""
        targets = actions.targets_of(call)
        if actions.kind_of(call.name) == "command" and targets:
            if not (patched := actions.PATCHED.findall(targets[0])):
                return self._ask(own, folder, targets[0], _how_it_worked)
            targets = tuple(patched)
        elif actions.kind_of(call.name) != "change":
            return ""
        project = paths.project_of(folder)
        for each in targets:
            path = os.path.relpath(folder / each, project)
            path = str(folder / each) if path.startswith("..") else path
            if said := self._ask(own, folder, path, partial(self._settled_about, project)):
                return said
        return ""

    def after(
        self,
        call: ToolCall,
        result: conversation.ToolReturned,
        folder: Path,
        own: paths.SessionKey,
        *,
        ends_known: bool = True,
    ) -> str:
        """What ended the error before that a command met now; empty for nothing."""
        if actions.kind_of(call.name) != "command":
            return ""
        command = next(iter(actions.targets_of(call)), "")
        error = actions.failure_of(call, result)
        if not error and not ends_known:
            # Codex does not say how a command ended: the last line of what it printed does.
            said = result.text.rstrip()
            error = said if named_in(said.rpartition("\n")[2]) else ""
        signature = signature_of(error)
        telling = set(plain_words(signature)) - _IN_ANY_ERROR
        if len([word for word in telling if len(word) > 2]) < _NAMES_AN_ERROR:
            return ""
        if _ONLY_SUMS_UP.search(signature) or not _OF_THE_PLACE.search(error[-_END_OF_OUTPUT:]):
            return ""
        return self._ask(own, folder, signature, partial(_what_ended, command, error))

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._library.close()

    def _ask(
        self,
        own: paths.SessionKey,
        folder: Path,
        about: str,
        ask: Callable[[Done, str], tuple[str, str] | None],
    ) -> str:
        """A line about something that this session was not told of yet."""
        if (known := (own, about)) in self._told or known in self._asked:
            return ""
        if not self._lock.acquire(timeout=_WAITS):
            return ""
        try:
            others = [key for key in self._known.get(paths.project_of(folder), ()) if key != own]
            found = self._library.done(others, lambda done: ask(done, about)) if others else None
            if found is None or (own, found[1]) in self._told:
                self._asked.add(known)
                return ""
            self._told |= {known, (own, found[1])}
            return _fitting(*found)
        finally:
            self._lock.release()

    def _settled_about(self, project: Path, done: Done, path: str) -> tuple[str, str] | None:
        """What a person settled about a file when it was changed."""
        changes = [
            act
            for act in done.touching(path, _LOOKED_AT)
            if act.kind == "change" and act.ok and not act.rewound  # its words do not count
            if _is_same(act.about, path, project)
        ]
        exchanges = list({_exchange(act): act for act in changes}.values())
        for act in exchanges[:_EXCHANGES]:
            # What does not name the file was said about something else, read again later.
            for one, marks in self._said_in(act, lambda one: _names(one, path) and _settles(one)):
                return f"About {path}, {', '.join((_place(act), *marks))}:", one
        return None

    def _said_in(self, act: Act, telling: Callable[[str], bool]) -> Iterator[tuple[str, list[str]]]:
        """The telling sentences of the person in the exchange of an act that hold, and how.

        How lines stand is folded from the whole history, so only where one of them tells.
        """
        places = self._home.session(paths.SessionKey.parse(act.session))
        with (
            contextlib.suppress(errors.MindstoneError, OSError),
            transcript.History(places) as history,
        ):
            # The person spoke before the first answer, and what follows may be long.
            for line in history.turn(act.turn, before=conversation.AssistantMessage):
                if isinstance(line.entry, conversation.UserMessage):
                    whole = history.whole(line).entry
                    text = whole.text if isinstance(whole, conversation.UserMessage) else ""
                    if len(text) > _DICTATED or _WRITTEN_OUT.search(text):
                        continue
                    said = (" ".join(sentence.text.split()) for sentence in prose(text))
                    if not (told := [one for one in said if telling(one)]):
                        continue
                    judged = transcript.standings_of(history)
                    # What another line replaced settles nothing any more.
                    if judged.replaced_by(line.seq) is not None:
                        continue
                    gone = {one for it in judged.corrected_by(line.seq).values() for one in it}
                    marks = judged.told(line, but=("corrected", *OF_ITSELF), short=True)
                    yield from ((one, marks) for one in told if one not in gone)


class _Misuse(NamedTuple):
    """How something was called wrongly: words of a call that its error names."""

    call: tuple[str, ...]
    named: frozenset[str]

    @staticmethod
    def of(act: Act) -> _Misuse | None:
        """What an error says of the command that met it; None if it says nothing of its words."""
        reason = act.reason
        if act.ok or not _WRONG_FORM.search(reason) or _ONLY_SUMS_UP.search(reason):
            return None
        for call in calls_in(act.about):
            named = frozenset(word for word in call if _quotes(reason, word))
            named = named - {call[0]} or named  # a program says its name with what it says
            if named and not _looks(call) and _bare(call[0]) not in _NAMES_FILES:
                return _Misuse(call, named)
        return None

    def is_in(self, command: str) -> bool:
        """Whether a command makes the same mistake."""
        if self.call[0] in self.named and _HAS_PATH.search(command):
            return False
        known = self.named & frozenset(self.call[:2]) or not self.call[1].isalpha()
        same = self.call[: 1 if known else 2]
        return any(
            call[: len(same)] == same and self.named <= frozenset(call)
            for call in calls_in(command)
        )

    def is_mended_by(self, command: str) -> bool:
        """Whether a command does what was wanted, and not so."""
        program = _bare(self.call[0])
        options = [*self.call[:1], *(b for a, b in pairwise(self.call) if a.startswith("--"))]
        wanted = [word for word in self.named.difference(options) if not word.startswith("-")]
        kept = [word for word in self.call[1:] if not word.startswith("-") and not word.isdigit()]
        for call in () if self.is_in(command) else calls_in(command):
            if _bare(call[0]) == program:
                kept = [word for word in kept if word not in self.named]
                does = all(any(_is_like(word, each) for each in call[1:]) for word in wanted)
                if does and frozenset(kept[:1]) <= frozenset(call):
                    return True
            elif kept and frozenset(kept) <= frozenset(call):
                return True
        return False


def _how_it_worked(done: Done, command: str) -> tuple[str, str] | None:
    """What worked where something was called as it is now, and could not run."""
    for program in programs_of(command):
        runs = done.of_program(program, _LOOKED_AT)
        for at, failed in enumerate(runs):
            wrong = _Misuse.of(failed)
            if wrong is None or not wrong.is_in(command):
                continue
            here, there = _folder(command), _folder(failed.about)
            if _OF_THE_FOLDER.search(failed.reason) and here != there:
                continue
            if any(run.ok and wrong.is_in(run.about) for run in runs[:at]):
                break  # it has worked since
            for act in done.after(failed, _SOON):
                told = act.kind == "command" and act.ok and not _PIPED.search(act.about)
                near = here == there or _folder(act.about) in ("", here, there)
                if told and near and wrong.is_mended_by(act.about):
                    shown, why = _shown(act.about, failed.about), _WHERE.sub("", failed.reason)
                    said = f" ({one_line(why, 44)})" if len(shown) < _LEAVES_ROOM else ""
                    return f"This failed {_place(failed)}{said}; what worked, #{act.seq}:", shown
    return None


def _what_ended(command: str, error: str, done: Done, signature: str) -> tuple[str, str] | None:
    """The command after which one worked again that had met an error."""
    for met in done.like(error, _LOOKED_AT):
        wrong = _Misuse.of(met)
        if _only_shows(met.about) or (wrong is not None and not wrong.is_in(command)):
            continue
        if _are_alike(error, met.error) and (found := _end_of(done, met)):
            worked, said = found
            return f"This error was met {_place(met)}; what ended it, #{worked.seq}:", said
    return None


def _are_alike(one: str, other: str) -> bool:
    """Whether two outputs say the same at their ends: their last lines sum up quite a few."""
    ends = (each.rpartition(_OUTPUT)[2].strip()[-_END_OF_OUTPUT:].lower() for each in (one, other))
    said, was = (frozenset(plain_words(end)) for end in ends)
    return len(said & was) >= _ALIKE * len(said | was)


def _end_of(done: Done, error: Act) -> tuple[Act, str] | None:
    """What ended an error soon, and in what words; None if that is not clear."""
    form, wrong = _form(error.about), _Misuse.of(error)
    steps: list[str] = []
    clear = True
    for act in done.after(error, _SOON):
        if act.kind != "command" or not act.ok:
            # Its end may lie in a file that was changed, or was not found yet.
            clear &= act.kind == "read"
            continue
        this, folder = _form(act.about), _folder(act.about)
        if wrong is not None and wrong.is_mended_by(act.about):
            return None if _PIPED.search(act.about) else (act, _shown(act.about, error.about))
        elsewhere = folder not in ("", _folder(error.about))
        if f" {form} " in f" {this} " and (not elsewhere or _OF_THE_FOLDER.search(error.reason)):
            if not clear or _PIPED.search(act.about):
                return None
            if elsewhere or this != form:
                return act, _shown(act.about, error.about)
            return (act, "; ".join(steps)) if steps and not _PASSES.search(error.error) else None
        if not _looks_all(act.about):
            steps.append(one_line(this, 80))
        if len(steps) > _STEPS:
            clear = False
    return None


def _names(sentence: str, path: str) -> bool:
    """Whether it names a file: its name, or that without the ending as a word."""
    name, words = Path(path).name, sentence.lower()
    stem = name.lower().partition(".")[0]
    return name in sentence or (len(stem) >= _LEAST_STEM and stem in re.findall(r"[\w-]+", words))


def _settles(sentence: str) -> bool:
    """Whether it says by itself what holds beyond the moment, or why something was wanted."""
    said = _BEFORE_IT.sub("", sentence)
    if "?" in said or not said[:1].isalpha() or _NOT_BY_ITSELF.search(said):
        return False
    if len(plain_words(said)) < _SAYS_SOMETHING or _FOR_ONCE.search(said):
        return False
    return kind_of_sentence(sentence) in _SETTLES or bool(_BECAUSE.search(said))


def _exchange(act: Act) -> tuple[str, int]:
    return act.session, act.turn


def _form(command: str) -> str:
    """A command as it is called, without where and what is done with what it says."""
    return " ".join(_AROUND.sub("", command.strip()).split())


def _quotes(error: str, word: str) -> bool:
    """Whether an error names a word of the command that met it."""
    if len(word) < 2 or word not in error:  # looked for first: a command may have many words
        return False
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", error) is not None


def _looks(call: tuple[str, ...]) -> bool:
    """Whether a call changes nothing."""
    if call[0] in _LOOKS or call[:2] == ("sed", "-n"):
        return True
    effects = programs.of_program(call[0].rpartition("/")[2], list(call))
    return all(effect == "reads" for effect, _ in effects)


def _looks_all(command: str) -> bool:
    return all(_looks(call) for call in calls_in(command))


def _only_shows(command: str) -> bool:
    """Whether what it says was written down by another command."""
    return all(call[0] in _LOOKS | _SHOWS for call in calls_in(command))


def _bare(program: str) -> str:
    """A program's name as people mix it up: `run_tests.sh` is `bin/runtests`."""
    name = program.rpartition("/")[2]
    return re.sub(r"(?<=\w)(?:\.\w+|(?<!\d)\d++)\Z|[-_]", "", name) or name


def _is_like(one: str, other: str) -> bool:
    """Whether two words may mean one thing: `lint` is `lint:fix`, `run.sh` is `bin/run.sh`."""
    one, other = _bare(one), _bare(other)
    return one in other or (len(other) >= _LEAST_STEM and other in one)


def _folder(command: str) -> str:
    """Where a command goes before it does something; empty where it stays."""
    return next((found[2] for found in reversed([*_INTO.finditer(command)])), "")


def _shown(command: str, failed: str) -> str:
    """What matters of a command that worked where another failed, in few words."""
    folder, shown = _folder(command), _form(_INTO.sub(r"\1", command))
    return shown if folder in ("", _folder(failed)) else f"cd {folder} && {shown}"


def _is_same(about: str, path: str, project: Path) -> bool:
    """Whether a path that a tool was given is the project's file: `README.md` is no other's."""
    return "/" in path or about.removeprefix("./") in (path, str(project / path))


def _place(act: Act) -> str:
    key = paths.SessionKey.parse(act.session)
    named = key.main if key.agent == paths.DEFAULT_SESSION.agent else act.session
    place = f"{act.ts[:10]} in {one_line(_LONG_NAME.sub('…', named), 28)} #{act.seq}"
    return ", ".join((place, *act.marks))


def _fitting(head: str, quoted: str) -> str:
    """A line as data, with as much of what it quotes as there is room for."""
    nonce = fresh_nonce()[:8]  # one line of ours, which quotes one: a long one would cost more
    for width in _QUOTED:
        text = f'{head} "{one_line(quoted, width)}"'
        block = as_data(text, origin=f"{INJECTED}memory", nonce=nonce)
        if tokens.rough_count(block) <= MOST_TOKENS:
            return block
    return ""
