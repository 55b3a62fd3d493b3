"""A small MCP server made with the library that everyone uses."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("honest")


@server.tool()
def add(first: int, second: int) -> str:
    """Add two numbers."""
    return str(first + second)


@server.tool()
def environment() -> str:
    """Name the variables it can see."""
    return " ".join(sorted(os.environ))


@server.tool()
def shout(length: int) -> str:
    """Say something long."""
    return "a\x1b[2Jb" * length


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
