"""An export says what happened, the same every time, and lets nothing foreign act."""

from __future__ import annotations

import itertools
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.entries.derived import StatementSuperseded
from mindstone_tui.core.entries.line import IMPORTED
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.entries.window import Rewound, WindowState
from mindstone_tui.core.errors import UnknownName
from mindstone_tui.core.interchange.export import EXPORTERS, export
from mindstone_tui.core.interchange.export.html import escaped, prose, spread
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.transcript import History
from tests.builders import places_in, say, transcript_in, use_tool
from tests.core.interchange.helpers import FIXTURES, SESSIONS, STORED, outline, take_over, told
from tests.core.interchange.rich_session import SECRET, rich_session


def _exported(home: Path, format: str, **options: object) -> str:  # noqa: A002
    transcript = transcript_in(home)
    try:
        with transcript.history() as history:
            return "".join(export(history, format, **options))  # type: ignore[arg-type]
    finally:
        transcript.close()


@pytest.mark.parametrize("name", list(EXPORTERS))
def test_the_same_session_gives_the_same_bytes(home: Path, tmp_path: Path, name: str) -> None:
    rich_session(home).close()
    rich_session(tmp_path / "other").close()
    assert _exported(home, name) == _exported(home, name) == _exported(tmp_path / "other", name)


@pytest.mark.parametrize("name", list(EXPORTERS))
def test_exporting_writes_nothing(home: Path, name: str) -> None:
    rich_session(home).close()
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    _exported(home, name)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", list(EXPORTERS))
def test_secrets_are_blacked_out_when_asked(home: Path, name: str) -> None:
    transcript = rich_session(home)
    say(transcript, f"my key is {SECRET}", "I will not repeat it.")
    transcript.close()
    redactor = Redactor()
    assert SECRET in _exported(home, name)
    cleaned = _exported(home, name, clean=lambda text: redactor.redact(text).text)
    assert SECRET not in cleaned
    assert "redacted" in cleaned


def test_a_wrong_format_is_named(home: Path) -> None:
    rich_session(home).close()
    with pytest.raises(UnknownName, match="pdf"):
        _exported(home, "pdf")


