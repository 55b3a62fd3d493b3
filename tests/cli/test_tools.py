"""`mindstone tools`: servers in the shape everybody knows, tried for real, and wrong ones named."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from mindstone_tui.core.config import load
from mindstone_tui.core.paths import Places
from tests.cli.program import ROOT, mindstone, mindstone_here


def settings_file(home: Path) -> Path:
    home.mkdir(exist_ok=True, mode=0o700)
    return home / "config.toml"


@pytest.mark.thorough
def test_a_server_is_added_tried_counted_listed_without_its_secrets_and_removed(
    home: Path,
) -> None:
    file = settings_file(home)
    file.write_text("# mine\n[tui]\ntheme = 'basalt'\n")
    own = [sys.executable, "-m", "mindstone_tui", "mcp"]
    given = ("--env", f"PYTHONPATH={ROOT}", "--env", f"MINDSTONE_HOME={home}", "--env", "K=s3cret")
    added = mindstone_here("tools", "add", "own", *given, "--", *own)
    assert added.returncode == 0, added.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().startswith("# mine\n[tui]\ntheme = 'basalt'\n")
    listed = mindstone_here("tools", "list", "--json")
    assert "s3cret" not in listed.stdout
    (server,) = json.loads(listed.stdout)["servers"]
    assert (server["name"], server["command"]) == ("own", own)
    assert server["env"] == ["K", "MINDSTONE_HOME", "PYTHONPATH"]
    tried = mindstone("tools", "test", "own", "--json")
    assert tried.returncode == 0, tried.stderr
    told = json.loads(tried.stdout)
    assert "own__recall" in {tool["name"] for tool in told["tools"]}
    assert told["tokens"] == sum(tool["tokens"] for tool in told["tools"]) > 100
    assert mindstone_here("tools", "add", "own", "--", "other").returncode == 2
    assert mindstone_here("tools", "remove", "own").returncode == 0
    assert not load(Places.resolve({"MINDSTONE_HOME": str(home)}), {}).settings.tools.mcp
    assert "theme = 'basalt'" in file.read_text()


def test_a_server_is_written_as_people_write_one_and_others_keep_their_comments(
    home: Path,
) -> None:
    file = settings_file(home)
    mine = '[tools.mcp.mine]\ncommand = ["it"] # why\n'
    file.write_text(mine)
    assert mindstone_here("tools", "add", "own", "--", "other", "-y").returncode == 0
    assert file.read_text() == f'{mine}\n[tools.mcp.own]\ncommand = ["other", "-y"]\n'
    assert mindstone_here("tools", "remove", "own").returncode == 0
    assert file.read_text().strip() == mine.strip()


@pytest.mark.parametrize(
    "written",
    ['command = "npx"\nargs = ["-y", "it"]', 'command = ["npx", "-y", "it"]\ntype = "stdio"'],
)
def test_a_command_with_its_arguments_beside_it_is_the_same_as_one_list(
    home: Path, written: str
) -> None:
    settings_file(home).write_text(f"[tools.mcp.it]\n{written}\n")
    found = load(Places.resolve({"MINDSTONE_HOME": str(home)}), {}).settings.tools.mcp["it"]
    assert found.command == ("npx", "-y", "it")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('command = "x"\nargs = "y"', "tools.mcp.it.args wants a list of texts, not 'y'"),
        ('command = "x"\narg = ["y"]', "Did you mean args?"),
        ("command = 7", "tools.mcp.it.command wants a list of texts, not 7"),
        ('command = "x"\nenv = {A = 1}', "tools.mcp.it.env wants a table of texts"),
        ('url = "https://x"\nheaders = "A: b"', "tools.mcp.it.headers wants a table of texts"),
        ('url = "https://x"\ntimeout = "soon"', "tools.mcp.it.timeout wants a number"),
        ('command = "x"\nurl = "https://x"', "needs a command or a url"),
    ],
)
def test_what_is_wrong_with_a_server_is_named_by_its_field(
    home: Path, written: str, said: str
) -> None:
    file = settings_file(home)
    file.write_text(f"[tools.mcp.it]\n{written}\n")
    done = mindstone_here("tools", "list")
    assert done.returncode != 0
    assert said in done.stderr
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


def test_what_other_programs_name_is_taken_over_whole_or_not_at_all(
    home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    servers = {
        "git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"], "disabled": False},
        "web": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer b"}},
        "off": {"command": "x", "disabled": True},
    }
    file.write_text(f"// as some editors write it\n{json.dumps({'mcpServers': servers})}")
    assert mindstone_here("tools", "import", str(file)).returncode == 0
    found = load(Places.resolve({"MINDSTONE_HOME": str(home)}), {}).settings.tools.mcp
    assert found["git"].command == ("uvx", "mcp-server-git")
    assert found["web"].headers == {"Authorization": "Bearer b"}
    assert [each.enabled for each in found.values()] == [True, True, False]
    before = (home / "config.toml").read_text()
    file.write_text(json.dumps({"servers": {"new": {"command": "x"}, "bad": {"command": 1}}}))
    wrong = mindstone_here("tools", "import", str(file))
    assert wrong.returncode != 0
    assert "tools.mcp.bad.command" in wrong.stderr
    assert (home / "config.toml").read_text() == before
