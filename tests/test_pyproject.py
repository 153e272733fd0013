"""Each dependency in pyproject.toml says which file needs it, and that file is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_dependencies_name_files_that_need_them() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    named = [
        path
        for line in lines
        if line.strip().startswith(('"', "local", "parquet", "report", "ray", "science")) and "#" in line
        for path in re.findall(r"[\w/]+(?:\.py|/)(?=[\s:,;]|$)", line.partition("#")[2])
    ]
    assert [p for p in named if not (ROOT / p).exists() and not (ROOT / "autoprompt" / p).exists()] == []
    assert len(named) > 20


def test_no_two_test_files_have_one_name() -> None:
    """Pytest imports them by name alone: two of one name end the whole run before its first test."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
