"""Keys are kept for their owner alone, and go only where they belong."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import ConfigError, ProviderRefused, UsageError
from mindstone_tui.core.providers.address import find_key, has_key, variables_of, whole_address
from mindstone_tui.core.providers.key_store import KEYRING, store_key, stored_key


def secrets_in(path: Path) -> dict[str, str]:
    found = {name: stored_key(path, name) for name in ("anthropic", "openai")}
    return {name: key.secret for name, key in found.items() if key is not None}


def test_a_stored_key_is_the_owners_alone_and_stays_out_of_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    store_key(path, "anthropic", " sk-ant-1 \n")
    store_key(path, "openai", 'sk"odd\\key')
    assert path.stat().st_mode & 0o777 == 0o600
    assert secrets_in(path) == {"anthropic": "sk-ant-1", "openai": 'sk"odd\\key'}
    assert "sk-ant-1" not in os.environ.values()


def test_an_empty_key_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    store_key(path, "openai", "a")
    store_key(path, "openai", "")
    assert secrets_in(path) == {}


def test_a_stored_key_comes_before_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    environ = {"OPENAI_API_KEY": "from-env"}
    found = find_key("openai", environ, path)
    assert found is not None
    assert (found.secret, found.origin) == ("from-env", "OPENAI_API_KEY")
    store_key(path, "openai", "stored")
    found = find_key("openai", environ, path)
    assert found is not None
    assert found.secret == "stored"
    assert "stored" not in repr(found)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('openai = "x"\n')
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others"):
        secrets_in(path)


@pytest.mark.parametrize("content", ["openai = 3", "= =", "[openai]\nkey = 'x'"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"keys\.toml"):
        secrets_in(path)


@pytest.mark.parametrize(("provider", "secret"), [("Open AI", "x"), ("a" * 65, "x"), ("x", "a\nb")])
def test_what_cannot_be_a_key_is_refused(tmp_path: Path, provider: str, secret: str) -> None:
    with pytest.raises(UsageError):
        store_key(tmp_path / "keys.toml", provider, secret)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_every_printable_key_comes_back(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    store_key(path, "openai", key)
    assert secrets_in(path) == {"openai": key}


def test_an_unlisted_provider_follows_the_pattern() -> None:
    assert variables_of("novita") == ("NOVITA_API_KEY",)


class FakeKeyring(types.ModuleType):
    """A keyring that may refuse."""

    def __init__(self, priority: float = 1.0, *, refuses: bool = False) -> None:
        super().__init__("keyring")
        self.__spec__ = importlib.machinery.ModuleSpec("keyring", None)
        self.held: dict[tuple[str, str], str] = {}
        self.priority = priority
        self.refuses = refuses
        self.asked = 0

    def get_keyring(self) -> FakeKeyring:
        return self

    def set_password(self, service: str, name: str, secret: str) -> None:
        self._ask()
        self.held[service, name] = secret

    def get_password(self, service: str, name: str) -> str | None:
        self._ask()
        return self.held.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        self._ask()
        del self.held[service, name]

    def _ask(self) -> None:
        self.asked += 1
        if self.refuses:
            raise RuntimeError("it is locked")


def test_a_keyring_holds_the_key_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, keyring = tmp_path / "keys.toml", FakeKeyring()
    store_key(path, "openai", "in the file")
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    assert store_key(path, "anthropic", "sk-hidden").place == KEYRING
    found = find_key("anthropic", {}, path)
    assert found is not None
    assert found.origin == KEYRING
    assert "sk-hidden" not in path.read_text()
    assert secrets_in(path) == {"openai": "in the file", "anthropic": "sk-hidden"}
    store_key(path, "anthropic", "")
    assert not keyring.held
    assert secrets_in(path) == {"openai": "in the file"}


@pytest.mark.parametrize("keyring", [FakeKeyring(0.0), FakeKeyring(refuses=True)])
def test_a_keyring_that_cannot_hold_it_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyring: FakeKeyring
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    kept = store_key(tmp_path / "keys.toml", "openai", "sk-1")
    assert kept == (str(tmp_path / "keys.toml"), "it is locked" if keyring.refuses else "")
    assert secrets_in(tmp_path / "keys.toml") == {"openai": "sk-1"}


def test_a_locked_keyring_is_named_once_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, keyring = tmp_path / "keys.toml", FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    for provider in ("openai", "anthropic"):
        store_key(path, provider, "sk-1")
    keyring.refuses, keyring.asked = True, 0
    for provider in ("openai", "anthropic", "openai"):
        with pytest.raises(ProviderRefused, match="keyring, which does not give it: it is locked"):
            find_key(provider, {}, path)
        assert has_key(provider, {}, path)
    assert keyring.asked == 1
    with pytest.raises(ConfigError, match="still in the system's keyring"):
        store_key(path, "openai", "")
    assert find_key("mistral", {}, path) is None


def test_a_keyring_that_is_gone_has_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.toml"
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring())
    store_key(path, "openai", "sk-1")
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring(0.0))
    found = find_key("openai", {"OPENAI_API_KEY": "other"}, path)
    assert found is not None
    assert found.secret == "other"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("127.0.0.1:18931", "http://127.0.0.1:18931/v1"),
        (" localhost:8000/ ", "http://localhost:8000/v1"),
        ("https://models.example", "https://models.example/v1"),
        ("models.example/v1", "http://models.example/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("https://models.example/llm/", "https://models.example/llm"),
    ],
)
def test_an_address_needs_neither_scheme_nor_path(typed: str, meant: str) -> None:
    assert whole_address(typed) == meant
