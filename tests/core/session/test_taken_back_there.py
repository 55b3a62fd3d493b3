"""Who goes on in a session of another program goes on without what was taken back there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.core.config import Settings
from mindstone_tui.core.library.watch import LiveImports
from mindstone_tui.core.paths import Places, SessionKey
from tests.core.interchange.helpers import write_lines
from tests.core.session.stage import Stage, on_stage, script

_GONE = ("betaqueue", "betafile", "wharf")


def _record(name: str, after: str, kind: str, content: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    links = {"uuid": name, "parentUuid": after or None}
    return {"type": kind, "sessionId": "s1", "cwd": "/p", **links, "message": message}


def _theirs(*, went_back: bool) -> list[dict[str, Any]]:
    """A session in which a file is changed; then somebody goes back before that."""
    edit = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "betafile.py"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "betafile.py is edited"}
    first = [
        _record("u1", "", "user", "The cache is called alphacache."),
        _record("a1", "u1", "assistant", "Noted."),
        _record("u2", "a1", "user", "We decided that it is the betaqueue. Leave wharf.py alone."),
        _record("a2", "u2", "assistant", [edit]),
        _record("r2", "a2", "user", [result]),
        _record("a3", "r2", "assistant", "The betaqueue stands in betafile.py."),
    ]
    then = [
        _record("u3", "a1", "user", "It is the gammaqueue."),
        _record("a4", "u3", "assistant", "The gammaqueue, then."),
    ]
    return [*first, *then] if went_back else first


async def _shown(stage: Stage) -> dict[str, str]:
    """What the next window is told: by a handoff, a checkpoint, a resume block, the prompt."""
    told = {}
    for each in ("/checkpoint save", "/handoff write"):
        assert (await stage.run(each))[0].ok
    for each in ("/handoff show", "/checkpoint show", "/checkpoint resume"):
        told[each] = (await stage.run(each))[1]
    await stage.say("What does the queue do?")
    await stage.rest()
    told["window"] = str(stage.session.services.context.window.fold.lines)
    return told | {"prompt": str(stage.requests()[-1])}


@pytest.mark.parametrize("how", ["imported", "imported after going on", "followed"])
async def test_what_another_program_took_back_is_found_and_is_nowhere_in_what_one_goes_on_with(
    how: str, home: Path, tmp_path: Path
) -> None:
    went_on = how == "imported after going on"
    key, model = SessionKey.parse("claude-code-s1"), script(tmp_path, {"text": "Fine."}, loop=True)
    path = tmp_path / "s1.jsonl"
    assert run_verb(["import", str(write_lines(path, _theirs(went_back=False)))]) == 0
    if went_on:
        async with on_stage(home, key=key, model=model) as stage:
            for where, text in (await _shown(stage)).items():
                assert "betaqueue" in text or where == "/checkpoint resume", where
    write_lines(path, _theirs(went_back=True))
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    live = LiveImports(places, Settings(), {}).of(path)
    for _ in range(2):
        if how == "followed":
            live.catch_up(settled=True)
        else:
            assert run_verb(["import", str(path)]) == 0
    async with on_stage(home, key=key, model=model) as stage:
        if went_on:
            for each in ("/handoff show", "/checkpoint resume"):
                assert "went back before that since" in (await stage.run(each))[1]
        for where, text in (await _shown(stage)).items():
            assert not [word for word in _GONE if word in text], where
            assert "gammaqueue" in text or where.startswith("/checkpoint"), where
        await stage.say("What do you know of the betaqueue in betafile.py?")
        assert "The betaqueue stands" not in str(stage.requests()[-1])
        found = (await stage.run("/recall betaqueue"))[1]
        assert "taken back there" in found
        assert (await stage.run("/fork child"))[0].ok
    async with on_stage(home, key=SessionKey.parse("child"), model=model) as stage:
        await stage.say("Go on.")
        assert "The betaqueue stands" not in str(stage.requests()[-1])
        assert "gammaqueue" in str(stage.requests()[-1])


async def test_a_branch_that_is_taken_up_again_there_is_in_the_window_again(
    home: Path, tmp_path: Path
) -> None:
    key, path = SessionKey.parse("claude-code-s1"), tmp_path / "s1.jsonl"
    again = _record("u4", "a3", "user", "Back to the betaqueue, please.")
    for told in (_theirs(went_back=False), back := _theirs(went_back=True), [*back, again]):
        assert run_verb(["import", str(write_lines(path, told))]) == 0
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, key=key, model=model) as stage:
        await stage.say("What does the queue do?")
        sent = str(stage.requests()[-1])
    assert "betafile.py is edited" in sent
    assert sent.index("Leave wharf.py alone") < sent.index("Back to the betaqueue")
    assert "gammaqueue" not in sent


def test_search_says_of_the_line_and_not_of_its_session_that_it_was_taken_back_there(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s1.jsonl"
    for told in (_theirs(went_back=False), _theirs(went_back=True)):
        assert run_verb(["import", str(write_lines(path, told))]) == 0
    capsys.readouterr()
    assert run_verb(["search", "Which queue was decided: betaqueue or gammaqueue?"]) == 0
    marked = [one for one in capsys.readouterr().out.splitlines() if "taken back there" in one]
    assert marked
    assert all("  imported, taken back there" in one and "#" in one for one in marked)


async def test_what_was_taken_back_there_corrects_nothing_and_answers_nothing(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, path = SessionKey.parse("claude-code-s1"), tmp_path / "s1.jsonl"
    said = [
        _record("u1", "", "user", "The gateway port is 7001."),
        _record("a1", "u1", "assistant", "Noted."),
        _record("u2", "a1", "user", "Correction: the gateway port is 7002, not 7001."),
        _record("a2", "u2", "assistant", "Noted."),
    ]
    back = [
        _record("u3", "a1", "user", "The lighthouse is white."),
        _record("a3", "u3", "assistant", "White."),
    ]
    for told, number in ((said, "7002"), ([*said, *back], "7001")):
        assert run_verb(["import", str(write_lines(path, told))]) == 0
        async with on_stage(home, key=key, model="local/guide") as stage:
            here = len(stage.streamed)
            await stage.say("Which port does the gateway use?")
            await stage.rest()
            answer = stage.streamed[here:]
            assert number in answer
            assert ("7002" in answer) is (number == "7002")
            assert (await stage.run("/handoff write"))[0].ok
            letter = (await stage.run("/handoff show"))[1]
        assert ("superseded by line" in letter) is (number == "7002")
        where = ["-s", str(key)]
        for verb in (
            ["search", "gateway port"],
            ["recall", *where, "gateway port"],
            ["log", *where, "-k", "user_message"],
        ):
            capsys.readouterr()
            assert run_verb(verb) == 0
            assert ("superseded by #" in capsys.readouterr().out) is (number == "7002"), verb
