"""What a confined command may see of the home folder: toolchains, by name, and nothing else.

Compilers, interpreters and package caches live at home, next to keys, tokens, wallets, histories
and other agents' credentials. So the home is empty inside, and only what stands here is shown,
read-only. Where a toolchain keeps credentials beside its programs, each folder is named.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mindstone_tui.core.patterns import pattern_of

__all__ = [
    "OFFLINE",
    "SYSTEM",
    "SYSTEM_SECRETS",
    "clean_git_settings",
    "npm_registry",
    "shown_at_home",
    "shown_elsewhere",
    "without_secrets",
]

_AT_HOME: Final = (
    # python
    *(".pyenv", ".local/share/uv/python", ".local/share/uv/tools", ".local/lib", ".local/bin"),
    *(".local/share/pipx/venvs", ".local/share/virtualenvs", ".rye/py", ".rye/shims", ".pixi/bin"),
    # rust
    *(".rustup/toolchains", ".rustup/settings.toml", ".cargo/bin", ".cargo/registry", ".cargo/git"),
    *(".cargo/env",),
    # go
    *("go/bin", "go/pkg/mod", "sdk", ".local/go", ".goenv/versions", ".goenv/shims"),
    # javascript
    *(".nvm/versions", ".nvm/alias", ".volta/bin", ".volta/tools", ".local/share/fnm", ".fnm"),
    *(".npm/_cacache", ".npm-global/bin", ".npm-global/lib", ".bun/bin", ".bun/install/cache"),
    *(".deno/bin", ".cache/deno", ".local/share/pnpm", ".yarn/berry/cache", ".cache/yarn"),
    *(".cache/node/corepack",),
    # jvm
    *(".sdkman/candidates", ".m2/repository", ".m2/wrapper", ".gradle/caches", ".gradle/wrapper"),
    *(".jenv/versions", ".ivy2/cache", ".cache/coursier", ".jdks"),
    # others
    *(".rbenv/versions", ".rbenv/shims", ".rbenv/bin", ".rbenv/libexec", ".gem/ruby"),
    *(".asdf/installs", ".asdf/shims", ".asdf/bin", ".asdf/lib", ".asdf/libexec", ".asdf/plugins"),
    *(".local/share/mise/installs", ".local/share/mise/shims", ".ghcup/bin", ".ghcup/ghc"),
    *(
        ".cabal/bin",
        ".cabal/packages",
        ".stack/programs",
        ".opam",
        ".juliaup/bin",
        ".julia/juliaup",
    ),
    *(".julia/packages", ".julia/artifacts", ".julia/registries", ".elan/toolchains", ".elan/bin"),
    *(".dotnet/sdk", ".dotnet/shared", ".dotnet/host", ".dotnet/packs", ".dotnet/tools"),
    *(".dotnet/dotnet", ".nuget/packages", ".pub-cache/hosted", ".nix-profile", ".swiftly/bin"),
    *(".zvm/bin", ".zigup", "zig", ".foundry/bin", ".cache/ms-playwright", ".cache/Cypress"),
)
_CONDA: Final = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")
_PARTS_OF_CONDA: Final = ("bin", "condabin", "envs", "include", "lib", "pkgs", "share")
_PARTS_OF_A_PREFIX: Final = (
    *("bin", "sbin", "lib", "lib64", "libexec", "include", "share", "tools", "conf", "jmods"),
    *("modules", "pkg", "src", "api", "misc", "VERSION", "go.env", "release"),
)
_PROGRAM_FOLDERS: Final = frozenset({"bin", "sbin", "shims", "scripts", "condabin"})
SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix"),
    *("/gnu", "/snap", "/sys", "/var/lib/ghc", "/home/linuxbrew/.linuxbrew"),
)
"""Where an operating system keeps its programs."""
SYSTEM_SECRETS: Final = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/wireguard"),
    *("/etc/NetworkManager", "/etc/kubernetes", "/etc/rancher", "/etc/docker", "/etc/pip.conf"),
    *("/etc/npmrc", "/etc/netrc", "/etc/ppp", "/etc/openvpn", "/etc/letsencrypt", "/etc/vault.d"),
    *("/etc/environment", "/etc/machine-id", "/etc/fstab", "/etc/crypttab", "/etc/cifs-utils"),
)
OFFLINE: Final = {
    "CARGO_NET_OFFLINE": "true",
    "GOPROXY": "off",
    "GOFLAGS": "-mod=readonly",
    "GOTOOLCHAIN": "local",
    "UV_OFFLINE": "1",
    "npm_config_offline": "true",
    "npm_config_update_notifier": "false",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_RETRIES": "0",
}
"""Tells package managers that there is no network: use what is there, or fail at once."""

_HARMLESS_IN_GIT: Final = frozenset(
    {"user", "init", "core", "color", "diff", "merge", "pull", "push", "branch", "rebase", "advice"}
)
_HARMLESS_KEYS: Final = frozenset(
    {
        *("name", "email", "defaultbranch", "autocrlf", "eol", "safecrlf", "filemode", "quotepath"),
        *(
            "ignorecase",
            "precomposeunicode",
            "abbrev",
            "ui",
            "algorithm",
            "renames",
            "mnemonicprefix",
        ),
        *("colormoved", "conflictstyle", "ff", "rebase", "default", "autosetupremote", "autostash"),
        *("autosquash", "autosetupmerge", "autosetuprebase", "sort", "symlinks", "longpaths"),
    }
)
_HEADING: Final = pattern_of(r"\s*\[\s*([A-Za-z0-9.-]+)\s*(\".*\")?\s*\]\s*(?:[#;].*)?\Z")
_SETTING: Final = pattern_of(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*([^\\\n]*)\Z")


def shown_at_home(home: Path, path: str, venv: str = "") -> tuple[Path, ...]:
    """The places below the home that a confined command may read, as far as they exist."""
    named = [home / name for name in _AT_HOME]
    named += [home / root / part for root in _CONDA for part in _PARTS_OF_CONDA]
    named += [folder for folder in _programs(path) if home in folder.parents]
    named += [each for each in _environments(path, venv) if home in each.parents]
    return tuple(
        place for place in dict.fromkeys(named) if place.exists() and not _holds(place, home)
    )


def shown_elsewhere(home: Path, path: str, venv: str = "") -> tuple[Path, ...]:
    """Programs outside the home and the system: what `PATH` names, with its libraries."""
    found: list[Path] = [Path(sys.prefix), Path(sys.base_prefix), *_environments(path, venv)]
    for folder in _programs(path):
        if home in folder.parents:
            continue
        found.append(folder)
        found += [folder.parent / part for part in _PARTS_OF_A_PREFIX if len(folder.parts) > 2]
    return tuple(
        place
        for place in dict.fromkeys(found)
        if place.exists() and not _holds(place, home) and not _in_system(place)
    )


def _holds(place: Path, home: Path) -> bool:
    real = place.resolve()
    return len(real.parts) < 2 or real == home.resolve() or real in home.resolve().parents


def _in_system(place: Path) -> bool:
    return any(str(place) == root or str(place).startswith(f"{root}/") for root in SYSTEM)


def _programs(path: str) -> Iterator[Path]:
    """The folders of `PATH` that are called what such folders are called."""
    for part in path.split(":"):
        if part.startswith("/") and Path(part).name.casefold() in _PROGRAM_FOLDERS:
            yield Path(part)


def _environments(path: str, venv: str) -> Iterator[Path]:
    """Virtual environments that are in use."""
    candidates = [folder.parent for folder in _programs(path)]
    if venv.startswith("/"):
        candidates.append(Path(venv))
    for each in candidates:
        if (each / "pyvenv.cfg").is_file():
            yield each


def without_secrets(place: Path) -> Iterator[Path]:
    """A folder of the system, taken apart where something in it is its owner's alone."""
    below = [each for each in map(Path, SYSTEM_SECRETS) if place == each or place in each.parents]
    if not any(os.access(each, os.R_OK) for each in below):
        yield place
    elif place not in below:
        for entry in sorted(place.iterdir()):
            yield from without_secrets(entry)


def npm_registry(home: Path) -> dict[str, str]:
    """Where npm's cached packages came from, by which it finds them; never with a password."""
    try:
        lines = (home / ".npmrc").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        if found := re.match(r"\s*registry\s*=\s*(https?://[A-Za-z0-9.:/_-]+)\s*\Z", line):
            return {"npm_config_registry": found.group(1)}
    return {}


def clean_git_settings(home: Path) -> bytes:
    """Git's settings of this person, without credentials and without anything that is run."""
    kept: list[str] = []
    for source in (home / ".config" / "git" / "config", home / ".gitconfig"):
        try:
            text = source.read_text("utf-8", "replace")
        except OSError:
            continue
        section = ""
        for line in text.splitlines():
            if heading := _HEADING.match(line):
                section = "" if heading.group(2) else heading.group(1).casefold()
                continue
            setting = _SETTING.match(line) if section in _HARMLESS_IN_GIT else None
            if setting and setting.group(1).casefold() in _HARMLESS_KEYS:
                kept.append(f"[{section}]\n\t{setting.group(1)} = {setting.group(2).strip()}\n")
    return "".join(kept).encode()
