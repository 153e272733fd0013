"""Finding labels in a text: the same as a pattern of all labels would, in time that grows with the text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.text.answers.label_index import JOINT, LabelIndex, folded
from autoprompt.text.answers.labels import LabelWords, read_label
from autoprompt.text.answers.texts import plain

NESTED = ("card", "card payment", "card_payment_failed", "payment")


def labels_of(text: str, labels: tuple[str, ...]) -> list[str]:
    return [found.label for found in LabelWords(labels).find(plain(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("my card payment failed", ["card_payment_failed"]),
        ("CardPayment", ["card payment"]),
        ("card-payment, card", ["card payment", "card"]),
        ("card\n payment", ["card payment"]),
        ("cards payment", ["payment"]),
        ("discard the payments", []),
        ("card_pay", []),
        ("card payment failed_", ["card payment"]),
    ],
)
def test_of_labels_that_begin_alike_the_longest_counts(text: str, found: list[str]) -> None:
    assert labels_of(text, NESTED) == found


def test_labels_of_scripts_without_spaces_and_of_marks_are_found() -> None:
    assert labels_of("这是非标题党，不是标题党", ("标题党", "非标题党")) == ["非标题党", "标题党"]
    assert labels_of("c++ or c", ("c++", "C#")) == ["c++"]
    assert labels_of("- or +", ("+", "-")) == ["-", "+"]


def test_a_text_that_grows_where_its_case_is_folded_keeps_its_places() -> None:
    for text in ("İSTANBUL spam", "Straße spam", "ﬁ spam"):
        assert len(folded(text)) == len(text)
        found = LabelWords(("spam",)).find(text)
        assert [text[one.start : one.end] for one in found] == ["spam"]


WORDS = st.sampled_from(["card", "Card", "pay", "non", "x", "kind"])
GAPS = st.sampled_from([" ", "_", "-", "  ", "", ", ", "\n", ". "])


def joined(parts: list[tuple[str, str]]) -> str:
    return "".join(word + gap for word, gap in parts).strip(" _-,.\n") or "x"


@given(
    st.lists(st.lists(st.tuples(WORDS, GAPS), min_size=1, max_size=3).map(joined), min_size=1, max_size=5),
    st.lists(st.tuples(WORDS, GAPS), max_size=12).map(joined),
)
def test_what_is_found_is_what_one_pattern_of_all_labels_finds(labels: list[str], text: str) -> None:
    forms = {label: label for label in sorted(labels, key=len, reverse=True) if len(label) > 1}
    first = {re.sub(r"[\s_\-]+", "_", form.casefold()): form for form in reversed(forms)}
    words = [r"[\s_\-]*".join(map(re.escape, JOINT.split(form))) for form in forms if form in first.values()]
    pattern = re.compile("|".join(rf"(?<!\w)(?:{word})(?!\w)" for word in words) or r"(?!)", re.IGNORECASE)
    index = LabelIndex({form: form for form in forms if form in first.values()}, {}, "")
    assert [found.span for found in index.find(text)] == [found.span() for found in pattern.finditer(text)]


def test_ten_thousand_labels_are_read_in_the_time_of_ten() -> None:
    def seconds(count: int) -> float:
        labels = tuple(f"{verb} card {number}" for number in range(count // 2) for verb in ("block", "锁定"))
        answers = [f"The customer wants to {labels[at % count].upper()}, I think." for at in range(0, 700, 7)]
        read_label(answers[0], labels)
        begun = time.process_time()
        found = [read_label(answer, labels) for answer in answers]
        spent = time.process_time() - begun
        assert found == [labels[at % count] for at in range(0, 700, 7)]
        return spent

    few = min(seconds(10) for _ in range(3))
    assert min(seconds(10_000) for _ in range(3)) < 5 * few


def test_a_set_of_ten_thousand_labels_is_ready_at_once() -> None:
    begun = time.process_time()
    LabelWords(
        tuple(f"{word} of kind {number}" for number in range(2_500) for word in ("a1", "b1", "c1", "d1"))
    )
    assert time.process_time() - begun < 5
