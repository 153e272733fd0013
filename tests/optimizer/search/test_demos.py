"""Demonstrations: size, balance, no doubles, and the same draw for the same generator."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.optimizer.search.demos import (
    SHARED,
    asking_order,
    balanced,
    beginning,
    begun,
    is_spread,
    lean,
    rebalanced,
    to_demo,
    varied,
    with_errors,
)
from autoprompt.records import Candidate, Demo, Example

TARGETS = st.lists(st.sampled_from("ABC"), max_size=40)


def examples(targets: list[str]) -> list[Example]:
    return [Example(f"r{i}", f"item {i}", target, {}) for i, target in enumerate(targets)]


def is_even(chosen: list[Example], known: list[Example]) -> bool:
    """No target has two more than another that had more to give."""
    have, given_ = Counter(e.target for e in known), Counter(e.target for e in chosen)
    return all(
        given_[low] == have[low] or given_[high] <= given_[low] + 1
        for low in have
        for high in have
        if low != high
    )


@given(TARGETS, st.integers(0, 50), st.integers(0, 99))
def test_balanced(targets: list[str], size: int, seed: int) -> None:
    known = examples(targets)
    chosen = balanced(known, size, random.Random(seed))
    assert len(chosen) == min(size, len(known))
    assert len({e.id for e in chosen}) == len(chosen)
    assert is_even(chosen, known)
    assert chosen == balanced(known, size, random.Random(seed))


@given(TARGETS, st.integers(0, 50), st.integers(0, 99), st.sets(st.integers(0, 39)))
def test_with_errors(targets: list[str], size: int, seed: int, wrong: set[int]) -> None:
    known = examples(targets)
    wrong_ids = {f"r{i}" for i in wrong}
    chosen = with_errors(known, wrong_ids, size, random.Random(seed))
    assert len(chosen) == min(size, len(known))
    assert len({e.id for e in chosen}) == len(chosen)
    there = sum(e.id in wrong_ids for e in known)
    assert sum(e.id in wrong_ids for e in chosen) >= min(size // 2, there)
    assert chosen == with_errors(known, wrong_ids, size, random.Random(seed))


@given(st.integers(0, 99), st.integers(1, 8))
def test_with_errors_stays_balanced_where_all_errors_are_of_one_answer(seed: int, half: int) -> None:
    known = examples(["A", "B"] * 20)
    wrong_ids = {e.id for e in known if e.target == "A"}
    chosen = with_errors(known, wrong_ids, 2 * half, random.Random(seed))
    assert Counter(e.target for e in chosen) == {"A": half, "B": half}


@given(st.integers(0, 99))
def test_with_few_errors_the_other_rows_keep_the_balance(seed: int) -> None:
    known = examples(["A", "B", "C"] * 10)
    chosen = with_errors(known, {"r0", "r3"}, 12, random.Random(seed))
    assert Counter(e.target for e in chosen) == {"A": 4, "B": 4, "C": 4}
    assert {"r0", "r3"} <= {e.id for e in chosen}


@given(TARGETS, st.integers(0, 99), st.data())
def test_varied(targets: list[str], seed: int, data: st.DataObject) -> None:
    known = examples(targets)
    ids = [e.id for e in known]
    current = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    found = varied(known, current, random.Random(seed))
    assert len(found) == len(current)
    assert len({e.id for e in found}) == len(found)
    by_id = {e.id: e for e in known}
    assert Counter(e.target for e in found) == Counter(by_id[i].target for i in current)
    left = {
        target: n - Counter(by_id[i].target for i in current)[target]
        for target, n in Counter(targets).items()
    }
    exchanged = len(set(current) - {e.id for e in found})
    assert exchanged <= max(1, round(len(current) * 0.25)) if current else not found
    if current and all(left[by_id[i].target] for i in current):
        assert exchanged >= 1
    assert found == varied(known, current, random.Random(seed))


def test_varied_drops_rows_that_are_no_longer_there() -> None:
    known = examples(["A", "A", "B"])
    assert {e.id for e in varied(known, ["gone", "r2"], random.Random(0))} == {"r2"}


def test_free_text_is_exchanged_for_any_other_row() -> None:
    known = examples([str(n) for n in range(8)])
    current = ["r0", "r1", "r2", "r3"]
    assert {e.id for e in varied(known, current, random.Random(0))} == set(current)
    found = {e.id for e in varied(known, current, random.Random(0), is_free=True)}
    assert len(found & set(current)) == 3


def test_a_demonstration_shows_the_models_own_output_where_there_is_one() -> None:
    row = Example("r1", "item 1", "A", {})
    assert to_demo(row).output == "A"
    assert to_demo(row, {"r1": "because ... A"}).output == "because ... A"
    assert to_demo(row).example_id == "r1"


def test_a_demonstration_holds_the_fields_that_are_asked_for() -> None:
    row = Example("r1", "item 1", "A", {"input": "item 1", "desk": "news", "target": "A"})
    assert to_demo(row, names=["desk"]).fields == {"desk": "news"}
    assert to_demo(row).fields == {}


def test_a_set_is_shifted_to_what_is_answered_too_seldom() -> None:
    known = [Example(str(n), f"row {n}", "ab"[n % 2], {}) for n in range(80)]
    current = [e.id for e in known[:32]]
    shifted = rebalanced(known, current, {"a": 42, "b": 8}, {"a": 25, "b": 25}, random.Random(0))
    counts = Counter(e.target for e in shifted)
    assert len(shifted) == len({e.id for e in shifted}) == 32
    assert 1.8 <= counts["b"] / counts["a"] <= 2.6
    assert {e.id for e in shifted if e.target == "a"} <= set(current)
    assert sum(e.id in current for e in shifted if e.target == "b") == 16


def test_a_label_without_more_rows_gives_all_it_has() -> None:
    known = [Example(str(n), f"row {n}", "b" if n < 3 else "a", {}) for n in range(40)]
    current = [e.id for e in known[:16]]
    shifted = rebalanced(known, current, {"a": 50}, {"a": 25, "b": 25}, random.Random(0))
    assert Counter(e.target for e in shifted) == {"a": 13, "b": 3}


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 30)),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 30)),
    st.integers(0, 40),
)
def test_shifting_keeps_the_size_and_repeats_no_row(
    answered: dict[str, int], expected: dict[str, int], size: int
) -> None:
    known = [Example(str(n), f"row {n}", "abc"[n % 3], {}) for n in range(60)]
    current = [e.id for e in known[:size]]
    shifted = rebalanced(known, current, answered, expected, random.Random(1))
    assert len(shifted) == len({e.id for e in shifted}) == size
    assert 0.0 <= lean(answered, expected) <= 1.0


def test_lean_is_the_share_that_should_be_another_label() -> None:
    assert lean({"a": 25, "b": 25}, {"a": 25, "b": 25}) == 0.0
    assert lean({"a": 42, "b": 8}, {"a": 25, "b": 25}) == pytest.approx(0.34)
    assert lean({"a": 10}, {"b": 10}) == 1.0
    assert lean({}, {"a": 3}) == lean({"a": 3}, {}) == 0.0


@given(TARGETS, st.integers(0, 50), st.integers(0, 99))
def test_every_beginning_is_about_balanced(targets: list[str], size: int, seed: int) -> None:
    known = examples(targets)
    order = beginning(known, size, random.Random(seed))
    assert len({e.id for e in order}) == len(order) == min(size, len(known))
    for edge in range(8, len(order) + 1, 8):
        assert is_even(order[:edge], known)
        assert beginning(known, edge, random.Random(seed)) == order[:edge]


@given(TARGETS, st.integers(0, 50), st.integers(0, 99))
def test_sets_begin_alike_where_no_answer_runs_out(targets: list[str], size: int, seed: int) -> None:
    known = examples(targets)
    common = beginning(known, size, random.Random(seed))
    chosen = begun(known, size, common, random.Random(seed + 1))
    assert len({e.id for e in chosen}) == len(chosen) == min(size, len(known))
    assert is_even(chosen, known)
    shared = common[: int(size * SHARED)]
    if chosen[: len(shared)] != shared:
        drawn, size, rest = Counter(e.target for e in shared), len(chosen), len(chosen) - len(shared)
        # The set that was not taken may have had one row less of a label.
        counts = Counter(e.target for e in chosen)
        assert any(2 * (n - 1 - drawn[t]) * size < n * rest for t, n in counts.items() if drawn[t] > 1)


def slowly_balanced(known: list[Example], size: int, rng: random.Random) -> list[Example]:
    """`balanced` as it was first written, with a pass over all targets for each turn."""
    by_target = {target: [e for e in known if e.target == target] for target in {e.target for e in known}}
    queues = [by_target[target] for target in sorted(by_target)]
    for queue in queues:
        rng.shuffle(queue)
    rng.shuffle(queues)
    chosen: list[Example] = []
    while len(chosen) < size and any(queues):
        for queue in queues:
            if queue and len(chosen) < size:
                chosen.append(queue.pop())
    rng.shuffle(chosen)
    return chosen


def slowly_begun(known: list[Example], size: int, rng: random.Random) -> list[Example]:
    """`beginning` likewise, with a pass over all rows for each place."""
    order: list[Example] = []
    while len(order) < min(size, len(known)):
        counts = Counter(e.target for e in order)
        rest = slowly_balanced([e for e in known if e not in order], len(known), rng)
        added: list[Example] = []
        while rest and len(order) + len(added) < min(size, len(order) + 8):
            place = min(range(len(rest)), key=lambda i: counts[rest[i].target])
            counts[rest[place].target] += 1
            added.append(rest.pop(place))
        rng.shuffle(added)
        order += added
    return order


@given(
    st.lists(st.sampled_from(["A", "B", "C", *map(str, range(30))]), max_size=60),
    st.integers(0, 70),
    st.integers(0, 99),
)
def test_each_seed_draws_the_set_that_it_always_drew(targets: list[str], size: int, seed: int) -> None:
    """Runs that are resumed, and results that were measured, depend on it."""
    known = examples(targets)
    for quick, slow in (balanced, slowly_balanced), (beginning, slowly_begun):
        one, other = random.Random(seed), random.Random(seed)
        assert quick(known, size, one) == slow(known, size, other)
        assert one.getstate() == other.getstate()


class Looked(str):
    """A target that counts how often any is looked at."""

    __slots__ = ()
    times = 0

    def __hash__(self) -> int:
        Looked.times += 1
        return super().__hash__()


@pytest.mark.parametrize("others", [1, 500])
def test_a_set_is_drawn_in_a_few_passes_over_the_rows(others: int) -> None:
    """Not in one for each place of the set: two labels, or one frequent answer among free text."""
    known = examples([Looked("none" if n % 2 else f"other {n % (2 * others)}") for n in range(1000)])
    Looked.times = 0
    beginning(known, 64, random.Random(0))
    assert Looked.times < 64 / 8 * 5 * len(known)


def test_two_sets_share_their_beginning_and_differ_behind_it() -> None:
    known = examples(["A", "B"] * 40)
    common, rng = beginning(known, 64, random.Random(0)), random.Random(1)
    first, second = begun(known, 64, common, rng), begun(known, 64, common, rng)
    shared = int(64 * SHARED)
    assert first[:shared] == second[:shared] == common[:shared]
    assert first[shared:] != second[shared:]
    for rows in (first, second):
        assert abs(Counter(e.target for e in rows[shared:])["A"] - 20) <= 1


def test_a_rare_answer_is_not_left_to_the_beginning() -> None:
    """Eight of 72: a beginning of 24 would show all of them, and the last 40 none."""
    known = examples([*"B" * 8, *"A" * 64])
    common = beginning(known, 64, random.Random(0))
    assert Counter(e.target for e in common[:24])["B"] == 8
    assert not is_spread(common, 24)
    ends = [begun(known, 64, common, random.Random(n))[24:] for n in range(20)]
    assert 60 < sum(e.target == "B" for rows in ends for e in rows) < 140  # 100 where they lie anywhere


def shown(text: str, *inputs: str) -> Candidate:
    return Candidate({"prompt": text}, tuple(Demo(name, "A") for name in inputs))


def test_prompts_that_share_a_demonstration_are_asked_together_the_longest_first() -> None:
    candidates = [
        shown("naive"),
        shown("naive", "a"),
        shown("told", "a", "b"),
        shown("naive", "c", "b", "a"),
        shown("naive", "a", "b", "c"),
        shown("naive", "a", "b"),
        shown("reason"),
    ]
    assert asking_order(candidates) == [0, 4, 5, 1, 2, 3, 6]


def test_others_keep_their_order() -> None:
    assert asking_order([shown("b"), shown("a", "x"), shown("c", "x", "y")]) == [0, 1, 2]
    assert asking_order([]) == []
