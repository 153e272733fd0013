"""Five agents that do the work and know nothing of the graph; each is usable and testable alone."""

from autoprompt.optimizer.agents.analysis import AnalysisAgent, Analyst, CountingAnalyst
from autoprompt.optimizer.agents.describing import DescribingAgent
from autoprompt.optimizer.agents.memory import MemoryAgent
from autoprompt.optimizer.agents.prediction import PredictionAgent
from autoprompt.optimizer.agents.rewriting import RewriteAgent

__all__ = [
    "AnalysisAgent",
    "Analyst",
    "CountingAnalyst",
    "DescribingAgent",
    "MemoryAgent",
    "PredictionAgent",
    "RewriteAgent",
]
