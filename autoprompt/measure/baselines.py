"""What needs no model: the most frequent answer, and a vote of the rows with the most words in common."""

from __future__ import annotations

import heapq
import logging
import math
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from functools import cache

from autoprompt.errors import ConfigError, Problem
from autoprompt.measure.compare import compare_rows
from autoprompt.measure.rows import scored
from autoprompt.metrics import Metric
from autoprompt.metrics.base import TextMetric
from autoprompt.metrics.python_metric import PythonMetric
from autoprompt.records import EvaluatedRow, Example, Prediction
from autoprompt.runs.result import Baseline, Baselines
from autoprompt.settings.records import JUDGED, LABEL_SET
from autoprompt.text.scripts import counted_words

_log = logging.getLogger(__name__)

MOST_FREQUENT, NEAREST = "most_frequent", "nearest"
NO_BASELINES: Baselines = {MOST_FREQUENT: None, NEAREST: None}
UNBALANCED = 0.7  # share of one label from which accuracy says little
# Metrics in whose place macro_f1 cannot be: they do not score one label of each row.
_WEIGHTED = ("macro_f1", JUDGED, LABEL_SET, "json_match", "numeric")
# So many times as many rows as the rarest label has: below that, the shares of labels change little.
_UNEVEN = 1.5
_VOTERS = 5
# Rows that are looked up for one row, those with its rarest words first: the others weigh next to nothing. Of
# six sets with 88 to 300 rows five have the same score for 200 as for all, within a point; one has two more.
_MOST_LOOKED_UP = 200
# Of more rows these are drawn: `eval` of 4,200 rows was silent for 25 s when it looked up all for all.
_MOST_NEAREST, _MOST_KNOWN = 1_000, 10_000
# Time for the calls of a user's metric, which may ask a model itself; it is not asked any more then.
_MOST_METRIC_S = 5.0


def find_baselines(
    known: Sequence[Example], asked: Sequence[Example], rows: Sequence[EvaluatedRow], metric: Metric
) -> Baselines:
    """Score both baselines, by name, on the rows that a prompt answered; None for one that was not scored.

    known: rows whose answers they may use; a row votes for others only. asked: the examples of `rows`, in
    their order; `nearest` is scored on 1,000 of them if there are more. None is scored where a judge would
    be paid for each answer, or rows have no target; nor is one that a metric of the user's own cannot score,
    or takes long to.
    """
    if metric.name == JUDGED or not known or not asked or not all(row.has_target for row in (*known, *asked)):
        return NO_BASELINES
    usual, is_uneven = _most_frequent([row.target_text for row in known], metric)
    some = _drawn(asked, _MOST_NEAREST)
    ways = {
        MOST_FREQUENT: ([usual] * len(asked), asked, rows),
        NEAREST: (
            _nearest([known[n] for n in _drawn(known, _MOST_KNOWN)], [asked[n] for n in some], usual),
            [asked[n] for n in some],
            [rows[n] for n in some],
        ),
    }
    found = dict(NO_BASELINES)
    for name, (given, examples, ours) in ways.items():
        theirs = _scored(given, examples, metric)
        compared = None if theirs is None else compare_rows(ours, theirs, metric)
        if compared is not None:
            is_usual = name == MOST_FREQUENT
            found[name] = Baseline(
                answer=usual if is_usual else None,
                score=compared.old.score,
                ci95=compared.old.interval,
                p_value=compared.p_value,
                is_beaten=compared.is_better,
                is_uneven=is_usual and is_uneven,
            )
    return found


def _drawn(rows: Sequence[Example], most: int) -> list[int]:
    """Return the numbers of at most `most` rows, drawn by their ids, which say nothing of their order."""
    return sorted(heapq.nsmallest(most, range(len(rows)), key=lambda number: rows[number].id))


def _scored(answers: Sequence[str], asked: Sequence[Example], metric: Metric) -> list[EvaluatedRow] | None:
    """Score the answers; None if a metric of the user's own fails, or takes too long."""
    begun, rows = time.monotonic(), []
    read = cache(metric.read)  # both baselines repeat few different answers
    for text, example in zip(answers, asked, strict=True):
        try:
            rows.append(scored(Prediction(text, read(text) or text), example, metric))
        except ConfigError as error:
            _log.info("no baseline: %s", error)
            return None
        if isinstance(metric, PythonMetric) and time.monotonic() - begun > _MOST_METRIC_S:
            return None
    return rows


