"""A run of a workflow: started, streamed, stopped by Ctrl-C, kept in a folder, resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pprint import pformat
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel

from autoprompt.errors import ConfigError, Interrupted, Place, Problem, StoreError
from autoprompt.llm.client import Client
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.traits import KnownTraits
from autoprompt.measure.rows import GRACE_S
from autoprompt.runs import RunFolder, resuming
from autoprompt.runs.spending import from_journal, total_cost
from autoprompt.settings.records import ModelSettings
from autoprompt.text.files import plain_json, read_text
from autoprompt.text.names import counted
from autoprompt.workflow.engine.context import RunContext, Stop, Turn
from autoprompt.workflow.engine.definition import Definition
from autoprompt.workflow.engine.errors import WorkflowDefinitionError
from autoprompt.workflow.engine.events import (
    Event,
    GraphRunFailed,
    GraphRunPartialSucceeded,
    GraphRunStarted,
    GraphRunSucceeded,
    WorkflowWarning,
)
from autoprompt.workflow.engine.executions import Executions, open_executions, read, written
from autoprompt.workflow.engine.mocks import stand_ins
from autoprompt.workflow.engine.models import ModelSource, NamedModels, OneModel
from autoprompt.workflow.engine.variables import VariablePool

if TYPE_CHECKING:
    from autoprompt.sandbox import Limits

KIND = "workflow"
_INPUTS = "workflow_inputs.json"  # in a run's folder
# The command line takes the others for Ctrl-C, too; not every system has all of them.
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run. All of them have defaults.

    client: asked by every node, whatever model it names. models: `model` and `base_url` in it go before what
    nodes name; the rest (timeout, rates, prices) holds for all. components: texts instead of the workflow's
    own, by name. demonstrations: node id -> (input, answer) of each that its model is shown before its own
    input, instead of those in the file. mocks: node id -> `Mock` or its fields, over those of the file.
    budget, cache: shared with others; default: no caps, no cache.
    allow_private_hosts: `HOST` or `HOST:PORT` that http-request nodes and HTTP tools may ask although its
    address is of this machine or a private network. No file sets it: a model may have written the URL.
    max_concurrency: requests, calls of tools, pieces of code and items of an iteration at once; default: no
    bound.
    max_steps: of a workflow whose nodes name the next one, so that a circle ends.
    stopping: once it is set, from whichever thread, no further node begins, and the run ends as by Ctrl-C.
    """

    client: Client | None = None
    models: ModelSettings = field(default_factory=ModelSettings)
    components: Mapping[str, str] = field(default_factory=dict)
    demonstrations: Mapping[str, Sequence[Turn]] = field(default_factory=dict)
    mocks: Mapping[str, Any] = field(default_factory=dict)
    budget: BudgetMeter | None = None
    cache: ResponseCache | None = None
    sandbox: Literal["auto", "strict", "none"] = "auto"
    limits: Limits | None = None
    allow_private_hosts: Sequence[str] = ()
    max_concurrency: int | None = None
    max_steps: int = 1000
    stopping: threading.Event | None = None


def stream_run(
    definition: Definition,
    inputs: Mapping[str, Any],
    settings: RunSettings,
    folder: RunFolder | None = None,
    *,
    resumed: bool = False,
) -> Iterator[Event]:
    """Yield the events of a run; the last is GraphRunSucceeded, GraphRunPartialSucceeded or GraphRunFailed.

    Args:
        folder: Where the run is kept. No other process can work on it until the run ends.
        resumed: Whether to continue from the last checkpoint.

    Raises:
        StoreError: Another process holds the folder.
        Interrupted: Ctrl-C was pressed. Any other failure is the event GraphRunFailed.
    """
    finished = folder.read_result() if resumed and folder is not None else None
    if finished is not None:  # nothing is written: the disk may be read-only
        yield GraphRunStarted(
            workflow=definition.name,
            run_id=folder.run_id if folder is not None else None,
            resumed=True,
            inputs=dict(inputs),
        )
        yield _ending(finished["outputs"], finished["exceptions_count"])
        return
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.work())
        keep = _keeping(folder, stack)
        run_id = folder.run_id if folder is not None else None
        yield keep(
            GraphRunStarted(workflow=definition.name, run_id=run_id, resumed=resumed, inputs=dict(inputs))
        )
        if resumed and folder is not None:
            yield from map(keep, _edit_warnings(definition, folder))
        try:
            ending = yield from _events(definition, inputs, settings, folder, keep, resumed=resumed)
        except (KeyboardInterrupt, Interrupted):
            raise interrupted(folder) from None
        except Exception as error:  # noqa: BLE001  it is the run's last event; `Workflow.run` raises it
            ending = GraphRunFailed(error=str(error), error_type=type(error).__name__, cause=error)
        keep(ending)
    yield ending  # when the run is free again: a reader may stop here


