"""The prompts for side calls: files of the package, recorded by hash wherever they were used."""

import hashlib
import re
from functools import cache
from importlib import resources

from mindstone_tui.core.entries import Part


class Prompt(Part):
    """One prompt, by name."""

    name: str
    text: str

    @property
    def version(self) -> str:
        """The name with the start of the text's SHA-256: changes with every edit of the file."""
        return f"{self.name}@{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"

    def fill(self, **values: object) -> str:
        """The text with its `{holes}` filled; braces that are no hole stay as they are."""
        text = self.text
        for name, value in values.items():
            text = text.replace("{" + name + "}", str(value))
        return text


@cache
def load(name: str) -> Prompt:
    """The prompt of that name; the file is read once."""
    text = resources.files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return Prompt(name=name, text=text)


def used_in(text: str) -> str:
    """The version of the prompt that a text was filled from; empty when it is none of ours."""
    for name in names():
        prompt = load(name)
        parts = (re.escape(part) for part in re.split(r"\{[a-z]+\}", prompt.text))
        if re.fullmatch(".*?".join(parts), text, re.DOTALL):
            return prompt.version
    return ""


def names() -> tuple[str, ...]:
    """Every prompt there is."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(f.name.removesuffix(".md") for f in files if f.name.endswith(".md")))
