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
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutants.mutate import Mutant, mutants_of

ROOT: Final = Path(__file__).parents[2]
ENOUGH: Final = 0.8
"""Share of the planted faults that the nearest tests must notice."""
LONGEST: Final = 6.0
"""How many times as long as without a fault the tests may take; one that never ends was noticed."""

NEAREST: Final = {
    "core.transcript.writer": "core/test_transcript.py core/transcript "
    "faults/test_refusing_disk.py faults/test_torn_tails.py faults/test_writers.py",
    "core.transcript.reader": "core/test_transcript.py core/transcript",
    "core.transcript.verify": "core/test_transcript.py core/transcript faults/test_tampering.py",
    "core.context.fold": "core/context/test_window.py core/context/test_window_laws.py "
    "core/context/test_manual.py",
    "core.context.prune": "core/context/test_window.py core/context/test_window_laws.py "
    "core/context/test_manual.py core/context/test_modes.py",
    "core.context.policies": "core/context/test_policies.py",
    "core.context.plan": "core/context/test_plan_lines.py core/context/test_window.py "
    "core/replay/test_verify_requests.py",
    "core.recall.ranking": "core/recall/test_ranking.py",
    "core.recall.speak": "core/recall/test_speak.py",
    "core.statements.recogniser": "core/statements",
    "core.handoff.checkpoint": "core/handoff/test_checkpoint.py",
    "core.interchange.attach": "core/interchange/test_attach.py",
    "core.undo.restore": "core/undo core/features/test_undo.py",
    "core.providers.direct": "core/providers/test_direct.py core/providers/test_wire_parts.py",
    "core.tools.shell_rules": "core/tools/test_approvals.py core/tools/test_verdicts.py "
    "core/tools/test_programs.py core/tools/test_remembered.py",
    "servers.gateway": "servers/test_gateway.py servers/test_gateway_wishes.py",
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
    every = [
        each
        for each in mutants_of(source_of(module).read_text("utf-8"))
        if f"{each.before} → {each.after}" not in known
    ]
    return random.Random(f"{module} {seed}").sample(every, min(count, len(every)))


def equivalent() -> dict[str, dict[str, str]]:
    """Faults that change nothing anybody could see, by module, each with its reason."""
    return tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text("utf-8"))


def plant(module: str, mutant: Mutant, tests: list[str], seconds: float) -> Outcome:
    """Run the tests with one fault planted."""
    done = _run(
        module, ast.unparse(mutant.plant(source_of(module).read_text("utf-8"))), tests, seconds
    )
    if done is None:
        return Outcome(mutant, True, "never ended")
    failed = [row for row in done.stdout.splitlines() if row.startswith(("FAILED", "ERROR"))]
    return Outcome(mutant, done.returncode != 0, failed[0] if failed else f"exit {done.returncode}")


def time_without_a_fault(module: str, tests: list[str]) -> float:
    """How long the tests take, which must pass; the module is taken the way a fault is planted."""
    began = time.monotonic()
    whole = ast.unparse(ast.parse(source_of(module).read_text("utf-8")))
    done = _run(module, whole, tests, 3_600)
    if done is None or done.returncode != 0:
        raise SystemExit(f"The tests of {module} fail without a fault:\n{done and done.stdout}")
    return time.monotonic() - began


def _run(
    module: str, source: str, tests: list[str], seconds: float
) -> subprocess.CompletedProcess[str] | None:
    """The tests with a module's source in the place of its own; None when they never ended."""
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        changed = Path(folder) / "changed.py"
        changed.write_text(source, "utf-8")
        (Path(folder) / "sitecustomize.py").write_text(_CUSTOMIZE, "utf-8")
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, str(ROOT)]),
            "MUTANT_MODULE": f"mindstone_tui.{module}",
            "MUTANT_SOURCE": str(changed),
            "HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}/hypothesis",
            "TMPDIR": folder,
        }
        plain = ["-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no"]
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-x", *plain, *tests],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return None
        return subprocess.CompletedProcess([], process.returncode, output, "")


_CUSTOMIZE: Final = """
import importlib.abc, importlib.machinery, os, sys

class Planted(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != os.environ.get("MUTANT_MODULE"):
            return None
        source = os.environ["MUTANT_SOURCE"]
        loader = importlib.machinery.SourceFileLoader(name, source)
        return importlib.machinery.ModuleSpec(name, loader, origin=source)

sys.dont_write_bytecode = True
sys.meta_path.insert(0, Planted())
"""
"""Every Python that the tests start takes the module with the fault, too."""


def report(module: str, outcomes: list[Outcome]) -> bool:
    """Print what nobody noticed, and whether enough was."""
    noticed = sum(outcome.noticed for outcome in outcomes)
    for outcome in outcomes:
        if not outcome.noticed:
            print(f"  {module}:{outcome.mutant}", flush=True)
    share = noticed / len(outcomes) if outcomes else 1.0
    print(f"{module}: {noticed} of {len(outcomes)} noticed ({share:.0%})", flush=True)
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
            outcomes = list(pool.map(planted, mutants))
            enough &= report(module, outcomes)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
