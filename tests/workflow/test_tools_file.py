"""The Python file behind `--tools`: an ordinary module, which may use all that a module may."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from autoprompt.errors import ConfigError
from autoprompt.workflow.engine.tools import get_tool
from autoprompt.workflow.flow_run import load_tools

ORDINARY = """
from __future__ import annotations

from dataclasses import dataclass

from autoprompt.workflow import tool
from words_of_{name} import WORD


@dataclass
class Found:
    word: str


@tool("found_{name}")
def found() -> Found:
    import late_of_{name}
    return Found(WORD + late_of_{name}.WORD)
"""


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def tools_file(folder: Path, name: str) -> Path:
    folder.mkdir()
    (folder / f"words_of_{name}.py").write_text(f"WORD = {name!r}\n", encoding="utf-8")
    (folder / f"late_of_{name}.py").write_text("WORD = '!'\n", encoding="utf-8")
    path = folder / "tools.py"
    path.write_text(ORDINARY.format(name=name), encoding="utf-8")
    return path


def test_it_may_hold_dataclasses_and_import_what_lies_beside_it(tmp_path: Path) -> None:
    load_tools(tools_file(tmp_path / "a", "a"))
    load_tools(tools_file(tmp_path / "b", "b"))  # of the same name, and another module
    for name in ("a", "b"):
        found = get_tool(f"found_{name}").invoke({})
        assert pickle.loads(pickle.dumps(found)).word == f"{name}!"


def test_of_one_that_fails_no_half_module_is_left(tmp_path: Path) -> None:
    before = set(sys.modules)
    (tmp_path / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bad\.py cannot be loaded: ZeroDivisionError"):
        load_tools(tmp_path / "bad.py")
    assert not [name for name in set(sys.modules) - before if "bad" in name]
