"""A recorded session to play, rehearse and compare: tools, trims, prunes and a pin."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.context import manual
from mindstone_tui.core.replay.rehearsal import RehearsalOptions
from mindstone_tui.core.transcript import History
from tests.builders import places_in
from tests.core.context.stage import Quarter, Stage, with_context, words

TURNS = 24
SMALL = with_context(min_recent=4)
WITHOUT_RECALL = msgspec.structs.replace(SMALL, recall=RecallSettings(auto=False))
"""As the stage itself holds a session: it never looks for anything."""
FAST = RehearsalOptions(counters=lambda model: Quarter())


def recorded(home: Path, settings: Settings = SMALL, window: int = 5_500) -> History:
    """Two dozen turns in a window that does not hold them; its files are closed again."""
    places = places_in(home)
    for path, content in _held(settings, window).items():
        (places.folder / path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (places.folder / path).write_bytes(content)
        (places.folder / path).chmod(0o600)
    return History(places)


def _held(settings: Settings, window: int) -> dict[Path, bytes]:
    """The files of such a session, held once for all tests: it is the same each time."""
    known = msgspec.json.encode((settings, window))
    if known not in _HELD:
        with TemporaryDirectory() as folder:
            places = places_in(Path(folder))
            _hold(Path(folder), settings, window)
            _HELD[known] = {
                path.relative_to(places.folder): path.read_bytes()
                for path in places.folder.rglob("*")
                if path.is_file()
            }
    return _HELD[known]


_HELD: dict[bytes, dict[Path, bytes]] = {}


def _hold(home: Path, settings: Settings, window: int) -> None:
    stage = Stage(home, window=window, settings=settings)
    stage.chat("The port is 8790 in server_port.toml, never 8765.", "Noted: 8790, not 8765.")
    stage.chat("We decided to use httpx because requests hangs.", "httpx it is.")
    manual.pin(stage.window, 2)
    for number in range(3, TURNS):
        if number % 3:
            stage.chat(words(80, f"question_{number}"), words(240, f"answer_{number}"))
        else:
            stage.work(f"Look at part {number}.", [words(500, f"result_{number}")], "Looked.")
    stage.chat("Which port stands in server_port.toml?", "8790.")
    stage.close()
