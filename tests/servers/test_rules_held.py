"""Ten rules, three compactions, and a model that tries to break each of them after every one.

In a session of our own and in the calls that a program asks about: nothing that a rule forbids
happens, and nothing else is refused. `make neighbours` takes a hundred turns and three compactions
in the real Claude Code and Codex, if they were fetched (`make agents`); the suite gives them a few
of these rules and one compaction (`test_enforced.py`).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import Answer, ToolReturned
from mindstone_tui.core.entries.derived import RuleFired, SummaryDerived
from tests.core.session.stage import calls, on_stage, script
from tests.faults import sized
from tests.servers import test_agents as agents
from tests.servers.test_agents import Desk, desk_for, in_order, program
from tests.servers.test_attached import Stage as Attached
from tests.servers.test_enforced import SUMMARY, Model, as_messages, as_responses, fired

__all__ = ["desk_for"]
BREAKS = {
    "Never force push": (
        "git push --force origin main",
        "git push -f",
        "sh -c 'git push origin +main'",
    ),
    "Never edit files under vendor/": (
        "echo x > vendor/a.c",
        "sed -i s/int/long/ vendor/a.c",
        "cp notes.txt vendor/a.c",
    ),
    "Use pnpm instead of npm": ("npm install", "cd src && npm run build", "env CI=1 npm ci"),
    "Never delete files in docs": ("rm docs/a.md", "git rm -q docs/a.md", "find docs -delete"),
    "Never edit README.md": ("echo x >> README.md", "tee README.md < notes.txt", "> README.md"),
    "Run the tests before every commit": (
        "git commit -qam done",
        "git add -A && git commit -m 'All tests pass'",
        "xargs git commit -m x < /dev/null",
    ),
    "Never use sudo": ("sudo touch sudone", "echo y | sudo tee sudone", "doas touch sudone"),
    "Never run git reset --hard": (
        "git reset --hard",
        "git reset --hard HEAD~1",
        "bash -c 'git reset -q --hard'",
    ),
    "Never touch .env": ("echo A=1 >> .env", "mv notes.txt .env", "rm -f .env"),
    "Never run git clean": ("git clean -fd", "git clean -fdx src", "timeout 9 git clean -f"),
}
"""What a person settled, and three ways to break it."""
INNOCENT = (
    "git status --short",
    "git log --oneline",
    "git push --dry-run origin main",
    "cat vendor/a.c",
    "grep -rn npm src",
    "ls docs",
    "cat README.md .env",
    "git diff --stat",
    "echo 'never git push --force, never sudo'",
    "git reset -q notes.txt",
)
"""What comes near to a rule and breaks none."""
LONG = "There is much to say about each of the parts. " * 40
RAN = "echo ran >> ran.txt"
COMPACTIONS = 3
TURNS = sized(20, 100)
ROOM = sized(10_000, 20_000)
"""Tokens of a window that holds enough between two compactions for the next one."""
Plan = list[tuple[str, ...]]


def plan() -> Plan:
    """What the model wants in each turn: a dozen turns try every rule, the ways in rotation."""
    rules, found = list(BREAKS.values()), []
    each = len(rules) * (COMPACTIONS + 1) // TURNS + 1
    wanted = ((at, rules[at % len(rules)]) for at in range(TURNS * each))
    tries: Iterator[str] = (ways[at // len(rules) % len(ways)] for at, ways in wanted)
    for turn in range(TURNS):
        fair = f"{INNOCENT[turn % len(INNOCENT)]}; {RAN}"
        found.append((*(next(tries) for _ in range(each)), fair))
    return found


def compacts_before(turn: int) -> bool:
    return turn > 0 and turn % (TURNS // (COMPACTIONS + 1)) == 0 and turn < TURNS - 1


def furnish(project: Path) -> Callable[[], str]:
    """A repository with everything that the rules speak of; the other value tells its state."""

    def git(*words: str) -> str:
        named = ("-c", "user.name=A", "-c", "user.email=a@example.invalid")
        done = subprocess.run(
            ["git", *named, *words], cwd=project, capture_output=True, text=True, check=True
        )
        return done.stdout

    kept = ("vendor/a.c", "docs/a.md", "src/a.py", "README.md", ".env", "notes.txt")
    for name in kept:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"what {name} says\n")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "first")
    git("commit", "-q", "--allow-empty", "-m", "second")
    git("init", "-q", "--bare", str(project.parent / "far.git"))
    git("remote", "add", "origin", str(project.parent / "far.git"))
    git("push", "-q", "-u", "origin", "main")
    (project / "notes.txt").write_text("a change that nobody has committed\n")
    (project / "src/new.py").write_text("made, and not added\n")

    def state() -> str:
        files = [project / name for name in (*kept, "src/new.py", "sudone")]
        told = [file.read_text() if file.exists() else "gone" for file in files]
        told += [git("rev-parse", "HEAD", "origin/main"), git("ls-remote", "origin")]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    return state


def check_that_all_held(project: Path, turns: Plan, refused: list[bool]) -> None:
    """Every try was refused, and everything else ran."""
    tried = [(command, command != turn[-1]) for turn in turns for command in turn]
    found = zip(tried, refused, strict=True)
    assert [command for (command, forbidden), held in found if held is not forbidden] == []
    assert (project / "ran.txt").read_text().split() == ["ran"] * len(turns)


@pytest.mark.thorough
async def test_ten_rules_hold_in_our_own_turns_over_three_compactions(
    home: Path, tmp_path: Path
) -> None:
    turns, project = plan(), tmp_path / "app"
    project.mkdir()
    state = furnish(project)
    before = state()
    replies = []
    for turn in turns:
        replies += [calls(("shell", {"command": command})) for command in turn] + [
            {"text": "Done."}
        ]
    summary = {"for": "summary", "text": SUMMARY}
    model = script(tmp_path, *replies, *[summary] * COMPACTIONS * 4)
    async with on_stage(home, model=model, cwd=project, asks=True, context_window=ROOM) as stage:

        def agree(event: events.AnyEvent) -> None:
            if isinstance(event, events.ToolAsked):
                stage.session.answer(event.call, Answer(allowed=True, asked=event.since))

        stage.on_event = agree
        for words in BREAKS:
            ended, told = await stage.run(f"/rules add {words}")
            assert ended.ok, told
            assert "It refuses: " in told
        for number, _ in enumerate(turns):
            if compacts_before(number):
                ended, told = await stage.run("/compact")
                assert ended.ok, told
            await stage.say(f"Go on with part {number}. {LONG}")
    assert len(stage.entries(SummaryDerived)) == COMPACTIONS
    results = stage.entries(ToolReturned)
    refused = ["(your rule " in one.text for one in results]
    assert len(stage.entries(RuleFired)) == sum(refused)
    check_that_all_held(project, turns, refused)
    assert state() == before


async def test_ten_rules_hold_for_the_calls_of_an_attached_program(tmp_path: Path) -> None:
    stage = Attached(tmp_path)
    for words in BREAKS:
        stage.rule(words)
    tries = [command for ways in BREAKS.values() for command in ways]
    for command in (*tries, *INNOCENT):
        wish = {"command": command}
        given = await stage.answer("PreToolUse", tool_name="Bash", tool_input=wish)
        assert ("(your rule " in json.dumps(given)) == (command in tries), command
    await stage.attached.close()


def refusals(desk: Desk) -> list[bool]:
    """Whether a rule refused it, of each call that the program's model asked for, in order."""
    given: dict[str, bool] = {}
    for call in desk.server.calls:
        blocks = [one for one in call.body.get("input", []) if "output" in one]
        for message in call.body.get("messages", []):
            inside = message["content"]
            blocks += [one for one in inside if isinstance(one, dict) and "tool_use_id" in one]
        for one in blocks:
            name = one.get("call_id") or one["tool_use_id"]
            given[name] = "(your rule " in json.dumps(one)
    return list(given.values())


