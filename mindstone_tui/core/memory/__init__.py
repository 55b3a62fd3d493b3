"""What lasts beyond a window: notes, and memories that a person agreed to.

Nothing becomes a memory by being said, pruned or summarised. It is proposed with its source, shown
as a diff, decided by a person, and can be undone; this room has no other way to write one.
"""
