"""The engines inside: SQLite and its vectors, the tokenizer, the embedder, models, the sandbox."""

import asyncio
import importlib.util
import shlex
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import msgspec

from mindstone_tui.core import numbers, plugins, text, transcript
from mindstone_tui.core.doctor import Check, CheckEnvironment, failed, passed, warned
from mindstone_tui.core.interchange import formats
from mindstone_tui.core.library.vectors import pending_everywhere, progress_of
from mindstone_tui.core.providers import registry
from mindstone_tui.core.recall.multilingual import EXTRA, open_multilingual
from mindstone_tui.core.session.features import load_features
from mindstone_tui.core.tools import sandbox_probe


def engines(around: CheckEnvironment) -> Iterator[Check]:
    """What works inside, each tried."""
    yield _sqlite()
    yield _vectors()
    yield _index(around)
    yield _worker(around)
    yield _tokenizer()
    yield _embedder()
    yield _languages()
    yield _model(around)
    yield _sandbox(around)
    yield _plugins()


class PluginState(msgspec.Struct, frozen=True):
    """A plug-in, and why it is left out; empty when it is in use."""

    plugin: plugins.Plugin
    why: str


def plugin_states() -> list[PluginState]:
    """Every plug-in that is installed, tried."""
    left_out = (*load_features()[1], *formats.door().left_out, *registry.door().left_out)
    whys = {each.plugin: each.why for each in left_out}
    return [PluginState(each, whys.get(each, "")) for each in plugins.installed()]


def _plugins() -> Check:
    states = plugin_states()
    bad = [plugins.LeftOut(each.plugin, each.why).sentence for each in states if each.why]
    if not bad:
        return passed("plugins", f"{text.plural(len(states), 'plug-in')}.")
    remedy = "Update or uninstall the package; `mindstone plugins` lists all."
    return warned("plugins", " ".join(bad), remedy)


def _sqlite() -> Check:
    try:
        import apsw

        apsw.Connection(":memory:").execute("create virtual table words using fts5(text)")
    except (ImportError, OSError) as error:
        return failed(
            "sqlite",
            f"SQLite cannot be used: {error}.",
            "Reinstall the package; recall needs apsw.",
        )
    return passed("sqlite", f"SQLite {apsw.sqlite_lib_version()} with FTS5.")


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
        return warned(
            "sqlite.vectors",
            f"sqlite-vec does not load ({error}); recall searches by words only.",
            "Reinstall the package on this machine.",
        )
    return passed("sqlite.vectors", f"sqlite-vec {version} loads.")


def _worker(around: CheckEnvironment) -> Check:
    """Whether vectors are missing, and whether anybody makes them."""
    if not (waiting := sum(pending_everywhere(around.places).values())):
        return passed("vectors", "Every passage has its vector.")
    worker = progress_of(around.places)
    doing = "they are being made in the background" if worker.running else "the app makes them"
    return passed("vectors", f"By words only so far: {text.plural(waiting, 'passage')}; {doing}.")


def _index(around: CheckEnvironment) -> Check:
    """Whether the library is sound and agrees with the session's transcript; recall mends both."""
    import apsw

    library = around.places.library
    remedy = f"mindstone reindex --session {around.session}"
    if not library.exists():
        return passed("index", "No index yet; it is built when needed.")
    if not library.is_file():
        detail = f"{library} is no ordinary file."
        return warned("index", detail, "Remove it; it is built anew.")
    try:
        connection = apsw.Connection(str(library), flags=apsw.SQLITE_OPEN_READONLY)
        verdict = str(connection.execute("pragma quick_check(1)").get)
        facts = dict(
            connection.execute(
                "select facts.name, value from facts join owners on number = facts.owner"
                " where owners.name = ?",
                (str(around.session),),
            )
        )
        connection.close()
    except apsw.Error as error:
        verdict, facts = str(error), {}
    if verdict != "ok":
        detail = f"The index of all sessions is damaged: {verdict}."
        return warned("index", detail, remedy)
    if aside := sorted(library.parent.glob(f"{library.name}.damaged-*")):
        detail = f"A damaged library was put aside as {aside[-1]} and made anew."
        return warned("index", detail, f"rm {shlex.quote(str(library))}.damaged-*")
    return _agreement(around, int(facts.get("seq") or -1), str(facts.get("hash", "")), remedy)


