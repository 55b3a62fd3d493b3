"""The resident: one process for each home that serves HTTP and a socket until it is told to stop.

A lock makes it the only one; a file beside it says where it listens. Whatever ends it, history is
whole: a turn it was taking ends as interrupted, and the next one to open the session sees to it.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui import __version__, api
from mindstone_tui.core import diagnostics, disk, errors, paths, signals
from mindstone_tui.core.library.vectors import pending_everywhere
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.servers import attached, gateway, lookup, page
from mindstone_tui.servers.peer import LONGEST, Handler, Peer

HOST: Final = "127.0.0.1"
LONGEST_SOCKET_PATH: Final = 100
"""What the system takes for the address of a socket, and a little less."""
_TICK: Final = 5.0
_STOPPING: Final = 10.0
_AT_ONCE: Final = 1 << 14
"""Bytes of one client that are read before others have their turn."""
_CRUMB: Final = pattern_of(rb"\r\n0*[0-9A-Fa-f]{1,2}(?:[\t ;][^\r\n]*)?\r\n")
_MOST_CRUMBS: Final = 500
_CRUMB_SIZE: Final = 64
"""Bytes; with more pieces of a body than that, smaller than this, taking it apart is a burden."""
_CRUMBLED: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
    b"The body comes in too many small pieces.\n"
)
_TOO_LATE: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 37\r\n\r\n"
    b"The request took too long to arrive.\n"
)
_LAST_BYTES: Final = 1.0
"""Seconds for what was written already when it ends; some take nothing."""
_SWITCH: Final = 0.0005
"""Seconds after which a busy thread makes way: answering takes a dozen turns at the interpreter."""


class ResidentPlaces(msgspec.Struct, frozen=True):
    """The resident's files in a home."""

    state: Path
    lock = paths.Under("serve.lock", "state")
    """Held by the resident for as long as it lives."""
    told = paths.Under("serve.json", "state")
    """Where it listens."""
    token = paths.Under(paths.SERVE_TOKEN, "state")
    """What opens it."""
    log = paths.Under("serve.log", "state")
    """What it refused, and what failed."""

    @property
    def socket(self) -> Path:
        """Where local programs talk to it; elsewhere if this path is too long for a socket."""
        path = self.state / "serve.sock"
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            return path
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"mindstone-{os.getuid()}" / f"{name}.sock"


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """What a resident says about itself."""

    pid: int
    version: str
    started: float
    socket: str
    token: str
    """The file that holds it."""
    url: str = ""
    """Empty when it serves its socket only."""
    on_demand: bool = False
    """Started by a hook: it makes room for one that a person starts."""


