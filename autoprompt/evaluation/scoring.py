"""Scoring a prompt on rows as they are, alone or beside another one: the whole of `autoprompt eval`."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt.brief import brief_of, card
from autoprompt.dataset.python_rows import Rows, to_frame, with_rows
from autoprompt.errors import BudgetExhausted, ConfigError, Place, Problem, PromptError, UsageError
from autoprompt.evaluation.checks import (
    demo_warnings,
    given_rows,
    searched_warnings,
)
from autoprompt.evaluation.exported import Exported, read_one_prompt
from autoprompt.evaluation.task import CheckedRows, check_rows, given_program, open_task, row_calls
from autoprompt.llm.adapter import Models, check_own_models
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels, open_models
from autoprompt.measure.baselines import NO_BASELINES, find_baselines
from autoprompt.measure.compare import ComparedRows, compare_rows, score_rows
from autoprompt.measure.problems import (
    ALL_CACHED,
    MOST_LOST,
    answer_warnings,
    first_error,
    refusal_warnings,
)
from autoprompt.measure.program import COMPONENT
from autoprompt.measure.rows import EmptyAnswers, RowTally, evaluate_jobs, raise_if_all_failed
from autoprompt.measure.task import answering_of, model_of, texts_of
from autoprompt.metrics import Metric, run_metric
from autoprompt.metrics.judge import Grades
from autoprompt.records import (
    Candidate,
    EvaluatedRow,
    Evaluation,
    OnEvent,
    Origin,
    Usage,
    plain,
    warning_event,
)
from autoprompt.runs.result import Baselines
from autoprompt.settings.arguments import listener
from autoprompt.settings.kinds import EMPTY_PROMPT
from autoprompt.settings.places import all_placed
from autoprompt.settings.prompt_file import is_export, prompt_text
from autoprompt.settings.records import RunConfig
from autoprompt.settings.resolve import CompleteConfig, completed, with_known_fields, with_known_labels
from autoprompt.stats import Interval, count_groups
from autoprompt.text.names import counted, listed

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """A prompt's score on a whole dataset.

    Attributes:
        evaluation: Every row with its answer, in the order of the dataset.
        score: By the metric, in [0, 1].
        interval: 95% interval of the score.
        usage: Tokens and cost of all calls.
        calls: Requests, repeats after faults included.
        seconds: Duration.
        concurrency: Requests at once that `auto` settled on; None for a fixed number.
        metric: Its name.
        model: Name of the task model.
        warnings: About dropped rows, the prompt, the model and answers without a grade.
        against: Another prompt on the same rows; None without one.
        compared: The two prompts, paired, the other one as `old`; None if no row was answered by both.
        baselines: What needs no model, on the same rows: `most_frequent`, the most frequent answer, and
            `nearest`, for each row a vote of the rows with the most words in common. None: it was not scored.

    Examples:
        >>> from autoprompt import Models, RunConfig, evaluate
        >>> from autoprompt.llm import ScriptedClient
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> report = evaluate(RunConfig(prompt="A or B?"), rows=rows, models=models)
        >>> report.score, report.n, report.evaluation.rows[0].prediction
        (0.5, 60, 'A')
    """

    evaluation: Evaluation
    score: float
    interval: Interval
    usage: Usage
    calls: int
    seconds: float
    concurrency: int | None
    metric: str
    model: str
    warnings: tuple[Problem, ...] = ()
    against: Evaluation | None = None
    compared: ComparedRows | None = None
    baselines: Baselines = field(default_factory=lambda: NO_BASELINES)

    def __repr__(self) -> str:
        names = ("score", "interval", "n", "metric", "model", "calls", "cost_usd", "compared")
        return brief_of(self, ((name, getattr(self, name)) for name in names))

    def _repr_html_(self) -> str:
        return card(self)

    @property
    def n(self) -> int:
        """How many rows were scored."""
        return len(self.evaluation.rows)

    @property
    def groups(self) -> int:
        """In how many groups the rows are, a row alone being one: as many count for the interval, or more."""
        return count_groups([row.group for row in self.evaluation.rows])

    @property
    def unparsed(self) -> int:
        """Rows whose answer could not be read; they score 0."""
        return sum(row.is_unread for row in self.evaluation.rows)

    @property
    def unscored(self) -> int:
        """Rows that a judge gave no grade; they score 0."""
        return sum(row.is_unscored for row in self.evaluation.rows)

    @property
    def failed(self) -> int:
        """Rows without an answer; they score 0."""
        return sum(row.has_failed for row in self.evaluation.rows)

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all calls; None if a price is not known."""
        return self.usage.cost_usd

    def to_dict(self) -> dict[str, Any]:
        """Return the summary and all rows, plain data."""
        return {
            "metric": self.metric,
            "model": self.model,
            "score": self.score,
            "ci95": list(self.interval),
            "n": self.n,
            "groups": self.groups,
            "unparsed": self.unparsed,
            "unscored": self.unscored,
            "failed": self.failed,
            "calls": self.calls,
            **asdict(self.usage),
            "seconds": round(self.seconds, 3),
            "concurrency": self.concurrency,
            "warnings": [warning.to_dict() for warning in self.warnings],
            "baselines": {name: one and plain(one) for name, one in self.baselines.items()},
            "rows": [row.to_dict() for row in self.evaluation.rows],
            "against": self._against(),
        }

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each row of the dataset.

        Columns: id, input, expected, answer, score, is_correct, reason, error; with `against` also
        against_answer and against_score.

        Raises:
            ConfigError: pandas is not installed.
        """
        others = {} if self.against is None else {row.example_id: row for row in self.against.rows}
        return to_frame(
            {
                "id": row.example_id,
                "input": row.input,
                "expected": row.ground_truth,
                "answer": row.prediction,
                "score": row.score,
                "is_correct": row.is_correct,
                "reason": row.reason,
                "error": row.error,
            }
            | _beside(others.get(row.example_id))
            for row in self.evaluation.rows
        )

    def _against(self) -> dict[str, Any] | None:
        if self.against is None:
            return None
        rows, found = [row.to_dict() for row in self.against.rows], self.compared
        if found is None:
            return {"score": None, "rows": rows}
        old = {"score": found.old.score, "ci95": list(found.old.interval)}
        return {**old, **found.to_dict(), "rows": rows}


def _beside(row: EvaluatedRow | None) -> dict[str, Any]:
    return {} if row is None else {"against_answer": row.prediction, "against_score": row.score}


def evaluate(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    candidate: Candidate | Exported | str | None = None,
    against: Candidate | Exported | str | None = None,
    program: object | None = None,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> EvaluationReport:
    """Score a prompt on every row of a dataset, as `autoprompt eval` does. Nothing is optimized.

    The rows are checked as for a run, and each input is scored once. A score proves something only on rows
    that the prompt was not made from: a warning says how many rows the run of a candidate has seen.

    Args:
        config: The prompt and the settings. If they name no labels or fields, those of the run or the export
            that `candidate` (else `against`) comes from are used.
        rows: As in `optimize`, but of one part, and they are not kept.
        candidate: A prompt to score instead of `config.prompt`: `result.best`, an `Exported`, a text or
            "@FILE".
        against: Another prompt. It is asked about the same rows, and `compared` of the report is the paired
            test of the two.
        program: As in `optimize`.
        models: As in `optimize`.
        on_event: As in `optimize`.

    Returns:
        The score with its interval, and every row with its answer.

    Raises:
        AutopromptError: As in `optimize`.
        BudgetExhausted: A limit ends the evaluation before the last row.

    Examples:
        >>> from autoprompt import Models, RunConfig, evaluate
        >>> from autoprompt.llm import ScriptedClient
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> evaluate(RunConfig(prompt="A or B?"), rows=rows, models=models).score
        0.5
    """
    check_own_models(models)
    emit = listener(on_event)
    with (
        given_program(config, program) as config,
        prepared(config, rows, candidate, against, emit) as asked,
    ):
        return _evaluate(asked, models, emit)


@contextmanager
def prepared(
    config: RunConfig,
    rows: Rows | None,
    candidate: object,
    against: object,
    emit: OnEvent = lambda _: None,
) -> Iterator[Prepared]:
    """Yield what `evaluate` with these arguments is to ask, checked."""
    asked, other = _as_candidate(candidate, "candidate"), _as_candidate(against, "against")
    plain = given_rows(config, rows)
    with with_rows(config, plain) as config, completed(config) as config:
        yield _prepare(config, asked, other, emit)


def _as_candidate(prompt: object, source: str) -> Candidate | None:
    """Return a prompt as a candidate. Raises ConfigError for anything else, or what `other_prompt` does."""
    if isinstance(prompt, str):
        if names_candidate(prompt):
            said = f"expected a prompt, found the name of a candidate: {prompt!r}"
            fix = f"Give it as Run.open(RUN).candidate({prompt!r})."
            raise ConfigError(Problem("prompt.candidate-name", said, Place(setting=source), fix))
        return other_prompt(prompt, Place(setting=source))
    if prompt is None or isinstance(prompt, Candidate):
        return prompt
    if isinstance(prompt, Exported):
        return prompt.candidate
    said = f"expected a prompt, @FILE, a Candidate or an Exported, found {prompt!r:.80}"
    raise ConfigError(Problem("prompt.not-a-prompt", said, Place(setting=source)))


def names_candidate(text: str) -> bool:
    """Return whether a text may name a candidate: `best`, `original`, or the beginning of an id."""
    return re.fullmatch(r"original|best|(?=.*\d)[0-9a-f]{4,12}", text) is not None


def other_prompt(prompt: str, place: Place) -> Candidate:
    """Return the prompt to compare with: a text, `@` and a file with one, or an export with demonstrations.

    place: What it came from. Raises PromptError for a file that will not do, UsageError for an empty text.
    """
    if prompt.startswith("@") and is_export(path := Path(prompt[1:]).expanduser()):
        return read_one_prompt(path).candidate
    try:
        text = prompt_text(prompt, Path(), place)
    except PromptError as error:
        if [problem.code for problem in error.problems] != ["prompt.workflow"]:
            raise
        said = f"{prompt[1:]} is a workflow, and two workflow files cannot be compared"
        fix = "Score each with {workflow}, or compare candidates of one run with {from} and {against}."
        settings = {"workflow": None, "from": "<RUN>", "against": "original"}
        raise PromptError(Problem("prompt.other-workflow", said, place, fix, settings)) from error
    if not text.strip():
        raise UsageError(EMPTY_PROMPT.at(place))
    return Candidate(components={COMPONENT: text})


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be asked, checked: the settings, complete, the rows, and one or two candidates."""

    config: CompleteConfig
    checked: CheckedRows
    candidates: tuple[Candidate, ...]


