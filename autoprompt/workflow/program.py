"""A workflow as a program to be optimized: its prompts are the components, a row's fields its inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from autoprompt.llm.client import Client, Completion, Options
from autoprompt.measure.rows import stopping_rows
from autoprompt.records import STEP_FAILED, Candidate, Example, Message, Prediction, Usage
from autoprompt.text.answers.labels import is_whole, read_answer
from autoprompt.text.answers.texts import split_thoughts
from autoprompt.workflow.demonstrations import Form, forms, turns_of, with_texts
from autoprompt.workflow.engine.errors import NodeError
from autoprompt.workflow.engine.runner import RunSettings
from autoprompt.workflow.engine.template import as_json_text
from autoprompt.workflow.file.inputs import TEXT_TYPES
from autoprompt.workflow.file.records import StartVariable
from autoprompt.workflow.outages import outage
from autoprompt.workflow.trace import StepRecorder
from autoprompt.workflow.workflow import Workflow


@dataclass(frozen=True)
class WorkflowProgram:
    """Runs a workflow on a row with a candidate's texts.

    target_output: the output that is the answer. one_input: the start variable that gets the row's input
        where no field has its name; None where all have. labels, read: as in `PromptProgram`.
    alike: variables that are the same for every row, see `StepRecorder`.
    allow_private_hosts, mocks: see `RunSettings`. A field `NODE.OUTPUT` of a row stands in for a node, too.
    Every node asks `client`, whatever model it names. A row whose workflow failed because of what a model
    answered is one without a readable answer; one whose model, tool or service was not there to be asked
    has an error.
    """

    workflow: Workflow
    client: Client
    target_output: str
    one_input: StartVariable | None = None
    labels: tuple[str, ...] = ()
    read: Callable[[str], str | None] | None = None
    input_field: str = "input"
    target_field: str = "target"
    allow_private_hosts: tuple[str, ...] = ()
    mocks: Mapping[str, Any] = field(default_factory=dict)
    alike: frozenset[str] = frozenset()

    @property
    def components(self) -> Mapping[str, str]:
        return self.workflow.components

    @cached_property
    def forms(self) -> dict[str, Form]:
        """How the nodes are shown demonstrations."""
        return forms(self.workflow.definition)

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        meter = Meter(self.client)
        recorder = StepRecorder(tuple(candidate.components), self.forms, self.alike)
        shown = with_texts(candidate, self.forms)
        settings = RunSettings(
            client=meter,
            components={**self.components, **shown.components},
            demonstrations=turns_of(shown),
            allow_private_hosts=self.allow_private_hosts,
            mocks=self.mocks,
            stopping=stopping_rows(),
        )
        try:
            # In a context of its own: LangGraph would take a graph that is run in a node of another one (the
            # optimizer's) for a part of it, keep its steps in the other's checkpoints, and give a resumed run
            # the results of another row.
            outputs = Context().run(
                self.workflow.run, self.inputs(example), settings=settings, on_event=recorder
            )
        except NodeError as error:
            failure = outage(error)
            text = "" if failure else f"{STEP_FAILED}{error})"
            is_cut = not failure and meter.is_last_cut
            found = Prediction(text, None, meter.usage, trace=recorder.steps, is_cut=is_cut)
            return replace(found, error=str(error), failure=failure) if failure else found
        output = outputs.get(self.target_output)
        text = as_json_text(output)
        value = self.read(text) if self.read else read_answer(text, self.labels)
        if why := meter.withheld(text):  # whatever label it names
            return Prediction(text, None, meter.usage, error=why, failure="withheld", trace=recorder.steps)
        return Prediction(
            text,
            value,
            meter.usage,
            meter.label_probs(text),
            trace=recorder.steps,
            is_cut=meter.is_cut(text) and not is_whole(text, value, self.labels),
            output=None if isinstance(output, str) else output,
        )

    def inputs(self, example: Example) -> dict[str, Any]:
        return row_inputs(example, self.one_input, self.input_field, self.target_field)


def row_inputs(
    example: Example, one_input: StartVariable | None, input_field: str, target_field: str
) -> dict[str, Any]:
    """A row's fields but the target's, by name, with their types; its input's text is `sys.query` too.

    Of a conversation that is the user's last turn, and a variable for texts gets all turns as one text.
    """
    fields = {name: value for name, value in example.fields.items() if name != target_field}
    fields[input_field] = example.input
    if one_input is not None:
        is_text = one_input.type in TEXT_TYPES
        fields[one_input.variable] = example.full_text if example.turns and is_text else example.input
    return {"query": example.input_text, **fields}


class Meter:
    """A client that sums up what one row uses, and keeps of its answers what their texts do not tell."""

    def __init__(self, inner: Client) -> None:
        self._inner = inner
        self._lock = threading.Lock()  # items of an iteration ask at once
        self._usage = Usage()
        self._probs: list[tuple[str, Mapping[str, float]]] = []
        self._withheld: dict[str, str] = {}
        self._cut: set[str] = set()
        self._is_last_cut = False

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def usage(self) -> Usage:
        with self._lock:
            return self._usage

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        # As task calls of a single prompt: by the sample alone, so that equal draws are equal.
        seed = options.sample if options.seed is None else options.seed
        options = replace(options, seed=seed, wants_label_probs=bool(options.labels))
        answer = self._inner.complete(messages, options)
        with self._lock:
            self._usage += answer.usage
            if answer.label_probs is not None:
                self._probs.append((answer.text.strip(), answer.label_probs))
            if answer.withheld:
                self._withheld[answer.text.strip()] = answer.withheld
            self._is_last_cut = answer.is_cut
            if self._is_last_cut:  # a node may give it without its thoughts
                self._cut |= {answer.text.strip(), split_thoughts(answer.text)[0].strip()}
        return answer

    def withheld(self, answer: str) -> str:
        """Why a call was declined in these words; "" if none was."""
        with self._lock:
            return self._withheld.get(answer.strip(), "")

    @property
    def is_last_cut(self) -> bool:
        """Whether the last call's answer broke off."""
        with self._lock:
            return self._is_last_cut

    def is_cut(self, answer: str) -> bool:
        """Whether a call gave this much and broke off. What other nodes made of it is not known."""
        with self._lock:
            return answer.strip() in self._cut

    def label_probs(self, answer: str) -> Mapping[str, float] | None:
        """Those of the last call that gave this answer, if one did."""
        with self._lock:
            return next((probs for text, probs in reversed(self._probs) if text == answer.strip()), None)

    def close(self) -> None:
        """The client stays its owner's."""
