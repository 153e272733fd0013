"""The rows that a program has finished in a run, in a file: a resumed run does not run it on them again.

A row that failed at an endpoint is not one of them: it is asked again. Of a row that was cut off, the run's
journal has the answers to single requests.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autoprompt.records import Candidate, Prediction, Step, Usage
from autoprompt.text.files import append_jsonl, bounded_lines, open_file, sha256_of, to_json


@dataclass(frozen=True, slots=True)
class Finished:
    """A row that is done. calls: keys of its requests in the run's journal."""

    prediction: Prediction
    calls: tuple[str, ...]


@dataclass
class FinishedRows:
    """Rows by candidate. Thread-safe; one process at a time. Texts stay on disk.

    path: None keeps nothing. source: a digest of the program: what another one did with a row does not count.
    """

    path: Path | None = None
    source: str = ""
    _begins: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        with open_file(self.path) as stream:
            begin = 0
            for line in bounded_lines(stream):
                if (record := _read(line)) is not None:
                    self._begins[record["key"]] = begin
                begin += len(line)

    def find(self, candidate: Candidate, row_id: str) -> Finished | None:
        """Return what the program did with a row under a candidate, if it has finished it."""
        if self.path is None:
            return None
        with self._lock:
            begin = self._begins.get(self._key(candidate, row_id))
        if begin is None:
            return None
        with open_file(self.path) as stream:
            stream.seek(begin)
            record = _read(stream.readline())
        return None if record is None else Finished(_prediction(record), tuple(record["calls"]))

    def keep(self, candidate: Candidate, row_id: str, prediction: Prediction, calls: Sequence[str]) -> None:
        """Keep a row, unless it failed or JSON does not hold what the program returned."""
        if (
            self.path is None
            or prediction.error is not None
            or not _is_plain([prediction.output, prediction.returned])
        ):
            return
        key = self._key(candidate, row_id)
        record = {
            "key": key,
            "candidate": candidate.id,
            "row": row_id,
            "sample": 0,
            "text": prediction.text,
            "value": prediction.value,
            "output": prediction.output,
            "returned": prediction.returned,
            "is_cut": prediction.is_cut,
            "failure": prediction.failure,
            "usage": prediction.usage.to_record(),
            "trace": [asdict(step) for step in prediction.trace],
            "calls": list(calls),
        }
        with self._lock:
            self._begins[key] = append_jsonl(self.path, [record])

    def _key(self, candidate: Candidate, row_id: str) -> str:
        shown = [[demo.component, demo.to_dict()] for demo in candidate.demos]
        return sha256_of(to_json([self.source, row_id, sorted(candidate.components.items()), shown]))


def _read(line: bytes) -> dict[str, Any] | None:
    """Return a record; None for a line that a kill has torn."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "key" in record else None


def _prediction(record: Mapping[str, Any]) -> Prediction:
    return Prediction(
        record["text"],
        record["value"],
        Usage.from_record(record["usage"]),
        trace=tuple(Step.from_dict(step) for step in record["trace"]),
        is_cut=record["is_cut"],
        output=record["output"],
        returned=record["returned"],
        failure=record["failure"],
    )


def _is_plain(value: object) -> bool:
    """Return whether JSON gives a value back as it was."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
