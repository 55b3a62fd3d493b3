"""What counts is one answer: every surface tells of a line what the lines themselves say of it.

The lines are folded here a second time, from their JSON alone and by nothing of the program. Small
sessions are walked through what changes the standing of lines (corrections, rewinds, restores,
undone work, kills, forks, imports), and each surface is held to that fold.
"""

from __future__ import annotations

import html
import json
import random
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui import api
from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.cli.recall import marks
from mindstone_tui.core.config import Settings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantPartial, TurnStarted, UserMessage
from mindstone_tui.core.events import Answer, AnyEvent, ToolAsked
from mindstone_tui.core.interchange.import_session import import_file
from mindstone_tui.core.library.find import StoredRecall
from mindstone_tui.core.library.project_recall import ProjectRecall
from mindstone_tui.core.library.search import search_everywhere
from mindstone_tui.core.library.work import WorkDone
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.recall import inject
from mindstone_tui.core.transcript import History, Transcript, standings_of
from mindstone_tui.servers import acp_updates, page_items
from mindstone_tui.servers.lookup import Lookup
from tests.builders import places_in
from tests.core.session.stage import Stage, calls, on_stage, script
from tests.faults import sampled, sized

Marks = dict[int, set[tuple[str, int | None]]]
"""How lines stand, by their numbers: each what with the line that made it so."""
Json = dict[str, Any]

ROOF = "The roof code is 5822. The lift is broken."
PUMP = "The pump is model P7."
ROOF_IS = "Correction: the roof code is 5823, not 5822."
ROOF_AGAIN = "Correction: the roof code is 5824, not 5823."
PUMP_IS = "Correction: the pump is model P9, not P7."
KILL, FORK, IMPORT, DECIDE = "kill ", "/fork child", "import", "/memory"
WORK = "Please write down: "
"""Begins a message for which the model changes a file."""


def wrote(thing: str, number: int) -> str:
    return f"{WORK}remark {number} on the {thing} code, {number}."


WALKS = {
    "a chain": [ROOF, PUMP, ROOF_IS, ROOF_AGAIN, "thanks"],
    "a rewind": [ROOF, PUMP, ROOF_IS, PUMP_IS, "/rewind turn 2", "hello"],
    "a restore": [
        ROOF,
        ROOF_IS,
        "hello",
        "/rewind turn 1",
        "thanks",
        "/restore turn 2",
        "well, then",
    ],
    "a kill": [ROOF, KILL + ROOF_IS, "hello", "thanks", "/rewind turn 2", "well, then"],
    "a kill that was rewound": [
        *(ROOF, KILL + ROOF_IS, "/rewind turn 1", "hello", "/restore turn 2", "well, then"),
        *("thanks", "/rewind turn 2"),
    ],
    "a kill, work and a fork": [
        *(ROOF, KILL + ROOF_IS, ROOF_AGAIN, "hello", "/rewind turn 2", FORK, "thanks"),
    ],
    "a fork": [ROOF, PUMP, ROOF_IS, FORK, PUMP_IS, "thanks", "/rewind turn 3", "well, then"],
    "a fork at a rewound turn": [ROOF, PUMP, ROOF_IS, "/rewind turn 2", f"{FORK} turn 3", "thanks"],
    "a restore and no turn since": [
        *(ROOF, ROOF_IS, "/rewind turn 1", "Correction: the roof code is 5825, not 5822."),
        "/restore turn 2",
    ],
    "a kill and no turn since": [ROOF, KILL + ROOF_IS],
    "memories": [
        *(ROOF, "Please remember that the cellar is dry.", "hello"),
        *("Please remember that the attic is wet.", "/rewind turn 3", "thanks"),
    ],
    "undone work": [
        *(ROOF, wrote("gate", 7101), "hello", "/undo", "thanks"),
        *(wrote("gate", 7102), wrote("roof", 7103), "/undo 2", "/redo"),
        *("/undo", "well, then", "/rewind turn 5 --files", "no more"),
    ],
    "undone work in a fork": [
        *(wrote("gate", 7101), wrote("gate", 7102), "/undo", FORK, "thanks"),
        *(wrote("gate", 7103), "/undo", "hello", "/redo", "well, then"),
    ],
    "an import": [ROOF, KILL + PUMP, ROOF_IS, "hello", "/rewind turn 3", IMPORT, PUMP_IS, "thanks"],
}


