"""What other programs obey is asked about when it is named, and taken back when it is planted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
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
from tests.faults import sized

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
.rvmrc .pdbrc .nvmrc .latexmkrc .RData .bsp/x.json .run/x.run.xml tools/bazel AGENT.md SOUL.md
Directory.Build.props jupyter_server_config.py gradle/wrapper/gradle-wrapper.properties .clangd
pnpm-workspace.yaml .lsp/config.edn .readthedocs.yaml wrangler.jsonc .serena/project.yml
"""
OBEYED = NAMES.split()
HARMLESS = "src/main.py README.md docs/a.md .env.example tests/hooks.py github.md package-lock.json"
HARMLESS += " gradle/build.gradle tools/main.py .jj/x config.toml hgrc wrapper/a.properties run/x"
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
    names = [name for row in rows for name in row[0].lstrip("!=+").split()]
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
        ("{}", '{"lint-staged": {"*.js": "x"}}', "sensitive"),
        ("{}", '{"simple-git-hooks": {"pre-commit": "x"}}', "sensitive"),
        ("{}", '{"husky": {"hooks": {"pre-push": "x"}}}', "sensitive"),
        ("{}", '{"packageManager": "yarn@https://x/y.js"}', "sensitive"),
        ("{}", '{"packageManager": "yarn@4.1.0"}', "open"),
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
        assert (work / "deep/er/and/more/bare/config").read_text().strip() == "[core]"
        assert not (work / "nested/.git/hooks/post-checkout").exists()
        assert (work / "ok.txt").read_text() == "fine"
        package = json.loads((work / "package.json").read_text())
        assert package == {"name": "n", "version": "2", "scripts": {"test": "old"}}


async def python(place: Path, program: str, sandbox: Sandbox | None = None) -> ToolResult:
    (place / "program.py").write_text(
        "import os, pathlib, subprocess\n"
        "def put(path, text='evil'):\n"
        "    place = pathlib.Path(path)\n"
        "    place.parent.mkdir(parents=True, exist_ok=True)\n"
        "    place.write_text(text)\n"
        f"{program}\n"
    )
    return await unseen(place, "python3 program.py", sandbox)


@pytest.mark.parametrize("names", ["objects refs", "objects refs HEAD", "HEAD commondir"])
async def test_a_folder_that_looks_like_a_repository_hides_nothing(
    tmp_path: Path, names: str
) -> None:
    paths = [".envrc", "CLAUDE.md", "sub/.vscode/tasks.json", "objects/.vscode/tasks.json"]
    paths += [".hg/hgrc", "deep/.hg/hgrc", "deep/.jj/repo/config.toml", "deep/.sl/config"]
    made = "".join(f"os.makedirs('{name}', exist_ok=True)\n" for name in names.split())
    result = await python(tmp_path, f"{made}for path in {paths}: put(path)")
    assert [path for path in paths if (tmp_path / path).exists()] == [], result.text
    assert all(path in result.text for path in paths)


STEERING = r"""
[core] fsmonitor = evil
[core]\n\tfsmonitor=evil # a comment
[Core "" ] fsmonitor = evil
[diff]\nexternal = evil
[diff "x"] textconv = evil
[pager]\nstatus = evil
[pager]\nstatus\n[core]\n\teditor = \\\n evil
[protocol "ext"]\n\tallow = always
[remote "o"]\n\turl = ext::sh -c evil
[remote "o"]\n\turl = e"xt:":sh -c evil
[remote "o"]\n\turl = https://a # \\\n[core]\n\tfsmonitor = evil
[remote "o"]\n\turl = https://a ; "\n[core]\n\tfsmonitor = evil
[remote "o"]\n\tuploadpack = evil
[core]\n\talternateRefsCommand = evil
[submodule "x"]\n\tupdate = !evil
[include]\n\tpath = evil
[includeIf "gitdir:**"]\n\tpath = evil
[alias]\n\tstatus = !evil
[core]\n\tworktree = /evil
[core]\n\thooksPath = evil
[filter "x"]\n\tclean = evil
[url "ext::sh"]\n\tinsteadOf = evil
[lfs "customtransfer.x"]\n\tpath = evil
"""


