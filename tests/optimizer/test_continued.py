"""A finished run that gets more budget continues where its search ended, on the same rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoprompt import Budget, Models, Run, RunConfig, RunResult, optimize, resume
from autoprompt.cli.render import next_steps
from autoprompt.errors import BudgetTooSmallError, ConfigError, Interrupted, StoreError
from autoprompt.llm import Message, ScriptedClient
from autoprompt.report import read_summary
from autoprompt.runs import RunFolder, RunStore

ROWS = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(150)]
LATE = 12  # texts of the writer before one that helps


class Desk:
    """A model that knows the answer once a prompt has the rule, and a writer that finds the rule late."""

    def __init__(self) -> None:
        self.written = 0
        self.stops_after: int | None = None
        self.models = Models(ScriptedClient(self.answer), optimizer=ScriptedClient(self.write))

    def answer(self, messages: list[Message]) -> str:
        if self.stops_after is not None:
            self.stops_after -= 1
            if self.stops_after < 0:
                raise KeyboardInterrupt
        number = int(re.findall(r"item (\d+)", messages[-1].content)[-1])
        return ("A" if number % 2 else "B") if "RULE" in messages[0].content else "A"

    def write(self, messages: list[Message]) -> str:
        self.written += 1
        rule = " RULE" if self.written > LATE else ""
        return f"```\nA or B? Try {self.written}.{rule}\n```"


def run(desk: Desk, folder: Path, **settings: Any) -> RunResult:
    given = {"preset": "quick", "max_demos": 0, "no_memory": True, "no_cache": True, "max_calls": 280}
    config = RunConfig(prompt="A or B?", runs_dir=folder, **{**given, **settings})
    return optimize(config, rows=ROWS, models=desk.models)


def more(desk: Desk, run_id: str, folder: Path, **limits: Any) -> RunResult:
    events: list[dict[str, Any]] = []
    found = resume(
        run_id, runs_dir=folder, models=desk.models, budget=Budget(**limits), on_event=events.append
    )
    assert isinstance(found, RunResult)
    assert {"event": "limits_changed", "limits": limits} in events
    return found


def test_a_finished_run_continues_with_more_budget(tmp_path: Path) -> None:
    desk = Desk()
    first = run(desk, tmp_path)
    assert (first.verdict, first.record.stop_reason) == ("not_confirmed", "max_calls")
    second = more(desk, first.run_id, tmp_path, max_calls=2000)
    assert (second.verdict, second.score) == ("confirmed", 1.0)
    assert second.record.splits.sizes == first.record.splits.sizes
    assert second.record.splits.sha256 == first.record.splits.sha256
    assert len(second.history) > len(first.history)
    # Every request is counted, those of the first ending too, and none was sent twice.
    journal = (second.run_dir / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert second.calls == len(journal) > first.calls
    # The test was opened again: that is counted and said.
    assert second.record.splits.test_opened == 2
    assert "run.test-opened" in [warning.code for warning in second.warnings]
    assert (second.run_dir / "result-1.json").is_file()
    assert yaml.safe_load((second.run_dir / "config.yaml").read_text("utf-8"))["max_calls"] == 2000
    assert resume(first.run_id, runs_dir=tmp_path).to_dict() == second.to_dict()  # type: ignore[union-attr]


def test_a_continued_run_that_is_cut_off_resumes(tmp_path: Path) -> None:
    whole, cut = Desk(), Desk()
    expected = more(whole, run(whole, tmp_path / "a").run_id, tmp_path / "a", max_calls=2000)
    first = run(cut, tmp_path / "b")
    cut.stops_after = 40
    with pytest.raises(Interrupted):
        more(cut, first.run_id, tmp_path / "b", max_calls=2000)
    assert RunStore(tmp_path / "b").list()[0].status == "interrupted"
    cut.stops_after = None
    found = resume(first.run_id, runs_dir=tmp_path / "b", models=cut.models)
    assert isinstance(found, RunResult)
    assert (found.best.prompt, found.score, found.calls) == (
        *(expected.best.prompt, expected.score),
        expected.calls,
    )


def exported(result: RunResult) -> dict[str, Any]:
    """The exported prompt, but for the rows that the run has seen, which become more."""
    found: dict[str, Any] = yaml.safe_load(Run.open(result.run_dir).export())
    del found["run"]["rows_seen"]
    return found


def test_the_earlier_result_is_the_runs_until_its_continuation_has_one(tmp_path: Path) -> None:
    desk = Desk()
    first = run(desk, tmp_path, max_calls=2000)
    assert first.verdict == "confirmed"
    before = read_summary(RunFolder(first.run_dir))
    text = exported(first)

    def stop(event: Mapping[str, Any]) -> None:
        if event["event"] == "node_started":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        resume(
            first.run_id, runs_dir=tmp_path, models=desk.models, budget=Budget(max_calls=4000), on_event=stop
        )
    (line,) = RunStore(tmp_path).list()
    assert (line.status, line.verdict) == ("interrupted", "confirmed")
    assert (line.original, line.best) == (first.original_score, 1.0)
    assert line.calls == first.calls
    kept = Run.open(first.run_dir)
    assert (kept.best.prompt, exported(first)) == (first.best.prompt, text)
    summary = read_summary(kept.folder)
    assert (summary.status, summary.mark, summary.headline) == ("interrupted", before.mark, before.headline)
    assert summary.explanation.startswith(before.explanation)
    assert f"Resume with: autoprompt resume {kept.folder.reference}" in summary.explanation
    assert (summary.best_id, summary.calls, summary.rows) == (before.best_id, line.calls, before.rows)
    # The ending may have proposed the winner; then no checkpoint that the search begins from has its record.
    records = [one for one in kept.folder.read_candidate_records() if one["id"] != summary.best_id]
    kept.folder.rewrite_candidates(records)
    again = Run.open(first.run_dir)
    assert again.best.components == again.candidate("best").components == first.best.components
    found = read_summary(kept.folder).best_candidate
    assert found is not None
    assert (found.id, found.components) == (before.best_id, dict(first.best.components))


def test_an_interrupted_run_gets_a_larger_limit(tmp_path: Path) -> None:
    desk = Desk()
    desk.stops_after = 60
    with pytest.raises(Interrupted):
        run(desk, tmp_path)
    desk.stops_after = None
    found = more(desk, RunStore(tmp_path).open("last").run_id, tmp_path, max_calls=2000)
    assert found.record.stop_reason == "max_iterations"
    assert found.record.splits.sizes == {"train": 60, "val": 34, "test": 34}


def files(folder: Path) -> dict[str, str]:
    """The files of a run that tell what it did and found."""
    names = ("config.yaml", "result.json", "candidates.jsonl")
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


@pytest.mark.parametrize("limit", [{"max_calls": 450}, {"max_tokens": 10}, {"max_seconds": 0.001}])
def test_a_limit_without_room_for_another_ending_is_refused(limit: dict[str, Any], tmp_path: Path) -> None:
    desk = Desk()
    first = run(desk, tmp_path, max_calls=2000)
    assert (first.verdict, first.record.stop_reason) == ("confirmed", "max_iterations")
    before = files(first.run_dir)
    (name,) = limit
    said = rf"^{name}: run .* has used {first.calls} calls; the rest is too little for a round"
    for _ in range(2):
        with pytest.raises(StoreError, match=said):
            resume(first.run_id, runs_dir=tmp_path, models=desk.models, budget=Budget(**limit))
    assert files(first.run_dir) == before
    with pytest.raises(ConfigError, match=r"^no limit is given\. Give max_calls, or another limit\.$"):
        resume(first.run_id, runs_dir=tmp_path, models=desk.models, budget=Budget())


def test_a_limit_that_is_refused_is_not_kept(tmp_path: Path) -> None:
    desk = Desk()
    desk.stops_after = 60
    with pytest.raises(Interrupted):
        run(desk, tmp_path)
    desk.stops_after, run_id = None, RunStore(tmp_path).open("last").run_id
    with pytest.raises(BudgetTooSmallError, match=r"^max_calls: 10 calls are too few"):
        more(desk, run_id, tmp_path, max_calls=10)
    found = resume(run_id, runs_dir=tmp_path, models=desk.models)
    assert isinstance(found, RunResult)
    assert found.verdict == "not_confirmed"


def test_a_search_without_an_error_left_does_not_continue(tmp_path: Path) -> None:
    desk = Desk()
    desk.written = LATE
    first = run(desk, tmp_path, max_calls=2000)
    assert (first.verdict, first.record.stop_reason) == ("confirmed", "no_errors")
    with pytest.raises(StoreError, match=r"did not end at a limit\. Use new rows: `autoprompt run --from "):
        resume(first.run_id, runs_dir=tmp_path, models=desk.models, budget=Budget(max_calls=4000))


def candidates_at_end(result: RunResult) -> dict[str, dict[str, Any]]:
    lines = (result.run_dir / "candidates.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["id"]: record for record in map(json.loads, lines)}


class Halting(Desk):
    """Its rule is wrong on a few rows, so that there are errors left."""

    def answer(self, messages: list[Message]) -> str:
        number = int(re.findall(r"item (\d+)", messages[-1].content)[-1])
        return "B" if number % 6 == 1 else super().answer(messages)


def test_what_the_last_race_found_stays_found(tmp_path: Path) -> None:
    """The last race of a search is run in its final step. Its winner was the best, and stays it."""
    desk = Halting()
    desk.written = LATE  # the first text helps
    first = run(desk, tmp_path, max_calls=300)
    assert (first.verdict, first.record.stop_reason) == ("confirmed", "max_calls")
    before = candidates_at_end(first)
    second = more(desk, first.run_id, tmp_path, max_calls=900)
    assert second.verdict == "confirmed"
    assert second.score is not None
    assert second.score >= (first.score or 0)
    after = candidates_at_end(second)
    for name, record in before.items():
        assert record["scores"].items() <= after[name]["scores"].items()
        assert record["status"] == after[name]["status"]


def test_a_limit_without_room_for_a_round_is_refused_with_one_that_has_it(tmp_path: Path) -> None:
    desk = Desk()
    first = run(desk, tmp_path)
    with pytest.raises(
        StoreError, match=r"too little for a round and the final comparison\. Give max_calls=\d+"
    ) as info:
        more(desk, first.run_id, tmp_path, max_calls=first.calls + 60)
    assert RunFolder(first.run_dir).is_finished
    assert first.record.splits.test_opened == 1
    (problem,) = info.value.problems
    assert problem.settings is not None
    fewest = problem.settings["max_calls"]
    second = more(desk, first.run_id, tmp_path, max_calls=fewest)
    assert second.record.candidates != first.record.candidates


@pytest.mark.parametrize("more_calls", [20, 80, 150])
def test_the_limit_that_is_named_is_the_smallest_whatever_was_given(more_calls: int, tmp_path: Path) -> None:
    desk = Desk()
    first = run(desk, tmp_path, pick="cheapest")
    fewest = smallest_limit(
        desk, first, tmp_path, first.calls + more_calls, "a round and the final comparison"
    )
    assert smallest_limit(desk, first, tmp_path, fewest - 1, "a round and the final comparison") == fewest
    assert more(desk, first.run_id, tmp_path, max_calls=fewest).record.candidates != first.record.candidates


def smallest_limit(desk: Desk, first: RunResult, folder: Path, limit: int, ahead: str) -> int:
    """The limit that the refusal of this one names."""
    with pytest.raises(StoreError, match=rf"the rest is too little for {ahead}\. Give max_calls=") as info:
        more(desk, first.run_id, folder, max_calls=limit)
    (problem,) = info.value.problems
    assert problem.settings is not None
    return int(problem.settings["max_calls"])


class Choosing(Desk):
    """Its writer knows the rule, in many words or in few; in few it is lost on a row in twenty."""

    def answer(self, messages: list[Message]) -> str:
        number = int(re.findall(r"item (\d+)", messages[-1].content)[-1])
        return "B" if "BRIEF" in messages[0].content and number % 20 == 3 else super().answer(messages)

    def write(self, messages: list[Message]) -> str:
        self.written += 1
        return f"```\nA or B? RULE. {'BRIEF' if self.written % 2 else 'word ' * 60}\n```"


def test_a_search_that_is_over_continues_with_the_cheaper_prompt_alone(tmp_path: Path) -> None:
    desk = Choosing()
    first = run(desk, tmp_path, max_calls=225, max_val=34, max_test=34)
    assert (first.record.stop_reason, first.record.ends.reason) == ("no_errors", "no_budget")
    with pytest.raises(StoreError, match=r"Test it: `autoprompt resume .*` with a larger max_calls\."):
        Run.open(first.run_dir).end("cheapest")
    (advised,) = (
        str(line) for line in next_steps(read_summary(RunFolder(first.run_dir))) if "cheaper" in line
    )
    assert re.fullmatch(
        r"To test the cheaper prompt, too: `autoprompt resume \S+ --max-calls 675`\.", advised
    )
    fewest = smallest_limit(desk, first, tmp_path, 240, "the test of its cheaper prompt")
    assert fewest <= 675
    assert smallest_limit(desk, first, tmp_path, fewest - 1, "the test of its cheaper prompt") == fewest
    second = more(desk, first.run_id, tmp_path, max_calls=fewest)
    ends, known = second.record.ends, first.record.validation.confirmation
    assert known is not None
    assert ends.level is not None
    assert (ends.returned, "BRIEF" in second.best.prompt) == ("cheapest", True)
    assert ends.other is not None
    assert (ends.other.id, ends.other.score) == (first.best.id, first.score)
    assert second.calls == first.calls + ends.level.confirmation.fresh.rows + 34
    assert second.record.candidates == first.record.candidates
    assert [one.split for one in second.history] == [one.split for one in first.history]
    assert Run.open(first.run_dir).end("cheapest") == second.best
    with pytest.raises(StoreError, match=r"did not end at a limit"):
        more(desk, first.run_id, tmp_path, max_calls=4000)


def test_the_test_of_a_cheaper_prompt_resumes_when_it_is_cut_off(tmp_path: Path) -> None:
    desk = Choosing()
    first = run(desk, tmp_path, max_calls=225, max_val=34, max_test=34)
    desk.stops_after = 5
    with pytest.raises(Interrupted):
        more(desk, first.run_id, tmp_path, max_calls=500)
    desk.stops_after = None
    found = resume(first.run_id, runs_dir=tmp_path, models=desk.models)
    assert isinstance(found, RunResult)
    assert (found.record.ends.returned, found.record.candidates) == ("cheapest", first.record.candidates)


def test_the_same_limit_again_shows_the_result(tmp_path: Path) -> None:
    desk = Desk()
    first = run(desk, tmp_path)
    second = more(desk, first.run_id, tmp_path, max_calls=2000)
    sent = desk.written
    again = resume(first.run_id, runs_dir=tmp_path, models=desk.models, budget=Budget(max_calls=2000))
    assert isinstance(again, RunResult)
    assert (again.to_dict(), desk.written) == (second.to_dict(), sent)
    third: list[dict[str, Any]] = []
    resume(
        *(first.run_id,),
        runs_dir=tmp_path,
        models=desk.models,
        budget=Budget(max_calls=4000),
        on_event=third.append,
    )
    assert not [e for e in third if "was edited" in str(e)]