class _Page(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def _parsed(source: str) -> _Page:
    page = _Page()
    page.feed(source)
    return page


def test_a_page_loads_nothing_and_lets_nothing_foreign_act(home: Path) -> None:
    rich_session(home).close()
    source = _exported(home, "html")
    page = _parsed(source)

    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(tag in ("img", "iframe", "object", "link", "embed") for tag, _ in page.tags)
    assert not any("src" in attrs or "style" in attrs for _, attrs in page.tags)
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    links = [attrs["href"] or "" for tag, attrs in page.tags if tag == "a" and "href" in attrs]
    assert links
    assert not any(link.startswith("javascript:") for link in links)
    policy = next(attrs["content"] or "" for _, attrs in page.tags if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", source)


def test_a_page_shows_zones_prunes_recalls_and_tools(home: Path) -> None:
    rich_session(home).close()
    page = _parsed(_exported(home, "html"))
    classes = [attrs.get("class") or "" for _, attrs in page.tags]
    for wanted in ("turn", "said user", "tool ok", "recall", "red", "green", "prune"):
        assert wanted in classes, wanted
    assert "1 exchange left the window: turn 1 · 93 → 43 tokens" in page.text
    assert "policy fifo, trigger ceiling" in page.text
    assert "turn 1: 50 tokens, oldest, score" in page.text
    assert "2 passages read back" in page.text
    assert " · 0.83 · superseded by #4" in page.text, "a card says what became of it"
    assert "superseded by \\#4, score 0.83" in _exported(home, "md")
    times = [attrs for tag, attrs in page.tags if tag == "time"]
    assert page.text.count(" UTC") == len(times) > 0, "who reads it may be anywhere"
    anchors = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    inside = [
        (attrs["href"] or "")[1:]
        for tag, attrs in page.tags
        if tag == "a" and (attrs.get("href") or "").startswith("#")
    ]
    assert set(inside) <= anchors


@given(st.text())
def test_no_text_can_leave_its_place_in_a_page(text: str) -> None:
    assert "<" not in escaped(text)
    tags = {tag for tag, attrs in _parsed(prose(text)).tags}
    assert tags <= {
        *("p", "pre", "code", "em", "strong", "s", "a", "br", "hr", "ul", "ol", "li", "blockquote"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "span"),
    }


def test_a_cast_is_playable_and_holds_no_foreign_escape_code(home: Path) -> None:
    rich_session(home).close()
    head, *events = (json.loads(line) for line in _exported(home, "cast").splitlines())
    assert (head["version"], head["width"], head["height"]) == (2, 100, 32)
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    shown = "".join(text for _, _, text in events)
    assert set(re.findall(r"\x1b\[[0-9;]*m", shown)) <= {
        *("\x1b[0m", "\x1b[1;36m", "\x1b[2m", "\x1b[33m", "\x1b[35m")
    }
    assert not re.search(r"\x07|\x1b(?!\[[0-9;]*m)", shown)


def test_markdown_keeps_code_fenced_whatever_is_in_it(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "hi", "there")
    use_tool(transcript, "read", "```\nfenced\n````\nmore", "done")
    transcript.close()
    text = _exported(home, "md")
    assert "`````text\n```\nfenced\n````\nmore\n`````" in text
    assert "## Turn 1 ·" in text


def test_the_json_holds_every_entry_whole(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "x" * (2 << 20), "long")
    transcript.close()
    data = json.loads(_exported(home, "json"))
    assert data["session"] == "agent:default:main"
    assert [each["seq"] for each in data["entries"]] == list(range(5))
    assert len(data["entries"][2]["text"]) == 2 << 20
    assert data["damaged"] == []


def test_a_document_says_how_many_lines_of_its_session_nobody_can_read(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "The owner is Ines.", "I see.")
    transcript.close()
    file = places_in(home).transcript
    file.write_bytes(file.read_bytes().replace(b'The owner is Ines."', b"The owner"))
    for name in ("md", "html"):
        assert "1 unreadable line" in _exported(home, name)


@pytest.mark.parametrize("name", ["json", "messages"])
@pytest.mark.parametrize("fixture", [*SESSIONS, STORED])
def test_import_export_import_is_stable(
    home: Path, tmp_path: Path, fixture: str, name: str
) -> None:
    take_over(home, FIXTURES / fixture)
    first = _exported(home, name)
    copy = tmp_path / "copy"
    copy.write_text(first, encoding="utf-8")
    take_over(tmp_path / "second", copy)
    assert outline(tmp_path / "second") == outline(home)

    second = _exported(tmp_path / "second", name)
    copy.write_text(second, encoding="utf-8")
    report = take_over(tmp_path / "second", copy)
    assert (report.added, report.skipped) == (0, ())
    take_over(tmp_path / "third", copy)
    assert _said(tmp_path / "third") == _said(tmp_path / "second")


def _said(home: Path) -> list[tuple[object, ...]]:
    return [
        (line.turn, line.ts, line.entry)
        for line in told(home)
        if line.kind not in ("imported", "session_opened")
    ]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), max_size=4))
def test_any_conversation_exports_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]]
) -> None:
    home = tmp_path_factory.mktemp("home")
    transcript = transcript_in(home)
    for question, answer in texts:
        say(transcript, question, answer)
    transcript.close()
    for name in EXPORTERS:
        assert _exported(home, name).encode() or not texts


