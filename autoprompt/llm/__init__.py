"""Models: one protocol, `Client.complete(messages, options) -> Completion`, and what stands behind it.

`models.connect` gives a client for a role; `models.open_models` gives those of all roles of a run.
"""

from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import CallRole, Client, Completion, Options
from autoprompt.records import Message, Usage

__all__ = ["CallRole", "Client", "Completion", "Message", "Options", "ScriptedClient", "Usage"]
