"""Thoughts of reasoning models apart from their answers."""

from __future__ import annotations

import pytest

from autoprompt.thoughts import parted, without_opening


@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        (" yes ", "yes", []),
        ("<think>\nHm.\n</think>\n\nyes", "yes", ["Hm."]),
        ("<THINKING>a</thinking>yes<think>b</think>", "yes", ["a", "b"]),
        ("opened in the prompt</think>yes", "yes", ["opened in the prompt"]),
        ("yes<think>sure</think>\nBecause.", "yes\nBecause.", ["sure"]),
        ("The answer is<think>hm</think> 42", "The answer is 42", ["hm"]),
        ("yes <think>cut off", "yes", ["cut off"]),
        ("<think>nothing but", "", ["nothing but"]),
    ],
)
def test_answer_and_thoughts_are_parted(text: str, answer: str, thoughts: list[str]) -> None:
    assert parted(text) == (answer, thoughts)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>\nrest <think>b</think>", "\nrest <think>b</think>"),
        ("a</think> rest", " rest"),
        ("print('</think>')", "print('</think>')"),
        ("x = '<think>'", "x = '<think>'"),
        ("<think>no end", ""),
    ],
)
def test_of_what_may_be_code_the_opening_thought_is_left_out(text: str, left: str) -> None:
    assert without_opening(text) == left
