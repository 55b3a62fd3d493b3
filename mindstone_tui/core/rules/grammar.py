"""From a person's sentence to a check, by a small grammar; or not at all.

A sentence is compiled only when every word of it is understood, but for a clause that only tells
why: "never push to main on Fridays" is not, because what Fridays change would be lost. What is not
compiled stays an instruction, and says that nothing checks it.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.language import clause
from mindstone_tui.core.language.lists import lists_in, pattern_beside
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.rules.checks import CommandForm, RuleCheck
from mindstone_tui.core.tools.programs import known_programs

_FILE: Final = Path(__file__).with_name("acts.txt")
_CODE: Final = pattern_of(r"[`\"“]([^`\"“”]{1,200})[`\"”]")
_QUOTED: Final = pattern_of(r"(?<![\w`])'([^'`]{1,60})'(?![\w`])")
_SAID: Final = {
    name: "".join(lines) for name, lines in lists_in(Path(__file__).with_suffix(".txt")).items()
}
_ORDERS, _NO, _CONSENT = _SAID["orders"], _SAID["no"], _SAID["consent"]
_TELLS_ONLY: Final = pattern_beside(__file__, "tells only", re.IGNORECASE)
_IT: Final = pattern_of(r"\b(?:it|them|those|these|that)(?: files?)?\Z", re.IGNORECASE)
_CLAUSES: Final = pattern_of(_SAID["clause"].replace("ORDERS", _ORDERS), re.IGNORECASE)
_IS_AN_ORDER: Final = pattern_of(rf"(?:please |always )?{_ORDERS}\b", re.IGNORECASE)
_FLAGS: Final = pattern_of(r"\A\(\?([im])\)(.*)")
_OPTIONS: Final = pattern_of(r"\[([^\]]+)\]")
_LONGEST: Final = 400
_END: Final = pattern_of(r"(?<![\s.])[.!,]+\Z|[\s!,]+\Z")
"""How a sentence ends; a point that stands by itself is a folder."""
_OPENS: Final = pattern_beside(__file__, "opens", re.IGNORECASE)
_REASON: Final = pattern_beside(__file__, "reason", re.IGNORECASE)
_NOTHING_MORE: Final = pattern_beside(__file__, "says nothing more", re.IGNORECASE)
_VERBS: Final = (
    r"(?:touch|edit|modify|change|alter|write (?:to|in)|overwrite|update|delete|remove|move|rename)"
)
_WORK: Final = rf"(?:{_VERBS}|work|stay)"
_FILES: Final = (
    r"(?:(?:the|an?|any|any of the|our|files?|folders?|director(?:y|ies)|anything|code) )*"
)
_UNDER: Final = r"(?:(?:under|in|inside|within|below|of) )?(?:the )?"
_KIND: Final = r"(?: (?:files?|folders?|director(?:y|ies)|module|package))?"
_PATH: Final = pattern_of(r"[\w.@*~-]*[/.*][\w./@*-]*|[\w-]+/")
_ADDS: Final = r"(?:add|use|write|leave|introduce|commit|insert|put|include|have)"
_CODE_TEXT: Final = pattern_beside(__file__, "code text")
_KNOWN_TEXTS: Final = frozenset({"todo", "fixme", "console.log", "any", "debugger", "eval", "var"})


def compile_rule(sentence: str) -> RuleCheck | None:
    """What can be checked of a rule; None where not all of it can."""
    text = _QUOTED.sub(r"`\1`", " ".join(sentence.replace("’", "'").split())[:_LONGEST])
    if (whole := _compiled(text)) is not None:
        return whole
    # Sentences and clauses that are each an order by itself: "use TypeScript; never use `any`".
    named = {place for word in text.split() if _PATH.fullmatch(place := _bare(word))}
    clauses = [one for one in _CLAUSES.split(text) if one]
    if len(named) == 1:
        (it,) = named
        clauses = [_IT.sub(it, one) if _IS_AN_ORDER.match(one) else one for one in clauses]
    read = [_with_its_reason(one) for one in clauses]
    checks = [one for one in read if one is not None]
    first = next((at for at, one in enumerate(read) if one is not None), 0)
    other = [one for one, check in zip(clauses, read, strict=True) if check is None]
    if not all(_IS_AN_ORDER.match(one) or " " not in one or _tells_only(one) for one in other):
        return None
    together = _together(checks)
    # What stands before may say of what code it is: "StackedAreaChart is flat. No `lineBy`."
    of_code = together is not None and bool(together.adds)
    apart = all(_OPENS.match(one) or _IS_AN_ORDER.match(one) for one in clauses[:first])
    return together if apart or not of_code else None


def _with_its_reason(text: str) -> RuleCheck | None:
    """A clause, or what stands before a comma where the rest only tells something."""
    order, comma, rest = text.partition(", ")
    told = comma and all(" " in one and _tells_only(one) for one in rest.split(", "))
    return _compiled(text) or (_compiled(order) if told else None)


def _tells_only(text: str) -> bool:
    return _TELLS_ONLY.fullmatch(_END.sub("", text)) is not None


def _compiled(text: str) -> RuleCheck | None:
    text = _END.sub("", text.strip())
    while found := _OPENS.match(text):
        text = text[found.end() :]
    text = _END.sub("", _NOTHING_MORE.sub("", _REASON.sub("", text)).strip())
    for reading in (
        _asked_first,
        _in_order,
        _instead,
        _only_there,
        _only_with,
        _forbidden,
        _added_to,
    ):
        if (check := reading(text)) is not None:
            return check
    return None


def _match(expression: str, text: str) -> re.Match[str] | None:
    return pattern_of(rf"(?:{expression})\Z", re.IGNORECASE).match(text)


def _asked_first(text: str) -> RuleCheck | None:
    """ "ask me before …", "never … without asking"."""
    if found := _match(rf"{_SAID['ask first']}(?P<act>.+)", text):
        return _with(_act(found["act"]), verdict="ask")
    found = _match(rf"(?P<rule>.+?)[,;.]? {_CONSENT}", text)
    if found and (check := _forbidden(found["rule"])) is not None:
        return _with(check, verdict="ask")
    found = _match(rf"(?P<act>.+?) {_SAID['needs consent']}", text) or _match(
        r"(?:if you (?:ever )?(?:need|want|have|are about) to|before you) (?P<act>.+?),? "
        r"(?:please )?(?:ask|tell|check with)(?: (?:me|us))?(?: (?:first|before))?",
        text,
    )
    act = found["act"] if found else ""
    one = f"run {clause.singular(act)}"
    return _with(_act(act) or _act(one), verdict="ask") if act else None


def _in_order(text: str) -> RuleCheck | None:
    """ "run the tests before every commit", "never commit before the tests pass"."""
    found = (
        _match(
            r"(?:run|execute) (?P<first>.+?) before (?:you |every |each |any |the |a )?"
            r"(?P<act>\w[\w-]*(?: .+)?)",
            text,
        )
        or _match(r"before (?:you |every |each |any )?(?P<act>[^,]+), run (?P<first>.+)", text)
        or _match(
            r"(?:the |all )?(?P<first>.+?) must pass before (?:you |every |each )?(?P<act>.+)", text
        )
        or _match(
            rf"{_NO} (?P<act>.+?) (?:before|until|unless|without) "
            r"(?:you (?:have )?(?:run|ran) |running )?(?P<first>.+)",
            text,
        )
    )
    if not found:
        return None
    if " and " in found["first"]:
        return None  # each of them is meant, and one would do for a check
    act, first = _act(found["act"]), _act(f"run {found['first']}")
    if act is None or first is None or not act.commands or not first.commands:
        return None
    return _with(act, first=first.commands)


def _instead(text: str) -> RuleCheck | None:
    """ "use pnpm instead of npm", "use uv, not pip"; of one family, the one excludes the others."""
    found = _match(
        r"(?:use|prefer|.{2,60}? (?:with|by|via|through|using)) (?P<use>[\w`'./-]+|\w+ [\w-]+)"
        r"(?: (?:for|as) [\w ]{2,40})?,? (?:instead of|rather than|over|(?:and )?(?:not|never)) "
        r"(?:use |with |by |via )?(?P<not>[\w`'./-]+(?: -{1,2}[\w-]+)?)"
        r"(?: or (?P<nor>[\w`'./-]+))?(?: directly)?",
        text,
    ) or _match(
        rf"(?:{_NO} use|no) (?P<not>[\w`'./-]+)(?: or (?P<nor>[\w`'./-]+))?[;,.] ?"
        r"use (?P<use>[\w`'./-]+)(?: instead)?",
        text,
    )
    if found:
        named = [found["not"], found["nor"]]
        return _of_programs([_bare(one) for one in named if one], _bare(found["use"]))
    found = _match(
        r"(?:only )?use (?P<use>[\w`'./-]+)(?: (?:for|as) [\w ]{2,40})?", text
    ) or _match(r"(?P<use>[\w`'./-]+) only", text)
    if found is None:
        return None
    use = _bare(found["use"])
    family = next((one for one in _families() if use in one), ())
    return _of_programs([one for one in family if one != use], use)


def _of_programs(names: list[str], use: str) -> RuleCheck | None:
    known, words = known_programs(), [one.split() for one in names]
    if not names or any(one not in known and not _in_family(one) for one, *_ in words):
        return None
    forms = (CommandForm(program=one, options=tuple(rest)) for one, *rest in words)
    return RuleCheck(commands=tuple(forms), instead=use)


def _only_there(text: str) -> RuleCheck | None:
    """ "only touch files under src/", "never edit anything outside src/"."""
    found = _match(rf"(?:only {_WORK}|{_WORK} only) {_FILES}{_UNDER}(?P<paths>.+)", text) or _match(
        rf"(?:{_NO} {_VERBS} {_FILES}|nothing )(?:outside(?: of)?|except(?: in)?) (?:the )?"
        rf"(?P<paths>.+?)(?: (?:may|should|must|can|is to) be {_SAID['done']})?",
        text,
    )
    named = pattern_of(r",? (?:or|and) |, ").split(found["paths"]) if found else ()
    places = tuple(place.rstrip("/") for one in named if (place := _place(one)))
    return RuleCheck(outside=places) if named and len(places) == len(named) else None


def _place(text: str) -> str:
    """A path or a folder, said as one; empty where it may be something else."""
    found = pattern_of(rf"(?:the )?(?P<path>[^ ,]+)(?P<kind>{_KIND})\Z").match(text)
    place = _bare(found["path"]) if found else ""
    is_folder = found is not None and found["kind"].strip() in (
        "folder",
        "directory",
        "directories",
    )
    return place if is_folder or _PATH.fullmatch(place) or place in _named_in("folders") else ""


def _only_with(text: str) -> RuleCheck | None:
    """ "ansible-playbook only with --check", "never run cargo without --locked"."""
    option = r"(?P<option>-{1,2}[\w-]+)"
    found = (
        _match(rf"(?:run |use )?(?P<what>.+?),? (?:always|only) with {option}", text)
        or _match(rf"(?:always |only )(?:run |use )?(?P<what>.+?) with {option}", text)
        or _match(rf"{_NO} (?:run |use )?(?P<what>.+?) without {option}", text)
    )
    check = _act(f"run {found['what']}") if found else None
    if found is None or check is None or len(check.commands) != 1 or check.commands[0].options:
        return None
    form = msgspec.structs.replace(check.commands[0], without=(found["option"],))
    return _with(check, commands=(form,))


def _added_to(text: str) -> RuleCheck | None:
    """ "no console.log in src/": what must not be added to some files may be to others."""
    found = _match(r"(?P<rule>.+?) (?:in|under|inside|within|to) (?:the )?(?P<where>.+)", text)
    place = _place(found["where"]) if found else ""
    check = _forbidden(found["rule"]) if found and place else None
    if check is None or not check.adds or check.commands or check.paths:
        return None
    return _with(check, inside=(place.rstrip("/"),))


def _forbidden(text: str) -> RuleCheck | None:
    found = _match(rf"(?:my |the )?(?P<act>.+?) {_SAID['is forbidden']}", text)
    for verb in ("", "change ", "add ") if found else ():
        if found and (check := _act(f"{verb}{found['act']}")) is not None:
            return check
    for shut in (rf"(?P<path>.+?) {_SAID['is not to be touched']}", _SAID["leave alone"]):
        if found := _match(shut, text):
            path = next(filter(None, found.groups()))
            return _act(f"change {path.rpartition(' in ')[2]}")
    if found := _match(r"(?:run |use )?(?P<what>.+?) without (?P<option>--?[\w-]+)", text):
        return _act(f"run {found['what']} {found['option']}")
    if found := _match(r"i (?:do the |only )?(?P<act>\w+) (?:it )?myself", text):
        return _act(found["act"])
    found = _match(rf"{_NO} (?P<act>.+)", text) or _match(r"no (?P<thing>.+)", text)
    if found is None:
        return None
    if "thing" in found.groupdict():
        thing = found["thing"]
        return _act(thing) or _act(f"add {thing}") or _act(f"use {thing}")
    act = found["act"]
    # "Never docker system prune": of what is a command by its own words, two have to be known.
    return _act(act) or _act(f"add {act}") or (_act(f"run {act}") if " " in act else None)


def _with(check: RuleCheck | None, **changes: object) -> RuleCheck | None:
    return msgspec.structs.replace(check, **changes) if check is not None else None


def _act(text: str) -> RuleCheck | None:
    """What a rule is about, all of it: several things joined by or are each forbidden."""
    if (whole := _one_act(text)) is not None:
        return whole
    pieces, last = pattern_of(r",? (?:or|and|nor) |, ").split(text), text.rpartition(", ")[2]
    if len(pieces) < 2 or any(map(_IS_AN_ORDER.match, pieces[1:])):
        return None  # "no npm, use pnpm" does not forbid pnpm
    if last == pieces[-1] and (_one_act(last) if " " in last else _named(last)) is not None:
        return None  # nor does "never push to main, push to a branch" forbid the branch
    verb, but_last = text.split()[0], pieces[0].rpartition(" ")[0]
    found = [
        _one_act(one) or _one_act(f"{verb} {one}") or _one_act(f"{but_last} {one}")
        for one in pieces
    ]
    if any(one is None for one in found):
        return None
    return _together([one for one in found if one is not None])


def _together(checks: list[RuleCheck]) -> RuleCheck | None:
    """One check for what several say; None where they do not say it in the same way."""
    together = checks[0] if checks else None
    for one in checks[1:]:
        assert together is not None
        alone = any(each.first or each.outside for each in (together, one))
        unlike = together.adds and one.adds and bool(together.looks) != bool(one.looks)
        if alone or unlike or together.verdict != one.verdict:
            return None
        together = msgspec.structs.replace(
            together,
            commands=tuple(dict.fromkeys((*together.commands, *one.commands))),
            paths=(*together.paths, *one.paths),
            deletes=(*together.deletes, *one.deletes),
            adds=(*together.adds, *one.adds),
            looks="|".join(filter(None, (together.looks, one.looks))),
            instead=together.instead or one.instead,
        )
    return together


def _one_act(text: str) -> RuleCheck | None:
    first, _, rest = text.strip(" ,").removeprefix("direct ").partition(" ")
    plain = dict(line.split() for line in lists_in(_FILE)["gerunds"])
    text = f"{plain.get(first.lower(), first)} {rest}".strip()
    for reading in (_named, _of_paths, _written, _run):
        if (check := reading(text)) is not None:
            return check
    return None


def _named(text: str) -> RuleCheck | None:
    """Something that has a name of its own, such as a force push."""
    plain = pattern_of(r"[`\"']").sub("", text).removeprefix("git ")
    for expression, commands in _acts():
        if found := expression.match(plain):
            forms = [form for one in commands.split(";") if (form := _form(one, found))]
            return RuleCheck(commands=tuple(forms)) if forms else None
    return None


def _of_paths(text: str) -> RuleCheck | None:
    verbs = rf"{_VERBS}(?:(?:, | or |, or ){_VERBS})*"
    found = _match(rf"{verbs} {_FILES}{_UNDER}(?P<path>[^ ,]+){_KIND}(?: by hand)?", text)
    if found is None:
        return None
    place = _bare(found["path"])
    is_folder = pattern_of(r" (?:folder|director(?:y|ies))\Z").search(text) is not None
    is_folder |= place in _named_in("folders") and f" in {place}" in text
    named = _named_in("files by name alone")
    place += "*" if f"{place}*" in named else ""  # README.md is what is called the README
    is_file = _PATH.fullmatch(place) or place in named
    if not is_file and not is_folder:
        return None
    places = (place.rstrip("/"),)
    deletes = text.lower().startswith(("delete", "remove"))
    return RuleCheck(deletes=places) if deletes else RuleCheck(paths=places)


def _written(text: str) -> RuleCheck | None:
    """Words that a change must not add: `console.log`, TODO, `any`."""
    found = _match(rf"{_ADDS} (?P<what>.+)", text)
    if found is None:
        return None
    what = found["what"]
    if text.lower().startswith("commit ") and _PATH.fullmatch(_bare(what)):
        return None  # a file that must not be committed may be named everywhere
    plain = pattern_of(r"\A(?:any |the |new )+(?=\w{4,})", re.IGNORECASE).sub("", what)
    for expression, looks in _in_code():
        if expression.match(plain.replace("`", "")):
            return RuleCheck(adds=(what.replace("`", ""),), looks=looks)
    quoted = [one[1] for one in _CODE.finditer(what)]
    rest = _CODE.sub("", what)
    named = [one for one in rest.split() if _is_text_of_code(one)]
    left = " ".join(one for one in rest.split() if one not in named)
    words = [*quoted, *(_text_of(one) for one in named)]
    if not words or not _CODE_TEXT.fullmatch(left.lower()):
        return None
    if any(not one.strip() or _is_a_command(one) for one in quoted):
        return None
    return RuleCheck(adds=tuple(words))


def _is_a_command(quoted: str) -> bool:
    if quoted.lower() in _KNOWN_TEXTS:
        return False
    return quoted.split()[0] in known_programs() or " " in quoted


def _is_text_of_code(word: str) -> bool:
    plain = word.strip(",")
    return plain.lower().rstrip("s") in _KNOWN_TEXTS or bool(
        pattern_of(r"@[a-z][\w-]*|\.?\w+(?:\.\w+)*\(\)").fullmatch(plain)
    )


def _text_of(name: str) -> str:
    name = name.strip(",").removesuffix("()")
    if name.startswith("@") or name.lower().rstrip("s") not in _KNOWN_TEXTS:
        return name
    plain = name if name.lower() in _KNOWN_TEXTS else name[:-1]
    return plain.upper() if plain.lower() in ("todo", "fixme") else plain.lower()


def _run(text: str) -> RuleCheck | None:
    """A command by its own words: "run `npm install`", "use sudo"."""
    found = _match(
        r"(?:(?:run|use|call|execute|invoke) )?(?:the )?"
        r"(?:obsolete |deprecated |old |destructive |dangerous )*(?:commands? (?:like|such as) )?"
        r"(?P<line>.+?)(?: commands?)?",
        text,
    )
    line = found["line"] if found else text
    quoted = _CODE.fullmatch(line)
    try:
        words = shlex.split(quoted[1] if quoted else line)
    except ValueError:
        return None
    said = text.lower().startswith(("run ", "execute ")) or text.endswith((" command", " commands"))
    named = quoted is not None and said
    if (by_name := _named(f"run {' '.join(words)}")) is not None:
        return by_name
    if not words or not all(map(_is_command_word, words)):
        return None
    if words[0] not in known_programs() and not named:
        return None
    if not quoted and (
        words[0] in _named_in("english words") or (text == line and not _in_family(words[0]))
    ):
        return None
    operands = tuple(one for one in words[1:] if not one.startswith("-"))
    options = tuple(one for one in words[1:] if one.startswith("-"))
    if len(options) > 1:
        return None  # all of them together are meant, and a form knows only one of several
    alike = (one.split() for one in lists_in(_FILE)["same option"])
    for program, *same in alike:
        if program == words[0] and not {*same}.isdisjoint(options):
            options = tuple(same)
    return RuleCheck(commands=(CommandForm(program=words[0], action=operands, options=options),))


def _is_command_word(word: str) -> bool:
    is_one = pattern_of(r"[\w./:@=+-]+").fullmatch(word) is not None
    return is_one and word.lower() not in _named_in("no part of a command")


def _bare(word: str) -> str:
    return word.rstrip(".,").strip("`'\"")


def _in_family(name: str) -> bool:
    return any(name in one for one in _families())


@cache
def _named_in(section: str) -> frozenset[str]:
    """Programs whose names are words, and must stand in quotes; words that are folders."""
    return frozenset(" ".join(lists_in(_FILE)[section]).split())


@cache
def _families() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in lists_in(_FILE)["families"])


@cache
def _acts() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Every act that has a name of its own, with the commands it means."""
    return tuple(_read_acts())


