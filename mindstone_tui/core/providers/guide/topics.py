"""What the guide knows about the product, a few lines a topic.

The words on the screen, and every number, come from the glossary of the settings in force.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mindstone_tui.core.config.glossary import Term
from mindstone_tui.core.entries import Part
from mindstone_tui.core.patterns import pattern_of


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
            "pointer. Ask me about any word you see on the screen, or about recall, memory, tools "
            "and models."
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
            "**Models**: F5 lists the models you can use now; `/key` stores an API key for a "
            "provider and tries it at once, `/fetch` downloads a language model that runs "
            "offline. A local Ollama model is `/model ollama/…`. Outside the app: "
            "`mindstone models`, `mindstone models key PROVIDER`, `mindstone models list`. "
            "`/model local/guide` comes back to me."
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
        about=r"replay\w*",
        text=(
            "**Replay** rebuilds every request that was ever sent and proves it by hash: "
            "`mindstone replay --all --check`. `mindstone replay` plays a session again."
        ),
    ),
    Topic(
        name="undo",
        about=r"undo\w*|redo|diff|rewind\w*|fork\w*",
        text=(
            "**Undo**: `/undo` takes back what the last turn did to files, byte for byte; `/diff` "
            "shows it, `/redo` does it again. Of the conversation, `/rewind turn 7` goes back "
            "without deleting anything, and `/fork` starts a second session from here."
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
    "Hello! I am the guide that is built into MindStone: a small program, **not a language "
    "model**. I cannot think, write or code. I can\n\n"
    "- explain any word you see on this screen: “what is prune?”, “what does anchored mean?”;\n"
    "- quote what was said in this session, with its source: just ask;\n"
    "- run simple requests: `read README.md`, `list src`, `grep TODO`, `run ls`.\n\n"
    "For a real conversation choose a model with F5, or store an API key with `/key`. Everything "
    "said here stays. Outside the app, `mindstone models` lists them."
)

COURTESIES: Final = (
    (r"(?:many )?thanks?(?: you)?|thx|cheers|great|nice|perfect|cool", "You are welcome."),
    (r"bye|goodbye|see you|good night", "Goodbye. Everything is saved; I will be here."),
    (r"ok(?:ay)?|yes|no|sure|fine|right|hm+|i see|got it", "All right."),
)
"""What is said out of politeness, and what is said back."""

BEYOND: Final = (
    "That takes a language model, and I am only the guide: I explain, quote and run simple tools. "
    "F5 chooses a model, `/key` stores an API key (or `mindstone models`); everything said here "
    "stays."
)
_WORK: Final = pattern_of(
    r"\A\s*(?:please\s+|can you\s+|could you\s+|would you\s+|i (?:want|need) you to\s+|let'?s\s+)?"
    r"(?:fix|write|implement|add|create|make|refactor|delete|remove|translate|summari[sz]e|generate"
    r"|draw|build|update|change|rewrite|improve|optimi[sz]e|debug|test|install|compare|review"
    r"|analy[sz]e|design|plan|compute|calculate|solve|tell me an? (?:joke|story|poem))\b",
    re.IGNORECASE,
)
_EXPLAIN: Final = pattern_of(
    r"\A\s*(?:and\s+|so\s+|please\s+)?"
    r"(?:what(?:'s| is| are| does| do| means)|how (?:do|does|can|to|are|is|would)"
    r"|where (?:do|does|can|is|are)|why (?:do|does|is|are)|explain|help(?: me)?(?: with)?"
    r"|tell me (?:about|how|what)|which|meaning of|why\b|can (?:i|you)|describe|add)\b",
    re.IGNORECASE,
)
_PAST: Final = pattern_of(
    r"\b(?:did|was|were|said|told|my|our|we|us|yesterday|earlier|ago|last|mentioned|decided?)\b",
    re.IGNORECASE,
)
_HELLO: Final = pattern_of(
    r"(?:\W*\b(?:"
    r"hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|greetings|yo"
    r"|help(?: me)?(?: please)?"
    r"|(?:who|what) (?:exactly )?are you(?: really)?|who am i (?:talking|speaking) (?:to|with)"
    r"|what(?:'s| is) your name|introduce yourself|are you there|anybody (?:there|home)"
    r"|what (?:can|do|could) you do(?: for me)?|what are you (?:for|able to do)"
    r"|how (?:can|do) you (?:help|work)(?: me)?|(?:can|could) you help(?: me)?"
    r"|are you (?:an? )?(?:ai|llm|language model|human|bot|robot|chatgpt|claude|real)"
    r"|how are you(?: doing)?|what can i (?:do|ask|say)(?: (?:you|here))?"
    r"|where do i (?:start|begin)"
    r"|how do i (?:start|begin)|what now|test(?:ing)?|ping"
    r"|and|so|then|there|please|today|here|mindstone|guide|nice to meet you"
    r")\b)+\W*\Z",
    re.IGNORECASE,
)
_SCREEN: Final = pattern_of(
    r"\b(?:panel|screen|sidebar|right (?:side|hand)|status (?:line|bar)|every word|these words"
    r"|all the words|glossary)\b",
    re.IGNORECASE,
)


_OURS: Final = pattern_of(
    r"\bmindstone\b|\bthis (?:app|program|screen)\b|\b(?:status line|panel|sidebar)\b"
    r"|(?:\A|\s)/[a-z]+\b(?!/)|\bF(?:[1-9]|1[0-2])\b",
    re.IGNORECASE,
)


def names_mindstone(text: str) -> bool:
    """Whether a question is about this program: it names it, its screen, a key or a command."""
    return _OURS.search(text) is not None


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


def explanation(text: str, terms: Sequence[Term]) -> str | None:
    """What to say when the question is about the product; None when it is about anything else."""
    if not _EXPLAIN.match(text) or _PAST.search(text):
        return None
    if _SCREEN.search(text):
        return on_the_screen(terms)
    named = [
        *((_length(topic, text), topic.text) for topic in TOPICS),
        *((term.named_in(text), f"**{term.word.capitalize()}**: {term.text}") for term in terms),
    ]
    length, answer = max(named, key=lambda each: each[0])
    return answer if length else None


def on_the_screen(terms: Sequence[Term]) -> str:
    """Every word of the screen with what it means."""
    groups = dict.fromkeys(term.group for term in terms)
    parts = ["These are the words on the screen; `?` shows them in the app at any time."]
    for group in groups:
        rows = [f"- **{term.word}**: {term.text}" for term in terms if term.group == group]
        parts.append("\n".join([f"*{group}*", "", *rows]))
    return "\n\n".join(parts)


def _length(topic: Topic, text: str) -> int:
    found = re.search(rf"\b(?:{topic.about})\b", text, re.IGNORECASE)
    return len(found[0]) if found else 0