def listening(places: paths.Places) -> Listening | None:
    """The home's resident, if one is alive."""
    own = ResidentPlaces(places.state)
    with contextlib.suppress(OSError, msgspec.MsgspecError), own.lock.open("rb") as held:
        try:
            fcntl.flock(held.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return msgspec.json.decode(disk.read_regular(own.told), type=Listening)
    return None


class TokenFile(msgspec.Struct, eq=False):
    """The secret that opens the gateway, readable by its owner alone."""

    path: Path

    def read(self) -> str:
        """The token, made on first use; a file that others can read is replaced."""
        try:
            safe = self.path.stat().st_mode & 0o077 == 0
            token = disk.read_regular(self.path).decode("ascii").strip()
            if safe and len(token) >= 32:
                return token
        except (OSError, UnicodeDecodeError):
            pass
        token = secrets.token_urlsafe(32)
        disk.ensure_folder(self.path.parent)
        disk.replace_file(self.path, token.encode())
        return token


def already() -> errors.UsageError:
    """Why a second one does not start."""
    return errors.UsageError(
        "A resident serves this home already.",
        "`mindstone serve --status` says where, `mindstone serve --stop` ends it.",
    )


async def ask(found: Listening, method: str, params: dict[str, Any], seconds: float = 10.0) -> Any:
    """Ask the resident something over its socket."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(found.socket, limit=LONGEST)
            peer = Peer(reader, writer, {}, report_bug=lambda error: None)
            hearing = asyncio.create_task(peer.listen())
            try:
                return await peer.ask(method, params)
            finally:
                hearing.cancel()
                writer.close()
    except (OSError, TimeoutError) as error:
        raise errors.MindstoneError(
            f"The resident (process {found.pid}) does not answer.",
            "See `mindstone serve --status`.",
        ) from error


class Resident:
    """Everything that runs while the resident does."""

    def __init__(
        self, home: api.Home, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._home = home
        self._pause = pause
        self._own = ResidentPlaces(home.places.state)
        self._lookup = lookup.Lookup(home)
        self._gateway = gateway.Gateway(home)
        self._page = page.Page(api.Home(environ=home.environ, folder=Path.cwd()))
        self._attached = attached.Attached(home)
        self._started = time.time()
        self._stop = asyncio.Event()
        self._told: Listening | None = None
        self._lock = 0
        """Which file the lock is."""

    async def run(
        self, *, port: int, http: bool, ready: Callable[[Listening], None], linger: float = 0.0
    ) -> None:
        """Serve until somebody says stop; `ready` is told once everything listens.

        It also ends by itself once its home or the program is gone, and with `linger` once no hook
        has asked for that many seconds.
        """
        disk.ensure_folder(self._own.state)
        sys.setswitchinterval(_SWITCH)
        with self._alone(), contextlib.ExitStack() as files:
            self._own.told.unlink(missing_ok=True)  # of one that was killed
            token = TokenFile(self._own.token).read()
            await self._open_socket(files)
            server: Any = None
            url = ""
            if http:
                listener = _listen(port)
                files.callback(listener.close)
                number = listener.getsockname()[1]
                url = f"http://{HOST}:{number}"
                server = self._server(number, token)
            self._told = told = self._leave_word(url, on_demand=linger > 0)
            files.callback(self._own.told.unlink, missing_ok=True)
            signals.on_ending(self.stop)
            tasks = [
                asyncio.create_task(self._tend(linger)),
                asyncio.create_task(self._end_when_left_behind()),
            ]
            following = asyncio.create_task(self._attached.run())
            if server is not None:
                tasks.append(asyncio.create_task(asyncio.to_thread(api.warm_up)))
                # `serve` without the handlers for signals, which are the resident's own.
                tasks.append(asyncio.create_task(server._serve(sockets=[listener])))
            ready(told)
            try:
                await self._stop.wait()
            finally:
                await self._page.close()
                await self._gateway.close()
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                await self._attached.close()
                if server is not None:
                    server.should_exit = True
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(tasks[-1], _STOPPING)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _leave_word(self, url: str, *, on_demand: bool) -> Listening:
        """Write down where this listens."""
        told = Listening(
            pid=os.getpid(),
            version=__version__,
            started=self._started,
            socket=str(self._own.socket),
            token=str(self._own.token),
            url=url,
            on_demand=on_demand,
        )
        disk.replace_file(self._own.told, msgspec.json.encode(told))
        return told

    def stop(self) -> None:
        """End it, gracefully."""
        self._stop.set()

    @contextlib.contextmanager
    def _alone(self) -> Any:
        """Hold the home's lock; refuse where another resident has it."""
        if (fd := disk.take_lock(self._own.lock)) is None:
            raise already()
        try:
            self._lock = os.fstat(fd).st_ino
            yield
        finally:
            os.close(fd)

    async def _open_socket(self, files: contextlib.ExitStack) -> None:
        path = self._own.socket
        disk.ensure_folder(path.parent)
        elsewhere = path.parent != self._own.state  # where anybody may make a folder first
        if elsewhere and (commands := disk.open_to_changes(path.parent)):
            raise errors.UsageError(
                f"Others can change what lies in {path.parent}, where the socket would be.",
                f"Run: {'; '.join(commands)}",
            )
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):  # Linux makes the name with the socket's own mode
            os.fchmod(listener.fileno(), disk.FILE_MODE)
        listener.bind(str(path))
        path.chmod(disk.FILE_MODE)  # elsewhere it is set before anybody can connect
        files.callback(path.unlink, missing_ok=True)
        server = await asyncio.start_unix_server(self._talk, sock=listener, limit=LONGEST)
        files.callback(server.close)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bug = partial(diagnostics.record, log=self._own.log)
        try:
            await Peer(reader, writer, self.methods(), report_bug=bug).listen()
        finally:
            writer.close()

    def methods(self) -> dict[str, Handler]:
        """What local programs may ask over the socket."""
        return {
            "status": self._status,
            "stop": self._end,
            "recall": _asks(self._lookup.recall, query="", session="", scope="session", limit=0),
            "search": _asks(self._lookup.search, query="", session="", limit=0),
            "sessions": _asks(self._lookup.sessions, contains=""),
            **self._attached.methods(),
        }

    async def _status(self, params: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.to_builtins(self._told) if self._told else {}
        return {
            **told,
            "seconds": round(time.time() - self._started, 1),
            "requests": self._gateway.requests,
            "sessions": self._gateway.rooms,
        }

    async def _end(self, params: dict[str, Any]) -> dict[str, Any]:
        asyncio.get_running_loop().call_later(0.05, self._stop.set)
        return {"stopping": True}

    async def _tend(self, linger: float) -> None:
        """Close what is idle, and make the vectors that are missing."""
        while True:
            await asyncio.sleep(_TICK)
            if linger and time.monotonic() - self._attached.last_asked > linger:
                self.stop()
            await self._gateway.close_idle()
            settings = self._home.settings
            await self._page.close_idle(settings.serve.idle)
            places = self._home.places
            waiting = await asyncio.to_thread(pending_everywhere, places)
            if settings.recall.background and waiting:
                # Deferred: most residents never have anything left to do.
                from mindstone_tui.core.library.vector_worker import work

                with contextlib.suppress(errors.MindstoneError):
                    await asyncio.to_thread(work, places, settings, ends=self._stop.is_set)

    async def _end_when_left_behind(self) -> None:
        """End it once its home or the program itself was removed: nobody can reach it any more."""
        while not self._is_left_behind():
            await self._pause(_TICK)
        self.stop()

    def _is_left_behind(self) -> bool:
        """Whether our lock is another's, or gone; a home made anew belongs to whoever made it."""
        try:
            return self._own.lock.stat().st_ino != self._lock or not Path(__file__).exists()
        except OSError:
            return True

    def _server(self, port: int, token: str) -> Any:
        import uvicorn

        # Deferred: with uvicorn and starlette some tenths of a second, and only HTTP needs it.
        from mindstone_tui.servers.http import Guard, application

        serve = self._home.settings.serve
        hosts = frozenset(f"{name}:{port}" for name in (HOST, "localhost", "[::1]"))
        app = application(self._home, self._gateway, self._page, self._own.log)
        guard = Guard(
            app,
            token=token,
            hosts=hosts,
            most=serve.body_bytes,
            seconds=serve.body_seconds,
            log=self._own.log,
        )
        app.state.refused = guard.refused
        config = uvicorn.Config(
            guard,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            http=patient_protocol(serve.body_seconds, serve.clients),
            limit_concurrency=serve.clients,
            timeout_graceful_shutdown=int(_STOPPING),
        )
        return uvicorn.Server(config)


class _Pieces(msgspec.Struct, eq=False):
    """What one client has sent so far."""

    _taken: int = 0
    _crumbs: int = 0

    def are_crumbs(self, data: bytes) -> bool:
        """Whether a body comes, with this, in so many small pieces that they are a burden."""
        self._taken += len(data)
        self._crumbs += len(_CRUMB.findall(data))
        return self._crumbs > _MOST_CRUMBS and self._crumbs * _CRUMB_SIZE > self._taken


def _sparing_protocol() -> Any:
    """HTTP that reads little of a client at a time, and lets go of whose body comes in crumbs."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class SparingProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            transport.max_size = _AT_ONCE
            self._pieces = _Pieces()
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            if self._pieces.are_crumbs(data):
                self._let_go(_CRUMBLED)
            else:
                super().data_received(data)

        def _let_go(self, said: bytes) -> None:
            self.transport.write(said)
            self.transport.close()

    return SparingProtocol


def patient_protocol(seconds: float, clients: int) -> Any:
    """HTTP for so many clients; once an eighth of the places is left, half may be silent."""

    class PatientProtocol(_sparing_protocol()):  # type: ignore[misc]
        """Closes what sends no whole request or takes no answer in time, or is longest silent."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def handle_events(self) -> None:
            super().handle_events()
            self._look()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._wait()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._look()

        def shutdown(self) -> None:
            super().shutdown()
            self.loop.call_later(_LAST_BYTES, self._look, self.transport.abort)

        def on_response_complete(self) -> None:
            self._wait()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._waited()
            super().connection_lost(exc)

        def _look(self, otherwise: Callable[[], None] = lambda: None) -> None:
            at_work = self.cycle is not None and not self.cycle.response_complete
            (self._waited if at_work and not self.flow.write_paused else otherwise)()

        def _wait(self) -> None:
            self._waited()
            silent[self] = self.loop.call_later(seconds, self._give_up)
            is_crowd = len(self.connections) >= clients - max(1, clients // 8)
            if is_crowd and len(silent) > clients // 2:
                next(iter(silent))._give_up()

        def _waited(self) -> None:
            if self in silent:
                silent.pop(self).cancel()

        def _give_up(self) -> None:
            self._waited()
            if self.flow.write_paused or self.transport.is_closing():
                self.transport.abort()
            else:
                self._let_go(_TOO_LATE)
            self.loop.call_later(seconds, self.transport.abort)  # if nobody reads even that

    silent: dict[PatientProtocol, asyncio.TimerHandle] = {}
    return PatientProtocol


def _asks(look: Callable[..., dict[str, Any]], **usual: str | int) -> Handler:
    """What looks something up for a program; what it does not name is as it is usually."""

    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        given = {name: type(value)(params.get(name) or value) for name, value in usual.items()}
        return await asyncio.to_thread(partial(look, **given))

    return ask


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise errors.UsageError(
            f"Port {port} is not free: {error.strerror}.",
            "Name another with --port, or 0 for any that is free.",
        ) from error
    listener.listen()  # whoever is told the address may come before the server looks
    listener.setblocking(False)
    return listener


def start_in_background(places: paths.Places, arguments: list[str]) -> Listening:
    """Start a resident that outlives this process, and wait until it listens."""
    own = ResidentPlaces(places.state)
    if listening(places) is not None:
        raise already()
    disk.ensure_folder(own.state)
    log = disk.REAL.open(own.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    command = [sys.executable, "-P", "-m", "mindstone_tui", "serve", *arguments]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    begun = time.time()
    try:
        child = os.posix_spawn(
            sys.executable, command, os.environ, file_actions=actions, setsid=True
        )
    finally:
        os.close(log)
    while time.time() - begun < 60:
        if (found := listening(places)) is not None and found.pid == child:
            return found
        ended, _ = os.waitpid(child, os.WNOHANG)
        if ended:
            raise errors.MindstoneError("The resident did not start.", f"{own.log} says why.")
        time.sleep(0.05)
    raise errors.MindstoneError(
        f"The resident (process {child}) does not listen yet: this machine is very busy.",
        "`mindstone serve --status` says when it does.",
    )
