"""The analyst: which rows it is shown, what it is asked, what comes back."""

from __future__ import annotations

import re

from fakes import row, scored
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.llm import ScriptedClient
from autoprompt.optimizer.agents.analyst import (
    RIGHT_ROWS,
    ROW_CHARACTERS,
    WRONG_ROWS,
    AnalysisAgent,
    CountingAnalyst,
    near_misses,
    spread,
)
from autoprompt.records import EvaluatedRow, Example


def wrong(number: int, truth: str, answer: str) -> EvaluatedRow:
    return scored(Example(f"r{number}", f"item {number}", truth, {}), False, answer=answer)


def test_without_errors_nothing_is_asked() -> None:
    client = ScriptedClient([])
    analysis = AnalysisAgent(client).analyze("P", [scored(row(n), True) for n in range(5)])
    assert analysis == {
        "has_errors": False,
        "error_count": 0,
        "total_count": 5,
        "suggestions": "",
        "error_cases": [],
        "feedback": [],
    }
    assert client.calls == []


def test_without_a_model_the_kinds_of_error_stand_for_what_it_would_say() -> None:
    agent = CountingAnalyst()
    assert agent.most_calls == 0
    rows = [wrong(1, "A", "B"), wrong(2, "A", "B"), wrong(3, "B", ""), scored(row(4), True)]
    analysis = agent.analyze("P", rows)
    assert analysis["suggestions"].splitlines() == [
        "- expected 'A', answered 'B': 2",
        "- expected 'B', answered '(no readable answer)': 1",
    ]
    assert (analysis["error_count"], analysis["total_count"]) == (3, 4)
    assert [case["ground_truth"] for case in analysis["error_cases"]] == ["A", "A", "B"]
    assert "应为 'A'，却答 'B'：2" in agent.analyze("请判断。", rows)["suggestions"]
    assert agent.analyze_steps("Sort.", {"a": "P"}, rows) == analysis | {"rules": {}}
    assert not agent.analyze("P", rows[3:])["suggestions"]


def test_what_an_analyst_thought_is_no_suggestion() -> None:
    agent = AnalysisAgent(ScriptedClient(["<think>Let me see.</think>\nName both answers."]))
    assert agent.analyze("Sort.", [wrong(1, "A", "B")])["suggestions"] == "Name both answers."


def test_at_most_twelve_rows_are_shown_errors_and_near_misses() -> None:
    client = ScriptedClient(["  Say more.\n"])
    rows = [scored(row(n), n >= 20, confidence=n / 100) for n in range(40)]
    analysis = AnalysisAgent(client).analyze("The prompt.", rows, seed=3)
    assert (analysis["error_count"], analysis["total_count"]) == (20, 40)
    assert analysis["suggestions"] == "Say more."
    assert len(analysis["error_cases"]) == WRONG_ROWS
    assert set(analysis["error_cases"][0]) == {"input", "prediction", "ground_truth", "reason"}
    text = client.calls[0][0].content
    shown = [int(n) for n in re.findall(r"item (\d+)", text)]
    assert len(shown) == WRONG_ROWS + RIGHT_ROWS <= 12
    assert shown[WRONG_ROWS:] == [20, 21, 22, 23]  # right, but the least sure
    assert "The prompt." in text


def test_frequent_kinds_of_error_come_first_and_all_kinds_are_seen() -> None:
    rows = [wrong(n, "A", "B") for n in range(10)] + [wrong(20 + n, "B", "A") for n in range(3)]
    rows += [wrong(30 + n, "A", "") for n in range(2)]
    kinds = [(r.ground_truth, r.prediction) for r in spread(rows, 6)]
    assert kinds[:3] == [("A", "B"), ("B", "A"), ("A", "")]
    assert kinds.count(("A", "")) == 2


@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("CD")), max_size=30), st.integers(0, 12))
def test_spread_shows_as_many_as_it_may_and_none_twice(kinds: list[tuple[str, str]], most: int) -> None:
    rows = [wrong(n, truth, answer) for n, (truth, answer) in enumerate(kinds)]
    shown = spread(rows, most)
    assert len(shown) == min(most, len(rows))
    assert len({r.example_id for r in shown}) == len(shown)
    assert shown == spread(rows, most)


def test_free_texts_are_shown_in_their_order() -> None:
    rows = [wrong(n, f"truth {n}", f"answer {n}") for n in range(9)]
    assert spread(rows, 4) == rows[:4]


def test_without_confidence_the_first_right_rows_are_shown() -> None:
    rows = [scored(row(n), True) for n in range(6)]
    assert near_misses(rows, 4) == rows[:4]


def test_an_unreadable_answer_is_a_kind_of_its_own() -> None:
    client = ScriptedClient(["x"])
    AnalysisAgent(client).analyze("P", [wrong(1, "A", ""), wrong(2, "A", "")])
    text = client.calls[0][0].content
    assert "(no readable answer)" in text
    assert ": 2" in text


def test_long_rows_are_cut() -> None:
    client = ScriptedClient(["x"])
    long = Example("r1", "word " * 2000, "A", {})
    analysis = AnalysisAgent(client).analyze("P", [scored(long, False)])
    assert len(client.calls[0][0].content) < ROW_CHARACTERS + 3000
    assert len(analysis["error_cases"][0]["input"]) == ROW_CHARACTERS


def test_a_chinese_prompt_is_analysed_in_chinese() -> None:
    client = ScriptedClient(["好"])
    AnalysisAgent(client).analyze("判断标题。", [wrong(1, "A", "B")])
    assert "你负责" in client.calls[0][0].content
