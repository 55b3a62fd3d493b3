"""Any text may name a session; no two share a folder, and no name leads out of its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core import paths
from mindstone_tui.core.errors import SessionNameError
from mindstone_tui.core.paths import (
    DEFAULT_SESSION,
    LONGEST_NAME,
    Places,
    SessionKey,
    folder_for,
    name_of,
)
from tests.builders import transcript_in

HOSTILE = (
    "..", ".", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "\x00", "a\x00b", "con", "CON",
    "con.txt", "NUL", "com1", "lpt9.log", "aux.", " ", "a ", "a.", ".a", "-rf", "~", "$HOME", "*",
    "x" * 300, "😀" * 300, "é", "e\u0301", "ＭＡＩＮ", "main\n", "\u202emain", "%2e", "=aaaa", "a+",
    "+", "main+", "A", "a", "İ", "ı", "ß", "SS", "\u200b", "\ufeff", "tab\t", "new\nline",
)  # fmt: skip

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_makes_a_session_inside_its_place_and_is_listed_again(
    home: Path, name: str
) -> None:
    key = SessionKey("default", name)
    transcript = transcript_in(home, str(key))
    folder = transcript.places.folder.resolve()
    assert folder.is_relative_to((home / "agents" / "default" / "sessions").resolve())
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    assert [found.key for found in places.sessions()] == [key]
    transcript.close()


@given(names)
def test_a_folder_leads_back_to_its_name(name: str) -> None:
    assert name_of(folder_for(name)) == name


@given(names, names)
@example("a", "A")
@example("é", "e\u0301")
@example("x" * 250, "x" * 251)
@example("=abc", "abc")
def test_two_names_never_share_a_folder_even_where_case_is_folded(one: str, other: str) -> None:
    if one != other:
        assert str(folder_for(one)).casefold() != str(folder_for(other)).casefold()


@given(names, names)
def test_no_name_stands_inside_the_folder_of_another(one: str, other: str) -> None:
    if one != other:
        assert not folder_for(one).is_relative_to(folder_for(other))


@given(names)
def test_folders_are_plain_short_and_safe_everywhere(name: str) -> None:
    for part in folder_for(name).parts:
        assert part.isascii()
        assert part == part.lower()
        assert len(part) <= 201
        assert part not in (".", "..", "")
        assert not part.endswith((".", " "))
        assert not set(part) & set('/\\:*?"<>|\x00')
        assert part.split(".")[0] not in ("con", "prn", "aux", "nul", "com1", "lpt1")


@given(names, names)
def test_a_key_is_read_back_from_its_text(agent: str, main: str) -> None:
    key = SessionKey(agent.replace(":", "_"), main)
    assert SessionKey.parse(str(key)) == key


def test_aliases_and_bare_names_are_short_for_the_default_agent() -> None:
    assert SessionKey.parse("mindstone") == DEFAULT_SESSION
    assert SessionKey.parse("agent:default:main") == DEFAULT_SESSION
    assert SessionKey.parse("work") == SessionKey("default", "work")


@pytest.mark.parametrize(
    "text", ["", "agent:", "agent::", "agent:a", "agent:a:", "agent::b", "\ud800"]
)
def test_what_cannot_be_a_key_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SessionNameError) as refusal:
        SessionKey.parse(text)
    assert "agent:default:main" in refusal.value.remedy


def test_a_name_that_would_not_fit_into_a_path_is_refused(home: Path) -> None:
    with pytest.raises(SessionNameError, match="too long"):
        SessionKey.parse("x" * (LONGEST_NAME + 1))
    longest = "ü" * ((LONGEST_NAME - len("default")) // 2)
    transcript_in(home, longest).close()


def test_places_follow_the_home_variable_or_the_system(tmp_path: Path) -> None:
    own = Places.resolve({"MINDSTONE_HOME": str(tmp_path)})
    assert own.config_file == tmp_path / "config.toml"
    assert own.log == tmp_path / "state" / "mindstone.log"
    assert Places.resolve({}).config != tmp_path


def test_no_program_that_lies_where_the_agent_works_is_started_by_itself(tmp_path: Path) -> None:
    work, elsewhere, linked = (tmp_path / name for name in ("work", "elsewhere", "linked"))
    for folder in (work / "bin", elsewhere, linked):
        folder.mkdir(parents=True)
    for folder in (work / "bin", elsewhere):
        (folder / "rg").write_text("#!/bin/sh\n")
        (folder / "rg").chmod(0o755)
    (linked / "rg").symlink_to(work / "bin" / "rg")
    (tmp_path / "by-link").symlink_to(work / "bin")
    inside = (str(work / "bin"), str(linked), str(tmp_path / "by-link"), "bin", ".", "")
    path = ":".join((*inside, str(elsewhere)))
    assert paths.program("rg", path, work) == str(elsewhere / "rg")
    assert paths.program("rg", ":".join(inside), work) is None
    assert paths.program("rg", path, tmp_path / "other") == str(work / "bin" / "rg")


def test_no_helper_of_the_folder_that_we_are_in_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    for folder in (work, elsewhere):
        folder.mkdir()
        (folder / "ssh").write_text("#!/bin/sh\n")
        (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{work}:{elsewhere}")
    monkeypatch.chdir(work)
    assert paths.helper("ssh") == str(elsewhere / "ssh")


@pytest.mark.parametrize("name", ["/" + "a" * 300, "/" + "b/" * 400_000, "/a\0b", "/\ud800", ""])
def test_a_name_that_no_system_has_is_no_folder_and_no_file(name: str) -> None:
    assert not paths.is_folder(name)
    assert not paths.is_file(name)
    assert paths.telling_projects()(name) == name
    assert paths.project_of(Path(name)) == Path(name)
