"""What well-known programs do, as tables: which look, which write, which delete, which call out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final, Literal

from mindstone_tui.core.patterns import pattern_of

Effect = Literal[
    "reads",
    "writes",
    "unknown",
    "network",
    "outside the workspace",
    "deletes",
    "force-push",
    "privilege",
    "pipe to shell",
]
SEVERITY: Final[tuple[Effect, ...]] = (
    "reads",
    "writes",
    "unknown",
    "network",
    "outside the workspace",
    "deletes",
    "force-push",
    "privilege",
    "pipe to shell",
)
"""From the mildest to the worst."""

Family = Callable[[list[str]], Iterator[tuple[Effect, str]]]
"""A program whose first words decide what it does."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


READS: Final = _names(
    """
    ls cat head tail wc grep egrep fgrep rg fd tree du df stat file diff cmp comm sort uniq cut tr
    nl tac rev fold column paste join expand od hexdump strings basename dirname realpath readlink
    pwd echo printf which type whereis test [ true false sleep seq expr date cal uname hostname
    whoami id groups nproc uptime free ps pgrep lsof env printenv locale md5sum sha1sum sha256sum
    sha512sum cksum b2sum jq yq cd pushd popd find less more man cloc tokei ag ack bat eza exa shuf
    tput : jobs wait ulimit umask history dirs nm ldd objdump readelf size
    """
)
WRITES: Final = _names(
    """
    cp mv mkdir touch tee ln install chmod patch dd sed ed ex awk gawk tar unzip zip gzip gunzip
    bzip2 xz zstd split csplit mktemp mkfifo mknod black isort prettier gofmt rustfmt clang-format
    autopep8 xxd rsync
    """
)
DELETES: Final = frozenset({"rm", "rmdir", "unlink", "shred", "truncate", "trash", "wipe", "srm"})
NETWORK: Final = _names(
    """
    curl wget ssh scp sftp ftp nc ncat netcat socat telnet ping dig nslookup host traceroute nmap
    http https xh aria2c gh glab hub aws gcloud az doctl heroku fly flyctl vercel netlify wrangler
    kubectl helm terraform ansible ansible-playbook docker podman apt apt-get dnf yum brew apk
    pacman pipx twine rclone s3cmd psql mysql mongosh redis-cli ollama
    """
)
PRIVILEGE: Final = _names(
    """
    sudo su doas run0 pkexec runuser setpriv chroot unshare nsenter chown chgrp mount umount
    systemctl service insmod modprobe sysctl iptables nft ufw useradd usermod userdel passwd visudo
    crontab at batch shutdown reboot poweroff halt mkfs fdisk parted setcap capsh launchctl
    """
)
SHELLS: Final = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "rbash", "ash", "pwsh"}
)
INTERPRETERS: Final = SHELLS | {
    *("python", "python2", "python3", "pypy", "pypy3", "perl", "ruby", "node", "nodejs", "deno"),
    *(
        "bun",
        "php",
        "lua",
        "luajit",
        "Rscript",
        "osascript",
        "tclsh",
        "eval",
        "source",
        ".",
        "exec",
    ),
    *("ts-node", "tsx", "irb", "ipython", "julia", "groovy", "scala", "swift", "elixir"),
}
WRAPPERS: Final = frozenset(
    {
        *("sudo", "doas", "run0", "env", "command", "builtin", "nohup", "nice", "ionice", "time"),
        *("timeout", "stdbuf", "setsid", "xargs", "parallel", "watch", "chrt", "unbuffer", "flock"),
        *("strace", "ltrace", "exec", "runuser", "setpriv", "chroot", "busybox", "caffeinate"),
    }
)
"""Programs whose words go on with another command."""
TAKE_NO_PATHS: Final = frozenset({"echo", "printf", "export", "test", "[", "expr", "sleep", "seq"})
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

_INLINE: Final = {"-c", "-e", "--eval", "-E", "-p", "--print", "-r", "--command", "-lc", "-ec"}
_VALUED: Final[dict[str, Collection[str]]] = {
    "sudo": _names("-u -g -h -p -C -T -r -t -U -D -R --user --group --host --prompt --chdir"),
    "doas": ["-u", "-C"],
    "env": ["-u", "--unset", "-C", "--chdir", "-S", "--split-string"],
    "nice": ["-n", "--adjustment"],
    "ionice": ["-c", "-n", "-p"],
    "timeout": ["-s", "--signal", "-k", "--kill-after"],
    "stdbuf": ["-i", "-o", "-e"],
    "xargs": _names("-I -n -P -L -d -E -a -s --max-args --max-procs --arg-file --delimiter"),
    "parallel": ["-j", "--jobs", "-a", "--arg-file"],
    "watch": ["-n", "--interval"],
    "runuser": ["-u", "-g", "-G"],
    "flock": ["-w", "-E"],
    "strace": ["-o", "-e", "-p", "-s", "-u"],
}
_SKIPPED_OPERANDS: Final = {"timeout": 1, "chroot": 1, "flock": 1, "chrt": 1}
"""Words that come before the command: a duration, a folder, a lock."""


