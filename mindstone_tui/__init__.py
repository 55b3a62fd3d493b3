"""MindStone TUI: a terminal agent whose memory can be trusted.

`open`, `recall`, `context`, `log` and `verify` are the way in from Python; see docs/embedding.md.
They are loaded when they are first used, so importing the package costs nothing.
"""

TYPE_CHECKING = False  # as type checkers know it; importing `typing` would cost every start

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Attachment",
    "Conversation",
    "MindstoneError",
    "__version__",
    "context",
    "events",
    "log",
    "open",
    "recall",
    "verify",
]

if TYPE_CHECKING:
    from mindstone_tui.api import Conversation, context, log, recall, verify
    from mindstone_tui.api import open_conversation as open  # noqa: A004 - called with its module in front
    from mindstone_tui.core import events
    from mindstone_tui.core.errors import MindstoneError
    from mindstone_tui.core.events import Answer, Attachment


_WHERE = {
    "MindstoneError": ("mindstone_tui.core.errors", "MindstoneError"),
    "events": ("mindstone_tui.core.events", ""),
    "open": ("mindstone_tui.api", "open_conversation"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE.get(name, ("mindstone_tui.api", name))
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return sorted(__all__)
