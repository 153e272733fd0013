"""The conversation beyond the window of a model."""

from __future__ import annotations

from autoprompt.science.records import PassRecord
from autoprompt.science.requests import Requests, Survey, shortened
from autoprompt.text.scripts import estimate_tokens


def a_pass(number: int, observation: str = "seen") -> PassRecord:
    text = (
        f"<Inference>\ninferred {number}\n</Inference>\n\n<Hypothesis>\nsupposed {number}\n</Hypothesis>\n\n"
        f"<Model>\nmodelled {number}\n</Model>\n\n<Experiment>\ncoded({number})\n</Experiment>"
    )
    return PassRecord(number, text, text, f"coded({number})", f"{observation} {number}", 0, observation)


def test_a_short_history_is_as_it_was() -> None:
    text = shortened([a_pass(1), a_pass(2)], 4000, "en")
    assert "summarized" not in text
    assert text.index("coded(1)") < text.index("seen 1") < text.index("coded(2)") < text.index("seen 2")


def test_the_earliest_passes_shrink_to_their_heads_and_it_is_said() -> None:
    passes = [a_pass(number, "row of a table; " * 60) for number in range(1, 6)]
    text = shortened(passes, 1200, "en")
    assert text.startswith("[Passes 1 to ")
    assert "coded(1)" not in text
    assert "modelled 1" not in text
    for kept in ("inferred 1", "supposed 1", "<Observation>\nrow of a table", "coded(5)"):
        assert kept in text
    assert estimate_tokens(text) <= 1200


def test_one_pass_that_is_too_long_is_cut_in_its_middle() -> None:
    text = shortened([a_pass(1, "number " * 5000)], 700, "zh")
    assert estimate_tokens(text) <= 700
    assert "characters left out" in text
    assert "inferred 1" in text


def test_a_request_stays_within_the_room() -> None:
    passes = [a_pass(number, "value, " * 400) for number in range(1, 9)]
    requests = Requests("What?", None, Survey("a.csv: 3 rows", ()), 10, 2500, "en")
    for messages in (requests.next(9, passes), requests.last(passes)):
        assert [message.role for message in messages] == ["user", "assistant", "user"]
        assert estimate_tokens(messages) <= 2500


def test_a_failure_is_told_and_the_end_is_offered_only_after_a_success() -> None:
    def asked(exit_code: int, io: str | None, files: tuple[str, ...] = ()) -> str:
        record = PassRecord(1, "", "", "x", "y", exit_code, "y", new_files=files)
        requests = Requests("What?", io, Survey("-", ()), 5, 4000, "en")
        return requests.next(2, [record])[-1].content

    assert "The last experiment failed" in asked(1, None)
    assert "If the answer itself stands in an <Observation>" in asked(0, None)
    assert "If the answer itself stands in an <Observation>" not in asked(0, "save to a.txt")
    assert "must write what is asked for: save to a.txt" in asked(0, "save to a.txt")
    assert "Files that the experiments have made: a.txt" in asked(0, "save to a.txt", ("a.txt",))
