"""Turns a labelled dataset and a naive prompt into a better prompt, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "AutopromptError",
    "BatchResult",
    "BudgetSettings",
    "Candidate",
    "CheckReport",
    "CheckSettings",
    "Client",
    "Clients",
    "Completion",
    "Demo",
    "Estimate",
    "EvaluationEstimate",
    "EvaluationReport",
    "Exported",
    "Investigation",
    "Message",
    "Options",
    "RunConfig",
    "RunResult",
    "ScienceConfig",
    "ScriptedClient",
    "Usage",
    "__version__",
    "best_of",
    "candidate_of",
    "check",
    "estimate",
    "estimate_evaluation",
    "evaluate",
    "investigate",
    "optimize",
    "read_exported",
    "register",
    "resume",
    "resume_investigation",
    "run_batch",
]

if TYPE_CHECKING:
    from autoprompt.api import (
        best_of,
        candidate_of,
        check,
        estimate,
        investigate,
        optimize,
        resume,
        resume_investigation,
    )
    from autoprompt.batch import BatchResult, run_batch
    from autoprompt.clients import Clients
    from autoprompt.config import BudgetSettings, CheckSettings, RunConfig, ScienceConfig
    from autoprompt.errors import AutopromptError
    from autoprompt.llm.client import Client, Completion, Options
    from autoprompt.llm.scripted import ScriptedClient
    from autoprompt.metrics import register
    from autoprompt.optimizer.ending.result import RunResult
    from autoprompt.regression import CheckReport
    from autoprompt.run.forecast import Estimate
    from autoprompt.science.records import Investigation
    from autoprompt.scoring import EvaluationReport, evaluate
    from autoprompt.scoring_estimate import EvaluationEstimate, estimate_evaluation
    from autoprompt.store.export import Exported, read_exported
    from autoprompt.types import Candidate, Demo, Message, Usage

_HOMES = {
    "AutopromptError": "autoprompt.errors",
    "BatchResult": "autoprompt.batch",
    "BudgetSettings": "autoprompt.config",
    "Candidate": "autoprompt.types",
    "CheckReport": "autoprompt.regression",
    "CheckSettings": "autoprompt.config",
    "Client": "autoprompt.llm.client",
    "Clients": "autoprompt.clients",
    "Completion": "autoprompt.llm.client",
    "Demo": "autoprompt.types",
    "Estimate": "autoprompt.run.forecast",
    "EvaluationEstimate": "autoprompt.scoring_estimate",
    "EvaluationReport": "autoprompt.scoring",
    "Exported": "autoprompt.store.export",
    "Investigation": "autoprompt.science.records",
    "Message": "autoprompt.types",
    "Options": "autoprompt.llm.client",
    "RunConfig": "autoprompt.config",
    "RunResult": "autoprompt.optimizer.ending.result",
    "ScienceConfig": "autoprompt.config",
    "ScriptedClient": "autoprompt.llm.scripted",
    "Usage": "autoprompt.types",
    "best_of": "autoprompt.api",
    "candidate_of": "autoprompt.api",
    "check": "autoprompt.api",
    "estimate": "autoprompt.api",
    "estimate_evaluation": "autoprompt.scoring_estimate",
    "evaluate": "autoprompt.scoring",
    "investigate": "autoprompt.api",
    "optimize": "autoprompt.api",
    "read_exported": "autoprompt.store.export",
    "register": "autoprompt.metrics",
    "resume": "autoprompt.api",
    "resume_investigation": "autoprompt.api",
    "run_batch": "autoprompt.batch",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used: `import autoprompt` itself takes milliseconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Names that were not used yet, too: a shell completes them."""
    return sorted({*globals(), *__all__})
