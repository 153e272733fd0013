"""The frozen records that all parts of the package pass on: rows, messages, candidates, scores."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from autoprompt.brief import brief
from autoprompt.errors import Place, Problem


class Range(NamedTuple):
    """The values that a number can have, for the schemas. Nothing checks it: a mean may be 1 + 2e-16."""

    least: float
    most: float | None = None


Share = Annotated[float, Range(0, 1)]  # a score or a probability
Mean = Annotated[float, Range(0)]  # of scores; with weights of rows it can be above 1
Difference = Annotated[float, Range(-1, 1)]  # of two scores
Count = Annotated[int, Range(0)]
Seconds = Annotated[float, Range(0)]
Role = Literal["system", "user", "assistant", "tool"]
Event = dict[str, Any]  # a step of a run as plain data; its kind is under "event"
OnEvent = Callable[[Event], None]
Part = Literal["train", "val", "test"]  # of a dataset
ExportFormat = Literal["text", "yaml", "langchain", "openai"]  # of a prompt
EXPORT_FORMATS: tuple[str, ...] = get_args(ExportFormat)


class RunEvent:
    """Something that happened in a run. kind: the value of the key `event` in its JSON."""

    __slots__ = ()
    kind: ClassVar[str]

    def to_dict(self) -> Event:
        """Return it as a line of `events.jsonl` has it; `runs.events.read_event` reads it."""
        return {"event": self.kind} | plain(self)


def plain(record: Any) -> dict[str, Any]:
    """Return the fields of a record as JSON; its parts by their `to_dict`, if they have one."""
    return {part.name: _plain(getattr(record, part.name)) for part in fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return plain(value) if is_dataclass(value) else value


def warning_event(problem: Problem | str, **more: Any) -> Event:
    """Return the event of a warning. more: further keys, such as `about`."""
    if isinstance(problem, str):
        problem = Problem.plain(problem)
    return {"event": "warning", **more, **problem.to_dict()}


# Why a row has no answer: the endpoint would not take its request; a content filter took it, or the model
# declined; its workflow lacked a tool or a service; the budget had no call or time; a step failed on what a
# model answered, which is a wrong answer and no error; or another error.
Failure = Literal["refused", "withheld", "not reached", "not asked", "step failed", "failed"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool called."""

    id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    arguments: str
    """Arguments as JSON, as the model wrote them."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. tool_calls: of an assistant's turn. tool_call_id: of a tool's, the call that it answers."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    __repr__ = brief

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Read `to_dict`."""
        calls = (
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in data.get("tool_calls", ())
        )
        return cls(data["role"], data["content"], tuple(calls), data.get("tool_call_id", ""))

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as the chat-completions protocol has it."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        if self.tool_call_id:
            data["tool_call_id"] = self.tool_call_id
        return data

    @property
    def shown(self) -> str:
        """The turn for people: its content, and the tools that it calls."""
        calls = (f"{call.name}({call.arguments})" for call in self.tool_calls)
        return "\n".join(filter(None, (self.content, *calls)))


def question(turns: Iterable[Message]) -> str:
    """Return the user's last turn: what the conversation asks at its end."""
    return [turn.content for turn in turns if turn.role == "user"][-1]


def transcript(turns: Iterable[Message]) -> str:
    """Return a conversation as one text: each turn behind the name of its role."""
    return "\n".join(f"{turn.role.capitalize()}: {turn.shown}" for turn in turns)