def _prepare(
    config: CompleteConfig, candidate: Candidate | None, against: Candidate | None, emit: OnEvent
) -> Prepared:
    """Everything that can be refused before anything is sent; see `evaluate`."""
    origins = [one.origin for one in (candidate, against) if one is not None and one.origin is not None]
    config, labels_of, said = _as_known(config, origins)
    if config.dataset is None:
        fix, settings = "Give {dataset}, or `rows` in Python.", {"dataset": "<FILE>"}
        problem = Problem("dataset.none", "no dataset", fix=fix, settings=settings)
        raise ConfigError(problem)
    checked = check_rows(config, config.dataset, open_task(config, candidate), labels_of=labels_of, emit=emit)
    known = texts_of(checked.task)
    if candidate is not None:
        check_components(candidate, known, "candidate")
    asked = candidate or Candidate(components=known)
    said += demo_warnings(checked.task, asked, checked.examples, checked.labels, config)
    if against is not None:
        check_components(against, known, "against")
        said += demo_warnings(checked.task, against, checked.examples, checked.labels, config)
        said += open_task(config, against).warnings({config.dataset: checked.examples})
    candidates = (asked,) if against is None else (asked, against)
    said += searched_warnings(candidates, checked.examples)
    checked = replace(checked, warnings=all_placed(dict.fromkeys([*checked.warnings, *said]), config))
    return Prepared(config, checked, candidates)


