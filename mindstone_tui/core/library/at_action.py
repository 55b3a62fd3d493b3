"""What earlier sessions of a project know at the moment of an act: one line, or nothing.

Before a file is changed, what was settled about it or asked for when it last was; before a command,
what worked where this form of it did not; after a failure, what ended that error. Words are quoted
and dated. Each file, command and error is spoken of once in a session, and the one who acts never
waits: what is not at hand yet is not told.
"""

import contextlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from mindstone_tui.core import errors, paths, patterns, tokens, transcript
from mindstone_tui.core.entries import ToolCall, actions, conversation
from mindstone_tui.core.language.sentences import prose
from mindstone_tui.core.language.words import plain_words
from mindstone_tui.core.library import all_sessions, projects, work
from mindstone_tui.core.recall.acts import Act, Done, named_in, programs_of, signature_of
from mindstone_tui.core.statements.recogniser import kind_of_sentence
from mindstone_tui.core.text import INJECTED, as_data, fresh_nonce, one_line

MOST_TOKENS: Final = 120
"""Most that one act is told, label included."""
_QUOTED: Final = (200, 140, 110, 80, 50)
"""Characters of a quotation, tried in this order until everything fits."""
_LOOKED_AT: Final = 40
_EXCHANGES: Final = 4
"""Exchanges that changed a file whose words are looked at, the newest first."""
_LEAST_STEM: Final = 4
"""Letters from which on a file's name without its ending is a word of its own."""
_SAYS_SOMETHING: Final = 6
"""Words that a request must have."""
_NAMES_AN_ERROR: Final = 3
"""Words that an error must have beside those that any error has."""
_IN_ANY_ERROR: Final = frozenset(
    ["error", "errors", "failed", "failure", "fatal", "exception", "assert", "assertionerror",
     "traceback", "exit", "code", "the", "and", "not", "test", "tests", "line"]
)  # fmt: skip
_SETTLES: Final = frozenset(["rule", "correction", "memory", "preference", "decision"])
_AROUND: Final = patterns.pattern_of(
    r"\A(?:cd \S+ *(?:&&|;) *)+|\s*(?:\d?>&\d|\d?> */dev/null)|\s*\|\s*(?:tail|head|cat)\b.*\Z"
)
"""What stands around a command and is no part of how it is called."""
_BEFORE_IT: Final = patterns.pattern_of(
    r"(?i)\A(?:(?:ok(?:ay)?|yes|yeah|no|hm+|well|so|and|also|now)\b[,. ]*)+"
)
_NOT_BY_ITSELF: Final = patterns.pattern_of(
    r"(?i)\A(?:i|it|its|it's|that|that's|this|these|those|they|you|needs?|still)\b"
    r"|\Aat \S+ \(|(?:/[\w.-]+){4}|https?://\S{40}"
)
"""What was pasted, and what means nothing without what was said before it."""
_WRONG_FORM: Final = patterns.pattern_of(
    r"(?i)not found|no such|no module named|cannot find|can't open|unrecogni[sz]ed|unknown |"
    r"invalid option|unexpected argument|missing script|permission denied|not recogni[sz]ed|usage:"
)
"""Failures that lie in how something was called, and not in what it then found."""
_WAITS: Final = 0.01
"""Seconds for which an act waits while what was done lately is read."""
_NOT_RUN: Final = (126, 127)


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
        last = result.text.rstrip().rpartition("\n")[2]
        # Codex does not say how a command ended: the last line of what it printed does.
        error = actions.failure_of(call, result) or ("" if ends_known else named_in(last))
        signature = signature_of(error)
        telling = set(plain_words(signature)) - _IN_ANY_ERROR
        if len([word for word in telling if len(word) > 2]) < _NAMES_AN_ERROR:
            return ""
        return self._ask(own, folder, signature, _what_ended)

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
            if found is None:
                self._asked.add(known)
                return ""
            self._told.add(known)
            return _fitting(*found)
        finally:
            self._lock.release()

    def _settled_about(self, project: Path, done: Done, path: str) -> tuple[str, str] | None:
        """What a person settled about a file, or else asked for when it was last changed."""
        changes = [
            act
            for act in done.touching(path, _LOOKED_AT)
            if act.kind == "change" and act.ok and not act.rewound  # its words do not count
            if _is_same(act.about, path, project)
        ]
        exchanges = list({_exchange(act): act for act in changes}.values())
        asked = None
        for act in exchanges[:_EXCHANGES]:
            # What does not name the file was said about something else, read again later.
            named = [one for one in self._said_in(act) if _names(one, path)]
            for one in named:
                if kind_of_sentence(one) in _SETTLES:
                    return f"About {path}, {_place(act)}:", one
            telling = [one for one in named if _tells(one)]
            if act is exchanges[0] and telling:
                # Of several sentences the longest says most of what it was about.
                asked = f"{path} was last changed {_place(act)} for:", max(telling, key=len)
        return asked

    def _said_in(self, act: Act) -> Iterator[str]:
        """The sentences of the person in the exchange of an act."""
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
                    yield from (" ".join(sentence.text.split()) for sentence in prose(text))