USAGE_IF_NOT_0 = ("cached_tokens", "cache_write_tokens", "reasoning_tokens", "read_s", "write_s")
_ALWAYS = ("prompt_tokens", "completion_tokens", "cost_usd")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one or more calls. A part that a file does not have is 0, but for `billed_usd`."""

    prompt_tokens: Count = 0
    """Tokens that were sent, from a cache or not."""
    completion_tokens: Count = 0
    """Tokens that the model wrote, its hidden reasoning included."""
    cost_usd: float | None = 0.0
    """US dollars by the known prices; null if a price is not known."""
    cached_tokens: Count = 0
    """Prompt tokens that were read from the provider's cache."""
    cache_write_tokens: Count = 0
    """Prompt tokens that were written to the provider's cache."""
    reasoning_tokens: Count = 0
    """Completion tokens that were hidden reasoning."""
    billed_usd: float | None = None
    """US dollars that the endpoint says it charges; null unless it says so for every call."""
    read_s: Seconds = 0.0
    """Seconds that the model took to read, if the endpoint says so."""
    write_s: Seconds = 0.0
    """Seconds that the model took to write, if the endpoint says so."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens at the full price of input."""
        return self.prompt_tokens - self.cached_tokens - self.cache_write_tokens

    def with_cost(self, cost_usd: float | None) -> Usage:
        """Return the same tokens at another cost."""
        # Name by name: `replace` takes four times as long, and each request comes here.
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            cost_usd,
            self.cached_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
            self.billed_usd,
            self.read_s,
            self.write_s,
        )

    def __add__(self, other: Usage) -> Usage:
        if self._is_nothing:
            return other
        if other._is_nothing:
            return self
        # What used no tokens and names no bill, as a request that failed, adds nothing to the bill.
        bills = [one.billed_usd for one in (self, other) if one.total_tokens or one.billed_usd is not None]
        # Name by name: this is added up several times for each request.
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            total(self.cost_usd, other.cost_usd),
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            total(*bills) if bills else None,
            self.read_s + other.read_s,
            self.write_s + other.write_s,
        )

    @property
    def _is_nothing(self) -> bool:
        """Whether it adds nothing: most sums of a row begin so."""
        return (
            self.cost_usd == 0
            and not self.total_tokens
            and self.billed_usd is None
            and not (self.read_s or self.write_s)
        )

    def to_record(self) -> dict[str, Any]:
        """Return the parts as JSON, without those that are 0 and without a bill that is not known."""
        record: dict[str, Any] = {name: getattr(self, name) for name in _ALWAYS}
        record |= {name: value for name in USAGE_IF_NOT_0 if (value := getattr(self, name))}
        return record if self.billed_usd is None else {**record, "billed_usd": self.billed_usd}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Usage:
        """Read `to_record` out of a record that may hold more.

        Raises:
            KeyError: For another record.
        """
        always = {name: record[name] for name in _ALWAYS}
        optional = (name for name in (*USAGE_IF_NOT_0, "billed_usd") if name in record)
        return cls(**always, **{name: record[name] for name in optional})


