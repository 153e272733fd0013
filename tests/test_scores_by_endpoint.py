"""Scores of answers that an endpoint gives: request, reading, metric and score of `eval`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import Reply, answer, fake_endpoint

from autoprompt import EvaluationReport, RunConfig, evaluate

STARS = [{"input": f"review {n}", "target": str(1 + n % 5)} for n in range(10)]
QUEUES = [{"input": f"ticket {n}", "target": ("billing", "tech", "sales")[n % 3]} for n in range(12)]


def scores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[dict[str, Any]],
    told: Callable[[str], str],
    judged: Callable[[str], str] | None = None,
    **settings: Any,
) -> tuple[EvaluationReport, int]:
    """The report of rows whose answers are `told` of the target, and how many requests it took."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    targets = {row["input"]: row["target"] for row in rows}

    def reply(body: dict[str, Any]) -> Reply:
        said = body["messages"][-1]["content"]
        if body["model"] == "judge":
            assert judged is not None
            return answer(judged(said))
        return answer(told(targets[said]))

    with fake_endpoint(reply) as endpoint:
        config = RunConfig(
            **{
                "prompt": "Answer.",
                "model": "task",
                "base_url": endpoint.base_url,
                "runs_dir": tmp_path,
                "no_cache": True,
                **settings,
            }
        )
        return evaluate(config, rows=rows), len(endpoint.requests)


@pytest.mark.parametrize(
    "form",
    [
        *(
            "Rating (1-5): {}",
            "On a scale of 1 to 5, I give it a {}.",
            "1 2 3 4 5\n{}",
            "Bewertung (1 bis 5): {}",
        ),
        *("评分（1到5）：{}", "Note (de 1 à 5) : {}", "Puntuación (1 a 5): {}", "評価（1〜5）：{}", "{}/5"),
    ],
)
def test_a_repeated_scale_scores_as_the_answer_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    report, requests = scores(tmp_path, monkeypatch, STARS, form.format)
    assert (report.score, report.unparsed, requests) == (1.0, 0, 10)


def test_an_open_choice_is_asked_again_and_counts_as_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, requests = scores(
        tmp_path, monkeypatch, QUEUES, lambda target: f"{target} or {'tech' if target != 'tech' else 'sales'}"
    )
    assert (report.score, report.unparsed) == (0.0, 12)
    assert requests >= 24


@pytest.mark.parametrize(
    ("told", "score"),
    [
        *[("The total is {} million.", 1.0), ("{} Mio.", 1.0), ("${}m", 1.0), ("{}00万", 1.0)],
        *[("It costs {} mil", 1.0), ("Cuesta {} mil", 0.0), ("{} billion", 0.0), ("Room {}B", 0.0)],
        *[("{} million. Confidence: 0.9", 1.0)],
    ],
)
def test_multiplied_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, score: float) -> None:
    rows = [{"input": f"q{n}", "target": f"{n}000000"} for n in range(2, 9)]
    report, _ = scores(tmp_path, monkeypatch, rows, lambda target: told.format(target[0]), metric="numeric")
    assert report.score == score


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        *[("Score (1 to 5): 5", 1.0), ("5/5", 1.0), ("10 out of 10", 1.0), ("Grade: 1 of 5", 0.0)],
        *[
            ('{"reason": "polite", "score": 5}', 1.0),
            ("评分（1-5）：5", 1.0),
            ("Scale: 1 = rude, 5 = kind. 5", 1.0),
        ],
    ],
)
def test_a_judge_that_repeats_its_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: str, value: float
) -> None:
    rows = [{"input": f"say {n}", "target": "hello"} for n in range(4)]
    report, requests = scores(
        tmp_path,
        monkeypatch,
        rows,
        lambda target: target,
        lambda _: reply,
        metric="llm_judge",
        metric_options={"rubric": "polite"},
        judge_model="judge",
    )
    assert (report.score, report.unscored, requests) == (value, 0, 8)


@pytest.mark.parametrize("form", ["故选{}", "正解は{}です", "答案是{}。", "คำตอบคือ{}", "정답은 {}입니다"])
def test_a_letter_beside_letters_without_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    rows = [{"input": f"题 {n}", "target": "ABCD"[n % 4]} for n in range(12)]
    report, _ = scores(tmp_path, monkeypatch, rows, form.format)
    assert report.score == 1.0


def test_fences_and_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"input": f"q{n}", "target": f"SELECT {n}"} for n in range(6)]
    report, _ = scores(tmp_path, monkeypatch, rows, "```sql\n{}\n```".format)
    assert report.score == 1.0
    sets = [{"input": f"film {n}", "target": ["drama, comedy", "horror, drama"][n % 2]} for n in range(6)]

    def turned(target: str) -> str:
        return ", ".join(reversed(target.split(", ")))

    report, _ = scores(tmp_path, monkeypatch, sets, turned, metric="label_set")
    assert report.score == 1.0
    assert report.to_dict()["baselines"]["most_frequent"]["score"] < 1.0
    assert "macro_f1" not in str(report.warnings)


def promptfoo(output: str, context: dict[str, Any]) -> dict[str, Any]:
    return {"pass": output == context["vars"]["target"], "reason": "as the row says"}


def test_an_assertion_of_promptfoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, _ = scores(
        tmp_path, monkeypatch, QUEUES, lambda target: target, metric=f"python:{__name__}:promptfoo"
    )
    assert report.score == 1.0
