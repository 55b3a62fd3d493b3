"""A hook of the docs site: what lies outside docs/ is named there, and not linked."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links that lead out of docs/ into the names of what they lead to."""
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?!\.)[^)]*\)", r"`\1`", markdown)
