"""New prompts in a workflow's file: nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autoprompt.errors import InputError
from autoprompt.settings.yaml_file import parse_yaml
from autoprompt.workflow import Workflow
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


def test_demonstrations_are_written_into_the_nodes_data() -> None:
    turns = {"llm1": [("a: b", "c")], "inner": [("in", "out"), ("x", "y")]}
    text = rewritten(SOURCE, TEXTS, TEXTS, turns)
    data = yaml.safe_load(text)
    assert data["nodes"][0]["data"]["demonstrations"] == [{"user": "a: b", "assistant": "c"}]
    assert len(data["nodes"][2]["data"]["nodes"][0]["data"]["demonstrations"]) == 2
    again = rewritten(text, TEXTS, TEXTS, {"llm1": [("other", "one")]})
    assert yaml.safe_load(again)["nodes"][0]["data"]["demonstrations"] == [
        {"user": "other", "assistant": "one"}
    ]


def test_a_text_that_is_not_in_the_file_is_an_error() -> None:
    with pytest.raises(InputError, match=r"llm9\.user: its text does not stand in the workflow's file"):
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
    assert [node_id for node_id in data if "demonstrations" in data[node_id]] == ["b"]
    assert data["b"]["model"] == "m"
    assert "# for all" in text


def test_all_prompts_that_nodes_share_change() -> None:
    names = read(ALIASED)
    texts = {name: f"this is\n{name}" for name in names}
    text = rewritten(ALIASED, names, texts)
    assert read(text) == texts
