"""The gate of `autoprompt check`: a baseline in git, a paired test against it, and its report."""

from autoprompt.gate.comparison import Reason
from autoprompt.gate.measurement import Baseline, read_baseline, write_baseline
from autoprompt.gate.report import CheckReport
from autoprompt.gate.run import run_check

__all__ = ["Baseline", "CheckReport", "Reason", "read_baseline", "run_check", "write_baseline"]
