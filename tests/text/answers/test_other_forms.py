"""Denials without "not", what is struck through, corrections, keys of truths: right and wrong sides."""

from __future__ import annotations

import pytest

from autoprompt.metrics.registry import get_metric
from autoprompt.records import Example, Prediction
from autoprompt.text.answers.labels import read_label

TOXIC = ("toxic", "non-toxic")
SPAM = ("spam", "ham")
IS_SPAM = ("spam", "not spam")
LETTERS = ("A", "B", "C", "D")
TONE = ("positive", "negative", "neutral")
ZH, JA, KO = ("正面", "负面"), ("ポジティブ", "ネガティブ"), ("긍정", "부정")


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        *((text, TOXIC, "non-toxic") for text in ("It has zero toxic words.", "It lacks toxic language.")),
        *(
            (text, TOXIC, "non-toxic")
            for text in ("devoid of toxic language", "anything but toxic", "0 toxic words")
        ),
        *(
            (text, TOXIC, "non-toxic")
            for text in ("It isn't remotely toxic.", "by no means toxic", "none of it is toxic")
        ),
        *(
            (text, TOXIC, "non-toxic")
            for text in ("keineswegs toxic", "aucun mot toxic", "libre de lenguaje toxic")
        ),
        *(
            (text, TOXIC, "non-toxic")
            for text in ("frei von toxic Inhalten", "无toxic内容", "Nobody would call this toxic.")
        ),
        *((text, TOXIC, "toxic") for text in ("It lacks respect and is toxic.", "zero doubt it is toxic")),
        *(
            (text, TOXIC, "toxic")
            for text in ("It couldn't be any more toxic", "nothing short of toxic", "No doubt: toxic")
        ),
        *(
            (text, TOXIC, "toxic")
            for text in ("It avoids profanity but is still toxic.", "not only rude but toxic")
        ),
        ("0 spam words found, so 0", ("0", "1"), "0"),
        ("I cannot detect any negative tone; positive.", TONE, "positive"),
        ("Not very positive", TONE, None),
        ("It is not clear if this is positive", TONE, None),
        ("pas du spam", IS_SPAM, "not spam"),
        ("geen spam", IS_SPAM, "not spam"),
        ("ce n'est pas du ham mais du spam", SPAM, "spam"),
        ("没有任何负面内容，正面", ZH, "正面"),
        ("毫无正面之处，负面", ZH, "负面"),
        ("毫无疑问是负面", ZH, "负面"),
        ("ネガティブな要素はなく、ポジティブです", JA, "ポジティブ"),
        ("ポジティブとは言えません", JA, None),
        ("부정적인 내용이 없으므로 긍정", KO, "긍정"),
        ("~~ham~~ spam", SPAM, "spam"),
        ("__spam__", SPAM, "spam"),
        ("A. No, B.", LETTERS, "B"),
        ("A… hmm, no. It's D.", LETTERS, "D"),
        ("A. Actually, C.", LETTERS, "C"),
        ("B. No, A is wrong.", LETTERS, "B"),
        ("ham, sorry, not spam", SPAM, "ham"),
        ('{"is_spam": true}', IS_SPAM, "spam"),
        ('{"is_spam": false}', IS_SPAM, "not spam"),
        ("is_spam: true", IS_SPAM, "spam"),
    ],
)
def test_a_label_is_read(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert read_label(text, labels) == label


@pytest.mark.parametrize(
    ("text", "target", "is_right"),
    [
        *(("42 out of 50", "42", True), ("42 out of 50", "50", False), ("42 of the 50 apples", "42", True)),
        *(
            ("42 von 50", "42", True),
            ("42 sur 50", "42", True),
            ("Out of 50 students, 42 passed", "42", True),
        ),
        *(
            ("4/5 stars", "4", True),
            ("8/10 points", "8", True),
            ("3/4 cup", "0.75", True),
            ("1/2 points", "0.5", True),
        ),
        *(
            ("20% of 50 is 10", "10", True),
            ("3 groups of 5 make 15", "15", True),
            ("7 instead of 8", "7", True),
        ),
        *(
            ("40 percent", "0.4", True),
            ("40 Prozent", "40%", True),
            ("0.4", "40 por ciento", True),
            ("40 percent", "4", False),
        ),
        *(
            ("百分之40", "0.4", True),
            ("40パーセント", "0.4", True),
            ("5 percentage points", "5", True),
            ("%40", "40%", True),
        ),
        *(("The total was 17 in 2024.", "17", True), ("17 as of May 12, 2024", "17", True)),
        *(("It was built in 1932", "1932", True), ("He was 30 when it ended in 1945", "1945", True)),
        *(('{"steps": 3, "answer": 7, "time": 12}', "7", True), ("7 apples, 2 of which are red", "7", True)),
        *(
            ("答えは7です。(3+4)", "7", True),
            ("La respuesta es 7 (3 + 4).", "7", True),
            ("7 ~~8~~", "7", True),
        ),
    ],
)
def test_a_number_is_compared(text: str, target: str, is_right: bool) -> None:
    score = get_metric("numeric").score(Prediction(text, text), Example("", "", target, {}))
    assert score.is_correct is is_right
