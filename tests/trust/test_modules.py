"""No process of ours takes a library from the working folder, and the user's own modules are found there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from attacked import attacked
from fake_endpoint import FakeEndpoint, fake_endpoint

# Installed here or not, used at the start or late, ours or of a library.
LIBRARIES = (
    *("pydantic", "typer", "rich", "yaml", "httpx", "dotenv", "filelock", "numpy", "jinja2", "langgraph"),
    *("pandas", "pyarrow", "ray", "xllamacpp", "starlette", "uvicorn", "socksio", "h2", "brotli", "pip"),
    *("langchain_openai", "openai", "tiktoken", "sitecustomize", "usercustomize", "IPython", "zstandard"),
)
CONSOLE = [str(Path(sys.executable).with_name("autoprompt"))]
MODULE = [sys.executable, "-m", "autoprompt"]
METRIC = """
import json
from pathlib import Path

def f(answer, target):
    import sibling  # late, as many do
    from package.inner import value
    for name in ("pyarrow", "ray", "pandas"):
        try:
            json.loads("1")
        except ImportError:
            pass
    Path("scored").write_text(sibling.NAME + value)
    return float(answer == target)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    attacked(folder, 'prompt: "Say 1 or 0."\n')
    for name in LIBRARIES:
        text = (
            f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\nraise ImportError('not this one')\n"
        )
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "scorer.py").write_text(METRIC, encoding="utf-8")
    (folder / "sibling.py").write_text("import other\nNAME = other.NAME\n", encoding="utf-8")
    (folder / "other.py").write_text("NAME = 'sib'\n", encoding="utf-8")
    (folder / "package").mkdir()
    (folder / "package" / "inner.py").write_text("value = 'ling'\n", encoding="utf-8")
    return folder


def called(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    imported = folder.parent / "imported"
    assert not imported.exists(), imported.read_text(encoding="utf-8") + done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout


def models(endpoint: FakeEndpoint) -> list[str]:
    return [
        "--model",
        "m",
        "--base-url",
        endpoint.base_url,
        "--max-calls",
        "120",
        "--no-memory",
        "--set",
        "no_test=true",
    ]


@pytest.mark.parametrize("start", [CONSOLE, MODULE], ids=["autoprompt", "python -m"])
@pytest.mark.parametrize(
    "command", [["--version"], ["doctor", "--help"], ["models", "list"], ["runs", "list"]]
)
def test_the_program_starts(folder: Path, start: list[str], command: list[str]) -> None:
    called([*start, *command], folder)


@pytest.mark.parametrize("start", [CONSOLE, MODULE], ids=["autoprompt", "python -m"])
def test_a_run_with_one_s_own_metric(folder: Path, start: list[str]) -> None:
    with fake_endpoint() as endpoint:
        command = ["run", "--dataset", "rows.jsonl", "--metric", "python:scorer:f", *models(endpoint)]
        called([*start, *command], folder)
    assert (folder / "scored").read_text(encoding="utf-8") == "sibling"


def test_the_workers_of_a_batch(folder: Path) -> None:
    with fake_endpoint() as endpoint:
        text = "defaults: {dataset: rows.jsonl, metric: python:scorer:f, model: m, max_calls: 120, "
        text += f"base_url: '{endpoint.base_url}', no_memory: true, no_test: true}}\nmatrix: {{seed: [0]}}\n"
        (folder / "b.yaml").write_text(text, encoding="utf-8")
        called([*CONSOLE, "batch", "b.yaml"], folder)
    assert (folder / "scored").read_text(encoding="utf-8") == "sibling"


def test_tools_import_their_siblings(folder: Path) -> None:
    (folder / "tools.py").write_text(
        "from autoprompt.workflow import tool\nimport sibling\n\n"
        "@tool\ndef say() -> str:\n    '''Say it.'''\n    import other\n    return other.NAME\n",
        encoding="utf-8",
    )
    (folder / "f.yaml").write_text(
        "nodes:\n  - {id: start, type: start}\n  - {id: t, type: tool, data: {tool_name: say}}\n"
        "  - {id: end, type: end, data: {outputs: [{variable: said, value_selector: [t, text]}]}}\n"
        "edges:\n  - {source: start, target: t}\n  - {source: t, target: end}\n",
        encoding="utf-8",
    )
    assert "sib" in called([*CONSOLE, "flow", "run", "f.yaml", "--tools", "tools.py"], folder)


IMPORTS = """
import sys
from pathlib import Path
from autoprompt.metrics.user_code import import_from
own = import_from(Path.cwd(), "own")
assert own.sibling.NAME == "sib"
print(own.late().NAME)
for name in {names!r}:
    try:
        __import__(name)
    except ImportError as error:
        print("not found" if error.name == name else error)
    else:
        print("installed" if "site-packages" in (sys.modules[name].__file__ or "") else sys.modules[name])
"""


def test_what_a_library_lacks_is_not_found_there(folder: Path) -> None:
    (folder / "own.py").write_text(
        "import sibling\n\ndef late():\n    import importlib\n    return importlib.import_module('other')\n",
        encoding="utf-8",
    )
    names = ("pydantic", "no_such_library", "sibling_of_none", "other")
    (folder / "no_such_library.py").write_text("", encoding="utf-8")
    said = called([sys.executable, "-P", "-c", IMPORTS.format(names=names)], folder).splitlines()
    # `other` is known because the user's own code has imported it.
    assert said[:4] == ["sib", "installed", "not found", "not found"]
