"""Rows that stand in a prompt as its examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoprompt.dataset.checks import example_id
from autoprompt.dataset.splits import cut_rows, find_shown, without_shown
from autoprompt.errors import DatasetError
from autoprompt.records import Example
from autoprompt.settings.records import DataSettings


def example(text: str) -> Example:
    return Example(example_id(text, "A"), text, "A", {})


def written(path: Path, numbers: range) -> Path:
    rows = [{"input": f"the text {n}", "target": "AB"[n % 2]} for n in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Judge.\nInput: the sky is blue\nAnswer: A", "the sky is blue"),
        ("Judge.\nthe sky\n   is blue: A", "the sky is  blue "),
        ("spider, cow -> cow", "spider, cow"),
        ("例如今天天气很好是好事", "今天天气很好"),
        ("例如อาหารอร่อยมากและบริการดี -> ดี", "อาหารอร่อยมากและบริการดี"),
        ("Example: ອາຫານແຊບຫຼາຍ -> A", "ອາຫານແຊບຫຼາຍ"),
        ("Example: အစားအစာကအရမ်းကောင်းတယ်။ -> A", "အစားအစာကအရမ်းကောင်းတယ်"),
        ("Example:អាហារឆ្ងាញ់ណាស់ -> A", "អាហារឆ្ងាញ់ណាស់"),
        ("Example: ร้านนี้อร่อยมากจริงๆ", "อร่อยมากจริง"),
        ("아주 좋은 영화 -> A", "아주 좋은 영화"),
        ("😀👍🔥😀 -> A", "😀👍🔥😀"),
        ("caf\u00e9 au lait -> A", "cafe\u0301 au lait"),
        ("this is it some, and this is it so", "is it so"),
    ],
)
def test_a_row_whose_input_the_prompt_has_is_shown(prompt: str, text: str) -> None:
    assert find_shown(["nothing", prompt], [example(text)]) == [example(text)]


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Is the headline clickbait?", "headline"),  # a word that the task needs
        ("Answer yes or no.", "yes or"),
        ("Say 好 or 坏.", "好"),
        ("Say ดีมาก or แย่มาก.", "ดีมาก"),  # three signs, one word
        ("좋았습니다 또는 나빴습니다", "좋았습니다"),
        ("this is it some", "this is it so"),
        ("this is it so", "his is it so"),
        ("the sky is blue", "the sky is red"),
        ("", "the sky is blue"),
        ("Which queue is right?", "Which  queue is right?"),  # the whole prompt, which has no answer
    ],
)
def test_what_is_there_by_chance_is_not(prompt: str, text: str) -> None:
    assert find_shown([prompt], [example(text)]) == []


def test_a_demonstration_that_is_a_row_shows_it() -> None:
    row = example("Which queue is right?")
    assert find_shown(["Answer."], [row], ["Which queue\nis right?"]) == [row]


def test_no_other_row_moves_and_a_file_of_its_own_is_only_warned_of(tmp_path: Path) -> None:
    settings = DataSettings(
        dataset=written(tmp_path / "rows.jsonl", range(100)),
        test=written(tmp_path / "test.jsonl", range(200, 230)),
    )
    regions = cut_rows(settings)
    shown = [regions.parts["val"][0], regions.parts["test"][0], regions.parts["test"][1]]
    left = without_shown(regions, [" / ".join(row.input for row in shown)])
    assert left.parts["val"] == list(regions.parts["val"][1:])
    assert left.parts["train"] == list(regions.parts["train"])
    assert left.parts["test"] == regions.parts["test"]
    dropped, shown_in_test = left.warnings[-2:]
    assert (dropped.code, shown_in_test.code) == ("dataset.shown-rows-dropped", "dataset.shown-rows")
    assert str(dropped).startswith("1 row left out of train, val and test: ")
    assert str(shown_in_test).startswith("test: the prompt shows 2 rows of test as examples")
    assert without_shown(regions, ["Is it so?"]) == regions


def test_a_part_that_is_shown_whole_is_refused(tmp_path: Path) -> None:
    regions = cut_rows(DataSettings(dataset=written(tmp_path / "rows.jsonl", range(40))))
    with pytest.raises(DatasetError, match="the prompt shows every row of val"):
        without_shown(regions, ["; ".join(row.input for row in regions.parts["val"])])
