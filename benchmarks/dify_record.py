"""What Dify's engine gives: each kind of value in each place of a workflow, and the outputs of whole exports.

    python3.12 -m venv /tmp/graphon && /tmp/graphon/bin/pip install graphon==0.8.0
    /tmp/graphon/bin/python benchmarks/dify_record.py tests/workflow/dify

Writes `values.json` and `outputs.json` into the folder, which tests compare with what autoprompt gives.
graphon's own nodes run on its own engine. Only what is outside of it is replaced: models answer from a list,
code runs in this process, and HTTP goes to a server here. autoprompt is not needed, and graphon (Apache-2.0,
Python 3.12) is needed by nothing else.
"""

from __future__ import annotations

import argparse
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

VERSION = "0.8.0"
START, BRANCH, SOURCE, PLACE, END = (f"171900000000{number}" for number in range(1, 6))
REFERENCE = f"{{{{#{SOURCE}.value#}}}}"
NOT_TAKEN = "of a branch that was not taken"
FILE = {
    "type": "image",
    "transfer_method": "remote_url",
    "remote_url": "https://example.org/cat.png",
    "filename": "cat.png",
    "extension": ".png",
    "mime_type": "image/png",
    "dify_model_identity": "__dify__file__",
}

VALUES: dict[str, Any] = {
    "text": "Zoë said “hi”",
    "empty text": "",
    "text of two lines": "one\ntwo",
    "number": 3,
    "fraction": 2.5,
    "integral float": 3.0,
    "small number": 1e-07,
    "true": True,
    "false": False,
    "none": None,
    "object": {"name": "Zoë", "tags": ["a", "b"], "ok": True, "none": None},
    "empty object": {},
    "empty list": [],
    "list of texts": ["a", "Zoë", 'say "hi"'],
    "list of numbers": [1, 2.0, 2.5],
    "list of booleans": [True, False],
    "list of objects": [{"name": "Zoë", "n": 1}, {"name": "B", "n": None}],
    "list of lists": [["a", "b"], [1]],
    "list of nothing": [None],
    "mixed list": ["a", 1, None, True, {"k": "v"}],
    "retrieved": [
        {"content": "First.", "title": "A", "metadata": {"_source": "knowledge", "score": 0.9}},
        {"content": "Second.", "title": "B", "metadata": {"_source": "knowledge", "score": 0.7}},
    ],
    "retrieved with summary": [{"content": "First.", "title": "A", "summary": "In short.", "metadata": {}}],
}


def place(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "title": kind, "desc": "", "selected": False, **data}


MODEL = {"provider": "langgenius/openai/openai", "name": "gpt-x", "mode": "chat", "completion_params": {}}
NAMED = [{"variable": "x", "value_selector": [SOURCE, "value"]}]


def llm(text: str, **more: Any) -> dict[str, Any]:
    message = {"id": "m", "role": "user", "text": text}
    context = {"enabled": False, "variable_selector": []}
    own = {"model": MODEL, "prompt_template": [message], "context": context, "vision": {"enabled": False}}
    return place("llm", {**own, **more})


def jinja_llm() -> dict[str, Any]:
    data = llm("", prompt_config={"jinja2_variables": NAMED})
    data["prompt_template"][0] |= {"edition_type": "jinja2", "jinja2_text": "<{{ x }}>"}
    return data


def http(**more: Any) -> dict[str, Any]:
    own = {"method": "post", "url": ADDRESS, "headers": "", "params": "", "variables": []}
    body = {"type": "none", "data": []}
    return place("http-request", {**own, "authorization": {"type": "no-auth"}, "body": body, **more})


def body(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "data": [{"key": "x" if "form" in kind else "", "type": "text", "value": text}]}


