"""Nothing of a run is left, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autoprompt.sandbox import Level, run

Finder = Callable[[str], list[str]]

LEAVES_A_CHILD = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {work!r}])
print("left")
"""
BECOMES_A_DAEMON = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3):
            os.close(number)
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", {work!r}])
    os._exit(0)
os.wait()
time.sleep(0.2)
print("gone on")
"""
PARENT = """
import sys
from autoprompt.sandbox import Level, run
run("import time; open('begun', 'w').close(); time.sleep(60)", workdir=sys.argv[1], level=Level{level!r})
"""


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        threading.Event().wait(0.01)
    return condition()


@pytest.mark.usefixtures("_leaves_nothing")
@pytest.mark.parametrize("code", [LEAVES_A_CHILD, BECOMES_A_DAEMON], ids=["child", "daemon"])
def test_processes_end_with_the_code(code: str, level: Level, tmp_path: Path) -> None:
    work = tmp_path / "work"
    result = run(code.format(work=str(work)), workdir=work, level=level)
    assert result.exit_code == 0, result.stderr
    assert result.duration_s < 10


@pytest.mark.usefixtures("_leaves_nothing")
def test_also_without_confinement(tmp_path: Path) -> None:
    work = tmp_path / "work"
    result = run(BECOMES_A_DAEMON.format(work=str(work)), workdir=work, level="none")
    assert (result.stdout, result.exit_code) == ("gone on\n", 0)


def start_parent(level: Level, work: Path) -> subprocess.Popen[bytes]:
    fields = (level.namespaces, level.landlock, level.seccomp)
    return subprocess.Popen([sys.executable, "-c", PARENT.format(level=fields), str(work)])


@pytest.mark.usefixtures("_leaves_nothing")
def test_a_killed_parent_leaves_no_experiment(
    offered: Level, tmp_path: Path, processes_naming: Finder
) -> None:
    with start_parent(offered, tmp_path / "work") as parent:
        assert wait_until((tmp_path / "work" / "begun").exists, 10)
        parent.kill()
    assert wait_until(lambda: not processes_naming(str(tmp_path)), 2)


@pytest.mark.usefixtures("_leaves_nothing")
@pytest.mark.parametrize("after_s", [0.02, 0.05, 0.08])
def test_also_while_the_run_is_being_set_up(
    after_s: float, strongest: Level, tmp_path: Path, processes_naming: Finder
) -> None:
    work = tmp_path / "work"
    with start_parent(strongest, work) as parent:
        assert wait_until(work.exists, 10)
        assert not wait_until(lambda: False, after_s)
        parent.kill()
    assert wait_until(lambda: not processes_naming(str(work)), 2)


@pytest.mark.usefixtures("_leaves_nothing")
def test_a_killed_supervisor_leaves_no_experiment(
    offered: Level, tmp_path: Path, processes_naming: Finder
) -> None:
    work = tmp_path / "work"
    with start_parent(offered, work) as parent:
        assert wait_until((work / "begun").exists, 10)
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text(encoding="ascii")
        os.kill(int(children), signal.SIGKILL)
        assert parent.wait() == 1  # SandboxError: it cannot know how the code ended
    assert wait_until(lambda: not processes_naming(str(work)), 2)


@pytest.mark.usefixtures("_leaves_nothing")
def test_eight_at_once(strongest: Level, tmp_path: Path) -> None:
    def one(number: int) -> str:
        return run(f"print({number})", workdir=tmp_path / str(number), level=strongest).stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(20))) == [f"{number}\n" for number in range(20)]


@pytest.mark.usefixtures("_leaves_nothing")
def test_an_interrupt_ends_the_run(strongest: Level, tmp_path: Path) -> None:
    work = tmp_path / "work"
    begun = threading.Thread(
        target=lambda: wait_until((work / "begun").exists, 10) and os.kill(os.getpid(), signal.SIGINT)
    )
    begun.start()
    with pytest.raises(KeyboardInterrupt):
        run("open('begun', 'w').close()\nimport time; time.sleep(60)", workdir=work, level=strongest)
    begun.join()


def test_what_root_runs_belongs_to_root_again(offered: Level, tmp_path: Path) -> None:
    code = "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').close()\nos.chmod('a/b/c', 0o4755)"
    if not offered.namespaces:
        code = code.replace("os.chmod", "#")
    result = run(code, workdir=tmp_path, level=offered)
    assert result.exit_code == 0, result.stderr
    made = [tmp_path, *tmp_path.rglob("*")]
    assert len(made) == 4
    assert {path.stat().st_uid for path in made} == {os.geteuid()}
    if os.geteuid() == 0:
        assert not (tmp_path / "a/b/c").stat().st_mode & 0o4000
