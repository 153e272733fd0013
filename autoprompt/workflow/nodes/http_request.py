"""`http-request`: one request; any status is a result, but for nodes that handle their failure."""

from __future__ import annotations

import base64
from typing import Any

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import HttpError
from autoprompt.workflow.engine.http_call import HttpRequest, lines_to_mapping, send
from autoprompt.workflow.engine.template import as_json_text, render, replace_references
from autoprompt.workflow.engine.variables import VariablePool
from autoprompt.workflow.file.records import HttpBody, HttpRequestData


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
    import json

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


NODE_TYPE = HttpRequestNode()
