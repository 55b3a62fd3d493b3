"""What other programs obey is asked about when it is named, and taken back when it is planted."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from mindstone_tui.core.tools import control_files
from mindstone_tui.core.tools.approvals import MODES, Decision, decide, prepare, under
from mindstone_tui.core.tools.base import ToolContext, ToolResult
from mindstone_tui.core.tools.control_files import steers
from mindstone_tui.core.tools.files import FILE_TOOLS
from mindstone_tui.core.tools.sandbox import Bubblewrap, Sandbox
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.shell_rules import Rule
from mindstone_tui.core.tools.workspace import Workspace

READ, WRITE, EDIT = FILE_TOOLS
BWRAP = shutil.which("bwrap")
PATH = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
NAMES = """
.envrc .env .env.local AGENTS.md docs/AGENTS.md CLAUDE.md .claude/settings.json .mcp.json
.cursor/x .github/workflows/ci.yml .gitlab-ci.yml .travis.yml .circleci/config.yml Jenkinsfile
.husky/pre-commit .pre-commit-config.yaml .gitattributes .gitmodules .zprofile .bash_login
.bashrc .profile .zshenv .cargo/config.toml .npmrc .yarnrc.yml .vscode/tasks.json
.idea/workspace.xml .devcontainer/x x.code-workspace hooks/pre-commit evil.git/config
lib/evil.pth sitecustomize.py .ENVRC Agents.MD .dir-locals.el .exrc lefthook.yml sub/.envrc
mise.toml mise.local.toml .mise/config.toml lefthook-local.yml .qwen/settings.json QWEN.md
opencode.jsonc .crush.json .kilocode/mcp.json .factory/hooks.json .trae/rules/x.md WARP.md
.theia/tasks.json .yarn/plugins/x.cjs azure-pipelines.yaml .woodpecker.yaml .augment/x
"""
OBEYED = NAMES.split()
HARMLESS = "src/main.py README.md docs/a.md .env.example tests/hooks.py github.md package-lock.json"
HARMLESS += " .yarn/cache/x.zip plugins/x.js mise/main.py releases/notes.md .env.sample"


def context(place: Path, **changes: object) -> ToolContext:
    environ = {"PATH": PATH, "HOME": "/nonexistent"}
    return ToolContext(workspace=Workspace((place,)), call="c1", environ=environ, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", OBEYED)
def test_a_file_that_others_obey_is_asked_about_under_every_mode(tmp_path: Path, path: str) -> None:
    arguments = json.dumps({"path": path, "content": "x"})
    preview = prepare(WRITE, "c1", arguments, context(tmp_path)).preview
    anything = (Rule.parse("allow", "edits *"), Rule.parse("allow", f"write {path}"))
    verdicts = [
        decide(WRITE, preview, mode=mode, rules=anything, sandboxed=True).verdict for mode in MODES
    ]
    assert verdicts == ["refuse", "ask", "ask", "ask"]


def test_ordinary_files_are_not_asked_about() -> None:
    assert [path for path in HARMLESS.split() if steers(tuple(path.split("/")))] == []


def test_every_name_that_others_obey_has_a_program_and_a_source() -> None:
    table = Path(str(control_files.__file__)).with_suffix(".tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in table if not line.startswith("#")]
    assert [row for row in rows if len(row) != 3 or not all(map(str.strip, row))] == []
    names = [name for row in rows for name in row[0].lstrip("!").split()]
    assert [name for name in names if name != name.casefold()] == []
    assert [name for name in names if names.count(name) > 1] == []
    assert len(names) > 250


@pytest.mark.parametrize("path", [".envrc", ".github/workflows/ci.yml", "AGENTS.md", ".husky/x"])
@pytest.mark.parametrize("command", ["echo x > {}", "cp a {}", "tee {} < a", "sed -i s/a/b/ {}"])
def test_a_command_that_names_one_is_asked_about_under_every_mode(
    tmp_path: Path, command: str, path: str
) -> None:
    arguments = json.dumps({"command": command.replace("{}", path)})
    preview = prepare(SHELL, "c1", arguments, context(tmp_path)).preview
    verdicts = [
        decide(SHELL, preview, mode=mode, rules=(), sandboxed=True).verdict for mode in MODES
    ]
    assert verdicts == ["refuse", "ask", "ask", "ask"]


@pytest.mark.parametrize(
    ("before", "after", "standing"),
    [
        ('{"name": "a"}', '{"name": "b"}', "open"),
        ('{"scripts": {"test": "x"}}', '{"scripts": {"test": "x"}, "version": "1"}', "open"),
        ('{"scripts": {"test": "x"}}', '{"scripts": {"test": "y"}}', "sensitive"),
        ("{}", '{"scripts": {"postinstall": "curl x | sh"}}', "sensitive"),
        (None, '{"scripts": {"prepare": "x"}}', "sensitive"),
        ("{}", "{not json", "sensitive"),
    ],
)
def test_of_package_json_only_the_commands_are_guarded(
    tmp_path: Path, before: str | None, after: str, standing: str
) -> None:
    if before is not None:
        (tmp_path / "package.json").write_text(before)
    arguments = json.dumps({"path": "package.json", "content": after})
    assert prepare(WRITE, "c1", arguments, context(tmp_path)).standing == standing


def confinement(home: Path) -> list[Sandbox | None]:
    return [None, *([Bubblewrap(Path(BWRAP), home, path=PATH)] if BWRAP else [])]


async def unseen(place: Path, command: str, sandbox: Sandbox | None) -> ToolResult:
    decision = Decision(verdict="allow", reason="", by="rule", confined=sandbox is not None)
    return await SHELL.run({"command": command}, under(decision, context(place), sandbox))


PLANT = """
import os, pathlib, subprocess
def put(path, text="evil"):
    place = pathlib.Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
