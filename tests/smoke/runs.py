"""The three runs: the window in numbers, the window sliding, one session from everywhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.smoke.show import Show

WINDOW = "8192"
ASKED = "Which port number should the staging server listen on?"


def context_window(home: Path) -> None:
    """Numbers that add up while the window fills, through every zone."""
    show = Show("context window", home)
    model = show.script("filling", [{"text": _words(340, "answer")}, {"loop": True}])
    zones = []
    for turn in range(1, 8):
        show.run("run", _words(300, f"topic{turn}"), "-m", model, "--context-window", WINDOW)
        report = show.json("context", "--context-window", WINDOW, "-m", model)
        show.gauge(report)
        parts = [one for one in report["components"] if one["name"] != "output_reserve"]
        if sum(one["tokens"] for one in parts) != report["prompt"]["tokens"]:
            show.check("the parts add up to the prompt", False)
        zones.append(report["zone"])
    show.check("the parts add up to the prompt, every time", True)
    show.check("it went from green to a warmer zone", zones[0] == "green" and zones[-1] != "green")
    show.check("the window never ran over", report["utilization"] <= 1.0)
    show.check("the word of the zone is printed", report["zone"].upper() in show.run("context"))


def sliding_window(home: Path) -> None:
    """An early correction leaves the window, stays in history, and comes back when it is asked."""
    show = Show("sliding window", home)
    model = show.script("sliding", [{"text": _words(280, "detail")}, {"loop": True}])
    options = ("-m", model, "--context-window", WINDOW)
    show.run("run", "Help me to set up the lighthouse service.", *options)
    show.say("> No: the staging port is 8790, never 8765.")
    show.run("run", "No: the staging port is 8790, never 8765.", *options)
    early = show.transcript()
    for turn in range(3, 15):
        show.run("run", _words(200, f"matter{turn}"), *options)
        report = show.json("context", *options)
        show.gauge(report)
    show.check("whole exchanges left the window", report["outside"]["exchanges"] > 0)
    show.check("all of them were indexed first", report["outside"]["indexed"])
    show.check("not a byte of history changed", show.transcript().startswith(early))
    show.say("the meaning of what left is indexed; then it is asked for")
    show.run("reindex")
    heard = [json.loads(line) for line in show.run("run", ASKED, *options, "--json").splitlines()]
    recalled = [each for event in heard for each in event.get("passages", ())]
    for passage in recalled:
        show.say(f"↩ {passage['score']:.2f} turn {passage['turn']}: {passage['text'][:60]}")
    back = [each for each in recalled if "8790" in each["text"]]
    show.check("the correction came back, with its source", bool(back) and back[0]["turn"] == 2)
    show.check("history is whole", show.json("verify")["ok"])
    proof = show.json("replay", "--all", "--check")
    show.check(
        f"{proof['matched']} of {proof['requests']} requests rebuilt byte for byte",
        proof["requests"] == proof["matched"] > 14,
    )


def unified_session(home: Path) -> None:
    """One transcript, whoever writes to it: a turn, a pipe, an import; no surface has its own."""
    show = Show("unified session", home)
    model = show.script("unified", [{"text": "Understood."}, {"loop": True}])
    show.run("run", "From the command line.", "-m", model)
    show.run("chat", "--plain", "-m", model, stdin="From a pipe.\n")
    messages = home.parent / "messages.jsonl"
    messages.write_text(
        '{"role":"user","content":"From another program.","id":"a1"}\n'
        '{"role":"assistant","content":"Taken over.","id":"a2"}\n'
    )
    show.run("import", str(messages), "--session", "agent:default:main", "--no-wait")
    show.run("run", "And the command line again.", "-m", model, "--session", "mindstone")
    lines = [json.loads(line) for line in show.transcript().splitlines()]
    channels = Counter(line["channel"] for line in lines if line["role"] in ("user", "assistant"))
    for line in lines:
        if line["role"] == "user":
            show.say(f"#{line['seq']:<3} turn {line['turn']}  {line['channel']:6} {line['text']}")
    show.check("all of it is in one session", len(show.json("sessions")["sessions"]) == 1)
    show.check(f"{len(channels)} surfaces wrote to it", set(channels) == {"run", "cli", "import"})
    numbers = [line["seq"] for line in lines]
    show.check("in one order, without a gap", numbers == list(range(len(lines))))
    show.check("one chain of hashes", show.json("verify")["ok"])


RUNS = {
    "context-window": context_window,
    "sliding-window": sliding_window,
    "unified-session": unified_session,
}


def _words(tokens: int, tag: str) -> str:
    unit = f"{tag} stone number {len(tag)} rolls on. "
    return (unit * (tokens * 4 // len(unit) + 1))[: tokens * 4]