def interrupted(folder: RunFolder | None) -> Interrupted:
    """Return the error of a stopped run, which says how to resume it: by a command, if it is of a file."""
    if folder is None:
        return Interrupted("interrupted")
    if folder.read_config().get("workflow_file"):
        return resuming.interrupted(folder)
    again = f"resume({folder.run_id!r}, runs_dir={str(folder.path.parent)!r})"
    return Interrupted(f"interrupted; the state is saved. Resume it with the workflow's {again}")


def _keeping(folder: RunFolder | None, stack: ExitStack) -> Callable[[Event], Event]:
    """Write an event into the run's log and give it back."""
    if folder is None:
        return lambda event: event
    append = stack.enter_context(folder.event_log())

    def keep(event: Event) -> Event:
        record = event.to_dict()
        try:
            append(record)
        except (TypeError, ValueError):  # an input or a prompt that is no JSON: shown as text
            append(plain_json(record))
        return event

    return keep


def _events(
    definition: Definition,
    inputs: Mapping[str, Any],
    settings: RunSettings,
    folder: RunFolder | None,
    keep: Callable[[Event], Event],
    *,
    resumed: bool,
) -> Generator[Event, None, Event]:
    """Yield the events of the nodes, return the last one of the run."""
    with _opened(definition, inputs, settings, folder, resumed=resumed) as run:
        outputs, exceptions = yield from _graph_events(
            definition, inputs, settings, folder, run, keep, resumed=resumed
        )
        for problem in run.models.warnings():
            yield keep(WorkflowWarning(message=str(problem)))
        if folder is not None and run.executions is not None:
            result = {"outputs": outputs, "exceptions_count": exceptions, **_used(folder)}
            folder.write_result(plain_json(result))
            run.executions.forget_parts()
    return _ending(outputs, exceptions)


def _used(folder: RunFolder) -> dict[str, Any]:
    """`tokens` and `cost_usd` of all answers, each once; the cost is None where a price is unknown."""
    spending = from_journal(folder.journal_path)
    tokens = sum(part.usage.total_tokens for part in spending)
    return {"tokens": tokens, "cost_usd": total_cost(spending)}


def _ending(outputs: Mapping[str, Any], exceptions: int) -> Event:
    if exceptions:
        return GraphRunPartialSucceeded(outputs=outputs, exceptions_count=exceptions)
    return GraphRunSucceeded(outputs=outputs)


@contextmanager
def _opened(
    definition: Definition,
    inputs: Mapping[str, Any],
    settings: RunSettings,
    folder: RunFolder | None,
    *,
    resumed: bool,
) -> Iterator[RunContext]:
    """Yield the context of a run, with models, journal and tables open inside the block.

    What a resumed run has used counts: finished nodes do not ask again, so no replay would count it.
    """
    mocks = stand_ins(definition, settings.mocks, inputs)
    with ExitStack() as stack:
        journal: Journal | None = None
        budget = settings.budget or BudgetMeter()
        executions: Executions | None = None
        if folder is not None:
            journal = stack.enter_context(Journal(folder.journal_path))
            if resumed:
                # One that has counted already is of the process that began the run.
                if not budget.spent.calls:
                    journal.count_all(budget)
                journal.mark_counted(journal.position)
            executions = stack.enter_context(open_executions(folder.checkpoints_path, folder.run_id))
            executions.mark_interrupted()
        known = KnownTraits(None if folder is None else folder.traits_path)
        models = _models(settings, budget, journal, known, most_at_once(definition))
        stack.callback(models.close)
        yield RunContext(
            models=models,
            journal=journal,
            run_id=folder.run_id if folder is not None else None,
            nodes={node.id: node for node in definition.all_nodes()},
            mocks=mocks,
            components=settings.components,
            demonstrations=settings.demonstrations,
            sandbox=settings.sandbox,
            limits=settings.limits,
            allow_private_hosts=settings.allow_private_hosts,
            max_concurrency=settings.max_concurrency,
            turns=_turns(settings.max_concurrency),
            executions=executions,
            stopping=Stop(settings.stopping),
        )


