"""docs/python.md is a program: what it shows runs, in its order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
_SHELL = """
import shlex, subprocess, sys
for line in {lines!r}:
    subprocess.run([sys.executable, "-m", *shlex.split(line)], check=True, stdout=subprocess.DEVNULL)
"""


def program() -> str:
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 8
    return "\n".join(
        text if kind == "python" else _SHELL.format(lines=text.splitlines()) for kind, text in blocks
    )


def test_the_page_s_examples_run_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(program(), encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-W", "error", "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    said = found.stdout
    assert "Confirmed: 0.50 -> 1.00" in said
    assert "True Passed: exact_match" in said
    assert "rows[60]: the target 'queue' is empty." in said
    assert str({"role": "user", "content": "It burns now"}) in said
    assert said.endswith("1.0\n")
