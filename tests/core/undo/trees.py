"""Random folders and random things done to them, for laws about putting files back."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c.txt", "ü", "x y", "-n", "d\udcff"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(
    st.sampled_from([b"", b"one\n", b"one\ntwo\n", b"\0\xff binary", b"no newline"]),
    st.binary(max_size=200),
)
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o444])

Deed = tuple[str, str, object]
DEEDS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.tuples(CONTENTS, MODES)),
    st.tuples(st.just("link"), PATHS, st.sampled_from(["a", "../b", "/etc/hostname", "nowhere"])),
    st.tuples(st.just("folder"), PATHS, st.sampled_from([0o755, 0o700])),
    st.tuples(st.just("remove"), PATHS, st.none()),
    st.tuples(st.just("chmod"), PATHS, MODES),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("append"), PATHS, CONTENTS),
)


def do(root: Path, deed: Deed) -> None:
    """Do one thing, if it can be done; links are never followed."""
    what, path, more = deed
    place = root / path
    if any(
        (root / Path(*Path(path).parts[:at])).is_symlink() for at in range(1, len(Path(path).parts))
    ):
        return
    try:
        match what:
            case "write":
                assert isinstance(more, tuple)
                place.parent.mkdir(parents=True, exist_ok=True)
                if place.is_symlink():
                    place.unlink()
                place.write_bytes(more[0])
                place.chmod(more[1])
            case "append" if not place.is_symlink() and isinstance(more, bytes):
                with place.open("ab") as file:
                    file.write(more)
            case "link":
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(str(more))
            case "folder" if isinstance(more, int):
                place.mkdir(more, parents=True)
            case "remove":
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place)
                else:
                    place.unlink()
            case "chmod" if not place.is_symlink() and place.is_file() and isinstance(more, int):
                place.chmod(more)
            case "rename":
                (root / str(more)).parent.mkdir(parents=True, exist_ok=True)
                place.rename(root / str(more))
            case _:
                pass
    except OSError:
        return


def picture(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """All of a folder: kinds, permissions, bytes."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            info = path.lstat()
            mode = stat.S_IMODE(info.st_mode)
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = ("link", 0, os.fsencode(path.readlink()))
            elif path.is_dir():
                found[key] = ("folder", mode, b"")
            else:
                found[key] = ("file", mode, path.read_bytes())
    return found
