"""Runs that are killed, stopped or capped: the result of undisturbed ones, and nothing is asked twice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from batches import dying, reply
from fake_endpoint import Reply, error, fake_endpoint
from fakes import JUDGED, PROMPT, World, grader, run_config, target_of, write_rows, writer

from autoprompt import Models, RunConfig, RunResult, optimize, resume
from autoprompt.errors import (
    AuthenticationError,
    BudgetTooSmallError,
    ConfigError,
    EmptyAnswersError,
    Interrupted,
    JudgeError,
    StoreError,
    UsageError,
)
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.kept.journal import Journal
from autoprompt.memory import ExperienceFile
from autoprompt.optimizer import api, session
from autoprompt.optimizer.prepare import prepare
from autoprompt.optimizer.search.plan import FEWEST_ROWS
from autoprompt.records import Message, Usage
from autoprompt.runs import RunFolder, RunStore

WORLD = World(base=0.2, rule_gain=0.5, demo_gain=0.3)
OWN = ("run_id", "run_dir", "seconds")  # of one run, not of its search


class Killed(BaseException):
    """As if the process had been killed here: nothing catches it."""


@dataclass
class FakeModels:
    """Student and writer that count what they answered; the `die_at`-th call never returns."""

    world: World = WORLD
    die_at: int = -1
    error: BaseException = field(default_factory=Killed)
    sent: int = 0
    answered: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    def _call(
        self,
        answer: Callable[[list[Message], Options], Completion],
        messages: list[Message],
        options: Options,
    ) -> Completion:
        self.sent += 1
        if self.sent == self.die_at:
            raise self.error
        # How long an answer may be follows what is known of the model at the moment.
        self.answered[(tuple(messages), replace(options, max_output_tokens=None))] += 1
        return answer(messages, options)

    @property
    def given(self) -> Models:
        def student(messages: list[Message], options: Options) -> Completion:
            return self._call(self.world.student, messages, options)

        def author(messages: list[Message], options: Options) -> Completion:
            return self._call(writer, messages, options)

        return Models(ScriptedClient(student), ScriptedClient(author))


def config_of(folder: Path, **changes: Any) -> RunConfig:
    # No cache: what a resumed run does not ask again, it must have from its journal.
    return run_config(
        folder, **{"rows": 110, "no_cache": True, "max_calls": 600, "max_iterations": 3, **changes}
    )


def only_run(folder: Path) -> str:
    (run,) = [path.name for path in (folder / "runs").iterdir() if path.is_dir()]
    return run


def outcome(folder: Path, result: RunResult) -> dict[str, Any]:
    """All that a run leaves behind which must not depend on how often it was killed."""
    data = {name: value for name, value in result.to_dict().items() if name not in OWN}
    run = RunStore(folder / "runs").open(only_run(folder))
    stored = json.loads(run.result_path.read_text(encoding="utf-8"))
    assert {name: value for name, value in stored.items() if name not in OWN} == data
    lessons = [
        (e.change, e.operator, e.before, e.after, e.rows, e.verdict)
        for e in ExperienceFile(folder / "memory.txt").load()
    ]
    return {
        "result": data,
        "best_prompt": run.best_prompt_path.read_text(encoding="utf-8"),
        "candidates": {i: {**c, "step": 0} for i, c in run.read_candidates().items()},
        "lessons": lessons,
        "predictions": {p.name: p.read_text(encoding="utf-8") for p in run.predictions_dir.iterdir()},
    }


@dataclass
class Undisturbed:
    outcome: dict[str, Any]
    models: FakeModels
    events: list[str]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder, models, events = tmp_path_factory.mktemp("undisturbed"), FakeModels(), []
    result = optimize(config_of(folder), models=models.given, on_event=lambda e: events.append(e["event"]))
    assert result.to_dict()["candidates"]["tried"] > 5
    assert not result.to_dict()["best"]["is_original"]
    assert max(models.answered.values()) == 1
    return Undisturbed(outcome(folder, result), models, events)


def kill_run(
    folder: Path, models: FakeModels, on_event: Callable[[dict[str, Any]], None] | None = None
) -> FakeModels:
    """Begin a run that is killed on its way; its models, as they are then."""
    with pytest.raises(Killed):
        optimize(config_of(folder), models=models.given, on_event=on_event)
    return models


def check_resumed(folder: Path, models: FakeModels, expected: Undisturbed, *, unanswered: int = 0) -> None:
    """Resume until the end: the result is the undisturbed one, and each request was answered once."""
    models.die_at = -1
    result = resume(only_run(folder), runs_dir=folder / "runs", models=models.given)
    assert outcome(folder, result) == expected.outcome
    assert models.answered == expected.models.answered
    assert models.sent == expected.models.sent + unanswered


def test_the_time_before_a_kill_counts(tmp_path: Path) -> None:
    """Up to the last answer, and not up to the last step that had ended."""
    models = kill_run(tmp_path, FakeModels(die_at=60))
    journal = RunStore(tmp_path / "runs").open(only_run(tmp_path)).journal_path
    *before, last = journal.read_text(encoding="utf-8").splitlines()
    record = {**json.loads(last), "run_s": 1000.0}
    journal.write_text(
        "\n".join([*before, json.dumps(record, separators=(",", ":"))]) + "\n", encoding="utf-8"
    )
    result = resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)
    assert 1000 < result.to_dict()["seconds"] < 1100


@pytest.mark.parametrize("place", range(12))
def test_killed_in_a_call_and_resumed(place: int, tmp_path: Path, undisturbed: Undisturbed) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=1 + place * (undisturbed.models.sent - 1) // 11))
    check_resumed(tmp_path, models, undisturbed, unanswered=1)


NODES = 13  # predict, analyze, rewrite, memory in each of three rounds, and final_predict
KINDS = (
    "run_started",
    "analysis",
    "candidate_proposed",
    "rung_ended",
    "candidate_settled",
    "best_changed",
    "lesson",
    "confirmation",
)


@pytest.mark.parametrize(
    ("kind", "number"),
    [("node_started", n) for n in range(1, NODES + 1)] + [(kind, 1) for kind in KINDS],
)
def test_killed_at_each_node_and_resumed(
    kind: str, number: int, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    """Every node begins with an event, and what a node does shows in its events."""
    assert undisturbed.events.count("node_started") == NODES
    seen = 0

    def die(event: dict[str, Any]) -> None:
        nonlocal seen
        seen += event["event"] == kind
        if event["event"] == kind and seen == number:
            raise Killed

    models = kill_run(tmp_path, FakeModels(), on_event=die)
    check_resumed(tmp_path, models, undisturbed)


@contextmanager
def dying_in(owner: Any, name: str, number: int = 1, *, is_done: bool = False) -> Iterator[None]:
    """The `number`-th call of this function ends the process: as it begins, or when it is done."""
    original, seen = getattr(owner, name), 0

    def dying(*args: Any, **named: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == number and not is_done:
            raise Killed
        found = original(*args, **named)
        if seen == number:
            raise Killed
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, dying)
        yield


@pytest.mark.parametrize("number", range(2, NODES + 2))
def test_killed_between_a_nodes_writes_and_its_checkpoint_and_resumed(
    number: int, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    """A full disk, or a kill at the wrong moment: what the node returned is stored, no state after it."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with dying_in(SqliteSaver, "put", number):
        models = kill_run(tmp_path, FakeModels())
    check_resumed(tmp_path, models, undisturbed)


