"""What a run of a workflow has done, out of the file that the engine writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import yaml

from autoprompt.errors import StoreError
from autoprompt.llm import ScriptedClient
from autoprompt.runs import RunFolder, RunStore
from autoprompt.web.workflow import Edge, Execution, Node, WorkflowRun, draw, read_workflow
from autoprompt.workflow import EndNode, IterativeWorkflowNode, LLMNode, StartNode, Workflow
from autoprompt.workflow.engine.runner import RunSettings

FLOWS = Path(__file__).parents[2] / "configs" / "workflows"


def improving(passes: int = 3) -> Workflow:
    client = ScriptedClient([f"文字 {number}" for number in range(passes)])
    rounds = IterativeWorkflowNode(
        "improve",
        "Improve",
        [LLMNode("write", "Write", "Improve: {text}", "better", client)],
        lambda context: context["_iteration_count"] < passes,
        input_mapping={"text": "text"},
        iteration_mapping={"better": "text"},
        output_mapping={"better": "final"},
    )
    return Workflow([StartNode("start", "Start", ["text"]), rounds, EndNode("end", "End", ["final"])])


@pytest.fixture
def run(runs: RunStore) -> RunFolder:
    improving().run({"text": "一"}, run_id="r1", runs_dir=runs.runs_dir)
    return runs.open("r1")


def test_passes_of_an_inner_node_stand_in_its_container(run: RunFolder) -> None:
    flow = read_workflow(run)
    assert [node.id for node in flow.inside("")] == ["start", "improve", "end"]
    (inner,) = flow.inside("improve")
    assert [execution.passes for execution in inner.executions] == [(0,), (1,), (2,)]
    assert inner.status == "succeeded"
    assert "文字 2" in inner.executions[-1].outputs
    assert "文字 2" in flow.outputs


def test_passes_within_passes_are_told_apart_as_far_as_the_run_keeps_them(runs: RunStore) -> None:
    say = {"id": "say", "type": "template-transform", "data": {"template": "hi"}}
    inner = {"id": "inner", "type": "iteration", "data": {"iterator_selector": "outer.item", "nodes": [say]}}
    outer = {
        "id": "outer",
        "type": "iteration",
        "data": {"iterator_selector": "start.items", "nodes": [inner]},
    }
    start = {"id": "start", "type": "start", "data": {"variables": [{"variable": "items", "type": "array"}]}}
    flow = Workflow.load({"nodes": [start, outer]})
    flow.run({"items": [["a"], ["b", "c"]]}, run_id="r3", runs_dir=runs.runs_dir)
    folder = runs.open("r3")

    def passes() -> list[tuple[int, ...]]:
        (node,) = [node for node in read_workflow(folder).nodes if node.id == "say"]
        return [execution.passes for execution in node.executions]

    assert passes() == [(0, 0), (1, 0), (1, 1)]


def test_a_virtual_node_stands_in_its_parent_and_a_branch_not_taken_is_not_run(runs: RunStore) -> None:
    flow = Workflow.load(FLOWS / "triage.yaml")
    mocks = yaml.safe_load((FLOWS / "triage.mocks.yaml").read_text(encoding="utf-8"))
    flow.run({"message": "标题"}, run_id="r2", runs_dir=runs.runs_dir, settings=RunSettings(mocks=mocks))
    found = read_workflow(runs.open("r2"))
    (virtual,) = found.inside("ticket")
    assert virtual.is_virtual
    assert {node.id: node.status for node in found.nodes}["help_page"] == "not run"
    drawing = draw(found)
    assert drawing is not None
    assert [line.node.id for box in drawing.boxes for line in box.lines] == [virtual.id]
    tops = {box.node.id: box.y for box in drawing.boxes}
    assert tops["start"] < tops["classify"] < tops["extract"] < tops["ticket"] < tops["end"]
    assert [arrow.is_taken for arrow in drawing.arrows if arrow.label == "first"] == [False]


def test_reading_leaves_no_file_behind(run: RunFolder) -> None:
    before = sorted(path.name for path in run.path.iterdir())
    read_workflow(run)
    assert sorted(path.name for path in run.path.iterdir()) == before


def test_a_run_at_work_is_read_while_it_is_written(run: RunFolder) -> None:
    with sqlite3.connect(run.checkpoints_path) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE workflow_node_executions SET status = 'running' WHERE node_id = 'end'")
        writer.commit()
        assert {node.id: node.status for node in read_workflow(run).nodes}["end"] == "running"


def test_a_run_that_has_not_begun_has_its_nodes(run: RunFolder) -> None:
    run.checkpoints_path.unlink()
    flow = read_workflow(run)
    assert flow.count("not run") == len(flow.nodes) > 0


def test_a_file_that_is_no_database_is_named(run: RunFolder) -> None:
    run.checkpoints_path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=r"checkpoints\.sqlite"):
        read_workflow(run)


def test_a_table_with_other_columns_is_a_file_that_cannot_be_read(run: RunFolder) -> None:
    with sqlite3.connect(run.checkpoints_path) as writer:
        writer.execute("ALTER TABLE workflow_node_executions RENAME COLUMN title TO name")
    with pytest.raises(StoreError, match=r"cannot be read \(no such column: title\)"):
        read_workflow(run)


def test_a_file_that_was_made_to_hang_us_is_given_up(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoprompt.web.workflow._MOST_ASKED", 3)
    with sqlite3.connect(run.checkpoints_path) as writer:
        names = [row[1] for row in writer.execute("PRAGMA table_info(workflow_node_executions)")]
        columns = ", ".join(f"1 AS {name}" for name in names)
        writer.execute("DROP TABLE workflow_node_executions")
        writer.execute(
            f"CREATE VIEW workflow_node_executions AS WITH RECURSIVE n(i) AS "
            f"(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {columns} FROM n WHERE i < 0"
        )
    with pytest.raises(StoreError, match="cannot be read"):
        read_workflow(run)


def made(*edges: tuple[str, str], nodes: str = "abcd") -> WorkflowRun:
    done = (Execution("succeeded", (), 0, (), "", "", "", None, None),)
    all_nodes = tuple(Node(name, "llm", "", "", False, done) for name in nodes)
    return WorkflowRun("w", "", "", "", all_nodes, tuple(Edge(a, b, "") for a, b in edges))


def test_a_node_stands_below_all_that_lead_to_it_and_circles_end() -> None:
    drawing = draw(made(("a", "b"), ("a", "d"), ("b", "c"), ("c", "d"), ("d", "a"), ("x", "a")))
    assert drawing is not None
    assert len(drawing.boxes) == 4
    assert len(drawing.arrows) == 5
    assert all(box.x >= 0 and box.x + box.width <= drawing.width for box in drawing.boxes)
    assert all(box.y + box.height <= drawing.height for box in drawing.boxes)


def test_boxes_do_not_lie_on_each_other() -> None:
    drawing = draw(made(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")))
    assert drawing is not None
    for one in drawing.boxes:
        for other in drawing.boxes:
            apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
            apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
            assert one is other or apart_x or apart_y


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw(made(nodes="")) is None
