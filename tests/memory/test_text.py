import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.memory import HOW, Experience, words
from autoprompt.memory.experience import read_change
from autoprompt.memory.text import Block, parse, render
from autoprompt.records import Change

BY_HAND = """\
Some thoughts of mine,
in two lines.

# A comment

- [better] Say that a question mark
  is no sign of clickbait
  mood: good
* [Worse -0.2 on 30 rows]   要求解释理由
      task： 判断标题
  priority: 2

- [no difference] x
"""


def entries(text: str) -> list[Experience]:
    return [block.entry for block in parse(text)[0] if block.entry]


def test_entries_that_a_person_wrote_are_read() -> None:
    blocks, problems = parse(BY_HAND)
    assert problems == []
    first, second, third = (block.entry for block in blocks if block.entry)
    assert first == Experience(
        "", Change(note="Say that a question mark is no sign of clickbait"), "better", notes=("  mood: good",)
    )
    assert second == Experience(
        "判断标题", Change(note="要求解释理由"), "worse", told_gain=-0.2, rows=30, priority=2.0
    )
    assert (third.verdict if third else None) == "no_difference"


def test_rewriting_keeps_every_word_and_is_stable() -> None:
    blocks, _ = parse(BY_HAND)
    text = render(blocks)
    assert render(parse(text)[0]) == text
    assert text.startswith("Some thoughts of mine,\nin two lines.\n\n# A comment\n\n- [better] Say that")
    assert "  mood: good" in text
    assert entries(text) == entries(BY_HAND)


@pytest.mark.parametrize(
    ("broken", "line", "what"),
    [
        ("- [beter] x", 3, "better, worse or no difference"),
        ("- [better]", 3, "is not an entry"),
        ("- [better] x\n  score: 0.5", 4, "expected two scores"),
        ("- [better] x\n  score: 0.5 -> 60", 4, "from 0 to 1"),
        ("- [better] x\n\n  priority: high", 5, "expected a number"),
        ("- [better] x\n  task: t\n  run: r1", 5, "expected a run"),
    ],
)
def test_a_broken_entry_is_told_with_its_line_and_never_lost(broken: str, line: int, what: str) -> None:
    text = f"# mine\n\n{broken}\n  note: keep me\n- [worse] y\n"
    blocks, problems = parse(text)
    assert [problem.line for problem in problems] == [line]
    assert what in str(problems[0])
    kept = render(blocks)
    assert [word for word in text.split() if word not in kept] == []
    assert [entry.text for entry in entries(kept)] == ["y"]


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    assert [entry.text for entry in entries("\ufeff- [better] x\r\n  task: t\r\n- [worse] y\r\n")] == [
        "x",
        "y",
    ]


texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text.split())
scores = st.integers(0, 1000).map(lambda n: n / 1000)
changes = st.builds(
    Change,
    component=st.sampled_from(["", "find.system", "查找"]),
    added=st.one_of(st.just(""), texts),
    removed=st.one_of(st.just(""), texts),
    demos=st.sampled_from([0, 1, 16]),
    how=st.sampled_from(sorted(HOW)),
    cues=st.sampled_from([0, 0, 1, 3]),
).filter(words)
experiences = st.builds(
    Experience,
    task=texts,
    change=st.one_of(texts.map(read_change), changes),
    verdict=st.sampled_from(["better", "worse", "no_difference"]),
    operator=st.sampled_from(["", "patch", "demonstrations"]),
    before=scores,
    after=scores,
    rows=st.integers(0, 500),
    run_id=st.text(string.ascii_lowercase + "-0123456789", min_size=1),
    iteration=st.integers(0, 99),
    priority=scores,
    language=st.sampled_from([None, "zh"]),
    sources=st.lists(st.text(string.hexdigits + "/", min_size=1)).map(tuple),
)


@given(st.lists(experiences, max_size=4))
def test_what_is_written_is_read_back(written: list[Experience]) -> None:
    blocks, problems = parse(render([Block(entry=entry) for entry in written]))
    assert problems == []
    assert [block.entry for block in blocks] == written


@given(st.text(st.sampled_from("-[] better\n\t#:task0.5>"), max_size=60))
def test_any_text_is_parsed_and_keeps_its_words(text: str) -> None:
    blocks, _ = parse(text)
    lines = [line.strip() for block in blocks for line in block.lines]
    assert lines == [line.strip() for line in text.splitlines() if line.strip()]