@pytest.mark.parametrize(
    "wanted", [[], [0.0], [500.0] * 4, [1_000.0] * 3, [0.0, 1.0, 999.0, 1_000.0], [400.0] * 500]
)
def test_every_prune_has_a_notch_of_its_own(wanted: list[float]) -> None:
    places = spread(wanted)
    assert len(places) == len(wanted)
    assert all(0 <= x <= 1_000 for x in places)
    least = min(12.0, 980 / max(len(wanted) - 1, 1))
    assert all(after - before >= least for before, after in itertools.pairwise(places))


@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_only_the_wanted_turns_are_told(tmp_path: Path, name: str) -> None:
    transcript = transcript_in(tmp_path)
    for number in range(1, 6):
        say(transcript, f"question number {number}", f"answer number {number}")
    places = transcript.places
    transcript.close()
    with History(places) as history:
        text = "".join(export(history, name, turns=range(2, 4)))
    told = [number for number in range(1, 6) if f"question number {number}" in text]
    assert told == [2, 3]
    assert "3 turns" not in text


@pytest.mark.parametrize("sign", ["[", "![", "*a**", "|"])
def test_what_a_parser_would_take_long_for_is_shown_as_it_is(sign: str) -> None:
    assert prose(sign * 40_000) == f"<pre>{sign * 40_000}</pre>"


def _outcomes(page: str) -> tuple[str, dict[str, str], dict[str, list[str]]]:
    """What a page says came of a session: its source, by heading, and the rows as they read."""
    story = page.partition('<div class="story"')[2].partition("</div>")[0]
    parts = dict(re.findall(r"<section><h2>(\w+)(.*?)</section>", story, re.DOTALL))
    rows = {
        name: [re.sub(r"<[^>]+>", "", row) for row in re.findall(r"<li>(.*?)</li>", part)]
        for name, part in parts.items()
    }
    return story, parts, rows


def test_what_was_corrected_or_taken_back_is_no_outcome_and_an_import_is_quoted(home: Path) -> None:
    transcript = transcript_in(home)
    own = transcript.channel
    transcript.channel = IMPORTED
    say(transcript, "We decided to use RabbitMQ for all messages.", "Yes.")
    transcript.channel = own
    decided = say(transcript, "We decided to use port 8790 for staging.", "Noted.")
    corrected = say(transcript, "No, staging has port 8791, not 8790.", "Corrected.")
    with transcript.history() as history:
        said = {line.turn: line.seq for line in history.newest(("user_message",), 100)}
    transcript.append(StatementSuperseded(statement=said[decided], by=said[corrected]))
    call = ToolCall(id="c", name="write", arguments='{"path": "a.txt", "content": "x"}')
    transcript.append(AssistantMessage(text="", model="test", calls=(call,)), turn=corrected)
    transcript.append(ToolReturned(call="c", name="write", text="written"), turn=corrected)
    undone = FilesRestored(
        direction="undo", turns=(corrected,), root="", total=0, changes=(), manifest="", token=""
    )
    gone = say(transcript, "what now?", "Wait.")
    last = transcript.append(undone, turn=gone)
    transcript.append(Rewound(to_turn=corrected, state=WindowState(through=last.seq)))
    transcript.close()
    *_, rows = _outcomes(_exported(home, "html"))
    assert rows["Decided"] == ["imported: “We decided to use RabbitMQ for all messages.” turn 1"]
    assert rows["Corrected"] == ["No, staging has port 8791, not 8790. turn 3"]
    assert "Files" not in rows


def test_what_replaced_something_on_record_is_a_correction_whatever_its_words(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "We decided to print on recycled paper.", "Noted.")
    say(transcript, "We no longer print on recycled paper.", "Fine.")
    with transcript.history() as history:
        decided, ended = sorted(line.seq for line in history.newest(("user_message",), 100))
    transcript.append(StatementSuperseded(statement=decided, by=ended))
    transcript.close()
    *_, rows = _outcomes(_exported(home, "html"))
    assert rows["Corrected"] == ["We no longer print on recycled paper. turn 2"]
    assert "Decided" not in rows


