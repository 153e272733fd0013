"""What stands in English in files and events, in the language of the request that hands it on.

Lessons and the reasons of metrics are written down once, in English, whatever the prompt's language: they are
read by people and by later runs. Their own words are translated here, and what they quote stays as it is. A
form that is not known, such as a person's own lesson, stays too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from autoprompt.memory.change import ADDED, JOINT, REMOVED
from autoprompt.text.templates import Language

_Found = Callable[[re.Match[str]], str]

_VERDICTS = {"better": "更好", "worse": "更差", "no_difference": "无差别"}
_CHOSEN = {
    "balanced over the answers": "各答案数量均衡",
    "among them rows that it got wrong": "其中有它答错的数据",
    "a quarter of them exchanged": "换掉了其中四分之一",
    "more of the answers that came too seldom": "增加了给出过少的答案",
}
# Of a lesson; a component's name may come before the change.
_BEGIN = r"(?P<begin>(?:- |\[[^\]]*\] )(?:\S+: )?)"
_END = r"(?=（|$)"  # before the measured gain


def _chosen(found: re.Match[str]) -> str:
    """How demonstrations were chosen; the end of a long lesson is cut."""
    said, is_cut = found["how"].removesuffix("…"), found["how"].endswith("…")
    how = next((zh for en, zh in _CHOSEN.items() if en == said or (is_cut and en.startswith(said))), said)
    begin = "；并有 " if found["begin"] == JOINT else found["begin"]
    return f"{begin}{found['count']} 个示例，{how}"


def _measured(found: re.Match[str]) -> str:
    return f"[{_VERDICTS[found['verdict']]} {found['gain']}，{found['rows']} 行] "


# In this order, each on a line of its own.
_LESSONS: Mapping[str, str | _Found] = {
    r"^What helped before:$": "以往有效的改动：",
    r"^What did harm \(avoid\):$": "以往有害的改动（应避免）：",
    rf"^\[(?P<verdict>{'|'.join(_VERDICTS)}) (?P<gain>\S+) on (?P<rows>[\d,]+) rows?\] ": _measured,
    r"^(- .*) \(([-+]\d+\.\d+) on ([\d,]+) rows?\)$": r"\1（\2，\3 行）",
    r"^(- .*) \(([-+]\d+\.\d+)\)$": r"\1（\2）",
    rf"(?P<begin>{re.escape(JOINT)})(?P<count>\d+) demonstrations?, (?P<how>[^;（\n]*){_END}": _chosen,
    rf"^{_BEGIN}(?P<count>\d+) demonstrations?, (?P<how>[^;（\n]*){_END}": _chosen,
    rf"^{_BEGIN}{re.escape(ADDED)}(.*?){re.escape(REMOVED)}": r"\g<begin>增加：\2 | 删除：",
    rf"^{_BEGIN}{re.escape(ADDED)}": r"\g<begin>增加：",
    rf"^{_BEGIN}removed: ": r"\g<begin>删除：",
    rf"^{_BEGIN}no change{_END}": r"\g<begin>没有变化",
    rf"^{_BEGIN}typical words of (\d+) answers named": r"\g<begin>写明了 \2 个答案的典型用词",
    rf"^{_BEGIN}reasons before it answers{_END}": r"\g<begin>先推理再回答",
    rf"^{_BEGIN}the instruction of one candidate with the (\d+) demonstrations? of another{_END}": (
        r"\g<begin>一个候选的指令加上另一个候选的 \2 个示例"
    ),
    rf"^{_BEGIN}one candidate with (.*) of another{_END}": r"\g<begin>一个候选加上另一个候选的 \2",
}
_REASONS: Mapping[str, str | _Found] = {
    r"^unparsed: the answer is empty$": "无法读取：回答为空",
    r"^unparsed: the answer is empty or names no label$": "无法读取：回答为空或没有给出标签",
    r"^unparsed: (.*) names none of the labels (.*)$": r"无法读取：\1 没有给出任何一个标签（\2）",
    r"^unparsed: (.*) names several of the labels (.*)$": r"无法读取：\1 给出了不止一个标签（\2）",
    r"^unparsed: (.*) holds no answer$": r"无法读取：\1 中没有答案",
    r"^unparsed: (.*) holds no JSON$": r"无法读取：\1 中没有 JSON",
    r"^unparsed: (.*) holds no number$": r"无法读取：\1 中没有数字",
}


def lessons_in(language: Language, lessons: str) -> str:
    """Lessons as `memory.select` and `Lesson.text` write them, a line each."""
    return _translated(lessons, _LESSONS) if language == "zh" else lessons


def reason_in(language: Language, reason: str) -> str:
    """Why an answer could not be read, as our metrics say it; another metric's own words stay."""
    return _translated(reason, _REASONS) if language == "zh" else reason


def _translated(text: str, forms: Mapping[str, str | _Found]) -> str:
    for form, words in forms.items():
        text = re.sub(form, words, text, flags=re.MULTILINE)
    return text
