"""Rules that a person set: what is checked of them, and that it holds."""
