"""The engines inside: SQLite and its vectors, the tokenizer, the embedder, models, the sandbox."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from mindstone_tui.core.checks import Check, Surroundings


def checks(around: Surroundings) -> Iterator[Check]:
    """All checks of this file."""
    yield _sqlite()
    yield _vectors()
    yield _index(around)
    yield _tokenizer()
    yield _embedder()
    yield _model(around)
    yield _sandbox()


def _sqlite() -> Check:
    try:
        import apsw

        connection = apsw.Connection(":memory:")
        connection.execute("create virtual table words using fts5(text)")
    except (ImportError, OSError) as error:
        return Check(
            id="sqlite",
            outcome="fail",
            detail=f"SQLite cannot be used: {error}.",
            remedy="Install the package again; recall needs apsw.",
        )
    return Check(
        id="sqlite", outcome="pass", detail=f"SQLite {apsw.sqlite_lib_version()} with FTS5."
    )


def _vectors() -> Check:
    try:
        import apsw
        import sqlite_vec  # type: ignore[import-untyped]

        connection = apsw.Connection(":memory:")
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
        version = connection.execute("select vec_version()").get
    except (ImportError, OSError, apsw.Error) as error:
        return Check(
            id="sqlite.vectors",
            outcome="warn",
            detail=f"sqlite-vec does not load ({error}); recall works on words alone.",
            remedy="Install the package again on this machine.",
        )
    return Check(id="sqlite.vectors", outcome="pass", detail=f"sqlite-vec {version} loads.")


def _index(around: Surroundings) -> Check:
    """Whether the session's index is a sound database; recall rebuilds it when it is not."""
    import apsw

    file = around.places.session(around.session).index
    if not file.exists():
        return Check(id="index", outcome="pass", detail="No index yet; it is made when needed.")
    try:
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        verdict = connection.execute("pragma quick_check(1)").get
        connection.close()
    except apsw.Error as error:
        verdict = str(error)
    if verdict != "ok":
        return Check(
            id="index",
            outcome="warn",
            detail=f"The index of {around.session} is damaged: {verdict}.",
            remedy=f"mindstone reindex --session {around.session}",
        )
    return Check(id="index", outcome="pass", detail="The index is a sound database.")


def _tokenizer() -> Check:
    """Whether the vocabularies that count tokens offline are there."""
    spec = importlib.util.find_spec("litellm")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    folder = Path(roots[0]) / "litellm_core_utils" / "tokenizers" if roots else None
    if folder is not None and folder.is_dir() and any(folder.iterdir()):
        return Check(id="tokenizer", outcome="pass", detail="Tokens are counted offline.")
    return Check(
        id="tokenizer",
        outcome="warn",
        detail="The bundled vocabularies are missing; tokens are estimated from bytes.",
        remedy="Install the package again; they come with litellm.",
    )


def _embedder() -> Check:
    model = resources.files("mindstone_tui.core.recall") / "minilm" / "minilm-int8.onnx"
    if not model.is_file() or importlib.util.find_spec("onnxruntime") is None:
        return Check(
            id="embedder",
            outcome="warn",
            detail="The embedder is missing; recall works on words alone.",
            remedy="Install the package again.",
        )
    return Check(
        id="embedder",
        outcome="pass",
        detail="all-MiniLM-L6-v2 is here (English; other languages are found by words).",
    )


def _model(around: Surroundings) -> Check:
    chosen = around.settings.models.default
    if chosen:
        return Check(id="model", outcome="pass", detail=f"{chosen} answers.")
    fetched = sorted(file.name for file in around.places.models.glob("*.gguf"))
    here = f"; fetched: {', '.join(fetched)}" if fetched else ""
    return Check(id="model", outcome="pass", detail=f"An embedded model answers{here}.")


def _sandbox() -> Check:
    """What really confines a command here: tried, not assumed."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap:
        probe = subprocess.run(
            [bubblewrap, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true"],
            capture_output=True,
            timeout=10,
            check=False,
        )
        if probe.returncode == 0:
            return Check(id="sandbox", outcome="pass", detail="bubblewrap confines commands.")
    landlock = Path("/sys/kernel/security/lsm")
    if landlock.is_file() and "landlock" in landlock.read_text(errors="replace"):
        return Check(id="sandbox", outcome="pass", detail="Landlock confines commands.")
    return Check(
        id="sandbox",
        outcome="warn",
        detail="Nothing here confines commands, so every command asks and full-auto is refused.",
        remedy="Install bubblewrap.",
    )
