"""Settings with a docstring per key; files, environment and flags merged with provenance."""

from mindstone_tui.core.config.edit import Key, all_keys, key_named
from mindstone_tui.core.config.load import Ignored, Loaded, Source, load, profiles, store
from mindstone_tui.core.config.settings import Settings

__all__ = [
    "Ignored",
    "Key",
    "Loaded",
    "Settings",
    "Source",
    "all_keys",
    "key_named",
    "load",
    "profiles",
    "store",
]
