"""No text of a model or a dataset steers what shows it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import HOSTILE

from autoprompt.text.display import inert_json, language, one_line, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b[31mred", "␛[31mred"),
        ("nul\x00 del\x7f", "nul␀ del␡"),
        ("right\u202eleft", "right[U+202E]left"),
        ("half \ud800", "half \ufffd"),
        ("a\r\nb", "a\nb"),
        ("line\u2028end", "line\nend"),
        ("👩‍👩‍👧 标题", "👩‍👩‍👧 标题"),
    ],
)
def test_signs_that_steer_are_visible(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_cut_text_says_how_much_is_missing() -> None:
    assert shown("x" * 1500, 10) == "xxxxxxxxxx … (1,490 more characters)"
    assert one_line("a\n  b" * 100, 9) == "a ba ba…"


@given(st.text())
def test_json_cannot_end_its_element_and_comes_back(text: str) -> None:
    made = inert_json([text])
    assert not set(made) & set("<>&\u2028\u2029")
    assert json.loads(made) == [text]


def test_hostile_texts_in_json() -> None:
    made = inert_json([shown(text) for text in HOSTILE])
    assert "</script" not in made
    assert len(json.loads(made)) == len(HOSTILE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Is this clickbait?", ""),
        ("你绝对想不到的结果", "zh"),
        ("これは見出しです", "ja"),
        ("이 제목은 낚시성인가", "ko"),
        ("The word 标题 in an English sentence of some length", ""),
        ("", ""),
        ("123", ""),
    ],
)
def test_language_of_a_text(text: str, expected: str) -> None:
    assert language(text) == expected
