"""Hooks of attached programs: what they get, what is taken over, and that they never fail."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from mindstone_tui import api
from mindstone_tui.cli.serve import make_room
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.rules.book import RuleBook, Scope, StandingRule
from mindstone_tui.core.rules.grammar import compile_rule
from mindstone_tui.core.tokens import rough_count
from mindstone_tui.core.transcript import History
from mindstone_tui.servers.attached import Attached
from mindstone_tui.servers.resident import Resident, ask, listening
from tests.cli.program import ROOT
from tests.core.library.test_live_import import ClaudeFile

Hook = Callable[[dict[str, Any]], Awaitable[Any]]
FACT = "Remember: the staging database listens on port 5433."


def claude_file(folder: Path, name: str, cwd: str, *said: str) -> Path:
    """A session of two-line exchanges."""
    written = ClaudeFile(name, cwd)
    for number, text in enumerate(said):
        written.add("user", role="user", content=text)
        answer = [{"type": "text", "text": f"Noted, {number}."}]
        written.add("assistant", role="assistant", id=f"m{number}", model="opus", content=answer)
    file = folder / f"{name}.jsonl"
    file.write_text("".join(written.lines))
    return file


class Stage:
    """A home with attached programs, driven hook by hook."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = api.Home(tmp_path / "ours", {"HOME": str(tmp_path)})
        self.project = tmp_path / "app"
        self.project.mkdir()
        self.folder = tmp_path / ".claude" / "projects" / "app"
        self.folder.mkdir(parents=True)
        self.attached = Attached(self.home)

    async def call(self, event: str, session: str = "now", **fields: Any) -> str:
        answer = await self.answer(event, session, **fields)
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    async def answer(
        self, event: str, session: str = "now", program: str = "claude-code", **fields: Any
    ) -> dict[str, Any]:
        said = {
            "hook_event_name": event,
            "session_id": session,
            "cwd": str(self.project),
            "tool_response": {"stdout": "not of interest"},
            **fields,
        }
        given = {"program": program, "said": said}
        answer: dict[str, Any] = await self.attached.methods()["hook"](given)
        await self.attached.done()
        return answer

    async def runs(self, command: str, **fields: Any) -> dict[str, Any]:
        """The answer to a program that is about to run a command."""
        event = "BeforeTool" if fields.get("program") == "gemini-cli" else "PreToolUse"
        call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "c1"}
        return await self.answer(event, **{**call, **fields})

    def rule(self, words: str, scope: Scope = "project", folder: str = "") -> None:
        """Set a rule."""
        rule = StandingRule(
            number=0,
            words=words,
            scope=scope,
            session="agent:default:main",
            line=7,
            since="2026-11-17T00:00:00Z",
            folder=(folder or str(self.project)) if scope == "project" else "",
            check=compile_rule(words),
        )
        book = RuleBook(self.home.places)
        book.add(lambda number: msgspec.structs.replace(rule, number=number))

    async def earlier(self, name: str, *said: str, cwd: str = "") -> None:
        """A session that ended before."""
        file = claude_file(self.folder, name, cwd or str(self.project), *said)
        await self.call("SessionEnd", name, transcript_path=str(file))

    async def worked(self, name: str, asked: str, *steps: tuple[str, dict[str, str], str]) -> None:
        """A session that ended before, in which tools were used: name, arguments, result."""
        written = ClaudeFile(name, str(self.project))
        written.add("user", role="user", content=asked)
        for at, (tool, given, result) in enumerate(steps):
            use = {"type": "tool_use", "id": f"c{at}", "name": tool, "input": given}
            written.add("assistant", role="assistant", id=f"m{at}", model="opus", content=[use])
            gave = {"type": "tool_result", "tool_use_id": f"c{at}", "content": result}
            written.add("user", role="user", content=[gave])
        done = [{"type": "text", "text": "Done."}]
        written.add("assistant", role="assistant", id="last", model="opus", content=done)
        file = self.folder / f"{name}.jsonl"
        file.write_text("".join(written.lines))
        await self.call("SessionEnd", name, transcript_path=str(file))

    async def edits(self, path: str, **fields: Any) -> str:
        """What a program is told that is about to change a file."""
        given = {"file_path": str(self.project / path), "old_string": "a", "new_string": "b"}
        return await self.call("PreToolUse", tool_name="Edit", tool_input=given, **fields)

    async def fails(self, command: str, error: str, **fields: Any) -> str:
        """What a program is told whose command failed."""
        given = {"tool_name": "Bash", "tool_input": {"command": command}, "error": error}
        return await self.call("PostToolUseFailure", **{**given, **fields})

    def kinds(self, session: str) -> list[str]:
        own = self.home.places.session(SessionKey("default", f"claude-code-{session}"))
        with History(own) as history:
            return [getattr(line, "kind", "") for line in history.read()]


