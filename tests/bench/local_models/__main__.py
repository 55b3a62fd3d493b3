"""How well a model on this machine answers, abstains, uses tools and summarises, and how fast.

    python -m tests.bench.local_models qwen-coder-1.5b [--cases tuning] [--kind one] [--threads 2]

`cases.jsonl` is the set that is reported; prompts were tried out on `tuning.jsonl` alone. Each case
goes through the provider that the product uses, with the product's own prompt. `--out` keeps every
reply, and a second run with the same file goes on with the cases that are missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from mindstone_tui.core.agent.system_prompt import SMALL_IDENTITY, SMALL_RULES
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context.extract import (
    SURVIVORS,
    SourceMessage,
    facts_of,
    folded,
    holds,
    missing,
    names_in,
)
from mindstone_tui.core.entries import Message, Request, ToolSchema
from mindstone_tui.core.library.model_list import hear
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.local_models import find
from mindstone_tui.core.providers.local_prompt import TOOLS
from mindstone_tui.core.providers.local_provider import CHILD, LocalProvider

HERE = Path(__file__).parent
HEAD = f"{SMALL_IDENTITY}\n\n{SMALL_RULES}\n\nYou work in /home/ada/tern on Linux."
ABSTAINS = (
    "don't know",
    "do not know",
    "don’t know",
    "not say",
    "no information",
    "not mention",
    "not provide",
    "not specif",
    "not stated",
    "nothing i have",
    "cannot say",
)
MARKS = {"one": 90, "five": 85, "abstain": 80, "tool": 85}
"""What the 1.5B is held to, in percent."""
PATIENCE = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures of a model on this machine.")
    parser.add_argument("model")
    parser.add_argument("--cases", default="cases")
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--command", help="another program that runs models, as local_child.py does"
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    given = parser.parse_args()
    cases = [json.loads(line) for line in (HERE / f"{given.cases}.jsonl").open(encoding="utf-8")]
    chosen = [case for case in cases if not given.kind or case["kind"] in given.kind]
    results = asyncio.run(run(given, chosen))
    print(report(given.model, results))


async def run(given: argparse.Namespace, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    places = Places.resolve(os.environ)
    settings = ModelSettings(local_threads=given.threads, local_window=4_096)
    command = tuple(given.command.split()) if given.command else CHILD
    provider = LocalProvider(find(given.model), places, settings, command=command)
    out: Path | None = given.out
    results = kept(out)
    done = {(each["kind"], each["ask"], each["about"]) for each in results}
    until = time.monotonic() + given.minutes * 60
    try:
        for case in cases:
            about = " ".join(case.get("notes", case.get("said", ())))[:60]
            key = (case["kind"], case.get("ask", ""), about)
            if key in done or time.monotonic() > until:
                continue
            result = {**dict(zip(("kind", "ask", "about"), key, strict=True))}
            result |= await Bench(provider, given.model).judged(case)
            results.append(result)
            print("." if result["right"] else "x", end="", flush=True)
            if out:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result, ensure_ascii=False) + "\n")
    finally:
        await provider.close()
    print()
    return results


def kept(out: Path | None) -> list[dict[str, Any]]:
    """What an earlier run wrote down."""
    if out is None or not out.exists():
        return []
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


class Bench:
    """One case, asked as a turn would ask it."""

    def __init__(self, provider: LocalProvider, model: str) -> None:
        self._provider = provider
        self._model = f"local/{model}"
        self._measured: dict[str, Any] = {}

    async def judged(self, case: dict[str, Any]) -> dict[str, Any]:
        """What was said, whether that is right, and how long it took."""
        match case["kind"]:
            case "summary":
                verdict = await self._summary(case)
            case "tool" | "two":
                verdict = await self._tool(case)
            case _:
                verdict = await self._note(case)
        return {**verdict, **self._measured, "memory": self._provider.process.memory}

    async def _note(self, case: dict[str, Any]) -> dict[str, Any]:
        said, call = await self._ask(case["ask"], notes=case["notes"])
        if case["kind"] == "abstain":
            right = any(each in said.lower() for each in ABSTAINS) or call.startswith("recall ")
        else:
            right = found(case["want"], said)
        return {"said": said or call, "right": right}

    async def _tool(self, case: dict[str, Any]) -> dict[str, Any]:
        said, call = await self._ask(case["ask"])
        name, _, written = call.partition(" ")
        right = name == case["tool"] and fits(case["arguments"], json.loads(written or "{}"))
        verdict = {"said": said or call, "tool_right": name == case["tool"], "right": right}
        if case["kind"] == "two" and right:
            function = {"name": name, "arguments": written}
            calls = [{"id": "a", "type": "function", "function": function}]
            then, again = await self._ask(
                case["ask"],
                after=(
                    {"role": "assistant", "content": "", "tool_calls": calls},
                    {"role": "tool", "tool_call_id": "a", "content": case["result"]},
                ),
            )
            verdict |= {"then": then or again, "right": found(case["want"], then)}
        return verdict

    async def _summary(self, case: dict[str, Any]) -> dict[str, Any]:
        """Audited as the product audits: what it lost, and what it made up."""
        source = "\n".join(case["said"])
        passages = [
            SourceMessage(seq=at, turn=at, speaker=line.split(":")[0], text=line.partition(": ")[2])
            for at, line in enumerate(case["said"], 1)
        ]
        prompt = (
            resources.files("mindstone_tui.core.context.prompts")
            .joinpath("compaction.md")
            .read_text("utf-8")
            .format(target=120)
        )
        said, _ = await self._ask(
            f'<data-0123456789abcdef origin="conversation">\n{source}\n</data-0123456789abcdef>',
            head=prompt,
            purpose="summary",
        )
        facts = facts_of(passages, SURVIVORS)
        total = len(missing(facts, ""))
        kept = total - len(missing(facts, said))
        inside = folded(source)
        made_up = sorted({name for _, name in names_in(said) if not holds(inside, folded(name))})
        share = kept / total if total else 1.0
        right = share >= 0.5 and not made_up
        return {"said": said, "kept": round(share, 2), "made_up": made_up, "right": right}

    async def _ask(
        self,
        question: str,
        *,
        notes: Iterable[str] = (),
        after: Iterable[Message] = (),
        head: str = HEAD,
        purpose: str = "",
    ) -> tuple[str, str]:
        messages: list[Message] = [
            {"role": "system", "content": head},
            {"role": "user", "content": question},
        ]
        if notes:
            shown = "\n\n".join(
                f"[main #{at * 7} · turn {at}]\n{note}" for at, note in enumerate(notes, 1)
            )
            block = f'<data-0123456789abcdef origin="recall">\n{shown}\n</data-0123456789abcdef>'
            messages.append({"role": "user", "content": block})
        messages += after
        tools = () if purpose else tuple(schema(name) for name in TOOLS)
        asked = Request(model=self._model, messages=tuple(messages), tools=tools)
        return await self._heard(asked, purpose)

    async def _heard(self, asked: Request, purpose: str) -> tuple[str, str]:
        options = Options(max_tokens=220 if purpose else 120, timeout=PATIENCE, purpose=purpose)
        heard = await hear(self._provider, asked, options)
        usage = heard.finished.usage
        self._measured = {
            "prompt": usage.prompt,
            "cached": usage.cached,
            "completion": usage.completion or 0,
            "first": round(heard.first, 2),
            "seconds": round(heard.seconds, 2),
            "speed": round(heard.speed, 2),
        }
        return heard.said.strip(), heard.call


def schema(name: str) -> ToolSchema:
    return ToolSchema(name=name, description=name, parameters={"type": "object"})


def found(wanted: Sequence[str], said: str) -> bool:
    """Whether one of the wordings stands there; `a&b` wants both."""
    text = folded(said)
    return any(all(folded(part) in text for part in each.split("&")) for each in wanted)


def fits(wanted: dict[str, str], given: dict[str, Any]) -> bool:
    """Whether every argument that counts is the one that was asked for."""

    def plain(value: object) -> str:
        return " ".join(str(value).lower().strip(" ./\"'`").split())

    return all(
        plain(value) in plain(given.get(name, ""))
        if name in ("query", "pattern", "command")
        else plain(value) == plain(given.get(name, ""))
        for name, value in wanted.items()
    )


def report(model: str, results: Sequence[dict[str, Any]]) -> str:
    """The figures, kind by kind."""
    lines = [f"{model}: {len(results)} cases"]
    for kind in dict.fromkeys(each["kind"] for each in results):
        of = [each for each in results if each["kind"] == kind]
        right = sum(each["right"] for each in of)
        share = 100 * right / len(of)
        mark = f"  (mark {MARKS[kind]} %)" if kind in MARKS else ""
        extra = ""
        if kind == "tool":
            extra = f"; tool alone {sum(each['tool_right'] for each in of)}"
        if kind == "summary":
            kept = statistics.mean(each["kept"] for each in of)
            extra = f"; facts kept {kept:.0%}, summaries with invented names "
            extra += str(sum(bool(each["made_up"]) for each in of))
        lines.append(f"  {kind:8} {right:3} of {len(of):3} = {share:5.1f} %{mark}{extra}")
    speeds = [each["speed"] for each in results if each["speed"]]
    firsts = [each["first"] for each in results]
    if speeds:
        lines.append(
            f"  {statistics.median(speeds):.1f} tokens/s, first token after "
            f"{statistics.median(firsts):.1f} s (medians), memory "
            f"{max(each['memory'] for each in results) / 1e6:.0f} MB"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
