"""A workflow as a program: its prompts are optimized, its rows have traces, its file gets the new texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoprompt import Models, RunConfig, estimate, evaluate, optimize
from autoprompt.errors import (
    AuthenticationError,
    BudgetExhausted,
    ConfigError,
    DatasetError,
    EmptyAnswersError,
    EndpointError,
    InputError,
    PromptError,
    StoreError,
)
from autoprompt.evaluation.exported import export_run
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.measure.problems import cut_warning
from autoprompt.measure.rows import evaluate as evaluate_rows
from autoprompt.metrics import get_metric
from autoprompt.optimizer.api import resume as resume_run
from autoprompt.optimizer.prepare import prepare
from autoprompt.records import Candidate, Demo, Example, Message, Usage
from autoprompt.runs import RunFolder, RunStore
from autoprompt.workflow.engine.errors import WorkflowDefinitionError
from autoprompt.workflow.program import WorkflowProgram
from autoprompt.workflow.task import WorkflowForm, open_workflow
from autoprompt.workflow.workflow import Workflow

FLOW = """\
# Sorts items.
name: sorter
nodes:
  - {id: start, type: start, data: {variables: [item]}}
  - id: look
    type: llm
    data:
      prompt_template:
        - {role: system, text: Say which shape the item has.}   # naive
        - {role: user, text: "{{#start.item#}}"}
  - id: judge
    type: question-classifier
    data:
      query_variable_selector: [look, text]
      instruction: Which kind is of this shape?
      classes: [A, B]
  - id: end
    type: end
    data:
      outputs: [{variable: kind, value_selector: [judge, class_name]}]
