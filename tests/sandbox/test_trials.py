"""Every limit is passed in every way that we know, at every level that this machine offers."""

from __future__ import annotations

import sys

import pytest

from autoprompt.sandbox import Level
from autoprompt.sandbox.trials import TRIALS, Trial, outcome


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: f"{trial.limit}: {trial.way}")
def test_a_limit_that_is_passed_ends_the_run(trial: Trial, offered: Level) -> None:
    assert outcome(trial, offered, sys.executable) in ("counted", "refused")


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: f"{trial.limit}: {trial.way}")
def test_unconfined_code_has_limits_too(trial: Trial) -> None:
    assert outcome(trial, Level(), sys.executable) in ("counted", "refused")
