"""What the guide knows about the product, a few lines a topic."""

from __future__ import annotations

import re
from typing import Final

from mindstone_tui.core.entries import Part


class Topic(Part):
    """One thing that can be explained."""

    name: str
    about: str
    """Regular expression of the words that mean it."""
    text: str


TOPICS: Final = (
    Topic(
        name="MindStone",
        about=r"mindstone|this (?:program|app|tool|thing)",
        text=(
            "**MindStone** is a terminal agent whose memory can be trusted: all that is said or "
            "done is one line in an append-only transcript, and what the model sees next is a "
            "bounded window computed from it. What leaves the window can be found again, with a "
            "pointer. Ask me about zones, pins, pruning, recall, memory, tools or models."
        ),
    ),
    Topic(
        name="zones",
        about=r"zones?|green|yellow|orange|red zone",
        text=(
            "**Zones** say how full the model's window is: green, yellow from 50 %, orange from "
            "75 %, red from 90 % of the usable room (earlier in small windows, later in very large "
            "ones). They only inform. What acts are the marks: at 75 % older tool results are "
            "trimmed, at 85 % a checkpoint is saved, at 92 % whole exchanges leave until 70 % is "
            "reached. `/context` shows where you are."
        ),
    ),
    Topic(
        name="pinning",
        about=r"pin|pins|pinned|pinning|unpin",
        text=(
            "**Pinning** keeps an exchange in the window whatever the pressure: `/pin` pins the "
            "latest one, `/pin 12` pins turn 12, `/unpin 12` lets it go. Pins have a budget "
            "(10 % of the usable room by default) and you are warned when they take more."
        ),
    ),
    Topic(
        name="pruning",
        about=r"prun\w+|evict\w*|ceiling|floor|leaves? the window|forget\w*|trim\w*",
        text=(
            "**Pruning**: when the window passes its ceiling (92 %), the oldest whole exchanges "
            "leave until the floor (70 %), but only after each was found again in the recall "
            "index. Nothing is deleted: the transcript keeps every word. `/context` lists what "
            "left, `/restore` brings an exchange back, `/recall` searches."
        ),
    ),
    Topic(
        name="recall",
        about=r"recall\w*|search\w* history|find (?:old|earlier) \w+",
        text=(
            "**Recall** finds what was said before, by words and by meaning, offline. It runs once "
            "a turn by itself and stays silent when nothing fits; `/recall your question` asks it "
            "directly, `/recall why` shows the scores. Each hit carries a pointer to its entry."
        ),
    ),
    Topic(
        name="models",
        about=(
            r"models?|llm|(?:api )?keys?|provider|ollama|openai|anthropic|claude|gpt\S*|smollm2?"
        ),
        text=(
            "**Models**: `mindstone models` lists what is usable now, and why the rest is not. "
            "A hosted one needs a key in the environment (say `ANTHROPIC_API_KEY`) or in "
            "MindStone's own key file, then `/model anthropic/…`. A local Ollama model is "
            "`/model ollama/…`. `mindstone models add smollm2` fetches a tiny real language model "
            "(98 MB) that runs offline. `/model local/guide` comes back to me."
        ),
    ),
    Topic(
        name="the context window",
        about=r"context(?: window| panel)?|window|tokens?|utili[sz]ation|budget",
        text=(
            "**The window** is what the model sees next; the transcript is everything that ever "
            "happened. The window is computed from the transcript and kept between a floor and a "
            "ceiling. `/context` shows how full it is and what takes the room; each figure says "
            "whether it was measured, anchored, estimated or assumed."
        ),
    ),
    Topic(
        name="the transcript",
        about=r"transcript|history|saved|stored|jsonl|verify|where (?:is|are) the (?:data|files?)",
        text=(
            "**The transcript** is an append-only JSONL file, one line an event, each line chained "
            "to the one before by its hash. Nothing in it is ever rewritten. `mindstone log` reads "
            "it, `mindstone verify` checks it, `mindstone export` makes a page of it."
        ),
    ),
    Topic(
        name="memory",
        about=r"memor(?:y|ies)|remember\w*|notes?",
        text=(
            "**Memory** is by consent: “remember that …” proposes an entry with its source, you "
            "see it and approve or refuse it, and it can be undone. `/memory` lists what is kept. "
            "“note: …” writes a note for the task at hand."
        ),
    ),
    Topic(
        name="checkpoints and handoffs",
        about=r"checkpoints?|handoffs?|resum\w+|tasks?",
        text=(
            "**Checkpoints and handoffs** carry a task over: goal, open work, decisions with "
            "pointers, verbatim. One is saved by itself at 85 %; `/checkpoint` and `/handoff` save "
            "one now. A handoff that is stale or was edited is refused, not guessed at."
        ),
    ),
    Topic(
        name="tools and approval",
        about=r"tools?|approv\w+|sandbox|permissions?|shell",
        text=(
            "**Tools** ask before they run: you see exactly what will run and allow it once, for "
            "the session, or not at all. `/approve` changes how much is asked, `/tools` lists "
            "them. Try `read README.md`, `list src`, `grep TODO` or `run ls`."
        ),
    ),
    Topic(
        name="replay",
        about=r"replay\w*|undo|rewind|fork",
        text=(
            "**Replay** rebuilds every request that was ever sent and proves it by hash: "
            "`mindstone replay --all --check`. `/rewind` goes back without deleting anything, "
            "`/fork` starts a second line from here."
        ),
    ),
    Topic(
        name="privacy",
        about=r"privacy|private|offline|network|telemetry|secret\w*|online",
        text=(
            "**Privacy**: with a local model nothing connects anywhere. There is no telemetry. "
            "Secrets are blacked out before a line is written, keys never reach the transcript, "
            "the log or a child process."
        ),
    ),
)

