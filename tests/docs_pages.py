"""The pages that people read: where they are, their code blocks, and their sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("reference/cli.md", "reference/settings.md")
SITE = sorted(DOCS.rglob("*.md"))
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *SITE]

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+?) -->\n+)?"
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block between fences.

    title: the file that the block is. why_not: what the page says why the block is not run, or "".
    """

    language: str
    title: str
    text: str
    line: int
    why_not: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found["language"],
            found["title"] or "",
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            text.count("\n", 0, found.start("fence")) + 1,
            found["why"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def sentences(page: Path) -> list[str]:
    """The sentences of a page, without code blocks; items of lists and cells of tables by themselves."""
    text = _BLOCK.sub("\n\n", page.read_text(encoding="utf-8"))
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)  # links
    text = re.sub(r"`[^`\n]*`", "code", text)
    return [sentence for unit in _units(text) for sentence in _split(unit)]


def _units(text: str) -> Iterator[str]:
    """Paragraphs, items and cells."""
    unit: list[str] = []
    for line in [*text.splitlines(), ""]:
        words = line.strip()
        starts = re.match(r"(?:[-*]|\d+\.) +", words)
        if not words or starts or words.startswith(("#", "|", "---")):
            yield " ".join(unit)
            unit = [words[starts.end() :]] if starts else []
            if words.startswith("|") and not set(words) <= set("|-: "):
                yield from (cell.strip() for cell in words.strip("|").split("|"))
        else:
            unit.append(words)


def _split(unit: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+(?=[A-Z`\[\"'*(])|(?<=:)\s+(?=[A-Z])", unit):
        if length(sentence) >= 3:
            yield sentence


def length(sentence: str) -> int:
    """How many words a sentence has."""
    return len(re.findall(r"[\w$%][\w'.,%/-]*", sentence))
