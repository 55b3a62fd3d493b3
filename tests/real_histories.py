"""How blame fares on histories that nobody here wrote: `python -m tests.real_histories FOLDER`.

Below the folder are git repositories in which people committed the sessions of their coding
agents, on whatever branch. Each session is imported as if it had happened here; the lines that
commits added are told by blame, and so are the files of the newest commit. Then every line that is
said to be of a turn is proven once more, by nothing but the file of the other program, which is
read here by other code: the call has the path of the file, it did not fail, it was over when the
commit was made, the line is in what it wrote, and was not in what it replaced. A line that a later
call wrote as well would be the later call's, if it stands in the file only once.

Nothing of a repository is run: git reads it with hooks and filters off, in a copy.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.library.blame import KeptFiles, LineOrigin, commits_named, lines_added
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript import History
from tests.cli.program import mindstone_here

LARGEST: Final = 40_000_000
"""Bytes of a session that is still taken."""
PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$")
NAMES: Final = ("file_path", "path", "notebook_path", "cwd", "workdir")
Rows = list[dict[str, Any]]


class Raw(NamedTuple):
    """A call as the other program wrote it down."""

    ts: str
    paths: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    whole: bool = False
    """Whether it wrote a whole file, so that nobody knows from it what was there before."""

    def more(self, text: str) -> int:
        """How many more of a line there were after it; negative if fewer."""
        return self.new.count(text) - self.old.count(text)


class Tally(NamedTuple):
    """What blame said of the lines, and what came of it."""

    sessions: int = 0
    commits: int = 0
    files: int = 0
    told: int = 0
    unknown: int = 0
    false: tuple[str, ...] = ()

    def plus(self, other: Tally) -> Tally:
        return Tally(*(mine + its for mine, its in zip(self, other, strict=True)))  # type: ignore[operator]


def git(repository: Path, *words: str, given: bytes = b"") -> bytes:
    """What git says, with nothing run that the repository names."""
    safe = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", "-c", "filter.lfs.smudge=")
    command = ["git", *safe, "-c", "safe.directory=*", "-C", str(repository), *words]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout


# The sessions of a repository


def rows_of(raw: bytes) -> Rows:
    found = []
    for line in raw.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            found.append(row)
    return found


def sessions_in(repository: Path) -> dict[str, bytes]:
    """The longest file of each session of Claude Code or Codex that any commit holds."""
    listed = git(repository, "rev-list", "--all", "--objects", "--missing=allow-any").decode()
    named = [row.split(" ", 1) for row in listed.splitlines() if row.endswith(".jsonl")]
    asked = "".join(f"{sha}\n" for sha, _ in named).encode()
    sizes = git(repository, "cat-file", "--batch-check=%(objectname) %(objectsize)", given=asked)
    found: dict[str, bytes] = {}
    for row in sizes.decode().splitlines():
        sha, _, size = row.partition(" ")
        if not size.isdecimal() or int(size) > LARGEST:
            continue
        raw = git(repository, "cat-file", "blob", sha)
        if (name := name_of(raw)) and len(raw) > len(found.get(name, b"")):
            found[name] = raw
    return found


def name_of(raw: bytes) -> str:
    """The session's own name; "" if it is none of these programs'."""
    for row in rows_of(raw[:200_000])[:20]:
        if isinstance(row.get("sessionId"), str) and isinstance(row.get("cwd"), str):
            return f"claude {row['sessionId']}"
        if row.get("type") == "session_meta" and isinstance(row.get("payload"), dict):
            return f"codex {row['payload'].get('id', '')}"
    return ""


def parts_in(value: object) -> Iterator[dict[str, Any]]:
    """Every object in a row, the outer ones first."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from parts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from parts_in(each)


def given_to(part: dict[str, Any]) -> object:
    """What a call was given; None if this is no call."""
    given = part.get("input", part.get("arguments"))
    if not isinstance(part.get("name"), str) or not (part.get("call_id") or part.get("id")):
        return None
    if isinstance(given, str) and given.startswith("{"):
        try:
            return json.loads(given)
        except ValueError:
            return given
    return given


