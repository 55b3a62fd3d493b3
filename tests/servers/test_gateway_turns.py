"""Which session and which turn a client's request becomes, asked without a server in between."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui import api
from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.core.entries import Line, Sampling, ToolCall, ToolSchema, Usage
from mindstone_tui.core.errors import NoSuchSession, UsageError
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.replay.verify_requests import rebuilt_calls
from mindstone_tui.core.transcript import History
from mindstone_tui.servers.gateway import Gateway, Run, TurnFailed, _added
from mindstone_tui.servers.wire import ClientMessage, ClientRequest, Picture, Reply
from tests.core.session.stage import calls, check_history, script

PATIENCE = 30.0
LOOK = ToolSchema(name="look", description="", parameters={"type": "object", "properties": {}})
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x02\0\0\0"
    b"\x12\x16\xf1\x4d\0\0\0\0IEND\xaeB`\x82"
)


def talk(*texts: str) -> tuple[ClientMessage, ...]:
    """A conversation in which a person begins and both take turns."""
    return tuple(
        ClientMessage(role="assistant" if number % 2 else "user", text=text)
        for number, text in enumerate(texts)
    )


class Desk:
    """A gateway, and a client that reads each reply to its end."""

    def __init__(self, home: Path) -> None:
        self.home = api.Home(home)
        self.gateway = Gateway(self.home)
        self.pieces: list[tuple[str, str]] = []

    async def ask(
        self,
        *messages: ClientMessage,
        session: str = "",
        own_tools: bool = False,
        **more: Any,
    ) -> tuple[Run, Reply]:
        asked = ClientRequest(
            **{"format": "chat", "model": "default", "messages": messages, **more}
        )
        async with asyncio.timeout(PATIENCE):
            run = await self.gateway.take(asked, session=session, own_tools=own_tools)
            return run, await self.hear(run)

    async def hear(self, run: Run) -> Reply:
        reply = Reply(id="", model="")
        async with asyncio.timeout(PATIENCE):
            self.pieces = [piece async for piece in self.gateway.pieces(run, reply)]
        return reply

    def entries(self, kind: str, session: str = "main") -> list[Any]:
        found = api.log(session=session, kinds=[kind], home=self.home)
        return [line.entry for line in found if isinstance(line, Line)]

    def asked(self, session: str = "main") -> list[str]:
        return [entry.text for entry in self.entries("user_message", session)]

    def sessions(self) -> dict[str, list[str]]:
        """What was asked in each session."""
        return {each.key.main: self.asked(str(each.key)) for each in self.home.places.sessions()}

    async def over(self, run: Run) -> None:
        """Wait until a turn's end is in history."""
        async with asyncio.timeout(PATIENCE), run.room.turn:
            pass

    async def other(self, text: str, session: str = "main") -> None:
        """Let another surface say something."""
        async with api.open_conversation(session, home=self.home) as conversation:
            async for _ in conversation.ask(text):
                pass


@contextlib.asynccontextmanager
async def sitting(
    home: Path, *replies: Mapping[str, Any], settings: str = ""
) -> AsyncIterator[Desk]:
    """A gateway whose model says these replies, over and over."""
    home.mkdir(exist_ok=True)  # noqa: ASYNC240
    model = script(home.parent, *(replies or ({"text": "Aye."},)), loop=True)
    written = f'[models]\ndefault = "{model}"\n[recall]\nauto = false\n{settings}'
    (home / "config.toml").write_text(written)
    desk = Desk(home)
    try:
        yield desk
        for each in desk.home.places.sessions():
            check_history(each)
    finally:
        await desk.gateway.close()


@pytest.mark.parametrize(
    ("past", "known"),
    [
        (("one", "Aye."), True),
        (("one", "Aye.", "two", "Aye."), True),
        (("one", "No."), False),
        (("one", "Aye.", "three", "Aye."), False),
        (("one", "Aye.", "two", "Aye.", "three", "Aye."), False),
        (("zero", "Aye.", "one", "Aye."), False),
    ],
)
async def test_only_who_knows_nothing_but_what_was_said_here_goes_on_in_the_default_session(
    home: Path, past: tuple[str, ...], known: bool
) -> None:
    """A stranger who began with the same words must not be let into a conversation of others."""
    async with sitting(home) as desk:
        await desk.ask(*talk("one"))
        await desk.ask(*talk("one", "Aye.", "two"))
        run, reply = await desk.ask(*talk(*past, "and now?"))
        assert reply.text == "Aye."
        own = desk.asked(run.room.conversation.session)
        if known:
            assert own[-1:] == ["and now?"] == desk.asked()[-1:]
        else:
            assert "api-" in run.room.conversation.session
            assert own == [*past[::2], "and now?"]
            assert desk.asked() == ["one", "two"]


