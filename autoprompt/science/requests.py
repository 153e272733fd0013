"""What the model is asked in each pass: instructions, as much of the conversation as fits, what to write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autoprompt.records import Message
from autoprompt.science.observation import Survey, cut
from autoprompt.science.records import PassRecord, question, turn
from autoprompt.science.tags import OBSERVATION, Section, read_answer
from autoprompt.text.scripts import estimate_tokens
from autoprompt.text.templates import Language, fill

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
