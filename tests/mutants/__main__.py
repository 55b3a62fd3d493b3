"""Plant faults in the modules that carry the laws, and see whether the nearest tests notice.

    python -m tests.mutants                     60 faults in each module, drawn with seed 1
    python -m tests.mutants context.fold -n 20 --seed 7

Nothing on disk is changed: a process of its own takes the module with the fault in it, runs the
tests that stand nearest and stops at the first that fails. A fault that no test notices is printed;
one that changes nothing anybody could see is named in `equivalent.toml` with the reason and does
not count. Exit code 1 when fewer than four in five are noticed in some module.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutants.apart import CUSTOMIZE, ROOT, run_tests
from tests.mutants.mutate import Mutant, mutants_of

ENOUGH: Final = 0.8
"""Share of the planted faults that the nearest tests must notice."""
LONGEST: Final = 6.0
"""How many times as long as without a fault the tests may take; one that never ends was noticed."""

NEAREST: Final = {
    "core.entries.standings": "core/test_standings.py",
    "core.language.replacement": "core/language/test_replacement.py",
    "core.rules.checks": "core/rules/test_evasions.py core/rules/test_grammar.py",
    "core.rules.grammar": "core/rules/test_evasions.py core/rules/test_grammar.py",
    "core.transcript.writer": "core/transcript/test_writer_entries.py core/test_transcript.py",
    "core.transcript.reader": "core/transcript/test_reader.py core/transcript/test_reader_lines.py "
    "core/transcript/test_reader_offsets.py core/test_transcript.py",
    "core.transcript.verify": "core/transcript/test_verify.py faults/test_tampering.py",
    "core.context.fold": "core/context/test_fold.py",
    "core.context.prune": "core/context/test_prune.py"
    " core/context/test_spikes.py::test_a_turn_of_a_dozen_reads_takes_nobody_s_words"
    " core/context/test_spikes.py"
    "::test_a_window_that_fills_evenly_changes_before_one_request_in_twelve_at_most"
    " core/context/test_spikes.py::test_what_was_read_again_gives_way_before_what_was_read_once"
    " core/context/test_spikes.py::test_of_what_was_read_once_the_largest_gives_way_first"
    " core/context/test_spikes.py"
    "::test_results_of_earlier_turns_and_of_this_one_spare_the_words_together"
    " core/context/test_spikes.py::test_room_for_open_work_is_made_between_its_steps"
    " core/context/test_spikes.py"
    "::test_within_a_turn_room_for_open_work_is_made_where_the_list_is_written",
    "core.context.policies": "core/context/test_policies.py",
    "core.context.plan": "core/context/test_plan.py core/context/test_plan_lines.py",
    "core.recall.ranking": "core/recall/test_ranking.py",
    "core.recall.speak": "core/recall/test_speak.py",
    "core.statements.recogniser": "core/statements/test_recogniser.py",
    "core.handoff.checkpoint": "core/handoff/test_checkpoint_state.py "
    "core/handoff/test_checkpoint.py",
    "core.interchange.attach": "core/interchange/test_attach.py",
    "core.undo.restore": "core/undo/test_restore.py core/undo/test_laws.py",
    "core.providers.direct": "core/providers/test_direct_streams.py",
    "core.tools.shell_rules": "core/tools/test_shell_rules.py core/tools/test_approvals.py",
    "servers.gateway": "servers/test_gateway_turns.py",
}
"""Each module that carries a law, and the tests that stand nearest to it."""


class Outcome(NamedTuple):
    mutant: Mutant
    noticed: bool
    by: str
    """The test that failed, or how the run ended."""


def source_of(module: str) -> Path:
    """The file of a module that is named without the package."""
    return ROOT / "mindstone_tui" / Path(*module.split(".")).with_suffix(".py")


def drawn(module: str, count: int, seed: int) -> list[Mutant]:
    """So many faults of a module; the same ones for the same seed and source."""
    known = equivalent().get(module, {})
    source = source_of(module).read_text("utf-8")
    rows = source.splitlines()
    every = [each for each in mutants_of(source) if name_of(each, rows) not in known]
    return random.Random(f"{module} {seed}").sample(every, min(count, len(every)))


def name_of(mutant: Mutant, rows: list[str]) -> str:
    """A fault by the line it stands in and by what it changes: `x = 3 | 3 → 4`."""
    return f"{rows[mutant.line - 1].strip()} | {mutant.before} → {mutant.after}"


def equivalent() -> dict[str, dict[str, str]]:
    """Faults that change nothing anybody could see, by module and name, each with its reason."""
    return tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text("utf-8"))


def plant(module: str, mutant: Mutant, tests: list[str], seconds: float) -> Outcome:
    """Run the tests with one fault planted."""
    done = _run(
        module, ast.unparse(mutant.plant(source_of(module).read_text("utf-8"))), tests, seconds
    )
    if done is None:
        return Outcome(mutant, True, "never ended")
    code, said = done
    failed = [row for row in said.splitlines() if row.startswith(("FAILED", "ERROR"))]
    return Outcome(mutant, code != 0, failed[0] if failed else f"exit {code}")


def time_without_a_fault(module: str, tests: list[str]) -> float:
    """How long the tests take, which must pass; the module is taken the way a fault is planted."""
    began = time.monotonic()
    whole = ast.unparse(ast.parse(source_of(module).read_text("utf-8")))
    done = _run(module, whole, tests, 3_600)
    if done is None or done[0] != 0:
        raise SystemExit(f"The tests of {module} fail without a fault:\n{done and done[1]}")
    return time.monotonic() - began


def _run(module: str, source: str, tests: list[str], seconds: float) -> tuple[int, str] | None:
    """The tests with a module's source in the place of its own: how they ended and what they said.

    None when they never ended. Each run is a process that has loaded nothing of ours yet.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        changed, said = Path(folder) / "changed.py", Path(folder) / "said"
        changed.write_text(source, "utf-8")
        (Path(folder) / "sitecustomize.py").write_text(CUSTOMIZE, "utf-8")
        environ = {
            "PYTHONPATH": os.pathsep.join([folder, str(ROOT)]),
            "MUTANT_MODULE": f"mindstone_tui.{module}",
            "MUTANT_SOURCE": str(changed),
            "MUTANT_FILE": str(source_of(module)),
            "HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}/hypothesis",
            "TMPDIR": folder,
        }
        process = _PROCESSES.Process(target=run_tests, args=(environ, tests, said))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return None
        return process.exitcode, said.read_text("utf-8", "replace")


