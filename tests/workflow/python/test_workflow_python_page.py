"""The page about workflows in Python holds code that runs as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "workflow-python.md"


def test_code_of_the_page_prints_what_stands_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})
    (expected,) = re.findall(r"print\(.*?\)\)  # (.*)", code)
    assert capsys.readouterr().out.strip() == expected
