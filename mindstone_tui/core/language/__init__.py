"""Judging language: words, sentences, which language a text is in, and what a message is after.

What is known about words stands in `data/`, as lists that anybody can read and correct. Nothing
here knows of sessions, histories or models.
"""
