"""What changed in a text, as a person would mark it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.report.diff import Piece, diff_words, is_rewritten


def marked(old: str, new: str) -> str:
    signs = {"same": "{}", "removed": "[-{}-]", "added": "[+{}+]"}
    return "".join(signs[piece.kind].format(piece.text) for piece in diff_words(old, new))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", ""),
        ("Say 1 or 0.", "Say 1 or 0.", "Say 1 or 0."),
        ("Is this clickbait?", "Is this headline clickbait?", "Is this[+ headline+] clickbait?"),
        ("Say 1 or 0.", "Say 1 or 2.", "Say 1 or[- 0-][+ 2+]."),
        # Chinese has no blanks: a character is a word.
        ("请仔细分析标题", "请分析新闻标题", "请[-仔细-]分析[+新闻+]标题"),
        ("one two three", "one two three four", "one two three[+ four+]"),
        ("a\n\nb c d e", "a\n\nb c d f", "a\n\nb c d[- e-][+ f+]"),
    ],
)
def test_words_that_changed_are_marked(old: str, new: str, expected: str) -> None:
    assert marked(old, new) == expected


def test_texts_with_little_in_common_are_shown_as_wholes() -> None:
    pieces = diff_words("Is this headline clickbait?", "Choose one of the labels by tone and length.")
    assert [piece.kind for piece in pieces] == ["removed", "added"]
    assert is_rewritten(pieces)
    assert not is_rewritten(diff_words("a b c d", "a b c e"))


def test_a_crumb_between_two_changes_belongs_to_them() -> None:
    old = "keep this start and alpha beta gamma the delta epsilon zeta and keep this whole end of it too"
    new = "keep this start and one two three the four five six and keep this whole end of it too"
    assert [piece.kind for piece in diff_words(old, new)] == ["same", "removed", "added", "same"]


@given(st.text(alphabet="ab \n标题.", max_size=60), st.text(alphabet="ab \n标题.", max_size=60))
def test_the_new_text_can_be_read_off(old: str, new: str) -> None:
    pieces = diff_words(old, new)
    assert "".join(piece.text for piece in pieces if piece.kind != "removed") == new
    rest = "".join(piece.text for piece in pieces if piece.kind != "added")
    assert "".join(rest.split()) == "".join(old.split())


def test_very_long_texts_are_compared_line_by_line() -> None:
    same = "the same line\n"
    old, new = same + "word " * 30_000 + "\n" + same, same + "other " * 30_000 + "\n" + same
    pieces = diff_words(old, new)
    assert [piece.kind for piece in pieces] == ["same", "removed", "added", "same"]
    assert pieces[0] == Piece("same", same)