"""
COMPONENTS = ["judge.instruction", "look.system"]


def shape(number: int) -> str:
    return "round" if number % 3 else "square"


def model(messages: Sequence[Message], options: Options) -> Completion:
    """Sees the shape of odd items, of all where it is told to look twice or is shown; knows their kinds."""
    system, last = messages[0].content, messages[-1].content
    if options.role == "optimizer":
        if "<current>" not in last:
            return Completion("[look.system] Look twice.")
        current = last.split("<current>\n")[1].split("\n</current>")[0]
        return Completion(f"```\n{current} Look twice.\n```", Usage(50, 20))
    if options.labels:
        return Completion("A" if last == "round" else "B", Usage(30, 1), {"A": 0.6, "B": 0.4})
    number = int(last.split()[-1])
    is_seen = number % 2 or "twice" in system or len(messages) > 6
    return Completion(shape(number) if is_seen else "square", Usage(20, 2))


def write_flow(folder: Path, text: str = FLOW) -> Path:
    path = folder / "flow.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def example(number: int) -> Example:
    text = f"item {number}"
    kind = "A" if number % 3 else "B"
    return Example(f"r{number}", text, kind, {"item": text, "kind": kind}, line=number + 1)


def task(folder: Path, text: str = FLOW, **settings: Any) -> Any:
    config = RunConfig(**{"input_field": "item", "target_field": "kind", **settings})
    return open_workflow(config, write_flow(folder, text)).fitted([example(1)])


def program(folder: Path, client: ScriptedClient, text: str = FLOW) -> WorkflowProgram:
    made: WorkflowProgram = task(folder, text).program(
        client, get_metric("exact_match", labels=("A", "B")), labels=("A", "B"), rows=[]
    )
    return made


def naive(made: WorkflowProgram, **changes: str) -> Candidate:
    return Candidate({**made.components, **{name.replace("__", "."): text for name, text in changes.items()}})


def test_every_prompt_is_a_component_named_by_node_and_role(tmp_path: Path) -> None:
    made = program(tmp_path, ScriptedClient(model))
    assert sorted(made.components) == COMPONENTS
    assert made.components["look.system"] == "Say which shape the item has."


def test_a_row_comes_with_answer_usage_and_trace(tmp_path: Path) -> None:
    made = program(tmp_path, ScriptedClient(model))
    found = made.run(example(2), naive(made))
    assert (found.value, found.error, found.usage) == ("B", None, Usage(50, 3))
    assert found.label_probs == {"A": 0.6, "B": 0.4}
    look, judge = found.trace
    assert (look.node, look.components) == ("look", ("look.system",))
    assert (look.input, look.output, look.can_demo) == ("item 2", "square", True)
    assert (judge.node, judge.components) == ("judge", ("judge.instruction",))
    assert (judge.input, judge.output, judge.can_demo) == ("square", "B", True)


def test_a_model_that_says_nothing_stops_a_workflow_whose_node_fails_then(tmp_path: Path) -> None:
    found = program(tmp_path, ScriptedClient([""] * 2)).run(example(2), naive(program(tmp_path, silent())))
    assert found.failure == "step failed"  # a classifier finds no class in it
    assert [(step.output, step.model_of, bool(step.error)) for step in found.trace] == [
        ("", "node", False),
        ("", "node", True),
    ]
    rows = [{"item": f"item {number}", "kind": "AB"[number % 2]} for number in range(40)]
    config = RunConfig(input_field="item", target_field="kind", workflow=write_flow(tmp_path, FLOW))
    with pytest.raises(EmptyAnswersError, match=r"give the node room"):
        evaluate(config, rows=rows, models=Models(silent()))


def silent() -> ScriptedClient:
    return ScriptedClient(lambda messages: Completion("", Usage(5, 1)))


def test_a_candidates_texts_and_demonstrations_are_sent(tmp_path: Path) -> None:
    client = ScriptedClient(model)
    made = program(tmp_path, client)
    assert made.run(example(2), naive(made, look__system="Look twice.")).value == "A"
    demos = (Demo("item 1", "round", "r1", "look.system"), Demo("round", "A", "r1", "judge.instruction"))
    found = made.run(example(2), Candidate(made.components, demos))
    look, judge = client.calls[-2:]
    assert [(m.role, m.content) for m in look] == [
        ("system", "Say which shape the item has."),
        ("user", "item 1"),
        ("assistant", "round"),
        ("user", "item 2"),
    ]
    assert [m.content for m in judge[1:]] == ["round", "A", "square"]
    assert found.trace[0].input == "item 2"


def test_a_tool_that_nobody_registered_is_refused_unless_its_node_is_mocked_or_copes(tmp_path: Path) -> None:
    def flow(more: str = "") -> str:
        asked = f"  - {{id: fetch, type: tool, data: {{tool_name: nowhere{more}}}}}\n  - id: look\n"
        return FLOW.replace("  - id: look\n", asked)

    said = r"flow\.yaml: node 'fetch': no tool 'nowhere' is registered\..*tools=…"
    with pytest.raises(WorkflowDefinitionError, match=said):
        task(tmp_path, flow())
    assert task(tmp_path, flow() + "mocks: {fetch: {outputs: {text: found}}}\n").warnings({}) == []
    default = "default_value: [{key: text, type: string, value: x}]"
    coping = task(tmp_path, flow(f", error_strategy: default-value, {default}"))
    edges = "[{source: start, target: judge}, {source: judge, sourceHandle: A, target: fetch}]"
    branched = FLOW.replace(
        "  - id: look\n", "  - {id: fetch, type: tool, data: {tool_name: nowhere}}\n  - id: look\n"
    )
    branched = branched.replace("[look, text]", "[start, item]") + f"edges: {edges}\n"
    for warned in (coping, task(tmp_path, branched, target_output="class_name")):
        assert any("tool 'nowhere' is not registered here" in str(said) for said in warned.warnings({}))


def test_demonstrations_in_the_file_are_sent_too(tmp_path: Path) -> None:
    text = FLOW.replace(
        "    data:\n      query_v",
        "    data:\n      demonstrations: [{user: u, assistant: A}]\n      query_v",
    )
    client = ScriptedClient(model)
    made = program(tmp_path, client, text)
    made.run(example(1), naive(made))
    assert [m.content for m in client.calls[-1][1:]] == ["u", "A", "round"]


def test_a_row_whose_model_fails_is_data(tmp_path: Path) -> None:
    def failing(messages: Sequence[Message], options: Options) -> Completion:
        if options.labels:
            raise EndpointError("no connection")
        return Completion("round")

    made = program(tmp_path, ScriptedClient(failing))
    found = made.run(example(1), naive(made))
    assert found.value is None
    assert found.error is not None
    assert "no connection" in found.error
    assert [step.error is None for step in found.trace] == [True, False]


def test_a_refusal_names_no_label(tmp_path: Path) -> None:
    text = FLOW.partition("  - id: judge")[0] + (
        "  - {id: end, type: end, data: {outputs: [{variable: kind, value_selector: [look, text]}]}}\n"
    )
    declined = "the model declined to answer: Answer: A"
    for reason, value, error in (("stop", "A", None), ("refusal", None, declined)):
        said = Completion("Answer: A", finish_reason=reason)
        made = program(tmp_path, ScriptedClient([said]), text)
        found = made.run(example(1), naive(made))
        assert (found.text, found.value, found.error) == ("Answer: A", value, error)


def test_an_answer_that_broke_off_is_told(tmp_path: Path) -> None:
    text = FLOW.partition("  - id: judge")[0] + (
        "  - {id: end, type: end, data: {outputs: [{variable: kind, value_selector: [look, text]}]}}\n"
    )
    for said, is_cut in (
        ("It is A, I", True),
        ("A", False),
        ("<think>Is it A or", True),
        ("<think>hm</think>It is A, I thi", True),
    ):
        made = program(tmp_path, ScriptedClient([Completion(said, finish_reason="length")] * 5), text)
        assert made.run(example(1), naive(made)).is_cut is is_cut
        metric = get_metric("exact_match", labels=("A", "B"))
        rows = evaluate_rows(made, naive(made), [example(n) for n in range(4)], metric).rows
        warning = cut_warning(rows)
        assert bool(warning) is is_cut
        assert "completion_params" in str(warning) or not is_cut
        assert "--max-output-tokens" not in str(warning)


def test_a_node_that_failed_by_an_answer_that_broke_off_is_told(tmp_path: Path) -> None:
    for reason in ("length", "stop"):
        made = program(tmp_path, ScriptedClient([Completion("no class", finish_reason=reason)] * 9))
        found = made.run(example(1), naive(made))
        assert (found.value, found.is_cut) == (None, reason == "length")


def test_a_workflow_that_cannot_use_an_answer_gave_none(tmp_path: Path) -> None:
    """The candidate's own fault: the row scores 0, and does not count as lost."""
    made = program(tmp_path, ScriptedClient(lambda messages: "no class at all"))
    found = made.run(example(1), naive(made))
    assert (found.value, found.error) == (None, None)
    assert "judge" in found.text
    assert found.trace[-1].error is not None


