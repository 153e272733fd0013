"""What the model sees: the data before it writes code, and what its experiments gave."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from autoprompt import sandbox
from autoprompt.errors import Place, Problem
from autoprompt.sandbox import Level, Limits, SandboxResult
from autoprompt.science.tags import escape_tags
from autoprompt.text.names import counted
from autoprompt.text.templates import Language

MOST_CHARACTERS = 16_000  # of an observation
SCRIPT = "experiment.py"  # what tracebacks call the code
_FEWEST_FOLDED = 3
_MOST_NAMED = 50
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REASONS = {
    "time": "it ran longer than allowed and was ended",
    "cpu": "it used more processor time than allowed and was ended",
    "memory": "it used more memory than allowed and was ended",
    "processes": "it started more processes than allowed and was ended",
    "disk": "it wrote more to the disk than allowed and was ended",
}


def observe(result: SandboxResult, workdir: Path) -> str:
    """Return the text of an Observation.

    stdout alone where the code ended well and wrote nothing to stderr; otherwise exit code, stdout, stderr
    and new files. Nothing of the machine is in it: no time, no path of the work folder.
    """
    stdout, stderr = (_plain(text, workdir) for text in (result.stdout, result.stderr))
    files = _named(result.new_files)
    if result.exit_code == 0 and not stderr and result.killed_by is None:
        return cut(stdout) or (f"(no output)\n{files}".rstrip())
    reason = f" ({_REASONS[result.killed_by]})" if result.killed_by else ""
    parts = [f"exit code: {result.exit_code}{reason}"]
    # Each its own half, so that a flood on one side does not push the other out.
    parts += [
        f"{name}:\n{cut(text, MOST_CHARACTERS // 2)}"
        for name, text in (("stdout", stdout), ("stderr", stderr))
        if text
    ]
    return cut("\n".join(filter(None, [*parts, files])))


def _plain(text: str, workdir: Path) -> str:
    for folder in dict.fromkeys((str(workdir), str(workdir.resolve()))):
        text = text.replace(f"{folder}/.experiment.py", SCRIPT).replace(f"{folder}/", "")
    text = text.replace("\r\n", "\n")
    text = "\n".join(map(_overwritten, text.split("\n")))
    return escape_tags(fold(_CONTROL.sub("", text)).strip("\n").rstrip())


def _overwritten(line: str) -> str:
    """Return what a terminal would show of a line in the end, as of a progress bar.

    No pattern: a line may be all that the sandbox keeps, a megabyte.
    """
    return line.rstrip("\r").rpartition("\r")[2]


def _named(files: Sequence[Path]) -> str:
    if not files:
        return ""
    names = ", ".join(str(path) for path in files[:_MOST_NAMED])
    more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
    return escape_tags(_CONTROL.sub("", f"new files: {names}{more}"))


def fold(text: str) -> str:
    """Three and more equal lines in a row become one, with their number."""
    folded: list[str] = []
    for line, group in groupby(text.split("\n")):
        count = sum(1 for _ in group)
        if count < _FEWEST_FOLDED:
            folded += [line] * count
        elif line.strip():
            folded += [line, f"[the line above {count} times]"]
        else:
            folded.append(line)
    return "\n".join(folded)


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the beginning and the end of a text that is longer than `most`, with a notice between them."""
    if len(text) <= most:
        return text
    notice = f"\n[... {counted(len(text) - most, 'character')} left out ...]\n"
    half = max(0, most - len(notice)) // 2
    return f"{text[:half]}{notice}{text[len(text) - half :]}"


