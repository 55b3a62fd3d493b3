"""Confines a process with Landlock and seccomp, where there is no bubblewrap.

Started beside `supervisor.py` in a process of its own, so it imports nothing but the standard
library. Landlock can only add rights below a folder, never take them away again, so each entry of
the workspace is opened one by one and the protected ones are left out. What Landlock does not know
(UDP, Unix sockets, permissions) the filter of `seccomp.py` refuses or leaves to `metadata.py`; what
only root's capabilities would allow is gone with them, as it is under bubblewrap.
"""

import ctypes
import os
import stat
import struct
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_OPENAT2, _NO_LINKS = 437, 4
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_LOOK = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_NET_BIND_AND_CONNECT = 0b11
_SCOPE_SOCKETS_AND_SIGNALS = 0b11
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_CAPABILITIES_3 = 0x20080522


def abi() -> int:
    """The version of Landlock this kernel speaks; 0 when it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    version: int = _syscall(_CREATE_RULESET, None, 0, 1)
    return max(version, 0)


def usable() -> bool:
    """Whether this machine can be confined this way at all."""
    return abi() >= 3


def apply(rules: dict[str, object]) -> None:
    """Confine this process and all it starts: `network`, and what is granted on which paths."""
    version = abi()
    network = bool(rules["network"])
    handled = (1 << (16 if version >= 5 else 15)) - 1
    net = _NET_BIND_AND_CONNECT if version >= 4 and not network else 0
    scope = _SCOPE_SOCKETS_AND_SIGNALS if version >= 6 else 0
    attributes = struct.pack("QQQ", handled, net, scope)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(_syscall(_CREATE_RULESET, attributes, size, 0))
    change = handled & ~(_MAKE_CHAR | _MAKE_BLOCK)
    granted = {"listed": _READ_DIR, "readable": _LOOK, "writable": change, "devices": change}
    for name, rights in granted.items():
        paths = rules[name]
        assert isinstance(paths, list)
        for path in paths:
            _grant(ruleset, str(path), rights, _NO_LINKS if name == "writable" else 0)
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(_syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    if rules["writable"]:  # what may only read needs those by which root reads what is others'
        drop_capabilities()


def drop_capabilities() -> None:
    """Leave nothing of root but its name to this thread; who has no capabilities keeps none."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = 0
    while libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) == 0:  # until there is no such number
        number += 1
    _checked(libc.capset(struct.pack("Ii", _CAPABILITIES_3, 0), bytes(24)))


def _grant(ruleset: int, path: str, rights: int, resolve: int) -> None:
    """Allow these rights on a path and below it; a path that is gone grants nothing.

    Nor does one that leads through a link since it was looked at, if it is to be written.
    """
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, 0, resolve)
    if (fd := _syscall(_OPENAT2, -100, os.fsencode(path), how, len(how))) < 0:
        return
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):
            return
        allowed = rights if stat.S_ISDIR(mode) else rights & (_ON_FILES | _IOCTL)
        _checked(_syscall(_ADD_RULE, ruleset, 1, struct.pack("<Qi", allowed, fd), 0))
    finally:
        os.close(fd)


def _syscall(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(libc.syscall(ctypes.c_long(number), *wide))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock refused: {os.strerror(number)}")
    return result
