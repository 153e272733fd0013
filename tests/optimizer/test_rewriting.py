"""The writer: what it is asked, and how its answer is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.memory import words
from autoprompt.optimizer.agents.writer import (
    Proposal,
    RewriteAgent,
    read_patch,
    read_prompt,
    text_change,
)
from autoprompt.records import Change, Message
from autoprompt.text.templates import language_of

OLD = "Sort the items. Be brief."


def rewritten(answer: str, **named: Any) -> Proposal:
    agent = RewriteAgent(ScriptedClient([answer]))
    return agent.rewrite(OLD, OLD, {"suggestions": "say more"}, 1, "", **named)


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [
        ("```\nNew.\n```", "New."),
        ("Sure!\n```text\nNew.\n```\nDone.", "New."),
        ("```\nfirst\n```\nor\n```\nsecond\n```", "second"),
        ("```New.```", "New."),
        ("New, without a fence.", "New, without a fence."),
        ("```\nNew, cut short", "New, cut short"),
        ("<prompt>\nNew.\n</prompt>", "New."),
        ("```\n\n```", ""),
        ("", ""),
    ],
)
def test_the_last_fenced_block_else_the_whole_text(answer: str, prompt: str) -> None:
    assert read_prompt(answer) == prompt


@given(st.text())
def test_any_answer_can_be_read(answer: str) -> None:
    read_prompt(answer)
    read_patch(answer, OLD)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("ADD: Mind the rule.", "Sort the items. Be brief.\nMind the rule."),
        ("REMOVE: Be brief.", "Sort the items."),
        ("REMOVE: Be brief.\nADD: Be long.", "Sort the items.\nBe long."),
        ("- add: **Mind the rule.**", "Sort the items. Be brief.\n**Mind the rule.**"),
        ("ADD: Be brief.", None),  # it is there already
        ("REMOVE: Sort the items. Be brief.", None),  # nothing would be left
        ("REMOVE: Not in it.", None),
        ("no edit at all", None),
        ("REMOVE: Be brief", "Sort the items."),  # the final period is often lost
        ("REMOVE: brief", None),
        ("REMOVE: the items. Be brief.", None),
    ],
)
def test_edits_apply_where_they_can(answer: str, text: str | None) -> None:
    assert read_patch(answer, OLD) == text


@pytest.mark.parametrize(
    ("parent", "sentence", "text"),
    [
        ("This is it:", "is", None),
        ("One.  Two.   Three.", "Two.", "One.  Three."),  # blanks elsewhere stay as they are
        ("    code  here\nBe brief.\n\nEnd.", "Be brief.", "    code  here\n\nEnd."),
        ("One.\n\nTwo.\n\nThree.", "Two", "One.\n\nThree."),
        ("- One.\n- Two.\n- Three.", "Two.", "- One.\n- Three."),
        ("- One.\n- Two.\n- Three.", "- Two.", "- One.\n- Three."),
        ("1. One\n2. Two\n3. Three", "Two", "1. One\n3. Three"),
        ("Be brief. Sort.\nEnd. ", "Be brief.", "Sort.\nEnd. "),
        ("先判断。再回答。最后检查。", "再回答", "先判断。最后检查。"),
        ("先判断。再回答。", "回答。", None),
        ("Rules:\nOne.", "Rules:", "One."),
        ("One. Sort - now. End.", "Sort - now.", "One. End."),
    ],
)
def test_whole_sentences_alone_are_removed(parent: str, sentence: str, text: str | None) -> None:
    assert read_patch(f"REMOVE: {sentence}", parent) == text


@pytest.mark.parametrize(
    ("parent", "text"),
    [
        ("Sort.\n\nItem: {input}\nLabel:", "Sort.\nMind the rule.\n\nItem: {input}\nLabel:"),
        ("Item: {input}\nLabel: ", "Mind the rule.\nItem: {input}\nLabel: "),
        ("Sort {input} well.", "Mind the rule.\nSort {input} well."),
        ("Sort.\n\nWork it out. {input}", "Sort.\nMind the rule.\n\nWork it out. {input}"),
        ("Sort it.\n", "Sort it.\nMind the rule."),
    ],
)
def test_sentences_are_added_before_the_row(parent: str, text: str) -> None:
    """Behind its end, "Label:", a sentence would be what the model goes on with."""
    assert read_patch("ADD: Mind the rule.", parent, ["{input}", "Work it out."]) == text


@pytest.mark.parametrize("operator", ["patch", "rewrite"])
@pytest.mark.parametrize(("reason", "is_cut"), [("length", True), ("stop", False), ("", False)])
def test_a_cut_answer_is_told(operator: Any, reason: str, is_cut: bool) -> None:
    agent = RewriteAgent(ScriptedClient([Completion("ADD: Mind the", finish_reason=reason)]))
    assert agent.rewrite(OLD, OLD, {}, 1, "", operator=operator).is_cut is is_cut


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [
        ("<think>Short is good.\n```\nDraft.\n```</think>\nSort them well.", "Sort them well."),
        ("The tag was opened by the template.</think>\n```\nSort them well.\n```", "Sort them well."),
        ("<think>It never comes to an end", ""),
        ("Sort them. Write <think> before you think.", "Sort them. Write <think> before you think."),
    ],
)
def test_what_a_writer_thought_is_no_part_of_the_prompt(answer: str, prompt: str) -> None:
    assert rewritten(answer).text == prompt


def test_a_refusal_becomes_no_prompt() -> None:
    agent = RewriteAgent(ScriptedClient([Completion("I can't help with that.", finish_reason="refusal")]))
    assert agent.rewrite(OLD, OLD, {}, 1, "").text == ""


def test_an_answer_in_another_form_than_asked_is_a_full_rewrite() -> None:
    assert rewritten("```\nA whole new prompt.\n```", operator="patch").text == "A whole new prompt."


def test_edits_alone_are_edits_whatever_was_asked_for() -> None:
    assert rewritten("ADD: Mind the rule.").text == OLD + "\nMind the rule."
    assert rewritten("ADD: Be brief.").text == ""


def test_edits_that_change_nothing_are_no_prompt() -> None:
    """`REMOVE: ...` must never become the prompt itself."""
    assert rewritten("REMOVE: Not in it.\nADD: Be brief.", operator="patch").text == ""


def test_the_change_is_told_in_a_few_words() -> None:
    change = text_change(OLD, "Sort the items. Mind the rule.")
    assert change == Change(added="Mind the rule.", removed="Be brief.")
    assert words(change) == "added: Mind the rule. | removed: Be brief."
    assert text_change(OLD, OLD) == Change()
    assert len(words(text_change("", "word " * 200))) <= 240
    assert text_change("判断。", "判断。注意规则。") == Change(added="注意规则。")


def test_the_request_holds_what_is_known_and_nothing_empty() -> None:
    client = ScriptedClient(lambda messages: "```\nNew.\n```")
    agent = RewriteAgent(client)
    agent.rewrite(
        OLD,
        "Parent.",
        {"suggestions": "The rule is missing."},
        1,
        "Lessons of old.",
        keep=["{input}"],
    )
    (message,) = client.calls[0]
    for part in (OLD, "Parent.", "The rule is missing.", "Lessons of old.", "{input}"):
        assert part in message.content
    agent.rewrite(OLD, "Parent.", {}, 1, "")
    (message,) = client.calls[1]
    assert "learned before" not in message.content
    assert "\n\n\n" not in message.content


def test_requests_are_seeded_warm_and_of_the_optimizer() -> None:
    seen: list[Options] = []

    def answer(messages: list[Message], options: Options) -> str:
        seen.append(options)
        return "```\nNew.\n```"

    agent = RewriteAgent(ScriptedClient(answer))
    for seed in (1, 2):
        agent.rewrite(OLD, OLD, {}, 1, "", seed=seed)
    assert [o.seed for o in seen] == [1, 2]
    assert {(o.role, o.temperature > 0) for o in seen} == {("optimizer", True)}


def test_a_long_prompt_may_have_a_long_rewrite() -> None:
    seen: list[Options] = []

    def answer(messages: list[Message], options: Options) -> str:
        seen.append(options)
        return "```\nNew.\n```"

    long = "Mind this rule as well. " * 300
    RewriteAgent(ScriptedClient(answer)).rewrite(long, long, {}, 1, "")
    assert (seen[0].max_output_tokens or 0) > len(long) // 4


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Sort the items.", "en"),
        ("判断条目属于 A 还是 B。", "zh"),
        ("次の文章を分類してください。", "en"),
        ("分類カテゴリを判断。", "en"),
        ("다음 문장을 분류하세요.", "en"),
        ("漢字와 한글을 분류.", "en"),
        ("", "en"),
    ],
)
def test_the_chinese_templates_are_for_chinese_alone(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("original", "limit"),
    [
        (OLD, "at most 570 words"),
        ("word " * 1000, "at most 1500 words"),
        ("判断条目。", "不超过 800 字"),
        ("判断这个条目属于哪一类。" * 100, "不超过 1800 字"),
        ("次の文章を分類してください。" * 100, "at most 2100 characters"),
    ],
)
def test_a_rewrite_may_be_half_as_long_again(original: str, limit: str) -> None:
    client = ScriptedClient(["New."])
    RewriteAgent(client).rewrite(original, "A parent.", {}, 1, "")
    assert limit in client.calls[0][0].content


def test_the_original_is_shown_beside_another_parent_alone() -> None:
    client = ScriptedClient(["New."] * 2)
    for parent in (OLD, "Another parent."):
        RewriteAgent(client).rewrite(OLD, parent, {}, 1, "")
    assert [call[0].content.count(OLD) for call in client.calls] == [1, 1]
    assert [call[0].content.count("<original>") for call in client.calls] == [0, 1]


@pytest.mark.parametrize("operator", ["patch", "rewrite"])
def test_a_chinese_prompt_is_asked_for_in_chinese(operator: Any) -> None:
    client = ScriptedClient(lambda messages: "新的提示词。")
    RewriteAgent(client).rewrite(
        "判断条目。", "判断条目。", {}, 1, "经验", keep=["{input}"], operator=operator
    )
    text = client.calls[0][0].content
    assert "你负责" in text
    assert "必须原样保留" in text
    assert "You improve" not in text


def test_a_json_object_with_one_text_is_that_text() -> None:
    assert read_prompt('{"prompt": "Say 1 or 0."}') == "Say 1 or 0."
    assert read_prompt('```json\n{"prompt": "Say 1 or 0."}\n```') == "Say 1 or 0."
    assert read_prompt('{"a": "x", "b": "y"}') == '{"a": "x", "b": "y"}'


def test_brackets_without_an_end_are_a_text() -> None:
    """As a small model writes them that repeats itself; Python gives up on them with an error of its own."""
    endless = '{"prompt": ' + "[" * 100_000
    assert read_prompt(endless) == endless
