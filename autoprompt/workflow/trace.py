"""The steps of one run of a workflow, from its events, for the analyst and for demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from autoprompt.errors import Interrupted
from autoprompt.records import Step
from autoprompt.workflow.demonstrations import Form, is_literal
from autoprompt.workflow.engine.events import Event, NodeRunFailed, NodeRunSucceeded
from autoprompt.workflow.engine.model_call import is_context
from autoprompt.workflow.engine.template import as_json_text, as_text

# Nodes that only hand on what others made.
_SILENT = ("start", "end", "answer", "variable-aggregator", "assigner")
_LONGEST = 1000  # characters of what a step without prompts got or gave: such values may be whole documents


class StepRecorder:
    """Listens to a run. steps: one for each node that ended, in that order; safe for several threads.

    names: the components. forms: node id -> how demonstrations are shown to it. alike: variables that are the
    same for every row, `node.variable`, which a demonstration in a text need not repeat.
    """

    def __init__(self, names: Sequence[str], forms: Mapping[str, Form], alike: Collection[str] = ()) -> None:
        self._names, self._forms, self._alike = names, forms, alike
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
        form = self._forms.get(event.node_id)
        given = _demonstrable(event, form, self._alike)
        said = reply if reply is not None else _short(outputs)
        is_whole = error is None and reply is not None and given is not None
        return Step(
            event.node_id,
            components,
            as_text(prompts[-1].get("text")) if given is None else given,
            said,
            error,
            can_demo=form is not None and is_whole and is_literal(f"{given}\n{said}", form),
        )


def _demonstrable(
    event: NodeRunSucceeded | NodeRunFailed, form: Form | None, alike: Collection[str]
) -> str | None:
    """What a demonstration of the step shows as its input; None if none can be made of it.

    Of turns that is the user's message. In a text it is the value of the variable that the text names, or of
    several, each after its name.
    """
    users = [prompt for prompt in event.process_data.get("prompts") or [] if prompt.get("role") != "system"]
    is_asked = len(users) == 1 and users[0].get("role") == "user"
    named = [(name, value) for name, value in event.inputs.items() if not name.startswith("env.")]
    values = [(name, value) for name, value in named if name not in alike and value not in (None, "")]
    if form is None or any(is_context(value) and value for _, value in values):
        return None
    if form == "turns" or not values or event.node_type != "llm":
        return as_text(users[0].get("text")) if is_asked else None
    if len(values) == 1:
        return as_text(values[0][1])
    return "\n".join(f"{name.rpartition('.')[2]}: {as_text(value)}" for name, value in values)


def _reply(outputs: Mapping[str, Any]) -> str | None:
    """The model's own words, which nodes may read something else out of."""
    context = outputs.get("context")
    if not isinstance(context, list | tuple) or not context:
        return None
    return as_json_text(context[-1].get("text"))


def _short(values: Mapping[str, Any]) -> str:
    """Values as text: the only one as it is, several as JSON."""
    shown = {name: value for name, value in values.items() if name not in ("usage", "context", "files")}
    text = as_json_text(next(iter(shown.values())) if len(shown) == 1 else dict(shown)) if shown else ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _plain(node_type: str) -> str:
    return node_type.replace("_", "-")