_MOVES = ("correct", "correct", "correct", "talk", "rewind", "restore")
_MORE = (*_MOVES, *_MOVES, "task", "remember", DECIDE, WORK, WORK, "/undo", "/redo", FORK, IMPORT)
_FEW = 6


def any_walk(seed: int) -> list[str]:
    """Some steps, the same for the same number; no two messages are alike."""
    chance, values, steps = random.Random(seed), dict[str, int](), list[str]()
    turn = 0
    for number in range(1_001, 1_013 if seed < _FEW else 1_025):
        thing = chance.choice(("roof", "gate"))
        match chance.choice(_MOVES if seed < _FEW else _MORE):
            case "correct" if thing not in values:
                steps.append(f"The {thing} code is {number}. The {thing} stairs are wet.")
                values[thing] = number
            case "correct":
                said = f"Correction: the {thing} code is {number}, not {values[thing]}."
                steps.append(said if chance.random() < 0.7 else KILL + said)
                values[thing] = number
            case "rewind" | "restore" as what if turn > 1:
                steps.append(f"/{what} turn {chance.randrange(1, turn)}")
                continue
            case "remember":
                steps.append(f"Please remember that lamp {number} is dim.")
            case "task":
                done = "/task done" if f"/task start {thing}" in steps else f"/task start {thing}"
                steps.append(done)
                continue
            case "Please write down: ":
                steps.append(wrote(thing, number))
            case ("/memory" | "/undo" | "/redo" | "/fork child" | "import") as step if turn > 1:
                if not (step in (FORK, IMPORT) and {FORK, IMPORT} & {*steps}):
                    steps.append(step)
                continue
            case _:
                steps.append(f"Remark {number} about nothing much.")
        turn += 1
    return [*steps, "Thanks for all of that."]


WALKS |= {f"any {seed}": any_walk(seed) for seed in range(sized(3, 40))}
_SAID = ("user_message", "assistant_partial")
_GOES_BACK = {
    *(*_SAID, "assistant_message", "model_failed", "turn_started", "turn_ended"),
    *("tool_called", "tool_asked", "tool_answered", "tool_approved", "tool_refused"),
    *("tool_returned", "recall_injected", "recall_used", "memory_digested", "memory_proposed"),
    *("standing_instruction_offered", "offer_answered", "task_started", "task_done"),
    *("todo_changed", "plan_changed", "note_taken", "summary_derived", "checkpoint_saved"),
    *("handoff_written", "handoff_replayed"),
}
_MARK = re.compile(
    r"\b(rewound|superseded|corrected in part|interrupted|imported|copied"
    r"|changes to files taken back)\b(?! there\b)"  # there: where it was imported from
    r"(?: by (?:#|line )(\d+))?"
)
_BESIDE = ("rewound", "superseded", "corrected", "undone", "interrupted", "imported")
"""What is told wherever a message is read."""


_TASKS = ("task_started", "task_done")
_SPOKEN = (*_SAID, "assistant_message")
_DID = (*_SAID, "assistant_message", "tool_called", "tool_returned", "files_changed")


