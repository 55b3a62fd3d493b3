"""Finding what was said before: passages, their words and their meaning, ranked and explained."""
