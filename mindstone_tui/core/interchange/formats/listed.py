"""Programs whose sessions need no code of their own: `listed.json` says where everything stands.

A file of lines, an object with a list or a database of two tables becomes a stream of objects; the
first rule that fits an object says what it is, and ways such as `message.payload|text` where its
parts are: the first of them at which there is anything. What no rule fits is counted by its kind.
"""

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import Fields, Flaw, mapping, moment, sequence, text
from . import parts, sources
from .base import About, Aside, Began, Broken, Format, Gave, Record, Records, Sample, Used

_PASTED: Final = pattern_of(r"\[Pasted text #(\d{1,6})[^\]]{0,40}\]")
_NO_CONTENT: Final = "the content is neither text nor a list of blocks"
_USUAL: Final = {
    "began": "id", "content": "content", "id": "id", "title": "title", "folder": "cwd",
    "branch": "", "parent": "", "cost": "", "told": "", "provider": "", "name": "tool_name",
    "ts": "time|timestamp|created_at", "created": "created_at", "model": "model|model_id",
    "calls": "tool_calls", "thought": "reasoning_content|reasoning|thinking", "error": "",
    "call": "tool_call_id", "totals": "", "finish": "", "signature": "", "redacted": "",
    "picture": "",
}  # fmt: skip
"""Where parts of an object stand in most programs' files."""


class _Rule(msgspec.Struct, frozen=True):
    """What an object is that has one of these values at each way."""

    do: str
    when: dict[str, list[str]] = {}
    at: dict[str, str] = {}
    named: str = ""
    counts: list[str] = []


class _Program(msgspec.Struct, frozen=True):
    """How one program keeps its sessions."""

    title: str
    known: list[dict[str, list[str]]]
    """What an object among the first has, one of these."""
    rules: list[_Rule]
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
    blocks: list[_Rule] = []
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
    totals: list[str] = []
    unless: dict[str, list[str]] = {}
    folders: list[str] = []
    """Where a file must lie for being this program's, or have one of the `marks`."""
    marks: dict[str, list[str]] = {}


@cache
def _steps(ways: str) -> list[list[str]]:
    return [way.split(".") for way in ways.split("|")]


def _at(fields: Fields, ways: str) -> Any:
    for way in _steps(ways):
        found: Any = fields
        for step in way:
            found = mapping(found).get(step)
        if found is not None and found not in ("", []):
            return found
    return None


def _fits(fields: Fields, when: dict[str, list[str]]) -> bool:
    return all(
        _at(fields, ways) is not None
        if wanted == ["*"]
        else any(fnmatchcase(_word(_at(fields, ways)), each) for each in wanted)
        for ways, wanted in when.items()
    )


def _word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else text(value)


def _rule_for(fields: Fields, rules: list[_Rule]) -> tuple[_Rule, Callable[[str], Any]]:
    """The first rule that fits, and what finds the parts of the object by it."""
    rule = next(it for it in rules if _fits(fields, it.when))
    return rule, lambda name: _at(fields, rule.at[name])


def _result(number: int, get: Callable[[str], Any], *, failed: bool, ts: str, id: str) -> Gave:  # noqa: A002 (the record's own name for it)
    content, error, picture = get("content"), text(get("error")), get("picture")
    shown = [{"type": "image", "source": {"type": "base64", "data": picture}}] if picture else []
    said = parts.joined((parts.plain(content) or "", error, parts.plain(shown) or ""))
    told = (number, get("call"), shown or content)
    failed = failed or bool(error)
    return parts.result_of(*told, said=said, name=get("name"), failed=failed, id=id, ts=ts)


def _pieces(program: _Program, content: object, number: int) -> parts.MessageParts | None:
    """The pieces of a content; None where it is none."""
    if not program.blocks:
        return parts.pieces_of_blocks(content, number)
    if not isinstance(content, list):
        return None
    pieces = parts.MessageParts(number)
    for each in map(mapping, content):
        rule, get = _rule_for(each, program.blocks)
        match rule.do:
            case "block":
                parts.add_block(pieces, each)
            case "text":
                pieces.texts.append(text(get("content")))
            case "thought":
                pieces.think(get("thought"), get("signature"), get("redacted"))
            case "call":
                pieces.call(get("name"), get("calls"), get("call"))
            case "result" | "failed" as what:
                pieces.results.append(_result(number, get, failed=what == "failed", ts="", id=""))
            case "file":
                pieces.attach(text(get("name")), text(get("content")), get("picture"))
            case "finish":
                pieces.finish = text(get("finish"))
            case _:
                pieces.others.append(parts.unknown(each.get("type")))
    return pieces


