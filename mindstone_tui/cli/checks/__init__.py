"""Checks of `mindstone doctor`, a file per subject."""
