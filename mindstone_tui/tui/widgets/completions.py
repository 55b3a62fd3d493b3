"""The list of completions above the prompt."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from mindstone_tui.tui import inert
from mindstone_tui.tui.prompt.completing import Completion, Offer

LABEL = 34
"""Columns for what would be written, where there is something to say about it."""


class Completions(OptionList, can_focus=False):
    """Shown while there is something to complete."""

    def __init__(self) -> None:
        super().__init__(id="completions", markup=False)
        self.completion: Completion | None = None

    def offer(self, completion: Completion | None) -> None:
        """Show other offers, or none."""
        if completion == self.completion:
            return
        self.completion = completion
        self.clear_options()
        self.set_class(completion is not None, "-open")
        if completion is not None:
            width = min(LABEL, max(len(offer.label) for offer in completion.offers))
            self.add_options([Option(_drawn(offer, width)) for offer in completion.offers])
            self.highlighted = 0

    @property
    def chosen(self) -> Offer | None:
        """The offer under the highlight."""
        if self.completion is None or self.highlighted is None:
            return None
        return self.completion.offers[self.highlighted]


def _drawn(offer: Offer, width: int) -> Content:
    label = inert.line(offer.label, LABEL if offer.help else 160)
    gap = " " * max(2, width - label.cell_length + 2)
    return label + Content(gap) + inert.line(offer.help, 100, "$muted")
