"""`llm`: one request to a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autoprompt.records import Message
from autoprompt.text.answers.texts import split_thoughts
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import NodeError
from autoprompt.workflow.engine.model_call import build_context, call_model, read_structured, usage_record
from autoprompt.workflow.file.model_records import LLMData
from autoprompt.workflow.nodes.prompting import component_texts, named_values, prompt_messages


class LLM(NodeTypeBase):
    """Puts out `text`, `context` (the conversation), `usage`, `finish_reason`, `reasoning_content`.

    With a schema, `structured_output` too; an answer that is no JSON, or not of the schema's type, or that
    lacks what it requires, fails the node.
    """

    data_model = LLMData

    def execute(self, data: LLMData, context: NodeContext) -> NodeResult:
        messages = prompt_messages(data, context)
        schema = data.schema_of_output
        if schema is not None:
            messages = [_asking_for(schema), *messages]
        reply = call_model(context, messages, data.model)
        answer, thoughts = split_thoughts(reply.text)
        is_parted = answer != reply.text.strip()
        text = answer if is_parted and data.reasoning_format != "tagged" else reply.text
        outputs: dict[str, Any] = {
            "text": text,
            "context": reply.context,
            "usage": usage_record(reply.usage),
            "finish_reason": reply.finish_reason,
            "reasoning_content": "\n".join(thoughts),
        }
        if schema is not None:
            outputs["structured_output"] = read_structured(reply.text, schema)
        return NodeResult(
            outputs,
            inputs=named_values(data, context),
            process_data=reply.process_data,
            metadata=reply.metadata,
        )

    def mocked(self, data: LLMData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        try:
            messages = prompt_messages(data, context)
        except (NodeError, ValueError):
            messages = []  # a mock stands in for what the prompt would need, too
        text = str(outputs.get("text", ""))
        return NodeResult({"text": text, "context": build_context(messages, text), **outputs})

    def component_texts(self, data: LLMData) -> Mapping[str, str]:
        return component_texts(data.messages)


def _asking_for(schema: Mapping[str, Any]) -> Message:
    text = json.dumps(schema, ensure_ascii=False)
    return Message("system", f"Answer with JSON alone that fits this schema:\n{text}")


NODE_TYPE = LLM()