async def test_a_prompt_gets_what_earlier_sessions_of_its_project_say_with_pointers(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    await stage.earlier("one", FACT)
    await stage.earlier("other", "The staging database listens on port 9999.", cwd="/elsewhere")
    given = await stage.call("UserPromptSubmit", prompt="Which port does staging use?")
    assert 'origin="mindstone recall"' in given
    assert "agent:default:claude-code-one #2" in given
    assert FACT in given
    assert "9999" not in given
    await stage.attached.close()


async def test_where_nothing_answers_nothing_is_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.earlier("one", FACT)
    for prompt in ("", "thanks!", "/clear", "What is the capital of Mongolia?"):
        assert await stage.call("UserPromptSubmit", prompt=prompt) == ""
    await stage.attached.close()


async def test_what_is_in_the_programs_own_window_is_not_repeated_until_it_compacts(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    file = str(claude_file(tmp_path, "now", str(stage.project), FACT))
    await stage.call("Stop", transcript_path=file)
    asked = {"prompt": "Which port does staging use?"}
    assert await stage.call("UserPromptSubmit", **asked) == ""
    await stage.call("PreCompact", transcript_path=file)
    kinds = stage.kinds("now")
    assert "checkpoint_saved" in kinds
    assert "handoff_written" in kinds
    assert FACT in await stage.call("UserPromptSubmit", **asked)
    await stage.attached.close()


async def test_a_new_session_is_offered_the_handoff_of_the_one_before(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert await stage.call("SessionStart", "new", source="startup") == ""
    await stage.earlier("one", "Build the parser.", "Now its tests.", FACT)
    offered = await stage.call("SessionStart", "new", source="startup")
    assert "agent:default:claude-code-one" in offered
    assert "Build the parser." in offered
    assert await stage.call("SessionStart", "new", source="resume") == ""
    await stage.attached.close()


async def test_what_a_hook_cannot_read_harms_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"\xff\xfe{ half")
    for path in (str(broken), str(tmp_path / "gone.jsonl"), "relative.jsonl", ""):
        for event in ("PostToolUse", "PreCompact", "SessionEnd", "SomethingNew"):
            assert await stage.call(event, transcript_path=path) == ""
    assert list(stage.home.places.sessions()) == []
    await stage.attached.close()


NEVER = "Never force push"
ASK = "Ask me before running terraform apply"
FORCE = "cd . && git push -f origin main"


@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini-cli", "qwen-code"])
async def test_a_call_that_breaks_a_rule_is_answered_in_the_form_that_the_program_obeys(
    tmp_path: Path, program: str
) -> None:
    stage = Stage(tmp_path)
    stage.rule(NEVER)
    stage.rule(ASK, "everywhere")
    denied = await stage.runs(FORCE, program=program)
    asked = await stage.runs("terraform apply", program=program)
    assert await stage.runs("ls && git push", program=program) == {}
    if program == "gemini-cli":
        verdicts = [one["decision"] for one in (denied, asked)]
        reasons = [one["reason"] for one in (denied, asked)]
    else:
        told = [one["hookSpecificOutput"] for one in (denied, asked)]
        assert {one["hookEventName"] for one in told} == {"PreToolUse"}
        verdicts = [one["permissionDecision"] for one in told]
        reasons = [one["permissionDecisionReason"] for one in told]
    asks = program in ("claude-code", "qwen-code")
    assert verdicts == ["deny", "ask" if asks else "deny"]
    assert (
        f'"{NEVER}" (your rule 1, 2026-11-17, line 7 of main). It refuses: `git push`' in reasons[0]
    )
    assert ASK in reasons[1]
    assert ("stop, and let the person do it" in reasons[1]) != asks
    await stage.attached.close()


async def test_a_rule_binds_other_programs_by_their_folder_and_by_nothing_else(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    stage.rule(NEVER, folder=str(tmp_path / "other"))
    stage.rule(NEVER, "session")
    assert await stage.runs(FORCE) == {}
    (tmp_path / "link").symlink_to(stage.project)
    (stage.project / "deep/down").mkdir(parents=True)
    stage.rule(NEVER)
    for folder in (stage.project, stage.project / "deep/down", tmp_path / "link"):
        assert await stage.runs(FORCE, cwd=str(folder)) != {}
    assert await stage.runs(FORCE, cwd=str(tmp_path)) == {}
    RuleBook(stage.home.places).retire(3, "2026-11-18T00:00:00Z")
    assert await stage.runs(FORCE) == {}
    await stage.attached.close()


async def test_each_firing_is_in_the_session_that_mirrors_the_programs_or_in_our_log(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    stage.rule(NEVER)
    await stage.runs(FORCE)
    assert "rule 1: deny for a call of Bash" in stage.home.places.log.read_text()
    file = str(claude_file(tmp_path, "now", str(stage.project), FACT))
    await stage.runs(FORCE, transcript_path=file)
    assert stage.kinds("now").count("rule_fired") == 1
    await stage.call("Stop", transcript_path=file)
    assert stage.kinds("now").count("rule_fired") == 1
    await stage.attached.close()


async def test_paths_are_those_of_the_project_wherever_in_it_the_program_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "vendor").mkdir()
    stage = Stage(tmp_path / "vendor")
    (stage.project / ".git").mkdir()
    (stage.project / "src").mkdir()
    stage.rule("Never edit files under vendor/")
    stage.rule("Only touch files under src/")

    async def writes(path: str, cwd: Path) -> int:
        given = {"file_path": path, "content": "x"}
        answer = await stage.runs("", cwd=str(cwd), tool_name="Write", tool_input=given)
        said = answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")
        return 1 if "rule 1" in said else 2 if "rule 2" in said else 0

    assert await writes(str(stage.project / "src/a.c"), stage.project) == 0
    assert await writes("a.c", stage.project / "src") == 0
    assert await writes("src/vendor/a.c", stage.project) == 1
    assert await writes("../a.c", stage.project / "src") == 2
    await stage.attached.close()


async def test_what_must_come_first_is_seen_in_the_programs_own_session(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.rule("Run the tests before every commit")
    written = ClaudeFile("now", str(stage.project))
    written.add("user", role="user", content="Commit it.")
    file = tmp_path / "now.jsonl"
    file.write_text("".join(written.lines))
    commit = {"command": "git commit -m x", "transcript_path": str(file)}
    assert await stage.runs(**commit) != {}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}
    written.add("assistant", role="assistant", id="m1", model="opus", content=[call])
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "3 passed"}
    written.add("user", role="user", content=[result])
    file.write_text("".join(written.lines))
    assert await stage.runs(**commit) == {}
    await stage.attached.close()


async def test_rules_that_cannot_be_read_stop_nobody_and_are_a_line_in_the_log(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    stage.rule(NEVER)
    (stage.home.places.data / "rules.json").write_text("{")
    assert await stage.runs(FORCE) == {}
    assert "rules.json cannot be read" in stage.home.places.log.read_text()
    things: tuple[Any, ...] = (None, [], "text", 7, {"command": ["git", None]})
    for nonsense in things:
        assert await stage.answer("PreToolUse", tool_name="Bash", tool_input=nonsense) == {}
    await stage.attached.close()


def hook(home: Path, given: bytes | dict[str, Any], *words: str) -> tuple[int, str, str]:
    """The hook as another program runs it."""
    said = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hi", "cwd": "/"}
    raw = given if isinstance(given, bytes) else json.dumps({**said, **given}).encode()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mindstone_tui", "hook", "codex", *words, "--home", str(home)],
        input=raw,
        capture_output=True,
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT), "HOME": str(home)},
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def listen(home: Path, answer: Callable[[dict[str, Any]], bytes]) -> list[dict[str, Any]]:
    """A resident that answers one hook in a way of its own."""
    (home / "state").mkdir(parents=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(home / "s"))
    server.listen()
    (home / "state/serve.json").write_text(json.dumps({"socket": str(home / "s")}))
    heard: list[dict[str, Any]] = []

    def serve() -> None:
        with server:
            line, _ = server.accept()
        with line, line.makefile("rb") as stream:
            heard.append(json.loads(stream.readline())["params"])
            line.sendall(answer(heard[-1]))
            stream.read()

    threading.Thread(target=serve, daemon=True).start()
    return heard


def test_a_hook_prints_what_the_resident_answers_in_the_programs_own_form(tmp_path: Path) -> None:
    context = {"hookEventName": "UserPromptSubmit", "additionalContext": "earlier } …"}
    said = {"jsonrpc": "2.0", "id": 1, "result": {"hookSpecificOutput": context}}
    heard = listen(tmp_path, lambda call: msgspec.json.encode(said) + b"\n")
    code, out, errors = hook(tmp_path, {"transcript_path": "/t.jsonl"})
    assert (code, errors) == (0, "")
    assert json.loads(out) == {"hookSpecificOutput": context}
    assert heard[0]["program"] == "codex"
    assert heard[0]["said"]["transcript_path"] == "/t.jsonl"


def test_of_a_moment_that_is_very_long_only_what_is_needed_is_passed_on(tmp_path: Path) -> None:
    heard = listen(tmp_path, lambda call: b'{"result":{}}\n')
    assert hook(tmp_path, {"tool_response": "x\n" * 500_000}) == (0, "", "")
    said = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hi", "cwd": "/"}
    assert heard[0]["said"] == said


@pytest.mark.parametrize("form", ["hookSpecificOutput", "decision"])
def test_before_a_tool_all_that_it_is_given_is_passed_on_and_a_refusal_is_printed(
    tmp_path: Path, form: str
) -> None:
    result = {"result": {form: "deny"}}
    heard = listen(tmp_path, lambda call: msgspec.json.encode(result) + b"\n")
    given = {"hook_event_name": "PreToolUse", "tool_input": {"content": "x\n" * 1_000_000}}
    code, out, errors = hook(tmp_path, given, "before")
    assert (code, json.loads(out), errors) == (0, {form: "deny"}, "")
    assert heard[0]["said"]["tool_input"] == given["tool_input"]


def test_a_call_that_nobody_could_check_is_let_through_with_a_line_in_the_log(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/hook-started").touch()  # so that no resident is started
    (tmp_path / "rules.json").write_text("no rules")
    assert hook(tmp_path, {"hook_event_name": "PreToolUse"}, "before") == (0, "", "")
    assert "a call was let through" in (tmp_path / "state/mindstone.log").read_text()


def test_rules_hold_where_no_resident_can_be_had(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.rule(NEVER)
    home = stage.home.places.data
    (home / "state").mkdir(exist_ok=True)
    (home / "state/hook-started").touch()
    asked = {
        "hook_event_name": "PreToolUse",
        "tool_name": "exec_command",
        "cwd": str(stage.project),
    }
    wishes = [{**asked, "tool_input": {"cmd": command}} for command in (FORCE, "ls")]
    with ThreadPoolExecutor() as both:  # each waits for a resident first
        (code, out, errors), other = both.map(lambda wish: hook(home, wish, "before"), wishes)
    assert (code, errors) == (0, "")
    told = json.loads(out)["hookSpecificOutput"]
    assert told["permissionDecision"] == "deny"
    assert f'A rule that the person set: "{NEVER}"' in told["permissionDecisionReason"]
    assert "rule 1: deny" in (home / "state/mindstone.log").read_text()
    assert other == (0, "", "")


@pytest.mark.parametrize("answer", [b"", b"no json\n", b'{"error": {}}\n', b'{"result": 7}\n'])
def test_a_resident_that_talks_nonsense_blocks_no_prompt(tmp_path: Path, answer: bytes) -> None:
    listen(tmp_path, lambda call: answer)
    (tmp_path / "state/hook-started").touch()  # so that none is started
    assert hook(tmp_path, {}) == (0, "", "")


@pytest.mark.parametrize("given", [b"", b"{", b"[]", b"\xff", b'{"hook_event_name": 7}'])
def test_a_program_that_says_nonsense_gets_a_yes(tmp_path: Path, given: bytes) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/hook-started").touch()
    assert hook(tmp_path, given) == (0, "", "")


def test_a_hook_loads_none_of_the_rest() -> None:
    code = (
        "import sys, mindstone_tui.hook; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "('typer', 'textual', 'litellm', 'msgspec', 'asyncio', 'pathlib', 'json', 'socket', 're') "
        "or m.startswith('mindstone_tui.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['mindstone_tui.hook']"


async def test_the_resident_answers_hooks_over_its_socket(tmp_path: Path) -> None:
    home = api.Home(tmp_path / "ours", {"HOME": str(tmp_path)})
    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    resident = Resident(home)
    running = asyncio.create_task(resident.run(port=0, http=False, ready=ready.set_result))
    told = await ready
    assert told.url == ""
    said = {"hook_event_name": "UserPromptSubmit", "prompt": "hello"}
    assert await ask(told, "hook", {"program": "codex", "said": said}) == {}
    resident.stop()
    await running


async def test_a_resident_that_a_hook_started_makes_room_for_one_that_a_person_starts(
    tmp_path: Path,
) -> None:
    home = api.Home(tmp_path / "ours", {"HOME": str(tmp_path)})
    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    waiting = Resident(home).run(port=0, http=False, ready=ready.set_result, linger=60.0)
    running = asyncio.create_task(waiting)
    assert (await ready).on_demand
    await asyncio.to_thread(make_room, home)
    await running
    assert listening(home.places) is None


TAKEN = "Exit code 1\nError: listen EADDRINUSE: address already in use :::3000"


async def worked_before(stage: Stage) -> None:
    edit = {"file_path": str(stage.project / "src/port.ts"), "old_string": "1", "new_string": "2"}
    await stage.worked(
        "one",
        "Move the server of src/port.ts to 8443, because the proxy owns 3000. Then start it.",
        ("Edit", edit, "changed"),
        ("Bash", {"command": "vite build"}, "Exit code 127\nsh: vite: command not found"),
        ("Bash", {"command": "npx vite build 2>&1 | tail -5"}, "built"),
        ("Bash", {"command": "vitest"}, "Exit code 1\nFAILED test/port.ts - assert 3000 == 8443"),
        ("Bash", {"command": "vitest test/other.ts"}, "passed"),
        ("Bash", {"command": "npm start"}, TAKEN),
        ("Bash", {"command": "lsof -ti :3000 | xargs kill"}, "ok"),
        ("Bash", {"command": "npm start"}, "listening"),
    )
    await stage.call("SessionStart")


async def test_what_is_known_comes_at_the_point_of_action_and_once_in_a_session(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    await worked_before(stage)

    async def all_that_is_said(session: str) -> list[str]:
        runs = await stage.runs("cd app && vite build", session=session)
        before = runs.get("hookSpecificOutput", {}).get("additionalContext", "")
        edited = await stage.edits("src/port.ts", session=session)
        return [edited, before, await stage.fails("npm run dev", TAKEN, session=session)]

    edited, ran, failed = await all_that_is_said("now")
    assert "because the proxy owns 3000" in edited
    assert '"npx vite build"' in ran
    assert "command not found" in ran
    assert '"lsof -ti :3000 | xargs kill"' in failed
    for said in (edited, ran, failed):
        assert 'origin="mindstone memory"' in said
        assert "2026-11-15 in claude-code-one #" in said
        assert rough_count(said) <= 120
    assert await all_that_is_said("now") == ["", "", ""]
    assert all(await all_that_is_said("another"))
    assert await all_that_is_said("one") == ["", "", ""], "it stands in that session's own window"
    await stage.attached.close()


async def test_at_the_point_of_action_nothing_is_said_where_nothing_is_known(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    await worked_before(stage)
    assert await stage.edits("port.ts") == ""
    assert await stage.edits("src/other.ts") == ""
    assert await stage.runs("npx vite build") == {}
    assert await stage.runs("npm start") == {}, "it worked again"
    assert await stage.runs("vitest") == {}, "it ran, and said what is wrong"
    assert await stage.fails("npm test", "Exit code 1\nError: expected 3, got 4") == ""
    await stage.attached.close()


PUSHED: Final = "Exit code 1\nerror: the remote contains work that you do not have: rejected"
NO_SCRIPT: Final = 'Exit code 1\nnpm error Missing script: "lint"'
MISSED: Final = "Exit code 127\nsh: deploy: command not found"


@pytest.mark.parametrize(
    ("steps", "command", "told"),
    [
        pytest.param(
            (("deploy --all", MISSED), ("ls", "ok"), ("bin/deploy --all", "done")),
            "deploy --one",
            '"bin/deploy --all"',
            id="another call of the same program",
        ),
        pytest.param(
            (("deploy --all", MISSED), ("./de_ploy.sh --all", "done")),
            "deploy --one",
            '"./de_ploy.sh --all"',
            id="its name was mixed up",
        ),
        pytest.param(
            (("deploy --all", MISSED), ("bin/deploy --all", "done"), ("deploy --two", "done")),
            "deploy --one",
            "",
            id="it has worked since",
        ),
        pytest.param(
            (("deploy --all", MISSED), ("bin/deploy --all", "done")),
            "PATH=$PATH:bin deploy --one",
            "",
            id="where programs are found is said",
        ),
        pytest.param(
            (("deploy --all", MISSED), ("bin/deploy --all | grep ok", "done")),
            "deploy --one",
            "",
            id="nobody knows how it ended",
        ),
        pytest.param(
            (("deploy --all", MISSED), ("git status", "clean")),
            "deploy --one",
            "",
            id="nothing did what was wanted",
        ),
        pytest.param(
            (("deploy --all", MISSED), ("cd bin && ./deploy --all", "done")),
            "deploy --one",
            '"cd bin && ./deploy --all"',
            id="what mended it was the folder",
        ),
        pytest.param(
            (("deploy --all", MISSED), ("bin/deploy --all | tail", "npm error code EACCES")),
            "deploy --one",
            "",
            id="a pipe hid that it failed",
        ),
        pytest.param(
            (("cd api && deploy --all", MISSED), ("cd web && bin/deploy --all", "done")),
            "cd app && deploy --one",
            "",
            id="what mended it is about another folder",
        ),
        pytest.param(
            (("cd api && npm run lint", NO_SCRIPT), ("cd api && pnpm run lint", "ok")),
            "cd web && npm run lint",
            "",
            id="another folder may have it",
        ),
        pytest.param(
            (("npm run lint", NO_SCRIPT), ("npm run build", "built")),
            "npm run lint",
            "",
            id="something else was done with the program",
        ),
        pytest.param(
            (("npm run lint", NO_SCRIPT), ("npm -w web run lint", "ok")),
            "npm run lint",
            '"npm -w web run lint"',
            id="the same was done with the program",
        ),
    ],
)
async def test_a_command_is_warned_of_by_how_its_program_was_called_wrongly(
    tmp_path: Path, steps: tuple[tuple[str, str], ...], command: str, told: str
) -> None:
    stage = Stage(tmp_path)
    await stage.worked("one", "Deploy.", *(("Bash", {"command": one}, two) for one, two in steps))
    await stage.call("SessionStart")
    runs = await stage.runs(command)
    said = runs.get("hookSpecificOutput", {}).get("additionalContext", "")
    assert told in said if told else not said
    await stage.attached.close()


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        pytest.param((("git pull --rebase", "ok"), ("git push", "ok")), '"git pull', id="a step"),
        pytest.param((("git status", "ok"), ("git push", "ok")), "", id="only looked"),
        pytest.param(
            (("git pull", "ok"), ("make", "error: no rule\nExit code 2"), ("git push", "ok")),
            "",
            id="something else failed",
        ),
        pytest.param((("git fetch", "ok"), ("git push | tee log", "ok")), "", id="piped"),
        pytest.param((("git pull --rebase", "ok"),), "", id="never worked again"),
        pytest.param((("git gc", "ok"), ("cd app && git push", "ok")), "", id="another folder's"),
    ],
)
async def test_an_error_is_told_only_with_what_ended_it(
    tmp_path: Path, steps: tuple[tuple[str, str], ...], told: str
) -> None:
    stage = Stage(tmp_path)
    acts = (("git push", PUSHED), *steps)
    await stage.worked("one", "Push it.", *(("Bash", {"command": a}, b) for a, b in acts))
    await stage.call("SessionStart")
    said = await stage.fails("git push origin main", PUSHED)
    assert told in said if told else not said
    await stage.attached.close()


@pytest.mark.parametrize(
    ("command", "error", "step", "again", "now"),
    [
        pytest.param(
            "git commit",
            "Exit code 128\nfatal: Unable to create '/app/.git/index.lock': File exists.\n"
            "A git process may have crashed in this repository earlier.",
            "git add -A",
            "git commit",
            "git commit",
            id="a lock that somebody else gave back",
        ),
        pytest.param(
            "sed -n 1,9p use/a.md",
            "Exit code 2\nsed: can't read use/a.md: No such file or directory",
            "sed -n 1,9p test/b.md",
            "sed -n 1,9p use/c.md",
            "sed -n 1,9p use/a.md",
            id="a file that is not there",
        ),
        pytest.param(
            "sleep 5 && tail server.log",
            "Exit code 1\nError: connect to the database was refused",
            "python -m server",
            "sleep 5 && tail server.log",
            "sleep 5 && tail server.log",
            id="a log that tells of another command",
        ),
        pytest.param(
            "bd notes status --short",
            "Exit code 1\nError: unknown flag --short of status",
            "ls",
            "bd notes status",
            "bd status --short",
            id="another command has no such option either",
        ),
    ],
)
async def test_an_error_is_not_told_with_what_only_came_next(
    tmp_path: Path, command: str, error: str, step: str, again: str, now: str
) -> None:
    stage = Stage(tmp_path)
    acts = ((command, error), (step, "ok"), (again, "ok"))
    await stage.worked("one", "Do it.", *(("Bash", {"command": a}, b) for a, b in acts))
    await stage.call("SessionStart")
    assert await stage.fails(now, error) == ""
    await stage.attached.close()


@pytest.mark.parametrize(
    "asked",
    [
        "Fix the typing mistake in the file src/port.ts now.",
        "Implement the following plan: src/port.ts must never use 3000, because it is taken.",
        "Perhaps src/port.ts should not use the port 3000, because it is taken.",
    ],
)
async def test_a_file_is_not_spoken_of_by_what_was_asked_for_once(
    tmp_path: Path, asked: str
) -> None:
    stage = Stage(tmp_path)
    edit = {"file_path": str(stage.project / "src/port.ts"), "old_string": "1", "new_string": "2"}
    await stage.worked("one", asked, ("Edit", edit, "changed"))
    await stage.call("SessionStart")
    assert await stage.edits("src/port.ts") == ""
    await stage.attached.close()


async def test_commands_of_any_shape_hold_up_nobody_at_the_point_of_action(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    wide = f"git pull{' ' * 200_000}--rebase"
    acts = (
        (f"{'0' * 4_000}x push", PUSHED),
        ("git push", PUSHED),
        (wide, "ok"),
        ("git push", "ok"),
    )
    await stage.worked("one", "Push it.", *(("Bash", {"command": a}, b) for a, b in acts))
    await stage.call("SessionStart")
    assert '"git pull --rebase"' in await stage.fails("git push origin main", PUSHED)
    await stage.attached.close()


async def test_memory_is_silent_at_the_point_of_action_when_it_is_switched_off(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    marker = stage.home.places.state / "at-action"
    await worked_before(stage)
    assert marker.exists()
    (tmp_path / "ours/config.toml").write_text("[attach]\nat_action = false\n")
    await stage.call("UserPromptSubmit", prompt="Go on.")
    assert not marker.exists()
    assert await stage.edits("src/port.ts") == ""
    await stage.attached.close()
