"""Prompts that ask to reason first: how they ask, how they are sent, and where the answer is read."""

from __future__ import annotations

import pytest

from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.measure.program import PromptProgram
from autoprompt.measure.rows import evaluate
from autoprompt.metrics import get_metric
from autoprompt.metrics.base import TextMetric
from autoprompt.records import Candidate, Example, Message
from autoprompt.text.answers.reasoning import asks_to_reason, final_answer, request, requests_in

LABELS = ("No", "Yes")
ROW = Example("r1", "Take 2 steps. Turn around. Take 2 steps.", "Yes", {})
NAIVE = "Do you return to the start? Answer Yes or No."


def answering(text: str) -> ScriptedClient:
    return ScriptedClient(lambda messages, options: Completion(text))


@pytest.mark.parametrize("prompt", [NAIVE, "回到起点了吗？"])
def test_what_is_asked_for_is_recognized_in_its_language(prompt: str) -> None:
    line = request(prompt, LABELS)
    assert not asks_to_reason(prompt)
    assert asks_to_reason(f"{prompt}\n{line}")
    assert requests_in(f"{prompt} {line}\nTake care.") == [line]
    assert all(label in line for label in LABELS)
    assert asks_to_reason(request(prompt, ()))


@pytest.mark.parametrize("prompt", [NAIVE, "回到起点了吗？\n是或否。"])
def test_a_short_prompt_is_repeated_as_what_is_asked(prompt: str) -> None:
    line = request(prompt, LABELS)
    assert " ".join(prompt.split()) in line
    assert "\n" not in line


@pytest.mark.parametrize("prompt", [NAIVE * 10, "Is it so? {input}", ""])
def test_a_long_prompt_and_one_with_a_row_in_it_are_not_repeated(prompt: str) -> None:
    line = request(prompt, LABELS)
    assert '"' not in line.replace('"Answer:"', "")
    assert "{" not in line
    assert asks_to_reason(line)


def test_a_line_that_ends_otherwise_is_known_by_its_beginning() -> None:
    line = (
        "Work it out step by step. After each step write down how things stand, in numbers where there are "
        'any: a position as (x, y), a count, a total. End with a line that begins with "Answer:" and holds '
        "one of: No, Yes"
    )
    assert requests_in(f"{NAIVE}\n{line}\nTake care.") == [line]


@pytest.mark.parametrize(
    "prompt",
    [
        "Answer: yes or no.",
        "Headline: {input}\nAnswer:",
        "Think step by step.",
        "答案：",
        'End with "Answer:".',
    ],
)
def test_other_prompts_that_name_an_answer_are_not_taken_for_it(prompt: str) -> None:
    assert not asks_to_reason(prompt)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1. (0, 2)\n2. (0, 0)\nAnswer: Yes", "Yes"),
        ("The first answer: No.\nI look again.\n**Answer:** Yes", "Yes"),
        ("We are at (0, 0). Therefore, the answer is Yes.", "Yes."),
        ("Answer: Yes\nI hope this answer is helpful!", "Yes"),
        ("Answer: Paris.\nThe answer is a city in France.", "Paris."),
        ("答案：正面\n以上答案为最终结果。", "正面"),
        ("Answer: __init__", "__init__"),
        ("- **Final answer**: 7", "7"),
        ('I look.\nAnswer: {"answer": 42}', '{"answer": 42}'),
        ('{"answer": 42}', '{"answer": 42}'),
        ("Step 1\nAnswer:\n\nNo", "No"),
        ("向前两步，再回来。\n答案：是", "是"),
        ("<think>Answer: No</think>It is back.\nYes", "Yes"),
        ("Yes", "Yes"),
        ('Look.\nAnswer: {"a": 1,\n "b": 2}', '{"a": 1,\n "b": 2}'),
        ("I do not know.\nAnswer:", None),
        ("  ", None),
    ],
)
def test_the_answer_is_what_it_ends_with(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [("1. We walk.\n2. Yes, we turn", None), ("The answer is Yes, if", None), ("Answer: No\nFor", "No")],
)
def test_of_an_answer_that_was_cut_only_the_line_asked_for_counts(text: str, answer: str | None) -> None:
    assert final_answer(text, is_cut=True) == answer
    cut = ScriptedClient([Completion(text, finish_reason="length")] * 3)
    prompt = f"{NAIVE}\n{request(NAIVE, LABELS)}"
    assert PromptProgram(cut, prompt, LABELS).run(ROW, Candidate({"prompt": prompt})).value == answer
    assert len(cut.calls) == 1