def said(role: str, text: str = "", **more: Any) -> ClientMessage:
    return ClientMessage(role=role, text=text, **more)  # type: ignore[arg-type]


def result(call: str, text: str = "", **more: Any) -> ClientMessage:
    return said("tool", text, call=call, **more)


async def test_where_a_request_belongs_is_said_by_it_or_follows_from_what_it_knows(
    home: Path,
) -> None:
    async with sitting(home) as desk:
        await desk.ask(*talk("one"), session="named")
        await desk.ask(*talk("two"), user="ann")
        first, _ = await desk.ask(*talk("three"), session="thread", user="ann")
        for known in (f"resp_{first.id}", first.id):
            await desk.ask(*talk("four"), previous=known, user="ann")
        await desk.ask(*talk("five"))
        assert desk.sessions() == {
            "named": ["one"],
            "ann": ["two"],
            "thread": ["three", "four", "four"],
            "main": ["five"],
        }
        assert (desk.gateway.requests, desk.gateway.rooms) == (6, 4)


@pytest.mark.parametrize("known", ["resp_nonsense", "resp_!", "zz", "resp_"])
async def test_a_response_that_nobody_gave_is_named(home: Path, known: str) -> None:
    async with sitting(home) as desk:
        with pytest.raises(UsageError, match="There is no response"):
            await desk.ask(*talk("on"), previous=known)
        gone = base64.b32hexencode(b"agent:default:gone\n1\n1").decode().rstrip("=").lower()
        with pytest.raises(NoSuchSession):
            await desk.ask(*talk("on"), previous=gone)
        assert desk.sessions() == {}


async def test_a_stranger_stays_in_the_session_that_its_first_words_made(home: Path) -> None:
    async with sitting(home) as desk:
        past = ("zebra?", "In the attic.")
        first, _ = await desk.ask(*talk(*past, "still?"))
        again, _ = await desk.ask(*talk(*past, "still?", "Aye.", "sure?"))
        other, _ = await desk.ask(*talk("zebra?", "In the cellar.", "still?"))
        names = [run.room.conversation.session for run in (first, again, other)]
        assert names[0] == names[1] != names[2]
        assert desk.asked(names[0]) == ["zebra?", "still?", "sure?"]
        assert desk.asked(names[2]) == ["zebra?", "still?"]
        matched = desk.entries("client_matched", names[0])
        assert [(one.known, one.adopted, one.action) for one in matched] == [
            (0, 2, "appended"),
            (4, 0, "appended"),
        ]
        assert matched[0].root == matched[1].root
        assert matched[0].prior != matched[1].prior


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((), "no message with words"),
        (talk("one", "Aye."), "The last message is the assistant's"),
    ],
)
async def test_a_request_that_asks_nothing_is_refused(
    home: Path, messages: tuple[ClientMessage, ...], why: str
) -> None:
    async with sitting(home) as desk:
        with pytest.raises(UsageError, match=why) as refused:
            await desk.ask(*messages)
        assert refused.value.remedy
        assert desk.sessions() == {}


async def test_results_that_nobody_waits_for_are_told_as_words(home: Path) -> None:
    async with sitting(home) as desk:
        many = [result(f"c{number}", f"found {number}") for number in range(10)]
        run, _ = await desk.ask(said("user", "look"), said("assistant", "I look."), *many)
        session = run.room.conversation.session
        (matched,) = desk.entries("client_matched", session)
        assert (matched.known, matched.adopted) == (0, 11)
        told = desk.asked(session)[-1]
        assert told == "\n\n".join(f"Result of c{n}:\nfound {n}" for n in range(2, 10))


