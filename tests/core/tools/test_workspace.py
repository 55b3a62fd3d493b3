from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindstone_tui.core.errors import NotAllowed, ToolError
from mindstone_tui.core.tools.workspace import Workspace

OUTWARD = [
    *("..", "../victim", "a/../../victim", "a/b/../../../victim", "/etc/passwd", "//etc/passwd"),
    *("link-to-file", "link-to-folder/victim", "link-up/victim", "loop", "link-root/etc/passwd"),
    *(
        "chain/victim",
        "proc-self-cwd/../victim",
        "link-to-folder",
        "a/link-up2/victim",
        "~/x/../..",
    ),
    *("/proc/self/environ", "/proc/1/root/etc/passwd", "/dev/null", "dangling", "a\0b"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace full of ways out."""
    (tmp_path / "victim").write_text("secret")
    (tmp_path / "workspace-victim").write_text("secret")
    root = tmp_path / "workspace"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file").write_text("inside")
    for name, target in {
        "link-to-file": tmp_path / "victim",
        "link-to-folder": tmp_path,
        "link-up": "..",
        "a/link-up2": "../..",
        "loop": "loop",
        "link-root": "/",
        "chain": "link-to-folder",
        "proc-self-cwd": "/proc/self/cwd",
        "dangling": tmp_path / "not-yet",
        "inward": "a/file",
        "inward-folder": "a",
        "absolute-inward": root / "a",
        "hooks": ".git/hooks",
    }.items():
        (root / name).symlink_to(str(target))
    return root


@pytest.mark.parametrize("path", OUTWARD)
def test_no_path_leads_out(root: Path, path: str) -> None:
    workspace = Workspace((root,))
    with pytest.raises(ToolError):
        workspace.read_whole(path, 1000)
    with pytest.raises(ToolError):
        workspace.replace(path, b"owned")
    assert (root.parent / "victim").read_text() == "secret"
    assert sorted(each.name for each in root.parent.iterdir()) == [
        *("victim", "workspace", "workspace-victim"),
    ]


def test_a_root_is_not_a_prefix_of_names(root: Path) -> None:
    with pytest.raises(NotAllowed):
        Workspace((root,)).read_whole(f"{root}-victim", 1000)


def test_links_that_stay_inside_lead_to_the_real_place(root: Path) -> None:
    workspace = Workspace((root,))
    for path in (
        "inward",
        "inward-folder/file",
        "absolute-inward/file",
        "a/b/../file",
        "./a//file",
    ):
        assert workspace.read_whole(path, 1000) == b"inside"
        assert workspace.locate(path).path == root / "a" / "file"
    assert workspace.locate("x/y/z").path == root / "x" / "y" / "z"


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git/hooks/post-commit", ".GIT/config", ".Git/x", "sub/.git/config"),
        *(
            ".mindstone/config.toml",
            ".mindstone",
            "hooks/post-commit",
            ".git.",
            ".g\u200bit/x",
            ".ssh/a",
        ),
        *("a/../.git/config", ".git", "home/session/transcript.jsonl", ".ｇit/x"),
    ],
)
def test_protected_places_are_never_written(root: Path, path: str) -> None:
    workspace = Workspace((root,), protected=(root / "home",))
    with pytest.raises(ToolError):
        workspace.replace(path, b"owned")
    assert not (root / ".git").exists()
    assert not (root / "home").exists()


def test_our_own_files_are_not_even_read(root: Path) -> None:
    (root / "home").mkdir()
    (root / "home" / "key").write_text("k")
    (root / "innocent").symlink_to("home/key")
    workspace = Workspace((root,), protected=(root / "home",))
    for path in ("home/key", "innocent", "a/../home/key"):
        with pytest.raises(NotAllowed):
            workspace.read_whole(path, 10)


@pytest.mark.parametrize(
    "path", [".vscode/tasks.json", "AGENTS.md", "x/.envrc", "Claude.md", ".ENV"]
)
def test_files_that_steer_other_programs_are_sensitive(root: Path, path: str) -> None:
    workspace = Workspace((root,))
    assert workspace.standing(workspace.locate(path)) == "sensitive"


def test_files_of_which_git_makes_a_repository_are_sensitive(root: Path) -> None:
    workspace = Workspace((root,))
    assert workspace.standing(workspace.locate("x/config")) == "open"
    workspace.replace("x/config", b"[core]\n\tfsmonitor = ./evil\n\tworktree = ..\n")
    workspace.replace("x/Objects/info/keep", b"")
    for path in ("x/refs/keep", "x/refs"):
        assert workspace.standing(workspace.locate(path)) == "sensitive"
    workspace.replace("y/HEAD", b"ref: refs/heads/x\n")
    assert workspace.standing(workspace.locate("y/commondir")) == "sensitive"
    (root / "x" / "refs").mkdir()
    for path in ("x/config", "x/HEAD", "x/deep/file"):
        assert workspace.standing(workspace.locate(path)) == "sensitive"


def test_writing_one_name_of_a_hard_link_leaves_the_other_alone(root: Path) -> None:
    victim = root.parent / "victim"
    os.link(victim, root / "hard")
    Workspace((root,)).replace("hard", b"new")
    assert victim.read_text() == "secret"
    assert (root / "hard").read_text() == "new"


def test_writing_keeps_permissions_and_drops_special_bits(root: Path) -> None:
    script = root / "a" / "run.sh"
    script.write_text("x")
    script.chmod(0o4755)
    Workspace((root,)).replace("a/run.sh", b"y")
    assert script.stat().st_mode & 0o7777 == 0o755


def test_pipes_devices_and_folders_are_not_read_as_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    workspace = Workspace((root,))
    for path in ("pipe", "a"):
        with pytest.raises(ToolError):
            workspace.read_whole(path, 10)
    with pytest.raises(NotAllowed):
        workspace.replace("pipe", b"x")


def test_no_descriptor_is_left_open(root: Path) -> None:
    workspace = Workspace((root,))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (*OUTWARD, "inward", "a/b/../file", "x/y/z", "absolute-inward/file"):
        for attempt in (workspace.locate, lambda path: workspace.read_whole(path, 10)):
            try:
                attempt(path)
            except ToolError:
                continue
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("place", ["/proc", "/proc/self", "/sys", "/dev", "/run"])
def test_the_system_is_not_a_workspace(place: str) -> None:
    with pytest.raises(NotAllowed):
        Workspace((Path(place),))
