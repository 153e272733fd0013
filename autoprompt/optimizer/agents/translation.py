"""Why an answer could not be read, in the language of the request that hands it on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autoprompt.text.templates import Language

_REASONS: Mapping[str, str] = {
    r"^unparsed: the answer is empty$": "无法读取：回答为空",
    r"^unparsed: the answer is empty or names no label$": "无法读取：回答为空或没有给出标签",
    r"^unparsed: (.*) names none of the labels (.*)$": r"无法读取：\1 没有给出任何一个标签（\2）",
    r"^unparsed: (.*) names several of the labels (.*)$": r"无法读取：\1 给出了不止一个标签（\2）",
    r"^unparsed: (.*) holds no answer$": r"无法读取：\1 中没有答案",
    r"^unparsed: (.*) holds no JSON$": r"无法读取：\1 中没有 JSON",
    r"^unparsed: (.*) holds no number$": r"无法读取：\1 中没有数字",
}


def reason_in(language: Language, reason: str) -> str:
    """Why an answer could not be read, as our metrics say it; another metric's own words stay."""
    return _translated(reason, _REASONS) if language == "zh" else reason


def _translated(text: str, forms: Mapping[str, str]) -> str:
    for form, words in forms.items():
        text = re.sub(form, words, text, flags=re.MULTILINE)
    return text