def unwrapped(name: str, words: list[str | None]) -> list[str | None]:
    """The command inside a wrapper; empty when there is none to be seen."""
    rest = words[1:]
    valued = _VALUED.get(name, ())
    skipped = _SKIPPED_OPERANDS.get(name, 0)
    while rest:
        word = rest[0]
        if word is not None and word == "--":
            rest = rest[1:]
        elif word is not None and word.startswith("-") and len(word) > 1:
            rest = rest[2:] if word in valued else rest[1:]
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
        bundled = name in SHELLS and not word.startswith("--") and "c" in word[1:]
        if word in _INLINE or bundled:
            return True, words[at + 1] if at + 1 < len(words) else None
    return False, None


def names_a_file(words: list[str | None]) -> bool:
    """Whether an interpreter is told what to run, so that it does not read its input for it."""
    for word in words[1:]:
        if word == "-" or (word is not None and word in ("-s", "/dev/stdin")):
            return False
        if word is None or not word.startswith("-"):
            return True
        if word == "-m":
            return True
    return False


def looks_like_a_path(word: str) -> bool:
    """Whether a word may lead somewhere else than into the folder."""
    if "://" in word or re.match(r"[\w.-]+@[\w.-]+:", word):
        return False
    return word.startswith(("/", "~")) or ".." in word.split("/")


def of_program(name: str, words: list[str | None]) -> Iterator[tuple[Effect, str]]:
    """What a program does with these words, worst or not, each with its reason."""
    plain = [word for word in words[1:] if word is not None]
    family = _FAMILIES.get(name)
    if family is not None:
        yield from family(plain)
    elif name in DELETES:
        yield "deletes", f"{name} deletes {_what(plain)}"
    elif name in NETWORK:
        yield "network", f"{name} uses the network{_where(plain)}"
    elif name in READS:
        yield "reads", "only looks"
    elif name in WRITES:
        yield from _writer(name, plain)
    elif name in _PROJECT:
        yield "unknown", f"{name} runs this project's own code"
    elif name in PRIVILEGE:
        return
    else:
        yield "unknown", f"what {name} does is not known"


_PROJECT: Final = _names(
    """
    pytest tox nox unittest make cmake ninja meson gradle mvn ant bazel just task rake tsc eslint
    jest vitest mocha playwright cypress webpack vite rollup esbuild ruff mypy pyright flake8 pylint
    ctest phpunit rspec dotnet swift zig gcc g++ cc c++ clang clang++ rustc javac java pre-commit
    coverage
    """
)


def _what(words: list[str]) -> str:
    named = [word for word in words if not word.startswith("-")]
    return " ".join(named) if named else "what it is given"


def _where(words: list[str]) -> str:
    found = next((word for word in words if "://" in word), "")
    return f": {found}" if found else ""


def _writer(name: str, words: list[str]) -> Iterator[tuple[Effect, str]]:
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


_GIT_READS: Final = _names(
    """
    status diff log show blame grep ls-files ls-tree rev-parse rev-list describe shortlog cat-file
    merge-base name-rev show-ref for-each-ref check-ignore diff-tree diff-index var version help
    whatchanged range-diff count-objects reflog
    """
)
_GIT_NETWORK: Final = frozenset(
    {"push", "pull", "fetch", "clone", "ls-remote", "remote", "submodule"}
)
_GIT_RUNS: Final = frozenset({"bisect", "filter-branch", "config", "rebase", "hook", "maintenance"})


def _git(words: list[str]) -> Iterator[tuple[Effect, str]]:
    action, rest = _action(words, {"-C", "-c", "--git-dir", "--work-tree", "--exec-path"})
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
    elif action in _GIT_NETWORK:
        yield "network", f"git {action} uses the network"
        yield "writes", f"git {action} changes the repository"
    elif action in _GIT_RUNS:
        yield "unknown", f"git {action} can set or run other programs"
    elif action in _GIT_READS or not action:
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


