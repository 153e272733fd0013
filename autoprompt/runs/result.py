"""What a run came to: `result.json` of an optimization as one record, the type of every value checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from pydantic import AliasChoices, Field, PlainValidator, TypeAdapter, ValidationError

from autoprompt.brief import brief
from autoprompt.errors import Place, Problem, StoreError
from autoprompt.llm.prices import Cost, Unit
from autoprompt.records import Count, Demo, Difference, RunEvent, Share, Usage
from autoprompt.runs.folder import RunFolder
from autoprompt.runs.spending import ROLES, Spending

T = TypeVar("T")
Verdict = Literal["confirmed", "not_confirmed", "nothing_to_improve", "untested"]
Basis = Literal["both", "raced", "fresh"]  # rows that a confirmation rests on
Pair = tuple[float, float]
_MOST_FAULTS = 3
_SEVERAL = "its own demonstrations, left out when they were"
_FIX = "The file was edited. Put the old one back, or delete it and resume the run to write it again."


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator of a record, made when it is first needed: making one takes milliseconds."""
    return TypeAdapter(kind)


def validated(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return a record of `kind` with the values of `data`.

    Raises:
        ValueError: If one is not of its type.
    """
    record: T = _adapter(cast("Any", kind)).validate_python(data)
    return record


def _from(read: Callable[[Any], T]) -> PlainValidator:
    """Return a validator of `read`, whose errors pydantic then reports with their place."""

    def validate(data: Any) -> T:
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
    validation: Share | None
    """Mean score on the validation rows that it raced on."""
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
        return cls(**{**data, "error_cases": tuple(data["error_cases"])})


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call costs, on average."""

    unit: Unit
    """US dollars; seconds with a model on this machine; weighted tokens if the price is not known."""
    amount: float
    """Under the run's setting `traffic`."""
    cold: float
    """If nothing is in the provider's cache."""
    warm: float
    """If the prompt is in the provider's cache."""

    @property
    def shown(self) -> str:
        """1,000 calls under the run's traffic, for people."""
        return Cost(self.amount, self.unit).shown(1000)

    @property
    def both(self) -> str:
        """1,000 calls, cold and warm, for people: `$0.65 cold, $0.08 warm`."""
        cold, warm = Cost(self.cold, self.unit).shown(1000), Cost(self.warm, self.unit).shown(1000)
        return cold if cold == warm else f"{cold} cold, {warm} warm"


@dataclass(frozen=True, slots=True)
class Side:
    """One prompt on the sealed test. score, its ci95: in [0, 1]; None if the test was not opened.

    rows: those that both prompts have, in `groups` groups. unparsed, failed: answers that could not be read,
    and rows that the endpoint lost.
    """

    score: float | None = None
    ci95: Pair | None = None
    rows: Annotated[int, Field(validation_alias=AliasChoices("n", "rows"))] = 0
    groups: int = 0
    tokens_per_call: float | None = None
    unparsed: int = 0
    failed: int = 0
    cost: CallCost | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A candidate as a result has it: its texts by component, and what it shows."""

    id: str = ""
    is_original: bool = False
    components: Mapping[str, str] = field(default_factory=dict)
    demos: tuple[Annotated[Demo, _from(Demo.from_dict)], ...] = ()

    @property
    def text(self) -> str:
        """The only component; of several all of them under their names."""
        return joined(self.components)


def joined(components: Mapping[str, str]) -> str:
    """Return the only text; of several all of them under their names."""
    if len(components) == 1:
        return next(iter(components.values()))
    return "\n\n".join(f"[{name}]\n{text}" for name, text in components.items())


@dataclass(frozen=True, slots=True)
class Ends:
    """The tested ends of a run.

    pick: which was asked for. returned: "highest" or "cheapest". other: the highest, if the run returns the
    cheapest. lines: what a user should know of them, in sentences.
    """

    pick: str = "cheapest"
    returned: str = "highest"
    reason: str = ""
    lines: tuple[str, ...] = ()
    other: Side | None = None
    other_prompt: Annotated[Prompt | None, Field(validation_alias="other")] = None


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference of two scores on the same rows."""

    value: Difference
    """Difference of the scores."""
    ci95: Pair
    """95% interval of the difference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate and another, mostly the original, on the rows that both have."""

    rows: Count
    """How many rows."""
    groups: Count
    """In how many groups the rows are, a row alone being one: the test goes by these."""
    score: Share = 0.0
    """Mean score of the candidate."""
    other_score: Share = 0.0
    """Mean score of the other one."""
    fixed: Count = 0
    """Rows that the candidate scores higher."""
    broken: Count = 0
    """Rows that the candidate scores lower."""
    p_value: float = 1.0
    """One-sided: that the candidate is no better."""


def parts_of(fresh: int, train: int, held_out: int) -> str:
    """Return ` (16 of validation, 22 of train, 9 of them its own demonstrations, ...)`.

    Args:
        fresh: All fresh rows.
        train: Rows of train among them; without any the text is "".
        held_out: Rows of train that are demonstrations of the candidate, left out when they are asked.
    """
    if not train:
        return ""
    kind = "its own demonstration, left out when it was" if held_out == 1 else _SEVERAL
    shown = f", {held_out} of them {kind} asked" if held_out else ""
    return f" ({fresh - train} of validation, {train} of train{shown})"


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

    @property
    def fresh_parts(self) -> str:
        """Return which fresh rows are of train; see `parts_of`."""
        return parts_of(self.fresh.rows, self.train_rows, self.held_out_rows)


@dataclass(frozen=True, slots=True)
class Validation:
    """Original and best before the test."""

    original: Share | None = None
    """Mean score of the original."""
    best: Share | None = None
    """Mean score of the best; null if nothing was compared."""
    rows: Count = 0
    """Rows that both answered."""
    chose_the_winner: bool = True
    """Whether these rows chose the winner, so that they flatter it."""
    confirmation: Confirmation | None = None
    """Comparison on fresh rows; null if nothing was compared."""
    measure: str = ""
    """What the scores are, if they are not the metric."""


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
    """About how many prompt tokens a row takes beside its input."""
    score: Share
    """Mean score in the race, which chose it: no proof."""
    is_best: bool
    """Whether the run returns it."""
    is_tested: bool
    """Whether it met the sealed test."""
    cost: Cost
    """Cost of a call."""

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


@dataclass(frozen=True, slots=True)
class Baseline:
    """What scores without a model.

    is_beaten: the best prompt is clearly above it. is_uneven: its answer has clearly more rows than the
        rarest one.
    """

    answer: str | None
    score: float
    is_beaten: bool
    is_uneven: bool = False


@dataclass(frozen=True, slots=True)
class Splits:
    """Parts of the data by size, and how often the test was opened: by `test_opened` runs so far."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)
    test_opened: int = 0
    test_rows_opened_before: int | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """How many candidates were tried, measured and accepted."""

    tried: int = 0
    measured: int = 0
    accepted: int = 0


def _spending(data: Mapping[str, Any]) -> tuple[Spending, ...]:
    found = ((role, data[role]) for role in ROLES if role in data)
    return tuple(Spending(role, part.get("calls", 0), Usage.from_record(part)) for role, part in found)


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run. Without arguments: one that has not found out anything yet.

    original, best: on the sealed test; original_prompt, best_prompt: what was tested. p_value: two-sided and
    paired. fixed, broken: rows whose score rose and fell. left_out: rows that were lost on a side.
    spending: by role, the task's first. calls_left: of the cap, None without one. concurrency: requests at
    once that `auto` settled on, None for a fixed number.
    """

    verdict: Verdict = "untested"
    message: str = ""
    metric: str = ""
    model: str = ""
    optimizer_model: str = ""
    original: Side = Side()
    best: Side = Side()
    original_prompt: Annotated[Prompt, Field(validation_alias="original")] = Prompt()
    best_prompt: Annotated[Prompt, Field(validation_alias="best")] = Prompt()
    gain: Gain | None = None
    p_value: float | None = None
    fixed: int = 0
    broken: int = 0
    left_out: int = 0
    baselines: Mapping[str, Baseline | None] | None = None
    validation: Validation = Validation()
    ends: Ends = Ends()
    trade_off: TradeOff | None = None
    candidates: Tried = Tried()
    history: tuple[Annotated[Round, _from(Round.from_dict)], ...] = ()
    stop_reason: str = ""
    cut_by: tuple[str, ...] = ()
    calls: int | None = None
    repeated_calls: int = 0
    calls_left: int | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)
    spending: Annotated[tuple[Spending, ...], _from(_spending)] = ()
    cost_usd: float | None = None
    seconds: float | None = None
    concurrency: int | None = None
    splits: Splits = Splits()
    warnings: tuple[Annotated[Problem, _from(Problem.from_dict)], ...] = ()

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
