"""The user's function behind `python:module:function`: finding it, and saying why it is not there.

Only the user's own code imports modules from folders of the user, and installed modules go first. A folder in
`sys.path` is searched for everybody: a library that looks for another one that is not installed (pandas for
pyarrow) would find a file of that name in the working directory, and execute it.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from autoprompt.errors import ConfigError, Problem
from autoprompt.text.names import named

_PACKAGE = str(Path(__file__).parents[1])
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OTHER_ENVIRONMENTS = ("site-packages", "dist-packages")
_MACHINERY = ("<frozen importlib", str(Path(importlib.__file__ or "").parent))


def is_of_user(file: str) -> bool:
    """Return whether a file is neither ours nor of an installed library."""
    return not file.startswith((_PACKAGE, *_INSTALLED)) and not any(
        part in _OTHER_ENVIRONMENTS for part in Path(file).parts
    )


def import_from(folder: Path, module: str) -> ModuleType:
    """Import a module by its name: an installed one, or the one in this folder.

    What the module itself imports, now or later, is found in the folder too.
    """
    _user_folders().add(folder)
    return importlib.import_module(module)


def let_import(folder: Path) -> None:
    """Let the files of a folder import each other by name."""
    _user_folders().add(folder)


class _UserFolders(MetaPathFinder):
    """The last finder. It knows who imports: the first caller that is not the machinery of imports."""

    def __init__(self) -> None:
        self._folders: list[str] = []

    def add(self, folder: Path) -> None:
        if str(folder.absolute()) not in self._folders:
            self._folders.append(str(folder.absolute()))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None:  # a module of a package is found by its package
            return None
        importer = _importer()
        for folder in self._folders:
            is_own = is_of_user(importer) and Path(importer).is_relative_to(folder)
            if importer == __file__ or is_own:
                found = PathFinder.find_spec(fullname, [folder], target)
                if found is not None:
                    return found
        return None

    def invalidate_caches(self) -> None:
        """Do nothing: the caches are those of `PathFinder`."""


def _importer() -> str:
    """Return the file of the code that imports; "" if nobody does."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back
    return frame.f_code.co_filename


def _user_folders() -> _UserFolders:
    known = next((finder for finder in sys.meta_path if isinstance(finder, _UserFolders)), None)
    if known is None:
        known = _UserFolders()
        sys.meta_path.append(known)
    return known


PREFIX = "python:"
_PROGRAM = "__main__"  # whichever program runs: a script, a notebook, or the command line
_SKIPPED = ("node_modules", "__pycache__", "site-packages", "build", "dist")
_DEEPEST, _MOST_FILES = 3, 3000  # folders below the one that is searched, files that are looked at
# Name -> function and `code_digests`, as they were when this process first used it: what it scores with.
_digests: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {}


def find_function(name: str) -> Callable[..., Any]:
    """Return the function that a metric's name `python:module:function` names.

    Raises:
        ConfigError: If there is none. It says where Python looked, and which file or function is similar.
    """
    module_name, _, function_name = name.removeprefix(PREFIX).partition(":")
    if not module_name or not function_name:
        dotted = module_name.rpartition(".")
        meant = f"{dotted[0]}:{dotted[2]}" if dotted[0] and dotted[2] != "py" else "my_metrics:f"
        said, fix = (
            f"metric {name!r} names no function",
            f"Write python:module:function, such as python:{meant}.",
        )
        raise ConfigError(Problem("metric.bad-name", said, fix=fix))
    module = _import(name, module_name, function_name)
    function = getattr(module, function_name, None)
    if callable(function):
        return cast("Callable[..., Any]", function)
    said, fix = _no_function(module, module_name, function_name)
    raise ConfigError(Problem("metric.no-function", f"metric {name}: {said}", fix=fix))


def code_digests(name: str) -> dict[str, str]:
    """Return file -> sha256 of the code behind a metric: its module, and the file that the function is from.

    Of a function of the program itself, the function alone: the rest of a script may be edited between start
    and resume. Empty for a metric that is not the user's, and if no source can be found.
    """
    if not name.startswith(PREFIX):
        return {}
    function = find_function(name)
    known = _digests.get(name)
    if known is None or known[0] is not function:
        known = _digests[name] = (function, _read_digests(function, sys.modules[name.split(":")[1]]))
    return known[1]


