"""Importing keeps what was said, who said it and when; it adds nothing twice and loses nothing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from mindstone_tui.core.context.extract import passages_of
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    TurnEnded,
    TurnEnding,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import StatementSuperseded
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.entries.store import FileChange, FilesRestored, Imported
from mindstone_tui.core.entries.window import Restored, Rewound, WindowState
from mindstone_tui.core.errors import EntryNotSaved, InterchangeError, UnknownName
from mindstone_tui.core.interchange.export import export
from mindstone_tui.core.interchange.export.story import StorySource, turns_in
from mindstone_tui.core.interchange.import_session import import_file
from mindstone_tui.core.transcript import History, Transcript
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.steps import read_steps
from tests.builders import places_in, transcript_in
from tests.core.interchange.full_disk import FullDisk
from tests.core.interchange.helpers import assert_sound, outline, take_over, told, write_lines

CHAT: list[dict[str, Any]] = [
    {"id": "D1:1", "role": "user", "name": "Ada", "content": "Hi!", "ts": "2023-05-08T13:56:00Z"},
    {"id": "D1:2", "role": "assistant", "name": "Bo", "content": "Hello Ada.", "ts": 1683554220},
    {"id": "D1:3", "role": "user", "name": "Ada", "content": "Use tabs, never spaces."},
    {"id": "D1:4", "role": "user", "name": "Cy", "content": "And UTF-8."},
    {"id": "D1:5", "role": "assistant", "name": "Bo", "content": "Noted."},
]


def test_ids_times_speakers_and_exchanges_are_kept(home: Path, tmp_path: Path) -> None:
    report = take_over(home, write_lines(tmp_path / "chat.jsonl", CHAT))

    assert (report.format, report.added, report.already_there) == ("messages", 5, 0)
    assert report.session == "agent:default:main"
    messages = [line for line in told(home) if hasattr(line.entry, "source_id")]
    assert [line.entry.source_id for line in messages] == [each["id"] for each in CHAT]  # type: ignore[union-attr]
    assert [line.turn for line in messages] == [1, 1, 2, 3, 3]
    assert messages[0].ts == "2023-05-08T13:56:00.000Z"
    assert messages[1].ts == "2023-05-08T13:57:00.000Z"
    assert {line.channel for line in messages} == {"import"}
    assert isinstance(messages[3].entry, UserMessage)
    assert messages[3].entry.name == "Cy"
    assert isinstance(told(home)[-1].entry, Imported)
    assert_sound(home)


def test_importing_again_adds_nothing(home: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", CHAT)
    take_over(home, path)
    before = told(home)

    report = take_over(home, path)

    assert (report.added, report.already_there) == (0, 5)
    assert told(home) == before


def test_an_exchange_of_ours_that_was_cut_off_is_taken_over_as_that(
    home: Path, tmp_path: Path
) -> None:
    own = transcript_in(tmp_path / "theirs")
    endings: tuple[TurnEnding, ...] = ("interrupted", "failed", "done", "interrupted")
    for turn, ending in enumerate(endings, 1):
        own.append(TurnStarted(), turn=turn)
        own.append(UserMessage(text=f"Question {turn}"), turn=turn)
        if turn == 1:
            own.append(AssistantPartial(text="The harbour is", model="m"), turn=turn)
        own.append(TurnEnded(ending=ending), turn=turn)
    path = own.places.transcript
    own.close()
    take_over(home, path)
    known = Standings(told(home))
    marked = [each.kind for each in told(home) if any("interr" in m.what for m in known.of(each))]
    assert marked == ["assistant_partial", "turn_ended", "turn_ended"]
    ended = [each.entry.ending for each in told(home) if isinstance(each.entry, TurnEnded)]
    assert ended == [*endings]
    assert take_over(home, path).added == 0
    assert_sound(home)


def _own(home: Path, *asked: str) -> Transcript:
    """A session of ours with an exchange for each question."""
    own = transcript_in(home)
    for turn, text in enumerate(asked, own.last_turn + 1):
        own.append(TurnStarted(), turn=turn)
        own.append(UserMessage(text=text), turn=turn)
        own.append(AssistantMessage(text=f"Done: {text}", model="m"), turn=turn)
        own.append(TurnEnded(ending="done"), turn=turn)
    return own


def _standing(home: Path) -> dict[str, list[str]]:
    """What is said of each message besides where it comes from."""
    known = Standings(told(home))
    return {
        str(getattr(line.entry, "text", "")): [
            "taken back there" if "taken back there" in one.words else one.what
            for one in known.of(line)
            if one.what != "imported" or "taken back there" in one.words
        ]
        for line in told(home)
        if isinstance(line.entry, UserMessage | AssistantMessage)
    }


def test_what_our_own_turns_did_to_files_stays_taken_back_until_it_is_done_again(
    home: Path, tmp_path: Path
) -> None:
    own = _own(tmp_path / "theirs", "Try it", "Name the cache", "Write app.py")
    back: tuple[Literal["undo", "redo"], ...] = ("undo", "redo", "undo")
    path = own.places.transcript
    own.append(Rewound(to_turn=1, state=WindowState(through=own.head.seq)))
    own.append(Restored(turns=(3,), state=WindowState(through=own.head.seq)))
    for number, direction in enumerate(back):
        own.append(
            FilesRestored(
                direction=direction,
                turns=(3,),
                total=1,
                changes=(FileChange(path="app.py"),),
                root="/p",
                manifest="0" * 64,
                token=f"t{number}",
            ),
            turn=3,
        )
        for _ in range(2):
            take_over(home, path)
        told_of = _standing(home)
        assert [*told_of] == ["Try it", "Done: Try it", "Write app.py", "Done: Write app.py"]
        assert told_of["Try it"] == []
        assert told_of["Done: Write app.py"] == ["undone"] * (direction == "undo")
        acts = [each.entry for each in told(home) if isinstance(each.entry, FilesRestored)]
        assert [each.turns for each in acts] == [(2,)] * (number + 1)
    own.close()
    assert not read_steps(told(home), ObjectStore(tmp_path / "objects", limit=0)).undone
    assert_sound(home)


def test_what_our_own_session_went_back_before_since_is_told_until_it_counts_again(
    home: Path, tmp_path: Path
) -> None:
    own = _own(tmp_path / "theirs", "The cache is called alpha", "The queue is called beta")
    path = own.places.transcript
    take_over(home, path)
    own.append(Rewound(to_turn=1, state=WindowState(through=own.head.seq)))
    for _ in range(2):
        take_over(home, path)
    marked = ["The queue is called beta", "Done: The queue is called beta"]
    assert [text for text, what in _standing(home).items() if what] == marked
    assert sum(isinstance(line.entry, Imported) for line in told(home)) == 2
    own.append(Restored(turns=(2,), state=WindowState(through=own.head.seq)))
    take_over(home, path)
    assert not any(_standing(home).values())
    own.append(Rewound(to_turn=1, state=WindowState(through=own.head.seq)))
    take_over(home, path.rename(tmp_path / "again.jsonl"))
    assert [text for text, what in _standing(home).items() if what] == marked
    own.close()
    assert_sound(home)


def test_an_export_of_some_turns_brings_nothing_that_was_rewound_after_them(
    home: Path, tmp_path: Path
) -> None:
    quoted = 'It says {"marks":["rewound by #1"]}'
    own = _own(tmp_path / "theirs", quoted, "The queue is called beta", "And gamma")
    own.append(Rewound(to_turn=1, state=WindowState(through=own.head.seq)), turn=3)
    path = tmp_path / "some.json"
    with own.history() as history:
        path.write_text("".join(export(history, "json", turns=range(1, 3))))
    own.close()
    assert take_over(home, path).left_out["rewound"] >= 2
    assert [*_standing(home)] == [quoted, f"Done: {quoted}"]


@pytest.mark.parametrize("part", [(), ("The port is 8080.",)])
def test_our_own_history_says_what_was_superseded_in_it(
    home: Path, tmp_path: Path, part: tuple[str, ...]
) -> None:
    own = _own(tmp_path / "theirs", "The port is 8080. It is open.", "No, the port is 9090")
    with own.history() as history:
        lines = [line for line in history.read() if isinstance(line, Line)]
    old, by = (line.seq for line in lines if line.kind == "user_message")
    told_so = StatementSuperseded(statement=old, by=by, words=part, partly=bool(part))
    own.append(told_so, turn=2)
    exported = tmp_path / "all.json"
    with own.history() as history:
        exported.write_text("".join(export(history, "json")))
    for path in (exported, own.places.transcript):
        take_over(home, path)
        known = Standings(told(home))
        said = [line for line in told(home) if isinstance(line.entry, UserMessage)]
        words = "corrected in part there" if part else "superseded there"
        assert [words in str(known.of(line)) for line in said] == [True, False]
    own.close()


def test_messages_say_how_they_stood_where_they_were_exported(home: Path, tmp_path: Path) -> None:
    def said(number: int, *marks: str, role: str = "user") -> dict[str, Any]:
        message = {"id": f"m{number}", "role": role, "content": f"Words {number}"}
        return {**message, "marks": list(marks)} if marks else message

    held = [said(number) for number in range(1, 6)]
    path = write_lines(tmp_path / "m.jsonl", held)
    take_over(home, path)
    marked = [
        said(1, "superseded by #8"),
        said(2, "rewound by #32", "changes to files taken back by #9"),
        said(3, "changes to files taken back by #23", "copied from agent:default:main"),
        said(4, "imported from cline, a.json, taken back there"),
        said(5, "corrected in part by #8: “No.”", "redacted", "rewound, she says"),
        said(6, "rewound by #32"),
        said(7, "interrupted", role="assistant"),
    ]
    write_lines(path, marked)
    reports = [take_over(home, path) for _ in range(2)]
    assert [(each.added, each.left_out) for each in reports] == [
        (1, {"rewound": 2}),
        (0, {"rewound": 2}),
    ]
    known, lines = Standings(told(home)), [it for it in told(home) if hasattr(it.entry, "text")]
    standing = [known.of(line)[-1].words.partition("m.jsonl")[2] for line in lines]
    assert standing == [
        ", superseded there",
        ", taken back there",
        ", changes to files taken back there",
        ", taken back there",
        ", corrected in part there",
        "",
    ]
    assert isinstance(lines[-1].entry, AssistantPartial)
    places = {one.seq: one.place for one in passages_of(told(home), known)}
    assert "superseded there" in places[lines[0].seq]
    take_over(home, write_lines(path, held))
    assert not any(" there" in str(Standings(told(home)).of(line)) for line in told(home))
    assert sum(isinstance(line.entry, Imported) for line in told(home)) == 3
    assert_sound(home)


def test_messages_without_ids_may_repeat_and_still_come_once(home: Path, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "chat.jsonl",
        [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "done"}] * 40,
    )
    assert take_over(home, path).added == 80
    again = take_over(home, path)
    assert (again.added, again.already_there) == (0, 80)


def test_what_the_other_program_went_back_before_is_told_beside_it_and_stays(
    home: Path, tmp_path: Path
) -> None:
    def record(number: int, after: int, kind: str, text: str) -> dict[str, Any]:
        links = {"uuid": f"u{number}", "parentUuid": f"u{after}" if after else None}
        return {"type": kind, "sessionId": "s1", **links, "message": {"content": text}}

    said = [
        record(1, 0, "user", "The pump is model P100."),
        record(2, 1, "assistant", "Noted."),
        record(3, 2, "user", "The heater hangs in the cellar."),
        record(4, 3, "assistant", "In the cellar."),
    ]
    back = [record(5, 2, "user", "The valve is in the garage."), record(6, 5, "assistant", "Yes.")]
    again = [record(7, 4, "user", "Is it warm there?"), record(8, 7, "assistant", "It is.")]
    for grown, taken_back in (
        (said, []),
        ([*said, *back], ["u3", "u4"]),
        ([*said, *back, *again], ["u5", "u6"]),  # they went back to what they had left
    ):
        take_over(home, write_lines(tmp_path / "s1.jsonl", grown))
        known, lines = Standings(told(home)), told(home)
        marked = [each for each in lines if "taken back there" in str(known.of(each))]
        assert [getattr(each.entry, "source_id", "") for each in marked] == taken_back
        places = {one.seq: one.place for one in passages_of(lines, known)}
        assert [seq for seq in places if "taken back there" in places[seq]] == [
            each.seq for each in marked
        ]
        with History(places_in(home)) as history:
            turns = turns_in(StorySource(history))
            noted = [one.seq for turn in turns for one in turn.scenes if getattr(one, "note", "")]
        assert noted == [each.seq for each in marked]
    assert_sound(home)


def test_a_file_that_grew_adds_only_what_is_new(home: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", CHAT[:3])
    take_over(home, path)
    write_lines(path, CHAT)

    report = take_over(home, path)

    assert (report.added, report.already_there) == (2, 3)
    assert [text for _, _, text in outline(home)] == [each["content"] for each in CHAT]
    assert_sound(home)


def test_a_changed_message_with_the_same_id_is_added_beside_the_old_one(
    home: Path, tmp_path: Path
) -> None:
    take_over(home, write_lines(tmp_path / "chat.jsonl", CHAT[:1]))
    changed = [{**CHAT[0], "content": "Hi there!"}]
    assert take_over(home, write_lines(tmp_path / "chat.jsonl", changed)).added == 1
    assert [text for _, _, text in outline(home)] == ["Hi!", "Hi there!"]


def test_damaged_lines_are_skipped_and_named(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(
        b'{"role":"user","content":"one"}\n'
        b"{not json\n"
        b'{"role":"user"}\n'
        b'{"role":"user","content":{"a":1}}\n'
        b'[1,2]\n\n"text"\n'
        b'{"role":7,"content":"x"}\n'
        b'{"role":"system","content":"be brief"}\n'
        b"\xff\xfe\x00\n"
        b'{"role":"assistant","content":"two"}\n'
        b'{"role":"user","content":"cut o'
    )
    report = take_over(home, path, format="messages")

    assert report.added == 2
    assert [each.line for each in report.skipped] == [2, 3, 4, 5, 7, 8, 9, 10, 12]
    assert all(each.why for each in report.skipped)
    noted = told(home)[-1].entry
    assert isinstance(noted, Imported)
    assert noted.skipped == report.skipped
    assert_sound(home)


def test_a_thousand_times_damaged_file_reports_in_bounds(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(b"{oops\n" * 5_000 + b'{"role":"user","content":"alive"}\n')
    report = take_over(home, path, format="messages")
    assert (report.added, report.skipped_total, len(report.skipped)) == (1, 5_000, 1_000)
    noted = told(home)[-1].entry
    assert isinstance(noted, Imported)
    assert noted.skipped[-1].why == "and 4,800 more"


def test_a_leading_answer_gets_a_turn_of_its_own(home: Path, tmp_path: Path) -> None:
    lines = [{"role": "assistant", "content": "Welcome."}, {"role": "user", "content": "Hi."}]
    take_over(home, write_lines(tmp_path / "chat.jsonl", lines))
    assert [turn for turn, _, _ in outline(home)] == [1, 2]
    assert_sound(home)


def test_calls_keep_their_results_whatever_the_order(home: Path, tmp_path: Path) -> None:
    def call(name: str) -> dict[str, Any]:
        return {"id": name, "name": "read", "arguments": {"path": f"{name}.txt"}}

    lines: list[dict[str, Any]] = [
        {"role": "user", "content": "Read all."},
        {"role": "assistant", "content": "First", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "assistant", "content": "While I wait", "tool_calls": [call("c")]},
        {"role": "tool", "tool_call_id": "c", "content": "C"},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "assistant", "content": "", "tool_calls": [call("d")]},
        {"role": "user", "content": "Stop."},
        {"role": "tool", "tool_call_id": "nobody", "name": "ls", "content": "orphan"},
        {"role": "tool", "content": "second orphan"},
    ]
    report = take_over(home, write_lines(tmp_path / "chat.jsonl", lines))

    assert_sound(home)
    assert report.added == 10
    results = [line.entry for line in told(home) if line.kind == "tool_returned"]
    found = [(getattr(each, "text", ""), getattr(each, "status", "")) for each in results]
    assert found[:3] == [("A", "ok"), ("B", "ok"), ("C", "ok")]
    assert found[3][1] == "interrupted"
    assert found[4:] == [("orphan", "ok"), ("second orphan", "ok")]
    endings = [
        getattr(line.entry, "ending", "") for line in told(home) if line.kind == "turn_ended"
    ]
    assert endings == ["interrupted", "done"]


def test_a_result_that_comes_with_a_later_import_stays_a_pair(home: Path, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = [
        {"id": "1", "role": "user", "content": "Look."},
        {
            "id": "2",
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "name": "ls", "arguments": "{}"}],
        },
    ]
    path = write_lines(tmp_path / "chat.jsonl", asked)
    take_over(home, path)
    answered = {"id": "3", "role": "tool", "tool_call_id": "a", "content": "file.txt"}
    write_lines(path, [*asked, answered])

    assert take_over(home, path).added == 1
    assert take_over(home, path).added == 0
    assert outline(home)[-1][2] == "file.txt"
    assert_sound(home)


def test_hostile_texts_are_imported_once_and_whole(home: Path, tmp_path: Path) -> None:
    big = "x" * (3 << 20)
    path = tmp_path / "chat.jsonl"
    records = [{"role": "user", "content": "nul \x00 here"}, {"role": "user", "content": big}]
    path.write_text(
        "".join(json.dumps(each) + "\n" for each in records)
        + '{"role":"user","content":"lone \\ud800 surrogate","id":"\\udfff"}\n',
        encoding="utf-8",
    )
    assert take_over(home, path).added == 3
    again = take_over(home, path)
    assert (again.added, again.already_there) == (0, 3)
    texts = [text for _, _, text in outline(home)]
    assert texts == ["nul ␀ here", big, "lone \ufffd surrogate"]


def test_what_is_cleaned_on_the_way_in_is_recognised_again(home: Path, tmp_path: Path) -> None:
    def clean(text: str) -> str:
        return text.replace("hunter2", "[redacted]")

    path = write_lines(tmp_path / "c.jsonl", [{"role": "user", "content": "it is hunter2"}])
    for added in (1, 0):
        transcript = transcript_in(home)
        transcript.clean = clean
        assert import_file(path, transcript, clean=clean).added == added
        transcript.close()
    assert outline(home)[0][2] == "it is [redacted]"


def test_every_batch_is_handed_to_the_index_before_the_end_is_written_down(
    home: Path, tmp_path: Path
) -> None:
    path = write_lines(
        tmp_path / "c.jsonl", [{"role": "user", "content": f"{n}"} for n in range(700)]
    )
    batches: list[list[Line]] = []
    seen: list[tuple[int, int]] = []
    take_over(
        home,
        path,
        index=lambda lines: batches.append(list(lines)),
        progress=lambda read, added: seen.append((read, added)),
    )
    assert len(batches) > 1
    assert all(batch[-1].kind == "turn_ended" for batch in batches)
    handed = [line.seq for batch in batches for line in batch]
    assert handed == list(range(1, len(handed) + 1))
    assert told(home)[-1].kind == "imported"
    assert seen[-1] == (700, 700)


def test_an_import_cut_off_at_any_line_is_completed_by_running_it_again(
    home: Path, tmp_path: Path
) -> None:
    lines = [
        *CHAT,
        {"id": "6", "role": "user", "content": "Look."},
        {
            "id": "7",
            "role": "assistant",
            "content": "I will.",
            "tool_calls": [
                {"id": "a", "name": "ls", "arguments": "{}"},
                {"id": "b", "name": "cat", "arguments": "{}"},
            ],
        },
        {"id": "8", "role": "tool", "tool_call_id": "a", "content": "A"},
        {"id": "9", "role": "tool", "tool_call_id": "b", "content": "B"},
        {"id": "10", "role": "assistant", "content": "There."},
        {"id": "11", "role": "user", "content": "Thanks."},
    ]
    path = write_lines(tmp_path / "chat.jsonl", lines)
    take_over(home, path)
    whole = outline(home)
    raw = (transcript_in(home).places.transcript).read_bytes().splitlines(keepends=True)
    for cut in range(1, len(raw)):
        other = tmp_path / f"home-{cut}"
        transcript = transcript_in(other)
        transcript.places.transcript.write_bytes(b"".join(raw[:cut]))
        transcript.close()

        report = take_over(other, path)

        assert report.skipped == ()
        assert outline(other) == whole, cut
        assert told(other)[-1].kind == "imported"
        assert_sound(other)
        assert take_over(other, path).added == 0


def test_a_disk_that_refuses_is_an_error_and_the_next_import_completes_it(
    home: Path, tmp_path: Path
) -> None:
    path = write_lines(
        tmp_path / "c.jsonl", [{"id": str(n), "role": "user", "content": "x"} for n in range(900)]
    )
    transcript = transcript_in(home, disk=FullDisk(writes=3))
    with pytest.raises(EntryNotSaved):
        import_file(path, transcript)
    transcript.close()
    take_over(home, path)
    assert len(outline(home)) == 900
    assert_sound(home)


def test_whichever_write_of_a_batch_is_refused_the_next_import_completes_it(
    tmp_path: Path,
) -> None:
    path = write_lines(
        tmp_path / "c.jsonl",
        [{"id": str(n), "role": "user", "content": f"{n} " + "x" * 700} for n in range(40)],
    )
    for writes in range(1, 1_000):
        home = tmp_path / f"home-{writes}"
        with contextlib.closing(Transcript(places_in(home), disk=FullDisk(writes))) as transcript:
            transcript.longest_write = 16 << 10
            try:
                import_file(path, transcript)
            except EntryNotSaved:
                is_whole = False
            else:
                is_whole = True
        report = take_over(home, path)
        assert report.added == 0 or not is_whole
        assert [text.split()[0] for _, _, text in outline(home)] == [str(n) for n in range(40)]
        assert_sound(home)
        if is_whole:
            break
    assert writes > 8, "it was one write, so nothing is proven"


def test_a_wrong_name_or_file_is_said_plainly(home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    noise = tmp_path / "noise"
    noise.write_bytes(random.Random(1).randbytes(5_000))
    with pytest.raises(UnknownName, match="mesages"):
        take_over(home, empty, format="mesages")
    with pytest.raises(InterchangeError, match="is empty"):
        take_over(home, empty)
    with pytest.raises(InterchangeError, match="not a session"):
        take_over(home, noise)
    with pytest.raises(InterchangeError, match="no file"):
        take_over(home, tmp_path / "absent")
    with pytest.raises(InterchangeError, match="folder"):
        take_over(home, tmp_path)


@pytest.mark.thorough
def test_memory_stays_flat_however_long_the_file_is(tmp_path: Path) -> None:
    count = 1_000_000 if os.environ.get("MINDSTONE_FAULTS") == "1" else 10_000
    path = tmp_path / "long.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for n in range(count):
            role = "assistant" if n % 2 else "user"
            out.write(f'{{"id":"m{n}","role":"{role}","content":"message {n} {"words " * 30}"}}\n')
    probe = (
        "import resource, sys; from pathlib import Path\n"
        "from mindstone_tui.core.interchange.import_session import import_file\n"
        "from tests.builders import transcript_in\n"
        "transcript = transcript_in(Path(sys.argv[2]))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "added = [import_file(Path(sys.argv[1]), transcript).added for _ in range(2)]\n"
        "print(*added, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", probe, str(path), str(tmp_path / "home")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    first, second, kilobytes = map(int, run.stdout.split())
    assert (first, second) == (count, 0)
    assert kilobytes < 30_000 + count * 0.1
