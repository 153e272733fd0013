"""Nodes that call something: `tool` by its name, `code` in the sandbox, `http-request` over HTTP.

Code defines `main`, which gets its parameters and returns a dict. Any HTTP status is a result, but for nodes
that handle their failure.
"""

from __future__ import annotations

import base64
import contextlib
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoprompt.errors import InputError
from autoprompt.text.files import json_value
from autoprompt.text.names import cut_to
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import HttpError
from autoprompt.workflow.engine.http_call import HttpRequest, lines_to_mapping, send
from autoprompt.workflow.engine.mocks import MissingMockError
from autoprompt.workflow.engine.template import as_json_text, render, replace_references
from autoprompt.workflow.engine.tools import accepted_arguments, tool_named
from autoprompt.workflow.engine.variables import VariablePool, check_size
from autoprompt.workflow.file.fields import Input, is_of_type, typed_value
from autoprompt.workflow.file.records import CodeData, CodeOutput, HttpBody, HttpRequestData, ToolData
from autoprompt.workflow.file.variables import needed_outputs


class ToolNode(NodeTypeBase):
    """Puts out `text`, `json` (a list) and `files`; of a dict that a tool returns, each key too."""

    data_model = ToolData
    takes_outputs = True

    def execute(self, data: ToolData, context: NodeContext) -> NodeResult:
        tool = tool_named(data.tool_name, data.http_tools, context.run.allow_private_hosts)
        given = {name: context.value_of(entry) for name, entry in data.tool_parameters.items()}
        given |= context.inputs
        fixed = {name: _configured(value, context) for name, value in data.tool_configurations.items()}
        known = accepted_arguments(tool)
        arguments = {name: value for name, value in fixed.items() if known is None or name in known} | given
        check_size(arguments)
        with context.turn():
            result = tool.invoke(arguments)
        outputs = tool_outputs(result)
        context.chunk(outputs["text"])
        return NodeResult(outputs, inputs=arguments)


def tool_outputs(result: Any) -> dict[str, Any]:
    """Return what a tool returned, as outputs: as text, as JSON, and by key."""
    content = getattr(result, "content", None)  # of LangChain's messages
    if content is not None and not isinstance(result, str | Mapping):
        result = content
    if isinstance(result, str):
        return {"text": result, "json": _parsed(result), "files": []}
    if result is None:
        return {"text": "", "json": [], "files": []}
    if isinstance(result, int | float):
        return {"text": json.dumps(result), "json": [], "files": []}
    text = json.dumps(result, ensure_ascii=False, default=str)
    plain = json.loads(text)
    if isinstance(plain, dict):
        return {"text": text, "json": [plain], "files": [], **{str(k): v for k, v in plain.items()}}
    return {"text": text, "json": plain if isinstance(plain, list) else [plain], "files": []}


def _parsed(text: str) -> list[Any]:
    if not text.lstrip().startswith(("{", "[")):
        return []
    read = json_value(text, [])
    return read if isinstance(read, list) else [read]


def _configured(value: Any, context: NodeContext) -> Any:
    """Return a fixed setting: a value, or since version 2 of tool nodes {type, value}."""
    if isinstance(value, Mapping) and "value" in value:
        return context.value_of(Input.model_validate(dict(value)))
    return value