GREETING: Final = (
    "Hello! I am the guide built into MindStone: a small program, **not a language model**. "
    "I can\n\n"
    "- quote what was said in this session, with pointers: just ask;\n"
    "- run simple wishes: `read README.md`, `list src`, `grep TODO`, `run ls`;\n"
    "- explain how MindStone works: “what are zones?”, “how do I pin?”.\n\n"
    "For a real conversation, add a model: `mindstone models` shows what is usable now, "
    "`mindstone models add smollm2` fetches a tiny one that works offline."
)

COURTESIES: Final = (
    (r"(?:many )?thanks?(?: you)?|thx|cheers|great|nice|perfect|cool", "You are welcome."),
    (r"bye|goodbye|see you|good night", "Goodbye. Everything is saved; I will be here."),
    (r"ok(?:ay)?|yes|no|sure|fine|right|hm+|i see|got it", "All right."),
)
"""What is said out of politeness, and what is said back."""

BEYOND: Final = (
    "That takes a language model, and I am only the guide: I quote, explain and run simple tools. "
    "`mindstone models` shows what is usable now; `/model NAME` switches, and everything said here "
    "stays."
)
_WORK: Final = re.compile(
    r"\A\s*(?:please\s+|can you\s+|could you\s+|would you\s+|i (?:want|need) you to\s+|let'?s\s+)?"
    r"(?:fix|write|implement|add|create|make|refactor|delete|remove|translate|summari[sz]e|generate"
    r"|draw|build|update|change|rewrite|improve|optimi[sz]e|debug|test|install|compare|review"
    r"|analy[sz]e|design|plan|compute|calculate|solve|tell me an? (?:joke|story|poem))\b",
    re.IGNORECASE,
)
_EXPLAIN: Final = re.compile(
    r"\A\s*(?:and\s+|so\s+|please\s+)?"
    r"(?:what(?:'s| is| are| does)|how (?:do|does|can|to|are|is|would)"
    r"|where (?:do|does|can|is|are)|why (?:do|does|is|are)|explain|help(?: me)?(?: with)?"
    r"|tell me (?:about|how)|can (?:i|you)|describe|add)\b",
    re.IGNORECASE,
)
_PAST: Final = re.compile(
    r"\b(?:did|was|were|said|told|my|our|we|us|yesterday|earlier|ago|last|mentioned|decided?)\b",
    re.IGNORECASE,
)
_HELLO: Final = re.compile(
    r"\A\W*(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|greetings|yo|help|"
    r"(?:who|what) are you|what can you do|"
    r"are you (?:an? )?(?:ai|llm|language model|human|bot|real)"
    r"|how are you|what can i do(?: here)?|test(?:ing)?|ping)\b(?:\W+\w+){0,2}\W*\Z",
    re.IGNORECASE,
)


def is_greeting(text: str) -> bool:
    """Whether somebody says hello or asks who answers."""
    return not text.strip() or _HELLO.match(text) is not None


def courtesy(text: str) -> str | None:
    """What to say to a mere politeness; None when it is more than that."""
    for said, reply in COURTESIES:
        if re.fullmatch(
            rf"\W*(?:{said})(?:\W+(?:you|a lot|so much|then))?\W*", text, re.IGNORECASE
        ):
            return reply
    return None


def is_work(text: str) -> bool:
    """Whether somebody wants a thing done that only a language model can do."""
    return _WORK.match(text) is not None


def explanation(text: str) -> str | None:
    """What to say when the question is about the product; None when it is about anything else."""
    if not _EXPLAIN.match(text) or _PAST.search(text):
        return None
    best = max(
        ((len(found[0]), -at) for at, topic in enumerate(TOPICS) if (found := _find(topic, text))),
        default=None,
    )
    return TOPICS[-best[1]].text if best else None


def _find(topic: Topic, text: str) -> re.Match[str] | None:
    return re.search(rf"\b(?:{topic.about})\b", text, re.IGNORECASE)
