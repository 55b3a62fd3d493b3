"""The man page, made from the help of every verb: `python -m tests.man_page` writes it anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mindstone_tui import __version__
from mindstone_tui.cli.main import FAMILIES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mindstone.1"
_ITEM = re.compile(r"^  (\S.*?)(?:  +(\S.*))?$")


def _help(*words: str) -> str:
    """What a verb says of itself, in lines that are never broken by a narrow terminal."""
    environ = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mindstone_tui", *words, "--help"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _section(help_text: str) -> list[str]:
    """The paragraphs of a verb, then its arguments and options as a list."""
    lines: list[str] = []
    listing = False
    for line in help_text.splitlines():
        item = _ITEM.match(line) if listing else None
        if line.startswith("Usage: "):
            lines += [".PP", f".B {_roff(line.removeprefix('Usage: '))}", ".PP"]
        elif line and not line.startswith(" "):
            listing = True
        elif item is not None:
            lines += [".TP", f".B {_roff(item[1])}", _roff(item[2] or "")]
        elif line.strip():
            lines.append(_roff(line.strip()))
        elif not listing:
            lines.append(".PP")
    return [line for line in lines if line]


def man_page() -> str:
    """The whole page."""
    verbs = [verb for listed in FAMILIES.values() for verb in listed.split()]
    with ThreadPoolExecutor(4) as pool:
        told = dict(zip(verbs, pool.map(_help, verbs), strict=True))
    lines = [
        f'.TH MINDSTONE 1 "" "mindstone {__version__}"',
        ".SH NAME",
        "mindstone \\- a terminal agent whose memory can be trusted",
        ".SH DESCRIPTION",
        "The transcript is history, the prompt is a working set.",
        "Without a verb the app opens, as with the verb chat.",
    ]
    for family, listed in FAMILIES.items():
        lines.append(f".SH {family.upper()}")
        for verb in listed.split():
            lines += [f".SS {verb}", *_section(told[verb])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(man_page())
