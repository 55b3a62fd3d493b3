"""Settings with a docstring per key; files, environment and flags merged with provenance."""

from mindstone_tui.core.config.edit import SettingKey, all_keys, key_named
from mindstone_tui.core.config.load import Ignored, Loaded, SettingSource, load, profiles, store
from mindstone_tui.core.config.settings import Settings

__all__ = [
    "Ignored",
    "Loaded",
    "SettingKey",
    "SettingSource",
    "Settings",
    "all_keys",
    "key_named",
    "load",
    "profiles",
    "store",
]