def test_what_no_row_can_survive_is_raised(tmp_path: Path) -> None:
    def refused(messages: Sequence[Message], options: Options) -> Completion:
        raise AuthenticationError("no key")

    made = program(tmp_path, ScriptedClient(refused))
    with pytest.raises(AuthenticationError, match="no key"):
        made.run(example(1), naive(made))


def test_a_fatal_error_of_the_endpoint_is_raised(tmp_path: Path) -> None:
    def gone(messages: Sequence[Message], options: Options) -> Completion:
        raise EndpointError("not found", is_fatal=True)

    made = program(tmp_path, ScriptedClient(gone))
    with pytest.raises(EndpointError, match="not found"):
        made.run(example(1), naive(made))


def test_the_target_is_no_input(tmp_path: Path) -> None:
    made = program(tmp_path, ScriptedClient(model))
    assert made.inputs(example(1)) == {"query": "item 1", "item": "item 1"}


def test_a_start_variable_without_a_field_gets_the_rows_input(tmp_path: Path) -> None:
    text = FLOW.replace("variables: [item]", "variables: [thing]").replace("#start.item#", "#start.thing#")
    made = program(tmp_path, ScriptedClient(model), text)
    assert made.run(example(1), naive(made)).value == "A"


def test_a_row_without_an_input_is_named(tmp_path: Path) -> None:
    text = FLOW.replace("variables: [item]", "variables: [item, place, day]")
    with pytest.raises(DatasetError, match=r"^line 2: .*place.*query, item"):
        task(tmp_path, text)


