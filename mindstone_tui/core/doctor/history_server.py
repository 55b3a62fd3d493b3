"""The history server: driver, connection, tables, rights, and how the copies here stand."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from mindstone_tui.core.doctor.base import Check, CheckEnvironment, failed, passed
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.shared.copies import SessionState, compare, open_address
from mindstone_tui.core.shared.passage_store import PassageStore, uncovered
from mindstone_tui.core.shared.postgres import INSTALL, PostgresStore, available, place_of
from mindstone_tui.core.text import plural


def checks(around: CheckEnvironment) -> Iterator[Check]:
    """All checks of this file; one line where histories are in files alone."""
    history = around.settings.history
    urls = [url for url in dict.fromkeys((history.url, *history.sessions.values())) if url]
    if not urls:
        yield passed("history.server", "Histories are in files alone.")
        return
    if not available():
        yield failed(
            "history.server",
            "history.url is set, and the PostgreSQL driver is not installed.",
            f"{INSTALL}.",
        )
        return
    for url in urls:
        yield from _server(around, url)


def _server(around: CheckEnvironment, url: str) -> Iterator[Check]:
    where = place_of(url)
    with contextlib.closing(open_address(around.settings.history, url)) as store:
        try:
            owner = store.owner
            began = time.perf_counter()
            about = store.about()
            took = (time.perf_counter() - began) * 1000
            states = compare(around.places, store, [])
            search = _search(around, store, states)
        except MindstoneError as error:
            yield failed("history.server", error.what, error.remedy or "Check history.url.")
            return
    yield passed(
        "history.server",
        f"{where}: PostgreSQL {about.version}, sessions of {owner}, {took:.1f} ms away.",
    )
    yield Check(
        "history.encryption",
        "pass" if about.encrypted or about.local else "warn",
        "The connection is encrypted."
        if about.encrypted
        else "The connection stays on this machine."
        if about.local
        else "The connection is not encrypted.",
        "" if about.encrypted or about.local else "Add ?sslmode=verify-full to history.url.",
    )
    yield from search
    wrong = [one for one in states if one.state in ("differs", "ahead")]
    alone = sum(one.state == "only here" for one in states)
    detail = f"{plural(len(states), 'session')}; {alone} only here."
    yield Check(
        "history.copies",
        "warn" if wrong else "pass",
        f"{wrong[0].session} {wrong[0].state}: {len(wrong)} not as on the server."
        if wrong
        else detail,
        "`mindstone history status` shows them; push or pull the session." if wrong else "",
    )


def _search(
    around: CheckEnvironment, store: PostgresStore, states: list[SessionState]
) -> list[Check]:
    """What search in the database can do, and what it misses; nothing where it is not used."""
    if around.settings.history.search != "server":
        return []
    shared = PassageStore(store)
    heads = {SessionKey.parse(one.session): one.there for one in states if one.there is not None}
    missing = len(uncovered(shared.marks(), heads))
    by = "words and meaning" if shared.has_meaning else "words only: the server has no pgvector"
    return [
        Check(
            "history.search",
            "warn" if missing else "pass",
            f"Search in the database, by {by}. "
            f"{plural(missing, 'session')} not wholly found there.",
            "`mindstone history index --all` adds those of this machine." if missing else "",
        )
    ]
