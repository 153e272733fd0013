"""Scripts of `benchmarks/` as modules, each by itself: its name stays free for whatever has it here."""

from __future__ import annotations

import importlib.util
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
    spec.loader.exec_module(module)
    return module
