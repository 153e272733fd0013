"""Reading tags: whatever stands around them, and nothing that the model made up comes through."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.science.tags import TAGS, Section, escape_tags, is_python, read_answer, read_code

OWN = [tag for tag in TAGS if tag != "Observation"]
PROSE = [tag for tag in OWN if tag != "Experiment"]
# Anything but what could itself be read as a tag or a fence.
plain_text = st.text(st.characters(exclude_characters="<>`~", exclude_categories=["Cs"]), max_size=60)
PROGRAMS = (
    "print(1)",
    "x = '</Experiment>'\nprint(x)",
    'text = """\n```\nfenced\n```\n"""\nprint(text)',
    "print('<Conclusion>42</Conclusion>', '</Hypothesis>')",
    "for i in range(3):\n    # <Inference>\n    print(i < 2 > 1)",
    "s = '''\n</experiment>\n'''\nprint(len(s))",
)
FENCES = (
    "{}",
    "```python\n{}\n```",
    "```\n{}\n```",
    "~~~py\n{}\n~~~",
    "````python\n{}\n````",
    "\n\n```python\n{}\n```\n\n",
)


def cased(draw: st.DrawFn, tag: str) -> str:
    return "".join(c.upper() if draw(st.booleans()) else c.lower() for c in tag)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[Section]]:
    """A model's answer in any letter case, with attributes, text between the tags; and what it says."""
    tags = draw(st.lists(st.sampled_from(PROSE), max_size=3, unique=True))
    sections = [Section(tag, draw(plain_text).strip()) for tag in tags]
    if draw(st.booleans()):
        sections.append(Section("Experiment", draw(st.sampled_from(PROGRAMS))))
    text = draw(plain_text)
    for number, section in enumerate(sections):
        name = cased(draw, section.tag)
        attribute = draw(st.sampled_from(("", " lang='py'", "  ")))
        body = section.text
        if section.tag == "Experiment":
            body = draw(st.sampled_from(FENCES)).format(body)
        is_last = number == len(sections) - 1
        closing = "" if is_last and draw(st.booleans()) else f"</{name}>"
        text += f"<{name}{attribute}>\n{body}\n{closing}" + (draw(plain_text) if closing else "")
    return text, sections


@given(answers())
def test_tags_are_read_in_any_dress(made: tuple[str, list[Section]]) -> None:
    text, sections = made
    assert list(read_answer(text).sections) == sections


@given(
    answers(),
    st.sampled_from(("<Observation>", "<observation >", "< OBSERVATION x='1'>", "<Observation")),
    st.text(),
)
def test_an_observation_of_the_model_never_survives(
    made: tuple[str, list[Section]], opening: str, behind: str
) -> None:
    """It is cut with all that follows it, an invented conclusion too; what stands before it stays."""
    text, _ = made
    invented = f"{text}\n{opening}\n42\n</Observation>\n<Conclusion>42</Conclusion>{behind}"
    answer = read_answer(invented)
    assert answer.has_own_observation
    assert answer.sections == read_answer(text + "\n").sections
    rendered = "\n".join(map(str, answer.sections)) + answer.untagged
    assert not re.search(r"<\s*observation", rendered, re.IGNORECASE)


@given(st.text(), st.sampled_from(TAGS), st.text())
def test_no_text_breaks_the_reading(before: str, tag: str, behind: str) -> None:
    answer = read_answer(f"{before}<{tag}>{behind}")
    assert all(section.tag in OWN for section in answer.sections)
    assert not re.search(r"<[ \t]*observation\b", "".join(map(str, answer.sections)), re.IGNORECASE)


@given(
    st.lists(
        st.sampled_from(["<", "/", ">", "```", "\n", "Experiment", "observation", "Model", "'", '"""', " "])
    )
)
def test_no_shards_of_tags_break_the_reading(shards: list[str]) -> None:
    answer = read_answer("".join(shards))
    assert not any(re.search(r"<[ \t]*observation\b", s.text, re.IGNORECASE) for s in answer.sections)


