"""The command line: one file per family of commands.

Standard output is output, standard error is diagnostics. Exit codes: 0 done, 1 failed, 2 wrong
use, 3 a turn is done but a tool was declined, 130 interrupted, 141 nobody reads the output any
more.
"""
