"""Commands that the end of a run names do what it says, whatever ended the run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from called import call
from endpoint import KEY, Endpoint, write_messages

from autoprompt.runs import RunFolder, RunStore


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Path:
    monkeypatch.chdir(tmp_path)
    write_messages(tmp_path, endpoint.base_url, range(60))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


def useless() -> Callable[[dict[str, Any]], str]:
    """A writer whose prompts change nothing."""
    number = count()

    def answer(body: dict[str, Any]) -> str:
        if len(body["messages"][-1]["content"]) > 100:
            return f"```\nSort support messages. Try {next(number)}.\n```"
        return "normal"

    return answer


PRICES = ("--set", "price_input=1", "--set", "price_output=4")
LIMITS = [
    ("--max-calls", "138"),
    ("--max-tokens", "7000"),
    ("--max-cost", "0.012", *PRICES),
    ("--max-calls", "500", "--max-tokens", "7000"),
    ("--set", "max_iterations=1"),
    ("--set", "no_test=true", "--max-calls", "138"),
]


@pytest.mark.parametrize("limits", LIMITS, ids=" ".join)
def test_more_budget_takes_a_search_further_as_advised(
    limits: tuple[str, ...], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "answer", useless())
    shown = call("run", "--config", "c.yaml", "-q", "--no-memory", *limits).stdout
    run = RunStore(Path("runs")).open("last")
    before = rounds(run)
    (command,) = re.findall(r"`autoprompt (resume [^`]*)` searches further", shown)
    call(*shlex.split(command), "-q")
    assert rounds(run) > before
    for other in re.findall(r"`autoprompt (runs export [^`]*)`", shown):
        tried = [name for name in run.read_candidates() if name != run.find_candidate("original")["id"]]
        call(*shlex.split(other.replace(":ID", f":{tried[0]}")))
    assert Path("prompt.yaml").is_file()


def rounds(run: RunFolder) -> int:
    """How many rounds of the search the run has had."""
    history = (run.read_result() or {})["history"]
    return sum(one["split"] == "train" and one["total_count"] > 0 for one in history)


def test_a_search_with_nothing_left_to_find_is_not_advised_to_go_on(here: Path, endpoint: Endpoint) -> None:
    write_messages(here, endpoint.base_url, range(12))
    shown = call("run", "--config", "c.yaml", "-q", "--no-memory").stdout
    assert "because the best prompt has no wrong training row left" in shown
    assert "Not confirmed: more rows can confirm a smaller gain. To use a candidate" in shown
    assert "autoprompt resume" not in shown


def test_a_gain_that_no_test_confirms_is_untested(endpoint: Endpoint) -> None:
    shown = call("run", "--config", "c.yaml", "-q", "--no-memory", "--set", "no_test=true").stdout
    assert "Untested: no sealed test. To use a candidate without that proof: `autoprompt runs export" in shown
    assert "Not confirmed" not in shown