class ByHand:
    """The standing of every line, from the JSON of the transcript."""

    def __init__(self, lines: list[Json]) -> None:
        self.lines = lines
        self._rewinds: list[tuple[Json, set[int]]] = []
        self._turns = {one["seq"]: one["turn"] for one in lines}
        self._said: dict[int, dict[int, list[str]]] = {}
        self.undone: dict[int, int] = {}
        """Turns whose work was taken back, each with the line that did."""
        for one in lines:
            match one["kind"]:
                case "files_restored":
                    self.undone |= dict.fromkeys(one["turns"], one["seq"])
                    if one["direction"] == "redo":
                        self.undone = {
                            turn: by for turn, by in self.undone.items() if turn not in one["turns"]
                        }
                case "rewound":
                    self._rewinds.append((one, set()))
                case "restored":
                    for _, back in self._rewinds:
                        back.update(one["turns"])
                case "statement_superseded" if not one.get("parent"):
                    part = one.get("words", []) if one.get("partly") else []
                    self._said.setdefault(one["statement"], {})[one["by"]] = part
                case "recall_injected" if not one.get("parent"):
                    for each in one.get("passages", ()):
                        if each.get("session", "") in ("", one["session"]) and (
                            by := each.get("superseded_by")
                        ):
                            self._said.setdefault(each["seq"], {})[by] = []

    def rewound(self, seq: int) -> int | None:
        """The rewind that took something at a line back."""
        for one, back in self._rewinds:
            turn, state = self._turns[seq], one["state"]
            after = turn > one["to_turn"] and seq <= min(state.get("through", 0), one["seq"])
            if after and turn not in back and seq not in state.get("summaries", ()):
                return int(one["seq"])
        return None

    def holds(self, seq: int) -> bool:
        """Whether what a line says still replaces something."""
        return self.lines[seq]["kind"] == "memory_decided" or self.rewound(seq) is None

    def replaces(self, seq: int, old: int) -> bool:
        """The same for another line: of files that were put back, what the model told holds."""
        kind, turn = self.lines[seq]["kind"], self._turns[seq]
        told = kind == "user_message" != self.lines[old]["kind"]
        return self.holds(seq) and not (told and seq < self.undone.get(turn, 0))

    def of(self, line: Json) -> set[tuple[str, int | None]]:
        """How a line stands, as far as messages are told so."""
        found: set[tuple[str, int | None]] = set()
        judged = line["kind"] == "statement_superseded" and not line.get("parent")
        if judged or line["kind"] in _GOES_BACK:
            said_in = line["by"] if judged else line["seq"]
            by = None if judged and self.holds(said_in) else self.rewound(said_in)
            found |= {("rewound", by)} if by is not None else set()
        said = self._said.get(line["seq"], {})
        # What a person decided about a memory stays decided.
        known = {by: part for by, part in sorted(said.items()) if self.replaces(by, line["seq"])}
        if whole := [by for by, part in known.items() if not part]:
            found.add(("superseded", max(whole)))
        else:
            last = {one: by for by, part in known.items() for one in part}
            found |= {("corrected", by) for by in last.values()}
        if line["kind"] in _TASKS and (ended := self._task_ended(line)):
            found.add(("done" if ended["kind"] == "task_done" else "superseded", ended["seq"]))
        if line["kind"] in _DID and line["seq"] < self.undone.get(line["turn"], 0):
            found.add(("undone", self.undone[line["turn"]]))
        cut = line.get("ending") == "interrupted" or line.get("status") == "interrupted"
        if cut or line["kind"] == "assistant_partial":
            found.add(("interrupted", None))
        if line.get("channel") == "import":
            found.add(("imported", None))
        return found | ({("copied", None)} if line.get("parent") else set())

    def _task_ended(self, line: Json) -> Json | None:
        """The line that ended the task of a line, where that is another one."""
        tasks = [one for one in self.lines if one["kind"] in _TASKS]
        stand = [one for one in tasks if self.rewound(one["seq"]) is None]
        begun = [one for one in stand if one["seq"] <= line["seq"] and one["kind"] == _TASKS[0]]
        then = [one for one in stand if begun and one["seq"] > begun[-1]["seq"]]
        same = begun and line.get("title") == begun[-1].get("title")
        return then[0] if line in stand and same and then and then[0] is not line else None

    def remembered(self) -> str:
        """What was proposed as a memory and decided: no rewind takes back a person's yes."""
        decided = any(one["kind"] == "memory_decided" for one in self.lines)
        return str([one for one in self.lines if one["kind"] == "memory_proposed"]) * decided

    def messages(self) -> Iterator[Json]:
        """What somebody said."""
        return (one for one in self.lines if one["kind"] in _SAID)


