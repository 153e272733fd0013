"""Conversations in rows, in the forms that people have them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from autoprompt.dataset.checks import load_rows
from autoprompt.dataset.conversations import (
    NoConversationError,
    as_conversation,
    looks_like_turns,
    read_conversation,
    turns_in_text,
)
from autoprompt.dataset.splits import load_checked
from autoprompt.dataset.twins import group_twins
from autoprompt.errors import DatasetError
from autoprompt.records import Example, Message, ToolCall, transcript
from autoprompt.settings.records import DataSettings

CALL = ToolCall("c1", "find", '{"id":7}')
TURNS = (
    Message("system", "Be kind."),
    Message("user", "Hi"),
    Message("assistant", "", (CALL,)),
    Message("tool", "found", tool_call_id="c1"),
    Message("assistant", "Here it is. 标"),
    Message("user", "Thanks,\nand?"),
)
_OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id":7}'}}
OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None, "tool_calls": [_OPENAI_CALL]},
    {"role": "tool", "content": "found", "tool_call_id": "c1"},
    {"role": "assistant", "content": "Here it is. 标"},
    {"role": "user", "content": "Thanks,\nand?"},
]
PARTS = [
    {**turn, "content": [{"type": "text", "text": turn["content"]}]} if turn["content"] else turn
    for turn in OPENAI
]
# Parquet and pandas give every turn the keys of all.
NULLS = [
    {"role": None, "content": None, "tool_calls": None, "tool_call_id": None, "name": None} | turn
    for turn in OPENAI
]
SHAREGPT = [
    {"from": "system", "value": "Be kind."},
    {"from": "human", "value": "Hi"},
    {"from": "function_call", "value": '{"name": "find", "arguments": {"id": 7}}'},
    {"from": "observation", "value": "found"},
    {"from": "gpt", "value": "Here it is. 标"},
    {"from": "human", "value": "Thanks,\nand?"},
]
_MESSAGES = [
    SystemMessage("Be kind."),
    HumanMessage("Hi"),
    AIMessage("", tool_calls=[{"name": "find", "args": {"id": 7}, "id": "c1"}]),
    ToolMessage("found", tool_call_id="c1"),
    AIMessageChunk(
        content=[{"type": "text", "text": "Here it is. 标"}, {"type": "thinking", "thinking": "x"}]
    ),
    ChatMessage("Thanks,\nand?", role="user"),
]
FORMS: dict[str, Any] = {
    "OpenAI": OPENAI,
    "parts": PARTS,
    "nulls": NULLS,
    "developer": [{**OPENAI[0], "role": "developer"}, *OPENAI[1:]],
    "ShareGPT": SHAREGPT,
    "messages_to_dict": messages_to_dict(_MESSAGES),
    "model_dump": [message.model_dump() for message in _MESSAGES],
    "dumpd": [dumpd(message) for message in _MESSAGES],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_turns(form: str) -> None:
    found = read_conversation(FORMS[form])
    turns = TURNS
    if form == "ShareGPT":  # its calls have no ids
        call = ToolCall("call_1", "find", '{"id":7}')
        turns = (
            *TURNS[:2],
            Message("assistant", "", (call,)),
            Message("tool", "found", tool_call_id="call_1"),
            *TURNS[4:],
        )
    assert found.all_turns == turns
    assert (found.system, found.turns) == ("Be kind.", turns[1:])


REFUSAL = {"type": "refusal", "refusal": "no"}


@pytest.mark.parametrize(
    ("turns", "texts"),
    [
        ([{"role": "user", "content": "x"}], ["x"]),
        ([{"role": "user", "content": ["a", {"type": "input_text", "text": "b"}]}], ["a\nb"]),
        ([{"from": "user", "value": "x"}, {"from": "chatgpt", "value": ""}], ["x", ""]),
        ([{"type": "human", "content": "x"}, {"type": "ai", "content": ["a", "b"]}], ["x", "a\nb"]),
        (
            [{"role": "user", "content": "x"}, {"role": "assistant", "content": [REFUSAL]}],
            ["x", "no"],
        ),
        ([{"role": "user", "content": "x", "name": "ann", "weight": 1}], ["x"]),
        ([{"from": "human", "value": "x"}, {"from": "tool", "value": "of no call"}], ["x", "of no call"]),
        ([{"from": "human", "value": "x"}, {"from": "function_call", "value": "no JSON"}], ["x", "no JSON"]),
    ],
)  # fmt: skip
def test_contents_become_text(turns: list[dict[str, Any]], texts: list[str]) -> None:
    assert [turn.content for turn in read_conversation(turns).all_turns] == texts


def test_calls_of_functions_as_openai_had_them_first() -> None:
    turns = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": "{}"}},
        {"role": "function", "name": "find", "content": "found"},
    ]
    _, call, answer = read_conversation(turns).turns
    assert call.tool_calls == (ToolCall("call_1", "find", "{}"),)
    assert answer == Message("tool", "found", tool_call_id="call_1")


USER = {"role": "user", "content": "x"}
ANSWER = {"role": "assistant", "content": " It is 7. "}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "the list is empty"),
        ({"a": 1}, "it is an object"),
        ({"chat": {"messages": [USER]}}, r"it is an object with a conversation at chat\.messages"),
        (["a", "b"], "^element 1 is a text"),
        ([[USER]], "^element 1 is a list"),
        ([USER, None], "^element 2 is null"),
        ([{"a": 1}], r"^element 1 has no role and content \(its keys: 'a'\)"),
        ([{"type": "text", "text": "x"}], "^element 1 has no role"),
        ([USER, {"role": "bot", "content": "x"}], r"turn 2 has the unknown role 'bot' \(known: system, dev"),
        ([{"role": ["user"], "content": "x"}], r"turn 1 has the unknown role \['user'\]"),
        ([{"from": "narrator", "value": "x"}], "turn 1 has the unknown role 'narrator'"),
        ([{"type": "remove", "content": "x"}], r"role 'remove' \(known: system, human, ai, tool, function\)"),
        ([USER, {"from": "gpt", "value": "x"}], "ShareGPT does, but the turns before it as OpenAI does"),
        ([{"role": "system", "content": "x"}, ANSWER], "the user has no turn in it"),
        ([USER, {"role": "user", "content": " \n"}], "the last turn of the user is empty"),
        ([{"role": "user"}], "turn 1 has no content"),
        ([{"role": "user", "content": 3}], "turn 1 has a number as content, expected a text"),
        ([{"role": "user", "content": {"text": "x"}}], "turn 1 has an object as content"),
        ([{"from": "human", "value": None}], "turn 1 has no content"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            "turn 1 has a part of type 'image_url', but only text can be sent",
        ),
        ([USER, {"role": "tool", "content": "x", "tool_call_id": "c9"}], "turn 2 answers the tool call 'c9'"),
        ([{**USER, "tool_calls": [_OPENAI_CALL]}], "turn 1 calls a tool, but its role is user"),
        ([USER, {"role": "assistant", "tool_calls": [{"id": "c"}]}], "turn 2 calls a tool without a name"),
        ([USER, {"role": "assistant", "tool_calls": ["c"]}], "turn 2 calls a tool without a name"),
        ([{"role": "user", "content": "a\0"}], "turn 1 holds a NUL character"),
        ("text", "it is not a list of turns"),
    ],
)  # fmt: skip
def test_what_is_no_conversation_is_told(value: Any, message: str) -> None:
    with pytest.raises(NoConversationError, match=message):
        read_conversation(value)
    assert as_conversation(value) is None


names = st.sampled_from(
    ["role", "content", "from", "value", "type", "data", "kwargs", "id", "tool_calls", "function", "name",
     "function_call", "tool_call_id", "arguments", "additional_kwargs", "text", "messages", "lc"]
)  # fmt: skip
words = st.sampled_from(
    ["user", "assistant", "system",
     "tool", "human", "gpt", "ai", "chat", "function_call", "text", "", "x", "[]",
     '{"name": "f"}', "HumanMessage", "c1"]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | words,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(names, part, max_size=4),
    max_leaves=24,
)


@settings(max_examples=400, deadline=None)
@given(value=values | st.lists(st.dictionaries(names, values, max_size=5), max_size=4))
def test_any_json_is_a_conversation_or_is_told_not_to_be(value: Any) -> None:
    looks_like_turns(value)
    try:
        found = read_conversation(value)
    except NoConversationError:
        return
    assert any(turn.role == "user" for turn in found.turns)
    json.dumps([turn.to_dict() for turn in found.all_turns])
    assert all(isinstance(turn.content, str) for turn in found.all_turns)


def test_broken_turns_look_like_turns_and_other_lists_do_not() -> None:
    assert looks_like_turns([USER, {"role": "bot"}])
    assert looks_like_turns([{"from": "x", "value": 1}])
    assert not any(map(looks_like_turns, ([], ["a"], [{"a": 1}], {"role": "user"}, "x", [{"type": "text"}])))


@pytest.mark.parametrize(
    "chat", [OPENAI, [USER, {"role": "assistant", "content": "Don't say \"no\"}\n {'."}]]
)
def test_turns_are_found_in_the_text_that_a_table_has_of_them(chat: list[Any]) -> None:
    shown = [json.dumps(chat), json.dumps(chat, indent=1, ensure_ascii=False), f" {chat!r}\n"]
    shown.append(f"[{chr(10).join(f' {turn!r}' for turn in chat)}]")  # as NumPy shows an array of objects
    for text in shown:
        assert turns_in_text(text) == chat


@pytest.mark.parametrize(
    "text",
    ["[1]", "[", "hello", json.dumps({"messages": OPENAI}), 3, "[{'a': 1}]", "[{}]", "[{'role': open('x')}]",
     "[{" * 100_000, "[" * 5_000 + "{", "[{'role': 'user', 'content': 'cut off", "[INST] {'role': 'user'}",
     "[{'role': 'user', 'content': '" + "x" * 2_000_000 + "'}]"],
    ids=lambda text: str(text)[:30],
)  # fmt: skip
def test_other_texts_hold_no_turns(text: object) -> None:
    assert turns_in_text(text) is None


def write(folder: Path, rows: list[Any], name: str = "d.jsonl") -> Path:
    path = folder / name
    text = json.dumps(rows) if name.endswith(".json") else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["d.jsonl", "d.json"])
def test_a_row_has_its_turns_its_question_and_the_system_turn_as_a_field(tmp_path: Path, name: str) -> None:
    (row,) = load_rows(write(tmp_path, [{"chat": OPENAI, "target": "t"}], name), input_field="chat")
    assert row.turns == TURNS[1:]
    assert (row.input, row.fields["chat"]) == (OPENAI, OPENAI)
    assert (row.input_text, row.target, row.fields["system"]) == ("Thanks,\nand?", "t", "Be kind.")
    assert row.full_text == (
        'User: Hi\nAssistant: find({"id":7})\nTool: found\nAssistant: Here it is. 标\nUser: Thanks,\nand?'
    )
    assert transcript(()) == ""


def test_equal_turns_are_one_row_in_every_form(tmp_path: Path) -> None:
    forms = [form for name, form in FORMS.items() if name != "ShareGPT"]
    path = write(tmp_path, [{"input": form, "target": "t"} for form in forms])
    rows = load_rows(path)
    assert len({row.id for row in rows}) == 1
    found, _, warnings = load_checked(path, DataSettings(dataset=path, labels=("t", "u")))
    assert len(found) == 1
    assert warnings[0].code == "dataset.duplicates"
    assert warnings[0].said.startswith(f"{len(forms) - 1} duplicate rows")
    (other,) = load_rows(write(tmp_path, [{"input": OPENAI[1:], "target": "t"}]))
    assert other.id != rows[0].id


@pytest.mark.parametrize("target", [{}, {"target": None}])
def test_without_a_target_the_last_turn_is_the_target(tmp_path: Path, target: dict[str, Any]) -> None:
    rows = [{"input": [*OPENAI, ANSWER], **target}, {"input": OPENAI, "target": "8"}]
    first, second = load_rows(write(tmp_path, rows))
    assert (first.target, first.fields["target"], first.turns) == ("It is 7.", "It is 7.", TURNS[1:])
    assert first.input == OPENAI  # the answer is nowhere left in it
    assert (second.target, second.turns, second.content) == ("8", first.turns, first.content)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (OPENAI, r"line 1: no field 'target', and 'input' is not a .* with the answer at its end: it ends"),
        (OPENAI, r"the fields are 'input', 'label'\. Name the field of the right answers as target_"),
        ([*OPENAI[:3]], "ends with a tool call"),
        ([*OPENAI[:4]], "ends with a turn of the tool"),
        ([ANSWER], "the conversation 'input' cannot be sent: the user has no turn in it"),
        ([USER, {"role": "bot", "content": "x"}], "turn 2 has the unknown role 'bot'"),
        ({"a": 1}, "answer at its end: it is an object"),
        ([], "answer at its end: the list is empty"),
    ],
)  # fmt: skip
def test_without_a_target_the_last_turn_must_be_one(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load_rows(write(tmp_path, [{"input": value, "label": "x"}]))


def test_an_empty_last_turn_is_an_empty_target(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="line 1: the target 'target' is empty"):
        load_rows(write(tmp_path, [{"input": [USER, {"role": "assistant", "content": " "}]}]))


def test_a_column_of_conversations_is_named_where_the_input_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as refused:
        load_rows(write(tmp_path, [{"messages": [*OPENAI, ANSWER]}] * 2))
    (problem,) = refused.value.problems
    assert (problem.code, problem.settings) == ("dataset.conversation-field", {"input_field": "messages"})


def test_a_conversation_is_the_input_whatever_other_fields_the_prompt_asks_for(tmp_path: Path) -> None:
    path = write(tmp_path, [{"input": OPENAI, "target": "t", "firm": "A", "tier": 2}])
    (row,) = load_rows(path, input_of=("firm", "tier"))
    assert row.turns == TURNS[1:]


def test_a_column_called_system_is_left_as_it_is(tmp_path: Path) -> None:
    (row,) = load_rows(write(tmp_path, [{"input": OPENAI, "target": "t", "system": "Mine."}]))
    assert row.fields["system"] == "Mine."


def test_parquet_has_conversations_too(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "d.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([{"input": NULLS, "target": "t"}]), path)
    (row,) = load_rows(path)
    assert row.turns == TURNS[1:]


def chat(number: int, *texts: str) -> Example:
    turns = tuple(Message("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(texts))
    return Example(f"r{number}", [], "t", {}, turns=turns, content=f"{number}")


def test_a_conversation_that_goes_on_where_another_ends_stays_with_it() -> None:
    words = [3 * chr(97 + n) for n in range(13)]
    long = [f"{word} {n}" for n, word in enumerate(words)]
    exploded = [chat(n, *long[: 2 * n + 1]) for n in range(6)]
    others = [chat(10 + n, f"other {n} {word}s") for n, word in enumerate(words)]
    rows, _ = group_twins([*exploded, *others])
    groups = [row.group for row in rows]
    assert len(set(groups[:6])) == 1
    assert groups[0] is not None
    assert set(groups[6:]) == {None}


def test_a_greeting_that_many_conversations_begin_with_holds_none_together() -> None:
    words = [f"word{n}" for n in range(40)]
    rows, _ = group_twins(
        [chat(0, "Hi"), *(chat(n + 1, "Hi", "Hello!", word) for n, word in enumerate(words))]
    )
    assert {row.group for row in rows} == {None}


@pytest.mark.parametrize(
    "chat",
    [
        [{"role": "User", "content": "hi"}, {"role": "ASSISTANT", "content": "yo"}],
        [{"role": "Human", "content": "hi"}, {"role": "AI", "content": "yo"}],
        [{"from": "human", "content": "hi"}, {"from": "GPT", "content": "yo"}],
        [["human", "hi"], ["ai", "yo"]],
        [("user", "hi"), ("assistant", "yo")],
        [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": ["yo"]}],
    ],
)
def test_turns_in_other_spellings_are_read(chat: list[Any]) -> None:
    assert looks_like_turns(chat)
    found = read_conversation(chat).all_turns
    assert [(turn.role, turn.content) for turn in found] == [("user", "hi"), ("assistant", "yo")]


@pytest.mark.parametrize(
    "part", [{"type": "image_url", "image_url": {"url": "x"}}, {"inline_data": {"data": "x"}}]
)
def test_a_picture_is_refused_with_advice_that_fits(tmp_path: Path, part: dict[str, Any]) -> None:
    row = {"messages": [{"role": "user", "content": [part]}, {"role": "assistant", "content": "a cat"}]}
    with pytest.raises(DatasetError, match=r"only text can be sent. Correct the row, or leave it out\.$"):
        load_rows(write(tmp_path, [row]), input_field="messages")


def test_other_pairs_are_no_turns() -> None:
    assert not any(
        map(looks_like_turns, ([["a", "b"]], [["user", 3]], [["user"]], ["user", "x"], ["ai", "x"]))
    )