def test_labels_are_not_enforced_there_and_the_last_line_counts() -> None:
    sent: list[Options] = []

    def answer(messages: list[Message], options: Options) -> Completion:
        sent.append(options)
        return Completion("Yes, two steps, and No, not one more.\nAnswer: No")

    program = PromptProgram(
        ScriptedClient(answer),
        NAIVE,
        LABELS,
        Options(max_output_tokens=32, wants_label_probs=True),
        get_metric("exact_match", labels=LABELS).read,
        reasoning_tokens=300,
    )
    prompt = f"{NAIVE}\n{request(NAIVE, LABELS)}"
    prediction = program.run(ROW, Candidate({"prompt": prompt}))
    assert prediction.value == "No"
    assert prediction.text.startswith("Yes, two steps")
    program.run(ROW, Candidate({"prompt": NAIVE}))
    assert [(o.labels, o.wants_label_probs, o.max_output_tokens) for o in sent] == [
        ((), False, 300),
        (LABELS, True, 32),
    ]


def test_a_number_is_read_from_the_last_line_and_a_row_without_an_answer_is_unparsed() -> None:
    prompt = "How many?\n" + request("How many?", ())
    number = PromptProgram(answering("3 and 4 make 7.\nAnswer: 7\n"), prompt, read=get_metric("numeric").read)
    assert number.run(ROW, Candidate({"prompt": prompt})).value == "7"
    metric = get_metric("numeric")
    assert isinstance(metric, TextMetric)
    for text, value in (
        ("3 and 4 make 7.\nAnswer: 7 (in 2 steps)\n", "7 (in 2 steps)"),
        ("3 and 4 make 7, so the answer is 7, not 8.", "7, not 8."),
        ("Answer: 3 + 4 = 7 km", "3 + 4 = 7 km"),
        ("3 and 4 make\n7 or 8", "7 or 8"),
    ):
        number = PromptProgram(answering(text), prompt, read=metric.read, read_marked=metric.read_marked)
        assert number.run(ROW, Candidate({"prompt": prompt})).value == value
    label = PromptProgram(answering("I walk around in circles"), prompt, LABELS)
    assert label.run(ROW, Candidate({"prompt": prompt})).value is None


def test_messages_hold_the_line_in_front_of_the_row() -> None:
    seen: list[list[Message]] = []

    def answer(messages: list[Message], options: Options) -> Completion:
        seen.append(messages)
        return Completion("Answer: Yes")

    prompt = f"Follow the steps.\n{request(NAIVE, LABELS)}\nSteps: {{input}}"
    PromptProgram(ScriptedClient(answer), prompt, LABELS).run(
        Example("r", "x", "Yes", {"input": "x"}), Candidate({"prompt": prompt})
    )
    assert [m.role for m in seen[0]] == ["system", "user"]
    assert seen[0][0].content.endswith("one of: No, Yes")


def test_a_row_keeps_what_was_written_before_its_answer() -> None:
    prompt = f"{NAIVE}\n{request(NAIVE, LABELS)}"
    metric = get_metric("exact_match", labels=LABELS)
    for text, output in (("Two, and back.\nAnswer: Yes", "Two, and back.\nAnswer: Yes"), ("Yes", "")):
        program = PromptProgram(answering(text), prompt, LABELS, read=metric.read)
        (row,) = evaluate(program, Candidate({"prompt": prompt}), [ROW], metric).rows
        assert (row.prediction, row.is_correct, row.output) == ("Yes", True, output)


def test_thousands_of_labels_are_not_listed_in_the_line() -> None:
    few, many = (tuple(f"intent {number}" for number in range(count)) for count in (150, 10_000))
    assert "one of: intent 0, intent 1, " in request("Which intent?", few)
    assert len(request("Which intent?", many)) < 400
