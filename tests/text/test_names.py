"""Numbers of things in messages: one helper knows the singular."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import autoprompt
from autoprompt.text.names import counted

PACKAGE = Path(autoprompt.__file__).parent
NOUNS = (
    "answers|bytes|calls|candidates|cases|characters|demonstrations|errors|experiences|fields|groups|items|"
    "labels|lessons|lines|messages|minutes|nodes|prompts|requests|rounds|rows|runs|scores|seconds|steps|"
    "targets|tokens|trials|turns|warnings"
)
PLURAL = re.compile(rf" (?:[a-z]+ )?(?:{NOUNS})\b(?! (?:with|of) )")
# No numbers, or never 1: fixed limits, names before a verb, figures that are given as texts.
MANY = re.compile(
    r"_?[A-Z][A-Z_]+|(?:count|times|money|score|_one_in|shown_url|numbers\.\w+)\(.*"
    r"|name|metric\.name|self\._place|shown|broken|named or 'unknown'"
)


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (1, ("row",), "1 row"),
        (0, ("row",), "0 rows"),
        (2, ("test row",), "2 test rows"),
        (1200, ("call",), "1,200 calls"),
        (1, ("retry", "retries"), "1 retry"),
        (3, ("retry", "retries"), "3 retries"),
        (1, ("row is", "rows are"), "1 row is"),
    ],
)
def test_one_is_no_plural(number: int, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told


def plurals(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            number = ast.unparse(value.value)
            if PLURAL.match(str(text.value)) and not MANY.fullmatch(number):
                yield f"{path.relative_to(PACKAGE)}: {{{number}}}{str(text.value)[:40]}"


def test_no_message_counts_by_itself() -> None:
    # What runs in the sandbox imports nothing of the package, and tells of fixed limits alone.
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if "child" not in str(path)]
    found = [said for path in paths for said in plurals(path)]
    assert found == []


def test_no_page_counts_by_itself() -> None:
    pattern = re.compile(rf"\|\s*(?:count|length)\s*}}}}(?:{PLURAL.pattern})")
    paths = sorted(PACKAGE.rglob("*.j2"))
    assert paths
    found = [(path.name, m[0]) for path in paths for m in pattern.finditer(path.read_text("utf-8"))]
    assert found == []
