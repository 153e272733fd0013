"""The passes of a scientific run, as its files hold them: whole ones, and the one that is at work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoprompt.errors import Problem, StoreError
from autoprompt.runs import RunFolder
from autoprompt.text.files import read_json

_FILE = re.compile(r"pass-(\d{1,6})\.json")
_SECTION = re.compile(r"<(\w+)>(.*?)(?:</\1>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pass:
    """One turn of the model. sections: tag and text, in their order; observation: of its code, None before.

    exit_code: of its code, None where none ran, negative for a signal.
    """

    number: int
    sections: tuple[tuple[str, str], ...]
    observation: str | None
    exit_code: int | None
    duration_s: float
    killed_by: str
    new_files: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class ScienceRun:
    """task: what was asked. conclusion: "" while there is none. stop_reason: why it ended early, or ""."""

    task: str
    io: str
    model: str
    passes: tuple[Pass, ...]
    most_passes: int | None
    conclusion: str
    stop_reason: str
    sandbox: str
    calls: int | None
    tokens: int
    seconds: float | None
    warnings: tuple[str, ...]


def read_science(folder: RunFolder) -> ScienceRun:
    """A scientific run as it stands. Raises StoreError for one that cannot be read."""
    config, result = folder.read_config(), folder.read_result() or {}
    task = folder.path / "task.json"
    said = read_json(task) if task.exists() else {}
    passes = tuple(_passes(folder))
    most = config.get("max_iterations")
    return ScienceRun(
        task=str(said.get("task") or config.get("task") or ""),
        io=str(said.get("io") or config.get("io") or ""),
        model=str(result.get("model") or config.get("model") or ""),
        passes=passes,
        most_passes=most if isinstance(most, int) else None,
        conclusion=str(result.get("conclusion") or ""),
        stop_reason=str(result.get("stop_reason") or ""),
        sandbox=str(result.get("sandbox") or ""),
        calls=result.get("calls"),
        tokens=sum(record.tokens for record in passes),
        seconds=result.get("seconds"),
        warnings=tuple(str(Problem.from_dict(warning)) for warning in result.get("warnings") or ()),
    )


def _passes(folder: RunFolder) -> list[Pass]:
    parent = folder.path / "passes"
    if not parent.is_dir() or parent.is_symlink():
        return []
    found = [(int(match[1]), path) for path in parent.iterdir() if (match := _FILE.fullmatch(path.name))]
    plain = [(number, path) for number, path in sorted(found) if path.is_file() and not path.is_symlink()]
    return [_pass(number, read_json(path)) for number, path in plain]


def _pass(number: int, data: Mapping[str, Any]) -> Pass:
    text = str(data.get("text") or "")
    sections = tuple((m[1], m[2].strip()) for m in _SECTION.finditer(text)) or (
        (("Answer", text),) if text else ()
    )
    usage = data.get("usage") or {}
    if not isinstance(usage, dict):
        raise StoreError(Problem("web.bad-pass", f"pass {number}: its usage is not an object"))
    exit_code = data.get("exit_code")
    return Pass(
        number=number,
        sections=tuple((tag, body) for tag, body in sections if tag != "Observation"),
        observation=None if data.get("observation") is None else str(data["observation"]),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        duration_s=float(data.get("duration_s") or 0.0),
        killed_by=str(data.get("killed_by") or ""),
        new_files=tuple(map(str, data.get("new_files") or ())),
        tokens=sum(int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")),
    )
