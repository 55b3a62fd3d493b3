"""What a tool result found, in one line: all that the prompt keeps of it once it is trimmed.

The call stands in front of it and says what was asked, so a finding only says what came of it: the
hits and where they are, the error, how a command ended, which names a file defines.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

from mindstone_tui.core import bounded_json
from mindstone_tui.core.context.messages import Count, one_line
from mindstone_tui.core.entries import Line, conversation
from mindstone_tui.core.language.lists import lists_in, pattern_beside
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import plural, unfenced

_LF: Final = "\n"
_READ: Final = 40_000
"""Characters at each end of a result that are looked at."""
_MOST_NAMES: Final = 12
_SHORT: Final = 1_000
"""Characters of an output that may have room whole."""
_LINE: Final = 140
_TAIL: Final = 45
"""Characters of the end of a line that is too long; its reason often stands there."""
_LONGEST_LINE: Final = 1_000
"""Characters of a line that report something; a longer one is data."""
_WRONG: Final = 4.0
"""What a line is worth that says what went wrong,"""
_SUM: Final = 3.0
"""one that sums up,"""
_ODD: Final = 2.0
"""and one that looks like no other."""
_BESIDE: Final = 0.5
"""How much less the place of what went wrong is worth, and of the first how much more."""
_MISSES: Final = 6
"""Lines for which there is no room until no other is tried."""
_MOST_KEPT: Final = 2_000
"""Placeholders that are kept in mind."""

_TIME: Final = pattern_of(r"\d\d:\d\d")
_COLOUR: Final = pattern_of(r"\x1b\[[0-9;?]*[A-Za-z]")
_HEADING: Final = pattern_of(r"\[(.{1,300}), (lines \d+-\d+)(; go on with first=\d+)?\]$")
_CUT: Final = pattern_of(r"\n\[… [\d,]+ of ([\d,]+ bytes) left out; [^\n]{1,300} …\]\n")
_ROWS_TOLD: Final = pattern_of(r"\(\d+ rows?\)")
_HIT: Final = pattern_of(r"([^\s:\d][^\s:]{0,200}):(\d{1,7}):")
_ENDED: Final = pattern_beside(__file__, "ended", re.IGNORECASE)
_DEFINED: Final = pattern_beside(__file__, "defined", re.MULTILINE)
_COMMIT: Final = pattern_of(r"commit [0-9a-f]{7,64}\b")
_REMARKABLE: Final = pattern_of(r"^ *(?:Revert|Merge|Release|v\d)|\b[A-Z]{4,}\b|!:")
_DIFFED: Final = pattern_of(r"diff --git a/.* b/(.+)|\+\+\+ (?!/dev/null)(?:b/)?(\S+)")
_TOTAL: Final = pattern_beside(__file__, "total")
_FAILING: Final = pattern_beside(__file__, "failing")
_COMPLAINT: Final = pattern_of(
    r"[^\s:(]{1,200}[:(]\d+[,:]?\d*\)?:? *(?:fatal )?(?:error|warning)\b"
)
_PLACED: Final = pattern_of(r"[^\s:]+:\d+|, line \d+")
_LEVEL: Final = pattern_beside(__file__, "level", re.IGNORECASE)
_STATUS: Final = pattern_of(
    r"(?:HTTP/[\d.]+\"|\b(?:GET|PUT|POST|PATCH|HEAD|DELETE) \S+) ([1-5])\d\d\b"
)
_NONE_OF: Final = pattern_beside(__file__, "none of", re.IGNORECASE)
_QUOTES: Final = pattern_of(r'[{"}]')
_SEVERE: Final = frozenset({"ERROR", "CRITICAL", "FATAL"})
_GRAVE: Final = _SEVERE | {"WARN", "WARNING"}
_LISTED: Final = pattern_beside(__file__, "listed")
_SIZED: Final = pattern_of(r"[-dlcbps][-rwxsStT]{9}\S*\s+(?:\S+\s+){3}(\d+)\s+(?:\S+\s+){3}")
"""What stands before a name in a long listing; all that is told of it is the size."""
_MOST_SAID: Final = 5
_NUMBER: Final = pattern_of(r"\d{1,15}(?:\.\d{1,9})?")
_COLUMNS, _ROWS = 12, 8
"""Columns, and rows at least, of a table."""
_FAR, _LARGEST, _KINDS = 8, 3, 12
"""How much larger than most a number is odd, how many are, and of how many kinds of words."""
_WORD: Final = pattern_of(r"[a-z]+(?:'t)?")
_CODE: Final = pattern_of(r"[A-Z]{1,4}\d{3,5}\b")
_ASIDE: Final = pattern_beside(__file__, "aside", re.IGNORECASE)
_RULE: Final = pattern_of(r"([-.=*#~_!<>|+])\1{2,}|[─-╿]+|^ *-->|^==\d+==")
"""What is only drawn."""
_NAMED: Final = pattern_beside(__file__, "named")
"""What differs between lines that say the same: what is quoted, paths, words with a digit."""
_REMARK: Final = pattern_of(r"(?:#|//|;|--|<!--|\*)(?:\s|$)")
_SAYS: Final = pattern_of(r"[^\W_]")
_RAISED: Final = pattern_of(r"\b\w{0,60}(?:Error|Exception)\b: ?\S")


def finding_of(result: conversation.ToolReturned, room: int, count: Count) -> str:
    """What came of a call, in at most so many tokens: what a reader needs to go on."""
    text, part = _ends_of(unfenced(result.text).rstrip())
    shown = (_COLOUR.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in text.split(_LF))
    lines = [line for line in shown if line.strip()]
    read = _HEADING.match(lines[0]) if lines else None
    ended = _ENDED.search(lines[-1][-_LINE:]) if lines else None
    body = lines[bool(read) : len(lines) - bool(ended)]
    whole = text.count(_LF) + 1 - bool(read) - bool(ended)
    part = f"in {read[2]}" if read and read[3] else part
    where = f"{part}: " if part else ""
    how = [ended[1]] if ended and ended[2] != "0" else []
    if not how and (hits := _hits(body)):
        many = body if len(body) > _MOST_NAMES else []
        defined = [one for one in many if _DEFINED.search(_HIT.sub("", one, count=1))]
        places = [f"{path}:{','.join(numbers[:4])}" for path, numbers in hits.items()]
        told = f"{where}{_counted(sum(map(len, hits.values())), places)}:"
        told = _listed(told, places, room * 2 // 3 if defined else room, count)
        return _telling(defined, [told], how, room, count, always=True)
    if ended and len(text) < _SHORT and not _shape(body):
        short = "; ".join([*map(_bare, body), *how])
        if count(short) <= room:
            return short
    for recognise in _SHAPES:
        if said := recognise(body):
            left = _LEFT.get(recognise, list)(body)
            said[0] = where + said[0]
            return _telling(left, said, how, room, count, always=True)
    whole_run = not how and result.status == "ok"
    if whole_run and len(names := _names(text)) > (4 if ended else 1):
        return _listed(f"{where}defines", names, room, count)
    if read and read[1].endswith(".md") and (titles := [one for one in body if one[0] == "#"]):
        return _listed(part or f"{whole:,} lines;", titles, room, count)
    if result.finding and all(_worth(line) < _WRONG for line in body):
        return one_line(result.finding, room, count)
    size = [part or f"{whole:,} lines"]
    complaints = sum(map(bool, map(_COMPLAINT.match, body)))
    if complaints > _MISSES and not any(map(_TOTAL.search, body)):
        size.append(f"{complaints} complaints")
    return _telling(body, size, how, room, count, always=bool(part) or len(size) > 1)


def _ends_of(text: str) -> tuple[str, str]:
    """The whole lines that are looked at, and which part of the output they are if not all."""
    if cut := _CUT.search(text):
        start, end, size = text[: cut.start()], text[cut.end() :], cut[1]
    elif len(text) > 2 * _READ:
        start, end, size = text[:_READ], text[-_READ:], f"{text.count(_LF) + 1:,} lines"
    else:
        return text, ""
    ends = f"{start.rpartition(_LF)[0] or start}\n{end.partition(_LF)[2] or end}"
    return ends, f"at both ends of {size}"


def _commits(lines: Sequence[str]) -> list[str]:
    """A history: how many commits, and the newest."""
    found = [at for at, line in enumerate(lines) if _COMMIT.match(line)]
    if len(found) < 2 or found[0]:
        return []
    subject = next((line.strip() for line in lines[found[0] :] if line.startswith("    ")), "")
    return [plural(len(found), "commit"), f"newest: {_bounded(subject)}"]


def _diff(lines: Sequence[str]) -> list[str]:
    """A diff: its files, with how many lines each gained and lost, and of which commit."""
    changed: dict[str, list[int]] = {}
    counts = [0, 0]
    for before, line in pairwise(["", *lines]):
        if (found := _DIFFED.match(line)) and (found[1] or before.startswith("--- ")):
            counts = changed.setdefault(found[1] or found[2], [0, 0])
        elif line[0] in "+-" and not line.startswith(("+++ ", "--- ")):
            counts["+-".index(line[0])] += 1
    if not changed:
        return []
    said = (
        [line for line in lines[:8] if line.startswith("    ")] if _COMMIT.match(lines[0]) else []
    )
    told = [f"{path} +{more} -{less}" for path, (more, less) in changed.items()]
    told += [line for line in lines if line.startswith("Only in ")]
    return [*map(_bounded, said[:1]), f"{plural(len(told), 'file')}: {_some(told)}"]


def _checked(lines: Sequence[str]) -> list[str]:
    """A test run: what failed, the first error, and totals."""
    lines = [line[:_LONGEST_LINE] for line in lines]
    failing = dict.fromkeys(found[1] for line in lines if (found := _FAILING.match(line.strip())))
    if not failing:
        return []
    totals = [bare for line in lines if _TOTAL.search(bare := line.strip(" =-#*"))]
    if not totals:
        return []  # it only looks so: a source, say
    raised = [_bare(line) for line in lines if _RAISED.search(line)]
    return [f"failed: {_some(failing)}", *raised[:1], _bounded(totals[-1])]


def _shape(lines: Sequence[str]) -> list[str]:
    """JSON: what it holds."""
    if not lines or lines[0].lstrip()[:1] not in ("{", "["):
        return []
    try:
        value = bounded_json.read_json("\n".join(lines))
    except ValueError:
        return []
    return [_shape_of(value)]


def _shape_of(value: object, deep: int = 0) -> str:
    match value:
        case dict() if deep < 2:
            return (
                "{"
                + _some(f"{key}: {_shape_of(one, deep + 1)}" for key, one in value.items())
                + "}"
            )
        case list() if value:
            first = _shape_of(value[0], deep + 1) + _odd_ones(value)
            same = all(one == value[0] for one in value)
            return f"{len(value)} × {first}" if same else f"{len(value)} (the first: {first})"
        case dict() | list():
            return f"{len(value)} fields" if value else "empty"
        case str():
            return f'"{value}"' if len(value) <= 24 else f"{len(value):,} characters"
    return json.dumps(value)


def _objects(lines: Sequence[str]) -> list[str]:
    """An object a line: how many, what the first holds, and which are odd."""
    if len(lines) < 3 or any(line[0] != "{" or line[-1] != "}" for line in lines):
        return []
    return _shape([f"[{','.join(lines)}]"])


def _odd_ones(values: Sequence[object]) -> str:
    """Of many objects those that differ from nearly all others."""
    rows = [one for one in values if isinstance(one, dict)]
    odd: dict[int, str] = {}
    for key in rows[0] if rows else ():
        told = [json.dumps(row.get(key)) for row in rows]
        usual, often = Counter(told).most_common(1)[0]
        if often * 4 >= 3 * len(rows):
            odd |= {at: _shape_of(rows[at], 1) for at, one in enumerate(told) if one != usual}
    return f"; odd: {_some(odd.values())}" if odd else ""


def _log(lines: Sequence[str]) -> list[str]:
    """A log: how many errors and warnings, the first error and the last."""
    levels = [_level_of(line) for line in lines]
    timed = sum(_TIME.search(line[:40]) is not None for line in lines)
    if len(lines) < 8 or min(sum(map(bool, levels)), timed) * 2 < len(lines):
        return []
    wrong = [line for line, level in zip(lines, levels, strict=True) if level in _SEVERE]
    warned = sum(level.startswith("WARN") for level in levels)
    told = [f"{len(lines):,} lines, {plural(len(wrong), 'error')}, {plural(warned, 'warning')}"]
    told += [f"first: {_bare(line)}" for line in wrong[:1]]
    same = len({_NAMED.sub("0", line) for line in (wrong[0], wrong[-1])} if wrong else ()) == 1
    return told + [f"last: {_bare(line)}" for line in wrong[1:][-1:] if not same]


def _level_of(line: str) -> str:
    """What a line of a log says of itself; an answer that failed is an error."""
    if found := _LEVEL.search(line[:80]):
        return found[0].upper()
    answered = _STATUS.search(line[:_LONGEST_LINE])
    return "" if answered is None else "ERROR" if answered[1] == "5" else "INFO"


def _troubles(lines: Sequence[str]) -> list[str]:
    """What a log warns of or calls wrong, once each; every line if none says how bad it is."""
    if not any(_LEVEL.search(line[:80]) for line in lines):
        return list(lines)
    wrong = [one for one in lines if _level_of(one) in _GRAVE or _worth(one) >= _WRONG]
    first = {_NAMED.sub(_look_of, line): line for line in reversed(wrong)}
    return list(reversed(first.values())) or list(lines)


def _listing(lines: Sequence[str]) -> list[str]:
    """Files, or the rows of a table: how many, and what stands out."""
    lines = [line for line in lines if not _ROWS_TOLD.fullmatch(line)]
    if len(lines) > 3 and set(lines[1]) <= set("-= +|"):
        return [
            f"{plural(len(lines) - 2, 'row')}: {_bounded(lines[0])}",
            f"last: {_bounded(lines[-1])}",
        ]
    every = (line for line in lines if not line.startswith("total "))
    rows = [line for line in every if line.split()[-1] not in (".", "..")]
    named = [found[1] for row in rows if (found := _LISTED.match(row))]
    if len(rows) < 6 or 10 * len(named) < 9 * len(rows):
        return []
    kinds = Counter(PurePath(name).suffix for name in named)
    odd = [name for name in named if kinds[PurePath(name).suffix] * 8 < len(named)]
    usual = ", ".join(
        f"{number} {kind}" for kind, number in kinds.most_common(3) if number > 1 and kind
    )
    told = [plural(len(rows), "entry", "entries") + (f" ({usual})" if usual else "")]
    return told + [f"also {_some(odd)}" for _ in odd[:1]]


def _subjects(lines: Sequence[str]) -> list[str]:
    """What commits say of themselves, the remarkable first."""
    heads = [at for at, line in enumerate(lines) if _COMMIT.match(line)]
    bounds = pairwise([*heads, len(lines)])
    told = ((one for one in lines[at:end] if one.startswith("    ")) for at, end in bounds)
    subjects = [next(one, "") for one in told]
    return sorted(subjects, key=lambda one: not _REMARKABLE.search(one))


def _changed(lines: Sequence[str]) -> list[str]:
    """What a diff puts there and takes away, what it defines first."""
    found = [one for one in lines if one[0] in "+-" and not one.startswith(("+++ ", "--- "))]
    found.sort(key=lambda one: not (one[0] == "+" and _DEFINED.search(one[1:])))
    return [*(one for one in lines if one[0] not in "+-@ " and _worth(one) >= _WRONG), *found]


_LEFT: Final[Mapping[object, Callable[[Sequence[str]], list[str]]]] = {
    _commits: _subjects,
    _diff: _changed,
    _log: _troubles,
    _listing: lambda lines: [_SIZED.sub(r"\1 ", line) for line in lines],
    _shape: lambda lines: [line for line in lines if _worth(line) >= _WRONG],
}
"""Of which lines of a kind the rest is told, as far as there is room."""
_SHAPES: Final = (_commits, _diff, _shape, _log, _objects, _checked, _listing)
"""Kinds of output that are known by their look, each with what matters of it."""


def _some(told: Iterable[str]) -> str:
    every = list(told)
    more = f" and {len(every) - _MOST_SAID:,} more" if len(every) > _MOST_SAID else ""
    return ", ".join(every[:_MOST_SAID]) + more


def placeholder(line: Line, count: Callable[[str], int], most: int) -> str:
    """What stands in the prompt for a result: what it found, and how to get it back."""
    entry = line.entry
    assert isinstance(entry, conversation.ToolReturned)
    back = f"Not shown; read_entry #{line.seq} shows it.]"
    finding = finding_of(entry, max(most - count(f"[Output in short: “” {back}"), 0), count)
    # What an output says is quoted, and cannot end the quotation: the brackets are ours.
    return f"[Output in short: “{finding.translate(_OURS)}” {back}" if finding else f"[{back}"


_OURS: Final = {ord("“"): '"', ord("”"): '"', ord("["): "(", ord("]"): ")"}


class Placeholders:
    """Placeholders that were made before, with their sizes.

    Once results take more than their share, every request asks what trimming them would free; most
    of those results were looked at for the request before.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, int], tuple[str, int]] = {}

    def of(
        self, line: Line, model: str, count: Callable[[str], int], longest: int
    ) -> tuple[str, int]:
        """What stands for a result, and how many tokens that takes for a model."""
        key = (line.hash, model, longest)
        if key not in self._made:
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            text = placeholder(line, count, longest)
            self._made[key] = (text, count(text))
        return self._made[key]


