"""The conversation so far, cut to what a model can read: the earliest passes shrink to their heads first."""

from __future__ import annotations

from collections.abc import Sequence

from autoprompt.science.observation import cut
from autoprompt.science.records import PassRecord
from autoprompt.science.tags import OBSERVATION, Section, read_answer
from autoprompt.science.transcript import turn
from autoprompt.text.templates import Language
from autoprompt.text.tokens import estimate_tokens

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
    """The assistant's text so far within `room_tokens` (estimated).

    As it is where it fits. Else the earliest passes, as few as will do, are summarized to the heads of their
    Hypothesis, Observation and Inference, and it is said so; where even the last one alone is too long, it is
    cut in its middle.
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