@pytest.mark.parametrize("name", ["md", "html", "cast"])
def test_a_message_that_was_corrected_says_so_wherever_it_is_read(home: Path, name: str) -> None:
    transcript = transcript_in(home)
    said = ("We use port 8765.", "The lift is broken. We meet at nine.", "No, port 8790 at ten.")
    for each in said:
        say(transcript, each, "Fine.")
    with transcript.history() as history:
        new, part, old = [line.seq for line in history.newest(("user_message",), 100)]
    nine = ("We meet at nine.",)
    transcript.append(StatementSuperseded(statement=old, by=new))
    transcript.append(StatementSuperseded(statement=part, by=new, words=nine, partly=True))
    transcript.close()
    told = unescape(_exported(home, name)).replace("\\", "")
    in_short = name == "html"  # where all that was asked is listed once more
    assert told.count(f"superseded by #{new}") == 1 + in_short
    assert told.rindex(said[0]) < told.rindex("superseded by #") < told.rindex(said[1])
    *_, corrected = re.findall(r"corrected in part[^\n]*", told)
    assert f"#{new}" in corrected
    assert nine[0] in corrected


def test_of_a_message_that_was_corrected_in_part_the_other_decisions_are_told(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "We decided to use port 8790. We decided to keep SQLite.", "Noted.")
    say(transcript, "No, we use port 8791, not 8790.", "Corrected.")
    with transcript.history() as history:
        new, old = (line.seq for line in history.newest(("user_message",), 100))
    words = ("we decided to use port 8790.",)
    transcript.append(StatementSuperseded(statement=old, by=new, words=words, partly=True))
    transcript.close()
    *_, rows = _outcomes(_exported(home, "html"))
    assert rows["Decided"] == ["We decided to keep SQLite. turn 1"]


def test_a_page_tells_what_was_asked_decided_and_made_each_linked_to_its_line(home: Path) -> None:
    transcript = transcript_in(home)
    turn = say(transcript, "Write a parser for the words of a line.", "I will.") + 1
    parser, readme = "/srv/app/src/parse.py", "/srv/app/README.md"
    for at, (name, fields, result) in enumerate(
        [
            ("write", {"path": parser, "content": "x"}, "written"),
            ("edit", {"path": parser, "old_string": "x", "new_string": "y"}, "done"),
            ("write", {"path": readme, "content": "x"}, "written"),
            ("shell", {"command": "git commit -m x"}, "[main 1a2b3c4] Add <b>a parser</b>\n"),
        ]
    ):
        call = ToolCall(id=f"c{at}", name=name, arguments=json.dumps(fields))
        transcript.append(AssistantMessage(text="", model="test", calls=(call,)), turn=turn)
        transcript.append(ToolReturned(call=call.id, name=name, text=result), turn=turn)
    say(transcript, "We decided to use port 8790 for staging.", "Noted.")
    say(transcript, "No, staging has port 8791, not 8790.", "Corrected.")
    say(transcript, "thanks", "Gladly.")
    say(transcript, "Write a parser for the words of a line.", "It is there.")
    transcript.close()
    page = _exported(home, "html")
    story, parts, rows = _outcomes(page)
    assert rows == {
        "Asked": [
            "Write a parser for the words of a line. turn 1, turn 6",
            "We decided to use port 8790 for staging. turn 3",
            "No, staging has port 8791, not 8790. turn 4",
        ],
        "Decided": ["We decided to use port 8790 for staging. turn 3"],
        "Corrected": ["No, staging has port 8791, not 8790. turn 4"],
        "Commits": ["1a2b3c4 Add &lt;b&gt;a parser&lt;/b&gt; turn 2"],
        "Files": ["src/parse.py turn 2", "README.md turn 2"],
    }
    assert "in <code>/srv/app</code>" in parts["Files"]
    ids = set(re.findall(r'id="(s\d+)"', page))
    assert set(re.findall(r'href="#(s\d+)"', story)) <= ids
