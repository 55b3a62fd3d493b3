"""Commands in a session of Claude Code: which of them were said to the model.

A slash command and a `!` line are user records in tags. A slash command that answers by itself is
no part of the conversation; one that stands for a prompt is what the person said, and only what
follows it tells the two apart. A `!` line and its output go to the model: they are the person's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mindstone_tui.core.interchange.formats.parts import joined, plain
from mindstone_tui.core.interchange.reading import mapping
from mindstone_tui.core.interchange.records import Aside, Record, Said

_LEFT_OUT = Aside(what="command of the program")
_TAGGED = re.compile(
    r"<(command-name|command-args|bash-input|bash-stdout|bash-stderr)>(.*?)</\1>", re.DOTALL
)
_OUTPUTS = ("<local-command-", "Caveat: ")


class Commands:
    """Holds a command back until the next record says what it was."""

    def __init__(self) -> None:
        self._held: Said | None = None

    def sort(self, record: Record, fields: dict[str, Any]) -> Iterator[Record]:
        """The record as it belongs into the conversation, after the command before it."""
        match record:
            case Said(role="assistant"):
                yield from self._was_said()
                yield record
            case Said(text=said) if said.startswith(("<command-name>", "<command-message>")):
                yield from self.close()
                tags = dict(_TAGGED.findall(said))
                call = f"{tags.get('command-name', '')} {tags.get('command-args', '')}".strip()
                self._held = msgspec.structs.replace(record, text=call or said)
            case Said(text=said) if said.startswith("<bash-input>"):
                yield from self.close()
                line = dict(_TAGGED.findall(said)).get("bash-input", "")
                self._held = msgspec.structs.replace(record, text=f"!{line}")
            case Said(text=said) if said.startswith(("<bash-stdout>", "<bash-stderr>")):
                yield from self._gave(record)
            case Said(text=said) if said.startswith(_OUTPUTS):
                yield from self.close()
                yield _LEFT_OUT
            case Said():
                yield from self.close()
                yield record
            case Aside(what="meta") if not _is_caveat(fields):
                yield from self._was_said()
                yield record
            case _:
                yield record

    def close(self) -> Iterator[Record]:
        """What is still held was for the program; a `!` line was not."""
        held, self._held = self._held, None
        if held is not None:
            yield held if held.text.startswith("!") else _LEFT_OUT

    def _was_said(self) -> Iterator[Record]:
        held, self._held = self._held, None
        if held is not None:
            yield held

    def _gave(self, output: Said) -> Iterator[Record]:
        """The output of the `!` line that is held, with it as one message."""
        held, self._held = self._held, None
        if held is None or not held.text.startswith("!"):
            yield from () if held is None else (_LEFT_OUT,)
            yield _LEFT_OUT
            return
        tags = dict(_TAGGED.findall(output.text))
        outputs = (tags.get("bash-stdout", ""), tags.get("bash-stderr", ""))
        yield msgspec.structs.replace(held, text=joined((held.text, *outputs)))


def _is_caveat(fields: dict[str, Any]) -> bool:
    """Whether a record only warns of the commands after it."""
    said = plain(mapping(fields.get("message")).get("content")) or ""
    return said.startswith(("Caveat: ", "<local-command-caveat>"))