def test_of_several_outputs_one_is_named_or_has_the_targets_name(tmp_path: Path) -> None:
    two = FLOW.replace(
        "[{variable: kind,", "[{variable: shape, value_selector: [look, text]}, {variable: kind,"
    )
    assert task(tmp_path, two).target_output == "kind"
    assert task(tmp_path, two, target_output="shape").target_output == "shape"
    other = two.replace("variable: kind", "variable: sort")
    with pytest.raises(
        ConfigError, match=r"several outputs \(shape, sort\)\. Name the output .* target_output=…"
    ):
        task(tmp_path, other)
    with pytest.raises(ConfigError, match="no output 'x'; it has shape, kind"):
        task(tmp_path, two, target_output="x")


def test_without_an_end_the_last_nodes_outputs_are_known(tmp_path: Path) -> None:
    text = FLOW[: FLOW.index("  - id: end")]
    assert task(tmp_path, text).target_output == "class_name"


def test_locked_components_by_name_or_in_the_file(tmp_path: Path) -> None:
    assert task(tmp_path, locked=("look.system",)).locked == {"look.system"}
    assert task(tmp_path, locked=("which shape",)).locked == frozenset()
    in_file = FLOW.replace("    data:\n      query_v", "    data:\n      locked: true\n      query_v")
    assert task(tmp_path, in_file).locked == {"judge.instruction"}
    with pytest.raises(PromptError, match=r"'look.sytem' is neither a component.*look\.system"):
        task(tmp_path, locked=("look.sytem",))
    with pytest.raises(PromptError, match="every prompt is locked"):
        task(tmp_path, locked=COMPONENTS)


def test_a_file_that_names_other_models_is_told(tmp_path: Path) -> None:
    text = FLOW.replace("      query_v", "      model: {provider: openai, name: gpt-4o}\n      query_v")
    (said,) = task(tmp_path, text, model="local").warnings({})
    assert "gpt-4o" in str(said)
    assert "local" in str(said)
    assert task(tmp_path, text, model="gpt-4o").warnings({}) == []
    assert task(tmp_path, model="local").warnings({}) == []


def test_calls_of_a_row(tmp_path: Path) -> None:
    assert task(tmp_path).calls_per_row == 2


@pytest.mark.parametrize(
    ("may_end", "calls"), [("", 2 * 6 + 1), ("break_expression: again.n > 3", 2 * 3.5 + 1)]
)
def test_a_row_is_planned_with_the_middle_of_what_a_loop_that_may_end_takes(
    may_end: str, calls: float, tmp_path: Path
) -> None:
    step = "prompt_template: [{role: user, text: 'Say more of {{#start.item#}}.'}]"
    loop = f"""  - id: again
    type: loop
    data:
      loop_count: 6
      loop_variables: [{{label: n, var_type: number, value_type: constant, value: 0}}]
      {may_end}
      nodes:
        - {{id: one, type: llm, data: {{{step}}}}}
        - {{id: two, type: llm, data: {{{step}}}}}
"""
    nodes = FLOW.replace("  - id: judge", f"{loop}  - id: judge")
    found = yaml.safe_load(nodes)
    found["nodes"] = [node for node in found["nodes"] if node["id"] != "look"]
    found["nodes"][2]["data"]["query_variable_selector"] = ["start", "item"]
    assert task(tmp_path, yaml.safe_dump(found, sort_keys=False)).calls_per_row == calls


def test_the_file_with_other_texts_is_a_workflow_with_them(tmp_path: Path) -> None:
    made = task(tmp_path)
    texts = {
        **made.texts,
        "look.system": "Look twice.\nThen: say it.",
        "judge.instruction": 'Say "A" # or B',
    }
    demos = (Demo("item 1", "round: 1", "r1", "look.system"),)
    text = made.file_with(Candidate(texts, demos))
    assert text.startswith("# Sorts items.\nname: sorter\n")
    assert "# naive" in text
    read = Workflow.load(yaml.safe_load(text))
    assert dict(read.components) == texts
    client = ScriptedClient(model)
    again = program(tmp_path, client, text)
    again.run(example(1), naive(again))
    assert [m.content for m in client.calls[0][1:-1]] == ["item 1", "round: 1"]


