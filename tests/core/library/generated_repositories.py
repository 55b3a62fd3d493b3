"""Repositories that agents and people wrote together, by somebody who knows who wrote which line.

Agents work through real sessions and their real tools; people write, format, move and commit
beside them. A line that is only moved stays its maker's. Between two calls nobody writes or moves
a line that equals one they took away: no byte could tell which of the two is there. Time passes as
each repository's own clock says, and not as fast as the machine is: git keeps whole seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shlex
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mindstone_tui.core import events
from mindstone_tui.core.library.blame import KeptFiles, LineOrigin, commits_named, lines_added
from mindstone_tui.core.paths import Places, SessionKey
from tests.core.session.stage import Stage, calls, on_stage

COMMON = ("", "}", "    return x", "import os", "    pass", "    }", "else:  ")
Maker = tuple[str, str, int]
BEFORE: Maker = ("before", "", 0)
PERSON: Maker = ("person", "", 0)
EARLY: Maker = ("early", "", 0)
"""A person's line in a file that no call had touched: `before` is as right as `unknown`."""
Lines = list[tuple[str, Maker]]


class Score(NamedTuple):
    """How the lines of the files were told."""

    commits: int = 0
    told: int = 0
    """Lines for which a turn, or `before`, was named."""
    wrong: tuple[str, ...] = ()
    agents: int = 0
    """Lines that agents made."""
    found: int = 0
    """Of these, those whose turn was named."""
    apart: int = 0
    """Lines that agents made in files that undo does not keep."""
    apart_found: int = 0
    """Of these, those whose turn was named."""

    def plus(self, other: Score) -> Score:
        return Score(*(mine + its for mine, its in zip(self, other, strict=True)))  # type: ignore[operator]


def text_of(lines: Lines) -> str:
    return "".join(f"{text}\n" for text, _ in lines)


def _copied(maker: Maker) -> Maker:
    """A person's copy of a line: its maker's bytes in a file that its maker did not write."""
    return ("copied", *maker[1:]) if maker[0] == "turn" else PERSON


def _held_before(lines: Lines) -> Lines:
    return [(text, BEFORE if maker == PERSON else maker) for text, maker in lines]


