"""Thoughts of reasoning models apart from their answers."""

from __future__ import annotations

import pytest
from waiting import within

from autoprompt.text.answers.thoughts import parted, without_opening

MUSING = "Maybe Tech or Sales?"
ASIDE = f"<|channel|>analysis<|message|>{MUSING}<|end|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>"


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


@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        (f"{ASIDE}{FINAL}Tech", "Tech", [MUSING]),
        (f"<|start|>assistant{ASIDE}{FINAL} Tech <|return|>", "Tech", [MUSING]),
        (f"{ASIDE}<|start|>assistant{ASIDE}{FINAL}Tech", "Tech", [MUSING] * 2),
        ("<|channel|>final<|message|>Tech<|return|>", "Tech", []),
        (f"{ASIDE}<|start|>assistant<|channel|>final <|constrain|>JSON<|message|>[1]", "[1]", [MUSING]),
        (f"{ASIDE}{FINAL}Tech<|end|><|start|>user<|message|>Next?{FINAL}Sales", "Tech", [MUSING]),
        (
            "<|channel|>commentary to=f<|constrain|>json<|message|>{}<|call|>" + FINAL + "Tech",
            "Tech",
            ["{}"],
        ),
        # The prompt opened the first message.
        (f"Maybe<|end|>{FINAL}Tech", "Tech", ["Maybe"]),
        (f"analysis<|message|>Maybe<|end|>{FINAL}Tech", "Tech", ["Maybe"]),
        (f"assistant{ASIDE}{FINAL}Tech", "Tech", [MUSING]),
        # Special tokens were left out.
        ("analysisMaybe Tech or Sales?assistantfinalTech", "Tech", [MUSING]),
        # What comes to no end is a thought.
        ("<|channel|>analysis<|message|>Tech, or", "", ["Tech, or"]),
        (ASIDE, "", [MUSING]),
        (f"{ASIDE}<|start|>assistant<|channel|>final", "", [MUSING]),
        # What is no such format stays as it is.
        ("Tech<|end|>", "Tech<|end|>", []),
        ('print("<|channel|>final<|message|>")', 'print("<|channel|>final<|message|>")', []),
        ("analysis of the final text", "analysis of the final text", []),
    ],
)
def test_of_channels_the_final_one_is_the_answer(text: str, answer: str, thoughts: list[str]) -> None:
    assert parted(text) == (answer, thoughts)


def test_of_code_in_channels_the_final_one_is_left() -> None:
    assert without_opening(f"{ASIDE}{FINAL}print('<think>')") == "print('<think>')"
    assert without_opening("print('<|channel|>final')") == "print('<|channel|>final')"


def test_long_texts_are_parted_in_time() -> None:
    for part in ("<|start|>assistant<|channel|>", "<|end|><|start|>assistant", "<|end|> ", " ", "analysis"):
        with within(20):
            parted(part * 50_000)
