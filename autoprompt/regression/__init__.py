"""The gate of `autoprompt check`: a baseline in git, a paired test against it, and how it is told."""

from autoprompt.regression.baseline import Baseline, read_baseline, write_baseline
from autoprompt.regression.gate import Reason
from autoprompt.regression.report import CheckReport
from autoprompt.regression.run import run_check

__all__ = ["Baseline", "CheckReport", "Reason", "read_baseline", "run_check", "write_baseline"]
