"""Help, generated from the actual key bindings and registered commands."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from mindstone_tui.core import text, values
from mindstone_tui.core.config.glossary import Term
from mindstone_tui.tui import show
from mindstone_tui.tui.host import CommandHelp
from mindstone_tui.tui.prompt.completion import by_use

Family = tuple[str, Iterable[BindingType]]


class HelpScreen(ModalScreen[None]):
    """Slash commands, then keys by place."""

    BINDINGS = [
        Binding("escape,q,f1", "dismiss", "Back", id="help.close"),
        Binding("k", "go('Keys')", "Keys", show=False, id="help.keys"),
        Binding("c", "go('')", "Commands", show=False, id="help.commands"),
    ]

    def __init__(
        self, families: Sequence[Family], keys: Mapping[str, str], commands: Sequence[CommandHelp]
    ) -> None:
        super().__init__()
        self._families = families
        self._keys = keys
        self._commands = commands

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = "Help"
            dialog.border_subtitle = "c commands · k keys · Esc closes"
            yield Static("", markup=False, id="help")
            yield Static("", markup=False, id="keys")

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        told, keys = self.query_one("#help", Static), self.query_one("#keys", Static)
        told.update(commands_text(self._commands, told.size.width))
        keys.update(keys_text(self._families, self._keys))

    def action_go(self, title: str) -> None:
        """Scroll to the commands or to the keys."""
        at = self.query_one("#keys").virtual_region.y if title else 0
        self.query_one("#dialog", VerticalScroll).scroll_to(y=at, animate=False)


class WordsScreen(ModalScreen[None]):
    """Every word on the screen, with what it means under the settings in force."""

    BINDINGS = [Binding("escape,q,question_mark", "dismiss", "Back", id="words.close")]

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__()
        self._terms = terms

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = "The words on the screen"
            dialog.border_subtitle = "Esc closes"
            yield Static("", markup=False, id="words")

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        words = self.query_one("#words", Static)
        words.update(words_text(self._terms, max(words.size.width, 40)))


def words_text(terms: Sequence[Term], width: int) -> Content:
    """The glossary in two columns, by group."""
    column = max((len(term.word) for term in terms), default=0) + 2
    lines: list[Content] = []
    group = ""
    for term in terms:
        if term.group != group:
            lines += [Content("")] if lines else []
            lines.append(Content.styled(term.group, "bold $primary"))
            group = term.group
        said = wrap(term.text.replace("`", ""), width - column)
        lines.append(Content.assemble((term.word.ljust(column), "bold"), said[0]))
        lines += [Content(" " * column + line) for line in said[1:]]
    return Content("\n").join(lines)


_KEY_NAMES = values.shipped(__file__, "key_names.json", dict[str, str])


def key_name(keys: str) -> str:
    """`ctrl+b,pageup` as a keyboard says it: `Ctrl+B, PgUp`. A single letter stays as it is."""
    return ", ".join(
        "+".join(_one_key(part, alone="+" not in key) for part in key.split("+"))
        for key in keys.split(",")
    )


def _one_key(part: str, *, alone: bool) -> str:
    if part in _KEY_NAMES:
        return _KEY_NAMES[part]
    return part if alone and len(part) == 1 else part.capitalize()


def commands_text(commands: Sequence[CommandHelp], width: int) -> Content:
    """All commands, the usual ones first."""
    lines: list[Content] = [Content.styled("Commands", "bold $primary")]
    for command in by_use(commands):
        lines += _command(command, max(width, 40))
    return Content("\n").join(lines)


def keys_text(families: Sequence[Family], keys: Mapping[str, str]) -> Content:
    """All keys by place, with the user's own in place of the defaults."""
    lines: list[Content] = [Content.styled("Keys", "bold $primary")]
    for title, bindings in families:
        lines += [Content(""), Content.styled(title, "bold")]
        for binding in bindings:
            if isinstance(binding, Binding) and binding.id and binding.description:
                lines.append(
                    Content.assemble(
                        (f"  {key_name(keys.get(binding.id, binding.key)):<24}", "$accent"),
                        binding.description.ljust(31),
                        (binding.id, "$faint"),
                    )
                )
    hints = (
        "! runs a command where you type it first; what you paste is a message, however it begins.",
        "To change a key, set the name on the right under [tui.keys] in config.toml.",
    )
    lines += [Content(""), *(Content.styled(hint, "$muted") for hint in hints)]
    return Content("\n").join(lines)


_COLUMN = 26
"""Where the help texts begin."""


def _command(command: CommandHelp, width: int) -> list[Content]:
    """The usage, then the help text in its own column."""
    name = show.line(f"/{command.name} {command.usage}".rstrip(), width - 2)
    said = wrap(text.one_line(command.help, 400), width - _COLUMN) or [""]
    head = Content.assemble("  ", name.stylize("$accent"))
    if name.cell_length < _COLUMN - 2:
        head += Content(" " * (_COLUMN - head.cell_length) + said.pop(0))
    return [head, *(Content(" " * _COLUMN + line) for line in said)]