class _Talk:
    """Takes the objects of one session in their order, and gathers what one step says."""

    def __init__(self, program: _Program, about: Fields) -> None:
        self._program = program
        self._ts = moment(_at(about, program.at["created"]))
        self._model = text(_at(about, program.at["model"]))
        self._step = parts.MessageParts(0)
        self._began = ""

    def about(self, fields: Fields, name: str, ways: dict[str, str]) -> Records:
        """What an object says of the whole session."""
        told = {it: text(_at(fields, ways[it])) for it in ("folder", "branch", "parent")}
        yield Began(id=name, ts=self._ts)
        yield from parts.titled(_at(fields, ways["title"]))
        yield About(**told)

    def take(self, number: int, fields: Fields) -> Records:
        """One more object."""
        rule, get = _rule_for(fields, self._program.rules)
        ts, name = moment(get("ts")) or self._ts, text(get("id"))
        model = parts.model_of({"model": get("model"), "provider": get("provider")}) or self._model
        match rule.do:
            case "about":
                self._ts = ts
                yield from self.about(fields, name, rule.at)
                yield from self.used_in_all(fields)
            case "title":
                yield from parts.titled(get("title"))
            case "model":
                self._model = model
                yield About(folder=text(get("folder")))
            case "part" | "call":
                part = get("content" if rule.do == "part" else "calls")
                self._add(number, rule.do, part or fields, ts)
            case "end":
                yield from self.flush()
            case "aside":
                kind = text(_at(fields, self._program.kind))
                yield parts.unknown((rule.named or "{kind}").format(kind=kind))
            case "broken":
                yield Broken(line=number, why=rule.named)
            case "used":
                yield from self.flush()
                usage = parts.counted(mapping(get("told")), *rule.counts, apart=True)
                yield from parts.used(usage, model, answer=name)
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
        if what == "call":
            parts.add_calls(step, [{**mapping(part), "id": _at(mapping(part), "toolCallId|id")}])
        elif step.texts and not step.calls and mapping(part).get("type") == "text":
            step.texts[-1] += text(mapping(part).get("text"))
        else:
            parts.add_block(step, part)

    def _message(
        self, rule: _Rule, number: int, fields: Fields, get: Any, ts: str, model: str
    ) -> Records:
        name, pieces = text(get("id")), _pieces(self._program, get("content"), number)
        yield from pieces.others if pieces else ()
        match rule.do:
            case _ if pieces is None:
                yield Broken(line=number, why=rule.named or _NO_CONTENT)
            case "result" | "failed":
                yield _result(number, get, failed=rule.do == "failed", ts=ts, id=name)
            case "given":
                yield from pieces.given(ts, name)
            case "ran":
                pieces.texts[:] = [f"!{pieces.said}", text(get("error"))]
                yield pieces.record("user", id=name, ts=ts)
            case "user":
                yield from pieces.given(ts, text(get("given")))
                was = pieces.said
                pieces.texts[:], cut = self._own(was, fields)
                yield from (Aside(what=self._program.cut) for _ in range(cut))
                if pieces.said or not (was or pieces.results or pieces.others):
                    yield pieces.record("user", id=name, ts=ts)
            case _:
                pieces.think(get("thought"))
                calls = get("calls")
                found = sources.json_in(calls) if isinstance(calls, str) else calls
                parts.add_calls(pieces, None if isinstance(found, Flaw) else found)
                finish = pieces.finish or text(get("finish"))
                if pieces.has_any or not pieces.others:
                    yield pieces.record("assistant", id=name, ts=ts, model=model, finish=finish)

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
        told = mapping(_at(session, ways["totals"])) or session
        usage = parts.counted(told, *names, apart=True, cost=_at(session, ways["cost"]))
        return parts.used(usage, self._model, so_far=True)


def _recognises(program: _Program, sample: Sample) -> bool:
    seen = sample.objects
    if program.folders and not (
        set(program.folders) & set(sample.path.parts)
        or any(_fits(each, program.marks) for each in seen)
    ):
        return False
    if any(_fits(each, known) for each in seen[:16] for known in program.known):
        return not (program.unless and any(_fits(each, program.unless) for each in seen))
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
                yield (
                    name,
                    {**row, "home": project},
                    map(partial(_told_by, program), count(1), found),
                )
        return
    bodies = [way[0] for way in _steps(program.body)]
    if program.body and not sources.is_lines(path, *bodies):
        about = sources.document(path)
        if isinstance(about, Broken):
            yield path.stem, {}, [about]
            return
        listed = enumerate(sequence(_at(about, program.body)), 1)
        yield path.stem, about, [(at, mapping(each)) for at, each in listed]
        return
    if program.group:
        grouped: dict[str, list[sources.Numbered | Broken]] = {}
        name = ""
        for each in sources.records_of(path):
            name = name if isinstance(each, Broken) else text(_at(each[1], program.group))
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


def _read(program: _Program, path: Path) -> Iterator[Record]:
    begins = any(rule.do == "about" for rule in program.rules)
    for name, about, found in _sessions(program, path):
        talk = _Talk(program, about)
        if not begins or (program.body and about):
            yield from talk.about(about, text(_at(about, program.at["began"])) or name, program.at)
        if program.tree:
            found = _on_the_way(program, path)
        yield from sources.each_with(found, talk.take)
        yield from talk.flush()
        yield from talk.used_in_all(about)


def _format(name: str) -> Format:
    listed = _PROGRAMS[name]
    ways = {**_USUAL, "given": listed.at.get("id", "id"), **listed.at}
    rules = [msgspec.structs.replace(it, at={**ways, **it.at}) for it in listed.rules]
    blocks = [msgspec.structs.replace(it, at={**_USUAL, **it.at}) for it in listed.blocks]
    rules.append(_Rule("aside", at=ways))
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
ANTIGRAVITY, CRUSH, DROID, DSH, GOOSE, GROK, HERMES, KIMI, *_REST = map(_format, sorted(_PROGRAMS))
OPENCLAW, PI, PROMPT_HISTORY = _REST