def texts_in(given: object) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, dict | list):
        for each in given.values() if isinstance(given, dict) else given:
            yield from texts_in(each)


def calls_of(rows: Rows) -> dict[str, Raw]:
    """Every call that wrote something, by its id, with the time of its result."""
    found: dict[str, Raw] = {}
    asked: dict[str, Raw] = {}
    for row in rows:
        ts = str(row.get("timestamp", ""))
        for part in parts_in(row.get("message", row.get("payload"))):
            name = str(part.get("call_id") or part.get("id") or part.get("tool_use_id") or "")
            if (given := given_to(part)) is not None:
                asked[name] = raw_call(given)
            elif name in asked and str(part.get("type")).endswith(("_result", "_output")):
                found |= {} if part.get("is_error") else {name: asked[name]._replace(ts=ts)}
    return found


def raw_call(given: object) -> Raw:
    """The paths that a call names, and the lines that it takes away and puts there."""
    old: list[str] = []
    new: list[str] = []
    fields = given if isinstance(given, dict) else {}
    paths = [str(fields[name]) for name in NAMES if isinstance(fields.get(name), str)]
    for each in [fields, *(fields.get("edits") or [])]:
        if isinstance(each, dict):
            old += str(each.get("old_string", "")).split("\n")
            new += str(each.get("new_string", "")).split("\n")
    for name in ("content", "file_text"):
        new += str(fields.get(name, "")).split("\n")
    for patch in texts_in(given):
        if "*** Begin Patch" in patch:
            paths += PATCHED.findall(patch)
            old += [row[1:] for row in patch.split("\n") if row[:1] in ("-", " ")]
            new += [row[1:] for row in patch.split("\n") if row[:1] in ("+", " ")]
    whole = any(name in fields for name in ("content", "file_text"))
    return Raw("", tuple(paths), tuple(old), tuple(new), whole)


# As if they had happened here


def root_of(rows: Rows, calls: Iterable[Raw], known: set[str]) -> str:
    """The folder on the other machine that is this repository, by the files that were written."""
    asides = [row.get("payload") for row in rows]
    named = [part["cwd"] for part in (*rows, *asides) if isinstance(part, dict) and "cwd" in part]
    score: Counter[str] = Counter()
    for folder in {
        str(each) for cwd in {*map(str, named)} for each in (Path(cwd), *Path(cwd).parents)
    }:
        inside = [path.removeprefix(f"{folder}/") for call in calls for path in call.paths]
        score[folder] = sum(path in known for path in inside)
    best = max(score.items(), key=lambda it: (it[1], len(it[0])), default=("", 0))
    return best[0] if best[1] and len(best[0]) > 1 else ""


