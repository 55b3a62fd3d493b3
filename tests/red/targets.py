"""What reads foreign bytes: each takes any bytes, and refuses them with an error of ours or not."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from mindstone_tui.core.bounded_json import DEEPEST, is_too_deep, read_arguments, read_object
from mindstone_tui.core.config.load import load
from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.handoff import checkpoint_store, handoff
from mindstone_tui.core.interchange.import_session import import_each
from mindstone_tui.core.language.words import query_terms, quoted
from mindstone_tui.core.memory import files as memory_files
from mindstone_tui.core.memory import notes
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.providers import (
    anthropic_messages,
    ollama,
    openai_chat,
    openai_responses,
)
from mindstone_tui.core.providers.dialect import Dialect, failure_in
from mindstone_tui.core.providers.direct import Heard, StreamFailed
from mindstone_tui.core.providers.errors import Failure, translate
from mindstone_tui.core.providers.key_store import stored_key
from mindstone_tui.core.providers.scripted import read_script
from mindstone_tui.core.recall.question import read_question
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.text import (
    added_around,
    as_written,
    exact,
    for_terminal,
    one_line,
    own_parts,
    without_injected,
)
from mindstone_tui.core.tools.approvals import decide, prepare
from mindstone_tui.core.tools.base import Preview, ToolContext
from mindstone_tui.core.tools.files import FILE_TOOLS
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.shell_rules import NotPlain, Rule, offered, simple_commands
from mindstone_tui.core.tools.verdicts import judge
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.transcript import History, Transcript, verify
from mindstone_tui.tui import themes
from mindstone_tui.tui.markdown.parse import diffed, highlighted, numbered, parse
from mindstone_tui.tui.widgets.markdown import table
from tests.builders import places_in
from tests.corpora import lines, unescaped
from tests.loopback.formats import CHAT, FORMATS, MESSAGES, OLLAMA, RESPONSES, WireFormat

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
Feed = Callable[[bytes, Path], None]
"""Takes the bytes and an empty folder; raises when something is wrong."""


class Target:
    """One reader of foreign bytes, and bytes that it is used to."""

    def __init__(self, name: str, feed: Feed, seeds: Iterable[bytes]) -> None:
        self.name = name
        self.seeds = tuple(seeds)
        self.fed = 0
        self._feed = feed

    def feed(self, data: bytes, folder: Path) -> None:
        """Give it these bytes; an error of ours is an answer."""
        self.fed += 1
        with contextlib.suppress(MindstoneError):
            self._feed(data, folder)


def _text(data: bytes) -> str:
    """As a model or a file might give it; what is no UTF-8 becomes lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


# -- what a model and its server send -------------------------------------------------------------


def _arguments(data: bytes, folder: Path) -> None:
    text = _text(data)
    given = read_arguments(text)
    assert given is None or not is_too_deep(text, DEEPEST)
    context = ToolContext(workspace=Workspace((folder,)), call="c1")
    for tool in (*FILE_TOOLS, SHELL):
        with contextlib.suppress(MindstoneError):
            json.loads(prepare(tool, "c1", text, context).arguments)


def _stream(dialect: Dialect) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        heard = Heard(dialect)
        with contextlib.suppress(StreamFailed, ValueError, zlib.error):
            list(heard.take(iter([data[:97], data[97:]])))
            list(heard.take(None))
        list(heard.translator.end())
        failure = failure_in(read_object(heard.stray) or {})
        if failure is not None:
            assert translate(failure, model="m", where="here").what

    return feed


def _spoken(wire: WireFormat) -> Iterable[bytes]:
    yield wire.spoken("Hello, this is an answer.")
    yield wire.whole(*wire.calls([("a", "read", '{"path":"x"}')]), finish="tool_calls")
    yield wire.frame(wire.failure("too long", "some_error"))


def _error_page(data: bytes, folder: Path) -> None:
    text = _text(data)
    for status in (None, 400, 413, 429, 503):
        said = translate(Failure(kind="", message=text, status=status), model="m", where="here")
        assert len(said.what) < 5_000


# -- what a project, an import and the home hold --------------------------------------------------


