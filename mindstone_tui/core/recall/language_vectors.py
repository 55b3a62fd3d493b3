"""Vectors of the model for many languages, beside the others in one index.

Who has one: every passage that is not English, and all others of the index from the moment on that
its person writes in another language or asks in one. So an English history costs nothing, and a
question in German finds what was said in English. Every method is one step inside the caller's
lock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from mindstone_tui.core.language.languages import is_english
from mindstone_tui.core.recall import embedding, import_numpy_on_one_thread
from mindstone_tui.core.recall.library_file import EVERYBODY, writing
from mindstone_tui.core.recall.store import NOT_READ, PENDING, STORED, UNWANTED, Tables

if TYPE_CHECKING:
    from mindstone_tui.core.recall.vector_view import VectorView  # numpy: 0.1 s

READ_AT_ONCE: Final = 256
"""Passages whose language is told in one transaction."""
BACKGROUND: Final = 48
"""Passages, evenly spread over history, that stand for whatever else was said."""
NEIGHBOURS: Final = 10
"""How many of them count: those that a text is nearest to."""
REPEATED: Final = 0.9
"""The cosine from which on two texts say the same."""
_EVERYONE: Final = "every_language"
"""The fact that all passages of an index are wanted."""


class LanguageVectors:
    """The statements for them, and the view that finds the nearest."""

    def __init__(self, database: apsw.Connection, tables: Tables) -> None:
        self._database = database
        self._tables = tables
        self._view: VectorView | None = None
        self._generation = ""

    # What is wanted

    def adopt_model(self, name: str) -> None:
        """Make this the model of these vectors; those of another one are thrown away."""
        if self._tables.fact("language_model", EVERYBODY) == name:
            return
        with writing(self._database):
            self._database.execute("delete from language_numbers")
            self._database.execute("delete from language_signs")
            self._database.execute(
                "update passages set other = ? where other <> ? or vector <> ?",
                (NOT_READ, UNWANTED, UNWANTED),
            )
            self._tables.remember_everywhere(language_model=name)

    def read_languages(self) -> int:
        """Tell the language of some passages that nobody has looked at; how many."""
        rows: list[tuple[int, str, str]] = list(
            self._database.execute(
                "select row, role, text from passages where owner = ? and other = ? limit ?",
                (self._tables.owner, NOT_READ, READ_AT_ONCE),
            )
        )
        if not rows:
            return 0
        english = {row: is_english(text) for row, _, text in rows}
        everyone = bool(self._tables.fact(_EVERYONE))
        with writing(self._database):
            self._database.executemany(
                "update passages set other = ? where row = ? and other = ?",
                [
                    (UNWANTED if alone and not everyone else PENDING, row, NOT_READ)
                    for row, alone in english.items()
                ],
            )
        if any(role == "user" and not english[row] for row, role, _ in rows):
            self.want_everyone()
        return len(rows)

    def want_everyone(self) -> None:
        """From here on all passages get a vector of this kind: there are questions for them."""
        if self._tables.fact(_EVERYONE):
            return
        with writing(self._database):
            self._database.execute(
                "update passages set other = ? where owner = ? and other = ? and vector <> ?",
                (PENDING, self._tables.owner, UNWANTED, UNWANTED),
            )
            self._tables.remember(**{_EVERYONE: "1"})

    def waiting(self, limit: int, *, newest: bool = False) -> list[tuple[int, str]]:
        """The next passages to embed, oldest or newest first."""
        order = "desc" if newest else "asc"
        found = self._database.execute(
            "select row, text from passages where owner = ? and other = ?"
            f" order by seq {order} limit ?",
            (self._tables.owner, PENDING, limit),
        )
        return [(row, text) for row, text in found]

    def store(self, rows: Sequence[int], vectors: embedding.Floats) -> None:
        """Store vectors in one transaction."""
        from mindstone_tui.core.recall.vector_view import as_bytes, signs_of  # numpy: 0.1 s

        with writing(self._database):
            for row, vector in zip(rows, vectors, strict=True):
                if not self._still_wanted(row):
                    continue
                numbers = as_bytes(vector)
                self._database.execute(
                    "insert or replace into language_numbers values (?, ?)", (row, numbers)
                )
                self._database.execute(
                    "insert into language_signs (owner, row, bits) values (?, ?, ?)",
                    (self._tables.owner, row, signs_of(numbers)),
                )
                self._database.execute("update passages set other = ? where row = ?", (STORED, row))

    def _still_wanted(self, row: int) -> bool:
        found = self._database.execute(
            "select 1 from passages where row = ? and other = ?", (row, PENDING)
        )
        return found.fetchone() is not None

    # What is near

    def there_are(self, at_least: int = 1) -> bool:
        """Whether so many could be compared."""
        whose = "" if self._tables.owner == EVERYBODY else f"where owner = {self._tables.owner:d}"
        found = self._database.execute(
            f"select count(*) from (select 1 from language_signs {whose} limit ?)", (at_least,)
        )
        return bool(found.get == at_least)

    def nearest(
        self, asked: embedding.Floats, count: int, rows: Collection[int] | None
    ) -> tuple[dict[int, float], float]:
        """The nearest rows with their cosines, best first, and the mean of all cosines."""
        return self._looked_at(len(asked)).nearest(asked, count, rows)

    def cosines(self, asked: embedding.Floats, rows: Sequence[int]) -> dict[int, float]:
        """Cosines of those rows that have such a vector."""
        return self._looked_at(len(asked)).cosines(asked, rows)

    def crowding(self, dims: int, rows: Sequence[int]) -> dict[int, float]:
        """How near each row is to whatever else was said here.

        A short text that says little, "Sounds good", is near to every question in any language.
        Its own repetitions do not count: what matters may have been said often.
        """
        import numpy as np

        view = self._looked_at(dims)
        background = view.spread(BACKGROUND)
        vectors = view.vectors(list(dict.fromkeys((*rows, *background))))
        if len(background) < 2 or not vectors:
            return {}
        matrix = np.stack(list(vectors.values()))
        at = {row: place for place, row in enumerate(vectors)}
        near = matrix @ matrix[[at[row] for row in background]].T
        near[near > REPEATED] = -1
        nearest = np.sort(near, axis=1)[:, -NEIGHBOURS:].clip(0).mean(axis=1)
        return {row: float(nearest[at[row]]) for row in rows if row in at}

    def _looked_at(self, dims: int) -> VectorView:
        """The view of what is stored now."""
        generation = self._tables.fact("generation", EVERYBODY)
        if self._view is None or self._generation != generation:
            import_numpy_on_one_thread()
            from mindstone_tui.core.recall.vector_view import VectorView  # numpy: 0.1 s

            self._view = VectorView(self._database, dims, self._tables.owner or None, "language_")
            self._generation = generation
        self._view.refresh()
        return self._view