def moved(rows: Rows, root: str, work: Path) -> str:
    """The same session, its paths in another folder; what was written is not touched."""
    header = re.compile(rf"(?m)^(\*\*\* (?:Add|Update|Delete) File: ){re.escape(root)}(?=/)")

    def there(value: object, name: str = "") -> object:
        if isinstance(value, dict):
            return {key: there(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [there(each) for each in value]
        if not isinstance(value, str):
            return value
        if name in NAMES and (value == root or value.startswith(f"{root}/")):
            return f"{work}{value.removeprefix(root)}"
        if name == "arguments" and value.startswith("{"):
            try:
                return json.dumps(there(json.loads(value)))
            except ValueError:
                return value
        return header.sub(lambda found: f"{found[1]}{work}", value)

    return "".join(f"{json.dumps(there(row))}\n" for row in rows)


class Imported:
    """A repository with its sessions taken over."""

    def __init__(self, work: Path, home: Places) -> None:
        self.work, self.home, self.sessions = work, home, 0
        self.calls: dict[str, Raw] = {}
        """By id, the paths as seen from the repository."""

    @cached_property
    def by_path(self) -> dict[str, list[Raw]]:
        """The calls that were about a file, in the order in which they were over."""
        found: dict[str, list[Raw]] = {}
        for call in sorted(self.calls.values()):
            for path in set(call.paths):
                found.setdefault(path, []).append(call)
        return found

    @cache  # noqa: B019 - there is one at a time
    def raw(self, session: str, seq: int) -> Raw | None:
        """The other program's own record of the call that a line is said to be of."""
        with History(self.home.session(SessionKey.parse(session))) as history:
            entry = history.line(seq).entry
        return self.calls.get(entry.call) if isinstance(entry, ToolReturned) else None


def imported(repository: Path, base: Path) -> Imported:
    """Copy a repository to a folder of ours, and import its sessions there."""
    work = base / "work"
    git(base, "clone", "-q", "--shared", "--no-checkout", str(repository), str(work))
    names = git(repository, "log", "--all", "--format=", "--name-only", "--no-renames", "-z")
    known = {name.strip("\n") for name in names.decode(errors="replace").split("\0")}
    history = Imported(work, Places.resolve({"MINDSTONE_HOME": str(base / "home")}))
    for name, raw in sessions_in(repository).items():
        rows = rows_of(raw)
        found = calls_of(rows)
        if not (root := root_of(rows, [*found.values()], known)):
            continue
        program, _, own = name.partition(" ")
        folder = base / (".claude/projects/work" if program == "claude" else ".codex/sessions")
        folder.mkdir(parents=True, exist_ok=True)
        stem = own if program == "claude" else f"rollout-2026-01-01T00-00-00-{own}"
        (folder / f"{stem}.jsonl").write_text(moved(rows, root, work))
        said = mindstone_here("import", str(folder / f"{stem}.jsonl"), "--no-wait", cwd=work)
        if said.returncode == 0:
            history.sessions += 1
            for each, call in found.items():
                inside = tuple(path.removeprefix(f"{root}/") for path in call.paths)
                history.calls[each] = call._replace(paths=inside)
    return history


# Who was right


def wrote(call: Raw, text: str) -> bool:
    """Whether a call put a line there that it did not take away: whole, or one end of it."""
    if call.more(text) > 0:
        return True
    fresh = Counter(call.new) - Counter(call.old)
    return any(len(part.strip()) > 2 and part in text for part in fresh)


def why_false(history: Imported, line: LineOrigin, path: str, made: str, alone: bool) -> str:
    """What is wrong with saying that this line is of that turn; "" if it is proven."""
    if not line.session or line.seq is None:
        return "nobody recorded what was there before"
    if (call := history.raw(line.session, line.seq)) is None:
        return "the program's file has no such call"
    if path not in call.paths:
        return f"the call is about {call.paths}"
    if not wrote(call, line.text):
        return "the call did not write it"
    if call.ts[:19] > made:
        return f"the call was over at {call.ts}, after {made}"
    after = [it for it in history.by_path[path] if call.ts < it.ts and it.ts[:19] <= made]
    if alone and len(line.text.strip()) > 2 and not any(each.whole for each in after):
        changes = [each.more(line.text) for each in after]
        if max(changes, default=0) > 0 and min(changes) >= 0:
            return "a later call wrote it again, none took it away, and it stands there once"
    return ""


def judged(
    history: Imported,
    where: tuple[str, str],
    lines: Iterable[tuple[str, LineOrigin]],
    texts: Callable[[str], list[str]],
) -> Tally:
    """Prove the lines of a commit, or of now, that are said to be of a turn."""
    told = unknown = 0
    false: list[str] = []
    counts: dict[str, Counter[str]] = {}
    for path, line in lines:
        if line.origin == "unknown":
            unknown += 1
            continue
        told += 1
        counts.setdefault(path, Counter(texts(path) if path not in counts else ()))
        if why := why_false(history, line, path, where[1], counts[path][line.text] == 1):
            by = f"{line.session} turn {line.turn}, line {line.seq}"
            false.append(f"{where[0]} {path}:{line.line} {line.text[:60]!r}: {by}: {why}")
    return Tally(told=told, unknown=unknown, false=tuple(false))


def commits_of(history: Imported, most: int) -> list[list[str]]:
    """Commits that touch what a session wrote, from its first call on; evenly chosen."""
    first = min((call.ts for call in history.calls.values() if call.ts), default="~")
    how = ("--format=%x01%H", "--name-only", "--no-renames", "-z", "--no-merges")
    said = git(
        history.work, "log", *how, f"--since={first}", "--exclude=*/entire/*", "--all"
    ).decode(errors="replace")
    found: list[str] = []
    for each in said.split("\1")[1:]:
        sha, *names = each.replace("\n", "\0").split("\0")
        if history.by_path.keys() & names:
            found.append(sha)
    step = max(len(found) / most, 1)
    chosen = [found[int(at * step)] for at in range(min(len(found), most))]
    return [commits_named(history.work, sha)[0] for sha in chosen]


def judge_commits(history: Imported, kept: KeptFiles, most: int) -> Tally:
    tally = Tally()
    for sha, made, written in commits_of(history, most):
        try:
            added = [(each.path, each) for each in lines_added(kept, sha, made, written)]
        except MindstoneError:
            continue  # a copy of a repository may lack large files
        texts = partial(text_at, history.work, sha)
        tally = tally.plus(judged(history, (sha[:9], made), added, texts)).plus(Tally(commits=1))
    return tally


def judge_files(history: Imported, kept: KeptFiles, most: int) -> Tally:
    tally = Tally()
    there = git(history.work, "ls-tree", "-r", "-z", "--name-only", "HEAD").decode(errors="replace")
    for path in sorted(history.by_path.keys() & there.split("\0"))[:most]:
        file = history.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            file.write_bytes(git(history.work, "show", f"HEAD:{path}"))
            lines = [(path, each) for each in kept.blame(file)]
        except (MindstoneError, subprocess.CalledProcessError):
            continue  # not text, or a link
        texts = [each.text for _, each in lines]
        found = judged(history, ("now", "~"), lines, lambda _, texts=texts: texts)  # type: ignore[misc]
        tally = tally.plus(found).plus(Tally(files=1))
    return tally


def text_at(work: Path, sha: str, path: str) -> list[str]:
    return git(work, "show", f"{sha}:{path}").decode(errors="replace").split("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--most", type=int, default=30, help="commits and files of a repository")
    given = parser.parse_args()
    total, repositories = Tally(), 0
    for repository in sorted(it for each in given.folders for it in repositories_in(each)):
        with tempfile.TemporaryDirectory() as folder:
            base = Path(folder).resolve()
            os.environ.update(HOME=str(base), MINDSTONE_HOME=str(base / "home"))
            (base / "home").mkdir()
            (base / "home" / "config.toml").write_text("[recall]\nbackground = false\n")
            try:
                history = imported(repository.resolve(), base)
                kept = KeptFiles(history.home, history.work, {})
                found = Tally(sessions=history.sessions)
                if history.sessions:
                    found = found.plus(judge_commits(history, kept, given.most))
                    found = found.plus(judge_files(history, kept, given.most))
            except subprocess.CalledProcessError as failed:
                print(f"{repository}: {failed.stderr.decode(errors='replace')[:200]}")
                continue
        if not found.sessions:
            continue
        total, repositories = total.plus(found), repositories + 1
        print(f"{repository}: {words(found)}", flush=True)
        for each in found.false[:10]:
            print(f"    {each}")
    print(f"{repositories} repositories: {words(total)}")
    sys.exit(bool(total.false))


def words(it: Tally) -> str:
    return (
        f"{it.sessions} sessions, {it.commits} commits, {it.files} files: {it.told:,} lines told, "
        f"{it.unknown:,} unknown, {len(it.false)} false"
    )


def repositories_in(folder: Path) -> Iterator[Path]:
    """Git repositories below a folder, with or without a work tree."""
    for path, folders, files in os.walk(folder):
        if ("HEAD" in files and "objects" in folders) or ".git" in folders:
            yield Path(path)
            folders.clear()


if __name__ == "__main__":
    main()
