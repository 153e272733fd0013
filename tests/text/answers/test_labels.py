"""Reading answers: what is named, what is not, and never a guess."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from waiting import within

from autoprompt.text.answers.labels import read_answer, read_label
from autoprompt.text.answers.texts import normalize, visible
from autoprompt.text.answers.wrapping import read_json

CLICKBAIT = ("clickbait", "non_clickbait")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("clickbait", "clickbait"),
        ("Non-Clickbait.", "non_clickbait"),
        ("**Answer: non clickbait**", "non_clickbait"),
        ("NonClickbait", "non_clickbait"),
        ("This headline is not clickbait.", "non_clickbait"),
        ("It isn't a clickbait headline", "non_clickbait"),
        ("It is not really a typical clickbait headline", "non_clickbait"),
        ("This cannot be considered **clickbait**", "non_clickbait"),
        ("It is clickbait, not news.", "clickbait"),
        ("There is no doubt: clickbait", "clickbait"),
        ("`clickbait`", "clickbait"),
        ('```json\n{"label": "clickbait", "reason": "not non_clickbait"}\n```', "clickbait"),
        ('{"why": "it is no clickbait at all", "kind": "clickbait"}', "clickbait"),
        ('{"reason": "x", "answer": "non_clickbait"', "non_clickbait"),
        ("Answer: clickbait or non_clickbait?\nFinal answer: non_clickbait", "non_clickbait"),
        ("The answer is **clickbait** because it is not news", "clickbait"),
        ("It looks like clickbait at first.\nnon_clickbait", "non_clickbait"),
        ("clickbait\n\nA non_clickbait headline would name the fact.", "clickbait"),
        ("标签clickbait。", "clickbait"),
        ("<think>clickbait? no</think>\nnon_clickbait", "non_clickbait"),
        ("<think>it is clickbait, as", None),
        ("The answer is clickbait? No.\n</think>\n\nnon_clickbait", "non_clickbait"),
        ("clickbait, so</thinking>", None),
        (
            "<|channel|>analysis<|message|>clickbait? clickbait!<|end|>"
            "<|start|>assistant<|channel|>final<|message|>non_clickbait<|return|>",
            "non_clickbait",
        ),
        ("<|channel|>analysis<|message|>clickbait", None),
        ("clickbaity", None),
        ("I think it depends", None),
        ("", None),
        ("clickbait or non_clickbait? Well.\nThe answer is non_clickbait", "non_clickbait"),
        ("Answer: It looks like clickbait, so the answer is non_clickbait", "non_clickbait"),
        (
            "Label: clickbait - it teases\nLabel: non_clickbait - it tells\n\nThe label is clickbait",
            "clickbait",
        ),
        ("Answer:\nnon_clickbait\nIt lacks what is typical of clickbait.", "non_clickbait"),
        ("**Answer:**\n\n**non_clickbait**\n\nIt lacks what is typical of clickbait.", "non_clickbait"),
        ("Answer:\n```text\nnon_clickbait\n```\nIt is no clickbait.", "non_clickbait"),
        ("Result: 2 of 3 signs of clickbait.\nSo the label is non_clickbait", "non_clickbait"),
        ("Result: see the table.\nIt is clickbait", "clickbait"),
        ("Answer: unclear\n\nOthers would call it clickbait.", None),
        ("It might be clickbait. Label: unclear", None),
        ("Answer: see below\n\nclickbait", "clickbait"),
        ("It is clickbait. Answer:", "clickbait"),
    ],
)
def test_labels_of_words(text: str, label: str | None) -> None:
    assert read_label(text, CLICKBAIT) == label
    assert read_label(text, CLICKBAIT[::-1]) == label


@pytest.mark.parametrize(
    "text",
    [
        "Label: negative\n\nExplanation: the classification is based on the positive words, all negated.",
        "Label: negative. Explanation: the classification is based on the positive words, all negated.",
        "- **Final answer**: negative\n\nThe answer is positive only if irony is overlooked.",
        "Answer: It is negative.\nThe result is that positive words are rare.",
        "The answer is: negative\nThe conclusion is that positive words are rare.",
        "最终答案：negative\n解释：分类为positive的词很少",
        "Answer: positive?\nAnswer: negative",
        "Is the label positive? The label is negative",
    ],
)
def test_an_answer_line_counts_more_than_what_explains_it(text: str) -> None:
    assert read_label(text, ("positive", "negative")) == "negative"


@pytest.mark.parametrize("hyphen", [*"-\u2010\u2011\u2013\u2212", "\u2011 "])
def test_hyphens_and_minus_signs_are_read_however_a_model_writes_them(hyphen: str) -> None:
    """The usual models write U+2011 in compounds, and the minus sign before numbers."""
    for text in (f"non{hyphen}toxic", f"**Non{hyphen}toxic**", f"The comment is non{hyphen}toxic."):
        for other in ("non-toxic", "non_toxic", "non toxic", "nontoxic", "non\u2011toxic"):
            assert read_label(text, ("toxic", other)) == other
    if hyphen.strip() == hyphen:
        for text in (f"{hyphen}1", f"The score is {hyphen}1.", f"Score: {hyphen}1\nIt is angry."):
            assert read_label(text, ("-1", "0", "1")) == "-1"
        assert read_label(f"5{hyphen}10", ("1-5", "5-10")) == "5-10"


def test_a_dash_that_parts_clauses_is_no_hyphen() -> None:
    for text in ("toxic \u2013 non-fiction", "Answer \u2013 toxic", "toxic\u2014non that one"):
        assert read_label(text, ("toxic", "non-toxic")) == "toxic"
    assert read_label("Rating \u2013 5", ("1", "5")) == "5"
    assert read_label("Ich wei\u00df nicht \u2013 don\u2019t know", ("know", "don't know")) == "don't know"


def test_labels_that_are_marks_are_read_behind_a_marker() -> None:
    assert read_label("Answer: -\nIt loses + wins", ("+", "-")) == "-"
    assert read_label("Answer: **\nIt is fair", ("*", "**")) == "**"


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("It is neither good nor bad, so it is fair", ("good", "bad", "fair")),
        ("It is neither a good nor clearly a bad one: fair", ("good", "bad", "fair")),
        ("It is not good or bad but fair", ("good", "bad", "fair")),
        ("Rather than good, I would say bad", ("good", "bad")),
        ("There is no doubt: yes", ("no", "yes")),
        ("Der Text ist nicht gut, sondern schlecht", ("gut", "schlecht")),
        ("Das ist keine Beschwerde, eher eine Frage", ("Beschwerde", "Frage")),
        ("Weder gut noch schlecht, also neutral", ("gut", "schlecht", "neutral")),
        ("Ce n'est pas positif, c'est négatif", ("positif", "négatif")),
        ("Aucun spam : normal", ("spam", "normal")),
        ("No es positivo, es negativo", ("positivo", "negativo")),
        ("Não é positivo, é negativo", ("positivo", "negativo")),
        ("Non è positivo, è negativo", ("positivo", "negativo")),
        ("Ni bueno ni malo: neutro", ("bueno", "malo", "neutro")),
        ("Это не спам, а письмо", ("спам", "письмо")),
        ("التعليق ليس إيجابي بل سلبي", ("إيجابي", "سلبي")),
        ("سلبي وليس إيجابي", ("إيجابي", "سلبي")),
        ("ไม่ใช่สแปม แต่เป็นปกติ", ("สแปม", "ปกติ")),
        ("没有正面的内容，负面", ("正面", "负面")),
        ("不是正面或负面，而是中性", ("正面", "负面", "中性")),
        ("ポジティブではなく、ネガティブです", ("ポジティブ", "ネガティブ")),
        ("「ポジティブ」じゃない。ネガティブ", ("ポジティブ", "ネガティブ")),
        ("긍정이 아니라 부정입니다", ("긍정", "부정")),
        ("यह सही नहीं, ग़लत है", ("सही", "ग़लत")),
        ("Bu olumlu değil, olumsuz", ("olumlu", "olumsuz")),
    ],
)
def test_a_negated_label_is_not_named(text: str, labels: tuple[str, ...]) -> None:
    assert read_label(text, labels) == labels[-1]


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("It is good rather than bad", ("bad", "good"), "good"),
        ("No doubt about it.", ("no", "yes"), None),
        ("No, it is not.", ("no", "yes"), "no"),
        ("非常正面", ("正面", "负面"), "正面"),
        ("긍정 아니면 부정", ("긍정", "부정"), None),  # "or"
        ("긍정, 아니면 뭐겠어요", ("긍정", "부정"), "긍정"),
        ("Das ist kein Spam", ("Spam", "kein Spam"), "kein Spam"),
        ("Das ist kein typischer Spam", ("Spam", "kein Spam"), "kein Spam"),
        ("Это не является спам", ("спам", "не спам"), "не спам"),
        ("스팸이 아닙니다", ("스팸", "스팸 아님"), "스팸 아님"),
        ("ข้อความนี้ไม่ได้เป็นสแปม", ("สแปม", "ไม่ใช่สแปม"), "ไม่ใช่สแปม"),
        ("It is neither good nor bad", ("good", "bad"), None),
    ],
)
def test_what_negates_and_what_does_not(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert read_label(text, labels) == label


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        *[
            (text, ("yes", "no"))
            for text in ("yes or no", "Yes/No", "Yes, no", "Yes. No.", "yes and no", "Yes\nNo")
        ],
        ("I cannot decide between yes and no", ("yes", "no")),
        ("Answer: yes or no", ("yes", "no")),
        ("The answer is yes or no.", ("yes", "no")),
        ("Yes\nIt says so.\nNo", ("yes", "no")),
        ('["yes", "no"]', ("yes", "no")),
        ('{"first": "yes", "second": "no"}', ("yes", "no")),
        ("Answer: **Tech**, **Sales**", ("Tech", "Sales")),
        ("It may be a Tech or a Sales ticket", ("Tech", "Sales")),
        ("It could be Tech, Sales, or Billing.", ("Tech", "Sales", "Billing")),
        ("It has traits of Tech, Sales, and Billing.", ("Tech", "Sales", "Billing")),
        ("(A) or (B)", ("A", "B")),
        ("0 or 1", ("0", "1")),
        ("It is clickbait/non-clickbait", CLICKBAIT),
        ("Spam oder Ham", ("Spam", "Ham")),
        ("肯定还是否定", ("肯定", "否定")),
        ("肯定、否定", ("肯定", "否定")),
        ("「はい」か「いいえ」", ("はい", "いいえ")),
        ("긍정 또는 부정", ("긍정", "부정")),
    ],
)
def test_of_labels_that_stand_side_by_side_none_is_named(text: str, labels: tuple[str, ...]) -> None:
    assert read_label(text, labels) is None
    assert read_label(text, labels[::-1]) is None


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("It could be no or yes, but I would say yes", ("no", "yes")),
        ("Both Sales and Tech fit, but mainly Tech", ("Sales", "Tech")),
        ("Tech or Sales? Tech", ("Sales", "Tech")),
        ("Options A and B are wrong, so C", ("A", "B", "C")),
        ("Yes. No other reading fits", ("no", "yes")),
        ("Yes, no problem", ("no", "yes")),
        ("It is spam, and ham is not meant", ("ham", "spam")),
        ("yes, yes", ("no", "yes")),
        ('{"answer": "yes", "runner_up": "no"}', ("no", "yes")),
        ("肯定或否定？我认为否定", ("肯定", "否定")),
    ],
)
def test_what_is_said_besides_counts(text: str, labels: tuple[str, ...]) -> None:
    assert read_label(text, labels) == labels[-1]


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("Is it positive? Negative, I think.", ("positive", "negative"), "negative"),
        ("是否肯定？否定", ("肯定", "否定"), "否定"),
        ("这是标题党吗？非标题党。", ("标题党", "非标题党"), "非标题党"),
        # Nothing else is said.
        ("Is it positive? Yes", ("positive", "negative"), "positive"),
        ("positive, right?", ("positive", "negative"), "positive"),
        # Weighed alone.
        ("I cannot tell whether it is spam", ("spam", "ham"), None),
        ("To say whether the text is spam is hard, but I say spam", ("spam", "ham"), "spam"),
        ("无法判断是否肯定", ("肯定", "否定"), None),
        ("无法判断是否属实", ("是", "否"), None),
        ("是否", ("是", "否"), None),
        ("答案是否", ("是", "否"), "否"),
        ("结论：是", ("是", "否"), "是"),
        ("答案是否定的", ("肯定", "否定"), "否定"),
    ],
)
def test_what_is_asked_is_not_yet_said(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert read_label(text, labels) == label
    assert read_label(text, labels[::-1]) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("I have no idea", None),
        ("No idea.", None),
        ("There is no way to tell", None),
        ("There is no clear answer", None),
        ("No sé", None),
        ("No idea, but my guess is no", "no"),
        ("There is no sarcasm in it", "no"),
        ("No way.", "no"),
        ("I would say no because it is kind", "no"),
    ],
)
def test_a_no_that_answers_nothing(text: str, label: str | None) -> None:
    assert read_label(text, ("yes", "no")) == label


@pytest.mark.parametrize(
    "text",
    [
        "does not appear to be {}",
        "doesn\u2019t look like {}",
        "is not a clear case of {}",
        "is not indicative of {}",
        "does not qualify as {}",
        "does not contain any {}",
        "cannot be labeled as {}",
        "is not at all {}",
        "is not actually {}",
        "is hardly {}",
        "I do not think this text is {}",
        "I don't believe it's {}",
        "I wouldn't call it {}",
        "There is no evidence of {}",
        "There is no indication that this is {}",
        "\u4e0d\u80fd\u7b97\u662f{}",
        "\u6211\u4e0d\u8ba4\u4e3a\u8fd9\u662f{}",
    ],
)
def test_what_is_said_not_to_be_so_is_denied(text: str) -> None:
    assert read_label(text.format("spam"), ("spam", "ham")) is None
    assert read_label(f"{text.format('spam')}.", ("spam", "not_spam")) == "not_spam"
    assert read_label(f"{text.format('spam')}, so ham", ("spam", "ham")) == "ham"


@pytest.mark.parametrize(
    "text",
    [
        "not just {}",
        "not only {}",
        "nothing but {}",
        "I have no doubt that this is {}",
        "It is not clear, but likely {}",
        "It does not name a person. It is {}",
        "I cannot say for sure, but it is {}",
        "It does not look like ham, so it is {}",
        "I could not be more sure that it is {}",
        "\u5dee\u4e0d\u591a\u662f{}",
        "\u4e0d\u8fc7\u662f{}",
    ],
)
def test_a_no_that_is_of_something_else_denies_nothing(text: str) -> None:
    assert read_label(text.format("spam"), ("spam", "ham")) == "spam"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("1", "1"),
        ("１", "1"),
        ("1.", "1"),
        ("1)", "1"),
        ("答案：1", "1"),
        ("输出: 0。", "0"),
        ("Label 1", "1"),
        ("label:0", "0"),
        ('{"label": 1}', "1"),
        ("1 为标题党", "1"),
        ("分类结果为1", "1"),
        ("我认为是1", "1"),
        ("文中有1个数字", None),
        ("0\n\n解释：1 为标题党", "0"),
        ("10", None),
        ("0.1", None),
        ("-1", None),
        ("100%", None),
        ("24 Guys", None),
        ("It has 10 words, so 1", "1"),
    ],
)
def test_labels_of_digits(text: str, label: str | None) -> None:
    assert read_label(text, ("0", "1")) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("4/5", "4"),
        ("Rating: 4/5 stars.", "4"),
        ("I give it **5/5**.", "5"),
        ("4.0/5", "4"),
        ("4/10", None),
        ("4/5/2020", None),
        ("on 12/5", None),
        ("4/5.5", None),
        ("4/50", None),
    ],
)
def test_a_grade_is_read_beside_the_largest_one(text: str, label: str | None) -> None:
    assert read_label(text, ("1", "2", "3", "4", "5")) == label
    assert read_label("0/1", ("0", "1")) is None


def test_a_plus_is_read_where_labels_have_signs() -> None:
    for text in ("+1", "The score is +1.", "**+1**"):
        assert read_label(text, ("-1", "0", "1")) == "1"
        assert read_label(text, ("0", "1")) is None
    assert read_label("2+1 signs", ("-1", "0", "1")) is None


@pytest.mark.parametrize("labels", [("(A)", "(B)", "(C)"), ("A", "B", "C")])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A", 0),
        ("(A)", 0),
        ("b", 1),
        ("(b)", 1),
        ("C.", 2),
        ("Option A", 0),
        ("Answer: (B)", 1),
        ("The answer is B because A is wrong", 1),
        ("A headline of note, so B", 1),
        ("The statement (A) is sarcastic", 0),
        (r"\boxed{C}", 2),
        ("A statement that is a joke", None),
        ("I don't know", None),
    ],
)
def test_labels_of_one_letter(text: str, labels: tuple[str, ...], place: int | None) -> None:
    assert read_label(text, labels) == (None if place is None else labels[place])


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("这是标题党", "标题党"),
        ("类别：非标题党", "非标题党"),
        ("这条新闻不是标题党。", "非标题党"),
        ("“标题党”", "标题党"),
        ("不知道", None),
    ],
)
def test_labels_of_scripts_without_spaces(text: str, label: str | None) -> None:
    assert read_label(text, ("标题党", "非标题党")) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("उत्तर: सही", "सही"),
        ("यह सहीं नहीं", None),  # another word: the mark belongs to it
        ("ग़लत है", "ग़लत"),
        ("यह ग़लती है", None),
    ],
)
def test_labels_of_scripts_with_marks(text: str, label: str | None) -> None:
    assert read_label(text, ("सही", "ग़लत")) == label


def test_labels_of_thai() -> None:
    assert read_label("ข้อความนี้เป็นสแปมแน่นอน", ("สแปม", "ปกติ")) == "สแปม"


def test_signed_labels_and_labels_that_differ_in_case_only() -> None:
    assert [read_label(t, ("-1", "0", "1")) for t in ("-1", "sentiment: -1", "1", "so 1")] == [
        "-1",
        "-1",
        "1",
        "1",
    ]
    assert [read_label(t, ("us", "US")) for t in ("US", "us", "Us")] == ["US", "us", "us"]
    assert read_label("spam is not what this is: ham", ("spam", "ham")) == "ham"
    assert read_label("not spam", ("spam", "ham")) is None


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("1", ("1.0", "2.0"), "1.0"),
        ("Answer: 2.", ("1.0", "2.0"), "2.0"),
        ("I would give it 2 stars", ("1.0", "2.0"), "2.0"),
        ('{"stars": 2}', ("1.0", "2.0"), "2.0"),
        ("1.0", ("1", "2"), "1"),
        ("I say 2.00, all in all", ("1", "2"), "2"),
        ("1.5", ("1.0", "2.0"), None),
        ("10", ("1.0", "2.0"), None),
        ("1", ("1.0", "1.5"), "1.0"),
        ("-1", ("-1.0", "0.0", "1.0"), "-1.0"),
        ("1", ("1", "1.0"), "1"),
        ("1.0", ("1", "1.0"), "1.0"),
        ("1", ("1.0", "none"), None),
        ("1", ("01", "02"), None),
    ],
)
def test_whole_numbers_are_labels_however_they_are_written(
    text: str, labels: tuple[str, ...], label: str | None
) -> None:
    assert read_label(text, labels) == label


NAMES = st.text(st.characters(categories=["Ll", "Lu"], max_codepoint=0x17F), min_size=2, max_size=8)
FORMS = [
    "{}",
    " {}. ",
    '"{}"',
    "**{}**",
    "```\n{}\n```",
    "Answer: {}",
    "答案：{}",
    "The label is {}, I am sure.",
    '{{"label": "{}"}}',
]


@given(st.lists(NAMES, min_size=1, max_size=4, unique_by=normalize), st.data())
def test_a_label_is_read_however_it_is_dressed(labels: list[str], data: st.DataObject) -> None:
    plain = {"the", "label", "is", "am", "sure", "answer", "json", "not", "no", "non", "never", "category"}
    assume(not plain & {normalize(label) for label in labels})
    label = data.draw(st.sampled_from(labels))
    form = data.draw(st.sampled_from(FORMS))
    assert read_label(form.format(label), labels) == label


@given(st.text(), st.lists(st.text(min_size=1), max_size=5))
def test_what_is_read_is_a_label_or_nothing(text: str, labels: list[str]) -> None:
    assert read_label(text, labels) in {None, *labels}


@given(st.text())
def test_readers_take_any_text(text: str) -> None:
    read_json(text)
    assert normalize(normalize(text)) == normalize(text)
    assert read_answer(text) in {None, visible(text)}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>no</think> yes", "yes"),
        ("no</think>\nyes", "yes"),
        ("no</think> no </THINKING> yes", "yes"),
        ("<think>no <think>no</think> no</think> yes", "yes"),
        ("no</think> yes <think>no", "yes"),
        ("no</think>", ""),
        ("I think> yes", "I think> yes"),
    ],
)
def test_what_a_model_thought_is_no_answer(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_thought_that_the_prompt_opened_is_read_by_no_reader() -> None:
    thought = 'Sydney 5 {"a": 1} [2]</think>'
    assert read_answer(f"{thought} Canberra") == "Canberra"
    assert read_json(f"{thought} Canberra") is None


def test_long_answers_are_read_in_time() -> None:
    for text in (
        "{" * 40_000,
        "[" * 40_000,
        '["a", ' * 8_000,
        "[" * 20_000 + '"' + "a" * 20_000,
        "not " * 20_000,
        "answer: " * 8_000,
        "answer: is " * 8_000,
        "answer" + " " * 40_000,
        "answer is clickbait " * 4_000,
        "not clickbait or " * 4_000,
        "clickbait or " * 4_000,
        "clickbait, non_clickbait " * 4_000,
        "whether clickbait " * 4_000,
        "clickbait " * 4_000 + "?",
        "<think>" * 20_000,
        "</think>" * 20_000,
    ):
        with within(4):
            read_label(text, CLICKBAIT)
            read_json(text)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), min_size=1, max_size=3))
def test_json_is_found_in_fences_and_in_text(value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assume("```" not in text)
    assert read_json(text) == value
    assert read_json(f"Sure:\n```json\n{text}\n```\nDone.") == value
    assert read_json(f"It is {text} so.") == value


def test_the_last_json_inside_a_text_counts() -> None:
    assert read_json('from {"a": 1} to {"a": {"b": 2}}') == {"a": {"b": 2}}
    assert read_json("nothing {here}") is None
    assert read_json('{"a": 1} (see [1])') == {"a": 1}
    assert read_json('{"a": 1} (see [1])', dict) == {"a": 1}
    assert read_json("[1]", dict) == [1]
    assert read_json("a {set} " * 500 + '{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (" Yes. ", "yes"),
        ("“Yes”", "yes"),
        ("ＹＥＳ", "yes"),
        ("a\n b", "a b"),
        ("(A)", "a"),
        ("**x**", "x"),
        ("it\u2019s re\u2011used", "it's re-used"),
        ("शिकायत।", "शिकायत"),
        ("شكوى؟", "شكوى"),
        ("شکایت۔", "شکایت"),
        ("ቅሬታ።", "ቅሬታ"),
        ("បណ្តឹង។", "បណ្តឹង"),
    ],
)
def test_normalized_texts_are_equal(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(("one", "other"), [(".5", "5"), ("-5", "5"), ("?", "!"), ("c++", "c")])
def test_normalized_texts_are_not(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)
