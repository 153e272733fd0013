"""What autoprompt writes for other programs, field by field; the reference has it as JSON schemas.

A file that autoprompt reads again, such as a baseline, has a record of its own, which is used instead.
`tests/cli/test_file_formats.py` holds all of them to what commands write.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from autoprompt import records
from autoprompt.batch.table import Group, Row
from autoprompt.errors import Problem
from autoprompt.evaluation import estimate
from autoprompt.evaluation.exported import ExportFile
from autoprompt.gate.comparison import Reason, Test
from autoprompt.gate.measurement import Baseline, DatasetFacts
from autoprompt.gate.report import CaseState
from autoprompt.llm import endpoints
from autoprompt.llm.prices import Cost
from autoprompt.measure.task import ComponentKind
from autoprompt.optimizer.forecast import Estimate
from autoprompt.programs.export import ProgramFile
from autoprompt.programs.placing import Placed
from autoprompt.programs.probe import Site
from autoprompt.records import Demo, EvaluatedRow, Message, Role, Step, ToolCall, Usage
from autoprompt.runs import result
from autoprompt.runs.listing import RunLine

Interval = Annotated[tuple[float, float], Field(description="Low and high end of a 95% interval.")]


class Format(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, protected_namespaces=())


AnyFormat = TypeVar("AnyFormat", bound=Format)
Share = Annotated[float, Field(ge=0, le=1)]
Mean = Annotated[float, Field(ge=0)]
Difference = Annotated[float, Field(ge=-1, le=1)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
# What a type of a record is in JSON, such as a record that is a part of others.
_FORMATS: dict[Any, Any] = {
    Path: str,
    records.Share: Share,
    records.Mean: Mean,
    records.Difference: Difference,
    records.Count: Count,
    records.Seconds: Seconds,
}


def stands_for(record: type) -> Callable[[type[AnyFormat]], type[AnyFormat]]:
    """Say that a format is what a record is written as, where the record is a part of another."""

    def known(kind: type[AnyFormat]) -> type[AnyFormat]:
        _FORMATS[record] = kind
        return kind

    return known


def written(record: type, *, optional: Collection[str] = ()) -> Callable[[type[AnyFormat]], type[AnyFormat]]:
    """Give a format the fields of a record that is written with all of them, and their descriptions.

    The type and the text that the format itself has for a field go first.

    Args:
        record: A dataclass. The text under a field describes it.
        optional: Fields that are not written if they have their defaults.
    """

    def filled(kind: type[AnyFormat]) -> type[AnyFormat]:
        hints, texts = get_type_hints(record, include_extras=True), _texts(record)
        found: dict[str, Any] = {}
        for part in fields(record):
            own, text = kind.model_fields.get(part.name), texts.get(part.name)
            if own is None:
                default = part.default if part.name in optional else ...
                found[part.name] = _shown(hints[part.name]), Field(default, description=text)
            elif own.description is None:
                kept = Annotated[own.annotation, *own.metadata] if own.metadata else own.annotation
                found[part.name] = kept, Field(own.default, description=text)
        doc = vars(kind).get("__doc__") or (record.__doc__ or "").partition("\n\n")[0]
        made = create_model(kind.__name__, __base__=kind, __doc__=doc, __module__=__name__, **found)
        return stands_for(record)(made)

    return filled


def _texts(record: type) -> dict[str, str]:
    """Return the texts under the fields of a record."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(node, ast.ClassDef)
    return {
        part.target.id: below.value.value
        for part, below in pairwise(node.body)
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def _shown(hint: Any) -> Any:
    """Return the type that values of this type have in JSON: formats for records, no validators."""
    if hint in _FORMATS:
        return _FORMATS[hint]
    if get_origin(hint) is Annotated:
        return _shown(get_args(hint)[0])
    if get_origin(hint) in (None, Literal):
        assert not is_dataclass(hint), f"{hint} has no format"
        return hint
    kinds = tuple(map(_shown, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, kinds)
    return dict[kinds] if get_origin(hint) is Mapping else get_origin(hint)[kinds]


# --- parts ---


@written(
    Usage,
    optional=("cached_tokens", "cache_write_tokens", "reasoning_tokens", "billed_usd", "read_s", "write_s"),
)
class UsageParts(Format):
    pass


class Place(Format):
    """Where something is."""

    file: str | None
    """Path of the file; null if it is not in a file."""
    line: int | None
    """Line of the file, from 1; null if lines do not tell."""
    row: int | None
    """Index of the row, from 0, for rows that were given in Python."""
    setting: str | None
    """Name of the setting, with dots for a nested one."""


@stands_for(Problem)
class ProblemRecord(Place):
    """A warning or an error."""

    code: str | None
    """Stable name, listed in the reference of errors; null for a message without one."""
    message: str
    """All of it as one text, with place and advice."""
    said: str = ""
    """What is wrong, without place and advice."""
    fix: str = ""
    """What to do; names in braces are settings."""
    settings: dict[str, Any] = {}
    """Settings that `fix` names, with the value to give."""
    related: tuple[dict[str, Any], ...] = ()
    """Other places that belong to the problem."""
    also: tuple[dict[str, Any], ...] = ()
    """More places with the same problem."""
    more: Count = 0
    """How many more places there are."""
    source: str = ""
    """Where the setting was given, such as `flag` or `file`."""


class FunctionCall(Format):
    name: str
    """Name of the tool."""
    arguments: str
    """Arguments as JSON, as the model wrote them."""


class ToolCallRecord(Format):
    """A call of a tool, as chat completions have it."""

    id: str
    """Id of the call."""
    type: Literal["function"]
    """Kind of the tool."""
    function: FunctionCall
    """What is called."""


@stands_for(Message)
class Turn(Format):
    """A message, as chat completions have it."""

    role: Role
    """Who speaks."""
    content: str
    """Text of the message."""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    """Calls of tools in an assistant's message."""
    tool_call_id: str = ""
    """Call that a tool's message answers."""


@stands_for(Demo)
class Demonstration(Format):
    """A row that is shown to the model with its answer. It has `input` or `messages`."""

    input: str = ""
    """Input of the row."""
    messages: tuple[Turn, ...] = ()
    """Conversation that the answer follows, instead of an input."""
    output: str
    """The answer."""
    component: str = ""
    """Component of a program that it is shown with; empty for a single prompt."""
    fields: dict[str, str] = {}
    """Other fields of the row that the prompt asks for."""


@written(result.CallCost)
class CallCost(Format):
    pass


@written(result.Gain)
class GainRecord(Format):
    pass


class BaselineScore(Format):
    """What scores without a model, on the same rows."""

    answer: str | None
    """The answer that it always gives; null if it depends on the row."""
    score: Share
    """Its score by the metric."""
    ci95: Interval
    """95% interval of the score."""
    p_value: float | None
    """Two-sided and paired, against the prompt; null if nothing could be compared."""
    is_beaten: bool
    """Whether the prompt is clearly above it."""
    is_uneven: bool
    """Whether its answer has at least 1.5 times as many rows as the rarest one."""


class Baselines(Format):
    most_frequent: BaselineScore | None
    """Always the most frequent answer; null if it was not scored."""
    nearest: BaselineScore | None
    """A vote of the rows with the most words in common; null if it was not scored."""


@written(endpoints.SentTo)
class SentTo(Format):
    """An address that this command sends rows to."""


# --- rows and candidates of a run ---


@written(ToolCall)
class ToolUse(Format):
    pass


@written(Step)
class TraceStep(Format):
    pass


@written(records.Unread)
class Unread(Format):
    pass


@written(EvaluatedRow)
class RowResult(Format):
    pass


class CandidateDemo(Demonstration):
    example_id: str
    """Id of the row; empty if it is not of the dataset."""


class MeasuredUsage(UsageParts):
    """What a candidate's calls took."""

    rows: Count
    """Rows that were measured."""
    hits: Count
    """Of them, how many found their prompt in the provider's cache."""
    late_rows: Count = 0
    """Of them, how many were sent when others had been answered, so that the cache could have the prompt."""


@written(Cost)
class Amount(Format):
    pass


class CandidateLine(Format):
    """A line of `candidates.jsonl`. If an id occurs twice, the last line counts."""

    id: str
    """Id that texts and demonstrations give."""
    components: dict[str, str]
    """Text of each component; a single prompt has the one component `prompt`."""
    demos: tuple[CandidateDemo, ...]
    """Demonstrations that are shown with it, in their order."""
    parents: tuple[str, ...]
    """Ids of the candidates that it was made from."""
    operator: str
    """How it was made; `original` for your prompt."""
    iteration: Count
    """Round in which it was made; 0 for the original."""
    change: dict[str, Any]
    """What makes it differ from its parent."""
    told: tuple[str, ...]
    """Ids of train rows whose answers its author saw."""
    status: Literal["pending", "accepted", "rejected"]
    """How its race ended; pending while it races."""
    scores: dict[str, Share]
    """Score of each row that it answered, by the row's id."""
    confidence: dict[str, float]
    """Probability of the right label for each row, if the endpoint tells."""
    answers: dict[str, str]
    """Answer to each row, if answers are labels."""
    refusals: dict[str, str]
    """What the endpoint said of each row that it refused."""
    held_out: tuple[str, ...]
    """Ids of train rows that were asked without a part of its demonstrations."""
    measured: MeasuredUsage
    """What its calls took."""
    weights: dict[str, float]
    """What each row counts in a mean; 1 if it is not named."""
    cost: Amount | None = None
    """Cost of a call; null if nothing is known."""
    step: Count
    """Number of the line among those of its checkpoint."""


# --- result.json ---


@written(result.Side)
class Side(Format):
    cost: CallCost


@written(result.Returned)
class Returned(Side):
    pass


@written(result.OtherEnd)
class OtherEnd(Side):
    pass


@written(result.Comparison)
class Stage(Format):
    pass


@written(result.Confirmation)
class Confirmed(Format):
    pass


@written(result.Validation)
class ValidationScores(Format):
    pass


@written(result.Level)
class Level(Format):
    pass


@written(result.PassedOver)
class PassedOver(Format):
    pass


@written(result.EndsDifference)
class EndsDifference(GainRecord):
    pass


@written(result.Ends)
class TestedEnds(Format):
    pass


@written(result.Choice)
class FrontChoice(Format):
    pass


@written(result.TradeOff)
class Front(Format):
    pass


class RoleUsage(UsageParts):
    calls: Count
    """Requests of this role."""


@written(result.Splits)
class SplitFacts(Format):
    pass


@written(result.OperatorCount)
class OperatorCount(Format):
    pass


@written(result.Tried)
class CandidateCounts(Format):
    pass


class ErrorCase(Format):
    input: str
    """Input of the row."""
    prediction: str
    """The wrong answer."""
    ground_truth: str
    """The right answer."""


@written(result.Round)
class RoundRecord(Format):
    error_cases: tuple[ErrorCase, ...]
    """A few of the wrong rows."""


class AnsweredBy(Format):
    asked: str | None
    """Name that was asked for."""
    endpoint: str
    """Host and port, or empty for a model on this machine. Of a program all that its calls went to."""
    answered: dict[str, int]
    """How many answers gave which name."""


class LostAnswers(Format):
    """A role of which at least half of the answers were cut or empty."""

    model: str
    """Name of the model."""
    answers: Count
    """Answers that it gave."""
    cut: Count
    """Answers that broke off at the limit on their tokens."""
    empty: Count
    """Answers without text."""
    tokens: Count
    """Tokens that they took."""
    cost_usd: float | None
    """US dollars that they cost; null if a price is not known."""
    setting: str | None
    """Setting to change; null if a program's own code asks the model."""


@written(result.Result)
class ResultFile(Format):
    """What a run came to: `result.json`, and what `run --json` and `resume --json` print."""

    schema_version: int
    """Format of the run folder."""
    status: Literal["finished"]
    """A result is written when the run ends."""
    baselines: Baselines
    calls: Count
    seconds: Seconds
    spending: dict[str, RoleUsage]
    models: dict[str, AnsweredBy]
    lost_answers: dict[str, LostAnswers]
    sent_to: tuple[SentTo, ...] = ()
    """Addresses that the command sends rows to; only in what it prints."""


# --- eval and check ---


class Against(Format):
    """The other prompt of `eval --against`, on the same rows."""

    score: Share | None
    """Its score; null if no row was answered by both."""
    ci95: Interval | None = None
    """95% interval of its score."""
    gain: GainRecord | None = None
    """Score of the evaluated prompt minus that of this one."""
    p_value: float | None = None
    """Two-sided and paired."""
    fixed: Count = 0
    """Rows that the evaluated prompt scores higher."""
    broken: Count = 0
    """Rows that the evaluated prompt scores lower."""
    left_out: Count = 0
    """Rows without an answer of one of them."""
    is_lopsided: bool = False
    """Whether a tenth more rows failed on one side, so that the test proves nothing."""
    rows: tuple[RowResult, ...]
    """Each row, in the order of the dataset."""


class EvaluationFile(UsageParts):
    """A prompt on a dataset: `eval --json` and `eval -o FILE.json`. Tokens and cost are of all calls."""

    metric: str
    """Name of the metric."""
    model: str
    """Name of the task model."""
    score: Share
    """Score by the metric, over all rows."""
    ci95: Interval
    """95% interval of the score."""
    n: Count
    """Rows that were scored."""
    groups: Count
    """In how many groups the rows are."""
    unparsed: Count
    """Answers that could not be read."""
    unscored: Count
    """Answers that a judge gave no grade."""
    failed: Count
    """Rows without an answer; they score 0."""
    calls: Count
    """Requests, repeats after faults included."""
    seconds: Seconds
    """Duration in seconds."""
    concurrency: int | None
    """Requests at once that `auto` settled on; null for a fixed number."""
    warnings: tuple[ProblemRecord, ...]
    """What has to be known beside the score."""
    baselines: Baselines
    """What scores without a model on the same rows."""
    rows: tuple[RowResult, ...]
    """Each row, in the order of the dataset."""
    against: Against | None
    """The other prompt; null without one."""
    sent_to: tuple[SentTo, ...] = ()
    """Addresses that the command sends rows to."""


class EvaluationLine(Format):
    """A row in the file of `eval -o rows.jsonl`; CSV has the same columns without the last four."""

    example_id: str
    """Id that the content of the row gives."""
    input: str
    """Input of the row; of a conversation its last question."""
    ground_truth: str
    """The right answer; empty if the row has none."""
    prediction: str
    """The answer as it was read."""
    score: Share
    """Score of the answer by the metric; 0 for a row without an answer."""
    is_correct: bool
    """Whether the score is 1."""
    is_unparsed: bool
    """Whether the answer could not be read."""
    error: str | None
    """Why there is no answer; null if there is one."""
    reason: str
    """Why it got this score."""
    output: str
    """All that the model wrote, if that is more than `prediction`."""
    prompt_tokens: Count
    """Tokens that were sent."""
    completion_tokens: Count
    """Tokens that the model wrote."""
    against_prediction: str = ""
    """Answer of the other prompt, with `--against`."""
    against_score: Share = 0.0
    """Score of the other prompt, with `--against`."""


@written(Reason)
class CheckReason(Format):
    pass


class CheckLimits(Format):
    max_drop: float
    """Drop of the score that is allowed."""
    min_score: float | None
    """Least score; null without a limit."""
    alpha: float
    """A drop counts if its p-value is below this."""
    must_pass: tuple[str, ...]
    """Ids of rows that may never be wrong."""


class ComparedCases(Format):
    """Now against the baseline, on the rows of both."""

    common: Count
    """Rows that both have."""
    groups: Count
    """In how many groups these rows are."""
    new: Count
    """Rows that the baseline does not have."""
    gone: Count
    """Rows that only the baseline has."""
    unanswered: Count
    """Rows of both that got no answer now."""
    score_before: Share
    """Score of the baseline on the common rows."""
    score_now: Share
    """Score of today on the common rows."""
    drop: Difference
    """Score before minus score now."""
    broken: Count
    """Rows that were right and are wrong now."""
    fixed: Count
    """Rows that were wrong and are right now."""
    worse: Count
    """Rows with a lower mean score than before."""
    better: Count
    """Rows with a higher mean score than before."""
    p_value: float
    """One-sided: how often such a drop would come by luck."""
    test: Test
    """Name of the statistical test."""


class CheckedCase(Format):
    """A row that changed or failed."""

    id: str
    """Id that the content of the row gives."""
    row_id: str | None
    """Value of the row's own field `id`; null if it has none."""
    state: CaseState
    """What became of it."""
    before: Share | None
    """Mean score in the baseline."""
    now: Share | None
    """Mean score of today; null without an answer."""
    must_pass: bool
    """Whether it may never be wrong."""
    failure: bool
    """Whether the check fails because of it."""
    line: int
    """Line of the dataset's file, from 1; 0 if unknown."""
    input: str
    """Input of the row."""
    target: str
    """The right answer."""
    answer: str
    """The last answer."""
    error: str | None
    """Why there is no answer; null if there is one."""


class BaselineFacts(Format):
    """What the baseline says, without its cases."""

    schema_version: int
    """Format of the baseline file."""
    created: str
    """Time in UTC, as ISO 8601."""
    model: str
    """Name of the model that was asked."""
    metric: str
    """Name of the metric."""
    metric_options: dict[str, Any]
    """Options of the metric."""
    repeats: Count
    """Answers that each row was asked for."""
    score: Share
    """Score on all its rows."""
    prompt_sha256: str
    """SHA-256 of the prompt with its demonstrations."""
    dataset: DatasetFacts
    """The rows."""


class CheckFile(UsageParts):
    """A prompt against its baseline: what `check --json` prints. Tokens and cost are of all calls."""

    schema_version: Literal[1]
    """Format of this object."""
    passed: bool
    """Whether the check passed."""
    message: str
    """The verdict in a sentence or two."""
    reasons: tuple[CheckReason, ...]
    """Why it failed; empty if it passed."""
    metric: str
    """Name of the metric."""
    score: Share
    """Score by the metric, over all answered rows."""
    n: Count
    """Rows of the dataset."""
    unanswered: Count
    """Rows without an answer."""
    repeats: Count
    """Answers that each row was asked for."""
    model: str
    """Name of the task model."""
    prompt_sha256: str
    """SHA-256 of the prompt with its demonstrations."""
    dataset: DatasetFacts
    """The rows."""
    limits: CheckLimits
    """What it was held to."""
    baseline: BaselineFacts | None
    """What it was compared with; null for a first baseline."""
    comparison: ComparedCases | None
    """The comparison; null for a first baseline."""
    cases: tuple[CheckedCase, ...]
    """Rows that failed, then rows that broke, then rows that were fixed."""
    notes: tuple[str, ...]
    """What is not the same on both sides, in sentences."""
    warnings: tuple[ProblemRecord, ...]
    """What has to be known beside the verdict."""
    calls: Count
    """Requests, repeats after faults included."""
    seconds: Seconds
    """Duration in seconds."""
    sent_to: tuple[SentTo, ...] = ()
    """Addresses that the command sends rows to."""


# --- a program of one's own ---


class ProgramComponent(Format):
    name: str
    """Name of the component."""
    kind: ComponentKind
    """What the text is."""
    text: str
    """The text itself."""
    place: str
    """File and line of the call that sends it, or of its declaration."""
    tool: str = ""
    """Tool that a description belongs to."""
    locked: bool = False
    """Whether a search leaves it as it is."""
    answers_rows: bool = False
    """Whether it is sent with the row itself, and its answer is the row's."""


@written(Site)
class CallSite(Format):
    """Where the program calls a model."""


@written(Placed)
class PlacedText(Format):
    pass


class ProgramReport(Format):
    """A few rows through your own program: what `program show --json` prints."""

    program: str
    """Address of the program, as it was given."""
    mean_calls: float
    """Calls to models per row, on average."""
    most_calls: Count
    """Calls to models per row, at most."""
    calls: tuple[int, ...]
    """Calls of each row that ran."""
    components: tuple[ProgramComponent, ...]
    """Texts that a run would optimize."""
    sites: tuple[CallSite, ...]
    """Where the program calls models."""
    tools: tuple[str, ...]
    """Tools that a model is offered, or that ran."""
    models: tuple[str, ...]
    """Models that answered."""
    rows: Count
    """Rows that ran."""
    usage: UsageParts
    """Tokens and cost of these rows, each once."""
    call_s: Seconds
    """Seconds of a call, on average."""
    trace: tuple[TraceStep, ...]
    """What each call did with the first row."""
    prompts: dict[str, str]
    """Prompts that the program declares, by name."""
    placed: tuple[PlacedText, ...]
    """Where the other texts are in requests."""
    warnings: tuple[ProblemRecord, ...]
    """What has to be known before a run."""


# --- runs and batches ---


@written(RunLine)
class RunSummary(Format):
    pass


class RunList(Format):
    """What `runs list --json` prints."""

    runs: tuple[RunSummary, ...]
    """The newest first."""


class RunDetails(RunSummary):
    """One optimization: what `runs show --json` prints."""

    config: dict[str, Any]
    """Its settings, as in a config file."""
    candidates: tuple[CandidateLine, ...]
    """Each candidate once, as in `candidates.jsonl`."""
    result: ResultFile | None
    """Its result; null until it ends."""


class TrialCounts(Format):
    finished: Count
    """Trials with a result."""
    failed: Count
    """Trials that ended with an error."""
    interrupted: Count
    """Trials that were stopped and can be resumed."""
    running: Count
    """Trials at work."""
    waiting: Count
    """Trials that have not begun."""
    not_run: Annotated[Count, Field(alias="not run")]
    """Trials that the budget had no room for."""


@written(Row)
class TrialRow(Format):
    pass


@written(Group)
class TrialGroup(Format):
    pass


class BatchTable(Format):
    """What a batch came to: `table.json`, and what `batch --json` and `runs show BATCH --json` print."""

    name: str
    """Name of the batch."""
    run_dir: str
    """Path of its folder."""
    trials: TrialCounts
    """How many trials are how far."""
    sent: Count
    """Requests of all trials, in all attempts."""
    tokens: Count
    """Tokens of all trials, in all attempts."""
    paid_usd: float | None
    """US dollars of all trials, in all attempts; null if a price is not known."""
    seconds: Seconds
    """Time that drivers were at work, in seconds."""
    warnings: tuple[str, ...]
    """What has to be known, in sentences."""
    groups: tuple[TrialGroup, ...]
    """Trials that differ only in their seeds, taken together."""
    rows: tuple[TrialRow, ...]
    """Each trial."""
    sent_to: tuple[SentTo, ...] = ()
    """Addresses that the command sends rows to; only in what `batch` prints."""


class ComparedText(Format):
    name: str
    """Name of the component."""
    text_a: str
    """Its text in the first run; empty if it has none."""
    text_b: str
    """Its text in the second run; empty if it has none."""
    lines: tuple[str, ...]
    """Lines of a unified diff."""


class ComparedGain(Format):
    value: Difference | None
    """Difference of the scores; null if there are no rows."""
    ci95: Interval | None
    """95% interval of the difference."""


class BetterRows(Format):
    a: Count
    """Rows that the first run scores higher."""
    b: Count
    """Rows that the second run scores higher."""


class ComparedScores(Format):
    """The best prompts of both runs on the rows that both sealed tests have."""

    rows: Count
    """How many rows."""
    scores: tuple[Share | None, Share | None]
    """Scores of the first and the second run by the metric; null if there are no rows."""
    gain: ComparedGain
    """Score of the second run minus that of the first."""
    p_value: float | None
    """Two-sided and paired; null if there are no rows."""
    better: BetterRows
    """Rows that one run scores higher."""


class RunsDiff(Format):
    """Two runs beside each other: what `runs diff --json` prints."""

    a: RunSummary
    """The first run."""
    b: RunSummary
    """The second run."""
    candidate_a: str | None
    """Id of the candidate of the first run that is compared; null if the run has none yet."""
    candidate_b: str | None
    """Id of the candidate of the second run."""
    cost_a: Amount | None
    """What a call with the first one costs; null if it was not measured."""
    cost_b: Amount | None
    """What a call with the second one costs."""
    components: tuple[ComparedText, ...]
    """Texts of both prompts."""
    demos_a: Count
    """Demonstrations of the first."""
    demos_b: Count
    """Demonstrations of the second."""
    compared: ComparedScores
    """The comparison of the scores."""


# --- estimates and errors ---


class FoundPrompt(Format):
    name: str
    """Name of the component."""
    kind: str
    """What the text is."""
    place: str
    """File and line of the call that sends it."""


@written(Estimate)
class RunEstimate(Format):
    """What a run would use: `run --dry-run --json`. Calls, tokens and costs are upper bounds."""

    calls: Count
    """Requests of all roles together."""
    prompts: tuple[FoundPrompt, ...]
    """Texts of a program that a run would optimize."""
    sent_to: tuple[SentTo, ...] = ()
    """Addresses that the command sends rows to."""


@written(estimate.EvaluationEstimate)
class EvaluationEstimate(Format):
    """What an evaluation would use: `eval --dry-run --json`."""


class ErrorFacts(Format):
    """Why the command ended. Place and code are those of the first problem."""

    message: str
    """All of it as one text."""
    exit_code: int
    """Exit code of the command."""
    code: str | None
    """Stable name, listed in the reference of errors; null for a message without one."""
    file: str | None
    """Path of the file; null if it is not in a file."""
    line: int | None
    """Line of the file, from 1; null if lines do not tell."""
    row: int | None
    """Index of the row, from 0, for rows that were given in Python."""
    setting: str | None
    """Name of the setting, with dots for a nested one."""
    problems: tuple[ProblemRecord, ...]
    """Each problem."""


class ErrorReport(Format):
    """What any command with `--json` prints if it fails."""

    error: ErrorFacts
    """The error."""


FORMATS: dict[str, tuple[type[BaseModel], str]] = {
    "result": (ResultFile, "Result of a run"),
    "candidate": (CandidateLine, "Line of candidates.jsonl"),
    "row": (RowResult, "Line of predictions/*.jsonl"),
    "evaluation": (EvaluationFile, "Result of autoprompt eval"),
    "evaluation-row": (EvaluationLine, "Line of autoprompt eval -o FILE.jsonl"),
    "check": (CheckFile, "Result of autoprompt check"),
    "baseline": (Baseline, "Baseline of autoprompt check"),
    "prompt": (ExportFile, "Exported prompt"),
    "program": (ProgramFile, "Exported texts of a program"),
    "program-report": (ProgramReport, "Result of autoprompt program show"),
    "runs": (RunList, "List of runs"),
    "run": (RunDetails, "One run"),
    "runs-diff": (RunsDiff, "Two runs compared"),
    "batch-table": (BatchTable, "Result of a batch"),
    "run-estimate": (RunEstimate, "Estimate of a run"),
    "evaluation-estimate": (EvaluationEstimate, "Estimate of an evaluation"),
    "error": (ErrorReport, "Error of a command"),
}
"""Name of the schema's file -> what it describes, and its title."""
