from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.llm.transport.wire import Step, label_probabilities, steps_of


def step(token: str, **likeliest: float) -> Step:
    return Step(token.encode(), tuple((t.encode(), math.log(p)) for t, p in likeliest.items()))


def test_labels_that_part_at_once_share_by_their_first_tokens() -> None:
    # As the embedded model answered: "click" 0.55, "news" 0.07, the rest is not a label.
    steps = [step("click", click=0.55, Click=0.34, news=0.07), step("b", b=0.9), step("ait", ait=0.9)]
    probabilities = label_probabilities(steps, ("clickbait", "news"))
    assert probabilities == pytest.approx({"clickbait": 0.55 / 0.62, "news": 0.07 / 0.62})


def test_several_tokens_may_begin_one_label() -> None:
    steps = [step("cl", cl=0.3, click=0.3, n=0.2, ne=0.2)]
    probabilities = label_probabilities(steps, ("clickbait", "news"))
    assert probabilities == pytest.approx({"clickbait": 0.6, "news": 0.4})


def test_a_shared_prefix_is_decided_where_it_ends() -> None:
    steps = [step("very ", **{"very ": 0.8, "bad": 0.2}), step("good", good=0.25, poor=0.75)]
    probabilities = label_probabilities(steps, ("very good", "very poor", "bad"))
    assert probabilities == pytest.approx({"very good": 0.2, "very poor": 0.6, "bad": 0.2})


def test_a_label_that_begins_another_is_the_one_that_ends() -> None:
    steps = [step("1", **{"1": 1.0}), Step(b"", ((b"", math.log(0.7)), (b"0", math.log(0.3))))]
    assert label_probabilities(steps, ("1", "10")) == pytest.approx({"1": 0.7, "10": 0.3})


def test_labels_left_open_share_evenly() -> None:
    assert label_probabilities([step("very ", **{"very ": 1.0})], ("very good", "very poor")) == {
        "very good": 0.5,
        "very poor": 0.5,
    }
    other = label_probabilities([step("a", a=0.5, b=0.5)], ("a", "bc", "bd"))
    assert other == pytest.approx({"a": 0.5, "bc": 0.25, "bd": 0.25})


def test_what_is_not_among_the_likeliest_is_small_but_not_zero() -> None:
    probabilities = label_probabilities([step("a", a=0.9)], ("a", "b"))
    assert probabilities["b"] == pytest.approx(1e-6, rel=1e-3)


def test_tokens_may_be_parts_of_characters() -> None:
    first, second = "是".encode(), "否".encode()
    content = [
        {
            "token": "\ufffd",
            "bytes": list(first[:2]),
            "logprob": -0.1,
            "top_logprobs": [
                {"token": "\ufffd", "bytes": list(first[:2]), "logprob": math.log(0.6)},
                {"token": "\ufffd", "bytes": list(second[:1]), "logprob": math.log(0.2)},
            ],
        },
        {"token": "\ufffd", "bytes": list(first[2:]), "logprob": -0.1, "top_logprobs": []},
    ]
    assert label_probabilities(steps_of(content), ("是", "否")) == pytest.approx({"是": 0.75, "否": 0.25})


def test_endpoints_without_bytes_are_read_by_their_text() -> None:
    content = [{"token": "1", "logprob": -0.1, "top_logprobs": [{"token": "1", "logprob": 0.0}]}]
    assert label_probabilities(steps_of(content), ("0", "1"))["1"] > 0.99


def test_the_token_taken_counts_even_if_it_is_not_among_the_likeliest() -> None:
    top = [{"token": "b", "logprob": math.log(0.3)}, {"token": "x", "logprob": math.log(0.6)}]
    content = [{"token": "a", "logprob": math.log(0.1), "top_logprobs": top}]
    assert label_probabilities(steps_of(content), ("a", "b")) == pytest.approx({"a": 0.25, "b": 0.75})


texts = st.text(alphabet="ab 是", min_size=1, max_size=4)


@given(st.lists(texts, min_size=2, max_size=5, unique=True), st.data())
def test_it_is_always_a_distribution(labels: list[str], data: st.DataObject) -> None:
    answer = data.draw(st.sampled_from(labels))
    likeliest = st.lists(st.tuples(texts, st.floats(-30, 0)), max_size=4)
    steps = [Step(char.encode(), tuple((t.encode(), p) for t, p in data.draw(likeliest))) for char in answer]
    probabilities = label_probabilities(steps, labels)
    assert set(probabilities) == set(labels)
    assert all(p > 0 for p in probabilities.values())
    assert math.isclose(sum(probabilities.values()), 1)
