"""A workflow as a program to be optimized: its prompts are the components, a row's fields its inputs.

The steps of each run are recorded from its events, for the analyst and for demonstrations.

A step's demonstrations are shown as turns of the chat if its file can hold turns: in the messages of an `llm`
node, and of any node in files of our own. Otherwise they are written into the prompt's text, in the run as in
the file that is written, so that what is measured is what Dify sends.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from autoprompt.errors import Interrupted
from autoprompt.llm.client import Client, Completion, Options
from autoprompt.measure.rows import stopping_rows
from autoprompt.records import Candidate, Demo, Example, Message, Prediction, Step, Usage
from autoprompt.text.answers.labels import is_whole, read_answer
from autoprompt.text.answers.texts import split_thoughts
from autoprompt.text.names import cut_to
from autoprompt.text.templates import language_of
from autoprompt.workflow.engine.definition import Definition, GraphNode
from autoprompt.workflow.engine.errors import NodeError, outage
from autoprompt.workflow.engine.events import Event, NodeRunFailed, NodeRunSucceeded
from autoprompt.workflow.engine.model_call import is_context
from autoprompt.workflow.engine.runner import RunSettings
from autoprompt.workflow.engine.template import REFERENCE, as_json_text, as_text, references
from autoprompt.workflow.file import apps
from autoprompt.workflow.file.model_records import LLMData, PromptMessage
from autoprompt.workflow.file.records import StartVariable
from autoprompt.workflow.rows import row_inputs
from autoprompt.workflow.workflow import Workflow

Form = Literal["turns", "text", "app"]  # app: a text in which `{{name}}` is a variable

_TEXTS: tuple[Form, ...] = ("text", "app")
_TAG = re.compile(r"<(/?)([A-Za-z_][\w-]*)>")
_WORDS = {"en": ("Examples:", "Input: ", "Answer: "), "zh": ("示例：", "输入：", "回答：")}


def form_of(node: GraphNode) -> Form | None:
    """Return how demonstrations of this node are shown; None if they cannot be.

    As turns they need one user message behind system messages that are the same for every row.
    """
    data = node.data
    if getattr(data, "is_app", False):
        return "app"
    if not isinstance(data, LLMData):
        return "turns" if node.holds_turns else "text"
    if node.holds_turns and _takes_turns(data):
        return "turns"
    return None if any(_is_template(message) for message in data.messages) else "text"


def forms(definition: Definition) -> dict[str, Form]:
    """Return the forms of all nodes with prompts, by id."""
    known = {node.id: form_of(node) for node in definition.all_nodes()}
    return {node_id: form for node_id, form in known.items() if form is not None}


def only_text(definition: Definition) -> list[GraphNode]:
    """Return the nodes with prompts whose demonstrations are written into their texts."""
    known = forms(definition)
    return [
        node
        for node in definition.all_nodes()
        if known.get(node.id) in _TEXTS and node.executor.component_texts(node.data)
    ]


def with_texts(candidate: Candidate, known: Mapping[str, Form]) -> Candidate:
    """Return the candidate with those demonstrations in its texts that its nodes cannot show as turns.

    Args:
        known: Node id -> form, see `forms`. A node that is not in it shows turns.
    """
    texts = dict(candidate.components)
    turns = []
    listed: dict[str, list[Demo]] = {}
    for demo in candidate.demos:
        if known.get(node_of(demo), "turns") == "turns":
            turns.append(demo)
        else:
            listed.setdefault(demo.component, []).append(demo)
    for name, demos in listed.items():
        texts[name] = with_examples(texts[name], [(demo.input, demo.output) for demo in demos])
    return replace(candidate, components=texts, demos=tuple(turns), id="") if listed else candidate


def turns_of(candidate: Candidate) -> dict[str, list[tuple[str, str]]]:
    """Return node id -> (input, answer) of each demonstration that is shown to it as turns."""
    shown: dict[str, list[tuple[str, str]]] = {}
    for demo in candidate.demos:
        shown.setdefault(node_of(demo), []).append((demo.input, demo.output))
    return shown


def node_of(demo: Demo) -> str:
    """Return the id of the node that a demonstration is shown to."""
    return demo.component.rpartition(".")[0]


def with_examples(text: str, examples: Sequence[tuple[str, str]]) -> str:
    """Return the text with the examples before the first line that names a variable, else at its end.

    If that line is inside a tag, such as `<context>`, they go before the tag, as they are no part of it.
    """
    head, asks, answers = _WORDS[language_of(text)]
    block = "\n\n".join([head, *(f"{asks}{given}\n{answers}{answer}" for given, answer in examples)])
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if references(line)), len(lines))
    first = min([first, *_open_tags(lines[:first])])
    parts = ["\n".join(lines[:first]).rstrip(), block, "\n".join(lines[first:])]
    return "\n\n".join(part for part in parts if part)


def _open_tags(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that open a tag which none of them closes."""
    opened: list[tuple[str, int]] = []
    for number, line in enumerate(lines):
        for end, name in _TAG.findall(line):
            if not end:
                opened.append((name, number))
            elif places := [place for place, tag in enumerate(opened) if tag[0] == name]:
                del opened[places[-1]]
    return [number for _, number in opened]


