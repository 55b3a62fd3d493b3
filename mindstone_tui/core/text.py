r"""Text from outside: made harmless for the terminal, delimited for the model.

Model, tool, file and recalled text is data. Before it reaches a terminal it goes through
`for_terminal` (or `one_line`); before a person approves something it goes through `exact`, which
hides nothing; before it reaches the model it goes through `as_data`. All four are total: any string
is accepted, lone surrogates included, and the first three leave no control byte behind.

`for_terminal` reads the text once, from left to right, so no character can swallow those after it.
Colour codes vanish; every other control becomes a sign a person can see.
"""

import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from mindstone_tui.core.patterns import pattern_of

__all__ = ["as_data", "exact", "for_terminal", "fresh_nonce", "inside", "one_line"]

# Two alphabets, so that plain ASCII (most text there is) costs one scan for a small set.
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f"
_STEERING = (
    r"\x80-\x9f"  # C1 controls: one-byte CSI, OSC, DCS
    r"\u202a-\u202e\u2066-\u2069"  # bidi embeddings, overrides, isolates
    r"\u2028\u2029"  # separators some programs take for a new line
    r"\ud800-\udfff"  # lone surrogates cannot be encoded
    r"\ufff9-\ufffb"  # interlinear annotation
)
_UNSEEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f"
    r"\u3164\ufe00-\ufe0d\ufeff\uffa0\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0080-\U000e0fff"
)
_TAG = r"\U000e0000-\U000e007f"
# After ESC, the rest of one complete CSI sequence: nothing readable can hide in it.
_PAINT = r"(?<=\x1b)\[[0-?]*[ -/]*[@-~]"
_LINE_END = r"(?<=\r)\n"

# Each pattern begins with one set of characters, which is what makes scanning clean text fast.
_FOREIGN_ASCII = pattern_of(rf"[{_CONTROL}](?:{_PAINT}|{_LINE_END})?")
_FOREIGN = pattern_of(
    rf"[{_CONTROL}{_STEERING}{_UNSEEN}{_TAG}]"
    rf"(?:{_PAINT}|{_LINE_END}|(?<=[{_UNSEEN}])[{_UNSEEN}]+|(?<=[{_TAG}])[{_TAG}]+)?"
)
_TAG_RUN = pattern_of(rf"[{_TAG}]+")
_UNSEEN_RUN = pattern_of(rf"[{_UNSEEN}]+")


def for_terminal(text: str) -> str:
    """The text as a terminal may show it: no control byte but line feed and tab, nothing hidden."""
    if text.isascii():
        return text if text.isprintable() else _FOREIGN_ASCII.sub(_tame, text)
    return _FOREIGN.sub(_tame, text)


_JOINERS: Final = str.maketrans("", "", "\u200c\u200d")
_JOINED: Final = pattern_of("([\u200c\u200d])").split


def for_page(text: str) -> str:
    """The text for a browser: as harmless, with the signs that join letters, which it can draw."""
    return "".join(each if each in "\u200c\u200d" else for_terminal(each) for each in _JOINED(text))


def is_editable(text: str) -> bool:
    """Whether a terminal may show every sign of it as it is; those that join letters take no room.

    Of such a text an editor hides nothing, and nothing in it can steer the terminal.
    """
    return for_terminal(text) == text.translate(_JOINERS)


def one_line(text: str, limit: int = 120) -> str:
    """The start of the text on a single line of at most `limit` characters."""
    # Blanks and dropped characters shrink; sixteen times the room is plenty for a first line.
    return shortened(for_terminal(text[: 16 * limit + 256]), limit)


def path_end(path: str, limit: int) -> str:
    """The end of a path on a single line of at most `limit` characters, from a folder on."""
    line = for_terminal(path)
    if len(line) <= limit:
        return line
    end = line[len(line) - limit + 1 :]
    return f"…{end[max(end.find('/'), 0) :]}"


def shortened(text: str, limit: int) -> str:
    """The same with every sign as it is, for whoever makes it harmless where it is shown."""
    line = " ".join(text[: 16 * limit + 256].split())
    return line if len(line) <= limit else line[: max(limit - 1, 0)].rstrip() + "…"


