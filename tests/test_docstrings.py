"""The examples in docstrings do what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import autoprompt

ROOT = Path(autoprompt.__file__).parent
MODULES = [
    ".".join(("autoprompt", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def test_examples_are_found() -> None:
    assert {"autoprompt.errors", "autoprompt.stats.paired"} <= {*MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_are_right(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
