"""How alike two tasks are, judged from their words alone."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from autoprompt.text.scripts import HANGUL, is_unparted, runs, signs

# Cosine from which two tasks count as the same kind. Measured in tests/memory/test_similarity.py on pairs of
# task descriptions in English, Chinese and Japanese: of those that describe one task 96% are joined (80% on
# tasks that nothing was tuned on), of the others 0.5% (0 of 541 there), most of them Chinese tasks on news
# headlines. A lesson that is missed costs a try, one from a wrong task can cost accuracy: hence rather too
# high. Without removing the boilerplate below, the same recall needs 0.25 and joins 4% of the wrong pairs.
SAME_KIND = 0.35

_HANGUL = re.compile(f"[{HANGUL}]")
_GRAM = 4

# Words of prompts, not of tasks: what they have in common tells nothing.
_BOILERPLATE_TEXT = """
a an the of or and is are it its be to in on as for with by from into one whether if not do does you your
this that these those which what who each all two please no yes other any either kind type based
classify classification decide determine predict prediction detect detection identify judge choose
answer reply respond return output input give end label labels category categories class text texts
following given only number task expert word words question questions
"""
_BOILERPLATE = frozenset(_BOILERPLATE_TEXT.split())
_BOILERPLATE_CJK = re.compile(
    "你是一个|你是|一个|专家|任务|根据|预测|其类别|类别|是否为|是否|输入|输出|只返回|返回|数字|不要包含|包含|其他|"
    "文字|请|判断|以下|下面|分类|回答|识别|分析|最后|给出|给定|文本|或者|或|还是|之一|将|只|为|的|是|否|一"
)


def task_similarity(a: str, b: str) -> float:
    """Cosine of the tasks' n-grams, in [0, 1]; 1 for texts that are equal but for case and spacing.

    Words are cut into runs of 4 letters, so that endings do not matter; scripts without spaces, and Korean
    with its endings, into pairs of characters, which is about a word there. No model and no
    download is needed, and the result is the same everywhere. Two languages never look alike.
    """
    a, b = _normal(a), _normal(b)
    if a == b:
        return 1.0
    (left, left_norm), (right, right_norm) = _weights(a), _weights(b)
    norm = left_norm * right_norm
    if norm == 0.0:
        return 0.0
    if len(right) < len(left):
        left, right = right, left
    # min: rounding can give a little more than 1 for equal vectors
    return min(1.0, sum(weight * right.get(gram, 0.0) for gram, weight in left.items()) / norm)


def _normal(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


@lru_cache(maxsize=256)  # one task is compared with thousands of others
def _weights(text: str) -> tuple[dict[str, float], float]:
    """n-gram -> 1 + ln(count), and the norm: the tenth mention says little more than the first."""
    counts: Counter[str] = Counter()
    for run in runs(text):
        counts.update(_grams_of(run))
    weights = {gram: 1.0 if count == 1 else 1.0 + math.log(count) for gram, count in counts.items()}
    return weights, math.sqrt(sum(weight * weight for weight in weights.values()))


@lru_cache(maxsize=50_000)  # a file of ten thousand lessons has about as many words
def _grams_of(run: str) -> tuple[str, ...]:
    """The n-grams of a word, or of what stands between two signs in a script that parts no words."""
    if is_unparted(run) or _HANGUL.search(run):
        parts = _BOILERPLATE_CJK.sub(" ", run).split()
        return tuple(gram for part in parts for gram in _grams(signs(part), 2))
    return () if run in _BOILERPLATE or run.isdigit() else tuple(_grams(f"^{run}$", _GRAM))


def _grams(letters: Sequence[str], size: int) -> list[str]:
    last = max(0, len(letters) - size)
    return ["".join(letters[start : start + size]) for start in range(last + 1)]
