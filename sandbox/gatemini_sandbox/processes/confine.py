"""Confine a sandbox process: rlimits, no new privileges, Landlock and seccomp where the kernel has them.

The process applies everything to itself, after it has loaded what it needs and before it sees any code, and reports
what the kernel granted, so that `gatemini doctor` can show it. Linux interfaces through ctypes; other systems get the
rlimits.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable

if sys.platform != "win32":
    import resource

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

# Landlock (linux/landlock.h); the three system calls have the same numbers on every architecture.
LANDLOCK_CREATE_RULESET = 444
LANDLOCK_RESTRICT_SELF = 446
LANDLOCK_CREATE_RULESET_VERSION = 1
# Rights known by ABI version: all are handled and none is granted.
LANDLOCK_FILES = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
LANDLOCK_NETWORK_ABI = 4
LANDLOCK_SCOPE_ABI = 6

# seccomp (linux/seccomp.h, linux/filter.h).
SECCOMP = {"x86_64": 317, "aarch64": 277}
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_TSYNC = 1
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW = 0x7FFF0000
REFUSE = 0x00050001  # errno EPERM
KILL = 0x80000000
LOAD, EQUAL, SET, AND_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
PROT_EXEC = 4
X32_BIT = 0x40000000

# What a guest's life takes once everything is loaded: pipes, memory, waiting, time, signals of traps, its end.
CALLS: dict[str, tuple[int, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "readv": (19, 65),
    "writev": (20, 66),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "exit": (60, 93),
    "getrusage": (98, 165),
    "times": (100, 153),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "set_robust_list": (273, 99),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "rseq": (334, 293),
}
MAPPING: dict[str, tuple[int, int]] = {"mmap": (9, 222), "mprotect": (10, 226)}
"""Allowed without PROT_EXEC: no new code once the guest's module is loaded."""


def limit_resources(data_bytes: int) -> list[str]:
    """No files written, no core, few descriptors, private memory bounded."""
    if sys.platform == "win32":
        return []
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": 16,
        "RLIMIT_DATA": data_bytes,
    }
    applied = []
    for name, value in wanted.items():
        number = getattr(resource, name, None)
        if number is None:
            continue
        _, hard = resource.getrlimit(number)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bound, bound))
        applied.append(name.lower())
    return applied


def lock_privileges() -> list[str]:
    """No new privileges, no dumps or ptrace by the same user. (Its end with the parent comes by its closed stdin:
    PR_SET_PDEATHSIG goes by the thread that started it, which may end before the process does.)"""
    if not sys.platform.startswith("linux"):
        return []
    prctl = _libc().prctl
    applied = []
    for name, option, value in (
        ("no_new_privs", PR_SET_NO_NEW_PRIVS, 1),
        ("not_dumpable", PR_SET_DUMPABLE, 0),
    ):
        if prctl(option, value, 0, 0, 0) == 0:
            applied.append(name)
    return applied


def lock_files_and_network() -> list[str]:
    """Landlock for this thread and those it starts: no path may be opened, no TCP port bound or connected."""
    if not sys.platform.startswith("linux"):
        return []
    call = _libc().syscall
    version = call(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_CREATE_RULESET_VERSION)
    if version < 1:
        return []
    rights = LANDLOCK_FILES[min(version, max(LANDLOCK_FILES))]
    fields = [(1 << rights) - 1]
    if version >= LANDLOCK_NETWORK_ABI:
        fields.append(0b11)
    if version >= LANDLOCK_SCOPE_ABI:
        fields.append(0b11)
    attributes = struct.pack(f"<{len(fields)}Q", *fields)
    ruleset = call(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return []
    try:
        done = call(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)
    return [f"landlock abi {version}"] if done else []


def lock_system_calls() -> list[str]:
    """seccomp for every thread: the calls above, mappings without code, EPERM for the rest."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in SECCOMP:
        return []
    program = _filter(machine)
    block = ctypes.create_string_buffer(program)
    # struct sock_fprog {unsigned short len; struct sock_filter *filter;}
    header = struct.pack("@HxxxxxxQ", len(program) // 8, ctypes.addressof(block))
    number = SECCOMP[machine]
    done = _libc().syscall(number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, header) == 0
    return ["seccomp"] if done else []


def _filter(machine: str) -> bytes:
    """The BPF program: architecture, then each number; mappings look at their protection argument."""
    column = 0 if machine == "x86_64" else 1
    lines: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, 4),  # the architecture
        (EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),  # the number
    ]
    if machine == "x86_64":
        lines += [(SET, 0, 1, X32_BIT), (RETURN, 0, 0, KILL)]
    for numbers in MAPPING.values():
        # Protection is the third argument: its low half at offset 16 + 2 * 8.
        lines += [
            (EQUAL, 0, 4, numbers[column]),
            (LOAD, 0, 0, 32),
            (AND_SET, 0, 1, PROT_EXEC),
            (RETURN, 0, 0, REFUSE),
            (RETURN, 0, 0, ALLOW),
        ]
    for numbers in CALLS.values():
        lines += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ALLOW)]
    lines.append((RETURN, 0, 0, REFUSE))
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def confine(data_bytes: int, threads: Callable[[], None]) -> list[str]:
    """All walls in order; `threads` starts what must run beside the guest, after Landlock and before seccomp."""
    applied = limit_resources(data_bytes) + lock_privileges() + lock_files_and_network()
    threads()
    return applied + lock_system_calls()
