"""Markdown: nothing lost, nothing doubled, nothing parsed that should not be."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Offset
from textual.selection import Selection
from textual.visual import RenderOptions

from mindstone_tui.tui.markdown.parse import Piece, diffed, highlighted, numbered, parse
from mindstone_tui.tui.themes import fallback_variables
from mindstone_tui.tui.widgets.markdown import Drawing, Prose, fitted, table

LONGEST_TABLE = 20_000
MOST_BRACKETS = 4_000


def plain(pieces: list[Piece]) -> str:
    """What a person reads, without its signs and blanks."""
    texts = []
    for piece in pieces:
        texts.append(piece.content.plain)
        texts += [cell.plain for row in piece.table for cell in row]
    return re.sub(r"\s", "", "".join(texts))


MARKS = "\n#*_`-|>[]()!~1.2<&;:\\ \tabcXYZ石🪨"
documents = st.lists(
    st.sampled_from(
        [
            "# Title\n",
            "plain words\n",
            "\n",
            "- item\n",
            "  - nested\n",
            "1. first\n",
            "```python\ndef f(): return [1]\n```\n",
            "```\nopen fence\n",
            "> quoted\n",
            "| a | b |\n|---|---|\n| 1 | 2 |\n",
            "[TODO] plan [/b] [bold]x[/bold]\n",
            "<T> and </div> &#27; &amp;\n",
            "[1]: a definition\n",
            "**bold *nested***\n",
            "---\n",
            "    indented code\n",
            "a line  \nbroken\n",
            "![alt](x.png) [text](http://e.x)\n",
        ]
    )
    | st.text(MARKS, max_size=12),
    max_size=12,
).map("".join)


@example(text="| a | b |\n|---|---|\n| 1 | 2 |\n#| a | b |\n", cuts=[1])
@given(text=documents, cuts=st.lists(st.integers(1, 9), min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
def test_a_streamed_text_reads_like_the_whole_one(text: str, cuts: list[int]) -> None:
    """However it was cut, and whatever was drawn in between, the end is the whole text."""
    prose = Prose(finished=False)
    at, number = 0, 0
    while at < len(text):
        size = cuts[number % len(cuts)]
        prose.write(text[at : at + size])
        prose._parse()
        at, number = at + size, number + 1
        grown, anew = prose._drawing, Drawing(prose._drawing._pieces)
        assert grown.get_height({}, 20) == anew.get_height({}, 20)
        assert [each.first_line for each in grown._placed[1]] == [
            each.first_line for each in anew._placed[1]
        ]
    streamed = plain(list(prose._drawing._pieces))
    prose.finish(text)
    prose._parse()
    final = plain(list(prose._drawing._pieces))
    assert final == plain(parse(prose.source)[0])
    assert re.findall(r"\w", streamed) == re.findall(r"\w", final)


@pytest.mark.parametrize(
    "text",
    [
        "[TODO] plan",
        "[/b] closes nothing",
        "[bold]not bold[/bold]",
        "a <T> and <div>html</div>",
        "&#27;[2J and &amp; stay",
        "[1]: https://example.org",
        "[x][y] and [z]",
        "{{braces}} $vars %s",
    ],
)
def test_text_that_looks_like_something_else_is_shown_as_it_is(text: str) -> None:
    assert plain(parse(text)[0]) == re.sub(r"\s", "", text)


def test_a_link_says_where_it_leads() -> None:
    assert (
        parse("[here](https://evil.example)")[0][0].content.plain == "here (https://evil.example)"
    )
    assert parse("<https://a.example>")[0][0].content.plain == "https://a.example"


def test_lists_keep_their_signs_and_hang() -> None:
    pieces, _ = parse("1. one\n2. two\n   - deep\n\ntext")
    assert [(p.first, p.rest, p.content.plain) for p in pieces] == [
        ("1. ", "   ", "one"),
        ("2. ", "   ", "two"),
        ("   ◦ ", "     ", "deep"),
        ("", "", "text"),
    ]
    assert [p.gap for p in pieces] == [True, False, False, True]


def test_items_that_are_done_or_open_have_boxes() -> None:
    pieces, _ = parse("- [x] one\n- [ ] two\n\n[x] no item")
    assert [p.content.plain for p in pieces] == ["☑ one", "☐ two", "[x] no item"]


def test_columns_are_set_as_the_table_says() -> None:
    (piece,), _ = parse("| a | b | c |\n|:--|--:|:-:|\n| 1 | 2 | 3 |\n| long | long | long |")
    rows = table(piece.table, 60, piece.aligned).plain.split("\n")
    assert rows[2] == "1        2   3"


def test_a_diff_has_the_numbers_of_its_lines() -> None:
    diff = "--- a\n+++ b\n@@ -7,3 +7,3 @@\n same\n-old\n+new\n@@ -20 +20 @@\n+more"
    assert numbered(diff).plain.split("\n") == [
        "    7  same",
        "    8 -old",
        "    8 +new",
        "   ⋮",
        "   20 +more",
    ]


def test_code_is_kept_exactly_and_coloured_without_being_changed() -> None:
    code = "def f(x):\n\treturn '[/b]'  # ok\n\n"
    piece = parse(f"```python\n{code}```")[0][0]
    assert piece.code == code.removesuffix("\n")
    assert piece.content.plain == piece.code
    assert highlighted(code, "python").plain == code
    assert highlighted("x", "no-such-language").plain == "x"


def test_a_diff_keeps_every_character() -> None:
    text = "--- a\n+++ b\n@@ -1 +1 @@\n-[old]\n+[new]\n same"
    assert diffed(text).plain == text


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 120))
def test_columns_fit_where_that_is_possible(natural: list[int], room: int) -> None:
    widths = fitted(natural, room)
    taken = sum(widths) + 2 * (len(widths) - 1)
    assert taken <= room or max(widths) <= 3
    assert all(width <= max(wish, 1) for width, wish in zip(widths, natural, strict=True))


def test_a_table_too_long_for_columns_stands_in_plain_lines_and_loses_nothing() -> None:
    rows = [[Content("name"), Content("value")], [Content("x"), Content("y" * LONGEST_TABLE)]]
    lines = table(rows, 20).plain.split("\n")
    assert lines == ["name  value", "x  " + "y" * LONGEST_TABLE]


def test_a_wide_table_wraps_its_cells_instead_of_cutting_them() -> None:
    rows = [[Content("name"), Content("what it is")], [Content("x"), Content("many words " * 6)]]
    drawn = table(rows, 30)
    assert all(len(line) <= 30 for line in drawn.plain.split("\n"))
    assert drawn.plain.count("many") == 6


class Stage(App[None]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        yield Prose(self.text)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return fallback_variables()


@pytest.mark.parametrize("width", [20, 41, 100])
async def test_the_height_is_what_is_drawn(width: int) -> None:
    text = (
        "# T\n\nlong words that wrap around " * 4
        + "\n\n- a\n- b wraps as well when it is narrow enough\n\n```py\nprint('x' * 80)\n```\n\n"
        + "| a | b |\n|--|--|\n| 1 | two three four five six |\n\n> quote\n\n---\n"
    )
    app = Stage(text)
    async with app.run_test(size=(width, 60)) as pilot:
        await pilot.pause()
        prose = app.query_one(Prose)
        visual = prose.render()
        strips = visual.render_strips(prose.size.width, None, prose.visual_style, _options(prose))
        assert prose.size.height == len(strips)
        assert all(strip.cell_length == prose.size.width for strip in strips)


def _options(prose: Prose) -> RenderOptions:
    return RenderOptions(prose._get_style, {})


async def test_what_is_selected_is_what_was_written() -> None:
    app = Stage("- one\n- two\n\nlast **line** here")
    async with app.run_test(size=(40, 20)) as pilot:
        await pilot.pause()
        prose = app.query_one(Prose)
        whole = prose.get_selection(Selection(None, None))
        assert whole == ("• one\n• two\nlast line here", "\n")
        part = prose.get_selection(Selection(Offset(1, 1), Offset(4, 2)))
        assert part == ("wo\nlast", "\n")


def test_brackets_without_end_are_text_and_not_a_search_each() -> None:
    """What costs too much to understand is shown as it is; with fewer of them a link is a link."""
    source = "[text](http://e.x) " + "[" * MOST_BRACKETS
    linked, plain_text = (plain(parse(text)[0]) for text in (source[:-1], source))
    assert linked == re.sub(r"\s", "", "text (http://e.x)" + "[" * (MOST_BRACKETS - 1))
    assert plain_text == re.sub(r"\s", "", source)