def _tame(match: re.Match[str]) -> str:
    """What stands in for one piece of foreign text: nothing, a sign, or its escape."""
    piece = match.group()
    first = ord(piece[0])
    if len(piece) > 1 and first < 0x80:  # a colour code, or the two bytes that end a line
        return "\n" if piece == "\r\n" else ""
    if first < 0x20:
        return chr(0x2400 + first)
    if first == 0x7F:
        return "␡"
    if 0xD800 <= first <= 0xDFFF:
        return "\N{REPLACEMENT CHARACTER}"
    if _TAG_RUN.match(piece):
        return _revealed(match)
    if _UNSEEN_RUN.match(piece):
        return ""
    return f"\\x{first:02x}" if first < 0x100 else f"\\u{first:04x}"


def _revealed(match: re.Match[str]) -> str:
    """Tag characters spell ASCII that no one sees; spell it for everyone."""
    smuggled = "".join(chr(ord(tag) - 0xE0000) for tag in match.group())
    readable = "".join(sign for sign in smuggled if " " <= sign <= "~")
    return f"⟦hidden: {readable}⟧" if readable else ""


_PLAIN = pattern_of(r"[ -~]*\Z")
_PADDING = pattern_of(r" {8,}|\t{4,}|\n{3,}")
_INDENTED = 40
"""Blanks that indent a line, and push nothing out of sight."""
_SIGNS = ("", "+", "-")
"""What may stand before them in a diff."""
_NAMES = pattern_of(r"⟦(?:U\+[0-9A-F]{4,6}|\d+ (?:spaces|tabs|empty lines))⟧")
_UNSURE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs", "Mn", "Me"}


def exact(text: str) -> str:
    """The text for someone who must judge it: every unusual character named, long blanks counted.

    Two different texts never look the same: the brackets that name a character are named as well.
    """
    if _PLAIN.match(text) and "  " not in text:
        return text
    shown: list[str] = []
    last = 0
    for blank in _PADDING.finditer(text):
        before = text[text.rfind("\n", 0, blank.start()) + 1 : blank.start()]
        if blank[0][0] == " " and len(blank[0]) <= _INDENTED and before in _SIGNS:
            continue
        shown += [_named(text[last : blank.start()]), _counted(blank.group())]
        last = blank.end()
    return "".join([*shown, _named(text[last:])])


def as_exact(text: str) -> str:
    """The same for a text that may be exact already: what it names is not named once more."""
    plain = _NAMES.sub("x", text)
    return text if exact(plain) == plain else exact(text)


def _counted(blank: str) -> str:
    name = {" ": "spaces", "\t": "tabs", "\n": "empty lines"}[blank[0]]
    sign = f"⟦{len(blank) - (blank[0] == chr(10))} {name}⟧"
    return f"\n{sign}\n" if blank[0] == "\n" else sign


def _named(text: str) -> str:
    if _PLAIN.match(text):
        return text
    return "".join(
        f"⟦U+{ord(sign):04X}⟧"
        if sign in "⟦⟧\u2800" or (sign not in " \n\t" and unicodedata.category(sign) in _UNSURE)
        else sign
        for sign in text
    )


_NONCE = pattern_of(r"[0-9a-z]{8,64}\Z")
_MARKERS = pattern_of(
    r"<(?=\|)"  # <|im_start|>, <|eot_id|> and their kin
    r"|<(?=/?(?:data-|system\b|user>|assistant\b|human>|developer>|instructions?>|prompt>"
    r"|tool_?(?:calls?|results?|use|response)\b|function_?(?:calls?|results?)\b|antml:|invoke\b"
    r"|system-reminder\b|start_of_turn\b|end_of_turn\b|s>|think(?:ing)?>))"
    r"|<(?=<\s*/?SYS\s*>>)"
    r"|\[(?=/?INST\])",
    re.IGNORECASE,
)
_DISARMED = {"<": "‹", "[": "⁅"}


def fresh_nonce() -> str:
    """A name for one block of data that its author could not have known."""
    return os.urandom(8).hex()


