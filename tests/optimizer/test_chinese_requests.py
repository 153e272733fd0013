"""A Chinese prompt is analysed, described and rewritten in Chinese alone: no word of ours stays English."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from fakes import run_config, unit

from autoprompt import Models, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.memory import Experience, Lesson, tell
from autoprompt.memory.selection import select
from autoprompt.metrics.base import unread_score, unread_words
from autoprompt.optimizer.agents.analyst import AnalysisAgent
from autoprompt.optimizer.agents.rows import ShownRows
from autoprompt.optimizer.agents.writer import RewriteAgent
from autoprompt.records import Change, EvaluatedRow, Message, Step, Unread

LABELS = ("蕴含", "矛盾")
# What a model's answer is read by, whatever its language.
MARKS = re.compile(r"</?(?:prompt|current|original)>|^```|ADD:|REMOVE:", re.MULTILINE)


def english(text: str) -> list[str]:
    return re.findall(r"[^\n]*[A-Za-z]+[^\n]*", MARKS.sub("", text.replace("```", "")))


def student(messages: list[Message], options: Options) -> Completion:
    number = int(re.findall(r"第(\d+)项", messages[-1].content)[-1])
    if number % 9 == 0:
        return Completion("说不清楚")
    chance = 0.3 + 0.4 * ("规则" in messages[0].content) + 0.2 * (len(messages) > 2)
    return Completion(LABELS[(number % 2 + (unit("row", number) > chance)) % 2])


def author(messages: list[Message], options: Options) -> Completion:
    asked = messages[-1].content
    current = re.search(r"<current>\n(.*?)\n</current>", asked, re.DOTALL)
    if current is None:
        said = "蕴含: 编号为偶数的条目都属于这一类别\n矛盾: 编号为奇数而且没有别的说明的条目"
        return Completion(said if "格式如下" in asked else "提示词应当写明规则。")
    lines = ["请注意规则。", "仔细想一想。", "再读一遍。", "保持冷静。", "不要着急。"]
    extra = random.Random(options.seed).choice(lines)
    old = current[1] if "蕴含" in current[1] else f"{current[1]}答案是蕴含或矛盾。"
    return Completion(f"```\n{old.replace('仔细', '')}{extra}\n```")


@pytest.mark.parametrize(
    "prompt", ["判断这一项是蕴含还是矛盾。", "判断这一项。仔细看。\n条目：{条目}\n回答："]
)
def test_no_request_of_several_runs_holds_a_word_of_english(prompt: str, tmp_path: Path) -> None:
    """The second one is told what the first has learned."""
    dataset = tmp_path / "项.jsonl"
    lines = [{"条目": f"第{n}项", "答案": LABELS[n % 2]} for n in range(160)]
    dataset.write_text("\n".join(json.dumps(one) for one in lines), encoding="utf-8")
    sent: list[str] = []
    for seed in (1, 3):
        writer = ScriptedClient(author, name="writer")
        config = run_config(
            tmp_path, dataset=dataset, prompt=prompt, input_field="条目", target_field="答案", seed=seed,
            preset="standard", max_calls=800, no_reasoning=True,
        )  # fmt: skip
        optimize(config, models=Models(ScriptedClient(student, name="student"), writer))
        sent += [call[-1].content for call in writer.calls]
    told = "\n".join(sent)
    for part in ("- 应为 '", "）\n- 第", "无法读出答案", "无法读取", "以往有效的改动", "个示例", "增加："):
        assert part in told
    assert [english(text) for text in sent if english(text)] == []


def row(answer: str, **more: Any) -> EvaluatedRow:
    return EvaluatedRow("行", "第一项", answer, "蕴含", answer == "蕴含", 0.0, **more)


def test_steps_are_shown_in_chinese() -> None:
    trace = (
        Step("查找", ("查找",), "第一项", "圆"),
        Step("判断", ("判断",), "", "", "超时"),
        Step("整理", ("整理",)),
    )
    score = unread_score("none", "嗯", "蕴含, 矛盾")
    assert score.reason == "unparsed: '嗯' names none of the labels 蕴含, 矛盾"
    unread = row("", is_unparsed=True, reason=score.reason, unread=score.unread, output="嗯，难说")
    results = [row("矛盾", trace=trace), unread, row("蕴含", trace=trace)]
    client = ScriptedClient(["好", "好"])
    AnalysisAgent(client).analyze_steps("判断条目", {"查找": "找出标记。", "判断": "判断标记。"}, results)
    (request,) = client.calls[0]
    assert english(request.content) == []
    for line in (
        "- 应为 '蕴含'，却答 '矛盾'：1",
        "- 第一项 -> 回答：矛盾；正确：蕴含\n  [查找] 得到：第一项 -> 给出：圆\n",
        "\n  [判断] 得到：- -> 给出：失败：超时",
        "（无法读取：'嗯' 没有给出任何一个标签（蕴含, 矛盾））（它写道：…嗯，难说）",
        "[整理] 得到：- -> 给出：（无）",
    ):
        assert line in request.content
    shown = ShownRows(results[:2], results[2:], "查找")
    RewriteAgent(client).rewrite("判断标记。", "判断标记。", {}, 1, "", shown=shown)
    assert english(client.calls[1][0].content) == []
    for block in (
        "提示词答错的数据：\n\n输入：第一项\n它的回答：矛盾\n正确答案：蕴含\n步骤 查找：得到 第一项，给出 圆",
        "它的回答：嗯，难说 （无法读出答案）\n正确答案：蕴含\n评语：无法读取：'嗯' 没有给出任何一个标签",
        "答对、必须保持正确的数据：\n\n输入：第一项\n它的回答：蕴含\n步骤 查找",
    ):
        assert block in client.calls[1][0].content


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (Change(added="注意规则。"), "增加：注意规则。"),
        (Change(added="注意规则。", removed="请快。"), "增加：注意规则。 | 删除：请快。"),
        (Change(removed="请快。"), "删除：请快。"),
        (Change("查找.系统", added="注意: removed: 甲"), "查找.系统: 增加：注意: removed: 甲"),
        (Change(demos=16, how="balanced"), "16 个示例，各答案数量均衡"),
        (Change("查找", demos=4, how="errors"), "查找: 4 个示例，其中有它答错的数据"),
        (Change(demos=8, how="exchanged"), "8 个示例，换掉了其中四分之一"),
        (Change(demos=8, how="rebalanced"), "8 个示例，增加了给出过少的答案"),
        (Change(added="甲。", demos=8, how="balanced"), "增加：甲。；并有 8 个示例，各答案数量均衡"),
        (Change(cues=2), "写明了 2 个答案的典型用词"),
        (Change(cues=2, demos=8, how="balanced"), "写明了 2 个答案的典型用词；并有 8 个示例，各答案数量均衡"),
        (Change(reasons=True), "先推理再回答"),
        (Change(note="请写日期 by hand"), "请写日期 by hand"),
        (
            Change(added="甲" * 260, demos=8, how="balanced"),
            f"增加：{'甲' * 232}…；并有 8 个示例，各答案数量均衡",
        ),
    ],
)
def test_a_lesson_is_handed_on_in_the_prompts_language(change: Change, told: str) -> None:
    measured = Experience("判断", change, "better", before=0.5, after=0.625, rows=40)
    by_hand = Experience("判断", change, "worse", told_gain=-0.25)
    earlier = [select([entry], "判断", 2000) for entry in (measured, by_hand)]
    own = Lesson(change, "better", 1.0, 8, is_own=True)
    shown = "\n\n".join([*(tell(lessons, "zh") for lessons in earlier), tell([own], "zh")])
    assert shown.count(told) == 3
    for part in (
        "以往有效的改动：\n- ",
        "（+0.12，40 行）",
        "以往有害的改动（应避免）：\n- ",
        "（-0.25）\n\n[更好 +1.00，8 行] ",
    ):
        assert part in shown


def test_lessons_of_earlier_runs_come_before_the_runs_own() -> None:
    change = Change(added="Mind it.", demos=8, how="errors")
    lessons = [Lesson(change, "better", 0.25, 8, is_own=True), Lesson(change, "worse", -0.5)]
    assert tell(lessons) == (
        "What did harm (avoid):\n"
        "- added: Mind it.; and 8 demonstrations, among them rows that it got wrong (-0.50)\n"
        "[better +0.25 on 8 rows] added: Mind it.; and 8 demonstrations, among them rows that it got wrong"
    )
    assert [Lesson.from_dict(lesson.to_dict()) for lesson in lessons] == lessons


def test_a_metrics_own_words_stay() -> None:
    """A reason that is not ours has no form in another language."""
    client = ScriptedClient(["好"])
    AnalysisAgent(client).analyze("判断条目。", [row("嗯", is_unparsed=True, reason="the date is missing")])
    assert "the date is missing" in client.calls[0][0].content


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("empty", "无法读取：回答为空"),
        ("empty_or_no_label", "无法读取：回答为空或没有给出标签"),
        ("several", "无法读取：'嗯' 给出了不止一个标签（蕴含, 矛盾）"),
        ("no_labels", "无法读取：'嗯' 没有给出标签"),
        ("answer", "无法读取：'嗯' 中没有答案"),
        ("json", "无法读取：'嗯' 中没有 JSON"),
        ("number", "无法读取：'嗯' 中没有数字"),
    ],
)
def test_why_an_answer_could_not_be_read_has_words_in_chinese(kind: str, told: str) -> None:
    assert unread_words(Unread(kind, "'嗯'", "蕴含, 矛盾"), "zh") == told


def test_in_english_all_stays_as_it_was() -> None:
    client = ScriptedClient(["x", "```\ny\n```"])
    wrong = EvaluatedRow(
        "r", "item", "B", "A", False, 0.0, output="So B", trace=(Step("n", ("n",), "i", "o"),)
    )
    unread = EvaluatedRow(
        "s", "item", "?", "A", False, 0.0, reason="unparsed: '?' holds no answer", is_unparsed=True
    )
    AnalysisAgent(client).analyze("Say A or B.", [wrong, unread])
    (request,) = client.calls[0]
    for line in (
        "- expected 'A', answered 'B': 1\n- expected 'A', answered '(no readable answer)': 1",
        "- item -> answered: B; right: A (it wrote: …So B)\n"
        "- item -> answered: (no readable answer); right: A (unparsed: '?' holds no answer)\n",
    ):
        assert line in request.content
    known = "What helped before:\n- added: Mind it. (+0.20 on 40 rows)\n[worse -0.25 on 8 rows] no change"
    RewriteAgent(client).rewrite("Say A or B.", "Say A or B.", {}, 1, known)
    assert f"What was learned before on such tasks:\n{known}\n\n" in client.calls[1][0].content
