"""Two surfaces on one session: one turn at a time, each sees the other, nothing forks."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import MessageQueued, MessageWithdrawn, UserMessage
from mindstone_tui.core.entries.standings import Standings
from tests.builders import say, transcript_in
from tests.core.session.stage import calls, check_history, on_stage, script

SLOW = {"text": "and so on " * 60, "delay_ms": 60_000}


def named(folder: Path, name: str, *replies: dict[str, object]) -> str:
    """A script of its own for each surface."""
    (folder / name).mkdir()
    return script(folder / name, *replies, loop=True)


def prefer(home: Path, model: str) -> None:
    """Let a model answer where none was chosen."""
    home.mkdir()
    (home / "config.toml").write_text(f'[models]\ndefault = "{model}"\n')


async def test_a_follower_sees_the_others_lines_in_order(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "an answer"}, loop=True)
    async with (
        on_stage(home, model=model, follow=True, channel="tui") as watching,
        on_stage(home, model=model, channel="run") as talking,
    ):
        await talking.say("who is there?")
        await talking.run("/recall nothing much")
        await talking.say("and now?")
        ended = await watching.until(
            events.EntryAppeared, lambda event: event.kind == "turn_ended" and event.turn == 2
        )
        seen = watching.all(events.EntryAppeared)
        assert [event.seq for event in seen] == list(range(seen[0].seq, ended.seq + 1))
        assert {event.channel for event in seen} == {"run"}
        assert [e.text for e in seen if e.role == "user"] == ["who is there?", "and now?"]
        assert [e.text for e in seen if e.role == "assistant"] == ["an answer"] * 2
        assert (await watching.say("me too")).turn == 3
        assert not [e for e in talking.all(events.EntryAppeared) if e.channel == "run"]
    check_history(watching.places)


async def test_a_follower_sees_where_an_answer_broke_off_and_that_it_did(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "one two three " * 60, "delay_ms": 60_000})
    async with (
        on_stage(home, model=model, follow=True, channel="tui") as watching,
        on_stage(home, model=model, channel="run") as talking,
    ):
        talking.session.send("count")
        await talking.until(events.TextDelta)
        talking.session.stop(how="click")
        ended = await watching.until(events.EntryAppeared, lambda event: event.kind == "turn_ended")
        said = [e.text for e in watching.all(events.EntryAppeared) if e.role == "assistant"]
    assert said[0].startswith("one ")
    assert ended.text == "Interrupted (click)"


async def test_a_follower_sees_what_tools_do_in_the_others_turn(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mast.txt").write_text("twelve metres\n")
    looks = calls(("read", {"path": "mast.txt"}))
    model = script(tmp_path, looks, {"text": "Twelve."})
    async with (
        on_stage(home, model=model, cwd=tmp_path, follow=True, channel="tui") as watching,
        on_stage(home, model=model, cwd=tmp_path, channel="web") as talking,
    ):
        await talking.say("how long is the mast?")
        ended = await watching.until(events.ToolEnded)
        (begun,) = watching.all(events.ToolStarted)
        assert (begun.name, begun.call) == ("read", ended.call)
        assert "twelve metres" in ended.text


async def test_both_surfaces_show_the_same_numbers_while_a_question_is_open(
    home: Path, tmp_path: Path
) -> None:
    asks = calls(("shell", {"command": "touch made"}), text="Let me see.")
    model = script(tmp_path, asks, {"text": "never"})
    async with (
        on_stage(home, model=model, cwd=tmp_path, asks=True, channel="tui") as app,
        on_stage(home, model=model, cwd=tmp_path, asks=True, channel="web", follow=True) as page,
    ):
        app.session.send("make it")
        asked = [await each.until(events.ToolAsked) for each in (app, page)]
        shown, other = [
            (await each.until(events.ContextReported, after=each.heard.index(one))).report
            for each, one in zip((app, page), asked, strict=True)
        ]
        assert shown.components == other.components
        assert shown.prompt == other.prompt
        app.session.stop(how="Esc")
        await page.until(events.ToolEnded)


async def test_what_was_queued_begins_only_while_somebody_is_there(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "a b c", "delay_ms": 1_500}, {"text": "second"})
    async with on_stage(home, model=model, follow=True, channel="web") as page:
        page.session.send("first question")
        await page.until(events.TextDelta)
        page.session.send("second question")
        await page.until(events.MessageQueued)
        page.session.attend(False)
        await page.until(events.TurnEnded)
        await page.served()
        assert len(page.all(events.TurnStarted)) == 1
        page.session.attend(True)
        await page.until(events.TurnEnded, lambda event: event.turn == 2)
    assert [entry.text for entry in page.entries(UserMessage)][1:] == ["second question"]


async def test_what_another_surface_told_to_be_unsent_is_not_sent_when_somebody_comes_back(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "a b c", "delay_ms": 1_500}, {"text": "second"}, loop=True)
    async with on_stage(home, model=model, follow=True, channel="web") as page:
        page.session.send("first question")
        await page.until(events.TextDelta)
        page.session.send("second question")
        await page.until(events.MessageQueued)
        page.session.attend(False)
        await page.until(events.TurnEnded)
        await page.served()
        async with on_stage(home, model=model, follow=True, channel="tui") as app:
            told = await app.until(events.MessageWithdrawn)
            assert told.text == "second question"
            await page.until(events.EntryAppeared, lambda e: e.kind == "message_withdrawn")
            page.session.attend(True)
            await page.session.settled()
    assert [entry.text for entry in page.entries(UserMessage)] == ["first question"]


async def test_a_message_that_waits_for_anothers_turn_can_be_taken_back(
    home: Path, tmp_path: Path
) -> None:
    slow, quick = named(tmp_path, "slow", SLOW), named(tmp_path, "quick", {"text": "quick"})
    async with (
        on_stage(home, model=slow, channel="web") as page,
        on_stage(home, model=quick, channel="tui") as app,
    ):
        page.session.send("long story")
        await page.until(events.TextDelta)
        app.session.send("quick question")
        waits = await app.until(events.MessageQueued)
        await app.until(events.Noticed, lambda event: "another program" in event.message)
        app.session.withdraw(waits.entry)
        await app.until(events.MessageWithdrawn, lambda event: event.entry == waits.entry)
        await app.session.settled()
        assert not app.all(events.TurnEnded), "the page's turn goes on"
        page.session.stop(how="Esc")
        await page.until(events.TurnEnded)
    assert [entry.text for entry in page.entries(UserMessage)] == ["long story"]


async def test_the_second_waits_says_so_and_then_has_its_turn(home: Path, tmp_path: Path) -> None:
    slow, quick = named(tmp_path, "slow", SLOW), named(tmp_path, "quick", {"text": "quick"})
    async with (
        on_stage(home, model=slow, channel="tui") as first,
        on_stage(home, model=quick, channel="run") as second,
    ):
        first.session.send("long story")
        await first.until(events.TextDelta)
        second.session.send("quick question")
        waiting = await second.until(events.Noticed)
        assert "Waiting" in waiting.message
        assert [entry.text for entry in second.entries(MessageQueued)] == ["quick question"]
        assert not second.all(events.TurnStarted)
        first.session.interrupt()
        ended = await second.until(events.TurnEnded)
        assert (ended.turn, ended.ending) == (2, "done")
    assert [entry.text for entry in first.entries(UserMessage)] == ["long story", "quick question"]


async def test_who_does_not_wait_is_refused_and_leaves_no_trace(home: Path, tmp_path: Path) -> None:
    slow, quick = named(tmp_path, "slow", SLOW), named(tmp_path, "quick", {"text": "quick"})
    async with (
        on_stage(home, model=slow, channel="tui") as first,
        on_stage(home, model=quick, channel="run", wait=False) as second,
    ):
        first.session.send("long story")
        await first.until(events.TextDelta)
        ended = await second.say("quick question")
        assert (ended.turn, ended.ending) == (0, "failed")
        assert "Another program" in ended.why
        refused, printed = await second.run("/pin")
        assert (refused.ok, refused.exit_code) == (False, 1)
        assert "Another program" in printed
        assert "quick question" not in second.places.transcript.read_text()


async def test_who_gives_up_waiting_takes_the_message_back(home: Path, tmp_path: Path) -> None:
    slow, quick = named(tmp_path, "slow", SLOW), named(tmp_path, "quick", {"text": "quick"})
    async with (
        on_stage(home, model=slow, channel="tui") as first,
        on_stage(home, model=quick, channel="run") as second,
    ):
        first.session.send("long story")
        await first.until(events.TextDelta)
        second.session.send("never mind")
        await second.until(events.Noticed)
        second.session.stop(how="Esc")
        given = await second.until(events.MessageWithdrawn)
        assert given.text == "never mind", "it comes back to whoever wrote it"
        ended = await second.until(events.TurnEnded)
        assert ended.ending == "interrupted"
        assert len(second.entries(MessageWithdrawn)) == 1
        first.session.interrupt()
        await first.until(events.TurnEnded)
        assert (await second.say("this one counts")).ending == "done"
    assert [entry.text for entry in first.entries(UserMessage)] == ["long story", "this one counts"]


async def test_who_would_stop_what_works_elsewhere_is_told_where_it_is_stopped(
    home: Path, tmp_path: Path
) -> None:
    slow = named(tmp_path, "slow", SLOW)
    async with (
        on_stage(home, model=slow, channel="tui", follow=True) as app,
        on_stage(home, model=slow, channel="web", follow=True) as page,
    ):
        app.session.send("long story")
        await app.until(events.TextDelta)
        await page.until(events.EntryAppeared, lambda event: event.kind == "user_message")
        page.session.stop(how="click")
        await page.until(events.Noticed, lambda event: "stop it there" in event.message)
        app.session.interrupt()
        await app.until(events.TurnEnded)


async def test_who_stops_anothers_turn_sees_nothing_begin_that_was_queued_behind_it(
    home: Path, tmp_path: Path
) -> None:
    asks = script(tmp_path, calls(("shell", {"command": "touch x"})), {"text": "done"}, loop=True)
    async with (
        on_stage(home, model=asks, cwd=tmp_path, asks=True, channel="tui", follow=True) as app,
        on_stage(home, model=asks, cwd=tmp_path, asks=True, channel="web", follow=True) as page,
    ):
        app.session.send("go")
        await app.until(events.ToolAsked)
        app.session.send("and later this")
        await page.until(events.ToolAsked)
        page.session.stop(how="click")
        given = await app.until(events.MessageWithdrawn)
        assert given.text == "and later this"
        await app.idle()
        assert [entry.text for entry in app.entries(UserMessage)] == ["go"]


async def test_who_opens_a_session_while_another_turn_runs_is_told_what_waits_behind_it(
    home: Path, tmp_path: Path
) -> None:
    asks = script(tmp_path, calls(("shell", {"command": "touch x"})), {"text": "done"}, loop=True)
    async with on_stage(home, model=asks, cwd=tmp_path, asks=True, channel="web") as page:
        page.session.send("go")
        await page.until(events.ToolAsked)
        page.session.send("and the mast?")
        async with on_stage(home, model=asks, cwd=tmp_path, follow=True, channel="tui") as app:
            told = await app.until(events.Noticed, lambda event: "queued" in event.message)
            assert told.message.startswith("“and the mast?” was queued behind the running turn.")


async def test_what_is_said_quickly_behind_another_surfaces_turn_waits_in_that_order(
    home: Path, tmp_path: Path
) -> None:
    both = calls(("shell", {"command": "touch x"}), ("shell", {"command": "touch y"}))
    asks = script(tmp_path, both, {"text": "done"}, loop=True)
    async with (
        on_stage(home, model=asks, cwd=tmp_path, asks=True, channel="web", follow=True) as page,
        on_stage(home, model=asks, cwd=tmp_path, asks=True, channel="tui", follow=True) as app,
    ):
        page.session.send("go")
        await app.until(events.ToolAsked)
        for text in ("alpha", "beta", "gamma"):
            app.session.send(text)
        await app.until(events.Noticed, lambda event: "Waiting" in event.message)
        assert [each.text for each in app.entries(MessageQueued)] == ["alpha", "beta", "gamma"]
        page.session.stop(how="click")
        await page.until(events.TurnEnded)
        await app.until(events.MessageWithdrawn)


async def test_a_question_is_put_after_what_stands_before_it_and_not_by_who_read_ahead(
    home: Path, tmp_path: Path
) -> None:
    both = calls(("shell", {"command": "touch x"}), ("shell", {"command": "touch y"}))
    asks = script(tmp_path, both, {"text": "done"}, loop=True)
    async with (
        on_stage(home, model=asks, cwd=tmp_path, asks=True, channel="web") as page,
        on_stage(home, model=asks, cwd=tmp_path, asks=True, channel="tui") as app,
    ):
        page.session.send("go")
        first = await page.until(events.ToolAsked)
        app.session._catch_up()
        page.session.answer(first.call, events.Answer(allowed=True, how="y", asked=first.since))
        second = await page.until(events.ToolAsked, lambda event: event.call != first.call)
        app.session._questions.find()
        app.session._catch_up()
        await app.until(events.ToolAsked, lambda event: event.call == second.call)
        await app.until(events.ToolStarted, lambda event: event.call == second.call)
        kinds = (events.ToolAsked, events.ToolStarted)
        told = [e for e in app.heard if isinstance(e, kinds) and e.call == second.call]
        assert [type(each) for each in told] == [events.ToolStarted, events.ToolAsked]
        page.session.stop(how="click")
        await page.until(events.TurnEnded)
        app.session._catch_up()


async def test_a_model_chosen_in_one_surface_answers_in_the_other(
    home: Path, tmp_path: Path
) -> None:
    old, new = named(tmp_path, "old", {"text": "old"}), named(tmp_path, "new", {"text": "new"})
    prefer(home, old)
    async with on_stage(home, follow=True) as first, on_stage(home) as second:
        await first.say("hello")
        assert (await second.run(f"/model {new}"))[0].ok
        told = f"{new} answers from here on: it was chosen on another surface."
        await first.until(events.Noticed, lambda event: event.message == told)
        assert [event.model for event in first.all(events.ModelChanged)] == [new]
        assert told not in [event.message for event in second.all(events.Noticed)]
        await first.say("hello again")
        assert [e.text for e in first.all(events.AnswerRecorded)] == ["old", "new"]


async def test_a_message_that_was_never_sent_is_said_once(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    transcript.append(MessageQueued(text="and the mast?"))
    transcript.close()
    told = []
    for _ in range(2):
        async with on_stage(home, model=model, follow=True) as stage:
            await stage.say("go on")
            told.append([e.text for e in stage.all(events.MessageWithdrawn)])
            standings = Standings(stage.lines())
            queued = [line for line in stage.lines() if line.kind == "message_queued"]
    assert told == [["and the mast?"], []]
    assert [one.what for one in standings.of(queued[0])] == ["unsent"]
    assert "and the mast?" not in str(stage.requests())


async def test_who_opens_a_session_is_told_which_files_another_program_deletes_soon(
    home: Path, tmp_path: Path
) -> None:
    projects = tmp_path / ".claude" / "projects" / "-srv-app"
    projects.mkdir(parents=True)
    for name, days in (("old", 25), ("new", 2)):
        (projects / f"{name}.jsonl").write_text("{}\n")
        changed = time.time() - days * 86_400
        os.utime(projects / f"{name}.jsonl", (changed, changed))
    model = script(tmp_path, {"text": "Noted."})
    async with on_stage(home, model=model, cwd=tmp_path, follow=True) as stage:
        told = await stage.until(events.Noticed, lambda event: "deletes" in event.message)
    assert "Claude Code deletes 1 session of its own within 7 days" in told.message