def test_a_run_with_its_own_clients_goes_on_with_no_others(tmp_path: Path) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=5))
    with pytest.raises(StoreError, match="began with models given in Python"):
        resume(only_run(tmp_path), runs_dir=tmp_path / "runs")
    models.die_at = -1
    resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)
    # What it found is to be read without them.
    assert resume(only_run(tmp_path), runs_dir=tmp_path / "runs").verdict


def test_a_run_with_the_models_of_its_settings_goes_on_with_no_others(tmp_path: Path) -> None:
    folder = RunStore(tmp_path / "runs").create({}, kind="optimize", name="r")
    for _ in range(2):
        folder.note_models(are_own=False)
    with pytest.raises(StoreError, match="began with the models from its settings"):
        folder.note_models(are_own=True)


WRITES = [
    *(("append_candidates", n) for n in (1, 2, 5, 13)),
    *(("write_predictions", n) for n in (1, 3, 5)),
    *(("write_text", n) for n in (1, 2)),
    ("write_result", 1),
]


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "number"), WRITES)
def test_killed_in_a_write_and_resumed(
    name: str, number: int, is_done: bool, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    with dying_in(RunFolder, name, number, is_done=is_done):
        models = kill_run(tmp_path, FakeModels())
    check_resumed(tmp_path, models, undisturbed)


def test_killed_while_lessons_are_recorded_and_resumed(tmp_path: Path, undisturbed: Undisturbed) -> None:
    with dying_in(ExperienceFile, "record", is_done=True):
        models = kill_run(tmp_path, FakeModels())
    check_resumed(tmp_path, models, undisturbed)


def test_killed_when_its_opening_of_the_test_was_counted_and_resumed(
    tmp_path: Path, undisturbed: Undisturbed
) -> None:
    """Else it would be said of a test that was opened once that two runs have seen it."""
    with dying_in(session, "record_opening", is_done=True):
        models = kill_run(tmp_path, FakeModels())
    check_resumed(tmp_path, models, undisturbed)


def test_a_listing_reads_of_a_long_journal_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    kill_run(tmp_path, FakeModels(die_at=200))
    journal = RunStore(tmp_path / "runs").open(only_run(tmp_path)).journal_path
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([b"#" * (len(line) - 1) + b"\n" for line in lines[:100]] + lines[100:]))
    (line,) = RunStore(tmp_path / "runs").list()
    assert line.calls == sum(json.loads(text)["attempts"] for text in lines) == 199