def test_a_file_that_would_read_otherwise_with_other_prompts_is_refused_before_a_call(tmp_path: Path) -> None:
    made = task(tmp_path)
    assert made.check_search() == []
    with pytest.raises(InputError, match=r"the prompts of look\.system read back differently"):
        made.file_with(Candidate({**made.texts, "look.system": "{{#start.item#}}"}))
    settings = config(tmp_path)
    write_flow(tmp_path, FLOW.replace("Say which shape the item has.", "1e3"))
    client = ScriptedClient(model)
    with pytest.raises(InputError, match=r"look\.system: its text is not in the workflow's file"):
        optimize(settings, models=Models(client))
    assert client.calls == []


def config(folder: Path, **changes: Any) -> RunConfig:
    dataset = folder / "items.jsonl"
    rows = [json.dumps({"item": f"item {n}", "kind": "A" if n % 3 else "B"}) for n in range(90)]
    dataset.write_text("\n".join(rows) + "\n", encoding="utf-8")
    settings = {
        "dataset": dataset,
        "workflow": write_flow(folder),
        "input_field": "item",
        "target_field": "kind",
        "preset": "quick",
        "runs_dir": folder / "runs",
        "no_memory": True,
        "cache_dir": folder / "cache",
        "concurrency": 1,
    }
    return RunConfig(**{**settings, **changes})


def test_the_file_of_a_run_keeps_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    settings = config(tmp_path)
    assert settings.workflow is not None
    windows = b"\xef\xbb\xbf" + settings.workflow.read_bytes().replace(b"\n", b"\r\n")
    settings.workflow.write_bytes(windows)
    optimize(settings, models=Models(ScriptedClient(model)))
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert (folder / "original_workflow.yaml").read_bytes() == windows
    best = (folder / "best_workflow.yaml").read_bytes()
    assert best.startswith(b"\xef\xbb\xbf")
    assert best.count(b"\n") == best.count(b"\r\n") > 1
    assert export_run(RunFolder(folder), "workflow").encode() == best
    assert resume_run(folder).to_dict()["status"] == "finished"


def test_a_workflow_is_optimized_and_its_file_written(tmp_path: Path) -> None:
    found = optimize(config(tmp_path), models=Models(ScriptedClient(model)))
    data = found.to_dict()
    assert data["verdict"] == "confirmed"
    changed = found.best.changed_since(found.original)
    assert "look.system" in changed
    assert data["original"]["components"] == dict(found.original.components)
    folder = tmp_path / "runs" / found.run_id
    diff = (folder / "best_prompt.diff").read_text(encoding="utf-8")
    assert all(f"+++ {name} (best)" in diff for name in changed)
    best = Workflow.load(folder / "best_workflow.yaml")
    assert dict(best.components) == dict(found.best.components)
    # The file of any candidate is written the same way.
    run = RunStore(tmp_path / "runs").open(found.run_id)
    assert WorkflowForm(Path("flow.yaml")).write(run, found.best) == (
        folder / "best_workflow.yaml"
    ).read_text(encoding="utf-8")
    assert WorkflowForm(Path("flow.yaml")).write(run, found.original) == (
        folder / "original_workflow.yaml"
    ).read_text(encoding="utf-8")
    # So it is where a type of its nodes is not registered, as in another process.
    kept = folder / "original_workflow.yaml"
    kept.write_text(
        kept.read_text(encoding="utf-8").replace("type: end", "type: registered-elsewhere"), "utf-8"
    )
    assert "type: registered-elsewhere" in WorkflowForm(Path("flow.yaml")).write(run, found.best)
    assert all(
        text in WorkflowForm(Path("flow.yaml")).write(run, found.best)
        for text in (found.best.components["look.system"].split("\n"))
    )
    rows = [
        json.loads(line) for line in (folder / "predictions" / "test-best.jsonl").read_text().splitlines()
    ]
    assert [step["node"] for step in rows[0]["trace"]] == ["look", "judge"]


def test_a_passage_that_is_also_the_name_of_a_node_is_told(tmp_path: Path) -> None:
    flow = FLOW.replace("which shape", "which shape you look at")
    found = task(tmp_path, flow, locked=("look", "which shape", "judge.instruction"))
    assert found.locked == {"judge.instruction"}
    (said,) = found.check_search()
    assert "'look' is read as a passage" in str(said)
    assert "locked=['look.system']" in str(said)