def _how_it_worked(done: Done, command: str) -> tuple[str, str] | None:
    """What worked after this form of a command could not even be run."""
    form = _form(command)
    for program in programs_of(form)[:1]:
        runs = done.of_program(program, _LOOKED_AT)
        last = next((act for act in runs if _form(act.about) == form), None)
        if last is None or last.ok or not _was_called_wrongly(last):
            return None
        for act in done.after(last, _LOOKED_AT):
            other = _form(act.about)
            if act.kind == "command" and act.ok and other != form and program in other:
                why = one_line(last.reason or last.error, 60)
                return f"This failed {_place(last)} ({why}); what worked, #{act.seq}:", other
    return None


def _what_ended(done: Done, signature: str) -> tuple[str, str] | None:
    """What was done until the command worked again that met an error."""
    for remedy in work.remedies(done, done.like(signature, _LOOKED_AT)):
        if remedy.worked is not None and remedy.steps:
            steps = (
                f"{'ran' if step.kind == 'command' else 'changed'} {one_line(step.about, 80)}"
                for step in remedy.steps
            )
            head = f"This error was met {_place(remedy.error)} and ended by #{remedy.worked.seq}:"
            return head, "; ".join(dict.fromkeys(steps))
    return None


def _names(sentence: str, path: str) -> bool:
    """Whether it names a file: its name, or that without the ending as a word."""
    name, words = Path(path).name, sentence.lower()
    stem = name.lower().partition(".")[0]
    return name in sentence or (len(stem) >= _LEAST_STEM and stem in re.findall(r"[\w-]+", words))


def _tells(sentence: str) -> bool:
    """Whether it says what was wanted: no question, nothing pasted, more than "yes, go on"."""
    said = _BEFORE_IT.sub("", sentence)
    pasted = said.endswith("?") or not said[:1].isalpha() or _NOT_BY_ITSELF.search(said)
    return not pasted and len(plain_words(said)) >= _SAYS_SOMETHING


def _exchange(act: Act) -> tuple[str, int]:
    return act.session, act.turn


def _form(command: str) -> str:
    """A command as it is called, without where and what is done with what it says."""
    return " ".join(_AROUND.sub("", command.strip()).split())


def _was_called_wrongly(act: Act) -> bool:
    return act.exit in _NOT_RUN or bool(_WRONG_FORM.search(act.reason or act.error))


def _is_same(about: str, path: str, project: Path) -> bool:
    """Whether a path that a tool was given is the project's file: `README.md` is no other's."""
    return "/" in path or about.removeprefix("./") in (path, str(project / path))


def _place(act: Act) -> str:
    key = paths.SessionKey.parse(act.session)
    named = key.main if key.agent == paths.DEFAULT_SESSION.agent else act.session
    return f"{act.ts[:10]} in {named} #{act.seq}"


def _fitting(head: str, quoted: str) -> str:
    """A line as data, with as much of what it quotes as there is room for."""
    nonce = fresh_nonce()[:8]  # one line of ours, which quotes one: a long one would cost more
    for width in _QUOTED:
        text = f'{head} "{one_line(quoted, width)}"'
        block = as_data(text, origin=f"{INJECTED}memory", nonce=nonce)
        if tokens.rough_count(block) <= MOST_TOKENS:
            return block
    return ""
