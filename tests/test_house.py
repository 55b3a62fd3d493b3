"""The rules of the house, so that it stays as it was built.

Each rule is one that a newcomer benefits from: a file can be named before it is searched, nothing
is called the same as something else, and the surfaces know the core only by its faces.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mindstone_tui"

LONGEST = 600
"""Lines of a module."""
SHORTEST = 60
"""Lines below which a module needs a second importer to be worth a file."""
LONGEST_FUNCTION = 60
MOST_METHODS = 20
MOST_ARGUMENTS = 10
NOUNS_IN_ING = {"embedding", "ranking", "spelling"}
FACES = {
    "bounded_json",
    "config",
    "diagnostics",
    "disk",
    "doctor",
    "entries",
    "errors",
    "events",
    "features",
    "interchange",
    "library",
    "numbers",
    "paths",
    "patterns",
    "redaction",
    "replay",
    "session",
    "shared",
    "signals",
    "text",
    "transcript",
    "values",
}
"""What a surface may import of the core; the rooms behind these are the core's own business."""
SAME_NAME_TWICE = {"base", "__init__"}


def dotted(path: Path) -> str:
    """The module's name as it is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Every module of the product by its name."""
    return {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything in a module, which several rules look through."""
    return tuple(ast.walk(tree(path)))


@pytest.fixture(scope="module", autouse=True)
def let_go() -> Iterator[None]:
    """Millions of nodes would be looked through at every later collection, and at the end."""
    yield
    for kept in (tree, nodes):
        kept.cache_clear()


def loading(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below a node but what is there for type checkers alone."""
    below = [node]
    while below:
        for child in ast.iter_child_nodes(below.pop()):
            test = child.test if isinstance(child, ast.If) else None
            if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
                yield child
                below.append(child)


def named_from(path: Path, node: ast.ImportFrom) -> str:
    """The module that an import is from, whether it is named whole or from where it stands."""
    if not node.level:
        return node.module or ""
    folder = path.relative_to(ROOT).parts[: -node.level]
    return ".".join((*folder, *([node.module] if node.module else [])))


def imported(path: Path) -> Iterator[str]:
    """Our own modules that a file imports when it runs, at its top or from within a function."""
    for node in loading(tree(path)):
        if isinstance(node, ast.ImportFrom):
            whence = named_from(path, node)
            for alias in node.names:
                name = f"{whence}.{alias.name}"
                known = name if name in modules() else whence
                if known in modules():
                    yield known
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())


@cache
def imports() -> dict[str, set[str]]:
    return {name: set(imported(path)) - {name} for name, path in modules().items()}


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_modules_are_named_with_nouns_and_plain_verbs() -> None:
    stems = {path.stem for path in modules().values()}
    assert not {stem for stem in stems if stem.endswith("ing")} - NOUNS_IN_ING


def test_a_name_stands_for_two_modules_of_the_core_at_most() -> None:
    inside = [path for name, path in modules().items() if within(name, "mindstone_tui.core")]
    counted = Counter(path.stem for path in inside if path.stem not in SAME_NAME_TWICE)
    assert not {stem: count for stem, count in counted.items() if count > 2}


def test_no_module_is_too_long_to_read() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert not {name: count for name, count in lengths.items() if count > LONGEST}


def test_a_short_module_has_a_second_importer() -> None:
    users: dict[str, int] = Counter(name for names in imports().values() for name in names)
    named = ("mindstone_tui.cli", "mindstone_tui.core.features")
    loaded_by_name = {name for name in modules() if within(name, *named)}
    lonely = {
        name
        for name, path in modules().items()
        if len(path.read_text("utf-8").splitlines()) < SHORTEST
        and path.stem not in {"__init__", "__main__"}
        and name not in loaded_by_name
        and users[name] < 2
    }
    assert not lonely


def test_a_public_class_of_the_core_has_a_name_of_its_own() -> None:
    """An event may be called like the entry that it announces."""
    homes: defaultdict[str, set[str]] = defaultdict(set)
    for name, path in modules().items():
        if within(name, "mindstone_tui.core"):
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].add(name)
    twice = {name: sorted(where) for name, where in homes.items() if len(where) > 1}
    events, entries = "mindstone_tui.core.events", "mindstone_tui.core.entries"
    assert not {
        name: where
        for name, where in twice.items()
        if not (len(where) == 2 and within(where[0], entries) and within(where[1], events))
    }


