"""Stands between ssh and a real sshd, counts bytes, and cuts the line after so many.

python line_cutter.py PORT BYTES COUNTED
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
from pathlib import Path


def main(port: int, most: int, counted: Path) -> None:
    """Pass bytes on, both ways, until there are too many or one side is done."""
    line = socket.create_connection(("127.0.0.1", port))
    ways = {0: line.fileno(), line.fileno(): 1}
    seen = 0
    with selectors.DefaultSelector() as ready, counted.open("wb") as told:
        for each in ways:
            ready.register(each, selectors.EVENT_READ)
        while seen < most:
            for key, _ in ready.select():
                piece = os.read(key.fd, min(1 << 16, most - seen) or 1)
                seen += len(piece)
                # In one step, over the number before: ssh kills this program as it ends.
                os.pwrite(told.fileno(), str(seen).encode(), 0)
                if not piece:
                    return
                while piece:
                    piece = piece[os.write(ways[key.fd], piece) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
