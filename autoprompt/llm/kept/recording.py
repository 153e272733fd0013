"""Answers in a file that can be kept in git: recorded once with a model, replayed anywhere without one.

JSON lines: a head that names the models, then one line for each request, sorted by its key. The key says
what was asked and how, not of which endpoint: what was recorded on one machine is replayed on another.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprompt.errors import BudgetExhausted, ConfigError, EndpointError, Place, Problem, RequestRefusedError
from autoprompt.llm.client import CallRole, Client, Completion, Options
from autoprompt.llm.kept.cache import from_record, request_key, to_record
from autoprompt.records import Message
from autoprompt.text.files import read_bytes
from autoprompt.text.names import counted

SCHEMA_VERSION = 1
_KIND = "autoprompt recording"
_FAILED, _REFUSED = "failed", "refused"


class Recording:
    """Requests and what came back, by role of the model. Safe to use from several threads.

    models: role -> name of the model that answered.
    """

    def __init__(self, models: Mapping[str, str] | None = None) -> None:
        self.models: dict[str, str] = dict(models or {})
        self._lock = threading.Lock()
        self._records: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def put(self, key: str, record: dict[str, Any]) -> None:
        with self._lock:
            self._records[key] = record

    def get(self, key: str) -> dict[str, Any] | None:
        return self._records.get(key)

    def to_text(self) -> str:
        """Return the file's text: equal answers give equal bytes."""
        head = {
            "kind": _KIND,
            "schema_version": SCHEMA_VERSION,
            "models": dict(sorted(self.models.items())),
            "answers": len(self._records),
        }
        records = ({"key": key, **record} for key, record in sorted(self._records.items()))
        return "".join(_line(data) + "\n" for data in (head, *records))


def read_recording(path: Path) -> Recording:
    """Return the recording in this file.

    Raises ConfigError with the line: no such file, no text, another kind of file, a newer schema, a line
    that is not a record, fewer answers than the head says.
    """
    try:
        lines = read_bytes(path).decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(
            Problem("recording.not-utf8", "not UTF-8 text", Place(path), _AGAIN, _RECORD)
        ) from error
    except OSError as error:
        raise ConfigError(
            Problem(
                "recording.unreadable",
                f"no recording can be read ({error.strerror})",
                Place(path),
                _AGAIN,
                _RECORD,
            )
        ) from error
    head = _object(path, 1, lines[0])
    version = head.get("schema_version")
    if head.get("kind") != _KIND or not isinstance(version, int) or not isinstance(head.get("models"), dict):
        fix = "Give a file that {record} wrote."
        raise ConfigError(
            Problem(
                "recording.not-a-recording",
                "not the head of a recording",
                Place(path, 1),
                fix,
                _RECORD,
            )
        )
    if version != SCHEMA_VERSION:
        said = (
            f"another version of autoprompt wrote this recording (format {version}; this one reads "
            f"{SCHEMA_VERSION})"
        )
        raise ConfigError(Problem("recording.other-format", said, Place(path), _AGAIN, _RECORD))
    recording = Recording(head["models"])
    for number, line in enumerate(lines[1:], 2):
        record = _object(path, number, line)
        if not _is_answer(record):
            raise ConfigError(
                Problem(
                    "recording.no-answer",
                    "no answer of a model",
                    Place(path, number),
                    _AGAIN,
                    _RECORD,
                )
            )
        recording.put(record.pop("key"), record)
    if len(recording) != head.get("answers"):
        said = f"{counted(len(recording), 'answer')} found, its head says {head.get('answers')}"
        raise ConfigError(Problem("recording.incomplete", said, Place(path), _AGAIN, _RECORD))
    return recording


_AGAIN, _RECORD = "Record again with {record}.", {"record": None}


class RecordingClient:
    """Asks a model and notes what comes back, failures of single requests too. `close()` closes the model."""

    def __init__(self, inner: Client, recording: Recording, role: CallRole) -> None:
        self._inner, self._recording, self._role = inner, recording, role
        recording.models[role] = inner.name

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        key = _key(self._role, messages, options)
        try:
            completion = self._inner.complete(messages, options)
        except EndpointError as error:
            if not error.is_fatal:
                self._recording.put(key, {_FAILED: str(error)})
            raise
        except RequestRefusedError as error:
            self._recording.put(key, {_REFUSED: str(error)})
            raise
        record = to_record(completion)
        del record["latency_s"]  # differs from time to time, and tells nothing of the answer
        self._recording.put(key, record)
        return completion

    def close(self) -> None:
        self._inner.close()


class ReplayClient:
    """Answers from a recording and sends nothing.

    Raises ConfigError for a request that was not recorded; BudgetExhausted for a question asked again, which
    is what ended the asking then.
    """

    def __init__(self, recording: Recording, role: CallRole, path: Path) -> None:
        self._recording, self._role, self._path = recording, role, path

    @property
    def name(self) -> str:
        return self._recording.models.get(self._role, "recorded")

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        record = self._recording.get(_key(self._role, messages, options))
        if record is None and options.is_retry:
            raise BudgetExhausted("replay")
        if record is None:
            asked = " ".join(messages[-1].content.split())[:80] if messages else ""
            said = (
                f"no answer was recorded for {asked!r}, as the prompt, the row or a setting of the model is "
                "not that of the recording"
            )
            fix = "Put it back, or record again with {record}."
            raise ConfigError(Problem("recording.not-recorded", said, Place(self._path), fix, _RECORD))
        if _FAILED in record:
            raise EndpointError(record[_FAILED])
        if _REFUSED in record:
            raise RequestRefusedError(record[_REFUSED])
        return from_record({**record, "latency_s": 0.0})

    def close(self) -> None:
        """Nothing is held."""


def _key(role: CallRole, messages: Sequence[Message], options: Options) -> str:
    return request_key(_KIND, role, "", messages, options)[:32]


def _line(data: Mapping[str, Any]) -> str:
    # Half of a surrogate pair has no form in UTF-8; escaped it comes back as it was.
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else json.dumps(data, ensure_ascii=True, allow_nan=False)


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        said = "not JSON, so no recording"
        raise ConfigError(
            Problem("recording.bad-line", said, Place(path, number), _AGAIN, _RECORD)
        ) from error
    if not isinstance(value, dict):
        said = "not a JSON object, so no recording"
        raise ConfigError(Problem("recording.bad-line", said, Place(path, number), _AGAIN, _RECORD))
    return value


def _is_answer(record: Mapping[str, Any]) -> bool:
    if not isinstance(record.get("key"), str):
        return False
    if _FAILED in record or _REFUSED in record:
        return True
    wanted = ("text", "prompt_tokens", "completion_tokens", "cost_usd", "finish_reason", "model")
    return all(name in record for name in wanted) and isinstance(record["text"], str)
