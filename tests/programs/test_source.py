"""Where the texts of a program are in its source, and what is written there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoprompt.programs.literals import LiteralError
from autoprompt.programs.source import Sources, SourceText, with_new_text

MODULE = '''
"""A desk."""
import textwrap
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from pydantic import BaseModel, Field

SUM = textwrap.dedent("""
    Say in a line
    what it is about.
""")
QUEUES = ["a", "b"]
PICK = f"Choose one of these queues: {', '.join(QUEUES)}. Answer with its name."
BRIEF = "Be short."
SHARED = "Be kind."
CHAT = ChatPromptTemplate.from_messages([("system", BRIEF), ("user", "About: {summary}\\nTicket: {text}")])
KIND = ChatPromptTemplate.from_messages([("system", SHARED)])
GREETING = Prompt("greet", "Say hello.")
OTHER = "Say hello."


def node(state):
    send(SHARED)
    question = f"Question: {state['summary']}\\nIt says: {state['text']!r}"
    return question, "Total %s of %d pieces" % (a, b), "{{ x }} in jinja {{ y }}"


@tool(parse_docstring=True)
def find(words: str, count: int) -> str:
    """Find an order.

    Args:
        words: The words.
            And more.
        count: How many.
    """


@tool("get", description="Find an order.")
def g(key: Annotated[str, "The words."]): ...


class Order(BaseModel):
    """Make an order.

    Of the customer.
    """

    key: str = Field(description="Its key, " "in full.")
'''


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    (tmp_path / "desk.py").write_text(MODULE, encoding="utf-8")
    return Sources([tmp_path / "desk.py"])


def lines_changed(sources: Sources, text: SourceText, new: str) -> list[str]:
    """The lines that are in the changed module alone."""
    (spot,) = sources.find(text)
    changed = with_new_text(spot, new, spot.file.text)
    ast.parse(changed)
    return [line for line in changed.splitlines() if line not in MODULE.splitlines()]


def template(original: str) -> SourceText:
    return SourceText("x", "template", original, has_holes=True)


@pytest.mark.parametrize(
    ("original", "new", "lines"),
    [
        (
            "Say in a line\nwhat it is about.",
            "Say it\n- in a line\n  - short",
            ["    Say it", "    - in a line", "      - short"],
        ),
        (
            "Choose one of these queues: a, b. Answer with its name.",
            "Read it. Choose from a, b. Name it.",
            ["PICK = f\"Read it. Choose from {', '.join(QUEUES)}. Name it.\""],
        ),
        ("Be short.", 'Be short: {"a": 1}', ['BRIEF = "Be short: {{\\"a\\": 1}}"']),
    ],
)
def test_an_instruction(sources: Sources, original: str, new: str, lines: list[str]) -> None:
    assert lines_changed(sources, SourceText("x", "instruction", original), new) == lines


@pytest.mark.parametrize(
    ("original", "new", "line"),
    [
        (
            "About: {sum.answer}\nTicket: {text}",
            "Ticket {a}: {text}\nAbout: {sum.answer}",
            'CHAT = ChatPromptTemplate.from_messages([("system", BRIEF), '
            '("user", "Ticket {{a}}: {text}\\nAbout: {summary}")])',
        ),
        (
            "Question: {sum.answer}\nIt says: {text}",
            "It says: {text}\nQuestion {a}: {sum.answer}",
            "    question = f\"It says: {state['text']!r}\\nQuestion {{a}}: {state['summary']}\"",
        ),
        (
            "Total {a} of {b} pieces",
            "100%: {a} of {b}",
            '    return question, "100%%: %s of %d" % (a, b), "{{ x }} in jinja {{ y }}"',
        ),
        (
            "{a} in jinja {b}",
            "jinja {b} has {a} {c}",
            '    return question, "Total %s of %d pieces" % (a, b), "jinja {{ y }} has {{ x }} {c}"',
        ),
    ],
)
def test_a_template_keeps_what_code_puts_in(sources: Sources, original: str, new: str, line: str) -> None:
    assert lines_changed(sources, template(original), new) == [line]


@pytest.mark.parametrize(
    ("text", "new", "why"),
    [
        (template("Total {a} of {b} pieces"), "{b} of {a}", "in their order"),
        (
            SourceText("x", "instruction", "Choose one of these queues: a, b. Answer with its name."),
            "Choose from a or b.",
            "code puts 'a, b' into this text",
        ),
        (SourceText("x", "instruction", "Be kind."), "Be {kind}.", "as a template and as it is"),
        (SourceText("x", "instruction", "Say in a line\nwhat it is about."), " Say it", "strips or indents"),
        (SourceText("x", "tool parameter", "The words. And more.", "find.words"), "a\nb", "joins its lines"),
    ],
)
def test_a_text_that_would_not_arrive_is_refused(
    sources: Sources, text: SourceText, new: str, why: str
) -> None:
    (spot,) = sources.find(text)
    with pytest.raises(LiteralError, match=why):
        with_new_text(spot, new, spot.file.text)


@pytest.mark.parametrize(
    ("kind", "tool", "original", "new", "lines"),
    [
        ("tool", "find", "Find an order.", "Look it up.", ['    """Look it up.']),
        ("tool", "get", "Find an order.", "Get it.", ['@tool("get", description="Get it.")']),
        (
            "tool parameter",
            "get.key",
            "The words.",
            "Its key.",
            ['def g(key: Annotated[str, "Its key."]): ...'],
        ),
        ("tool parameter", "find.words", "The words. And more.", "The id.", ["        words: The id."]),
        (
            "tool",
            "Order",
            "Make an order.\n\nOf the customer.",
            "Make it.\n\nNow.",
            ['    """Make it.', "    Now."],
        ),
        (
            "tool parameter",
            "Order.key",
            "Its key, in full.",
            "Its key, all of it.",
            ['    key: str = Field(description="Its key, " "all of it.")'],
        ),
    ],
)
def test_the_text_of_a_tool(
    sources: Sources, kind: str, tool: str, original: str, new: str, lines: list[str]
) -> None:
    text = SourceText("x", kind, original, tool)  # type: ignore[arg-type]
    assert lines_changed(sources, text, new) == lines