@cache
def _in_code() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What has a name in code, with how it looks there."""
    return tuple(
        # Flags for one alternative only, so that several can be joined.
        (re.compile(rf"(?:{name})\Z", re.IGNORECASE), _FLAGS.sub(r"(?\1:\2)", looks))
        for name, _, looks in (line.partition(" => ") for line in lists_in(_FILE)["code"])
    )


def _read_acts() -> Iterator[tuple[re.Pattern[str], str]]:
    for lines in lists_in(_FILE).values():
        for line in lines if " -> " in lines[0] else ():
            said, _, commands = line.partition(" -> ")
            named = said.replace("{branch}", r"(?P<branch>(?!\w+days?\b|weekends?\b)[\w./*-]+)")
            named = named.replace("{host}", r"(?P<host>[\w-]+(?:[.-][\w-]+)+)")
            yield re.compile(rf"(?:{named})\Z", re.IGNORECASE), commands


def _form(notation: str, found: re.Match[str]) -> CommandForm | None:
    """A command of the file as a form."""
    notation, _, said = notation.partition('"')
    says = [one.strip() for one in said.rstrip(' "').split(",") if one.strip()]
    given = _OPTIONS.findall(notation)
    words = _OPTIONS.sub("", notation).split()
    targets = tuple(found[one.strip("<>")] for one in words if one.startswith("<"))
    on = tuple(found[one.strip("@<>")] for one in words if one.startswith("@"))
    plain = [one for one in words if one[0] not in "<@…"]
    return CommandForm(
        program=plain[0],
        action=tuple(plain[1:]),
        options=tuple(" ".join(one for one in given if one[0] != "!").split()),
        without=tuple(" ".join(one[1:] for one in given if one[0] == "!").split()),
        targets=targets,
        on=on,
        operands=words.count("…"),
        says=tuple(found[one.strip("<>")] if one.startswith("<") else one for one in says),
    )
