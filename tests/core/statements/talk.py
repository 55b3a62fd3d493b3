"""Short conversations for the tests of this room."""

from __future__ import annotations

from pathlib import Path

from mindstone_tui.core.statements.recogniser import recognise
from mindstone_tui.core.statements.register import Register, settle
from mindstone_tui.core.statements.statement import Statement, Utterance

EVERYDAY = (
    "Good morning!",
    "My name is Ada and I live near the harbour.",
    "I had pasta for lunch.",
    "The build took nine minutes today.",
    "What does this function return?",
    "I want a haiku about ports.",
    "That looks great, thank you.",
    "The cat sat on the keyboard again.",
    "Here is the log from last night.",
    "It still fails with the same message.",
)


def labelled() -> list[tuple[str, str]]:
    """Sentences of our own with the kind that a reader gave them; none is a kind too."""
    text = Path(__file__).with_name("labelled.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [(kind, sentence) for kind, sentence in rows]


def told(*said: str) -> list[Utterance]:
    """Messages in order, one a line; `assistant: ` and `tool: ` say who else spoke."""
    found = []
    for line, text in enumerate(said, 1):
        who, separator, words = text.partition(": ")
        if separator and who == "assistant":
            found.append(Utterance(speaker="assistant", text=words, line=line))
        elif separator and who == "tool":
            found.append(Utterance(speaker="tool", text=words, line=line))
        else:
            found.append(Utterance(speaker="user", text=text, line=line))
    return found


def settled(*said: str) -> Register:
    """What holds after these messages."""
    return settle(told(*said))


def standing(*said: str) -> list[str]:
    """The words that hold after these messages."""
    return [one.words for one in settled(*said).standing]


def found_in(text: str) -> tuple[Statement, ...]:
    """What a person's message settles."""
    return recognise(Utterance(speaker="user", text=text, line=1))