def test_a_locked_component_of_the_settings_stays(tmp_path: Path) -> None:
    found = optimize(config(tmp_path, locked=("look.system",)), models=Models(ScriptedClient(model)))
    assert set(found.best.changed_since(found.original)) <= {"judge.instruction"}


def test_the_estimate_counts_the_calls_of_a_row(tmp_path: Path) -> None:
    found = estimate(config(tmp_path, model="m", base_url="http://127.0.0.1:9", max_calls=400))
    assert found.calls_per_row == 2
    assert found.task_calls + found.optimizer_calls == 400


def test_a_workflow_is_evaluated(tmp_path: Path) -> None:
    report = evaluate(config(tmp_path), models=Models(ScriptedClient(model)))
    assert (report.n, report.calls) == (90, 180)
    assert 0.5 < report.score < 0.9
    assert report.to_dict()["rows"][0]["trace"][0]["node"] == "look"


def test_a_text_is_no_candidate_of_a_workflow(tmp_path: Path) -> None:
    client = ScriptedClient(model)
    with pytest.raises(ConfigError, match=r"cannot be combined with a single prompt, found .*flow\.yaml"):
        evaluate(config(tmp_path), candidate="Another one.", models=Models(client))
    assert client.calls == []


def test_an_evaluation_does_not_begin_where_the_cap_is_too_small_for_every_node(tmp_path: Path) -> None:
    client = ScriptedClient(model)
    settings = config(tmp_path)
    rows = evaluate(settings, models=Models(ScriptedClient(model))).n
    with pytest.raises(BudgetExhausted, match=f"{2 * rows} more needed"):
        evaluate(settings.model_copy(update={"max_calls": 2 * rows - 1}), models=Models(client))
    assert client.calls == []
    assert evaluate(settings.model_copy(update={"max_calls": 2 * rows}), models=Models(client)).n == rows


def test_a_run_whose_workflow_has_changed_does_not_go_on(tmp_path: Path) -> None:
    settings = config(tmp_path)
    calls = 0

    def dying(messages: Sequence[Message], options: Options) -> Completion:
        nonlocal calls
        calls += 1
        if calls == 100:
            raise KeyboardInterrupt
        return model(messages, options)

    with pytest.raises(BaseException, match="interrupted"):
        optimize(settings, models=Models(ScriptedClient(dying)))
    (run_id,) = [path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    write_flow(tmp_path, FLOW.replace("Which kind", "What kind"))
    with pytest.raises(StoreError, match=r"flow\.yaml: run \S+ cannot be resumed: this file has changed"):
        resume_run(run_id, runs_dir=tmp_path / "runs", models=Models(ScriptedClient(model)))
    write_flow(tmp_path)
    client = ScriptedClient(model)
    found = resume_run(run_id, runs_dir=tmp_path / "runs", models=Models(client))
    other = tmp_path / "whole"
    other.mkdir()
    whole = optimize(config(other), models=Models(ScriptedClient(model)))
    assert found.best == whole.best
    assert found.to_dict()["calls"] == whole.to_dict()["calls"]
    assert len(client.calls) == whole.to_dict()["calls"] - 99


def test_rows_with_a_field_for_each_input_need_no_input_field(tmp_path: Path) -> None:
    flow = FLOW.replace("[item]", "[item, colour]")
    flow = flow.replace("{{#start.item#}}", "{{#start.colour#}} {{#start.item#}}")
    settings = config(tmp_path, input_field="input")
    lines = [
        json.dumps({"colour": colour, "item": f"item {n}", "kind": "A" if n % 3 else "B"})
        for n in range(45)
        for colour in ("red", "blue")
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_flow(tmp_path, flow)
    client = ScriptedClient(model)
    report = evaluate(settings, models=Models(client))
    assert report.n == 90  # rows of equal items are different rows
    assert prepare(settings).splits.val[0].input.startswith("colour: ")
    assert prepare(settings).depth.rewrites  # the embedded model, too
    assert {call[-1].content for call in client.calls} >= {"red item 0", "blue item 0"}
    result = optimize(settings, models=Models(ScriptedClient(model))).to_dict()
    assert result["splits"]["groups"]["test"] < result["splits"]["sizes"]["test"]  # both colours of an item
    assert result["original"]["score"] is not None
