"""Passwords on command lines: which option of which program takes one."""

from __future__ import annotations

import re

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction.contexts import Matches
from mindstone_tui.core.redaction.scan import Scan
from mindstone_tui.core.redaction.values import is_stand_in, looks_chosen

__all__ = ["command_passwords"]

_VALUE = r"(?:\\?[\"'])?(?P<value>[^\s\"'\\]{3,200})"
_USER = r"[\"']?[^\s:\"'=]{1,60}:"


def _option(
    letters: str, programs: str, option: str
) -> tuple[str, re.Pattern[str], re.Pattern[str]]:
    return letters, pattern_of(rf"(?:\b|\\[nt])(?:{programs})\b"), pattern_of(option + _VALUE)


_OPTIONS = (
    _option("p", r"mysql\w*|mariadb\w*|7z|7za|7zz", " -p"),
    _option("p", r"sshpass", " -p ?"),
    _option(
        "p",
        r"(?:docker|podman|helm|az|oc|cf|crane|skopeo|twine)\b.{0,60}\b(?:login|upload)",
        " -p ",
    ),
    _option(
        "p", r"mongo\w*|psexec|winexe|evil-winrm|mosquitto_\w+|isql|ipmitool|rdesktop", " -[pP] "
    ),
    _option("p", r"sqlcmd|bcp|tsql|osql|zip|unzip", " -P ?"),
    _option("p", r"plink|pscp|psftp", " -pw "),
    _option("u", r"curl|wget|ab|svn|restic", rf" -[uU] ?{_USER}"),
    _option("u", r"smbclient|rpcclient|net|smbmap", r" -U ?[\"']?[^\s%\"']{1,60}%"),
    _option("-", r"curl|http|https|xh|wget", rf" --(?:user|proxy-user|auth)[ =]{_USER}"),
    _option("a", r"http|https|xh|ab", rf" -[aA] {_USER}"),
    _option("a", r"redis-cli", " -a "),
    _option("a", r"snmp\w+", " -A "),
    _option("w", r"ldap\w+", " -w "),
    _option("b", r"htpasswd", r" -[A-Za-z]*b[A-Za-z]* \S+ \S+ "),
)
_SECURED = pattern_of(
    r"securestring[ (](?:-string )?[ (]{0,2}\\?['\"](?P<value>[^'\"\n\\]{4,100})\\?['\"]\Z", re.I
)
_CANDIDATE = pattern_of(r" -(?:[puawb]|-(?:user|proxy-user|auth))")
_BY_LETTER = {
    letter: [(program, option) for letters, program, option in _OPTIONS if letter in letters]
    for letter in "puawb-"
}


def command_passwords(scan: Scan) -> Matches:
    """Every password given to a program by an option that is known to take one."""
    for found in _CANDIDATE.finditer(scan.low):
        if span := _after_option(scan, found.start()):
            yield "command-password", *span


def _after_option(scan: Scan, place: int) -> tuple[int, int] | None:
    text = scan.text
    for program, option in _BY_LETTER.get(scan.low[place + 2], ()):
        match = option.match(text, place)
        if match and program.search(_command(text, place)) and _is_password(match["value"]):
            return match.span("value")
    if scan.low.startswith("asplaintext", place + 2):
        secured = _SECURED.search(text, max(place - 120, 0), place)
        if secured and looks_chosen(secured["value"], 5):
            return secured.span("value")
    return None


def _command(text: str, place: int) -> str:
    """The line up to here, or as much of it as a command needs."""
    begin = max(place - 240, 0)
    return text[max(text.rfind("\n", begin, place) + 1, begin) : place]


def _is_password(value: str) -> bool:
    """Whether an argument is neither a word, nor a variable, nor a stand-in."""
    word = value.islower() and value.isalpha()
    return not (word or value[0] in "-$<{/%*" or is_stand_in(value))
