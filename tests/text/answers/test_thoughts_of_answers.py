"""Thoughts of reasoning models apart from their answers."""

from __future__ import annotations

import pytest
from waiting import within

from autoprompt.text.answers.texts import split_thoughts, without_opening_thought

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
    assert split_thoughts(text) == (answer, thoughts)


@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        ("[THINK]tech?[/THINK]sales", "sales", ["tech?"]),
        ("tech?[/THINK]sales", "sales", ["tech?"]),
        ("◁think▷tech?◁/think▷sales", "sales", ["tech?"]),
        ("<seed:think>tech?</seed:think>sales", "sales", ["tech?"]),
        ("<thought>tech?</thought>sales", "sales", ["tech?"]),
        ("<Thoughts>\ntech?\n</Thoughts>\nsales", "sales", ["tech?"]),
        ("<longcat_think>tech?</longcat_think>\nsales", "sales", ["tech?"]),
        (
            "<|begin_of_thought|>tech?<|end_of_thought|>\n\n<|begin_of_solution|>sales<|end_of_solution|>",
            "sales",
            ["tech?"],
        ),
        ("<|begin_of_thought|>tech?<|begin_of_solution|>sales", "sales", ["tech?"]),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "b", ["a"]),
        ("<|channel>thought\ntech?<channel|>sales", "sales", ["tech?"]),
        ("<|channel>thought\n<channel|>sales", "sales", [""]),
        ("<unused94>thought\ntech?<unused95>sales", "sales", ["tech?"]),
        ("Here is my thought process: tech? Here is my response: sales", "sales", ["tech?"]),
        ("Here's my thought process:\ntech?\n\nHere's my response:\nsales", "sales", ["tech?"]),
        (
            "Here are my reasoning steps:\ntech?\n[BEGIN FINAL RESPONSE]\nsales\n[END FINAL RESPONSE]",
            "sales",
            ["tech?"],
        ),
        ("<think>one</think>[THINK]two[/THINK]sales", "sales", ["one", "two"]),
        ("<think>[THINK]one[/THINK]</think>sales", "sales", ["[THINK]one[/THINK]"]),
        # Without an end.
        ("[THINK]tech, or", "", ["tech, or"]),
        ("◁think▷tech, or", "", ["tech, or"]),
        ("<|begin_of_thought|>tech, or", "", ["tech, or"]),
        ("<|channel>thought\ntech, or", "", ["tech, or"]),
        # What is no mark stays as it is.
        ("Here is my thought process: tech. So sales", "Here is my thought process: tech. So sales", []),
        ("I think [think] of sales", "I think [think] of sales", []),
        ("sales<|end_of_solution|>", "sales<|end_of_solution|>", []),
    ],
)
def test_thoughts_in_the_marks_of_each_model_are_parted(text: str, answer: str, thoughts: list[str]) -> None:
    assert split_thoughts(text) == (answer, thoughts)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>\nrest <think>b</think>", "\nrest <think>b</think>"),
        ("a</think> rest", " rest"),
        ("print('</think>')", "print('</think>')"),
        ("x = '<think>'", "x = '<think>'"),
        ("<think>no end", ""),
        ("[THINK]a[/THINK]rest", "rest"),
        ("◁think▷a◁/think▷rest ◁think▷", "rest ◁think▷"),
        ("<|begin_of_thought|>a<|end_of_thought|><|begin_of_solution|>rest<|end_of_solution|>", "rest"),
        ("Here is my thought process: a Here is my response: rest", " rest"),
        ("x = '[THINK]a[/THINK]'", "x = '[THINK]a[/THINK]'"),
        ("x = '◁/think▷'", "x = '◁/think▷'"),
        ("[THINK]no end", ""),
    ],
)
def test_of_what_may_be_code_the_opening_thought_is_left_out(text: str, left: str) -> None:
    assert without_opening_thought(text) == left


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
    assert split_thoughts(text) == (answer, thoughts)


def test_of_code_in_channels_the_final_one_is_left() -> None:
    assert without_opening_thought(f"{ASIDE}{FINAL}print('<think>')") == "print('<think>')"
    assert without_opening_thought("print('<|channel|>final')") == "print('<|channel|>final')"


def test_long_texts_are_parted_in_time() -> None:
    for part in (
        "<|start|>assistant<|channel|>",
        "<|end|><|start|>assistant",
        "<|end|> ",
        " ",
        "analysis",
        "[THINK]",
        "[/THINK]",
        "<thought>",
    ):
        with within(4):
            split_thoughts(part * 20_000)
