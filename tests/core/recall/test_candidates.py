"""What can be found by words alone, in any script; then the same questions by meaning too."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core.recall.index import RecallIndex
from tests.core.recall.talk import WordModel, said

SAID = {
    "error code": "The server died with EADDRINUSE when I started it twice.",
    "path": "The bug is in src/routes/api.ts:42, right after the guard.",
    "identifier": "Please rename getUserById to fetchAccount everywhere.",
    "snake case": "Set MAX_RETRY_COUNT to seven in the settings.",
    "number": "The invoice was 48213 euros in the end.",
    "date": "We meet the auditors on 2026-03-14 at noon.",
    "name": "Zbigniew takes over from Ottoline next week.",
    "chinese": "我们决定把数据库迁移到新的服务器上。",
    "japanese": "来週の会議は東京都で行われます。",
    "korean": "내일 회의는 부산에서 열립니다.",
    "arabic": "اجتماعنا القادم في القاهرة يوم الخميس.",
    "russian": "Мы переносим встречу на четверг в Казани.",
    "greek": "Η συνάντηση θα γίνει στη Θεσσαλονίκη.",
    "hindi": "अगली बैठक दिल्ली में होगी।",
    "thai": "การประชุมจะจัดขึ้นที่เชียงใหม่",
    "emoji": "The release is out 🎉 and nobody slept.",
    "code": "for (let i = 0; i < rows.length; i++) { total += rows[i].amountDue; }",
    "accent": "Dinner was at the Café Müller in Zürich.",
    "address": "Write to ops-team@example.org if it burns.",
    "version": "It broke with litellm 1.106.2 and works with 1.105.3.",
    "flag": "Run it with --no-verify-ssl just this once.",
    "hash": "The culprit is commit 9fceb02d0ae598e95dc970b74767f19372d61af8.",
}

ASKED = [
    ("error code", "EADDRINUSE"),
    ("error code", "eaddrinuse again?"),
    ("path", "src/routes/api.ts:42"),
    ("path", "api.ts"),
    ("path", "routes"),
    ("identifier", "getUserById"),
    ("identifier", "get user by id"),
    ("identifier", "fetch_account"),
    ("snake case", "max retry count"),
    ("snake case", "MAX_RETRY_COUNT"),
    ("number", "48213"),
    ("number", "48,213"),
    ("date", "2026-03-14"),
    ("name", "what about Zbigniew?"),
    ("name", "ottoline's"),
    ("chinese", "数据库"),
    ("chinese", "新服务器"),
    ("japanese", "東京の会議"),
    ("korean", "부산 회의"),
    ("arabic", "القاهرة"),
    ("russian", "ВСТРЕЧУ казани"),
    ("greek", "θεσσαλονικη"),
    ("hindi", "दिल्ली"),
    ("thai", "เชียงใหม่"),
    ("emoji", "🎉"),
    ("code", "amountDue"),
    ("code", "rows[i].amountDue"),
    ("accent", "cafe muller zurich"),
    ("address", "ops-team@example.org"),
    ("version", "1.105.3"),
    ("flag", "--no-verify-ssl"),
    ("flag", "verify ssl"),
    ("hash", "9fceb02d0ae598e95dc970b74767f19372d61af8"),
]


@pytest.fixture(scope="module")
def by_words(tmp_path_factory: pytest.TempPathFactory) -> RecallIndex:
    return _index(tmp_path_factory.mktemp("words") / "index.db", None)


@pytest.fixture(scope="module")
def by_both(tmp_path_factory: pytest.TempPathFactory) -> RecallIndex:
    return _index(tmp_path_factory.mktemp("both") / "index.db", WordModel())


def _index(path: Path, model: WordModel | None) -> RecallIndex:
    index = RecallIndex.open(path, model)
    index.ensure(said(text, seq, source_id=name) for seq, (name, text) in enumerate(SAID.items()))
    while model is not None and index.embed_pending():
        pass
    return index


@pytest.mark.parametrize(("name", "question"), ASKED)
def test_it_is_found_by_words_alone(by_words: RecallIndex, name: str, question: str) -> None:
    found = by_words.search(question, 3)
    assert [hit.passage.source_id for hit in found.hits][:1] == [name]
    assert not found.vectors


@pytest.mark.parametrize(("name", "question"), ASKED)
def test_it_is_found_with_vectors_too(by_both: RecallIndex, name: str, question: str) -> None:
    found = by_both.search(question, 3)
    assert name in [hit.passage.source_id for hit in found.hits]
    assert found.vectors


@pytest.mark.parametrize(
    "question", ['"', "a OR b", "NEAR(", "words:*", "'; drop table words; --", "\0", "*", "((", "-"]
)
def test_no_question_is_taken_for_a_query_language(by_words: RecallIndex, question: str) -> None:
    by_words.search(question, 3)
    assert len(by_words) == len(SAID)
