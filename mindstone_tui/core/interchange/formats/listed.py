"""Programs whose sessions need no code of their own: `listed.json` says where everything stands.

A file of lines, an object with a list or a database of two tables becomes a stream of objects; the
first rule that fits an object says what it is, and ways such as `message.payload|text` where its
parts are: the first of them at which there is anything. What no rule fits is counted by its kind.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import Fields, Flaw, mapping, moment, sequence, text
from . import parts, sources
from .base import About, Aside, Began, Broken, Format, Record, Records, Sample, Used
from .ways import USUAL, RecordRule, at_ways, fits, pieces_by, result, rule_for, steps

_PASTED: Final = pattern_of(r"\[Pasted text #(\d{1,6})[^\]]{0,40}\]")
_NO_CONTENT: Final = "the content is neither text nor a list of blocks"


class _Program(msgspec.Struct, frozen=True):
    """How one program keeps its sessions."""

    title: str
    known: list[dict[str, list[str]]]
    """What an object among the first has, one of these."""
    rules: list[RecordRule]
    kind: str = ""
    at: dict[str, str] = {}
    counts: list[str] = []
    beside: str = ""
    """The file that tells of the session; `within` a folder of this name, two folders higher."""
    within: str = ""
    instead: str = ""
    place: list[int] = []
    """Parts of the path that name the session."""
    group: str = ""
    """What the objects of one conversation have in common, if a file holds many."""
    body: str = ""
    blocks: list[RecordRule] = []
    """What a content is made of, where its blocks are not those of an API."""
    columns: list[str] = []
    sessions: str = ""
    messages: str = ""
    json: list[str] = []
    """Columns of messages that are JSON."""
    home: str = ""
    """The folder in which the project keeps the database."""
    keeps: list[str] = []
    """The tag around what the person said; `cuts` are around what was added."""
    cuts: list[str] = []
    cut: str = ""
    """How what was cut is counted."""
    tree: list[str] = []
    """Where an object's name stands, and the name of the one that it follows."""
    rewind: RecordRule | None = None
    """What takes others back: those that are `listed`, or all from the `first` one on."""
    rewound: dict[str, list[str]] = {}
    """Which of those are counted."""
    delegate: list[str] = []
    """The tool that starts a sub-agent, and where it is told what the sub-agent then hears."""
    totals: list[str] = []
    unless: dict[str, list[str]] = {}
    folders: list[str] = []
    """Where a file must lie for being this program's, or have one of the `marks`."""
    marks: dict[str, list[str]] = {}


