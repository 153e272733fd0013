"""Conversations as they are sent: the requests' turns, and what is refused or warned of before them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import load
from langchain_core.messages import AIMessage, HumanMessage

import autoprompt
from autoprompt import CheckConfig, Models, RunConfig, check, evaluate, optimize
from autoprompt.errors import DatasetError, InputError, PromptError
from autoprompt.evaluation.exported import Exported, export, export_run
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.measure.program import demo_turn, render, render_text
from autoprompt.records import Candidate, Demo, Message, ToolCall
from autoprompt.runs import RunStore

beta = pytest.mark.filterwarnings("ignore:The function `load` is in beta")
CALL = ToolCall("c1", "find", "{}")
TOOLS = (Message("assistant", "", (CALL,)), Message("tool", "found", tool_call_id="c1"))


def turns(number: int, *, system: str = "") -> list[dict[str, Any]]:
    """A conversation about two numbers, the last of which counts."""
    first = [{"role": "system", "content": system}] if system else []
    return [
        *first,
        {"role": "user", "content": f"First it was {number + 1}."},
        {"role": "assistant", "content": f"Case {number}, and now?"},
        {"role": "user", "content": f"Now it is number {number}."},
    ]


def target(number: int) -> str:
    return "odd" if number % 2 else "even"


ROWS = [{"messages": turns(n), "firm": f"F{n % 3}", "target": target(n)} for n in range(90)]


def config(folder: Path, **settings: Any) -> RunConfig:
    known: dict[str, Any] = {"prompt": "Odd or even?", "input_field": "messages", "runs_dir": folder / "runs"}
    return RunConfig(**(known | {"no_cache": True, "no_memory": True} | settings))


def sent(folder: Path, rows: Any, **settings: Any) -> list[list[tuple[str, str]]]:
    """Role and content of each message of each request, sorted."""
    client = ScriptedClient(["odd"] * len(rows))
    evaluate(config(folder, labels=("odd", "even"), **settings), rows=rows, models=Models(client))
    return sorted([(m.role, m.content) for m in messages] for messages in client.calls)


def test_a_row_is_sent_turn_by_turn_behind_the_prompt(tmp_path: Path) -> None:
    assert sent(tmp_path, ROWS[:1]) == [[
        ("system", "Odd or even?"), ("user", "First it was 1."), ("assistant", "Case 0, and now?"),
        ("user", "Now it is number 0."),
    ]]  # fmt: skip


def test_placeholders_are_filled_in_from_the_other_columns(tmp_path: Path) -> None:
    (asked,) = sent(tmp_path, ROWS[:1], prompt="Odd or even?\nYou work for {firm}. {target} {other}")
    assert asked[0] == ("system", "Odd or even?\nYou work for F0. {target} {other}")
    assert [role for role, _ in asked] == ["system", "user", "assistant", "user"]


def test_several_placeholders_leave_the_conversation_the_input(tmp_path: Path) -> None:
    rows = [{"input": turns(n), "firm": f"F{n}", "tier": n, "target": target(n)} for n in range(2)]
    first, second = sent(tmp_path, rows, input_field="input", prompt="{firm} {tier}: odd or even?")
    assert (first[0], second[0]) == (("system", "F0 0: odd or even?"), ("system", "F1 1: odd or even?"))
    assert len(first) == len(second) == 4


def test_the_conversation_in_braces_is_filled_in_as_a_text(tmp_path: Path) -> None:
    assert sent(tmp_path, ROWS[:1], prompt="Odd or even?\n{messages}") == [[
        ("system", "Odd or even?"),
        ("user", "User: First it was 1.\nAssistant: Case 0, and now?\nUser: Now it is number 0."),
    ]]  # fmt: skip


@pytest.mark.parametrize("prompt", ["Odd or even?", None])
def test_the_prompt_takes_the_place_of_a_system_turn(tmp_path: Path, prompt: str | None) -> None:
    rows = [{"messages": turns(n, system="Say odd or even."), "target": target(n)} for n in range(2)]
    asked = sent(tmp_path, rows, prompt=prompt)
    assert {messages[0] for messages in asked} == {("system", prompt or "Say odd or even.")}
    assert {len(messages) for messages in asked} == {4}
    client = Models(ScriptedClient(["odd"] * 2))
    report = evaluate(config(tmp_path, prompt=prompt), rows=rows, models=client)
    codes = [warning.code for warning in report.warnings]
    assert ("dataset.system-turn" in codes) == (prompt is not None)


def test_system_turns_that_differ_fill_in_a_placeholder(tmp_path: Path) -> None:
    rows = [{"messages": turns(n, system=f"Case {n}."), "target": target(n)} for n in range(2)]
    asked = sent(tmp_path, rows, prompt="Odd or even?\n{system}")
    assert [messages[0][1] for messages in asked] == ["Odd or even?\nCase 0.", "Odd or even?\nCase 1."]
    report = evaluate(config(tmp_path), rows=rows, models=Models(ScriptedClient(["odd"] * 2)))
    assert "dataset.system-turns" in [warning.code for warning in report.warnings]
    with pytest.raises(PromptError, match="no prompt to start from"):
        evaluate(config(tmp_path, prompt=None), rows=rows, models=Models(ScriptedClient([])))


def test_system_turns_further_down_stay(tmp_path: Path) -> None:
    rows = [
        {"messages": [*turns(0), {"role": "developer", "content": "Be brief."}, *turns(1)], "target": "odd"}
    ]
    (asked,) = sent(tmp_path, rows)
    assert [role for role, _ in asked] == [
        "system",
        "user",
        "assistant",
        "user",
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_tool_turns_are_kept(tmp_path: Path) -> None:
    calls = [message.to_dict() for message in TOOLS]
    rows = [{"messages": [*turns(n), *calls], "target": target(n)} for n in range(2)]
    client = ScriptedClient(["odd"] * 2)
    evaluate(config(tmp_path), rows=rows, models=Models(client))
    assert tuple(client.calls[0][-2:]) == TOOLS


def test_messages_of_langchain_are_rows_in_python(tmp_path: Path) -> None:
    rows = [
        {"messages": [HumanMessage("1?"), AIMessage("What?"), HumanMessage(f"{n}?")], "target": target(n)}
        for n in (1, 2)
    ]
    asked = sent(tmp_path, rows)
    assert [messages[1:] for messages in asked] == [
        [("user", "1?"), ("assistant", "What?"), ("user", f"{n}?")] for n in (1, 2)
    ]


ANSWER = {"role": "assistant", "content": "odd"}


@pytest.mark.parametrize(
    ("value", "code", "settings"),
    [
        ([*turns(0), ANSWER], "dataset.two-answers", {}),
        ([*turns(0), TOOLS[0].to_dict()], "dataset.ends-with-tool-call", {}),
        ({"a": 1}, "dataset.not-a-conversation", {"input_field": "<FIELD>"}),
        ({"chat": turns(0)}, "dataset.not-a-conversation", {"input_field": "<FIELD>"}),
        (["a", "b"], "dataset.not-a-conversation", {"input_field": "<FIELD>"}),
        ([], "dataset.not-a-conversation", {"input_field": "<FIELD>"}),
        ([{"role": "bot", "content": "x"}], "dataset.broken-conversation", {}),
        ("a text", "dataset.mixed-inputs", {}),
        (json.dumps([*turns(0), ANSWER]), "dataset.two-answers", {}),
        (str([*turns(0), ANSWER]), "dataset.two-answers", {}),
    ],
)
def test_inputs_that_cannot_be_sent_are_refused(
    tmp_path: Path, value: Any, code: str, settings: dict[str, object]
) -> None:
    rows: list[dict[str, Any]] = [dict(row) for row in ROWS[:20]]
    rows[3]["messages"] = value
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked, models = config(tmp_path, max_calls=900), Models(ScriptedClient([]))
    limits = CheckConfig(baseline=tmp_path / "base.json")
    for ask in (
        lambda: evaluate(asked, rows=rows, models=models),
        lambda: optimize(asked, rows=rows, models=models),
        lambda: autoprompt.estimate(asked, rows=rows, models=models),
        lambda: check(asked.model_copy(update={"dataset": path}), limits, is_update=True, models=models),
    ):
        with pytest.raises(DatasetError) as refused:
            ask()
        (problem,) = refused.value.problems
        assert (problem.code, problem.settings) == (code, settings)
        assert (problem.place.row, problem.place.line) in ((3, None), (None, 4))


def test_an_object_names_where_the_conversation_is(tmp_path: Path) -> None:
    rows = [{"messages": {"log": {"turns": turns(n)}}, "target": target(n)} for n in range(4)]
    with pytest.raises(
        DatasetError, match=r"an object with a conversation at log\.turns\. Make messages\.log\.turns a"
    ):
        evaluate(config(tmp_path), rows=rows, models=Models(ScriptedClient([])))
    rows = [{"messages": {"a": n}, "chat": turns(n), "target": target(n)} for n in range(4)]
    with pytest.raises(
        DatasetError, match=r"Name a field .* as input_field=.chat.\. Or add {messages} to the prompt"
    ):
        evaluate(config(tmp_path), rows=rows, models=Models(ScriptedClient([])))


def test_a_list_that_the_prompt_asks_for_is_filled_in_as_json(tmp_path: Path) -> None:
    rows = [{"messages": ["a", {"n": n}], "target": target(n)} for n in range(2)]
    assert sent(tmp_path, rows, prompt="{messages}?") == [[("user", f'["a",{{"n":{n}}}]?')] for n in range(2)]
    broken = [{"messages": [{"role": "bot", "content": f"x{n}"}], "target": target(n)} for n in range(2)]
    with pytest.raises(DatasetError, match="unknown role 'bot'"):
        sent(tmp_path, broken, prompt="{messages}?")


def test_a_conversation_with_its_answer_can_be_asked_about_as_a_text(tmp_path: Path) -> None:
    rows = [{"messages": [*turns(n), ANSWER], "target": target(n)} for n in range(2)]
    first, _ = sent(tmp_path, rows, prompt="Was it right? {messages}")
    assert first[-1][1].endswith("User: Now it is number 0.\nAssistant: odd")


def test_a_table_of_conversations_gives_no_answer_away(tmp_path: Path) -> None:
    path = tmp_path / "chats.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["messages", "target"])
        writer.writerows(
            [str([*turns(n), {"role": "assistant", "content": target(n)}]), target(n)] for n in range(40)
        )
    client = ScriptedClient(["odd"] * 40)
    with pytest.raises(DatasetError, match=r"chats\.csv line 2: .*ends with an assistant turn"):
        evaluate(config(tmp_path, dataset=path), models=Models(client))
    assert not client.calls
    whole = config(tmp_path, dataset=path, prompt="Was it right? {messages}")
    evaluate(whole, models=Models(client))
    assert len(client.calls) == 40


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"messages": json.dumps(turns(1))}, "dataset.conversation-as-text"),
        ({"messages": str(turns(1))}, "dataset.conversation-as-text"),
        ({"messages": str([{"role": "bot", "content": "x"}])}, "dataset.conversation-as-text"),
        ({"messages": "text", "chat": turns(1)}, "dataset.unsent-conversations"),
    ],
)
def test_conversations_that_are_not_sent_as_turns_are_warned_of(
    tmp_path: Path, row: dict[str, Any], code: str
) -> None:
    rows = [
        {**row, "messages": f"{row['messages']} ", "target": "odd"},
        {"messages": "other", "target": "even"},
    ]
    report = evaluate(config(tmp_path), rows=rows, models=Models(ScriptedClient(["odd"] * 2)))
    assert code in [warning.code for warning in report.warnings]


def student(messages: list[Message], options: Options) -> Completion:
    """Knows the parity of small numbers, and of all once it is shown whole conversations."""
    if options.role == "optimizer":
        return Completion("Look at the last number.")
    number = int(messages[-1].content.removesuffix(".").split()[-1])
    shown = [m for m in messages[:-1] if m.role == "assistant" and m.content in ("odd", "even")]
    return Completion(target(number) if number % 3 == 0 or len(shown) > 3 else "even")


@beta
def test_whole_conversations_are_found_as_demonstrations(tmp_path: Path) -> None:
    """From the turn that all begin with to a winner, its export and a resumed run."""
    rows = [
        {"messages": [*turns(n, system="Odd or even?"), {"role": "assistant", "content": target(n)}]}
        for n in range(150)
    ]
    client = ScriptedClient(student)
    settings = config(tmp_path, prompt=None, max_calls=700, labels=("odd", "even"))
    result = optimize(settings, rows=rows, models=Models(client))
    assert result.verdict == "confirmed"
    assert result.original.prompt == "Odd or even?"
    assert all(
        len(demo.turns) == 3 and demo.output == target(int(demo.input[:-1].split()[-1]))
        for demo in result.best.demos
    )
    shown = max(client.calls, key=len)
    assert "".join(m.role[0] for m in shown) == "s" + "uaua" * (len(shown) // 4 - 1) + "uau"
    folder = RunStore(tmp_path / "runs").open(result.run_id)
    (tmp_path / "runs" / result.run_id / "result.json").unlink()
    assert (
        autoprompt.resume(result.run_id, runs_dir=tmp_path / "runs", models=Models(client)).best
        == result.best
    )
    path = tmp_path / "prompt.yaml"
    path.write_text(export_run(folder, "yaml"), encoding="utf-8")
    exported = Exported.load(path)
    assert exported.is_conversation
    assert exported.candidate.id == result.best.id
    sent_again = exported.messages({"messages": turns(7)})
    assert sent_again[-3:] == turns(7)
    assert len(sent_again) == 1 + 4 * len(result.best.demos) + 3
    loaded: Any = load(json.loads(export_run(folder, "langchain")), allowed_objects="core")
    by_langchain = loaded.invoke(
        {"messages": [HumanMessage("a"), AIMessage("b"), HumanMessage("c")]}
    ).to_messages()
    assert [m.content for m in by_langchain[-3:]] == ["a", "b", "c"]
    assert [m.content for m in by_langchain[:-3]] == [m["content"] for m in sent_again[:-3]]
    assert json.loads(export_run(folder, "openai"))[-1] == {"role": "user", "content": "{messages}"}


DEMO = Demo("b?", "c", turns=(Message("user", "a?"), *TOOLS, Message("user", "b?")))


def test_a_demonstration_is_read_as_it_was_written() -> None:
    assert Demo.from_dict(json.loads(json.dumps(DEMO.to_dict()))) == DEMO
    candidate = Candidate({"prompt": "Sort."}, (DEMO, Demo("x", "y")))
    again = Candidate.from_dict(json.loads(json.dumps(candidate.to_dict())))
    assert (again, again.id) == (candidate, candidate.id)
    assert candidate.id != Candidate({"prompt": "Sort."}, (Demo("b?", "c"), Demo("x", "y"))).id
    assert "User: a?\nAssistant: find({})\nTool: found\nUser: b?\nAssistant: c" in render_text(
        "Sort.", (DEMO,)
    )
    assert demo_turn("Sort.", DEMO) == "User: a?\nAssistant: find({})\nTool: found\nUser: b?"
    assert demo_turn("Sort {input}", DEMO) == f"Sort {demo_turn('Sort.', DEMO)}"


@beta
def test_an_export_takes_conversations_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "prompt.yaml"
    candidate = Candidate({"prompt": "For {firm}: sort."}, (DEMO,))
    text = export(candidate, "yaml", input_field="chat", fields=("chat", "firm"), is_conversation=True)
    path.write_text(text, encoding="utf-8")
    found = Exported.load(path)
    expected = [{"role": "system", "content": "For F: sort."}, *(m.to_dict() for m in DEMO.turns)]
    expected.append({"role": "assistant", "content": "c"})
    system = {"role": "system", "content": "Another."}
    assert found.messages({"firm": "F", "chat": [system, *turns(1)]}) == [*expected, *turns(1)]
    assert found.messages({"firm": "F", "chat": "Hi"}) == [*expected, {"role": "user", "content": "Hi"}]
    for chat, said in (
        ([*turns(1), ANSWER], "ends with an assistant turn"),
        ({"a": 1}, "not a conversation: it is an object"),
        ([{"role": "bot", "content": "x"}], "unknown role 'bot'"),
    ):
        with pytest.raises(InputError, match=f"'chat' of the row .*{said}"):
            found.messages({"firm": "F", "chat": chat})
    loaded: Any = load(
        json.loads(
            export(candidate, "langchain", input_field="chat", fields=("chat", "firm"), is_conversation=True)
        ),
        allowed_objects="core",
    )
    messages = loaded.invoke({"firm": "F", "chat": [HumanMessage("Hi")]}).to_messages()
    assert [message.type for message in messages] == ["system", "human", "ai", "tool", "human", "ai", "human"]
    assert messages[2].tool_calls[0]["name"] == "find"


def test_an_exported_system_placeholder_takes_the_rows_own(tmp_path: Path) -> None:
    path = tmp_path / "prompt.yaml"
    made = export(
        Candidate({"prompt": "Sort. {system}"}), "yaml", fields=("input", "system"), is_conversation=True
    )
    path.write_text(made, encoding="utf-8")
    (system, *_) = Exported.load(path).messages(turns(1, system="Be kind."))
    assert system == {"role": "system", "content": "Sort. Be kind."}


def test_a_text_after_conversations_is_a_turn_of_its_own() -> None:
    from autoprompt.records import Example

    row = Example("r1", "Hi", "t", {"input": "Hi"})
    assert render("Sort.", (DEMO,), row)[-1] == Message("user", "Hi")
    assert len(render("Sort.", (DEMO,), row)) == 7