ADDRESS = "http://ADDRESS/"  # of the server, once it is known
PLACES: dict[str, dict[str, Any]] = {
    "answer": place("answer", {"answer": f"<{REFERENCE}>", "variables": []}),
    "prompt": llm(f"<{REFERENCE}>"),
    "memory": llm(
        "Hi", memory={"query_prompt_template": f"<{REFERENCE}>", "window": {"enabled": False, "size": 50}}
    ),
    "context": llm("<{{#context#}}>", context={"enabled": True, "variable_selector": [SOURCE, "value"]}),
    "prompt in Jinja2": jinja_llm(),
    "template": place("template-transform", {"template": "<{{ x }}>", "variables": NAMED}),
    "code": place(
        "code",
        {
            "code_language": "python3",
            "code": "def main(x):\n    return {'got': repr(x)}\n",
            "variables": NAMED,
            "outputs": {"got": {"type": "string", "children": None}},
        },
    ),
    "query": place(
        "parameter-extractor",
        {
            "model": MODEL,
            "query": [SOURCE, "value"],
            "parameters": [{"name": "p", "type": "string", "description": "p", "required": False}],
            "instruction": "",
            "reasoning_mode": "prompt",
            "vision": {"enabled": False},
        },
    ),
    "body": http(body=body("raw-text", f"<{REFERENCE}>")),
    "form": http(body=body("x-www-form-urlencoded", f"<{REFERENCE}>")),
    "parameter": http(params=f"x: <{REFERENCE}>"),
    "end": place("end", {"outputs": [{"variable": "x", "value_selector": [SOURCE, "value"]}]}),
}


RUNS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("tutor.yml", {"query": "Spanish", "level": "2"}, ["Hola."]),
    ("price_band.yml", {"price": 5, "country": "DE"}, []),
    ("price_band.yml", {"price": 5, "country": "UK"}, []),
    ("price_band.yml", {"price": 100, "country": "DE"}, []),
    ("price_band.yml", {"price": 50, "country": "DE"}, []),
    ("old_notes.yml", {"query": "a note"}, []),
    ("old_notes.yml", {"query": "hello"}, []),
    ("summaries.yml", {"text": "first line\n\n  second line\nthird", "tone": "dry"}, []),
    ("improve.yml", {"draft": "text"}, ["text+", "5", "text++", "7", "text+++", "9"]),
    ("one_answer.yml", {"query": "When do you open?"}, []),
    ("one_answer.yml", {"query": "I want a refund"}, []),
]


class Model:
    """Stands in for a model's plugin: answers from a list, then in capitals, and keeps what it was sent."""

    provider, model_name, stop = "openai", "gpt-x", None

    def __init__(self, answers: Sequence[str]) -> None:
        self.parameters: Mapping[str, Any] = {}
        self.sent: list[list[dict[str, str]]] = []
        self._answers = list(answers)

    def get_model_schema(self) -> Any:
        from graphon.model_runtime.entities.common_entities import I18nObject
        from graphon.model_runtime.entities.model_entities import AIModelEntity, FetchFrom, ModelType

        label = I18nObject(en_US="gpt-x")
        return AIModelEntity(
            model="gpt-x",
            label=label,
            model_type=ModelType.LLM,
            fetch_from=FetchFrom.PREDEFINED_MODEL,
            model_properties={"context_size": 100_000, "mode": "chat"},
        )

    def get_llm_num_tokens(self, prompt_messages: Sequence[Any]) -> int:
        return 1

    def invoke_llm(self, *, prompt_messages: Sequence[Any], stream: bool, **_: Any) -> Any:
        from graphon.model_runtime.entities.llm_entities import (
            LLMResult,
            LLMResultChunk,
            LLMResultChunkDelta,
            LLMUsage,
        )
        from graphon.model_runtime.entities.message_entities import AssistantPromptMessage

        self.sent.append([{"role": str(m.role), "text": _content(m.content)} for m in prompt_messages])
        last = self.sent[-1][-1]["text"]
        message = AssistantPromptMessage(content=self._answers.pop(0) if self._answers else last.upper())
        usage = LLMUsage.empty_usage()
        if not stream:
            return LLMResult(model="gpt-x", message=message, usage=usage)
        delta = LLMResultChunkDelta(index=0, message=message, usage=usage, finish_reason="stop")
        return iter([LLMResultChunk(model="gpt-x", delta=delta)])


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.data for part in content or [] if hasattr(part, "data"))


