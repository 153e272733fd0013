"""The graph of the scientific workflow, and its four nodes: each does one thing and returns its update.

START -> survey -> ask -> _after_answer(state)
                          |- "experiment" -> experiment -> _after_experiment(state)
                          |                                |- "ask"      -> ask
                          |                                `- "conclude" -> conclude -> END
                          |- "conclude"   -> conclude -> END
                          `- "end"        -> END
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from autoprompt import sandbox
from autoprompt.errors import BudgetExhausted, Problem, RequestRefusedError
from autoprompt.llm.client import Completion
from autoprompt.llm.transport.failures import is_overflow
from autoprompt.records import Message, warning_event
from autoprompt.runs.events import (
    Concluded,
    ConclusionStarted,
    ExperimentStarted,
    Observed,
    PassAnswered,
    PassStarted,
)
from autoprompt.science.records import PassRecord, ScienceContext, ScienceState
from autoprompt.science.requests import (
    STOP_CONCLUSION,
    STOP_EXPERIMENT,
    Requests,
    Survey,
    observe,
    take_survey,
)
from autoprompt.science.tags import Answer, Section, read_answer
from autoprompt.text.names import counted
from autoprompt.text.templates import language_of

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


def build_graph(
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[ScienceState, ScienceContext, ScienceState, ScienceState]:
    """Return the compiled graph: invoke it with `context=ScienceContext(...)` and a `recursion_limit`."""
    graph = StateGraph(ScienceState, context_schema=ScienceContext)
    graph.add_node("survey", survey)
    graph.add_node("ask", ask)
    graph.add_node("experiment", experiment)
    graph.add_node("conclude", conclude)
    graph.add_edge(START, "survey")
    graph.add_edge("survey", "ask")
    graph.add_conditional_edges(
        "ask", _after_answer, {"experiment": "experiment", "conclude": "conclude", "end": END}
    )
    graph.add_conditional_edges("experiment", _after_experiment, {"ask": "ask", "conclude": "conclude"})
    graph.add_edge("conclude", END)
    return graph.compile(checkpointer=checkpointer)


def _after_answer(state: ScienceState) -> Literal["experiment", "conclude", "end"]:
    if state.get("is_concluded"):
        return "end"
    return "experiment" if state["has_code"] else "conclude"


def _after_experiment(state: ScienceState) -> Literal["ask", "conclude"]:
    return "ask" if state["number"] < state["experiments"] else "conclude"


def recursion_limit(max_iterations: int) -> int:
    """Return the steps that the longest investigation takes, with room."""
    return 2 * max_iterations + 5


_SHRINKS = 2  # times that a request that the endpoint finds too long is halved

Update = ScienceState


def survey(state: ScienceState, runtime: Runtime[ScienceContext]) -> Update:
    """Look at the data; the first thing that a sandbox can refuse, before a call is paid."""
    del state  # the first node has nothing to read
    context, bench = runtime.context, runtime.context.bench
    found = take_survey(
        bench.data,
        bench.workdir,
        context.language or language_of(context.task),
        level=bench.level,
        limits=bench.limits,
        python=bench.python,
    )
    for problem in found.warnings:
        context.emit(warning_event(problem))
    return {
        "known": {"files": found.files, "libraries": list(found.libraries)},
        "number": 0,
        "experiments": context.experiments,
        "warnings": [problem.to_dict() for problem in found.warnings],
    }


def ask(state: ScienceState, runtime: Runtime[ScienceContext]) -> Update:
    """Return one turn of the model: its experiment, or an early end."""
    context, number = runtime.context, state["number"] + 1
    context.emit(PassStarted(number, *_progress(context)).to_dict())
    passes = context.log.first(state["number"])
    try:
        completion = _answer_within_room(context, state, passes, number)
    except BudgetExhausted as error:
        return _checkpoint(context, {"has_code": False, "stopped_early": True, "stop_reason": error.cap})
    answer = read_answer(completion.text)
    sections = answer.until("Experiment", "Conclusion")
    record = context.log.add_answer(_record(number, completion, answer, sections))
    context.emit(_answered(context, record).to_dict())
    update: Update = {"number": number, "has_code": record.code is not None}
    update["warnings"] = _warnings(context, state, passes, record)
    if sections and sections[-1].tag == "Conclusion" and sections[-1].text:
        update |= _concluded(context, sections[-1].text)
        update |= {"stopped_early": True, "stop_reason": "concluded"}
    elif record.code is None:
        update |= {"stopped_early": True, "stop_reason": "no_experiment"}
    context.saved()
    return _checkpoint(context, update)


def experiment(state: ScienceState, runtime: Runtime[ScienceContext]) -> Update:
    """Run the code of the last turn and insert what it printed."""
    context, number = runtime.context, state["number"]
    record = context.log.read(number)
    if record is not None and record.code is not None and record.observation is None:
        record = _run(context, record, record.code)
    if record is not None:
        observed = Observed(
            number,
            *_progress(context),
            observation=record.observation,
            exit_code=record.exit_code,
            duration_s=record.duration_s,
            new_files=record.new_files,
        )
        context.emit(observed.to_dict())
    context.saved()
    return _checkpoint(context, {"has_code": False})


def conclude(state: ScienceState, runtime: Runtime[ScienceContext]) -> Update:
    """Ask for the conclusion. A cap that is reached leaves the run without one."""
    context, number = runtime.context, state["number"] + 1
    context.emit(ConclusionStarted(number, *_progress(context)).to_dict())
    if context.owns_budget:
        context.budget.release_hold()  # what was kept back for this call
    passes = context.log.first(state["number"])
    try:
        completion = _answer_within_room(context, state, passes, number, is_last=True)
    except BudgetExhausted as error:
        reason = state.get("stop_reason") or error.cap
        return _checkpoint(context, {"conclusion": "", "stopped_early": True, "stop_reason": reason})
    answer = read_answer(completion.text)
    sections = tuple(s for s in answer.until("Conclusion") if s.tag in ("Inference", "Conclusion") and s.text)
    conclusion = next((s.text for s in sections if s.tag == "Conclusion"), None)
    unclear: list[Problem] = []
    if conclusion is None:
        conclusion = answer.untagged or (sections[-1].text if sections else "")
        unclear = _unclear_end(answer, sections)
        sections = (*sections, Section("Conclusion", conclusion)) if conclusion else sections
    record = context.log.add_answer(replace(_record(number, completion, answer, sections), code=None))
    context.emit(_answered(context, record).to_dict())
    warnings = [*_warnings(context, state, passes, record), *(problem.to_dict() for problem in unclear)]
    update = _concluded(context, conclusion)
    context.saved()
    return _checkpoint(context, {"number": number, "warnings": warnings, **update})


def _warnings(
    context: ScienceContext, state: ScienceState, passes: Sequence[PassRecord], record: PassRecord
) -> list[dict[str, Any]]:
    """Return the warnings so far, and emit and add one when the first answer is cut."""
    known = list(state.get("warnings", ()))
    if not record.is_cut or any(earlier.is_cut for earlier in passes):
        return known
    limit = counted(context.max_output_tokens, "token")
    said = f"the answer of pass {record.number} was cut at its limit of {limit}"
    room = context.more_room
    fix = f"Raise {{{room}}}." if room else ""
    cut = Problem("science.answer-cut", said, fix=fix, settings={room: None} if room else {})
    context.emit(warning_event(cut))
    return [*known, cut.to_dict()]


def _unclear_end(answer: Answer, sections: Sequence[Section]) -> list[Problem]:
    """Return the warning about a last answer without a Conclusion; none about an empty answer."""
    if answer.has_own_observation:
        wrote = "the model made up an Observation instead of its conclusion, which is cut off"
        shown = "; the text before it is shown as the conclusion" if answer.untagged else ""
    elif answer.untagged:
        wrote, shown = (
            "the model did not mark its conclusion",
            "; its untagged text is shown as the conclusion",
        )
    elif sections:
        wrote, shown = "the model wrote no conclusion", ""
    else:
        return []
    if sections and not answer.untagged:
        shown = "; its Inference is shown instead"
    return [Problem("science.no-conclusion", f"{wrote}{shown}")]


def _answer_within_room(
    context: ScienceContext,
    state: ScienceState,
    passes: Sequence[PassRecord],
    number: int,
    *,
    is_last: bool = False,
) -> Completion:
    """Return the model's answer. If the request is too long, send it again with less of the past."""
    options = replace(context.options, stop=STOP_CONCLUSION if is_last else STOP_EXPERIMENT)
    room = context.room_tokens
    for shrinks in range(_SHRINKS + 1):
        messages = _messages(context, state, passes, number, room, is_last=is_last)
        try:
            return context.client.complete(messages, options)
        except RequestRefusedError as error:
            if shrinks == _SHRINKS or not passes or not is_overflow(str(error)):
                raise
            room //= 2
    raise AssertionError("unreachable: the last refusal is raised")