def marks_in(words: str) -> set[tuple[str, int | None]]:
    """The marks that a text tells."""
    found = ((what.partition(" ")[0], by) for what, by in _MARK.findall(words))
    return {
        ("undone" if what == "changes" else what, int(by) if by else None) for what, by in found
    }


def leave(stage: Stage, text: str) -> None:
    """What a program that was killed in the midst of an answer leaves."""
    with_partial = (TurnStarted(), UserMessage(text=text), AssistantPartial(text="The tide is"))
    transcript = Transcript(stage.places)
    turn = transcript.last_turn + 1
    for entry in with_partial:
        transcript.append(entry, turn=turn)
    transcript.close()


def decision(lines: list[Json]) -> str:
    """What decides the newest proposal: every other one is approved."""
    seq = next((one["seq"] for one in reversed(lines) if one["kind"] == "memory_proposed"), 0)
    return f"/memory {'approve' if seq % 2 else 'refuse'} m{seq}"


def agree(stage: Stage, event: AnyEvent) -> None:
    """Say yes to everything."""
    if isinstance(event, ToolAsked):
        stage.session.answer(event.call, Answer(allowed=True))


def work_of(home: Path) -> Path:
    """Where files are changed."""
    return home.parent / "work"


async def work_on(stage: Stage, model: str, text: str) -> None:
    """Ask for something for which a file is changed."""
    number = text.rstrip(".").rpartition(" ")[2]
    writes = calls(("write", {"path": "notes.txt", "content": f"{number}\n"}))
    folder = stage.places.folder / f"asked-{number}"
    folder.mkdir()
    await stage.run(f"/model {script(folder, writes, {'text': f'Wrote {number} down.'})}")
    await stage.say(text)
    assert (work_of(stage.session.services.home.data) / "notes.txt").read_text() == f"{number}\n"
    await stage.run(f"/model {model}")


async def walk(home: Path, model: str, steps: list[str]) -> SessionKey:
    """Go through the steps, each as far as a session of its own lasts; which one they end in."""
    key, left = SessionKey.parse("main"), list(steps)
    work = work_of(home)
    work.mkdir()
    while left:
        async with on_stage(home, key=key, model=model, cwd=work, asks=True) as stage:
            stage.on_event = partial(agree, stage)
            await stage.run("/status")  # whoever comes next ends what was left open
            while left:
                step = left.pop(0)
                if step.startswith((KILL, FORK)) or step == IMPORT:
                    break
                if step == DECIDE:
                    step = decision(lines_of(home, key))
                if step.startswith(WORK):
                    await work_on(stage, model, step)
                else:
                    await (stage.run(step) if step.startswith("/") else stage.say(step))
                await stage.rest()
            else:
                return key
            if step.startswith(FORK):
                assert (await stage.run(step))[0].ok
        if step.startswith(KILL):
            leave(stage, step.removeprefix(KILL))
        else:
            key = SessionKey.parse("child")
        if step == IMPORT:
            theirs = Transcript(places_in(home, str(key)))
            import_file(stage.places.transcript, theirs)
            theirs.close()
    return key


def lines_of(home: Path, key: SessionKey) -> list[Json]:
    text = places_in(home, str(key)).transcript.read_text()
    return [json.loads(line) for line in text.splitlines()]


def shown(home: Path, key: SessionKey, capsys: pytest.CaptureFixture[str]) -> dict[str, Marks]:
    """What the surfaces that show whole sessions tell of each message."""
    capsys.readouterr()
    told: dict[str, Marks] = {name: {} for name in ("log", "editor", "page", "export")}
    assert run_verb(["log", "-s", str(key), "--json", "-n", "100000"]) == 0
    for line in map(json.loads, capsys.readouterr().out.splitlines()):
        stands = line.get("standing", ())
        told["log"][line["seq"]] = {(one["what"], one.get("by")) for one in stands}
    assert run_verb(["export", str(key), "-f", "messages", "-o", str(home / "said.jsonl")]) == 0
    exported = map(json.loads, (home / "said.jsonl").read_text().splitlines())
    marks = {one["id"]: " ".join(one.get("marks", ())) for one in exported}
    with History(places_in(home, str(key))) as history:
        standings = standings_of(history)
        for line in history.read():
            if isinstance(line, Line) and line.kind in (*_SAID, "tool_returned"):
                items = page_items.items_of_line(line, standings)
                words = " ".join(mark for one in items for mark in one["marks"])
                told["page"][line.seq] = marks_in(words)
                updates = list(acp_updates.replayed(line, standings))
                updates = updates[0]["content"] if line.role == "tool" else updates[1:]
                told["editor"][line.seq] = marks_in(str(updates))
            if isinstance(line, Line) and isinstance(line.entry, UserMessage | AssistantPartial):
                told["export"][line.seq] = marks_in(marks[line.entry.source_id or line.id])
    return told