def total(*costs: float | None) -> float | None:
    """Return the sum; None if one of them is not known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def text_of(value: object) -> str:
    """Return a value of a row as the text that a prompt is filled with.

    A text stays as it is, null is the empty text, and everything else is JSON: 1 -> "1", true -> "true",
    1.0 -> "1.0", lists and objects without spaces and with their letters unescaped.
    """
    return value if isinstance(value, str) else _json(value, _COMPACT)


def content_of(value: object) -> str:
    """Return a value as the text that a row's id, place in the splits and twins are computed from.

    The same as `text_of` but for lists and objects, whose JSON has spaces: another form would move rows.
    """
    return value if isinstance(value, str) else _json(value, _SPACED)


def _json(value: object, encoder: json.JSONEncoder) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | int | float | list | tuple | dict):
        return encoder.encode(value)
    return str(value)  # a date or the like, in a row that a program has at hand


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)
_SPACED = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class Example:
    """One row. `id` comes from the content alone, so it is the same in every file and on every machine.

    input, target, fields: JSON values as the file or the program has them: text, number, true or false, list,
        object or null. `fields` are all of the row, for `{placeholders}`; input and target are two of them.
        The target is None in a row without one, as a judge may grade it.
    turns: the conversation that the input is, without a system turn at its start; () for any other input.
    input_text, target_text: the two as `text_of` writes them; of a conversation the user's last turn.
    content: the input as it identifies the row.
    group: rows with the same one belong together: they stay in one part, and are no independent evidence.
    path, line, row: the file, the 1-based line in it, and the 1-based number of the row if lines do not tell
        rows apart; for messages. None and 0 if unknown. Rows of a Python program have a number alone.
    """

    id: str
    input: object
    target: object
    fields: Mapping[str, object]
    group: str | None = None
    line: int = 0
    path: Path | None = field(default=None, compare=False)
    row: int = field(default=0, compare=False)
    turns: tuple[Message, ...] = ()
    content: str = field(default="", repr=False, compare=False)
    input_text: str = field(init=False, repr=False, compare=False)
    target_text: str = field(init=False, repr=False, compare=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_text", question(self.turns) if self.turns else text_of(self.input))
        object.__setattr__(self, "target_text", text_of(self.target))
        if not self.content:
            object.__setattr__(self, "content", content_of(self.input))

    @property
    def has_target(self) -> bool:
        return self.target is not None

    @property
    def full_text(self) -> str:
        """All of the input as one text: of a conversation every turn."""
        return transcript(self.turns) if self.turns else self.input_text

    @property
    def place(self) -> Place:
        """Where the row was read from."""
        return Place(self.path, self.line or None, self.row - 1 if self.row else None)

    @property
    def name(self) -> str:
        """`items.jsonl line 12` or `rows[5]`; its id if neither is known."""
        is_placed = self.path is not None or self.row
        return str(self.place) if is_placed else f"row {self.id}"

    @property
    def unit(self) -> str:
        """A name for what it belongs to: its group, or itself alone."""
        return f"row {self.id}" if self.group is None else f"group {self.group}"

    @property
    def own_id(self) -> str:
        """The field `id` that its file may have; "" where there is none. It need not be unique."""
        return text_of(self.fields.get("id")).strip()


@dataclass(frozen=True, slots=True)
class Demo:
    """One worked example shown to the model in front of the row: an input and the answer to give.

    component: the text of a program of several that it is shown with; "" for a single prompt.
    fields: of its row, those that the prompt asks for beside the input, for its `{placeholders}`.
    turns: the conversation that `output` answers, shown turn by turn; () for a question alone.
    """

    input: str
    output: str
    example_id: str = ""
    component: str = ""
    fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    turns: tuple[Message, ...] = ()

    __repr__ = brief

    @property
    def full_text(self) -> str:
        """All that is asked as one text: of a conversation every turn."""
        return transcript(self.turns) if self.turns else self.input

    def held(self, input_field: str) -> dict[str, str]:
        """Return the fields that it fills a prompt in with."""
        return {input_field: self.full_text, **self.fields}

    @property
    def shown(self) -> str:
        """All that is asked, for people: the input, and the fields that it is not made of."""
        lines = (f"{name}: {text}" for name, text in self.fields.items())
        held = f"\n{self.full_text}\n"
        return "\n".join((self.full_text, *(line for line in lines if f"\n{line}\n" not in held)))

    @property
    def asked(self) -> str:
        """The same in short: of a conversation the user's last turn alone."""
        return self.input if self.turns else self.shown

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Demo:
        """Return the demonstration that `to_dict` or a candidate's record holds."""
        known = {name: data[name] for name in ("example_id", "component", "fields") if data.get(name)}
        turns = tuple(map(Message.from_dict, data.get("messages") or ()))
        return cls(question(turns) if turns else data["input"], data["output"], **known, turns=turns)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON for other programs: without the row that it was made of, nor what it lacks."""
        name = {"component": self.component} if self.component else {}
        more = {"fields": dict(self.fields)} if self.fields else {}
        asked = {"messages": [turn.to_dict() for turn in self.turns]} if self.turns else {"input": self.input}
        return {**name, **asked, "output": self.output, **more}

    @property
    def content(self) -> list[Any]:
        """What makes two the same to a model."""
        turns = [turn.to_dict() for turn in self.turns]
        return [self.input, self.output, *filter(None, [self.component, dict(self.fields), turns])]


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of a workflow or program did with the row."""

    node: str
    """Name of the step."""
    components: tuple[str, ...] = ()
    """Names of the prompts that it was sent with."""
    input: str = ""
    """What it got beside its prompts."""
    output: str = ""
    """What it gave; empty if it failed."""
    error: str | None = None
    """Why it failed; null if it did not."""
    can_demo: bool = False
    """Whether input and output can be shown to this step as a demonstration."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that the model asked for."""

    __repr__ = brief

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Step:
        components = tuple(data.get("components", ()))
        tool_calls = tuple(ToolCall(**call) for call in data.get("tool_calls", ()))
        return cls(**{**data, "components": components, "tool_calls": tool_calls})


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a program answered for one row.

    value: the answer as read from `text` (a label, a number, the text itself); None if it could not be read.
    output: what the program produced, if that is more than a text: a JSON value, whose text is `text`.
    returned: all that a program of the user's own returned, as JSON data, if that is more than a text.
    label_probs: label -> probability in [0, 1], summing to 1; None if the endpoint gives none.
    error: why there is no answer, if the row's calls failed. failure: the kind of that failure; or "step
        failed", where `text` says why and there is no error.
    trace: what each step of a workflow did, in the order in which they ended; empty for a single prompt.
    is_cut: the answer broke off at the cap on its tokens before it could be read or was a label.
    again: asks for another answer in place of one that could not be read; None if that is of no use.
    """

    text: str
    value: str | None
    usage: Usage = Usage()
    label_probs: Mapping[str, float] | None = None
    error: str | None = None
    trace: tuple[Step, ...] = ()
    is_cut: bool = False
    output: object = None
    failure: Failure | None = None
    returned: object = None
    again: Callable[[], Prediction] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unread:
    """Why an answer could not be read.

    `autoprompt.metrics.base.unread_words` tells it in a language.
    """

    kind: str
    """Kind of the fault."""
    answer: str = ""
    """Beginning of the answer."""
    labels: str = ""
    """Labels that were looked for."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Score:
    """value in [0, 1], higher is better, and the reason in words.

    feedback: what a metric, a judge or a failed assertion says for whoever writes the next prompt.
    is_unscored: a judge was asked for a grade and gave none; value is 0.
    unread: why the answer could not be read; None if it could, or another metric has its own words.
    """

    value: float
    reason: str = ""
    is_unscored: bool = False
    feedback: str = ""
    unread: Unread | None = None

    __repr__ = brief

    @property
    def is_correct(self) -> bool:
        return self.value >= 1.0 - 1e-9


