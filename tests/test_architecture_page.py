"""docs/architecture.md: where each part lives, and that imports point up its drawing."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "autoprompt"


def test_every_part_is_drawn_and_has_a_row() -> None:
    parts = {path.stem for path in PACKAGE.glob("[a-z]*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    rows = {
        name.rstrip("/")
        for first in re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", first)
    }
    assert drawn().keys() == parts
    assert rows == parts


def test_imports_point_up_the_drawing() -> None:
    lines = drawn()
    lowest = 0
    for layer in reversed(layers()):
        places = [lines[name] for name in layer]
        assert min(places) >= lowest, f"{layer} stand above what they import"
        lowest = max(places)


def drawn() -> dict[str, int]:
    """Name of each part -> its line in the drawing."""
    drawing = PAGE.partition("autoprompt/\n")[2].partition("```")[0]
    return {
        name.removesuffix(".py").rstrip("/"): number
        for number, line in enumerate(drawing.splitlines())
        for name in re.split(r"\s{4,}", line.strip())[0].split()
    }


def layers() -> list[list[str]]:
    """Those of .importlinter, whoever imports the others first: `make imports` holds the code to them."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    lines = contracts["importlinter:contract:layers"]["layers"].split("\n")
    names = [re.findall(r"\w+", line) for line in lines if line.strip()]
    return [[name for name in layer if name != "__main__"] for layer in names if layer != ["__main__"]]
