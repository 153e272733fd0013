"""Phrases of rows: which are typical of a label, and which copy a row."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from autoprompt.optimizer.search.phrases import (
    Copies,
    as_lines,
    grams,
    typical,
    word_runs,
    words,
)
from autoprompt.records import Example

HEADING = "here is what a customer wrote to the support of our shop"
OWN = "the parcel came open and one of the cups in it was gone"


def rows(*texts: tuple[str, str]) -> list[Example]:
    return [Example(str(n), text, target, {}) for n, (text, target) in enumerate(texts)]


QUESTIONS = rows(
    *((f"How many {thing} are there?", "number") for thing in ("bees", "ants", "cows", "towns", "kings")),
    *((f"Who was the {role} of Rome?", "human") for role in ("king", "founder", "mayor", "poet", "baker")),
    *((f"Where are the {thing}?", "place") for thing in ("bees", "kings", "cows", "bakers", "poets")),
)


def test_words_that_tell_the_labels_apart_come_first() -> None:
    found = typical(QUESTIONS, 3)
    assert list(found) == ["human", "number", "place"]
    assert "how many" in found["number"]
    assert any("where" in word for word in found["place"])
    assert any("who" in word for word in found["human"])
    assert "the" not in found["human"] + found["place"] + found["number"]


def test_no_word_is_part_of_another_one() -> None:
    for found in typical(QUESTIONS, 12).values():
        parts = [set(word.split()) for word in found]
        assert not any(a <= b for i, a in enumerate(parts) for j, b in enumerate(parts) if i != j)


def test_chinese_rows_have_pairs_and_triples_of_signs() -> None:
    found = typical(
        rows(
            *((f"警方通报第{n}起火灾事故", "新闻") for n in "一二三四五六"),
            *((f"看完第{n}张图我惊呆了", "标题党") for n in "一二三四五六"),
        ),
        4,
    )
    assert any(
        word in ("事故", "火灾", "警方", "灾事故", "火灾事", "警方通", "方通报") for word in found["新闻"]
    )
    assert all(2 <= len(word) <= 3 for words in found.values() for word in words)
    assert not any(word in "第" for words in found.values() for word in words)


def test_one_phrase_does_not_fill_the_list_with_its_pieces() -> None:
    found = typical(
        rows(
            *((f"{n}：什么时候到", "时间") for n in "甲乙丙丁戊己"),
            *((f"{n}：多少钱一斤", "价格") for n in "甲乙丙丁戊己"),
        ),
        8,
    )
    for cues in found.values():
        pieces = [{word[i : i + 2] for i in range(len(word) - 1)} for word in cues]
        assert sum(map(len, pieces)) == len(set().union(*pieces))


def test_thai_cues_are_no_cut_letters() -> None:
    found = typical(
        rows(
            *((f"{n}: ตั๋วราคาเท่าไร", "ราคา") for n in range(6)),
            *((f"{n}: เข้าระบบไม่ได้", "ปัญหา") for n in range(6)),
        ),
        8,
    )
    assert set(found) == {"ราคา", "ปัญหา"}
    for word in (word for cues in found.values() for word in cues):
        assert word[-1] not in "เแโใไ"
        assert word[0] not in "ะาำ"
        assert not word.startswith("ม่")


def test_words_with_marks_stay_whole() -> None:
    found = typical(
        rows(
            *((f"यह सेवा अच्छी है {n}", "ठीक") for n in range(6)),
            *((f"यह सेवा खराब है {n}", "बुरा") for n in range(6)),
        ),
        4,
    )
    assert found["बुरा"][0] in ("खराब", "सेवा खराब", "खराब है")


def test_words_that_say_nothing_are_not_named() -> None:
    same = rows(*((f"item {n}", "AB"[n % 2]) for n in range(40)))
    assert typical(same, 8) == {}
    assert typical([], 8) == {}


def test_a_word_of_one_row_is_no_cue() -> None:
    found = typical(rows(("zebra common", "a"), ("common", "a"), ("rare", "b"), ("rare", "b")), 8)
    assert "zebra" not in found.get("a", [])


def test_lines_name_the_label_first() -> None:
    assert as_lines({"spam": ["win", "call now"]}) == ["spam: win, call now"]


@given(st.lists(st.tuples(st.text(max_size=30), st.sampled_from("ab")), max_size=30), st.integers(1, 9))
def test_any_text_is_counted(texts: list[tuple[str, str]], most: int) -> None:
    found = typical(rows(*texts), most)
    for label, cues in found.items():
        assert 0 < len(cues) <= most
        held = [set(grams(text)) for text, target in texts if target == label]
        assert all(sum(word in grams_ for grams_ in held) >= 2 for word in cues)


def examples(inputs: Sequence[str], groups: Sequence[str | None] = ()) -> list[Example]:
    each = groups or [None] * len(inputs)
    return [
        Example(f"r{n}", text, "A", {}, group)
        for n, (text, group) in enumerate(zip(inputs, each, strict=True))
    ]


def slowly_first(rows: Sequence[Example], text: str) -> set[tuple[str, ...]]:
    """The rows of eight words and more that stand in the text, found by a look at each."""
    said = f" {' '.join(words(text))} "
    long = {tuple(words(row.input_text)) for row in rows if any(word_runs(words(row.input_text)))}
    return {row for row in long if f" {' '.join(row)} " in said}


TEXTS = st.lists(st.sampled_from(["a", "b", "的"]), max_size=14).map(" ".join)


@given(st.lists(TEXTS, max_size=8), TEXTS, TEXTS)
def test_the_index_finds_what_a_look_at_each_row_would(inputs: list[str], text: str, more: str) -> None:
    rows = examples(inputs)
    for said in (text, " ".join([more, *inputs[:1], text])):
        found, expected = Copies(rows).first(words(said)), slowly_first(rows, said)
        assert found in expected if expected else found is None


def test_a_part_of_a_row_is_no_copy() -> None:
    rows = examples([f"{HEADING}: {OWN}"])
    assert Copies(rows).first(words(f"Such as: {OWN}. {HEADING}")) is None
    assert Copies(rows).first(words(f"Such as: {HEADING.upper()}: {OWN}.")) == tuple(
        words(HEADING + " " + OWN)
    )


def test_runs_are_eight_words_or_sixteen_signs() -> None:
    assert list(word_runs(list("abcdefghi"))) == [tuple("abcdefgh"), tuple("bcdefghi")]
    assert list(word_runs(words("我" * 17))) == [("我",) * 16] * 2
    assert list(word_runs(list("abcdefg"))) == []
