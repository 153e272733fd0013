"""Draw the pictures of the docs into docs/assets.

`python docs/pictures.py` draws those that explain. With `--take` it also plays the recorded run
of `autoprompt demo`, and takes pictures of its last lines (SVG) and of its report (PNG, with Chromium).
"""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ASSETS = Path(__file__).parent / "assets"
BLUE, GREEN, ORANGE, GREY = "#3b6fb6", "#2e8b57", "#d9822b", "#9aa0a6"
_FONT = 'font-family="system-ui, sans-serif" font-size="14" fill="#5f6368"'


def drawings() -> dict[str, str]:
    """File name -> SVG."""
    return {"rows.svg": rows(), "luck.svg": luck(), "paired.svg": paired()}


def rows() -> str:
    """Draw what each part of the rows is for."""
    parts = [
        ("train, 40%", "read by the writer", BLUE, 40),
        ("race, 18%", "choose a candidate", ORANGE, 18),
        ("fresh, 12%", "confirm it", "#b8860b", 12),
        ("test, 30%", "sealed until the end", GREEN, 30),
    ]
    marks, x = [], 10.0
    for number, (name, use, colour, share) in enumerate(parts):
        width = share * 6.8
        down = 26 * (number % 2)
        marks += [
            f'<rect x="{x:.0f}" y="40" width="{width - 4:.0f}" height="34" rx="4" fill="{colour}"/>',
            _text(x + width / 2, 30, name),
            _text(x + width / 2, 96 + down, use),
        ]
        x += width
    return _svg(700, 130, "How rows are split, and what each part is for", marks)


def luck(candidates: int = 20, asked: int = 30) -> str:
    """Equal prompts on few rows: the luckiest looks better."""
    draw = random.Random(4)
    scores = [sum(draw.random() < 0.6 for _ in range(asked)) / asked for _ in range(candidates)]
    best = max(scores)
    at = f"{_y(0.6):.0f}"
    marks = [
        f'<line x1="40" x2="660" y1="{at}" y2="{at}" stroke="{GREY}" stroke-dasharray="6 4"/>',
        _text(350, 214, "dashed: the true score of all of them, 0.60"),
    ]
    for number, score in enumerate(scores):
        colour = ORANGE if score == best else BLUE
        marks.append(f'<circle cx="{55 + number * 31}" cy="{_y(score):.0f}" r="7" fill="{colour}"/>')
    marks.append(_text(55 + scores.index(best) * 31, _y(best) - 14, f"the luckiest: {best:.2f}"))
    return _svg(700, 220, f"{candidates} equally good prompts, each scored on {asked} rows", marks)


def paired(fixed: int = 24, broken: int = 7, same: int = 19) -> str:
    """Draw the rows of a sealed test, by what became of them."""
    kinds = [("fixed", fixed, GREEN), ("broken", broken, ORANGE), ("as before", same, GREY)]
    marks, number = [], 0
    for _name, count, colour in kinds:
        for _ in range(count):
            x, y = 20 + number % 25 * 27, 30 + number // 25 * 27
            marks.append(f'<rect x="{x}" y="{y}" width="21" height="21" rx="3" fill="{colour}"/>')
            number += 1
    for place, (name, count, colour) in enumerate(kinds):
        x = 130 + place * 200
        marks += [f'<rect x="{x - 70}" y="104" width="14" height="14" rx="2" fill="{colour}"/>']
        marks.append(_text(x, 116, f"{count} {name}"))
    return _svg(700, 130, "Fifty sealed rows: only the rows that changed count as evidence", marks)


def _y(score: float) -> float:
    return 200 - (score - 0.3) * 340


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" {_FONT}>{text}</text>'


def _svg(width: int, height: int, title: str, marks: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([head, f"<title>{title}</title>", *marks, "</svg>", ""])


def take() -> None:
    """Take pictures of the recorded run: the last lines in a terminal, and the top of its report."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "autoprompt"]
        demo = [*command, "demo", "--seconds", "0", "--no-open"]
        environment = {**os.environ, "COLUMNS": "96", "NO_COLOR": "1"}
        done = subprocess.run(demo, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        said = done.stdout.partition("\nScore any of them")[0]
        (ASSETS / "terminal.svg").write_text(terminal("autoprompt demo", said), encoding="utf-8")
        report = Path(folder) / "report.html"
        subprocess.run(
            [*command, "report", "last", "-o", report], check=True, cwd=folder, capture_output=True
        )
        photograph(report, ASSETS / "report.png")


def terminal(command: str, said: str) -> str:
    """Return what a command printed as a window, without the web font that rich names."""
    console = Console(record=True, width=96, file=io.StringIO())
    console.print(Text(f"$ {command}\n", style="bold"))
    for line in said.splitlines():
        is_verdict = "Confirmed:" in line or line.startswith("best ")
        console.print(Text(line, style="bold green" if is_verdict else ""))
    svg = console.export_svg(title="autoprompt", theme=DIMMED_MONOKAI)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code,", "")


def photograph(page: Path, picture: Path, width: int = 1000, height: int = 1500) -> None:
    """Take a picture of the top of a page in an installed Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"))
        window = browser.new_page(viewport={"width": width, "height": height})
        window.goto(page.absolute().as_uri())
        window.evaluate("document.querySelectorAll('details').forEach(details => details.open = false)")
        window.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    ASSETS.mkdir(exist_ok=True)
    for name, text in drawings().items():
        (ASSETS / name).write_text(text, encoding="utf-8")
    if "--take" in sys.argv[1:]:
        take()
