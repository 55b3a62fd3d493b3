"""The pictures of the README: `python -m tests.pictures [FOLDER]` draws each scene as an SVG."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.tui.scenes import play

PICTURES = {
    "chat": ("streaming", "basalt", (140, 44)),
    "pruned": ("pruned", "basalt", (120, 36)),
    "inspector": ("inspector", "basalt", (120, 34)),
    "approval": ("approval", "chalk", (120, 36)),
    "welcome": ("empty", "basalt", (110, 30)),
}
"""Name → scene, theme and size."""


async def draw(name: str, folder: Path) -> None:
    """Write one picture."""
    scene, theme, size = PICTURES[name]
    with tempfile.TemporaryDirectory() as home:
        app, arrive = play(scene, theme, Path(home))
        async with app.run_test(size=size) as pilot:
            await arrive(pilot)
            picture = app.export_screenshot(title="MindStone")
    (folder / f"{name}.svg").write_text(picture, encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/tui/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for name in PICTURES:
        asyncio.run(draw(name, folder))
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
