"""What is read from a run's folder is what the run found."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import hostile_run, real_run, row

from autoprompt.errors import StoreError
from autoprompt.records import plain
from autoprompt.report import RunSummary, read_summary
from autoprompt.report.html import page
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.listing import summarize
from autoprompt.runs.result import Baseline, CallCost


def result_of(run: RunFolder) -> dict[str, Any]:
    result = run.read_result()
    assert result is not None
    return result


def copied(run: RunFolder, to: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(run.path, to / run.run_id)))


def test_numbers_are_those_of_the_result(run: RunFolder, summary: RunSummary) -> None:
    result = result_of(run)
    assert (summary.status, summary.verdict) == ("finished", "confirmed")
    for name in ("original", "best"):
        side = getattr(summary.result, name)
        assert (side.score, list(side.ci95), side.n) == (
            result[name]["score"],
            result[name]["ci95"],
            result[name]["n"],
        )
    assert summary.gain == pytest.approx(summary.result.best.score - summary.result.original.score)
    assert (summary.result.fixed, summary.result.broken) == (result["fixed"], result["broken"])
    assert (summary.calls, summary.result.p_value) == (result["calls"], result["p_value"])


def test_headline_is_one_sentence_of_numbers(summary: RunSummary) -> None:
    original, best = summary.result.original, summary.result.best
    assert summary.headline.startswith(f"{original.score:.2f} → {best.score:.2f} on {best.n} unseen rows, p ")
    assert f"; {summary.result.fixed} fixed, {summary.result.broken} broken; " in summary.headline
    assert summary.headline.endswith("× tokens per call")
    assert "never saw" in summary.explanation


def test_rows_of_the_test_are_counted_as_in_the_verdict(summary: RunSummary) -> None:
    assert summary.rows_of == "the sealed test"
    assert len(summary.rows) == summary.result.best.n
    assert (summary.count("fixed"), summary.count("broken")) == (summary.result.fixed, summary.result.broken)
    right = sum(r.best.is_correct for r in summary.rows if r.best)
    assert right / len(summary.rows) == summary.result.best.score


def test_confusion_adds_up_to_the_rows(summary: RunSummary) -> None:
    assert [c.name for c in summary.confusion] == ["original", "best"]
    for table, side in zip(summary.confusion, (summary.result.original, summary.result.best), strict=True):
        assert sum(map(sum, table.counts)) == side.n
        right = sum(table.counts[i][i] for i in range(len(table.labels)))
        assert right / side.n == side.score


def test_every_candidate_is_told_with_the_end_of_its_race(run: RunFolder, summary: RunSummary) -> None:
    result = result_of(run)
    tried = [c for c in summary.candidates if not c.is_original]
    assert len(tried) == result["candidates"]["tried"]
    assert summary.candidates[0].is_original
    assert sum(c.status == "accepted" for c in tried) == result["candidates"]["accepted"]
    assert all(c.rows > 0 and c.score is not None and 0 < (c.calls or 0) <= summary.calls for c in tried)
    calls = [c.calls for c in tried]
    assert calls == sorted(calls)


def test_the_original_is_scored_on_the_rows_of_the_race(summary: RunSummary) -> None:
    # In the end it is measured on fresh rows too, which no candidate of the race has.
    original = summary.original_candidate
    assert original is not None
    raced = max(c.rows for c in summary.candidates if not c.is_original)
    assert original.rows == raced


def test_lineage_leads_from_the_original_to_the_best(summary: RunSummary) -> None:
    assert summary.lineage[0] == summary.candidates[0].id
    assert summary.lineage[-1] == summary.best_id
    for child in summary.lineage[1:]:
        candidate = summary.candidate(child)
        assert candidate is not None
        assert set(candidate.parents) & set(summary.lineage)


def test_steps_rise_and_end_with_the_best(summary: RunSummary) -> None:
    assert [step.score for step in summary.steps] == sorted(step.score for step in summary.steps)
    assert summary.steps[0].calls == 0
    assert summary.steps[-1].id == summary.best_id


def test_spending_by_role_adds_up(run: RunFolder, summary: RunSummary) -> None:
    assert [part.role for part in summary.spending] == ["task", "optimizer"]
    assert sum(part.calls for part in summary.spending) == summary.calls
    assert sum(part.usage.total_tokens for part in summary.spending) == summary.tokens


def test_spending_of_an_unfinished_run_comes_from_its_journal(run: RunFolder, tmp_path: Path) -> None:
    whole = read_summary(run)
    cut = copied(run, tmp_path)
    cut.result_path.unlink()
    assert read_summary(cut).spending == whole.spending


def test_lessons_read_and_noted(tmp_path: Path) -> None:
    first = real_run(tmp_path, no_memory=False)
    noted = read_summary(first)
    assert noted.lessons_read == ()
    assert {lesson.verdict for lesson in noted.lessons} >= {"better"}
    assert all(lesson.text and lesson.rows for lesson in noted.lessons)
    second = read_summary(real_run(tmp_path, no_memory=False, seed=1))
    assert second.lessons_read


def test_json_holds_everything(summary: RunSummary) -> None:
    data = json.loads(json.dumps(summary.to_dict()))
    assert len(data["rows"]) == len(summary.rows)
    assert data["rows"][0]["state"] == summary.rows[0].state
    assert data["headline"] == summary.headline


def test_without_rows_the_rest_is_the_same(run: RunFolder, summary: RunSummary) -> None:
    quick = read_summary(run, with_rows=False)
    assert (quick.rows, quick.confusion) == ((), ())
    assert quick.candidates == summary.candidates


def test_a_run_without_a_test_is_untested_and_shows_its_train_rows(tmp_path: Path) -> None:
    found = read_summary(real_run(tmp_path, no_test=True))
    assert found.verdict == "untested"
    assert found.result.best.score is None
    # What the headline says of its rows, the explanation does not deny.
    assert "of train) not used for writing or selecting it" in found.headline
    assert found.explanation.startswith(
        "No sealed test has checked this. These rows did not help write or select"
    )
    assert found.rows_of.startswith("train, round ")
    assert all(r.original is None and r.best is not None for r in found.rows)


# --- runs that are not over ---


def interrupted(run: RunFolder, to: Path) -> RunFolder:
    """The run as it was in its first round: no result, logs that end in the middle of a line."""
    cut = copied(run, to)
    cut.result_path.unlink()
    for path in cut.predictions_dir.glob("test-*"):
        path.unlink()
    events = cut.events_path.read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(events) if b"best_changed" in line) + 1
    cut.events_path.write_bytes(b"".join(events[:first]) + events[first][:20])
    records = cut.candidates_path.read_bytes().splitlines(keepends=True)
    cut.candidates_path.write_bytes(b"".join(records[:5]) + records[5][:40])
    lines = cut.journal_path.read_bytes().splitlines(keepends=True)
    cut.journal_path.write_bytes(b"".join(lines[:50]) + lines[50][:30])
    return cut


def test_an_interrupted_run_with_torn_lines_is_read(run: RunFolder, tmp_path: Path) -> None:
    cut = interrupted(run, tmp_path)
    found = read_summary(cut)
    assert (found.status, found.verdict) == ("interrupted", "unfinished")
    line = summarize(cut)
    assert (line.calls, line.cost_usd) == (found.calls, found.cost_usd)
    assert found.calls == 50
    assert found.headline.startswith("Round ")
    assert f"autoprompt resume {cut.path}" in found.explanation
    assert found.progress.best_score is not None
    assert found.best_candidate is not None


def test_a_run_at_work_says_so(run: RunFolder, tmp_path: Path) -> None:
    cut = interrupted(run, tmp_path)
    with cut.lock():
        found = read_summary(cut)
    assert found.status == "running"
    assert found.explanation.startswith("Running")


def test_a_run_that_has_only_begun_is_read(tmp_path: Path) -> None:
    folder = RunStore(tmp_path / "runs").create({"dataset": Path("x.jsonl"), "prompt": "Say 1."})
    found = read_summary(folder)
    assert found.best_candidate is None
    assert (found.candidates, found.rows, found.spending, found.steps) == ((), (), (), ())
    assert found.headline == "no race has ended yet; 0 calls"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"run\.json"):
        read_summary(RunFolder(tmp_path))


# --- rows ---


def test_states_of_rows(tmp_path: Path) -> None:
    folder = RunStore(tmp_path / "runs").create({"dataset": Path("x.jsonl"), "labels": ["0", "1"]})
    pairs = [("1", "1"), ("0", "1"), ("1", "0"), ("0", "0"), ("", "1")]
    folder.write_predictions("test-original", [row(n, "text", "1", a) for n, (a, _) in enumerate(pairs)])
    best = [row(n, "text", "1", b, error="timed out" if n == 4 else None) for n, (_, b) in enumerate(pairs)]
    folder.write_predictions("test-best", best)
    found = read_summary(folder)
    assert [r.state for r in found.rows] == ["right", "fixed", "broken", "wrong", "lost"]
    assert found.confusion[0].counts == ((0, 0, 0), (2, 2, 0))
    assert found.confusion[1].counts == ((0, 0, 0), (2, 2, 0))


def test_free_answers_have_no_confusion(tmp_path: Path) -> None:
    folder = RunStore(tmp_path / "runs").create({"dataset": Path("x.jsonl")})
    folder.write_predictions("test-best", [row(n, "text", f"answer {n}", "x") for n in range(40)])
    assert read_summary(folder).confusion == ()


def test_an_unread_answer_is_no_label(tmp_path: Path) -> None:
    folder = RunStore(tmp_path / "runs").create({"dataset": Path("x.jsonl"), "labels": ["0", "1"]})
    folder.write_predictions("test-best", [row(0, "text", "0", "1", is_unparsed=True)])
    assert read_summary(folder).confusion[1].counts == ((0, 0, 1), (0, 0, 0))


def test_hostile_texts_come_through_as_they_are(tmp_path: Path) -> None:
    found = read_summary(hostile_run(tmp_path / "runs"))
    assert found.rows[0].input == "<script>window.hacked = 1</script>"
    assert len(found.candidates) == 2
    json.dumps(found.to_dict())


def test_scores_before_the_test_are_called_what_they_are(run: RunFolder, tmp_path: Path) -> None:
    """Of macro F1, rows are compared by the mean recall of the labels."""
    found = copied(run, tmp_path)
    assert read_summary(found).validation.measure == ""  # type: ignore[union-attr]
    result = {**result_of(found), "metric": "macro_f1"}
    result["validation"] = {**result["validation"], "measure": "mean recall of the labels"}
    (found.path / "result.json").write_text(json.dumps(result), encoding="utf-8")
    summary = read_summary(found)
    assert summary.validation is not None
    assert summary.validation.measure == "mean recall of the labels"
    assert "(mean recall of the labels): " in page(summary)


@pytest.mark.parametrize(("score", "is_first"), [(1.0, True), (0.3, False)])
def test_what_scores_as_much_without_a_model_is_beside_the_headline(
    run: RunFolder, tmp_path: Path, score: float, is_first: bool
) -> None:
    made = copied(run, tmp_path)
    nearest = plain(Baseline(None, score, (0.0, 1.0), 0.5, is_beaten=False, is_uneven=False))
    made.write_result({**result_of(made), "baselines": {"nearest": nearest}})
    text = re.sub("<[^>]+>", "", page(read_summary(made)).partition("<main")[2].partition('id="scores"')[0])
    level, headline = text.index("Without a model, copying"), text.index(" unseen rows, p ")
    assert (level < headline) == is_first
    assert text.count("Without a model, copying") == 1
    title = page(read_summary(made)).partition("<h1>")[2].partition("</h1>")[0]
    assert "Without a model" not in title
    assert title.rstrip("</span>").endswith("tokens per call")


@pytest.mark.parametrize(
    ("calls_per_row", "traffic", "warm", "notes"),
    [
        (1.0, 0.0, 0.0001, []),
        (1.0, 12.0, 0.0004, []),
        (2.0, 0.0, 0.0001, ["A call in these figures is one row, which takes 2 requests."]),
        (1.25, 0.0, 0.0001, ["A call in these figures is one row, which takes about 1.25 requests."]),
        (1.0, 12.0, 0.0001, ["A single cost is for 12 calls per hour, the run's traffic."]),
        (1.0, None, 0.0001, ["A single cost is for a warm cache, the run's traffic."]),
    ],
)
def test_the_last_lines_say_what_a_call_and_a_cost_are_if_that_is_not_plain(
    calls_per_row: float, traffic: float | None, warm: float, notes: list[str], summary: RunSummary
) -> None:
    cost = CallCost("usd", 0.0003, 0.0004, warm)
    result = replace(
        summary.result,
        best=replace(summary.result.best, cost=cost),
        ends=replace(summary.result.ends, lines=("1,000 calls cost $0.30.",), traffic=traffic),
    )
    told = replace(summary, result=result, calls_per_row=calls_per_row)
    assert told.end_lines == ("1,000 calls cost $0.30.", *notes)


def test_a_summary_knows_how_many_requests_a_row_takes(run: RunFolder, tmp_path: Path) -> None:
    folder = copied(run, tmp_path)
    events = folder.events_path.read_text(encoding="utf-8")
    folder.events_path.write_text(
        events.replace('"calls_per_row": 1', '"calls_per_row": 2'), encoding="utf-8"
    )
    assert (read_summary(run).calls_per_row, read_summary(folder).calls_per_row) == (1.0, 2.0)


def test_the_page_says_whose_price_is_missing(summary: RunSummary) -> None:
    spent = {part.role: part for part in summary.spending}
    task = replace(spent["task"], usage=replace(spent["task"].usage, cost_usd=None))
    writer = replace(spent["optimizer"], usage=replace(spent["optimizer"].usage, cost_usd=None))
    unknown = replace(summary, cost_usd=None, spending=(task, writer))
    assert f"The price of {summary.model} is not known. Set it with <code>price_input" in page(unknown)
    of_writer = {**summary.settings, "optimizer_model": "w"}
    unknown = replace(summary, cost_usd=None, spending=(spent["task"], writer), settings=of_writer)
    said = page(unknown)
    assert "The price of w, which wrote the candidates, is not known, so neither is the cost." in said
    assert "<code>price_input" not in said
