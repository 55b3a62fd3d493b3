"""One turn: a question in, events out, every step on disk before it is announced."""
