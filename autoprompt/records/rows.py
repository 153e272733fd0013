"""A row of a dataset, and what a program answered for it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from autoprompt.brief import brief
from autoprompt.errors import Place
from autoprompt.records.base import Share, record
from autoprompt.records.messages import Message, ToolCall, Usage, question, transcript


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


# Why a row has no answer: the endpoint would not take its request; a content filter took it, or the model
# declined; its workflow lacked a tool or a service; the budget had no call or time; a step failed on what a
# model answered, which is a wrong answer and no error; or another error.
Failure = Literal["refused", "withheld", "not reached", "not asked", "step failed", "failed"]


@record
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


@record
class Step:
    """What a step of a workflow or program did with the row."""

    node: str
    """Name of the step."""
    components: tuple[str, ...] = ()
    """Names of the prompts that it was sent with."""
    input: str = ""
    """What it got beside its prompts."""
    output: str = ""
    """What it gave; of a step that failed what its model answered, if it did."""
    error: str | None = None
    """Why it failed; null if it did not."""
    can_demo: bool = False
    """Whether input and output can be shown to this step as a demonstration."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that the model asked for."""
    model_of: Literal["", "node", "code"] = ""
    """What names the model that answered it: a workflow's node or the program's code; empty if none did."""

    __repr__ = brief

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Step:
        components = tuple(data.get("components", ()))
        tool_calls = tuple(ToolCall(**call) for call in data.get("tool_calls", ()))
        return cls(**{**data, "components": components, "tool_calls": tool_calls})


@record
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


@record
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


@record
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
