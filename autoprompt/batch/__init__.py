"""Many runs as one experiment: trials from YAML, side by side, on one budget, into one table."""

from autoprompt.batch.run import Planned, plan_batch, resume_batch, run_batch
from autoprompt.batch.table import BatchResult, Group, Row
from autoprompt.batch.trials import Batch, Trial, load_batch

__all__ = [
    "Batch",
    "BatchResult",
    "Group",
    "Planned",
    "Row",
    "Trial",
    "load_batch",
    "plan_batch",
    "resume_batch",
    "run_batch",
]