class Executor:
    """Stands in for Dify's sandbox: values come as JSON, and code runs here."""

    def __init__(self, _: Any) -> None:
        pass

    def execute(self, *, language: Any, code: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        from graphon.variables.utils import dumps_with_segments

        known: dict[str, Any] = {}
        exec(code, known)  # the code of this file and of the exports beside the tests
        result: Mapping[str, Any] = known["main"](**json.loads(dumps_with_segments(inputs)))
        return result

    def is_execution_error(self, error: Exception) -> bool:
        return True


@contextmanager
def outside(model: Model) -> Iterator[None]:
    """Put the stand-ins in the place of what graphon reaches outside of itself."""
    from graphon.dsl import importer, node_factory

    class Factory(node_factory.SlimDslNodeFactory):  # type: ignore[misc]
        def _resolve_slim_llm_settings(self, *, node_id: str, data: Any, node_type_label: str) -> Any:
            return dict(data), "openai", "plugin", {}

        def _create_slim_llm_runtime(self, *, node_id: str, data: Any, node_type_label: str) -> Any:
            return dict(data), model

        def _create_llm_node(self, request: Any) -> Any:
            node = node_factory.SlimDslNodeFactory._create_llm_node(self, request)
            node._jinja2_template_renderer = node_factory._DefaultJinja2TemplateRenderer()
            return node

    Factory.NODE_BUILDERS = {**Factory.NODE_BUILDERS, "llm": Factory._create_llm_node}
    before = importer.SlimDslNodeFactory, node_factory.SandboxCodeExecutor
    importer.SlimDslNodeFactory, node_factory.SandboxCodeExecutor = Factory, Executor
    try:
        yield
    finally:
        importer.SlimDslNodeFactory, node_factory.SandboxCodeExecutor = before


class Files:
    """Stands in for Dify's storage: a file is at the address that it names."""

    multimodal_send_format = "url"

    def resolve_file_url(self, *, file: Any, for_external: bool = True) -> str | None:
        url: str | None = file.remote_url
        return url


@contextmanager
def server() -> Iterator[tuple[str, list[str]]]:
    """(address, what came: the query if there is one, else the body) of a server on this machine."""
    from urllib.parse import parse_qs, urlsplit

    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            query = urlsplit(self.path).query
            form = query or (text if "form" in self.headers.get("content-type", "") else "")
            came.append(parse_qs(form, keep_blank_values=True)["x"][0] if form else text)
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/", came
    finally:
        running.shutdown()
        running.server_close()


def export(nodes: Mapping[str, Mapping[str, Any]], edges: Sequence[tuple[str, str, str]]) -> str:
    """An app of Dify in mode advanced-chat, as its editor writes it."""
    graph = {
        "nodes": [{"id": node_id, "type": "custom", "data": dict(data)} for node_id, data in nodes.items()],
        "edges": [
            {
                "id": f"{source}-{handle}-{target}",
                "source": source,
                "sourceHandle": handle,
                "target": target,
                "targetHandle": "target",
                "type": "custom",
            }
            for source, target, handle in edges
        ],
    }
    app = {"mode": "advanced-chat", "name": "recorded", "icon": "x", "description": ""}
    content = {"kind": "app", "version": "0.3.1", "app": app, "workflow": {"graph": graph, "features": {}}}
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False)


def app(tested: Mapping[str, Any], *, is_taken: bool) -> str:
    """An app with a place that reads SOURCE: a node of it that runs before it, or one that does not."""
    condition = {"variable_selector": ["sys", "query"], "comparison_operator": "is", "value": "never"}
    case = {"case_id": "true", "id": "true", "logical_operator": "and", "conditions": [condition]}
    source = place("template-transform", {"template": "", "variables": []})
    nodes = {START: place("start", {"variables": []}), SOURCE: source, PLACE: tested}
    if is_taken:
        return export(nodes, [(START, SOURCE, "source"), (SOURCE, PLACE, "source")])
    ways = [(START, BRANCH, "source"), (BRANCH, SOURCE, "true"), (SOURCE, PLACE, "source")]
    nodes[BRANCH] = place("if-else", {"cases": [case]})
    return export(nodes, [*ways, (BRANCH, PLACE, "false")])


