"""`iteration`: the same steps for each item of a list, one after the other or several at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from autoprompt.measure.rows import in_threads
from autoprompt.text.names import counted
from autoprompt.workflow.engine.context import NodeContext, Stop
from autoprompt.workflow.engine.definition import Definition, NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import NodeError
from autoprompt.workflow.engine.events import (
    IterationFailed,
    IterationNext,
    IterationStarted,
    IterationSucceeded,
)
from autoprompt.workflow.engine.inner import apply_writes, inner_answer, inner_output, run_inner
from autoprompt.workflow.engine.variables import MISSING, Room, check_size
from autoprompt.workflow.file.records import IterationData


@dataclass(frozen=True)
class _Done:
    """What one item has left. error: why it has not, where the node goes on over failures.

    exceptions: failures inside of it that error strategies have taken up.
    """

    output: Any = None
    answer: str = ""
    writes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    error: str | None = None
    exceptions: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "answer": self.answer,
            "writes": self.writes,
            "error": self.error,
            "exceptions": self.exceptions,
        }


class Iteration(NodeTypeBase):
    """Inside, `{{#node.item#}}` and `{{#node.index#}}` are the item and its place.

    Results are in the order of the items, whatever came first. An item that is done is written down, so that
    a run that was killed does not do it again. One that failed among several at once is tried again by a
    resumed run; where they come one after the other it stays failed.
    """

    data_model = IterationData

    def execute(self, data: IterationData, context: NodeContext) -> NodeResult:
        items = _items(data, context)
        inner = context.node.inner
        if inner is None:
            raise ValueError("there are no nodes inside of this iteration")
        inputs = {"iterator_selector": items}
        context.emit(
            context.event(
                IterationStarted,
                start_at=datetime.now(UTC),
                inputs=inputs,
                metadata={"iteration_length": len(items), "parallel": _at_once(data, context)},
            )
        )
        done: list[_Done] = [_Done()] * len(items)
        finished, room = 0, Room()
        try:
            with closing(_each(data, context, inner, items)) as each:
                for number, item in each:
                    room.take(check_size([item.output, item.answer]))
                    done[number] = item
                    finished += 1
        except NodeError as error:
            context.emit(context.event(IterationFailed, steps=finished, error=str(error)))
            raise
        if min(_at_once(data, context), len(items)) > 1:
            _warn_of_lost(context, done)
        for item in done:
            apply_writes(context, item.writes)
        outputs = _outputs(data, done)
        failed = [{"index": n, "error": item.error} for n, item in enumerate(done) if item.error is not None]
        if failed:
            context.warn(f"{len(failed)} of {counted(len(items), 'item')} failed")
        context.emit(context.event(IterationSucceeded, steps=len(items), outputs=outputs))
        return NodeResult(outputs, inputs=inputs, process_data={"failed_items": failed} if failed else {})


def _items(data: IterationData, context: NodeContext) -> Sequence[Any]:
    value = context.pool.get(data.iterator_selector)
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        name = ".".join(data.iterator_selector)
        raise ValueError(f"{name} is {type(value).__name__}, expected a list to go through")
    return value


def _at_once(data: IterationData, context: NodeContext) -> int:
    if not data.is_parallel:
        return 1
    limit = context.run.max_concurrency
    return data.parallel_nums if limit is None else min(data.parallel_nums, limit)


def _each(
    data: IterationData, context: NodeContext, inner: Definition, items: Sequence[Any]
) -> Generator[tuple[int, _Done]]:
    """(place, result) of each item, as they come."""

    around = copy_context()  # LangGraph's stream of events is found through it

    stop = Stop(context.run.stopping)

    def work(number: int) -> _Done:
        try:
            return around.copy().run(_one, data, context, inner, items, number, stop)
        except BaseException as error:
            stop.set(error)  # the items beside it end, too
            raise

    concurrency = min(_at_once(data, context), len(items))
    if concurrency > 1:
        with stop.telling_cause():
            yield from in_threads(range(len(items)), work, concurrency)
        return
    for number in range(len(items)):
        done = _one(data, context, inner, items, number)
        # One after the other, an item sees what those before it have assigned.
        apply_writes(context, done.writes)
        yield number, done


def _one(
    data: IterationData,
    context: NodeContext,
    inner: Definition,
    items: Sequence[Any],
    number: int,
    stop: Stop | None = None,
) -> _Done:
    """stop: of the items beside it; None where they come one after the other."""
    kept = context.finished(_part(number))
    if kept is not MISSING:
        done = _Done(**kept)
        context.taken_up.append(done.exceptions)
        return done
    context.emit(context.event(IterationNext, pass_index=number))
    values = {context.node_id: {"item": items[number], "index": number}}
    try:
        run = run_inner(context, inner, values, number, stop=stop)
    except NodeError as error:
        message = f"item {number + 1} of {len(items)} (index {number}) failed: {error}"
        if data.error_handle_mode == "terminated":
            failed = NodeError(message, node_id=context.node_id)
            failed.exit_code = error.exit_code
            raise failed from error
        context.warn(message)
        done = _Done(error=str(error))
        if stop is not None:
            return done
        # Items behind it go on from what is there without it, and are not done again by a resumed run.
        return _Done(**context.finish(_part(number), done.to_dict()))
    output = inner_output(run, data.output_selector)
    done = _Done(output, inner_answer(run, inner), run.writes, exceptions=run.exceptions)
    return _Done(**context.finish(_part(number), done.to_dict()))


def _part(number: int) -> str:
    return f"item/{number}"


def _warn_of_lost(context: NodeContext, done: Sequence[_Done]) -> None:
    """Items at work at once begin with the values before the iteration: of a sum, say, one is left."""
    assigned = Counter(
        f"{scope}.{name}"
        for item in done
        for scope, names in item.writes.items()
        for name in names
        if scope != context.node_id
    )
    lost = [name for name, times in assigned.items() if times > 1]
    if lost:
        context.warn(
            f"several items assigned {', '.join(lost)} at once, each to the value before the iteration: the "
            "last item's stays. To let each continue from the one before it, remove is_parallel."
        )


def _outputs(data: IterationData, done: Sequence[_Done]) -> dict[str, Any]:
    if data.error_handle_mode == "remove-abnormal-output":
        kept = [item.output for item in done if item.error is None and item.output is not None]
    else:
        kept = [item.output for item in done]
    outputs: dict[str, Any] = {"output": flattened(kept) if data.flatten_output else kept}
    answer = "".join(item.answer for item in done)
    return {**outputs, "answer": answer} if answer else outputs


def flattened(values: list[Any]) -> list[Any]:
    """One list of a list of lists, without its nulls; anything else as it is."""
    lists = [value for value in values if value is not None]
    if not lists or not all(isinstance(value, list) for value in lists):
        return values
    return [part for value in lists for part in value]


NODE_TYPE = Iteration()
