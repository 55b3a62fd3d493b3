"""Settings with a docstring per key; files, environment and flags merged with provenance."""

from mindstone_tui.core.config.edit import SettingKey as SettingKey
from mindstone_tui.core.config.edit import all_keys as all_keys
from mindstone_tui.core.config.edit import key_named as key_named
from mindstone_tui.core.config.load import Ignored as Ignored
from mindstone_tui.core.config.load import Loaded as Loaded
from mindstone_tui.core.config.load import SettingSource as SettingSource
from mindstone_tui.core.config.load import load as load
from mindstone_tui.core.config.load import profiles as profiles
from mindstone_tui.core.config.load import store as store
from mindstone_tui.core.config.settings import Settings as Settings