def _turns(most: int | None) -> AbstractContextManager[Any]:
    if most is None:
        return nullcontext()
    if most < 1:
        raise ConfigError(f"max_concurrency is {most}, expected 1 or more, or None for no bound")
    return threading.Semaphore(most)


def _models(
    settings: RunSettings, budget: BudgetMeter, journal: Journal | None, known: KnownTraits, at_once: int
) -> ModelSource:
    """at_once: requests that the workflow may send side by side, where the settings do not say."""
    if settings.client is not None:
        return OneModel(settings.client, journal)
    return NamedModels(
        settings.models, budget=budget, journal=journal, cache=settings.cache, known=known, at_once=at_once
    )


def most_at_once(definition: Definition) -> int:
    """Return how many of its nodes may be at work side by side, as its iterations say."""
    found = 1
    for node in definition.nodes:
        if node.inner is not None:
            own = node.data.parallel_nums if getattr(node.data, "is_parallel", False) else 1
            found = max(found, own * most_at_once(node.inner))
    return found


def _graph_events(
    definition: Definition,
    inputs: Mapping[str, Any],
    settings: RunSettings,
    folder: RunFolder | None,
    run: RunContext,
    keep: Callable[[Event], Event],
    *,
    resumed: bool,
) -> Generator[Event, None, tuple[dict[str, Any], int]]:
    """Yield the events of the nodes; return (outputs, failures that strategies took up)."""
    # LangGraph takes a second to import: not before everything that can be refused has been.
    values = None if resumed else definition.start(inputs, run.mocks)
    from langchain_core.runnables import RunnableConfig
    from langgraph.errors import GraphRecursionError

    from autoprompt.runs.session import open_checkpointer
    from autoprompt.workflow.engine.graph import (
        compile_graph,
        first_state,
        graph_without_checkpoints,
        recursion_limit,
        threads,
    )

    config = RunnableConfig(recursion_limit=recursion_limit(definition, settings.max_steps))
    if settings.max_concurrency is not None:
        config["max_concurrency"] = threads(definition)
    with ExitStack() as stack:
        durability: Literal["sync"] | None = None
        state: Any
        final: Mapping[str, Any]
        if folder is None:
            graph = graph_without_checkpoints(definition)
        else:
            checkpointer = stack.enter_context(open_checkpointer(folder.checkpoints_path, folder.check_files))
            config["configurable"] = {"thread_id": folder.run_id}
            durability = "sync"
            graph = compile_graph(definition, checkpointer)
        saved = graph.get_state(config).values if resumed else None
        if saved:
            state, final = None, saved
        else:  # new, or killed before its first checkpoint
            state = first_state(definition.start(inputs, run.mocks) if values is None else values)
            final = state
        try:
            modes: list[Any] = ["custom", "values"]
            stream = graph.stream(state, config, context=run, stream_mode=modes, durability=durability)
            stack.enter_context(stoppable(run))
            # Ended before the checkpoints are closed: LangGraph's threads write to them to the last.
            stack.enter_context(closing(cast("Generator[Any]", stream)))
            stack.callback(run.stopping.set)  # before that: who has read enough waits for no more nodes
            stack.enter_context(run.stopping.telling_cause())
            part: Any
            for mode, part in stream:
                if mode == "custom":
                    yield keep(part)
                else:
                    final = part
        except GraphRecursionError:
            raise WorkflowDefinitionError(
                f"{definition.name}: no end after {counted(settings.max_steps, 'step')}. Check next_node_id "
                "for a loop, or allow more with RunSettings(max_steps=...)."
            ) from None
    return definition.result(VariablePool(final["_pool"]), final["_ran"]), final["_exceptions"]


