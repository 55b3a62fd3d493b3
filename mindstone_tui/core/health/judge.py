"""A model as judge of what a shorter text still knows. Strictly read; unmeasured when in doubt.

Questions are asked of the whole originals, never of their first characters. What the originals
themselves do not answer is left out instead of being counted as agreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mindstone_tui.core.bounded_json import read_as
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context import prompts
from mindstone_tui.core.context.summary_call import Ask, ask_model, asked_about
from mindstone_tui.core.entries import Part

QUESTIONS: Final = 12
LEAST: Final = 3
"""Answerable questions below which no number is given."""
UNANSWERABLE: Final = "UNANSWERABLE"


class Judged(Part, omit_defaults=False):
    """How many answers survived; the score is None when nothing was measured."""

    score: float | None
    consistent: int = 0
    judged: int = 0
    excluded: int = 0
    """Questions that the originals do not answer."""
    why: str = ""
    prompt_versions: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The number in words."""
        if self.score is None:
            return f"Unmeasured: {self.why.rstrip('.')}."
        return (
            f"{self.consistent} of {self.judged} answers survive in the summary "
            f"({self.score:.0%}); {self.excluded} questions were left out."
        )


class _Unmeasured(Exception):
    """A model's answer cannot be used; says why."""


async def judge(
    ask: Ask,
    original: str,
    shorter: str,
    *,
    questions: int = QUESTIONS,
    within: float = ModelSettings().timeout,
) -> Judged:
    """Ask about the original, answer from both texts, and compare: four calls in all."""
    versions = tuple(
        prompts.load(name).version
        for name in ("judge_questions", "judge_answers", "judge_verdicts")
    )
    try:
        asked = await _list(
            ask, prompts.load("judge_questions").fill(count=questions), original, None, within
        )
        right = await _answers(ask, asked, original, within)
        kept = [n for n, answer in enumerate(right) if not _unanswerable(answer)]
        excluded = len(asked) - len(kept)
        if len(kept) < LEAST:
            raise _Unmeasured(f"the originals answer only {len(kept)} of the questions")
        asked, right = [asked[n] for n in kept], [right[n] for n in kept]
        given = await _answers(ask, asked, shorter, within)
        verdicts = await _verdicts(ask, asked, right, given, within)
    except _Unmeasured as why:
        return Judged(score=None, why=str(why), prompt_versions=versions)
    consistent = sum(
        verdict == "YES" and not _unanswerable(answer)
        for verdict, answer in zip(verdicts, given, strict=True)
    )
    return Judged(
        score=consistent / len(asked),
        consistent=consistent,
        judged=len(asked),
        excluded=excluded,
        prompt_versions=versions,
    )


async def _answers(ask: Ask, asked: Sequence[str], text: str, within: float) -> list[str]:
    numbered = "\n".join(f"{n}. {question}" for n, question in enumerate(asked, 1))
    prompt = prompts.load("judge_answers").fill(questions=numbered)
    return await _list(ask, prompt, text, len(asked), within)


async def _verdicts(
    ask: Ask, asked: Sequence[str], right: Sequence[str], given: Sequence[str], within: float
) -> list[str]:
    rows = [
        {"question": question, "first": first, "second": second}
        for question, first, second in zip(asked, right, given, strict=True)
    ]
    text = msgspec.json.encode(rows).decode()
    said = await _list(ask, prompts.load("judge_verdicts").text, text, len(asked), within)
    if any(verdict not in ("YES", "NO") for verdict in said):
        raise _Unmeasured("a verdict is neither YES nor NO")
    return said


async def _list(ask: Ask, prompt: str, text: str, length: int | None, within: float) -> list[str]:
    """An answer that is exactly a JSON array of that many strings."""
    messages = asked_about(text, prompt, origin="originals")
    reply = await ask_model(ask, "judge", messages, within=within)
    if reply.objection:
        raise _Unmeasured(reply.objection)
    try:
        said = read_as(reply.text, list[str])
    except msgspec.DecodeError as error:
        raise _Unmeasured(f"the answer is no list of texts: {error}") from error
    if not said or (length is not None and len(said) != length):
        raise _Unmeasured(f"{len(said)} answers came back where {length or 'some'} were asked for")
    return said


def _unanswerable(answer: str) -> bool:
    return answer.strip().rstrip(".").upper() == UNANSWERABLE
