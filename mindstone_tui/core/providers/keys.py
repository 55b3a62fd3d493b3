"""API keys: where they are kept, and which one a model needs.

A key lives in the user's environment or in `keys.toml` (0600, replaced whole). It is handed to the
provider with each call and never put into this process's environment, where child processes would
inherit it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.disk import replace_file
from mindstone_tui.core.errors import ConfigError, UsageError
from mindstone_tui.core.values import Value

VARIABLES: Final[dict[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "azure": ("AZURE_API_KEY",),
}
"""Which environment variables hold a provider's key; others follow the same pattern."""

KEYLESS: Final = frozenset(
    {"ollama", "ollama_chat", "lm_studio", "hosted_vllm", "llamafile", "vllm"}
    | {"bedrock", "sagemaker", "vertex_ai", "github_copilot", "oci"}
)
"""Providers that need no key, or sign in with the system's own credentials."""

_NAME: Final = re.compile(r"[a-z0-9_]{1,64}")


class Key(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A secret, and where it came from; only the origin may be shown."""

    secret: str
    origin: str

    def __repr__(self) -> str:
        return f"Key(origin={self.origin!r})"


def variables_of(provider: str) -> tuple[str, ...]:
    """The environment variables in which a provider's key may stand."""
    return VARIABLES.get(provider, (f"{provider.upper()}_API_KEY",))


def find_key(provider: str, environ: Mapping[str, str], path: Path) -> Key | None:
    """The stored key, else the one in the environment; storing one is the more deliberate act."""
    if secret := stored_keys(path).get(provider):
        return Key(secret=secret, origin=path.name)
    for name in variables_of(provider):
        if secret := environ.get(name, "").strip():
            return Key(secret=secret, origin=name)
    return None


def stored_keys(path: Path) -> dict[str, str]:
    """Every key in the file, by provider; refuses a file that others can read."""
    try:
        mode = path.stat().st_mode
        raw = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", "Repair its permissions, or delete it."
        ) from error
    if mode & 0o077:
        raise ConfigError(
            f"{path} can be read by others, so its keys are not used.",
            f"Run `chmod 600 {path}`, and consider replacing the keys.",
        )
    try:
        return msgspec.convert(tomllib.loads(raw), dict[str, str])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"{path} is not a list of keys: {error}.", 'Each line is: provider = "key".'
        ) from error


def store_key(path: Path, provider: str, secret: str) -> None:
    """Keep a provider's key; an empty one removes it."""
    secret = secret.strip()
    if not _NAME.fullmatch(provider):
        raise UsageError(f"{provider!r} is not a provider's name.", "For example: anthropic.")
    if not secret.isascii() or not secret.isprintable():
        raise UsageError("A key is one line of plain characters.", "Copy it again.")
    kept = {**stored_keys(path), provider: secret}
    lines = (
        f'{name} = "{value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"\n'
        for name, value in sorted(kept.items())
        if value
    )
    replace_file(path, "".join(lines).encode())