def test_killed_again_and_again(tmp_path: Path, undisturbed: Undisturbed) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=60))
    kills = 1
    while True:
        models.die_at = models.sent + 60
        try:
            result = resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)
        except Killed:
            kills += 1
            continue
        break
    assert kills > 5
    assert outcome(tmp_path, result) == undisturbed.outcome
    assert models.answered == undisturbed.models.answered
    assert models.sent == undisturbed.models.sent + kills


def test_what_was_written_after_the_checkpoint_is_gone_for_good(
    tmp_path: Path, undisturbed: Undisturbed
) -> None:
    """Else a second resume, whose steps have come further, would take it for its own."""
    models = kill_run(tmp_path, FakeModels(die_at=200))
    run = RunStore(tmp_path / "runs").open(only_run(tmp_path))
    last = list(run.read_candidate_records())[-1]
    run.append_candidates([{**last, "id": "feedfeedfeed", "step": last["step"] + NODES}])
    models.die_at = models.sent + 150
    with pytest.raises(Killed):
        resume(run.run_id, runs_dir=tmp_path / "runs", models=models.given)
    assert "feedfeedfeed" not in run.read_candidates()
    check_resumed(tmp_path, models, undisturbed, unanswered=2)


def test_the_journal_is_on_the_disk_before_a_checkpoint_names_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    original = Journal.checkpoint

    def noting(self: Journal) -> None:
        original(self)
        synced.append(self.position)

    monkeypatch.setattr(Journal, "checkpoint", noting)
    models = FakeModels()
    optimize(config_of(tmp_path), models=models.given)
    assert len(synced) == NODES
    assert synced[-1] == models.sent


def test_a_journal_that_lost_its_end_is_asked_again(tmp_path: Path) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=200))
    path = tmp_path / "runs" / only_run(tmp_path) / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]))
    models.die_at = -1
    assert resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given).message
    assert max(models.answered.values()) == 2


def test_several_requests_at_once_change_nothing(tmp_path: Path, undisturbed: Undisturbed) -> None:
    models = FakeModels()
    result = optimize(config_of(tmp_path, concurrency=8), models=models.given)
    assert outcome(tmp_path, result) == undisturbed.outcome


