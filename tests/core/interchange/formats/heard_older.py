"""Second readings of the formats that were there first; like `heard`, they share nothing with ours.

Each knows one program's files as its fixture has them, and says in a few lines what was said.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.core.interchange.formats.heard import Heard, at, dense


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def _texts(blocks: Any) -> str:
    if isinstance(blocks, str):
        return blocks
    return "\n\n".join(each["text"] for each in blocks if each["type"].endswith("text"))


def claude_code(path: Path) -> list[Heard]:
    """A record a block; blocks of one message follow each other."""
    heard: list[Heard] = []
    last = ""
    for line in _lines(path):
        if line["type"] not in ("user", "assistant") or line["isSidechain"] or "isMeta" in line:
            continue
        message, ts = line["message"], line["timestamp"]
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content:
            if line["type"] == "user" and block["type"] == "tool_result":
                heard.append(Heard("result", _texts(block["content"]), ts))
            elif line["type"] == "user":
                if not block["text"].startswith("<command-name>"):
                    heard.append(Heard("user", block["text"], ts))
            else:
                if message["id"] != last:
                    heard.append(Heard("assistant", "", ts, message["model"]))
                    last = message["id"]
                heard[-1] = _more(heard[-1], block)
    return heard


def _more(said: Heard, block: dict[str, Any]) -> Heard:
    match block["type"]:
        case "text":
            return said._replace(text=said.text + block["text"])
        case "thinking":
            return said._replace(thinking=(*said.thinking, block["thinking"]))
        case _:
            arguments = block.get("input", block.get("arguments"))
            return said._replace(calls=(*said.calls, (block["name"], dense(arguments))))


def codex(path: Path) -> list[Heard]:
    """A record an item; a thought belongs to the item behind it."""
    heard: list[Heard] = []
    model, thoughts, since = "", (), ""
    for line in _lines(path):
        item, ts = line["payload"], line["timestamp"]
        if line["type"] == "turn_context":
            model = item["model"]
        if line["type"] != "response_item":
            continue
        kind = (item["type"], item.get("role", ""))
        if kind[0] == "reasoning":
            thoughts, since = tuple(each["text"] for each in item["summary"]), ts
        elif kind == ("message", "user"):
            text = _texts(item["content"])
            if not text.startswith("<environment_context>"):
                heard.append(Heard("user", text, ts))
        elif kind == ("message", "assistant"):
            words = _texts(item["content"])
            heard.append(Heard("assistant", words, since or ts, model, (), thoughts))
            thoughts, since = (), ""
        elif kind[0].endswith("_call"):
            call = (item["name"], item.get("arguments", item.get("input")))
            heard.append(Heard("assistant", "", since or ts, model, (call,), thoughts))
            thoughts, since = (), ""
        elif kind[0] == "function_call_output":
            heard.append(Heard("result", json.loads(item["output"])["output"], ts))
    return heard


def gemini_cli(path: Path) -> list[Heard]:
    """One document; calls carry their results."""
    heard: list[Heard] = []
    for message in json.loads(path.read_text())["messages"]:
        content, ts = message["content"], message["timestamp"]
        text = content if isinstance(content, str) else "".join(each["text"] for each in content)
        if message["type"] == "user":
            heard.append(Heard("user", text, ts))
        elif message["type"] == "gemini":
            used = message.get("toolCalls", [])
            calls = tuple((each["name"], dense(each["args"])) for each in used)
            thoughts = tuple(
                f"{each['subject']}\n\n{each['description']}"
                for each in message.get("thoughts", [])
            )
            heard.append(Heard("assistant", text, ts, message["model"], calls, thoughts))
            for each in used:
                for part in each.get("result", []):
                    output = part["functionResponse"]["response"]["output"]
                    heard.append(Heard("result", output, each["timestamp"]))
    return heard


def goose(path: Path) -> list[Heard]:
    """One document; results stand in the user's messages."""
    heard: list[Heard] = []
    for message in json.loads(path.read_text())["conversation"]:
        ts = at(message["created"] * 1000)
        said = Heard(message["role"], "", ts)
        for part in message["content"]:
            if part["type"] == "toolResponse":
                value = part["toolResult"]["value"]
                heard.append(Heard("result", _texts(value["content"]), ts))
            elif part["type"] == "toolRequest":
                said = _more(said, {"type": "call", **part["toolCall"]["value"]})
            elif part["type"] in ("text", "thinking"):
                said = _more(said, part)
        if said != Heard(message["role"], "", ts):
            heard.append(said)
    return heard


