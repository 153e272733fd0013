"""What people read is plain English: no phrase of a translation, and short sentences."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pytest
from docs_pages import GENERATED, PAGES, ROOT, length, name_of, sentences

PHRASES = {
    r"(is|are|was|were) (said|told|warned of)\b": "say who acts: 'autoprompt warns you', 'the run says'",
    r"go(es|ing)? on with\b": "continue, resume, use",
    r"(stands?|lies?|lay) in\b(?! for)": "is in, are in, contains",
    r"be it ever\b": "however",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"told from luck\b": "confirmed",
    r"the same all\b|all the same[,.;:]": "still",
}
TEXTS = sorted(
    [
        *PAGES,
        *ROOT.glob("*/README.md"),
        *(ROOT / "configs").rglob("*.yaml"),
        *(ROOT / "configs").rglob("*.py"),
    ]
)
MODULES = sorted((ROOT / "autoprompt").rglob("*.py"))
SHORT = [page for page in PAGES if name_of(page) not in {f"docs/{name}" for name in GENERATED}]
LONGEST_MEDIAN, LONGEST_P90 = 18, 28  # words in a sentence


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


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_pages_have_no_phrase_of_a_translation(page: Path) -> None:
    assert not found(without_sent(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", SHORT, ids=name_of)
def test_sentences_of_a_page_are_short(page: Path) -> None:
    lengths = sorted((length(sentence), sentence) for sentence in sentences(page))
    if lengths:
        ninth, longest = lengths[int(0.9 * len(lengths))], [text for words, text in lengths if words > 40]
        assert median(words for words, _ in lengths) <= LONGEST_MEDIAN
        assert ninth[0] <= LONGEST_P90, f"shorten {longest or ninth}"


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


def test_sentences_are_told_apart(tmp_path: Path) -> None:
    text = "# A title\nIt runs. Then `a b. c` ends\nhere, see [the page](x.md).\n\n- An item, e.g. this one\n"
    text += "```sh\nnot a sentence at all\n```\n| a cell of it | two words |\n| --- | --- |\n"
    page = tmp_path / "a.md"
    page.write_text(text, encoding="utf-8")
    assert sentences(page) == [
        "Then code ends here, see the page.",
        "An item, e.g. this one",
        "a cell of it",
    ]
