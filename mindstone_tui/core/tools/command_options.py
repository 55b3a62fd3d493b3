"""Options that turn a program which looks into one that writes, or runs something else.

Programs accept a long option by any beginning of its name (`--uploa` is `--upload-pack`) and short
ones in a bundle (`-Hx` is `-H -x`). So an option counts here when its name could be the beginning
of a risky one, and a bundle counts when any letter in it is risky. That asks once too often about
`-nx` where x is a value; it never asks once too seldom.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["RISKY_OPTIONS", "RiskyOptions", "has_risky_option"]


class RiskyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for in the words of one program."""

    long: tuple[str, ...] = ()
    """Names after two dashes; any beginning of one counts."""
    letters: str = ""
    """Letters after one dash, alone, in a bundle or with a value attached."""
    single: tuple[str, ...] = ()
    """Whole names after one dash or two, for programs that have no bundles."""
    words: tuple[str, ...] = ()
    """Beginnings of words that are no options, such as `+toolchain`."""
    operands: bool = False
    """Any word that is no option counts: the program writes to a file it is named."""
    bare_bundle: bool = False
    """The first word is a bundle even without a dash, as in `tar xf`."""


def _risky(
    long: str = "",
    letters: str = "",
    *,
    single: str = "",
    words: str = "",
    operands: bool = False,
    bare_bundle: bool = False,
) -> RiskyOptions:
    return RiskyOptions(
        long=tuple(long.split()),
        letters=letters,
        single=tuple(single.split()),
        words=tuple(words.split()),
        operands=operands,
        bare_bundle=bare_bundle,
    )


RISKY_OPTIONS: Final = {
    "cargo": _risky("config manifest-path target-dir artifact-dir out-dir", "ZC", words="+"),
    "curl": _risky(
        "output remote-name remote-name-all remote-header-name output-dir config upload-file"
        " data data-ascii data-binary data-raw data-urlencode json form form-string dump-header"
        " cookie-jar trace trace-ascii stderr etag-save hsts alt-svc libcurl url-query"
        " unix-socket abstract-unix-socket quote request netrc netrc-file netrc-optional",
        "oOJKTdFcDQXn",
    ),
    "date": _risky("set", "s"),
    "du": _risky("files0-from"),
    "fd": _risky("exec exec-batch base-directory search-path", "xXC"),
    "file": _risky("compile magic-file", "Cm"),
    "find": _risky(
        single="exec execdir ok okdir delete fprint fprint0 fprintf fls files0-from",
    ),
    "git": _risky(
        "config-env exec-path upload-pack receive-pack output output-directory ext-diff textconv"
        " open-files-in-pager git-dir work-tree exec template super-prefix namespace"
        " separate-git-dir reference reference-if-able recurse-submodules config attr-source"
        " no-index",
        "cCOx",
        words="ext:: fd::",
    ),
    "go": _risky(
        single="exec toolexec overlay modfile C o vettool compiler gccgoflags gcflags ldflags"
        " asmflags coverprofile cpuprofile memprofile blockprofile mutexprofile trace outputdir"
        " pkgdir work fuzzcachedir",
    ),
    "grep": _risky("file exclude-from", "f"),
    "jq": _risky("from-file library-path rawfile slurpfile args jsonargs", "fL"),
    "ls": _risky("hyperlink"),
    "mypy": _risky(
        "config-file python-executable install-types cache-dir shadow-file junit-xml"
        " any-exprs-report cobertura-xml-report html-report linecount-report linecoverage-report"
        " lineprecision-report txt-report xml-report xslt-html-report xslt-txt-report"
        " custom-typeshed-dir cache-map",
    ),
    "npm": _risky(
        "script-shell prefix globalconfig userconfig node-options shell registry cache cwd global"
        " call package workspace include-workspace-root git init-module editor viewer scripts",
        "Cgcw",
    ),
    "pip": _risky(
        "index-url extra-index-url trusted-host target root prefix find-links requirement editable"
        " src log python cert client-cert proxy cache-dir global-option config-settings",
        "itferc",
    ),
    "pytest": _risky(
        "rootdir confcutdir override-ini pdbcls config-file basetemp junitxml junit-xml log-file"
        " pastebin debug import-mode plugin cov-config cov-report result-log pyargs"
        " trace-config pdb",
        "pco",
    ),
    "rg": _risky("pre pre-glob hostname-bin search-zip file ignore-file", "zf"),
    "ruff": _risky("config fix unsafe-fixes fix-only output-file cache-dir add-noqa watch", "o"),
    "shuf": _risky("output random-source", "o"),
    "sort": _risky("output compress-program temporary-directory files0-from random-source", "oT"),
    "split": _risky("filter", operands=True),
    "tar": _risky(
        "to-command checkpoint checkpoint-action use-compress-program rsh-command info-script"
        " new-volume-script rmt-command transform absolute-names directory overwrite",
        "IFPC",
        bare_bundle=True,
    ),
    "tree": _risky("output fromfile", "oR"),
    "diff": _risky("to-file from-file output"),
    "uniq": _risky(operands=True),
    "wc": _risky("files0-from"),
    "xxd": _risky(letters="r", operands=True),
    "zip": _risky("unzip-command test output-file", "TO"),
}
"""By program: options whose values are programs, files to write, or other places to read from."""


def has_risky_option(command: tuple[str, ...]) -> bool:
    """Whether a word could make the program write, or run or read what it does not seem to."""
    table = RISKY_OPTIONS.get(command[0])
    if table is None:
        return False
    return any(_is_risky(table, word, first=at == 0) for at, word in enumerate(command[1:]))


def _is_risky(table: RiskyOptions, word: str, *, first: bool) -> bool:
    if any(word.startswith(beginning) for beginning in table.words):
        return True
    if not word.startswith("-") or word == "-":
        bundle = first and table.bare_bundle and any(sign in table.letters for sign in word)
        return bundle or (table.operands and word != "-")
    name = word.lstrip("-").partition("=")[0]
    if name in table.single:
        return True
    if word.startswith("--"):
        return bool(name) and any(risky.startswith(name) for risky in table.long)
    return any(sign in table.letters for sign in word[1:])
