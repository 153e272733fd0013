"""A run of a workflow's file from the outside: inputs, mocks, tools and models from files and settings."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Any

from autoprompt.errors import (
    BudgetExhausted,
    BudgetTooSmallError,
    ConfigError,
    EndpointError,
    InputError,
    Interrupted,
    ModelError,
    Place,
    Problem,
    StoreError,
    UsageError,
    command,
)
from autoprompt.llm.endpoints import sends_choices
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.transport.address import SendsTo
from autoprompt.metrics.user_code import let_import
from autoprompt.runs import RunFolder
from autoprompt.runs.resuming import places, seen_from
from autoprompt.settings.records import CallSettings, RunConfig, without_excluded
from autoprompt.settings.yaml_file import open_mapping
from autoprompt.text.files import plain_json, read_text
from autoprompt.workflow.engine.definition import Mock
from autoprompt.workflow.engine.errors import (
    FATAL,
    AddressRefusedError,
    HttpError,
    LLMInvocationError,
    NodeError,
    ToolOutputError,
    UnknownToolError,
    causes,
    is_out_of_reach,
)
from autoprompt.workflow.engine.events import Event, GraphRunFailed, GraphRunStarted, WorkflowWarning
from autoprompt.workflow.engine.extraction import ExtractionSpec, model_asked
from autoprompt.workflow.engine.mocks import MissingMockError, MocksOfFile, outputs_in, stray_names
from autoprompt.workflow.engine.models import ModelSpec, NamedModels
from autoprompt.workflow.engine.runner import RunSettings, interrupted
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.records import StartData
from autoprompt.workflow.file.validation import validate
from autoprompt.workflow.file.variables import asks_for_query, uses
from autoprompt.workflow.workflow import Workflow

# What fails a node whatever its inputs are.
_NOT_OF_INPUTS = (*FATAL, LLMInvocationError, MissingMockError, UnknownToolError, ToolOutputError, HttpError)
SETTINGS = "flow_settings.json"  # in a run's folder: what a resumed run is done with


class FlowRun:
    """One run of a file. When the stream has ended, `outputs` is the result, or `check` raises the failure.

    settings: models, cache and caps; `model` and `base_url` go before what the file names.
    tools: a Python file, which is executed: its `@tool` functions can be called by name.
    """

    def __init__(
        self,
        file: Path,
        settings: RunConfig,
        runs_dir: Path,
        *,
        mocks: Mapping[str, Any] | None = None,
        tools: Path | None = None,
    ) -> None:
        load_tools(tools)
        self._file, self._settings, self._runs_dir = file, settings, runs_dir
        self._mocks, self._tools = mocks or {}, tools
        self.workflow = Workflow.load(file)
        self.outputs: dict[str, Any] = {}
        self._failure: BaseException | None = None
        self._folder: RunFolder | None = None

    def stream(self, inputs: Mapping[str, Any]) -> Generator[Event]:
        """Start a run, kept in the runs folder, and yield its events.

        Raises:
            InputError: An input is named `NODE.OUTPUT`, and there is no such node.
        """
        strays = [stray for stray in stray_names(self.workflow.definition, inputs) if stray.is_error]
        if strays:
            place = Place(setting="inputs")
            raise InputError(
                *(Problem("workflow.bad-output", f"{one.name} {one.said}", place, one.fix) for one in strays)
            )
        with ExitStack() as stack:
            made = self._run_settings(stack)
            stream = self.workflow.stream(inputs, runs_dir=self._runs_dir, settings=made)
            for event in self._followed(stream):
                yield event
                if isinstance(event, GraphRunStarted) and event.run_id is not None:
                    yield from self._warnings(RunFolder(self._runs_dir / event.run_id), inputs)

    def resume(self, run: str) -> Generator[Event]:
        """Resume a run and yield its events.

        Raises:
            StoreError: The run is not of this workflow.
        """
        with ExitStack() as stack:
            made = self._run_settings(stack)
            yield from self._followed(
                self.workflow.stream_resume(run, runs_dir=self._runs_dir, settings=made)
            )

    def sends_to(self) -> SendsTo | None:
        """Return where the models of its nodes are asked; None if nowhere."""
        models = NamedModels(self._settings, budget=BudgetMeter())
        choices = []
        nodes = {node.id: node for node in self.workflow.definition.all_nodes()}
        for node in nodes.values():
            spec = getattr(node.data, "model", None)
            if isinstance(node.data, ExtractionSpec):  # whose own may be only a part
                name = node.data.source_node_id
                source = nodes.get(name) or nodes.get(f"{node.id.rpartition('.')[0]}.{name}")
                spec = None if source is None else model_asked(node.data, source.data)
            if isinstance(spec, ModelSpec) and node.id not in self._mocks:
                with suppress(ConfigError, ModelError):  # told by the node, if it is reached
                    choices.append(models.choice(spec))
        return sends_choices(choices, f"inputs of {self._file.name}")

    def check(self) -> None:
        """Raise the failure of the run, if it failed, with notes that say how to resume.

        Raises:
            BudgetTooSmallError: A limit ended the run: half a workflow has no best answer.
            AutopromptError: Any other failure.
        """
        if isinstance(self._failure, BudgetExhausted) and self._folder is not None:
            cap = self._failure.cap
            said = f"{self._failure} before the workflow finished; the results of finished nodes are kept"
            again = command("resume", self._folder.reference, set=f"{cap}=N")
            fix = f"Resume with a larger limit: {again}"
            problem = Problem("workflow.budget-ended", said, fix=fix)
            raise BudgetTooSmallError(problem) from self._failure
        if self._failure is not None:
            if self._folder is not None:
                again = self._resume_command(self._failure, self._folder.reference)
                self._failure.add_note(
                    f"The results of finished nodes are kept. Fix the problem, then resume: {again}"
                )
                if inputs := self._inputs_read(self._failure):
                    names = f"input{'s' * (len(inputs) > 1)} {', '.join(inputs)}"
                    self._failure.add_note(
                        f"To change the {names}, start a new run: a resumed run keeps its inputs."
                    )
            if isinstance(self._failure, NodeError) and is_out_of_reach(self._failure):
                self._failure.exit_code = EndpointError.exit_code
            raise self._failure

    def _resume_command(self, failure: BaseException, reference: str) -> str:
        """Return the command to resume with.

        A run keeps its flags, so one that lacks a tool or a host must be given it.
        """
        refused = next((cause for cause in causes(failure) if isinstance(cause, AddressRefusedError)), None)
        if refused is not None:
            hosts = quote(",".join((*self._settings.allow_private_hosts, refused.host)))
            return command("resume", reference, set=f"allow_private_hosts={hosts}")
        if any(isinstance(cause, MissingMockError) for cause in causes(failure)):
            return command("resume", reference, set="mocks=FILE")
        if any(isinstance(cause, UnknownToolError) for cause in causes(failure)):
            return command("resume", reference, set="tools=FILE.py")
        return command("resume", reference)

    def _inputs_read(self, failure: BaseException) -> list[str]:
        """Return the inputs that the failed node reads, if its own work on them failed."""
        nodes = {node.id: node for node in self.workflow.definition.all_nodes()}
        chain = list(causes(failure))
        # The last one: of a container, the node that failed in it.
        inner = [cause.node_id for cause in chain if isinstance(cause, NodeError)]
        failed = nodes.get(inner[-1] or "") if inner else None
        is_elsewhere = any(isinstance(cause, _NOT_OF_INPUTS) for cause in chain)
        if is_elsewhere or failed is None or not isinstance(failed.data, NodeData):
            return []
        starts = {node.id for node in nodes.values() if isinstance(node.data, StartData)} | {"sys"}
        read = [use.selector for use in uses(failed.data) if not use.literal]
        return list(dict.fromkeys(selector[1] for selector in read if selector[0] in starts and selector[1:]))

    def interrupted(self) -> Interrupted:
        """Return what to raise where Ctrl-C came while its events were read."""
        return interrupted(self._folder)

    def _warnings(self, folder: RunFolder, inputs: Mapping[str, Any]) -> Iterator[WorkflowWarning]:
        for warning in (*self._of_the_file(inputs), *self._of_inputs(inputs)):
            folder.append_event(warning.to_dict())
            yield warning

    def _of_the_file(self, inputs: Mapping[str, Any]) -> Iterator[WorkflowWarning]:
        """Yield what `flow validate` warns of: nodes that nothing leads to, variables written wrongly."""
        given = outputs_in(self.workflow.definition, inputs)
        for fault in validate(self._file, needs_model=False, mocks=self._mocks, given=given):
            # A mock that is missing fails its node, with the same words, if the run comes to it.
            if fault.severity == "warning" and fault.code != "workflow.no-mock":
                place = f"{(fault.path or self._file).name} line {fault.line}"
                yield WorkflowWarning(message=f"{place}: {fault.message}", node_id=fault.node_id)

    def _of_inputs(self, inputs: Mapping[str, Any]) -> Iterator[WorkflowWarning]:
        """Of unknown ones, misspelt most of all, and of a question that is read and was not given."""
        nodes = list(self.workflow.definition.all_nodes())
        known = [v.variable for n in nodes if isinstance(n.data, StartData) for v in n.data.variables]
        text = self._file.read_text(encoding="utf-8-sig")
        if not {"query", "sys.query"} & inputs.keys() and any(asks_for_query(node.data) for node in nodes):
            yield WorkflowWarning(message="the workflow reads sys.query, but you gave no query")
        for stray in stray_names(self.workflow.definition, inputs):
            yield WorkflowWarning(message=f"the input {stray.name} {stray.said}. {stray.fix}")
        read = [use.selector for n in nodes if isinstance(n.data, NodeData) for use in uses(n.data)]
        for name in inputs:
            # Any input is a variable of `sys` as well, and a name with a dot says itself where it belongs.
            if (
                name in known
                or "." in name
                or ("sys", name) in read
                or re.search(rf"\bsys\.{re.escape(name)}\b", text)
            ):
                continue
            meant = get_close_matches(name, known, n=1)
            hint = (
                f"Did you mean {meant[0]}?" if meant else f"The workflow takes: {', '.join(known) or 'none'}"
            )
            yield WorkflowWarning(message=f"unknown input {name}. {hint}")

    def _run_settings(self, stack: ExitStack) -> RunSettings:
        s = self._settings
        cache = None
        if not s.no_cache:
            cache = ResponseCache(s.cache_dir)
            stack.callback(cache.close)
        return RunSettings(
            models=s,
            mocks=self._mocks,
            budget=BudgetMeter(s.max_calls, s.max_tokens, s.max_cost, s.max_seconds),
            cache=cache,
            allow_private_hosts=s.allow_private_hosts,
            max_concurrency=None if s.concurrency == "auto" else s.concurrency,
        )

    def _followed(self, stream: Iterator[Event]) -> Iterator[Event]:
        for event in stream:
            if isinstance(event, GraphRunStarted) and event.run_id is not None:
                self._folder = RunFolder(self._runs_dir / event.run_id)
                if not self._folder.result_path.exists():  # a finished run is only read
                    self._keep_settings(self._folder)
            elif isinstance(event, GraphRunFailed):
                self._failure = event.cause or InputError(event.error)
            elif (outputs := getattr(event, "outputs", None)) is not None and not hasattr(event, "node_id"):
                self.outputs = dict(outputs)
            yield event

    def _keep_settings(self, folder: RunFolder) -> None:
        named = {*CallSettings.model_fields, "allow_private_hosts"} & self._settings.model_fields_set
        calls = self._settings.model_dump(mode="json", include=named, exclude_none=True)
        tools = None if self._tools is None else str(self._tools.absolute())
        files = {"workflow": self._file, "tools": self._tools}
        seen = {name: seen_from(folder, path) for name, path in files.items() if path is not None}
        kept = {"models": calls, "mocks": plain_json(self._mocks), "tools": tools, "from_run": seen}
        folder.write_json(SETTINGS, kept)


def reopened(
    folder: RunFolder,
    *,
    file: Path | None = None,
    settings: RunConfig | None = None,
    mocks: Mapping[str, Any] | None = None,
    tools: Path | None = None,
) -> FlowRun:
    """Open the run of a folder, ready to `resume`, with the settings that it was started with.

    Args:
        file: Replaces the workflow's file.
        settings: Those that are set replace the run's.
        mocks: Replace all mocks of the run; None keeps them.
        tools: Replaces the run's Python file.

    Raises:
        StoreError: The workflow was made in Python, or its file or tools are gone, or the folder is not the
            user's own.
    """
    folder.check_is_own()
    known = file or folder.read_config().get("workflow_file")
    if not known:
        said = f"run {folder.run_id} was not started from a workflow file"
        fix = f"Resume it in Python: Workflow(...).resume({folder.run_id!r})."
        raise StoreError(Problem("workflow.no-file", said, fix=fix))
    path = folder.path / SETTINGS
    kept = json.loads(read_text(path)) if path.exists() else {}
    given = {} if settings is None else {n: getattr(settings, n) for n in settings.model_fields_set}
    if tools is None and kept.get("tools") is not None:
        tools = _found(folder, "tools", Path(kept["tools"]), kept)
    return FlowRun(
        file or _found(folder, "workflow", Path(known), kept),
        RunConfig.model_validate({**without_excluded(kept.get("models") or {}, given), **given}),
        folder.path.parent,
        mocks=kept.get("mocks") if mocks is None else mocks,
        tools=tools,
    )


def _found(folder: RunFolder, name: str, path: Path, kept: Mapping[str, Any]) -> Path:
    """Return a file of a run where it lies by now; it may have been edited."""
    near = places(folder, path, kept.get("from_run", {}).get(name))
    for place in near:
        if place.is_file():
            return place
    said = f"run {folder.run_id} was started with the {name} {path}, which is not there, nor at {near[-1]}"
    again = command("resume", folder.reference, set=f"{name}=FILE")
    fix = f"Put it back, or name its new place: `{again}`."
    raise StoreError(Problem("workflow.lost-file", said, fix=fix))


def read_inputs(pairs: Sequence[str], file: Path | None) -> dict[str, Any]:
    """Read the inputs of a file, with `NAME=VALUE` pairs over them; the values of pairs are texts."""
    inputs = {} if file is None else open_mapping(file, "Give inputs by name.").data
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            said = f"{pair!r} found, expected NAME=VALUE, e.g. query=hello"
            raise UsageError(Problem("workflow.bad-input", said, Place(setting="inputs")))
        inputs[name.strip()] = value
    return inputs


def read_mocks_file(file: Path) -> MocksOfFile:
    """Read mocks by the id of their node from a YAML file, which may have a key `mocks` around them.

    Raises:
        ConfigError: The file is not a YAML mapping, or has other keys beside `mocks`.
    """
    opened = open_mapping(file, "Give mocks by the id of their node.")
    inner = opened.data.get("mocks")
    if "mocks" not in opened.data or (isinstance(inner, Mapping) and inner.keys() & Mock.model_fields.keys()):
        return MocksOfFile(opened.data, opened)  # a node may have this id
    fix = "Write each mock below `mocks:` as `NODE: {outputs: {...}}`."
    if not isinstance(inner, Mapping):
        said = "there are no mocks below `mocks:`"
        raise ConfigError(Problem("workflow.mocks-file", said, Place(file, opened.line(("mocks",))), fix))
    beside = [name for name in opened.data if name != "mocks"]
    if beside:
        raise ConfigError(
            *(
                Problem(
                    "workflow.mocks-file",
                    f"{name!r} is beside `mocks:`, so it is not read as a mock",
                    Place(file, opened.line((name,), is_key=True)),
                    fix,
                )
                for name in beside
            )
        )
    return MocksOfFile(inner, opened, ("mocks",))


def load_tools(file: Path | None) -> dict[str, Callable[..., Any]]:
    """Execute a Python file, which registers its tools, and return the functions that it defines.

    Raises:
        ConfigError: The file is not there, is not Python, or fails.
    """
    if file is None:
        return {}
    folder = str(file.absolute().parent)
    name = f"autoprompt_tools_{file.stem}_{hashlib.sha256(folder.encode(errors='replace')).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file.absolute())
    if spec is None or spec.loader is None or not file.is_file():
        fix = "Give the path of a file with @tool functions."
        raise ConfigError(
            Problem("workflow.tools", f"{file} is not a Python file", Place(setting="tools"), fix)
        )
    let_import(Path(folder))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)  # where dataclasses and pickle look
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        said = f"{file} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(Problem("workflow.tools", said, Place(setting="tools"))) from error
    own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == name}
    return {key: value for key, value in own.items() if inspect.isfunction(value)}
