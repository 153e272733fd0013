"""The examples in docstrings run: those of the public API in a folder with a finished run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import autoprompt
from autoprompt import Models, Run, RunConfig, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.metrics import registry

PACKAGE = Path(autoprompt.__file__).parent
INNER = [
    ".".join(("autoprompt", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__init__.py" and ">>> " in path.read_text(encoding="utf-8")
]
ROWS = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a dataset, a run that is the last one, and an export of its prompt."""
    path = tmp_path_factory.mktemp("examples")
    (path / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    config = RunConfig(prompt="A or B?", max_calls=600, runs_dir=path / "runs", no_memory=True, no_cache=True)
    result = optimize(config, rows=ROWS, models=Models(ScriptedClient(lambda messages: "A")))
    (path / "prompt.yaml").write_text(Run.open(result.run_dir).export(), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(set(autoprompt.__all__) - {"__version__"}))
def test_the_examples_of_a_public_name_run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))  # an example adds a metric
    found = getattr(autoprompt, name)
    tests = doctest.DocTestFinder().find(found, name, sys.modules[found.__module__], globs={})
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert [test.name for test in tests if runner.run(test, clear_globs=False).failed] == []
    assert any(test.examples for test in tests), f"{name} has no example"


@pytest.mark.parametrize("name", sorted(set(autoprompt.__all__) - {"__version__"}))
def test_a_public_name_says_what_it_takes_and_returns(name: str) -> None:
    found = getattr(autoprompt, name)
    parts = {name: found}
    if isinstance(found, type):
        own = {part: held for part, held in vars(found).items() if not part.startswith(("_", "model_"))}
        parts = {f"{name}.{part}": getattr(held, "__func__", held) for part, held in own.items()}
    missing = [what for part, held in parts.items() for what in lacks(part, held)]
    assert missing == []


def lacks(name: str, part: object) -> Iterator[str]:
    """Yield what the docstring of a function or a property does not say."""
    doc = inspect.getdoc(part) or ""
    if isinstance(part, property) and not doc:
        yield f"{name}: no docstring"
    if not inspect.isfunction(part):
        return
    signature = inspect.signature(part)
    if {*signature.parameters} - {"self", "cls"} and "\nArgs:\n" not in doc:
        yield f"{name}: no Args"
    is_told = doc.startswith("Return ") or "\nReturns:\n" in doc
    if signature.return_annotation not in (None, "None") and not is_told:
        yield f"{name}: no Returns"


@pytest.mark.parametrize("name", INNER)
def test_the_examples_of_a_module_run(name: str) -> None:
    module = importlib.import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, name)
    is_public = {f"{name}.{public}" for public in autoprompt.__all__}
    tests = [
        test for test in found if test.name not in is_public and test.name.rpartition(".")[0] not in is_public
    ]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert [test.name for test in tests if runner.run(test).failed] == []


def test_inner_modules_have_examples() -> None:
    assert {"autoprompt.errors", "autoprompt.stats.paired", "autoprompt.text.names"} <= {*INNER}
