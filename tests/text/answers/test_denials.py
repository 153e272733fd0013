"""Denials in other words, and a "no" that answers nothing."""

from __future__ import annotations

import pytest

from autoprompt.text.answers.label_sets import read_labels
from autoprompt.text.answers.labels import read_label

TOXIC = ("toxic", "non-toxic")
YES_NO = ("yes", "no")


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("There is nothing toxic here.", TOXIC, "non-toxic"),
        ("It is without toxic content", TOXIC, "non-toxic"),
        ("free of spam", ("spam", "not spam"), "not spam"),
        ("I don't find it toxic.", TOXIC, "non-toxic"),
        ("I doubt it's toxic", TOXIC, "non-toxic"),
        ("ohne toxic content", TOXIC, "non-toxic"),
        ("There is no doubt it's toxic", TOXIC, "toxic"),
        ("nothing but toxic", TOXIC, "toxic"),
        ("without doubt toxic", TOXIC, "toxic"),
        ("Text no. 3: yes", YES_NO, "yes"),
        ("Of course, no problem. Yes", YES_NO, "yes"),
        ("No. 3 of them hold", YES_NO, None),
        ("No, there is a problem", YES_NO, "no"),
    ],
)
def test_what_is_denied_is_not_read(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert read_label(text, labels) == label


def test_of_a_set_what_is_denied_is_left_out() -> None:
    assert read_labels("This is a comedy without any drama.", ("comedy", "drama")) == ("comedy",)
