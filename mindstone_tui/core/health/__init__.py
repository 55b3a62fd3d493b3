"""Whether the working set is well: metrics after each turn, alerts that last, trends, fidelity.

A value that nobody measured is None, never a comforting number.
"""