_REPLACED = ("superseded", "corrected")
_OF_IT = (*_REPLACED, "interrupted")
"""What is told beside a message and not above its turn."""
_BACK = "What this turn did to files was taken back"
_GONE, _THEIRS = "This turn was rewound", "Imported: said to another program"


def hold_exports(home: Path, key: SessionKey, byhand: ByHand) -> None:
    """What is exported to be read has the marks of each message, and those of each turn."""
    for name in ("md", "html"):
        assert run_verb(["export", str(key), "-f", name, "-o", str(home / f"said.{name}")]) == 0
    page = html.unescape((home / "said.html").read_text())
    text = (home / "said.md").read_text().replace("\\#", "#")
    for line in byhand.messages():
        want, number = byhand.of(line), line["turn"]
        said = re.escape(line["text"])
        for name, turn, note in (
            ("md", rf"\n## Turn {number} .*?(?=\n## |\Z)", rf"\n(?:> )?{said}\n\n(\*\(.*?\)\*)?"),
            (
                "html",
                rf' id="turn-{number}".*?(?=<details class="turn"|\Z)',
                rf'id="s{line["seq"]}">.*?(<p class="cut">.*?)?</section>',
            ),
        ):
            found = re.search(turn, text if name == "md" else page, re.S)
            assert found is not None, (name, line)
            told = found[0]
            assert (_BACK in told) is any(what == "undone" for what, _ in want), (name, line)
            assert (_GONE in told) is any(what == "rewound" for what, _ in want), (name, line)
            assert (_THEIRS in told) is (("imported", None) in want), (name, line)
            beside = re.search(note, told, re.S)
            marks = marks_in((beside and beside[1]) or "")
            assert marks == {one for one in want if one[0] in _OF_IT}, (name, line)


