"""A process gives up the network, writing files and starting programs. Linux; for the pickle conversion's process.

Two lines of defence, each enough for the network: an empty network namespace (namespaces(7)) where the kernel lets us
make one, and a system-call filter (seccomp(2)) that also makes the file system read-only. Nothing here can be undone
by the process. Knows neither torch nor pickles.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Iterable, Iterator, Mapping

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# System calls that are refused, by their numbers on (x86_64, aarch64); None: that machine does not have the call.
DENIED: Mapping[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "io_uring_setup": (425, 425),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_writev": (311, 271),
    "kill": (62, 129),
    "tkill": (200, 130),
    "creat": (85, None),
    "openat2": (437, 437),
    "open_by_handle_at": (304, 265),
    "truncate": (76, 45),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "utimensat": (280, 88),
    "mount": (165, 40),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
}
OPENAT = {"x86_64": 257, "aarch64": 56}
OPEN = {"x86_64": 2}

# BPF instructions of a filter (linux/bpf_common.h): load a 32-bit word, compare, test bits, return.
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data


def leave_network() -> bool:
    """Move to a network namespace with nothing in it; False where that is not permitted.

    To be called while the process has one thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return any(libc.unshare(kinds) == 0 for kinds in (CLONE_NEWUSER | CLONE_NEWNET, CLONE_NEWNET))


def limit_resources(memory: int, cpu_s: int) -> None:
    """Bound address space and CPU time; files stay small enough for an error message, and no core is dumped."""
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: 1 << 16,  # pipes are not files: the result leaves through one
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def filter_system_calls() -> bool:
    """Refuse DENIED and every way to open a file for writing; False where the machine has no such filter."""
    machine = platform.machine()
    if machine not in AUDIT_ARCH:
        return False
    instructions = list(_program(machine))
    filters = ctypes.create_string_buffer(b"".join(instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(filters)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) == 0)


def _program(machine: str) -> Iterator[bytes]:
    """Instructions for one architecture; another one, and x86's 32-bit numbers, end the process."""
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_JUMP_EQUAL, AUDIT_ARCH[machine], if_true=1)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, _NUMBER)
    yield _instruction(_JUMP_AT_LEAST, 0x40000000, if_false=1)
    yield _instruction(_RETURN, _KILL)
    for number in _denied_numbers(machine):
        yield _instruction(_JUMP_EQUAL, number, if_false=1)
        yield _instruction(_RETURN, _ERRNO)
    yield from _read_only_open(OPENAT[machine], flags_argument=2)
    if machine in OPEN:
        yield from _read_only_open(OPEN[machine], flags_argument=1)
    yield _instruction(_RETURN, _ALLOW)


def _denied_numbers(machine: str) -> Iterable[int]:
    column = list(AUDIT_ARCH).index(machine)
    return (number for numbers in DENIED.values() if (number := numbers[column]) is not None)


def _read_only_open(number: int, flags_argument: int) -> Iterator[bytes]:
    """Five instructions: for the call `number`, allow or refuse by its flags; other calls pass on."""
    yield _instruction(_JUMP_EQUAL, number, if_false=4)
    yield _instruction(_LOAD, _ARGUMENTS + 8 * flags_argument)
    yield _instruction(_JUMP_BITS, WRITE_FLAGS, if_false=1)
    yield _instruction(_RETURN, _ERRNO)
    yield _instruction(_RETURN, _ALLOW)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