def _settings(data: bytes, folder: Path) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(folder / "home")})
    project = folder / "project"
    (project / ".mindstone").mkdir(parents=True)
    (project / ".mindstone" / "config.toml").write_bytes(data)
    try:
        load(places, {}, project=project)
    except MindstoneError as error:
        raise AssertionError("a project's file stopped the program") from error
    places.config_file.parent.mkdir()
    places.config_file.write_bytes(data)
    load(places, {})


def _imported(suffix: str) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        source = folder / f"source{suffix}"
        source.write_bytes(data)
        home = Places.resolve({"MINDSTONE_HOME": str(folder / "home")})
        keys: list[SessionKey] = []

        def opened(key: SessionKey) -> Transcript:
            keys.append(key)
            return Transcript(home.session(key))

        try:
            list(import_each(source, opened))
        finally:
            for key in keys:
                verdict = verify(home.session(key))
                assert verdict.ok, verdict.problems[:2]

    return feed


def _imports(suffix: str) -> Iterable[bytes]:
    for path in sorted((FIXTURES / "imports").iterdir()):
        if path.suffix == suffix:
            yield path.read_bytes()


def _transcript(data: bytes, folder: Path) -> None:
    places = places_in(folder)
    places.folder.mkdir(parents=True)
    places.transcript.write_bytes(data)
    verify(places)
    with History(places) as history:
        for found in history.read():
            if isinstance(found, Line):
                history.whole(found)
        list(history.back())
    Transcript(places).close()


def _home_file(read: Callable[[Path], object], name: str) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o600)
        read(path)

    return feed


def _memory(path: Path) -> None:
    memory_files.parse(memory_files.read_text(path))


def _theme(path: Path) -> None:
    with contextlib.suppress(themes.ThemeProblem):
        themes.load(path)


def _of_text(*readers: Callable[[str], object]) -> Feed:
    def feed(data: bytes, folder: Path) -> None:
        for reader in readers:
            with contextlib.suppress(MindstoneError):
                reader(_text(data))

    return feed


# -- what is shown, judged and looked for ---------------------------------------------------------

_RULES = tuple(
    Rule.parse("allow", f"shell {text}") for text in ("ls *", "cat *", "git status *", "echo *")
)


def _verdict(command: str) -> str:
    preview = Preview(title="run", command=command)
    return decide(SHELL, preview, mode="ask", rules=_RULES, sandboxed=False).verdict


def _command(data: bytes, folder: Path) -> None:
    text = _text(data)
    workspace = Workspace((folder,))
    judge(text, workspace)
    with contextlib.suppress(NotPlain):
        simple_commands(text)
    offered("shell", Preview(title="run", command=text))
    if _verdict(text) == "allow":
        for more in ("; rm -rf x", " && rm -rf x", " | sh", " > /etc/x", "\nrm -rf x"):
            assert _verdict(text + more) != "allow", more


def _markdown(data: bytes, folder: Path) -> None:
    source = data.decode("utf-8", "replace")
    for streaming in (False, True):
        pieces, _ = parse(source, streaming=streaming)
        for piece in pieces:
            if piece.table:
                for width in (1, 20, 80):
                    table(piece.table, width)
    highlighted(source, "python")
    diffed(source)
    numbered(source)


def _sanitised(data: bytes, folder: Path) -> None:
    for text in (_text(data), data.decode("latin-1")):
        shown = for_terminal(text)
        assert not set(shown) & _CONTROLS, "a control byte reached the terminal"
        assert not set(one_line(text)) & (_CONTROLS | {"\n", "\t"})
        exact(text)


_CONTROLS = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n", "\t"}


def _redacted(data: bytes, folder: Path) -> None:
    redactor = Redactor({})
    text = _text(data)
    assert redactor.redact(redactor.redact(text).text).text is not None


_MEMORY = b"""---
name: port
kind: fact
description: the port
created: 2026-01-01T00:00:00Z
importance: 0.5
---

The server uses port 8080.
"""
_CHECKPOINT = b'{"format":1,"session":"agent:default:main","version":1,"subtasks":[],"digest":"x"}'
_HANDOFF = b"""---
mindstone: handoff 1
session: agent:default:main
hash: x
---

# Go on

- one [3]
"""
_TOML = (ROOT / "themes").glob("*.toml")


