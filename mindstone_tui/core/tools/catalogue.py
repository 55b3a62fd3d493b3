"""The tools every session starts with; others are added by the rooms and servers that have them."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.errors import UnknownName
from mindstone_tui.core.tools.files import FILE_TOOLS
from mindstone_tui.core.tools.folders import FOLDER_TOOLS
from mindstone_tui.core.tools.search import GREP
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.tool import Tool

BUILT_IN: Final[tuple[Tool, ...]] = (*FILE_TOOLS, *FOLDER_TOOLS, GREP, SHELL)


def named(tools: tuple[Tool, ...], name: str) -> Tool:
    """The tool of that exact name; a look-alike is not it."""
    for tool in tools:
        if tool.name == name:
            return tool
    known = ", ".join(tool.name for tool in tools)
    raise UnknownName(f"There is no tool {name!a}.", f"The tools are {known}.")
