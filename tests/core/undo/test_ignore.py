"""`.gitignore` is read as git reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import EMPTY, IgnoreRules, Limits, scan

FILES = (
    "a.log",
    "b.txt",
    "build/x",
    "build/keep.txt",
    "src/build/y",
    "src/a.log",
    "src/deep/er/z.tmp",
    "doc/one.md",
    "doc/two.md",
    "#hash",
    "!bang",
    "x[1]",
    "foo/bar/baz",
    "foo/baz",
    "a/b/c/d",
    "a/x/d",
    "node_modules/m/i.js",
    "src/node_modules/k",
    ".env",
    ".envrc",
    "q1",
    "q2",
    "qa",
    ".cache/f",
    "trailing",
)
RULES = (
    "*.log\n!src/a.log\n/build/\n*.tmp\ndoc/*.md\n!doc/two.md\n\\#hash\n\\!bang\nnode_modules\n"
    "a/**/d\nfoo/**\n!foo/baz\nq[0-9]\n.env\n**/.cache\n\n# comment\nx\\[1\\]\ntrailing   \n"
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("inner", ["", "!z.tmp\n*.md\n", "/build\n!*.log\n"])
def test_the_same_files_are_left_out_as_by_git(tmp_path: Path, inner: str) -> None:
    root = tmp_path / "work"
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (root / ".gitignore").write_text(RULES)
    (root / "src/.gitignore").write_text(inner)
    (root / "doc/.gitignore").write_text(inner)
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=root, env=home, check=True)
    (root / ".git/info/exclude").write_text("q*a\n")
    told = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root,
        env=home,
        check=True,
        capture_output=True,
    )
    expected = set(told.stdout.decode().split("\0")) - {""}
    found = scan(root, EMPTY, ObjectStore(tmp_path / "store", limit=1 << 20), Limits(999, 999))
    assert {path for path, node in found.nodes.items() if node.kind == "file"} == expected


def test_a_broken_pattern_is_no_rule() -> None:
    assert IgnoreRules("[z-a]\n*.x\n").verdict("b.x", folder=False)
    assert IgnoreRules("[z-a]\n").verdict("b", folder=False) is None
