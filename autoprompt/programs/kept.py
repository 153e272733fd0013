"""What a run keeps of a program, so that nothing is done twice: its finished rows, and what its tools gave.

A row that failed at an endpoint is not finished: it is asked again. Of a row that was cut off, the run's
journal has the answers to single requests.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autoprompt.records import Candidate, Prediction, Step, Usage
from autoprompt.text.files import (
    append_jsonl,
    bounded_lines,
    json_value,
    open_file,
    read_jsonl,
    sha256_of,
    to_json,
)


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
    record = json_value(line)
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


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's result as it was."""

    value: Any


@dataclass
class ToolResults:
    """Results by row, tool and arguments, the k-th equal call apart; in a file too, from `keep_in` on."""

    _path: Path | None = None
    _kept: dict[str, Any] = field(default_factory=dict)
    _running: dict[str, Future[None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep_in(self, path: Path) -> None:
        """Keep results in this file too, and take those that it has: of the run before it was resumed."""
        with self._lock:
            self._path = path
            had = {record["key"]: record["value"] for record in read_jsonl(path)} if path.exists() else {}
            new = {key: value for key, value in self._kept.items() if key not in had}
            self._kept |= had
            append_jsonl(path, [{"key": key, "value": value} for key, value in new.items()])

    def begin(self, key: str, call_id: str | None) -> Result | Future[None] | None:
        """Return what is kept of a call; a future while another candidate's row makes the same call.

        None: it is yours to make. End it with `end`, after `keep` if it gave a result.
        """
        with self._lock:
            if key in self._kept:
                return Result(_unpacked(self._kept[key], call_id))
            if (running := self._running.get(key)) is not None:
                return running
            self._running[key] = Future()
            return None

    def keep(self, key: str, value: Any) -> None:
        packed = _packed(value)
        if packed is None:
            return
        with self._lock:
            self._kept[key] = packed
            if self._path is not None:
                append_jsonl(self._path, [{"key": key, "value": packed}])

    def end(self, key: str) -> None:
        """Let those who wait for a call look again: at its result, or to make it themselves."""
        with self._lock:
            running = self._running.pop(key)
        running.set_result(None)


def key_of(row_id: str, name: str, arguments: object, counts: Counter[str]) -> str:
    """Return the key of a call, and count it. Arguments of a tool call are those the model gave."""
    given = (
        arguments.get("args", arguments)
        if isinstance(arguments, Mapping) and "id" in arguments
        else arguments
    )
    plain = json.dumps([row_id, name, given], sort_keys=True, default=str, ensure_ascii=False)
    counts[plain] += 1
    return f"{plain}#{counts[plain]}"


def _packed(value: Any) -> dict[str, Any] | None:
    """Return a result as JSON; None for one that JSON does not hold."""
    if type(value).__name__ == "ToolMessage":
        from langchain_core.messages import message_to_dict

        value = message_to_dict(value)
        kind = "message"
    else:
        kind = "value"
    try:
        if json.loads(text := json.dumps(value)) != value and kind == "value":
            return None
    except (TypeError, ValueError):
        return None
    return {"kind": kind, "value": json.loads(text)}


def _unpacked(packed: Mapping[str, Any], call_id: str | None) -> Any:
    if packed["kind"] == "value":
        return packed["value"]
    from langchain_core.messages import messages_from_dict

    (message,) = messages_from_dict([packed["value"]])
    return message.model_copy(update={"tool_call_id": call_id}) if call_id else message
