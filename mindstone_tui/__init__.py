"""MindStone TUI: a terminal agent whose memory can be trusted."""

__version__ = "0.1.0"
