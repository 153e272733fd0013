"""A kind of task that nobody has heard of: a run asks it nothing beyond the protocol."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fakes import TwoSteps, run_config, two_steps_student, writer

from autoprompt import Models, RunConfig, estimate, evaluate, optimize, resume
from autoprompt.errors import Place, Problem, StoreError
from autoprompt.evaluation import exported, scoring
from autoprompt.evaluation import task as evaluation_task
from autoprompt.evaluation.exported import export_run
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Client, Completion, Options
from autoprompt.measure.task import Component
from autoprompt.metrics import Metric
from autoprompt.optimizer import prepare as preparing
from autoprompt.records import Candidate, Example, Message
from autoprompt.report.html import page
from autoprompt.report.summary import read_summary
from autoprompt.runs import RunFolder, RunStore

PACKAGE = Path(evaluation_task.__file__).parents[1]
FIND, JUDGE = "find.system", "judge.system"
SOURCE = "pipeline.json"


@dataclass(frozen=True)
class PipelineForm:
    """The source with a candidate's texts."""

    name: str = "pipeline"
    endings: tuple[str, ...] = ("",)

    def write(self, folder: RunFolder, candidate: Candidate) -> str:
        original = json.loads((folder.path / SOURCE).read_text(encoding="utf-8"))
        return json.dumps({**original, **candidate.components})

    def notes(self, folder: RunFolder, candidate: Candidate) -> list[str]:
        return []


