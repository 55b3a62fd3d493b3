"""Surfaces for other programs: tool servers, editors, HTTP clients and browsers.

Each is a client of the front door, as the app is. None of them keeps anything about a session: the
transcript is what they share.
"""