def test_no_function_is_too_long_to_read_and_none_is_made_with_too_many_things() -> None:
    odd = {}
    for name, path in modules().items():
        for node in nodes(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION:
                odd[f"{name}.{node.name}"] = "is too long"
            given = len(node.args.args) + len(node.args.kwonlyargs) - 1
            if node.name == "__init__" and given > MOST_ARGUMENTS:
                odd[f"{name}:{node.lineno}"] = "takes too many arguments"
    assert not odd


def test_no_class_does_too_much() -> None:
    crowded = {}
    for name, path in modules().items():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                public = [
                    each
                    for each in node.body
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not each.name.startswith("_")
                ]
                if len(public) > MOST_METHODS:
                    crowded[f"{name}.{node.name}"] = len(public)
    assert not crowded


def test_a_module_compiles_no_pattern_when_it_is_imported() -> None:
    eager = set()
    for name, path in modules().items():
        below: list[ast.AST] = [tree(path)]
        while below:
            for node in ast.iter_child_nodes(below.pop()):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                    eager.add(f"{name}:{node.lineno}")
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    below.append(node)
    assert not eager  # `pattern_of` compiles when it is first used


def test_what_is_imported_late_says_how_heavy_it_is() -> None:
    silent = set()
    for name, path in modules().items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for function in nodes(path):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.ImportFrom)
                    and within(node.module or "", "mindstone_tui")
                    and not _is_commented(lines, node)
                ):
                    silent.add(f"{name}:{node.lineno}")
    assert not silent


def _is_commented(lines: list[str], node: ast.stmt) -> bool:
    """Whether a comment stands in a statement, or right above it or the imports before it."""
    above = node.lineno - 2
    while lines[above].strip().startswith(("from ", "import ")) and "#" not in lines[above]:
        above -= 1
    return "#" in lines[above] or any(
        "#" in line for line in lines[node.lineno - 1 : node.end_lineno]
    )


def test_surfaces_import_only_the_faces_of_the_core() -> None:
    surfaces = ("mindstone_tui.tui", "mindstone_tui.cli", "mindstone_tui.servers")
    behind = {
        f"{name} imports {used}"
        for name, names in imports().items()
        if within(name, *surfaces)
        for used in names
        if within(used, "mindstone_tui.core") and used.count(".") > 1
        if used.split(".")[2] not in FACES
    }
    assert not behind


def test_surfaces_do_not_know_each_other() -> None:
    """The command line starts the others, from within the functions that do; nothing else."""
    others = ("mindstone_tui.tui", "mindstone_tui.servers")
    wrong = {
        f"{name} imports {used}"
        for name, names in imports().items()
        for used in names
        for mine in others
        if within(name, mine)
        and within(used, "mindstone_tui.cli", *(each for each in others if each != mine))
    }
    assert not wrong


def test_the_rooms_beside_each_other_do_not_import_each_other() -> None:
    rooms = [f"mindstone_tui.core.{room}" for room in ("context", "recall", "providers", "tools")]
    wrong = {
        f"{name} imports {used}"
        for name, names in imports().items()
        for room in rooms
        if within(name, room)
        for used in names
        if within(used, *(each for each in rooms if each != room))
    }
    assert not wrong


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    """Not even from within functions."""
    order: list[str] = []
    state: dict[str, int] = {}
    circles: list[str] = []

    def visit(name: str, way: tuple[str, ...]) -> None:
        if state.get(name) == 2:
            return
        if state.get(name) == 1:
            circles.append(" → ".join((*way[way.index(name) :], name)))
            return
        state[name] = 1
        for used in sorted(imports()[name]):
            visit(used, (*way, name))
        state[name] = 2
        order.append(name)

    for name in modules():
        visit(name, ())
    assert not circles


def settings_with_a_number() -> set[str]:
    """What a person can set to a number."""
    return {
        node.target.id
        for section in tree(PACKAGE / "core" / "config" / "settings.py").body
        if isinstance(section, ast.ClassDef)
        for node in section.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if a_number(node.value)
    }


def a_number(node: ast.expr | None) -> bool:
    """Whether a default says how much, and not only none or one."""
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and value > 1


