"""An answer that leaves the choice open names no label; one that leans to a label names it."""

from __future__ import annotations

import pytest

from autoprompt.text.answers.labels import read_answer

LABELS = ("drama", "comedy", "horror")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "drama or comedy",
            "Drama OR comedy.",
            "drama, or comedy",
            "drama - or comedy",
            "drama...or comedy",
        ),
        *("drama or, comedy", "drama or perhaps comedy", "drama, or maybe comedy", "drama (or comedy)"),
        *("drama or possibly even comedy", "either drama or perhaps comedy", "drama or it could be comedy"),
        *("drama or\ncomedy", "drama\nor comedy", "drama\nor\ncomedy", "drama\ncomedy", "drama? comedy?"),
        *("The film is a drama or a comedy.", "Answer: drama or comedy", "**drama** or **comedy**"),
        *("drama/comedy", "drama & comedy", "drama + comedy", "drama and comedy", "drama, comedy or horror"),
        *("drama as well as comedy", "drama slash comedy", "a mix of drama and comedy"),
        *("between drama and comedy", "half drama, half comedy", "50% drama, 50% comedy"),
        *("maybe drama, maybe comedy", "could be drama, could be comedy", "drama: 0.5, comedy: 0.5"),
        *("drama if it is serious, comedy otherwise", "drama, otherwise comedy", "drama, else comedy"),
        *('{"label": "drama or comedy"}', '{"label": ["drama", "comedy"]}'),
        *("drama oder comedy", "drama oder vielleicht comedy", "drama ou peut-être comedy", "drama o comedy"),
        *("drama или comedy", "drama或comedy", "drama还是comedy", "dramaまたはcomedy", "drama 또는 comedy"),
    ],
)
def test_an_open_choice_names_none(text: str) -> None:
    assert read_answer(text, LABELS) is None


@pytest.mark.parametrize(
    ("text", "label"),
    [
        *(("drama, but it could be comedy", "drama"), ("drama rather than comedy", "drama")),
        *(("drama, not comedy", "drama"), ("drama (not comedy)", "drama"), ("maybe drama", "drama")),
        *(("Is it drama or comedy? Drama.", "drama"), ("drama or comedy: comedy", "comedy")),
        *(("drama or comedy? I would say maybe comedy", "comedy"), ("drama if you ask me", "drama")),
        *(("Between drama and comedy, drama.", "drama"), ("60% drama, 40% comedy", "drama")),
        *(("drama or comedy - final answer: drama", "drama"), ("drama (or tragedy)", "drama")),
        *(("It may be comedy, but drama fits best. Answer: drama", "drama"),),
        *(("Drama. Or maybe I am wrong.", "drama"), ("drama, or in other words a serious film", "drama")),
    ],
)
def test_an_answer_that_leans_to_a_label_names_it(text: str, label: str) -> None:
    assert read_answer(text, LABELS) == label
