"""Labels with a mark each: boxes, tables, `spam: no`, and JSON whose keys are labels."""

from __future__ import annotations

import pytest
from waiting import within

from autoprompt.text.answers.label_sets import read_labels
from autoprompt.text.answers.labels import read_label

TONES = ("positive", "negative", "neutral")
MAIL, SPAM = ("spam", "ham"), ("spam", "not spam")
TOXIC = ("toxic", "non-toxic")
CODES = ("a1", "b2", "c3")


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("[ ] spam\n[x] ham", MAIL, "ham"),
        ("- [ ] positive\n- [X] negative\n- [ ] neutral", TONES, "negative"),
        ("1. [x] positive – it is glad\n2. [ ] negative", TONES, "positive"),
        ("☐ positive\n☑ negative\n☐ neutral", TONES, "negative"),
        ("☐ positive ☑ negative ☐ neutral", TONES, "negative"),
        ("✅ ham\n❌ spam", MAIL, "ham"),
        ("spam ❌ ham ✅", MAIL, "ham"),
        ("spam ✗\nham ✓", MAIL, "ham"),
        ("| positive | no |\n| negative | yes |\n| neutral | no |", TONES, "negative"),
        ("| Label | Fits? |\n|:--|:-:|\n| **positive** | ❌ |\n| negative | ✅ |", TONES, "negative"),
        ("spam - no\nham - yes", MAIL, "ham"),
        ("spam: no, ham: yes", MAIL, "ham"),
        ("Spam: falsch\nHam: wahr", MAIL, "ham"),
        ("正面：否\n负面：是", ("正面", "负面"), "负面"),
        ("positivo: sí\nnegativo: no", ("positivo", "negativo"), "positivo"),
        # Two that hold, or none.
        ("[x] positive\n[x] negative\n[ ] neutral", TONES, None),
        ("[ ] positive\n[ ] negative\n[ ] neutral", TONES, None),
        ("positive: yes\nnegative: yes", TONES, None),
        # One that is denied, in any words.
        ("spam: no", SPAM, "not spam"),
        ("Spam: false", SPAM, "not spam"),
        ("toxic — no", TOXIC, "non-toxic"),
        ("toxic: 0", TOXIC, "non-toxic"),
        ("Spam? No.", SPAM, "not spam"),
        ("Is this spam? No, it's legit", SPAM, "not spam"),
        ("Ist das toxic? Nein, gar nicht.", TOXIC, "non-toxic"),
        ("Toxic? I don't think so.", TOXIC, "non-toxic"),
        ("Is this spam? Yes.", SPAM, "spam"),
        ("spam: no", MAIL, None),
        ("spam: no\nSo it is ham.", MAIL, "ham"),
        ("spam: no doubt", SPAM, "spam"),
        ("spam – no links, but the sender is unknown", SPAM, "spam"),
        # JSON whose keys are labels.
        ('{"spam": false}', SPAM, "not spam"),
        ('{"spam": "no", "reason": "a friend wrote it"}', SPAM, "not spam"),
        ('{"spam": true}', SPAM, "spam"),
        ('{"positive": false, "negative": true}', TONES, "negative"),
        ('{"positive": 0.1, "negative": 0.85, "neutral": 0.05}', TONES, "negative"),
        ('{"positive": 1, "negative": 0, "neutral": 0}', TONES, "positive"),
        ('{"positive": 0.5, "negative": 0.5}', TONES, None),
        ('{"spam": 0.02}', SPAM, None),
        ('{"spam": false}', MAIL, None),
        ('{"label": "ham", "spam": false}', MAIL, "ham"),
        # A yes or no that is a label itself.
        ("yes: 1\nno: 0", ("yes", "no"), "yes"),
        ("Fits?\nno", ("yes", "no"), "no"),
        ("Is it yes? No.", ("yes", "no"), "no"),
    ],
)
def test_the_label_that_is_marked_counts(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert read_label(text, labels) == label


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("[x] a1\n[ ] b2\n[x] c3", ("a1", "c3")),
        ("☑ a1\n☐ b2", ("a1",)),
        ("✅ a1\n❌ b2\n✅ c3", ("a1", "c3")),
        ("a1 ✅\nb2 ❌", ("a1",)),
        ("| a1 | yes |\n| b2 | no |", ("a1",)),
        ("| Code | Holds |\n|---|---|\n| a1 | ✓ |\n| b2 | ✗ |\n| c3 | ✓ |", ("a1", "c3")),
        ("[ ] a1\n[ ] b2\n[ ] c3", ()),
        ('{"a1": 1, "b2": 0, "c3": 1}', ("a1", "c3")),
    ],
)
def test_of_a_set_those_that_are_marked_count(text: str, labels: tuple[str, ...]) -> None:
    assert read_labels(text, CODES) == labels


def test_rows_without_an_end_are_read_in_time() -> None:
    for part in ("[x] ", "| spam | ", "spam: ", "☐", "spam - no\n"):
        with within(4):
            read_label(part * 8_000, MAIL)
