"""Turn a labelled dataset and a naive prompt into a better prompt, with proof.

The names below are the public API, and docs/how-to/python.md describes them. Everything else may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Public name -> the module that has it. `import autoprompt` takes milliseconds: a name is imported when it is
# used. The imports below say the same to type checkers; a test compares the two.
_HOMES = {
    "AutopromptError": "autoprompt.errors",
    "BatchResult": "autoprompt.batch",
    "Budget": "autoprompt.settings.records",
    "CheckConfig": "autoprompt.settings.records",
    "CheckReport": "autoprompt.gate",
    "EvaluationReport": "autoprompt.evaluation.scoring",
    "Exported": "autoprompt.evaluation.exported",
    "Investigation": "autoprompt.science.records",
    "Models": "autoprompt.llm.adapter",
    "Program": "autoprompt.programs.program",
    "Prompt": "autoprompt.programs.prompts",
    "Run": "autoprompt.optimizer.result",
    "RunConfig": "autoprompt.settings.records",
    "RunResult": "autoprompt.optimizer.result",
    "ScienceConfig": "autoprompt.settings.records",
    "acheck": "autoprompt.optimizer.async_api",
    "aevaluate": "autoprompt.optimizer.async_api",
    "aoptimize": "autoprompt.optimizer.async_api",
    "aresume": "autoprompt.optimizer.async_api",
    "check": "autoprompt.optimizer.api",
    "estimate": "autoprompt.optimizer.api",
    "evaluate": "autoprompt.evaluation.scoring",
    "inspect_program": "autoprompt.evaluation.task",
    "investigate": "autoprompt.optimizer.api",
    "metric": "autoprompt.metrics",
    "optimize": "autoprompt.optimizer.api",
    "resume": "autoprompt.optimizer.api",
    "run_batch": "autoprompt.batch",
    "trust": "autoprompt.settings.trust",
    "use": "autoprompt.programs.using",
}
__all__ = ["__version__", *_HOMES]

# In a notebook these show their progress, if they are called without `on_event`.
_SHOWN = ("optimize", "resume", "evaluate", "check", "investigate", "run_batch",
          "aoptimize", "aresume", "aevaluate", "acheck")  # fmt: skip

if TYPE_CHECKING:
    __version__: str
    from autoprompt.batch import BatchResult as BatchResult
    from autoprompt.batch import run_batch as run_batch
    from autoprompt.errors import AutopromptError as AutopromptError
    from autoprompt.evaluation.exported import Exported as Exported
    from autoprompt.evaluation.scoring import EvaluationReport as EvaluationReport
    from autoprompt.evaluation.scoring import evaluate as evaluate
    from autoprompt.evaluation.task import inspect_program as inspect_program
    from autoprompt.gate import CheckReport as CheckReport
    from autoprompt.llm.adapter import Models as Models
    from autoprompt.metrics import metric as metric
    from autoprompt.optimizer.api import check as check
    from autoprompt.optimizer.api import estimate as estimate
    from autoprompt.optimizer.api import investigate as investigate
    from autoprompt.optimizer.api import optimize as optimize
    from autoprompt.optimizer.api import resume as resume
    from autoprompt.optimizer.async_api import acheck as acheck
    from autoprompt.optimizer.async_api import aevaluate as aevaluate
    from autoprompt.optimizer.async_api import aoptimize as aoptimize
    from autoprompt.optimizer.async_api import aresume as aresume
    from autoprompt.optimizer.result import Run as Run
    from autoprompt.optimizer.result import RunResult as RunResult
    from autoprompt.programs.program import Program as Program
    from autoprompt.programs.prompts import Prompt as Prompt
    from autoprompt.programs.using import use as use
    from autoprompt.science.records import Investigation as Investigation
    from autoprompt.settings.records import Budget as Budget
    from autoprompt.settings.records import CheckConfig as CheckConfig
    from autoprompt.settings.records import RunConfig as RunConfig
    from autoprompt.settings.records import ScienceConfig as ScienceConfig
    from autoprompt.settings.trust import trust as trust


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from autoprompt.text.machine import installed_version

        return installed_version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(_HOMES[name]), name)
    if name in _SHOWN and _is_in_ipython():
        return importlib.import_module("autoprompt.cli.notebook").with_progress(found)
    return found


def _is_in_ipython() -> bool:
    import sys

    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def __dir__() -> list[str]:
    """Names that were not used yet, too: a shell completes them."""
    return sorted({*globals(), *__all__})
