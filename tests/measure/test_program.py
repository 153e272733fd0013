"""Prompts become messages, answers become predictions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import (
    AuthenticationError,
    BudgetExhausted,
    EndpointError,
    PromptError,
    RequestRefusedError,
    RuntimeMissingError,
)
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.measure.program import (
    PromptProgram,
    demo_turn,
    placeholders,
    render,
    render_text,
    repeated_text,
)
from autoprompt.records import Candidate, Demo, Example, Message, Prediction, Usage
from autoprompt.text.answers.reasoning import request

ROW = Example("r1", "A headline", "1", {"input": "A headline", "desk": "sport {input}", "target": "1"})
DEMOS = (Demo("Old", "0", "r2"), Demo("Older", "1", "r3"))
FIELDS = ("input", "desk")


def roles(messages: list[Message]) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in messages]


def test_without_placeholder_the_prompt_is_the_system_message() -> None:
    assert roles(render('Say {"label": 1} or {x}.', (), ROW)) == [
        ("system", 'Say {"label": 1} or {x}.'),
        ("user", "A headline"),
    ]


def test_demonstrations_are_turns_between_prompt_and_row() -> None:
    assert roles(render("Classify.", DEMOS, ROW)) == [
        ("system", "Classify."),
        ("user", "Old"),
        ("assistant", "0"),
        ("user", "Older"),
        ("assistant", "1"),
        ("user", "A headline"),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [None, "标 {input}", 1.0, True, 10**30]},
         '{"b":1,"a":[null,"标 {input}",1.0,true,1000000000000000000000000000000]}'),
        ([], "[]"), (None, ""), (True, "true"), (1, "1"), (1.0, "1.0"), (1e22, "1e+22"), (" x ", " x "),
    ],
)  # fmt: skip
def test_a_value_is_made_text_where_it_is_filled_in(value: object, text: str) -> None:
    row = Example("r1", value, "t", {"input": value, "v": value, "target": "t"})
    assert render("Of {v}: {target}", (), row)[-1].content == f"Of {text}: {{target}}"
    assert render("Classify.", (), row)[-1].content == text == row.input_text


def test_the_lines_before_the_first_placeholder_come_first_and_stay_the_same() -> None:
    prompt = "Judge headlines.\nBe strict.\n\nHeadline: {input}\nAnswer:"
    assert roles(render(prompt, DEMOS[:1], ROW)) == [
        ("system", "Judge headlines.\nBe strict."),
        ("user", "Headline: Old\nAnswer:"),
        ("assistant", "0"),
        ("user", "Headline: A headline\nAnswer:"),
    ]


@pytest.mark.parametrize("prompt", ["Is {input} clickbait?\nSay 0 or 1.", "\n{input}"])
def test_a_prompt_with_no_constant_lines_is_one_user_message(prompt: str) -> None:
    assert roles(render(prompt, (), ROW)) == [("user", prompt.replace("{input}", "A headline"))]


def test_braces_inside_a_row_are_not_filled_again() -> None:
    assert render("{desk} {{input}} {1}", (), ROW)[0].content == "sport {input} {A headline} {1}"


def test_the_expected_answer_is_never_told() -> None:
    assert render("Reply {target}", (), ROW)[0].content == "Reply {target}"
    named = Example("r", "x", "yes", {"input": "x", "label": "yes"})
    assert "yes" not in render("{input} {label}", (), named, target_field="label")[0].content


def test_the_input_may_stand_in_any_field() -> None:
    row = Example("r", "T", "1", {"head line": "T", "target": "1"})
    assert roles(render("P", DEMOS[:1], row, input_field="head line"))[1:] == [
        ("user", "Old"),
        ("assistant", "0"),
        ("user", "T"),
    ]
    row = Example("r", "标", "1", {"标题": "标", "target": "1"})
    assert render("标题：{标题}", (), row, input_field="标题")[0].content == "标题：标"


def test_demonstrations_are_filled_in_with_their_own_fields() -> None:
    shown = (replace(DEMOS[0], fields={"desk": "news"}),)
    assert roles(render("Judge.\n{input} of {desk} {unknown}", shown, ROW))[1:] == [
        ("user", "Old of news {unknown}"),
        ("assistant", "0"),
        ("user", "A headline of sport {input} {unknown}"),
    ]


def test_what_a_demonstration_takes_is_what_is_sent() -> None:
    prompt = "Judge.\nHeadline: {input}\nAnswer with 0 or 1."
    assert demo_turn(prompt, DEMOS[0]) == render(prompt, DEMOS, ROW)[1].content
    assert demo_turn("Judge.", DEMOS[0]) == "Old"
    assert repeated_text(prompt, FIELDS) == "Headline: {input}\nAnswer with 0 or 1."
    assert repeated_text("Judge.", FIELDS) == ""


def test_a_demonstration_without_a_field_that_the_prompt_asks_for_is_refused() -> None:
    with pytest.raises(PromptError, match=r"\{desk\}, but a demonstration has no such field\. Add it"):
        render("{input} of {desk}", DEMOS, ROW)


def test_a_demonstration_shows_people_all_that_is_asked() -> None:
    assert "User: Old\ndesk: news\nAssistant: 0" in render_text(
        "P", [replace(DEMOS[0], fields={"desk": "news"})]
    )
    joined = Demo("premise: a\nclaim: b", "1", fields={"premise": "a", "claim": "b"})
    assert joined.shown == joined.input


def test_a_field_may_be_named_in_any_script() -> None:
    assert placeholders("{शीर्षक} {标题}", {"शीर्षक": "", "标题": ""}) == ("शीर्षक", "标题")


def test_placeholders_are_known_fields_in_order_of_occurrence() -> None:
    assert placeholders("{desk} {input} {desk} {other} {{#a.b#}} { input }", FIELDS) == ("desk", "input")


@given(st.text(), st.text())
def test_any_text_is_sent_as_it_is(prompt: str, value: str) -> None:
    row = Example("r", value, "1", {"input": value, "target": "1"})
    if "{input}" in prompt:
        return
    assert roles(render(prompt, (), row)) == ([("system", prompt)] if prompt else []) + [("user", value)]


def test_render_text_shows_prompt_and_demonstrations() -> None:
    assert render_text("P", ()) == "P"
    shown = render_text("P", DEMOS)
    assert shown.startswith("P\n\n--- 2 demonstrations")
    assert "User: Old\nAssistant: 0" in shown
    assert "each filled in at the placeholders" not in shown
    assert "each filled in at the placeholders" in render_text("Judge {input}.", DEMOS)


@pytest.mark.parametrize(
    ("prompt", "component", "place"),
    [
        ("P", "", "between prompt and row"),
        ('P {"a": 1} {1} {{#a.b#}}', "", "between prompt and row"),
        ("P\nItem: {input}", "", "before the row, each filled in at the placeholders as the row is"),
        ("P\n前提：{前提}", "", "before the row, each filled in at the placeholders as the row is"),
        ("P of {topic}", "step", "between prompt and row"),
    ],
)
def test_render_text_says_how_demonstrations_are_sent(prompt: str, component: str, place: str) -> None:
    shown = render_text(prompt, [replace(demo, component=component) for demo in DEMOS])
    assert shown.startswith(
        f"{prompt}\n\n--- 2 demonstrations, sent as turns of the chat {place} ---\n\nUser: "
    )


def program(client: ScriptedClient, **more: object) -> PromptProgram:
    return PromptProgram(client, "Classify.", **{"labels": ("0", "1"), **more})  # type: ignore[arg-type]


CANDIDATE = Candidate({"prompt": "Classify better."}, DEMOS[:1])


def settled(program: PromptProgram) -> Prediction:
    """The answer, asked for again as often as that is of use."""
    prediction = program.run(ROW, CANDIDATE)
    while prediction.again is not None:
        prediction = prediction.again()
    return prediction


def test_a_run_sends_the_candidate_and_reads_the_label() -> None:
    answer = Completion("Answer: 1.", Usage(10, 2), {"0": 0.2, "1": 0.8})
    client = ScriptedClient([answer])
    prediction = program(client).run(ROW, CANDIDATE)
    assert client.calls == [render("Classify better.", DEMOS[:1], ROW)]
    assert (prediction.value, prediction.text) == ("1", "Answer: 1.")
    assert prediction.usage == Usage(10, 2)
    assert prediction.label_probs == {"0": 0.2, "1": 0.8}
    assert program(client).components == {"prompt": "Classify."}


def test_labels_and_options_reach_the_client() -> None:
    seen: list[Options] = []

    def answer(messages: list[Message], options: Options) -> str:
        seen.append(options)
        return "1"

    options = Options(max_output_tokens=7, seed=0, wants_label_probs=True)
    program(ScriptedClient(answer), options=options).run(ROW, CANDIDATE)
    assert seen == [Options(max_output_tokens=7, seed=0, wants_label_probs=True, labels=("0", "1"))]


def test_unreadable_answers_are_asked_again_as_other_samples_at_most_twice() -> None:
    seen: list[Options] = []

    def answer(messages: list[Message], options: Options) -> Completion:
        seen.append(options)
        return Completion(["well", "hm", "neither"][len(seen) - 1], Usage(5, 1))

    prediction = settled(program(ScriptedClient(answer), options=Options(seed=3, sample=3)))
    assert [(o.sample, o.seed) for o in seen] == [(3, 3), (1003, 1003), (2003, 2003)]
    assert (prediction.value, prediction.text, prediction.error) == (None, "neither", None)
    assert prediction.usage == Usage(15, 3)


@pytest.mark.parametrize(("answer", "calls"), [("hm", 2), (" ", 1), ("<think>It may be 1, or", 1)])
def test_an_answer_that_repeats_or_is_empty_is_not_paid_again(answer: str, calls: int) -> None:
    client = ScriptedClient(lambda messages: answer)
    assert settled(program(client)).value is None
    assert len(client.calls) == calls


@pytest.mark.parametrize("is_reasoned", [False, True])
def test_a_refusal_names_no_label_and_is_not_asked_for_again(is_reasoned: bool) -> None:
    client = ScriptedClient(lambda messages: Completion("No. Answer: 1", finish_reason="refusal"))
    prompt = request("P", ("0", "1")) if is_reasoned else "P"
    found = program(client).run(ROW, Candidate({"prompt": prompt}))
    assert (found.text, found.value, found.again) == ("No. Answer: 1", None, None)
    assert (found.error, found.failure) == ("the model declined to answer: No. Answer: 1", "withheld")


def test_a_good_second_answer_counts() -> None:
    prediction = settled(program(ScriptedClient(["hm", "1"])))
    assert (prediction.value, prediction.again) == ("1", None)


@pytest.mark.parametrize("error", [EndpointError("timed out"), RequestRefusedError("too long")])
def test_an_unreadable_answer_stays_one_where_asking_again_fails(error: Exception) -> None:
    """Lost instead, its zero would be spared to a prompt that cannot be read, by a bad endpoint."""

    def answer(messages: list[Message], options: Options) -> str:
        if options.is_retry:
            raise error
        return "hm"

    prediction = settled(program(ScriptedClient(answer)))
    assert (prediction.value, prediction.text, prediction.error) == (None, "hm", None)


def test_free_text_is_stripped_and_needs_no_label() -> None:
    client = ScriptedClient(["<think>long</think> 12 + 3 = 15\n"])
    assert program(client, labels=()).run(ROW, CANDIDATE).value == "12 + 3 = 15"


def test_another_reader_decides_what_is_unparsed() -> None:
    client = ScriptedClient(["x", "y", "z"])
    prediction = settled(program(client, labels=(), read=lambda text: text if text == "z" else None))
    assert (prediction.value, len(client.calls)) == ("z", 3)


def test_a_failed_call_is_a_failed_row() -> None:
    assert program(ScriptedClient([EndpointError("503")])).run(ROW, CANDIDATE).error == "503"
    refused = program(ScriptedClient([RequestRefusedError("too long")])).run(ROW, CANDIDATE)
    assert (refused.error, refused.failure) == ("too long", "refused")
    assert refused.value is None


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("key"),
        RuntimeMissingError("none"),
        BudgetExhausted("max_calls"),
        EndpointError("gone", is_fatal=True),
    ],
)
def test_what_no_row_survives_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        program(ScriptedClient([error])).run(ROW, CANDIDATE)


def test_a_budget_that_ends_before_the_second_question_leaves_the_first_answer() -> None:
    client = ScriptedClient([Completion("hm", Usage(5, 1)), BudgetExhausted("max_calls")])
    prediction = settled(program(client))
    assert (prediction.text, prediction.value, prediction.error) == ("hm", None, None)
    assert prediction.usage == Usage(5, 1)
