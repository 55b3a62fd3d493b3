"""The guide (`local/guide`): always there, deterministic, no weights, no network.

It is not a language model and says so. It explains the product, runs tools when asked in plain
patterns, and answers questions by quoting what was said, with the pointer to where it stands.
"""

from mindstone_tui.core.providers.guide.provider import GUIDE, GuideProvider

__all__ = ["GUIDE", "GuideProvider"]
