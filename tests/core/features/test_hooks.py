"""Hooks: run at their moment, in any language, never able to hang, flood or lie their way in."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import ToolRefused
from mindstone_tui.core.entries.derived import HookRun
from mindstone_tui.core.entries.store import ProjectTrusted
from mindstone_tui.core.events.question import scopes_of
from mindstone_tui.core.tools.hooks import Hook
from tests.core.session.stage import calls, on_stage, script

SAYS = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "Xyzzy."}}
DENY = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "not on a Friday",
    }
}


def hooks(folder: Path, **commands: Any) -> None:
    """Write a file of hooks: an event, its command, and a matcher before a colon."""
    told: dict[str, list[Any]] = {}
    for name, given in commands.items():
        for one in given if isinstance(given, list) else [given]:
            matcher, command = one if isinstance(one, tuple) else ("", one)
            each = {"type": "command", "command": command, "timeout": 20}
            told.setdefault(name, []).append({"matcher": matcher, "hooks": [each]})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hooks.json").write_text(json.dumps({"hooks": told}))


def prints(folder: Path, name: str, value: object) -> str:
    """A command that prints JSON."""
    path = folder / name
    path.write_text(json.dumps(value))
    return f"cat {path}"


def workspace(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


async def test_every_event_reaches_its_hook_with_what_it_is_about(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    log = tmp_path / "log"
    home = tmp_path / "home"
    hooks(
        home,
        **dict.fromkeys(
            ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"),
            f"cat >> {log}; echo >> {log}",
        ),
    )
    says = script(
        tmp_path,
        calls(("write", {"path": "a.txt", "content": "x"})),
        {"text": "written"},
        loop=True,
    )
    async with on_stage(home, cwd=work, model=says, approve="auto-edit") as stage:
        await stage.say("write it")
    told = [json.loads(line) for line in log.read_text().splitlines() if line]
    assert [each["hook_event_name"] for each in told] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ]
    assert all(each["session_id"] and each["cwd"] == str(work) for each in told)
    assert told[1]["prompt"] == "write it"
    assert told[2]["tool_name"] == "write"
    assert told[2]["tool_input"]["file_path"] == str(work / "a.txt")
    assert told[3]["tool_response"]["status"] == "ok"
    assert told[4]["last_assistant_message"] == "written"
    assert len(stage.entries(HookRun)) == 6


async def test_context_arrives_word_for_word_in_this_turn_and_no_other(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    hooks(home, UserPromptSubmit=prints(tmp_path, "says", SAYS), SessionStart="echo Plugh.")
    says = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.say("first")
        (home / "hooks.json").unlink()
        await stage.say("second")
        first, second = stage.requests()
    assert "Xyzzy." in first[-1]["content"]
    assert "Xyzzy." not in json.dumps(second)
    assert "Plugh." in first[0]["content"]
    assert "Plugh." in second[0]["content"], "what was said at the start holds for the session"


async def test_a_hook_that_wants_a_call_asked_about_is_heard_where_it_is_asked_about_anyway(
    tmp_path: Path,
) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    ask = {"hookSpecificOutput": {**DENY["hookSpecificOutput"], "permissionDecision": "ask"}}
    hooks(home, PreToolUse=prints(tmp_path, "ask", ask))
    says = script(tmp_path, calls(("shell", {"command": "rm -rf build"})), {"text": "well"})
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        stage.session.send("clean up")
        asked = await stage.until(events.ToolAsked)
        assert "a hook wants it: not on a Friday" in asked.why
        assert [one.scope for one in scopes_of(asked)] == ["once"], "it asks the next time as well"
        assert len(asked.why) > len("not on a Friday"), "and so is the reason of its own"
        stage.session.answer(asked.call, events.Answer(allowed=False))
        await stage.until(events.TurnEnded)


async def test_a_hook_denies_a_call_with_its_reason(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    hooks(home, PreToolUse=[("Write|Edit", prints(tmp_path, "deny", DENY)), ("read", "exit 2")])
    says = script(
        tmp_path,
        calls(("write", {"path": "a.txt", "content": "x"}), ("list", {"path": "."})),
        {"text": "well"},
        loop=True,
    )
    async with on_stage(home, cwd=work, model=says, approve="auto-edit") as stage:
        await stage.say("write it")
        (refused,) = stage.entries(ToolRefused)
        ended = stage.all(events.ToolEnded)
    assert refused.by == "hook"
    assert refused.why == "not on a Friday"
    assert [each.status for each in ended] == ["refused", "ok"]
    assert ended[0].shown.startswith("write a.txt\n"), "people see what was not run"
    assert not (work / "a.txt").exists()


async def test_a_hook_sees_what_will_run_by_whatever_names_the_model_says_it(
    tmp_path: Path,
) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    hooks(home, PreToolUse='if grep -q \'"content":"secret\'; then exit 2; fi')
    says = script(
        tmp_path, calls(("write", {"filename": "a.txt", "text": "secret"})), {"text": "well"}
    )
    async with on_stage(home, cwd=work, model=says, approve="auto-edit") as stage:
        await stage.say("write it")
        (refused,) = stage.entries(ToolRefused)
    assert refused.by == "hook"


def test_a_hook_fits_a_tool_by_whatever_name_others_know_it() -> None:
    for matcher, tool in (
        *(("Bash", "background"), ("shell|write", "background"), ("Read", "read")),
        *(("mcp__github__.*", "github__push"), ("github__push", "github__push"), ("*", "list")),
    ):
        hook = Hook(event="PreToolUse", command="x", source="user", matcher=matcher)
        assert hook.fits(tool)
        assert matcher == "*" or not hook.fits("edit")


async def test_nothing_that_looks_secret_hides_the_rest_of_a_call_from_a_hook(
    tmp_path: Path,
) -> None:
    work, home, log = workspace(tmp_path), tmp_path / "home", tmp_path / "log"
    hooks(home, PreToolUse=f"cat >> {log}; echo >> {log}; exit 2")
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEAyW7xL" * 2
    says = script(
        tmp_path,
        calls(("write", {"content": key, "path": "-----END RSA PRIVATE KEY-----"})),
        calls(("write", {"content": "PASSWORD=Tr0ub4dor22 rm x", "path": "a.txt"})),
        {"text": "well"},
    )
    async with on_stage(home, cwd=work, model=says, approve="auto-edit") as stage:
        await stage.say("write it")
    given = [json.loads(line)["tool_input"] for line in log.read_text().splitlines()]
    assert given[0]["path"] == "-----END RSA PRIVATE KEY-----"
    assert given[0]["content"].startswith("[redacted:private-key:")
    assert given[1]["content"].endswith(" rm x")
    assert "Tr0ub4dor22" not in log.read_text()
    assert "MIIEpAIBAAKCAQEAyW7xL" not in log.read_text()


async def test_a_hook_stops_a_message_and_sends_a_turn_on_once(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    hooks(home, Stop="echo 'run the tests first' >&2; exit 2")
    says = script(tmp_path, {"text": "done"}, {"text": "tested"}, {"text": "more"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        ended = await stage.say("do it")
        assert ended.calls == 2
        assert "run the tests first" in stage.requests()[-1][-1]["content"]
        hooks(home, UserPromptSubmit="echo 'no secrets here' >&2; exit 2")
        ended = await stage.say("my password is …")
        assert ended.ending == "failed"
        assert "no secrets here" in ended.why
        assert ended.calls == 0


SCRIPTS = {
    "hanging": ("sleep 600", "timeout"),
    "crashing": ("kill -SEGV $$", "failed"),
    "flooding": ("yes | head -c 100000000", "failed"),
    "lying": ('echo \'{"hookSpecificOutput": 7, "decision": [1]\'', "failed"),
    "lying types": ('echo \'{"decision": {"a": 1}}\'', "failed"),
    "failing": ("echo broken >&2; exit 7", "failed"),
    "missing": ("/nonexistent/program", "failed"),
    "deaf": ("exec 0<&-; true", "ok"),
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_broken_hook_changes_nothing_and_is_on_record(tmp_path: Path, name: str) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    command, status = SCRIPTS[name]
    hooks(home, UserPromptSubmit=command)
    if status == "timeout":
        (home / "config.toml").write_text("[hooks]\nseconds = 0.3\n")
        told = json.loads((home / "hooks.json").read_text())
        del told["hooks"]["UserPromptSubmit"][0]["hooks"][0]["timeout"]
        (home / "hooks.json").write_text(json.dumps(told))
    says = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        ended = await stage.say("tell me " * 20_000)
        assert ended.ending == "done"
        (run,) = stage.entries(HookRun)
        assert run.status == status, run.why
        warned = [each for each in stage.all(events.Noticed) if "changed nothing" in each.message]
        assert bool(warned) == (status != "ok")


async def test_a_person_is_told_what_became_of_hooks_at_the_end_of_a_turn_and_before_room_is_made(
    tmp_path: Path,
) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    said = prints(tmp_path, "said", {"systemMessage": "Tests are green."})
    hooks(home, Stop=["exit 7", said], PreCompact="exit 8")
    async with on_stage(home, cwd=work, model=script(tmp_path, {"text": "ok"}, loop=True)) as stage:
        await stage.say("hello")
        await stage.run("/prune results")
        told = [each.message for each in stage.all(events.Noticed)]
    assert any("Stop" in each and "exit code 7" in each for each in told)
    assert any("Tests are green." in each for each in told)
    assert any("PreCompact" in each and "exit code 8" in each for each in told)


@pytest.mark.thorough
async def test_hooks_that_fail_when_room_is_made_by_itself_or_the_session_ends_are_told(
    tmp_path: Path,
) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    hooks(home, PreCompact="exit 8", SessionEnd="exit 9")
    says = script(tmp_path, {"text": "word " * 400}, loop=True)
    async with on_stage(home, cwd=work, model=says, context_window=6_000) as stage:
        while not stage.entries(HookRun):
            await stage.say("tell me " * 40)
        told = [each.message for each in stage.all(events.Noticed)]
        assert sum("PreCompact" in each and "exit code 8" in each for each in told) == 1
    told = [each.message for each in stage.all(events.Noticed)]
    assert any("SessionEnd" in each and "exit code 9" in each for each in told)


PROGRAMS = {
    "python3": "import json, sys; told = json.load(sys.stdin); "
    "print(json.dumps({'decision': 'block', 'reason': told['tool_name']}))",
    "node": "const told = JSON.parse(require('fs').readFileSync(0)); "
    "console.log(JSON.stringify({decision: 'block', reason: told.tool_name}))",
    "perl": 'local $/; my $t = <STDIN>; $t =~ /"tool_name":"(\\w+)"/; '
    'print "{\\"decision\\":\\"block\\",\\"reason\\":\\"$1\\"}"',
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_hooks_are_written_in_any_language(tmp_path: Path, program: str) -> None:
    if (found := shutil.which(program)) is None:
        pytest.skip(f"{program} is not installed")
    work, home = workspace(tmp_path), tmp_path / "home"
    source = tmp_path / "hook"
    source.write_text(PROGRAMS[program])
    hooks(home, PreToolUse=f"{found} {source}")
    says = script(tmp_path, calls(("list", {"path": "."})), {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.say("look")
        assert [each.why for each in stage.entries(ToolRefused)] == ["list"]


async def test_a_shell_trusts_what_another_shell_printed_by_its_mark(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    hooks(work / ".mindstone", SessionStart="true")
    surface = partial(
        on_stage, home, cwd=work, model=script(tmp_path, {"text": "ok"}), channel="run"
    )
    typed = "/trust"
    for _ in range(2):
        async with surface() as stage:
            stage.session.command(typed, seen=-1.0)
            assert (await stage.until(events.CommandEnded)).ok
            typed = stage.all(events.CommandPrinted)[0].text.rpartition("`/trust")[2]
            typed = f"/trust{typed.partition('`')[0]}"
    assert len(stage.entries(ProjectTrusted)) == 1


async def test_a_hostile_project_gets_nothing_before_it_is_trusted(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    mark = tmp_path / "pwned"
    hooks(work / ".mindstone", SessionStart=f"touch {mark}", UserPromptSubmit=f"touch {mark}")
    (work / ".claude" / "commands").mkdir(parents=True)
    (work / ".claude" / "commands" / "status.md").write_text(f"!`touch {mark}`\n")
    says = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.say("hello")
        _, text = await stage.run("/hooks")
        assert "There are no hooks" in text
        _, text = await stage.run("/trust")
        assert f"touch {mark}" in text, "the exact command is shown"
        assert not stage.entries(HookRun)
        assert not mark.exists()
        hooks(work / ".mindstone", SessionStart=f"touch {mark} # not what was shown")
        assert not (await stage.run("/trust yes"))[0].ok
        await stage.say("nobody trusted that")
        assert "not what was shown" in (await stage.run("/trust"))[1]
        assert (await stage.run("/trust yes"))[0].ok
        hooks(work / ".mindstone", SessionStart=f"touch {mark}; true")
        await stage.say("it changed since it was trusted")
        assert not stage.entries(HookRun)
    assert not mark.exists()


async def test_nobody_trusts_with_one_word_what_was_never_shown(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    mark = tmp_path / "pwned"
    hooks(work / ".mindstone", UserPromptSubmit="echo harmless")
    says = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.say("hello")
        hooks(work / ".mindstone", UserPromptSubmit=f"touch {mark}")
        ended, told = await stage.run("/trust yes")
        assert not ended.ok
        assert f"touch {mark}" in told
        await stage.say("hello again")
        assert not stage.entries(HookRun)
        assert not stage.entries(ProjectTrusted)
        named = re.search(r"/trust yes #[0-9a-f]{8}", told)
        assert named is not None
        hooks(work / ".mindstone", UserPromptSubmit="echo harmless")
        assert not (await stage.run(named[0]))[0].ok, "that named something else"
    async with on_stage(home, cwd=work, model=says) as stage:
        _, told = await stage.run("/trust yes")
        named = re.search(r"/trust yes #[0-9a-f]{8}", told)
        assert named is not None
    async with on_stage(home, cwd=work, model=says) as stage:
        stage.session.command(named[0], seen=-1.0)
        await stage.until(events.CommandEnded)
        (trusted,) = stage.entries(ProjectTrusted)
        assert trusted.seen == 0.0, "it was not shown in this program"


async def test_a_trusted_projects_hook_cannot_leave_its_sandbox(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    mark = tmp_path / "pwned"
    hooks(work / ".mindstone", UserPromptSubmit=f"touch {mark}; touch inside; echo hello")
    says = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.run("/trust")
        assert (await stage.run("/trust yes"))[0].ok
        await stage.say("hello")
        (run,) = stage.entries(HookRun)
        assert run.source == "project"
        if run.status == "ok":
            assert "<data-" in run.text, "what a project says is data"
    assert not mark.exists()


async def test_what_a_projects_hook_plants_is_taken_back(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    (work / "sub").mkdir()
    hooks(work / ".mindstone", UserPromptSubmit="n=env; echo evil > sub/.${n}rc; echo x > sub/made")
    says = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.run("/trust")
        assert (await stage.run("/trust yes"))[0].ok
        await stage.say("hello")
        (run,) = stage.entries(HookRun)
        if run.why.startswith("nothing on this machine"):
            pytest.skip("nothing on this machine confines commands")
    assert (work / "sub/made").exists()
    assert not (work / "sub/.envrc").exists()


async def test_a_confined_hook_whose_file_is_out_of_sight_says_that_it_is_confined(
    tmp_path: Path,
) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    hooks(work / ".mindstone", UserPromptSubmit=f"cat {home}/config.toml")
    says = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        (home / "config.toml").write_text("")
        await stage.run("/trust")
        assert (await stage.run("/trust yes"))[0].ok
        await stage.say("hello")
        (run,) = stage.entries(HookRun)
        if run.why.startswith("nothing on this machine"):
            pytest.skip("nothing on this machine confines commands")
        assert run.status == "failed"
        assert "(it is confined, " in run.why, run.why


async def test_secrets_do_not_reach_a_hook(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    log = tmp_path / "log"
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    hooks(home, UserPromptSubmit=f"cat > {log}; env >> {log}")
    says = script(tmp_path, {"text": "ok"}, loop=True)
    environ = {"OPENAI_API_KEY": "sk-abcdefghijklmnopqrstuvwxyz123456", "PATH": "/usr/bin:/bin"}
    async with on_stage(home, cwd=work, model=says, environ=environ) as stage:
        await stage.say(f"my token is {secret}")
    text = log.read_text()
    assert "hook_event_name" in text
    assert secret not in text
    assert "sk-abcdef" not in text
