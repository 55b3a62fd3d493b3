"""Codex CLI: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

Lines are `{"timestamp", "type", "payload"}`; the conversation is in the `response_item` ones, each
an item of the Responses API. Early versions wrote the items bare; both are read. Instructions and
environment that the program puts into user messages are left out and counted, and so are turns
that were rolled back.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.language.lists import lists_in
from mindstone_tui.core.patterns import pattern_of

from ..pictures import Picture, pictures_in
from ..read_bytes import Fields, Flaw, as_json, decode_object, mapping, moment, sequence, text
from .base import NO_RESULT, About, Aside, Began, Broken, Format, Gave, Record, Said, Sample, Used
from .parts import ANOTHER_BRANCH, counted, joined, plain, result_of, tool_call, unknown
from .sources import mentions, newest_with, records_of, sound

_MARKED = [it[1:].split("|") for it in lists_in(Path(__file__).with_name("codex.txt"))["marked"]]
_COMMAND = pattern_of(r"<user_shell_command>\s*<command>\n?")
_GAVE = pattern_of(r"\n?</command>\s*<result>\n?")
_DATED = pattern_of(r"(\d{4}-\d\d-\d\d)T(\d\d-\d\d-\d\d)")
_OUTPUT = pattern_of(r"Exit code: -?\d+\nDuration: [\d.]+ seconds\nOutput:\n")


def is_context(said: str) -> bool:
    """Whether the program wrote this part of a user message."""
    start = said.lstrip()
    end = said.rstrip()
    return any(start.startswith(first) and end.endswith(last) for first, last in _MARKED)


def shell_command(said: str) -> str:
    """The command that the person ran and what it gave; empty where there is none."""
    said = said.lstrip()
    begun = _COMMAND.match(said)
    gave = _GAVE.search(said, begun.end()) if begun else None
    if begun is None or gave is None or (end := said.find("</result>", gave.end())) < 0:
        return ""
    output = said[gave.end() : end].removesuffix("\n")
    return f"!{said[begun.end() : gave.start()]}\n\n{_OUTPUT.sub('', output, count=1)}".rstrip()


_ITEMS = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "custom_tool_call"}
    | {"custom_tool_call_output", "local_shell_call", "web_search_call"}
)
_HOSTED = {
    "web_search_call": ("web_search", "action"),
    "image_generation_call": ("image_generation", "revised_prompt"),
}
"""Calls that the provider answers by itself: what they are called, and what was asked."""
_FAILED = pattern_of(
    r"(?:Chunk ID: .*\n)?(?:Wall time: .*\n)?(?:Exit code: |Process exited with code )(?!0\b)-?\d"
)


def _recognises(sample: Sample) -> bool:
    return any(
        each.get("type") in ("session_meta", "response_item", "event_msg", "turn_context")
        and "payload" in each
        for each in sample.objects
    ) or _is_bare(sample)


def _is_bare(sample: Sample) -> bool:
    later = sample.objects[1:]
    return {"id", "timestamp", "instructions"} <= sample.first.keys() or (
        any(each.get("record_type") == "state" for each in later)
        and any(text(each.get("type")) in _ITEMS for each in later)
    )


def _read(path: Path) -> Iterator[Record]:
    model = session = ""
    begun = _date_in_name(path)
    taken_back = _rolled_back(path)
    for found in records_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        if any(number in each for each in taken_back) and _item_in(fields):
            yield Aside(what=ANOTHER_BRANCH)
            continue
        payload = mapping(fields.get("payload"))
        # The first versions date only the beginning; what follows is as old as the line before.
        ts = begun = moment(fields.get("timestamp")) or begun
        match fields.get("type"):
            case "session_meta" if session:
                # Written again after each prompt by some versions: the conversation goes on.
                yield from _about(payload)
            case "session_meta":
                session = text(payload.get("id")) or path.stem
                yield Began(id=text(payload.get("id")), ts=moment(payload.get("timestamp")) or ts)
                yield from _about(payload)
            case "turn_context":
                model = text(payload.get("model")) or model
                yield from _about(payload)
            case "event_msg" if payload.get("type") == "token_count":
                yield from _used(mapping(payload.get("info")), model)
            case "response_item":
                yield from _item(number, payload, ts, model)
            case str() as kind if kind in _ITEMS:
                yield from _item(number, fields, ts, model)
            case None if "instructions" in fields:
                yield Began(id=text(fields.get("id")), ts=ts)
                yield from _about(fields)
            case "inter_agent_communication":
                yield _between_agents(number, payload, ts)
            case kind:
                yield unknown(kind or fields.get("record_type"))


def _date_in_name(path: Path) -> str:
    """When a file was begun, from its name: `rollout-2025-05-07T17-24-21-<id>.jsonl`."""
    found = _DATED.search(path.name)
    return moment(f"{found[1]}T{found[2].replace('-', ':')}Z") if found else ""


def _about(payload: Fields) -> Iterator[Record]:
    """Where the conversation took place, and whose sub-agent it is."""
    spawned = mapping(mapping(mapping(payload.get("source")).get("subagent")).get("thread_spawn"))
    about = About(
        folder=text(payload.get("cwd")),
        branch=text(mapping(payload.get("git")).get("branch")),
        parent=text(spawned.get("parent_thread_id")),
    )
    if about != About():
        yield about


def _used(info: Fields, model: str) -> Iterator[Record]:
    if total := mapping(info.get("total_token_usage")):
        names = ("input_tokens", "output_tokens", "cached_input_tokens", "")
        usage = counted(total, *names, "reasoning_output_tokens")
        yield Used(usage=usage, model=model, so_far=True)
    else:
        yield unknown("event_msg")


def _item_in(fields: Fields) -> Fields:
    """The item of the conversation that a line holds, if it holds one."""
    return mapping(fields.get("payload")) if fields.get("type") == "response_item" else {}


def _rolled_back(path: Path) -> list[range]:
    """The lines of turns that were taken back: of each rollback, from its first prompt to it."""
    if not mentions(path, b'"thread_rolled_back"'):
        return []
    prompts: list[int] = []
    gone: list[range] = []
    for number, fields in sound(records_of(path)):
        event = mapping(fields.get("payload"))
        if _is_prompt(_item_in(fields)):
            prompts.append(number)
        elif event.get("type") == "thread_rolled_back" and prompts:
            turns = event.get("num_turns")
            turns = min(turns, len(prompts)) if isinstance(turns, int) and turns > 0 else 0
            if turns:
                gone.append(range(prompts[-turns], number))
                del prompts[-turns:]
    return gone


def _is_prompt(item: Fields) -> bool:
    return (
        item.get("type") == "message"
        and item.get("role") == "user"
        and not any(is_context(plain(each) or "") for each in sequence(item.get("content")))
    )


def _item(number: int, item: Fields, ts: str, model: str) -> Iterator[Record]:
    match item.get("type"):
        case "message":
            yield from _message(number, item, ts, model)
        case "reasoning":
            yield _reasoning(number, item, ts, model)
        case "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call":
            yield _called(number, item, ts, model)
        case "function_call_output" | "custom_tool_call_output" | "tool_search_output":
            yield _returned(number, item, ts)
        case "web_search_call" | "image_generation_call" as kind:
            yield from _hosted(number, kind, item, ts, model)
        case "agent_message":
            yield _between_agents(number, item, ts)
        case kind:
            yield unknown(kind)


def _message(number: int, item: Fields, ts: str, model: str) -> Iterator[Record]:
    content = item.get("content")
    if (said := plain(content)) is None:
        yield Broken(line=number, why="the content is neither text nor a list of parts")
        return
    source = text(item.get("id"))
    match item.get("role"):
        case "user":
            parts = content if isinstance(content, list) else [content]
            own = [each for each in parts if not is_context(plain(each) or "")]
            if len(own) < len(parts):
                yield from _context(number, parts, source, ts)
            if words := plain(own):
                images = pictures_in(own)
                yield Said(line=number, role="user", text=words, id=source, ts=ts, images=images)
        case "assistant" if not said:
            yield Aside(what="empty answer")
        case "assistant":
            yield Said(line=number, role="assistant", text=said, id=source, ts=ts, model=model)
        case role:
            yield Aside(what=f"{text(role) or 'nameless'} message")


def _context(number: int, parts: list[Any], source: str, ts: str) -> Iterator[Record]:
    """What the program added: a command that the person ran is theirs, the rest is counted."""
    for part in parts:
        said = plain(part) or ""
        if command := shell_command(said):
            yield Said(line=number, role="user", text=command, id=source, ts=ts)
        elif is_context(said):
            yield Aside(what="instructions of the program")


def _reasoning(number: int, item: Fields, ts: str, model: str) -> Record:
    """Reasoning stands before what it led to; what can be read of it is kept with that."""
    shown = sequence(item.get("summary")) or sequence(item.get("content"))
    if not (thought := joined(plain(each) or "" for each in shown)):
        return Aside(what="sealed reasoning")
    thinking = (Thinking(text=thought),)
    return Said(line=number, role="assistant", text="", ts=ts, model=model, thinking=thinking)


def _called(number: int, item: Fields, ts: str, model: str) -> Said:
    arguments = item.get("arguments", item.get("input", item.get("action")))
    name = text(item.get("name")) or text(item.get("type")).removesuffix("_call")
    name = "shell" if name == "local_shell" else name
    if space := text(item.get("namespace")):
        name = f"{space}.{name}"
    call = tool_call(item.get("call_id") or item.get("id"), name, arguments, f"call-{number}")
    return Said(line=number, role="assistant", text="", ts=ts, model=model, calls=(call,))


def _hosted(number: int, kind: str, item: Fields, ts: str, model: str) -> Iterator[Record]:
    """A call that the provider answered: what came of it is not in the file."""
    name, asked = _HOSTED[kind]
    call = tool_call(item.get("id"), name, {asked: item.get(asked)}, f"call-{number}")
    yield Said(line=number, role="assistant", text="", ts=ts, model=model, calls=(call,))
    drawn = text(item.get("result"))
    images = (Picture(data=drawn),) if drawn else ()
    given = "[image]" if drawn else NO_RESULT
    yield Gave(line=number, call=call.id, text=given, name=name, ts=ts, images=images)


def _between_agents(number: int, item: Fields, ts: str) -> Record:
    """What another agent told this one; it stands where a person's message would."""
    said = plain(item.get("content"))
    author = text(item.get("author"))
    if not said or not author:
        return Aside(what="message between agents")
    return Said(line=number, role="user", text=said, name=author, id=text(item.get("id")), ts=ts)


