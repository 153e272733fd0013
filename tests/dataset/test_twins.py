"""Rows that are nearly alike stay in one part."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from autoprompt.dataset.splits import Splits, cut_rows, load_checked
from autoprompt.dataset.twins import group_twins
from autoprompt.errors import Place
from autoprompt.records import Example
from autoprompt.settings.records import DataSettings, RunConfig

PEOPLE = ("cook", "guard", "nurse", "baker", "pilot", "clerk", "judge", "tailor", "farmer", "porter")
DEEDS = (
    *("likes salt", "sold a lamp", "lost keys", "reads maps", "paid late"),
    *("grows figs", "met a poet", "cut wood", "fears owls"),
)


def rows_of(texts: list[str]) -> list[Example]:
    return [Example(f"r{n:03}", text, "A" if n % 2 else "B", {}) for n, text in enumerate(texts)]


def groups_of(texts: list[str]) -> list[str | None]:
    return [row.group for row in group_twins(rows_of(texts))[0]]


def swapped() -> list[str]:
    """Sentences that differ from another in two swapped nouns, behind words that all have."""
    texts = []
    for deed in DEEDS:
        a, b = random.Random(deed).sample(PEOPLE, 2)
        texts += [
            f"Who is it? Name the one. The {x} told the {y} that he {deed}." for x, y in ((a, b), (b, a))
        ]
    return texts


def write(path: Path, texts: list[str]) -> Path:
    rows = [{"input": text, "target": "A" if n // 2 % 2 else "B"} for n, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def parts_with(splits: Splits, texts: tuple[str, str]) -> int:
    parts = (splits.train, splits.val, splits.test)
    return sum(any(row.input in texts for row in part) for part in parts)


def test_twins_are_one_group_whatever_the_order_of_their_words() -> None:
    groups = groups_of(swapped())
    assert None not in groups
    assert groups[0::2] == groups[1::2]
    assert len(set(groups)) == len(DEEDS)


def test_rows_of_common_words_alone_are_no_twins() -> None:
    places = [(a, b, turn) for a in range(9) for b in range(9) for turn in "lr"]
    steps = [f"Take {a} steps. Turn {turn}. Take {b} steps." for a, b, turn in places]
    assert set(groups_of(steps)) == {None}
    assert groups_of([f"item {n}" for n in range(50)]) == [None] * 50
    assert groups_of(["same words"] * 2) == [None] * 2  # nothing is rare among them


def boolean(depth: int, rng: random.Random) -> str:
    if depth == 0:
        return rng.choice(["True", "False"])
    kind = rng.random()
    if kind < 0.3:
        return "not " + boolean(depth - 1, rng)
    if kind < 0.5:
        return f"( {boolean(depth - 1, rng)} )"
    return boolean(depth - 1, rng) + rng.choice([" and ", " or "]) + boolean(depth - 1, rng)


def sums(rng: random.Random) -> str:
    def part() -> str:
        return "(" + "".join(f"{rng.randint(-9, 9)} {rng.choice('+-*')} " for _ in range(3)) + "1)"

    return f"({part()} {rng.choice('+-*')} {part()}) ="


@pytest.mark.parametrize("rows", [60, 250])
def test_expressions_of_the_same_few_words_are_no_twins(rows: int) -> None:
    """Their order, brackets and signs are no words, and decide what they come to."""
    rng = random.Random(0)
    expressions = list(dict.fromkeys(boolean(3, rng) for _ in range(rows)))
    assert set(groups_of(expressions)) == {None}
    assert set(groups_of([sums(rng) for _ in range(rows)])) == {None}


def test_rows_of_the_same_words_more_or_less_often_are_no_twins() -> None:
    others = [f"Another row, {n * 7919}." for n in range(9)]
    steps = ["Take a step. Turn left. Turn left. Turn left. Take a step.", "Take a step. Turn left."]
    assert groups_of([*steps, *others]) == [None] * 11
    again = ["Turn left. Take a step. Take a step. Turn left. Turn left.", steps[0]]
    assert groups_of([*again, *others])[:2] == ["twins of r000"] * 2


def test_scripts_without_spaces_are_compared_by_pairs_of_signs() -> None:
    parcel = "化姆斯特寄出的包裹还没有到"
    groups = groups_of([parcel, parcel + "呢", "我想退款", "如何重置密码"])
    assert groups == ["twins of r000", "twins of r000", None, None]


def test_a_row_with_a_group_keeps_it() -> None:
    rows = rows_of(swapped())
    own = [Example(row.id, row.input, row.target, {}, "mine") for row in rows]
    assert {row.group for row in group_twins(own)[0]} == {"mine"}


def test_twins_stay_in_one_part_and_it_is_said(tmp_path: Path) -> None:
    texts = swapped() + [f"Quite another thing, number {n}, about {n * 7919}." for n in range(20)]
    path = write(tmp_path / "rows.jsonl", texts)
    for seed in range(5):
        splits = cut_rows(RunConfig(dataset=path, split_seed=seed)).capped()
        for n in range(0, len(DEEDS) * 2, 2):
            assert parts_with(splits, (texts[n], texts[n + 1])) == 1
    (found,) = (warning for warning in splits.warnings if warning.code == "dataset.twins")
    assert found.related == (Place(path, 1), Place(path, 2))
    assert "18 of 38 rows are nearly alike" in str(found)
    assert f"({path} line 1, line 2)" in str(found)


def test_a_group_field_says_instead_what_belongs_together(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"input": t, "target": "AB"[n % 2], "page": n % 6} for n, t in enumerate(swapped())]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    splits = cut_rows(RunConfig(dataset=path, group_field="page")).capped()
    assert not any(warning.code.startswith("dataset.twins") for warning in splits.warnings)


def test_twins_across_given_files_are_told(tmp_path: Path) -> None:
    texts = swapped()
    files = {"train": texts[0::2], "test": texts[1::2], "val": [f"Other {n * 7919} {n}" for n in range(9)]}
    paths = {name: write(tmp_path / f"{name}.jsonl", found) for name, found in files.items()}
    warnings = cut_rows(RunConfig(**paths)).capped().warnings
    (found,) = (warning for warning in warnings if warning.code == "dataset.twins-across")
    assert str(found).startswith("9 of 9 rows of test are nearly alike to rows to learn from")
    assert found.related == (Place(paths["test"], 1),)


def test_of_few_rows_families_are_torn_rather_than_a_part_left_empty(tmp_path: Path) -> None:
    splits = cut_rows(RunConfig(dataset=write(tmp_path / "rows.jsonl", swapped()[:4]))).capped()
    assert min(splits.sizes.values()) > 0
    (found,) = (warning for warning in splits.warnings if warning.code.startswith("dataset.twins"))
    assert found.code == "dataset.twins-apart"


def test_many_rows_take_no_time() -> None:
    words = [f"w{n}" for n in range(3000)]
    texts = [" ".join(random.Random(n).choices(words, k=30)) for n in range(3000)]
    assert set(groups_of(texts)) == {None}


def test_twins_of_given_files_and_of_a_file_that_is_not_cut_are_in_groups(tmp_path: Path) -> None:
    other = [f"Other {n * 7919} {n}" for n in range(9)]
    files = {"train": other, "val": swapped()[:8], "test": swapped()[8:]}
    paths = {name: write(tmp_path / f"{name}.jsonl", found) for name, found in files.items()}
    splits = cut_rows(RunConfig(**paths)).capped()
    assert splits.group_counts == {"val": 4, "test": 5}
    assert set(splits.groups) == {row.id for row in (*splits.val, *splits.test)}
    rows = load_checked(paths["test"], DataSettings())[0]
    assert [row.group for row in rows[0::2]] == [row.group for row in rows[1::2]]
    assert len({row.group for row in rows}) == 5


def test_a_group_field_alone_counts_in_files_that_are_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    pages = ["one", "", "two", "one", *map(str, range(14))]
    rows = [{"input": text, "target": "AB"[n % 2], "page": pages[n]} for n, text in enumerate(swapped())]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = load_checked(path, DataSettings(group_field="page"))[0]
    assert [row.group for row in found] == [page or None for page in pages]


def test_families_that_are_torn_are_known_as_such(tmp_path: Path) -> None:
    texts = [*swapped()[:4], *(text.replace(" told", " then told") for text in swapped()[:2])]
    splits = cut_rows(RunConfig(dataset=write(tmp_path / "rows.jsonl", texts), no_test=True)).capped()
    assert len(splits.groups) == len(texts)
