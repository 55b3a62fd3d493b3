"""What ships: each module a feature of a session, named in `session/features.py`."""
