"""The datasets that ship: whole, balanced, without doubles, and not to be told apart by their looks alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from math import log
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from autoprompt.dataset.labels import infer_labels
from autoprompt.dataset.splits import cut_rows
from autoprompt.metrics import get_metric
from autoprompt.settings.records import DataSettings
from autoprompt.settings.sidecar import find_sidecar, load_task

FOLDER = Path(__file__).parents[1] / "datasets"


@dataclass(frozen=True)
class Bundled:
    name: str
    rows_per_label: int
    shortest: int  # characters
    longest: int

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.jsonl"

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_bytes().decode("utf-8").splitlines()]

    def task(self) -> dict[str, Any]:
        content = yaml.safe_load((FOLDER / f"{self.name}.task.yaml").read_text(encoding="utf-8"))
        assert isinstance(content, dict)
        return content


ENGLISH = Bundled("clickbait", 168, 30, 100)
CHINESE = Bundled("clickbait_zh", 88, 10, 35)


@pytest.fixture(params=[ENGLISH, CHINESE], ids=lambda data: data.name)
def bundled(request: pytest.FixtureRequest) -> Bundled:
    data: Bundled = request.param
    return data


def words(headline: str) -> frozenset[str]:
    """Words of English, pairs of neighbouring characters of Chinese, which writes no spaces."""
    if headline.isascii():
        return frozenset(re.findall(r"[a-z0-9]+", headline.lower()))
    text = re.sub(r"[\W_]", "", headline)
    return frozenset(text[i : i + 2] for i in range(len(text) - 1))


def is_title_case(headline: str) -> bool:
    """Nearly all longer words after the first are capitalized."""
    long_words: list[str] = [word for word in re.findall(r"[A-Za-z][\w'-]*", headline)[1:] if len(word) > 3]
    return sum(word[0].isupper() for word in long_words) > 0.75 * len(long_words)


def looks(headline: str, median_length: float) -> tuple[bool, ...]:
    """What a reader sees without reading a word."""
    return (
        is_title_case(headline),
        headline[0].isdigit(),
        bool(re.search(r"\d", headline)),
        bool(re.search("[?？]", headline)),
        bool(re.search("[:：]", headline)),
        bool(re.search("[,，]", headline)),
        headline[0] in "'“",
        len(headline) > median_length,
    )


def accuracy_by_looks(rows: list[dict[str, Any]], seed: int) -> float:
    """Accuracy in [0, 1] of a naive Bayes on looks: learnt on a random half, measured on the other."""
    median_length = sorted(len(row["headline"]) for row in rows)[len(rows) // 2]
    cases = [(looks(row["headline"], median_length), row["label"]) for row in rows]
    Random(seed).shuffle(cases)
    learnt, unseen = cases[: len(cases) // 2], cases[len(cases) // 2 :]
    seen = Counter((label, place, value) for case, label in learnt for place, value in enumerate(case))
    totals = Counter(label for _, label in learnt)

    def log_likelihood(case: tuple[bool, ...], label: int) -> float:
        shares = ((seen[label, place, value] + 1) / (totals[label] + 2) for place, value in enumerate(case))
        return log(totals[label]) + sum(map(log, shares))

    right = sum((log_likelihood(case, 1) > log_likelihood(case, 0)) == bool(label) for case, label in unseen)
    return right / len(unseen)


def test_fields_and_labels_of_every_row(bundled: Bundled) -> None:
    for row in bundled.rows():
        assert list(row) == ["headline", "label"]
        assert row["label"] in (0, 1)
        assert type(row["label"]) is int
        headline = row["headline"]
        assert headline == " ".join(headline.split())
        assert bundled.shortest <= len(headline) <= bundled.longest


def test_file_is_plain_utf8_lines(bundled: Bundled) -> None:
    content = bundled.path.read_bytes()
    assert not content.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in content
    assert b"\\u" not in content  # Chinese and quotes stand as they are read
    assert content.endswith(b"}\n")


def test_labels_are_balanced_and_mixed(bundled: Bundled) -> None:
    labels = [row["label"] for row in bundled.rows()]
    assert Counter(labels) == {0: bundled.rows_per_label, 1: bundled.rows_per_label}
    first_half = labels[: len(labels) // 2]
    assert 0.35 < sum(first_half) / len(first_half) < 0.65


def test_no_two_headlines_are_alike(bundled: Bundled) -> None:
    texts = [row["headline"] for row in bundled.rows()]
    assert len({text.casefold() for text in texts}) == len(texts)
    sets = {text: words(text) for text in texts}
    alike = [
        (a, b) for a, b in combinations(texts, 2) if len(sets[a] & sets[b]) >= 0.5 * len(sets[a] | sets[b])
    ]
    assert alike == []


def test_no_english_opening_is_worn_out() -> None:
    openings = Counter(" ".join(row["headline"].lower().split()[:2]) for row in ENGLISH.rows())
    assert [opening for opening, count in openings.items() if count > 3] == []


def test_looks_do_not_give_the_label_away(bundled: Bundled) -> None:
    accuracies = [accuracy_by_looks(bundled.rows(), seed) for seed in range(10)]
    assert sum(accuracies) / len(accuracies) < 0.70
    assert max(accuracies) < 0.75


@pytest.mark.parametrize("label", [0, 1])
def test_half_of_each_english_side_is_title_case(label: int) -> None:
    headlines = [row["headline"] for row in ENGLISH.rows() if row["label"] == label]
    assert 0.4 < sum(map(is_title_case, headlines)) / len(headlines) < 0.6


def test_sidecar_says_what_a_run_needs(bundled: Bundled) -> None:
    task = bundled.task()
    assert task["prompt"].strip()
    assert task["task"].strip()
    assert task["labels"] == ["0", "1"]
    assert (task["input_field"], task["target_field"]) == ("headline", "label")
    assert get_metric(task["metric"], {}, judge=None).name == "exact_match"


def test_chinese_prompt_is_the_naive_one_of_the_beginning() -> None:
    prompt = CHINESE.task()["prompt"]
    assert prompt.startswith("你是一个文本分类专家。你的任务是根据新闻标题headline预测其")
    assert prompt.endswith("请仔细分析标题的内容、风格和特征，然后给出分类结果。")
    assert len(prompt.splitlines()) == 6


def test_splits_into_three_balanced_parts(bundled: Bundled) -> None:
    sidecar = find_sidecar(bundled.path)
    assert sidecar is not None
    task = load_task(sidecar)
    splits = cut_rows(
        DataSettings.model_validate(
            {
                "dataset": bundled.path,
                "input_field": task.input_field,
                "target_field": task.target_field,
                "labels": task.labels,
            }
        )
    ).capped()
    parts = (splits.train, splits.val, splits.test)
    ids = [example.id for part in parts for example in part]
    assert len(ids) == len(set(ids)) == 2 * bundled.rows_per_label
    for part in parts:
        assert infer_labels(part) == ("0", "1")
        counts = Counter(example.target for example in part)
        assert abs(counts["0"] - counts["1"]) <= 2
