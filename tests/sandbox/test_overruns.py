"""Every limit is overrun in every way that we know, at every level that this machine offers."""

from __future__ import annotations

import sys

import pytest

from autoprompt.sandbox import Level
from autoprompt.sandbox.overruns import OVERRUNS, Overrun, outcome


@pytest.mark.parametrize("overrun", OVERRUNS, ids=lambda overrun: f"{overrun.limit}: {overrun.way}")
def test_code_is_ended_or_refused_what_it_wants(overrun: Overrun, offered: Level) -> None:
    assert outcome(overrun, offered, sys.executable) in ("ended", "refused")


@pytest.mark.parametrize("overrun", OVERRUNS, ids=lambda overrun: f"{overrun.limit}: {overrun.way}")
def test_unconfined_code_too(overrun: Overrun) -> None:
    assert outcome(overrun, Level(), sys.executable) in ("ended", "refused")