@pytest.mark.parametrize("settings", STEERING.strip().splitlines())
async def test_a_repository_is_left_only_with_settings_that_run_nothing(
    tmp_path: Path, settings: str
) -> None:
    text = settings.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
    result = await python(
        tmp_path,
        "subprocess.run(['git', 'init', '-q', 'r'], check=True)\n"
        f"with open('r/.git/config', 'a') as file: file.write({text!r})",
    )
    kept = (tmp_path / "r/.git/config").read_text()
    assert "r/.git/config" in result.text
    assert "evil" not in kept
    assert "allow" not in kept


async def test_a_repository_in_anothers_own_folder_is_judged_too(tmp_path: Path) -> None:
    await python(
        tmp_path,
        "subprocess.run(['git', 'init', '-q', 'host'], check=True)\n"
        "subprocess.run(['git', 'init', '-q', 'inner'], check=True)\n"
        "os.rename('inner/.git', 'host/.git/other')\n"
        "put('host/.git/other/config', '[core] fsmonitor = evil')\n"
        "put('host/.git/other/hooks/pre-commit')\n"
        "put('inner/.git', 'gitdir: ../host/.git/other')",
    )
    assert "evil" not in (tmp_path / "host/.git/other/config").read_text()
    assert not (tmp_path / "host/.git/other/hooks/pre-commit").exists()


async def test_nothing_is_led_into_a_repository_that_already_runs_something(tmp_path: Path) -> None:
    await SHELL.run({"command": "git init -q --bare fixture"}, context(tmp_path))
    (tmp_path / "fixture/hooks/post-checkout").write_text("evil")
    (tmp_path / "mine").mkdir()
    result = await python(
        tmp_path,
        "put('sub/.git', 'gitdir: ../fixture'); os.symlink('../fixture', 'mine/.git')\n"
        "put('tree/HEAD', 'ref: refs/heads/main'); put('tree/commondir', '../fixture')",
    )
    assert not (tmp_path / "sub/.git").exists(), result.text
    assert not (tmp_path / "mine/.git").is_symlink()
    assert not (tmp_path / "tree/commondir").exists()
    assert (tmp_path / "fixture/hooks/post-checkout").read_text() == "evil"


async def test_taking_back_follows_no_link_to_what_others_own(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "letter").write_text("mine")
    await python(
        work,
        "subprocess.run(['git', 'init', '-q', '--template=', 'r'], check=True)\n"
        f"os.symlink('{other}', 'r/.git/hooks'); os.remove('r/.git/config')\n"
        "put('x', '[core] fsmonitor = evil'); os.symlink('../../x', 'r/.git/config')",
    )
    assert (other / "letter").read_text() == "mine"
    assert not (work / "r/.git/hooks").is_symlink()
    assert not (work / "r/.git/config").is_symlink()


async def test_what_git_makes_by_itself_stays(tmp_path: Path) -> None:
    said = await SHELL.run(
        {
            "command": "git init -q -b main up && cd up && git config user.name a"
            " && git config user.email a@b && git commit -q --allow-empty -m x"
        },
        context(tmp_path),
    )
    assert said.status == "ok", said.text
    allow = "-c protocol.file.allow=always"
    result = await unseen(
        tmp_path,
        "git clone -q up copy && git clone -q --bare up bare && git -C copy remote add b"
        " git@host:x.git && git -C copy branch -q --track other origin/main && git -C copy worktree"
        f" add -q ../tree && git -C copy {allow} submodule --quiet add ../up inner",
        None,
    )
    assert result.status == "ok", result.text
    assert [line for line in result.text.splitlines() if "taken back" in line] == [
        line for line in result.text.splitlines() if "taken back: copy/.gitmodules. " in line
    ]
    told = "git -C copy remote -v && git -C copy/inner log --oneline && git -C tree log --oneline"
    after = await SHELL.run({"command": told}, context(tmp_path))
    assert after.status == "ok", after.text
    assert "git@host:x.git" in after.text


