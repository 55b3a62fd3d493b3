"""What a file of the programs read last says, read a second time and in the plainest way."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.core.interchange.formats.heard import Heard, at, dense


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def vscode_chat(path: Path) -> list[Heard]:
    """An export: rounds where Copilot kept them, else what the editor showed."""
    heard: list[Heard] = []
    for request in json.loads(path.read_text())["requests"]:
        ts, model = at(request["timestamp"]), request["modelId"]
        if not request.get("isSystemInitiated"):
            heard.append(Heard("user", request["message"]["text"], ts))
        told = request["result"].get("metadata", {})
        for each in told.get("toolCallRounds", []):
            calls = tuple((call["name"], call["arguments"]) for call in each["toolCalls"])
            thought = (each["thinking"]["text"],) if "thinking" in each else ()
            heard.append(Heard("assistant", each["response"].strip(), ts, model, calls, thought))
            for call in each["toolCalls"]:
                (part,) = told["toolCallResults"][call["id"]]["content"]
                leaves = [leaf["text"] for leaf in part["value"]["node"]["children"]]
                heard.append(Heard("result", "\n".join(leaves), ts))
        if not told:
            heard += _shown(request["response"], ts, model)
    return heard


def _shown(response: list[dict[str, Any]], ts: str, model: str) -> list[Heard]:
    words, heard = "", []
    thoughts: tuple[str, ...] = ()
    for part in response:
        kind = part.get("kind", "")
        if kind == "thinking":
            thoughts = (part["value"],)
        elif kind == "inlineReference":
            words += "`" + part["inlineReference"]["path"].rsplit("/")[-1] + "`"
        elif kind == "toolInvocationSerialized":
            data = part["toolSpecificData"]
            call = (part["toolId"], dense({"command": data["commandLine"]["original"]}))
            heard.append(Heard("assistant", words, ts, model, (call,), thoughts))
            heard.append(Heard("result", data["terminalCommandOutput"]["text"], ts))
            words, thoughts = "", ()
        elif not kind:
            words += part["value"]
    return [*heard, Heard("assistant", words, ts, model, (), thoughts)]


def prompt_history(path: Path) -> list[Heard]:
    """A line a prompt; what was pasted stands beside it."""
    heard: list[Heard] = []
    for line in _lines(path):
        said = line["display"]
        for name, pasted in line["pastedContents"].items():
            if "content" in pasted:
                said = re.sub(rf"\[Pasted text #{name} [^]]*\]", pasted["content"], said)
        if not said.startswith("/"):
            heard.append(Heard("user", said, at(line["timestamp"])))
    return heard


def kimi(path: Path) -> list[Heard]:
    """`wire.jsonl` of Kimi CLI: parts and calls up to a result are one message."""
    heard: list[Heard] = []
    said = Heard("assistant", "", "")
    for line in _lines(path)[1:]:
        kind, told, ts = line["message"]["type"], line["message"]["payload"], line["timestamp"]
        when = at(ts * 1000)
        if kind in ("ContentPart", "ToolCall"):
            said = said._replace(ts=said.ts or when)
        if kind == "ContentPart" and told["type"] == "think":
            said = said._replace(thinking=(told["think"],))
        elif kind == "ContentPart":
            said = said._replace(text=told["text"])
        elif kind == "ToolCall":
            call = (told["function"]["name"], told["function"]["arguments"])
            said = said._replace(calls=(call,))
        if kind in ("ToolResult", "TurnEnd") and said.ts:
            heard.append(said)
            said = Heard("assistant", "", "")
        if kind == "ToolResult":
            given = told["return_value"]
            heard.append(Heard("result", given["output"] or given["message"], when))
        elif kind == "TurnBegin":
            asked = told["user_input"]
            heard.append(Heard("user", asked if isinstance(asked, str) else asked[0]["text"], when))
    return heard


def antigravity(path: Path) -> list[Heard]:
    """A line a step."""
    heard: list[Heard] = []
    for line in _lines(path):
        ts, said = at(line["created_at"]), line.get("content", "")
        if line["source"] == "USER_EXPLICIT":
            asked = re.search(r"(?s)<USER_REQUEST>(.*)</USER_REQUEST>", said)
            assert asked
            heard.append(Heard("user", asked[1].strip(), ts))
        elif line["type"] == "PLANNER_RESPONSE":
            calls = tuple((it["name"], dense(it["args"])) for it in line.get("tool_calls", []))
            thoughts = (line["thinking"],) if "thinking" in line else ()
            heard.append(Heard("assistant", said, ts, "", calls, thoughts))
        elif line["source"] == "MODEL" and line["status"] != "RUNNING":
            words = "\n\n".join(filter(None, (said, line.get("error"))))
            heard.append(Heard("result", words, ts))
    return heard


def grok(path: Path) -> list[Heard]:
    """`chat_history.jsonl`; the date stands in the summary."""
    ts = at(json.loads(path.with_name("summary.json").read_text())["created_at"])
    heard: list[Heard] = []
    thoughts: tuple[str, ...] = ()
    for line in _lines(path):
        match line["type"]:
            case "user" if line.get("synthetic_reason") != "project_instructions":
                heard.append(Heard("user", line["content"][0]["text"], ts))
            case "reasoning":
                thoughts = (line["summary"][0]["text"],)
            case "assistant":
                calls = tuple((it["name"], it["arguments"]) for it in line.get("tool_calls", []))
                told = (line["content"], ts, line["model_id"], calls, thoughts)
                heard.append(Heard("assistant", *told))
                thoughts = ()
            case "tool_result":
                heard.append(Heard("result", line["content"], ts))
    return heard


def dsh(path: Path) -> list[Heard]:
    """Events that are appended to the screen."""
    heard: list[Heard] = []
    for line in _lines(path):
        if "surfaceOp" not in line:
            continue
        message, ts = line["data"].get("message", line["data"]), at(line["time"])
        blocks, source = message["content"], message["source"]
        words = "".join(it["text"] for it in blocks if it["type"] == "text")
        if source["kind"] == "user":
            heard.append(Heard("user", words, ts))
        elif source["kind"] == "tool":
            heard.append(Heard("result", blocks[0]["content"][0]["text"], ts))
        elif source["kind"] == "model":
            calls = [(it["name"], it["arguments"]) for it in blocks if it["type"] == "tool-call"]
            thoughts = [it["text"] for it in blocks if it["type"] == "reasoning"]
            model = f"{source['provider']}/{source['model']}"
            heard.append(Heard("assistant", words, ts, model, tuple(calls), tuple(thoughts)))
    return heard


def openclaw(path: Path) -> list[Heard]:
    """Messages of pi's lines, without those that were copied for a messenger."""
    heard: list[Heard] = []
    for line in _lines(path):
        message, ts = line.get("message", {}), at(line["timestamp"])
        content = message.get("content", [])
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = "".join(it["text"] for it in blocks if it["type"] == "text")
        if message.get("role") == "user":
            heard.append(Heard("user", words, ts))
        elif message.get("role") == "toolResult":
            heard.append(Heard("result", words, ts))
        elif message and message["model"] != "delivery-mirror":
            calls = [(it["name"], dense(it["arguments"])) for it in blocks if "arguments" in it]
            thoughts = [it["thinking"] for it in blocks if "thinking" in it]
            model = f"{message['provider']}/{message['model']}"
            heard.append(Heard("assistant", words, ts, model, tuple(calls), tuple(thoughts)))
    return heard


