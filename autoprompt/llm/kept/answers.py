"""Requests and answers as they are kept: the key of a request, an answer as plain JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from functools import lru_cache
from typing import Any

from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message, ToolCall, Usage

_MOST_OF_LABELS = 64_000  # characters


def request_key(
    endpoint: str, model: str, constrain: str, messages: Sequence[Message], options: Options
) -> str:
    """64 hex digits that two requests share exactly when one answer may serve both.

    endpoint: the base URL; for an embedded model the sha256 of its weights, as its port changes.
    constrain: how labels are enforced there ("grammar", "json_schema", "off").
    The role is left out: an equal question of judge and writer has one answer. So is the API key.
    """
    head: list[Any] = [
        endpoint,
        model,
        constrain,
        [(message.role, message.content) for message in messages],
        options.temperature,
        options.max_output_tokens,
        options.seed,
        options.sample,
        options.stop,
    ]
    tail: list[Any] = [options.wants_label_probs]
    # Only where there is something to say, so that keys of plain requests stay what they were.
    if options.reasoning_effort is not None:
        tail.append(options.reasoning_effort)
    if options.tools:
        tail.append([astuple(tool) for tool in options.tools])
    if any(message.tool_calls or message.tool_call_id for message in messages):
        tail.append([(m.tool_call_id, [astuple(call) for call in m.tool_calls]) for m in messages])
    text = f"[{_items(head)},{_labels_as_json(options.labels)},{_items(tail)}]"
    return hashlib.sha256(text.encode()).hexdigest()


def _items(values: Sequence[Any]) -> str:
    return json.dumps(values, ensure_ascii=True, separators=(",", ":"))[1:-1]


@lru_cache(maxsize=16)
def _labels_as_json(labels: tuple[str, ...]) -> str:
    """As JSON, written once for all requests of a task; of thousands of labels their hash."""
    text = f"[{_items(labels)}]"
    return text if len(text) <= _MOST_OF_LABELS else f'"{hashlib.sha256(text.encode()).hexdigest()}"'


def to_record(completion: Completion) -> dict[str, Any]:
    """An answer as JSON; what is empty or None is left out. `attempts` and `source` belong to the asking."""
    record: dict[str, Any] = {
        "text": completion.text,
        **completion.usage.to_record(),
        "finish_reason": completion.finish_reason,
        "model": completion.model,
        "latency_s": round(completion.latency_s, 4),
    }
    if completion.tool_calls:
        record["tool_calls"] = [asdict(call) for call in completion.tool_calls]
    if completion.label_probs is not None:
        record["label_probs"] = dict(completion.label_probs)
    return record


def from_record(record: Mapping[str, Any]) -> Completion:
    """What `to_record` wrote, with `attempts` 0: nothing was sent for it now. KeyError for another record."""
    return Completion(
        text=record["text"],
        usage=Usage.from_record(record),
        label_probs=record.get("label_probs"),
        finish_reason=record["finish_reason"],
        model=record["model"],
        latency_s=record["latency_s"],
        attempts=0,
        tool_calls=tuple(ToolCall(**call) for call in record.get("tool_calls", ())),
    )
