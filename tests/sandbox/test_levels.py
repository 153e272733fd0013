"""Which level is taken where, the missing ones simulated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoprompt.sandbox import Level, Offers, SandboxError, choose, probe, run, works
from autoprompt.sandbox import strongest as strongest_of

NOTHING = Offers(bubblewrap=False, userns=False, landlock=0, seccomp=False, seatbelt=False)


def test_the_line_for_the_record() -> None:
    assert str(Level("userns", 7, True)) == "userns+landlock+seccomp, network denied"
    assert str(Level("bubblewrap", 0, True)) == "bubblewrap+seccomp, network denied"
    assert str(Level("", 3, False)) == "landlock, network open"
    assert str(Level()) == "none, network open"


@pytest.mark.parametrize(
    ("layers", "confines", "is_full"),
    [
        (Level("userns", 7, True), True, True),
        (Level("bubblewrap", 1, True), True, True),
        (Level("userns", 0, True), True, False),
        (Level("userns", 7, False), True, False),
        (Level("", 7, True), True, False),
        (Level("", 7, False), False, False),  # UDP gets out
        (Level("", 0, True), False, False),  # every file is open
        (Level(seatbelt=True), True, False),
        (Level(), False, False),
    ],
)
def test_what_confines(layers: Level, confines: bool, is_full: bool) -> None:
    assert (layers.confines, layers.is_full) == (confines, is_full)


def test_levels_are_tried_from_the_strongest() -> None:
    everything = Offers(bubblewrap=True, userns=True, landlock=7, seccomp=True, seatbelt=False)
    assert [level.namespaces for level in everything.levels()] == ["bubblewrap", "userns", ""]
    assert Offers(False, True, 0, False, False).levels() == [Level("userns")]
    assert Offers(False, False, 7, False, False).levels() == []
    assert Offers(False, False, 0, False, True).levels() == [Level(seatbelt=True)]


def test_without_namespaces_the_rest_is_taken(offered: Level) -> None:
    offers = Offers(False, False, offered.landlock, offered.seccomp, False)
    assert strongest_of(offers) in (Level("", offered.landlock, offered.seccomp), Level())


def test_where_nothing_is_offered_nothing_is_found() -> None:
    assert strongest_of(NOTHING) == Level()


def test_bubblewrap_is_not_taken_where_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not works(Level("bubblewrap"))


def test_an_offer_that_does_not_confine_is_not_taken() -> None:
    assert not works(Level())


def test_the_probe_tells_what_a_run_reaches(tmp_path: Path, strongest: Level) -> None:
    assert probe() == strongest
    assert run("print(1)", workdir=tmp_path).level == strongest


def test_strict_takes_nothing_less() -> None:
    full = Level("userns", 7, True)
    assert choose("strict", lambda: full) == full
    for poorer in (Level("userns", 0, True), Level("", 7, True), Level(seatbelt=True), Level()):
        with pytest.raises(SandboxError, match="strict"):
            choose("strict", lambda found=poorer: found)


def test_auto_takes_what_confines_and_refuses_else() -> None:
    assert choose("auto", lambda: Level("", 7, True)) == Level("", 7, True)
    with pytest.raises(SandboxError, match="sandbox='none'"):
        choose("auto", lambda: Level())


def test_unconfined_only_when_asked_for() -> None:
    assert choose("none", lambda: Level("userns", 7, True)) == Level()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(SandboxError, match="auto, strict or none"):
        choose("always", lambda: Level())


WITHOUT = """
import struct, sys
from autoprompt.sandbox import SandboxError, run
from autoprompt.sandbox.child import linux
step = lambda code, value, yes=0, no=0: struct.pack("<HBBI", code, yes, no, value)
program = step(0x20, 0)
for number in {numbers}:
    program += step(0x15, number, 0, 1) + step(0x06, 0x50001)
linux.forbid_new_privileges()
linux.install_filter(program + step(0x06, 0x7FFF0000))
for level in ("auto", "strict"):
    try:
        print(level, run("print(1)", workdir=sys.argv[1], level=level).level)
    except SandboxError as error:
        print(level, error)
"""
UNSHARE = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
LANDLOCK = 444


def in_a_container_without(numbers: list[int], work: Path) -> list[str]:
    """What `run` says where the system calls of these numbers are refused, as container engines do."""
    code = WITHOUT.format(numbers=numbers)
    ended = subprocess.run(
        [sys.executable, "-c", code, str(work)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_container_that_refuses_namespaces(tmp_path: Path) -> None:
    auto, strict = in_a_container_without([UNSHARE], tmp_path)
    assert auto == "auto landlock+seccomp, network denied"
    assert strict.startswith("strict sandbox strict needs namespaces")


def test_a_machine_without_landlock(tmp_path: Path, strongest: Level) -> None:
    auto, strict = in_a_container_without([LANDLOCK], tmp_path)
    assert auto == f"auto {strongest.namespaces}+seccomp, network denied"
    assert strict.startswith("strict sandbox strict needs")


def test_a_machine_without_both(tmp_path: Path) -> None:
    auto, strict = in_a_container_without([UNSHARE, LANDLOCK], tmp_path)
    assert auto.startswith("auto this machine cannot confine code")
    assert strict.startswith("strict sandbox strict needs")


def test_unconfined_code_runs_there_too(tmp_path: Path) -> None:
    """Without a process namespace: all that is left behind is found below the supervisor."""
    code = WITHOUT.format(numbers=[UNSHARE]).replace('("auto", "strict")', '("none",)')
    code = code.replace('"print(1)"', '"import os, time; os.fork() or os.setsid() or time.sleep(60)"')
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout == "none none, network open\n", ended.stderr