class _Talk:
    """Takes the objects of one session in their order, and gathers what one step says."""

    def __init__(self, program: _Program, about: Fields) -> None:
        self._program = program
        self._ts = moment(at_ways(about, program.at["created"]))
        self._model = text(at_ways(about, program.at["model"]))
        self._step = parts.MessageParts(0)
        self._began = ""
        self._asked: set[str] = set()
        """Calls that an answer named."""
        self._delegated: set[str] = set()
        """What sub-agents were told and have not yet heard."""

    def about(self, fields: Fields, name: str, ways: dict[str, str]) -> Records:
        """What an object says of the whole session."""
        told = {it: text(at_ways(fields, ways[it])) for it in ("folder", "branch", "parent")}
        yield Began(id=name, ts=self._ts)
        yield from parts.titled(at_ways(fields, ways["title"]))
        yield About(**told)

    def take(self, number: int, fields: Fields) -> Records:
        """One more object."""
        rule, get = rule_for(fields, self._program.rules)
        ts, name = moment(get("ts")) or self._ts, text(get("id"))
        model = parts.model_of({"model": get("model"), "provider": get("provider")}) or self._model
        match rule.do:
            case "about":
                self._ts, self._model = ts, model
                yield from self.about(fields, name, rule.at)
                yield from self.used_in_all(fields)
            case "title":
                yield from parts.titled(get("title"))
            case "model":
                self._model = model
                yield About(folder=text(get("folder")))
            case "started" if text(get("call")) in self._asked:
                pass
            case "part" | "call" | "started":
                part = get("content" if rule.do == "part" else "calls")
                self._add(number, rule.do, part or fields, ts)
            case "end":
                yield from self.flush()
            case "aside":
                kind = text(at_ways(fields, self._program.kind))
                yield parts.unknown((rule.named or "{kind}").format(kind=kind))
            case "nothing":
                pass
            case "broken":
                yield Broken(line=number, why=rule.named)
            case "used":
                yield from self.flush()
                usage = parts.counted(mapping(get("told")), *rule.counts, apart=rule.apart)
                yield from parts.used(usage, model, answer=name)
            case "used by models":
                for by, metrics in mapping(get("told")).items():
                    told = mapping(mapping(metrics).get("usage"))
                    usage = parts.counted(told, *rule.counts, apart=rule.apart)
                    yield from parts.used(usage, by)
            case _:
                yield from self.flush()
                yield from self._message(rule, number, fields, get, ts, model)
                counts = self._program.counts if rule.do == "assistant" else []
                usage = parts.counted(mapping(get("told")), *counts, apart=True, cost=get("cost"))
                yield from parts.used(usage if counts else Usage(), model)

    def flush(self) -> Records:
        """What the step said, which is over."""
        step, self._step = self._step, parts.MessageParts(0)
        if step.has_any:
            yield step.record("assistant", ts=self._began, model=self._model)

    def _add(self, number: int, what: str, part: Any, ts: str) -> None:
        if not self._step.has_any:
            self._step, self._began = parts.MessageParts(number), ts
        step = self._step
        if what != "part":
            call = mapping(part)
            parts.add_calls(step, [{**call, "id": at_ways(call, "toolCallId|id")}])
            self._delegate(step)
        elif step.texts and not step.calls and mapping(part).get("type") == "text":
            step.texts[-1] += text(mapping(part).get("text"))
        else:
            parts.add_block(step, part)

    def _message(
        self, rule: RecordRule, number: int, fields: Fields, get: Any, ts: str, model: str
    ) -> Records:
        name, content = text(get("id")), get("content")
        pieces = pieces_by(self._program.blocks, content, number)
        yield from pieces.others if pieces else ()
        match rule.do:
            # An object without words is a result all the same: its call came to an end.
            case "result" | "failed" if pieces or isinstance(content, dict):
                yield result(number, get, failed=rule.do == "failed", ts=ts, id=name)
            case _ if pieces is None:
                yield Broken(line=number, why=rule.named or _NO_CONTENT)
            case "given":
                yield from pieces.given(ts, name)
            case "ran":
                pieces.texts[:] = [f"!{pieces.said}", text(get("error"))]
                yield pieces.record("user", id=name, ts=ts)
            case "user" if pieces.said in self._delegated:
                self._delegated.discard(pieces.said)
                yield Aside(what="side chain of a sub-agent")
            case "user":
                yield from pieces.given(ts, text(get("given")))
                was = pieces.said
                pieces.texts[:], cut = self._own(was, fields)
                yield from (Aside(what=self._program.cut) for _ in range(cut))
                files = (at_ways(mapping(it), rule.at["file"]) for it in sequence(get("files")))
                pieces.texts += [f"[file: {name}]" for name in map(text, files) if name]
                if pieces.said or not (was or pieces.results or pieces.others):
                    yield pieces.record("user", id=name, ts=ts)
            case _:
                pieces.think(get("thought"))
                calls = get("calls")
                found = sources.json_in(calls) if isinstance(calls, str) else calls
                parts.add_calls(pieces, None if isinstance(found, Flaw) else found)
                self._delegate(pieces)
                finish = pieces.finish or text(get("finish"))
                if pieces.has_any or not pieces.others:
                    yield pieces.record("assistant", id=name, ts=ts, model=model, finish=finish)

    def _delegate(self, pieces: parts.MessageParts) -> None:
        """Remember the calls, and what they tell sub-agents."""
        self._asked.update(each.id for each in pieces.calls)
        for each in pieces.calls:
            if [each.name] == self._program.delegate[:1]:
                told = text(mapping(sources.json_in(each.arguments)).get(self._program.delegate[1]))
                self._delegated |= {told} - {""}

    def _own(self, said: str, fields: Fields) -> tuple[list[str], int]:
        """What a person said, with what was pasted, and how much was put around it."""
        cuts, keeps = self._program.cuts, self._program.keeps
        rest, found = parts.cut_tags(said, [*keeps, *cuts])
        own = parts.joined(
            parts.cut_tags(each, cuts)[0].strip() for name, each in found if name in keeps
        )
        pasted = mapping(fields.get("pastedContents"))

        def inside(found: re.Match[str]) -> str:
            return text(mapping(pasted.get(found[1])).get("content")) or found[0]

        whole = _PASTED.sub(inside, own or rest) if pasted else own or rest
        return [whole], len(found) if self._program.cut else 0

    def used_in_all(self, session: Fields) -> Iterator[Used]:
        """What the object of the whole session counted."""
        ways, names = self._program.at, self._program.totals
        told = mapping(at_ways(session, ways["totals"])) or session
        usage = parts.counted(told, *names, apart=True, cost=at_ways(session, ways["cost"]))
        return parts.used(usage, self._model, so_far=True)


def _recognises(program: _Program, sample: Sample) -> bool:
    seen = sample.objects
    if program.folders and not (
        set(program.folders) & set(sample.path.parts)
        or any(fits(each, program.marks) for each in seen)
    ):
        return False
    if any(fits(each, known) for each in seen[:16] for known in program.known):
        return not (program.unless and any(fits(each, program.unless) for each in seen))
    return bool(program.columns) and sources.has_columns(sample, *program.columns)