@pytest.mark.parametrize(
    "cap",
    [{"max_calls": 260}, {"max_calls": 300}, {"max_calls": 420}, {"max_tokens": 30_000}],
    ids=lambda cap: "-".join(f"{name}-{value}" for name, value in cap.items()),
)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_capped_run_meets_its_cap_at_the_same_place_after_a_kill(
    cap: dict[str, int], share: float, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    models, dataset = FakeModels(), data(tmp_path)
    expected = outcome(whole, optimize(config_of(whole, dataset=dataset, **cap), models=models.given))
    killed = FakeModels(die_at=int(models.sent * share))
    with pytest.raises(Killed):
        optimize(config_of(broken, dataset=dataset, **cap), models=killed.given)
    check_resumed(broken, killed, Undisturbed(expected, models, []), unanswered=1)


def judged_by(mute: Callable[[int], bool], models: FakeModels) -> Models:
    models = models.given
    return Models(models.task, models.optimizer, ScriptedClient(grader(mute), name="grader"))


def test_a_run_says_what_its_judge_gave_no_grade_and_so_does_a_resumed_one(tmp_path: Path) -> None:
    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        folder.mkdir()
    configs = [config_of(folder, max_iterations=1, **JUDGED) for folder in folders]
    events: list[dict[str, Any]] = []
    models = FakeModels()
    whole = optimize(configs[0], models=judged_by(lambda n: n % 7 == 0, models), on_event=events.append)
    (warning,) = (w for w in whole.to_dict()["warnings"] if w["message"].startswith("judge grader: "))
    assert "the judge replied 'I would rather not say.'" in warning["message"]
    assert sum(e["event"] == "warning" and "judge grader: " in e["message"] for e in events) == 1
    assert whole.to_dict()["original"]["unscored"] > 0

    killed = FakeModels(die_at=models.sent - 3)
    with pytest.raises(Killed):
        optimize(configs[1], models=judged_by(lambda n: n % 7 == 0, killed))
    killed.die_at = -1
    models = judged_by(lambda n: n % 7 == 0, killed)
    result = resume(only_run(folders[1]), runs_dir=folders[1] / "runs", models=models)
    assert warning in result.to_dict()["warnings"]


def test_a_cap_on_tokens_counts_the_judges(tmp_path: Path) -> None:
    def judged(cap: int) -> RunResult:
        models, grade = FakeModels(), grader(lambda _: False)
        judge = ScriptedClient(lambda m, o: replace(grade(m, o), usage=Usage(150, 5)), name="grader")
        models = Models(models.given.task, models.given.optimizer, judge)
        return optimize(config_of(tmp_path, **JUDGED, max_tokens=cap), models=models)

    with pytest.raises(BudgetTooSmallError) as refused:
        judged(1000)
    (least,) = re.findall(r"Give max_tokens=(\d+)", str(refused.value))
    cap = int(1.2 * int(least))
    result = judged(cap).to_dict()
    assert result["stop_reason"] == "max_tokens"
    assert result["original"]["n"] == result["best"]["n"] == 33
    assert sum(result["tokens"].values()) <= cap
    assert result["tokens"]["judge"] == result["spending"]["judge"]["prompt_tokens"] * 31 // 30


def test_a_run_whose_judge_grades_hardly_anything_ends_with_its_name(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    with pytest.raises(JudgeError, match=r"judge grader: .*'I would rather not say\.'"):
        optimize(
            config_of(tmp_path, **JUDGED),
            models=judged_by(lambda n: True, FakeModels()),
            on_event=events.append,
        )
    assert (
        events[-1]["message"] == f"stopped; the answers so far are saved. Resume with: {resume_of(tmp_path)}"
    )


def resume_of(folder: Path) -> str:
    return f"autoprompt resume {RunStore(folder / 'runs').open(only_run(folder)).reference}"


@dataclass
class Warming:
    """A judge that gives no grade from its `ill_at`-th call on, until it is well."""

    ill_at: int
    is_well: bool = False
    sent: int = 0

    def given(self, models: FakeModels) -> Models:
        grade = grader(lambda _: False)

        def reply(messages: list[Message], options: Options) -> Completion:
            self.sent += 1
            if self.sent >= self.ill_at and not self.is_well:
                return Completion("service warming up", Usage(50, 3))
            return models._call(grade, messages, options)

        return Models(models.given.task, models.given.optimizer, ScriptedClient(reply, name="grader"))


def ended_by_its_judge(folder: Path, ill_at: int, **caps: Any) -> tuple[FakeModels, Warming]:
    folder.mkdir()
    models, judge = FakeModels(), Warming(ill_at)
    with pytest.raises(JudgeError, match="service warming up"):
        optimize(config_of(folder, **{"max_iterations": 2, **JUDGED, **caps}), models=judge.given(models))
    judge.is_well = True
    return models, judge


@pytest.mark.parametrize(
    ("ill_at", "caps"),  # nothing graded; some of the first look; all of it
    [(1, {}), (7, {}), (18, {}), (18, {"max_calls": 420}), (1, {"max_calls": None})],
)
def test_a_run_that_its_judge_ended_goes_on_when_the_judge_is_well(
    ill_at: int, caps: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "whole"
    models, judge = ended_by_its_judge(folder, ill_at, **caps)
    before = models.sent
    result = resume(only_run(folder), runs_dir=folder / "runs", models=judge.given(models))
    expected = outcome(folder, result)
    found = result.to_dict()
    assert found["original"]["unscored"] == found["best"]["unscored"] == 0
    assert found["spending"]["judge"]["calls"] == judge.sent
    assert sum(part["calls"] for part in found["spending"].values()) <= (caps.get("max_calls", 600) or 9999)
    assert max(models.answered.values()) == 1  # no grade, and no row, was asked for twice

    for die_at in (before + 3, models.sent - 50):
        broken = tmp_path / f"killed {die_at}"
        killed, judge = ended_by_its_judge(broken, ill_at, **caps)
        killed.die_at = die_at
        with pytest.raises(Killed):
            resume(only_run(broken), runs_dir=broken / "runs", models=judge.given(killed))
        killed.die_at = -1
        result = resume(only_run(broken), runs_dir=broken / "runs", models=judge.given(killed))
        assert outcome(broken, result) == expected
        assert killed.answered == models.answered


def test_a_run_that_its_judge_ended_twice_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    models, judge = ended_by_its_judge(folder, 1)
    judge.is_well = False
    with pytest.raises(JudgeError, match="service warming up"):
        resume(only_run(folder), runs_dir=folder / "runs", models=judge.given(models))
    judge.is_well = True
    result = resume(only_run(folder), runs_dir=folder / "runs", models=judge.given(models))
    assert result.to_dict()["spending"]["judge"]["calls"] == judge.sent


def data(folder: Path) -> Path:
    path = folder / "items.jsonl"
    return path if path.exists() else write_rows(path, range(110))


def smallest_cap(folder: Path, **changes: Any) -> int:
    with pytest.raises(BudgetTooSmallError) as error:
        optimize(config_of(folder, max_calls=1, **changes), models=FakeModels().given)
    return int(re.split(r"max_calls=|--max-calls ", str(error.value))[-1].split()[0].rstrip(".,;)"))


@pytest.mark.parametrize("extra", [0, 1, 5, 20, 60, 150, 400])
def test_max_calls_is_never_exceeded_and_a_stopped_run_reports_its_best(extra: int, tmp_path: Path) -> None:
    cap = smallest_cap(tmp_path) + extra
    assert not (tmp_path / "runs").exists()
    models = FakeModels()
    result = optimize(config_of(tmp_path, max_calls=cap), models=models.given).to_dict()
    assert models.sent <= cap
    assert result["calls"] == models.sent
    assert result["candidates"]["tried"] >= 2
    assert result["verdict"] in ("confirmed", "not_confirmed")  # the final test was kept back
    assert result["original"]["n"] == result["best"]["n"] == result["splits"]["sizes"]["test"] >= FEWEST_ROWS


@pytest.mark.parametrize("extra", [0, 7, 40, 150])
def test_a_model_that_mumbles_cannot_eat_the_final_test(extra: int, tmp_path: Path) -> None:
    """Unreadable answers are asked for again; what is kept back for the verdict is not spent on that."""
    times = 0

    def student(messages: list[Message], options: Options) -> Completion:
        nonlocal times
        times += 1
        if int(messages[-1].content.split()[-1]) % 3 == 0:
            return Completion(f"hm {times}", Usage(20, 1))
        return WORLD.student(messages, options)

    sent = smallest_cap(tmp_path) + extra
    result = optimize(
        config_of(tmp_path, max_calls=sent), models=Models(ScriptedClient(student), ScriptedClient(writer))
    ).to_dict()
    assert result["calls"] <= sent
    assert result["verdict"] in ("confirmed", "not_confirmed")
    assert result["original"]["n"] == result["splits"]["sizes"]["test"] >= FEWEST_ROWS
    assert result["original"]["unparsed"] > 0


@pytest.mark.parametrize("cap", [8_000, 9_000, 15_000, 40_000])
def test_max_tokens_ends_the_search_with_its_best(cap: int, tmp_path: Path) -> None:
    models = FakeModels()
    result = optimize(config_of(tmp_path, max_tokens=cap), models=models.given).to_dict()
    spent = sum(result["tokens"].values())
    assert spent <= cap + 500  # what was on the wire: one call of the writer
    assert result["stop_reason"] in ("max_tokens", "patience", "max_iterations", "max_calls", "no_errors")
    if cap == 4_000:
        assert result["stop_reason"] == "max_tokens"
        assert result["best"]["is_original"]


@pytest.mark.parametrize("cap", [30_000, 40_000, 60_000])
def test_what_a_long_winner_needs_for_its_test_is_kept_back(cap: int, tmp_path: Path) -> None:
    """Demonstrations make the winner 8 times as dear as the original: the search must stop in time."""
    result = optimize(config_of(tmp_path, max_tokens=cap), models=FakeModels().given).to_dict()
    assert not result["best"]["is_original"]
    assert result["verdict"] == "confirmed"
    assert result["best"]["n"] == result["original"]["n"] == 33


def test_max_seconds_ends_the_search_with_its_best(tmp_path: Path) -> None:
    def slow(messages: list[Message], options: Options) -> Completion:
        time.sleep(0.002)
        return WORLD.student(messages, options)

    result = optimize(
        config_of(tmp_path, max_seconds=0.3), models=Models(ScriptedClient(slow), ScriptedClient(writer))
    ).to_dict()
    assert result["stop_reason"] == "max_seconds"
    assert result["message"]


def test_ctrl_c_is_interrupted_with_the_way_back(tmp_path: Path, undisturbed: Undisturbed) -> None:
    models = FakeModels(die_at=100, error=KeyboardInterrupt())
    with pytest.raises(Interrupted, match="autoprompt resume") as error:
        optimize(config_of(tmp_path), models=models.given)
    assert only_run(tmp_path) in str(error.value)
    assert error.value.exit_code == 130
    check_resumed(tmp_path, models, undisturbed, unanswered=1)


def test_a_dataset_that_changed_is_refused_with_both_hashes(tmp_path: Path) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=100))
    write_rows(tmp_path / "items.jsonl", range(1, 111))
    with pytest.raises(StoreError, match=r"(?s)items\.jsonl: this file changed.*[0-9a-f]{64}.*[0-9a-f]{64}"):
        resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)
    assert models.sent == 100


