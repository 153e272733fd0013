"""The steps of one run of a workflow, from its events, for the analyst and for demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from autoprompt.errors import Interrupted
from autoprompt.records import Step
from autoprompt.workflow.engine.events import Event, NodeRunFailed, NodeRunSucceeded
from autoprompt.workflow.engine.template import as_text, references

# Nodes that only hand on what others made.
_SILENT = ("start", "end", "answer", "variable-aggregator", "assigner")
_LONGEST = 1000  # characters of what a step without prompts got or gave: such values may be whole documents


class StepRecorder:
    """Listens to a run. steps: one for each node that ended, in that order; safe for several threads.

    names: the components. texts: what they say in this run.
    """

    def __init__(self, names: Sequence[str], texts: Mapping[str, str]) -> None:
        self._names, self._texts = names, texts
        self._steps: list[Step] = []
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        if isinstance(event, NodeRunFailed) and event.error_type == Interrupted.__name__:
            return  # it was stopped, for what failed beside it
        if isinstance(event, NodeRunSucceeded | NodeRunFailed) and _plain(event.node_type) not in _SILENT:
            with self._lock:
                self._steps.append(self._step(event))

    @property
    def steps(self) -> tuple[Step, ...]:
        with self._lock:
            return tuple(self._steps)

    def _step(self, event: NodeRunSucceeded | NodeRunFailed) -> Step:
        components = tuple(name for name in self._names if name.rpartition(".")[0] == event.node_id)
        error = event.error if isinstance(event, NodeRunFailed) else None
        outputs = event.outputs if isinstance(event, NodeRunSucceeded) else {}
        prompts = event.process_data.get("prompts") or []
        reply = _reply(outputs)
        if not components or not prompts:
            return Step(event.node_id, components, _short(event.inputs), _short(outputs), error)
        return Step(
            event.node_id,
            components,
            as_text(prompts[-1].get("text")),
            reply if reply is not None else _short(outputs),
            error,
            can_demo=error is None and reply is not None and self._is_demonstrable(components, prompts),
        )

    def _is_demonstrable(self, components: Sequence[str], prompts: Sequence[Mapping[str, Any]]) -> bool:
        """One user message behind a system message that is the same for every row."""
        users = [prompt for prompt in prompts if prompt.get("role") != "system"]
        constant = all(
            not references(self._texts[name])
            for name in components
            if not name.rpartition(".")[2].startswith("user")
        )
        return len(users) == 1 and users[0].get("role") == "user" and constant


def _reply(outputs: Mapping[str, Any]) -> str | None:
    """The model's own words, which nodes may read something else out of."""
    context = outputs.get("context")
    if not isinstance(context, list | tuple) or not context:
        return None
    return as_text(context[-1].get("text"))


def _short(values: Mapping[str, Any]) -> str:
    """Values as text: the only one as it is, several as JSON."""
    shown = {name: value for name, value in values.items() if name not in ("usage", "context", "files")}
    text = as_text(next(iter(shown.values())) if len(shown) == 1 else dict(shown)) if shown else ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _plain(node_type: str) -> str:
    return node_type.replace("_", "-")
