"""The indexer is killed at random moments: nothing it confirmed is lost, nothing is doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import apsw

from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.passages import Passage
from tests.core.recall.talk import WordModel, said

ROUNDS = 25 if os.environ.get("MINDSTONE_FAULTS") else 5
EXCHANGES = 400

CHILD = """
import sys
from pathlib import Path
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.store import IndexMark
from tests.core.recall.talk import WordModel
from tests.core.recall.test_index_crash import exchange

index = RecallIndex.open(Path(sys.argv[1]), WordModel())
for turn in range(max(index.mark.seq // 2, 1), int(sys.argv[2]) + 1):
    (receipt,) = index.ensure(exchange(turn), IndexMark(2 * turn, str(turn)))
    index.embed_pending(1)
    print(turn, receipt.digest, flush=True)
"""


def exchange(turn: int) -> list[Passage]:
    return [
        said(f"Question number {turn} about the lighthouse?", 2 * turn - 1),
        said(f"Answer number {turn}: it blinks.", 2 * turn, role="assistant"),
    ]


def test_a_killed_indexer_loses_nothing_it_confirmed_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    chance = random.Random(7)
    confirmed: dict[int, str] = {}
    for _ in range(ROUNDS):
        confirmed |= _killed_after(path, chance.randrange(1, 60))
        index = RecallIndex.open(path, WordModel())
        for turn, digest in confirmed.items():
            (receipt,) = index.receipts(exchange(turn))
            assert (receipt.passages, receipt.digest) == (2, digest)
        assert index.mark.seq >= 2 * max(confirmed)
        assert index.damaged is None
        index.close()
        _is_sound(path)


def _killed_after(path: Path, lines: int) -> dict[int, str]:
    """Let it go on from its mark, kill it after so many receipts, and return those."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(EXCHANGES)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        printed = [child.stdout.readline() for _ in range(lines)]
        os.kill(child.pid, signal.SIGKILL)
        printed += child.stdout.readlines()
    pairs = [line.split() for line in printed if line.endswith("\n")]
    return {int(turn): digest for turn, digest in pairs}


def _is_sound(path: Path) -> None:
    """No id twice, as many words as passages, a vector for each that says so, no damage."""
    opened = RecallIndex.open(path, WordModel())
    opened.close()
    database = apsw.Connection(str(path))
    ids = [row[0] for row in database.execute("select id from passages")]
    assert len(ids) == len(set(ids))
    assert database.pragma("quick_check") == "ok"
    (words,) = next(database.execute("select count(*) from words"))
    assert words == len(ids)
    (stored,) = next(database.execute("select count(*) from passages where vector = 1"))
    (kept,) = next(database.execute("select count(*) from signs"))
    assert stored == kept
    database.close()
