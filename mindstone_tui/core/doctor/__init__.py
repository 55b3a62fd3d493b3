"""Checks of an installation: the home, the engines under it, and what continuity rests on."""
