"""Which experiences a prompt's writer is shown: those of tasks like its own, in words of its language."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from autoprompt.memory.experience import LONGEST_TASK, Experience, Verdict, addition, words
from autoprompt.records import Change
from autoprompt.text.names import counted
from autoprompt.text.scripts import HANGUL, estimate_tokens, is_unparted, runs, signs
from autoprompt.text.templates import Language

# A gain on n rows counts n / (n + _DOUBT) of itself: 3 lucky rows must not outrank 40 solid ones.
_DOUBT = 20
_TYPICAL_GAIN = 0.05  # of an entry that a person wrote without a number
_HEADINGS: Mapping[Language, tuple[str, str]] = {
    "en": ("What helped before:", "What did harm (avoid):"),
    "zh": ("以往有效的改动：", "以往有害的改动（应避免）："),
}
_VERDICTS: Mapping[Language, Mapping[Verdict, str]] = {
    "en": {"better": "better", "worse": "worse", "no_difference": "no_difference"},
    "zh": {"better": "更好", "worse": "更差", "no_difference": "无差别"},
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A measured change as a writer gets it.

    gain: in score, on `rows` rows that both prompts answered; None if a person wrote none.
    is_own: whether the run that tells of it has measured it.
    """

    change: Change
    verdict: Verdict
    gain: float | None = None
    rows: int = 0
    is_own: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON; `from_dict` reads it."""
        return {**asdict(self), "change": self.change.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Lesson:
        return cls(**{**data, "change": Change.from_dict(data["change"])})


def tell(lessons: Sequence[Lesson], language: Language = "en") -> str:
    """Return lessons as text for a request, "" for none: those of earlier runs first, then the run's own.

    Without ids, runs and dates, so the text is the same as long as the lessons are.
    """
    earlier = [one for one in lessons if not one.is_own]
    helped = [_line(one, language) for one in earlier if one.verdict == "better"]
    harmed = [_line(one, language) for one in earlier if one.verdict != "better"]
    sections = [
        "\n".join([title, *lines])
        for title, lines in zip(_HEADINGS[language], (helped, harmed), strict=True)
        if lines
    ]
    own = [tell_own(one, language) for one in lessons if one.is_own]
    return "\n".join(filter(None, ["\n\n".join(sections), *own]))


def tell_own(lesson: Lesson, language: Language = "en") -> str:
    """Return the line of a lesson that the run itself has measured: verdict, gain and rows come first."""
    verdict, change = _VERDICTS[language][lesson.verdict], words(lesson.change, language)
    return f"[{verdict} {lesson.gain or 0.0:+.2f}{_on_rows(lesson, language)}] {change}"


def _line(lesson: Lesson, language: Language) -> str:
    """Return the line of a lesson of an earlier run: gain and rows come last."""
    said = f"- {words(lesson.change, language)}"
    if lesson.gain is None:
        return said
    measured = f"{lesson.gain:+.2f}{_on_rows(lesson, language) if lesson.rows else ''}"
    return f"{said}（{measured}）" if language == "zh" else f"{said} ({measured})"


def _on_rows(lesson: Lesson, language: Language) -> str:
    return f"，{lesson.rows:,} 行" if language == "zh" else f" on {counted(lesson.rows, 'row')}"


def select(experiences: Sequence[Experience], task: str, max_tokens: int) -> list[Lesson]:
    """Return the lessons of tasks of the same kind that a writer gets.

    By likeness of task, gain and priority; as many as about `max_tokens` tokens hold. Changes without effect
    are left out, they only cost tokens, and of entries with one text (a cut one, or one of two tasks) all but
    the first in rank. An entry without a task is a person's advice for every task. Depends on nothing but its
    arguments.
    """
    left = max_tokens - sum(map(estimate_tokens, _HEADINGS["en"]))
    lessons: list[Lesson] = []
    shown: set[str] = set()
    for entry in ranked(experiences, task):
        lesson = Lesson(entry.change, entry.verdict, entry.gain, entry.rows)
        cost = estimate_tokens(_line(lesson, "en")) + 1  # its line end
        if cost <= left and entry.text not in shown:
            shown.add(entry.text)
            lessons.append(lesson)
            left -= cost
    return lessons


def helpful_additions(experiences: Sequence[Experience], task: str, max_tokens: int) -> list[str]:
    """Sentences that helped where they were added to a prompt of the same kind of task, the best first.

    At most about `max_tokens` tokens. Of changes that also removed something, that came with demonstrations,
    and of cut ones, nothing is known of the sentence alone, so they are left out.
    """
    sentences: list[str] = []
    for entry in ranked(experiences, task):
        sentence = addition(entry.change) if entry.verdict == "better" else None
        if sentence is None or sentence in sentences:
            continue
        max_tokens -= estimate_tokens(sentence)
        if max_tokens < 0:
            break
        sentences.append(sentence)
    return sentences


def ranked(experiences: Sequence[Experience], task: str) -> list[Experience]:
    """Return those that tell of tasks like this one, by likeness, gain and priority."""
    found = sorted(
        ((_rank(entry, likeness), entry) for entry in experiences if (likeness := _likeness(entry, task))),
        key=lambda pair: (-pair[0], pair[1].text, pair[1].task, pair[1].verdict == "better"),
    )
    return [entry for _, entry in found]


def _likeness(entry: Experience, task: str) -> float:
    """Return how well the entry fits the task; 0 for one that is left out."""
    if entry.verdict == "no_difference":
        return 0.0
    if not entry.task:
        return 1.0
    likeness = task_similarity(entry.task, " ".join(task.split())[:LONGEST_TASK])
    return likeness if likeness >= SAME_KIND else 0.0


def _rank(entry: Experience, likeness: float) -> float:
    if entry.gain is None:
        return likeness * entry.priority * _TYPICAL_GAIN
    trust = entry.rows / (entry.rows + _DOUBT) if entry.rows else 0.5
    return likeness * entry.priority * abs(entry.gain) * trust


def is_same_lesson(a: Experience, b: Experience) -> bool:
    """Return whether both tell of the same change on the same kind of task."""
    return a.digest == b.digest and task_similarity(a.task, b.task) >= SAME_KIND


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
    """Return the n-grams of a word, or of what stands between two signs in a script that parts no words."""
    if is_unparted(run) or _HANGUL.search(run):
        parts = _BOILERPLATE_CJK.sub(" ", run).split()
        return tuple(gram for part in parts for gram in _grams(signs(part), 2))
    return () if run in _BOILERPLATE or run.isdigit() else tuple(_grams(f"^{run}$", _GRAM))


def _grams(letters: Sequence[str], size: int) -> list[str]:
    last = max(0, len(letters) - size)
    return ["".join(letters[start : start + size]) for start in range(last + 1)]
