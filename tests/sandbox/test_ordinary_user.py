"""The sandbox as an ordinary user has it; root's code changes to another user, an ordinary user's cannot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "autoprompt"
USER = 54321
# These reach a file of that name in the run's own /tmp, which is the code's; the real one is looked at.
IN_OWN_TMP = {
    "write_outside", "append_outside", "make_outside", "truncate_outside", "change_mode_outside",
    "remove_outside",
}  # fmt: skip
DRIVER = """
import json, os, pathlib, sys, tempfile
from autoprompt.sandbox import Level, Limits, run
from autoprompt.sandbox import offers, works
attempts, home = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
os.environ["HOME"], os.environ["KEY"] = str(home), "sk-planted"
facts = {
    "secret": "sk-planted", "home": str(home), "outside": str(home / "key"), "parent": os.getpid(), "tcp": 9,
    "udp": 9, "local": "/", "abstract": "x", "only": None, "network": os.readlink("/proc/self/ns/net"),
}
out = {}
older = [Level("", abi, True) for abi in range(1, min(6, offers().landlock))]  # older kernels
for level in filter(works, offers().levels() + older):
    work = pathlib.Path(tempfile.mkdtemp(dir=home))
    (work / "attempts.py").write_text(attempts)
    result = run([sys.executable, "attempts.py", json.dumps(facts)], workdir=work, level=level)
    forked = run("import os, time\\nfor made in range(200):\\n    if os.fork() == 0: time.sleep(60)",
                 workdir=work, level=level, limits=Limits(processes=20))
    out[f"{level} {level.landlock}"] = {
        "ways": [name for name, worked in json.loads(result.stdout).items() if worked],
        "forked": forked.killed_by or forked.stderr.strip().splitlines()[-1],
    }
print(json.dumps(out))
"""


@pytest.fixture
def python_for_all() -> str:
    """An interpreter that any user may start; root's own often lies in root's home."""
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user already")
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        check = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if Path(path).exists() and subprocess.run(check, check=False).returncode == 0:
            return path
    pytest.skip("no Python 3.11 that an ordinary user may start")


def test_no_way_leads_out_and_processes_are_counted(python_for_all: str, tmp_path: Path) -> None:
    package = tmp_path / "autoprompt"
    for part in ("sandbox", "text"):
        shutil.copytree(PACKAGE / part, package / part)
    for name in ("__init__.py", "errors.py", "brief.py"):
        shutil.copy(PACKAGE / name, package)
    home = tmp_path / "home"
    home.mkdir()
    (home / "key").write_text("sk-planted", encoding="utf-8")
    (home / "key").chmod(0o644)
    for path in (home, home / "key"):
        os.chown(path, USER, USER)
    attempts = shutil.copy(Path(__file__).parent / "attempts.py", tmp_path)
    # pytest's own folders are root's alone; how many there are depends on its workers.
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    ended = subprocess.run(
        [python_for_all, "-c", DRIVER, str(attempts), str(home)],
        cwd=tmp_path, user=USER, group=USER, extra_groups=[], env={"PATH": os.environ["PATH"]},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found
    for seen in found.values():
        assert set(seen["ways"]) <= IN_OWN_TMP
        assert seen["forked"] == "processes" or "Resource temporarily unavailable" in seen["forked"]
    assert not (home / "made").exists()
    assert (home / "key").stat().st_mode & 0o777 == 0o644
    assert (home / "key").read_text(encoding="utf-8") == "sk-planted"
