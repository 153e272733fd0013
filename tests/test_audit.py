"""`make audit`: what it says of what pip-audit found; it never fails."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "audit.py"
FINE = {"name": "a", "version": "1", "vulns": []}
WEAK = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"], "aliases": []}]}
OPEN = {"name": "c", "version": "4", "vulns": [{"id": "PYSEC-2", "fix_versions": [], "aliases": []}]}
UNKNOWN = {"name": "d", "skip_reason": "Dependency not found on PyPI"}


@pytest.fixture(scope="module")
def report() -> Callable[[list[dict[str, Any]]], list[str]]:
    return runpy.run_path(str(SCRIPT))["report"]


@pytest.mark.parametrize(
    ("packages", "lines"),
    [
        ([FINE], ["audit: no known vulnerability in 1 packages"]),
        ([FINE, WEAK], ["audit: 1 known vulnerabilities in 2 packages", "  b 2: PYSEC-1, fixed in 3"]),
        ([OPEN], ["audit: 1 known vulnerabilities in 1 packages", "  c 4: PYSEC-2, fixed in no version yet"]),
        ([UNKNOWN] * 2, ["audit: 2 of 2 packages were not audited: no advisories to be had"]),
        (
            [FINE, UNKNOWN],
            [
                "audit: no known vulnerability in 1 packages",
                "audit: 1 of 2 packages were not audited: no advisories to be had",
            ],
        ),
    ],
)
def test_the_report_says_what_was_audited(
    packages: list[dict[str, Any]], lines: list[str], report: Callable[[list[dict[str, Any]]], list[str]]
) -> None:
    assert report(packages) == lines


def test_without_an_answer_it_says_so_and_does_not_fail(tmp_path: Path) -> None:
    """A pip-audit that is not there, or that ends without a report."""
    (tmp_path / "pip_audit.py").write_text("import sys; sys.exit('no way to pypi.org')", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, SCRIPT],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (0, "audit: not done: no way to pypi.org\n")