def _bounded(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[: _LINE - _TAIL - 3]} … {line[-_TAIL:]}"


def _hits(lines: Sequence[str]) -> dict[str, list[str]]:
    """Files that a search names with the lines there, if most lines are hits."""
    found = [hit for line in lines if (hit := _HIT.match(line))]
    if len(found) * 2 <= len(lines) or any(map(_TOTAL.search, lines[-3:])):
        return {}
    places: dict[str, list[str]] = {}
    for hit in found:
        places.setdefault(hit[1], []).append(hit[2])
    return places


def _counted(hits: int, places: Sequence[str]) -> str:
    files = f" in {len(places):,} files" if len(places) > 1 else ""
    return f"{hits:,} hit{'' if hits == 1 else 's'}{files}"


def _telling(
    lines: Sequence[str],
    size: Sequence[str],
    how: Sequence[str],
    room: int,
    count: Count,
    *,
    always: bool = False,
) -> str:
    """The lines that say most of what came of it, in their order: as many as there is room for.

    What is said before them, its size, goes where most of the lines are told, unless it is always
    to be said.
    """
    told = "; ".join([*size, *how]) if always else ""
    bare = [said for said in map(_bare, lines) if _SAYS.search(_LEVEL.sub("", said))]
    bare = [one for one in bare if one not in told]
    chosen: list[int] = []
    said, misses = one_line(told, room, count) if told else "", 0
    for at in _ranked(bare):
        more = sorted([*chosen, at])
        sized = size if always or len(lines) > 2 * len(more) else ()
        longer = "; ".join([*sized, *(bare[one] for one in more), *how])
        if count(longer) <= room:
            chosen, said = more, longer
        elif (misses := misses + 1) > _MISSES:
            break
    return said or one_line("; ".join([*bare[:1], *how]), room, count)


