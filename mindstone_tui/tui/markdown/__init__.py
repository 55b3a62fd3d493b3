"""Markdown as a terminal can show it: one widget an answer, no text lost, nothing executed."""
