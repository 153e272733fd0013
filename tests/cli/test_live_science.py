"""The live view of an investigation, at a fixed width."""

from __future__ import annotations

import io

from rich.console import Console

from autoprompt.cli.live import panel, watching
from autoprompt.cli.science import ScienceView
from autoprompt.runs.events import (
    ExperimentStarted,
    InvestigationStarted,
    Observed,
    PassAnswered,
    PassStarted,
)

SPENT = {"calls": 2, "tokens": 1234, "cost_usd": 0.0}
SANDBOX = "userns, network denied"
ANSWER = "<Hypothesis>\nit is\nthree\n</Hypothesis>\n\n<Experiment>\nprint(3)\n</Experiment>"
EVENTS = [
    InvestigationStarted(
        "r1", "runs/r1", False, "m", "Look.", SANDBOX, "runs/r1/work", 3, {"max_calls": 9}
    ).to_dict(),
    PassStarted(1, 3, SPENT).to_dict(),
    PassAnswered(1, 3, SPENT, ANSWER, has_own_observation=True).to_dict(),
    ExperimentStarted(1, 3, SPENT).to_dict(),
    Observed(1, 3, SPENT, "3\x1b[2J", 0, 0.51, ("out.txt",)).to_dict(),
]
TOLD = [
    "run r1 started: m; sandbox: userns, network denied",
    "pass 1 of 3",
    "  Hypothesis: it is three",
    "  Experiment: print(3)",
    "  the model wrote its own Observation; removed it and what followed",
    "  Observation: 3[2J",
    "  exit code 0, 0.5 s; new files: out.txt",
]


def told(*, quiet: bool) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=False, markup=False, highlight=False)
    with watching(console, ScienceView(), quiet=quiet) as (_, emit):
        for event in EVENTS:
            emit(event)
    return out.getvalue().splitlines()


def test_lines_tell_each_part_and_steer_no_terminal() -> None:
    assert told(quiet=False) == TOLD


def test_quiet_tells_warnings_alone() -> None:
    assert told(quiet=True) == [TOLD[4]]


def test_the_panel_shows_what_is_done_the_parts_and_the_totals() -> None:
    view = ScienceView()
    for event in EVENTS:
        view.add(event)
    out = io.StringIO()
    Console(file=out, width=80, markup=False, highlight=False).print(panel(view, width=70))
    text = out.getvalue()
    assert all(len(line) <= 70 for line in text.splitlines())
    for part in (
        "autoprompt science r1",
        "pass 1 of 3: the experiment runs",
        "Observation: 3",
        "2 of 9 calls",
    ):
        assert part in text