def is_literal(text: str, form: Form) -> bool:
    """Return whether a file that holds the text says just that: what looks like a variable would be one."""
    return apps.is_literal(text) if form == "app" else REFERENCE.search(text) is None


def _takes_turns(data: LLMData) -> bool:
    *system, last = data.messages or (PromptMessage(),)
    if data.memory is not None:  # the question follows
        system, last = [*system, last], PromptMessage(role="user")
    is_constant = all(
        message.role == "system" and not references(message.template) and not _is_template(message)
        for message in system
    )
    return is_constant and last.role == "user"


def _is_template(message: PromptMessage) -> bool:
    return message.is_jinja2 and any(mark in message.template for mark in ("{{", "{%", "{#"))


# Nodes that only hand on what others made.
_SILENT = ("start", "end", "answer", "variable-aggregator", "assigner")
_LONGEST = 1000  # characters of what a step without prompts got or gave: such values may be whole documents


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
            usage, steps, said = meter.usage, recorder.steps, str(error)
            if (kind := outage(error)) is not None:
                return Prediction("", None, usage, error=said, failure=kind, trace=steps)
            text, is_cut = f"(no answer: {said})", meter.is_last_cut
            return Prediction(text, None, usage, failure="step failed", trace=steps, is_cut=is_cut)
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
        """Return why a call was declined in these words; "" if none was."""
        with self._lock:
            return self._withheld.get(answer.strip(), "")

    @property
    def is_last_cut(self) -> bool:
        """Whether the last call's answer broke off."""
        with self._lock:
            return self._is_last_cut

    def is_cut(self, answer: str) -> bool:
        """Return whether a call gave this much and broke off. What other nodes made of it is not known."""
        with self._lock:
            return answer.strip() in self._cut

    def label_probs(self, answer: str) -> Mapping[str, float] | None:
        """Return those of the last call that gave this answer, if one did."""
        with self._lock:
            return next((probs for text, probs in reversed(self._probs) if text == answer.strip()), None)

    def close(self) -> None:
        """Do nothing: the client stays its owner's."""


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
        reply = _reply(event) if prompts else None
        said = reply if reply is not None else _short(outputs)
        if not components or not prompts:
            of: Literal["", "node"] = "node" if prompts else ""
            return Step(event.node_id, components, _short(event.inputs), said, error, model_of=of)
        form = self._forms.get(event.node_id)
        given = _demonstrable(event, form, self._alike)
        is_whole = error is None and reply is not None and given is not None
        return Step(
            event.node_id,
            components,
            as_text(prompts[-1].get("text")) if given is None else given,
            said,
            error,
            can_demo=form is not None and is_whole and is_literal(f"{given}\n{said}", form),
            model_of="node",
        )


def _demonstrable(
    event: NodeRunSucceeded | NodeRunFailed, form: Form | None, alike: Collection[str]
) -> str | None:
    """Return what a demonstration of the step shows as its input; None if none can be made of it.

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


def _reply(event: NodeRunSucceeded | NodeRunFailed) -> str | None:
    """Return the model's own words, which nodes may read something else out of, or the tools it called."""
    if isinstance(event, NodeRunFailed):
        return as_json_text(event.process_data.get("answer"))
    context = event.outputs.get("context")
    if not isinstance(context, list | tuple) or not context:
        return None
    return as_json_text(context[-1].get("text")) or as_json_text(event.process_data.get("tool_calls") or None)


def _short(values: Mapping[str, Any]) -> str:
    """Values as text: the only one as it is, several as JSON."""
    shown = {name: value for name, value in values.items() if name not in ("usage", "context", "files")}
    text = as_json_text(next(iter(shown.values())) if len(shown) == 1 else dict(shown)) if shown else ""
    return cut_to(_LONGEST, text)


def _plain(node_type: str) -> str:
    return node_type.replace("_", "-")
