"""Which limits of the sandbox hold, by privilege: code overruns each in several ways.

    python benchmarks/sandbox_limits.py [--only WORD] [--json]

As root it runs all levels that a Linux machine can have: root's own and an ordinary user's, each with user
namespaces and without them, confined and with `--sandbox none`. As an ordinary user it runs that user's.
Exit code 1 if that goes unnoticed at a level that confines.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
USER = 54321
WORDS = {"ended": "ended", "refused": "refused", "unnoticed": "**unnoticed**"}
# In a process of its own, since neither the user nor a filter can be changed back. The filter refuses the
# call that makes namespaces, as container engines do.
DRIVER = """
import json, struct, sys
from autoprompt.sandbox import Level, overruns, probe
from autoprompt.sandbox.child import linux
only, has_namespaces, is_confined = json.loads(sys.argv[1])
if not has_namespaces:
    step = lambda code, value, yes=0, no=0: struct.pack("<HBBI", code, yes, no, value)
    unshare = {"x86_64": 272, "aarch64": 97}[linux.MACHINE]
    linux.forbid_new_privileges()
    linux.install_filter(step(32, 0) + step(21, unshare, 0, 1) + step(6, 0x50001) + step(6, 0x7FFF0000))
level = probe() if is_confined else Level()
print(json.dumps(str(level)))
for each in overruns.OVERRUNS:
    if only in f"{each.limit} {each.way}":
        print(json.dumps([each.limit, each.way, overruns.outcome(each, level, sys.executable)]), flush=True)
"""


def python_for_all() -> str:
    """An interpreter that any user may start, with nothing installed: the sandbox needs no library."""
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        command = [path, "-c", check]
        try:
            if subprocess.run(command, check=False, cwd="/", **as_user()).returncode == 0:
                return path
        except OSError:
            continue
    raise SystemExit("no Python 3.11 or newer that an ordinary user may start")


def as_user() -> dict[str, object]:
    return {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}


def copied_package(folder: Path) -> None:
    """What an ordinary user may read, wherever the repository is."""
    package = folder / "autoprompt"
    for part in ("sandbox", "text"):
        shutil.copytree(
            ROOT / "autoprompt" / part, package / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("__init__.py", "errors.py", "brief.py"):
        shutil.copy(ROOT / "autoprompt" / name, package)


def measure(folder: Path, only: str, *, is_root: bool, has_namespaces: bool, is_confined: bool) -> list[str]:
    python, rights = (sys.executable, {}) if is_root else (python_for_all(), as_user())
    arguments = json.dumps([only, has_namespaces, is_confined])
    ended = subprocess.run(
        [python, "-c", DRIVER, arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        **rights,
    )
    return ended.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="ways, or limits, that hold this word")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    users = [True, False] if os.geteuid() == 0 else [False]
    columns, rows = [], {}
    is_held = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        copied_package(folder)
        for is_confined in (True, False):
            for is_root in users:
                for has_namespaces in (True, False):
                    first, *found = measure(
                        folder,
                        options.only,
                        is_root=is_root,
                        has_namespaces=has_namespaces,
                        is_confined=is_confined,
                    )
                    who = "root" if is_root else "user"
                    spaces = "" if has_namespaces else ", no namespaces"
                    columns.append(f"{who}{spaces}: {json.loads(first).split(',')[0]}")
                    for line in found:
                        limit, way, outcome = json.loads(line)
                        rows.setdefault((limit, way), []).append(outcome)
                        is_held &= not (is_confined and outcome == "unnoticed")
                    print(columns[-1], "measured", file=sys.stderr)
    if options.json:
        print(json.dumps({"columns": columns, "rows": [[*key, *row] for key, row in rows.items()]}))
    else:
        print(f"| limit | way | {' | '.join(columns)} |")
        print(f"| --- | --- |{' --- |' * len(columns)}")
        for (limit, way), row in rows.items():
            print(f"| {limit} | {way} | {' | '.join(WORDS[outcome] for outcome in row)} |")
    return 0 if is_held else 1


if __name__ == "__main__":
    sys.exit(main())
