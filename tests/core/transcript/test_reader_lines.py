"""Lines forwards and backwards are the same lines, whatever the chunks and the bytes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core.transcript.reader import Piece, backwards, forwards

CUT = 1_048_577

contents = st.lists(
    st.sampled_from([b"", b"a", b"line", b"\n", b"\n\n", b"\x00\x00", b"\r\n", b"\xe2\x80\xa8"])
).map(b"".join)


def _naive(content: bytes) -> list[Piece]:
    pieces: list[Piece] = []
    begin = 0
    while begin < len(content):
        newline = content.find(b"\n", begin)
        end = len(content) if newline < 0 else newline + 1
        raw = content[begin : end if newline < 0 else newline]
        pieces.append((begin, end, raw, newline >= 0))
        begin = end
    return pieces


@given(contents, st.integers(1, 9))
@example(b"no newline", 3)
@example(b"", 1)
def test_both_directions_give_what_a_plain_reading_gives(content: bytes, chunk: int) -> None:
    def read(size: int, offset: int) -> bytes:
        return content[offset : offset + size]

    expected = _naive(content)
    assert list(forwards(read, 0, len(content), chunk)) == expected
    assert list(backwards(read, len(content), chunk))[::-1] == expected


def test_a_line_that_is_too_long_comes_cut_with_its_true_extent() -> None:
    content = b"short\n" + b"x" * (3 * CUT) + b"\nlast\n"

    def read(size: int, offset: int) -> bytes:
        return content[offset : offset + size]

    for pieces in (
        list(forwards(read, 0, len(content), 1 << 18)),
        list(forwards(read, 0, len(content), 1 << 24)),
        list(backwards(read, len(content), 1 << 18))[::-1],
        list(backwards(read, len(content), 1 << 24))[::-1],
    ):
        assert [(begin, end, len(raw)) for begin, end, raw, _ in pieces] == [
            (0, 6, 5),
            (6, 6 + 3 * CUT + 1, CUT),
            (6 + 3 * CUT + 1, len(content), 4),
        ]
