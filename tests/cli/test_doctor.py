"""`doctor`: a sound installation passes, and whatever is wrong is named with a remedy."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from mindstone_tui.cli import doctor
from mindstone_tui.cli.main import run
from mindstone_tui.core.config import Settings
from mindstone_tui.core.doctor import Check, CheckEnvironment
from mindstone_tui.core.doctor.home import file_system_of, unaltered
from mindstone_tui.core.doctor.home import home as checks_of_home
from mindstone_tui.core.paths import DEFAULT_SESSION, Places
from tests.builders import places_in, say, transcript_in

Capture = pytest.CaptureFixture[str]


def test_doctor_passes_on_a_sound_installation(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    assert run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ids = [check["id"] for check in told["checks"]]
    assert told["ok"] is True
    assert len(ids) == len(set(ids))
    assert {"config", "places.data", "permissions", "disk.space", "session", "sqlite"} <= set(ids)
    assert {"sqlite.vectors", "tokenizer", "embedder", "model", "sandbox", "index"} <= set(ids)
    assert all(check["outcome"] in ("pass", "warn", "fail") for check in told["checks"])
    assert all(check["remedy"] for check in told["checks"] if check["outcome"] != "pass")


def test_a_session_that_was_never_begun_is_nothing_wrong(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    assert run(["recall", "question"]) == 0
    assert places_in(home).library.exists()
    capsys.readouterr()
    assert run(["doctor", "--json", "-s", "never-begun"]) == 0
    checks = {check["id"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["index"]["outcome"] == "pass"
    assert "sandbox" in checks


def test_doctor_names_what_is_wrong_and_a_remedy(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    places = places_in(home)
    places.transcript.chmod(0o644)
    places.library.write_bytes(b"this is no database" * 100)
    lines = places.transcript.read_bytes().splitlines(keepends=True)
    places.transcript.write_bytes(b"".join([lines[0], *lines[2:]]))
    (home / "config.toml").write_text("[context]\nceiling = 300\n")
    assert run(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    outcomes = {check["id"]: check["outcome"] for check in told["checks"]}
    assert outcomes["config"] == "fail"
    assert outcomes["permissions"] == "warn"
    remedies = {check["id"]: check["remedy"] for check in told["checks"]}
    assert str(places.transcript) in remedies["permissions"]
    assert outcomes["session"] == "fail"
    assert outcomes["index"] == "warn"
    assert run(["doctor"]) == 1
    assert "mindstone verify" in capsys.readouterr().out


def test_one_altered_byte_in_the_middle_of_any_session_is_no_sound_installation(
    home: Path, capsys: Capture
) -> None:
    for session in ("a", "b"):
        with contextlib.closing(transcript_in(home, session)) as transcript:
            say(transcript, "question", "answer")
            say(transcript, "another", "answer")
    altered = places_in(home, "a").transcript
    altered.write_bytes(altered.read_bytes().replace(b"question", b"questiom"))
    assert run(["doctor", "--json"]) == 1
    found = {check["id"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    check = found["sessions.unaltered"]
    assert "1 damaged, of 2 sessions. The first is agent:default:a, line 2" in check["detail"]
    assert "mindstone verify -s agent:default:a" in check["remedy"]
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    around = CheckEnvironment(places, {}, Settings(), DEFAULT_SESSION)
    (at_once,) = unaltered(around, seconds=0)
    assert "the 1 newest of 2; `mindstone verify --all` reads all" in at_once.detail


def test_doctor_names_a_rescue_file(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    kept = Places.resolve({"MINDSTONE_HOME": str(home)}).state / "rescued" / "unsaved-1.jsonl"
    kept.parent.mkdir(parents=True, mode=0o700)
    kept.write_text('{"kind":"user_message","text":"kept"}\n')
    kept.chmod(0o600)
    assert run(["doctor", "--json"]) == 0
    found = {check["id"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert found["rescued"]["outcome"] == "warn"
    assert str(kept) in found["rescued"]["detail"]


def test_doctor_looks_at_every_file_of_ours_before_it_calls_them_private(home: Path) -> None:
    say(transcript_in(home), "question", "answer")
    (home / "state").mkdir(0o700)
    (home / "state" / "some.lock").touch(0o600)
    (home / "themes").mkdir(0o755)

    def told() -> Check:
        return permissions_of(home)

    assert told().outcome == "pass", told()
    for path in (home, *home.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | 0o040)
        expected = "pass" if path.name == "themes" else "warn"
        assert (told().outcome, str(path) in told().remedy) == (expected, expected == "warn"), path
        path.chmod(mode)


def test_what_others_can_read_is_counted_and_named_once(home: Path) -> None:
    say(transcript_in(home), "question", "answer")
    (home / "state").mkdir(exist_ok=True)
    for folder in (home, home / "state"):
        folder.chmod(0o755)
    told = permissions_of(home)
    assert told.detail == f"2 files or folders can be read by others, first {home}."
    assert told.remedy == f"chmod -R go= {home}"


def permissions_of(home: Path) -> Check:
    around = CheckEnvironment(
        Places.resolve({"MINDSTONE_HOME": str(home)}), {}, Settings(), DEFAULT_SESSION
    )
    return next(check for check in checks_of_home(around) if check.id == "permissions")


@pytest.mark.parametrize("name", ["hooks.json", "commands/a.md", "skills/b/SKILL.md", "blobs/x"])
@pytest.mark.parametrize("linked", [False, True])
def test_doctor_names_what_others_can_have_us_obey(
    home: Path, tmp_path: Path, name: str, linked: bool
) -> None:
    say(transcript_in(home), "question", "answer")
    base = home if name != "blobs/x" else next(home.rglob("transcript.jsonl")).parent
    place = (tmp_path / "elsewhere" if linked else base) / name
    place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    place.touch(0o600)
    if linked:
        first = name.partition("/")[0]
        (base / first).symlink_to(tmp_path / "elsewhere" / first)
    assert permissions_of(home).outcome == "pass"
    for path in (place,) if place.parent == home else (place.parent,):
        path.chmod(path.stat().st_mode | 0o002)
        told = permissions_of(home)
        assert (told.outcome, path.name in told.remedy) == ("warn", True)


def test_a_home_that_is_a_file_is_said_in_words(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "file"))
    assert run(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "is a file, but a folder is needed there" in said
    assert "mindstone_tui." not in said


def test_a_package_adds_its_checks_with_one_line() -> None:
    assert all(":" in room for room in doctor.ROOMS)


def test_a_network_file_system_is_recognised(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/x /home/me/net nfs4 rw 0 0\n"
        "tmpfs /home/me/with\\040blank tmpfs rw 0 0\n"
    )
    assert file_system_of(Path("/home/me/net/mindstone"), mounts) == "nfs4"
    assert file_system_of(Path("/home/me/network"), mounts) == "ext4"
    assert file_system_of(Path("/home/me/with blank/x"), mounts) == "tmpfs"
    assert file_system_of(Path("/"), tmp_path / "missing") == ""
