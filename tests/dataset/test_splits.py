"""Splits: disjoint, complete, blind to the order of lines, stratified, whole groups, honest about size."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from waiting import within

from autoprompt.dataset.checks import example_id
from autoprompt.dataset.partition import Cap, assign, quotas, take_stratified
from autoprompt.dataset.splits import Splits, cut_rows, load_checked
from autoprompt.errors import ConfigError, DatasetError, Place, Problem, Voice, tell
from autoprompt.records import Example
from autoprompt.settings.records import DataSettings

slow = settings(max_examples=150, deadline=None)


def example(number: int, target: str, group: str | None = None) -> Example:
    text = f"row {number}"
    return Example(example_id(text, target), text, target, {}, group)


@st.composite
def labelled(draw: st.DrawFn, groups: bool = False) -> list[Example]:
    targets = draw(st.lists(st.sampled_from("aaaabbc"), min_size=4, max_size=120))
    of = draw(st.lists(st.integers(0, 25), min_size=len(targets), max_size=len(targets)))
    return [example(i, t, f"g{of[i]}" if groups else None) for i, t in enumerate(targets)]


@st.composite
def sizes_for(draw: st.DrawFn, rows: int) -> tuple[int, int, int]:
    test = draw(st.integers(0, rows // 2))
    val = draw(st.integers(0, rows - test))
    return test, val, rows - test - val


def ids(part: Sequence[Example]) -> list[str]:
    return [row.id for row in part]


@slow
@given(data=st.data(), rows=labelled(), seed=st.integers(0, 5), by_target=st.booleans())
def test_parts_are_disjoint_complete_of_the_sizes_asked_and_blind_to_order(
    data: st.DataObject, rows: list[Example], seed: int, by_target: bool
) -> None:
    sizes = data.draw(sizes_for(len(rows)))
    parts = assign(rows, sizes, seed, by_target=by_target)
    assert tuple(len(part) for part in parts) == sizes
    assert sorted(i for part in parts for i in ids(part)) == sorted(ids(rows))
    shuffled = data.draw(st.permutations(rows))
    again = assign(shuffled, sizes, seed, by_target=by_target)
    assert [ids(part) for part in again] == [ids(part) for part in parts]


@slow
@given(data=st.data(), rows=labelled())
def test_every_label_has_its_share_of_every_part_within_one_row(
    data: st.DataObject, rows: list[Example]
) -> None:
    sizes = data.draw(sizes_for(len(rows)))
    parts = assign(rows, sizes, 0, by_target=True)
    for label, count in Counter(row.target for row in rows).items():
        for part, size in zip(parts, sizes, strict=True):
            there = sum(row.target == label for row in part)
            assert abs(there - count * size / len(rows)) < 1


@slow
@given(
    data=st.data(), strata=st.dictionaries(st.text(max_size=3), st.integers(1, 40), min_size=1, max_size=30)
)
def test_quotas_add_up_both_ways(data: st.DataObject, strata: dict[str, int]) -> None:
    total = sum(strata.values())
    totals = data.draw(sizes_for(total))
    found = quotas(strata, totals)
    assert {name: sum(cells) for name, cells in found.items()} == strata
    assert tuple(sum(cells[i] for cells in found.values()) for i in range(3)) == totals
    for name, cells in found.items():
        for cell, part in zip(cells, totals, strict=True):
            assert abs(cell - strata[name] * part / total) < 1


@slow
@given(data=st.data(), rows=labelled(groups=True), by_target=st.booleans())
def test_groups_stay_whole(data: st.DataObject, rows: list[Example], by_target: bool) -> None:
    n = len(rows)
    sizes = (n * 3 // 10, n * 3 // 10, n - 2 * (n * 3 // 10))
    parts = assign(rows, sizes, 0, by_target=by_target)
    places = defaultdict(set)
    for name, part in enumerate(parts):
        for row in part:
            places[row.group].add(name)
    assert all(len(names) == 1 for names in places.values())
    assert sorted(i for part in parts for i in ids(part)) == sorted(ids(rows))
    again = assign(data.draw(st.permutations(rows)), sizes, 0, by_target=by_target)
    assert [ids(part) for part in again] == [ids(part) for part in parts]


@slow
@given(data=st.data(), rows=labelled(groups=True), small=st.integers(1, 130), large=st.integers(1, 130))
def test_a_cap_takes_every_label_in_proportion_and_a_larger_one_takes_the_same_rows_and_more(
    data: st.DataObject, rows: list[Example], small: int, large: int
) -> None:
    found = take_stratified(rows, small, 0, by_target=True)
    assert len(found) == min(small, len(rows))
    assert ids(take_stratified(data.draw(st.permutations(rows)), small, 0, by_target=True)) == ids(found)
    if small <= large:
        assert set(ids(found)) <= set(ids(take_stratified(rows, large, 0, by_target=True)))
    seen = Counter(row.target for row in found)
    for label, count in Counter(row.target for row in rows).items():
        assert abs(seen[label] - count * len(found) / len(rows)) < 2


cap_settings = st.fixed_dictionaries({"max_val": st.integers(1, 60), "max_test": st.integers(1, 60)})


@settings(max_examples=60, deadline=None)
@given(
    rows=labelled(groups=True), grouped=st.booleans(), a=cap_settings, b=cap_settings, no_test=st.booleans()
)
def test_no_row_that_one_cap_lets_decide_is_learned_from_under_another(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[Example],
    grouped: bool,
    a: dict[str, int],
    b: dict[str, int],
    no_test: bool,
) -> None:
    assume(len({row.target for row in rows}) > 1 and len({row.group for row in rows}) > 3)
    path = tmp_path_factory.mktemp("caps") / "d.jsonl"
    lines = [{"input": row.input, "target": row.target, "from": row.group} for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fixed: dict[str, object] = {"dataset": path, "no_test": no_test}
    if grouped:
        fixed["group_field"] = "from"
    first, second = load(**fixed, **a), load(**fixed, **b)
    test, val = set(ids(first.test)), set(ids(first.val))
    assert not test & set(ids(second.train) + ids(second.val))
    assert not val & set(ids(second.train))
    assert ids(first.train) == ids(second.train)
    assert len(first.val) <= a["max_val"]
    assert len(first.test) <= a["max_test"]


def test_a_share_without_a_remainder_is_met_exactly() -> None:
    found = quotas({"": 26, "0": 29, "1": 8, "00": 24}, (15, 19, 53))
    assert found["0"][0] == 29 * 15 // 87 == 5


def test_groups_of_equal_size_meet_the_shares() -> None:
    rows = [example(i, "ab"[i % 2], f"g{i // 10}") for i in range(1000)]
    test, val, train = assign(rows, (300, 300, 400), 0, by_target=True)
    assert (len(test), len(val), len(train)) == (300, 300, 400)


def test_three_large_groups_fill_three_parts() -> None:
    rows = [example(i, "a", f"g{i // 100}") for i in range(300)]
    assert [len(part) for part in assign(rows, (90, 90, 120), 0, by_target=False)] == [100] * 3
    huge = [example(i, "a", "big" if i < 280 else f"g{i}") for i in range(300)]
    assert [len(part) > 0 for part in assign(huge, (90, 90, 120), 0, by_target=False)] == [True] * 3


def write(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    path.write_text("".join(json.dumps({"input": text, "target": target}) + "\n" for text, target in rows))
    return path


def rows_of(n: int, labels: Sequence[str] = "ab", start: int = 0) -> list[tuple[str, str]]:
    return [(f"row {i}", labels[i % len(labels)]) for i in range(start, start + n)]


def load(**given: object) -> Splits:
    return cut_rows(DataSettings(**given)).capped()  # type: ignore[arg-type]


def told(warnings: Iterable[Problem]) -> str:
    return tell(warnings, Voice.CLI)


def codes(warnings: Iterable[Problem]) -> list[str]:
    return [warning.code for warning in warnings]


def parts_by_input(splits: Splits) -> dict[str, str]:
    return {row.input: name for name in ("train", "val", "test") for row in getattr(splits, name)}


@pytest.mark.parametrize(
    ("rows", "given", "sizes"),
    [
        (100, {}, (30, 40, 30)),
        (200, {}, (80, 60, 60)),
        (100, {"no_test": True}, (50, 50, 0)),
        (62, {"no_test": True}, (22, 40, 0)),
        (44, {"no_test": True}, (20, 24, 0)),
        (30, {"no_test": True}, (15, 15, 0)),
        (20, {}, (8, 6, 6)),
        (1000, {}, (400, 200, 300)),
        (3000, {}, (1200, 200, 500)),
        (1000, {"no_test": True}, (500, 200, 0)),
        (100, {"max_val": 10, "max_test": 5}, (30, 10, 5)),
        (4, {}, (2, 1, 1)),
    ],
)
def test_shares_and_caps(tmp_path: Path, rows: int, given: dict[str, object], sizes: tuple[int, ...]) -> None:
    splits = load(dataset=write(tmp_path / "d.jsonl", rows_of(rows)), **given)
    assert tuple(splits.sizes.values()) == sizes
    only_train = load(train=tmp_path / "d.jsonl", **given)
    assert only_train.sha256 == splits.sha256


def test_rows_over_the_caps_are_counted_with_the_flags_that_use_them(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", rows_of(1000))
    said = told(load(dataset=path, max_test=50, max_val=60).warnings)
    assert said == (
        "490 rows are not used: test is limited to 50 and val is limited to 60. "
        "To use them, give --set max_test=300 and --set max_val=300."
    )
    said = told(load(dataset=path, max_val=299).warnings)
    assert said == "1 row is not used: val is limited to 299. To use it, give --set max_val=300."
    assert load(dataset=path, max_val=300).warnings == ()


def test_a_preset_that_caps_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", rows_of(1000))
    settings = DataSettings(dataset=path, max_val=50)
    said = told(cut_rows(settings).capped({"test": Cap(50, "the preset quick"), "val": Cap(9)}).warnings)
    assert said.startswith(
        "500 rows are not used: test is limited to 50 by the preset quick and val is limited to 50. To use"
    )


def test_a_cap_on_a_file_of_ones_own_is_said_to_do_nothing(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", rows_of(20))
    val = write(tmp_path / "val.jsonl", rows_of(30, start=100))
    test = write(tmp_path / "test.jsonl", rows_of(30, start=200))
    files = {"train": train, "val": val, "test": test}
    (found,) = load(**files, max_test=8, max_val=30).warnings
    assert (found.code, found.place) == ("dataset.limit-without-effect", Place(setting="max_test"))
    assert "uses all 30 rows of the test file" in found.said
    assert cut_rows(DataSettings(**files)).capped({"test": Cap(8, "preset quick")}).warnings == ()
    assert load(train=train, val=val, max_test=8).warnings == load(train=train, val=val).warnings


@pytest.mark.parametrize("drop_leaks", [True, False])
def test_one_file_under_two_names_is_said_to_be_one(tmp_path: Path, drop_leaks: bool) -> None:
    train = write(tmp_path / "train.jsonl", rows_of(20))
    (tmp_path / "link.jsonl").symlink_to(train)
    for other in (train, tmp_path / "link.jsonl"):
        with pytest.raises(DatasetError, match=r"given for two parts.* \(val, train\)\. Give two files"):
            load(train=train, val=other, drop_leaks=drop_leaks)
    with pytest.raises(DatasetError, match=r"given for two parts.* \(test, dataset\)"):
        load(dataset=train, test=train, drop_leaks=drop_leaks)


def test_no_row_is_lost_where_train_is_a_file(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", rows_of(20, start=500))
    odd = write(tmp_path / "odd.jsonl", rows_of(51))
    assert load(dataset=odd, train=train).sizes == {"train": 20, "val": 26, "test": 25}


def test_the_order_of_lines_changes_nothing_but_the_files_sum(tmp_path: Path) -> None:
    rows = rows_of(200, "abc")
    first = load(dataset=write(tmp_path / "a.jsonl", rows))
    random.Random(1).shuffle(rows)
    second = load(dataset=write(tmp_path / "b.jsonl", rows))
    assert [ids(first.train), ids(first.val), ids(first.test)] == [
        ids(second.train), ids(second.val), ids(second.test),
    ]  # fmt: skip
    assert first.sha256 == second.sha256
    assert first.dataset_sha256 != second.dataset_sha256
    assert first.dataset_sha256 == hashlib.sha256((tmp_path / "a.jsonl").read_bytes()).hexdigest()


def test_another_split_seed_is_another_split(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", rows_of(200))
    assert load(dataset=path).sha256 != load(dataset=path, split_seed=1).sha256


@pytest.mark.parametrize("n", [100, 400, 3000])
def test_added_rows_move_few_and_none_from_train_to_test(tmp_path: Path, n: int) -> None:
    before = parts_by_input(load(dataset=write(tmp_path / "a.jsonl", rows_of(n))))
    after = parts_by_input(load(dataset=write(tmp_path / "b.jsonl", rows_of(n + n // 20))))
    moves = [(part, after.get(text, "unused")) for text, part in before.items()]
    moved = [(one, other) for one, other in moves if one != other]
    assert len(moved) <= n // 20 + 1  # one more where few rows have a share of their own
    assert ("train", "test") not in moved


def test_a_corrected_target_moves_few(tmp_path: Path) -> None:
    rows = rows_of(400)
    before = parts_by_input(load(dataset=write(tmp_path / "a.jsonl", rows)))
    rows[7] = (rows[7][0], "a")
    after = parts_by_input(load(dataset=write(tmp_path / "b.jsonl", rows)))
    assert sum(after[text] != part for text, part in before.items()) <= 4


def test_every_part_may_be_a_file(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", rows_of(20))
    val = write(tmp_path / "val.jsonl", rows_of(10, start=100))
    test = write(tmp_path / "test.jsonl", rows_of(8, start=200))
    rest = write(tmp_path / "rest.jsonl", rows_of(100, start=300))
    assert load(train=train, val=val, test=test).sizes == {"train": 20, "val": 10, "test": 8}
    no_test = load(train=train, val=val)
    assert no_test.sizes == {"train": 20, "val": 10, "test": 0}
    assert "dataset.no-test" in codes(no_test.warnings)
    assert load(train=train, test=test).sizes == {"train": 12, "val": 8, "test": 8}
    assert load(dataset=rest, test=test).sizes == {"train": 58, "val": 42, "test": 8}
    assert load(dataset=rest, val=val, test=test).sizes == {"train": 100, "val": 10, "test": 8}
    assert load(dataset=rest, val=val).sizes == {"train": 58, "val": 10, "test": 42}
    assert load(dataset=rest, train=train, val=val).sizes == {"train": 20, "val": 10, "test": 100}
    assert load(dataset=rest, train=train).sizes == {"train": 20, "val": 50, "test": 50}
    small = load(dataset=rest, train=train, max_val=30)
    assert small.sizes == {"train": 20, "val": 30, "test": 50}
    assert "20 rows are not used: val is limited to 30. To use them, give --set max_val=50." in told(
        small.warnings
    )
    unused = load(dataset=rest, train=train, val=val, test=test)
    assert "rest.jsonl: not used" in told(unused.warnings)
    assert load(train=train, val=val, test=test).dataset_sha256 == unused.dataset_sha256


def test_leaks_are_dropped_from_the_less_precious_part(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", rows_of(20))
    val = write(tmp_path / "val.jsonl", rows_of(10, start=18))
    test = write(tmp_path / "test.jsonl", rows_of(10, start=27))
    splits = load(train=train, val=val, test=test, drop_leaks=True)
    assert splits.sizes == {"train": 18, "val": 9, "test": 10}
    assert f"{train}: 2 rows dropped that another file has too." in told(splits.warnings)
    assert f"{val}: 1 row dropped that another file has too." in told(splits.warnings)
    copy = write(tmp_path / "copy.jsonl", rows_of(20))
    with pytest.raises(DatasetError, match="another file has every one of its rows"):
        load(train=train, val=copy, drop_leaks=True)
    whole = write(tmp_path / "whole.jsonl", rows_of(60))
    assert load(dataset=whole, test=test, drop_leaks=True).sizes == {"train": 20, "val": 30, "test": 10}


def test_doubles_are_kept_once_and_conflicts_by_the_first(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", [*rows_of(40), ("row 0", "a"), (" row 1", "b")])
    splits = load(dataset=path)
    assert sum(splits.sizes.values()) == 40
    assert "2 duplicate rows dropped" in told(splits.warnings)
    write(path, [*rows_of(40), ("row 0", "b")])
    splits = load(dataset=path, allow_conflicts=True)
    targets = {row.input: row.target for row in (*splits.train, *splits.val, *splits.test)}
    assert targets["row 0"] == "a"
    assert "1 row dropped: same input as an earlier row, but another target" in told(splits.warnings)


def test_rows_that_another_field_tells_apart_are_no_exact_duplicates(tmp_path: Path) -> None:
    """A prompt may ask for both fields; a row is known by its input alone."""
    lines = [
        {"id": f"{n}", "input": f"question {n % 8}", "passage": f"passage {n}", "target": "ab"[n % 2]}
        for n in range(10)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    chosen = DataSettings(dataset=path)
    said = told(load_checked(path, chosen)[2])
    assert "2 duplicate rows dropped: " in said
    assert "The rows differ in 'passage': leave out --input-field" in said
    lines[9]["target"] = "a"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(DatasetError, match="The rows differ in 'passage': leave out input_field"):
        load_checked(path, chosen)


def test_labels_come_with_the_splits(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", rows_of(40))
    assert load(dataset=path).labels == ("a", "b")
    given = load(dataset=path, labels=("b", "a", "never"))
    assert given.labels == ("b", "a", "never")
    assert "no row has the label 'never'" in told(given.warnings)
    free = write(tmp_path / "free.jsonl", [(f"row {i}", f"answer {i}") for i in range(40)])
    assert load(dataset=free).labels is None
    assert load(dataset=free, labels=()).sha256 == load(dataset=free).sha256


@pytest.mark.parametrize("metric", ["numeric", "contains", "llm_judge"])
def test_targets_of_other_metrics_are_no_labels(tmp_path: Path, metric: str) -> None:
    path = write(tmp_path / "d.jsonl", rows_of(40, "123"))
    found = load(dataset=path, metric=metric)
    assert found.labels is None
    assert found.sha256 == load(dataset=path).sha256
    assert load(dataset=path, metric=metric, labels=("1", "2")).labels is None
    same = write(tmp_path / "same.jsonl", [*rows_of(40, "1"), ("x", "2")])
    assert load(dataset=same, metric=metric).warnings == ()
    assert load(dataset=write(same, rows_of(40, "1")), metric=metric).sizes["train"] == 16
    with pytest.raises(DatasetError, match="expected at least two labels"):
        load(dataset=same, metric="macro_f1")


def test_a_whole_file_is_checked_as_its_splits_are(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", [*rows_of(40), ("row 0", "a")])
    rows, labels, warnings = load_checked(path, DataSettings())
    assert [row.input for row in rows] == [text for text, _ in rows_of(40)]
    assert (labels, codes(warnings)) == (("a", "b"), ["dataset.duplicates"])
    with pytest.raises(DatasetError, match="line 1: the target 'a' is none of the labels: 'b', 'c'"):
        load_checked(path, DataSettings(labels=("b", "c")))
    write(path, [*rows_of(4), ("row 0", "b")])
    with pytest.raises(
        DatasetError, match=r"line 5: .* the target 'b', but an earlier row has 'a' \(line 1\)"
    ):
        load_checked(path, DataSettings())
    assert len(load_checked(path, DataSettings(allow_conflicts=True))[0]) == 4


def test_a_whole_file_of_one_label_needs_the_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", rows_of(3, "a"))
    with pytest.raises(DatasetError, match="expected at least two labels"):
        load_checked(path, DataSettings())
    assert load_checked(path, DataSettings(labels=("a", "b")))[1] == ("a", "b")
    assert load_checked(path, DataSettings(metric="contains"))[1] is None


def test_what_few_rows_cannot_verify_is_said(tmp_path: Path) -> None:
    few = told(load(dataset=write(tmp_path / "d.jsonl", rows_of(10))).warnings)
    assert "only 10 rows in all" in few
    assert "test has only 3 rows, so no difference on it can be significant" in few
    rare = told(load(dataset=write(tmp_path / "r.jsonl", [*rows_of(40), ("x", "c")])).warnings)
    assert "labels seen only once, so no split can both show and check them: 'c' (" in rare
    assert "has no row with the label 'c'" in rare
    assert load(dataset=write(tmp_path / "e.jsonl", rows_of(100))).warnings == ()


@pytest.mark.parametrize(
    ("answers", "settings", "is_said"),
    [
        (["2", "3", "5", "7", "11", "13"], {}, True),  # counts
        (["0.5", "1.5", "2.5", "3.5", "4.5", "5.5"], {}, True),
        (["1", "2", "3", "4", "5"], {}, False),  # stars
        ([str(n) for n in range(11)], {}, False),  # points, digits
        (["2", "3", "5", "7", "11", "many"], {}, False),
        (["2", "3", "5", "7", "11", "13"], {"labels": ("2", "3", "5", "7", "11", "13")}, False),
        (["2", "3", "5", "7", "11", "13"], {"metric": "numeric"}, False),
    ],
)
def test_numbers_that_are_worked_out_are_no_labels(
    tmp_path: Path, answers: list[str], settings: dict[str, Any], is_said: bool
) -> None:
    path = write(tmp_path / "d.jsonl", rows_of(120, answers))
    assert ("--metric numeric" in told(load(dataset=path, **settings).warnings)) == is_said


def test_labels_that_look_like_slips_are_named(tmp_path: Path) -> None:
    rows = [*rows_of(30, ["billing", "tech"]), ("x", "Biling"), *[(f"y{n}", "Tech") for n in range(3)]]
    path = write(tmp_path / "d.jsonl", rows)
    said = told(load(dataset=path).warnings)
    assert f"check them: 'Biling' ({path} line 31). Did you mean 'billing' for 'Biling'?" in said
    assert "labels that differ only in case or marks: 'Tech', 'tech'. Merge them if they are one" in said


def test_a_number_that_is_written_in_two_ways_is_said(tmp_path: Path) -> None:
    rows = rows_of(40, ["1", "1.0", "2.0", "-1.0"])
    path = write(tmp_path / "d.jsonl", rows)
    (found,) = load(dataset=path).warnings
    assert found.said == "labels that differ only in how a number is written: '1', '1.0'"
    assert load_checked(path, DataSettings())[2] == (found,)
    assert load_checked(path, DataSettings(labels=("1", "1.0", "2.0", "-1.0")))[2] == (found,)
    assert load_checked(path, DataSettings(metric="numeric"))[2] == ()


def test_what_tells_two_labels_apart_is_no_slip(tmp_path: Path) -> None:
    rows = [*rows_of(30, ["class_2", "clickbait"]), ("x", "class_3"), ("y", "non_clickbait")]
    path = write(tmp_path / "d.jsonl", rows)
    said = told(load(dataset=path).warnings)
    assert f"check them: 'class_3', 'non_clickbait' ({path} line 31, line 32)." in said
    assert "Did you mean" not in said
    both = [*rows_of(30, ["not spam", "not_spam"])]
    (alike,) = load(dataset=write(tmp_path / "e.jsonl", both)).warnings
    assert alike.said == "labels that differ only in case or marks: 'not spam', 'not_spam'"


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("प्रसंशा", "प्रशंसा"),
        ("شكوي", "شكوى"),
        ("投訴", "投诉"),
        ("불먼", "불만"),
        ("บวด", "บวก"),
        ("tehc", "tech"),
        ("teck", "tech"),
    ],
)
def test_a_slip_in_a_short_label_is_named(tmp_path: Path, slip: str, meant: str) -> None:
    rows = [*rows_of(30, [meant, "other"]), ("x", slip)]
    said = told(load(dataset=write(tmp_path / "d.jsonl", rows)).warnings)
    assert f"Did you mean '{meant}' for " in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("差评", "好评"),
        ("es", "en"),
        ("sad", "bad"),
        ("Q1", "Q2"),
        ("不好", "好"),
        ("ใช่", "ไม่"),
        ("ti", "it"),
        ("no", "on"),
        ("名人", "人名"),
        ("file", "life"),
    ],
)
def test_another_short_label_is_no_slip(tmp_path: Path, one: str, other: str) -> None:
    rows = [*rows_of(30, [other, "something"]), ("x", one)]
    assert "Did you mean" not in told(load(dataset=write(tmp_path / "d.jsonl", rows)).warnings)


def test_labels_that_look_the_same_are_told_by_their_unicode_form(tmp_path: Path) -> None:
    composed, parted = "t\u00e9ch", "te\u0301ch"
    (found,) = load(dataset=write(tmp_path / "d.jsonl", rows_of(40, [composed, parted]))).warnings
    assert found.said == f"labels that differ only in Unicode form: '{parted}' (NFD), '{composed}' (NFC)"
    rows = rows_of(60, [composed, parted, "T\u00e9ch"])
    (found,) = load(dataset=write(tmp_path / "e.jsonl", rows)).warnings
    assert found.said.startswith(
        "labels that differ only in case or marks: 'T\u00e9ch', 'te\u0301ch' (NFD), "
    )


def test_a_label_with_the_end_mark_of_its_script_is_grouped(tmp_path: Path) -> None:
    (found,) = load(dataset=write(tmp_path / "d.jsonl", rows_of(40, ["शिकायत", "शिकायत।"]))).warnings
    assert found.said == "labels that differ only in case or marks: 'शिकायत', 'शिकायत।'"


def test_a_label_seen_once_is_placed_in_its_file(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", rows_of(20))
    val = write(tmp_path / "val.jsonl", [(f"v{text}", label) for text, label in rows_of(20)])
    test = write(tmp_path / "test.jsonl", [*((f"t{text}", label) for text, label in rows_of(20)), ("x", "c")])
    warnings = load(train=train, val=val, test=test).warnings
    (rare,) = (warning for warning in warnings if warning.code == "dataset.rare-label")
    assert rare.related == (Place(test, 21),)


def test_train_keeps_some_rows_of_each_of_many_labels(tmp_path: Path) -> None:
    many = rows_of(60, [f"l{n}" for n in range(12)])
    splits = load(dataset=write(tmp_path / "d.jsonl", many), no_test=True)
    assert (len(splits.train), len(splits.val)) == (30, 30)
    few = load(dataset=write(tmp_path / "f.jsonl", rows_of(60)), no_test=True)
    assert (len(few.train), len(few.val)) == (20, 40)


def test_too_few_groups_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    rows = [{"input": f"row {i}", "target": "ab"[i % 2], "from": i // 20} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DatasetError, match="a field with more groups as group_field=…, or give "):
        load(dataset=path, group_field="from")
    assert load(dataset=path, group_field="from", no_test=True).sizes == {"train": 20, "val": 20, "test": 0}


def test_a_group_in_two_given_files_is_a_warning(tmp_path: Path) -> None:
    for name, start in (("train", 0), ("val", 20)):
        rows = [
            {"input": f"row {start + i}", "target": "ab"[i % 2], "from": i // 5 + start // 10}
            for i in range(20)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits = load(train=tmp_path / "train.jsonl", val=tmp_path / "val.jsonl", group_field="from")
    assert "another file has rows of 2 of its groups" in told(splits.warnings)


def test_answers_that_are_too_many_to_be_labels_are_said(tmp_path: Path) -> None:
    names = [f"{word} {kind}" for word in ("late", "lost", "wrong", "broken") for kind in "abcde"]
    path = write(tmp_path / "d.jsonl", [*rows_of(80, names), ("x", "borken a")])
    (found,) = load_checked(path, DataSettings())[2]
    assert tell(found, Voice.CLI) == (
        "21 different answers, more than 20, are taken as free text; seen only once: 'borken a' "
        f"({path} line 81). Give --labels A,B to hold the model to them. Did you mean 'broken a' for "
        "'borken a'?"
    )
    assert found in load(dataset=path).warnings
    for quiet in ({"metric": "contains"}, {"labels": ()}, {"labels": (*names, "borken a")}):
        assert load_checked(path, DataSettings(**quiet))[2] == ()
    write(path, rows_of(84, [*names, "mad"]))
    (other,) = load_checked(path, DataSettings())[2]
    assert (other.code, other.related) == ("dataset.too-many-labels", ())


@pytest.mark.parametrize(
    "targets",
    [
        [f"label {n}" for n in range(61)],
        [f"{n}" for n in range(30)],
        [*(f"seen once {n}" for n in range(20)), *(f"label {n % 20}" for n in range(160))],
        [f"an answer in a whole sentence, as long as such are, number {n}" for n in range(30)],
    ],
)
def test_numbers_sentences_and_answers_that_are_many_or_rare_are_no_labels(
    tmp_path: Path, targets: list[str]
) -> None:
    assert load_checked(write(tmp_path / "d.jsonl", rows_of(180, targets)), DataSettings())[2] == ()


def test_numbers_that_are_taken_as_labels_are_said_by_all_who_read_rows(tmp_path: Path) -> None:
    counts = [f"{7 * n}" for n in range(1, 15)]
    path = write(tmp_path / "d.jsonl", rows_of(140, counts))
    (found,) = load_checked(path, DataSettings())[2]
    assert found.said.startswith("the 14 different answers are numbers and are taken as labels")
    assert found in load(dataset=path).warnings
    assert load_checked(path, DataSettings(labels=tuple(counts)))[2] == ()
    write(path, rows_of(140, [f"{n}" for n in range(8)]))  # classes or marks
    assert load_checked(path, DataSettings())[2] == ()


def test_a_few_targets_that_a_run_does_not_know_are_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", [*rows_of(18), ("x", "c"), ("y", "d")])
    rows, labels, warnings = load_checked(path, DataSettings(labels=("a", "b")), labels_of="run r")
    assert (len(rows), labels) == (20, ("a", "b"))
    assert told(warnings) == (
        f"{path}: 2 of 20 rows count as wrong: their targets 'c', 'd' are none of the labels of run r "
        "(line 19, line 20). List all allowed answers as --labels A,B, or leave these rows out."
    )
    with pytest.raises(DatasetError, match="line 19: the target 'c' is none of the labels: 'a', 'b'"):
        load_checked(path, DataSettings(labels=("a", "b")))  # the user's own
    write(path, [*rows_of(17), ("x", "c"), ("y", "d")])
    with pytest.raises(DatasetError, match="'c' is none of the labels of run r: 'a', 'b'"):
        load_checked(path, DataSettings(labels=("a", "b")), labels_of="run r")
    write(path, [*rows_of(19), ("x", "c")])
    (found,) = load_checked(path, DataSettings(labels=("a", "b")), labels_of="run r")[2]
    assert "1 of 20 rows counts as wrong: its target 'c' is" in found.said
    assert found.related == (Place(path, 20),)


@pytest.mark.parametrize("sign", ["，", "، ", "、", ";", "；", " | "])
def test_labels_separated_by_another_sign_are_told_to_take_a_comma(tmp_path: Path, sign: str) -> None:
    path = write(tmp_path / "d.jsonl", [*rows_of(40), ("x", "c")])
    with pytest.raises(ConfigError) as caught:
        load(dataset=path, labels=(f"a{sign}b",))
    assert 'Separate labels by commas: --labels "a,b".' in caught.value.message(Voice.CLI)
    assert "Separate labels by commas: labels: [a, b]." in caught.value.message(Voice.YAML)
    assert "Separate labels by commas: labels=['a', 'b']." in str(caught.value)
    write(path, [(f"row {n}", f"a{sign}b" if n % 2 else "c") for n in range(40)])
    assert load(dataset=path, labels=(f"a{sign}b", "c")).labels == (f"a{sign}b", "c")


def test_a_label_may_hold_a_separator(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", rows_of(40))
    assert load(dataset=path, labels=("a;b", "a", "b")).labels == ("a;b", "a", "b")
    write(path, rows_of(40, ["a;b", "a"]))
    with pytest.raises(DatasetError, match="the target 'a' is none of the labels: 'a;b'"):
        load(dataset=path, labels=("a;b",))


def test_thousands_of_labels_that_were_seen_once_are_checked_in_time(tmp_path: Path) -> None:
    rows = [(f"text {n}", f"kind {n % 4000 if n < 8000 else n} of thing") for n in range(9_000)]
    path = write(tmp_path / "d.jsonl", rows)
    labels = tuple(dict.fromkeys(label for _, label in rows))
    with within(30):
        warnings = load(dataset=path, labels=labels).warnings
    assert "and 988 more" in told(warnings)


def test_rows_that_two_files_share_are_one_error(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", rows_of(20))
    copy = write(tmp_path / "copy.jsonl", rows_of(15, start=5))
    with pytest.raises(DatasetError) as caught:
        load(train=train, test=copy)
    assert str(caught.value).count("another file has the same input") == 1
    assert "and 2 more" in str(caught.value)
