"""Prompts in a YAML or JSON file: read by name, and written back with the layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt import AutopromptError, Prompt
from autoprompt.programs.prompts import read_prompts, texts_in, with_text

YAML = """# head
route: Route the ticket.   # why
quoted: "Say: \\"x\\""   # q
single: 'It''s'
block: |
  Line one
    deeper

# after
strip: |-   # note
    a b
    c
nested:
  - first text
  - system: |
      Deep
    n: 3
flow: {a: text, b: ["x y", 'z']}
last: |+
  the end

"""
NAMES = (
    "route",
    "quoted",
    "single",
    "block",
    "strip",
    "nested.0",
    "nested.1.system",
    "flow.a",
    "flow.b.0",
    "last",
)
JSON = '{\n  "route": "Route it.",\n  "more": {"a": "b"}\n}\n'


def changed(source: str, name: str, text: str) -> str:
    (at,) = (entry for entry in texts_in(source) if entry.name == name)
    found = with_text(source, at, text)
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
def test_a_text_is_held_exactly_and_nothing_else_changes(name: str, text: str) -> None:
    before = {entry.name: entry.text for entry in texts_in(YAML)}
    after = changed(YAML, name, text)
    assert {entry.name: entry.text for entry in texts_in(after)} == before | {name: text}
    for comment in ("# head\n", "   # why\n", "   # q\n", "# after\n", "   # note\n"):
        assert comment in after


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("route", "Read closely.", ["route: Read closely.   # why"]),
        ("route", "Read: closely.", ['route: "Read: closely."   # why']),
        ("single", "It's not", ["single: 'It''s not'"]),
        ("block", "One\n  two\n\nthree\n", ["  One", "    two", "  three"]),
        ("strip", "One\ntwo", ["    One", "    two"]),
        ("nested.0", "a\nb", ["  - |-", "    a", "    b"]),
        ("flow.a", "a\nb", ['flow: {a: "a\\nb", b: ["x y", \'z\']}']),
    ],
)
def test_the_style_stays(name: str, text: str, lines: list[str]) -> None:
    old = YAML.splitlines()
    assert [line for line in changed(YAML, name, text).splitlines() if line not in old] == lines


def test_json_stays_json() -> None:
    assert changed(JSON, "route", 'Say "a"\n你') == JSON.replace("Route it.", 'Say \\"a\\"\\n你')


def test_prompts_are_declared_by_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text("desk-route: Route it.\ndesk-deep:\n  system: Be short.\n", encoding="utf-8")
    loaded = Prompt.load(path)
    assert {name: str(prompt) for name, prompt in loaded.items()} == {
        "desk-route": "Route it.",
        "desk-deep.system": "Be short.",
    }
    assert str(loaded["desk-deep.system"].place) == f"{path} line 3"


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "line 1: the file of prompts is no YAML"), ("a: 3\n", "holds no text"), ("", "holds no text")],
)
def test_a_file_without_prompts_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(AutopromptError, match=said):
        read_prompts(tmp_path / "p.yaml")