_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["hypothesis", "httpx", "numpy", "tests.mutants.apart"])


def report(module: str, outcomes: Iterable[Outcome]) -> bool:
    """Print what nobody notices as it comes, and whether enough was noticed."""
    drawn = noticed = 0
    for outcome in outcomes:
        drawn += 1
        noticed += outcome.noticed
        if not outcome.noticed:
            print(f"  {module}:{outcome.mutant}", flush=True)
    share = noticed / drawn if drawn else 1.0
    print(f"{module}: {noticed} of {drawn} noticed ({share:.0%})", flush=True)
    return share >= ENOUGH


def main() -> int:
    """Go through the modules that were named, else all; 1 when one is not watched enough."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", help="such as context.fold; all without")
    parser.add_argument("-n", type=int, default=60, help="faults a module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    wanted = [
        name
        for name in NEAREST
        if not given.modules or any(name.endswith(each) for each in given.modules)
    ]
    enough = True
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for module in wanted:
            tests = [f"tests/{path}" for path in NEAREST[module].split()]
            mutants = drawn(module, given.n, given.seed)
            seconds = 10 + LONGEST * time_without_a_fault(module, tests)
            planted = partial(plant, module, tests=tests, seconds=seconds)
            enough &= report(module, pool.map(planted, mutants))
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
