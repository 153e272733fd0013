"""New prompts in a workflow's file: nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autoprompt.errors import InputError
from autoprompt.settings.yaml_file import parse_yaml
from autoprompt.workflow import Workflow
from autoprompt.workflow.file.model_records import shown_turns
from autoprompt.workflow.file.rewrite import rewritten

SOURCE = """\
# mine
nodes:
  - id: llm1
    type: llm
    data:
      prompt_template:
        - role: system
          text: >-
            Fold this
            text.
        # behind it
        - role: user
          text: |
            One
            {{#start.q#}}

        - {role: user, text: "Same"}
        - {role: user, text: 'Same'}   # the second
  - id: tool1
    type: tool
    data:
      virtual_nodes:
        - {id: ext_1, type: llm, data: {prompt_template: [{text: "{{#a.context#}}"}, {text: Get it}]}}
      tool_parameters: {other: "@llm1.context | Shorten it"}
  - id: each
    type: iteration
    data:
      nodes:
        - id: inner
          type: llm
          data: {prompt_template: Do it}
edges: []
"""
TEXTS = {
    "llm1.system": "Fold this text.",
    "llm1.user": "One\n{{#start.q#}}\n",
    "llm1.user2": "Same",
    "llm1.user3": "Same",
    "tool1.ext_1.user": "Get it",
    "tool1.ext_2.user": "Shorten it",
    "inner.user": "Do it",
}


def changed(**texts: str) -> str:
    return rewritten(SOURCE, TEXTS, {**TEXTS, **{n.replace("__", "."): t for n, t in texts.items()}})


def different_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line not in SOURCE.splitlines()]


def test_nothing_changes_without_a_change() -> None:
    assert changed() == SOURCE


def test_a_block_stays_a_block_and_what_is_behind_it_stays() -> None:
    text = changed(llm1__system="New: a\n\nb # c")
    assert "          text: |-\n            New: a\n\n            b # c\n        # behind it\n" in text
    template = yaml.safe_load(text)["nodes"][0]["data"]["prompt_template"]
    assert template[0]["text"] == "New: a\n\nb # c"


@pytest.mark.parametrize(
    "new",
    [
        'say "A": {b} # c',
        "- x",
        "多行\n文字",
        " led and trailed ",
        "tab\there",
        "a\\b",
        "a\n \nb",
        "a\x85 b\x7f😀",
    ],
)
def test_any_text_comes_back_as_it_was(new: str) -> None:
    data = yaml.safe_load(changed(llm1__user=new, inner__user=new))
    assert data["nodes"][0]["data"]["prompt_template"][1]["text"] == new
    assert data["nodes"][2]["data"]["nodes"][0]["data"]["prompt_template"] == new


def test_of_equal_texts_the_right_one_changes() -> None:
    assert different_lines(changed(llm1__user3="Other")) == [
        '        - {role: user, text: "Other"}   # the second'
    ]


def test_prompts_of_virtual_nodes_and_extractions() -> None:
    data = yaml.safe_load(
        rewritten(SOURCE, TEXTS, {**TEXTS, "tool1.ext_1.user": "A", "tool1.ext_2.user": "B"})
    )
    tool = data["nodes"][1]["data"]
    assert tool["virtual_nodes"][0]["data"]["prompt_template"][1] == {"text": "A"}
    assert tool["tool_parameters"]["other"] == "@llm1.context | B"


def test_demonstrations_of_a_node_without_messages_are_written_into_its_data() -> None:
    text = rewritten(SOURCE, TEXTS, TEXTS, {"inner": [("a: b", "c"), ("x", "y")]})
    inner = yaml.safe_load(text)["nodes"][2]["data"]["nodes"][0]["data"]
    assert inner["demonstrations"] == [
        {"user": "a: b", "assistant": "c"},
        {"user": "x", "assistant": "y"},
    ]
    again = rewritten(text, TEXTS, TEXTS, {"inner": [("other", "one")]})
    inner = yaml.safe_load(again)["nodes"][2]["data"]["nodes"][0]["data"]
    assert inner["demonstrations"] == [{"user": "other", "assistant": "one"}]


LAYOUTS = {
    "a block": """
        - role: system
          text: |-
            Be brief.

            - truly
        # what is asked
        - role: user
          text: "{{#start.q#}}"
    """,
    "dashes at the key": """
      - {role: system, text: "Be brief."}
      - {role: user, text: "{{#start.q#}}"}
    """,
    "content, and a dash in a line of its own": """
        -
          role: system
          content: Be brief.
        -
          content: "Item - {{#start.q#}}"
    """,
    "brackets": """ [{role: system, text: Be brief.}, {role: user, text: "{{#start.q#}}"}]
    """,
    "one message": """
        - {role: user, text: "Say {{#start.q#}}"}
    """,
    "ids": """
        - id: 9d5a1c36
          role: user
          text: "{{#start.q#}}"
    """,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_demonstrations_are_messages_before_the_input(layout: str) -> None:
    source = (
        "nodes:\n  - {id: start, type: start, data: {variables: [q]}}\n  - id: a\n    type: llm\n    data:\n"
        f"      prompt_template:{LAYOUTS[layout]}  model: m\n      title: mine\n"
    )
    before = yaml.safe_load(source)
    turns = [("a: b", "c"), ("x\n\n y", '"y"')]
    text = rewritten(source, {}, {}, {"a": turns})
    after = yaml.safe_load(text)
    messages, written = (data["nodes"][1]["data"].pop("prompt_template") for data in (before, after))
    assert after == before
    key = "content" if "content" in messages[0] else "text"
    said = [(message["role"], message[key]) for message in written if message not in messages]
    assert said == [(role, t) for turn in turns for role, t in zip(("user", "assistant"), turn, strict=True)]
    assert [message in messages for message in written] == [*[True] * (len(messages) - 1), *[False] * 4, True]
    assert all("id" in message for message in written) == ("id" in messages[0])
    (line,) = [part for part in source.splitlines() if "{{#start.q#}}" in part]
    assert line in text or "brackets" in layout

    assert rewritten(text, {}, {}, {"a": [("other", "one")]}) == rewritten(
        source, {}, {}, {"a": [("other", "one")]}
    )
    (node,) = [node for node in Workflow.load(yaml.safe_load(text)).definition.nodes if node.id == "a"]
    assert [(turn.user, turn.assistant) for turn in node.data.shown] == turns
    assert node.data.messages == Workflow.load(yaml.safe_load(source)).definition.nodes[1].data.messages


def test_with_a_memory_the_turns_are_the_last_messages() -> None:
    source = """
nodes:
  - id: a
    type: llm
    data:
      memory: {window: {enabled: false}}
      prompt_template:
        - role: system
          text: Be brief.

      model: m
"""
    text = rewritten(source, {}, {}, {"a": [("x", "y")]})
    data = yaml.safe_load(text)["nodes"][0]["data"]
    assert [message["role"] for message in data["prompt_template"]] == ["system", "user", "assistant"]
    assert data["model"] == "m"
    again = rewritten(text, {}, {}, {"a": [("v", "w"), ("x", "y")]})
    assert [m["text"] for m in yaml.safe_load(again)["nodes"][0]["data"]["prompt_template"]] == [
        "Be brief.",
        *"vwxy",
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [("user", "{{#start.q#}}"), ("assistant", "y"), ("user", "z")],
        [("user", "x"), ("assistant", "{{#start.q#}}"), ("user", "z")],
        [("system", "s"), ("user", "x"), ("assistant", "y")],
        [("user", "x"), ("user", "y")],
        [("assistant", "y"), ("user", "x")],
    ],
)
def test_other_messages_are_no_demonstrations(messages: list[tuple[str, str]]) -> None:
    assert shown_turns(messages, has_memory=False) == (0, 0)


def test_a_text_that_is_not_in_the_file_is_an_error() -> None:
    with pytest.raises(InputError, match=r"llm9\.user: its text is not in the workflow's file"):
        rewritten(SOURCE, {"llm9.user": "x"}, {"llm9.user": "y"})


def test_line_ends_and_byte_order_mark_stay() -> None:
    """A file of Windows, changed in three ways: a block, a quoted text, new demonstrations."""
    crlf = "\ufeff" + SOURCE.replace("\n", "\r\n")
    new = {**TEXTS, "llm1.system": "New: a\nb", "inner.user": "Other"}
    turns = {"llm1": [("a", "b")]}
    text = rewritten(crlf, TEXTS, new, turns)
    assert text == "\ufeff" + rewritten(SOURCE, TEXTS, new, turns).replace("\n", "\r\n")


def read(source: str) -> dict[str, str]:
    return Workflow.load(parse_yaml(source, Path("flow.yaml")).data).components


def test_only_prompts_change_be_the_same_words_written_elsewhere() -> None:
    source = """\
nodes:
  - id: a
    type: llm
    data:
      title: Summarize the text
      model: m
      prompt_template:
        - {role: system, text: Summarize the text}
        - {role: user, edition_type: jinja2, text: Shout, jinja2_text: Shout}
"""
    names = read(source)
    text = rewritten(source, names, {"a.system": "NEW", "a.user": "LOUD"})
    assert read(text) == {"a.system": "NEW", "a.user": "LOUD"}
    data = yaml.safe_load(text)["nodes"][0]["data"]
    assert data["title"] == "Summarize the text"
    assert data["prompt_template"][1]["text"] == "Shout"


def test_equal_extractions_of_one_node_are_two_prompts() -> None:
    other = '"@llm1.context | Shorten it"'
    source = SOURCE.replace(other, f"{other}, more: {other}")
    names = {**TEXTS, "tool1.ext_3.user": "Shorten it"}
    text = rewritten(source, names, {**names, "tool1.ext_2.user": "A", "tool1.ext_3.user": "B"})
    tool = yaml.safe_load(text)["nodes"][1]["data"]
    assert tool["tool_parameters"] == {"other": "@llm1.context | A", "more": "@llm1.context | B"}


ALIASED = """\
common: &common
  model: m
  prompt_template: &p  # for all
    - role: system
      text: &t "Be brief: yes"
    - {role: user, text: *t}
nodes:
  - {id: start, type: start, data: {}}
  - id: a
    type: llm
    data:
      model: m
      prompt_template: *p
  - id: b
    type: llm
    data: &b
      <<: *common
      title: no
  - {id: c, type: llm, data: *b}
"""


@pytest.mark.parametrize("name", ["a.system", "a.user", "b.system", "b.user", "c.user"])
def test_of_prompts_that_nodes_share_by_an_alias_one_changes_alone(name: str) -> None:
    names = read(ALIASED)
    assert len(names) == 6
    text = rewritten(ALIASED, names, {**names, name: "NEW: a\nb"}, {"b": [("x", "y")]})
    assert read(text) == {**names, name: "NEW: a\nb"}
    data = {node["id"]: node["data"] for node in yaml.safe_load(text)["nodes"]}
    assert {n: len(data[n]["prompt_template"]) for n in "abc"} == {"a": 2, "b": 4, "c": 2}
    assert data["b"]["model"] == "m"
    assert "# for all" in text


def test_all_prompts_that_nodes_share_change() -> None:
    names = read(ALIASED)
    texts = {name: f"this is\n{name}" for name in names}
    text = rewritten(ALIASED, names, texts)
    assert read(text) == texts