def hold_library(
    home: Path, key: SessionKey, byhand: ByHand, capsys: pytest.CaptureFixture[str]
) -> None:
    """Search marks what it finds and finds nothing that was rewound; lists count what was."""
    capsys.readouterr()
    only = not any(one.get("parent") for one in byhand.lines) and len([*home.rglob("t*.jsonl")]) < 2
    for query in ("roof code", "gate code", "pump model"):
        assert run_verb(["search", query, "--json", "-k", "100"]) in (0, 1)
        found = json.loads(capsys.readouterr().out or '{"hits": []}')["hits"]
        hits = {one["seq"]: one for one in found if one["session"] == str(key)}
        for line in byhand.messages():
            want, hit = byhand.of(line), hits.get(line["seq"])
            if all(word in line.get("text", "") for word in query.split()) and only:
                assert bool(hit) is not any(what == "rewound" for what, _ in want), ("search", line)
            if hit is not None and line["kind"] == "user_message":
                marks: set[tuple[str, int | None]] = {
                    ("corrected", int(n)) for n in hit["corrected"]
                }
                marks |= {("superseded", hit["superseded_by"])} if hit["superseded_by"] else set()
                marks |= {("undone", hit["undone_by"])} if hit["undone_by"] else set()
                marks |= {("imported", None)} if hit["imported"] else set()
                beside = {one for one in want if one[0] in _BESIDE}
                assert beside <= marks if hit["imported"] else beside == marks, (
                    "search",
                    line,
                    hit,
                )
    assert run_verb(["sessions", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["sessions"]
    (own,) = (one for one in listed if one["session"] == str(key))
    gone = {one["turn"] for one in byhand.messages() if ("rewound" in str(byhand.of(one)))}
    copied = {one["turn"] for one in byhand.messages() if one.get("parent")}
    assert own["rewound"] == len(gone - copied), "sessions"
    assert run_verb(["stats", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    assert total["rewound"] == sum(one["rewound"] for one in listed), "stats"


def hold_last_said(home: Path, key: SessionKey, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of sessions says how what was said last stands."""
    byhand = ByHand(lines_of(home, key))
    capsys.readouterr()
    assert run_verb(["sessions", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["sessions"]
    (own,) = (one for one in listed if one["session"] == str(key))
    spoke = (one for one in reversed(byhand.lines) if one["kind"] in _SPOKEN and one.get("text"))
    last = next(one for one in spoke if "rewound" not in str(byhand.of(one)))
    assert own["text"] == last["text"][:400], "last said"
    beside = {one for one in byhand.of(last) if one[0] in _BESIDE}
    assert {one for one in marks_in(" ".join(own["marks"])) if one[0] in _BESIDE} == beside, last


async def hold_work(stage: Stage, byhand: ByHand) -> None:
    """The panel's report, a checkpoint and the list of memories go by what still counts."""
    report = stage.session.services.context.report()
    said = [one for one in byhand.lines if one["kind"] == "user_message"]
    stands = {one["seq"] for one in said if "rewound" not in str(byhand.of(one))}
    assert {one.seq for one in report.blocks if one.kind == "user_message"} == stands, "panel"
    health = (await stage.run("/health"))[1]
    assert all(one.message in health for one in report.alerts)
    told = [one["kind"] for one in byhand.lines if one["kind"] in ("health_measured", "task_done")]
    if told[-1:] == ["health_measured"]:
        assert ("No alerts." in health) is not bool(report.alerts), "health"
    else:
        since = "since the last task ended" if told else "yet"
        assert health.startswith(f"Nothing has been measured {since}: "), "health"
    await stage.run("/checkpoint save")
    shown = [(await stage.run(f"/checkpoint {verb}"))[1] for verb in ("show", "resume")]
    by_line = {one["seq"]: byhand.of(one) for one in said}
    assert "Changed since it was saved" not in shown[1]
    for text in shown:
        for one in said:
            assert one["seq"] in stands or one["text"] not in text, ("checkpoint", one)
        for line, old in re.findall(r"line (\d+)\](?:; it corrects line (\d+))?", text):
            marks = by_line.get(int(line), set())
            assert not any(what in ("rewound", "superseded") for what, _ in marks), (line, text)
            replaced = {by for what, by in by_line.get(int(old or 0), ()) if what in _REPLACED}
            judged = any(
                one.get("by") == int(line) and not one.get("parent") for one in byhand.lines
            )
            assert not (old and judged) or int(line) in replaced, ("checkpoint points", line, old)
    listed = (await stage.run("/memory"))[1]
    decided = {
        one["proposal"]
        for one in byhand.lines
        if one["kind"] == "memory_decided"
        and not (one["by"].startswith("the correction") and byhand.rewound(one["seq"]))
    }
    for one in byhand.lines:
        if one["kind"] == "memory_proposed" and one["by"] == "person" and not one.get("parent"):
            waits = "rewound" not in str(byhand.of(one)) and f"m{one['seq']}" not in decided
            assert (f"m{one['seq']}:" in listed) is waits, ("memory", one)


async def hold_guide(stage: Stage, home: Path, key: SessionKey) -> None:
    """The guide answers with what holds, and says of anything else that it was before."""
    await stage.run("/model local/guide")
    for thing in ("roof", "gate"):
        await stage.say(f"What is the {thing} code?")
        byhand = ByHand(lines_of(home, key))
        said = {one["seq"]: byhand.of(one) for one in byhand.messages()}
        answer = [one for one in byhand.lines if one["kind"] == "assistant_message"][-1]["text"]
        for row in answer.splitlines():
            for seq in map(int, re.findall(r"line (\d+)(?:; [^)]*)?\)", row)):
                marks = {what for what, _ in said.get(seq, ())}
                assert "rewound" not in marks, ("guide", answer)
                assert row.startswith("Before") or "superseded" not in marks, ("guide", answer)
                assert ("files taken back" in row) is ("undone" in marks), ("guide", answer)


async def hold(
    stage: Stage, home: Path, key: SessionKey, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every surface of a session tells the same of each message."""
    await stage.run("/handoff write")
    letter = (await stage.run("/handoff show"))[1]
    await stage.say("What else is there to say?")
    await stage.rest()
    request = str(stage.requests()[-1])
    byhand = ByHand(lines_of(home, key))
    told = shown(home, key, capsys)
    for line in byhand.lines:
        if line["kind"] not in ("message_queued", "memory_decided"):
            aside = {(what, by) for what, by in told["log"][line["seq"]] if what not in _OTHER}
            assert aside == byhand.of(line), ("log", line)
    for line in byhand.lines:
        if line["kind"] == "tool_returned":
            beside = {(what, by) for what, by in byhand.of(line) if what in _BESIDE}
            for name in ("editor", "page"):
                told_so = {(what, by) for what, by in told[name][line["seq"]] if what in _BESIDE}
                assert told_so == beside, (name, line)
    for line in byhand.messages():
        seq, want = line["seq"], byhand.of(line)
        beside = {(what, by) for what, by in want if what in _BESIDE}
        for name in ("editor", "page", "export"):
            told_so = {(what, by) for what, by in told[name][seq] if what in _BESIDE}
            assert told_so == beside, (name, line)
        gone = any(what == "rewound" for what, _ in want)
        why = (await stage.run(f"/why turn {line['turn']}"))[1]
        if line["kind"] == "user_message":
            assert beside <= marks_in(why), ("/why", line, why)
            if not gone or line["text"] not in byhand.remembered():
                assert (line["text"] in request) is not gone, ("prompt", line)
            places = re.findall(rf"\[turn {line['turn']}((?:, [^\]]*)?), line {seq}\] ", letter)
            left = line["text"].startswith("What else") or " earlier: lines " in letter
            assert gone is not bool(places) or left, "handoff"
            for each in places:
                assert marks_in(each) == beside, ("handoff", line, each)
            await hold_recall(stage, line, beside, gone=gone)


_OTHER = ("derived", "redacted")


async def hold_recall(
    stage: Stage, line: Json, want: set[tuple[str, int | None]], *, gone: bool
) -> None:
    """What was said is found by its own words, as it stands; what was rewound is not."""
    found = await stage.session.services.recall.search(line["text"], 30, "session")
    hits = [hit for hit in found.hits if hit.passage.entry == line["id"]]
    assert bool(hits) is not gone, ("recall", line)
    for hit in hits:
        marks: set[tuple[str, int | None]] = {("corrected", by) for by in hit.corrected}
        marks |= {("superseded", hit.superseded_by)} if hit.superseded_by else set()
        marks |= {("undone", hit.undone_by)} if hit.undone_by else set()
        marks |= {("imported", None)} if hit.passage.imported else set()
        # Nobody has written down yet what corrects what in a file that was taken over.
        assert want <= marks if ("imported", None) in want else want == marks, ("recall", line, hit)


def lookups(home: Path, key: SessionKey, byhand: ByHand) -> Iterator[tuple[str, int, str]]:
    """What other agents, and those who search from a shell, are told beside each line."""
    look = Lookup(api.Home(home, folder=work_of(home)))
    for line in byhand.messages():
        read = look.read_entry(str(key), str(line["seq"]))
        yield "MCP read_entry", line["seq"], " ".join(read.get("standing", ()))
    around = look.context_around(str(key), "1", before=0, after=50)
    told = [*around["lines"], *look.overview(str(key))["last"]]
    yield from (("MCP lines", one["line"], " ".join(one.get("standing", ()))) for one in told)
    said = look.handoff(str(key)).rpartition("The last things said:")[2]
    for seq, words in re.findall(r"\[\S+ line (\d+), [^,\]]*(.*)\] \w+:\n", said):
        yield "MCP handoff", int(seq), words
    with StoredRecall(api.Home(home).places, key, Settings()) as stored:
        for query in ("roof code", "gate code", "pump model"):
            for one in look.search(query, session=str(key))["hits"]:
                yield "MCP search", one["line"] or 0, " ".join(one.get("standing", ()))
            for one in look.find(query)["hits"]:
                if one["session"] == str(key):
                    yield "page search", one["line"], one["replaced"]
            for hit in stored.ask(query).hits:
                yield "mindstone recall", hit.entries[0].seq if hit.entries else 0, marks(hit)
    bare = home.parent / f"bare-{key.main}"
    shutil.copytree(home, bare, ignore=shutil.ignore_patterns("library.db*"))
    (bare / "library.db").mkdir()  # what cannot be opened is not asked
    for query in ("roof code", "gate code", "pump model"):
        for one in search_everywhere(api.Home(bare).places, Settings(), query, 50).hits:
            if one.session == str(key):
                assert one.by == "reading"
                yield "search by reading", one.seq, " ".join(one.marks)
    attached = ProjectRecall(api.Home(home).places, Settings(), {})
    for query in ("What is the roof code?", "What is the gate code?"):
        told_so = attached.for_prompt(query, work_of(home), None)
        for session, seq, words in re.findall(r"(?m)^\[(\S+) #(\d+) · (.*)\]$", told_so):
            if session == str(key):
                yield "attached programs", int(seq), words
    attached.close()
    for act in WorkDone(api.Home(home).places, Settings()).about("notes.txt", 50):
        if act.session == str(key):
            asked = (one["seq"] for one in byhand.messages() if one["turn"] == act.turn)
            seq = act.said.seq if act.said else next(asked)
            yield "about", seq, " ".join([*act.marks, *(act.said.marks if act.said else ())])


async def hold_tellings(stage: Stage, home: Path, key: SessionKey) -> None:
    """Whatever tells of a line has the marks of that line, and of no other."""
    for query in ("roof code", "gate code", "pump model"):
        await stage.run(f"/recall {query}")
    byhand = ByHand(lines_of(home, key))
    lines, told = {one["seq"]: one for one in byhand.lines}, [*lookups(home, key, byhand)]
    for line in byhand.messages():
        read = stage.session.services.sources.read(f"#{line['seq']}")
        told.append(("read_entry", line["seq"], read.origin))
    last = stage.session.services.recall.last
    for hit in last.hits if last is not None else ():
        if hit.passage.session == str(key):
            heading = inject.render(hit, whole=True).partition("\n")[0]
            told.append(("recall", hit.passage.seq, heading))
    for name, seq, words in told:
        line = lines.get(seq, {"kind": ""})
        if line["kind"] in (*_SAID, "assistant_message", "tool_returned"):
            want = {one for one in byhand.of(line) if one[0] in _BESIDE}
            found = {one for one in marks_in(words) if one[0] in _BESIDE}
            # Of what was taken over, whoever looks judges for themselves.
            same = want <= found if ("imported", None) in want else want == found
            assert same, (name, line, want, words)
    assert {name for name, *_ in told} >= {"MCP read_entry", "MCP lines", "MCP handoff"}


@pytest.mark.parametrize("name", sampled(WALKS, 4))
async def test_every_surface_tells_of_a_line_what_the_lines_say(
    name: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    key = await walk(home, model, WALKS[name])
    for each in {key, SessionKey.parse("main")}:
        async with on_stage(home, key=each, model=model, cwd=work_of(home)) as stage:
            hold_last_said(home, each, capsys)
            await hold_work(stage, ByHand(lines_of(home, each)))
            await hold(stage, home, each, capsys)
            await hold_tellings(stage, home, each)
            told = lines_of(home, each)
            assert any(line["kind"] == "user_message" for line in told), "there is nothing to tell"
            byhand = ByHand(told)
            hold_exports(home, each, byhand)
            hold_library(home, each, byhand, capsys)
            await hold_guide(stage, home, each)
