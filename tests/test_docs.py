"""What the documents name is there: files, names in them, make targets, packages of the core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindstone_tui.cli.main import VERBS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mindstone_tui"
DOCUMENTS = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / ".github" / "pull_request_template.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
ROOTS = (ROOT, PACKAGE, PACKAGE / "core")
"""Where a path in a document may start."""

_PATH = r"[\w.*-]+(?:/[\w.*-]+)*/?"
_FILE = re.compile(rf"`({_PATH})`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)")
_NAMES_IN = re.compile(rf"`({_PATH}\.py)`\s\(((?:`\w+`(?:, )?)+)\)")
_NAME_IN = re.compile(rf"`(\w+)`\sin\s`({_PATH}\.py)`")
_OF_PROJECTS = ".mindstone/"
"""Files that a user's project may have, not ours."""


def found(path: str) -> list[Path]:
    """The files that a document means; a bare name may be anywhere in the package."""
    if "/" not in path:
        return list(PACKAGE.rglob(path))
    return [each for root in ROOTS for each in root.glob(path.rstrip("/"))]


def files_named(text: str) -> Iterator[str]:
    for path in _FILE.findall(text):
        if path.startswith((_OF_PROJECTS, "scripted/", "local/")):
            continue
        if path.endswith(("/", ".py")) or ("/" in path and Path(path).suffix):
            yield path


def names_told(text: str) -> Iterator[tuple[str, str]]:
    for path, names in _NAMES_IN.findall(text):
        yield from ((name, path) for name in re.findall(r"\w+", names))
    yield from _NAME_IN.findall(text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_a_document_names_is_there(document: Path) -> None:
    text = document.read_text("utf-8")
    missing = [path for path in files_named(text) if not found(path)]
    links = [link for link in _LINK.findall(text) if "://" not in link]
    missing += [link for link in links if not (document.parent / link).exists()]
    assert not missing


def test_every_name_that_a_document_places_in_a_file_is_in_it() -> None:
    told = [each for path in DOCUMENTS for each in names_told(path.read_text("utf-8"))]
    assert len(told) > 10
    wrong = [
        f"{name} in {path}"
        for name, path in told
        if not any(re.search(rf"\b{name}\b", file.read_text("utf-8")) for file in found(path))
    ]
    assert not wrong


def test_every_target_that_a_document_names_can_be_made() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        target
        for path in (*DOCUMENTS, ROOT / "README.md", ROOT / ".pre-commit-config.yaml")
        for target in re.findall(r"(?:`|: )make ([a-z]+)", path.read_text("utf-8"))
    }
    assert named
    assert not named - targets


def test_the_drawing_has_every_package_of_the_core() -> None:
    drawing = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8").split("```")[1]
    core = [path for path in (PACKAGE / "core").iterdir() if not path.name.startswith("__")]
    names = [f"{path.name}/" if path.is_dir() else path.stem for path in core]
    assert not [name for name in names if name not in drawing]


def test_the_man_page_has_every_verb() -> None:
    page = (ROOT / "docs" / "mindstone.1").read_text("utf-8")
    assert set(re.findall(r"^\.SS (\S+)$", page, re.MULTILINE)) == set(VERBS)
