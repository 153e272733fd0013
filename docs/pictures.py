"""Draw the pictures of the docs into docs/assets.

`python docs/pictures.py` draws those that explain. `python docs/pictures.py RUN` takes those that show a run:
its last lines in a terminal (SVG), and its report in Chromium (PNG, needs playwright).
"""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"
BLUE, GREEN, ORANGE, GREY = "#3b6fb6", "#2e8b57", "#d9822b", "#9aa0a6"
_FONT = 'font-family="system-ui, sans-serif" font-size="14" fill="#5f6368"'


def drawings() -> dict[str, str]:
    """File name -> SVG."""
    return {"rows.svg": rows(), "luck.svg": luck(), "paired.svg": paired()}


def rows() -> str:
    """What each part of the rows is for."""
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
    """The rows of a sealed test, by what became of them."""
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


def take(run: str) -> None:
    """Take pictures of a run: what `runs show` prints at its end, and the top of its report."""
    import shutil

    from playwright.sync_api import sync_playwright
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    command = [sys.executable, "-m", "autoprompt"]
    shown = subprocess.run([*command, "runs", "show", run], capture_output=True, text=True, check=True).stdout
    at = shown.find("sealed test")
    lines = shown[shown.rfind("\n", 0, at - 1) + 1 :].splitlines()[:18]
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(Text("$ autoprompt run --dataset clickbait.jsonl --preset quick\n...", style="bold"))
    console.print(Text("\n".join(lines)))
    console.save_svg(str(ASSETS / "terminal.svg"), title="autoprompt", theme=MONOKAI)
    page_file = ASSETS / "report.html"
    subprocess.run([*command, "report", run, "-o", page_file], check=True, capture_output=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1100, "height": 760})
        page.goto(page_file.absolute().as_uri())
        page.screenshot(path=ASSETS / "report.png")
        browser.close()
    page_file.unlink()


if __name__ == "__main__":
    ASSETS.mkdir(exist_ok=True)
    for name, text in drawings().items():
        (ASSETS / name).write_text(text, encoding="utf-8")
    for run in sys.argv[1:]:
        take(run)
