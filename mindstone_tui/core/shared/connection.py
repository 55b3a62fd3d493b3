"""A connection to a PostgreSQL server that does not wait for ever.

This module imports the driver at its top; nothing else does, and nobody imports this one unless a
history is kept on a server.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import psycopg
from psycopg import waiting
from psycopg.abc import RV, PQGen

from mindstone_tui.core.errors import (
    DamagedTranscript,
    HistoryAway,
    LeaseLost,
    MindstoneError,
    Overtaken,
    PlaceError,
)

_CHECKED_EVERY: Final = 0.1


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """Gives up on an answer after `patience` seconds, and is then of no further use."""

    patience: float = 0.0

    @classmethod
    def reach(cls, url: str, timeout: float) -> PatientConnection:
        """Connect within so many seconds."""
        connection = cls.connect(
            url,
            autocommit=True,
            connect_timeout=max(2, round(timeout)),
            application_name="mindstone",
            keepalives=1,
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=round(timeout * 1000),
        )
        connection.patience = timeout
        return connection

    def wait(
        self, gen: PQGen[RV], interval: float = _CHECKED_EVERY, timeout: float | None = None
    ) -> RV:
        """Wait as the driver does, but not for longer than there is patience."""
        limit = timeout if timeout is not None else self.patience or None
        try:
            return waiting.wait(gen, self.pgconn.socket, interval=interval, timeout=limit)
        except psycopg.errors._WaitTimeout:
            if timeout is None:
                # The answer may still come, to whoever asks next: there must be no next.
                with contextlib.suppress(Exception):
                    self.pgconn.finish()
                raise psycopg.OperationalError("no answer in time") from None
            raise


def in_our_words(error: psycopg.Error, where: str) -> MindstoneError:
    """What the server or the driver said, without a word of the address."""
    match error.sqlstate or "":
        case "MS001":
            return Overtaken(f"Another machine wrote to the session on {where} meanwhile.")
        case "MS002":
            return LeaseLost(
                f"NOT SAVED: another machine took over the session on {where}.",
                "What was not saved is kept in a file; the next message goes on behind the "
                "other machine's.",
            )
        case "MS003":
            return DamagedTranscript(
                f"{where} refused lines: they do not follow what is kept there.",
                "Run `mindstone verify` and `mindstone history status`.",
            )
        case "MS004" | "42501":
            return PlaceError(
                f"The role that {where} knows this machine by may not use these sessions.",
                "Check history.team, and the grants in docs/shared-history.md.",
            )
        case "28P01" | "28000":
            return HistoryAway(
                f"{where} refused the user or the password.",
                "Check history.url; a password may also stand in ~/.pgpass.",
            )
        case "53100" | "53000" | "53200":
            return HistoryAway(f"{where} has no room left.", "Free space on the server.")
        case "53300":
            return HistoryAway(f"{where} takes no more connections.", "Try again later.")
        case "25006":
            return HistoryAway(f"{where} only lets itself be read.", "Use the main server.")
        case "3D000":
            return HistoryAway(f"There is no database {where}.", "Create it, or correct it.")
        case state:
            kind = type(error).__name__ if not state else f"{type(error).__name__} {state}"
            return HistoryAway(
                f"The history server {where} does not answer ({kind}).",
                "What is kept here can still be read.",
            )
