"""Conclusions are counted again before anybody reads them as fact."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.sandbox import probe
from autoprompt.science.findings import (
    Finding,
    causes,
    confirmed_sentences,
    hypergeometric_tail,
    recount,
)
from autoprompt.science.records import Bench

LONG = Finding("length > 80", 14, 17, 0, 23)


def test_a_table_is_counted_again(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    lengths = [100, 90, 85, 20, 30, 40, 81, 80]
    wrong = {0, 1, 6}
    table = tmp_path / "predictions.csv"
    lines = [f"{'NA' if n == 3 else 'x'},{n not in wrong:d},{length}" for n, length in enumerate(lengths)]
    table.write_text("input,correct,length\n" + "\n".join(lines) + "\n", encoding="utf-8")
    bench = Bench((tmp_path / "work").resolve(), (table,), probe(), sys.executable)
    conditions = [
        "length > 80",
        "input == 'NA'",
        "length.sum()",
        "1 / 0",
        "nothing > 2",
        "print('{}') or length > 0",
    ]
    found = recount(table, conditions, wrong, len(lengths), bench)
    assert found == [Finding("length > 80", 3, 4, 0, 4), Finding("input == 'NA'", 0, 1, 3, 7)]


def test_the_tail_is_that_of_fisher() -> None:
    stats = pytest.importorskip("scipy.stats")

    @given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
    def same(a: int, b: int, c: int, d: int) -> None:
        if not a + b + c + d:
            return
        expected = stats.fisher_exact([[a, b], [c, d]], alternative="greater").pvalue
        assert hypergeometric_tail(a, a + b, a + c, a + b + c + d) == pytest.approx(expected)

    same()


def test_only_what_holds_beyond_luck_is_a_cause() -> None:
    luck = Finding("words > 3", 3, 8, 2, 8)
    fewer = Finding("length < 20", 1, 20, 13, 20)
    same = Finding("(length > 80) & (words > 0)", 14, 17, 0, 23)
    everywhere = Finding("length > 0", 14, 40, 0, 0)
    assert causes([luck, same, fewer, LONG, everywhere]) == [LONG]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Rows over 80 characters fail: 14 of 17.", True),
        ("Long rows are answered wrong.", True),
        ("82% of the long rows are wrong (14/17).", True),
        ("15 of 17 long rows are wrong.", False),
        ("17 of 14 are wrong.", False),
        ("Rows over 90 characters are wrong.", False),
        ("Fourteen rows, half of them long, are wrong.", False),
        ("17 行中有 14 行错误。", True),
        ("17 行中有 13 行错误。", False),
        ("大多数长行错误。", False),
        ("Twenty of the long rows are wrong.", False),
        ("A third of the rows with length > 80 are wrong.", False),
        ("ninety percent of these rows fail", False),
        ("Twenty-one rows and two thirds of the rest fail.", False),
        ("A dozen long rows fail.", False),
        ("The majority of long rows fail, a quarter of the others.", False),
        ("Zero short rows fail.", False),
        ("Long rows fail three times as often.", False),
        ("两行错误，长度大于80。", False),
        ("百分之九十的长行错误。", False),
        ("三分之一的长行错误。", False),
        ("一千二百条长行错误。", False),
        ("一半的长行错误。", False),
        ("大部分长行错误。", False),
        ("零个短行错误。", False),
        ("Errors never happen when length > 80.", False),
        ("Long rows are always wrong.", False),
        ("Every long row fails.", False),
        ("No short row is answered correctly.", False),
        ("长行从不出错。", False),
        ("每个长行都答错。", False),
        ("Always say what a long parcel means, in every answer.", True),
        ("The first word of long rows decides.", True),
        ("Rows with no deadline are answered wrong more often.", True),
        ("没有期限的长行更容易出错。", True),
        ("平均长度大的行容易出错。", True),
        ("长文本都要先看最后一句。", True),
        ("处理长文本时千万不要猜测。", True),
    ],
)
def test_a_number_that_the_recount_does_not_confirm_is_not_passed_on(text: str, kept: bool) -> None:
    assert confirmed_sentences(text, [LONG]) == ([text] if kept else [])


def test_sentences_are_judged_one_by_one() -> None:
    text = "- `length > 80`: 16 of 17 wrong\nLong rows need care. 3 of 4 short ones fail!"
    assert confirmed_sentences(text, [LONG]) == ["Long rows need care."]
