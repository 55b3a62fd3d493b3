"""What Codex CLI itself writes into user messages: instructions, environment, notices.

The program tells its own parts by how they begin and end; so do we. A command that the person ran
with `!` is among them, and is theirs.
"""

from __future__ import annotations

import re

_MARKED = (
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    ("<user_instructions>", "</user_instructions>"),
    ("<environment_context>", "</environment_context>"),
    ("<permissions instructions>", "</permissions instructions>"),
    ("<collaboration_mode>", "</collaboration_mode>"),
    ("<external_", ">"),
    ("<skill>", "</skill>"),
    ("<user_shell_command>", "</user_shell_command>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<subagent_notification>", "</subagent_notification>"),
    ("<codex_internal_context", "</codex_internal_context>"),
    ("<goal_context>", "</goal_context>"),
    ("<recommended_plugins>", "</recommended_plugins>"),
    ("<hook_prompt", "</hook_prompt>"),
    ("Warning: apply_patch was requested via ", ""),
    ("Warning: The maximum number of unified exec processes you can keep open is", ""),
    ("Warning: Your account was flagged for potentially high-risk cyber activity", ""),
)
_COMMAND = re.compile(
    r"<user_shell_command>\s*<command>\n?(.*?)\n?</command>\s*<result>\n?(.*?)\n?</result>",
    re.DOTALL,
)
_OUTPUT = re.compile(r"Exit code: -?\d+\nDuration: [\d.]+ seconds\nOutput:\n")


def is_context(said: str) -> bool:
    """Whether the program wrote this part of a user message."""
    start = said.lstrip()
    end = said.rstrip()
    return any(start.startswith(first) and end.endswith(last) for first, last in _MARKED)


def shell_command(said: str) -> str:
    """The command that the person ran and what it gave; empty where there is none."""
    found = _COMMAND.match(said.lstrip())
    if found is None:
        return ""
    return f"!{found[1]}\n\n{_OUTPUT.sub('', found[2], count=1)}".rstrip()
