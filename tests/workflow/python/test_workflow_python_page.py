"""The page about workflows in Python holds code that runs as it says, and names every argument."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from autoprompt.workflow import IterativeWorkflowNode

FILE = Path(__file__).parents[3] / "docs" / "reference" / "workflow-python.md"
PAGE = FILE.read_text(encoding="utf-8")


def test_code_of_the_page_prints_what_stands_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) > 1
    names: dict[str, Any] = {}
    for code in blocks:
        exec(compile(code, str(FILE), "exec"), names)
    expected = [said for code in blocks for said in re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)]
    assert capsys.readouterr().out.splitlines() == expected


def test_every_argument_of_an_iteration_is_there_with_its_default() -> None:
    section = PAGE.partition("## Iterations")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \| (\S*) ?\|", section, re.MULTILINE)
    parameters = [*inspect.signature(IterativeWorkflowNode).parameters.values()][3:]
    given = {one.name: one.default for one in parameters if one.default is not one.empty}
    written = {name: f'"{value}"' if isinstance(value, str) else str(value) for name, value in given.items()}
    written |= {name: "{}" for name in written if name.endswith("_mapping")}
    assert {name: default.strip("`") for name, default in told} == {"condition_function": ""} | written
