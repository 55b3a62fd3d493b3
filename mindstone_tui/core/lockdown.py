"""The one way to import litellm and onnxruntime: switches set first, errors said.

Left to itself litellm loads a `.env` from the folders above it, asks the network for prices and
prints to the terminal; onnxruntime gives the machine an id and reports to its maker from the moment
it is imported. None of that may happen here, so nobody else imports them.
"""

import contextlib
import importlib
import importlib.util
import logging
import os
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import Final

from mindstone_tui.core.errors import ProviderError

_SWITCHES: Final = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_TELEMETRY": "False",
    "DISABLE_ADMIN_UI": "True",
}
_NO_REPORTS: Final = {"ORT_DISABLE_TELEMETRY": "1"}
_LOGGERS: Final = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router")
_NEEDED_SOON: Final = (
    "litellm.litellm_core_utils.default_encoding",
    "litellm.responses.mcp.chat_completions_handler",
    "openai.lib.streaming.chat",
    "openai.resources",
    "anyio._backends._asyncio",
)
"""What the first request would import for half a second, while the screen stands still."""
_importing: Final = threading.Lock()


def import_litellm() -> ModuleType:
    """litellm, silent and offline until it is called; takes seconds, so call it off the loop."""
    with _importing:
        os.environ.update(_SWITCHES)
        try:
            litellm = importlib.import_module("litellm")
        except ImportError as error:
            raise ProviderError(
                f"litellm cannot be loaded: {error}.",
                "Install the package again; local models work without it.",
            ) from error
        for later in _NEEDED_SOON:
            with contextlib.suppress(ImportError):
                importlib.import_module(later)
        _silence(litellm)
        return litellm


def import_onnxruntime() -> ModuleType:
    """onnxruntime without its telemetry, which only the environment can turn off; may raise."""
    os.environ.update(_NO_REPORTS)
    return importlib.import_module("onnxruntime")


def _silence(litellm: ModuleType) -> None:
    """Nothing of litellm's may reach the terminal; what it logs goes where our own log goes."""
    vars(litellm).update(
        suppress_debug_info=True,
        drop_params=True,
        REPEATED_STREAMING_CHUNK_LIMIT=sys.maxsize,  # "ha ha" may be said a hundred times
    )
    warnings.filterwarnings("ignore", module=r"(?:litellm|openai|pydantic|aiohttp|httpx)(?:\.|\Z)")
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [logging.NullHandler()]
        logger.propagate = True


def litellm_folder() -> Path | None:
    """Where litellm is installed, found without importing it."""
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])
