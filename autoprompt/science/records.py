"""An investigation as records: its passes, its transcript, what its nodes work with and its state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, TypedDict

from autoprompt.brief import brief
from autoprompt.errors import Problem, Voice
from autoprompt.llm.client import CallRole, Client, Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.records import OnEvent, Usage
from autoprompt.sandbox import Level, Limits
from autoprompt.science.tags import OBSERVATION, Section, read_answer
from autoprompt.text.files import read_json, write_json, write_text
from autoprompt.text.templates import Language


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One turn of the model, and what its code did.

    number: from 1. answer: as the model wrote it. text: its tagged parts as in the transcript.
    code, observation: None in a turn that runs nothing. stdout, stderr: as the sandbox kept them.
    exit_code: None where nothing ran, negative for a signal. new_files: paths relative to the work folder.
    has_own_observation: the model wrote an Observation of its own, which was cut with all behind it.
    is_cut: the answer broke off at the cap on its tokens.
    """

    number: int
    answer: str
    text: str
    code: str | None = None
    observation: str | None = None
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    duration_s: float = 0.0
    killed_by: str | None = None
    new_files: tuple[str, ...] = ()
    has_own_observation: bool = False
    usage: Usage = Usage()
    is_cut: bool = False

    __repr__ = brief

    @property
    def has_failed(self) -> bool:
        """Whether its code ran and did not end well."""
        return self.exit_code is not None and self.exit_code != 0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "new_files": list(self.new_files)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PassRecord:
        return cls(**{**data, "new_files": tuple(data["new_files"]), "usage": Usage(**data["usage"])})


class PassLog:
    """The records of one investigation as files: `pass-01.json`, and its script `pass-01.py`.

    A record is written when the model has answered, and again when its code has run: a run that is killed in
    between has the answer, and one that is killed after it has the observation.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, number: int) -> PassRecord | None:
        path = self.folder / f"pass-{number:02}.json"
        return PassRecord.from_dict(read_json(path)) if path.exists() else None

    def first(self, count: int) -> list[PassRecord]:
        """Return records 1 to `count`."""
        found = (self.read(number) for number in range(1, count + 1))
        return [record for record in found if record is not None]

    def add_answer(self, record: PassRecord) -> PassRecord:
        """Write what the model answered; a record of the same answer stays, with what its code did."""
        known = self.read(record.number)
        if known is not None and (known.answer, known.code) == (record.answer, record.code):
            return known
        if record.code is not None:
            write_text(self.folder / f"pass-{record.number:02}.py", record.code + "\n")
        self.write(record)
        return record

    def write(self, record: PassRecord) -> None:
        write_json(self.folder / f"pass-{record.number:02}.json", record.to_dict())


@dataclass(frozen=True, slots=True)
class Investigation:
    """A finished investigation.

    Attributes:
        task: The question.
        messages: The transcript, `[{"role": "user", ...}, {"role": "assistant", ...}]`.
        passes: A record for each turn of the model, the one with the conclusion included.
        conclusion: The answer; "" if a limit ended the run before, or the model gave none (see `was_asked`).
        stopped_early: Whether it ended before its last pass.
        usage: Tokens and cost of all calls.
        stop_reason: Why it ended early: "no_experiment", "concluded", or the limit that was reached; else "".
        io: Inputs and outputs in words, as in the settings.
        model: Name of the model.
        sandbox: The level that the code ran at.
        workdir: Folder of the experiments.
        run_id: The run.
        run_dir: The run's folder; "" without one.
        calls: Requests.
        seconds: Duration.
        warnings: What has to be known beside the conclusion.

    Examples:
        >>> from autoprompt import ScienceConfig, investigate
        >>> found = investigate(ScienceConfig(task="How many rows?", data=("t.csv",)))  # doctest: +SKIP
        >>> print(found.conclusion)  # doctest: +SKIP
    """

    task: str
    messages: tuple[dict[str, str], ...]
    passes: tuple[PassRecord, ...]
    conclusion: str
    stopped_early: bool
    usage: Usage
    stop_reason: str = ""
    io: str | None = None
    model: str = ""
    sandbox: str = ""
    workdir: str = ""
    run_id: str = ""
    run_dir: str = ""
    calls: int = 0
    seconds: float = 0.0
    warnings: tuple[Problem, ...] = ()

    __repr__ = brief

    @property
    def was_asked(self) -> bool:
        """Whether the model has answered to the request for a conclusion, be it with nothing."""
        without_code = list(takewhile(lambda record: record.code is None, reversed(self.passes)))
        # The first of them may be the pass that held no experiment.
        return len(without_code) > (1 if self.stop_reason == "no_experiment" else 0)

    @property
    def new_files(self) -> tuple[str, ...]:
        """What the experiments made or changed in the work folder, relative to it, each once."""
        return tuple(dict.fromkeys(name for record in self.passes for name in record.new_files))

    def to_dict(self, voice: Voice = Voice.PYTHON) -> dict[str, Any]:
        """Return plain data, as `result.json` has it.

        Args:
            voice: How warnings name settings: as the command line, Python or YAML names them.
        """
        data = asdict(self)
        data["passes"] = [record.to_dict() for record in self.passes]
        usage = self.usage.to_record()
        del usage["cost_usd"]
        return {
            "status": "finished",
            **data,
            "messages": list(self.messages),
            "warnings": [problem.to_dict(voice) for problem in self.warnings],
            "usage": {**usage, "total_tokens": self.usage.total_tokens},
            "cost_usd": self.usage.cost_usd,
            "new_files": list(self.new_files),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Investigation:
        """Return the investigation that `to_dict` wrote.

        Args:
            data: What `to_dict` returned. Unknown entries are ignored.
        """
        usage = data["usage"]
        known = {name: data[name] for name in cls.__slots__ if name in data}
        return cls(
            **{
                **known,
                "messages": tuple(data["messages"]),
                "passes": tuple(PassRecord.from_dict(record) for record in data["passes"]),
                "usage": Usage.from_record({**usage, "cost_usd": data["cost_usd"]}),
                "warnings": tuple(map(Problem.from_dict, data["warnings"])),
            }
        )


_LONGEST_FENCE = re.compile(r"`{3,}")


def question(task: str, io: str | None) -> str:
    """Return the user's message."""
    return f"{task}\n\nI/O Requirements:\n{io}" if io else task