def structure(definition: Definition) -> list[str]:
    """Return what must not change before a run is resumed: the nodes and how they are joined."""
    nodes = [f"{node.id} ({node.type})" for node in definition.all_nodes()]
    edges = [f"{edge.source} -> {edge.target} ({edge.handle})" for edge in definition.edges or ()]
    return nodes + edges


def contents(definition: Definition) -> dict[str, str]:
    """Return node id -> digest of what its file says, which may be edited while a run waits."""
    # Not as JSON: YAML knows keys, sets and halves of surrogate pairs that JSON does not.
    said = {
        n.id: pformat(n.data.model_dump()) for n in definition.all_nodes() if isinstance(n.data, BaseModel)
    }
    return {node_id: sha256(text.encode()).hexdigest()[:16] for node_id, text in said.items()}


def _edit_warnings(definition: Definition, folder: RunFolder) -> Iterator[WorkflowWarning]:
    """Yield one for each node that says something else than when the run began."""
    known = folder.read_config().get("contents") or {}
    for node_id, digest in contents(definition).items():
        if known.get(node_id, digest) != digest:
            yield WorkflowWarning(
                message="edited since this run began; its finished results stay. To run all of it as "
                "edited, start a new run.",
                node_id=node_id,
            )


def check_structure(definition: Definition, folder: RunFolder) -> dict[str, Any]:
    """Return the settings that the run was started with.

    Raises:
        StoreError: The run is not of a workflow, or the workflow has other nodes or edges than before.
    """
    kind = folder.read_info().get("kind")
    config = folder.read_config()
    if kind != KIND:
        raise StoreError(f"run {folder.run_id} is a run of `{kind}`, not of a workflow.")
    known, found = config["structure"], structure(definition)
    if known != found:
        odd = [line for line in found if line not in known] + [line for line in known if line not in found]
        raise StoreError(
            f"run {folder.run_id} cannot be resumed: the workflow has other nodes or edges than before "
            f"({', '.join(odd[:5]) or 'in another order'}). Put the old ones back, or start a new run."
        )
    return config


def keep_inputs(folder: RunFolder, inputs: Mapping[str, Any]) -> None:
    """Write down what the run begins with, to the letter; config.yaml leaves out what looks like a secret."""
    folder.write_text(_INPUTS, written(inputs, "inputs"))


def kept_inputs(folder: RunFolder) -> dict[str, Any]:
    """Return what `keep_inputs` wrote.

    Raises:
        StoreError: The run was stopped before its inputs were written.
    """
    path = folder.path / _INPUTS
    if not path.exists():
        said = "the run was cut off before its inputs were written"
        raise StoreError(Problem("run.no-inputs", said, Place(path), "Start a new run."))
    return dict(read(read_text(path)))


@contextmanager
def stoppable(run: RunContext) -> Iterator[None]:
    """Let no further node begin once Ctrl-C is pressed in the block. Requests on their way have `GRACE_S`.

    LangGraph hands an interrupt on when the nodes at work have ended, and an iteration over a thousand items
    is one node: it went on to its last request. Nothing is changed outside of the main thread, or if another
    handler has the signal.
    """
    taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.default_int_handler]
    if threading.current_thread() is not threading.main_thread() or not taken:
        yield
        return
    hanging_up: list[threading.Timer] = []

    def stop(number: int, frame: FrameType | None) -> None:
        run.stopping.set()
        if not hanging_up:
            hanging_up.append(threading.Timer(GRACE_S, run.models.close))
            hanging_up[0].daemon = True
            hanging_up[0].start()
        signal.default_int_handler(number, frame)

    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.default_int_handler)
        for timer in hanging_up:
            timer.cancel()
