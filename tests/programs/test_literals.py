"""A string literal with another text: it holds just that, and stays written as it was."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.programs.literals import Hole, Literal, literals, rewritten, text_of, text_of_node

SOURCES = {
    "plain": 'A = "Route the ticket."',
    "single": "A = 'it\\'s \\u4f60 \\x41'",
    "raw": 'A = r"a\\d+ {x}"',
    "block": 'A = """Route\nthe \'ticket\' "now".\n"""',
    "continued": 'A = """\\\nLine one \\\nstill one\n"""',
    "pieces": 'A = (\n    "Route the ticket to billing, "  # why\n    "tech or sales."\n)',
    "holes": "A = f\"About: {s['summary']!r:>{w}}\\nTicket: {text}, {{x}}\"",
    "mixed": "A = 'plain {x} ' f'and {y}'",
    "empty": 'A = ""',
}


def literal_of(source: str) -> Literal:
    (found,) = literals(source, ast.parse(source))
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_read_is_what_python_reads(name: str) -> None:
    literal = literal_of(SOURCES[name])
    assert text_of(literal.atoms) == text_of_node(literal.node)


@pytest.mark.parametrize("name", SOURCES)
@given(
    text=st.text(st.characters(exclude_characters="\ue000", exclude_categories=("Cs",)), max_size=40),
    cut=st.data(),
)
def test_another_text_is_held_exactly(name: str, text: str, cut: st.DataObject) -> None:
    literal = literal_of(SOURCES[name])
    old = literal.atoms
    start = cut.draw(st.integers(0, len(old)))
    end = cut.draw(st.integers(start, len(old)))
    new = [*old[:start], *text, *(a for a in old[start:end] if isinstance(a, Hole)), *old[end:]]
    written = rewritten(literal, new)
    node = ast.parse(f"({written})", mode="eval").body
    assert text_of_node(node) == text_of(new)
    if name != "pieces":
        assert ("# why" in written) is ("# why" in text)
    else:
        assert "# why" in written


def changed(name: str, old: str, new: str) -> str:
    literal = literal_of(SOURCES[name])
    atoms = text_of(literal.atoms)
    start = atoms.index(old)
    return rewritten(literal, [*literal.atoms[:start], *new, *literal.atoms[start + len(old) :]])


def test_what_stays_keeps_its_escapes_and_its_lines() -> None:
    assert changed("single", "A", '"B"') == "'it\\'s \\u4f60 \"B\"'"
    assert changed("raw", "{x}", "{y}") == 'r"a\\d+ {y}"'
    assert changed("continued", "one\n", "line\n") == '"""\\\nLine one \\\nstill line\n"""'
    assert changed("holes", "Ticket", "{It}") == "f\"About: {s['summary']!r:>{w}}\\n{{It}}: {text}, {{x}}\""


def test_a_piece_is_changed_where_it_is() -> None:
    assert changed("pieces", "tech", "the tech desk") == (
        '"Route the ticket to billing, "  # why\n    "the tech desk or sales."'
    )


def test_a_long_text_is_put_into_pieces_of_the_same_length() -> None:
    written = changed(
        "pieces", "tech or sales.", "tech or sales.\n" + "Read all of it before you answer. " * 4
    )
    assert written.splitlines() == [
        '"Route the ticket to billing, "  # why',
        '    "tech or sales.\\n"',
        '    "Read all of it before you answer. Read all of it before you "',
        '    "answer. Read all of it before you answer. Read all of it "',
        '    "before you answer. "',
    ]


def test_a_text_that_gets_lines_is_written_as_lines() -> None:
    assert changed("plain", " the", "\nthe") == '"""Route\nthe ticket."""'
    assert rewritten(literal_of("A = 'a\\nb'"), list("a\nc")) == "'a\\nc'"  # it had some
