"""Refuses calls of a confined command that neither namespaces nor Landlock look at.

Loaded beside `supervisor.py` in a process of its own, so it imports nothing but the standard
library. A file that lends rights to whoever runs it (setuid, setgid, a capability) and a device
node would outlive the command, so no call makes one: not with permissions, not at creation, not
through an attribute. The kernel's keyrings are those of whoever started us, and out of reach. Calls
whose arguments a filter cannot read fail as if the kernel did not know them, which programs are
prepared for.
"""

import ctypes
import os
import platform
import struct
from typing import Final, NamedTuple

Step = tuple[int, int, int, int]
"""One instruction of the filter: code, where to go if so, where if not, value."""


class Convention(NamedTuple):
    """One way of calling the kernel, and the numbers of calls in it."""

    architecture: int
    permissions: dict[int, int]
    """Calls that set permissions, each with the place of that argument."""
    creation: dict[int, int]
    """Calls that may create a file, each with the place of the flags; permissions follow them."""
    nodes: dict[int, int]
    attributes: tuple[int, ...]
    sockets: tuple[int, ...]
    """Calls that make a socket; of all but the last, a filter cannot read of which family."""
    keys: tuple[int, ...]
    """Calls that reach the kernel's keyrings, which no namespace keeps apart."""
    shared: tuple[int, ...]
    """Calls that reach what other programs share: memory, semaphores, queues of messages."""


_EVERYWHERE: Final = {"fchmodat2": 452, "setxattrat": 463, "openat2": 437, "io_uring_setup": 425}
"""Calls that are new enough to have one number on all machines."""
_X86_64: Final = Convention(
    0xC000003E,
    permissions={90: 1, 91: 1, 268: 2, 85: 1},
    creation={2: 1, 257: 2},
    nodes={133: 1, 259: 2},
    attributes=(188, 189, 190),
    sockets=(41,),
    keys=(248, 249, 250),
    shared=(29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241),
)
_I386: Final = Convention(
    0x40000003,
    permissions={15: 1, 94: 1, 306: 2, 8: 1},
    creation={5: 1, 295: 2},
    nodes={14: 1, 297: 2},
    attributes=(226, 227, 228),
    sockets=(102, 359),
    keys=(286, 287, 288),
    shared=(117, *range(393, 403), 277, 278),
)
_AARCH64: Final = Convention(
    0xC00000B7,
    permissions={52: 1, 53: 2},
    creation={56: 2},
    nodes={33: 2},
    attributes=(5, 6, 7),
    sockets=(198,),
    keys=(217, 218, 219),
    shared=(180, 181, *range(186, 197)),
)
_MACHINES: Final = {"x86_64": (_X86_64, _I386), "aarch64": (_AARCH64,)}
_X32: Final = 0x40000000
"""Numbers from here on are a third convention on x86_64, which nobody uses any more."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EOPNOTSUPP = 1, 38, 95
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_LENDING: Final = 0o6000
_MAY_CREATE: Final = 0o100 | 0o20000000
"""O_CREAT, and what O_TMPFILE adds to O_DIRECTORY."""
_INTERNET: Final = (2, 10, 16)
"""Families of sockets: both of the internet, and the one that asks for its addresses."""
_KIND, _CHARACTERS, _BLOCKS = 0o170000, 0o020000, 0o060000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2


def usable() -> bool:
    """Whether the calls of this machine are known."""
    return platform.machine() in _MACHINES


def program(
    *, sockets: bool, local: bool = True, apart: bool = False, machine: str = platform.machine()
) -> bytes:
    """The filter as the kernel and bubblewrap read it; without `sockets` none can be made.

    Without `local` only those of the internet, which a namespace of its own keeps apart: no Unix
    socket, by which a program in the same folder could be asked to act, and none to a hypervisor.
    What is kept `apart` so alone reaches nothing that others share, which a namespace would hide.
    """
    steps: list[Step] = [(_LOAD, 0, 0, _ARCHITECTURE_AT)]
    for convention in _MACHINES[machine]:
        section = _section(convention, sockets, local, apart)
        steps += [(_EQUAL, 0, len(section), convention.architecture), *section]
    steps.append((_GIVE, 0, 0, _KILL))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _section(convention: Convention, sockets: bool, local: bool, apart: bool) -> list[Step]:
    """The answers to one convention's calls; each part begins with the number and may go on."""
    steps: list[Step] = [(_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _X32), _fail(_EPERM)]
    refused = {_EVERYWHERE["openat2"]: _ENOSYS, _EVERYWHERE["io_uring_setup"]: _EPERM}
    refused |= dict.fromkeys((*convention.attributes, _EVERYWHERE["setxattrat"]), _EOPNOTSUPP)
    refused |= dict.fromkeys(convention.keys, _ENOSYS)
    refused |= dict.fromkeys(convention.shared, _EPERM) if apart else {}
    *hidden, made = convention.sockets
    refused |= dict.fromkeys(hidden, _EPERM) if not (sockets and local) else {}
    refused |= {} if sockets else {made: _EPERM}
    for number, error in refused.items():
        steps += _of_call(number, [_fail(error)])
    if sockets and not local:
        families = [(_EQUAL, len(_INTERNET) - at, 0, each) for at, each in enumerate(_INTERNET)]
        steps += _of_call(made, [_argument(0), *families, _fail(_EPERM), _allow()])
    for number, place in {**convention.permissions, _EVERYWHERE["fchmodat2"]: 2}.items():
        steps += _of_call(number, _lending(place))
    for number, place in convention.creation.items():
        creates: list[Step] = [_argument(place), (_ANY_BIT, 1, 0, _MAY_CREATE), _allow()]
        steps += _of_call(number, [*creates, *_lending(place + 1)])
    for number, place in convention.nodes.items():
        steps += _of_call(number, _device(place))
    return [*steps, _allow()]


def _of_call(number: int, answer: list[Step]) -> list[Step]:
    return [(_EQUAL, 0, len(answer), number), *answer]


def _lending(place: int) -> list[Step]:
    """Fail if these permissions hold a bit that lends rights."""
    return [_argument(place), (_ANY_BIT, 0, 1, _LENDING), _fail(_EPERM), _allow()]


def _device(place: int) -> list[Step]:
    """Fail for a device, and for any node that lends rights."""
    return [
        _argument(place),
        (_ANY_BIT, 3, 0, _LENDING),
        (_MASK, 0, 0, _KIND),
        (_EQUAL, 1, 0, _CHARACTERS),
        (_EQUAL, 0, 1, _BLOCKS),
        _fail(_EPERM),
        _allow(),
    ]


def _argument(place: int) -> Step:
    """The low half of an argument: permissions, flags and kinds have no more."""
    return _LOAD, 0, 0, _ARGUMENTS_AT + 8 * place


def _fail(error: int) -> Step:
    return _GIVE, 0, 0, _FAIL | error


def _allow() -> Step:
    return _GIVE, 0, 0, _ALLOW


def apply(*, sockets: bool) -> None:
    """Put this process and all it starts under the filter."""
    code = program(sockets=sockets, apart=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _FILTER, header, 0, 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp refused: {os.strerror(number)}")


def offer(fd: int, *, local: bool) -> None:
    """Lay the filter ready under a number, for bubblewrap, which applies it last of all."""
    made = os.memfd_create("filter")
    os.write(made, program(sockets=True, local=local))
    os.lseek(made, 0, os.SEEK_SET)
    os.dup2(made, fd)
    if made != fd:
        os.close(made)
