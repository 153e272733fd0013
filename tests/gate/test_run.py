"""`autoprompt.check` from a dataset to a verdict, with a scripted model."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import JUDGED, LABELS, grader, number_of, run_config, target_of, write_rows
from pytest_socket import disable_socket, enable_socket

import autoprompt
from autoprompt import CheckConfig, CheckReport, Models
from autoprompt.errors import (
    BudgetTooSmallError,
    ConfigError,
    DatasetError,
    EmptyAnswersError,
    EndpointError,
    JudgeError,
    PromptError,
    RequestRefusedError,
    StoreError,
    UsageError,
    Voice,
    WithheldError,
    tell,
)
from autoprompt.evaluation.exported import export
from autoprompt.gate import write_baseline
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Options
from autoprompt.records import Candidate, Demo, Message

Answer = Callable[[list[Message], Options], str]


def wrong_on(*numbers: int) -> Answer:
    def answer(messages: list[Message], options: Options) -> str:
        number = number_of(messages)
        target = target_of(number)
        return LABELS[1 - LABELS.index(target)] if number in numbers else target

    return answer


def noisy(share: float, seed: int) -> Answer:
    """Wrong on a share of the answers, anew for each sample."""

    def answer(messages: list[Message], options: Options) -> str:
        number = number_of(messages)
        is_wrong = random.Random(f"{seed} {number} {options.sample}").random() < share
        return wrong_on(number)(messages, options) if is_wrong else target_of(number)

    return answer


class Repository:
    """A checkout with a dataset and a baseline, checked again and again."""

    def __init__(self, folder: Path, rows: int = 40) -> None:
        self.folder = folder
        self.path = folder / "baselines" / "items.json"
        self.path.parent.mkdir()
        self.dataset = write_rows(folder / "items.jsonl", range(rows))
        self.events: list[dict[str, Any]] = []

    def check(
        self, answer: Answer, *, is_update: bool = False, settings: Any = (), **limits: Any
    ) -> CheckReport:
        self.client = ScriptedClient(answer, name=limits.pop("name", "student"), identity="student")
        report = autoprompt.check(
            run_config(self.folder, dataset=self.dataset, **dict(settings)),
            CheckConfig(baseline=self.path, **limits),
            is_update=is_update,
            models=Models(self.client),
            on_event=self.events.append,
        )
        if is_update:
            write_baseline(self.path, report.measurement.as_baseline())
        return report


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_the_same_prompt_passes_and_a_broken_one_fails(repository: Repository) -> None:
    first = repository.check(wrong_on(1), is_update=True)
    assert (first.baseline, first.comparison, first.is_passed) == (None, None, True)
    repository.events.clear()
    settings = {"no_cache": True}
    same = repository.check(wrong_on(1), settings=settings)
    assert same.is_passed
    assert same.notes == ()
    assert [e["done"] for e in repository.events if e["event"] == "rows_evaluated"][-1] == 40
    worse = repository.check(wrong_on(1, *range(20, 26)), settings=settings)
    assert not worse.is_passed
    assert worse.message.startswith("Failed: exact_match fell from 0.975 to 0.825 on 40 cases: 6 broke")
    data = json.loads(json.dumps(worse.to_dict()))
    assert (data["passed"], data["comparison"]["broken"], len(data["cases"])) == (False, 6, 6)
    assert {case["input"] for case in data["cases"]} == {f"item {n}" for n in range(20, 26)}
    assert {case["line"] for case in data["cases"]} == set(range(21, 27))


def test_targets_that_the_metric_cannot_compare_with_are_refused_before_a_call(
    repository: Repository,
) -> None:
    with pytest.raises(DatasetError, match=r"items\.jsonl line 1: the target '[AB]' is no number"):
        repository.check(wrong_on(1), is_update=True, settings={"metric": "numeric"})
    assert repository.client.calls == []


def test_each_repeat_is_another_sample_and_none_comes_from_the_cache(repository: Repository) -> None:
    seen: set[tuple[int, int, int | None]] = set()

    def answer(messages: list[Message], options: Options) -> str:
        seen.add((number_of(messages), options.sample, options.seed))
        return noisy(0.3, 0)(messages, options)

    report = repository.check(answer, is_update=True, repeat=3)
    assert seen == {(n, sample, sample) for n in range(40) for sample in range(3)}
    assert report.measurement.calls == 120
    assert any(len(set(case.found.scores)) == 2 for case in report.measurement.cases)
    stored = json.loads(repository.path.read_text(encoding="utf-8"))
    assert stored["repeats"] == 3
    assert {len(case["scores"]) for case in stored["cases"].values()} == {3}
    # A second check of the same questions is free: the cache has each of the three answers. It says so.
    again = repository.check(answer)
    assert (again.measurement.calls, again.measurement.repeats) == (0, 3)
    assert again.warnings[-1].code == "model.all-cached"
    assert again.measurement.cases == report.measurement.cases


def test_another_number_of_repeats_is_refused_before_anything_is_sent(repository: Repository) -> None:
    repository.check(wrong_on(), is_update=True, repeat=2)
    with pytest.raises(ConfigError, match=r"repeat: expected 2, as .* has 2 answers for each case, found 3"):
        repository.check(wrong_on(), repeat=3)
    assert repository.client.calls == []
    assert repository.check(wrong_on(), repeat=2).is_passed
    assert repository.check(wrong_on(), is_update=True, repeat=3).measurement.repeats == 3


@pytest.mark.parametrize(
    ("limits", "settings", "error", "said"),
    [
        (
            {"must_pass": ("item 99",)},
            {},
            ConfigError,
            "must_pass: 'item 99' is not the id",
        ),
        ({"baseline": None}, {}, UsageError, "no baseline file"),
        ({}, {"prompt": None}, PromptError, "no prompt"),
        ({}, {"max_calls": 39}, BudgetTooSmallError, "max_calls: too small for 40 answers"),
        ({}, {"metric": "contains"}, ConfigError, "scores of exact_match, but the metric is contains"),
        ({"replay": "none.jsonl"}, {}, ConfigError, "none.jsonl: no recording can be read"),
        ({"record": "."}, {}, StoreError, "is a folder"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    repository: Repository,
    limits: dict[str, Any],
    settings: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    repository.check(wrong_on(), is_update=True)
    client = ScriptedClient(wrong_on())
    given = {"baseline": repository.path, **limits}
    with pytest.raises(error, match=said):
        autoprompt.check(
            run_config(repository.folder, dataset=repository.dataset, no_cache=True, **settings),
            CheckConfig(**given),
            models=Models(client),
        )
    assert client.calls == []


def test_a_broken_baseline_stops_a_check_and_not_an_update(
    repository: Repository,
) -> None:
    repository.path.write_text("<<<<<<< HEAD\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="conflict marker"):
        repository.check(wrong_on())
    report = repository.check(wrong_on(), is_update=True)
    assert "no comparison with the baseline" in str(report.warnings[0])
    assert repository.check(wrong_on()).is_passed


def test_rows_that_the_endpoint_failed_are_no_regression(repository: Repository) -> None:
    repository.check(wrong_on(), is_update=True)

    def lossy(*numbers: int) -> Answer:
        def answer(messages: list[Message], options: Options) -> str:
            if number_of(messages) in numbers:
                raise EndpointError("408 from the endpoint", status=400)
            return wrong_on()(messages, options)

        return answer

    settings = {"no_cache": True, "max_calls": 40}  # no call is left for a retry, so no test waits for one
    few = repository.check(lossy(3, 4), settings=settings)
    assert few.is_passed
    assert "2 cases got no answer and are left out" in few.notes[0]
    assert few.to_dict()["unanswered"] == 2
    with pytest.raises(EndpointError, match="5 of 40 cases got no answer"):
        repository.check(lossy(*range(5)), settings=settings)


def test_a_refused_request_is_the_prompts_own_fault(repository: Repository) -> None:
    repository.check(wrong_on(), is_update=True)

    def refuses(messages: list[Message], options: Options) -> str:
        if number_of(messages) < 6:
            raise RequestRefusedError("too long", status=400)
        return wrong_on()(messages, options)

    report = repository.check(refuses, settings={"no_cache": True})
    assert not report.is_passed
    assert report.to_dict()["comparison"]["broken"] == 6
    assert report.changed()[0].case.prediction == "refused: too long"


def test_a_dead_endpoint_is_a_model_error(repository: Repository) -> None:
    repository.check(wrong_on(), is_update=True)

    def dead(messages: list[Message], options: Options) -> str:
        raise EndpointError("gone", is_fatal=True)

    with pytest.raises(EndpointError, match="gone"):
        repository.check(dead, settings={"no_cache": True})


def test_a_judge_that_gives_no_grade_is_said_or_ends_the_check(repository: Repository) -> None:
    def check(mute: Callable[[int], bool]) -> CheckReport:
        judge = ScriptedClient(grader(mute), name="grader")
        config = run_config(repository.folder, dataset=repository.dataset, **JUDGED)
        models = Models(ScriptedClient(wrong_on()), judge=judge)
        return autoprompt.check(config, CheckConfig(baseline=repository.path), is_update=True, models=models)

    assert "judge grader: 4 of 40 answers have no grade" in str(check(lambda n: n < 4).warnings[-1])
    with pytest.raises(JudgeError, match="judge grader: 10 of 10"):
        check(lambda n: True)


def test_a_model_that_says_nothing_ends_the_check(repository: Repository) -> None:
    repository.check(wrong_on(), is_update=True)
    with pytest.raises(EmptyAnswersError, match="the first 10 answers are all empty"):
        repository.check(lambda messages, options: "", settings={"no_cache": True})


def test_another_prompt_model_and_dataset_are_compared_and_said(repository: Repository) -> None:
    repository.check(wrong_on(), is_update=True)
    repository.dataset = write_rows(repository.folder / "more.jsonl", range(10, 60))
    report = repository.check(wrong_on(12), settings={"prompt": "Another prompt."}, name="other")
    said = "\n".join(report.notes)
    assert "the prompt has changed" in said
    assert "the model is other, but the baseline was measured with student" in said
    assert "the check compares 30 common cases, 20 are new, 10 are gone" in said
    assert report.comparison is not None
    assert report.comparison.drop == pytest.approx(1 / 30)


def test_rows_in_another_order_and_file_format_are_the_same_dataset(repository: Repository) -> None:
    first = repository.check(wrong_on(), is_update=True).measurement.dataset
    rows = [json.loads(line) for line in repository.dataset.read_text(encoding="utf-8").splitlines()]
    path = repository.folder / "items.csv"
    path.write_text(
        "extra,input,target\n" + "".join(f"x,{r['input']},{r['target']}\n" for r in rows[::-1]), "utf-8"
    )
    repository.dataset = path
    report = repository.check(wrong_on())
    assert report.notes == ()
    assert report.measurement.dataset.sha256 == first.sha256


def test_a_check_is_recorded_and_replayed_without_any_socket(repository: Repository) -> None:
    path = repository.folder / "answers.jsonl"
    repository.check(noisy(0.2, 1), is_update=True, repeat=2, record=path)
    before = path.read_bytes()
    live = repository.check(noisy(0.2, 2), record=path, settings={"no_cache": True})
    assert path.read_bytes() != before
    disable_socket()
    try:
        # The embedded model is named and not started; no client is given, and none is opened.
        replayed = autoprompt.check(
            run_config(repository.folder, dataset=repository.dataset, model="local", max_calls=1),
            CheckConfig(baseline=repository.path, replay=path),
        )
    finally:
        enable_socket()
    assert replayed.measurement.cases == live.measurement.cases
    assert (replayed.measurement.calls, replayed.measurement.model) == (0, "student")
    assert replayed.is_passed == live.is_passed
    with pytest.raises(ConfigError, match=r"answers\.jsonl: no answer was recorded for"):
        repository.check(wrong_on(), replay=path, settings={"prompt": "Another prompt."})
    assert repository.client.calls == []


def test_a_replay_of_another_model_than_named_is_said(repository: Repository) -> None:
    path = repository.folder / "answers.jsonl"
    repository.check(wrong_on(), is_update=True, record=path)
    settings = {"model": "gpt", "base_url": "http://127.0.0.1:9/v1"}
    report = repository.check(wrong_on(), replay=path, settings=settings)
    said = ["the answers were recorded with student, but the settings name gpt"]
    assert list(map(str, report.warnings)) == said


def test_macro_f1_is_gated_on_all_rows_together(repository: Repository) -> None:
    settings = {"metric": "macro_f1", "no_cache": True}
    repository.check(wrong_on(), is_update=True, settings=settings)
    stored = json.loads(repository.path.read_text(encoding="utf-8"))
    assert all(case["answers"] for case in stored["cases"].values())
    always_a = repository.check(lambda messages, options: "A", settings=settings)
    assert [reason.kind for reason in always_a.reasons] == ["drop"]
    assert always_a.score < 0.5


def test_an_export_brings_the_field_of_its_input(repository: Repository) -> None:
    path = repository.folder / "best.yaml"
    path.write_text(export(Candidate({"prompt": "Look."}), "yaml", input_field="item"), encoding="utf-8")
    rows = [{"item": f"item {n}", "target": target_of(n)} for n in range(40)]
    repository.dataset.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert repository.check(wrong_on(), is_update=True, exported=path).score == 1.0
    with pytest.raises(DatasetError, match="no field 'text'"):
        repository.check(wrong_on(), exported=path, settings={"input_field": "text"})


def test_a_warm_model_asked_once_is_warned_of(repository: Repository) -> None:
    report = repository.check(wrong_on(), is_update=True, settings={"temperature": 0.7})
    assert report.warnings[0].code == "check.noise"
    assert "--repeat 3" in tell(report.warnings[0], Voice.CLI)


def test_a_prompt_with_demonstrations_is_checked_as_it_was_exported(repository: Repository) -> None:
    demos = tuple(Demo(f"item {n}", target_of(n)) for n in (100, 101, 3))
    path = repository.folder / "best.yaml"
    path.write_text(export(Candidate({"prompt": "@ Look closely: yes\nno"}, demos), "yaml"), encoding="utf-8")

    def needs_demos(messages: list[Message], options: Options) -> str:
        return wrong_on(*(range(40) if len(messages) < 8 else ()))(messages, options)

    # No other prompt is needed, and none is looked at.
    with_demos = repository.check(needs_demos, is_update=True, exported=path, settings={"prompt": None})
    assert with_demos.score == 1.0
    assert repository.client.calls[0][0].content == "@ Look closely: yes\nno"
    assert [warning.code for warning in with_demos.warnings] == ["prompt.rows-shown"]
    without = repository.check(
        needs_demos, settings={"prompt": "\n@ Look closely: yes\nno", "no_cache": True}
    )
    assert not without.is_passed
    assert "the prompt has changed" in without.notes[0]


def test_a_demonstration_that_shows_no_label_is_warned_of(repository: Repository) -> None:
    path = repository.folder / "best.yaml"
    shown = Candidate({"prompt": "Look."}, (Demo("item 100", "A"), Demo("item 101", "perhaps")))
    path.write_text(export(shown, "yaml", labels=["A", "B"]), encoding="utf-8")
    found = repository.check(wrong_on(), is_update=True, exported=path, settings={"prompt": None})
    assert list(map(str, found.warnings)) == [
        "1 of the prompt's demonstrations shows an answer that is not a label (A, B): 'perhaps'. "
        "Correct it, or add it to labels."
    ]


def test_an_export_of_several_prompts_or_of_something_else_is_refused(repository: Repository) -> None:
    path = repository.folder / "best.yaml"
    path.write_text(export(Candidate({"look": "a", "answer": "b"}), "yaml"), encoding="utf-8")
    with pytest.raises(
        ConfigError,
        match=r"best\.yaml: expected one prompt, found the prompts of a workflow \(look, answer\)",
    ):
        repository.check(wrong_on(), is_update=True, exported=path)
    path.write_text("prompt: x\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"best\.yaml line 1: .*components"):
        repository.check(wrong_on(), is_update=True, exported=path)
    assert repository.client.calls == []


def test_an_export_brings_its_labels_unless_others_are_given(repository: Repository) -> None:
    path = repository.folder / "best.yaml"
    only_a = [n for n in range(60) if target_of(n) == "A"]
    repository.dataset = write_rows(repository.folder / "a.jsonl", only_a)

    def exported(kept: list[str] | None, **settings: Any) -> tuple[str, ...]:
        asked: list[Options] = []

        def answer(messages: list[Message], options: Options) -> str:
            asked.append(options)
            return target_of(number_of(messages))

        path.write_text(export(Candidate({"prompt": "Look."}), "yaml", labels=kept), encoding="utf-8")
        repository.check(answer, is_update=True, exported=path, settings={"no_cache": True, **settings})
        return asked[0].labels

    assert exported(["A", "B", "C"]) == ("A", "B", "C")
    assert exported(["A", "B"], labels=("A", "D")) == ("A", "D")
    assert exported([]) == ()
    with pytest.raises(DatasetError, match=r"'A' is none of the labels of .*best\.yaml: 'B', 'C'\. Correct"):
        exported(["B", "C"])
    with pytest.raises(DatasetError, match="expected at least two labels"):
        exported(None)  # it names none


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (None, "model.answers-unread"),
        (WithheldError("taken by a filter", status=400), "model.answers-withheld"),
        (RequestRefusedError("too long", status=400), "model.requests-rejected"),
    ],
)
def test_a_check_warns_of_answers_as_an_evaluation_does(
    repository: Repository, fault: Exception | None, code: str
) -> None:
    def mostly(messages: list[Message], options: Options) -> str:
        if number_of(messages) % 4 == 0:
            return wrong_on()(messages, options)
        if fault is not None:
            raise fault
        return "who knows"

    report = repository.check(mostly, is_update=True)
    config = run_config(repository.folder, dataset=repository.dataset)
    evaluated = autoprompt.evaluate(config, models=Models(repository.client))
    told = {warning.code: warning.said for warning in evaluated.warnings}
    assert {warning.code: warning.said for warning in report.warnings}[code] == told[code]
