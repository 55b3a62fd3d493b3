"""Plain patterns in which the guide understands that a tool is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from mindstone_tui.core.entries import Part, ToolSchema

Arguments = dict[str, str]


class Wish(Part):
    """A tool that was asked for, with what was said about it."""

    tool: str
    values: dict[str, str]


_PATH: Final = r"""(?P<path>"[^"]+"|'[^']+'|`[^`]+`|[^\s"'`]+?)"""
_IN: Final = rf"(?:\s+(?:in|under|inside|from)\s+{_PATH})?"
_PLEASE: Final = r"\A\s*(?:please\s+|can you\s+|could you\s+)?"
_END: Final = r"\s*[.?!]?\s*\Z"
_TEXT: Final = r"(?P<text>.+?)"

_PATTERNS: Final = tuple(
    (re.compile(_PLEASE + pattern, re.IGNORECASE | re.DOTALL), tool)
    for pattern, tool in (
        (r"(?:run|execute|shell)\s*:?\s+(?P<command>.+?)\s*\Z", "shell"),
        (r"[$!]\s*(?P<command>.+?)\s*\Z", "shell"),
        (r"(?:read|open|show)\s+entry\s+(?P<entry>#?[0-9A-Za-z]+)" + _END, "read_entry"),
        (rf"(?:read|cat)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?{_PATH}" + _END, "read"),
        (
            r"(?:show|open|print|display)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?"
            r"(?P<path>[^\s]*[./A-Z][^\s]*?)" + _END,
            "read",
        ),
        (r"write\s+(?P<path>\S+?)\s*:\s(?P<content>.+)\Z", "write"),
        (
            r"(?:ls|list)(?:\s+(?:all\s+)?(?:the\s+)?(?:files|folders?|directory))?"
            rf"(?:\s+(?:in|of|under)\b)?(?:\s+{_PATH})?" + _END,
            "list",
        ),
        (r"(?:glob|find files(?: named| matching| called)?)\s+(?P<pattern>\S+?)" + _END, "glob"),
        (
            r"(?:grep|search (?:the )?(?:code|files|project) for)\s+(?:for\s+)?"
            rf"(?P<pattern>\"[^\"]+\"|'[^']+'|`[^`]+`|\S.*?){_IN}" + _END,
            "grep",
        ),
        (
            r"(?:find|look for|search(?: for)?)\s+(?P<pattern>\"[^\"]+\"|'[^']+'|`[^`]+`|\S+)"
            r"\s+(?:in|under)\s+(?P<path>\S*[./]\S*|src|tests?|docs?|lib|app)" + _END,
            "grep",
        ),
        (rf"remember\s*(?:that\b|:)\s*{_TEXT}\s*\Z", "remember"),
        (rf"(?:take a |make a )?note\s*(?:that\b|:)\s*{_TEXT}\s*\Z", "note"),
        (
            r"(?:recall|search (?:my |our |the )?(?:history|memory|transcript|session) for|"
            r"do you (?:remember|recall)|what do you (?:remember|recall|know) about)\s+"
            r"(?P<query>.+?)" + _END,
            "recall",
        ),
    )
)

_ALSO_CALLED: Final[dict[str, tuple[str, ...]]] = {
    "path": ("path", "file", "file_path", "folder", "directory", "root"),
    "command": ("command", "cmd"),
    "pattern": ("pattern", "regex", "query", "glob"),
    "query": ("query", "question", "text"),
    "text": ("text", "note", "content", "body", "statement", "memory", "fact"),
    "content": ("content", "text", "contents"),
    "entry": ("entry", "id", "seq", "pointer"),
}
_QUOTES: Final = "\"'`"


def wishes(question: str) -> list[Wish]:
    """The tools a question asks for, in order; several paths mean several calls."""
    for pattern, tool in _PATTERNS:
        if found := pattern.match(question):
            values = {
                name: value if name in ("command", "content") else value.strip(_QUOTES)
                for name, value in found.groupdict().items()
                if value
            }
            return [Wish(tool=tool, values=values)]
    return _several(question)


def _several(question: str) -> list[Wish]:
    """`read a.txt, b.txt and c.txt` as one wish each."""
    found = re.match(_PLEASE + r"(?:read|cat)\s+(?P<rest>\S.*?)" + _END, question, re.IGNORECASE)
    paths = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", found["rest"]) if found else []
    if len(paths) < 2 or any(re.search(r"\s", path) or not path for path in paths):
        return []
    return [Wish(tool="read", values={"path": path.strip(_QUOTES)}) for path in paths]


def arguments_for(wish: Wish, schema: ToolSchema) -> dict[str, Any]:
    """What was said, under the names the tool's schema gives it."""
    properties = schema.parameters.get("properties")
    known: dict[str, Any] = properties if isinstance(properties, dict) else {}
    filled: dict[str, Any] = {}
    for name, value in _with_extras(wish, known).items():
        target = _first(_ALSO_CALLED.get(name, (name,)), lambda each: each in known) or name
        filled[target] = _typed(value, known.get(target))
    required = schema.parameters.get("required")
    for name in required if isinstance(required, list | tuple) else ():
        if name not in filled and (default := _default(known.get(name))) is not None:
            filled[name] = default
    return filled


def _with_extras(wish: Wish, known: dict[str, Any]) -> dict[str, str]:
    """What was said, and what a tool may want to know besides: a title, a source."""
    text = wish.values.get("text", "")
    extras = {"title": " ".join(text.split()[:8])[:80], "source": "the user's own message"}
    return {
        **{name: value for name, value in extras.items() if text and name in known},
        **wish.values,
    }


def _first(names: Iterable[str], wanted: Callable[[str], bool]) -> str | None:
    return next((name for name in names if wanted(name)), None)


def _typed(value: str, declared: object) -> object:
    """A number where the schema wants one."""
    wants_number = isinstance(declared, dict) and declared.get("type") == "integer"
    return int(value) if wants_number and value.isdecimal() else value


def _default(declared: object) -> object:
    """A harmless value for a field nobody spoke of: the general choice, or here."""
    if not isinstance(declared, dict):
        return None
    choices = declared.get("enum")
    if isinstance(choices, list | tuple) and choices:
        return "misc" if "misc" in choices else choices[0]
    return declared.get("default", "." if declared.get("type") == "string" else None)
