from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from mindstone_tui.core.language.languages import ENGLISH, is_english, language_of

CORPORA = Path(__file__).parents[2] / "corpora"


def _lines(name: str) -> list[list[str]]:
    text = (CORPORA / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


def test_messages_and_questions_are_told_apart_even_when_they_are_short() -> None:
    said = [(row[0], text) for row in _lines("languages.tsv") for text in row[2:] if text]
    wrong = [(name, language_of(text), text) for name, text in said if language_of(text) != name]
    assert len(wrong) <= 0.02 * len(said), wrong


def test_what_people_say_to_agents_in_english_is_english() -> None:
    assert [row for row in _lines("said_to_agents.tsv") if not is_english(row[-1])] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "6543",
        "Müller and José moved the façade code to naïve_bayes.py.",
        "She said “danke schön” and left the café.",
        "rename 名前 to name in the model",
        "def update(self, les, par):\n    return self.le.un(par)",
        "see ya, take care!",
        "npm install --save-dev jest && git push origin main",
        "The process will die if the men do not come on time.",
        "https://example.com/de/ist/nicht/hier.html",
    ],
)
def test_a_name_a_quotation_or_code_does_not_make_a_text_foreign(text: str) -> None:
    assert language_of(text) == "en"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Коли прийде лист від її сестри?", "uk"),
        ("Πότε φεύγει το πλοίο;", "el"),
        ("متی می‌آیی؟ کتاب را پیدا کردم", "fa"),
        ("איפה הספר שלי?", "he"),
        ("मेरी किताब कहाँ है?", "hi"),
        ("Var ligger nyckeln till huset?", "sv"),
        ("Kde je klíč od domu a kdo ho má?", "cs"),
        ("Chìa khóa của tôi ở đâu?", "vi"),
        ("Kapan kita pergi ke rumah mereka?", "id"),
        ("我们决定不用 Kubernetes，因为 team 太小了", "zh"),
        ("გამარჯობა მსოფლიო", "und"),
    ],
)
def test_other_scripts_and_small_words_tell_the_language(text: str, name: str) -> None:
    assert language_of(text) == name


def test_what_has_no_words_is_in_no_other_language() -> None:
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(4_000)]
    for _ in range(200):
        code = base64.b64encode(chance.randbytes(600)).decode()
        assert language_of(code) == ENGLISH
        assert language_of(f"de {code[:200]} la") == ENGLISH
        assert language_of(" ".join(chance.choices(words, k=150))) == ENGLISH
