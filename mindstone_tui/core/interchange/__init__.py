"""Sessions on their way in and out: other programs' files, and our own for readers elsewhere."""