async def test_what_a_link_that_others_obey_leads_to_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "docs/notes.txt").write_text("mine")
    (tmp_path / "docs/other.txt").write_text("mine too")
    (tmp_path / "CLAUDE.md").symlink_to("via")
    (tmp_path / "via").symlink_to("docs/notes.txt")
    (tmp_path / ".vscode").symlink_to("shared")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/AGENTS.md").symlink_to("../docs/other.txt")
    for sandbox in confinement(tmp_path.parent / "home"):
        await python(
            tmp_path,
            "put('docs/notes.txt'); put('shared/tasks.json'); os.remove('via'); put('docs/new')\n"
            "os.symlink('docs/new', 'via'); os.remove('sub/AGENTS.md'); put('sub/AGENTS.md')",
            sandbox,
        )
        assert (tmp_path / "CLAUDE.md").read_text() == "mine"
        assert (tmp_path / "docs/notes.txt").read_text() == "mine"
        assert (tmp_path / "sub/AGENTS.md").read_text() == "mine too"
        assert not (tmp_path / "shared/tasks.json").exists()


def shares_its_hooks(place: Path) -> None:
    """A project whose repository names a folder for its hooks, more settings and a program."""
    (place / "githooks").mkdir()
    (place / "dev").mkdir()
    (place / "githooks/pre-commit").symlink_to("../dev/check.sh")
    for name in ("dev/check.sh", "dev/gitconfig", "dev/clean.py", "dev/free.py"):
        (place / name).write_text("")
    for args in (
        ["init", "-q"],
        ["config", "core.hooksPath", "githooks"],
        ["config", "include.path", "../dev/gitconfig"],
        ["config", "filter.x.clean", "python3 dev/clean.py"],
    ):
        subprocess.run(["git", *args], cwd=place, check=True)


async def test_what_a_repository_has_git_run_is_put_back_wherever_it_lies(tmp_path: Path) -> None:
    shares_its_hooks(tmp_path)
    for sandbox in confinement(tmp_path.parent / "home"):
        result = await python(
            tmp_path,
            "for each in ('githooks/post-index-change', 'dev/check.sh', 'dev/gitconfig',\n"
            "             'dev/clean.py', 'dev/free.py'): put(each)",
            sandbox,
        )
        assert not (tmp_path / "githooks/post-index-change").exists()
        kept = [each.name for each in (tmp_path / "dev").iterdir() if each.read_text() == "evil"]
        assert kept == ["free.py"], result.text


@pytest.mark.parametrize("name", ["githooks/new", "dev/gitconfig", "dev/clean.py"])
def test_what_a_repository_has_git_run_is_asked_about(tmp_path: Path, name: str) -> None:
    shares_its_hooks(tmp_path)
    asked = {
        path: prepare(WRITE, "c1", json.dumps({"path": path, "content": "x"}), context(tmp_path))
        for path in (name, "dev/free.py")
    }
    assert [each.standing for each in asked.values()] == ["sensitive", "open"]


def test_where_a_repository_sets_too_much_to_be_looked_through_all_is_asked_about(
    tmp_path: Path,
) -> None:
    shares_its_hooks(tmp_path)
    named = " ".join(f"x/{number}" for number in range(12_000))
    (tmp_path / "dev/gitconfig").write_text(f"[core]\n\tpager = {named}\n")
    written = json.dumps({"path": "dev/free.py", "content": "x"})
    assert prepare(WRITE, "c1", written, context(tmp_path)).standing == "sensitive"


async def test_a_pointer_to_a_repository_ends_where_git_ends_it(tmp_path: Path) -> None:
    shares_its_hooks(tmp_path)
    await python(tmp_path, "put('sub/.git', 'gitdir: ../.git\\0x'); put('sub/githooks/a')")
    assert not (tmp_path / "sub/.git").exists()


async def test_a_folder_too_deep_to_look_into_is_told(tmp_path: Path) -> None:
    dig = "for _ in range(25): os.mkdir('d' * 200); os.chdir('d' * 200)"
    assert "too deep to look into" in (await python(tmp_path, dig)).text
    shutil.rmtree(tmp_path / ("d" * 200))


@pytest.mark.parametrize(
    "path", ["docs/notes.txt", "CLAUDE.md", "sub/AGENTS.md", "shared/x.json", "docs/other.txt"]
)
def test_what_such_a_link_leads_to_is_asked_about(tmp_path: Path, path: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "docs/notes.txt").write_text("mine")
    (tmp_path / "docs/other.txt").write_text("mine")
    (tmp_path / "CLAUDE.md").symlink_to("docs/notes.txt")
    (tmp_path / "sub/AGENTS.md").symlink_to("../docs/other.txt")
    (tmp_path / ".vscode").symlink_to("shared")
    arguments = json.dumps({"path": path, "content": "x"})
    assert prepare(WRITE, "c1", arguments, context(tmp_path)).standing == "sensitive"
    arguments = json.dumps({"path": "docs/free.txt", "content": "x"})
    assert prepare(WRITE, "c1", arguments, context(tmp_path)).standing == "open"


