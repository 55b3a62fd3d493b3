"""A turn of another program, seen while it comes: no part of history, and never a secret."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mindstone_tui import api
from mindstone_tui.core import events as ev
from mindstone_tui.core.session.draft import DraftReader, DraftWriter
from tests.core.session.stage import script

LONGEST = 60_000


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
    writer.hear(called())
    heard = []
    for piece in ("The po", "rt is", " 84", "43 now"):
        writer.hear(ev.TextDelta(turn=3, text=piece))
        heard.append(reader.news())
    assert [news.text if news else "" for news in heard] == ["The ", "port ", "is ", "8443 "]
    assert path.stat().st_mode & 0o777 == 0o600
    reader.settle(3, 1)
    writer.hear(ev.TextDelta(turn=3, text=" and late"))
    assert reader.news() is None, "history has that answer"
    writer.hear(called(2))
    writer.hear(ev.TextDelta(turn=3, text="Again "))
    news = reader.news()
    assert news is not None
    assert news.text == "Again "
    writer.hear(ev.TurnEnded(turn=3, ending="done"))
    assert not path.exists()


def test_a_secret_that_grows_is_never_written_and_the_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "draft.json"
    writer, reader = DraftWriter(path, blacked, Clock()), DraftReader(path)
    writer.hear(called())
    for piece in ("Use ", "sk-sec", "ret-", "123456", " now", " 漢字"):
        writer.hear(ev.TextDelta(turn=3, text=piece))
        assert b"sk-" not in path.read_bytes()
        reader.news()
    assert "[SECRET] now 漢字" in path.read_text()
    for _ in range(20):
        writer.hear(ev.TextDelta(turn=3, text="word " * 2_000))
    assert path.stat().st_size < 2 * LONGEST


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
