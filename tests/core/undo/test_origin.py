"""A line's origin is what all longest alignments agree on and the chain of contents proves."""

from __future__ import annotations

import hashlib
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core.undo.origin import (
    BEFORE,
    UNKNOWN,
    Beside,
    Origin,
    OriginFold,
    Traced,
    carried,
    lines_of,
)

MAKER = Origin("turn", 99, "s", 99)
TEXTS = st.lists(st.sampled_from([b"a\n", b"b\n", b"}\n", b"\n"]), max_size=9)


def alignments(old: tuple[bytes, ...], new: tuple[bytes, ...]) -> frozenset[tuple[int, ...]]:
    """Every longest alignment: for each new line the old one that it is, or -1."""

    @cache
    def longest(i: int, j: int) -> int:
        if i == len(old) or j == len(new):
            return 0
        both = 1 + longest(i + 1, j + 1) if old[i] == new[j] else 0
        return max(both, longest(i + 1, j), longest(i, j + 1))

    @cache
    def ways(i: int, j: int) -> frozenset[tuple[int, ...]]:
        if j == len(new):
            return frozenset([()])
        found: set[tuple[int, ...]] = set()
        if i < len(old) and longest(i + 1, j) == longest(i, j):
            found |= ways(i + 1, j)
        if longest(i, j + 1) == longest(i, j):
            found |= {(-1, *rest) for rest in ways(i, j + 1)}
        if i < len(old) and old[i] == new[j] and 1 + longest(i + 1, j + 1) == longest(i, j):
            found |= {(i, *rest) for rest in ways(i + 1, j + 1)}
        return frozenset(found)

    return ways(0, 0)


@given(TEXTS, TEXTS, st.integers(0, 30))
@example([b"}\n"], [b"}\n", b"}\n"], 0)
@example([b"}\n"] * 20, [b"}\n"] * 21, 3)
@example([b"a\n", *[b"}\n"] * 20], [b"a\n", *[b"}\n"] * 19], 3)
@example([b"a\n", b"}\n"], [b"}\n", b"a\n"], 20)
def test_nothing_is_said_of_a_line_that_one_longest_alignment_denies(
    old: list[bytes], new: list[bytes], around: int
) -> None:
    # Lines around that are like no others must change nothing, however many they are.
    above = [b"above %d\n" % number for number in range(around)]
    old, new = [*above, *old, *above[::-1]], [*above, *new, *above[::-1]]
    origins = [Origin("turn", number, "s", number) for number in range(len(old))]
    found = carried(Traced(old, origins), new, MAKER).origins
    ways = alignments(tuple(old), tuple(new))
    for at, origin in enumerate(found):
        could = {origins[way[at]] if way[at] >= 0 else MAKER for way in ways}
        went = any(old[i] == new[at] and i not in way for way in ways for i in range(len(old)))
        if origin != UNKNOWN:
            assert could == {origin}
            assert origin != MAKER or not went, "it may only have moved"
    assert found[:around] == origins[:around]


class Kept:
    """Contents by their hashes, and a fold over them."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.fold = OriginFold(self.contents.get)

    def put(self, text: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.contents[digest] = text.encode()
        return digest

    def told(self, path: str = "f") -> str:
        """The origins in short: a turn's number, `b` or `?`."""
        short = {BEFORE: "b", UNKNOWN: "?"}
        return "".join(short.get(each, str(each.turn)) for each in self.fold.now(path).origins)


def turn(number: int) -> Origin:
    return Origin("turn", number, "s", number)


def test_what_came_between_two_calls_is_nobodys_until_an_earlier_content_is_back() -> None:
    kept = Kept()
    first, second = kept.put("one\ntwo\n"), kept.put("one\nnew\ntwo\n")
    by_hand, third = kept.put("one\nnew\nhand\ntwo\n"), kept.put("one\nnew\nhand\ntwo\nlast\n")
    kept.fold.first("f", first, BEFORE, ())
    kept.fold.called("f", first, second, turn(1), Beside())
    assert kept.told() == "b1b"
    kept.fold.called("f", by_hand, third, turn(2), Beside())
    assert kept.told() == "b1?b2"
    kept.fold.found("f", second)
    assert kept.told() == "b1b", "taken back, or checked out again"
    kept.fold.found("f", "")
    kept.fold.found("f", third)
    assert kept.told() == "b1?b2", "a state that was not kept says nothing of those that are"