def _messages(
    context: ScienceContext,
    state: ScienceState,
    passes: Sequence[PassRecord],
    number: int,
    room: int,
    *,
    is_last: bool,
) -> list[Message]:
    known = state["known"]
    survey = Survey(known["files"], tuple(known["libraries"]))
    requests = Requests(
        context.task,
        context.io,
        survey,
        context.max_iterations,
        room,
        language=context.language or language_of(context.task),
        makes_files=context.makes_files,
    )
    if is_last:
        return requests.last(passes)
    return requests.next(number, passes) if passes else requests.first()


def _record(number: int, completion: Completion, answer: Answer, sections: Sequence[Section]) -> PassRecord:
    last = sections[-1] if sections else None
    code = last.text if last is not None and last.tag == "Experiment" and last.text else None
    return PassRecord(
        number=number,
        answer=completion.text,
        text="\n\n".join(map(str, sections)) or answer.untagged,
        code=code,
        has_own_observation=answer.has_own_observation,
        usage=completion.usage,
        is_cut=completion.is_cut,
    )


def _run(context: ScienceContext, record: PassRecord, code: str) -> PassRecord:
    bench = context.bench
    context.emit(ExperimentStarted(record.number, *_progress(context)).to_dict())
    result = sandbox.run(
        code,
        workdir=bench.workdir,
        data=bench.data,
        level=bench.level,
        limits=bench.limits,
        python=bench.python,
    )
    record = replace(
        record,
        observation=observe(result, bench.workdir),
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
        duration_s=round(result.duration_s, 3),
        killed_by=result.killed_by,
        new_files=tuple(map(str, result.new_files)),
    )
    context.log.write(record)
    return record


def _concluded(context: ScienceContext, conclusion: str) -> Update:
    context.emit(Concluded(conclusion, context.budget.spent.to_dict()).to_dict())
    return {"conclusion": conclusion, "is_concluded": True, "has_code": False}


def _progress(context: ScienceContext) -> tuple[int, dict[str, Any]]:
    """Return how many passes there may be, and what was spent so far."""
    return context.max_iterations, context.budget.spent.to_dict()


def _answered(context: ScienceContext, record: PassRecord) -> PassAnswered:
    return PassAnswered(record.number, *_progress(context), record.text, record.has_own_observation)


def _checkpoint(context: ScienceContext, update: Update) -> Update:
    """Return the update with the marks that a resumed run needs: how far journal and budget had come."""
    update["journal_position"] = context.journal_position()
    update["spent"] = context.budget.spent.to_dict()
    return update
