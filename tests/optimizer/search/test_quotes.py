"""What of a text is copied from rows, and what rows say at large."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.optimizer.search.quotes import Quotes, Run, is_made_of, word_runs, words
from autoprompt.records import Example

HEADING = "here is what a customer wrote to the support of our shop"
OWN = "the parcel came open and one of the cups in it was gone"


def examples(inputs: Sequence[str], groups: Sequence[str | None] = ()) -> list[Example]:
    each = groups or [None] * len(inputs)
    return [
        Example(f"r{n}", text, "A", {}, group)
        for n, (text, group) in enumerate(zip(inputs, each, strict=True))
    ]


def quoted(rows: Sequence[Example], text: str, labels: Sequence[str] = ()) -> str:
    return " ".join(Quotes(rows, labels).first(word_runs(words(text))) or ())


def test_what_stands_in_few_rows_is_a_quotation_and_what_stands_in_many_is_not() -> None:
    rows = examples([f"{HEADING}: {n} {OWN if n < 2 else ''}" for n in range(40)])
    assert quoted(rows, f"{HEADING}, and say what it is about.") == ""
    assert quoted(rows, f"Such as: {OWN}.") == "the parcel came open and one of the"


@pytest.mark.parametrize(("rows", "most"), [(3, 2), (40, 2), (79, 3), (100, 5)])
def test_few_are_two_rows_or_a_twentieth(rows: int, most: int) -> None:
    for holding, is_quoted in (most, True), (most + 1, False):
        made = examples([f"{n} {OWN if n < holding else ''}" for n in range(rows)])
        assert bool(quoted(made, OWN)) is (is_quoted and holding > 0)


def test_rows_of_a_group_are_one() -> None:
    """Six questions about a passage: who quotes it quotes, though a tenth of the rows have it."""
    inputs = [f"{OWN} question {n}" if n < 6 else f"other {n}" for n in range(60)]
    assert quoted(examples(inputs), OWN) == ""
    assert quoted(examples(inputs, ["passage" if n < 6 else None for n in range(60)]), OWN)


def test_labels_alone_are_no_quotation_in_whatever_order() -> None:
    labels = ("very negative", "negative", "mixed", "neutral", "positive", "very positive")
    listed = "negative, very positive, neutral, very negative, positive, mixed"
    rows = examples([f"a film {n}" for n in range(60)] + [f"which of {listed}?", f"so: {listed} is it"])
    assert quoted(rows, f"choose: {listed}.")
    assert quoted(rows, f"choose: {listed}.", labels) == ""
    assert (
        quoted(rows, f"say which of {listed}.", labels)
        == "which of negative very positive neutral very negative"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b c a b", True),
        ("b a b c", True),  # begins and ends within a label
        ("c d", True),  # within one
        ("a c", False),
        ("a b d", False),
        ("x", False),
    ],
)
def test_a_run_of_labels_may_begin_and_end_within_one(text: str, expected: bool) -> None:
    labels = [("a", "b"), ("b", "c", "d"), ("c",), ()]
    assert is_made_of(tuple(text.split()), labels) is expected


def slowly_first(rows: Sequence[Example], wanted: Sequence[Run]) -> Run | None:
    held = [set(word_runs(words(row.input))) for row in rows]
    most = max(2, int(len(rows) * 0.05))
    return next((run for run in wanted if 0 < sum(run in runs for runs in held) <= most), None)


TEXTS = st.lists(st.sampled_from(["a", "b", "的"]), max_size=24).map(" ".join)


@given(st.lists(TEXTS, max_size=8), TEXTS)
def test_the_index_finds_what_a_look_at_each_row_would(inputs: list[str], text: str) -> None:
    rows, wanted = examples(inputs), list(word_runs(words(text)))
    assert Quotes(rows).first(wanted) == slowly_first(rows, wanted)


def test_runs_are_eight_words_or_sixteen_signs() -> None:
    assert list(word_runs(list("abcdefghi"))) == [tuple("abcdefgh"), tuple("bcdefghi")]
    assert list(word_runs(words("我" * 17))) == [("我",) * 16] * 2
    assert list(word_runs(list("abcdefg"))) == []