def _ranked(lines: Sequence[str]) -> list[int]:
    """Which lines tell most, best first; of those that look alike the first stands for all.

    What went wrong and where counts most, then sums, then what looks like nothing else in an output
    whose lines look alike, then the beginning and the end; remarks in a file come last.
    """
    looks = [_NAMED.sub(_look_of, line) for line in lines]
    apart = _far_apart(lines)
    looks = [
        line if at in apart else look
        for at, (line, look) in enumerate(zip(lines, looks, strict=True))
    ]
    alike = Counter(looks)
    uniform = 2 * sum(number for number in alike.values() if number > 2) > len(looks)
    by_look = {look: _worth(line) for look, line in dict(zip(looks, lines, strict=True)).items()}
    worth = [by_look[look] for look in looks]
    placed = [worth[at] >= 0 and bool(_PLACED.search(line)) for at, line in enumerate(lines)]
    lead = 1
    for at in [at for at, value in enumerate(worth) if value >= _WRONG and not placed[at]]:
        near = (at + by for by in (1, -1, 2, -2, 3) if 0 <= at + by < len(lines))
        if (place := next((one for one in near if placed[one]), None)) is not None:
            worth[place] = max(worth[place], worth[at] + lead - _BESIDE)
            lead = 0
    for at in [at for at, line in enumerate(lines) if worth[at] >= _WRONG and line[-1:] == ":"]:
        for below in range(at + 1, min(at + 3, len(lines))):
            worth[below] = max(worth[below], _SUM)
    for at, look in enumerate(looks):
        odd = at in apart or (uniform and alike[look] == 1)
        worth[at] += _ODD * (odd and worth[at] >= 0)
        worth[at] += at in (0, len(lines) - 1)
        worth[at] -= _BESIDE * bool(_REMARK.match(lines[at]))
    first = {look: at for at, look in reversed([*enumerate(looks)])}
    best = sorted(first.values(), key=lambda at: (-worth[at], at))
    other = {line: at for at, line in reversed([*enumerate(lines)])}
    again = sorted({*other.values()} - {*best}, key=lambda at: (worth[at] < _WRONG, at))
    telling = [at for at in best if worth[at] > 0]
    return [
        *dict.fromkeys(
            [*telling, *(at for at in again if worth[at] >= _WRONG - _BESIDE), *best, *again]
        )
    ]


