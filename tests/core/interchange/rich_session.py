"""A small session in which everything happens that an export must show."""

from __future__ import annotations

from pathlib import Path

from mindstone_tui.core.entries import Span
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    Thinking,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    Left,
    Measure,
    PromptPlanned,
    Receipt,
    WindowState,
    ZoneChanged,
)
from mindstone_tui.core.transcript import Transcript
from tests.builders import say, transcript_in, use_tool

ATTACK = "<script>alert(1)</script> <img src=x onerror=alert(2)> \x1b[31mred\x07 ‮evil"
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"


def rich_session(home: Path) -> Transcript:
    """Turns with tools, hostile text, a recall, a prune, zones and an interrupted end."""
    transcript = transcript_in(home)
    say(
        transcript,
        "Use *tabs*, never spaces.",
        "Noted:\n\n```python\nx = 1\n```\n\n| a | b |\n|--:|---|\n| 1 | 2 |",
    )
    use_tool(transcript, "Read the notes.", "\n".join(f"note {n}" for n in range(40)), "Read.")
    say(
        transcript,
        ATTACK,
        f"{ATTACK}\n\n![pic](https://tracker.example/x.png) [go](javascript:alert(3))",
    )
    _request(transcript, turn=3, share=0.4)
    transcript.append(
        ZoneChanged(before="green", after="red", utilization=0.93, tokens=93, usable=100), turn=3
    )
    _request(transcript, turn=3, share=0.93)
    transcript.append(
        ContextWindowPruned(
            left=(
                Left(
                    turn=1,
                    span=Span(1, 4),
                    tokens=50,
                    score=0.1,
                    reason="oldest",
                    receipt=Receipt(turn=1, passages=2),
                ),
            ),
            state=WindowState(through=12),
            tokens_before=93,
            tokens_after=43,
            policy="fifo",
            trigger="ceiling",
        ),
        turn=3,
    )
    turn = transcript.last_turn + 1
    transcript.append(TurnStarted(), turn=turn)
    transcript.append(UserMessage(text="Tabs or spaces?", name="Ada"), turn=turn)
    passage = RecalledPassage(
        session="agent:default:main",
        entry="x",
        seq=2,
        turn=1,
        ts="2026-01-01T00:00:02.000Z",
        speaker="user",
        score=0.83,
        tokens=5,
        text="Use *tabs*, never spaces.",
        superseded_by=4,
    )
    transcript.append(
        RecallInjected(query="Tabs or spaces?", passages=(passage,), text="…", tokens=9), turn=turn
    )
    transcript.append(
        AssistantMessage(text="Tabs.", model="test", thinking=(Thinking(text="Said in turn 1."),)),
        turn=turn,
    )
    transcript.append(AssistantPartial(text="And the key is " + SECRET, model="test"), turn=turn)
    transcript.append(TurnEnded(ending="interrupted", why="stopped"), turn=turn)
    return transcript


def _request(transcript: Transcript, *, turn: int, share: float) -> None:
    measure = Measure(tokens=int(share * 100), label="estimated", utilization=share)
    planned = PromptPlanned(call=1, model="test", at=-1, through=1, spans=(), measure=measure)
    transcript.append(planned, turn=turn)
