"""A model for the pages: an endpoint that knows the answers of a page's rows, if it is prompted well.

It answers rightly if its request shows demonstrations or the rule that its writer adds to prompts, and
wrongly for half of the rows otherwise. Grades, analyses and descriptions are fixed sentences.
"""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fake_endpoint import Reply, answer

RULE = "Read the whole text before you answer."
TARGETS = ("queue", "priority", "target", "label", "answer", "team", "fields", "reference")
INPUTS = ("text", "message", "question", "messages")
_CHARACTERS_A_TOKEN = 4


class PageModel:
    """rows: the texts of a row and its target, read anew from the page's folder if a question is unknown."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}
        self._others: dict[str, str] = {}

    def reply(self, body: Mapping[str, Any]) -> Reply:
        messages = body["messages"]
        text = self._text(messages)
        if body.get("tools") and messages[-1]["role"] != "tool":
            return self._call(body)
        prompt_tokens = sum(len(str(message["content"])) for message in messages) // _CHARACTERS_A_TOKEN
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": max(1, len(text) // _CHARACTERS_A_TOKEN),
        }
        usage["total_tokens"] = sum(usage.values())
        return answer(text, usage=usage, model=body["model"])

    def _call(self, body: Mapping[str, Any]) -> Reply:
        """A call of the first tool that is offered, with the first order number of the question."""
        tool = body["tools"][0]["function"]
        number = re.search(r"\b[A-Z]\d+\b", str(body["messages"][-1]["content"]))
        arguments = dict.fromkeys(tool["parameters"]["properties"], number[0] if number else "none")
        called = {"name": tool["name"], "arguments": json.dumps(arguments)}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": called}],
        }
        made = answer("")
        made.body["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
        return made

    def _text(self, messages: list[dict[str, Any]]) -> str:
        asked = "\n".join(str(message["content"]) for message in messages)
        if current := re.search(r"<current>\n(.*?)\n</current>", asked, re.DOTALL):
            return f"```\n{current[1]}\n{RULE}\n```"
        if classes := re.search(r"The classes are:\n(.+)", asked):
            return re.sub(r"\W+", " ", classes[1]).split()[0]
        if "You grade an answer" in asked:
            given = re.search(r"<answer>\n(.*?)\n</answer>", asked, re.DOTALL)
            is_good = given is not None and len(given[1]) > 10
            return json.dumps(
                {
                    "reason": "It says what comes next." if is_good else "It says nothing.",
                    "score": 5 if is_good else 2,
                }
            )
        question = max(
            (str(message["content"]) for message in messages if message["role"] == "user"),
            key=len,
            default="",
        )
        last = next((str(m["content"]) for m in reversed(messages) if m["role"] == "user"), question)
        target = self._target(last)
        if target is None:
            return "The wrong rows lack a rule."
        is_shown = any(message["role"] == "assistant" and message["content"] for message in messages[:-1])
        is_known = RULE in asked or is_shown or zlib.crc32(last.encode()) % 2
        if is_known:
            return target
        return "OK." if target.endswith((".", "?")) else self._others.get(target, "I do not know")

    def _target(self, question: str) -> str | None:
        """The target of the row whose longest text the question holds."""
        if not any(text in question for text in self._known):
            self._known = dict(self._read())
            targets = sorted(set(self._known.values()))
            self._others = dict(zip(targets, [*targets[1:], targets[0]], strict=True)) if targets else {}
        held = [text for text in self._known if text in question]
        return self._known[max(held, key=len)] if held else None

    def _read(self) -> Iterator[tuple[str, str]]:
        for path in sorted(self._folder.rglob("*.*")):
            if path.suffix not in (".jsonl", ".csv") or "runs" in path.parts:
                continue
            with path.open(encoding="utf-8") as file:
                rows = csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file)
                for row in rows:
                    name = next((name for name in TARGETS if name in row), None)
                    texts = [_written(row[field]) for field in INPUTS if field in row]
                    if name is not None and texts:
                        yield texts[0], _written(row[name])


def _written(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[-1], dict) and "content" in value[-1]:
        return str(value[-1]["content"])  # a conversation: its question
    return value if isinstance(value, str) else json.dumps(value)
