"""Models: one protocol, `Client.complete(messages, options) -> Completion`, and what stands behind it.

`connect` gives a client for a role out of the settings; `Models` those of all roles of a run.
"""

from autoprompt.llm.client import CallRole, Client, Completion, Options
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.limits.budget import Budget
from autoprompt.llm.limits.spent import Spent
from autoprompt.llm.scripted import ScriptedClient
from autoprompt.llm.stack import Models, connect, wrap
from autoprompt.records import Message

__all__ = [
    "Budget",
    "CallRole",
    "Client",
    "Completion",
    "Journal",
    "Message",
    "Models",
    "Options",
    "ResponseCache",
    "ScriptedClient",
    "Spent",
    "connect",
    "wrap",
]