def shown_error(error: str | None, failure: str | None) -> str | None:
    """Return why a row failed, with the kind of failure before it if the reason does not say it."""
    return error if error is None or failure in (None, "failed") else f"{failure}: {error}"


@dataclass(frozen=True, slots=True)
class EvaluatedRow:
    """A row that a prompt has answered.

    `is_unscored`, `feedback` and `unread` are as in `Score`, `is_cut` as in `Prediction`.
    """

    example_id: str
    """Id that the content of the row gives: the same in every file."""
    input: str
    """Input of the row; of a conversation its last question."""
    prediction: str
    """The answer as it was read."""
    ground_truth: str
    """The right answer; empty if the row has none."""
    is_correct: bool
    """Whether the score is 1."""
    score: Share
    """Score of the answer by the metric; 0 for a row without an answer."""
    reason: str = ""
    """Why it got this score."""
    confidence: Share | None = None
    """Probability that the model gave to the right label; null if unknown."""
    is_unparsed: bool = False
    """Whether the answer could not be read."""
    error: str | None = None
    """Why there is no answer; null if there is one."""
    usage: Usage = Usage()
    """Tokens and cost of all calls of the row."""
    trace: tuple[Step, ...] = ()
    """What each step did; empty for a single prompt."""
    output: str = ""
    """All that the model wrote, if that is more than `prediction`."""
    is_unscored: bool = False
    """Whether a judge gave no grade."""
    is_cut: bool = False
    """Whether the answer broke off at the limit on its tokens."""
    group: str | None = None
    """Group that the row belongs to; null for a row alone."""
    turns: tuple[Message, ...] = ()
    """Conversation that the input is; empty for any other input."""
    feedback: str = ""
    """What the metric says for whoever writes the next prompt."""
    failure: Failure | None = None
    """Kind of the failure, if there is no answer."""
    unread: Unread | None = None
    """Why the answer could not be read; null if it could."""

    __repr__ = brief

    @property
    def full_text(self) -> str:
        """As in `Example`."""
        return transcript(self.turns) if self.turns else self.input

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvaluatedRow:
        """Read `to_dict`."""
        trace = tuple(map(Step.from_dict, data.get("trace", ())))
        turns = tuple(map(Message.from_dict, data.get("turns", ())))
        unread = Unread(**found) if (found := data.get("unread")) else None
        usage = Usage.from_record(found) if (found := data.get("usage")) else Usage()
        return cls(**{**data, "trace": trace, "turns": turns, "unread": unread, "usage": usage})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `turns` as the chat-completions protocol has them, `usage` without what is 0."""
        # Name by name: `asdict` copies deeply, and there may be 100,000 rows.
        return {
            **{name: getattr(self, name) for name in _ROW},
            "usage": self.usage.to_record(),
            "trace": tuple(map(asdict, self.trace)),
            "turns": [turn.to_dict() for turn in self.turns],
            "unread": None if self.unread is None else asdict(self.unread),
        }

    @property
    def is_lost(self) -> bool:
        """Whether the endpoint failed this row, or the budget ended: it compares with nothing.

        A request that was refused or withheld by a filter is the candidate's own: it scores 0.
        """
        return self.error is not None and not self.is_refused and not self.is_withheld

    @property
    def shown_error(self) -> str | None:
        """The error with its kind before it, for people."""
        return shown_error(self.error, self.failure)

    @property
    def is_refused(self) -> bool:
        return self.failure == "refused"

    @property
    def is_withheld(self) -> bool:
        return self.failure == "withheld"

    @property
    def is_wrong(self) -> bool:
        """Whether it counts and is not right: of a lost row nothing is known."""
        return not self.is_correct and not self.is_lost

    @property
    def is_unasked(self) -> bool:
        return self.failure == "not asked"

    @property
    def has_failed_step(self) -> bool:
        """Whether a node of the workflow, or the user's program, raised an error."""
        return self.failure == "step failed"

    @property
    def has_failed(self) -> bool:
        """Whether there is no answer: a request, a node or the program failed."""
        return self.error is not None or self.has_failed_step

    @property
    def is_unread(self) -> bool:
        """Whether there is an answer, and it could not be read."""
        return self.is_unparsed and not self.has_failed


