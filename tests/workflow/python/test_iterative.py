"""IterativeWorkflowNode, rule by rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from autoprompt.errors import BudgetExhausted, EndpointError
from autoprompt.llm import ScriptedClient
from autoprompt.workflow import (
    BaseNode,
    CodeNode,
    IterationError,
    IterativeWorkflowNode,
    LLMNode,
    StartNode,
    Workflow,
    WorkflowDefinitionError,
)
from autoprompt.workflow.engine.events import (
    IterationFailed,
    IterationNext,
    IterationStarted,
    IterationSucceeded,
    NodeEvent,
    NodeRunStarted,
    WorkflowWarning,
)

Context = dict[str, Any]


class Step(BaseNode):
    """A function as a node; keeps the contexts that it was given."""

    def __init__(self, work: Callable[[Context], Context], node_id: str = "step") -> None:
        super().__init__(node_id, node_id)
        self.work, self.seen = work, list[Context]()

    def execute(self, context: Context) -> Context:
        self.seen.append(dict(context))
        return {**context, **self.work(context)}


def doubling() -> Step:
    return Step(lambda context: {"n": context["n"] * 2, "scratch": "left"})


def repeat(step: BaseNode, node_id: str = "repeat", **more: Any) -> IterativeWorkflowNode:
    settings: dict[str, Any] = {
        "condition_function": lambda context: context["_iteration_count"] < 3,
        "input_mapping": {"start": "n"},
        "iteration_mapping": {"n": "n"},
        "output_mapping": {"n": "end"},
    }
    return IterativeWorkflowNode(node_id, "Repeat", [step], **{**settings, **more})


def warnings_of(workflow: Workflow, inputs: Context) -> list[str]:
    return [event.message for event in workflow.stream(inputs) if isinstance(event, WorkflowWarning)]


# --- condition ---


def test_condition_is_asked_before_every_pass_the_first_included() -> None:
    asked: list[Context] = []

    def condition(context: Context) -> bool:
        asked.append(dict(context))
        return context["_iteration_count"] < 2

    assert repeat(doubling(), condition_function=condition).execute({"start": 1})["end"] == 4
    assert [each["_iteration_count"] for each in asked] == [0, 1, 2]


def test_condition_sees_the_inputs_first_and_then_the_variables_of_the_finished_pass() -> None:
    asked: list[Context] = []

    def condition(context: Context) -> bool:
        asked.append(dict(context))
        return context["_iteration_count"] < 1

    repeat(doubling(), condition_function=condition).execute({"start": 1, "other": 5})
    assert asked == [{"n": 1, "_iteration_count": 0}, {"n": 2, "scratch": "left", "_iteration_count": 1}]


@pytest.mark.parametrize("node_id", ["repeat", "pass"])
def test_condition_that_fails_fails_the_node_with_a_clear_error(node_id: str) -> None:
    node = repeat(doubling(), node_id, condition_function=lambda context: context["scratch"] == "left")
    message = f"'{node_id}': the condition failed before pass 1: KeyError: 'scratch'"
    with pytest.raises(RuntimeError, match=message) as e:
        node.execute({"start": 1})
    assert isinstance(e.value.__cause__, KeyError)


def test_condition_that_fails_stops_with_a_warning_where_that_is_wanted() -> None:
    node = repeat(
        doubling(),
        condition_function=lambda context: context["_iteration_count"] < 1 or context["nothing"],
        on_condition_error="stop",
    )
    workflow = Workflow([node])
    assert workflow.run({"start": 1})["end"] == 2
    assert any("condition failed before pass 2" in each for each in warnings_of(workflow, {"start": 1}))


def test_condition_cannot_change_what_the_passes_see() -> None:
    step = doubling()

    def condition(context: Context) -> bool:
        count: int = context["_iteration_count"]
        context.clear()
        return count < 2

    assert repeat(step, condition_function=condition).execute({"start": 1})["end"] == 4


def test_max_iterations_bounds_the_passes_and_is_ten_by_default() -> None:
    always: dict[str, Any] = {"condition_function": lambda context: True}
    assert repeat(doubling(), **always).execute({"start": 1})["_iterations_completed"] == 10
    assert repeat(doubling(), **always, max_iterations=4).execute({"start": 1})["end"] == 16


# --- mappings ---


def test_input_mapping_gives_the_first_pass_its_variables_and_no_others() -> None:
    step = doubling()
    repeat(step).execute({"start": 3, "secret": 1})
    assert step.seen[0] == {"n": 3, "_iteration_count": 0}


def test_missing_main_variable_is_a_warning() -> None:
    step = Step(lambda context: {"n": 1})
    node = repeat(step, input_mapping={"start": "n", "gone": "extra"})
    workflow = Workflow([node])
    assert "input variable 'gone' has no value" in warnings_of(workflow, {"start": 1})
    assert workflow.run({"start": 1})["end"] == 1


def test_start_node_in_a_pass_warns_of_what_the_mapping_left_out() -> None:
    nodes = [StartNode("s", "S", ["n"]), Step(lambda context: {"n": 7})]
    node = IterativeWorkflowNode(
        "i",
        "I",
        nodes,
        lambda c: c["_iteration_count"] < 1,
        input_mapping={"x": "n"},
        output_mapping={"n": "y"},
    )
    workflow = Workflow([node])
    assert workflow.run({})["y"] == 7
    assert "no value for n" in warnings_of(workflow, {})


def test_next_pass_begins_with_the_mapped_variables_and_the_inputs_and_nothing_else() -> None:
    step = Step(lambda context: {"n": context["n"] + context["by"], "scratch": "left"})
    node = repeat(step, input_mapping={"start": "n", "step_size": "by"})
    assert node.execute({"start": 0, "step_size": 5})["end"] == 15
    assert step.seen[1] == {"n": 5, "by": 5, "_iteration_count": 1}


def test_iteration_variable_that_a_pass_lacks_is_a_warning() -> None:
    node = repeat(doubling(), iteration_mapping={"n": "n", "nothing": "m"})
    assert "iteration variable 'nothing' has no value" in warnings_of(Workflow([node]), {"start": 1})


def test_output_mapping_reads_the_last_finished_pass_itself() -> None:
    # `scratch` is not carried into the next pass, and comes out all the same.
    node = repeat(doubling(), output_mapping={"n": "end", "scratch": "last_scratch"})
    assert node.execute({"start": 1})["last_scratch"] == "left"


def test_output_variable_that_no_pass_has_is_a_warning() -> None:
    node = repeat(doubling(), output_mapping={"n": "end", "nothing": "m"})
    workflow = Workflow([node])
    assert "output variable 'nothing' has no value" in warnings_of(workflow, {"start": 1})
    assert "m" not in workflow.run({"start": 1})


def test_main_variables_stay_as_they_were() -> None:
    before = {"start": 1, "kept": [1]}
    after = repeat(doubling()).execute(before)
    assert before == {"start": 1, "kept": [1]}
    assert (after["start"], after["kept"]) == (1, [1])


# --- collection ---


def test_pass_contributes_the_variable_named_by_result_variable() -> None:
    node = repeat(doubling(), result_collection_mode="append", result_variable="scratch")
    assert node.execute({"start": 1})["scratch"] == ["left", "left", "left"]


def test_pass_contributes_the_first_output_if_no_node_writes_the_result_variable() -> None:
    node = repeat(doubling(), result_collection_mode="append", result_variable="history")
    assert node.execute({"start": 1})["history"] == [2, 4, 8]


def test_an_input_named_like_the_result_variable_is_no_contribution() -> None:
    node = repeat(
        doubling(),
        input_mapping={"start": "n", "h": "history"},
        result_collection_mode="append",
        result_variable="history",
    )
    assert node.execute({"start": 1, "h": "old"})["history"] == [2, 4, 8]


def test_nothing_to_collect_is_refused_at_construction() -> None:
    client = ScriptedClient([])
    nodes = [LLMNode("a", "A", "x", "text", client)]
    with pytest.raises(ValueError, match="no node inside writes 'history'"):
        IterativeWorkflowNode(
            "i", "I", nodes, lambda c: True, result_collection_mode="append", result_variable="history"
        )


def test_nothing_to_collect_of_a_node_of_ones_own_is_found_in_the_pass() -> None:
    node = repeat(doubling(), output_mapping={}, result_variable="history")
    with pytest.raises(
        IterationError, match=r"pass 1 has no variable 'history' to collect\. It has: n, scratch"
    ):
        node.execute({"start": 1})


def test_replace_keeps_the_last_result() -> None:
    assert repeat(doubling(), result_variable="history").execute({"start": 1})["history"] == 8


def test_merge_is_a_union_in_which_later_keys_win() -> None:
    step = Step(lambda c: {"n": c["n"] + 1, "found": {f"k{c['n']}": c["n"], "last": c["n"]}})
    node = repeat(step, result_collection_mode="merge", result_variable="found")
    assert node.execute({"start": 0})["found"] == {"k0": 0, "k1": 1, "k2": 2, "last": 2}


@pytest.mark.parametrize(
    ("contributed", "collected", "warned"),
    [
        ([{"a": 1}, "text", {"b": 2}], [{"a": 1, "b": 2}, "text"], ["pass 2 contributes str"]),
        (["x", None, [3]], ["x", None, [3]], ["pass 1 contributes str", "pass 2 contributes NoneType"]),
        ([{"a": 1}, {"a": 2}, {}], {"a": 2}, []),
    ],
)
def test_merge_appends_what_is_no_dict_with_a_warning(
    contributed: list[Any], collected: object, warned: list[str]
) -> None:
    step = Step(lambda c: {"n": c["n"] + 1, "found": contributed[c["n"]]})
    node = repeat(step, result_collection_mode="merge", result_variable="found")
    assert node.execute({"start": 0})["found"] == collected
    said = [message for message in warnings_of(Workflow([node]), {"start": 0}) if "contributes" in message]
    assert [message.partition(" as 'found'")[0] for message in said][: len(warned)] == warned
    assert bool(said) == bool(warned)
    assert all("which is not a dict: it is appended, and the result is a list" in message for message in said)


def test_a_first_node_that_is_no_start_node_is_a_warning() -> None:
    said = "the first node inside is 'step', no StartNode"
    bare = Workflow([repeat(doubling())])
    assert [message.partition(",")[0] for message in warnings_of(bare, {"start": 1})] == [
        said.partition(",")[0]
    ]
    node = IterativeWorkflowNode(
        "repeat",
        "Repeat",
        [StartNode("begin", "Begin", ["n"]), doubling()],
        condition_function=lambda context: context["_iteration_count"] < 3,
        input_mapping={"start": "n"},
        iteration_mapping={"n": "n"},
        output_mapping={"n": "end"},
    )
    assert warnings_of(Workflow([node]), {"start": 1}) == []


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_append_and_merge_need_a_result_variable(mode: Any) -> None:
    with pytest.raises(ValueError, match="needs a result_variable"):
        repeat(doubling(), result_collection_mode=mode)


def test_unknown_mode_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"'collect'\. Known: replace, append, merge"):
        repeat(doubling(), result_collection_mode="collect")


# --- out ---


@pytest.mark.parametrize(("mode", "collected"), [("replace", None), ("append", []), ("merge", None)])
def test_zero_passes_leave_outputs_absent(mode: Any, collected: object) -> None:
    step = doubling()
    node = repeat(
        step, condition_function=lambda context: False, result_collection_mode=mode, result_variable="history"
    )
    result = node.execute({"start": 1})
    assert result["_iterations_completed"] == 0
    assert "end" not in result
    assert result.get("history") == collected
    assert step.seen == []


def test_next_node_id_is_in_the_result_if_set() -> None:
    assert "next_node_id" not in repeat(doubling()).execute({"start": 1})
    assert repeat(doubling(), next_node_id="publish").execute({"start": 1})["next_node_id"] == "publish"


def test_next_node_id_is_where_the_workflow_goes_on() -> None:
    skipped, publish = Step(lambda c: {}, "skipped"), Step(lambda c: {"published": c["end"]}, "publish")
    result = Workflow([repeat(doubling(), next_node_id="publish"), skipped, publish]).run({"start": 1})
    assert result["published"] == 8
    assert skipped.seen == []


def test_temporary_state_is_gone_afterwards() -> None:
    node = repeat(doubling())
    before = dict(vars(node))
    result = node.execute({"start": 1})
    assert set(result) == {"start", "end", "_iterations_completed"}
    assert vars(node) == before


def test_temporary_state_is_gone_after_a_failure_too() -> None:
    node = repeat(Step(lambda c: {"n": 1 // (2 - c["_iteration_count"])}))
    before = dict(vars(node))
    with pytest.raises(IterationError):
        node.execute({"start": 1})
    assert vars(node) == before
    with pytest.raises(IterationError) as again:
        node.execute({"start": 1})
    assert again.value.iteration == 3  # a second execution begins anew


# --- failure ---


def test_failure_names_node_and_iteration_and_has_the_finished_results() -> None:
    def work(context: Context) -> Context:
        if context["_iteration_count"] == 2:
            raise ValueError("no more paper")
        return {"n": context["n"] * 2}

    node = repeat(Step(work), result_collection_mode="append", result_variable="history")
    message = r"^IterativeWorkflowNode 'repeat' failed at iteration 3: .*no more paper"
    with pytest.raises(RuntimeError, match=message) as caught:
        node.execute({"start": 1})
    error = caught.value
    assert isinstance(error, IterationError)
    assert (error.iteration, error.completed, error.results) == (3, 2, [2, 4])
    assert isinstance(error.__cause__, ValueError)
    with pytest.raises(RuntimeError, match=message) as caught:  # the same out of a workflow
        Workflow([node]).run({"start": 1})
    assert isinstance(caught.value.__cause__, ValueError)


def test_failure_of_a_model_keeps_its_exit_code() -> None:
    client = ScriptedClient(["one", EndpointError("the endpoint is gone")])
    node = repeat(LLMNode("say", "Say", "Say {n}", "n", client))
    with pytest.raises(IterationError, match=r"iteration 2: .*the endpoint is gone") as caught:
        node.execute({"start": "x"})
    assert caught.value.exit_code == 4


def test_a_budget_that_is_used_up_is_no_failure_of_a_pass() -> None:
    node = repeat(LLMNode("say", "Say", "Say {n}", "n", ScriptedClient([BudgetExhausted("max_calls")])))
    with pytest.raises(BudgetExhausted):
        node.execute({"start": "x"})


def test_failure_without_a_result_variable_has_the_outputs_of_the_finished_passes() -> None:
    with pytest.raises(IterationError) as caught:
        repeat(Step(lambda c: {"n": 6 // (2 - c["_iteration_count"])})).execute({"start": 1})
    assert caught.value.results == [{"end": 3}, {"end": 6}]


# --- construction ---


def test_needs_at_least_one_node() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        IterativeWorkflowNode("i", "I", [], lambda c: True)


def test_inner_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="duplicate node ids: step"):
        IterativeWorkflowNode("i", "I", [doubling(), doubling()], lambda c: True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_iterations": -1},
        {"max_iterations": "3"},
        {"condition_function": True},
        {"on_condition_error": "go"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(WorkflowDefinitionError, match=next(iter(wrong))):
        repeat(doubling(), **wrong)


# --- events ---


def test_events_of_passes_stand_around_those_of_their_nodes() -> None:
    events = list(Workflow([repeat(doubling(), max_iterations=2)]).stream({"start": 1}))
    kinds = [e for e in events if isinstance(e, NodeEvent)]
    assert [type(e) for e in kinds[1:3]] == [IterationStarted, IterationNext]
    inner = [e for e in kinds if isinstance(e, NodeRunStarted) and e.node_id == "step"]
    assert [(e.in_node_id, e.index) for e in inner] == [("repeat", 0), ("repeat", 1)]
    assert [e.pass_index for e in kinds if isinstance(e, IterationNext)] == [0, 1]
    (done,) = [e for e in kinds if isinstance(e, IterationSucceeded)]
    assert (done.steps, done.outputs) == (2, {"end": 4, "_iterations_completed": 2})


def test_events_tell_a_failed_pass() -> None:
    events = list(
        Workflow([repeat(Step(lambda c: {"n": 1 // (1 - c["_iteration_count"])}))]).stream({"start": 1})
    )
    (failed,) = [e for e in events if isinstance(e, IterationFailed)]
    assert failed.steps == 1
    assert "failed at iteration 2" in failed.error


# --- uses ---


def test_nested_iterations_keep_their_counts_apart() -> None:
    inner = repeat(doubling(), output_mapping={"n": "n"}, input_mapping={"n": "n"}, max_iterations=2)
    outer = IterativeWorkflowNode(
        "outer",
        "Outer",
        [inner],
        lambda c: c["_iteration_count"] < 2,
        input_mapping={"start": "n"},
        iteration_mapping={"n": "n"},
        output_mapping={"n": "end"},
    )
    assert outer.execute({"start": 1}) == {"start": 1, "end": 16, "_iterations_completed": 2}


def test_batches_of_a_dataset_with_progress_and_totals() -> None:
    rows = list(range(10))

    def batch(context: Context) -> Context:
        done, total = context["rest"][:4], context.get("total", 0)
        return {
            "rest": context["rest"][4:],
            "total": total + sum(done),
            "progress": f"{10 - len(context['rest'][4:])}/10",
        }

    node = IterativeWorkflowNode(
        "batches",
        "Batches",
        [Step(batch)],
        lambda context: bool(context["rest"]),
        input_mapping={"rows": "rest"},
        iteration_mapping={"rest": "rest", "total": "total"},
        output_mapping={"progress": "progress", "total": "total"},
        result_collection_mode="append",
        result_variable="progress",
    )
    result = node.execute({"rows": rows})
    assert result["total"] == 45
    assert result["progress"] == ["4/10", "8/10", "10/10"]


def test_dialogue_of_several_turns_with_its_history() -> None:
    client = ScriptedClient(["Hello Ada.", "You are Ada."])
    questions = iter(["I am Ada.", "Who am I?"])
    node = IterativeWorkflowNode(
        "dialogue",
        "Dialogue",
        [
            Step(lambda context: {"question": next(questions)}),
            LLMNode(
                "reply",
                "Reply",
                "Be short.",
                "answer",
                client,
                user_prompt_template="{question}",
                history_variable="history",
            ),
        ],
        lambda context: context["_iteration_count"] < 2,
        iteration_mapping={"history": "history"},
        output_mapping={"answer": "answer", "history": "history"},
    )
    result = node.execute({})
    assert [(m.role, m.content) for m in client.calls[1]] == [
        ("system", "Be short."),
        ("user", "I am Ada."),
        ("assistant", "Hello Ada."),
        ("user", "Who am I?"),
    ]
    assert [turn["text"] for turn in result["history"]] == [
        "I am Ada.",
        "Hello Ada.",
        "Who am I?",
        "You are Ada.",
    ]


def test_json_answer_decides_when_to_stop() -> None:
    answers = [json.dumps({"score": k / 10}) for k in (3, 6, 9)]
    node = IterativeWorkflowNode(
        "until_good",
        "Until good",
        [
            LLMNode(
                "rate",
                "Rate",
                "Rate.",
                "rating",
                ScriptedClient(answers),
                output_format="json",
                output_keys=["score"],
            )
        ],
        lambda context: context.get("score", 0) < 0.8,
        output_mapping={"score": "score"},
    )
    assert node.execute({}) == {"score": 0.9, "_iterations_completed": 3}


def test_code_of_a_pass_runs_in_the_sandbox() -> None:
    code = "def main(n):\n    return {'n': n + 1}"
    node = repeat(CodeNode("add", "Add", code, ["n"]), max_iterations=2)
    assert node.execute({"start": 1})["end"] == 3