def run(
    dsl: str, inputs: Mapping[str, Any], model: Model, pool: Mapping[tuple[str, str], Any] | None = None
) -> dict[str, Any]:
    """The outputs, the text that a user of the chat is shown, and the error of a run by graphon."""
    from graphon.dsl import loads
    from graphon.engine.filter import ResponseStreamFilter, filter_engine_events
    from graphon.engine.filter.protocol import EngineEventFilterContext
    from graphon.file.runtime import use_workflow_file_runtime

    with outside(model), use_workflow_file_runtime(Files()):
        engine = loads(dsl, start_inputs=inputs, workers=1)
        if pool:  # before the place is reached, and in the place of what the source puts out
            _give(engine, pool)
        context = EngineEventFilterContext.from_engine(engine)
        said, error, nodes, given = [], None, {}, {}
        try:
            for event in filter_engine_events(
                engine.run(), context=context, filters=[ResponseStreamFilter()]
            ):
                kind = type(event).__name__
                if kind == "NodeRunStreamChunkEvent":
                    said.append(event.chunk)
                elif kind == "NodeRunSucceededEvent":
                    nodes[event.node_id] = dict(event.node_run_result.outputs)
                    given[event.node_id] = dict(event.node_run_result.inputs)
        except RuntimeError as failed:  # of a node, after its event
            error = str(failed)
    outputs = {name: _plain(value) for name, value in engine.runtime_state.outputs.items()}
    return {"outputs": outputs, "shown": "".join(said), "error": error, "nodes": nodes, "inputs": given}


def _give(engine: Any, pool: Mapping[tuple[str, str], Any]) -> None:
    for selector, value in pool.items():
        engine.runtime_state.variable_pool.add(selector, value)


def _plain(value: Any) -> Any:
    return value.to_object() if hasattr(value, "to_object") else value


def record_values() -> dict[str, Any]:
    """Each place with its node, and by kind of value what it gets, or the error that ends the run."""
    from graphon.file.models import File

    given = {kind: (value, value) for kind, value in VALUES.items()}
    given |= {"file": (FILE, File(**FILE)), "list of files": ([FILE], [File(**FILE)])}
    found: dict[str, Any] = {}
    with server() as (address, came):
        for name, node in PLACES.items():
            sent = {**node, "url": address} if "url" in node else node
            cells = {
                kind: _cell(name, app(sent, is_taken=True), came, {(SOURCE, "value"): value})
                for kind, (_, value) in given.items()
                if "file" not in kind or name not in _NO_FILES
            }
            cells[NOT_TAKEN] = _cell(name, app(sent, is_taken=False), came, {})
            found[name] = {"node": node, "cells": cells}
    values = {kind: value for kind, (value, _) in given.items()}
    return {"engine": f"graphon {VERSION}", "source": SOURCE, "values": values, "places": found}


# Places that get a file as an object of graphon, where Dify's own runtime makes something else of it.
_NO_FILES = ("prompt in Jinja2", "template", "code", "context", "end")


def _cell(name: str, dsl: str, came: list[str], pool: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    model = Model([])
    came.clear()
    done = run(dsl, {"query": "Q"}, model, pool)
    if done["error"] is not None:
        return {"error": done["error"]}
    if name == "answer":
        shown, output = done["shown"], done["outputs"]["answer"]
        return {"got": shown} if shown == output else {"got": shown, "output": output}
    if name in ("template", "code"):
        return {"got": next(iter(done["nodes"][PLACE].values()))}
    if name == "end":
        return {"got": done["outputs"]["x"]}
    if name == "query":
        return {"got": done["inputs"][PLACE]["query"]}
    return {"got": came[-1] if came else model.sent[-1][-1]["text"]}


def record_outputs(folder: Path) -> list[dict[str, Any]]:
    """What graphon gives for the exports of the folder that it can run."""
    found = []
    for name, inputs, answers in RUNS:
        text = (folder / name).read_text(encoding="utf-8")
        done = run(text, inputs, Model(answers))
        seen = {"shown": done["shown"]} if "answer" in done["outputs"] else {}
        outputs = {key: value for key, value in done["outputs"].items() if key != "files"}
        failed = {} if done["error"] is None else {"error": done["error"]}
        found.append(
            {"file": name, "inputs": inputs, "answers": answers, "outputs": outputs, **seen, **failed}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the tables are written")
    folder = parser.parse_args().folder
    logging.disable(logging.CRITICAL)  # errors of nodes are what is recorded
    from importlib.metadata import version

    if version("graphon") != VERSION:
        raise SystemExit(f"graphon {version('graphon')} is installed, expected {VERSION}")
    tables = {"values.json": record_values(), "outputs.json": record_outputs(folder)}
    for name, table in tables.items():
        text = json.dumps(table, ensure_ascii=False, indent=1, default=str)
        (folder / name).write_text(text + "\n", encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    main()
