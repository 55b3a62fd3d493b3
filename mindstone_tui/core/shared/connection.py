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
