"""A proxy on loopback that cuts the connection after so many bytes, in either direction."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class CuttingProxy:
    """Forwards to a port; `cut_after` bytes of a direction, the connection is reset, once."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._left: dict[str, int] = {}
        self.cuts = 0
        self.seen = {"up": 0, "down": 0}
        """Bytes that went through since the last `cut_after`."""
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A thread that waits in `accept` is only woken by a connection.
        self._target = -1
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        self._thread.join(5)
        self._listener.close()
        self.cut_all()

    def cut_after(self, direction: str, count: int) -> None:
        """Reset the connection once so many bytes went `up` to the server or `down` from it."""
        with self._lock:
            self._left = {direction: count}
            self.seen = {"up": 0, "down": 0}

    def cut_all(self) -> None:
        """Reset every connection now."""
        with self._lock:
            for each in list(self._open):
                _reset(each)
            self._open.clear()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._target < 0:
                client.close()
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _reset(client)
                continue
            with self._lock:
                self._open |= {client, server}
            for way in ((client, server, "up"), (server, client, "down")):
                threading.Thread(target=self._forward, args=way, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    left = self._left.get(direction)
                    cut = left is not None and left < len(data)
                    if left is not None:
                        data = data[:left] if cut else data
                        self._left[direction] = left - len(data)
                    self.seen[direction] += len(data)
                    if cut:
                        self._left = {}
                        self.cuts += 1
                sink.sendall(data)
                if cut:
                    break
        with self._lock:
            self._open -= {source, sink}
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _reset(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
