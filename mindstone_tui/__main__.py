"""The `mindstone` command. `--version` is answered before anything else is loaded."""

import gc
import os
import sys
import time

from mindstone_tui import __version__


def fill_standard_streams() -> bool:
    """Put nothing where a standard stream is closed; False when that is stdout.

    Otherwise the next file that is opened, a transcript perhaps, would be taken for the stream.
    """
    spoken = True
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            if (fd := os.open(os.devnull, os.O_RDWR)) != number:
                os.dup2(fd, number)
                os.close(fd)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
            spoken = spoken and name != "stdout"
    return spoken


def bound_clock() -> None:
    """Let a clock that is far ahead stand still; past 2262, Python's own library fails to load."""
    try:
        time.time()
    except OverflowError:
        last = sys.maxsize  # nanoseconds
        time.time_ns = lambda: last
        time.time = lambda: last / 1e9


def collect_less_often() -> None:
    """Look for garbage at every 10,000th new object instead of every 700th.

    While a program starts, nearly all objects are modules, classes and styles, which stay; looking
    through them again and again is a tenth of its time.
    """
    gc.set_threshold(10_000, 20, 20)


def _say_version() -> int:
    try:
        sys.stdout.write(f"mindstone {__version__} ({os.path.dirname(__file__)})\n")  # noqa: PTH120
        sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"mindstone: The output could not be written: {error.strerror}.\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the interpreter's own last flush
        return 1
    return 0


def main() -> int:
    """Run the command line and return its exit code."""
    if not fill_standard_streams():
        sys.stderr.write("mindstone: Standard output is closed. Send it to a file or a pipe.\n")
        return 1
    bound_clock()
    if (arguments := sys.argv[1:]) in (["--version"], ["-V"]):
        return _say_version()
    if arguments[:1] == ["hook"]:
        from mindstone_tui.hook import main as hook  # 1 ms

        return hook(arguments[1:])
    collect_less_often()
    # Typer: 60 ms, and --version needs none of it.
    from mindstone_tui.cli.main import hide_own_memory, run

    hide_own_memory()
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