def defaults(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The parameters of a function or the fields of a class, with what they are by default."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        places = [*node.args.posonlyargs, *node.args.args]
        given = node.args.defaults
        yield from zip(
            (each.arg for each in places[len(places) - len(given) :]), given, strict=True
        )
        yield from zip(
            (each.arg for each in node.args.kwonlyargs), node.args.kw_defaults, strict=True
        )
    elif isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                yield each.target.id, each.value


def test_a_default_number_stands_once_in_settings() -> None:
    """What a person can set, or how long something may take, is no second number elsewhere."""
    named = settings_with_a_number() | {"seconds", "timeout", "within"}
    second = {
        f"{name}: {getattr(node, 'name', '')}({default})"
        for name, path in modules().items()
        if within(name, "mindstone_tui.core") and name != "mindstone_tui.core.config.settings"
        for node in nodes(path)
        for default, value in defaults(node)
        if default in named and a_number(value)
    }
    assert not second


ELSEWHERE = {
    "core/disk.py",  # this is how files of ours are made
    "core/tools/workspace.py",  # the workspace, whose files follow the person's umask
    "core/tools/control_files.py",
    "core/undo/restore.py",
    "core/tools/process_tree.py",  # the kernel's own files
    "core/tools/supervisor.py",
    "core/tools/sandbox.py",  # 0700, and empty places in the workspace
    "core/tools/sandbox_probe.py",  # a stage in a folder of its own
    "core/interchange/attach.py",  # other programs' settings
    "hook.py",  # may import nothing
}
"""Modules that make files by themselves; none of them in a place of ours, but the first."""
_MAKING = {"makedirs", "copy", "copyfile", "copytree"}


def makes_files(call: ast.Call) -> bool:
    """Whether a call can bring a file into being, with permissions that follow the umask."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="os" | "shutil"), attr=name) if name in _MAKING:
            return True
        case ast.Attribute(attr="mkdir" | "write_text" | "write_bytes"):
            return True
        case ast.Attribute(value=ast.Name(id="os"), attr="open"):
            return any(
                isinstance(each, ast.Attribute) and each.attr == "O_CREAT"
                for each in ast.walk(call)
            )
        case ast.Attribute(attr="open") | ast.Name(id="open"):
            modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
            return any(isinstance(mode, str) and mode[:1] in "wxa" for mode in modes if mode)
    return False


def test_files_of_ours_are_made_by_the_disk_alone() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in modules().values()
        for node in nodes(path)
        if isinstance(node, ast.Call) and makes_files(node)
    }
    assert found - ELSEWHERE == set()


def _numbers_taken_from_the_package(path: Path) -> set[str]:
    """Names in capitals that a test imports from the package and that stand for a number."""
    taken = [
        (node.module, name)
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mindstone_tui")
        for name in node.names
        if name.name.isupper()
    ]
    return {
        name.asname or name.name
        for module, name in taken
        if isinstance(getattr(import_module(module or ""), name.name), int | float)
    }


def test_no_test_holds_a_number_against_itself() -> None:
    """A number that is imported agrees with the code whatever it is: a test writes it out."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "tests").rglob("test_*.py")
        if (numbers := _numbers_taken_from_the_package(path))
        for node in nodes(path)
        if isinstance(node, ast.Assert)
        and any(isinstance(each, ast.Name) and each.id in numbers for each in ast.walk(node))
    ]
    assert found == []


SAYS_YES = {
    "mindstone_tui.core.events.question",  # makes an answer of a choice
    "mindstone_tui.core.session.questions",  # hears the answer that is in history
    "mindstone_tui.core.features.app",  # `/answer yes`, a whole command, where questions are shown
}
TAKES_A_CHOICE = {
    "mindstone_tui.tui.widgets.approval",
    "mindstone_tui.cli.line_chat",
    "mindstone_tui.servers.page_items",
    "mindstone_tui.servers.acp_updates",
}
"""The one component of each surface in which a person decides."""
ASKS_BY_ITSELF = ("typer.confirm", "click.confirm", "input")


def called(path: Path) -> Iterator[ast.Call]:
    return (node for node in nodes(path) if isinstance(node, ast.Call))


def may_be_a_yes(call: ast.Call) -> bool:
    """Whether an answer that is made there can allow anything."""
    allowed = [each.value for each in call.keywords if each.arg == "allowed"]
    return not (allowed and isinstance(allowed[0], ast.Constant) and allowed[0].value is False)


def test_every_surface_has_one_component_that_decides() -> None:
    """A yes is made of a choice, in one module; a choice is taken by one component a surface."""
    wrong = set()
    for name, path in modules().items():
        for call in called(path):
            function = ast.unparse(call.func)
            by_name = function.rpartition(".")[2]
            if by_name == "Answer" and may_be_a_yes(call) and name not in SAYS_YES:
                wrong.add(f"{name}:{call.lineno} makes a yes of its own")
            if by_name == "answer_to" and name not in TAKES_A_CHOICE:
                wrong.add(f"{name}:{call.lineno} takes a choice")
            if function in ASKS_BY_ITSELF:
                wrong.add(f"{name}:{call.lineno} asks by {function}")
            drawn = within(name, "mindstone_tui.tui") and by_name in (
                "Button",
                "Switch",
                "Checkbox",
            )
            if drawn and name not in TAKES_A_CHOICE:
                wrong.add(f"{name}:{call.lineno} draws a {by_name}")
    assert not wrong
    page = (PACKAGE / "servers" / "page_files" / "page.js").read_text("utf-8")
    assert page.count('"/page/answer"') == page.count(".disabled = false") == 1