@pytest.mark.parametrize("die_at", [1, 100])
def test_a_dataset_whose_columns_changed_is_refused_as_changed(tmp_path: Path, die_at: int) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=die_at))
    dataset = tmp_path / "items.jsonl"
    kept = dataset.read_text(encoding="utf-8")
    dataset.write_text(kept.replace('"target"', '"label"'), encoding="utf-8")
    with pytest.raises(
        StoreError, match=r"items\.jsonl: this file changed since run .*Put the old file back"
    ):
        resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)
    dataset.unlink()
    with pytest.raises(StoreError, match=r"Copy the same file back\."):
        resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)


def moved_run(folder: Path, models: FakeModels) -> Path:
    """The folder of the runs of `kill_run` after a move to another place, without their dataset."""
    kill_run(folder / "here", models)
    there = folder / "there" / "runs"
    there.parent.mkdir()
    (folder / "here" / "runs").rename(there)
    return there


@pytest.mark.parametrize("name", ["", "elsewhere"])
def test_a_run_that_was_moved_finds_its_dataset_beside_the_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / "here").mkdir()
    models = FakeModels(die_at=100)
    runs_dir = moved_run(tmp_path, models)
    dataset = tmp_path / "here" / "items.jsonl"
    if name:  # the one where it was is another by now
        (tmp_path / "there" / "items.jsonl").write_bytes(dataset.read_bytes())
        write_rows(dataset, range(1, 111))
    else:
        dataset.rename(tmp_path / "there" / "items.jsonl")
    (run,) = [path.name for path in runs_dir.iterdir() if path.is_dir()]
    assert resume(run, runs_dir=runs_dir, models=models.given).best.id