def turn(record: PassRecord) -> str:
    """Return what one pass adds to the assistant's text."""
    parts = [record.text] if record.text else []
    if record.observation is not None:
        parts.append(str(Section(OBSERVATION, record.observation)))
    return "\n\n".join(parts)


def messages(task: str, io: str | None, passes: Sequence[PassRecord]) -> list[dict[str, str]]:
    text = "\n\n".join(filter(None, map(turn, passes)))
    return [{"role": "user", "content": question(task, io)}, {"role": "assistant", "content": text}]


def markdown(task: str, io: str | None, passes: Sequence[PassRecord], facts: dict[str, str]) -> str:
    """Return the transcript as a page: a heading for each pass and part, code and observations as blocks.

    facts: what stands under the title, name -> value.
    """
    lines = ["# Investigation", "", *_quoted(question(task, io)), ""]
    lines += [f"- {name}: {value}" for name, value in facts.items() if value]
    for record in passes:
        lines += ["", f"## Pass {record.number}", *_pass(record)]
    return "\n".join(lines).rstrip() + "\n"


def _pass(record: PassRecord) -> Iterator[str]:
    sections = read_answer(record.text).sections
    if not sections:
        yield from ("", record.text or "(nothing)")
    for section in sections:
        yield from ("", f"### {section.tag}", "")
        if section.tag == "Experiment":
            yield from _block(section.text, "python")
        else:
            yield section.text
    if record.observation is not None:
        yield from ("", "### Observation", "", *_block(record.observation, ""), "", _run_facts(record))
    if record.is_cut:
        yield from ("", "_The answer was cut at its limit._")
    if record.has_own_observation:
        yield from ("", "_The model wrote its own Observation; it was removed, with everything after it._")


def _run_facts(record: PassRecord) -> str:
    parts = [f"exit code {record.exit_code}", f"{record.duration_s:.1f} s"]
    if record.killed_by:
        parts.append(f"stopped at its limit of {record.killed_by}")
    if record.new_files:
        parts.append(f"new files: {', '.join(record.new_files)}")
    return f"_{'; '.join(parts)}_"


def _quoted(text: str) -> Iterator[str]:
    yield from (f"> {line}".rstrip() for line in text.split("\n"))


def _block(text: str, language: str) -> Iterator[str]:
    longest = max((len(found) for found in _LONGEST_FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    yield from (f"{fence}{language}", text, fence)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where experiments run. workdir: absolute. data: files copied into it. python: their interpreter."""

    workdir: Path
    data: tuple[Path, ...]
    level: Level
    python: str
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class ScienceContext:
    """role: whose budget line the calls are. max_output_tokens: of one answer. context_tokens: the window of
    the model. language: of the requests; None: the task's. makes_files: whether files are due where `io` is
    given. owns_budget: False where the budget is another run's, who keeps back what it needs. more_room: what
    lets an answer be longer, "" where nothing does."""

    client: Client
    task: str
    io: str | None
    bench: Bench
    log: PassLog
    budget: BudgetMeter
    max_iterations: int
    context_tokens: int
    max_output_tokens: int
    emit: OnEvent
    role: CallRole = "task"
    temperature: float = 0.0
    seed: int = 0
    saved: Callable[[], None] = lambda: None
    journal_position: Callable[[], int] = lambda: 0
    language: Language | None = None
    makes_files: bool = True
    owns_budget: bool = True
    more_room: str = ""
    options: Options = field(init=False)

    def __post_init__(self) -> None:
        options = Options(
            role=self.role,
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            seed=self.seed,
        )
        object.__setattr__(self, "options", options)

    @property
    def experiments(self) -> int:
        """How many experiments there may be: the last pass runs nothing, but one there always is."""
        return max(1, self.max_iterations - 1)

    @property
    def room_tokens(self) -> int:
        return self.context_tokens - self.max_output_tokens


class ScienceState(TypedDict, total=False):
    number: int  # turns of the model so far
    experiments: int  # how many there may be
    known: dict[str, Any]  # what the model learns about data and libraries: {files, libraries}
    has_code: bool  # whether the last turn has an experiment that is to be run
    conclusion: str
    is_concluded: bool
    stopped_early: bool
    stop_reason: str
    warnings: list[dict[str, Any]]  # problems as JSON

    journal_position: int  # answers in the journal at this checkpoint
    spent: dict[str, Any]  # the budget's counters at this checkpoint