def as_data(text: str, *, origin: str, nonce: str) -> str:
    """The text as one labelled block that the model reads and does not obey.

    Whatever looks like our own delimiter or like a chat template's marker loses its first bracket,
    so the block can only end where we end it. The caller keeps the nonce (or this whole string) in
    an entry, so that a replay is exact.
    """
    if not _NONCE.match(nonce):
        raise ValueError(f"a nonce is 8 to 64 of 0-9 and a-z, not {nonce!r}")
    seen = text if text.isascii() else _TAG_RUN.sub(_revealed, text)
    inside = _MARKERS.sub(lambda marker: _DISARMED[marker.group()], seen)
    if nonce in inside.lower():
        inside = re.sub(re.escape(nonce), "·" * len(nonce), inside, flags=re.IGNORECASE)
    label = one_line(origin, 200).translate({ord('"'): "'", ord("<"): "‹", ord(">"): "›"})
    return f'<data-{nonce} origin="{label}">\n{inside}\n</data-{nonce}>'


_BLOCK = pattern_of(r"<data-([0-9a-z]{8,64}) origin=\"[^\"\n]*\">\n(.*)\n</data-\1>\Z", re.DOTALL)


def inside(block: str) -> str:
    """What a person is shown of a labelled block: its text without the label."""
    found = _BLOCK.match(block)
    return found[2] if found else block


FILE: Final = "file "
"""How the origin of an attached file begins."""
_ATTACHED = pattern_of(r"<data-([0-9a-z]{8,64}) origin=\"file ([^\"\n]*)\">\n")
_MOST_UNCLOSED: Final = 100


def _blocks(
    said: str, opens: re.Pattern[str], close: str, *, before: str = "", after: bool = False
) -> Iterator[tuple[re.Match[str], int, int, int]]:
    """Each opening that is closed, where the block begins, its inside ends and it ends itself.

    White space before it belongs to it, with a heading that begins with `before`, and behind it
    with `after`. Whatever the text is, the work grows with its length only: one pattern for the
    whole would look for the end of the text again at each opening that nothing closes.
    """
    done, unclosed = 0, set[str]()
    for found in opens.finditer(said):
        closing = close.format(found[1])
        if found.start() < done or closing in unclosed:
            continue
        if (inside := said.find(closing, found.end())) < 0:
            unclosed.add(closing)
            if len(unclosed) > _MOST_UNCLOSED:
                return
            continue
        start = _back(said, found.start(), done)
        line = max(said.rfind("\n", done, start) + 1, done)
        if before and (heading := said.find(before, line, start)) >= 0:
            start = _back(said, heading, done)
        done = inside + len(closing)
        while after and done < len(said) and said[done].isspace():
            done += 1
        yield found, start, inside, done


def _back(said: str, at: int, least: int) -> int:
    """Where the white space before a place begins."""
    while at > least and said[at - 1].isspace():
        at -= 1
    return at


INJECTED: Final = "mindstone "
"""How the origin begins of whatever another program is given from here."""
_INJECTED = pattern_of(
    r"(?:<hook_context>)?<data-([0-9a-z]{8,64}) origin=\"mindstone [^\"\n]*\">\n"
)
_ESCAPED = pattern_of(
    r"(?:<hook_context>)?&lt;data-([0-9a-z]{8,64}) origin=\"mindstone [^\"\n]*\"&gt;\n"
)


def without_injected(said: str) -> str:
    """A message of another program without what it was given from here."""
    if f'origin="{INJECTED}' not in said:
        return said
    # Gemini CLI escapes it, and puts marks of its own around it.
    for opens, close in ((_INJECTED, "\n</data-{}>"), (_ESCAPED, "\n&lt;/data-{}&gt;")):
        blocks = [(start, end) for _, start, _, end in _blocks(said, opens, close)]
        said = "".join(
            part.removeprefix("</hook_context>") if at else part
            for at, part in enumerate(_between(said, blocks))
        )
    return said