class Repository:
    """A folder, the sessions that work in it, and who made each line of it."""

    def __init__(self, base: Path, seed: int, sessions: int = 2) -> None:
        self.random = random.Random(seed)
        self.base, self.work = base, base / "work"
        self.names = [f"agent:default:worker{number}" for number in range(sessions)]
        self.files: dict[str, Lines] = {}
        self.turns = dict.fromkeys(self.names, 0)
        self.replies: dict[str, list[Any]] = {name: [] for name in self.names}
        self.acts: list[Callable[[], Any]] = []
        self.taken: dict[str, set[str]] = {}
        """What people took away from each file since a call last touched it."""
        self.truth: dict[tuple[str, str], list[list[Maker]]] = {}
        self.last: tuple[str, dict[str, Lines]] | None = None
        """The session whose turn was the last act, and the files before it."""
        self.touched: set[str] = set()
        """Files that a call touched, by which all that they held became what was there before."""
        self.unkept: dict[str, Lines] = {}
        """Files in the folder that git is told to ignore."""
        self.aside = random.Random(f"aside {seed}")
        self.count = 0
        self.stages: dict[str, Stage] = {}
        self.now = datetime.now(UTC)
        self.pace = random.Random(seed)

    def clock(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    # What happens, thought out first

    def plan(self, commits: int) -> None:
        """Think out everything that happens up to the last commit."""
        for _ in range(3):
            self.files[self._name()] = [
                self._line(BEFORE) for _ in range(self.random.randint(3, 30))
            ]
        files = self._contents()
        self.acts.append(lambda: self._begin(files))
        self._note()
        for _ in range(commits):
            for _ in range(self.random.randint(1, 4)):
                self.random.choices([self._agent, self._person, self._undo], weights=[6, 3, 1])[0]()
                self._note()
            how = self.random.choice(["commit", "commit", "squash", "rebase", "some"])
            pick = self.random.random()
            self.acts.append(partial(self._commit, how, pick))

    def _note(self) -> None:
        for path, lines in (*self.files.items(), *self.unkept.items()):
            digest = hashlib.sha256(text_of(lines).encode()).hexdigest()
            stories = self.truth.setdefault((path, digest), [])
            early = path not in self.touched
            story = [EARLY if early and maker == PERSON else maker for _, maker in lines]
            if story not in stories:
                stories.append(story)

    def _contents(self) -> dict[str, str]:
        return {path: text_of(lines) for path, lines in self.files.items()}

    def _name(self) -> str:
        self.count += 1
        return self.random.choice(["", "src/"]) + f"file{self.count}.py"

    def _line(
        self, maker: Maker, without: set[str] | frozenset[str] = frozenset()
    ) -> tuple[str, Maker]:
        common = [text for text in COMMON if text not in without]
        if common and self.random.random() < 0.25:
            return self.random.choice(common), maker
        self.count += 1
        indent = "    " * self.random.randint(0, 2)
        return (
            f"{indent}value{self.count} = {self.random.random()}{self.random.choice(['', '  '])}",
            maker,
        )

    def _changed(self, lines: Lines, maker: Maker, taken: set[str]) -> Lines:
        """A file after one change; what it takes away is added to `taken`."""
        size = len(lines)
        at = self.random.randint(0, size)
        end = min(size, at + self.random.randint(1, 6))
        kind = self.random.choice(["insert", "insert", "replace", "delete", "move", "format"])
        if kind == "format":
            return [self._formatted(line, maker, taken) for line in lines]
        if kind == "move":
            block = lines[at:end]
            rest = lines[:at] + lines[end:]
            to = self.random.randint(0, len(rest))
            if any(text in taken for text, _ in block):
                return lines
            return rest[:to] + block + rest[to:]
        if kind == "insert":
            end = at
        removed = {text for text, _ in lines[at:end]}
        taken |= removed
        count = 0 if kind == "delete" else self.random.randint(1, 8)
        return lines[:at] + [self._line(maker, taken) for _ in range(count)] + lines[end:]

    def _formatted(
        self, line: tuple[str, Maker], maker: Maker, taken: set[str]
    ) -> tuple[str, Maker]:
        text = re.sub(r" +$", "", re.sub(r"^    ", "  ", line[0]))
        if text == line[0] or text in taken:
            return line
        taken.add(line[0])
        return text, maker

    def _agent(self) -> None:
        name = self.random.choice(self.names)
        self.turns[name] += 1
        maker = ("turn", name, self.turns[name])
        before = {path: list(lines) for path, lines in self.files.items()}
        known = set(self.touched)
        wanted = [self._call(maker) for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        if self.aside.random() < 0.2:
            wanted.append(self._call_apart(maker))
        self.replies[name] += [calls(*wanted), {"text": "done"}]
        after = self._contents()
        self.acts.append(lambda: self._say(name, after))
        for path in before.keys() & (self.touched - known):
            before[path] = _held_before(before[path])
        self.last = name, before

    def _call(self, maker: Maker) -> tuple[str, dict[str, Any]]:
        path = self.random.choice(sorted(self.files))
        kind = self.random.choice(
            ["edit", "edit", "edit", "write", "shell", "new", "mv", "cp", "rm"]
        )
        if kind not in ("new", "cp"):
            self._touch(path)
        lines = self.files[path]
        quoted = shlex.quote(path)
        if kind == "new":
            path = self._name()
            self.touched.add(path)
            self.files[path] = [self._line(maker) for _ in range(self.random.randint(1, 25))]
            return "write", {"path": path, "content": text_of(self.files[path])}
        if kind == "mv":
            to = self._name()
            self.touched.add(to)
            self.files[to] = self.files.pop(path)
            return "shell", {"command": f"mkdir -p src; mv {quoted} {to}"}
        if kind == "cp":
            to = self._name()
            self.touched.add(to)
            self.files[to] = [(text, maker) for text, _ in lines]
            return "shell", {"command": f"mkdir -p src; cp {quoted} {to}"}
        if kind == "rm" and len(self.files) > 3:
            del self.files[path]
            return "shell", {"command": f"rm {quoted}"}
        changed = self._changed(lines, maker, set())
        if changed == lines:
            changed = [*lines, self._line(maker)]
        self.files[path] = changed
        if kind == "edit" and (edit := _edit(lines, changed)) is not None:
            return "edit", {"path": path, "old_string": edit[0], "new_string": edit[1]}
        if kind == "shell":
            return "shell", {
                "command": f"cat > {quoted} <<'END OF IT'\n{text_of(changed)}END OF IT\n"
            }
        return "write", {"path": path, "content": text_of(changed)}

    def _call_apart(self, maker: Maker) -> tuple[str, dict[str, Any]]:
        """Something that undo does not keep."""
        path = f"out/made{self.aside.randint(1, 3)}.log"
        lines = [(f"line {self.aside.random()}", maker) for _ in range(self.aside.randint(1, 9))]
        self.unkept[path] = [*self.unkept.get(path, []), *lines]
        command = f"mkdir -p out; cat >> {path} <<'END OF IT'\n{text_of(lines)}END OF IT\n"
        return "shell", {"command": command}

    def _person_apart(self) -> None:
        if not self.unkept or self.aside.random() < 0.7:
            return
        path = self.aside.choice(sorted(self.unkept))
        self.unkept[path] = [*self.unkept[path], (f"line {self.aside.random()}", PERSON)]
        text = text_of(self.unkept[path])
        self.acts.append(lambda: (self.work / path).write_text(text) and None)

    def _touch(self, path: str) -> None:
        self.taken[path] = set()
        if path not in self.touched:
            self.touched.add(path)
            self.files[path] = _held_before(self.files[path])
            self._note()

    def _person(self) -> None:
        self.last = None
        for _ in range(self.random.randint(1, 3)):
            path = self.random.choice(sorted(self.files))
            lines = self.files[path]
            taken = self.taken.setdefault(path, set())
            kind = self.random.choice(["change"] * 6 + ["new", "mv", "cp", "rm"])
            if kind == "new":
                self.files[self._name()] = [self._line(PERSON) for _ in range(9)]
            elif kind == "mv":
                to = self._name()
                self.files[to] = self.files.pop(path)
                self.taken[to] = self.taken.pop(path)
            elif kind == "cp":
                self.files[self._name()] = [(text, _copied(maker)) for text, maker in lines]
            elif kind == "rm" and len(self.files) > 3:
                del self.files[path]
            else:
                self.files[path] = self._changed(lines, PERSON, taken)
        after = self._contents()
        self.acts.append(lambda: self._put(after))
        self._person_apart()

    def _undo(self) -> None:
        if self.last is None:
            return
        name, self.files = self.last
        self.last = None
        after = self._contents()
        self.acts.append(lambda: self._take_back(name, after))

    # What happens, done

    async def play(self, commits: int) -> Score:
        """Do it all, then ask where every line comes from."""
        self.plan(commits)
        self.work.mkdir(parents=True)
        async with contextlib.AsyncExitStack() as stack:
            for name in self.names:
                script = self.base / f"{name.rpartition(':')[2]}.jsonl"
                script.write_text(
                    "".join(f"{json.dumps(each)}\n" for each in self.replies[name]) or "{}\n"
                )
                stage = await stack.enter_async_context(
                    on_stage(
                        self.base / "home",
                        key=SessionKey.parse(name),
                        cwd=self.work,
                        model=f"scripted/{script}",
                        asks=True,
                    )
                )
                stage.on_event = _agreeing(stage)
                stage.session.services.context.transcript._clock = self.clock
                self.stages[name] = stage
            for act in self.acts:
                self.now += timedelta(seconds=self.pace.choice([0, 1, 20]))
                if (waiting := act()) is not None:
                    await waiting
        return self._score()

    def _begin(self, files: dict[str, str]) -> None:
        self._put(files)
        self._git("init", "-q", "-b", "main")
        (self.work / ".git" / "info" / "exclude").write_text("out/\n")
        self._commit("commit", 0)

    def _put(self, files: dict[str, str]) -> None:
        for path in self._on_disk():
            if path not in files:
                (self.work / path).unlink()
        for path, text in files.items():
            place = self.work / path
            if not place.exists() or place.read_text() != text:
                place.parent.mkdir(exist_ok=True)
                place.write_text(text)

    def _on_disk(self) -> list[str]:
        every = (path.relative_to(self.work) for path in self.work.rglob("*.py"))
        return sorted(str(path) for path in every)

    async def _say(self, name: str, after: dict[str, str]) -> None:
        assert (await self.stages[name].say("Go on with it.")).ending == "done"
        self._check(after)

    async def _take_back(self, name: str, after: dict[str, str]) -> None:
        ended, said = await self.stages[name].run("/undo")
        assert ended.ok or "No turn" in said, said
        self._check(after)

    def _check(self, after: dict[str, str]) -> None:
        there = {path: (self.work / path).read_text() for path in self._on_disk()}
        assert there == after, "a tool did something else than was thought"

    def _git(self, *words: str) -> str:
        when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), self.now.isoformat())
        done = subprocess.run(
            [
                "git",
                "-c",
                "user.name=x",
                "-c",
                "user.email=x@x",
                "-c",
                "commit.gpgsign=false",
                *words,
            ],
            cwd=self.work,
            env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", **when},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def _commit(self, how: str, pick: float) -> None:
        every = self._on_disk()
        chosen = [every[int(pick * len(every))]] if how == "some" and every else ["."]
        self._git("add", "-A", *chosen)
        if (self.work / "out").is_dir():
            self._git("add", "-f", "out")
        self._git("commit", "-q", "--allow-empty", "-m", how)
        if how == "some":
            self._git("add", "-A")
            self._git("commit", "-q", "--allow-empty", "-m", "rest")
        elif how == "squash" and int(self._git("rev-list", "--count", "HEAD")) > 2:
            self._git("reset", "-q", "--soft", "HEAD~2")
            self._git("commit", "-q", "--allow-empty", "-m", "squashed")
        elif how == "rebase" and int(self._git("rev-list", "--count", "HEAD")) > 2:
            self._git("branch", "-q", "-f", "other", "HEAD~1")
            self._git("checkout", "-q", "other")
            self._git("commit", "-q", "--allow-empty", "-m", "beside")
            self._git("checkout", "-q", "main")
            self._git("rebase", "-q", "--empty=keep", "other")

    # Who was right

    def _score(self) -> Score:
        home = Places.resolve({"MINDSTONE_HOME": str(self.base / "home")})
        kept = KeptFiles(home, self.work, {})
        score = Score()
        for path in (*self._on_disk(), *sorted(self.unkept)):
            whole = {path: kept.blame(self.work / path)}
            score = score.plus(self._judge("file", whole, {path: (self.work / path).read_text()}))
        for commit, *when in commits_named(
            self.work, f"{self._git('rev-list', '--max-parents=0', 'HEAD').strip()}..HEAD"
        ):
            found: dict[str, list[LineOrigin]] = {}
            for each in lines_added(kept, commit, *when):
                found.setdefault(each.path, []).append(each)
            texts = {path: self._git("show", f"{commit}:{path}") for path in found}
            score = score.plus(self._judge(commit, found, texts)).plus(Score(commits=1))
        return score

    def _judge(
        self, where: str, found: dict[str, list[LineOrigin]], texts: dict[str, str]
    ) -> Score:
        told, agents, right = 0, [0, 0], [0, 0]
        wrong: list[str] = []
        for path, lines in found.items():
            digest = hashlib.sha256(texts[path].encode()).hexdigest()
            stories = self.truth[path, digest]
            for each in lines:
                makers = {story[each.line - 1] for story in stories}
                makers |= {BEFORE} if EARLY in makers else set()
                for maker in [maker for maker in makers if maker[0] == "copied"]:
                    makers |= {BEFORE, ("turn", *maker[1:])}
                by = (each.origin, each.session or "", each.turn or 0)
                told += each.origin != "unknown"
                is_agents = all(maker[0] == "turn" for maker in makers)
                agents[path in self.unkept] += is_agents
                right[path in self.unkept] += is_agents and by in makers
                if each.origin != "unknown" and by not in makers:
                    wrong.append(f"{where} {path}:{each.line} {each.text!r}: {by}, but {makers}")
        return Score(0, told, tuple(wrong), agents[0], right[0], agents[1], right[1])


def _agreeing(stage: Stage) -> Callable[[events.AnyEvent], None]:
    def answer(event: events.AnyEvent) -> None:
        if isinstance(event, events.ToolAsked):
            stage.session.answer(event.call, events.Answer(allowed=True))

    return answer


def _edit(old: Lines, new: Lines) -> tuple[str, str] | None:
    """What to replace by what, with so many lines around that it stands there once."""
    before, after = [text for text, _ in old], [text for text, _ in new]
    if before == after:
        return None
    top = next(
        (at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other),
        min(len(before), len(after)),
    )
    end = 0
    while end < min(len(before), len(after)) - top and before[-1 - end] == after[-1 - end]:
        end += 1
    whole = text_of(old)
    while True:
        piece = "".join(f"{text}\n" for text in before[top : len(before) - end])
        if piece and whole.find(piece) == whole.rfind(piece):
            return piece, "".join(f"{text}\n" for text in after[top : len(after) - end])
        if not top and not end:
            return None
        top, end = max(0, top - 1), max(0, end - 1)
