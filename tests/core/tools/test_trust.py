from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.errors import PlaceError
from mindstone_tui.core.tools.trust import TrustFile
from mindstone_tui.core.tools.workspace import Workspace
from tests.core.tools.instructions import project_instructions
from tests.corpora import lines

REPOSITORIES: list[dict[str, Any]] = [json.loads(line) for line in lines("hostile_repos.jsonl")]
OWNED = Path("/tmp/mindstone-owned")


def unpack(repository: dict[str, Any], place: Path) -> Path:
    """Lay a repository from the corpus out on disk; `["repeat", s, n]` stands for n times s."""
    place.mkdir(parents=True)
    for name, content in repository["files"].items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else content[1] * content[2]
        path.write_text(text, encoding="utf-8")
    for name, target in repository["links"].items():
        (place / name).symlink_to(target)
    return place


@pytest.mark.parametrize("repository", REPOSITORIES, ids=lambda each: each["name"])
def test_a_hostile_repository_says_nothing_before_it_is_trusted(
    repository: dict[str, Any], tmp_path: Path
) -> None:
    told = project_instructions(Workspace((unpack(repository, tmp_path / "r"),)), None)
    assert told.state in ("none", "untrusted")
    assert told.in_force == ()
    seen = "".join(file.path + file.text for file in told.files)
    assert not any(sign < " " and sign not in "\n\t" for sign in seen)
    assert "root:" not in seen
    assert sum(file.injected_size for file in told.files) < 40_000


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_looking_at_hostile_repositories_runs_nothing_and_calls_nobody(tmp_path: Path) -> None:
    assert len(REPOSITORIES) >= 30
    places = [
        str(unpack(repository, tmp_path / str(number)))
        for number, repository in enumerate(REPOSITORIES)
    ]
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from tests.core.tools.instructions import project_instructions\n"
        "from mindstone_tui.core.tools.workspace import Workspace\n"
        "for place in sys.argv[1:]:\n"
        "    os.chdir(place)\n"
        "    project_instructions(Workspace((Path(place),)), None)\n"
        "print('looked')\n"
    )
    log = tmp_path / "strace.log"
    source = Path(__file__).parents[3]
    looked = subprocess.run(
        [
            *("strace", "-f", "-qq", "-o", str(log)),
            *("-e", "trace=execve,connect,socket,fork,vfork,clone,clone3"),
            *(os.path.realpath(sys.executable), "-P", "-c", program, *places),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), *map(str, sys.path[1:])])},
        capture_output=True,
        text=True,
    )
    assert looked.stdout == "looked\n", looked.stderr
    calls = [line for line in log.read_text().splitlines() if "exited" not in line]
    assert len(calls) == 1, calls  # the program itself
    assert not OWNED.exists()


def test_trust_is_given_to_content_and_asked_for_again_when_it_changes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").write_text("Use tabs.\n")
    trust = TrustFile(tmp_path / "state" / "trust.json")
    workspace = Workspace((project,))

    first = project_instructions(workspace, trust.digest(project))
    assert first.state == "untrusted"
    trust.trust(project, first.digest)
    second = project_instructions(workspace, trust.digest(project))
    assert [file.text for file in second.in_force] == ["Use tabs.\n"]

    (project / ".mindstone").mkdir()
    (project / ".mindstone" / "style.md").write_text("And be brief.\n")
    changed = project_instructions(workspace, trust.digest(project))
    assert changed.state == "changed"
    assert changed.in_force == ()

    trust.forget(project)
    assert project_instructions(workspace, trust.digest(project)).state == "untrusted"


