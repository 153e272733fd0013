"""What a metric is, what it may know about rows as a whole, and what metrics of texts share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from autoprompt.errors import ConfigError, DatasetError, Place, Problem
from autoprompt.records import Example, Prediction, Score, Unread
from autoprompt.text.answers.labels import mentions_several, read_answer
from autoprompt.text.answers.texts import visible
from autoprompt.text.names import listed
from autoprompt.text.scripts import estimate_tokens
from autoprompt.text.templates import Language

_MOST_LABELS = 30  # that the reason of an answer names: it is kept with each row, and told to the writer

_FEWEST_ALIKE = 2
_LEAST = 64
_LONGER = 4  # times the longest target: a tokenizer may make more of it than is estimated


class Metric(Protocol):
    """Scores one answer. Safe to call from several threads at once."""

    @property
    def name(self) -> str: ...

    @property
    def is_aggregate(self) -> bool: ...

    def read(self, text: str) -> str | None:
        """Return the part of a model's answer that counts, for `Prediction.value`; None if there is none."""
        ...

    def score(self, prediction: Prediction, example: Example) -> Score:
        """Return the score of one row. `prediction.value` is None for an unparsed answer, which scores 0."""
        ...

    def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:
        """Return the objective over all rows, in [0, 1], where `is_aggregate`; TypeError else.

        Unparsed: "".
        """
        ...


class Doubt(NamedTuple):
    """Targets that may mean something else than the metric reads."""

    said: str  # what they have in common
    readings: Mapping[str, str]  # how each is read
    advice: str


@dataclass(frozen=True)
class TextMetric:
    """What metrics of texts share: how an answer is read, and the reason if it cannot be read."""

    labels: tuple[str, ...] = ()
    name: str = field(default="", init=False)
    is_aggregate: bool = field(default=False, init=False)

    def for_run(self, targets: Iterable[str], target_field: str) -> TextMetric:
        """Return the metric for rows with these `targets` in this field, if they change it; else itself."""
        del targets, target_field
        return self

    def read(self, text: str) -> str | None:
        return read_answer(text, self.labels)

    def key_of(self, target: str) -> Hashable:
        """Return what makes two targets the same; the text unless the metric compares otherwise."""
        return target

    def read_marked(self, text: str) -> str | None:
        """Return the same of what stood behind "Answer:" or the like, which was cut off."""
        return self.read(text)

    def target_fault(self, target: str) -> str:
        """Return why no answer could be compared with `target`; "" where one can."""
        del target
        return ""

    def passed_over(self, target: str) -> str:
        """Return the warning for a target of which a part is not compared; "" if all of it is."""
        del target
        return ""

    def doubt(self, targets: Iterable[str]) -> Doubt | None:
        """Of which `targets`, all those of a run, it is in doubt how they are meant; None of none."""
        del targets
        return None

    def options_fault(self, targets: Iterable[str]) -> str:
        """Return why the options fit none of `targets`, which have no fault themselves; "" if they fit."""
        del targets
        return ""

    def suspicion(self, wrong: Sequence[tuple[str, str]], answers: int) -> Problem | None:
        """Return a warning if many answers may be right by another reading or metric.

        wrong: answer and target of those that do not score 1. answers: how many there are in all.
        """
        del wrong, answers
        return None

    def is_right(self, answer: str, target: str) -> bool:
        """Return whether `answer` scores 1 for `target`."""
        value = self.read(answer)
        return value is not None and self._compare(value, Example("", "", target, {})).is_correct

    def score(self, prediction: Prediction, example: Example) -> Score:
        if fault := self.target_fault(example.target_text):
            raise DatasetError(Problem("metric.target", fault, example.place))
        if prediction.value is None:
            return self._unparsed(prediction.text)
        return self._compare(prediction.value, example)

    def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:  # noqa: ARG002
        raise TypeError(f"{self.name} is scored row by row")

    def _compare(self, answer: str, example: Example) -> Score:
        raise NotImplementedError

    def _unparsed(self, text: str) -> Score:
        if not visible(text):
            return unread_score("empty")
        if not self.labels:
            return unread_score("answer", text)
        kind = "several" if mentions_several(text, self.labels) else "none"
        return unread_score(kind, text, listed(self.labels, _MOST_LABELS))


