from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    UserMessage,
)
from mindstone_tui.core.entries.derived import (
    HandoffReplayed,
    MemoryDecided,
    NoteTaken,
    RecallInjected,
    SummaryDerived,
)
from mindstone_tui.core.entries.window import WindowState
from mindstone_tui.core.recall.passages import (
    passages_of,
    passages_of_file,
    pieces_of,
    telling_words,
)
from tests.builders import line_of

TOOL_HEAD = 16
TOOL_TAIL = 6
TOOL_VECTORS = 4
LONGEST_PIECE = 500
TOLD = 2


def test_a_message_is_indexed_with_its_speaker_and_its_date() -> None:
    (passage,) = passages_of([line_of(UserMessage(text="I paint.", name="Mel", source_id="D1:3"))])
    assert passage.indexed_text == "Mel, 8 May 2023: I paint."
    assert (passage.text, passage.source_id, passage.id) == ("I paint.", "D1:3", "id1#0")


def test_a_tool_result_is_indexed_with_the_call_that_made_it() -> None:
    called = ToolCalled(call="c", name="shell", shown="cat src/api.ts", digest="")
    returned = ToolReturned(call="c", name="shell", text="No such file", status="error")
    (passage,) = passages_of([line_of(called), line_of(returned, 2)])
    assert "cat src/api.ts (error)" in passage.indexed_text
    assert passage.text == "No such file"


def test_bookkeeping_is_not_indexed_so_recall_does_not_feed_on_itself() -> None:
    injected = RecallInjected(query="q", passages=(), text="recalled words", tokens=2)
    assert passages_of([line_of(injected), line_of(TurnEnded(ending="done"), 2)]) == []
    assert passages_of([line_of(AssistantMessage(text="  "))]) == []


def test_what_the_model_recalled_is_not_indexed_again() -> None:
    found = line_of(ToolReturned(call="c", name="recall", text="user, 8 May 2023: I paint."))
    assert passages_of([found]) == []
    imported = msgspec.structs.replace(found, channel="import")
    assert [passage.text for passage in passages_of([imported])] == ["user, 8 May 2023: I paint."]


def test_a_note_keeps_its_kind() -> None:
    note = NoteTaken(category="decisions", text="We use tabs.")
    assert [passage.kind for passage in passages_of([line_of(note)])] == ["note_taken"]


def test_a_summary_and_a_memorys_record_are_not_indexed() -> None:
    summary = SummaryDerived(
        strategy="progressive",
        sources=(),
        text="They chose tabs.",
        tokens_before=9,
        tokens_after=4,
        model="m",
    )
    memory = MemoryDecided(proposal="m1", decision="approved", by="person", after="Use tabs.")
    assert passages_of([line_of(summary), line_of(memory, 2)]) == []


def test_a_handoff_keeps_its_kind() -> None:
    handoff = HandoffReplayed(sha256="", text="They chose tabs.", state=WindowState(through=0))
    (found,) = passages_of([line_of(handoff)])
    assert (found.kind, found.speaker) == ("handoff_replayed", "handoff")


def test_a_long_output_keeps_its_ends_and_the_telling_words_of_its_middle() -> None:
    middle = "\n".join(f"{'filler ' * 20}{n}" for n in range(300))
    text = f"first line\n{middle}\nfatal: cannot open packages/core/src/loader.ts\n{middle}\nlast"
    passages = passages_of([line_of(ToolReturned(call="c", name="shell", text=text))])
    whole = "\n".join(passage.text for passage in passages)
    assert passages[0].text.startswith("first line")
    assert passages[-1].text.endswith("last")
    assert "packages/core/src/loader.ts" in whole
    assert len(passages) == TOOL_HEAD + 1 + TOOL_TAIL
    assert sum(passage.meaning for passage in passages) == TOOL_VECTORS


@pytest.mark.thorough
def test_telling_words_are_bounded() -> None:
    text = " ".join(f"someName{n}Here src/deep/path{n}.py" for n in range(500))
    assert len(telling_words(text)) <= TOLD * LONGEST_PIECE
    assert telling_words(f"{'a-' * 400_000} port-map.ts:42") == "port-map.ts:42"


def test_a_file_becomes_passages_that_name_it() -> None:
    (passage,) = passages_of_file("memory/tabs.md", "Use tabs.", session="s", ts="2026-01-01")
    assert (passage.entry, passage.kind, passage.seq) == ("memory/tabs.md", "memory", -1)


def test_code_and_prose_do_not_share_a_piece() -> None:
    code = "x = 1\n" * 60
    text = f"{'Some words. ' * 30}\n```python\n{code}```\n{'More words. ' * 30}"
    forms = [form for _, form in pieces_of(text)]
    assert forms == ["prose", "code", "prose"]


@given(st.text(min_size=1, max_size=5_000), st.integers(20, 900))
def test_pieces_are_bounded_and_lose_nothing_but_white_space(text: str, longest: int) -> None:
    pieces = [piece for piece, _ in pieces_of(text, longest)]
    assert all(len(piece) <= longest for piece in pieces) or len(text) <= longest
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_only_lines_about_errors_come_before_the_telling_words() -> None:
    text = "\n".join(
        [
            "every export of the engine is an entry",
            "src/deep/loader.py",
            "open: EACCES on the socket",
            "Warning: the lock was not found",
        ]
    )
    assert telling_words(text).splitlines() == [
        "open: EACCES on the socket",
        "Warning: the lock was not found",
        "src/deep/loader.py",
        "EACCES",
    ]
