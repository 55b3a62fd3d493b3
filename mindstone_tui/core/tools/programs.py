"""What is known of programs, one row each in `programs.json`, and what follows from it.

`verdicts` asks what a command does and `shell_rules` what may be allowed with a star; both read the
same row. What the first words of a program decide beyond a table stands here as a function.

Programs accept a long option by any beginning of its name (`--uploa` is `--upload-pack`) and short
ones in a bundle (`-Hx` is `-H -x`). So an option is risky when its name could be the beginning of a
risky one, and a bundle when any letter in it is. That asks once too often about `-nx` where x is a
value; it never asks once too seldom.
"""

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from mindstone_tui.core.patterns import pattern_of

Effect = Literal[
    "reads", "writes", "unknown", "network", "outside the workspace", "deletes", "force-push",
    "privilege", "pipe to shell",
]  # fmt: skip
SEVERITY: Final[tuple[Effect, ...]] = get_args(Effect)
"""From the mildest to the worst."""

Doings = Iterator[tuple[Effect, str]]
"""What a program does, worst or not, each with its reason."""


class RiskyOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options whose values are programs, files to write, or other places to read from."""

    long: tuple[str, ...] = ()
    """Names after two dashes; any beginning of one counts."""
    plain: tuple[str, ...] = ()
    """Whole names after two dashes that are known to do no harm; where there are any, every other
    counts: plug-ins bring options of their own."""
    letters: str = ""
    """Letters after one dash, alone, in a bundle or with a value attached."""
    single: tuple[str, ...] = ()
    """Whole names after one dash or two, for programs that have no bundles."""
    words: tuple[str, ...] = ()
    """Beginnings of words, such as `+toolchain`; what follows `--` is for another program."""
    operands: bool = False
    """Any word that is no option counts: the program writes to a file it is named."""
    bare_bundle: bool = False
    """The first word is a bundle even without a dash, as in `tar xf`."""


Kind = Literal[
    "", "reads", "writes", "deletes", "network", "privilege", "project", "packages", "ends"
]


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table. A list of actions that is `*` means every one."""

    does: Kind = ""
    """`project` runs the project's own code, `packages` depends on the action, `ends` programs."""
    called: str = ""
    """The program whose words it takes, and by whose name it is told."""
    code: Literal["", "script", "shell"] = ""
    """It runs code from its arguments, a file or its input; a shell's is judged as a line."""
    wraps: bool = False
    """Its words go on with another command, which is judged in its place."""
    valued: tuple[str, ...] = ()
    """Options before the action or the inner command whose value is the next word."""
    before: int = 0
    """Words that come before the inner command: a duration, a folder, a lock."""
    pathless: bool = False
    """Its words are no paths."""

    fetches: tuple[str, ...] = ()
    """Actions that use the network and change files."""
    runs: tuple[str, ...] = ()
    """Actions that run the project's own code, or other programs."""
    removes: tuple[str, ...] = ()
    """Actions that delete."""
    reads: tuple[str, ...] = ()
    """Actions that only look."""

    opaque: bool = False
    """It runs others or changes the shell: its first word says nothing about the rest."""
    sets_up: tuple[str, ...] = ()
    """Actions that run or set up other programs."""
    offer: tuple[str, ...] = ()
    """Actions that do the same kind of work whatever follows, if no option is risky: what a rule
    with a star reaches, and all of it."""
    risky: RiskyOptions = RiskyOptions()