def test_what_was_taken_back_and_made_again_by_hand_is_not_the_calls() -> None:
    kept = Kept()
    first, second = kept.put("one\n"), kept.put("ONE\n")
    kept.fold.first("f", first, BEFORE, ())
    kept.fold.called("f", first, second, turn(1), Beside())
    kept.fold.restored("f", first)
    assert kept.told() == "b"
    kept.fold.restored("f", second)
    assert kept.told() == "1", "done again"
    kept.fold.restored("f", first)
    kept.fold.found("f", second)
    assert kept.told() == "?"


def test_a_file_that_a_call_moves_keeps_its_lines_and_a_line_that_moves_there_is_nobodys() -> None:
    kept = Kept()
    made, other = kept.put("one\ntwo\n"), kept.put("one\nmoved\nmade\n")
    kept.fold.called("f", None, made, turn(1), Beside())
    kept.fold.called("g", None, made, turn(2), Beside(source="f"))
    assert kept.told("g") == "11"
    kept.fold.called("h", None, other, turn(3), Beside(gone=lambda: {b"moved\n"}))
    assert kept.told("h") == "3?3"


def test_an_edit_that_explains_the_bytes_tells_equal_lines_apart_and_no_other_does() -> None:
    before, after = "a\n}\nz\n", "a\n}\nb\n}\nz\n"
    for edit, expected in (
        ((b"z\n", b"b\n}\nz\n"), "bb11b"),
        ((b"a\n", b"a\n}\nb\n"), "b11bb"),
        ((b"z\n", b"something else\n"), "b?1?b"),
        ((b"", b""), "b?1?b"),
    ):
        kept = Kept()
        first, second = kept.put(before), kept.put(after)
        kept.fold.first("f", first, BEFORE, ())
        kept.fold.called("f", first, second, turn(1), Beside(edit=edit))
        assert kept.told() == expected, edit


def test_an_edit_that_could_stand_in_two_places_that_overlap_tells_nothing() -> None:
    kept = Kept()
    first, second = kept.put("a\n\n\nz\n"), kept.put("a\n\nb\n\nz\n")
    kept.fold.first("f", first, BEFORE, ())
    kept.fold.called("f", first, second, turn(1), Beside(edit=(b"\n\n", b"\n\nb\n")))
    assert kept.told() == "bb1bb", "the alignment alone is sure of it"
    kept = Kept()
    first, second = kept.put("a\n\n\nz\n"), kept.put("a\n\n\n\nz\n")
    kept.fold.first("f", first, BEFORE, ())
    kept.fold.called("f", first, second, turn(1), Beside(edit=(b"\n\n", b"\n\n\n")))
    assert kept.told() == "b???b"


def test_a_last_line_without_its_end_is_another_line() -> None:
    found = carried(Traced([b"a\n", b"b"], [BEFORE, BEFORE]), lines_of(b"a\nb\nc"), MAKER)
    assert found.origins == [BEFORE, MAKER, MAKER]


def test_a_telling_line_of_which_there_is_one_is_known_again_where_it_moved() -> None:
    told = b"    port = read_the_port_from(settings)\n"
    short = b"    pass\n"
    middle = [b"one\n", b"two\n", b"three\n", b"four\n"]
    earlier = Origin("turn", 1, "s", 3)

    def moved(line: bytes, *more: bytes, elsewhere: frozenset[bytes] = frozenset()) -> Origin:
        old = Traced([line, *middle, *more], [earlier] + [BEFORE] * (4 + len(more)))
        return carried(old, [*middle, line, *more], MAKER, elsewhere).origins[4]

    assert moved(told) == earlier
    assert moved(short) == UNKNOWN, "too little to know it by"
    assert moved(told, b"five\n", told) == UNKNOWN, "it may be the other one"
    assert moved(told, elsewhere=frozenset([told])) == UNKNOWN, "it may come from another file"