def test_a_declared_prompt_is_known_by_its_name(sources: Sources) -> None:
    declared = SourceText("greet", "instruction", "Say hello.", is_declared=True)
    assert lines_changed(sources, declared, "Say {hello}.") == ['GREETING = Prompt("greet", "Say {hello}.")']
    assert len(sources.find(SourceText("x", "instruction", "Say hello."))) == 2  # which one is not known


def test_the_module_that_sends_a_text_comes_before_others(tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text('A = "Be short."\n', encoding="utf-8")
    (tmp_path / "other.py").write_text('B = "Be short."\nC = "Be kind."\n', encoding="utf-8")
    found = Sources([tmp_path / "graph.py", tmp_path / "other.py"])

    def files_of(text: str, sent_from: str) -> list[str]:
        wanted = SourceText("x", "instruction", text, sent_from=str(tmp_path / sent_from))
        return [spot.file.path.name for spot in found.find(wanted)]

    assert files_of("Be short.", "graph.py") == ["graph.py"]
    assert files_of("Be short.", "third.py") == ["graph.py", "other.py"]
    assert files_of("Be kind.", "graph.py") == ["other.py"]


@pytest.mark.parametrize(
    ("text", "is_held"),
    [
        ("Say in a line\nwhat it is about.", True),
        ("About: {a.answer}\nTicket: {text}", True),
        ("About: billing\nTicket: it is broken", False),
        ("Say in a line", False),
    ],
)
def test_a_text_that_the_source_holds(sources: Sources, text: str, is_held: bool) -> None:
    assert sources.holds(text) is is_held


@pytest.mark.parametrize("data", [b'# x\r\nA = "Be short."\r\nB = 1\n', b'\xef\xbb\xbfA = "Be short."\n'])
def test_line_ends_and_marks_of_a_file_stay(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "desk.py").write_bytes(data)
    (spot,) = Sources([tmp_path / "desk.py"]).find(SourceText("x", "instruction", "Be short."))
    assert spot.file.changed(with_new_text(spot, "Be kind.", spot.file.text)) == data.replace(
        b"short", b"kind"
    )


def test_another_encoding_holds_any_text(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_bytes('# coding: latin-1\nA = "Für dich."\n'.encode("latin-1"))
    (spot,) = Sources([tmp_path / "desk.py"]).find(SourceText("x", "instruction", "Für dich."))
    changed = spot.file.changed(with_new_text(spot, "Für 你.", spot.file.text))
    assert changed.decode("latin-1") == '# coding: latin-1\nA = "Für \\u4f60."\n'
