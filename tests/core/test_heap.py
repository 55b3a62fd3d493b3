"""What a process frees is not kept by the C library."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from tests.cli.program import ROOT

HOLES = """
import ctypes, sys
from mindstone_tui.core.signals import return_freed_memory

if sys.argv[1] == "ours":
    assert return_freed_memory()
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = type(
    "Info", (ctypes.Structure,), {"_fields_": [(f"f{n}", ctypes.c_size_t) for n in range(10)]}
)
bytes(400_000)  # freed at once, and glibc takes the like from its heap from now on
kept = [(bytes(300_000), bytes(3_000)) for _ in range(40)]
kept = [small for _, small in kept]
print(libc.mallinfo2().f8)
"""
"""Frees large buffers between small ones that stay; prints how many bytes of holes are held."""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc")
def test_large_buffers_leave_no_holes() -> None:
    held = {}
    for whose in ("theirs", "ours"):
        done = subprocess.run(
            [sys.executable, "-c", HOLES, whose],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        held[whose] = int(done.stdout)
    assert held["theirs"] > 10_000_000
    assert held["ours"] < 3_000_000
