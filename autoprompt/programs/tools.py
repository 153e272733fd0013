"""What a program's tools gave: run once for a row and its arguments, kept, and given again."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoprompt.errors import Place
from autoprompt.programs.places import NOWHERE
from autoprompt.text.files import append_jsonl, read_jsonl

# Of a tool's name, a word that says it changes something outside of the program.
_WRITES = re.compile(
    r"(?:^|_)(?:send|post|put|delete|remove|drop|create|insert|update|write|append|save|store|upload|publish"
    r"|pay|refund|charge|transfer|buy|order|book|cancel|notify|email|mail|sms|tweet|deploy|execute|exec|run"
    r"|kill|reset|set|add|submit|move|rename|merge|commit|push)(?:_|$)"
)

# `get_order` reads, whatever it reads.
_READS = re.compile(
    r"(?:get|find|search|look|lookup|list|read|fetch|show|check|query|count|is|has|view|describe|retrieve)(?:_|$)"
)


def writes(name: str) -> bool:
    """Return whether a tool's name says that it changes something."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    return _READS.match(plain) is None and _WRITES.search(plain) is not None


@dataclass(frozen=True, slots=True)
class UsedTool:
    """A tool that a program is about to run.

    place: of its code. is_read_only, is_destructive: what it says of itself, as tools of MCP do.
    """

    name: str
    place: Place = NOWHERE
    is_read_only: bool = False
    is_destructive: bool = False

    @property
    def writes(self) -> bool:
        return self.is_destructive or (writes(self.name) and not self.is_read_only)


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
