"""One real run for all tests of this folder; none of them writes to it."""

from __future__ import annotations

import pytest
from run_folders import real_run

from autoprompt.report import RunSummary, read_summary
from autoprompt.runs import RunFolder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return real_run(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="session")
def summary(run: RunFolder) -> RunSummary:
    return read_summary(run)