def check_components(candidate: Candidate, known: Mapping[str, str], source: str) -> None:
    """Raise ConfigError for a candidate with texts that what is scored does not have."""
    if unknown := candidate.components.keys() - known.keys():
        raise ConfigError(
            f"{source} has a prompt for {listed(sorted(unknown))}, but the settings have {listed([*known])}. "
            "Give a candidate of the same prompt or workflow."
        )


def _evaluate(prepared: Prepared, models: Models | None, emit: OnEvent) -> EvaluationReport:
    config, checked = prepared.config, prepared.checked
    budget = BudgetMeter(config.max_calls, config.max_tokens, config.max_cost, config.max_seconds)
    budget.charge_earlier(checked.spent)
    for warning in checked.warnings:
        emit(warning_event(warning))
    with open_models(config, models, budget, None, emit) as opened:
        return _report(config, checked, prepared.candidates, opened, budget, emit)


def _as_known(config: CompleteConfig, origins: Sequence[Origin]) -> tuple[CompleteConfig, str, list[Problem]]:
    """Return the settings with the labels and the fields that runs or exports know, where the user has none.

    origins: of the candidate, then of the other. Returns also whose labels they are, "" for the user's own,
    and a warning where the other knows other labels. Raises ConfigError where both know a field and not the
    same one: one of the prompts would be asked about the wrong text, or held to the wrong answer.
    """
    inputs = {origin.input_field: origin.name for origin in origins if origin.input_field is not None}
    targets = {origin.target_field: origin.name for origin in origins if origin.target_field is not None}
    for what, fields in (("input", inputs), ("target", targets)):
        if len(fields) > 1 and f"{what}_field" not in config.model_fields_set:
            named = " and ".join(f"{field!r} in {name}" for field, name in fields.items())
            raise ConfigError(f"the {what} field is {named}. Give the one of your rows as {what}_field.")
    config = with_known_fields(config, next(iter(inputs), None), next(iter(targets), None))
    known = [(origin.labels, origin.name) for origin in origins if origin.labels is not None]
    if config.labels is not None or not known:
        return config, "", []
    (labels, name), (theirs, other) = known[0], known[-1]
    config, labels_of = with_known_labels(config, labels, name)
    if set(labels) == set(theirs):
        return config, labels_of, []
    ours, others = (listed(found) or "free answers" for found in (labels, theirs))
    said = f"both prompts are scored with the labels of {name}: {ours}; {other} has {others}"
    fix = "Give {labels} to use others."
    return config, labels_of, [Problem("prompt.other-labels", said, fix=fix, settings={"labels": "<A,B>"})]


