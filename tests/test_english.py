"""What people read is plain English: phrases that read like a translation are in no page and no module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PHRASES = {
    r"(is|are|was|were) (said|told|warned of)\b": "say who acts: 'autoprompt warns you', 'the run says'",
    r"go(es|ing)? on with\b": "continue, resume, use",
    r"(stands?|lies?|lay) in\b(?! for)": "is in, are in, contains",
    r"be it ever\b": "however",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"told from luck\b": "confirmed",
    r"the same all\b|all the same[,.;:]": "still",
}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "configs").rglob("*.*")])
MODULES = sorted((ROOT / "autoprompt").rglob("*.py"))


# Texts that are sent to models: another wording would be another measurement.
SENT = ("find out why, and mend it", "how things stand in the end")


def without_sent(text: str) -> str:
    for sent in SENT:
        text = text.replace(sent, "")
    return text


def found(text: str) -> list[str]:
    """Each phrase of the list in a text, with its line and what to write instead."""
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]!r} -> {better}"
        for phrase, better in PHRASES.items()
        for match in re.finditer(phrase, text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_have_no_phrase_of_a_translation(page: Path) -> None:
    if page.name != "CHANGELOG.md":
        assert not found(without_sent(page.read_text(encoding="utf-8")))


def test_code_has_no_phrase_of_a_translation() -> None:
    wrong = {
        str(path.relative_to(ROOT)): phrases
        for path in MODULES
        if (phrases := found(without_sent(path.read_text(encoding="utf-8"))))
    }
    assert not wrong


@pytest.mark.parametrize("text", ["and it is said so", "It is mended.", "what lies in the folder"])
def test_the_list_finds_its_phrases(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize("text", ["mocks stand in for nodes", "we recommend it", "amended"])
def test_the_list_leaves_good_english_alone(text: str) -> None:
    assert not found(text)