@cache
def known_programs() -> dict[str, Program]:
    """The whole table by name."""
    table = Path(__file__).with_suffix(".json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, Program])


_UNKNOWN: Final = Program()


def row_of(name: str) -> Program:
    """What is known of a program; an empty row when nothing is."""
    return known_programs().get(name, _UNKNOWN)


def has_risky_option(command: tuple[str, ...]) -> bool:
    """Whether a word could make the program write, or run or read what it does not seem to."""
    table = row_of(command[0]).risky
    return any(_is_risky(table, word, first=at == 0) for at, word in enumerate(command[1:]))


def _is_risky(table: RiskyOptions, word: str, *, first: bool) -> bool:
    asks_gpg = "%G" in word or "%(signature" in word  # as git is told
    if word.startswith(table.words) or (table.words and asks_gpg):
        return True
    if not word.startswith("-") or word == "-":
        bundle = first and table.bare_bundle and any(sign in table.letters for sign in word)
        return bundle or (table.operands and word != "-")
    if (name := word.lstrip("-").partition("=")[0]) in table.single:
        return True
    if word.startswith("--"):
        if table.plain:
            return bool(name) and name not in table.plain
        return bool(name) and any(risky.startswith(name) for risky in table.long)
    return any(sign in table.letters for sign in word[1:])


RECORDS: Final = (("git", "add"), ("git", "commit"), ("git", "stash"), ("git", "tag"))
"""Takes files as they are into the history, and changes none."""
HARMLESS_PLACES: Final = frozenset(
    {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/tty"}
)
LOADED_VARIABLES: Final = pattern_of(
    r"\b(LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|IFS|PATH"
    r"|PYTHONSTARTUP|PYTHONPATH|PYTHONHOME|PERL5OPT|PERL5LIB|RUBYOPT|RUBYLIB|NODE_OPTIONS|NODE_PATH"
    r"|GIT_SSH\w*|GIT_EXTERNAL_DIFF|GIT_CONFIG\w*|GIT_PAGER|GIT_EDITOR|GIT_EXEC_PATH|GIT_DIR|PAGER"
    r"|EDITOR|VISUAL|BROWSER|RUSTC_WRAPPER|RUSTFLAGS|CC|CXX|LDFLAGS|MAKEFLAGS|JAVA_TOOL_OPTIONS"
    r"|npm_config_\w+|LESSOPEN|MANPAGER|SHELLOPTS|BASHOPTS|CDPATH)="
)
PLAIN_VARIABLES: Final = pattern_of(
    r"(LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|LINES|(NO|FORCE|CLI)_?COLOR|CI|DEBUG|RUST_LOG"
    r"|RUST_BACKTRACE|NODE_ENV|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED"
    r"|GIT_OPTIONAL_LOCKS|GIT_TERMINAL_PROMPT)="
)
"""What changes how a program speaks, and not what it does."""

_INLINE: Final = {"-c", "-e", "--eval", "-E", "-p", "--print", "-r", "--command", "-lc", "-ec"}
_ELSEWHERE: Final = ("--prefix", "--cwd", "-C", "--project", "--directory")
"""Options of package managers before the action whose value is the next word."""


def unwrapped(name: str, words: list[str | None]) -> list[str | None]:
    """The command inside a wrapper; empty when there is none to be seen."""
    rest = words[1:]
    row = row_of(name)
    skipped = row.before
    while rest:
        if (word := rest[0]) is not None and word == "--":
            rest = rest[1:]
        elif word is not None and word.startswith("-") and len(word) > 1:
            rest = rest[2:] if word in row.valued else rest[1:]
        elif name in ("env", "sudo", "doas") and word is not None and "=" in word:
            rest = rest[1:]
        elif skipped:
            skipped, rest = skipped - 1, rest[1:]
        else:
            return rest
    return []


def inline_script(name: str, words: list[str | None]) -> tuple[bool, str | None]:
    """Whether code is among the arguments (`-c`), and which if it is literal."""
    for at, word in enumerate(words[1:], 1):
        if word is None or not word.startswith("-"):
            break
        bundled = row_of(name).code == "shell" and not word.startswith("--") and "c" in word[1:]
        if word in _INLINE or bundled:
            return True, words[at + 1] if at + 1 < len(words) else None
    return False, None


def names_a_file(words: list[str | None]) -> bool:
    """Whether an interpreter is told what to run, so that it does not read its input for it."""
    for word in words[1:]:
        if word == "-" or (word is not None and word in ("-s", "/dev/stdin")):
            return False
        if word is None or not word.startswith("-") or word == "-m":
            return True
    return False


def looks_like_a_path(word: str) -> bool:
    """Whether a word may lead somewhere else than into the folder."""
    if word.lower().startswith("file:"):
        return True
    if "://" in word or re.match(r"[\w.-]+@[\w.-]+:", word):
        return False
    return word.startswith(("/", "~")) or ".." in word.split("/")


def of_program(name: str, words: list[str | None]) -> Doings:
    """What a program does with these words, worst or not, each with its reason."""
    plain = [word for word in words[1:] if word is not None]
    row = row_of(name)
    if decided := _BY_WORDS.get(row.called or name):
        yield from decided(plain)
        return
    match row.does:
        case "packages":
            yield from _packages(row, row.called or name, plain)
        case "ends":
            yield "deletes", f"ends running programs: {_what(plain)}"
        case "deletes":
            yield "deletes", f"{name} deletes {_what(plain)}"
        case "network":
            yield "network", f"{name} uses the network{_where(plain)}"
            if (action := _action(plain, row.valued)[0]) in row.removes:
                yield "deletes", f"{name} {action} removes what runs there"
        case "reads":
            yield "reads", "only looks"
        case "writes":
            yield from _writer(name, plain)
        case "project":
            yield "unknown", f"{name} runs this project's own code"
        case "privilege":
            return
        case _:
            yield "unknown", f"what {name} does is not known"


def _what(words: list[str]) -> str:
    named = [word for word in words if not word.startswith("-")]
    return " ".join(named) if named else "what it is given"


def _where(words: list[str]) -> str:
    found = next((word for word in words if "://" in word), "")
    return f": {found}" if found else ""


def _writer(name: str, words: list[str]) -> Doings:
    if name in ("sed", "awk", "gawk") and not any(_in_place(word) for word in words):
        yield "unknown", f"{name} can write and run more than it shows"
        return
    if name == "chmod" and any(re.match(r"[ugoa]*\+\w*s|[2467]\d{3}\Z", word) for word in words):
        yield "privilege", "sets a bit that runs a program as its owner"
    if name == "tar" and not any(re.match(r"-?\w*[xcru]", word) for word in words[:1]):
        yield "reads", "lists an archive"
        return
    if name == "dd":
        yield "writes", "dd copies raw bytes"
        for word in words:
            if word.startswith("of=/dev/"):
                yield "deletes", f"overwrites {word[3:]}"
        return
    if name == "rsync":
        if any(re.search(r"\S:", word) for word in words):
            yield "network", "rsync uses the network"
        if any(word.startswith("--del") for word in words):
            yield "deletes", "rsync deletes what the source does not have"
    yield "writes", f"{name} changes files"


def _in_place(word: str) -> bool:
    return word == "inplace" or word.startswith("--in-place") or bool(re.match(r"-\w*i", word))


def _git(words: list[str]) -> Doings:
    row = row_of("git")
    action, rest = _action(words, row.valued)
    if action == "push":
        yield "network", "sends commits to another machine"
        if _forced(rest):
            yield "force-push", "a forced push overwrites what others may have built on"
    elif action in ("clean", "rm"):
        yield "deletes", f"git {action} deletes files"
    elif action == "reset" and "--hard" in rest:
        yield "deletes", "throws uncommitted changes away"
    elif action in ("checkout", "restore", "switch") and _discards(action, rest):
        yield "deletes", "may throw uncommitted changes away"
    elif action == "branch" and any(re.match(r"-\w*[dD]|--delete", word) for word in rest):
        yield "deletes", "deletes a branch"
    elif action == "stash" and rest[:1] in (["drop"], ["clear"]):
        yield "deletes", "throws stashed changes away"
    elif action == "reflog" and rest[:1] in (["expire"], ["delete"], ["drop"]):
        yield "deletes", "throws away the way back to earlier commits"
    elif action in row.fetches:
        yield "network", f"git {action} uses the network"
        yield "writes", f"git {action} changes the repository"
    elif action in row.runs:
        yield "unknown", f"git {action} can set or run other programs"
    elif action in row.reads or not action:
        yield "reads", "only looks"
    else:
        yield "writes", f"git {action} changes the repository"


def _forced(words: list[str]) -> bool:
    """`--force` in any abbreviation or bundle, `+branch`, a mirror, or a remote branch deleted."""
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("--") and len(name) > 2:
            risky = ("--force", "--force-with-lease", "--force-if-includes", "--mirror", "--delete")
            if any(each.startswith(name) for each in (*risky, "--prune")):
                return True
        elif (word.startswith("-") and any(sign in "fd" for sign in word[1:])) or word.startswith(
            ("+", ":")
        ):
            return True
    return False


def _discards(action: str, words: list[str]) -> bool:
    if action == "switch":
        return any(word in ("-f", "--force", "--discard-changes", "-C") for word in words)
    creates = any(re.match(r"-\w*b|--orphan", word) for word in words)
    return action == "restore" or "." in words or "--" in words or ("-f" in words and not creates)


def without_options(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command without the options that stand before its action."""
    name, *words = command
    action, rest = _action(words, row_of(name).valued or _ELSEWHERE)
    return (name, action, *rest)


def _action(words: list[str], valued: Collection[str]) -> tuple[str, list[str]]:
    """The subcommand and what follows, past the options that come before it."""
    rest = list(words)
    while rest:
        if (word := rest.pop(0)) in valued and rest:
            rest.pop(0)
        elif not word.startswith("-") and not word.startswith("+"):
            return word, rest
    return "", []


def _packages(row: Program, name: str, words: list[str]) -> Doings:
    action, _ = _action(words, _ELSEWHERE)
    if action in row.fetches:
        yield "network", f"{name} {action} fetches packages, which may run code of their own"
        yield "writes", f"{name} {action} changes files"
    elif action in row.removes:
        yield "deletes", f"{name} {action} removes what is there"
    elif action in row.reads:
        yield "reads", "only looks"
    elif action in row.runs:
        yield "unknown", f"{name} {action} runs this project's own code"
    else:
        yield "unknown", f"what {name} {action} does is not known".replace("  ", " ")


def _find(words: list[str]) -> Doings:
    names = {word.lstrip("-") for word in words if word.startswith("-")}
    if "delete" in names:
        yield "deletes", "find deletes what it finds"
    runs = {"exec", "execdir", "ok", "okdir"}
    if names & runs:
        at = next(i for i, word in enumerate(words) if word.lstrip("-") in runs)
        run = [None if word == "{}" else word for word in words[at + 1 :]]
        yield "unknown", "find runs a program on what it finds"
        if run and run[0]:
            yield from of_program(run[0], list(run))
    if names & {"fprint", "fprint0", "fprintf", "fls"}:
        yield "writes", "find writes a list to a file"
    yield "reads", "only looks"


def _curl(words: list[str]) -> Doings:
    yield "network", f"curl uses the network{_where(words)}"
    if any(re.match(r"-\w*[oO]|--output|--remote-name", word) for word in words):
        yield "writes", "saves what it fetches"


def _docker(words: list[str]) -> Doings:
    action, rest = _action(words, row_of("docker").valued)
    if action in ("rm", "rmi", "prune") or "prune" in rest or "rm" in rest[:1]:
        yield "deletes", f"docker {action} removes containers, images or volumes"
    if action in ("ps", "images", "logs", "inspect", "version", "info", "stats", "top", "port"):
        yield "reads", "only looks"
    elif action in ("run", "exec", "compose", "build", "buildx"):
        yield "privilege", f"docker {action} can reach the whole machine"
    else:
        yield "network", f"docker {action} talks to its server"


_EVERY_PROCESS: Final = pattern_of(r"(?:-[AadefFHjlL]+ ?)*(?:-[Ae]*o [a-df-z,%=]+)?")
"""Words in which `e` has its dash for sure: what makes no sense so, `ps` reads without it."""


def _ps(words: list[str]) -> Doings:
    """Without a dash `e` shows the variables of every process; with one it shows every process."""
    short = " ".join(word for word in words if word[:2] != "--")
    plain = "e" not in short or _EVERY_PROCESS.fullmatch(short)
    if not plain or any("E" in word or "env" in word for word in words):
        yield from _shows_variables(words)
    yield "reads", "only looks"


def _jq(words: list[str]) -> Doings:
    if any(re.search(r"\b(?:env|import|include)\b|\$ENV\b", word) for word in words):
        yield "outside the workspace", "shows variables of programs, or reads files it names itself"
    yield "reads", "only looks"


def _shows_variables(words: list[str]) -> Doings:
    yield "outside the workspace", "shows variables of programs, which may hold keys"


_BY_WORDS: Final[dict[str, Callable[[list[str]], Doings]]] = {
    "git": _git,
    "find": _find,
    "curl": _curl,
    "docker": _docker,
    "ps": _ps,
    "jq": _jq,
    "env": _shows_variables,
    "printenv": _shows_variables,
}