def _many_lost(rows: Sequence[EvaluatedRow]) -> Problem | None:
    """Warn if so many rows got no answer that a score says little of the prompt."""
    lost = [row for row in rows if row.is_lost]
    if len(lost) <= MOST_LOST * len(rows):
        return None
    failed = f"{len(lost)} of {counted(len(rows), 'row')} failed"
    said = f"{failed} and count as wrong; {first_error(lost)}"
    return Problem("model.rows-failed", said)


def _ask(
    config: RunConfig,
    checked: CheckedRows,
    candidates: Sequence[Candidate],
    models: RoleModels,
    budget: BudgetMeter,
    emit: OnEvent,
    metric: Metric,
) -> tuple[list[Evaluation], list[Problem]]:
    """Return the evaluations and warnings.

    Raises EmptyAnswersError and JudgeError where they say nothing, and where one side's rows all failed.
    """
    rows, total = checked.examples, len(checked.examples) * len(candidates)
    grades, answers = Grades.of(metric), EmptyAnswers()
    tally = RowTally(emit, budget, "rows", total, answers=answers, grades=grades)
    program = checked.task.program(models.client("task"), metric, labels=checked.labels, rows=rows)
    try:
        with budget.block(math.ceil(total * row_calls(config, checked.task))):
            evaluations = evaluate_jobs(
                program,
                [(candidate, rows) for candidate in candidates],
                metric,
                concurrency=models.concurrency(),
                on_row=tally.add,
                grant=budget.retries,
            )
    except BudgetExhausted as error:
        error.calls = budget.spent.calls
        raise
    for evaluation in evaluations:
        raise_if_all_failed(evaluation.rows, program)
    answers.check()
    grades.check()
    answered = [row for evaluation in evaluations for row in evaluation.rows]
    is_cached = bool(budget.cached_answers) and not budget.spent.task_calls
    found = [ALL_CACHED if is_cached else None, grades.warning, _many_lost(answered)]
    labels = () if answering_of(checked.task) is None else checked.labels
    late = [
        *models.warnings(),
        *budget.exceeded(),
        *filter(None, found),
        *refusal_warnings(answered),
    ]
    late += answer_warnings(answered, metric, labels, models.constrain("task"))
    return evaluations, [*all_placed(late, config)]


def _report(
    config: RunConfig,
    checked: CheckedRows,
    candidates: Sequence[Candidate],
    models: RoleModels,
    budget: BudgetMeter,
    emit: OnEvent,
) -> EvaluationReport:
    """Ask about every row once for each of one or two candidates; the first is scored."""
    started = time.monotonic()
    client, metric = (
        models.client("task"),
        run_metric(config, checked.labels, models.client, checked.examples),
    )
    (evaluation, *others), late = _ask(config, checked, candidates, models, budget, emit, metric)
    for warning in late:
        emit(warning_event(warning))
    spent = budget.spent
    scored = score_rows(evaluation.rows, metric)
    against = others[0] if others else None
    return EvaluationReport(
        evaluation=evaluation,
        score=scored.score,
        interval=scored.interval,
        usage=spent.usage,
        calls=spent.calls,
        seconds=time.monotonic() - started,
        concurrency=models.settled_on(),
        metric=config.metric,
        model=model_of(checked.task, client),
        warnings=(*checked.warnings, *late),
        against=against,
        compared=None if against is None else compare_rows(evaluation.rows, against.rows, metric),
        baselines=find_baselines(checked.examples, checked.examples, evaluation.rows, metric),
    )
