"""The log file: where tracebacks go, because none belongs on a terminal.

It is the owner's alone, it never grows beyond a bound, and writing to it never raises: a program
that is already in trouble must not get into more.
"""

import os
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mindstone_tui.core import disk, errors

LONGEST_LOG: Final = 4 << 20
"""When the log is longer than this, it is kept once as `.old` and started anew."""


def record(error: BaseException, log: Path, clean: Callable[[str], str] | None = None) -> bool:
    """Append an error's traceback to the log, without its secrets; False if that is impossible."""
    told = "".join(traceback.format_exception(error))
    return note((clean or _without_secrets)(told), log, apart="\n")


def _without_secrets(text: str) -> str:
    from mindstone_tui.core.redaction import Redactor, secrets_of  # 10 ms, and only after a bug

    return Redactor(secrets_of(os.environ)).redact(text).text


def note(text: str, log: Path, *, apart: str = " ") -> bool:
    """Append something that happened to a log, with its moment; False if that is impossible."""
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    entry = f"{moment} pid {os.getpid()}{apart}{text}\n".encode(errors="backslashreplace")
    try:
        disk.ensure_folder(log.parent)
        if log.exists() and log.stat().st_size > LONGEST_LOG:
            log.replace(log.with_name(f"{log.name}.old"))
        disk.append(log, entry)
    except (OSError, errors.MindstoneError):
        return False
    return True
