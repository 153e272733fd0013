"""Columns that tell rows apart and are no part of what is asked."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from autoprompt.dataset.checks import find_identifiers, load_rows, without_duplicates
from autoprompt.errors import DatasetError

ROWS = 20


def digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


NAMES_OF_ROWS: dict[str, list[Any]] = {
    "id": list(range(ROWS)),
    "text number": [str(n) for n in range(ROWS)],
    "customer": [48_213 + 977 * n for n in range(ROWS)],
    "uuid": [str(uuid.UUID(digest(n)[:32])) for n in range(ROWS)],
    "hash": [digest(n)[:12] for n in range(ROWS)],
    "prefixed": [f"clickbait-{digest(n)[:10]}" for n in range(ROWS)],
    "ticket": [f"TCK-{n:04}" for n in range(ROWS)],
    "ulid": [f"01ARZ3NDEKTSV4RRFFQ69G5F{n:02}" for n in range(ROWS)],
    "seen": [f"2024-05-{n + 1:02}T12:00:00Z" for n in range(ROWS)],
    "sent": [f"Mon, {n + 1} May 2024 10:00 PM UTC" for n in range(ROWS)],
    "日期": [f"2024年5月{n + 1}日" for n in range(ROWS)],
    "epoch": [1_700_000_000.5 + n for n in range(ROWS)],
    "link": [f"https://news.example/a-long-story-{n}" for n in range(ROWS)],
    "mail": [f"user{n}@example.com" for n in range(ROWS)],
    "picture": [f"img/{n}.png" for n in range(ROWS)],
    "row": [f"row {n}" for n in range(ROWS)],
    "questionId": ["what-is", "how-to", "one-two", "foo-bar"],
}
PARTS_OF_THE_INPUT: dict[str, list[Any]] = {
    "passage": ["The cat sat on the mat.", "A dog ran.", "See https://x.example/y for more."],
    "answer_a": ["cats", "dogs", "bees", "ants"],
    "背景": ["猫在垫子上", "狗跑了", "鸟飞走了"],
    "title": ["Alice Smith 1", "Bob Jones 2"],
    "source": ["web", "mail", "web", "mail"],
    "rating": [1, 2, 3, 1, 2, 3],
    "options": [["red", "blue"], ["left", "right"]],
}


@pytest.mark.parametrize("name", NAMES_OF_ROWS)
def test_what_only_names_a_row_is_told_from_its_input(name: str) -> None:
    assert find_identifiers([{name: value} for value in NAMES_OF_ROWS[name]], [name]) == {name}


@pytest.mark.parametrize("name", PARTS_OF_THE_INPUT)
def test_what_says_something_of_a_row_is_no_name_of_it(name: str) -> None:
    assert find_identifiers([{name: value} for value in PARTS_OF_THE_INPUT[name]], [name]) == set()


@pytest.mark.parametrize("name", NAMES_OF_ROWS)
def test_rows_that_differ_in_their_name_alone_are_no_reason_to_show_it(tmp_path: Path, name: str) -> None:
    values = NAMES_OF_ROWS[name]
    rows = [
        {name: value, "input": f"question {n // 2}", "target": f"{n // 2}"} for n, value in enumerate(values)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    (warning,) = without_duplicates(load_rows(path), path, allow_conflicts=False)[1]
    assert (warning.code, warning.fix) == ("dataset.duplicates", "")
    rows[1]["target"] = "another"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    with pytest.raises(DatasetError, match=r"an earlier row has '0' \(line 1\)\. Correct one of them"):
        without_duplicates(load_rows(path), path, allow_conflicts=False)


def test_of_several_columns_the_one_with_words_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        {"uid": digest(n)[:8], "url": f"https://x.example/{n}", "passage": said, "input": "q", "target": "a"}
        for n, said in enumerate(("the cat sat", "the dog ran"))
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (warning,) = without_duplicates(load_rows(path), path, allow_conflicts=False)[1]
    assert warning.fix.startswith("The rows differ in 'passage': leave out ")