def _agreement(around: CheckEnvironment, seq: int, digest: str, remedy: str) -> Check:
    """Whether the line up to which the index has come is still that line."""
    size = numbers.size(around.places.library.stat().st_size)
    if not around.places.session(around.session).transcript.exists():
        return passed("index", f"The index of all sessions is sound; it takes {size}.")
    with transcript.History(around.places.session(around.session)) as history:
        newest = history.head.seq
        if seq >= 0 and digest and (seq > newest or history.line(seq).hash != digest):
            detail = f"The index of {around.session} belongs to another history."
            return warned("index", detail, remedy)
    behind = "whole" if seq == newest else f"{newest - seq} of its lines wait for the next turn"
    detail = f"The index agrees with the transcript, {behind}; that of all sessions takes {size}."
    return passed("index", detail)


def _tokenizer() -> Check:
    """Whether the vocabularies that count tokens offline are there."""
    spec = importlib.util.find_spec("litellm")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    folder = Path(roots[0]) / "litellm_core_utils" / "tokenizers" if roots else None
    if folder is not None and folder.is_dir() and any(folder.iterdir()):
        return passed("tokenizer", "Tokens are counted offline.")
    return warned(
        "tokenizer",
        "The bundled vocabularies are missing; tokens are estimated from bytes.",
        "Reinstall the package; they come with litellm.",
    )


def _embedder() -> Check:
    model = resources.files("mindstone_tui.core.recall") / "minilm" / "minilm-int8.onnx"
    if not model.is_file() or importlib.util.find_spec("onnxruntime") is None:
        return warned(
            "embedder",
            "The embedder is missing; recall searches by words only.",
            "Reinstall the package.",
        )
    return passed("embedder", "all-MiniLM-L6-v2 is here: English is found by meaning, offline.")


def _languages() -> Check:
    """Whether other languages than English are found by meaning, too."""
    model = open_multilingual()
    install = f"pip install 'mindstone-tui[{EXTRA}]'"
    if model is None:
        detail = f"Other languages than English are found by words only; {install} adds meaning."
        return passed("languages", detail)
    if wrong := model.damage():
        return warned(
            "languages",
            f"The model for other languages cannot be used ({wrong}): words only for them.",
            f"Run {install} --force-reinstall.",
        )
    return passed(
        "languages", "Fourteen other languages are found by meaning, also across languages."
    )


def _model(around: CheckEnvironment) -> Check:
    """Whether the model that answers by default can be reached as far as that is known."""
    listed = registry.available(around.settings.models, around.places, around.environ)
    chosen = next((each for each in listed if each.default), None)
    if chosen is None or not chosen.usable:
        name = chosen.name if chosen else "The default model"
        why = chosen.why if chosen else "it is not known"
        return failed(
            "model", f"{name} cannot answer: {why}", "`mindstone models` lists models that can."
        )
    return passed("model", f"{chosen.name}: {chosen.why.rstrip('.')}.")


def _sandbox(around: CheckEnvironment) -> Check:
    """What really confines a command here: tried, not assumed."""
    _, told = asyncio.run(sandbox_probe.find(around.environ))
    if not told.working:
        return warned(
            "sandbox",
            (
                f"{told.why} So each command is asked about, full-auto cannot be chosen, and only"
                " for programs that just look a rule with a star is offered."
            ).strip(),
            "Install bubblewrap.",
        )
    if broken := [gap for gap in told.does_not_hold if gap.startswith("not so")]:
        return warned(
            "sandbox",
            f"{told.name} confines commands, but {'; '.join(broken)}.",
            "Install bubblewrap, or allow it to make user namespaces.",
        )
    return passed("sandbox", f"{told.name} confines commands: {'; '.join(told.holds)}.")
