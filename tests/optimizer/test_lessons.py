import pytest

from autoprompt.memory import Experience, words
from autoprompt.optimizer.agents.writer import text_change
from autoprompt.records import Change

OLD = "Is it clickbait?"
RULES = "Mind the rule of the house. " * 15


def digest_of(change: Change) -> str:
    return Experience("t", change, "better").digest


def test_what_differs_behind_the_cut_alone_is_another_change() -> None:
    for more in ({}, {"component": "prompt"}, {"demos": 8, "how": "balanced"}):
        one, other = (
            Change(**{**more, "added": text_change(OLD, f"{OLD} {RULES}{end}").added})
            for end in ("Guess.", "Ask.")
        )
        assert words(one) == words(other)
        assert digest_of(one) != digest_of(other)


@pytest.mark.parametrize("new", ["Mind it.", RULES])
def test_demonstrations_count_beside_what_the_text_says(new: str) -> None:
    change = text_change(OLD, new)
    shown = Change(added=change.added, removed=change.removed, demos=8, how="balanced")
    assert digest_of(change) != digest_of(shown)


def test_what_was_removed_does_not_count_wherever_the_cut_is() -> None:
    for new in ("Mind it.", RULES):
        assert digest_of(text_change(OLD, new)) == digest_of(text_change("Is it true? " * 40, new))
