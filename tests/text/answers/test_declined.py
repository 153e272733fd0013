"""Who declines to answer names no label and no number."""

from __future__ import annotations

import pytest

from autoprompt.text.answers.label_sets import read_labels
from autoprompt.text.answers.labels import read_label
from autoprompt.text.answers.numbers import read_number

SPAM = ("spam", "ham")
QUEUES = ("billing", "tech", "sales")


@pytest.mark.parametrize(
    "text",
    [
        "I can't classify this as spam.",
        "I'm sorry, but I cannot classify this message as spam.",
        "I'm unable to determine if this is spam.",
        "I am not able to say it is spam.",
        "I won't label this message spam.",
        "Sorry, I can't help with spam.",
        "As an AI, I cannot judge messages about spam.",
        "I must decline to label this as spam.",
        "It is impossible to classify this as spam.",
        "There isn't enough information to call this spam.",
        "I cannot say spam, ham or anything.",
        "Answer: I cannot classify this as spam.",
        "Ich kann das nicht als Spam einstufen.",
        "Je ne peux pas classer ce message comme spam.",
        "Lo siento, no puedo clasificar esto como spam.",
        "Desculpe, não posso classificar isto como spam.",
        "Mi dispiace, non posso classificare questo come spam.",
        "Извините, я не могу классифицировать это как spam.",
        "抱歉，我无法将其归类为spam。",
        "抱歉，我无法判断为spam",
        "申し訳ありませんが、spamと分類することはできません。",
        "죄송하지만 spam으로 분류할 수 없습니다.",
        "عذراً، لا أستطيع تصنيف هذا على أنه spam.",
        "ขออภัย ฉันไม่สามารถจัดประเภทนี้เป็น spam ได้",
        "मैं इसे spam के रूप में वर्गीकृत नहीं कर सकता।",
        "Üzgünüm, bunu spam olarak sınıflandıramam.",
    ],
)
def test_a_refusal_names_no_label(text: str) -> None:
    assert read_label(text, SPAM) is None


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("I'm sorry, but this is spam.", SPAM, "spam"),
        ("I can't help but call this spam.", SPAM, "spam"),
        ("I cannot classify this as anything but spam.", SPAM, "spam"),
        ("I can't be sure, but I'd say spam.", SPAM, "spam"),
        ("I cannot deny that this is spam.", SPAM, "spam"),
        ("I can't classify this as ham; it is spam.", SPAM, "spam"),
        ("I cannot help you with that. Label: spam", SPAM, "spam"),
        ("Unable to verify the sender, so spam.", SPAM, "spam"),
        ("Je ne peux que classer ce message comme spam.", SPAM, "spam"),
        ("spamとしか考えられない", SPAM, "spam"),
        ("spam으로 분류할 수 있습니다", SPAM, "spam"),
        ("The customer can't determine their billing amount.", QUEUES, "billing"),
        ("The user is unable to answer tech questions", QUEUES, "tech"),
        ("用户无法确定billing金额", QUEUES, "billing"),
        ("I can't confirm that, no", ("yes", "no"), "no"),
        ("We can't give refunds - spam", SPAM, "spam"),
    ],
)
def test_a_label_that_is_said_all_the_same_is_read(text: str, labels: tuple[str, ...], label: str) -> None:
    assert read_label(text, labels) == label


def test_a_refusal_names_no_set() -> None:
    assert read_labels("I'm sorry, I can't label this.", ("comedy", "drama")) is None
    assert read_labels("I cannot label this as comedy or drama.", ("comedy", "drama")) is None


def test_of_a_set_and_of_numbers_what_is_declined_is_left_out() -> None:
    assert read_labels("This is a comedy. I cannot call it a drama.", ("comedy", "drama")) == ("comedy",)
    assert read_number("I can't determine how many of the 5 apples are red.") is None
    found = read_number("I cannot determine it exactly, but about 42")
    assert found is not None
    assert found.value == 42


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("Not enough information to tell whether it is true, making it neutral.",
         ("true", "false", "neutral"), "neutral"),
        ("I cannot answer this with the text given, making it unanswerable",
         ("answerable", "unanswerable"), "unanswerable"),
        ("Cannot determine the sender => ham", SPAM, "ham"),
        ("Not enough information to tell → ham", SPAM, "ham"),
        ('"I can\'t tell what I was charged for" is billing', QUEUES, "billing"),
        ('"I can\'t classify this as spam."', SPAM, None),
        ('I can\'t classify this as "spam" or "ham"', SPAM, None),
    ],
)  # fmt: skip
def test_what_is_concluded_from_a_refusal_is_read(
    text: str, labels: tuple[str, ...], label: str | None
) -> None:
    assert read_label(text, labels) == label


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I cannot give you the exact number, about 17", 17),
        ("I could not give a better answer than 42", 42),
    ],
)
def test_a_number_that_is_given_all_the_same_is_read(text: str, value: float | None) -> None:
    number = read_number(text)
    assert (number and number.value) == value