async def test_a_link_to_a_folder_in_a_folder_that_others_obey_is_taken_back(
    tmp_path: Path,
) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / "payload").mkdir()
    (tmp_path / "payload/SKILL.md").write_text("mine")
    for sandbox in confinement(tmp_path.parent / "home"):
        await python(
            tmp_path,
            "os.makedirs('sub/.cursor', exist_ok=True)\n"
            "for link in ('.claude/skills', 'sub/.cursor/rules'):\n"
            "    try: os.symlink(os.path.abspath('payload'), link)\n"
            "    except OSError: pass",
            sandbox,
        )
        assert not (tmp_path / ".claude/skills").is_symlink()
        assert not (tmp_path / "sub/.cursor/rules").is_symlink()
        assert (tmp_path / "payload/SKILL.md").read_text() == "mine"


async def test_nothing_that_is_odd_keeps_the_rest_from_being_taken_back(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").symlink_to("x" * 300)
    (tmp_path / ".envrc").symlink_to(".envrc")
    result = await python(
        tmp_path,
        "put('a/.git', 'gitdir: ' + 'x' * 300); put('b/.git', 'gitdir: \\0')\n"
        "put('c/.git', 'x' * 9999); os.makedirs('g/.npmrc'); os.mkfifo('g/.env')\n"
        'put(\'d/package.json\', \'{"a": "\\\\ud800", "scripts": {"t": "\\\\ud800"}}\')\n'
        "put('e/package.json', '[' * 5000); os.makedirs('f/objects'); os.makedirs('f/refs')\n"
        "os.mkfifo('f/config'); os.mkfifo('f/commondir')\n"
        "pathlib.Path('f/config.worktree').write_bytes(b'[core]\\xff\\0 = x'); put('z/.envrc')",
    )
    assert "exit code 0" in result.text
    assert not (tmp_path / "z/.envrc").exists()
    assert json.loads((tmp_path / "d/package.json").read_text()) == {"a": "\ud800"}
    assert not (tmp_path / "f/config").is_fifo()
    assert not (tmp_path / "g/.env").exists()


async def test_what_moves_with_its_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "pkg/a/.vscode").mkdir(parents=True)
    (tmp_path / "pkg/a/.env").write_text("mine")
    (tmp_path / "pkg/a/.vscode/tasks.json").write_text("mine")
    (tmp_path / "old").mkdir()
    (tmp_path / "old/.envrc").write_text("evil")
    result = await unseen(tmp_path, "mv pkg/a pkg/b; mv old/.envrc .envrc; rmdir old", None)
    assert (tmp_path / "pkg/b/.env").read_text() == "mine"
    assert (tmp_path / "pkg/b/.vscode/tasks.json").read_text() == "mine"
    assert "[taken back: .envrc. " in result.text


async def test_no_number_of_files_hides_one(tmp_path: Path) -> None:
    (tmp_path / "zzz").mkdir()
    before = control_files.ControlFiles((tmp_path,))
    for number in range(sized(1_000, 200_100)):
        (tmp_path / f"zzz/{number}").symlink_to("x")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/.envrc").write_text("evil")
    assert before.take_back() == ("deep/.envrc",)


async def test_a_file_too_large_to_keep_is_said_not_to_be_put_back(tmp_path: Path) -> None:
    (tmp_path / ".envrc").write_bytes(b"#" * (9 << 20))
    (tmp_path / ".npmrc").write_bytes(b"#" * (3 << 20))
    result = await python(tmp_path, "put('.envrc'); put('.npmrc')")
    assert ".envrc (which could not be put back)" in result.text
    assert (tmp_path / ".npmrc").read_bytes() == b"#" * (3 << 20)


@pytest.mark.skipif(os.geteuid() == 0, reason="to root no folder is shut")
async def test_a_folder_that_was_shut_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    before = control_files.ControlFiles((tmp_path,))
    (tmp_path / "mine/.envrc").write_text("evil")
    (tmp_path / "mine").chmod(0o111)
    assert before.take_back() == ("mine/.envrc",)


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
