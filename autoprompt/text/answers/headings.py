"""Where an answer says that it comes: "Answer:", "the label is", and what stands behind."""

from __future__ import annotations

import re

from autoprompt.text.patterns import lazy

MARKER = re.compile(
    r"(?:(?:answer|label|category|class|classification|output|result|prediction|verdict|conclusion|choice|pick"
    r"|Antwort|Ergebnis|réponse|résultat|respuesta|resultado|resposta|risposta|risultato|ответ|результат|cevap|sonuç"
    r"|उत्तर|الجواب|الإجابة"
    r"|答案|类别|类型|分类|标签|结果|结论|输出|预测|回答|判断|正解|答え|解答|ラベル|정답|답변?|라벨|คำตอบ)"
    r"[\"'`*\])]*\s*(?:[:=]|(?:\b(?:is|ist|lautet|est|es|é|è|है)\b"
    r"|是(?!否[^\W定的])|为|為|は|은|는|คือ)(?:\s*[:=])?)"  # 判断是否为 asks
    r"|(?:故|应|應|因此|所以|我)[选選](?:[择擇]|的是)?(?![项項择擇]))",
    re.IGNORECASE,
)
# Results and outputs head passages that hold no answer, too.
_OF_A_PASSAGE = lazy(r"output|result|conclusion|结果|结论|输出", re.IGNORECASE)
_BEFORE_HEADING = 30  # characters of its line or sentence: "The final classification label:"
_NO_HEADING = lazy(r"[,;:=、]|(?:\S+\s+){4}")
_LINE_OR_SENTENCE = lazy(r"[\n.!?。]")
_ONLY_MARKS = lazy(r"[\s*_`\"'#>-]*|\s*```\w*")
# An answer that says "Answer:" a thousand times must not cost a quadratic search.
_MARKERS, _MARKED = 20, 500  # markers looked at, characters behind each


def last_markers(text: str) -> list[re.Match[str]]:
    """Where `text` says "the answer is", "label:" or the like, in order."""
    return list(MARKER.finditer(text))[-_MARKERS:]


def last_headings(text: str) -> list[re.Match[str]]:
    """Those of the markers that a line or a sentence begins with, in order."""
    return [marker for marker in MARKER.finditer(text) if _is_heading(marker)][-_MARKERS:]


def _is_heading(marker: re.Match[str]) -> bool:
    """Whether a line or a sentence begins with it, as "Final answer:", and not in "the answer is"."""
    if marker[0][-1] not in ":=":
        return False
    before = marker.string[max(0, marker.start() - _BEFORE_HEADING) : marker.start()]
    parts = _LINE_OR_SENTENCE.split(before)
    is_begun = len(parts) > 1 or marker.start() <= _BEFORE_HEADING
    return is_begun and not _NO_HEADING.search(parts[-1])


def is_of_passage(heading: re.Match[str]) -> bool:
    return _OF_A_PASSAGE.match(heading[0]) is not None


def lines_behind(marker: re.Match[str]) -> list[str]:
    return marker.string[marker.end() : marker.end() + _MARKED].strip().split("\n")


def line_behind(marker: re.Match[str]) -> str:
    """The first line behind a marker that says something: `**Answer:**` may stand on a line of its own."""
    lines = lines_behind(marker)
    return next((line for line in lines if not _ONLY_MARKS.fullmatch(line)), lines[0])
