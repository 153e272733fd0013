"""Scripts of `benchmarks/` as modules, each by itself: its name stays free for whatever has it here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent.parent / "benchmarks"


def script(name: str) -> ModuleType:
    """`name`: such as `compare_table.py`, or with its folder. It must import no script beside it."""
    path = FOLDER / name
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for its names
    spec.loader.exec_module(module)
    return module
