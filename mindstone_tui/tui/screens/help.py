"""Help made from what is really bound and really registered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from mindstone_tui.tui import inert
from mindstone_tui.tui.ports import CommandHelp

Family = tuple[str, Iterable[BindingType]]


class HelpScreen(ModalScreen[None]):
    """Keys by place, then slash commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1", "dismiss", "Back", id="help.close"),
    ]

    def __init__(
        self,
        families: Sequence[Family],
        keys: Mapping[str, str],
        commands: Sequence[CommandHelp],
    ) -> None:
        super().__init__()
        self._families = families
        self._keys = keys
        self._commands = commands

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog"):
            yield Static(help_text(self._families, self._keys, self._commands), markup=False)


def help_text(
    families: Sequence[Family], keys: Mapping[str, str], commands: Sequence[CommandHelp]
) -> Content:
    """All keys, with the user's own in place of the defaults, and all commands."""
    lines: list[Content] = []
    for title, bindings in families:
        lines += [Content.styled(title, "bold $primary")]
        for binding in bindings:
            if isinstance(binding, Binding) and binding.id and binding.description:
                key = keys.get(binding.id, binding.key).replace(",", ", ")
                lines.append(
                    Content.assemble(
                        (f"  {key:<24}", "$accent"),
                        binding.description.ljust(28),
                        (binding.id, "$faint"),
                    )
                )
        lines.append(Content(""))
    lines.append(Content.styled("Commands", "bold $primary"))
    for command in commands:
        name = inert.line(f"/{command.name} {command.usage}", 60)
        gap = " " * max(1, 26 - name.cell_length)
        lines.append(
            Content.assemble("  ", name.stylize("$accent"), gap, inert.line(command.help, 120))
        )
    lines.append(Content(""))
    hint = "The names on the right are keys of [tui.keys] in config.toml."
    lines.append(Content.styled(hint, "$muted"))
    return Content("\n").join(lines)