def hermes(path: Path) -> list[Heard]:
    """`sessions/*.jsonl`, or the rows of `state.db` that are still shown."""
    if path.suffix == ".db":
        with contextlib.closing(sqlite3.connect(path)) as base:
            base.row_factory = sqlite3.Row
            (model,) = base.execute("SELECT model FROM sessions").fetchone()
            query = "SELECT * FROM messages WHERE active OR compacted ORDER BY id"
            found = [dict(row) for row in base.execute(query) if not row["_compressed_summary"]]
        lines = [
            {**row, "timestamp": row["timestamp"] * 1000, "tool_calls": json.loads(calls)}
            for row in found
            if (calls := row["tool_calls"] or "[]")
        ]
    else:
        meta, *lines = _lines(path)
        model = meta["model"]
    heard: list[Heard] = []
    for line in lines:
        ts, said = at(line["timestamp"]), line["content"]
        if line["role"] == "assistant":
            asked = [it["function"] for it in line.get("tool_calls", [])]
            calls = tuple((it["name"], it["arguments"]) for it in asked)
            thoughts = (line["reasoning"],) if line.get("reasoning") else ()
            heard.append(Heard("assistant", said, ts, model, calls, thoughts))
        else:
            heard.append(Heard({"tool": "result"}.get(line["role"], "user"), said, ts))
    return heard


def zed(path: Path) -> list[Heard]:
    """Rows of threads, unpacked by the program that packs them."""
    heard: list[Heard] = []
    with contextlib.closing(sqlite3.connect(path)) as base:
        rows = base.execute("SELECT created_at, data FROM threads ORDER BY updated_at").fetchall()
    for created, data in rows:
        ts = at(created)
        raw = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout
        thread = json.loads(raw)
        model = f"{thread['model']['provider']}/{thread['model']['model']}"
        for message in thread["messages"]:
            if message == "Resume":
                continue
            ((kind, inside),) = message.items()
            blocks = [next(iter(block.items())) for block in inside["content"]]
            words = "".join(value for name, value in blocks if name == "Text")
            if kind == "User":
                heard.append(Heard("user", words, ts))
                continue
            calls = [(it["name"], dense(it["input"])) for name, it in blocks if name == "ToolUse"]
            thoughts = [it["text"] for name, it in blocks if name == "Thinking"]
            heard.append(Heard("assistant", words, ts, model, tuple(calls), tuple(thoughts)))
            for given in inside["tool_results"].values():
                heard.append(Heard("result", given["content"][0]["Text"], ts))
    return heard


LISTEN: dict[str, Callable[[Path], list[Heard]]] = {
    "antigravity": antigravity,
    "dsh": dsh,
    "grok": grok,
    "hermes": hermes,
    "kimi": kimi,
    "openclaw": openclaw,
    "prompt-history": prompt_history,
    "vscode-chat": vscode_chat,
    "zed": zed,
}
