"""Widgets: each draws the values it is given."""