def _most_frequent(targets: Sequence[str], metric: Metric) -> tuple[str, bool]:
    """Return the most frequent target as the first row writes it, and whether the rarest has far fewer."""
    key_of = metric.key_of if isinstance(metric, TextMetric) else str
    written: dict[Hashable, str] = {}
    counts: Counter[Hashable] = Counter()
    for target in targets:
        key = key_of(target)
        written.setdefault(key, target)
        counts[key] += 1
    key, most = counts.most_common(1)[0]
    return written[key], most >= _UNEVEN * min(counts.values())


def baselines_sentence(found: Baselines, score: float | None, metric: str = "") -> str:
    """Say what a prompt is not clearly better than, and what to do about it; "" if it beats both.

    score: the prompt's, by `metric`.
    """
    level = {name: one for name, one in found.items() if one and not one.is_beaten and one.score > 0}
    if not level or score is None:
        return ""
    ways = {NEAREST: "copying the answer of the most similar rows"}
    if usual := level.get(MOST_FREQUENT):
        answer = repr(textwrap.shorten(str(usual.answer), 60))
        ways[MOST_FREQUENT] = f"always answering {answer}"
    said = " and ".join(f"{ways[name]} would score {one.score:.2f}" for name, one in level.items())
    best = max(one.score for one in level.values())
    is_less = f"{score:.2f}" < f"{best:.2f}"
    verdict = "less than that" if is_less else "not clearly better than that"
    is_uneven = MOST_FREQUENT in level and level[MOST_FREQUENT].is_uneven
    advice = is_uneven and metric not in _WEIGHTED and not metric.startswith("python:")
    return f"Without a model, {said} on the same rows. The prompt scores {score:.2f}, which is {verdict}." + (
        " The metric macro_f1 gives every label the same weight." if advice else ""
    )


def with_baselines(said: str, found: Baselines, score: float | None, metric: str = "") -> str:
    """Return the verdict on a prompt with `baselines_sentence`: first where a baseline is as good or better.

    said: The verdict, a sentence.
    """
    level = baselines_sentence(found, score, metric)
    if not level or score is None:
        return said
    best = max(one.score for one in found.values() if one and not one.is_beaten)
    return f"{level} {said}" if round(best, 2) >= round(score, 2) else f"{said} {level}"


def unbalanced_warnings(rows: Sequence[Example], labels: Sequence[str], metric: str) -> list[Problem]:
    """Recommend macro_f1 where one label makes up most rows."""
    if not labels or not rows or metric in _WEIGHTED:
        return []
    label, count = Counter(row.target_text for row in rows).most_common(1)[0]
    share = count / len(rows)
    if not UNBALANCED <= share < 1.0:
        return []
    said = f"{share:.0%} of the rows have the label {label!r}, so always answering it scores {share:.2f}"
    fix = "Use {metric} to give every label the same weight."
    return [Problem("dataset.unbalanced", said, fix=fix, settings={"metric": "macro_f1"})]


def _nearest(known: Sequence[Example], asked: Sequence[Example], usual: str) -> list[str]:
    """Return the answers that the rows with the most words in common vote for, each by what it shares."""
    holders: dict[str, list[int]] = defaultdict(list)
    places: dict[str, list[int]] = defaultdict(list)
    words_of = [counted_words(row.input_text) for row in known]
    for number, row in enumerate(known):
        places[row.id].append(number)
        for word in words_of[number]:
            holders[word].append(number)
    weights = {word: math.log(1 + len(known) / len(rows)) ** 2 for word, rows in holders.items()}
    sizes = [math.sqrt(sum(map(weights.__getitem__, words))) or 1.0 for words in words_of]
    answers = []
    for example in asked:
        shared: defaultdict[int, float] = defaultdict(float)
        left = _MOST_LOOKED_UP
        words = [word for word in counted_words(example.input_text) if word in holders]
        for word in sorted(words, key=lambda word: (len(holders[word]), word)):
            weight = weights[word]
            for number in holders[word][:left]:
                shared[number] += weight
            left -= len(holders[word])
            if left <= 0:
                break
        for number in places.get(example.id, ()):
            shared.pop(number, None)
        near = [(likeness / sizes[number], -number) for number, likeness in shared.items()]
        votes: defaultdict[str, float] = defaultdict(float)
        for likeness, number in heapq.nlargest(_VOTERS, near):
            votes[known[-number].target_text] += likeness
        answers.append(max(votes, key=votes.__getitem__, default=usual))
    return answers