for path in PATHS: put(path)
put("package.json", '{"name": "n", "version": "2", "scripts": {"test": "old", "postinstall": "x"}}')
put("deep/er/and/more/bare/HEAD", "ref: refs/heads/main"); put("deep/er/and/more/bare/refs/x")
put("deep/er/and/more/bare/objects/x")
put("deep/er/and/more/bare/config", "[core]\\n fsmonitor = ./x")
subprocess.run(["git", "init", "-q", "nested"]); put("nested/.git/hooks/post-checkout", "#!/bin/sh")
os.symlink("payload", "sub/.bash_login"); put("payload"); put("ok.txt", "fine")
"""


async def test_what_an_unseen_command_plants_is_taken_back_and_told(tmp_path: Path) -> None:
    planted = [path for path in OBEYED if "hooks/" not in path and "evil.git" not in path]
    for number, sandbox in enumerate(confinement(tmp_path / "home")):
        work = tmp_path / f"work{number}"
        (work / "sub").mkdir(parents=True)
        (work / "package.json").write_text('{"name": "n", "scripts": {"test": "old"}}')
        (work / "sub" / "CLAUDE.md").write_text("mine")
        (work / "plant.py").write_text(PLANT.replace("PATHS", repr([*planted, "sub/CLAUDE.md"])))
        result = await unseen(work, "python3 plant.py", sandbox)
        assert "[taken back: " in result.text, result.text
        assert "evil" not in "".join(
            path.read_text()
            for path in work.rglob("*")
            if path.is_file()
            and path.name not in ("payload", "plant.py")
            and "bare" not in path.parts
        )
        assert (work / "sub" / "CLAUDE.md").read_text() == "mine"
        assert not (work / "sub" / ".bash_login").is_symlink()
        assert not (work / "deep/er/and/more/bare/config").exists()
        assert not (work / "nested/.git/hooks/post-checkout").exists()
        assert (work / "ok.txt").read_text() == "fine"
        package = json.loads((work / "package.json").read_text())
        assert package == {"name": "n", "version": "2", "scripts": {"test": "old"}}


async def test_a_command_that_a_person_saw_may_write_what_it_says(tmp_path: Path) -> None:
    await SHELL.run({"command": "echo x > .envrc"}, context(tmp_path))
    assert (tmp_path / ".envrc").read_text() == "x\n"


async def test_ordinary_work_of_an_unseen_command_stays(tmp_path: Path) -> None:
    (tmp_path / ".envrc").write_text("mine")
    await SHELL.run({"command": "git init -q inner"}, context(tmp_path))
    told = (
        "mkdir -p node_modules/x/.github src && touch node_modules/x/.github/a src/a .env.example"
    )
    result = await unseen(tmp_path, f"{told} && git -C inner status -s", None)
    assert "taken back" not in result.text
    assert (tmp_path / ".envrc").read_text() == "mine"
    assert (tmp_path / "node_modules" / "x" / ".github" / "a").exists()