def _action(words: list[str], valued: set[str]) -> tuple[str, list[str]]:
    """The subcommand and what follows, past the options that come before it."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in valued and rest:
            rest.pop(0)
        elif not word.startswith("-") and not word.startswith("+"):
            return word, rest
    return "", []


def _packages(name: str, fetches: str, runs: str, deletes: str = "", reads: str = "") -> Family:
    def family(words: list[str]) -> Iterator[tuple[Effect, str]]:
        action, _ = _action(words, {"--prefix", "--cwd", "-C", "--project", "--directory"})
        if action in fetches.split():
            yield "network", f"{name} {action} fetches packages, which may run code of their own"
            yield "writes", f"{name} {action} changes files"
        elif action in deletes.split():
            yield "deletes", f"{name} {action} removes what is there"
        elif action in reads.split():
            yield "reads", "only looks"
        elif action in runs.split():
            yield "unknown", f"{name} {action} runs this project's own code"
        else:
            yield "unknown", f"what {name} {action} does is not known".replace("  ", " ")

    return family


def _find(words: list[str]) -> Iterator[tuple[Effect, str]]:
    names = {word.lstrip("-") for word in words if word.startswith("-")}
    if "delete" in names:
        yield "deletes", "find deletes what it finds"
    if names & {"exec", "execdir", "ok", "okdir"}:
        at = next(
            i
            for i, word in enumerate(words)
            if word.lstrip("-") in ("exec", "execdir", "ok", "okdir")
        )
        run = [None if word == "{}" else word for word in words[at + 1 :]]
        yield "unknown", "find runs a program on what it finds"
        if run and run[0]:
            yield from of_program(run[0], list(run))
    if names & {"fprint", "fprint0", "fprintf", "fls"}:
        yield "writes", "find writes a list to a file"
    yield "reads", "only looks"


def _curl(words: list[str]) -> Iterator[tuple[Effect, str]]:
    yield "network", f"curl uses the network{_where(words)}"
    if any(re.match(r"-\w*[oO]|--output|--remote-name", word) for word in words):
        yield "writes", "saves what it fetches"


def _docker(words: list[str]) -> Iterator[tuple[Effect, str]]:
    action, rest = _action(words, {"--context", "-H", "--host"})
    if action in ("rm", "rmi", "prune") or "prune" in rest or "rm" in rest[:1]:
        yield "deletes", f"docker {action} removes containers, images or volumes"
    if action in ("ps", "images", "logs", "inspect", "version", "info", "stats", "top", "port"):
        yield "reads", "only looks"
    elif action in ("run", "exec", "compose", "build", "buildx"):
        yield "privilege", f"docker {action} can reach the whole machine"
    else:
        yield "network", f"docker {action} talks to its server"


def _kubectl(words: list[str]) -> Iterator[tuple[Effect, str]]:
    action, _ = _action(words, {"-n", "--namespace", "--context"})
    yield "network", f"kubectl {action} talks to a cluster"
    if action in ("delete", "drain"):
        yield "deletes", f"kubectl {action} removes what runs there"


def _kill(words: list[str]) -> Iterator[tuple[Effect, str]]:
    yield "deletes", f"ends running programs: {_what(words)}"


_FAMILIES: Final[dict[str, Family]] = {
    "git": _git,
    "find": _find,
    "curl": _curl,
    "docker": _docker,
    "podman": _docker,
    "kubectl": _kubectl,
    "kill": _kill,
    "pkill": _kill,
    "killall": _kill,
    "npm": _packages(
        "npm",
        "install i ci add update up publish audit login exec create init view outdated",
        "run run-script test t start build",
        "uninstall remove rm",
        "ls list version help",
    ),
    "npx": _packages("npx", "", ""),
    "pnpm": _packages(
        "pnpm", "install i add update dlx create", "run test start build exec", "remove rm"
    ),
    "yarn": _packages("yarn", "install add upgrade dlx create", "run test start build", "remove"),
    "pip": _packages(
        "pip", "install download wheel index search", "", "uninstall", "list show freeze check"
    ),
    "pip3": _packages("pip", "install download wheel", "", "uninstall", "list show freeze check"),
    "uv": _packages(
        "uv", "add sync lock pip tool publish python", "run build", "remove", "version tree"
    ),
    "poetry": _packages(
        "poetry", "install add update publish lock", "run build", "remove", "show check"
    ),
    "cargo": _packages(
        "cargo",
        "install add update fetch publish search login",
        "build b test t check c run r bench clippy doc fmt",
        "clean uninstall remove",
        "tree metadata version",
    ),
    "go": _packages(
        "go",
        "get install mod work",
        "build test run vet generate fmt",
        "clean",
        "version env list doc",
    ),
    "gem": _packages("gem", "install update push fetch", "", "uninstall", "list"),
    "bundle": _packages("bundle", "install update add", "exec", "remove clean", "list show"),
    "composer": _packages("composer", "install update require", "run exec", "remove", "show"),
}