def test_a_run_whose_dataset_is_nowhere_says_which_run_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    models = FakeModels(die_at=100)
    runs_dir = moved_run(tmp_path, models)
    dataset, beside = tmp_path / "here" / "items.jsonl", tmp_path / "there" / "items.jsonl"
    dataset.unlink()
    write_rows(beside, range(1, 111))  # the name alone is nothing
    (run,) = [path.name for path in runs_dir.iterdir() if path.is_dir()]
    said = rf"{dataset}: no such file, but run {run} began with it \(sha256 [0-9a-f]{{64}}\).*or to {beside}"
    with pytest.raises(StoreError, match=said):
        resume(run, runs_dir=runs_dir, models=models.given)
    assert models.sent == 100


def test_a_run_of_rows_in_memory_goes_on_where_its_runs_were_copied_to(tmp_path: Path) -> None:
    models, (here, there) = FakeModels(die_at=100), (tmp_path / "here", tmp_path / "there")
    config = config_of(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text(encoding="utf-8").splitlines()]
    given = config.model_copy(update={"dataset": None, "runs_dir": here / "runs"})
    with pytest.raises(Killed):
        optimize(given, rows=rows, models=models.given)
    shutil.copytree(here, there)
    shutil.rmtree(here)
    (run,) = [
        path.name for path in (there / "runs").iterdir() if not path.name.startswith(".") and path.is_dir()
    ]
    assert resume(run, runs_dir=there / "runs", models=models.given).best.id


def test_what_a_copied_run_learns_goes_into_the_copied_memory(tmp_path: Path) -> None:
    models, (here, there) = FakeModels(die_at=100), (tmp_path / "here", tmp_path / "there")
    here.mkdir()
    memory = ExperienceFile(here / "memory.txt")
    memory.path.write_text("", encoding="utf-8")
    with pytest.raises(Killed):
        optimize(config_of(here, memory_file=memory.path, no_memory=False), models=models.given)
    shutil.copytree(here, there)
    assert resume(only_run(there), runs_dir=there / "runs", models=models.given).best.id
    assert memory.path.read_text(encoding="utf-8") == ""
    assert (there / "memory.txt").read_text(encoding="utf-8")


_METRIC = "def m(prediction, target):\n    return float(prediction == target)\n"


def kill_run_of_metric(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> tuple[Path, FakeModels]:
    """A run that is killed, by a metric of its own; the metric's file, and the run's models."""
    path = folder / f"{module}.py"
    path.write_text(_METRIC, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    models = FakeModels(die_at=100)
    with pytest.raises(Killed):
        optimize(config_of(folder, metric=f"python:{module}:m"), models=models.given)
    return path, models


def test_a_metric_that_was_edited_is_refused_until_it_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, models = kill_run_of_metric(tmp_path, monkeypatch, "metric_edited")
    path.write_text(f"{_METRIC}# kinder\n", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "metric_edited")  # as in another process: this one has the old code
    said = (
        r"python:metric_edited:m changed since.*"
        r"metric_edited\.py \(sha256 was [0-9a-f]{64}, now [0-9a-f]{64}\)"
    )
    with pytest.raises(StoreError, match=rf"{said}\. Put the old code back, or start a new run\.$"):
        resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)
    assert models.sent == 100
    path.write_text(_METRIC, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "metric_edited")
    assert resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given).best.id


