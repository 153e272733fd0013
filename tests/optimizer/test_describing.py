"""The describer, and what its lines become in a prompt."""

from __future__ import annotations

import pytest

from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion
from autoprompt.optimizer.agents.describer import DescribingAgent, read_descriptions, read_rule
from autoprompt.optimizer.propose.additions import with_lines
from autoprompt.optimizer.search.phrases import as_lines
from autoprompt.records import Example

LABELS = ("spam", "ham")
ROWS = [Example("1", "Win cash now", "spam", {}), Example("2", "See you at noon", "ham", {})]


def test_rows_are_shown_by_their_answers() -> None:
    client = ScriptedClient(["spam: offers of money or prizes\nham: messages between friends"])
    lines = DescribingAgent(client).describe("Is this spam or ham?", ROWS, LABELS)
    assert lines == ["spam: offers of money or prizes", "ham: messages between friends"]
    request = client.calls[0][-1].content
    assert "spam:\n- Win cash now" in request
    assert "Is this spam or ham?" in request


BROKEN = ("refund\nnow", "exchange")  # labels, one with a line break


def test_a_label_with_a_line_break_is_described_in_one_line() -> None:
    client = ScriptedClient(["refund now: wants the money back\nexchange: wants another size"])
    rows = [Example("1", "Give me my money", BROKEN[0], {}), Example("2", "It is too small", BROKEN[1], {})]
    lines = DescribingAgent(client).describe("Classify.", rows, BROKEN)
    assert lines == ["refund now: wants the money back", "exchange: wants another size"]
    request = client.calls[0][-1].content
    assert "refund now:\n- Give me my money" in request
    assert "refund now: …\nexchange: …" in request


def test_a_label_with_a_line_break_leaves_nothing_of_an_earlier_telling() -> None:
    heading, labels = "Words that are typical of each answer:", set(BROKEN)
    told = "Classify."
    for words in ["money", "back"], ["cash"]:
        lines = [heading, *as_lines({BROKEN[0]: words, BROKEN[1]: ["size"]})]
        told = with_lines(told, lines, (), labels)
    assert told == f"Classify.\n{heading}\nrefund now: cash\nexchange: size"


def test_without_labels_a_rule_is_asked_for() -> None:
    client = ScriptedClient(["Pick the animal that weighs\nmore."])
    rows = [Example("1", "dog, cow", "cow", {})]
    assert DescribingAgent(client).describe("Pick one.", rows) == ["Pick the animal that weighs more."]
    assert "- dog, cow -> cow" in client.calls[0][-1].content


def test_what_a_describer_thought_is_no_rule() -> None:
    client = ScriptedClient(["<think>Cows weigh more than dogs do.</think>Pick the animal that weighs more."])
    rows = [Example("1", "dog, cow", "cow", {})]
    assert DescribingAgent(client).describe("Pick one.", rows) == ["Pick the animal that weighs more."]


def test_a_refusal_becomes_no_rule() -> None:
    client = ScriptedClient([Completion("I can't help with that at all.", finish_reason="refusal")])
    assert DescribingAgent(client).describe("Pick one.", [Example("1", "dog, cow", "cow", {})]) == []


def test_a_chinese_prompt_is_described_in_chinese() -> None:
    client = ScriptedClient(["spam：推销和中奖的信息\nham：朋友之间的日常对话"])
    lines = DescribingAgent(client).describe("判断这条短信是不是垃圾短信。", ROWS, LABELS)
    assert "你负责" in client.calls[0][-1].content
    assert lines == ["spam: 推销和中奖的信息", "ham: 朋友之间的日常对话"]


@pytest.mark.parametrize(
    "answer",
    [
        "- **spam**: offers of money or prizes\n- **ham**: messages between friends",
        "1. Spam: offers of money or prizes\n2. Ham: messages between friends\n\nThat is all.",
        "Here you are:\n`spam`: offers of money or prizes\n`ham`: messages between friends",
    ],
)
def test_lists_and_marks_are_read(answer: str) -> None:
    wanted = ["spam: offers of money or prizes", "ham: messages between friends"]
    assert read_descriptions(answer, LABELS) == wanted


