"""Encrypted connections and proxies, with real certificates and a real relay on this machine."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mindstone_tui.core.errors import ProviderError, ProviderUnreachable
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.http import proxy_for
from tests.core.providers.ways import address_at, outcome, provider_for
from tests.loopback.formats import CHAT

OPTIONS = Options(max_tokens=64, timeout=20, retries=0)
NAME = "model.example"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for the server's name, signed by itself, with its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path = tmp_path / "server.pem"
    path.write_bytes(
        made.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )
    return path


class Relay:
    """A proxy that answers for every server behind it, and keeps what it was asked."""

    def __init__(self, certificate: Path, *, willing: bool = True) -> None:
        self.heads: list[str] = []
        self._willing = willing
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            head = await self._head(reader)
            if head.startswith("CONNECT "):
                if not self._willing:
                    writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                    return writer.close()
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await writer.start_tls(self._context)
                head = await self._head(reader)
            size = next(int(each[16:]) for each in head.splitlines() if "content-length" in each)
            await reader.readexactly(size)
            body = CHAT.spoken("Hello there.")
            told = f"HTTP/1.1 200 OK\r\ncontent-type: {CHAT.kind}\r\n"
            writer.write(f"{told}content-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()
        return None

    async def _head(self, reader: asyncio.StreamReader) -> str:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        return head


async def ask(base_url: str) -> tuple[str, ProviderError | None]:
    """What a server says to a question, and how that failed if it did."""
    asked = provider_for("direct", address_at(CHAT, base_url))
    heard, error = await outcome(asked, CHAT, OPTIONS)
    await asked.close()
    return heard.text, error


@contextlib.asynccontextmanager
async def relaying(relay: Relay) -> AsyncIterator[Relay]:
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield relay


async def test_an_encrypted_request_is_tunnelled_and_the_certificate_is_looked_at(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with relaying(Relay(certificate)) as relay:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:p%40ss@{relay.address}")
        base_url = f"https://{NAME}/v1"
        _, stranger = await ask(base_url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        heard, _ = await ask(base_url)
    assert isinstance(stranger, ProviderUnreachable)
    assert "secure" in stranger.what
    assert heard == "Hello there."
    asked = relay.heads[-2:]
    assert asked[0].startswith(f"CONNECT {NAME}:443 HTTP/1.1\r\n")
    assert f"Basic {base64.b64encode(b'me:p@ss').decode()}" in asked[0]
    assert asked[1].startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert "Basic" not in asked[1]


async def test_a_proxy_is_given_the_whole_address_of_a_plain_request(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with relaying(Relay(certificate)) as relay:
        monkeypatch.setenv("HTTP_PROXY", relay.address)
        base_url = f"http://{NAME}:8000/v1"
        heard, _ = await ask(base_url)
    assert heard == "Hello there."
    assert relay.heads[0].startswith(f"POST http://{NAME}:8000/v1/chat/completions HTTP/1.1\r\n")
    assert f"\r\nhost: {NAME}:8000\r\n" in relay.heads[0].lower()


def test_a_name_may_be_kept_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for("https://model.example/v1") is None
    monkeypatch.setenv("ALL_PROXY", "relay.example:3128")
    monkeypatch.setenv("NO_PROXY", "other.example")
    assert proxy_for("https://model.example/v1") == "http://relay.example:3128"
    assert proxy_for("https://me@other.example/v1") is None


@pytest.mark.parametrize("kind", ["socks5", "refusing"])
async def test_a_proxy_that_cannot_be_used_is_named(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async with relaying(Relay(certificate, willing=False)) as relay:
        scheme = "http" if kind == "refusing" else kind
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://{relay.address}")
        base_url = f"https://{NAME}/v1"
        _, error = await ask(base_url)
    assert isinstance(error, ProviderError)
    assert "proxy" in error.what
    assert ("407" if kind == "refusing" else "socks5") in error.what
    assert "PROXY" in error.remedy
