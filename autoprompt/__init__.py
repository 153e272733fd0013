"""Turns a labelled dataset and a naive prompt into a better prompt, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "AutopromptError",
    "BatchResult",
    "Budget",
    "Candidate",
    "CheckReport",
    "CheckConfig",
    "Client",
    "Models",
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
    "trust",
]

if TYPE_CHECKING:
    from autoprompt.batch import BatchResult, run_batch
    from autoprompt.errors import AutopromptError
    from autoprompt.evaluation.estimate import EvaluationEstimate, estimate_evaluation
    from autoprompt.evaluation.exported import Exported, read_exported
    from autoprompt.evaluation.scoring import EvaluationReport, evaluate
    from autoprompt.gate import CheckReport
    from autoprompt.llm.adapter import Models
    from autoprompt.llm.client import Client, Completion, Options
    from autoprompt.llm.scripted import ScriptedClient
    from autoprompt.metrics import register
    from autoprompt.optimizer.api import (
        best_of,
        candidate_of,
        check,
        estimate,
        investigate,
        optimize,
        resume,
        resume_investigation,
    )
    from autoprompt.optimizer.ending.result import RunResult
    from autoprompt.optimizer.forecast import Estimate
    from autoprompt.records import Candidate, Demo, Message, Usage
    from autoprompt.science.records import Investigation
    from autoprompt.settings.records import Budget, CheckConfig, RunConfig, ScienceConfig
    from autoprompt.settings.trust import trust

_HOMES = {
    "AutopromptError": "autoprompt.errors",
    "BatchResult": "autoprompt.batch",
    "Budget": "autoprompt.settings.records",
    "Candidate": "autoprompt.records",
    "CheckReport": "autoprompt.gate",
    "CheckConfig": "autoprompt.settings.records",
    "Client": "autoprompt.llm.client",
    "Models": "autoprompt.llm.adapter",
    "Completion": "autoprompt.llm.client",
    "Demo": "autoprompt.records",
    "Estimate": "autoprompt.optimizer.forecast",
    "EvaluationEstimate": "autoprompt.evaluation.estimate",
    "EvaluationReport": "autoprompt.evaluation.scoring",
    "Exported": "autoprompt.evaluation.exported",
    "Investigation": "autoprompt.science.records",
    "Message": "autoprompt.records",
    "Options": "autoprompt.llm.client",
    "RunConfig": "autoprompt.settings.records",
    "RunResult": "autoprompt.optimizer.ending.result",
    "ScienceConfig": "autoprompt.settings.records",
    "ScriptedClient": "autoprompt.llm.scripted",
    "Usage": "autoprompt.records",
    "best_of": "autoprompt.optimizer.api",
    "candidate_of": "autoprompt.optimizer.api",
    "check": "autoprompt.optimizer.api",
    "estimate": "autoprompt.optimizer.api",
    "estimate_evaluation": "autoprompt.evaluation.estimate",
    "evaluate": "autoprompt.evaluation.scoring",
    "investigate": "autoprompt.optimizer.api",
    "optimize": "autoprompt.optimizer.api",
    "read_exported": "autoprompt.evaluation.exported",
    "register": "autoprompt.metrics",
    "resume": "autoprompt.optimizer.api",
    "resume_investigation": "autoprompt.optimizer.api",
    "run_batch": "autoprompt.batch",
    "trust": "autoprompt.settings.trust",
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