def test_an_option_of_the_metric_that_is_not_kept_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed with `***` in its place, the metric would score otherwise, without a word."""
    code = "def m(prediction, target, *, judge='', api_key=''):\n    return float(prediction == target)\n"
    (tmp_path / "metric_of_options.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    models = FakeModels(die_at=100)
    options = {"judge": "hf-internal-testing/tiny", "api_key": "never kept"}
    with pytest.raises(Killed):
        optimize(
            config_of(tmp_path, metric="python:metric_of_options:m", metric_options=options),
            models=models.given,
        )
    run = RunStore(tmp_path / "runs").open(only_run(tmp_path))
    with pytest.raises(StoreError, match=r"\(judge\), because it looked like a key.* into .*config\.yaml"):
        resume(run.path, models=models.given)
    kept = run.config_path.read_text(encoding="utf-8")
    assert "judge: '***/tiny'" in kept
    run.config_path.write_text(kept.replace("'***/tiny'", "hf-internal-testing/tiny"), encoding="utf-8")
    assert resume(run.path, models=models.given).best.id


def test_a_run_of_a_version_that_kept_no_metric_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, models = kill_run_of_metric(tmp_path, monkeypatch, "metric_not_kept")
    (tmp_path / "runs" / only_run(tmp_path) / "inputs.json").unlink()
    path.write_text(f"{_METRIC}# kinder\n", encoding="utf-8")
    assert resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given).best.id


def test_a_run_whose_address_held_a_password_goes_on_once_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def mortal(body: dict[str, Any]) -> Reply:
        asked.append(json.dumps(body["messages"]))
        return error(401, "no") if len(asked) == 30 else reply(body)

    with fake_endpoint(mortal) as endpoint:
        address = endpoint.base_url.replace("://", "://team:hunter22@")
        config = config_of(tmp_path, model="m", base_url=address, max_calls=200, constrain="off")
        with pytest.raises(AuthenticationError):
            optimize(config)
        run, runs_dir = only_run(tmp_path), tmp_path / "runs"
        with pytest.raises(UsageError, match="does not keep the password or key"):
            resume(run, runs_dir=runs_dir)
        monkeypatch.setenv("AUTOPROMPT_BASE_URL", address)
        assert resume(run, runs_dir=runs_dir).best.id
    assert not set(asked[:29]) & set(asked[30:])  # the address is in the key of each answer
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter22" not in kept


def test_a_resumed_run_whose_model_said_nothing_asks_it_anew(tmp_path: Path) -> None:
    mute = dying(10, Killed(), lambda _: "")
    with pytest.raises(Killed):
        optimize(config_of(tmp_path), models=Models(ScriptedClient(mute)))
    runs_dir = tmp_path / "runs"
    events: list[dict[str, Any]] = []
    with pytest.raises(EmptyAnswersError):
        resume(
            only_run(tmp_path),
            runs_dir=runs_dir,
            models=Models(ScriptedClient(mute)),
            on_event=events.append,
        )
    assert "Resume with" in events[-1]["message"]
    assert resume(only_run(tmp_path), runs_dir=runs_dir, models=FakeModels().given).best.id


def test_rows_that_another_version_puts_elsewhere_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=100))
    monkeypatch.setattr("autoprompt.dataset.splits._SHARES", {"train": 50, "val": 20, "test": 30})
    monkeypatch.setattr("autoprompt.dataset.splits._ENOUGH_VAL", 1)
    with pytest.raises(StoreError, match=r"this version of autoprompt splits .*items\.jsonl differently"):
        resume(only_run(tmp_path), runs_dir=tmp_path / "runs", models=models.given)
    assert models.sent == 100


def write_pairs(folder: Path) -> None:
    """The dataset of `config_of`, in which the rows n and n + 1 have one owner."""
    folder.mkdir()
    rows = [{"input": f"item {n}", "target": target_of(n), "owner": f"o{n // 2}"} for n in range(110)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "items.jsonl").write_text(lines, encoding="utf-8")


def test_a_run_of_groups_is_resumed_with_its_groups(tmp_path: Path) -> None:
    for name in ("undisturbed", "killed"):
        write_pairs(tmp_path / name)
    folder, models = tmp_path / "undisturbed", FakeModels()
    result = optimize(config_of(folder, group_field="owner"), models=models.given)
    raced = result.to_dict()["validation"]["confirmation"]["raced"]
    assert raced["groups"] < raced["rows"]
    expected = Undisturbed(outcome(folder, result), models, [])
    folder, again = tmp_path / "killed", FakeModels(die_at=models.sent // 2)
    with pytest.raises(Killed):
        optimize(config_of(folder, group_field="owner"), models=again.given)
    check_resumed(folder, again, expected, unanswered=1)


def test_a_run_that_knew_no_groups_is_not_resumed_with_some(tmp_path: Path) -> None:
    """Which of its rows are fresh depends on the groups."""
    write_pairs(tmp_path / "older")
    config, models = config_of(tmp_path / "older", group_field="owner"), FakeModels(die_at=100)
    with pytest.MonkeyPatch.context() as older:
        older.setattr("autoprompt.dataset.splits.Splits.group_counts", {})
        with pytest.raises(Killed):
            optimize(config, models=models.given)
    with pytest.raises(StoreError, match="start a new run"):
        resume(only_run(tmp_path / "older"), runs_dir=tmp_path / "older" / "runs", models=models.given)


def test_a_finished_run_is_returned_and_nothing_is_sent(tmp_path: Path) -> None:
    result = optimize(config_of(tmp_path), models=FakeModels().given)
    (tmp_path / "items.jsonl").unlink()
    models = FakeModels()
    again = resume(result.run_id, runs_dir=tmp_path / "runs", models=models.given)
    assert again.to_dict() == result.to_dict()
    assert (again.best, again.original) == (result.best, result.original)
    assert models.sent == 0


def test_a_run_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    models = kill_run(tmp_path, FakeModels(die_at=50))
    run = only_run(tmp_path)
    program = (
        "import sys; from pathlib import Path; from autoprompt.runs.folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).lock(): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "runs" / run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"held by process {holder.pid}"):
            resume(run, runs_dir=tmp_path / "runs", models=models.given)
        holder.communicate("")
    models.die_at = -1
    assert resume(run, runs_dir=tmp_path / "runs", models=models.given).message


def test_a_cap_on_cost_that_cannot_fire_is_refused_and_nothing_is_sent(tmp_path: Path) -> None:
    config = config_of(tmp_path, max_cost=1.0, model="nobodys-model", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match=r"the price of nobodys-model is unknown. Give price_input"):
        optimize(config)


def checkpoint_bytes(folder: Path, n: int) -> int:
    folder.mkdir()
    dataset = write_rows(folder / "items.jsonl", range(n))
    config = config_of(folder, dataset=dataset, preset="standard", max_iterations=2, max_val=60, max_test=60)
    models, biggest = FakeModels(), 0
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    original = JsonPlusSerializer.dumps_typed

    def measuring(self: JsonPlusSerializer, obj: Any) -> tuple[str, bytes]:
        nonlocal biggest
        kind, data = original(self, obj)
        if isinstance(obj, dict) and "channel_values" in obj:
            assert_plain(obj["channel_values"])
            biggest = max(biggest, len(data))
        return kind, data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonPlusSerializer, "dumps_typed", measuring)
        optimize(config, models=models.given)
    assert biggest > 1000
    return biggest


def assert_plain(value: Any) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            assert isinstance(name, str)
            assert_plain(item)
    elif type(value) is list:
        for item in value:
            assert_plain(item)
    else:
        assert value is None or type(value) in (str, int, float, bool), type(value)


def test_the_state_is_plain_and_does_not_grow_with_the_dataset(tmp_path: Path) -> None:
    small, large = checkpoint_bytes(tmp_path / "small", 200), checkpoint_bytes(tmp_path / "large", 20_000)
    # The texts of a few rows and of the prompts differ, and longer numbers take more digits.
    assert abs(large - small) < 3_000


def test_targets_are_as_the_fakes_say() -> None:
    assert {target_of(n) for n in range(7)} == {"A", "B"}
    assert PROMPT


def test_a_search_that_writes_nothing_asks_for_no_analysis_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Scripted models in the place of the embedded one.
    monkeypatch.setattr(api, "prepare", lambda config, **_: prepare(config))
    models = FakeModels()
    result = optimize(config_of(tmp_path, preset="standard"), models=models.given)
    assert {options.role for _, options in models.answered} == {"task"}
    run = RunStore(tmp_path / "runs").open(only_run(tmp_path))
    assert not result.to_dict()["best"]["is_original"]
    operators = {candidate["operator"] for candidate in run.read_candidates().values()}
    assert operators.isdisjoint({"rewrite", "patch", "describe"})
    told = [json.loads(line) for line in run.events_path.read_text(encoding="utf-8").splitlines()]
    analyses = [event["suggestions"] for event in told if event["event"] == "analysis"]
    assert analyses[0].startswith("- expected '")


def test_a_candidate_costs_the_same_in_all_files_of_a_run_whose_rates_moved(tmp_path: Path) -> None:
    """A machine that gets slower and slower: what a token took on average changes with each answer."""
    sent = 0

    def slower(messages: list[Message], options: Options) -> Completion:
        nonlocal sent
        sent += 1
        answer = WORLD.student(messages, options)
        return replace(answer, usage=replace(answer.usage, read_s=0.01 * sent))

    models = Models(ScriptedClient(slower), ScriptedClient(writer))
    found = optimize(config_of(tmp_path), models=models).to_dict()
    kept = RunStore(tmp_path / "runs").open(only_run(tmp_path)).read_candidates()
    shown = {choice["id"]: choice["cost"]["amount"] for choice in found["trade_off"]["candidates"]}
    assert len(shown) > 1
    shown[found["best"]["id"]] = found["best"]["cost"]["amount"]
    shown[next(iter(kept))] = found["original"]["cost"]["amount"]
    assert {i: kept[i]["cost"] for i in shown} == {
        i: {"amount": amount, "unit": "seconds"} for i, amount in shown.items()
    }
    # And of one that dropped out early a token costs what it costs of the others.
    rates = [
        c["cost"]["amount"] * c["measured"]["rows"] / c["measured"]["prompt_tokens"]
        for c in kept.values()
        if c["measured"]["rows"]
    ]
    assert rates == pytest.approx([rates[0]] * len(rates))