@dataclass(frozen=True)
class PipelineTask:
    """Two calls to a model that a program makes, one after the other; the judge's text stays as it is."""

    texts: Mapping[str, str] = field(
        default_factory=lambda: {FIND: "Find the mark.", JUDGE: "Give the label of the mark."}
    )
    rows: int = 0

    calls_per_row = 2
    input_fields: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def components(self) -> tuple[Component, ...]:
        return tuple(Component(name, "instruction", text, name == JUDGE) for name, text in self.texts.items())

    @property
    def digest(self) -> str:
        return json.dumps(dict(self.texts))

    def fitted(self, rows: Sequence[Example]) -> PipelineTask:
        return replace(self, rows=len(rows))

    def warnings(self, rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
        return [Problem("pipeline.seen", f"the pipeline was fitted to {self.rows} rows")]

    def check_search(self) -> list[Problem]:
        return []

    def repeated_text(self, fields: Sequence[str]) -> str:
        return ""

    def program(
        self,
        client: Client,
        metric: Metric,
        *,
        labels: tuple[str, ...],
        rows: Sequence[Example],
        folder: RunFolder | None = None,
    ) -> TwoSteps:
        return TwoSteps(client, self.texts)

    def write_original(self, folder: RunFolder, rows: Sequence[Example]) -> None:
        if not (folder.path / SOURCE).exists():
            folder.write_text(SOURCE, json.dumps(dict(self.texts)))

    def check_unchanged(self, folder: RunFolder) -> None:
        kept = folder.path / SOURCE
        if kept.exists() and json.loads(kept.read_text(encoding="utf-8")) != self.texts:
            raise StoreError(Problem("pipeline.changed", "the pipeline has changed", Place(kept)))

    def check_writable(self, candidate: Candidate) -> None:
        """JSON holds any text."""

    def write_best(self, folder: RunFolder, best: Candidate) -> None:
        folder.write_text("best_pipeline.json", PipelineForm().write(folder, best))


class Killed(BaseException):
    """As if the process had been killed."""


@dataclass
class FakeModels:
    """The world of `TwoSteps` and its writer; the `die_at`-th call never returns."""

    die_at: int = -1
    sent: int = 0

    def _answer(self, messages: list[Message], options: Options) -> Completion:
        self.sent += 1
        if self.sent == self.die_at:
            raise Killed
        if options.role == "task":
            return two_steps_student(messages, options)
        if "<current>" in messages[-1].content:
            return writer(messages, options)
        return Completion(f"[{FIND}] The mark follows a rule.")

    @property
    def given(self) -> Models:
        return Models(ScriptedClient(self._answer), ScriptedClient(self._answer))


@pytest.fixture(autouse=True)
def kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the kind where a real one is named: what the settings open, and the form of its source."""

    def open_task(config: RunConfig, candidate: Candidate | None = None, **_: object) -> PipelineTask:
        return PipelineTask()

    for module in (preparing, scoring):
        monkeypatch.setattr(module, "open_task", open_task)
    monkeypatch.setattr(evaluation_task, "source_form", lambda settings: PipelineForm())


def config_of(folder: Path) -> RunConfig:
    folder.mkdir(exist_ok=True)
    return run_config(
        folder, rows=160, prompt=None, labels=("A", "B"), no_cache=True, max_iterations=3, no_memory=True
    )


def only_run(folder: Path) -> RunFolder:
    (path,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    return RunStore(folder / "runs").open(path.name)


def test_it_is_optimized_tested_reported_exported_and_scored(tmp_path: Path) -> None:
    config, models = config_of(tmp_path), FakeModels()
    foretold = estimate(config, models=models.given)
    assert "the pipeline was fitted to 160 rows." in map(str, foretold.warnings)
    found = optimize(config, models=models.given)
    data, folder = found.to_dict(), only_run(tmp_path)
    assert data["verdict"] == "confirmed"
    assert set(found.best.changed_since(found.original)) == {FIND}
    assert data["best"]["score"] > data["original"]["score"] + 0.1
    rows = [*folder.read_predictions("test-best")]
    assert {tuple(step["node"] for step in row["trace"]) for row in rows} == {("find", "judge")}
    best = json.loads((folder.path / "best_pipeline.json").read_text(encoding="utf-8"))
    assert best == dict(found.best.components)
    assert json.loads(export_run(folder, "pipeline")) == best
    made = page(read_summary(folder))
    assert FIND in made
    assert "Mind the rule." in found.best.components[FIND]
    assert "Mind the rule." in made
    scored = evaluate(config, candidate=found.best, against=found.original, models=models.given)
    assert scored.compared is not None
    assert scored.compared.gain > 0.1


def test_it_is_resumed_where_it_was_killed_and_not_if_its_source_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = FakeModels()
    expected = optimize(config_of(tmp_path / "whole"), models=whole.given)
    models = FakeModels(die_at=whole.sent // 2)
    with pytest.raises(Killed):
        optimize(config_of(tmp_path / "killed"), models=models.given)
    folder = only_run(tmp_path / "killed")
    with monkeypatch.context() as edited:
        changed = PipelineTask({FIND: "Look.", JUDGE: "Give the label of the mark."})
        edited.setattr(preparing, "open_task", lambda config, candidate=None, **_: changed)
        with pytest.raises(StoreError, match="the pipeline has changed"):
            resume(folder.run_id, runs_dir=folder.path.parent, models=models.given)
    found = resume(folder.run_id, runs_dir=folder.path.parent, models=models.given)
    assert models.sent == whole.sent + 1  # the call that never returned
    assert (found.best, found.to_dict()["best"]) == (expected.best, expected.to_dict()["best"])


def test_only_two_functions_know_which_kinds_there_are() -> None:
    """`workflow` of the settings is read by them, and the kinds are named by nobody else."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        if ".workflow" not in text and "Task" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            reads_setting = isinstance(node, ast.Attribute) and node.attr == "workflow"
            names_kind = isinstance(node, ast.Name) and node.id in (
                "PromptTask",
                "WorkflowTask",
                "ProgramTask",
            )
            if reads_setting or names_kind:
                found.add(module)
    # The last two resume a workflow's own run, and show it.
    own = ("workflow/", "programs/", "cli/resume.py", "cli/flow.py")
    assert {module for module in found if not module.startswith(own)} == {"evaluation/task.py"}
    assert exported.EXPORT_FORMATS == ("text", "yaml", "langchain", "openai")  # "workflow" is of its kind