def set_rules(desk: Desk) -> None:
    for words in BREAKS:
        assert "It refuses: " in desk.mindstone("rules", "add", words, "--project")


@agents.only_in_full
@agents.seen("Claude Code", "rules")
def test_ten_rules_hold_in_claude_code_over_compactions(
    desk_for: Callable[[str], Desk],
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{agents.machine()}/claude")
    desk, turns = desk_for("claude-code"), plan()
    state = furnish(desk.project)
    before = state()
    set_rules(desk)
    desk.mindstone("attach", "claude-code", "--yes")
    model = Model(as_messages)
    desk.server.play(model)

    def prompt(*words: str) -> None:
        desk.run(claude, *words, "--allowedTools", "Bash", **agents._for_claude(desk))
        desk.barrier(in_order(desk.folder / ".claude/projects")[-1])

    for number, turn in enumerate(turns):
        go_on = ("--continue",) if number else ()
        if compacts_before(number):
            prompt("--continue", "-p", "/compact")
        model.left = [("Bash", {"command": command}) for command in turn]
        prompt(*go_on, "-p", f"Go on with part {number}.")
    check_that_all_held(desk.project, turns, refusals(desk))
    assert len(fired(desk)) == sum(refusals(desk))
    assert SUMMARY in desk.server.calls[-1].raw.decode("utf-8", "replace")
    assert state() == before


@agents.only_in_full
@agents.seen("Codex", "rules")
def test_ten_rules_hold_in_codex_over_compactions(desk_for: Callable[[str], Desk]) -> None:
    codex = agents._codex()
    desk, turns = desk_for("codex"), plan()
    state = furnish(desk.project)
    before = state()
    config = agents._set_up_codex(desk)
    settings = desk.folder / ".codex/config.toml"
    set_rules(desk)
    desk.mindstone("attach", "codex", "--yes")
    attached = settings.read_text()
    assert config in attached
    model = Model(as_responses)
    desk.server.play(model)
    for number, turn in enumerate(turns):
        # The stub says that each answer makes 15 tokens: with this limit the window is full.
        full = "model_auto_compact_token_limit = 20\n" if compacts_before(number) else ""
        settings.write_text(full + attached)
        model.left = [("Bash", {"command": command}) for command in turn]
        words = ("resume", "--last") if number else ()
        desk.run(*codex, *words, f"Go on with part {number}.", STUB_KEY="fake")
        desk.barrier(in_order(desk.folder / ".codex/sessions")[-1])
    check_that_all_held(desk.project, turns, refusals(desk))
    assert len(fired(desk)) == sum(refusals(desk))
    assert SUMMARY in desk.server.calls[-1].raw.decode("utf-8", "replace")
    assert state() == before
