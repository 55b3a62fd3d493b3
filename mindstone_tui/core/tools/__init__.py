"""A tool as data, and the hands behind it."""
