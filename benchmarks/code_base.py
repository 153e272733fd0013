"""The size and shape of the package, and the path of a row through it until it is sent.

    python benchmarks/code_base.py
    # the functions and modules that a row passes, and the frames under its request
    python benchmarks/code_base.py --row

The counts come from `ast`. For the path, `run` works on rows that carry a mark; every function of the
package that receives or returns a value with the mark in it counts, until the first request with a row.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from workbench import CLI, add_arguments, serve, write_rows

import autoprompt

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "autoprompt"
MOST_MODULES, MOST_LINES, MOST_IN_ONE, MOST_OPTIONS = 250, 50_000, 600, 40
MARK = "zebra-of-the-row"
DEEPEST, MOST_ITEMS = 5, 300

_FLAG = re.compile(r"(?<![\w-])--[a-z]")
_EMBEDDED = re.compile(r"\b(is_embedded|is_local|EMBEDDED|LOCAL)\b")


# --- counts ---


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, modules: set[str]) -> set[str]:
    """The modules of the package that a module names in its imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & modules) or {node.module}
    return found & modules


def strings(tree: ast.AST) -> Iterator[str]:
    """Every string of a module that is no docstring."""
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.value


def functions_called_once(tree: ast.Module) -> tuple[int, int]:
    """Private functions of a module, and how many of them are named in one other place alone."""
    private = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("_")
    ]
    named = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return len(private), sum(named[name] == 1 for name in private)


def counts() -> list[tuple[str, object, str]]:
    """Return (figure, measured, goal) for the package as it is."""
    paths = sorted(PACKAGE.rglob("*.py"))
    texts = {module_name(path): path.read_text(encoding="utf-8") for path in paths}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lines = {name: text.count("\n") for name, text in texts.items()}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for other in imported(tree, set(trees)) - {name}:
            importers[other].add(name)
    alone = [
        name
        for name, users in importers.items()
        if len(users) == 1 and next(iter(users)).rpartition(".")[0] == name.rpartition(".")[0]
    ]
    private = [functions_called_once(tree) for tree in trees.values()]
    loose = [path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")]
    flags = [
        name
        for name, tree in trees.items()
        if not name.startswith("autoprompt.cli") and name != "autoprompt.errors"
        for text in strings(tree)
        if " " in text and _FLAG.search(text)  # not an argument of another program
    ]
    embedded = sum(
        len(_EMBEDDED.findall(text))
        for name, text in texts.items()
        if not name.startswith(("autoprompt.llm", "autoprompt.settings", "autoprompt.cli.doctor"))
    )
    biggest = max(lines, key=lambda name: lines[name])
    names = len(autoprompt.__all__)
    in_all, called_once = (sum(column) for column in zip(*private, strict=True))
    page = subprocess.run([CLI, "run", "--help"], capture_output=True, text=True, check=True).stdout
    options = len(re.findall(r"(?m)^\s+(?:-\w, )?--[a-z]", page))
    return [
        ("modules", len(paths), f"at most {MOST_MODULES}"),
        ("lines", sum(lines.values()), f"at most {MOST_LINES:,} for the first version's features"),
        ("lines of a module, median", round(statistics.median(lines.values())), "150 to 300"),
        ("lines of the longest module", f"{lines[biggest]} ({biggest})", f"at most {MOST_IN_ONE}"),
        ("loose modules at the top", len(loose), "2"),
        ("modules with one importer, in the same folder", len(alone), "few"),
        ("private functions, of them named in one place", f"{in_all}, {called_once}", "few"),
        ("strings with a flag outside cli/ and errors.py", len(flags), "0"),
        ("is_embedded and its kin outside llm/, settings/, cli/doctor", embedded, "0"),
        ("names in autoprompt.__all__", names, "about 22"),
        ("options of run --help", options, f"at most {MOST_OPTIONS}"),
    ]


# --- the path of a row ---

TRACED = """
import json, sys, threading
sys.path.insert(0, {benchmarks!r})
from code_base import RowPath
path = RowPath({package!r})
sys.setprofile(path); threading.setprofile(path)
sys.argv = {argv!r}
from autoprompt.cli import main
try:
    main()
finally:
    sys.setprofile(None); threading.setprofile(None)
    print(json.dumps(path.found()), file=open({out!r}, "w"))
"""


def has_mark(value: object, depth: int = 0, seen: set[int] | None = None) -> bool:
    """Whether a text in a value, however deep up to `DEEPEST`, carries the mark."""
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, bytes | bytearray):
        return MARK.encode() in value
    seen = seen if seen is not None else set()
    if depth == DEEPEST or id(value) in seen or isinstance(value, type | int | float | None):
        return False
    seen.add(id(value))
    inner: list[object]
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()][:MOST_ITEMS]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)[:MOST_ITEMS]
    elif type(value).__module__.startswith("autoprompt"):
        kinds = type(value).__mro__
        slots = [getattr(value, name, None) for kind in kinds for name in getattr(kind, "__slots__", ())]
        inner = [*getattr(value, "__dict__", {}).values(), *slots]
    else:
        return False
    return any(has_mark(item, depth + 1, seen) for item in inner)


