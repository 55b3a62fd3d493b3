"""The planter of faults itself: it changes behaviour, one thing at a time, and nothing else."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import (
    NEAREST,
    drawn,
    equivalent,
    name_of,
    plant,
    source_of,
    time_without_a_fault,
)
from tests.mutants.apart import ROOT
from tests.mutants.mutate import mutants_of

SOURCE = '''
"""Module."""
LIMIT: Final[int] = 3
WIDTH: Final = 80

class Row(Struct, frozen=True):
    pairs = zip(LEFT, RIGHT, strict=True)

def first(names: list[str], most: int = LIMIT) -> list[str]:
    """At most so many."""
    if len(names) <= most and names:
        log(f"all {len(names) + 1}")
        return names
    return names[:most]
'''


def test_each_fault_is_one_change_of_behaviour() -> None:
    found = {f"{each.before} → {each.after}" for each in mutants_of(SOURCE)}
    assert found == {
        "3 → 4",
        "80 → 160",
        "len(names) <= most → len(names) < most",
        "len(names) <= most and names → len(names) <= most or names",
        "if len(names) <= most and names: → if not (len(names) <= most and names):",
        "log(f'all {len(names) + 1}') → pass",
        "return names → return None",
        "return names[:most] → return None",
        ":most → :",
    }


def test_a_planted_module_differs_from_its_source_and_is_still_python() -> None:
    whole = ast.unparse(ast.parse(SOURCE))
    for mutant in mutants_of(SOURCE):
        planted = ast.unparse(mutant.plant(SOURCE))
        assert planted != whole
        compile(planted, "planted", "exec")


@pytest.mark.thorough
def test_every_module_has_tests_near_it_and_enough_that_can_go_wrong() -> None:
    for module, tests in NEAREST.items():
        assert len(drawn(module, 60, seed=1)) == 60, module
        paths = [each.partition("::")[0] for each in tests.split()]
        assert all((ROOT / "tests" / path).exists() for path in paths)


def test_a_seed_draws_the_same_faults_every_time_and_another_seed_others() -> None:
    first, again, other = (
        [str(fault) for fault in drawn("core.context.plan", 5, seed)] for seed in (2, 2, 3)
    )
    assert first == again != other


def test_every_fault_that_is_named_as_none_can_still_be_planted_and_has_its_reason() -> None:
    for module, named in equivalent().items():
        source = source_of(module).read_text("utf-8")
        rows = source.splitlines()
        known = {name_of(each, rows) for each in mutants_of(source)}
        assert set(named) - known == set(), module
        assert all(named.values())


@pytest.mark.thorough
def test_a_fault_that_lost_entries_without_a_word_is_noticed_now() -> None:
    """After each write of several all that waits was forgotten, not only what was written."""
    module, tests = "core.transcript.writer", ["tests/core/transcript/test_writer_entries.py"]
    found = mutants_of(source_of(module).read_text("utf-8"))
    (fault,) = [each for each in found if each.before == ":len(batch)"]
    assert plant(module, fault, tests, seconds=120).noticed


@pytest.mark.thorough
def test_a_module_that_reads_a_file_beside_it_reads_it_with_a_fault_planted_too() -> None:
    tests = ["tests/core/recall/test_speak.py::test_any_text_has_an_intent"]
    assert time_without_a_fault("core.recall.speak", tests) > 0