def with_line(error: BaseException) -> str:
    """Return an error with the user's own file and line: `KeyError: 'x' (my_metrics.py line 3)`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({_shown(error.filename)} line {error.lineno})"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_file() and is_of_user(frame.filename)
    ]
    at = f" ({_shown(frames[-1].filename)} line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{at}"


def _import(name: str, module_name: str, function_name: str) -> ModuleType:
    try:
        return import_from(Path.cwd(), module_name)  # which a console script does not search
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == module_name or module_name.startswith(f"{missing}."):
            said, fix = _no_module(module_name, function_name)
            raise ConfigError(Problem("metric.no-module", f"metric {name}: {said}", fix=fix)) from error
        fix = f"Install {missing}, or add its folder to PYTHONPATH."
        raise _not_imported(name, module_name, error, fix) from error
    except (Exception, SystemExit) as error:
        raise _not_imported(name, module_name, error, "Fix the module.") from error


def _not_imported(name: str, module_name: str, error: BaseException, fix: str) -> ConfigError:
    said = f"metric {name}: cannot import {module_name}: {with_line(error)}"
    return ConfigError(Problem("metric.import", said, fix=fix))


def _no_module(module_name: str, function_name: str) -> tuple[str, str]:
    """Return where Python looked for a module, and what to do: a similar file, or another folder."""
    stem = (
        module_name.removesuffix(".py").replace("\\", "/").rstrip("/").rpartition("/")[2].rpartition(".")[2]
    )
    folders = _searched()
    said = f"no module {module_name!r} in {', '.join(folders)}"
    fix = "or add that folder to PYTHONPATH."
    for folder in folders:
        files = list(_modules(Path(folder)))
        same = [file for file in files if _stem(file) == stem]
        close = difflib.get_close_matches(stem, [_stem(file) for file in files], n=1)
        found = same or [file for file in files if [_stem(file)] == close]
        if found:
            return said, _as_module(found[0], Path(folder), function_name)
    above = Path.cwd().parent / f"{stem}.py"
    if above.is_file():
        return said, f"{above} exists: run autoprompt from {above.parent}, {fix}"
    return said, f"Run autoprompt from the folder of its file, {fix}"


def _as_module(file: Path, folder: Path, function_name: str) -> str:
    """Return how to name a file below `folder` as a metric."""
    parts = file.relative_to(folder).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if all(part.isidentifier() for part in parts):
        return f"Did you mean python:{'.'.join(parts)}:{function_name} ({_shown(str(file))})?"
    renamed = file.with_name(f"{file.stem.replace('-', '_').replace(' ', '_')}.py")
    return f"{_shown(str(file))} cannot be imported by that name: rename it to {renamed.name}."


def _no_function(module: ModuleType, module_name: str, function_name: str) -> tuple[str, str]:
    """Return what a module lacks, and what to do: a similar function, or another file."""
    said = f"{module_name} has no function {function_name!r}"
    if module_name == _PROGRAM:
        return said, "Resume from the program that started the run, or move the function to a module."
    own = Path.cwd().joinpath(*module_name.split(".")).with_suffix(".py")
    file = getattr(module, "__file__", None)
    if own.is_file() and (file is None or not own.samefile(file)):
        return (
            f"{said}: Python imports {file or 'a built-in module'}, not {_shown(str(own))}",
            "Rename your file.",
        )
    found = [
        name
        for name, value in vars(module).items()
        if callable(value)
        and getattr(value, "__module__", None) == module.__name__
        and not name.startswith("_")
    ]
    if hasattr(module, function_name):
        said = f"{said}: {function_name} cannot be called"
    close = difflib.get_close_matches(function_name, found, n=1)
    if close:
        return said, f"Did you mean {close[0]!r}?"
    return said, f"Functions in {_shown(file or module_name)}: {named(found) if found else 'none'}."


def _searched() -> list[str]:
    """Return the folders of the user's own in which Python looks for modules, the working directory first."""
    folders = [str(Path(entry or ".").absolute()) for entry in (str(Path.cwd()), *sys.path)]
    own = [folder for folder in dict.fromkeys(folders) if Path(folder).is_dir() and is_of_user(folder)]
    return [folder for folder in own if folder != str(Path(sys.executable).parent)]


def _modules(folder: Path) -> Iterator[Path]:
    """Python files in a folder and the next ones below it."""
    looked = 0
    for path, folders, files in os.walk(folder):
        depth = len(Path(path).relative_to(folder).parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < _DEEPEST and not name.startswith((".", "venv")) and name not in _SKIPPED
        )
        for name in sorted(files):
            looked += 1
            if name.endswith(".py"):
                yield Path(path, name)
        if looked > _MOST_FILES:
            return


def _stem(file: Path) -> str:
    """Return the name by which a file or a package is imported, with `_` for a hyphen."""
    name = file.parent.name if file.stem == "__init__" else file.stem
    return name.replace("-", "_").replace(" ", "_")


def _shown(path: str) -> str:
    """Return a path as it is written from the working directory."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _read_digests(function: Callable[..., Any], module: ModuleType) -> dict[str, str]:
    try:
        if module.__name__ == _PROGRAM:
            code = inspect.getsource(function)
            return {inspect.getfile(function): hashlib.sha256(code.encode(errors="replace")).hexdigest()}
        files = dict.fromkeys([inspect.getsourcefile(module), _file_of(inspect.unwrap(function))])
        return {
            file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files if file is not None
        }
    except (TypeError, OSError):  # compiled, or typed in
        return {}


def _file_of(function: Callable[..., Any]) -> str | None:
    """None for what is no def: an object that can be called."""
    return inspect.getsourcefile(function) if inspect.isfunction(function) else None