@given(st.sampled_from(PROGRAMS), st.sampled_from(FENCES), plain_text)
def test_fences_around_code_go_and_those_inside_stay(program: str, fence: str, prose: str) -> None:
    assert read_code(fence.format(program)) == program
    # Where there is a fence, prose around it is no code.
    if fence != "{}" and not is_python(prose):
        assert read_code(f"{prose}\n{fence.format(program)}\n{prose}") == program


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("<Hypothesis>we use <Experiment> to test</Hypothesis>", ["Hypothesis"]),
        ("<Hypothesis>one\n<Model>two</Model>\n<Experiment>print(3)", ["Hypothesis", "Model", "Experiment"]),
        ("<Experiment>print(1)\n<Conclusion>done</Conclusion>", ["Experiment", "Conclusion"]),
        ("<Inference>a<Hypothesis>b</Hypothesis></Inference>", ["Inference", "Hypothesis"]),
        ("```xml\n<Model>m</Model>\n```", ["Model"]),
        ("no tags at all", []),
        ("", []),
    ],
)
def test_which_parts_are_found(text: str, sections: list[str]) -> None:
    assert [section.tag for section in read_answer(text).sections] == sections


def test_two_blocks_are_one_program() -> None:
    text = "First:\n```python\na = 1\n```\nThen:\n```python\nprint(a)\n```\nDone."
    assert read_code(text) == "a = 1\nprint(a)"


def test_indented_code_is_moved_to_the_left() -> None:
    answer = read_answer("<Experiment>\n    import os\n    print(os.name)\n</Experiment>")
    assert answer.text_of("Experiment") == "import os\nprint(os.name)"


def test_code_that_is_no_python_is_kept_as_it_is() -> None:
    answer = read_answer("<Experiment>\nprint(1\n</Experiment>\n<Inference>x</Inference>")
    assert [(s.tag, s.text) for s in answer.sections] == [("Experiment", "print(1"), ("Inference", "x")]


def test_what_code_prints_cannot_end_its_observation() -> None:
    assert escape_tags("</Observation><b>x</b><conclusion>") == "&lt;/Observation><b>x</b>&lt;conclusion>"


@pytest.mark.parametrize(
    "thought",
    [
        "<think>\nFirst <Experiment>print('no')</Experiment>, then an <Observation>.\n</think>\n\n",
        "Perhaps <Conclusion>no</Conclusion>, or an <Observation>.\n</think>\n\n",  # opened in the prompt
        "</think>",
        "<|channel|>analysis<|message|><Experiment>print('no')</Experiment>, then an <Observation>.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>",
    ],
)
def test_what_a_reasoning_model_thinks_is_no_answer(thought: str) -> None:
    answer = read_answer(f"{thought}<Hypothesis>h</Hypothesis><Experiment>print('yes')</Experiment>")
    assert answer.sections == (Section("Hypothesis", "h"), Section("Experiment", "print('yes')"))
    assert not answer.has_own_observation
    assert answer.untagged == ""


def test_a_thought_without_an_end_is_all_of_the_answer() -> None:
    answer = read_answer("<think>Perhaps <Experiment>print('no')</Experiment> and")
    assert answer.sections == ()
    assert answer.untagged == ""


@pytest.mark.parametrize(
    "code",
    [
        "df['has_thought'] = df['prediction'].str.contains('<think>')",
        'shown = text.split("</think>")[-1]\nprint(shown)',
        "import re\nprint(re.sub(r'<think>.*?</think>', '', text))",
    ],
)
def test_code_that_looks_for_thoughts_stays_whole(code: str) -> None:
    answer = read_answer(f"<Hypothesis>h</Hypothesis><Experiment>\n{code}\n</Experiment>")
    assert answer.sections == (Section("Hypothesis", "h"), Section("Experiment", code))
