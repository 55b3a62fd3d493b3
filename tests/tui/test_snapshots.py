"""How the screens look; run with `--snapshot-update` after looking at every difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import FULL
from tests.tui.scenes import SCENES, play

SIZES = {(80, 24): "basalt", (120, 40): "chalk", (160, 50): "basalt"}


WIDE = pytest.mark.skipif(not FULL, reason="`make faults` looks at the widest screens, too")


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(size, id=f"{size[0]}x{size[1]}", marks=WIDE if size[0] > 120 else ())
        for size in SIZES
    ],
)
@pytest.mark.parametrize("scene", SCENES)
def test_look(
    scene: str, size: tuple[int, int], home: Path, snap_compare: Callable[..., bool]
) -> None:
    app, arrive = play(scene, SIZES[size], home)
    assert snap_compare(app, run_before=arrive, terminal_size=size)