def _between(said: str, blocks: Iterable[tuple[int, int]]) -> list[str]:
    """What stands around blocks, in order: one more than there are."""
    spans = [(0, 0), *blocks, (len(said), len(said))]
    return [said[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]


_FENCE = pattern_of(r"^</?data-[0-9a-z]{8,64}(?: origin=\"[^\"\n]*\")?>(?:\n|\Z)", re.MULTILINE)


def unfenced(text: str) -> str:
    """A text without the lines that mark blocks of data in it; their random names are nobody's."""
    return _FENCE.sub("", text) if "data-" in text else text


_ADDED = pattern_of(
    r"<(system-reminder|environment_context|environment_details|user_instructions|INSTRUCTIONS"
    r"|ide_selection|ide_opened_file|ide_diagnostics|skills_instructions|session_context)>"
)


_BEHIND = pattern_of(
    r"\n\n(?<=\S\n\n)\n?(?:To suggest changes to a file you MUST return the entire content"
    r"|# File editing rules:\n\nReturn edits|# V4A Diff Format Rules:\n\nYour entire response"
    r"|# \*SEARCH/REPLACE block\* Rules:\n\nEvery|ONLY return code using the `\w+` function)"
)
"""How that begins which aider puts behind a person's words."""
EXAMPLES_END = "I switched to a new code base. Please don't consider the above files"
"""How aider ends the examples with which it begins each conversation."""
_ALONE = pattern_of(
    rf"{EXAMPLES_END}|Here are summaries of some files present in|I have \*added these files to"
    r"|I am not sharing any files that you can|Don't try and edit any existing code without asking"
    r"|Here are some READ ONLY files, provided for|Generate a title for this conversation:\n"
    r"|This is the (?:Gemini CLI|Qwen Code)\. We are setting up|Managed memory directory: `"
    r"|<session>\n(?s:.*?)\n</session>\s+Write the title"
)
"""How messages begin that programs write in a person's name: aider, Claude Code and others."""


def _added(said: str) -> list[tuple[int, int]]:
    """What programs put beside a person's words: reminders, where they run, what is on show."""
    found = _blocks(said, _ADDED, "</{}>", before="# AGENTS.md instructions", after=True)
    spans = [(start, end) for _, start, _, end in found] if "</" in said else []
    blocks, done = [], 0
    for start, end in (*spans, (len(said), len(said))):
        if (behind := _BEHIND.search(said, done, start)) is not None:
            blocks.append((behind.start(), start))
        blocks.append((start, end))
        done = end
    return blocks[:-1]


def without_reminders(said: str) -> str:
    """A message without what programs add to a person's words for the model."""
    blocks = _added(said)
    return "\n".join(_between(said, blocks)).strip("\n") if blocks or "</" in said else said


def own_parts(said: str) -> list[str]:
    """A person's words as they stand between what programs added; all of it if there are none."""
    return [part for part in _between(said, _added(said)) if part.strip()] or [said]


def is_programs(said: str) -> bool:
    """Whether no word of a message is a person's."""
    return _ALONE.match(said) is not None


def added_around(said: str) -> tuple[str, str, str]:
    """What a program put before a person's words, the words, and what it put behind them.

    Joined by empty lines they are what was said, byte for byte; what cannot be parted so, and what
    a program says alone, counts as the words, unless it is known to be a program's.
    """
    if is_programs(said):
        return said, "", ""
    blocks = _added(said)
    start = reached = 0
    for first, last in blocks:
        if first == reached:
            reached = last
            start = last if said.endswith("\n\n", 0, last) else start
    end = reached = len(said)
    for first, last in reversed(blocks):
        if last == reached:
            reached = first
            end = first if said.startswith("\n\n", first) else end
    if start >= end or not said[start:end].strip():
        return "", said, ""
    return said[: max(start - 2, 0)], said[start:end], said[end + 2 :]


def as_written(said: str) -> str:
    """A message as a person is shown it: their own words, attached files by name and length.

    One that a program wrote alone is shown as it came, so that no turn begins with nothing.
    """
    own = without_reminders(said)
    shown = own if own.strip() else said
    named, done = "", 0
    for found, _, inside, end in _blocks(shown, _ATTACHED, "\n</data-{}>"):
        count = len(shown[found.end() : inside].splitlines())
        named += f"{shown[done : found.start()]}[{FILE}{found[2]}, {plural(count, 'line')}]"
        done = end
    named += shown[done:]
    return unfenced(named)


def plural(count: int, one: str, many: str = "") -> str:
    """`1 exchange`, `12 exchanges`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
