"""What a program is made of: the modules that it imports, its own by their text, installed ones by version.

A resumed run compares it with what the run began with.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from autoprompt.programs.places import is_own
from autoprompt.programs.program import as_program
from autoprompt.text.files import file_sha256
from autoprompt.text.python_source import parse_code


def parts_of(address: str, program: Any) -> dict[str, str]:
    """Return the parts of a program: its own modules with a sha256, installed packages with a version.

    Imports inside of functions count, whether they have run or not. What it imports by a name that is put
    together at run time is not seen, nor are data files.
    """
    files, imported = own_modules(address, program)
    return {name: file_sha256(path) for name, path in sorted(files.items())} | _versions(imported)


def own_modules(address: str, program: Any) -> tuple[dict[str, Path], set[str]]:
    """Return the files of the program's own modules by name, and the installed modules that they import."""
    files: dict[str, Path] = {}
    imported: set[str] = set()
    options = as_program(program)
    made_of = (options.run, options.inputs, options.output, options.setup)
    waiting = [found for part in made_of if part is not None for found in _modules_of(address, part)]
    while waiting:
        name, file = waiting.pop()
        if name in files:
            continue
        files[name] = path = Path(file)
        for other in _imports(path.read_bytes(), name, is_package=path.name == "__init__.py"):
            if _is_installed(top := other.partition(".")[0]):
                imported.add(top)
            elif (found := _own_file(other)) is not None:
                waiting.append((other, found))
    return files, imported


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ, in order."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _modules_of(address: str, program: Any) -> Iterator[tuple[str, str]]:
    """Name and file of the module that the address names, that of the code, and those of a graph's nodes."""
    named = sys.modules.get(address.partition(":")[0])
    codes = [program, getattr(program, "func", None), getattr(program, "afunc", None), type(program)]
    for module in (named, *(inspect.getmodule(code) for code in codes if code is not None)):
        if (file := _file_of(module)) is not None:
            yield getattr(module, "__name__", file), file
    nodes = getattr(getattr(program, "builder", None), "nodes", {})
    for node in nodes.values():
        yield from _modules_of("", getattr(node, "runnable", None))


def _file_of(module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    return file if file and file.endswith(".py") and is_own(file) else None


def _is_installed(top: str) -> bool:
    """Return whether a top-level module is not the program's own.

    To look for its submodules would import it.
    """
    if top in sys.stdlib_module_names or (spec := _spec(top)) is None:
        return True
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return not any(place and is_own(place) for place in places)


def _own_file(name: str) -> str | None:
    """Return the file of a module by its name, if it is the program's own."""
    if (module := sys.modules.get(name)) is not None:
        return _file_of(module)
    spec = _spec(name)
    file = None if spec is None else spec.origin
    return file if file and file.endswith(".py") and is_own(file) else None


def _spec(name: str) -> ModuleSpec | None:
    with suppress(ImportError, ValueError, AttributeError):  # no such module, or its parent is no package
        return importlib.util.find_spec(name)
    return None


def _imports(text: bytes, name: str, *, is_package: bool) -> Iterator[str]:
    """Full names that a module imports: of `from a import b` both `a` and `a.b`, and the packages above."""
    try:
        tree = parse_code(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = name.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
                base = ".".join([*above, *filter(None, [base])])
            if base:
                yield from _with_parents(base)
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def _versions(names: set[str]) -> dict[str, str]:
    """Version of each installed package that has one of these top-level modules."""
    wanted = {name for name in names if name not in sys.stdlib_module_names}
    if not wanted:
        return {}
    holding = packages_distributions()
    found: dict[str, str] = {}
    for package in sorted({package for name in wanted for package in holding.get(name, ())}):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