class RowPath:
    """A profile function that keeps which functions of the package meet the marked row, until it is sent.

    The frames are those of the request on the event loop and those of the thread that waits for it.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._functions: dict[tuple[str, str], int] = {}
        self._frames, self._is_sent = 0, False

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        if self._is_sent or event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(self._package):
            return
        if event == "call" and code.co_qualname == "HttpTransport._post" and has_mark(frame.f_locals["body"]):
            waiting = sys._current_frames()[threading.main_thread().ident or 0]
            self._frames, self._is_sent = self._own(frame) + self._own(waiting), True
            return
        key = (code.co_filename[len(self._package) + 1 :], code.co_qualname)
        if code.co_name.startswith("<") or key in self._functions:  # a comprehension is part of its function
            return
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        values = [frame.f_locals.get(name) for name in arguments] if event == "call" else [value]
        if any(has_mark(item) for item in values):
            self._functions[key] = len(self._functions)

    def _own(self, frame: FrameType | None) -> int:
        """Return how many frames of the package are on a stack."""
        own = 0
        while frame is not None:
            own += frame.f_code.co_filename.startswith(self._package)
            frame = frame.f_back
        return own

    def found(self) -> dict[str, Any]:
        return {"functions": list(self._functions), "frames": self._frames}


def row_path(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the functions that a train row passes before its first request, and the frames under it."""
    with tempfile.TemporaryDirectory() as folder:
        data = write_rows(Path(folder) / "rows.jsonl", 40)
        rows = [json.loads(line) for line in data.read_text().splitlines()]
        rows = [{**row, "input": f"{row['input']} {MARK}"} for row in rows]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        out = Path(folder) / "path.json"
        with serve(options, data) as server:
            argv = [
                *("autoprompt", "run", "--dataset", str(data), "--base-url", server.base_url),
                *("--prompt", "Choose 0 or 1.", "--runs-dir", f"{folder}/runs", "--quiet"),
                *("--concurrency", "1", "--max-calls", "300", "--no-cache", "--no-memory"),
            ]
            script = TRACED.format(
                benchmarks=str(ROOT / "benchmarks"), package=str(PACKAGE), argv=argv, out=str(out)
            )
            done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)
        return json.loads(out.read_text()), done.stderr[-500:]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", action="store_true", help="trace a row instead of counting")
    add_arguments(parser)
    options = parser.parse_args()
    if options.row:
        path, errors = row_path(options)
        if not path["frames"]:
            raise SystemExit(f"the row was never sent: {errors}")
        functions = path["functions"]
        modules = len({module for module, _ in functions})
        frames = path["frames"]
        if options.json:
            print(json.dumps({**path, "modules": modules}))
        else:
            print(*(f"{module}:{name}" for module, name in functions), sep="\n")
            print(f"{len(functions)} functions in {modules} modules, {frames} frames at the request")
        return 0
    table = counts()
    if options.json:
        print(json.dumps({name: measured for name, measured, _ in table}))
    else:
        for name, measured, goal in table:
            print(f"{name:<64} {measured!s:>28}   goal {goal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