class Code(NodeTypeBase):
    """`def main(...) -> dict`. Declared outputs have to be there and of their type; others are dropped."""

    data_model = CodeData
    takes_outputs = True

    def execute(self, data: CodeData, context: NodeContext) -> NodeResult:
        if data.code_language != "python3":
            kind = f"code in {data.code_language}"
            needed = needed_outputs(data, context.node.outputs.read)
            raise MissingMockError(kind, context.node.id, needed)
        given = {
            variable.variable: context.pool.get_if_ran(variable.value_selector)
            for variable in data.variables
            if variable.value_selector is not None
        }
        inputs = {**given, **context.inputs}
        check_size(inputs)
        with context.turn():
            found = run_code(data.code, inputs, context)
        return NodeResult(_declared(data.outputs, found, ""), inputs=inputs)

    def read_given(self, data: CodeData, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs; a text, such as a table's cell, is read as the declared type of its output.

        Raises:
            ValueError: A value is not of its declared type.
        """
        kinds = {name: output.type for name, output in data.outputs.items()}
        read = {name: typed_value(value, kinds.get(name, ""), name) for name, value in outputs.items()}
        for name, value in read.items():
            if name in kinds and value is not None and not is_of_type(value, kinds[name]):
                raise ValueError(f"{name} is {_shown(value)}, expected type {kinds[name]}")
        return read


def _declared(declared: dict[str, CodeOutput], found: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the outputs that are declared.

    Raises:
        ValueError: If one is missing or of another type.
    """
    if not declared:
        return found
    checked = {}
    for name, output in declared.items():
        where = f"{path}{name}"
        if name not in found:
            got = ", ".join(found) or "nothing"
            raise ValueError(f"main did not return the output {where!r}; it returned {got}")
        value = found[name]
        if value is not None and not is_of_type(value, output.type):
            raise ValueError(f"output {where!r} is {_shown(value)}, expected type {output.type}")
        if output.children and isinstance(value, dict):
            value = _declared(output.children, value, f"{where}.")
        checked[name] = value
    return checked


def _shown(value: Any) -> str:
    return f"{cut_to(60, repr(value))} ({type(value).__name__})"


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
    raise SystemExit(f"main returned a value that is not JSON: {{error}}")
"""
_SHOWN = 2000  # characters of what the code said, in an error
_MAX_BYTES = 50_000_000  # of what it returns: reading 600 MB took 1.8 GB of our memory, outside of all limits


class CodeError(InputError):
    """The code of a node failed, or ran into a limit."""


def run_code(code: str, inputs: Mapping[str, Any], context: NodeContext) -> dict[str, Any]:
    """Run the code in the sandbox and return what its `main(**inputs)` returns.

    Raises:
        CodeError: The code failed or reached a limit, or an input or an output is not JSON.
        SandboxError: The machine cannot confine code as the run's settings ask.
    """
    from autoprompt import sandbox
    from autoprompt.sandbox import folders

    try:
        given = json.dumps(inputs)
    except (TypeError, ValueError) as error:
        raise CodeError(f"an input of the code is not plain data: {error}") from error
    with folders.temporary("autoprompt-code-") as folder:
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
            raise CodeError(f"the code was stopped: it reached the limit of {result.killed_by}")
        if result.exit_code != 0:
            raise CodeError(f"the code failed: {result.stderr.strip()[-_SHOWN:] or _ended(result.exit_code)}")
        return _outputs(folder / "work")


def _outputs(work: Path) -> dict[str, Any]:
    """Return what `main` returned. The code could write anything under that name, so it is read with care."""
    from autoprompt.sandbox import folders, untrusted

    try:
        with folders.opened(work) as folder:
            outputs = json.loads(untrusted.read_file(folder, _OUTPUTS, _MAX_BYTES))
    except FileNotFoundError as error:
        raise CodeError("the code ended before main returned") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CodeError(f"what main returned cannot be read: {error}") from error
    if not isinstance(outputs, dict):
        raise CodeError(f"main returned {type(outputs).__name__}, expected a dict")
    return outputs


def _ended(exit_code: int) -> str:
    """Return how code ended that said nothing of it."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-exit_code).name}"
    return f"ended by signal {-exit_code}"


class HttpRequestNode(NodeTypeBase):
    """Puts out `body`, `status_code`, `headers`, `files`."""

    data_model = HttpRequestData
    takes_outputs = True

    def execute(self, data: HttpRequestData, context: NodeContext) -> NodeResult:
        request = _request(data, context)
        with context.turn():
            response = send(request, context.run.allow_private_hosts)
        outputs: dict[str, Any] = {
            "body": response.body,
            "status_code": response.status,
            "headers": dict(response.headers),
            "files": [],
        }
        if response.note and request.headers:
            context.warn(f"the request was answered {response.status}{response.note}")
        if response.status >= 400 and (context.node.error_strategy is not None or context.node.retries):
            status = f"{response.status}{response.note}"
            said = f"{request.method.upper()} was answered {status}: {response.body[:200]}"
            raise HttpError(said, response.status)
        # Headers may hold a key, and what a run keeps is for reading.
        return NodeResult(outputs, inputs={"method": request.method, "url": data.url})


def _request(data: HttpRequestData, context: NodeContext) -> HttpRequest:
    pool = context.pool
    headers = _filled_lines(data.headers, pool) | _authorization(data, context)
    params = _filled_lines(data.params, pool)
    url = render(data.url, pool).strip()
    more: dict[str, Any] = {"verifies": data.ssl_verify is not False}
    if data.timeout is not None and data.timeout.connect:
        more["connect_s"] = data.timeout.connect
    if data.timeout is not None and data.timeout.read:
        more["timeout_s"] = data.timeout.read
    if data.body is not None:
        more |= _body(data.body, headers, context)
    return HttpRequest(data.method, url, headers, params, **more)


def _filled_lines(text: str, pool: VariablePool) -> dict[str, str]:
    """`name: value` lines with their references filled: a value of several lines is still one value.

    A line without a colon, such as one reference alone, stands for the lines that it is filled with.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            found |= lines_to_mapping(render(line, pool))
        elif name.strip():
            found[render(name, pool).strip()] = render(value, pool).strip()
    return found


def _authorization(data: HttpRequestData, context: NodeContext) -> dict[str, str]:
    config = data.authorization.config
    if data.authorization.type == "no-auth" or config is None:
        return {}
    key = render(config.api_key, context.pool).strip()
    if config.type == "custom":
        return {config.header or "Authorization": key}
    header = config.header or "Authorization"
    if config.type == "bearer":
        return {header: f"Bearer {key}"}
    encoded = key if ":" not in key else base64.b64encode(key.encode()).decode()
    return {header: f"Basic {encoded}"}


def _body(body: HttpBody, headers: dict[str, str], context: NodeContext) -> dict[str, Any]:
    """Return the arguments of HttpRequest for a body; sets the content type where the file gives none."""
    has_type = any(name.lower() == "content-type" for name in headers)
    texts = [(render(field.key, context.pool), field.value) for field in body.data if field.type != "file"]
    if body.type in ("form-data", "x-www-form-urlencoded"):
        fields = {key: render(value, context.pool) for key, value in texts if key}
        if not fields:  # older exports write a form as lines
            fields = _filled_lines("\n".join(value for _, value in texts), context.pool)
        return {"form": fields, "is_multipart": body.type == "form-data"}
    text = "".join(value for _, value in texts)
    if body.type == "json":
        if not has_type:
            headers["Content-Type"] = "application/json"
        return {"content": _json_text(text, context)}
    if body.type == "raw-text":
        if not has_type:
            headers["Content-Type"] = "text/plain"
        return {"content": render(text, context.pool)}
    if body.type == "binary":
        raise ValueError("binary bodies are not sent here")
    return {}


def _json_text(text: str, context: NodeContext) -> str:
    """JSON with its references filled; inside of a string, with the marks that JSON asks for."""

    def value_of(selector: tuple[str, ...]) -> str:
        value = context.pool.get(selector)
        return json.dumps(value, ensure_ascii=False)[1:-1] if isinstance(value, str) else as_json_text(value)

    filled = replace_references(text, value_of)
    try:
        json.loads(filled)
        return filled
    except (ValueError, RecursionError):
        # A text that is JSON itself stands there without quotes.
        return render(text, context.pool, write=as_json_text)
