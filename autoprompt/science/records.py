"""What an investigation leaves: the record of each pass, and all of it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from autoprompt.errors import Problem, Voice
from autoprompt.records import Usage
from autoprompt.text.files import read_json, write_json, write_text


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
        """Records 1 to `count`."""
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

    messages: the transcript, `[{"role": "user", ...}, {"role": "assistant", ...}]`.
    passes: a record for each turn of the model, the one with the conclusion included.
    conclusion: "" where a cap ended the run before one could be asked for, or the model gave none; see
        `was_asked`.
    stopped_early: it ended before its last pass, for `stop_reason`: "no_experiment", "concluded", or the name
        of the cap that was reached; "" where it did not.
    sandbox: the level that the code ran at. run_dir: the run's folder, "" for one without.
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
        """Return plain data, the `result.json` of a run. voice: Of the warnings' messages."""
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
        """Return the investigation that `to_dict` wrote; unknown entries are ignored."""
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
