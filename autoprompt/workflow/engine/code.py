"""Code of a workflow, run in the sandbox: `main` gets its parameters and returns a dict."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoprompt.errors import InputError
from autoprompt.workflow.engine.context import NodeContext

_CODE, _INPUTS, _OUTPUTS = "workflow_code.py", "workflow_inputs.json", "workflow_outputs.json"
# Of a failure it shows the frames of the code alone: ours are of no help, and the folder, whose name is drawn
# anew for each run, would make equal failures differ, and with them what an analyst is asked about them.
_SCRIPT = f"""
import json, runpy, traceback
try:
    main = runpy.run_path({_CODE!r}).get("main")
    if not callable(main):
        raise SystemExit("the code defines no function main")
    with open({_INPUTS!r}, encoding="utf-8") as file:
        inputs = json.load(file)
    result = main(**inputs)
except Exception as error:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != {_CODE!r}:
        trace = trace.tb_next
    traceback.print_exception(error.with_traceback(trace))
    raise SystemExit(1)
if not isinstance(result, dict):
    raise SystemExit(f"main returned {{type(result).__name__}}, expected a dict")
try:
    with open({_OUTPUTS!r}, "w", encoding="utf-8") as file:
        json.dump(result, file)
except (TypeError, ValueError) as error:
    raise SystemExit(f"main returned what is no JSON: {{error}}")
"""
_SHOWN = 2000  # characters of what the code said, in an error
_MAX_BYTES = 50_000_000  # of what it returns: reading 600 MB took 1.8 GB of our memory, outside of all limits


class CodeError(InputError):
    """The code of a node failed, or ran into a limit."""


def run_code(code: str, inputs: Mapping[str, Any], context: NodeContext) -> dict[str, Any]:
    """What `main(**inputs)` of the code returns. inputs and outputs: JSON.

    Raises CodeError for code that fails, SandboxError where the machine cannot confine it as the run wants.
    """
    from autoprompt import sandbox
    from autoprompt.sandbox import workfolder

    try:
        given = json.dumps(inputs)
    except (TypeError, ValueError) as error:
        raise CodeError(f"an input of the code is no plain data: {error}") from error
    with workfolder.temporary("autoprompt-code-") as folder:
        (folder / "data").mkdir()
        (folder / "data" / _CODE).write_text(code, encoding="utf-8")
        (folder / "data" / _INPUTS).write_text(given, encoding="utf-8")
        result = sandbox.run(
            _SCRIPT,
            workdir=folder / "work",
            data=[folder / "data" / _CODE, folder / "data" / _INPUTS],
            level=context.run.sandbox,
            limits=context.run.limits,
        )
        if result.killed_by is not None:
            raise CodeError(f"the code was ended: it reached the limit of {result.killed_by}")
        if result.exit_code != 0:
            raise CodeError(f"the code failed: {result.stderr.strip()[-_SHOWN:] or _ended(result.exit_code)}")
        return _outputs(folder / "work")


def _outputs(work: Path) -> dict[str, Any]:
    """What `main` returned. The code could write anything under that name, so it is read with care."""
    from autoprompt.sandbox import untrusted, workfolder

    try:
        with workfolder.opened(work) as folder:
            outputs = json.loads(untrusted.read_file(folder, _OUTPUTS, _MAX_BYTES))
    except FileNotFoundError as error:
        raise CodeError("the code ended before main returned") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CodeError(f"what main returned cannot be read: {error}") from error
    if not isinstance(outputs, dict):
        raise CodeError(f"main returned {type(outputs).__name__}, expected a dict")
    return outputs


def _ended(exit_code: int) -> str:
    """How code ended that said nothing of it."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-exit_code).name}"
    return f"ended by signal {-exit_code}"
