"""A turn of another program, seen while it comes: no part of history, and never a secret."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui import api
from mindstone_tui.core import events as ev
from mindstone_tui.core.session.draft import (
    AnswerSoFar,
    DraftReader,
    DraftWriter,
    Onlooker,
    not_in_history,
    read_draft,
)
from mindstone_tui.core.transcript import History
from tests.core.session.stage import calls, on_stage, script


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def called(call: int = 1) -> ev.ModelCalled:
    return ev.ModelCalled(turn=3, call=call, model="m", prompt_hash="", tokens=1)


def blacked(text: str) -> str:
    return text.replace("sk-secret-123456", "[SECRET]")


def test_pieces_come_once_and_in_order_and_not_after_the_record(tmp_path: Path) -> None:
    path = tmp_path / "draft.json"
    writer, reader = DraftWriter(path, str, Clock()), DraftReader(path)
    assert reader.news() is None
    writer.pass_on(called())
    heard = []
    for piece in ("The po", "rt is", " 84", "43 now"):
        writer.pass_on(ev.TextDelta(turn=3, text=piece))
        heard.append(reader.news())
    assert [news.text if news else "" for news in heard] == ["The ", "port ", "is ", "8443 "]
    assert path.stat().st_mode & 0o777 == 0o600
    reader.settle(3, 1)
    writer.pass_on(ev.TextDelta(turn=3, text=" and late"))
    assert reader.news() is None, "history has that answer"
    writer.pass_on(called(2))
    writer.pass_on(ev.TextDelta(turn=3, text="Again "))
    news = reader.news()
    assert news is not None
    assert news.text == "Again "
    writer.pass_on(ev.TurnEnded(turn=3, ending="done"))
    assert not path.exists()


def shown_of(told: Iterable[ev.AnyEvent]) -> str:
    return "".join(one.text for one in told if isinstance(one, ev.TextDelta))


@given(
    st.lists(st.text(st.sampled_from("ab \n漢"), max_size=9_000), max_size=6),
    st.lists(st.booleans(), min_size=6),
)
def test_nothing_is_shown_that_is_not_written_and_in_the_end_all_is(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], late: list[bool]
) -> None:
    path, now = tmp_path_factory.mktemp("draft") / "draft.json", [0.0]
    writer = DraftWriter(path, str, lambda: now[0])
    writer.pass_on(called())
    shown = ""
    for piece, waited in zip(pieces, late, strict=False):
        now[0] += 1.0 if waited else 0.0
        shown += shown_of(writer.pass_on(ev.TextDelta(turn=3, text=piece)))
        draft = read_draft(path)
        assert shown == ("" if draft is None else draft.text)
    recorded = ev.AnswerRecorded(turn=3, entry="e", text="".join(pieces), calls=0)
    rest = writer.pass_on(recorded)
    assert rest[-1] is recorded
    assert shown + shown_of(rest) == "".join(pieces)


def test_a_secret_that_grows_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "draft.json"
    writer, reader = DraftWriter(path, blacked, Clock()), DraftReader(path)
    writer.pass_on(called())
    for piece in ("Use ", "sk-sec", "ret-", "123456", " now", " 漢字"):
        writer.pass_on(ev.TextDelta(turn=3, text=piece))
        assert b"sk-" not in path.read_bytes()
        reader.news()
    draft = read_draft(path)
    assert draft is not None
    assert draft.text.endswith("[SECRET] now 漢字")


def test_what_is_seen_to_be_secret_only_later_leaves_the_file_and_a_torn_piece_is_passed_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "draft.json"
    writer = DraftWriter(path, lambda text: text.replace("hunter two", "[SECRET]"), Clock())
    writer.pass_on(called())
    for piece in ("It ", "is ", "hunter ", "two ", "indeed "):
        writer.pass_on(ev.TextDelta(turn=3, text=piece))
    assert b"hunter" not in path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"turn":3,"call":1,"text":"never sh')
    draft = read_draft(path)
    assert draft is not None
    assert draft.text == "It is [SECRET] indeed "


async def test_the_other_surface_sees_an_answer_grow_and_then_the_line(
    home: Path, tmp_path: Path
) -> None:
    home.mkdir()  # noqa: ASYNC240
    model = script(tmp_path, {"text": "one two three four five six", "delay_ms": 1_000})
    (home / "config.toml").write_text(f'[models]\ndefault = "{model}"\n')
    looking = await api.connect(home=home, channel="tui")
    seen: list[ev.AnyEvent] = []

    async def look() -> None:
        async for event in looking.events():
            seen.append(event)
            if isinstance(event, ev.EntryAppeared) and event.kind == "turn_ended":
                return

    watching = asyncio.create_task(look())
    asking = await api.connect(home=home, channel="web", follow=False)
    asking.send("count")
    async with asyncio.timeout(90):
        await watching
    kinds = [type(one).__name__ for one in seen]
    drafted = [one for one in seen if isinstance(one, ev.AnswerDrafted)]
    said = [one for one in seen if isinstance(one, ev.EntryAppeared) and one.role == "assistant"]
    assert len(drafted) > 1
    assert said[0].text.startswith("".join(one.text for one in drafted))
    assert kinds.index("AnswerDrafted") < seen.index(said[0])
    await asking.close()
    await looking.close()
    assert not list(home.rglob("draft.json"))  # noqa: ASYNC240


async def test_what_is_in_history_is_no_draft_for_whoever_comes_later(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    model = script(
        tmp_path, calls(("read", {"path": "a.txt"}), text="Let me look."), {"text": "ok"}
    )
    async with on_stage(home, model=model) as stage:
        await stage.say("look")
        places = stage.places
    first = msgspec.json.encode(AnswerSoFar(turn=1, call=1, text="Let me look."))
    lines = places.transcript.read_bytes().splitlines(keepends=True)
    ends = next(at for at, line in enumerate(lines) if b'"kind":"turn_ended"' in line)
    places.transcript.write_bytes(b"".join(lines[:ends]))  # as it is while the turn still asks
    places.draft.write_bytes(first + b"\n")
    heard: list[ev.AnyEvent] = []
    with History(places) as history:
        assert not_in_history(history) == ""
        onlooker = Onlooker(places.draft, heard.append)
        onlooker.join(history, 1, {})
        assert onlooker._drafts.news() is None
        places.draft.write_bytes(first.replace(b'"call":1', b'"call":3') + b"\n")
        assert "12 characters of an answer in turn 1" in not_in_history(history)
