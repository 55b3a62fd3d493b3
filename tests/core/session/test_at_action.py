"""In a session of our own, too, what other sessions know is said where something is done."""

from __future__ import annotations

from pathlib import Path

from mindstone_tui.core.entries.derived import HookRun
from mindstone_tui.core.paths import SessionKey
from tests.core.session.stage import calls, on_stage, script

WHY = "Move the listener in port.txt to 8443, because the proxy owns 3000."
CHANGE = calls(("write", {"path": "port.txt", "content": "8443"}))
AGAIN = calls(("write", {"path": "port.txt", "content": "9443"}))


async def test_an_edit_is_told_what_the_file_was_last_changed_for_as_data(
    home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "app"
    project.mkdir()
    model = script(tmp_path, CHANGE, {"text": "Done."})
    async with on_stage(home, model=model, cwd=project, approve="auto-edit") as stage:
        await stage.say(WHY)
        assert stage.entries(HookRun) == []
    model = script(project, AGAIN, AGAIN, {"text": "Done."})
    other = SessionKey("default", "other")
    async with on_stage(home, key=other, model=model, cwd=project, approve="auto-edit") as stage:
        await stage.say("Another port, please.")
        (note,) = stage.entries(HookRun)
        assert (note.event, note.source) == ("PreToolUse", "mindstone")
        assert WHY in note.text
        assert "in main #" in note.text
        first, second, third = stage.requests()
        assert note.text not in str(first)
        assert second[-1]["content"] == third[-1]["content"] == note.text
        assert third[: len(second) - 1] == second[:-1], "up to its tail, a prompt only grows"