def _returned(number: int, item: Fields, ts: str) -> Gave:
    """A result; older shells wrap theirs in JSON with an exit code, newer ones head it with one."""
    output = item.get("output", item.get("tools"))
    failed = mapping(output).get("success") is False
    if isinstance(output, dict):
        output = output.get("content", output.get("output"))
    if isinstance(output, str) and output.startswith('{"output":'):
        inner = decode_object(output.encode("utf-8", "surrogatepass"))
        if not isinstance(inner, Flaw):
            output = inner.get("output")
            failed = mapping(inner.get("metadata")).get("exit_code") not in (0, None)
    said = None if item.get("type") == "tool_search_output" else plain(output)
    said = as_json(output) if said is None else said
    failed = failed or _FAILED.match(said) is not None
    call, name = item.get("call_id"), item.get("name")
    return result_of(number, call, output, said=said, name=name, failed=failed, ts=ts)


def _goes_on(path: Path) -> tuple[str, str]:
    """The newest summary, and what else the program put in the place of the conversation."""
    for fields in newest_with(path, b'"type":"compacted"')[-1:]:
        payload = mapping(fields.get("payload"))
        items = map(mapping, sequence(payload.get("replacement_history")))
        said = [plain(each.get("content")) for each in items if each.get("role") != "developer"]
        whole = "\n\n".join(filter(None, (text(payload.get("message")), *said)))
        return moment(fields.get("timestamp")), whole
    return "", ""


CODEX = Format(
    name="codex", title="Codex CLI", recognises=_recognises, read=_read, goes_on=_goes_on
)