def _beside_words(data: bytes, folder: Path) -> None:
    """A message of another program, with whatever it put beside the words, as often as it likes."""
    del folder
    for times in (1, 1_000_000 // max(len(data), 1)):
        said = _text(data) * times
        note, words, after = added_around(said)
        assert "\n\n".join(part for part in (note, words, after) if part).strip() == said.strip()
        as_written(said)
        without_injected(said)
        own_parts(said)


TARGETS: tuple[Target, ...] = (
    Target(
        "beside-words",
        _beside_words,
        (
            b"<system-reminder>a</system-reminder>\n\nwords\n\n<ide_selection>b</ide_selection>",
            b"<system-reminder></",
            b'<data-0123456789 origin="file x">\na\n</data-0123456789>',
            b'<data-0123456789 origin="mindstone x">\n',
        ),
    ),
    Target(
        "arguments",
        _arguments,
        (
            b'{"path":"a.txt","offset":3}',
            b'{"command":"ls -l","timeout":5}',
            b'{"a":[{"b":[1,2]}]}',
        ),
    ),
    Target("stream-chat", _stream(openai_chat.DIALECT), _spoken(CHAT)),
    Target("stream-responses", _stream(openai_responses.DIALECT), _spoken(RESPONSES)),
    Target("stream-messages", _stream(anthropic_messages.DIALECT), _spoken(MESSAGES)),
    Target("stream-ollama", _stream(ollama.DIALECT), _spoken(OLLAMA)),
    Target(
        "error-page",
        _error_page,
        (
            *(json.dumps(wire.error("too long", "x")).encode() for wire in FORMATS),
            b"<html>no</html>",
        ),
    ),
    Target(
        "settings",
        _settings,
        (
            b"[context]\nceiling = 80\ntrim = 60\n[zones]\nyellow = 50\n",
            b'[tui]\ntheme = "paper"\n[eviction]\npriority = {age = 0.5, size = 0.5}\n',
        ),
    ),
    Target("import-json", _imported(".json"), _imports(".json")),
    Target("import-jsonl", _imported(".jsonl"), _imports(".jsonl")),
    Target(
        "transcript", _transcript, [(FIXTURES / "transcripts" / "v1.jsonl").read_bytes()[:20_000]]
    ),
    Target("checkpoint", lambda data, _: void(checkpoint_store.read, data), [_CHECKPOINT]),
    Target("handoff", _of_text(handoff.parse), [_HANDOFF]),
    Target("memory", _home_file(_memory, "port.md"), [_MEMORY]),
    Target("notes", _of_text(notes.parse, notes.cold_start), [b"- [decision] port 8080\n- x\n"]),
    Target(
        "keys",
        _home_file(lambda path: stored_key(path, "openai"), "keys.toml"),
        [b'[keys]\nopenai = "sk-x"\n', b'openai = "sk-x"\n'],
    ),
    Target("theme", _home_file(_theme, "mine.toml"), [path.read_bytes() for path in _TOML]),
    Target(
        "script",
        _home_file(read_script, "script.jsonl"),
        [b'{"text":"Hi","tool_calls":[{"name":"read","arguments":{"path":"x"}}]}\n{"loop":true}\n'],
    ),
    Target(
        "command",
        _command,
        [unescaped(line).encode("utf-8", "replace") for line in lines("shell_compositions.txt")]
        + [line.encode() for line in lines("shell_plain.txt")],
    ),
    Target(
        "markdown",
        _markdown,
        [
            b"# T\n\n- a\n  - b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nf()\n```\n",
            b"> quoted *x* **y** `z` [t](http://e.x) ![a](b) <T> &amp;\n\n1. one\n2. two\n",
            b"--- a\n+++ b\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n",
        ],
    ),
    Target(
        "terminal",
        _sanitised,
        [unescaped(line).encode("utf-8", "surrogatepass") for line in lines("escapes.txt")],
    ),
    Target(
        "question",
        _of_text(query_terms, read_question, lambda text: quoted(query_terms(text))),
        [b'what did we decide on 2026-01-02 about "the port" in config.toml?', "häuser石".encode()],
    ),
    Target(
        "secrets",
        _redacted,
        [
            b"export API_KEY=sk-abcdefghijklmnop1234567890\npostgres://u:p@ss@host/db\n",
            b"-----BEGIN",
        ],
    ),
)


def void(read: Callable[[bytes], object], data: bytes) -> None:
    """Read and forget."""
    read(data)
