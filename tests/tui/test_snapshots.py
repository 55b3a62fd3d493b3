"""How the screens look; run with `--snapshot-update` after looking at every difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tui.scenes import SCENES, play

SIZES = {(80, 24): "basalt", (120, 40): "chalk", (160, 50): "basalt"}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("scene", SCENES)
def test_look(
    scene: str, size: tuple[int, int], home: Path, snap_compare: Callable[..., bool]
) -> None:
    app, arrive = play(scene, SIZES[size], home)
    assert snap_compare(app, run_before=arrive, terminal_size=size)
