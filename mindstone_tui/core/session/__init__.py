"""The composition root and the owner of the turn: verbs in, one ordered stream out."""
