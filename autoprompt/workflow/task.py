"""A workflow's file as what is optimized: its prompts, scored output, locks and calls, and the best file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from autoprompt.dataset.faults import file_place
from autoprompt.errors import ConfigError, InputError, Place, Problem, PromptError, StoreError
from autoprompt.llm.client import Client
from autoprompt.llm.endpoints import model_without_address
from autoprompt.measure.task import Component, ComponentKind
from autoprompt.metrics import Metric
from autoprompt.records import Candidate, Example
from autoprompt.runs import RunFolder
from autoprompt.settings.records import RunConfig
from autoprompt.settings.yaml_file import parse_yaml
from autoprompt.text.files import read_text, sha256_of, to_json
from autoprompt.text.names import counted
from autoprompt.workflow.engine.definition import LLM_TYPES, Definition, GraphNode, Mock
from autoprompt.workflow.engine.errors import WorkflowDefinitionError
from autoprompt.workflow.engine.mocks import outputs_in, read_mocks, stray_names
from autoprompt.workflow.engine.models import ModelSpec
from autoprompt.workflow.engine.tools import tool_named
from autoprompt.workflow.file.records import StartVariable
from autoprompt.workflow.file.rewrite import rewritten
from autoprompt.workflow.file.validation import MISSING_TOOL
from autoprompt.workflow.flow_run import read_mocks_file
from autoprompt.workflow.program import WorkflowProgram, forms, node_of, only_text, turns_of, with_texts
from autoprompt.workflow.rows import (
    check_given,
    check_rows,
    find_one_input,
    missing_mocks,
    reads_query,
    row_inputs,
    start_variables,
    surely_run,
)
from autoprompt.workflow.workflow import Workflow

ORIGINAL, BEST, MOCKS = "original_workflow.yaml", "best_workflow.yaml", "mocks.json"  # in a run's folder
ITEMS = 4  # guessed of an iteration, whose items only a run knows: an estimate of calls, not a bound
_USUAL = ("text", "answer", "class_name", "output", "result")  # of a workflow without an `end`


@dataclass(frozen=True)
class WorkflowTask:
    """A workflow's file as what is optimized.

    source: the file's text. mocks: of the run, by node.
    one_input: the start variable that gets the row's input where no field has its
        name; known once the task is fitted to rows.
    """

    config: RunConfig
    path: Path
    source: str
    workflow: Workflow
    target_output: str
    mocks: Mapping[str, Mock] = field(default_factory=dict)
    one_input: StartVariable | None = None

    @cached_property
    def texts(self) -> dict[str, str]:
        return dict(self.workflow.components)

    @cached_property
    def locked(self) -> frozenset[str]:
        return frozenset(self.workflow.locked) | (frozenset(self.config.locked) & self.texts.keys())

    @property
    def components(self) -> tuple[Component, ...]:
        return tuple(
            Component(name, _kind(name), text, name in self.locked) for name, text in self.texts.items()
        )

    @property
    def shown(self) -> tuple[str, ...]:
        nodes = self.workflow.definition.all_nodes()
        return tuple(turn.user for node in nodes for turn in getattr(node.data, "shown", ()))

    @property
    def input_fields(self) -> tuple[str, ...]:
        """Names of the workflow's inputs, in the order of the file; the question of a chat first."""
        names = [variable.variable for variable in start_variables(self.workflow.definition)]
        is_asked = reads_query(self.workflow.definition) and "query" not in names
        return ("query", *names) if is_asked else tuple(names)

    @property
    def digest(self) -> str:
        return sha256_of(self.source + self._mocks_text)

    @property
    def _mocks_text(self) -> str:
        mocks = {name: mock.model_dump(mode="json") for name, mock in self.mocks.items()}
        return to_json(mocks) if mocks else ""

    def fitted(self, rows: Sequence[Example]) -> WorkflowTask:
        definition, config = self.workflow.definition, self.config
        one_input = find_one_input(definition, rows, config.input_field, config.target_field)
        mocks = {**definition.mocks, **self.mocks}
        check_given(definition, rows, mocks, self._own_fields, self.path)
        self._check_stand_ins(rows, mocks)
        check_rows(definition, rows, one_input, config, mocks, self.path)
        return replace(self, one_input=one_input)

    def warnings(self, rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
        """Return what the file's own check warns of, and what differs from a run of it by itself."""
        fields = [row.fields for listed in rows.values() for row in listed]
        shared = [name for name in fields[0] if all(name in others for others in fields)] if fields else []
        given = outputs_in(self.workflow.definition, dict.fromkeys(shared))
        faults = self.workflow.validate(self.mocks, given=given)
        of_file = [fault.problem for fault in faults if fault.severity == "warning"]
        of_rows = [one for file, listed in rows.items() for one in self._stray_fields(file, listed)]
        return [*of_file, *of_rows, *self._other_models(self.config.model or self.config.base_url)]

    def _check_stand_ins(self, rows: Sequence[Example], mocks: Mapping[str, Mock]) -> None:
        """Refuse rows that leave nodes of Dify without outputs, and show fields that may be meant."""
        missing = missing_mocks(self.workflow.definition, rows, mocks, self.path)
        if missing:
            file = next((row.path for row in rows if row.path is not None), self.path)
            raise WorkflowDefinitionError(*missing, *self._stray_fields(file, rows))

    @property
    def _own_fields(self) -> frozenset[str]:
        """Fields that the settings give a meaning of their own."""
        config = self.config
        return frozenset({config.input_field, config.target_field, config.group_field or config.input_field})

    def _stray_fields(self, file: Path, rows: Sequence[Example]) -> list[Problem]:
        names = dict.fromkeys(name for row in rows for name in row.fields if name not in self._own_fields)
        return [
            Problem(
                "workflow.stray-field", f"the field {stray.name} {stray.said}", file_place(file), stray.fix
            )
            for stray in stray_names(self.workflow.definition, names)
        ]

    def _other_models(self, model: str | None) -> list[Problem]:
        named = [getattr(node.data, "model", None) for node in self.workflow.definition.all_nodes()]
        others = {spec.name for spec in named if spec is not None and spec.name and not _is_same(spec, model)}
        if not others:
            return []
        said = f"the file names {', '.join(sorted(others))}, but every node asks {model} here"
        return [Problem("workflow.other-model", said, Place(self.path))]

    def _locks_of_nodes(self) -> list[Problem]:
        """Warn of passages that are also the name of a node with prompts, which they do not lock."""
        found = []
        for mark in self.config.locked:
            own = [name for name in self.texts if name.rpartition(".")[0] == mark]
            if own and mark not in self.texts:
                said = f"{mark!r} is read as a passage of the prompt, which every rewrite must keep"
                fix = f"To keep the prompts of the node {mark!r} as they are, give {{locked}}."
                place = Place(setting="locked")
                found.append(Problem("prompt.lock-of-a-node", said, place, fix, {"locked": own}))
        return found

    @property
    def calls_per_row(self) -> float:
        """Requests that a row takes, on average about, where loops, agents and iterations differ."""
        return max(1, _calls(self.workflow.definition))

    def file_with(self, candidate: Candidate) -> str:
        """Return the file with the candidate's texts and demonstrations in it; its layout and comments stay.

        Raises:
            InputError: The written file would not be the workflow that was measured.
        """
        return _file_with(self.source, self.path, self.texts, candidate)

    def check_search(self) -> list[Problem]:
        texts = self.texts
        others = {name: f"{text.strip()}\n({name})" for name, text in texts.items()}
        self.file_with(Candidate({n: texts[n] if n in self.locked else others[n] for n in others}))
        return [*self._locks_of_nodes(), *self._demonstrations_in_texts()]

    def _demonstrations_in_texts(self) -> list[Problem]:
        nodes = only_text(self.workflow.definition)
        if not nodes or self.config.max_demos == 0:
            return []
        names = ", ".join(node.id for node in nodes)
        said = f"demonstrations of {names} go into the prompt's text: chat turns cannot come before the input"
        others = ", ".join(node.id for node in nodes if node.holds_turns)
        fix = (
            f"For turns, give {others} the input as the user's message, and no variable in a system message."
        )
        return [Problem("workflow.demos-in-text", said, Place(self.path), fix if others else "")]

    def repeated_text(self, fields: Sequence[str]) -> str:
        return ""

    def write_original(self, folder: RunFolder, rows: Sequence[Example]) -> None:
        folder.write_text(ORIGINAL, self.source)
        if self.mocks:
            folder.write_text(MOCKS, self._mocks_text)

    def check_unchanged(self, folder: RunFolder) -> None:
        """Check that the file and the mocks are those that the run began with.

        Raises:
            StoreError: One of them has changed.
        """
        kept, mocks = folder.path / ORIGINAL, folder.path / MOCKS
        if kept.exists() and (read_text(mocks) if mocks.exists() else "") != self._mocks_text:
            said = f"run {folder.run_id} cannot be resumed: the mocks changed since it began"
            fix = f"Put the old ones back (they are kept in {mocks}), or start a new run."
            raise StoreError(Problem("workflow.mocks-changed", said, Place(self.config.mocks), fix))
        if kept.exists() and read_text(kept) != self.source:
            said = f"run {folder.run_id} cannot be resumed: this file has changed since it began"
            fix = f"Put the old file back (it is kept in {kept}), or start a new run."
            raise StoreError(Problem("workflow.changed", said, Place(self.path), fix))

    def check_writable(self, candidate: Candidate) -> None:
        self.file_with(candidate)

    def write_best(self, folder: RunFolder, best: Candidate) -> None:
        """Write the file with the best texts and demonstrations."""
        folder.write_text(BEST, self.file_with(best))

    def program(
        self,
        client: Client,
        metric: Metric,
        *,
        labels: tuple[str, ...],
        rows: Sequence[Example],
        folder: RunFolder | None = None,
    ) -> WorkflowProgram:
        return WorkflowProgram(
            self.workflow,
            client,
            self.target_output,
            self.one_input,
            labels,
            metric.read,
            self.config.input_field,
            self.config.target_field,
            self.config.allow_private_hosts,
            self.mocks,
            self._alike(rows),
        )

    def _alike(self, rows: Sequence[Example]) -> frozenset[str]:
        """Return the start variables that have one value in all rows, `node.variable`."""
        config = self.config
        given = [row_inputs(row, self.one_input, config.input_field, config.target_field) for row in rows]
        return frozenset(
            f"{node.id}.{variable.variable}"
            for node in self.workflow.definition.nodes
            for variable in (getattr(node.data, "variables", ()) if node.type == "start" else ())
            if len({repr(inputs.get(variable.variable)) for inputs in given}) == 1 < len(given)
        )


class WorkflowForm:
    """The file of a run's workflow, with the texts and demonstrations of one of its candidates.

    source: the file that was optimized. The suggested name is that of no other workflow beside it.
    """

    name = "workflow"
    endings = ("", ".yaml", ".yml")

    def __init__(self, source: Path) -> None:
        self.file_name = f"{source.stem}.best{source.suffix or '.yaml'}"

    def write(self, folder: RunFolder, candidate: Candidate) -> str:
        original = next(iter(folder.read_candidates().values()))
        path = folder.path / ORIGINAL
        source, components = read_text(path), original["components"]
        try:
            return _file_with(source, path, components, candidate)
        except WorkflowDefinitionError as error:  # with node types that were registered where it ran
            if not candidate.demos:
                return rewritten(source, components, candidate.components)
            said = f"cannot write the demonstrations, because this file cannot be read here: {error}"
            fix = f"Export it in a program that registers its node types, or take {BEST} of the run."
            raise StoreError(Problem("export.unread-source", said, Place(path), fix)) from error

    def notes(self, folder: RunFolder, candidate: Candidate) -> list[str]:
        """Say which demonstrations are in a node's text and are no turns of a chat."""
        try:
            known = forms(Workflow.load(folder.path / ORIGINAL).definition)
        except WorkflowDefinitionError:  # as in `write`
            return []
        nodes = [node_of(demo) for demo in candidate.demos]
        in_texts = {node: nodes.count(node) for node in nodes if known.get(node, "turns") != "turns"}
        return [
            f"{counted(number, 'demonstration')} of {node} {'is' if number == 1 else 'are'} in its text, as "
            "measured: no turns of a chat can stand before its input"
            for node, number in in_texts.items()
        ]


def _file_with(source: str, path: Path, components: Mapping[str, str], candidate: Candidate) -> str:
    """`source`, the file `path`, with the candidate in it, read again and compared with it."""
    known = forms(Workflow.load(parse_yaml(source.removeprefix("\ufeff"), path).data).definition)
    candidate = with_texts(candidate, known)
    shown = turns_of(candidate)
    text = rewritten(source, components, candidate.components, shown)
    if text == source:
        return text
    read = Workflow.load(parse_yaml(text.removeprefix("\ufeff"), path).data)
    wanted, found = {**components, **candidate.components}, read.components
    wrong = [name for name in wanted if found.get(name, "").strip() != wanted[name].strip()]
    wrong += [name for name in found if name not in wanted]
    nodes = {node.id: node for node in read.definition.all_nodes()}
    wrong += [node_id for node_id, turns in shown.items() if _shown_in(nodes.get(node_id)) != turns]
    if wrong:
        names = ", ".join(dict.fromkeys(wrong))
        raise InputError(
            f"{path}: written into this file, the prompts of {names} read back differently. "
            "Write these prompts out in the file, each as a text of its own."
        )
    return text


def _shown_in(node: GraphNode | None) -> list[tuple[str, str]]:
    written = () if node is None else getattr(node.data, "shown", ())
    return [(turn.user, turn.assistant) for turn in written]


def open_workflow(config: RunConfig, path: Path) -> WorkflowTask:
    """Open a workflow file by the settings of a run.

    `config.locked` holds names of components, or passages that are left to the check of rewrites.

    Raises:
        WorkflowDefinitionError: The file has faults, or every row needs a tool that is not registered.
        ConfigError: The workflow has no such output, or several and none is named.
        PromptError: There is no prompt, all are locked, or `locked` names neither a prompt nor a passage.
    """
    workflow = Workflow.load(path)
    definition = workflow.definition
    mocks = _read_mocks(definition, config.mocks)
    _check_tools(definition, mocks, path)
    if not workflow.components:
        said = "no node has a prompt, so there is nothing to optimize"
        raise PromptError(Problem("workflow.no-prompt", said, Place(path)))
    output = _target_output(definition, config.target_output, config.target_field, path)
    task = WorkflowTask(config, path, read_text(path), workflow, output, mocks)
    _check_locks(task)
    return task


def _kind(name: str) -> ComponentKind:
    """Of a component's name, `node.role`: what a user is to say is a template."""
    return "template" if name.rpartition(".")[2].startswith("user") else "instruction"


def _read_mocks(definition: Definition, file: Path | None) -> dict[str, Mock]:
    """Return the mocks of a file, checked against the nodes."""
    if file is None:
        return {}
    return read_mocks(read_mocks_file(file), {node.id: node for node in definition.all_nodes()})


def _check_tools(definition: Definition, mocks: Mapping[str, Mock], path: Path) -> None:
    """Refuse a tool that is missing where every row comes to it and nothing copes with its failure.

    Other tools give a warning: on a branch, in a container, or behind an error strategy.
    """
    certain = surely_run(definition)
    for node in definition.nodes:
        if (
            node.id not in certain
            or node.id in {**definition.mocks, **mocks}
            or node.error_strategy is not None
        ):
            continue
        for name in getattr(node.data, "tool_names", ()):
            try:
                tool_named(name, getattr(node.data, "http_tools", {}))
            except WorkflowDefinitionError as error:
                said, settings = f"node {node.id!r}: {error}", {"tools": "<FILE>"}
                problem = Problem("workflow.no-tool", said, Place(path), MISSING_TOOL, settings)
                raise WorkflowDefinitionError(problem) from error


def _check_locks(task: WorkflowTask) -> None:
    for mark in task.config.locked:
        if mark not in task.texts and not any(mark in text for text in task.texts.values()):
            said = f"{mark!r} is neither a component of {task.path} nor in one of its prompts"
            fix = f"Components: {', '.join(task.texts)}."
            raise PromptError(Problem("workflow.lock", said, Place(setting="locked"), fix))
    if task.locked >= task.texts.keys():
        said = "every prompt is locked, so there is nothing to optimize"
        raise PromptError(Problem("workflow.lock", said, Place(task.path), "Leave one unlocked."))


def _target_output(definition: Definition, wanted: str | None, target_field: str, path: Path) -> str:
    known = output_names(definition)
    if wanted is not None:
        if known and wanted not in known:
            said = f"{path} has no output {wanted!r}; it has {', '.join(known)}"
            raise ConfigError(
                Problem("workflow.no-output", said, Place(setting="target_output"), "Name one of them.")
            )
        return wanted
    usual = [name for name in _USUAL if name in known] if not _ends(definition) else []
    chosen = known if len(known) == 1 else [name for name in known if name == target_field] or usual[:1]
    if not chosen:
        names = ", ".join(known) or "names that only a run can tell"
        said = f"the workflow has several outputs ({names})"
        fix = f"Name the output to compare with the rows' {target_field!r}: {{target_output}}."
        settings = {"target_output": "<NAME>"}
        raise ConfigError(Problem("workflow.several-outputs", said, Place(path), fix, settings))
    return chosen[0]


def output_names(definition: Definition) -> list[str]:
    """Return the names of a workflow's outputs; of one without `end` and `answer`, those of its last node."""
    ends = _ends(definition)
    if not ends:
        from autoprompt.workflow.file.variables import outputs

        return sorted(outputs(definition.nodes[-1].data) or ())
    named = [output.variable for node in ends for output in getattr(node.data, "outputs", ())]
    answers = ["answer"] if any(node.type == "answer" for node in ends) else []
    return list(dict.fromkeys([*named, *answers]))


def _ends(definition: Definition) -> list[GraphNode]:
    return [node for node in definition.nodes if node.type in ("end", "answer")]


def _calls(definition: Definition) -> float:
    total: float = 0
    for node in definition.nodes:
        total += sum(_calls(Definition((child.node,))) for child in node.children)
        if node.type in LLM_TYPES:
            total += _rounds(node.data) if node.type == "agent" else 1
        if node.inner is not None:
            total += _calls(node.inner) * _passes(node.type, node.data)
    return total


def _rounds(data: Any) -> float:
    """Of an agent, which may answer at once or take all of its rounds: the middle between the two."""
    return (1 + int(getattr(data, "max_iterations", 1))) / 2


def _passes(kind: str, data: Any) -> float:
    if kind != "loop":
        return ITEMS
    most = int(getattr(data, "loop_count", 1))
    can_end_early = getattr(data, "break_conditions", None) or getattr(data, "break_expression", None)
    return (1 + most) / 2 if can_end_early else most


def _is_same(spec: ModelSpec, model: str | None) -> bool:
    """Return whether a node names the model that is asked; the embedded ones count as one."""
    if model_without_address(spec.provider, spec.name) is None:
        return spec.name == model
    return model is None or model_without_address("", model) is not None
