"""The three groups of tests that IterativeWorkflowNode is described with, and its example."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoprompt.llm import ScriptedClient
from autoprompt.workflow import BaseNode, EndNode, IterativeWorkflowNode, LLMNode, StartNode, Workflow


def improving_nodes(client: ScriptedClient) -> list[BaseNode]:
    return [
        StartNode("iter_start", "Iteration Start", ["content"]),
        LLMNode(
            "improve",
            "Improve Content",
            system_prompt_template="Improve: {content}",
            output_variable_name="improved_content",
            llm_client=client,
        ),
        LLMNode(
            "evaluate",
            "Evaluate Content",
            system_prompt_template="Evaluate: {improved_content}",
            output_variable_name="evaluation",
            llm_client=client,
        ),
    ]


def improving(client: ScriptedClient, **more: Any) -> IterativeWorkflowNode:
    settings: dict[str, Any] = {
        "max_iterations": 5,
        "input_mapping": {"input_text": "content"},
        "iteration_mapping": {"improved_content": "content"},
        "output_mapping": {"improved_content": "final_content", "evaluation": "final_evaluation"},
        "result_collection_mode": "append",
        "result_variable": "iteration_history",
        "next_node_id": "next_main_node",
    }
    return IterativeWorkflowNode(
        "iterative_test", "Test Iteration", improving_nodes(client), **{**settings, **more}
    )


def low_quality(context: dict[str, Any]) -> bool:
    if "evaluation" in context:
        return json.loads(context["evaluation"]).get("quality_score", 0) < 0.8
    return True


def test_basic_iteration() -> None:
    client = ScriptedClient([])
    client.set_response_sequence(
        [
            "Improved text 1",
            '{"quality_score": 0.5, "feedback": "Still needs work"}',
            "Improved text 2",
            '{"quality_score": 0.9, "feedback": "Much better"}',
        ]
    )
    node = improving(client, condition_function=low_quality)
    result = node.execute({"input_text": "Initial text"})
    assert result["final_content"] == "Improved text 2"
    assert json.loads(result["final_evaluation"])["quality_score"] == 0.9
    assert result["_iterations_completed"] == 2
    assert result["iteration_history"] == ["Improved text 1", "Improved text 2"]
    assert result["next_node_id"] == "next_main_node"
    asked = [call[-1].content for call in client.calls]
    assert asked[0] == "Improve: Initial text"
    assert asked[2] == "Improve: Improved text 1"


def test_max_iterations_limit() -> None:
    answers = [text for k in range(1, 5) for text in (f"Attempt {k}", f'{{"quality_score": 0.{k + 2}}}')]
    client = ScriptedClient(answers)
    node = improving(client, condition_function=lambda context: True, max_iterations=3)
    result = node.execute({"input_text": "Initial text"})
    assert result["_iterations_completed"] == 3
    assert result["final_content"] == "Attempt 3"
    assert len(client.calls) == 6


@pytest.mark.parametrize(
    ("mode", "name", "answers", "expected"),
    [
        ("replace", "result", ('{"key": "value1"}', '{"key": "value2"}'), {"key": "value2"}),
        (
            "append",
            "results",
            ('{"key": "append1"}', '{"key": "append2"}'),
            [{"key": "append1"}, {"key": "append2"}],
        ),
        (
            "merge",
            "merged_result",
            ('{"key1": "merge1"}', '{"key2": "merge2"}'),
            {"key1": "merge1", "key2": "merge2"},
        ),
    ],
)
def test_result_collection_modes(mode: Any, name: str, answers: tuple[str, str], expected: object) -> None:
    client = ScriptedClient([answers[0], '{"quality": 0.5}', answers[1], '{"quality": 0.9}'])
    node = IterativeWorkflowNode(
        "modes",
        "Modes",
        [
            StartNode("start", "Start", ["content"]),
            LLMNode("make", "Make", "Make of: {content}", name, client, output_format="json"),
            LLMNode("rate", "Rate", "Rate it.", "rating", client),
        ],
        condition_function=lambda context: context.get("_iteration_count", 0) < 2,
        input_mapping={"input": "content"},
        result_collection_mode=mode,
        result_variable=name,
    )
    assert node.execute({"input": "test"})[name] == expected


def test_example_of_text_improvement() -> None:
    client = ScriptedClient(
        [
            "草稿一",
            '```json\n{"quality_score": 0.6, "feedback": "太短"}\n```',
            "草稿二",
            '{"quality_score": 0.85, "feedback": "好"}',
        ]
    )

    def quality_check(context: dict[str, Any]) -> bool:
        return context.get("quality_score", 0) < 0.8 and context.get("_iteration_count", 0) < 3

    evaluation = """
    评估以下文本的质量，返回0到1之间的分数，格式为JSON：
    {improved_text}

    返回格式: {"quality_score": 0.75, "feedback": "改进建议..."}
    """
    improver = IterativeWorkflowNode(
        node_id="text_improver",
        node_name="Iterative Text Improvement",
        nodes=[
            StartNode("start", "Start", ["text_draft"]),
            LLMNode(
                "improve",
                "Improve Text",
                system_prompt_template="改进以下文本，让它更清晰、更专业：{text_draft}",
                output_variable_name="improved_text",
                llm_client=client,
            ),
            LLMNode(
                "evaluate",
                "Evaluate Quality",
                system_prompt_template=evaluation,
                output_variable_name="evaluation",
                llm_client=client,
                output_format="json",
                output_keys=["quality_score"],
            ),
        ],
        condition_function=quality_check,
        max_iterations=5,
        input_mapping={"initial_draft": "text_draft"},
        iteration_mapping={"improved_text": "text_draft"},
        output_mapping={"improved_text": "final_text", "evaluation": "final_evaluation"},
        result_collection_mode="append",
        result_variable="improvement_history",
        next_node_id="end",
    )
    workflow = Workflow([StartNode("begin", "Begin", ["initial_draft"]), improver, EndNode("end", "End")])
    result = workflow.run({"initial_draft": "人工智能是计算机科学的一个分支。"})
    assert result["final_text"] == "草稿二"
    assert result["final_evaluation"] == {"quality_score": 0.85, "feedback": "好"}
    assert result["improvement_history"] == ["草稿一", "草稿二"]
    assert result["_iterations_completed"] == 2
    assert "next_node_id" not in result
    # The JSON in the prompt is no placeholder, the text is one.
    assert '{"quality_score": 0.75' in client.calls[1][-1].content
    assert "草稿一" in client.calls[1][-1].content