_UNREAD: Mapping[str, Mapping[Language, str]] = {
    "empty": {"en": "the answer is empty", "zh": "回答为空"},
    "empty_or_no_label": {
        "en": "the answer is empty or names no label",
        "zh": "回答为空或没有给出标签",
    },
    "none": {
        "en": "{answer} names none of the labels {labels}",
        "zh": "{answer} 没有给出任何一个标签（{labels}）",
    },
    "several": {
        "en": "{answer} names several of the labels {labels}",
        "zh": "{answer} 给出了不止一个标签（{labels}）",
    },
    "no_labels": {"en": "{answer} names no labels", "zh": "{answer} 没有给出标签"},
    "answer": {"en": "{answer} holds no answer", "zh": "{answer} 中没有答案"},
    "json": {"en": "{answer} holds no JSON", "zh": "{answer} 中没有 JSON"},
    "number": {"en": "{answer} holds no number", "zh": "{answer} 中没有数字"},
}
_BEFORE: Mapping[Language, str] = {"en": "unparsed: ", "zh": "无法读取："}


def unread_words(unread: Unread, language: Language = "en") -> str:
    """Return why an answer could not be read."""
    said = _UNREAD[unread.kind][language].format(answer=unread.answer, labels=unread.labels)
    return _BEFORE[language] + said


def unread_score(kind: str, text: str = "", labels: str = "") -> Score:
    """Return the score of an answer that cannot be read.

    Args:
        kind: Why: a key of the words, such as `empty`, `none` or `several` of the labels, no `number`.
        text: The answer, whole.
        labels: Those that were looked for.
    """
    unread = Unread(kind, short(text) if text else "", labels)
    return Score(0.0, unread_words(unread), unread=unread)


def bad_option(
    metric: str, option: str, said: str, fix: str = "", settings: Mapping[str, object] = MappingProxyType({})
) -> ConfigError:
    """Return the error of an option of a metric. said: Such as `expected a text, found 3`."""
    place = Place(setting=f"metric_options.{option}")
    return ConfigError(Problem("metric.bad-option", f"metric {metric}: {said}", place, fix, settings))


def is_frequent(count: int, answers: int) -> bool:
    """Return whether `count` of `answers` is at least two and a quarter of them.

    That is enough to ask if they are meant otherwise.
    """
    return count >= _FEWEST_ALIKE and 4 * count >= answers


def row_score(is_right: bool, answer: str, target: str) -> Score:
    return Score(1.0) if is_right else Score(0.0, f"answered {short(answer)}, expected {short(target)}")


def short(text: str, length: int = 120) -> str:
    """Return one line in quotes; of a long text its beginning and its end, where answers stand."""
    return f"'{one_line(text, length)}'"


def one_line(text: str, length: int = 120) -> str:
    """Return the same without quotes."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length // 2]} … {line[-length // 2 :]}"


@runtime_checkable
class BoundsAnswers(Protocol):
    """A metric by which an answer beyond some length is of no use, whatever it says."""

    def useful_tokens(self, targets: Sequence[str]) -> int:
        """Return how many tokens a right answer has at most; a model's thoughts do not count."""
        ...


def useful_tokens(metric: Metric, rows: Iterable[Example]) -> int | None:
    """Return `Options.useful_tokens`; None if the metric knows no bound, or there are no rows."""
    targets = [row.target_text for row in rows]
    return metric.useful_tokens(targets) if targets and isinstance(metric, BoundsAnswers) else None


def tokens_of_whole(targets: Sequence[str]) -> int:
    """Return how many tokens an answer has at most that is one of `targets` and nothing else.

    It grows by doubling, so that other rows of the same kind are asked about in the same way.
    """
    longest, found = max(map(estimate_tokens, targets)), _LEAST
    while found < _LONGER * longest:
        found *= 2
    return found


@runtime_checkable
class WeighsRows(Protocol):
    """A metric over all rows together that comes near a weighted mean of row scores.

    A search compares row by row. Where each row counts the same, a prompt that gives up a rare label is
    better by that, and worse by the metric.
    """

    @property
    def weighted_mean(self) -> str:
        """What such a mean is, in words."""
        ...

    def row_weights(self, targets: Sequence[str]) -> Sequence[float]:
        """Return the weight of each row, of mean 1."""
        ...


def row_weights(metric: Metric, *parts: Iterable[Example]) -> Mapping[str, float]:
    """Return the weights of the rows by id, each part balanced in itself; empty if all count the same."""
    if not isinstance(metric, WeighsRows):
        return {}
    weights: dict[str, float] = {}
    for part in parts:
        rows = list(part)
        found = metric.row_weights([row.target_text for row in rows])
        weights |= {row.id: weight for row, weight in zip(rows, found, strict=True)}
    return weights


def name_of_means(metric: Metric) -> str:
    """Return what means of row scores are if they are not the metric; else ""."""
    if isinstance(metric, WeighsRows):
        return metric.weighted_mean
    return f"mean of rows, not {metric.name}" if metric.is_aggregate else ""
