"""What an investigation tells the model: the data, what experiments gave, and the request of each pass."""

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
from autoprompt.records import Message
from autoprompt.sandbox import Level, Limits, SandboxResult
from autoprompt.science.records import PassRecord, question, turn
from autoprompt.science.tags import OBSERVATION, Section, escape_tags, read_answer
from autoprompt.text.names import counted
from autoprompt.text.scripts import estimate_tokens
from autoprompt.text.templates import Language, fill

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

_SURVEY_WORDS: dict[Language, dict[str, str]] = {
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
    source = files("autoprompt.science").joinpath("data_script.py").read_text(encoding="utf-8")
    code = f"{source}\n\nsurvey({names!r})\n"
    result = sandbox.run(code, workdir=workdir, data=data, level=level, limits=limits, python=python)
    try:
        found = json.loads(result.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        reason = result.killed_by or (result.stderr.strip().splitlines() or ["no output"])[-1]
        listed = "\n".join(names) or _SURVEY_WORDS[language]["none"]
        said = f"the data files could not be described: {reason}"
        return Survey(listed, (), (Problem("science.not-described", said),))
    described = "\n\n".join("\n".join(_file(file, _SURVEY_WORDS[language])) for file in found["files"])
    return Survey(
        escape_tags(cut(described, MOST_DESCRIBED)) or _SURVEY_WORDS[language]["none"],
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


# Ends an answer where the system's part begins, so that no observation is made up; the closing tags save the
# tokens of what would be cut.
STOP_EXPERIMENT = ("<Observation>", "</Experiment>")
STOP_CONCLUSION = ("<Observation>", "</Conclusion>")

# How pandas ends a Series or a frame of which it leaves rows out.
_SHORTENED = re.compile(r"^(?:Name: .*, )?Length: \d+, |^\[\d+ rows x \d+ columns\]$", re.MULTILINE)
_LONGEST_TODO = 120  # characters
_MOST_FILES = 50  # that are named

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "cut": "Your last answer was too long and broke off, so that its code may not be whole: "
        "write shorter code, which does one thing, without comments.",
        "failed": "The last experiment failed: find out why, and mend it.",
        "shortened": "It printed a table that was shortened: compute and print what is asked, not the table.",
        "files": "Files that the experiments have made: {files}.",
        "io": "No file has been written yet. The code of this pass must write what is asked for: {io}",
        "todo": ", {io}",
        "no_libraries": "the standard library only",
        "also": "{libraries} and the standard library",
    },
    "zh": {
        "cut": "你上一次的回答过长而被截断，代码可能不完整：请写更短的代码，只做一件事，不写注释。",
        "failed": "上一个实验运行失败：请找出原因并修正。",
        "shortened": "它打印的是一张被截断的表：请计算并打印所要求的结果，而不是整张表。",
        "files": "实验已生成的文件：{files}。",
        "io": "目前还没有写入任何文件。本轮的代码必须写入所要求的内容：{io}",
        "todo": "、{io}",
        "no_libraries": "只有标准库",
        "also": "{libraries} 以及标准库",
    },
}


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one investigation.

    room_tokens: what a request may take (estimated), the answer not counted. makes_files: whether `io` asks
    for files, so that nothing is done before there are some.
    """

    task: str
    io: str | None
    survey: Survey
    max_iterations: int
    room_tokens: int
    language: Language
    makes_files: bool = True

    def first(self) -> list[Message]:
        words = _WORDS[self.language]
        libraries = ", ".join(self.survey.libraries)
        return [
            Message(
                "user",
                fill(
                    "science_first",
                    self.language,
                    libraries=words["also"].format(libraries=libraries)
                    if libraries
                    else words["no_libraries"],
                    files=self.survey.files,
                    todo=self._todo([]),
                    question=question(self.task, self.io),
                ),
            )
        ]

    def next(self, number: int, passes: Sequence[PassRecord]) -> list[Message]:
        """Return the request of a middle pass.

        Where the last one got what was asked, the end is offered first.
        """
        numbers = {"number": str(number), "total": str(self.max_iterations)}
        template = "science_check"
        if not self._may_be_done(passes):
            template, numbers["todo"] = "science_next", self._todo(passes)
        return self._continuation(template, passes, self._state(passes, is_last=False), **numbers)

    def last(self, passes: Sequence[PassRecord]) -> list[Message]:
        """Return the request for the conclusion."""
        return self._continuation("science_last", passes, self._state(passes, is_last=True))

    def _may_be_done(self, passes: Sequence[PassRecord]) -> bool:
        """Return whether the last experiment ended well, printed something and made the due files."""
        last = passes[-1]
        if _SHORTENED.search(last.stdout):
            return False
        has_files = any(record.new_files for record in passes)
        return (
            last.exit_code == 0
            and bool(last.stdout.strip())
            and (has_files or not (self.io and self.makes_files))
        )

    def _continuation(
        self, template: str, passes: Sequence[PassRecord], state: str, **values: str
    ) -> list[Message]:
        asked = question(self.task, self.io)
        request = fill(template, self.language, state=state, question=asked, **values)
        messages = [*self.first(), Message("user", request)]
        room = self.room_tokens - estimate_tokens(messages)
        past = Message("assistant", shortened(passes, room, self.language))
        return [messages[0], past, messages[1]]

    def _todo(self, passes: Sequence[PassRecord]) -> str:
        """Return what has to be written, if nothing is yet.

        It takes the code's place, where small models look.
        """
        if not self.io or not self.makes_files or any(record.new_files for record in passes):
            return ""
        return _WORDS[self.language]["todo"].format(io=" ".join(self.io.split())[:_LONGEST_TODO])

    def _state(self, passes: Sequence[PassRecord], *, is_last: bool) -> str:
        """Return what the system knows of the last experiment that its Observation need not say."""
        words, last = _WORDS[self.language], passes[-1] if passes else None
        notes = []
        if last is not None and last.is_cut and not is_last:
            notes.append(words["cut"])
        elif last is not None and last.has_failed and not is_last:
            notes.append(words["failed"])
        elif last is not None and _SHORTENED.search(last.stdout) and not is_last:
            notes.append(words["shortened"])
        files = dict.fromkeys(name for record in passes for name in record.new_files)
        if files:
            notes.append(words["files"].format(files=", ".join(list(files)[:_MOST_FILES])))
        elif self.io and self.makes_files and not is_last:
            notes.append(words["io"].format(io=self.io))
        return "\n" + "\n".join(notes) + "\n" if notes else ""


_HEADS = ("Inference", "Hypothesis", OBSERVATION)
_HEAD_CHARACTERS = 300  # of each part
_SHORTEST = 400  # characters of the last pass that always stay
# Code and tables take more tokens than prose: of the estimate, up to half as many again on the embedded
# model's tokenizer.
_MARGIN = 1.5

_NOTICE: dict[Language, str] = {
    "en": "[Passes 1 to {n} are summarized: the conversation had grown too long.]",
    "zh": "[第 1 至 {n} 轮已缩略：对话过长。]",
}


def shortened(passes: Sequence[PassRecord], room_tokens: int, language: Language) -> str:
    """Return the assistant's text so far, within `room_tokens` (estimated).

    If it is too long, as few as possible of the earliest passes are summarized to the heads of their
    Hypothesis, Observation and Inference, and a note tells the model so. If even the last pass alone is too
    long, its middle is cut.
    """
    for count in range(len(passes)):
        text = _joined(passes, count, language)
        if _fits(text, room_tokens):
            return text
    most = max(_SHORTEST, int(room_tokens / _MARGIN * 4))
    while True:
        text = cut(_joined(passes, max(0, len(passes) - 1), language), most)
        if most <= _SHORTEST or _fits(text, room_tokens):
            return text
        most = max(_SHORTEST, most // 2)


def _fits(text: str, room_tokens: int) -> bool:
    return estimate_tokens(text) * _MARGIN <= room_tokens


def _joined(passes: Sequence[PassRecord], summarized: int, language: Language) -> str:
    parts = [_NOTICE[language].format(n=summarized)] if summarized else []
    parts += [_heads(record) for record in passes[:summarized]]
    parts += [turn(record) for record in passes[summarized:]]
    return "\n\n".join(filter(None, parts))


def _heads(record: PassRecord) -> str:
    sections = [s for s in read_answer(record.text).sections if s.tag in _HEADS]
    if record.observation is not None:
        sections.append(Section(OBSERVATION, record.observation))
    return "\n\n".join(str(Section(s.tag, cut(s.text, _HEAD_CHARACTERS))) for s in sections)
