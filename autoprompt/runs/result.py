"""What a run came to: `result.json` of an optimization as one record, the type of every value checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import PlainValidator, ValidationError

from autoprompt.brief import brief
from autoprompt.errors import Place, Problem, StoreError
from autoprompt.llm.prices import Cost, Unit
from autoprompt.records import (
    Count,
    Demo,
    Difference,
    Mean,
    RunEvent,
    Seconds,
    Share,
    Usage,
    one_text,
    plain,
    validated,
)
from autoprompt.runs.folder import SCHEMA_VERSION, RunFolder
from autoprompt.runs.spending import ROLES, Spending
from autoprompt.settings.records import Pick

Verdict = Literal["confirmed", "not_confirmed", "nothing_to_improve", "untested"]
Basis = Literal["both", "raced", "fresh"]  # rows that a confirmation rests on
Pair = tuple[float, float]
_MOST_FAULTS = 3
_SEVERAL = "its own demonstrations, left out when they were"
_FIX = "The file was edited. Put the old one back, or delete it and resume the run to write it again."


def _from(read: Callable[[Any], object]) -> PlainValidator:
    """Return a validator of `read`, whose errors pydantic then reports with their place."""

    def validate(data: Any) -> object:
        try:
            return read(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("autoprompt did not write this record") from error

    return PlainValidator(validate)


@dataclass(frozen=True, slots=True)
class Round:
    """A round of the search; with the split `test`, the sealed test."""

    iteration: Count
    """Number of the round, from 1."""
    split: Literal["train", "test"]
    """Part that its rows are of."""
    candidate: str
    """Id of the best so far, with which the round began."""
    prompt: str
    """Its text, at most 4,000 characters."""
    demos: Count
    """How many demonstrations it shows."""
    error_count: Count
    """Rows that were wrong."""
    total_count: Count
    """Rows that were answered."""
    error_cases: tuple[Mapping[str, str], ...]
    """A few of the wrong rows."""
    suggestions: str
    """What the analyst wrote about the errors."""
    score: Share | None
    """Mean score on these rows."""
    validation: Mean | None
    """Mean score on the validation rows that it raced on."""
    cost: Cost | None
    """Cost of a call with the candidate; null if the run wrote none."""
    is_cut: bool
    """Whether `prompt` or `suggestions` is cut."""
    calls: Count
    """Requests of the run up to then."""
    predictions: str
    """File of the rows, in `predictions/`."""

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON; `from_dict` reads it."""
        return {**asdict(self), "error_cases": [dict(case) for case in self.error_cases]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Round:
        cost = Cost(**data["cost"]) if data["cost"] else None
        return cls(**{**data, "error_cases": tuple(data["error_cases"]), "cost": cost})


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call costs, on average."""

    unit: Unit
    """US dollars; seconds with a model on this machine; weighted tokens if the price is not known, or 0."""
    amount: float
    """Under the run's setting `traffic`."""
    cold: float
    """If nothing is in the provider's cache."""
    warm: float
    """If the prompt is in the provider's cache."""

    __repr__ = brief

    @property
    def shown(self) -> str:
        """1,000 calls under the run's traffic, for people."""
        return Cost(self.amount, self.unit).shown(1000)

    @property
    def both(self) -> str:
        """1,000 calls, cold and warm, for people: `$0.65 cold, $0.08 warm`; and under another traffic."""
        cold, warm = Cost(self.cold, self.unit).shown(1000), Cost(self.warm, self.unit).shown(1000)
        if cold == warm:
            return cold
        between = "" if self.shown in (cold, warm) else f", {self.shown} with the run's traffic"
        return f"{cold} cold, {warm} warm{between}"


@dataclass(frozen=True, slots=True)
class Side:
    """A prompt on the sealed test."""

    score: Share | None = None
    """Score by the metric; null if the test was not opened."""
    ci95: Pair | None = None
    """95% interval of the score."""
    n: Count = 0
    """Rows that both prompts answered."""
    groups: Count = 0
    """In how many groups these rows are."""
    tokens_per_call: float | None = None
    """Mean tokens of a call, prompt and answer."""
    unparsed: Count = 0
    """Answers that could not be read."""
    unscored: Count = 0
    """Answers that a judge gave no grade."""
    failed: Count = 0
    """Rows without an answer."""
    cost: CallCost | None = None
    """Cost of a call."""
    components: Mapping[str, str] = field(default_factory=dict)
    """Text of each component; a single prompt has the one component `prompt`."""

    __repr__ = brief

    @property
    def text(self) -> str:
        """The only component; of several all of them under their names."""
        return one_text(self.components)


Demos = tuple[Annotated[Demo, _from(Demo.from_dict)], ...]


@dataclass(frozen=True, slots=True)
class Returned(Side):
    """The prompt that the run returns, on the sealed test."""

    id: str = ""
    """Id of the candidate."""
    is_original: bool = False
    """Whether nothing better was found."""
    instead_of: str | None = None
    """Id of the leader of the race, if another candidate went to the confirmation."""
    demos: Demos = ()
    """Demonstrations that are shown with it, in their order."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference of two scores on the same rows."""

    value: Difference
    """Difference of the scores."""
    ci95: Pair
    """95% interval of the difference."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate and another, mostly the original, on the rows that both have."""

    rows: Count
    """How many rows."""
    groups: Count
    """In how many groups the rows are, a row alone being one: the test goes by these."""
    score: Mean = 0.0
    """Mean score of the candidate."""
    other_score: Mean = 0.0
    """Mean score of the other one."""
    fixed: Count = 0
    """Rows that the candidate scores higher."""
    broken: Count = 0
    """Rows that the candidate scores lower."""
    p_value: float = 1.0
    """One-sided: that the candidate is no better."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Confirmation(RunEvent):
    """Whether a candidate is better than the original beyond luck, and what that rests on."""

    kind: ClassVar[str] = "confirmation"
    confirmed: bool
    """Whether it is better beyond luck: p below 0.05."""
    p_value: float
    """One-sided, of the rows that `basis` names, corrected for what was tried."""
    tried: Count
    """Candidates that raced."""
    chances: float
    """As how many independent candidates they count."""
    basis: Basis
    """Rows that the p-value rests on."""
    raced: Comparison
    """On the rows that chose it; its p-value is corrected."""
    fresh: Comparison
    """On rows that no comparison had used."""
    candidate: str = ""
    """Id of the candidate."""
    train_rows: Count = 0
    """Fresh rows that are of train."""
    held_out_rows: Count = 0
    """Of these, demonstrations of its own, left out when they were asked."""
    remembered: bool = False
    """Whether lessons of earlier runs were used, so that only fresh rows count."""

    __repr__ = brief

    @property
    def fresh_parts(self) -> str:
        """Return ` (16 of validation, 22 of train)`: which fresh rows are of train; "" if none is."""
        if not self.train_rows:
            return ""
        count = self.held_out_rows
        kind = "its own demonstration, left out when it was" if count == 1 else _SEVERAL
        shown = f", {count} of them {kind} asked" if count else ""
        return f" ({self.fresh.rows - self.train_rows} of validation, {self.train_rows} of train{shown})"


@dataclass(frozen=True, slots=True)
class Level:
    """The cheaper prompt against the one with the highest score, on raced and fresh rows."""

    rows: Count
    """Rows that both answered."""
    score: Mean
    """Mean score of the cheaper one."""
    highest_score: Mean
    """Mean score of the other one."""
    behind: float
    """How far the cheaper one is behind."""
    standard_error: float
    """Paired standard error of the difference."""
    confirmation: Confirmation
    """The cheaper one against the original."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class OtherEnd(Side):
    """The other tested prompt: the one with the highest score."""

    id: str = ""
    """Id of the candidate."""
    demos: Demos = ()
    """Demonstrations that are shown with it, in their order."""
    gain: Gain | None = None
    """Its score minus the original's."""
    p_value: float | None = None
    """Two-sided and paired, against the original."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A cheaper prompt that was about as good in the race and is not returned; `Ends.reason` says why."""

    id: str
    """Id of the candidate."""
    score: Mean
    """Mean score in the race."""
    highest_score: Mean
    """Mean score of the one with the highest score on the same rows."""
    cost: CallCost
    """Cost of a call."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class EndsDifference(Gain):
    """The cheapest tested prompt minus the one with the highest score."""

    rows: Count
    """Test rows that both answered."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Ends:
    """The tested prompts: the one with the highest score, and the cheapest that is about as good."""

    pick: Pick = "cheapest"
    """Which of them the settings ask for."""
    traffic: float | None = None
    """Calls per hour that costs are for; 0 for a cold cache, null for a warm one."""
    returned: Pick = "highest"
    """Which of them is `best`."""
    reason: str = ""
    """Why the highest is returned although the cheapest was asked for."""
    level: Level | None = None
    """How the cheaper one did before the test; null if there was none."""
    passed_over: PassedOver | None = None
    """A cheaper one that is not returned although it was about as good in the race."""
    other: OtherEnd | None = None
    """The highest, if the cheapest is returned."""
    difference: EndsDifference | None = None
    """The cheapest minus the highest on the sealed test."""
    is_highest_better: bool | None = None
    """Whether the highest beats the original on the sealed test."""
    lines: tuple[str, ...] = ()
    """Last lines of the run, for people; RUN is this run."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Validation:
    """Original and best before the test."""

    original: Mean | None = None
    """Mean score of the original."""
    best: Mean | None = None
    """Mean score of the best; null if nothing was compared."""
    rows: Count = 0
    """Rows that both answered."""
    chose_the_winner: bool = True
    """Whether these rows chose the winner, so that they flatter it."""
    confirmation: Confirmation | None = None
    """Comparison on fresh rows; null if nothing was compared."""
    measure: str = ""
    """What the scores are, if they are not the metric."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate that no other one beats in both score and cost."""

    id: str
    """Id of the candidate."""
    operator: str
    """How it was made."""
    demos: Count
    """How many demonstrations it shows."""
    tokens: Count
    """Mean tokens of a call, prompt and answer."""
    score: Mean
    """Mean score in the race, which chose it: no proof."""
    is_best: bool
    """Whether the run returns it."""
    is_tested: bool
    """Whether it met the sealed test."""
    cost: Cost
    """Cost of a call."""

    __repr__ = brief

    @property
    def name(self) -> str:
        if self.operator == "original":
            return "original"
        if self.is_best:
            return f"{self.id[:6]} (best)"
        return f"{self.id[:6]} ({'tested' if self.is_tested else 'raced only, not tested'})"

    @property
    def shown_cost(self) -> str:
        """1,000 calls, for people."""
        return self.cost.shown(1000)


@dataclass(frozen=True, slots=True)
class TradeOff:
    """Score against cost: the original, both ends and what may be wanted instead."""

    rows: Count
    """Rows of the race that the scores are of."""
    candidates: tuple[Choice, ...]
    """The cheapest first."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Baseline:
    """A way to answer without a model, on the rows that a prompt was scored on."""

    answer: str | None
    """The answer that it always gives; null if it looks at the row."""
    score: Share
    """Its score."""
    ci95: Pair
    """95% interval of the score."""
    p_value: float
    """Two-sided and paired: that the prompt differs from it."""
    is_beaten: bool
    """Whether the prompt is clearly above it."""
    is_uneven: bool
    """Whether the answer has at least 1.5 times as many known rows as the rarest one."""

    __repr__ = brief


Baselines = Mapping[str, Baseline | None]  # `most_frequent` and `nearest`; None for one that was not scored


@dataclass(frozen=True, slots=True)
class Splits:
    """The parts of the dataset, and how often the test was opened."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Rows of `train`, `val` and `test`."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """Groups of each part that has rows which belong together."""
    split_seed: int = 0
    """Seed of the split."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the sorted row ids of each part."""
    test_opened: Count = 0
    """Runs that have opened rows of this test, this one included."""
    test_rows_opened_before: int | None = None
    """Test rows that earlier runs had opened; null if that is not known."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """What an operator of the search made."""

    tried: Count = 0
    """Candidates that it made."""
    accepted: Count = 0
    """Of them, how many were accepted."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Tried:
    """How many candidates a search tried."""

    tried: Count = 0
    """Candidates that were proposed."""
    measured: Count = 0
    """Candidates that answered rows of the race."""
    accepted: Count = 0
    """Candidates that were accepted."""
    operators: Mapping[str, OperatorCount] = field(default_factory=dict)
    """The same by operator."""

    __repr__ = brief


def _spending(data: Mapping[str, Any]) -> tuple[Spending, ...]:
    found = ((role, data[role]) for role in ROLES if role in data)
    return tuple(Spending(role, part.get("calls", 0), Usage.from_record(part)) for role, part in found)


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run. Without arguments: one that has not found out anything yet."""

    run_id: str = ""
    """Name of the run's folder."""
    run_dir: str = ""
    """Path of the run's folder."""
    stop_reason: str = ""
    """Why the search ended: `max_iterations`, `patience`, `no_errors`, `writer_failed`, or a limit."""
    cut_by: tuple[str, ...] = ()
    """Limits of a batch that cut the search short."""
    verdict: Verdict = "untested"
    """What the sealed test says."""
    message: str = ""
    """The verdict in a sentence."""
    metric: str = ""
    """Name of the metric."""
    original: Side = Side()
    """Your prompt."""
    best: Returned = Returned()
    """The prompt that the run returns."""
    ends: Ends = Ends()
    """The tested prompts, and which of them is the best."""
    trade_off: TradeOff | None = None
    """Score against cost; null if there is no choice."""
    gain: Gain | None = None
    """Score of the best minus the original's, on the sealed test."""
    p_value: float | None = None
    """Two-sided and paired: how often equal prompts would differ this clearly by luck."""
    fixed: Count = 0
    """Test rows that the best scores higher than the original."""
    broken: Count = 0
    """Test rows that the best scores lower than the original."""
    left_out: Count = 0
    """Test rows without an answer of one of them, so that they do not count."""
    is_lopsided: bool = False
    """Whether a tenth more rows failed on one side, so that the test proves nothing."""
    baselines: Baselines = field(default_factory=dict)
    """What scores without a model on the sealed test."""
    validation: Validation = Validation()
    """Scores before the test."""
    calls: Count | None = None
    """Requests of the whole run, repeats after faults included."""
    repeated_calls: Count = 0
    """Of them, repeats after faults."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Tokens of each role, prompts and answers together."""
    cost_usd: float | None = None
    """US dollars of the whole run; null if a price is not known."""
    spending: Annotated[tuple[Spending, ...], _from(_spending)] = ()
    """Calls, tokens and cost of each role: `task`, `optimizer`, `judge`."""
    calls_left: int | None = None
    """Requests that the limit left; null without a limit."""
    seconds: Seconds | None = None
    """Duration of the run in seconds."""
    concurrency: int | None = None
    """Requests at once that `auto` settled on; null for a fixed number."""
    splits: Splits = Splits()
    """Parts of the dataset."""
    candidates: Tried = Tried()
    """How many candidates there were."""
    iterations: Count = 0
    """Rounds of the search."""
    history: tuple[Annotated[Round, _from(Round.from_dict)], ...] = ()
    """Each round in its order, the sealed test last."""
    model: str = ""
    """Name of the task model."""
    optimizer_model: str = ""
    """Name of the model that analyzes and writes."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Models that answered, by role."""
    lost_answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Roles with many cut or empty answers."""
    warnings: tuple[Annotated[Problem, _from(Problem.from_dict)], ...] = ()
    """What has to be known beside the verdict."""

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        """Return what `result.json` holds; `from_dict` reads it."""
        spending = {part.role: {"calls": part.calls, **asdict(part.usage)} for part in self.spending}
        return {"schema_version": SCHEMA_VERSION, "status": "finished", **plain(self), "spending": spending}

    @classmethod
    def read(cls, folder: RunFolder) -> Result | None:
        """Return the result of an optimization, None if it is not finished.

        Raises:
            StoreError: The file cannot be read, or a value in it is not of its type.
        """
        data = folder.read_result()
        return None if data is None else cls.from_dict(data, folder.result_path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], path: Path) -> Result:
        """Return what a `result.json` says.

        Args:
            data: Its object. Keys that no field has are ignored.
            path: The file, for the error.

        Raises:
            StoreError: A value is not of its type; every such value is named.
        """
        try:
            return validated(cls, data)
        except ValidationError as error:
            problems = []
            for fault in error.errors()[:_MOST_FAULTS]:
                place = Place(path, setting=".".join(map(str, fault["loc"])) or None, source="file")
                problems.append(Problem("run.bad-result", fault["msg"].removeprefix("Value error, "), place))
            raise StoreError(*problems[:-1], replace(problems[-1], fix=_FIX)) from error
