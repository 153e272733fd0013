"""Code of a workflow, run in the sandbox: `main` gets its parameters and returns a dict."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoprompt.errors import InputError
from autoprompt.workflow.context import NodeContext

_CODE, _INPUTS, _OUTPUTS = "workflow_code.py", "workflow_inputs.json", "workflow_outputs.json"
_SCRIPT = f"""
import json, runpy
names = runpy.run_path({_CODE!r})
if not callable(names.get("main")):
    raise SystemExit("the code defines no function main")
with open({_INPUTS!r}, encoding="utf-8") as file:
    result = names["main"](**json.load(file))
if not isinstance(result, dict):
    raise SystemExit(f"main returned {{type(result).__name__}}, expected a dict")
with open({_OUTPUTS!r}, "w", encoding="utf-8") as file:
    json.dump(result, file)
"""
_SHOWN = 2000  # characters of what the code said, in an error


class CodeError(InputError):
    """The code of a node failed, or ran into a limit."""


def run_code(code: str, inputs: Mapping[str, Any], context: NodeContext) -> dict[str, Any]:
    """What `main(**inputs)` of the code returns. inputs and outputs: JSON.

    Raises CodeError for code that fails, SandboxError where the machine cannot confine it as the run wants.
    """
    from autoprompt import sandbox

    try:
        given = json.dumps(inputs)
    except (TypeError, ValueError) as error:
        raise CodeError(f"an input of the code is no plain data: {error}") from error
    with tempfile.TemporaryDirectory(prefix="autoprompt-code-") as folder:
        data = Path(folder, "data")
        data.mkdir()
        (data / _CODE).write_text(code, encoding="utf-8")
        (data / _INPUTS).write_text(given, encoding="utf-8")
        result = sandbox.run(
            _SCRIPT,
            workdir=Path(folder, "work"),
            data=[data / _CODE, data / _INPUTS],
            level=context.run.sandbox,
            limits=context.run.limits,
        )
        if result.killed_by is not None:
            raise CodeError(f"the code was ended: it reached the limit of {result.killed_by}")
        if result.exit_code != 0:
            raise CodeError(f"the code failed: {result.stderr.strip()[-_SHOWN:]}")
        # Named as new by the sandbox: a regular file, no link to somewhere else.
        if Path(_OUTPUTS) not in result.new_files:
            raise CodeError("the code ended before main returned")
        outputs: dict[str, Any] = json.loads(Path(folder, "work", _OUTPUTS).read_text(encoding="utf-8"))
    return outputs
