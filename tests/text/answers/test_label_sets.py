"""Reading several labels out of one answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import within

from autoprompt.text.answers.label_sets import read_labels, split_labels

KNOWN = ("drama", "comedy", "horror", "Rock and Roll", "R&B", "Food, Drink", "sci-fi", "non-fiction")


@pytest.mark.parametrize(
    "text",
    [
        # JSON, and what models write for it.
        *(
            '["drama","comedy"]',
            '```json\n["drama", "comedy"]\n```',
            "['drama', 'comedy']",
            "[drama, comedy]",
        ),
        *('{"labels": ["drama","comedy"]}', '{"genres": "drama, comedy", "reason": "sad, and funny"}'),
        *('{"drama": true, "comedy": true, "horror": false}', 'Answer: ["drama", "comedy"]'),
        *('[{"label": "drama", "score": 0.9}, {"label": "comedy", "score": 0.5}]', '"drama", "comedy"'),
        *(
            'Here are the labels:\n```json\n["drama", "comedy"]\n```',
            '{"horror": 0, "drama": 1, "comedy": 1}',
        ),
        # Lists in other marks.
        *(
            "drama, comedy",
            "drama; comedy",
            "drama\ncomedy",
            "drama、comedy",
            "drama，comedy",
            "drama | comedy",
        ),
        *("- drama\n- comedy", "* **Drama**\n* **Comedy**", "1. drama\n2. comedy", "• drama\n• comedy"),
        *(
            "[x] drama\n[x] comedy",
            "#drama #comedy",
            "drama,comedy",
            "Drama, Comedy.",
            "comedy, drama, comedy",
        ),
        *("drama and comedy", "drama & comedy", "drama/comedy", "drama, and comedy", "both drama and comedy"),
        *("drama 和 comedy", "drama und comedy", "drama et comedy", "drama y comedy", "drama и comedy"),
        # With words around it.
        *("Labels: drama, comedy", "**Labels:** drama, comedy", "The genres are: drama and comedy."),
        *(
            "Genres:\n- drama: it is sad\n- comedy (funny)",
            "答案：drama、comedy",
            "drama (0.9), comedy (0.8)",
        ),
        *("Reasoning: it is sad and funny.\nLabels: drama, comedy", "drama, comedy\nConfidence: 0.9"),
        *("Labels: drama, comedy\nReason: it is sad and, well, funny", "<think>horror</think>drama, comedy"),
        *("The film is a drama and a comedy.", "It is drama; it is also comedy"),
        # Under several headings, with a menu, with a verdict for each label.
        *(
            "Primary: drama\nSecondary: comedy",
            "genre: drama\ngenre: comedy",
            "Label 1: drama\nLabel 2: comedy",
        ),
        *(
            "Possible labels: drama, comedy, horror. Answer: drama, comedy",
            "Draft: horror\nLabels: drama, comedy",
        ),
        *("From (drama, comedy, horror): drama, comedy", "Options: drama, comedy, horror\ndrama, comedy"),
        *(
            "drama: yes\ncomedy: yes\nhorror: no",
            "drama ✓\ncomedy ✓\nhorror ✗",
            "drama: 1, comedy: 1, horror: 0",
        ),
        *("- [x] drama\n- [x] comedy\n- [ ] horror", "{drama, comedy}", "['drama' 'comedy']"),
        *(
            "The film is a drama and a comedy, not a horror film.",
            "No horror here: a drama, and a comedy too.",
        ),
    ],
)
def test_labels_are_read_in_any_form(text: str) -> None:
    found = read_labels(text, KNOWN)
    assert found is not None
    assert sorted(found) == ["comedy", "drama"]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        # A known label that holds a separator is whole, and read in other spelling.
        *[
            ("Rock and Roll, R&B", {"Rock and Roll", "R&B"}),
            ("R&B and rock and roll", {"Rock and Roll", "R&B"}),
        ],
        *[("Food, Drink; drama", {"Food, Drink", "drama"}), ("sci fi", {"sci-fi"}), ("Sci-Fi", {"sci-fi"})],
        *[("non-fiction", {"non-fiction"}), ('["Food, Drink"]', {"Food, Drink"})],
        # The empty set.
        *[("none", set()), ("None.", set()), ("[]", set()), ('{"labels": []}', set()), ("无", set())],
        *[("No labels apply.", set()), ("none of the above", set()), ("Labels: none", set()), ("N/A", set())],
        *[("Reasoning: none\nLabels: drama", {"drama"}), ("Labels: none\nReason: no drama in it", set())],
        # Labels that nobody knows are labels.
        *[("drama, thriller", {"drama", "thriller"}), ("thriller", {"thriller"}), ('["x"]', {"x"})],
        # One label, and what is denied.
        *[
            ("drama", {"drama"}),
            ("It is a horror film [1]", {"horror"}),
            ("not a comedy but a drama", {"drama"}),
        ],
        *[("It is neither drama nor comedy", set()), ('{"drama": 0.9, "comedy": 0.2}', None)],
        *[("", None), ("<think>drama", None), ("I cannot say what this film is about at all", None)],
        *[("Maybe it is {strange}, who could ever say that?", None), ("{}", set())],
    ],
)
def test_a_set_may_be_empty_or_hold_others(text: str, labels: set[str] | None) -> None:
    found = read_labels(text, KNOWN)
    assert (None if found is None else set(found)) == labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ('{"rejected": ["comedy"], "labels": ["drama"]}', {"drama"}),
        ('{"labels": ["drama"], "rejected_labels": ["comedy"]}', {"drama"}),
        ('{"options": ["drama", "comedy", "crime"], "answer": ["crime"]}', {"crime"}),
        ('{"evidence": ["good plot"], "labels": ["drama"]}', {"drama"}),
        ('{"evidence": ["a drama"], "found": ["comedy", "crime"]}', {"comedy", "crime"}),
        ('{"evidence": ["good plot"], "label": "drama"}', {"drama"}),
        ('{"found": ["drama"], "words": ["sad scene"]}', {"drama"}),
        ('{"labels": [], "excluded": ["drama"]}', set()),
        ('{"comedy": [], "drama": ["sad scene"]}', None),  # reasons by label: nobody knows what counts
        ('{"labels": ["none"]}', set()),
        ('{"labels": "none"}', set()),
        ('["none"]', set()),
        ('["None of these"]', set()),
    ],
)
def test_of_a_json_object_the_list_of_the_answer_counts(text: str, labels: set[str] | None) -> None:
    found = read_labels(text, ("drama", "comedy", "crime"))
    assert (None if found is None else set(found)) == labels


def test_none_may_be_a_label() -> None:
    for text in ('["none"]', '{"labels": "none"}', '{"labels": ["None"]}', "none"):
        assert read_labels(text, ("none", "drama")) == ("none",)


def test_without_known_labels_the_parts_are_labels() -> None:
    assert read_labels("a, b and c") == ("a", "b", "c")
    assert read_labels("The genres are: x and y.") == ("x", "y")
    assert read_labels("1, 3", ("1", "2", "3")) == ("1", "3")
    assert read_labels("[1, 3]", ("1", "2", "3")) == ("1", "3")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        *[("Rock and Roll, Jazz", ("Rock and Roll", "Jazz")), ('["a, b","c"]', ("a, b", "c")), ("a", ("a",))],
        *[("a; b", ("a", "b")), ("a\nb", ("a", "b")), ("a、b", ("a", "b")), ("[]", ()), ("none", ())],
        *[('{"a":1}', None), ("[[1]]", None), ("[1, 2]", ("1", "2")), (" , ", None), ("a, A", ("a",))],
    ],
)
def test_targets_are_lists_or_texts(text: str, labels: tuple[str, ...] | None) -> None:
    assert split_labels(text) == labels


@given(st.text(alphabet="ab ,;/&-*:[]{}\"'\n1.", max_size=200))
def test_any_text_is_read_in_time(text: str) -> None:
    with within(5):
        read_labels(text, ("a", "b", "a b", "a and b"))
        split_labels(text)


def test_long_answers_are_read_in_time() -> None:
    for part in ("drama, ", "drama and ", "- drama\n", "x: y\n", "[", "{", "drama ", "not ", ": "):
        with within(4):
            read_labels(part * 8_000, KNOWN)
