"""Between here and the history server: another certificate, or no encryption any more."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import verify
from tests.core.shared.test_lying_server import at, say
from tests.postgres import PostgresServer

_SSL, _GSS = struct.pack("!i", 80877103), struct.pack("!i", 80877104)
"""What a client of PostgreSQL asks for before anything else."""


def certificate(folder: Path, name: str) -> Path:
    """One for this machine that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    file = folder / f"{name}.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    named = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", file.with_suffix(".key"), "-out", file)
    subprocess.run(["openssl", "req", "-x509", *curve, *named, *files], check=True, stderr=-3)
    return file


class Gate:
    """Stands before a server and speaks TLS for it: with this certificate, or not at all."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.certificate: Path | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            held.enter_context(client)
            while (first := client.recv(8, socket.MSG_WAITALL))[4:] in (_SSL, _GSS):
                if first[4:] == _GSS or self.certificate is None:
                    client.sendall(b"N")
                    continue
                client.sendall(b"S")
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate, self.certificate.with_suffix(".key"))
                client = held.enter_context(context.wrap_socket(client, server_side=True))
                first = b""
                break
            server = held.enter_context(socket.create_connection(("127.0.0.1", self._target)))
            server.sendall(first)
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()

    def close(self) -> None:
        self._listener.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def gate(server: PostgresServer) -> Iterator[Gate]:
    found = Gate(server.port)
    yield found
    found.close()


@pytest.mark.parametrize("attack", ["another certificate", "encryption taken away"])
def test_who_cannot_prove_to_be_the_server_gets_nothing(
    tmp_path: Path, url: str, gate: Gate, attack: str
) -> None:
    known = certificate(tmp_path, "known")
    base, _, database = url.rpartition("/")
    address = f"{base.rpartition(':')[0]}:{gate.port}/{database}"
    address += f"?sslmode=verify-full&sslrootcert={known}"
    here = at(tmp_path / "home")
    gate.certificate = known
    with contextlib.closing(PostgresStore(address, timeout=10)) as store:
        assert store.about().encrypted
        say(here, "stone 1", upstream=store)
    before = here.transcript.read_bytes()
    gate.certificate = certificate(tmp_path, "other") if attack == "another certificate" else None
    with pytest.raises(MindstoneError) as refused:
        say(here, "stone 2", upstream=PostgresStore(address, timeout=10))
    assert "\n" not in refused.value.sentence
    assert "stone 2" not in str(refused.value)
    assert here.transcript.read_bytes() == before
    assert verify(here).ok


def test_nothing_is_sent_in_clear_to_another_machine_unless_the_address_says_so() -> None:
    heard: list[bytes] = []

    def listen(server: socket.socket) -> None:
        for _ in range(2):
            caller, _ = server.accept()
            with caller:
                while (first := caller.recv(8, socket.MSG_WAITALL))[4:] in (_SSL, _GSS):
                    caller.sendall(b"N")
                heard.append(first)

    with socket.create_server(("127.0.0.2", 0)) as server:  # which is no name of this machine's
        listening = threading.Thread(target=listen, args=(server,), daemon=True)
        listening.start()
        for said in ("", "?sslmode=prefer"):
            address = f"postgresql://me:secret@127.0.0.2:{server.getsockname()[1]}/db{said}"
            with pytest.raises(MindstoneError) as told:
                PostgresStore(address, timeout=5).sessions()
            assert ("does not encrypt" in told.value.what) is (not said)
        listening.join(5)
    assert [bool(each) for each in heard] == [False, True]
