"""A step that repeats steps until a condition says stop: passes, each beginning where the last one ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import Definition
from autoprompt.workflow.engine.errors import FATAL, IterationError, NodeError, WorkflowDefinitionError
from autoprompt.workflow.engine.graph import Passes, run_inner
from autoprompt.workflow.python.base import (
    CONTEXT,
    ITERATION_COUNT,
    NEXT,
    BaseNode,
    StartNode,
    WorkflowContext,
    sequence_definition,
)

CollectionMode = Literal["replace", "append", "merge"]
OnConditionError = Literal["fail", "stop"]

COMPLETED = "_iterations_completed"


class IterativeWorkflowNode(BaseNode):
    """Runs `nodes` again and again while `condition_function` says so, at most `max_iterations` times.

    condition_function: asked before every pass, the first included, with the variables of the finished pass
        (the inputs before the first) and `_iteration_count`, the passes finished so far.
    input_mapping: {variable outside: variable inside}, before the first pass.
    iteration_mapping: {variable of a pass: variable of the next}. A pass begins with these and the inputs.
    output_mapping: {variable inside: variable outside}, out of the last finished pass.
    result_variable: where the collected results go. A pass contributes its variable of this name; if no inner
        node writes one, the first one of `output_mapping`.
    result_collection_mode: "replace": the last result; "append": a list of all; "merge": the union of dicts,
        later keys win. A value that is no dict is appended, with a warning: the result is then a list of the
        union, if there is one, and these values.
    on_condition_error: "fail", or "stop" to end the passes as if the condition had said no, with a warning.
    `_iterations_completed` tells how many passes there were. Without any, outputs are absent, and `append`
    gives an empty list. A pass that fails is an IterationError (a RuntimeError) with the results so far.
    """

    node_type: ClassVar[str] = "iterative-workflow"

    def __init__(
        self,
        node_id: str,
        node_name: str,
        nodes: Sequence[BaseNode],
        condition_function: Callable[[WorkflowContext], bool],
        max_iterations: int = 10,
        input_mapping: Mapping[str, str] | None = None,
        output_mapping: Mapping[str, str] | None = None,
        iteration_mapping: Mapping[str, str] | None = None,
        result_collection_mode: CollectionMode = "replace",
        result_variable: str | None = None,
        next_node_id: str | None = None,
        on_condition_error: OnConditionError = "fail",
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        self.condition_function = condition_function
        self.max_iterations = max_iterations
        self.input_mapping = dict(input_mapping or {})
        self.output_mapping = dict(output_mapping or {})
        self.iteration_mapping = dict(iteration_mapping or {})
        self.result_collection_mode: CollectionMode = result_collection_mode
        self.result_variable = result_variable
        self.on_condition_error: OnConditionError = on_condition_error
        self.nodes = tuple(nodes)
        if not self.nodes:
            raise WorkflowDefinitionError(f"{self} needs at least one node")
        self._inner = sequence_definition(self.nodes, name=node_id)
        self._check()

    @property
    def inner(self) -> Definition:
        return self._inner

    @property
    def output_names(self) -> tuple[str, ...]:
        collected = () if self.result_variable is None else (self.result_variable,)
        return (*self.output_mapping.values(), *collected, COMPLETED)

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        return _Passes(self, self.working_context(), context).run()

    def _check(self) -> None:
        if isinstance(self.max_iterations, bool) or not isinstance(self.max_iterations, int):
            raise WorkflowDefinitionError(
                f"{self}: max_iterations is {self.max_iterations!r}, not a whole number"
            )
        if self.max_iterations < 0:
            raise WorkflowDefinitionError(f"{self}: max_iterations is {self.max_iterations}, below 0")
        if not callable(self.condition_function):
            raise WorkflowDefinitionError(f"{self}: condition_function is not a function")
        _check_word(self, "result_collection_mode", self.result_collection_mode, get_args(CollectionMode))
        _check_word(self, "on_condition_error", self.on_condition_error, get_args(OnConditionError))
        mode = self.result_collection_mode
        if self.result_variable is None and mode != "replace":
            raise WorkflowDefinitionError(f"{self}: result_collection_mode {mode!r} needs a result_variable")
        if self.result_variable is not None and not self._may_contribute(self.result_variable):
            raise WorkflowDefinitionError(
                f"{self}: no node inside writes {self.result_variable!r}, and there is no output_mapping to "
                "take the results from. Name a variable that a node writes, or give an output_mapping."
            )

    def _may_contribute(self, name: str) -> bool:
        names = [node.output_names for node in self.nodes]
        return bool(self.output_mapping) or any(known is None or name in known for known in names)


def _merged(results: Sequence[Any]) -> Any:
    """Return the union of dicts; where some results are no dicts, a list of the union and these, in order."""
    dicts = [result for result in results if isinstance(result, Mapping)]
    union = {name: value for result in dicts for name, value in result.items()}
    others = [result for result in results if not isinstance(result, Mapping)]
    return union if not others else [*([union] if dicts else []), *others]


def _check_word(node: BaseNode, what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise WorkflowDefinitionError(f"{node}: {what} is {value!r}. Known: {', '.join(known)}.")


@dataclass
class _Passes:
    """The passes of one execution. All of their state is here, and gone with it."""

    node: IterativeWorkflowNode
    at_work: NodeContext
    outside: WorkflowContext
    inputs: WorkflowContext = field(default_factory=dict)
    variables: WorkflowContext = field(default_factory=dict)  # what the condition sees
    results: list[Any] = field(default_factory=list)
    passes: Passes = field(init=False)

    def __post_init__(self) -> None:
        self.passes = Passes(self.at_work)
        self.passes.results = self.results

    @property
    def count(self) -> int:
        """How many passes are finished."""
        return self.passes.count

    def run(self) -> WorkflowContext:
        node = self.node
        if not isinstance(node.nodes[0], StartNode):
            self.at_work.warn(
                f"the first node inside is {node.nodes[0].node_id!r}, no StartNode, so nothing says which "
                "variables a pass needs. Put a StartNode before it."
            )
        self.inputs = self._mapped(node.input_mapping, self.outside, "input")
        self.variables = given = self.inputs
        with self.passes.reporting(dict(self.inputs), {"max_iterations": node.max_iterations}) as outputs:
            while self.count < node.max_iterations:
                done = self.passes.kept(self._part)
                if done is None:
                    if not self._goes_on():
                        break
                    done = self._pass(given)
                self._take(done, given)
                carried = self._mapped(node.iteration_mapping, self.variables, "iteration")
                given = {**self.inputs, **carried}
            updated = self._updated()
            outputs |= {name: updated[name] for name in node.output_names if name in updated}
        return updated

    @property
    def _part(self) -> str:
        return f"{self.node.node_id}/pass/{self.count}"

    def _goes_on(self) -> bool:
        try:
            return bool(self.node.condition_function({**self.variables, ITERATION_COUNT: self.count}))
        except FATAL:
            raise
        except Exception as error:
            said = f"the condition failed before pass {self.count + 1}: {type(error).__name__}: {error}"
            if self.node.on_condition_error == "stop":
                self.at_work.warn(f"{said}; the passes end here")
                return False
            raise self._error(f": {said}", error) from error

    def _pass(self, given: WorkflowContext) -> dict[str, Any]:
        """Return one pass; kept of it is what its nodes have written: the rest is what it began with."""
        number = self.count + 1
        self.passes.begin(self.count)
        values = {CONTEXT: {**given, ITERATION_COUNT: self.count}}
        path = f"{self.at_work.path}/{self.node.node_id}" if self._is_guest else self.at_work.path
        try:
            inner = run_inner(self.at_work, self.node.inner, values, self.count, path=path, sees_outer=False)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001  what any node may raise; raised again with its pass
            said = error if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
            raise self._error(f" failed at iteration {number}: {said}", error) from (error.__cause__ or error)
        written = inner.writes.get(CONTEXT, {})
        done = {"written": written, "exceptions": inner.exceptions}
        kept: dict[str, Any] = self.at_work.finish(self._part, done)
        return kept

    @property
    def _is_guest(self) -> bool:
        """Called by another node's `execute`, whose place in the run it shares."""
        return self.at_work.node.id != self.node.node_id

    def _take(self, done: Mapping[str, Any], given: WorkflowContext) -> None:
        """Make the finished pass the last one. given: what it began with."""
        finished = {**given, **done["written"]}
        self.variables = {k: v for k, v in finished.items() if k != ITERATION_COUNT}
        self.passes.count += 1
        if self.node.result_variable is not None:
            self.results.append(self._contribution(self.node.result_variable, done["written"]))
        else:  # for the error of a later pass
            mapping, variables = self.node.output_mapping, self.variables
            self.results.append({out: variables[name] for name, out in mapping.items() if name in variables})

    def _contribution(self, name: str, written: Collection[str]) -> Any:
        declared = [n for node in self.node.nodes for n in node.output_names or ()]
        if name not in written and name not in declared and self.node.output_mapping:
            name = next(iter(self.node.output_mapping))
        if name not in self.variables:
            known = ", ".join(self.variables)
            raise self._error(f": pass {self.count} has no variable {name!r} to collect. It has: {known}.")
        value = self.variables[name]
        if self.node.result_collection_mode == "merge" and not isinstance(value, Mapping):
            self.at_work.warn(
                f"pass {self.count} contributes {type(value).__name__} as {name!r}, which is not a dict: it "
                "is appended, and the result is a list. For a dict, use LLMNode(output_format='json')."
            )
        return value

    def _updated(self) -> WorkflowContext:
        """Return the context outside, with what comes out."""
        node = self.node
        updated = dict(self.outside)
        if self.count:
            updated |= self._mapped(node.output_mapping, self.variables, "output")
        if node.result_variable is not None:
            if node.result_collection_mode == "append":
                updated[node.result_variable] = list(self.results)
            elif node.result_collection_mode == "merge" and self.results:
                updated[node.result_variable] = _merged(self.results)
            elif self.results:
                updated[node.result_variable] = self.results[-1]
        updated[COMPLETED] = self.count
        if node.next_node_id is not None:
            updated[NEXT] = node.next_node_id
        return updated

    def _mapped(self, mapping: Mapping[str, str], source: WorkflowContext, what: str) -> WorkflowContext:
        for name in mapping:
            if name not in source:
                self.at_work.warn(f"{what} variable {name!r} has no value")
        return {target: source[name] for name, target in mapping.items() if name in source}

    def _error(self, said: str, cause: Exception | None = None) -> IterationError:
        """said: what comes right after the node's name."""
        error = IterationError(
            f"IterativeWorkflowNode '{self.node.node_id}'{said}",
            node_id=self.node.node_id,
            iteration=self.count + 1,
            results=self.results,
            completed=self.count,
        )
        error.exit_code = getattr(cause, "exit_code", IterationError.exit_code)
        return error
