"""Refuses calls of a confined command that neither namespaces nor Landlock look at.

Loaded beside `supervisor.py` in a process of its own, so it imports nothing but the standard
library. A file that lends rights to whoever runs it (setuid, setgid, a capability) and a device
node would outlive the command, so no call makes one: not with permissions, not at creation, not
through an attribute. The kernel's keyrings are those of whoever started us, and out of reach. Calls
whose arguments a filter cannot read fail as if the kernel did not know them, which programs are
prepared for.
"""

import ctypes
import json
import os
import platform
import struct
from pathlib import Path
from typing import Final, NamedTuple

Step = tuple[int, int, int, int]
"""One instruction of the filter: code, where to go if so, where if not, value."""


class Convention(NamedTuple):
    """One way of calling the kernel, and the numbers of calls in it."""

    architecture: int
    permissions: dict[str, int]
    """Calls that set permissions, each with the place of that argument."""
    creation: dict[str, int]
    """Calls that may create a file, each with the place of the flags; permissions follow them."""
    nodes: dict[str, int]
    attributes: list[int]
    sockets: list[int]
    """Calls that make a socket; of all but the last, a filter cannot read of which family."""
    keys: list[int]
    """Calls that reach the kernel's keyrings, which no namespace keeps apart."""
    shared: list[int]
    """Calls that reach what other programs share (memory, semaphores, queues of messages), and old
    ways to change what a file is marked with."""
    processes: dict[str, int | None]
    """Calls that set a process's limits and priority, each with what means one process there, where
    groups and people can be meant."""
    devices: int
    """The call that also sets flags of files."""
    asked: dict[str, tuple[str, int, int, int, int]]
    """Calls that `metadata.py` makes for the command: what for, and where folder, path, value and
    flags stand; -1 where there is none, -2 where links are never followed."""


CALLS: Final = {
    machine: [Convention(**each) for each in conventions]
    for machine, conventions in json.loads(
        Path(__file__).with_name("system_calls.json").read_text("utf-8")
    ).items()
}
_OPENAT2, _IO_URING_SETUP = 437, 425
"""Calls that are new enough to have one number on all machines."""
_X32: Final = 0x40000000
"""Numbers from here on are a third convention on x86_64, which nobody uses any more."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _FAIL, _ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_EPERM, _ENOSYS, _EOPNOTSUPP = 1, 38, 95
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_LENDING: Final = 0o6000
_MAY_CREATE: Final = 0o100 | 0o20000000
"""O_CREAT, and what O_TMPFILE adds to O_DIRECTORY."""
_INTERNET: Final = (2, 10, 16)
"""Families of sockets: both of the internet, and the one that asks for its addresses."""
_KIND, _CHARACTERS, _BLOCKS = 0o170000, 0o020000, 0o060000
_FLAGS_OF_FILES: Final = (0x40086602, 0x40046602, 0x401C5820, 0x40806685)
"""What sets them through an open file, and what seals one for good."""
_PR_SET_NO_NEW_PRIVS, _SET_FILTER = 38, 1
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
_LISTENER, _KILLABLE = 1 << 3, 1 << 5
"""Questions go to whoever started us, and no signal but the last interrupts one."""


def usable() -> bool:
    """Whether the calls of this machine are known."""
    return platform.machine() in CALLS


def program(
    *, sockets: bool, local: bool = True, apart: bool = False, machine: str = platform.machine()
) -> bytes:
    """The filter as the kernel and bubblewrap read it; without `sockets` none can be made.

    Without `local` only those of the internet, which a namespace of its own keeps apart: no Unix
    socket, by which a program in the same folder could be asked to act, and none to a hypervisor.
    What is kept `apart` so alone reaches nothing that others share, which a namespace would hide.
    """
    steps: list[Step] = [(_LOAD, 0, 0, _ARCHITECTURE_AT)]
    for convention in CALLS[machine]:
        section = _section(convention, sockets, local, apart)
        steps += [(_EQUAL, 0, len(section), convention.architecture), *section]
    steps.append((_GIVE, 0, 0, _KILL))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _section(convention: Convention, sockets: bool, local: bool, apart: bool) -> list[Step]:
    """The answers to one convention's calls; each part begins with the number and may go on."""
    steps: list[Step] = [(_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _X32), _fail(_EPERM)]
    refused = {_OPENAT2: _ENOSYS, _IO_URING_SETUP: _EPERM}
    refused |= dict.fromkeys(convention.attributes, _EOPNOTSUPP)
    refused |= dict.fromkeys(convention.keys, _ENOSYS)
    refused |= dict.fromkeys(convention.shared, _EPERM) if apart else {}
    *hidden, made = convention.sockets
    refused |= dict.fromkeys(hidden, _EPERM) if not (sockets and local) else {}
    refused |= {} if sockets else {made: _EPERM}
    for number, error in refused.items():
        steps += _of_call(number, [_fail(error)])
    if sockets and not local:
        steps += _of_call(made, [_argument(0), *_one_of(_INTERNET, _allow(), _fail(_EPERM))])
    asked = convention.asked if apart else {}
    for name, place in convention.permissions.items():
        steps += _of_call(
            int(name), _lending(place, (_GIVE, 0, 0, _ASK) if name in asked else _allow())
        )
    for name in asked.keys() - convention.permissions.keys():
        steps += _of_call(int(name), [(_GIVE, 0, 0, _ASK)])
    for name, place in convention.creation.items():
        creates: list[Step] = [_argument(place), (_ANY_BIT, 1, 0, _MAY_CREATE), _allow()]
        steps += _of_call(int(name), [*creates, *_lending(place + 1, _allow())])
    for name, place in convention.nodes.items():
        steps += _of_call(int(name), _device(place))
    for name, kind in convention.processes.items() if apart else ():
        only = [*_only(0, kind), *_only(1, 0)] if kind is not None else _only(0, 0)
        steps += _of_call(int(name), [*only, _allow()])
    flags = [_argument(1), *_one_of(_FLAGS_OF_FILES, _fail(_EOPNOTSUPP), _allow())]
    return [*steps, *(_of_call(convention.devices, flags) if apart else ()), _allow()]


def _of_call(number: int, answer: list[Step]) -> list[Step]:
    return [(_EQUAL, 0, len(answer), number), *answer]


def _lending(place: int, otherwise: Step) -> list[Step]:
    """Fail if these permissions hold a bit that lends rights."""
    return [_argument(place), (_ANY_BIT, 0, 1, _LENDING), _fail(_EPERM), otherwise]


def _one_of(values: tuple[int, ...], so: Step, otherwise: Step) -> list[Step]:
    tries: list[Step] = [(_EQUAL, len(values) - at, 0, each) for at, each in enumerate(values)]
    return [*tries, otherwise, so]


def _only(place: int, value: int) -> list[Step]:
    return [_argument(place), (_EQUAL, 1, 0, value), _fail(_EPERM)]


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


def apply(*, sockets: bool) -> int:
    """Put this process and all it starts under the filter; what it asks comes out of the result."""
    code = program(sockets=sockets, apart=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for flags in (_LISTENER | _KILLABLE, _LISTENER):  # kernels before 5.19 do not know the first
        call = _SECCOMP[platform.machine()]
        if (listener := int(libc.syscall(call, _SET_FILTER, flags, header))) >= 0:
            return listener
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