def messages(path: Path) -> list[Heard]:
    """A line a message; calls in either of two shapes."""
    heard: list[Heard] = []
    for line in _lines(path):
        role = "result" if line["role"] == "tool" else line["role"]
        asked = [each.get("function", each) for each in line.get("tool_calls", [])]
        calls = [
            (each["name"], given if isinstance(given := each["arguments"], str) else dense(given))
            for each in asked
        ]
        ts = at(line["ts"])
        heard.append(Heard(role, line["content"], ts, line.get("model", ""), tuple(calls)))
    return heard


def opencode(path: Path) -> list[Heard]:
    """One document; an answer is made of steps, a call carries its result."""
    heard: list[Heard] = []
    for message in json.loads(path.read_text())["messages"]:
        info, ts = message["info"], at(message["info"]["time"]["created"])
        if info["role"] == "user":
            own = [part["text"] for part in message["parts"] if not part.get("synthetic")]
            heard.append(Heard("user", "\n\n".join(own), ts))
            continue
        results: list[Heard] = []
        for part in message["parts"]:
            if part["type"] == "step-start":
                heard += results
                results = []
                model = f"{info['providerID']}/{info['modelID']}"
                heard.append(Heard("assistant", "", ts, model))
            elif part["type"] == "text":
                heard[-1] = heard[-1]._replace(text=part["text"])
            elif part["type"] == "reasoning":
                heard[-1] = heard[-1]._replace(thinking=(part["text"],))
            elif part["type"] == "tool":
                state = part["state"]
                called = (part["tool"], dense(state["input"]))
                heard[-1] = heard[-1]._replace(calls=(called,))
                if "output" in state:
                    results.append(Heard("result", state["output"], at(state["time"]["end"])))
        heard += results
    return heard


def pi(path: Path) -> list[Heard]:
    """A line a message, in the order of the file."""
    heard: list[Heard] = []
    for line in _lines(path):
        if line["type"] != "message":
            continue
        message, ts = line["message"], line["timestamp"]
        content = message["content"]
        if message["role"] == "assistant":
            said = Heard("assistant", "", ts, f"{message['provider']}/{message['model']}")
            for block in content:
                said = _more(said, block)
            heard.append(said)
        else:
            role = "user" if message["role"] == "user" else "result"
            heard.append(Heard(role, _texts(content), ts))
    return heard


def chatgpt(path: Path) -> list[Heard]:
    """Trees of messages: the way from each current node to its root."""
    heard: list[Heard] = []
    for talk in json.loads(path.read_text()):
        way: list[dict[str, Any]] = []
        name = talk["current_node"]
        while name is not None:
            node = talk["mapping"][name]
            way.insert(0, node["message"])
            name = node["parent"]
        for message in way:
            if message is None or message["author"]["role"] == "system":
                continue
            role, content = message["author"]["role"], message["content"]
            text = content["text"] if "text" in content else "\n\n".join(content["parts"])
            ts, model = at(message["create_time"] * 1000), message["metadata"].get("model_slug", "")
            if role == "assistant" and message["recipient"] != "all":
                heard.append(Heard(role, "", ts, model, ((message["recipient"], text),)))
            else:
                heard.append(Heard("result" if role == "tool" else role, text, ts, model))
    return heard


def mindstone(path: Path) -> list[Heard]:
    """A transcript of ours: one entry a line."""
    heard: list[Heard] = []
    for line in _lines(path):
        match line["kind"]:
            case "user_message":
                heard.append(Heard("user", line["text"], line["ts"]))
            case "assistant_message":
                calls = tuple((each["name"], each["arguments"]) for each in line.get("calls", []))
                thoughts = tuple(each["text"] for each in line.get("thinking", []))
                said = Heard("assistant", line["text"], line["ts"], line["model"], calls, thoughts)
                heard.append(said)
            case "tool_returned":
                heard.append(Heard("result", line["text"], line["ts"]))
    return heard


OLDER = {
    "chatgpt": chatgpt,
    "claude-code": claude_code,
    "codex": codex,
    "gemini-cli": gemini_cli,
    "goose": goose,
    "messages": messages,
    "mindstone": mindstone,
    "opencode": opencode,
    "pi": pi,
}
