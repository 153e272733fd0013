"""Modules in folders of the user: only the user's own code imports them, and installed ones go first.

A folder in `sys.path` is searched for everybody: a library that looks for another one that is not installed
(pandas for pyarrow) would find a file of that name in the working directory, and execute it.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_PACKAGE = str(Path(__file__).parents[1])
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OTHER_ENVIRONMENTS = ("site-packages", "dist-packages")
_MACHINERY = ("<frozen importlib", str(Path(importlib.__file__ or "").parent))


def is_of_user(file: str) -> bool:
    """Whether a file is neither ours nor of an installed library."""
    return not file.startswith((_PACKAGE, *_INSTALLED)) and not any(
        part in _OTHER_ENVIRONMENTS for part in Path(file).parts
    )


def import_from(folder: Path, module: str) -> ModuleType:
    """Import a module by its name: an installed one, or the one in this folder.

    What the module itself imports, now or later, is found in the folder too.
    """
    _known().add(folder)
    return importlib.import_module(module)


def let_import(folder: Path) -> None:
    """Let the files of a folder import each other by name."""
    _known().add(folder)


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
        """The caches are those of `PathFinder`."""


def _importer() -> str:
    """The file of the code that imports; "" if nobody does."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back
    return frame.f_code.co_filename


def _known() -> _UserFolders:
    known = next((finder for finder in sys.meta_path if isinstance(finder, _UserFolders)), None)
    if known is None:
        known = _UserFolders()
        sys.meta_path.append(known)
    return known