def test_trust_covers_what_hooks_commands_and_skills_name(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = {
        ".mindstone/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": '
        '"bash \\"$CLAUDE_PROJECT_DIR\\"/tools/check.sh; ./run; sh tools/py.py -x conf"}]}]}}',
        ".claude/commands/ship.md": "Run !`tools/ship.sh` and read @docs/how.md; see version 1.2.",
        ".claude/skills/s/SKILL.md": "---\nname: s\ndescription: d\n---\nRun `scripts/go.py`.",
        ".claude/skills/s/scripts/go.py": "x",
        **dict.fromkeys(("tools/check.sh", "run", "tools/py.py", "conf", "tools/ship.sh"), "x"),
        **dict.fromkeys(("docs/how.md", "unnamed.txt", "bash"), "x"),
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    workspace = Workspace((project,))
    digest = project_instructions(workspace, None).digest
    assert project_instructions(workspace, digest).trusted("hooks")
    for name in files:
        (project / name).write_text(files[name] + "y")
        state = project_instructions(workspace, digest).state
        assert state == ("trusted" if name == "unnamed.txt" else "changed"), name
        (project / name).write_text(files[name])
    (project / ".mindstone" / "hooks.json").write_text(" ".join(f"a{n}/b" for n in range(2_000)))
    crowded = project_instructions(workspace, None)
    assert not crowded.of("hooks")
    assert "too many files" in crowded.problems[0]
    (project / ".mindstone" / "hooks.json").write_text(f'{{"hooks": {{}}}} {" " * 40_000}')
    assert not project_instructions(workspace, None).of("hooks")


@pytest.mark.thorough
def test_a_project_brings_no_more_than_can_be_read_at_once(tmp_path: Path) -> None:
    commands = tmp_path / ".claude/commands"
    commands.mkdir(parents=True)
    for number in range(20):
        (commands / f"{number}.md").write_text("a " * 500_000)
    workspace = Workspace((tmp_path,))
    found = project_instructions(workspace, None)
    assert sum(each.raw_size for each in found.files) <= 16 << 20
    assert len(found.files) + len(found.problems) == 20
    for number in range(1, 20):
        (commands / f"{number}.md").unlink()
    (commands / "0.md").write_text(" ".join(f"a/{'./' * number}b" for number in range(900)))
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_text("1" * 1_000_000)
    found = project_instructions(workspace, None)
    assert sum(each.raw_size for each in found.files) <= 16 << 20
    (tmp_path / "a/b").write_text("2" * 1_000_000)
    assert project_instructions(workspace, found.digest).state == "changed"


@pytest.mark.parametrize(
    "command",
    [
        "sh check.sh",
        "sh tools/../check.sh",
        r"sh check.s\u0068",
        r"sh\tcheck.sh",
        "sh $PWD/check.sh",
        "sh ${PWD}/check.sh",
        "sh ~+/check.sh",
        "sh ./ch''eck.sh",
        r"sh ./ch\"\"eck.sh",
        r"sh ./ch\\eck.sh",
        "cd tools && sh inner.sh",
        "python3 tools/pkg",
        "make -s",
        "sh big.sh",
        "sh 'my tools/@scope/a,b=c.sh'",
        r"sh my\\ tools/@scope/a,b=c.sh",
        "sh './a!(1).sh'",
        "sh ./-x.sh",
        "sh ./#x.sh",
        "sh ~x.sh",
        "cd tools && cd deeper && sh deep.sh",
        "cd 'my tools' && cd ./@scope && sh 'a,b=c.sh'",
        "cd $PWD/tools; sh inner.sh",
        "cd -- tools; sh inner.sh",
        "env -C tools sh inner.sh",
        "gmake -s -C tools/deeper",
    ],
)
def test_a_script_is_watched_however_a_hook_names_it(tmp_path: Path, command: str) -> None:
    scripts = ["check.sh", "tools/inner.sh", "tools/pkg/__main__.py", "Makefile", "big.sh"]
    scripts += ["my tools/@scope/a,b=c.sh", "a!(1).sh", "-x.sh", "#x.sh", "~x.sh"]
    scripts += ["tools/deeper/deep.sh", "tools/deeper/Makefile"]
    for name in (*scripts, ".mindstone/hooks.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old" if name != "big.sh" else "#" * 1_100_000)
    (tmp_path / ".mindstone/hooks.json").write_text(
        f'{{"hooks":{{"Stop":[{{"hooks":[{{"type":"command","command":"{command}"}}]}}]}}}}'
    )
    workspace = Workspace((tmp_path,))
    digest = project_instructions(workspace, None).digest
    assert project_instructions(workspace, digest).state == "trusted"
    for name in scripts:
        (tmp_path / name).write_text("new" if name != "big.sh" else "#" * 1_099_999 + "!")
    assert project_instructions(workspace, digest).state == "changed"


def test_what_is_injected_is_bounded_and_both_sizes_are_known(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("a" * 50_000)
    (tmp_path / "CLAUDE.md").write_text("b" * 100)
    first, second = project_instructions(Workspace((tmp_path,)), None, limit=1_000).files
    assert (first.raw_size, second.raw_size) == (50_000, 100)
    assert first.text.endswith("[… cut here: 49,000 more bytes in the file]")
    assert "b" * 50 not in second.text


def test_an_unreadable_trust_file_is_said_and_trusts_nobody(tmp_path: Path) -> None:
    (tmp_path / "trust.json").write_text("{")
    with pytest.raises(PlaceError, match="cannot be read"):
        TrustFile(tmp_path / "trust.json").digest(tmp_path)
