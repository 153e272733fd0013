import random
from dataclasses import replace

import pytest

from autoprompt.memory import SAME_KIND, Experience, task_similarity, tell
from autoprompt.memory.experience import addition, read_change
from autoprompt.memory.selection import helpful_additions, select
from autoprompt.text.scripts import estimate_tokens

TASK = "Decide whether a news headline is clickbait. Answer 1 or 0."
HELPED = Experience(
    TASK, read_change("Say one digit only"), "better", before=0.5, after=0.62, rows=40, run_id="run-77"
)
HARMED = Experience(
    TASK, read_change("Ask for reasons"), "worse", before=0.5, after=0.4, rows=40, date="2026-01-02"
)
NEUTRAL = Experience(TASK, read_change("Rename the labels"), "no_difference", before=0.5, after=0.5, rows=40)
OTHER = Experience(
    "Solve the grade school math problem", read_change("Ask for a sum"), "better", rows=400, priority=5.0
)
ADVICE = Experience("", read_change("Keep it short"), "better")


def told(experiences: list[Experience], task: str, max_tokens: int) -> str:
    return tell(select(experiences, task, max_tokens))


def test_helpful_first_then_harmful_and_nothing_of_other_tasks() -> None:
    text = told([HARMED, OTHER, NEUTRAL, HELPED], "Clickbait detection in headlines of a news site", 1500)
    assert text == (
        "What helped before:\n- Say one digit only (+0.12 on 40 rows)\n\n"
        "What did harm (avoid):\n- Ask for reasons (-0.10 on 40 rows)"
    )


def test_unrelated_memory_is_no_text() -> None:
    assert told([HELPED, HARMED, NEUTRAL], "Translate recipes into French", 1500) == ""
    assert told([], TASK, 1500) == ""


def test_a_task_that_shares_a_word_or_two_is_still_another_task() -> None:
    near = replace(HELPED, task="Correct the grammar of the sentence.")
    other = "Name the language of the sentence with its ISO code."
    assert 0.2 < task_similarity(near.task, other) < SAME_KIND
    assert told([near], other, 1500) == ""


def test_advice_without_a_task_is_for_every_task() -> None:
    assert (
        told([ADVICE, HELPED], "Translate recipes into French", 1500)
        == "What helped before:\n- Keep it short"
    )


def test_chinese_tasks_are_told_apart() -> None:
    zh = replace(
        HELPED, task="判断新闻标题是否为标题党，是输出1，否输出0", change=read_change("给出悬念句式的示例")
    )
    assert "悬念句式" in told([zh, HELPED], "下面的标题是标题党吗？只回答0或1", 1500)
    assert told([zh, HELPED], "商品评论情感分类", 1500) == ""


def test_ids_runs_and_dates_never_enter() -> None:
    text = told([HELPED, HARMED], TASK, 1500)
    assert not any(word in text for word in ("run-77", "2026", HELPED.id, HARMED.id))


def test_the_order_of_the_file_does_not_matter() -> None:
    entries = [
        replace(HELPED, change=read_change(f"Change {n}"), rows=n % 7, priority=1 + n % 3) for n in range(30)
    ]
    texts = set()
    for seed in range(5):
        random.Random(seed).shuffle(entries)
        texts.add(told(entries, TASK, 200))
    assert len(texts) == 1


def test_the_text_keeps_to_its_tokens_and_drops_the_least() -> None:
    entries = [
        replace(HELPED, change=read_change(f"Change {n} " + "标题 word " * 12), after=0.5 + n / 200)
        for n in range(1, 99)
    ]
    for limit in (0, 50, 400, 1500):
        assert estimate_tokens(told(entries, TASK, limit)) <= limit
    text = told(entries, TASK, 400)
    assert "Change 98 " in text
    assert "Change 1 " not in text


def test_a_text_is_shown_once_with_what_counts_most() -> None:
    again = [replace(HELPED, before=0.25, after=0.3 + n / 20) for n in range(5)]
    harm = replace(HARMED, change=HELPED.change, before=0.5, after=0.25)
    for entries in ([*again, harm], [harm, *again]):
        shown = told(entries, TASK, 1500)
        assert shown == "What did harm (avoid):\n- Say one digit only (-0.25 on 40 rows)"


def test_solid_gains_outrank_lucky_ones() -> None:
    lucky = replace(HELPED, change=read_change("Lucky"), after=0.8, rows=3)
    solid = replace(HELPED, change=read_change("Solid"), after=0.7, rows=60)
    assert told([lucky, solid], TASK, 1500).splitlines()[1].startswith("- Solid")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("added: Mind the rule.", "Mind the rule."),
        ("added: Mind rule (+1) and (-1).", "Mind rule (+1) and (-1)."),
        ("added: 标题说了一半……", "标题说了一半……"),
        ("added: What did harm is 1.", "What did harm is 1."),
        ("added: Mind the rule. | removed: Be brief.", None),
        ("removed: Be brief.", None),
        ("added: " + "word " * 60 + "…", None),  # it was cut
        ("added:", None),
        ("16 demonstrations, balanced over the answers", None),
        ("added: A: odd. B: even.; and 16 demonstrations, balanced over the answers", None),
        ("added: " + "word " * 46 + "…; and 1 demonstrations, balanced over the answers", None),
        ("added: Mind the rules; and the demonstrations.", "Mind the rules; and the demonstrations."),
        ("", None),
    ],
)
def test_a_change_that_only_added_can_be_used_again(change: str, sentence: str | None) -> None:
    assert addition(read_change(change)) == sentence


def test_a_sentence_that_an_entry_had_to_cut_is_not_used_again() -> None:
    entry = replace(HELPED, change=read_change("added: " + "long words " * 60))
    assert helpful_additions([entry], TASK, 1500) == []


def test_helpful_additions_are_of_the_task_and_the_best_come_first() -> None:
    little = replace(HELPED, change=read_change("added: Little."), after=0.55)
    much = replace(HELPED, change=read_change("added: Much (+1)."), after=0.75)
    entries = [
        little,
        HELPED,
        much,
        replace(HARMED, change=read_change("added: Harm.")),
        replace(NEUTRAL, change=read_change("added: Nothing.")),
        replace(OTHER, change=read_change("added: Other.")),
        replace(ADVICE, change=read_change("added: Advice.")),
    ]
    assert helpful_additions(entries, TASK, 1500) == ["Much (+1).", "Advice.", "Little."]
    assert helpful_additions(entries, TASK, 4) == ["Much (+1)."]