MOST_DESCRIBED = 8_000  # characters of the description of all files

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "rows": "{n} rows",
        "about": "about {n} rows",
        "missing": "{n} missing",
        "distinct": "{n} different values",
        "values": "values: {values}",
        "read": "Read it with: {how}",
        "head": "First rows:",
        "lines": "First lines:",
        "more": "and {n} more columns",
        "integer": "integer",
        "number": "number",
        "true/false": "true/false",
        "date": "date",
        "text": "text",
        "none": "(no data files)",
        "problem": "could not be described: {problem}",
        "columns": "Columns:",
    },
    "zh": {
        "rows": "{n} 行",
        "about": "约 {n} 行",
        "missing": "{n} 个缺失值",
        "distinct": "{n} 个不同的值",
        "values": "取值：{values}",
        "read": "读取方法：{how}",
        "head": "前几行：",
        "lines": "前几行：",
        "more": "另有 {n} 列",
        "integer": "整数",
        "number": "数值",
        "true/false": "布尔值",
        "date": "日期",
        "text": "文本",
        "none": "（没有数据文件）",
        "problem": "无法描述：{problem}",
        "columns": "列：",
    },
}


@dataclass(frozen=True, slots=True)
class Survey:
    """files: text for the request. libraries: names with versions. warnings: files that are unclear."""

    files: str
    libraries: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()


def take_survey(
    data: Sequence[Path], workdir: Path, language: Language, *, level: Level, limits: Limits, python: str
) -> Survey:
    """Look at the data files, in the sandbox, since a file may be made to harm who reads it.

    A file that cannot be described is listed with the reason.

    Raises:
        SandboxError: If the sandbox cannot run, or a file is missing.
    """
    names = [path.name for path in data]
    source = files("autoprompt.science.scripts").joinpath("survey.py").read_text(encoding="utf-8")
    code = f"{source}\n\nmain({names!r})\n"
    result = sandbox.run(code, workdir=workdir, data=data, level=level, limits=limits, python=python)
    try:
        found = json.loads(result.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        reason = result.killed_by or (result.stderr.strip().splitlines() or ["no output"])[-1]
        listed = "\n".join(names) or _WORDS[language]["none"]
        said = f"the data files could not be described: {reason}"
        return Survey(listed, (), (Problem("science.not-described", said),))
    described = "\n\n".join("\n".join(_file(file, _WORDS[language])) for file in found["files"])
    return Survey(
        escape_tags(cut(described, MOST_DESCRIBED)) or _WORDS[language]["none"],
        tuple(found["libraries"]),
        _doubts(found["files"]),
    )


def _doubts(described: Sequence[Mapping[str, Any]]) -> tuple[Problem, ...]:
    """Return a warning for each file whose encoding is a guess."""
    fix = "If letters are wrong, convert the file: iconv -f ENCODING -t UTF-8 OLD > NEW"
    return tuple(
        Problem(
            "science.encoding-guessed",
            f"not UTF-8; read as {file['guess'].upper()}, which is a guess",
            Place(Path(file["name"])),
            fix,
        )
        for file in described
        if "guess" in file
    )


def _file(file: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[str]:
    parts = [file["name"]]
    if "rows" in file:
        count = words["about" if file.get("is_about") else "rows"].format(n=file["rows"])
        parts.append(count)
    yield ": ".join(parts)
    if "problem" in file:
        yield words["problem"].format(problem=file["problem"])
        return
    yield words["read"].format(how=file["how"])
    if file.get("columns"):
        yield words["columns"]
        yield from (_column(column, words) for column in file["columns"])
    if file.get("more_columns"):
        yield words["more"].format(n=file["more_columns"])
    yield words["head" if "columns" in file else "lines"]
    yield file["head"]


def _column(column: Mapping[str, Any], words: Mapping[str, str]) -> str:
    if "type" not in column:
        return f"- {column['name']}"
    parts = [words[column["type"]]]
    if column["missing"]:
        parts.append(words["missing"].format(n=column["missing"]))
    if "values" in column:
        parts.append(words["values"].format(values=", ".join(map(str, column["values"]))))
    elif "distinct" in column:
        parts.append(words["distinct"].format(n=column["distinct"]))
    return f"- {column['name']}: {', '.join(parts)}"
