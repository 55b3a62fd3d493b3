"""The tables and functions on the server, in numbered steps that are each taken once.

A step that was ever released is never changed; what must become different is a further step.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

import msgspec

from mindstone_tui.core.errors import PlaceError, UsageError

if TYPE_CHECKING:
    import psycopg

_LOCK: Final = 0x6D_69_6E_64  # any number will do, if everybody uses the same
_BEGIN: Final = """\
create schema if not exists mindstone;
create table if not exists mindstone.schema_step (
    step    int primary key,
    name    text not null,
    applied timestamptz not null default clock_timestamp()
);
"""
_MEANING: Final = """\
do $$ begin
    perform mindstone.add_meaning();
exception when insufficient_privilege then
    raise notice 'Search works by words only: this role may not create the extension vector.';
end $$;
"""
_GRANTS: Final = """\
grant usage on schema mindstone to {role};
grant select on all tables in schema mindstone to {role};
grant execute on all functions in schema mindstone to {role};
"""


class SchemaStep(msgspec.Struct, frozen=True):
    """One step, as it is kept beside this file."""

    number: int
    name: str
    sql: str


def steps() -> list[SchemaStep]:
    """Every step there is, in order."""
    files = (each for each in resources.files(__package__).iterdir() if each.name.endswith(".sql"))
    return [
        SchemaStep(int(file.name[:3]), file.name[4:-4], file.read_text("utf-8"))
        for file in sorted(files, key=lambda each: each.name)
    ]


def as_script(role: str = "") -> str:
    """All steps for `psql`, for somebody who may create a schema; each is taken once only."""
    parts = ["\\set ON_ERROR_STOP on", "begin;", f"select pg_advisory_xact_lock({_LOCK});", _BEGIN]
    for step in steps():
        parts += [
            f"select not exists (select from mindstone.schema_step where step = {step.number}) "
            "as wanted \\gset",
            "\\if :wanted",
            step.sql,
            _noted(step),
            "\\endif",
        ]
    parts.append(_MEANING)
    if role:
        parts.append(_GRANTS.format(role=_quoted(role)))
    return "\n".join([*parts, "commit;", ""])


def ensure(connection: psycopg.Connection) -> None:
    """Take the steps that are missing, if this role may; raises what says what to do otherwise."""
    import psycopg

    known = steps()
    if (newest := _newest(connection)) > known[-1].number:
        raise UsageError(
            f"The history server has tables of a newer MindStone (step {newest}; this one knows "
            f"{known[-1].number}).",
            "Update MindStone on this machine.",
        )
    if newest == known[-1].number:
        return
    try:
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            connection.execute(_BEGIN)
            newest = _newest(connection)
            for step in known:
                if step.number > newest:
                    connection.execute(step.sql)
                    connection.execute(_noted(step))
    except psycopg.errors.InsufficientPrivilege as error:
        raise PlaceError(
            "The history server's tables are older than this program, and this role may not renew "
            "them."
            if newest
            else "The history server has no tables of MindStone that this role may use, and it may "
            "not make them.",
            "Somebody who may runs once: `mindstone history schema --role YOUR_ROLE | psql "
            "ADMIN_URL`.",
        ) from error


def _newest(connection: psycopg.Connection) -> int:
    """The newest step that was taken; 0 for none, or where none can be seen."""
    import psycopg

    try:
        row = connection.execute("select max(step) from mindstone.schema_step").fetchone()
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.InvalidSchemaName,
        psycopg.errors.InsufficientPrivilege,
    ):
        return 0
    return int(row[0]) if row and row[0] is not None else 0


def _noted(step: SchemaStep) -> str:
    return f"insert into mindstone.schema_step (step, name) values ({step.number}, '{step.name}');"


def _quoted(role: str) -> str:
    return '"' + role.replace('"', '""') + '"'
