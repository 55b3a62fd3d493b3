"""What is remembered of texts: what was said of them, and not the texts."""

from __future__ import annotations

import weakref

from mindstone_tui.core.text_cache import remembers


class Told(str):
    """A text whose end can be seen."""

    __slots__ = ("__weakref__",)


def test_a_text_is_looked_at_once_and_not_held() -> None:
    looked: list[int] = []

    @remembers(10)
    def length(text: str) -> int:
        looked.append(len(text))
        return len(text)

    text = Told("the stone is blue")
    seen = weakref.ref(text)
    assert (length(text), length("the stone is blue"), looked) == (17, 17, [17])
    del text
    assert seen() is None


def test_what_is_asked_for_again_stays_and_the_rest_goes() -> None:
    looked: list[str] = []

    @remembers(10)
    def first(text: str) -> str:
        looked.append(text)
        return text[:1]

    for number in range(100):
        assert first("asked again") == "a"
        assert first(f"{number} asked once") == str(number)[:1]
    assert looked.count("asked again") == 1
    first("0 asked once")
    assert looked.count("0 asked once") == 2


def test_a_text_that_is_no_utf_8_is_one_like_any_other() -> None:
    assert remembers(2)(len)("\ud800") == 1
