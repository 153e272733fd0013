"""The pool: scores by row, pairs on shared rows, records that come back as they were."""

from __future__ import annotations

import pytest
from fakes import add, row, scored

from autoprompt.optimizer.search.pool import CONFIDENCE_WEIGHT, Entry, Pool
from autoprompt.records import Candidate, Change, Demo


def test_the_first_candidate_is_the_original_and_a_second_of_the_same_text_is_the_same_entry() -> None:
    pool = Pool()
    first = pool.add(Candidate({"prompt": "one"}))
    second = pool.add(Candidate({"prompt": "two"}))
    assert pool.add(Candidate({"prompt": "one"}, operator="rewrite")) is first
    assert pool.original is first
    assert pool.entries == (first, second)
    assert len(pool) == 2
    assert first.candidate.id in pool
    assert "nobody" not in pool


def test_scores_are_paired_on_the_rows_that_both_have_in_the_order_asked_for() -> None:
    pool = Pool()
    a = add(pool, "a", {"r0": 1.0, "r1": 0.0, "r2": 1.0})
    b = add(pool, "b", {"r2": 0.5, "r1": 1.0, "r9": 1.0})
    assert pool.shared(a, b, ["r2", "r9", "r1", "r0"]) == ([1.0, 0.0], [0.5, 1.0], [None, None])


def test_means_count_only_evaluated_rows() -> None:
    entry = Entry(Candidate({"prompt": "p"}), scores={"r0": 1.0, "r1": 0.0})
    assert entry.mean(["r0", "r1", "r2"]) == 0.5
    assert entry.mean(["r2"]) == 0.0
    assert entry.mean_merit(["r2"]) == 0.0


def test_confidence_breaks_ties_and_never_outweighs_an_answer() -> None:
    pool = Pool()
    entry = pool.add(Candidate({"prompt": "p"}))
    pool.record(
        entry.candidate.id, [scored(row(0), True, confidence=0.6), scored(row(1), False, confidence=0.4)]
    )
    assert entry.merit("r0") == pytest.approx(1 + CONFIDENCE_WEIGHT * 0.6)
    assert entry.merit("r1") == pytest.approx(CONFIDENCE_WEIGHT * 0.4)
    assert entry.mean(["r0", "r1"]) == 0.5
    assert CONFIDENCE_WEIGHT < 1


def test_a_reasoned_answer_is_ranked_beside_answers_given_at_once() -> None:
    pool = Pool()
    ids = [f"r{n}" for n in range(40)]
    sure = pool.add(Candidate({"prompt": "at once"}))
    sure.scores = {i: float(n < 32) for n, i in enumerate(ids)}
    sure.confidence = {i: 0.95 if n < 32 else 0.1 for n, i in enumerate(ids)}
    reasoned = pool.add(Candidate({"prompt": "reasoned"}))
    reasoned.scores = {i: float(n < 34) for n, i in enumerate(ids)}
    assert reasoned.mean_merit(ids) > sure.mean_merit(ids)
    reasoned.scores = {i: float(n < 30) for n, i in enumerate(ids)}
    assert reasoned.mean_merit(ids) < sure.mean_merit(ids)


def test_records_come_back_as_they_were_and_the_last_one_of_an_id_holds() -> None:
    pool = Pool()
    a = add(pool, "a", [1.0, 0.0])
    demos = (Demo("item 3", "A", "r3"),)
    b = add(
        pool, "b", [0.0], parents=(a,), operator="demos", iteration=2, change=Change(note="c"), demos=demos
    )
    pool.record(a, [scored(row(5), True, confidence=1 / 3)])
    old = pool.to_records([b])
    pool[b].status = "rejected"
    records = [{**r, "step": 4} for r in [*pool.to_records([a]), *old, *pool.to_records([b])]]
    back = Pool.from_records(records)
    assert back.to_records([a, b]) == pool.to_records([a, b])
    assert [e.candidate for e in back.entries] == [e.candidate for e in pool.entries]
    assert back[a].merit("r5") == pool[a].merit("r5")
    assert [e.candidate.id for e in back.accepted()] == [a]


def test_shared_rows_come_with_their_groups_also_in_a_pool_that_is_read_again() -> None:
    groups = {"r0": "g", "r2": "g"}
    pool = Pool(groups=groups)
    a, b = (add(pool, name, {"r0": 1.0, "r1": 0.0, "r2": 1.0}) for name in "ab")
    assert pool.shared(a, b, ["r1", "r2", "r0"]).groups == [None, "g", "g"]
    back = Pool.from_records(pool.to_records([a, b]), groups=groups)
    assert back.shared(a, b, ["r1", "r2", "r0"]) == pool.shared(a, b, ["r1", "r2", "r0"])


def test_means_and_pairs_count_rows_by_their_weights_also_in_a_pool_that_is_read_again() -> None:
    """Three rows of one label, one of another: each label is half of the mean."""
    weights = {"r0": 2 / 3, "r1": 2 / 3, "r2": 2 / 3, "r3": 2.0}
    ids = list(weights)
    pool = Pool(weights=weights)
    common = add(pool, "always the common label", [1.0, 1.0, 1.0, 0.0])
    rare = add(pool, "sees the rare label", [1.0, 1.0, 0.0, 1.0])
    for read in (pool, Pool.from_records(pool.to_records([common, rare]), weights=weights)):
        assert read[common].mean(ids) == pytest.approx(1 / 2)
        assert read[rare].mean(ids) == pytest.approx((2 / 3 + 1) / 2)
        ours, theirs, _ = read.shared(rare, common, ids)
        assert sum(ours) / 4 == pytest.approx(read[rare].mean(ids))
        assert sum(theirs) / 4 == pytest.approx(read[common].mean(ids))
        # Of a part of the rows, too.
        ours, _, _ = read.shared(rare, common, ids[2:])
        assert sum(ours) / 2 == pytest.approx(read[rare].mean(ids[2:])) == pytest.approx(3 / 4)