_ROW = tuple(part.name for part in fields(EvaluatedRow))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A candidate's rows, in the order of the examples that were asked for."""

    candidate_id: str
    rows: tuple[EvaluatedRow, ...]

    __repr__ = brief

    @property
    def score(self) -> float:
        """Mean score in [0, 1]; 0.0 for no rows."""
        return sum(row.score for row in self.rows) / len(self.rows) if self.rows else 0.0

    @property
    def correct(self) -> int:
        return sum(row.is_correct for row in self.rows)

    @property
    def scores(self) -> dict[str, float]:
        return {row.example_id: row.score for row in self.rows}


@dataclass(frozen=True, slots=True)
class Origin:
    """What a candidate is taken out of, so that it can be scored as it was there.

    name: of the run or the export, as messages say it. labels: the only answers there, () for free ones; None
        where that is not known. input_field, target_field: of an export, the fields of a row that hold its
        input and the expected answer.
    run_dir: of a run, absolute: its files say which rows it has looked at; None for an export.
    marks: of an export, those of the rows that its run has looked at, see `autoprompt.runs.provenance`; None
        if it names no run.
    places: of an export of a program, where its texts are in requests; None for others.
    """

    name: str
    labels: tuple[str, ...] | None = None
    input_field: str | None = None
    target_field: str | None = None
    run_dir: str | None = None
    marks: frozenset[bytes] | None = field(default=None, repr=False)
    places: tuple[Mapping[str, Any], ...] | None = field(default=None, hash=False, repr=False)

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Change:
    """What makes a candidate differ from its parent; `autoprompt.memory.words` tells it in a language.

    component: whose text and demonstrations; "" if the program has one prompt.
    added, removed: what the text says anew, and what no longer, whole.
    demos, how: demonstrations that are new, and how they were chosen: a key of `autoprompt.memory.HOW`,
        or "bare" if none is shown any more.
    cues: answers whose typical words are named. reasons: whether the model reasons first now.
    note: what a person wrote instead.
    """

    component: str = ""
    added: str = ""
    removed: str = ""
    demos: int = 0
    how: str = ""
    cues: int = 0
    reasons: bool = False
    note: str = ""

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        """Return what is set, as plain JSON; `from_dict` reads it."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that can win: the texts of a program's components, and the demonstrations shown with it.

    components: name -> prompt text; a single prompt has the one component "prompt".
    parents, operator, iteration, change: where it came from; they do not enter `id`.
    change: what was changed, for the memory and the report.
    told: ids of train rows whose answers its author has seen beside its demonstrations: no fair sample for
        it, unless all that they decided is what it shows.
    origin: the run or the export that it is taken out of, which is not written; None within a run.
    """

    components: Mapping[str, str]
    demos: tuple[Demo, ...] = ()
    parents: tuple[str, ...] = ()
    operator: str = "original"
    iteration: int = 0
    change: Change = Change()
    told: tuple[str, ...] = ()
    id: str = field(default="")
    origin: Origin | None = field(default=None, compare=False, repr=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        if not self.id:
            body = [sorted(self.components.items()), [demo.content for demo in self.demos]]
            # Half of a surrogate pair, which a model may write, has no form in UTF-8.
            text = json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")
            object.__setattr__(self, "id", hashlib.sha256(text).hexdigest()[:12])

    @property
    def prompt(self) -> str:
        """The text of the only component; of several, all of them under their names."""
        if len(self.components) == 1:
            return next(iter(self.components.values()))
        return "\n\n".join(f"[{name}]\n{text}" for name, text in self.components.items())

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The only answers where it comes from, () for free ones; None where that is not known."""
        return None if self.origin is None else self.origin.labels

    def demos_of(self, component: str) -> tuple[Demo, ...]:
        """Return those that are shown with this component; of a single prompt, all."""
        return tuple(d for d in self.demos if d.component in ("", component))

    def changed_since(self, other: Candidate) -> tuple[str, ...]:
        """Names of the components whose text or demonstrations are not those of `other`."""
        return tuple(
            name
            for name, text in self.components.items()
            if text != other.components.get(name) or self.demos_of(name) != other.demos_of(name)
        )

    def active(self) -> AbstractContextManager[None]:
        """Return a block in which your own program runs with these texts and demonstrations.

        Threads and tasks that begin in the block have them too. `autoprompt.use` does the same for a process.

        Raises:
            ConfigError: They are those of a prompt or a workflow.
        """
        active = importlib.import_module("autoprompt.programs.using").active  # this module knows no programs
        found: AbstractContextManager[None] = active(self)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without `origin`, which is the same for the whole run; `from_dict` reads it."""
        parts = {"parents": list(self.parents), "told": list(self.told), "change": self.change.to_dict()}
        demos = [
            {**demo.to_dict(), "example_id": demo.example_id, "component": demo.component}
            for demo in self.demos
        ]
        data = {**asdict(replace(self, demos=())), "components": dict(self.components), **parts}
        del data["origin"]
        return data | {"demos": demos}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Candidate:
        demos = tuple(map(Demo.from_dict, data.get("demos", ())))
        lists = {name: tuple(data.get(name, ())) for name in ("parents", "told")}
        change = Change.from_dict(data.get("change", {}))
        return cls(**{**data, "demos": demos, "change": change, **lists})
