"""Two runs beside each other, on the rows that both have answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_folders import row

from autoprompt.report import read_summary
from autoprompt.report.two_runs import Compared, Comparison, compare
from autoprompt.runs import RunFolder, RunStore
from autoprompt.stats import macro_f1, mcnemar_exact


@pytest.fixture
def runs(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


def finished(
    runs: RunStore,
    prompt: str,
    answers: list[str],
    *,
    demos: tuple[tuple[str, str], ...] = (),
    groups: int = 0,
    **settings: Any,
) -> RunFolder:
    """A run whose best prompt answered so on rows whose right answer is always "1".

    groups: how many rows belong together, if any.
    """
    folder = runs.create(
        {"dataset": Path("/data/rows.jsonl"), "prompt": "p", "labels": ["0", "1"], **settings}
    )
    best = {"id": "b" * 12, "components": {"prompt": prompt}, "score": 0.5, "n": len(answers)}
    shown = [{"input": asked, "output": answer} for asked, answer in demos]
    folder.append_candidates([{**best, "operator": "rewrite", "demos": shown, "status": "accepted"}])
    for name in ("test-best", "test-original"):
        rows = [
            row(n, f"input {n}", "1", a, group=f"g{n // groups}" if groups else None)
            for n, a in enumerate(answers)
        ]
        folder.write_predictions(name, rows)
    folder.write_result(
        {
            "verdict": "not_confirmed",
            "message": "",
            "p_value": 0.5,
            "best": best,
            "original": {"score": 0.5},
            "fixed": 0,
            "broken": 0,
        }
    )
    return folder


def compared(a: RunFolder, b: RunFolder) -> Comparison:
    return compare(Compared.of(read_summary(a)), Compared.of(read_summary(b)))


def test_rows_that_differ_are_counted_and_tested(runs: RunStore) -> None:
    a = finished(runs, "one two", ["1"] * 4 + ["0"] * 12)
    b = finished(runs, "one three", ["0"] + ["1"] * 15)
    found = compared(a, b)
    assert (found.count("a"), found.count("b"), len(found.differing)) == (1, 12, 13)
    assert found.gain == pytest.approx(11 / 16)
    assert found.scores is not None
    assert found.scores.p_value == pytest.approx(mcnemar_exact(12, 1, "two-sided"))
    assert found.is_clear
    assert found.meaning.startswith("B has the better prompt")
    assert found.headline.startswith("A 0.25, B 0.94 on 16 shared rows, p = 0.003")


def test_the_other_way_round_says_the_same(runs: RunStore) -> None:
    a = finished(runs, "one", ["1"] * 4 + ["0"] * 12)
    b = finished(runs, "two", ["1"] * 16)
    ours, theirs = compared(a, b), compared(b, a)
    assert ours.gain == -theirs.gain
    assert ours.scores is not None
    assert theirs.scores is not None
    assert ours.scores.p_value == theirs.scores.p_value
    assert theirs.meaning.startswith("A has the better prompt")


def test_a_gap_that_luck_makes_is_called_so(runs: RunStore) -> None:
    found = compared(finished(runs, "a", ["1", "0", "1"]), finished(runs, "b", ["1", "1", "1"]))
    assert not found.is_clear
    assert "comes up often" in found.meaning


@pytest.mark.parametrize("answers", [["1", "1"], ["1", "0"]])
def test_equal_scores_are_no_gap(runs: RunStore, answers: list[str]) -> None:
    found = compared(finished(runs, "a", answers), finished(runs, "b", answers[::-1]))
    assert (found.gain, found.meaning) == (0.0, "Both scored the same here.")


def test_changed_words_are_marked_on_their_side_alone(runs: RunStore) -> None:
    (text,) = compared(
        finished(runs, "Answer 标题 with one", ["1"]), finished(runs, "Answer 标题 with zero", ["1"])
    ).texts
    assert [p.text.strip() for p in text.a if p.kind == "removed"] == ["one"]
    assert [p.text.strip() for p in text.b if p.kind == "added"] == ["zero"]
    assert "".join(p.text for p in text.a) == text.text_a
    assert "".join(p.text for p in text.b) == text.text_b
    assert not text.is_equal


def test_demonstrations_that_both_show_stand_beside_each_other(runs: RunStore) -> None:
    a = finished(runs, "p", ["1"], demos=(("x", "1"), ("y", "0")))
    b = finished(runs, "p", ["1"], demos=(("z", "1"), ("y", "0"), ("w", "1")))
    found = compared(a, b)
    assert (found.shared_demos, found.count_demos(0), found.count_demos(1)) == (1, 2, 3)
    assert [(x and x.input, y and y.input) for x, y in found.demos] == [("y", "y"), ("x", "z"), (None, "w")]


def test_a_row_that_the_endpoint_lost_compares_with_nothing(runs: RunStore) -> None:
    a, b = finished(runs, "a", ["1", "1"]), finished(runs, "b", ["1", "1"])
    rows = [row(0, "i", "1", "", error="timed out"), row(1, "i", "1", "1")]
    b.write_predictions("test-best", rows)
    assert len(compared(a, b).rows) == 1


@pytest.mark.parametrize("case", ["unfinished", "other data", "no common row"])
def test_why_two_runs_cannot_be_compared_by_score(runs: RunStore, case: str) -> None:
    a = finished(runs, "a", ["1"])
    b = finished(
        runs, "b", ["1"], dataset=Path("/data/others.jsonl" if case == "other data" else "/data/rows.jsonl")
    )
    b.write_predictions("test-best", [row(77, "other", "1", "1")])
    if case == "unfinished":
        b.result_path.unlink()
    found = compared(a, b)
    assert (found.gain, found.scores, found.rows) == (None, None, ())
    words = {
        "unfinished": "not finished",
        "other data": "different datasets",
        "no common row": "share no row",
    }
    assert words[case] in found.meaning


def test_rows_that_belong_together_are_tested_together(runs: RunStore) -> None:
    answers = ["0"] * 8 + ["1"] * 8, ["1"] * 16
    alone = compared(*(finished(runs, "alone", found) for found in answers))
    together = compared(*(finished(runs, "grouped", found, groups=4) for found in answers))
    assert alone.scores is not None
    assert together.scores is not None
    assert alone.scores.p_value == 2 / 2**8
    assert together.scores.p_value == 2 / 2**2
    assert together.scores.gain_interval[0] < alone.scores.gain_interval[0]
    assert "on 16 shared rows, p" in alone.headline
    assert "on 16 shared rows (in 4 groups), p = 0.50" in together.headline
    older = compared(finished(runs, "older", answers[0]), finished(runs, "grouped", answers[1], groups=4))
    assert older.scores == together.scores


def test_of_macro_f1_the_figures_are_those_of_the_runs(runs: RunStore) -> None:
    """`runs diff` showed means of rows where the runs and `eval --against` show macro F1."""
    a = finished(runs, "one", ["1"] * 4 + ["0"] * 12, metric="macro_f1")
    b = finished(runs, "two", ["0"] + ["1"] * 15, metric="macro_f1")
    found = compared(a, b)
    assert found.scores is not None
    expected = ["1"] * 16
    assert found.scores.old.score == pytest.approx(macro_f1(["1"] * 4 + ["0"] * 12, expected))
    assert found.scores.new.score == pytest.approx(macro_f1(["0"] + ["1"] * 15, expected))
    assert found.headline.startswith("A 0.40, B 0.97 on 16 shared rows")
