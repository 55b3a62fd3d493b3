"""What a file of another program says, read a second time and in the plainest way.

Nothing here uses the readers: each function walks its format with `json`, `sqlite3` or lines alone,
so that a test can compare what the importer made of a file with what stands in it.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple


class Heard(NamedTuple):
    """One message or result."""

    role: str
    text: str
    ts: str
    model: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each."""
    thinking: tuple[str, ...] = ()


def at(value: float | str) -> str:
    """A time in milliseconds, or as text, as our lines have it."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    else:
        moment = datetime.fromtimestamp(value / 1000, UTC)
    return (
        moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
    )


def dense(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def _block_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(each["text"] for each in content if each["type"] == "text" and each["text"])


def _answer(message: dict[str, Any], ts: str, model: str) -> Heard:
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    calls = [(each["name"], dense(each["input"])) for each in blocks if each["type"] == "tool_use"]
    thoughts = [each["thinking"] for each in blocks if each["type"] == "thinking"]
    return Heard("assistant", _block_text(blocks), ts, model, tuple(calls), tuple(thoughts))


def droid(path: Path) -> list[Heard]:
    """`~/.factory/sessions`."""
    model = json.loads(path.with_suffix(".settings.json").read_text())["model"]
    heard: list[Heard] = []
    for line in _json_lines(path):
        if line["type"] != "message":
            continue
        message, ts = line["message"], at(line["timestamp"])
        if message["role"] == "assistant":
            heard.append(_answer(message, ts, model))
            continue
        content = message["content"]
        for each in content if isinstance(content, list) else ():
            if each["type"] == "tool_result":
                heard.append(Heard("result", _block_text(each["content"]), ts))
        words = re.sub(r"(?s)<system-reminder>.*?</system-reminder>\s*", "", _block_text(content))
        if words:
            heard.append(Heard("user", words, ts))
    return heard


_HEADING = re.compile(r"\[\w+(?: for '[^']*')?\] Result:\n?")
_SAYS = {"attempt_completion": "result", "ask_followup_question": "question"}


def cline(path: Path) -> list[Heard]:
    """`tasks/<id>/api_conversation_history.json` of a model with tools of its own."""
    heard: list[Heard] = []
    for message in json.loads(path.read_text()):
        ts = at(message["ts"])
        if message["role"] == "assistant":
            info = message["modelInfo"]
            found = _answer(message, ts, f"{info['providerId']}/{info['modelId']}")
            spoken = [json.loads(args)[_SAYS[n]] for n, args in found.calls if n in _SAYS]
            calls = tuple(each for each in found.calls if each[0] not in _SAYS)
            text = "\n\n".join(filter(None, (found.text, *spoken)))
            heard.append(found._replace(text=text, calls=calls))
            continue
        for block in message["content"]:
            text = _block_text(block.get("content") or [block])
            told = re.search(r"(?s)<(task|feedback)>(.*)</\1>", text)
            if told:
                heard.append(Heard("user", told[2].strip(), ts))
            elif block["type"] == "tool_result":
                heard.append(Heard("result", _HEADING.sub("", text), ts))
    return heard


def roo_code(path: Path) -> list[Heard]:
    """The same of a model whose calls stand as tags in its words; the dates stand beside it."""
    shown = json.loads(path.with_name("ui_messages.json").read_text())
    asked = [at(each["ts"]) for each in shown if each["say"] == "api_req_started"]
    heard: list[Heard] = []
    for number, message in enumerate(json.loads(path.read_text())):
        ts = asked[number // 2]
        content = message["content"]
        text = _block_text(content)
        if message["role"] == "user":
            parts = re.sub(r"(?s)<environment_details>.*", "", text).strip()
            told = re.search(r"(?s)<(task|user_message)>(.*)</\1>", parts)
            kind, words = ("user", told[2]) if told else ("result", _HEADING.sub("", parts))
            heard.append(Heard(kind, words.strip(), ts))
            continue
        called = re.search(r"(?s)<(read_file|write_to_file|attempt_completion)>(.*)</\1>", text)
        assert called
        inside = {name: value.strip("\n") for name, value in _TAG.findall(called[2])}
        before = text[: called.start()].strip()
        blocks = content if isinstance(content, list) else []
        thoughts = tuple(each["text"] for each in blocks if each["type"] == "reasoning")
        if called[1] == "attempt_completion":
            heard.append(Heard("assistant", inside["result"], ts))
        else:
            call = (called[1], dense(inside))
            heard.append(Heard("assistant", before, ts, "", (call,), thoughts))
    return heard


_TAG = re.compile(r"(?s)<(path|content|result)>(.*?)</\1>")


def aider(path: Path) -> list[Heard]:
    """`.aider.chat.history.md`."""
    heard: list[Heard] = []
    for chat in path.read_text().split("\n# aider chat started at ")[1:]:
        ts = at(chat[:19])
        named = re.search(r"> (?:Main model|Models): (\S+) with", chat)
        model = named[1] if named else ""
        body = re.sub(r"(?m)^>.*  $", "\x00", chat[19:])
        body = re.sub(r"(?m)^####(?: (.*)|)  $", "\x01\\1", body)
        for run in re.findall(r"(?:\x01[^\n]*\n)+|[^\x00\x01]+", body):
            words = run.replace("\x01", "").strip()
            if run.startswith("\x01") and words and not words.startswith("/"):
                heard.append(Heard("user", words, ts))
            elif words and not run.startswith("\x01"):
                heard.append(Heard("assistant", words, ts, model))
    return heard


def crush(path: Path) -> list[Heard]:
    """`crush.db`, all of its sessions one after the other."""
    heard: list[Heard] = []
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        query = (
            "SELECT m.role, m.parts, m.model, m.provider, m.created_at FROM messages m "
            "JOIN sessions s ON s.id = m.session_id WHERE m.id != ifnull(s.summary_message_id, '') "
            "ORDER BY s.created_at, m.created_at, m.rowid"
        )
        for role, parts, model, provider, created in connection.execute(query):
            ts = at(created * 1000)
            found = [(each["type"], each["data"]) for each in json.loads(parts)]
            text = "\n\n".join(data["text"] for kind, data in found if kind == "text")
            thoughts = tuple(data["thinking"] for kind, data in found if kind == "reasoning")
            calls = tuple((d["name"], d["input"]) for kind, d in found if kind == "tool_call")
            results = [data["content"] for kind, data in found if kind == "tool_result"]
            if role == "user":
                heard.append(Heard("user", text, ts))
            elif role == "assistant":
                name = f"{provider}/{model}"
                heard.append(Heard("assistant", text, ts, name, calls, thoughts))
            heard += [Heard("result", each, ts) for each in results]
    return heard


def copilot_cli(path: Path) -> list[Heard]:
    """`events.jsonl`."""
    heard: list[Heard] = []
    results = _copilot_results(path)
    model = ""
    for event in _json_lines(path):
        data, ts = event["data"], at(event["timestamp"])
        match event["type"]:
            case "session.model_change":
                model = data["newModel"]
            case "user.message" if data["content"] not in ("Look for ports.", "Never mind."):
                heard.append(Heard("user", data["content"], ts))
            case "assistant.message" if "parentToolCallId" not in data:
                calls = tuple((e["name"], dense(e["arguments"])) for e in data["toolRequests"])
                thoughts = tuple(filter(None, [data.get("reasoningText")]))
                name = data.get("model", model)
                heard.append(Heard("assistant", data["content"], ts, name, calls, thoughts))
                # Calls may end in any order; their results stand in the order of the calls.
                asked = [e["toolCallId"] for e in data["toolRequests"]]
                heard += [results[each] for each in asked if each in results]
            case _:
                pass
    return heard


def _copilot_results(path: Path) -> dict[str, Heard]:
    results: dict[str, Heard] = {}
    for event in _json_lines(path):
        data = event["data"]
        if event["type"] == "tool.execution_complete":
            given = data["result"]["content"] if data["success"] else data["error"]["message"]
            results[data["toolCallId"]] = Heard("result", given, at(event["timestamp"]))
    return results


def qwen_code(path: Path) -> list[Heard]:
    """`chats/<id>.jsonl`: the way back from the last message to the first."""
    lines = {line["uuid"]: line for line in _json_lines(path)}
    way: list[dict[str, Any]] = []
    name: str | None = [key for key, line in lines.items() if line["type"] != "system"][-1]
    while name:
        way.insert(0, lines[name])
        name = lines[name]["parentUuid"]
    heard: list[Heard] = []
    for line in way:
        if line["type"] == "system":
            continue
        parts, ts = line["message"]["parts"], at(line["timestamp"])
        words = "".join(each.get("text", "") for each in parts if not each.get("thought"))
        if line["type"] == "tool_result":
            given = parts[0]["functionResponse"]["response"]
            heard.append(Heard("result", given["output"], ts))
        elif line["type"] == "user":
            heard.append(Heard("user", words, ts))
        else:
            asked = [each["functionCall"] for each in parts if "functionCall" in each]
            calls = tuple((each["name"], dense(each["args"])) for each in asked)
            thoughts = tuple(each["text"] for each in parts if each.get("thought"))
            heard.append(Heard("assistant", words, ts, line["model"], calls, thoughts))
    return heard


def claude_ai(path: Path) -> list[Heard]:
    """`conversations.json`; the message that was edited is the one before its successor."""
    heard: list[Heard] = []
    for conversation in json.loads(path.read_text()):
        for message in conversation["chat_messages"]:
            ts, blocks = at(message["created_at"]), message["content"]
            if message["sender"] == "human":
                files: list[str] = []
                for each in message["attachments"]:
                    name = each["file_name"] or "file"
                    files += [f"[file: {name}]", each["extracted_content"]]
                more = [f"[file: {e['file_name'] or 'file'}]" for e in message["files"]]
                files += [each for each in more if each not in files]
                words = "\n\n".join([_block_text(blocks), *files])
                if words != "Never mind.":
                    heard.append(Heard("user", words, ts))
                continue
            given = [n for n, each in enumerate(blocks) if each["type"] == "tool_result"]
            for start, end in zip([0, *(n + 1 for n in given)], [*given, len(blocks)], strict=True):
                said = _answer({"content": blocks[start:end]}, ts, "")
                heard += [said] if any((said.text, said.calls, said.thinking)) else []
                if end < len(blocks):
                    heard.append(Heard("result", _block_text(blocks[end]["content"]), ts))
    return heard


_THOUGHT = re.compile(r"(?s)</summary>(.*)</details></think>")


def specstory(path: Path) -> list[Heard]:
    """`.specstory/history/*.md`: cut at the headers that stand in no tool."""
    text = path.read_text()
    hidden = re.sub(r"(?s)<tool-use.*?</tool-use>", lambda m: m[0].replace("_**", "\x00"), text)
    heard: list[Heard] = []
    for who, inside, body in re.findall(
        r"(?ms)^_\*\*(User|Agent)([^*]*)\*\*_$(.*?)(?=^_\*\*|\Z)", hidden
    ):
        found = re.fullmatch(r"( - sidechain)? \((?:(\S+) )?(\S+ \S+Z)\)", inside)
        assert found
        if found[1]:
            continue
        ts, model = at(found[3]), found[2] or ""
        body = body.strip().removesuffix("---").strip()
        thoughts = tuple(each.strip() for each in _THOUGHT.findall(body))
        words = re.sub(r"(?s)<(think|tool-use)\b.*?</\1>", "", body).strip()
        tools = re.findall(r'(?s)data-tool-name="(\w+)"(.*?)</tool-use>', body)
        if who == "User":
            heard.append(Heard("user", words, ts))
            continue
        if not tools:
            heard.append(Heard("assistant", words, ts, model, (), thoughts))
        for name, inner in tools:
            before, _, fenced = inner.partition("```text\n")
            shown = re.sub(r"<[^>]*>|^>", "", before).split("\n")
            asked = "\n".join(each.strip() for each in shown if each.strip())
            call = (name, dense({"shown": asked}))
            heard.append(Heard("assistant", words, ts, model, (call,), thoughts))
            if fenced:
                given = fenced.split("\n```")[0].replace("\x00", "_**")
                heard.append(Heard("result", given, ts))
            words, thoughts = "", ()
    joined: list[Heard] = []
    for each in heard:
        last = joined[-1] if joined else each
        if joined and last.role == each.role == "assistant" and not (last.text or last.calls):
            both = last.thinking + each.thinking
            joined[-1] = each._replace(thinking=both, ts=last.ts)
        else:
            joined.append(each)
    return joined


def continue_(path: Path) -> list[Heard]:
    """`~/.continue/sessions/<id>.json`, dated by the list beside it."""
    listed = {e["sessionId"]: e for e in json.loads(path.with_name("sessions.json").read_text())}
    ts = at(int(listed[path.stem]["dateCreated"]))
    whole = json.loads(path.read_text())
    heard: list[Heard] = []
    thoughts: tuple[str, ...] = ()
    answered: set[str] = set()
    for item in whole["history"]:
        message = item["message"]
        words = _block_text(message["content"])
        match message["role"]:
            case "thinking":
                thoughts = (words,)
            case "user":
                for each in item["contextItems"]:
                    words += f"\n\n[file: {each['name']}]\n\n{each['content']}"
                heard.append(Heard("user", words, ts))
            case "assistant":
                asked = [each["function"] for each in message.get("toolCalls", ())]
                calls = tuple((each["name"], each["arguments"]) for each in asked)
                named = [each.get("modelTitle") for each in item.get("promptLogs", ())]
                named += [message.get("usage", {}).get("model"), whole.get("chatModelTitle"), ""]
                model = next(each for each in named if each is not None)
                if words or calls or thoughts:
                    heard.append(Heard("assistant", words, ts, model, calls, thoughts))
                thoughts = ()
                for state in item.get("toolCallStates", ()):
                    if state.get("output") or state["status"] in ("done", "errored", "canceled"):
                        given = [each["content"] for each in state.get("output", ())]
                        heard.append(Heard("result", "\n\n".join(given), ts))
                        answered.add(state["toolCallId"])
            case "tool" if message["toolCallId"] not in answered:
                heard.append(Heard("result", words, ts))
    return heard


def kiro(path: Path) -> list[Heard]:
    """`~/.kiro/sessions/cli/<id>.jsonl`."""
    about = json.loads(path.with_suffix(".json").read_text())
    model = about["session_state"]["rts_model_state"]["model_info"]["model_id"]
    turns = about["session_state"]["conversation_metadata"]["user_turn_metadatas"]
    ends = {each["message_ids"][-1]: at(each["end_timestamp"][:26]) for each in turns}
    heard: list[Heard] = []
    ts = at(about["created_at"][:26])
    for line in _json_lines(path):
        data = line["data"]
        ts = at(data["meta"]["timestamp"] * 1000) if "meta" in data else ts
        ts = ends.get(data["message_id"], ts)
        parts = [(each["kind"], each["data"]) for each in data["content"]]
        words = "\n\n".join(value for kind, value in parts if kind == "text" and value)
        calls = tuple((v["name"], dense(v["input"])) for kind, v in parts if kind == "toolUse")
        thoughts = tuple(value["text"] for kind, value in parts if kind == "thinking")
        if line["kind"] == "Prompt":
            heard.append(Heard("user", words, ts))
        elif line["kind"] == "AssistantMessage":
            heard.append(Heard("assistant", words, ts, model, calls, thoughts))
        else:
            given = [value["content"][0]["data"] for _, value in parts]
            texts = [each if isinstance(each, str) else dense(each) for each in given]
            heard += [Heard("result", each, ts) for each in texts]
    return heard


def openhands(path: Path) -> list[Heard]:
    """A trajectory of actions and observations, or a folder of newer events."""
    heard: list[Heard] = []
    if path.parent.name == "events":
        return _openhands_events(path.parent)
    for event in json.loads(path.read_text()):
        ts, args = at(event["timestamp"]), event.get("args", {})
        if event.get("observation") == "run":
            heard.append(Heard("result", event["content"], ts))
        elif event.get("action") == "message":
            role = "user" if event["source"] == "user" else "assistant"
            heard.append(Heard(role, args["content"], ts))
        elif event.get("action") == "run":
            made = event["tool_call_metadata"]
            response = made["model_response"]
            (asked,) = response["choices"][0]["message"]["tool_calls"]
            calls = ((made["function_name"], asked["function"]["arguments"]),)
            heard.append(Heard("assistant", args["thought"], ts, response["model"], calls))
    return heard


def _openhands_events(folder: Path) -> list[Heard]:
    heard: list[Heard] = []
    model = json.loads((folder.parent / "base_state.json").read_text())["agent"]["llm"]["model"]
    for file in sorted(folder.glob("event-*.json")):
        event = json.loads(file.read_text())
        ts = at(event["timestamp"])
        match event["kind"]:
            case "MessageEvent" if event["llm_message"]["role"] == "user":
                heard.append(Heard("user", _block_text(event["llm_message"]["content"]), ts))
            case "MessageEvent":
                words = _block_text(event["llm_message"]["content"])
                heard.append(Heard("assistant", words, ts, model))
            case "ActionEvent":
                call = event["tool_call"]
                asked = ((event["tool_name"], call["arguments"]),)
                heard.append(Heard("assistant", _block_text(event["thought"]), ts, model, asked))
            case "ObservationEvent":
                heard.append(Heard("result", _block_text(event["observation"]["content"]), ts))
    return heard


def cursor(path: Path) -> list[Heard]:
    """`state.vscdb` of the editor, all conversations one after the other."""
    heard: list[Heard] = []
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        stored = {key: json.loads(v) for key, v in connection.execute("SELECT * FROM cursorDiskKV")}
    for key in sorted(key for key in stored if key.startswith("composerData:")):
        ts = at(stored[key]["createdAt"])
        for header in stored[key]["fullConversationHeadersOnly"]:
            bubble = stored[f"bubbleId:{key.split(':')[1]}:{header['bubbleId']}"]
            ts = at(bubble["createdAt"]) if "createdAt" in bubble else ts
            tool = bubble.get("toolFormerData")
            if bubble["type"] == 1:
                heard.append(Heard("user", bubble["text"], ts))
                continue
            calls = ((tool["name"], tool["rawArgs"]),) if tool else ()
            thoughts = (bubble["thinking"]["text"],) if "thinking" in bubble else ()
            heard.append(Heard("assistant", bubble["text"], ts, "example-large", calls, thoughts))
            if tool and tool["status"] == "completed":
                heard.append(Heard("result", tool["result"], ts))
    return heard


LISTEN: dict[str, Callable[[Path], list[Heard]]] = {
    "aider": aider,
    "claude-ai": claude_ai,
    "cline": cline,
    "continue": continue_,
    "copilot-cli": copilot_cli,
    "crush": crush,
    "cursor": cursor,
    "droid": droid,
    "kiro": kiro,
    "openhands": openhands,
    "qwen-code": qwen_code,
    "roo-code": roo_code,
    "specstory": specstory,
}
"""A second reading of every format that has one."""