async def test_what_a_client_brought_along_is_not_shown_as_said_here(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSTONE_HOME", str(home))
    async with sitting(home) as desk:
        run, _ = await desk.ask(*talk("one", "Theirs.", "two"))
        log = ["log", "-s", run.room.conversation.session]
        assert run_verb([*log, "-k", "user_message", "-k", "assistant_message"]) == 0
        heads = [row for row in capsys.readouterr().out.splitlines() if row.startswith("#")]
        there = ["said elsewhere, as a client told it" in row for row in heads]
        assert there == [True, True, False, False]
        await desk.ask(*talk("one", "Theirs.", "two", "Aye.", "three"))
        assert run_verb([*log, "--json", "-k", "turn_ended"]) == 0
        assert capsys.readouterr().out.count("elsewhere") == 1, "its end says so itself"


async def test_going_back_rewinds_here_and_forks_where_others_have_spoken(home: Path) -> None:
    async with sitting(home) as desk:
        await desk.ask(*talk("one"))
        await desk.ask(*talk("one", "Aye.", "two"))
        await desk.ask(*talk("one", "Aye.", "two", "Aye.", "three"))
        await desk.ask(*talk("one", "Aye.", "two, but otherwise"))
        assert [entry.to_turn for entry in desk.entries("rewound")] == [1]
        assert desk.asked() == ["one", "two", "three", "two, but otherwise"]
        await desk.other("I am here, too")
        for number in (1, 2):
            run, _ = await desk.ask(*talk("one", "Aye.", f"fork {number}"))
            assert run.room.conversation.session == f"agent:default:main-fork-{number}"
            assert desk.asked(f"main-fork-{number}") == ["one", f"fork {number}"]
        assert desk.asked()[-1] == "I am here, too"


async def test_a_first_message_that_was_said_anew_takes_the_place_of_the_first_try(
    home: Path,
) -> None:
    async with sitting(home) as desk:
        kestrel, merlin = "The cache is on kestrel.", "The cache is on merlin."
        await desk.ask(*talk(kestrel), session="e")
        await desk.ask(*talk(kestrel, "Aye.", "Thanks."), session="e")
        past = (merlin, "Aye.", "Thanks.", "Aye.")
        run, _ = await desk.ask(*talk(*past, "Where is it?"), session="e")
        with History(desk.home.places.session(SessionKey.parse("e"))) as history:
            (sent,) = rebuilt_calls(history, run.turn)
        assert merlin in str(sent.messages)
        assert kestrel not in str(sent.messages)
        await desk.ask(*talk("Another conversation.", "Aye.", "Is it?"), session="e")
        (gone,) = desk.entries("rewound", "e")
        assert (gone.to_turn, gone.how) == (0, "the client went back")


async def test_going_back_before_the_first_turn_begins_another_session(home: Path) -> None:
    async with sitting(home) as desk:
        past = ("zebra?", "In the attic.")
        first, _ = await desk.ask(*talk(*past, "still?"))
        main = first.room.conversation.session.rpartition(":")[2]
        await desk.other("I am here, too", first.room.conversation.session)
        again, _ = await desk.ask(*talk(*past, "really?"))
        assert main != "main"
        assert again.room.conversation.session == f"agent:default:{main}-fork-1"
        assert desk.asked(f"{main}-fork-1") == ["zebra?", "really?"]


async def test_an_answer_is_told_in_pieces_as_it_comes_with_its_figures(home: Path) -> None:
    replies = (
        {
            "thinking": "Hm.",
            "text": "Let me look.",
            "tool_calls": [{"name": "no", "arguments": {}}],
        },
        {"text": "It is 8443."},
    )
    async with sitting(home, *replies) as desk:
        run, reply = await desk.ask(*talk("port?"))
        assert (
            reply.text
            == "Let me look.\n\nIt is 8443."
            == "".join(text for kind, text in desk.pieces if kind == "text")
        )
        assert (reply.thought, reply.ending, reply.calls) == ("Hm.", "stop", ())
        assert (run.turn, run.stage) == (1, 1)
        assert reply.model.startswith("scripted/")
        assert run.called is not None
        answers = desk.entries("assistant_message")
        assert reply.usage.completion == sum(one.reported.usage.completion for one in answers)
        assert reply.usage.prompt == answers[-1].reported.usage.prompt
        told = base64.b32hexdecode(run.id.upper() + "=" * (-len(run.id) % 8)).decode()
        assert told == "agent:default:main\n1\n1"


async def test_a_turn_that_fails_raises_why_and_the_next_is_taken(home: Path) -> None:
    async with sitting(home, {"error": "on fire"}, {"text": "Better."}) as desk:
        with pytest.raises(TurnFailed, match="on fire"):
            await desk.ask(*talk("one"))
        assert desk.gateway.failures == 1
        assert (await desk.ask(*talk("two")))[1].text == "Better."
        assert desk.gateway.failures == 1


TWO = (("look", {"at": 1}), ("look", {"at": 2}))


async def asked_for_tools(desk: Desk, **more: Any) -> tuple[Run, tuple[ToolCall, ...]]:
    run, reply = await desk.ask(*talk("look!"), tools=(LOOK,), **more)
    assert reply.ending == "calls"
    assert run.waits_for == {call.id for call in reply.calls}
    return run, reply.calls


async def test_a_client_that_brings_its_results_goes_on_in_the_same_turn(home: Path) -> None:
    async with sitting(home, calls(*TWO), {"text": "Seen."}) as desk:
        run, (one, two) = await asked_for_tools(desk)
        past = (*talk("look!"), said("assistant", calls=(one, two)))
        brought = (result(one.id, "a cat"), result(two.id, "no cat", failed=True))
        again, reply = await desk.ask(*past, *brought, tools=(LOOK,), sampling=Sampling(seed=7))
        assert again is run
        assert (reply.text, reply.ending, again.stage, again.turn) == ("Seen.", "stop", 2, 1)
        returned = [(one.text, one.status) for one in desk.entries("tool_returned")]
        assert sorted(returned) == [("a cat", "ok"), ("no cat", "error")]
        assert desk.asked() == ["look!"]
        plans = desk.entries("prompt_planned")
        assert [plan.sampling and plan.sampling.seed for plan in plans] == [None, 7]
        assert (await desk.ask(*talk("next")))[0].turn == 2


async def test_what_a_client_says_beside_its_results_steers_the_turn(home: Path) -> None:
    async with sitting(home, calls(*TWO), {"text": "Seen."}) as desk:
        _, (one, two) = await asked_for_tools(desk)
        await desk.ask(
            *talk("look!"),
            said("user", "not this"),
            result(one.id, "a cat"),
            said("user", "nor this"),
            result(two.id, "a dog"),
            said("user", "and hurry"),
            said("assistant", "I do"),
        )
        assert desk.asked() == ["look!", "and hurry"]


async def test_a_result_that_is_missing_is_told_as_missing(home: Path) -> None:
    async with sitting(home, calls(*TWO), {"text": "Seen."}) as desk:
        _, (one, two) = await asked_for_tools(desk)
        picture = Picture(data=PNG)
        await desk.ask(*talk("look!"), result(one.id, pictures=(picture,)))
        returned = {
            entry.call: (entry.text, entry.status) for entry in desk.entries("tool_returned")
        }
        assert returned == {
            one.id: ("(a picture)", "ok"),
            two.id: ("The client told of no result.", "error"),
        }
        assert desk.asked() == ["look!", "The pictures of these results."]
        (shown,) = desk.entries("user_message")[1].images
        assert (shown.width, shown.height) == (2, 3)


async def test_a_client_that_says_something_new_gives_its_own_waiting_turn_up(home: Path) -> None:
    async with sitting(home, {"text": "Aye."}, calls(*TWO), {"text": "Gone on."}) as desk:
        await desk.ask(*talk("one"))
        run, reply = await desk.ask(*talk("one", "Aye.", "look!"), tools=(LOOK,))
        assert reply.ending == "calls"
        last, reply = await desk.ask(*talk("one", "Aye.", "never mind"))
        assert reply.text == "Gone on."
        assert run.over
        await desk.over(last)
        endings = [(entry.ending, entry.why) for entry in desk.entries("turn_ended")]
        assert endings == [
            ("done", ""),
            ("interrupted", "The client went on without the results of its tools."),
            ("done", ""),
        ]


async def test_who_knows_another_conversation_waits_until_the_results_are_there(
    home: Path,
) -> None:
    async with sitting(home, {"text": "Aye."}, calls(*TWO), {"text": "Seen."}) as desk:
        await desk.ask(*talk("one"))
        waiting, reply = await desk.ask(*talk("one", "Aye.", "look!"), tools=(LOOK,))
        other = asyncio.create_task(desk.ask(*talk("two"), session="main"))
        await desk.ask(*talk("one", "Aye.", "three"), session="other")
        assert not other.done()
        assert not waiting.over
        await desk.ask(*(result(call.id, "a cat") for call in reply.calls))
        await desk.over((await other)[0])
        assert desk.asked() == ["one", "look!", "two"]
        assert [entry.ending for entry in desk.entries("turn_ended")] == ["done"] * 3


async def test_results_that_never_come_are_waited_for_as_long_as_is_set(home: Path) -> None:
    wait = "[serve]\ntool_wait = 0.01\n"
    async with sitting(home, calls(*TWO), {"text": "Hello."}, settings=wait) as desk:
        await asked_for_tools(desk)
        assert (await desk.ask(*talk("hello?")))[1].text == "Hello."
        first = desk.entries("turn_ended")[0]
        assert first.ending == "interrupted"
        assert first.why == "The client did not return its tools' results within 0.01 seconds."


async def test_tools_of_ours_and_models_have_rooms_of_their_own(home: Path) -> None:
    async with sitting(home) as desk:
        model = str(api.Home(home).settings.models.default)
        wishes: list[dict[str, Any]] = [
            *({}, {"model": model}, {"own_tools": True}, {"model": "default"})
        ]
        rooms = [
            (await desk.ask(*talk(f"{number}"), **wish))[0].room
            for number, wish in enumerate(wishes)
        ]
        assert desk.gateway.rooms == 3
        assert rooms[0] is rooms[3]
        assert [room.guest.own_tools for room in rooms[:3]] == [False, False, True]
        assert desk.asked() == ["0", "1", "2", "3"]


async def test_what_nobody_uses_is_closed_and_what_somebody_waits_for_is_not(home: Path) -> None:
    replies = (calls(*TWO), {"text": "Seen."})
    async with sitting(home, *replies, settings="[serve]\nidle = 0\n") as desk:
        quiet, _ = await desk.ask(*talk("one"), session="quiet")
        busy, reply = await desk.ask(*talk("look!"), session="busy", tools=(LOOK,))
        await quiet.room.conversation.settled()
        async with asyncio.timeout(PATIENCE):
            while desk.gateway.rooms == 2:
                await asyncio.sleep(0)
                await desk.gateway.close_idle()
        assert desk.gateway.rooms == 1
        assert (quiet.room._listener.done(), busy.room._listener.done()) == (True, False)
        _, reply = await desk.ask(*(result(call.id, "a cat") for call in reply.calls))
        assert reply.text == "Seen."
        (home / "config.toml").write_text(
            (home / "config.toml").read_text().replace("idle = 0", "idle = 900")
        )
        await desk.gateway.close_idle()
        assert desk.gateway.rooms == 1
        await desk.ask(*talk("again"), session="quiet")
        assert desk.gateway.rooms == 2
        assert busy.over
    assert desk.gateway.rooms == 0


async def test_a_picture_that_is_only_named_is_refused_and_others_are_kept(home: Path) -> None:
    async with sitting(home) as desk:
        far = said("user", "this?", pictures=(Picture(url="https://example.org/a.png"),))
        with pytest.raises(UsageError, match="nothing is fetched"):
            await desk.ask(far)
        with pytest.raises(UsageError, match="does not take pictures"):
            await desk.ask(
                said("user", "this?", pictures=(Picture(data=PNG),)), model="local/guide"
            )
        assert desk.asked() == []
        past = (said("user", "this?", pictures=(Picture(data=PNG), Picture(url="x"))),)
        run, _ = await desk.ask(*past, said("assistant", "A box."), said("user", "so?"))
        (first, second) = desk.entries("user_message", run.room.conversation.session)
        assert [image.name for image in first.images] == ["picture-1"]
        assert second.images == ()


def test_the_figures_of_several_answers_are_the_last_prompt_and_all_that_was_said() -> None:
    first, last = Usage(prompt=5, completion=3, cached=2), Usage(prompt=9, completion=4)
    assert _added(first, last) == Usage(prompt=9, completion=7)
    assert _added(Usage(), last) == last
    assert _added(last, Usage(prompt=1)) == Usage(prompt=1, completion=4)