TELLING = tuple(
    f"mindstone_tui.{room}"
    for room in (
        *("cli", "tui", "servers", "api", "core.events", "core.features", "core.handoff"),
        *("core.interchange.export", "core.library", "core.memory.consolidation"),
        *("core.context.extract", "core.recall.answer", "core.recall.course", "core.recall.inject"),
        *("core.agent.undo", "core.replay.survey", "core.transcript.directory"),
    )
)
"""Where people and models are told of the past."""
SPOKEN = {"UserMessage", "AssistantMessage", "AssistantPartial", "ToolReturned", "TaskStarted"}
HOLDS_WORDS = {"entry", "hit", "passage"}
HAS_ITS_MARKS = {"marks", "short_marks", "stands", "place"}
SAYS_ITS_MARKS = {
    "told",
    "marks_of",
    "marks",
    "short_marks",
    "beside",
    "stands",
    "notes",
    "_standing",
}
"""What says of something how it stands; the words are made in `core/entries/marks.py` alone."""

ONLY_LOOKS = {
    # compares, counts or looks for something
    *("core.context.extract._ranked_names", "core.features.health._probe"),
    *("core.features.memory._said_before", "core.features.memory.after_turn"),
    *("core.handoff.checkpoint._utterance", "core.handoff.checkpoint.take"),
    *("core.library.at_action.after", "core.library.blame.recorded_edits"),
    *("core.library.cost.observe", "core.library.work.about", "core.library.shared_search._says"),
    *("core.library.search._said", "core.library.search._takes"),
    *("core.recall.answer._alike", "core.recall.answer._around", "core.recall.answer._sentences"),
    *("core.recall.answer.context", "core.recall.answer.doubts"),
    *("core.replay.survey.references_in", "core.transcript.directory._title_of"),
    *("servers.match._returned", "servers.match._take", "servers.match.exchanges"),
    # makes the value that carries the marks of what it was made from
    *("core.library.find._hit", "core.library.search._as_hit", "core.recall.inject._recalled"),
    # is called by what tells the marks beside it
    *("core.interchange.export.markdown._message", "core.interchange.export.story._scenes"),
    *("core.interchange.export.story.take", "core.library.find.readable"),
    *("core.transcript.directory._text_of", "servers.acp_updates._said"),
    *("core.events.narrate_entry.of_entry", "core.features.tasks.summary_text"),
    # tells what happens now, or what waits for an answer
    *("core.events.from_entry._of_turn", "core.events.from_entry.appeared"),
    *("core.features.memory.answer", "core.features.memory.lapse"),
    *("core.features.plans._decided", "core.features.plans._proposed", "core.features.plans.plan"),
    *("core.features.recall._known_of", "core.library.open_questions._plans"),
    *("core.library.compactions._listed", "core.transcript.directory.said_in"),
}
"""What takes such words and tells nobody of them by itself."""


def last_name(node: ast.AST) -> str:
    return ast.unparse(node).rpartition(".")[2]


def reads_words(function: ast.AST) -> bool:
    """Whether it takes the words of a past entry, a passage or a hit."""
    inside = [*ast.walk(function)]
    named = {last_name(node) for node in inside if isinstance(node, ast.Attribute | ast.Name)}
    holders = HOLDS_WORDS if SPOKEN.isdisjoint(named) else None
    return any(
        (
            isinstance(node, ast.Attribute)
            and node.attr in ("text", "excerpt")
            and (holders is None or last_name(node.value) in holders)
        )
        or (
            isinstance(node, ast.MatchClass)
            and last_name(node.cls) in SPOKEN
            and "text" in node.kwd_attrs
        )
        for node in inside
    )


def says_how_it_stands(function: ast.AST) -> bool:
    """Whether it asks for marks."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in HAS_ITS_MARKS)
        or (isinstance(node, ast.Call) and last_name(node.func) in SAYS_ITS_MARKS)
        for node in ast.walk(function)
    )


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return (node for node in nodes(path) if isinstance(node, kinds))


def test_whoever_tells_of_the_past_says_how_it_stands() -> None:
    """What takes the words of an entry, and tells them, takes its marks; or it is named here."""
    bare = {
        f"{name.removeprefix('mindstone_tui.')}.{node.name}"
        for name, path in modules().items()
        if within(name, *TELLING)
        for node in functions(path)
        if reads_words(node) and not says_how_it_stands(node)
    }
    assert bare == ONLY_LOOKS