@pytest.mark.parametrize("mark", ["", "- ", "1. ", "1) ", "1、", "* **"])
@pytest.mark.parametrize(
    "labels", [("1", "2", "3"), ("1 star", "5 stars"), ("0", "1"), ("-1", "+1"), ("1.5", "5"), ("-", "*")]
)
def test_labels_of_digits_and_signs_are_no_list_marks(mark: str, labels: tuple[str, ...]) -> None:
    wanted = [f"{label}: rows that are about {n * 'so '}good" for n, label in enumerate(labels)]
    assert read_descriptions("\n".join(mark + line for line in wanted), labels) == wanted


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot say.",
        "spam: offers of money or prizes",
        "spam: these rows are all the same\nham: these rows are all the same",
        "spam: All rows are spam.\nham: All rows are ham.",
        "spam: the opposite of ham messages\nham: The opposite of spam messages",
        "spam: - ham - spam - ham\nham: ham, spam or ham; ham",
        "spam: " + "x" * 400 + "\nham: messages between friends",
        "spam: rows 1, 2, 3\nham: rows 5, 6, 7, 8 and 9",
        "spam: Examples 1-4 and 9.\nham: Rows #5, #6; #7 & 8",
        "spam: Includes rows 1, 2, 3\nham: Includes rows 4, 5 or 6",
        "spam：第1、2、3行\nham：第4至第9行，第11行",
        "spam：第一行、第二行和第五行\nham：第3条数据和第4条数据",
        "spam：示例1、2、3、4\nham：行5、6、7、8、9",
        "spam：所有广告\nham：所有其他",
    ],
)
def test_what_tells_nothing_apart_is_no_description(answer: str) -> None:
    assert read_descriptions(answer, LABELS) == []


def test_numbers_that_are_no_places_of_rows_describe() -> None:
    lines = ["low: items 1 to 5 only, up to line 10", "high: 10 items and more, or 2 rows of chairs"]
    assert read_descriptions("\n".join(lines), ("low", "high")) == lines


def test_a_sign_may_tell_descriptions_apart() -> None:
    lines = ["low: all numbers < 0", "high: all numbers > 0"]
    assert read_descriptions("\n".join(lines), ("low", "high")) == lines


def test_a_chinese_label_said_again_is_no_description() -> None:
    assert read_descriptions("垃圾短信：它是垃圾短信\n正常短信：属于正常短信", ("垃圾短信", "正常短信")) == []


def test_a_label_in_another_one_is_not_mistaken_for_it() -> None:
    answer = "non_clickbait: reports of what has happened\nclickbait: promises and riddles for the reader"
    assert read_descriptions(answer, ("clickbait", "non_clickbait")) == [
        "clickbait: promises and riddles for the reader",
        "non_clickbait: reports of what has happened",
    ]


def test_a_rule_is_one_line_of_some_length() -> None:
    assert read_rule('"Answer with the larger one."') == ["Answer with the larger one."]
    assert read_rule("yes") == []
    assert read_rule("x" * 5000) == []


def test_lines_stand_before_the_first_placeholder() -> None:
    lines = ["Typical words:", "a: one", "b: two"]
    assert with_lines("Sort it.", lines, (), "ab") == "Sort it.\nTypical words:\na: one\nb: two"
    text = with_lines("Sort it.\n\nText: {input}\nAnswer:", lines, ("input",), "ab")
    assert text == "Sort it.\n\nTypical words:\na: one\nb: two\nText: {input}\nAnswer:"


def test_a_second_telling_takes_the_place_of_the_first() -> None:
    first = with_lines("Sort it.\nBe brief.", ["Typical words:", "a: one", "b: two"], (), "ab")
    again = with_lines(first, ["Typical words:", "a: three", "b: four"], (), "ab")
    assert again == "Sort it.\nBe brief.\nTypical words:\na: three\nb: four"
    other = with_lines(first, ["Which answer is right when:", "a: short rows", "b: long rows"], (), "ab")
    assert "a: one" in other
    assert "a: short rows" in other


@pytest.mark.parametrize(
    "behind",
    [
        "Text: {input}\nLabel:",
        "b: {input}\nLabel:",  # a placeholder under a label's own name
        "If in doubt: answer a, since losing one is worse.",
        "a: only where nothing else fits.",  # each label stands once in a telling
        "注意： 不要猜。",
    ],
)
def test_a_second_telling_leaves_what_stands_behind_the_first(behind: str) -> None:
    asked = ("input",) if "{input}" in behind else ()
    text = "Sort it.\nTypical words:\na: one\nb: two\n" + behind
    again = with_lines(text, ["Typical words:", "b: four"], asked, "ab")
    assert sorted(again.splitlines()) == sorted(
        ["Sort it.", "Typical words:", "b: four", *behind.splitlines()]
    )


def test_a_telling_of_chinese_answers_is_replaced_as_well() -> None:
    lines, labels = ["各答案的典型用词：", "好: 喜欢", "不好: 退货"], ("好", "不好")
    first = with_lines("判断情感。\n评论：{input}", lines, ("input",), labels)
    again = with_lines(first, ["各答案的典型用词：", "好: 不错"], ("input",), labels)
    assert again == "判断情感。\n各答案的典型用词：\n好: 不错\n评论：{input}"


def test_a_label_that_begins_another_one_takes_its_own_line() -> None:
    text = "Sort it.\nTypical words:\na: one\na: b: two\na: stay"
    assert with_lines(text, ["Typical words:", "a: x"], (), ("a", "a: b")) == (
        "Sort it.\na: stay\nTypical words:\na: x"
    )
