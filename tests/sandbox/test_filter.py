"""The assembled filter, run by a small machine of its own: both processors are checked on either."""

from __future__ import annotations

import struct
from itertools import chain

import pytest

from autoprompt.sandbox.child import restrictions as seccomp

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50001, 0x50026
# read, write, openat, execve, futex, mmap, wait4, exit_group: what every program needs.
NEEDED = {"x86_64": (0, 1, 257, 59, 202, 9, 61, 231), "aarch64": (63, 64, 56, 221, 98, 222, 260, 94)}
SOCKET, SOCKETPAIR, CLONE, IOCTL = (41, 198), (53, 199), (56, 220), (16, 29)
UNIX, INET, INET6, NETLINK, PACKET, VSOCK = 1, 2, 10, 16, 17, 40


def answer(program: bytes, number: int, *arguments: int, architecture: int) -> int:
    """What the kernel would do with a system call. Source of the semantics: Linux, networking/filter.rst."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", program))
    at = held = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += if_true if holds else if_false


@pytest.fixture(params=ARCHITECTURES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Filter:
    def __init__(self, machine: str, own_files_only: bool, only_signal: int | None = None) -> None:
        self.machine = machine
        self.column = list(ARCHITECTURES).index(machine)
        self.program = seccomp.build_filter(
            own_files_only=own_files_only, only_signal=only_signal, machine=machine
        )

    def __call__(self, numbers: tuple[int, int], *arguments: int) -> int:
        return self.at(numbers[self.column], *arguments)

    def at(self, number: int, *arguments: int) -> int:
        return answer(self.program, number, *arguments, architecture=ARCHITECTURES[self.machine])


@pytest.mark.parametrize("own_files_only", [True, False])
def test_what_programs_need_is_allowed(machine: str, own_files_only: bool) -> None:
    ask = Filter(machine, own_files_only)
    assert {ask.at(number) for number in NEEDED[machine]} == {ALLOW}
    assert ask(CLONE, 0x3D0F00) == ALLOW  # a thread
    assert ask(SOCKETPAIR, UNIX) == ALLOW
    assert ask(IOCTL, 0, 0x5401) == ALLOW


@pytest.mark.parametrize("own_files_only", [True, False])
def test_what_it_lists_is_refused(machine: str, own_files_only: bool) -> None:
    ask = Filter(machine, own_files_only)
    lists = [(seccomp._REFUSED, EPERM), (seccomp._ABSENT, ENOSYS)]
    if not own_files_only:
        lists.append((seccomp._BY_PATH, EPERM))
    for table, expected in lists:
        there = {name: numbers for name, numbers in table.items() if numbers[ask.column] >= 0}
        assert {name: ask(numbers) for name, numbers in there.items()} == dict.fromkeys(there, expected)


def test_networks_are_refused(machine: str) -> None:
    for own_files_only in (True, False):
        ask = Filter(machine, own_files_only)
        for family in (INET, INET6, NETLINK, PACKET, VSOCK, INET | 1 << 32):  # the kernel reads an int
            assert ask(SOCKET, family, 2) == EPERM
            assert ask(SOCKETPAIR, family, 2) == EPERM
    assert Filter(machine, True)(SOCKET, UNIX, 1) == ALLOW
    assert Filter(machine, False)(SOCKET, UNIX, 1) == EPERM


def test_new_namespaces_and_typed_input_are_refused(machine: str) -> None:
    ask = Filter(machine, True)
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert ask(CLONE, flag | 17) == EPERM
    assert ask(IOCTL, 0, 0x5412, 0) == EPERM
    assert ask(IOCTL, 0, 0x5412 | 1 << 32, 0) == EPERM
    assert ask(IOCTL, 0, 0x541C, 0) == EPERM


def test_signals_are_refused_where_nothing_else_does(machine: str) -> None:
    kill, tgkill = (62, 129), (234, 131)
    free, bound = Filter(machine, False), Filter(machine, False, only_signal=77)
    assert (free(kill, 5), free(tgkill, 5)) == (ALLOW, ALLOW)
    assert (bound(kill, 5), bound(kill, 77), bound(tgkill, 5)) == (EPERM, EPERM, EPERM)
    assert bound(tgkill, 77) == ALLOW  # abort()


def test_foreign_calling_conventions_end_the_process(machine: str) -> None:
    ask = Filter(machine, True)
    assert answer(ask.program, 0, architecture=0x40000003) == KILL  # 32-bit
    if machine == "x86_64":
        assert ask.at(0x40000000 | 41, INET) == KILL  # x32


def test_no_number_is_listed_twice() -> None:
    tables = (seccomp._REFUSED, seccomp._ABSENT, seccomp._BY_PATH)
    for column in range(2):
        numbers = [pair[column] for pair in chain.from_iterable(table.values() for table in tables)]
        used = [number for number in numbers if number >= 0]
        assert len(used) == len(set(used))


def test_an_unknown_processor_has_no_filter() -> None:
    assert not seccomp.has_filter("riscv64")
