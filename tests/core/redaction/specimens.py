"""Secrets and innocent lines made from templates, and the places where they are met."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable, Iterator

from tests.corpora import lines

SAMPLES = [
    (kind, template) for kind, _, template in (row.partition("\t") for row in lines("secrets.tsv"))
]
INNOCENT = lines("innocent.txt")

_ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "U": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "B": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
}
_WORDS = [
    *("amber", "bishop", "candle", "dragon", "ember", "falcon", "garnet", "harbor", "indigo"),
    *("jasper", "kettle", "lantern", "marble", "nectar", "orchid", "pepper", "quartz", "raven"),
    *("saddle", "timber", "umbra", "velvet", "walnut", "yonder", "zephyr"),
]
_HOLE = re.compile(r"\{([AhHUlwdbBpqcsu])(\d*)\}")


def made(template: str, seed: int) -> tuple[str, list[str]]:
    """A text of this template, and the random parts of it that must not survive."""
    dice = random.Random(seed)
    parts: list[str] = []

    def fill(hole: re.Match[str]) -> str:
        part = _part(hole[1], int(hole[2] or 0), dice)
        if hole[1] != "d":  # a number names an account; it opens nothing
            parts.append(part)
        return part

    plain = template.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t")
    text = _HOLE.sub(fill, plain.replace("\0", "\\"))
    return text, [part for part in parts if len(part) >= 12] or parts[-1:]


def _part(letter: str, size: int, dice: random.Random) -> str:
    match letter:
        case "p":
            return _password("!#%^*", size, dice)
        case "q":
            return _password("@/", size, dice)
        case "c":
            word = dice.choice(_WORDS).capitalize()
            return word + str(dice.randrange(10 ** dice.choice((1, 2, 4)))) + dice.choice(("", "!"))
        case "s":
            return " ".join(dice.choices(_WORDS, k=size))
        case "u":
            return "-".join("".join(dice.choices(_ALPHABETS["h"], k=n)) for n in (8, 4, 4, 4, 12))
        case _:
            return "".join(dice.choices(_ALPHABETS[letter], k=size))


def _password(signs: str, size: int, dice: random.Random) -> str:
    """Letters, digits and each of these signs, a letter first."""
    body = [*signs[:2], dice.choice(string.digits)]
    body += dice.choices(_ALPHABETS["A"] + signs, k=size - len(body) - 1)
    dice.shuffle(body)
    return dice.choice(string.ascii_letters) + "".join(body)


def _as_diff(text: str) -> str:
    return "@@ -1,2 +1,2 @@\n-old\n" + "".join(f"+{line}\n" for line in text.split("\n"))


def _numbered(text: str) -> str:
    shown = ["a = 1", *text.split("\n"), "b = 2"]
    return "".join(f"{number:6}\t{line}\n" for number, line in enumerate(shown, 1))


PLACES: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "a message": lambda text: f"Here it is: {text} and please keep it safe.\n",
    "tool output": lambda text: f"first line\n{text}\nlast line\n",
    "a shell": lambda text: f"$ {text}\nok\n",
    "the environment": lambda text: f"HOME=/root\nPATH=/usr/bin\n{text}\nLANG=C\n",
    "tool arguments": lambda text: json.dumps({"command": f"cd /srv && {text}", "timeout": 30}),
    "JSON": lambda text: json.dumps({"note": f"first line\n{text}\nmore", "n": 1}),
    "a log": lambda text: f"2026-01-02 03:04:05 DEBUG http.client: sent ({text}) in 12 ms",
    "a diff": _as_diff,
    "numbered lines": _numbered,
}


def specimens(again: int = 1) -> Iterator[tuple[str, str, str, list[str]]]:
    """Every sample in every place: kind, place, text, and what must not survive."""
    for number, (kind, template) in enumerate(SAMPLES):
        for place, put in PLACES.items():
            for seed in range(again):
                text, parts = made(template, number * 1000 + seed)
                yield kind, place, put(text), parts


def survives(part: str, text: str) -> bool:
    """Whether a secret part can still be read, as it was or as JSON spells it."""
    return part in text or json.dumps(part)[1:-1] in text
