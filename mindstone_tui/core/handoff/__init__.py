"""How work crosses from one window to the next: checkpoints, handoffs, tasks and delegation.

Everything here is derived from history and says from which part of it. What is stale, edited,
torn or from elsewhere is refused with that word.
"""
