"""Settings with a docstring per key; files, environment and flags merged with provenance."""

from mindstone_tui.core.config.settings import Settings

__all__ = ["Settings"]
