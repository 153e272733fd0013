import pytest

from autoprompt.memory import Experience, cut_mark
from autoprompt.optimizer.agents.writer import describe_change
from autoprompt.optimizer.lessons import whole_change
from autoprompt.records import Candidate

OLD = "Is it clickbait?"
RULES = "Mind the rule of the house. " * 15


def digest_of(change: str, new: str, old: str = OLD) -> str:
    parent, candidate = (Candidate({"sort": "Sort it.", "prompt": text}) for text in (old, new))
    whole = whole_change(parent, candidate, change)
    return Experience("t", change, "better", cut=cut_mark(change, whole)).digest


def test_what_differs_behind_the_cut_alone_is_another_change() -> None:
    one, other = f"{OLD} {RULES}Guess.", f"{OLD} {RULES}Ask."
    assert describe_change(OLD, one) == describe_change(OLD, other)
    for form in ("{}", "prompt: {}", "{}; and 8 demonstrations"):
        change = form.format(describe_change(OLD, one))
        assert digest_of(change, one) == digest_of(change, one) != digest_of(change, other)


@pytest.mark.parametrize("new", ["Mind it.", RULES])
def test_demonstrations_count_beside_what_the_text_says(new: str) -> None:
    change = describe_change(OLD, new)
    assert digest_of(change, new) != digest_of(f"{change}; and 8 demonstrations", new)


def test_what_was_removed_does_not_count_wherever_the_cut_is() -> None:
    for new in ("Mind it.", RULES):
        one, other = (f"prompt: {describe_change(old, new)}" for old in (OLD, "Is it true? " * 40))
        assert digest_of(one, new) == digest_of(other, new, "Is it true? " * 40)


def test_a_change_that_describes_no_text_is_the_same_whatever_the_texts() -> None:
    change = "typical words of 2 answers named"
    assert digest_of(change, RULES) == digest_of(change, "Mind it. " * 40)
