"""The `mindstone` command. `--version` is answered before anything else is loaded."""

from __future__ import annotations

import sys

from mindstone_tui import __version__


def main() -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"mindstone {__version__}\n")
        return 0
    from mindstone_tui.cli.main import hide_own_memory, run

    hide_own_memory()
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