def _far_apart(lines: Sequence[str]) -> set[int]:
    """Rows of a table that are odd in a column: with one of the few largest numbers where those are
    far from most, or with a word that hardly any other row has there."""
    rows = [line.split(None, _COLUMNS) for line in lines]
    found: set[int] = set()
    for column in range(_COLUMNS):
        told = {at: row[column] for at, row in enumerate(rows) if len(row) > column}
        if len(told) < max(_ROWS, 0.8 * len(rows)):
            continue
        numbers = {at: float(one) for at, one in told.items() if _NUMBER.fullmatch(one)}
        if len(numbers) >= 0.8 * len(told):
            order = sorted(numbers, key=numbers.__getitem__)
            middle = numbers[order[len(order) // 2]]
            found.update(at for at in order[-_LARGEST:] if numbers[at] > _FAR * max(middle, 1))
            if numbers[order[_LARGEST]] * _FAR >= middle:  # else small ones are nothing special
                found.update(at for at in order[:_LARGEST] if numbers[at] * _FAR < middle)
        often = Counter(told.values())
        if len(often) <= _KINDS and often.most_common(1)[0][1] > len(told) // 2:
            found.update(at for at, one in told.items() if often[one] <= _LARGEST)
    return found if len(found) <= len(rows) // 4 else set()


def _look_of(found: re.Match[str]) -> str:
    """A code of a complaint says what it is of; other names do not."""
    return found[0] if _CODE.fullmatch(found[0]) else "0"


def _bare(line: str) -> str:
    """What a line says, without what is only drawn; of an object its names and values."""
    if line[0] == "{" and line[-1] == "}":
        line = _QUOTES.sub("", line).replace(",", ", ")
    return _bounded(_RULE.sub(" ", line[:_LONGEST_LINE]))


def _worth(line: str) -> float:
    """How much a line tells by itself."""
    line = line[:_LONGEST_LINE]
    if _ASIDE.search(line):
        return -1.0
    words, phrases = _trouble()
    low = _NONE_OF.sub("", line.lower())
    told = not words.isdisjoint(_WORD.findall(low)) or any(phrase in low for phrase in phrases)
    raised = bool(_RAISED.search(line))
    wrong = _WRONG if told or raised or _CODE.match(line) else 0.0
    return wrong + raised + _SUM * bool(_TOTAL.search(line))


@cache
def _trouble() -> tuple[frozenset[str], Sequence[str]]:
    """Words, and phrases, with which programs say that something went wrong."""
    lists = lists_in(Path(__file__).with_suffix(".txt"))
    return frozenset(lists["went wrong"]), lists["went wrong, in phrases"]


def _names(text: str) -> list[str]:
    """Names that a source defines, the outer ones first."""
    found = [(len(match["indent"]) > 0, match["name"]) for match in _DEFINED.finditer(text)]
    return list(dict.fromkeys(name for _, name in sorted(found, key=lambda one: one[0])))


def _listed(what: str, names: Iterable[str], room: int, count: Count) -> str:
    """As many of the names as there is room for; how many are not named is said."""
    every = list(names)
    for shown in range(min(len(every), _MOST_NAMES), 0, -1):
        more = f" and {len(every) - shown:,} more" if shown < len(every) else ""
        if count(said := f"{what} {', '.join(every[:shown])}{more}") <= room:
            return said
    return one_line(f"{what} {every[0]}", room, count)