def _sessions(program: _Program, path: Path) -> Iterator[tuple[str, Fields, Any]]:
    """The sessions of a file: the name of each, what is told of it, and its objects."""
    whole = path.with_name(program.instead or path.name)
    path = (whole if whole.is_file() else path).absolute()
    if program.sessions and (not program.known or sources.is_database(path)):
        with sources.connected(path) as connection:
            project = str(path.parent.parent) if path.parent.name == program.home else ""
            for row in sources.rows(connection, program.sessions):
                name = text(row.get("id"))
                found = sources.rows(connection, program.messages, (name,))
                objects = map(partial(_told_by, program), count(1), found)
                yield name, {**row, "home": project}, objects
        return
    bodies = [way[0] for way in steps(program.body)]
    if program.body and not sources.is_lines(path, *bodies):
        about = sources.document(path)
        if isinstance(about, Broken):
            yield path.stem, {}, [about]
            return
        listed = enumerate(sequence(at_ways(about, program.body)), 1)
        yield path.stem, about, [(at, mapping(each)) for at, each in listed]
        return
    if program.group:
        grouped: dict[str, list[sources.Numbered | Broken]] = {}
        name = ""
        for each in sources.records_of(path):
            name = name if isinstance(each, Broken) else text(at_ways(each[1], program.group))
            grouped.setdefault(name, []).append(each)
        for name, of_it in grouped.items():
            yield name, next((first for _, first in sources.sound(of_it)), {}), of_it
        return
    nested = bool(program.within) and path.parent.parent.name == program.within
    home = path.parents[2] if nested else path.parent
    name = "-".join(path.parts[at] for at in ([-4, -2] if nested else program.place))
    about = sources.beside(home / program.beside.format(stem=path.stem)) if program.beside else {}
    yield name or path.stem, about, sources.records_of(path)


def _told_by(program: _Program, at: int, row: Fields) -> sources.Numbered:
    """A row of a message with its number."""
    inside = {name: sources.json_in(row.get(name)) for name in program.json}
    number = row.get("id")
    return number if isinstance(number, int) else at, {**row, **inside}


def _on_the_way(program: _Program, path: Path) -> Iterator[sources.Numbered | Broken]:
    """The objects of a file whose objects follow each other, those of other branches by name."""
    branches, (name, parent) = parts.Branches(), program.tree
    for _, each in sources.sound(sources.records_of(path)):
        if parent in each:
            before = each[parent]
            branches.add(text(each.get(name)), None if before is None else text(before))
    for found in sources.records_of(path):
        if isinstance(found, Broken) or found[1].get("type") != "message":
            yield found
        else:
            is_kept = branches.keeps(text(found[1].get(name)))
            yield found if is_kept else (found[0], {"type": parts.ANOTHER_BRANCH})


def _without_rewound(
    program: _Program, rewind: RecordRule, path: Path
) -> Iterator[sources.Numbered | Broken]:
    """The objects of a file; of those that were taken back, the ones that count, by name."""
    gone: set[str] = set()
    names: list[str] = []
    for _, each in sources.sound(sources.records_of(path)):
        if not fits(each, rewind.when):
            names.append(text(each.get("id")))
        elif listed := at_ways(each, rewind.at["listed"]):
            gone.update(map(text, sequence(listed)))
        elif (first := text(at_ways(each, rewind.at["first"]))) in names:
            gone.update(names[names.index(first) :])
            del names[names.index(first) :]
    gone.discard("")
    for found in sources.records_of(path):
        if isinstance(found, Broken) or text(found[1].get("id")) not in gone:
            yield found
        elif fits(found[1], program.rewound):
            yield found[0], {"type": parts.ANOTHER_BRANCH}


def _read(program: _Program, path: Path) -> Iterator[Record]:
    begins = any(rule.do == "about" for rule in program.rules)
    for name, about, found in _sessions(program, path):
        talk = _Talk(program, about)
        if not begins or (program.body and about):
            yield from talk.about(
                about, text(at_ways(about, program.at["began"])) or name, program.at
            )
        if program.tree:
            found = _on_the_way(program, path)
        if program.rewind:
            found = _without_rewound(program, program.rewind, path)
        yield from sources.each_with(found, talk.take)
        yield from talk.flush()
        yield from talk.used_in_all(about)


def _format(name: str) -> Format:
    listed = _PROGRAMS[name]
    ways = {**USUAL, "given": listed.at.get("id", "id"), **listed.at}
    rules = [msgspec.structs.replace(it, at={**ways, **it.at}) for it in listed.rules]
    blocks = [msgspec.structs.replace(it, at={**USUAL, **it.at}) for it in listed.blocks]
    rules.append(RecordRule("aside", at=ways))
    program = msgspec.structs.replace(listed, at=ways, rules=rules, blocks=blocks)
    return Format(
        name=name,
        title=program.title,
        recognises=partial(_recognises, program),
        read=sources.guarded(partial(_read, program)),
        many=bool(program.group or program.sessions),
    )


_PROGRAMS: Final = msgspec.json.decode(
    Path(__file__).with_name("listed.json").read_bytes(), type=dict[str, _Program]
)
ANTIGRAVITY, COPILOT_CLI, CRUSH, DROID, DSH, GOOSE, GROK, HERMES, KIMI, *_REST = map(
    _format, sorted(_PROGRAMS)
)
OPENCLAW, PI, PROMPT_HISTORY = _REST
