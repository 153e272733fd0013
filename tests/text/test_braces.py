"""Braces around a field's name that are no placeholder."""

from __future__ import annotations

import pytest

from autoprompt.text.placeholders import as_placeholder, misses

FIELDS = ("Text", "Ticket Nr", "sub-queue", "v1.2", "标题", "", " ")


@pytest.mark.parametrize(
    ("prompt", "field"),
    [
        ("Sort { Text }.", "Text"),
        ("Sort { text }.", "Text"),
        ("Sort {{ Text }}.", "Text"),
        ("Sort {{ Text | trim }}.", "Text"),
        ("Sort {{Ticket Nr|lower}}.", "Ticket Nr"),
        ("Sort {{Text}}.", "Text"),
        ("Sort {{{Text}}}.", "Text"),
        ("Sort {Ticket Nr}.", "Ticket Nr"),
        ("Sort {{Ticket Nr}}.", "Ticket Nr"),
        ("Sort {ticket-nr}.", "Ticket Nr"),
        ("Sort {Sub-Queue}.", "sub-queue"),
        ("Sort {v1.2}.", "v1.2"),
        ("Sort {{ 标题 }}.", "标题"),
        ("Sort {Ticket\nNr}.", "Ticket Nr"),
    ],
)
def test_a_field_that_is_not_filled_in_is_found(prompt: str, field: str) -> None:
    (found,) = misses(prompt, FIELDS)
    assert (found.text, found.field) == (" ".join(prompt[5:-1].split()), field)


@pytest.mark.parametrize(
    "prompt",
    [
        "Sort {Text}, {text}, {TEXT}.",  # a placeholder, and two that are told elsewhere
        'Answer {"Text": 1}, {"label": {Text}} or {"a": {"b": {Text}}}.',
        "{}, { }, {{}}, {Text, 1}, {Text: 1}, { Text | trim }, {other word}",
        "\\d{3} and {{ other }}",
        "{{Text}, {Text}}",
    ],
)
def test_other_braces_are_none(prompt: str) -> None:
    assert [*misses(prompt, FIELDS)] == []


def test_each_text_is_found_once() -> None:
    assert [found.text for found in misses("{ Text } {{Text}} { Text }", FIELDS)] == ["{ Text }", "{{Text}}"]


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("Ticket Nr", "Ticket_Nr"),
        ("a (b)", "a_b"),
        ("1st line", "field_1st_line"),
        ("???", "field"),
        ("शीर्षक नाम", "शीर्षक_नाम"),
    ],
)
def test_a_name_that_can_be_no_placeholder_is_given_another(field: str, name: str) -> None:
    assert as_placeholder(field).startswith(f"rename the field {field!r} to {name} and write {{{name}}},")
    assert as_placeholder(name) == f"write {{{name}}}"
