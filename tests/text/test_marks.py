"""Placeholders of every template language are known, and a rewrite that breaks one is told which."""

from __future__ import annotations

import pytest

from autoprompt.text.placeholders import broken_marks, kept_texts, marks

SCHEMA = '{"type": "object", "properties": {"a": {"type": "string"}}}'


def test_marks_of_all_languages_are_found_and_other_braces_are_none() -> None:
    text = (
        "On {topic}: {{ question | trim }}, ${x} and $name, {% if x %}, {{#start.text#}}, %(id)s,"
        ' {a.b[0]!r:>9}. Not {so}me: {not one}, {"k": 1}, 5% so, 100%, $5.'
    )
    assert [mark.text for mark in marks(text)] == [
        *("{topic}", "{{ question | trim }}", "${x}", "$name", "{% if x %}", "{{#start.text#}}", "%(id)s"),
        *("{a.b[0]!r:>9}", "{so}"),
    ]
    assert kept_texts(f"Answer {{x}} as {SCHEMA} or {{}} and {{x}}.") == ["{x}", "{}", SCHEMA]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("About {topic}.", "About it.", "loses {topic}"),
        ("About {{ topic }}.", "About {{topic}}.", "loses {{ topic }}"),
        ("On ${x}.", "On $x.", "loses ${x}"),
        ("{% if a %}A{% endif %}", "{% if a %}A", "loses {% endif %}"),
        ("About {topic}.", "About {topic} of {place}.", "adds {place}"),
        ("%s, then %s", "then %s", "changes the number or order of %s"),
        ("First {}, {}", "{}", "changes the number or order of {}"),
        (f"As {SCHEMA}", 'As {"type": "object", "properties": {}}', f"loses {SCHEMA}"),
        ("About {topic}.", 'Write of {topic} as {"k": 1}, 50%, $5.', ""),
        ("Plain.", "Write {name}.", ""),
    ],
)
def test_what_a_rewrite_makes_of_marks_is_told(before: str, after: str, said: str) -> None:
    assert broken_marks(before, after) == said
