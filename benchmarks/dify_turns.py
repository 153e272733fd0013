"""Record the messages that graphon, the engine of Dify, builds from exported files with demonstrations.

    python3.12 -m venv .graphon && .graphon/bin/pip install graphon==0.8.0
    .graphon/bin/python benchmarks/dify_turns.py tests/workflow/dify/turns

graphon needs Python 3.12 and none of this package, so this script runs in a virtual environment of its own.
For each `NAME.yml` of the folder it fills in `inputs.json`, a list of values by `node.variable`, and writes
`NAME.messages.json`: of each of them the messages of the one llm node. `tests/workflow/test_dify_turns.py`
compares them with what a run sends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml


def main() -> None:
    folder = Path(sys.argv[1])
    rows = json.loads((folder / "inputs.json").read_text(encoding="utf-8"))
    for path in sorted(folder.glob("*.yml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        (node,) = [n["data"] for n in data["workflow"]["graph"]["nodes"] if n["data"]["type"] == "llm"]
        recorded = [messages(node, row) for row in rows]
        text = json.dumps(recorded, ensure_ascii=False, indent=1) + "\n"
        path.with_suffix(".messages.json").write_text(text, encoding="utf-8")
        print(f"{path.name}: {[len(row) for row in recorded]} messages")


def messages(node: dict[str, Any], row: dict[str, Any]) -> list[dict[str, str]]:
    """Return what the node sends for one row of values."""
    from graphon.model_runtime.entities.message_entities import ImagePromptMessageContent
    from graphon.nodes.llm import llm_utils
    from graphon.nodes.llm.entities import LLMNodeData
    from graphon.runtime.variable_pool import VariablePool

    pool = VariablePool()
    for name, value in row.items():
        pool.add(name.split("."), value)
    schema = SimpleNamespace(supports_prompt_content_type=lambda kind: kind == "text", features=[])
    built, _ = llm_utils.fetch_prompt_messages(
        sys_files=[],
        model_instance=SimpleNamespace(get_model_schema=lambda: schema),
        prompt_template=LLMNodeData.model_validate(node).prompt_template,
        vision_detail=ImagePromptMessageContent.DETAIL.LOW,
        variable_pool=pool,
        jinja2_variables=[],
    )
    return [{"role": message.role.value, "content": str(message.get_text_content())} for message in built]


if __name__ == "__main__":
    main()
