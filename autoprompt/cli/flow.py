"""`autoprompt flow`: workflows run, checked and drawn."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from autoprompt.cli import options, render
from autoprompt.cli.live import Line, LiveView, watching
from autoprompt.cli.output import clean, json_text, print_json, print_line
from autoprompt.errors import ConfigError, Problem, UsageError, Voice, tell
from autoprompt.report.numbers import duration
from autoprompt.runs.listing import summarize
from autoprompt.settings.kinds import Panel
from autoprompt.settings.places import naming_places
from autoprompt.text.names import counted
from autoprompt.workflow.engine.events import (
    GraphRunStarted,
    NodeEvent,
    NodeRunException,
    NodeRunFailed,
    NodeRunRetry,
    NodeRunStarted,
    NodeRunSucceeded,
    WorkflowWarning,
    read_event,
)

if TYPE_CHECKING:
    from autoprompt.runs import RunFolder
    from autoprompt.settings.resolve import CompleteConfig
    from autoprompt.workflow.engine.events import Event
    from autoprompt.workflow.flow_run import FlowRun


File = Annotated[Path, typer.Argument(metavar="FILE", help="Workflow (YAML): ours, or exported from Dify.")]
Tools = Annotated[
    Path | None,
    typer.Option(
        "--tools",
        metavar="FILE.py",
        help="Python file with @tool functions for the workflow; it is executed.",
        rich_help_panel=Panel.START,
    ),
]
app = typer.Typer(
    rich_markup_mode=None, add_completion=False, no_args_is_help=True, help="Run, check and draw workflows."
)


@app.command("run", cls=options.Panelled)
@options.with_settings(options.FLOW_FLAGS, options.FLOW)
def run_flow(
    *,
    file: File,
    flags: dict[str, Any],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=VALUE",
            help="Input of the workflow; repeatable.",
            rich_help_panel=Panel.START,
        ),
    ] = None,
    inputs_file: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="File (YAML or JSON) with the inputs.",
            rich_help_panel=Panel.START,
        ),
    ] = None,
    mocks: Annotated[
        Path | None,
        typer.Option(
            "--mocks",
            metavar="FILE",
            help="Outputs (YAML) that replace nodes of the workflow.",
            rich_help_panel=Panel.START,
        ),
    ] = None,
    tools: Tools = None,
    config: options.ConfigFile = None,
    runs_dir: options.RunsDir = Path("runs"),
    events: options.Events = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Run a workflow. Its outputs go to stdout, its progress to stderr.

    --model and --base-url replace the models that the file names. `autoprompt resume` resumes a run that was
    stopped.
    """
    check_forms(events=events, as_json=as_json)
    from autoprompt.workflow.flow_run import FlowRun, read_inputs, read_mocks_file

    settings = _settings(flags, config, is_trusted=trust)
    given = read_inputs(inputs or (), inputs_file)
    stand_ins = None if mocks is None else read_mocks_file(mocks)
    with naming_places(settings):
        flow = FlowRun(file, settings, runs_dir, mocks=stand_ins, tools=tools)
        show(flow, flow.stream(given), events, as_json, quiet)


def _settings(flags: dict[str, Any], config: Path | None, *, is_trusted: bool) -> CompleteConfig:
    import os

    from autoprompt.cli.environment import read_environment
    from autoprompt.llm.endpoints import choose_model
    from autoprompt.settings.resolve import resolve_models

    read_environment(is_trusted=is_trusted)
    settings = resolve_models(flags, config_file=config, environ=os.environ)
    with naming_places(settings):
        choose_model(settings, "task")  # conflicting settings are reported before a run begins
    return settings


def check_forms(*, events: bool, as_json: bool) -> None:
    if events and as_json:
        raise UsageError("--events: cannot be combined with --json. Give one of them.")


def show(flow: FlowRun, stream: Generator[Event], events: bool, as_json: bool, quiet: bool) -> None:
    """Follow a run to its end.

    Raises:
        AutopromptError: The failure that ended the run.
        Interrupted: Ctrl-C was pressed.
    """
    try:
        with closing(stream):
            _follow(flow, stream, events, as_json, quiet)
    except KeyboardInterrupt:
        raise flow.interrupted() from None


def _follow(flow: FlowRun, stream: Iterator[Event], events: bool, as_json: bool, quiet: bool) -> None:
    sends = flow.sends_to()
    if events:
        for line in sends.sentences if sends is not None else ():
            typer.echo(clean(line), err=True)
        for event in stream:
            print_line(json_text(event.to_dict()))
        flow.check()
        return
    console = render.console(stderr=True)
    view = _FlowView()
    try:
        with watching(console, view, quiet=quiet) as (_, emit):
            if sends is not None:
                emit(sends.to_dict())
            for event in stream:
                emit(event.to_dict())
    finally:
        if console.is_terminal and not quiet:  # the panel is gone
            console.print(view.tree())
    flow.check()
    if as_json:
        name = "nodes" if "nodes" not in flow.outputs else "_nodes"
        print_json({**flow.outputs, name: _nested(view.entries), "_sent_to": view.sent_to})
        return
    _print_outputs(flow.outputs)


def _print_outputs(outputs: Mapping[str, Any]) -> None:
    console = render.console()
    for name, value in outputs.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        console.print(Text.assemble((f"{clean(name)}: ", "bold"), clean(text)))


def show_run(folder: RunFolder, *, as_json: bool) -> None:
    """Show a kept run, made from its events: its inputs, the nodes as far as they came, its outputs."""
    config, result = folder.read_config(), folder.read_result()
    if as_json:
        print_json({"run_id": folder.run_id, "kind": "workflow", "config": config, "result": result})
        return
    console = render.console()
    summary = summarize(folder)
    console.print(Text(f"{clean(folder.run_id)}: {summary.status}", "bold"))
    console.print(Text(f"started {summary.created}"))
    for name in ("workflow_file", "inputs"):
        if config.get(name):
            console.print(Text(f"  {name:15}{render.shortened(str(config[name]), 100)}"))
    view = _FlowView()
    for event in folder.read_events():
        for line in view.add(event):
            if line.place == "always":
                console.print(Text(clean(line.text), line.style))
    console.print(view.tree())
    if result is None:
        console.print(Text(f"Not finished. Resume with: autoprompt resume {clean(folder.reference)}"))
        return
    _print_outputs(result.get("outputs") or {})


@app.command("validate")
def validate_flow(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Workflows in YAML.")],
    *,
    mocks: Annotated[
        Path | None,
        typer.Option("--mocks", metavar="FILE", help="Outputs (YAML) that replace nodes of the workflow."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Model of the run; nodes need none then."),
    ] = None,
    tools: Tools = None,
    as_json: options.Json = False,
    trust: options.Trust = False,
) -> None:
    """Check workflows without running them. Lists every fault with file, line and node; exit 3 for any."""
    from autoprompt.cli.environment import read_environment
    from autoprompt.workflow.file.validation import validate
    from autoprompt.workflow.flow_run import load_tools, read_mocks_file

    read_environment(is_trusted=trust)
    load_tools(tools)
    given = None if mocks is None else read_mocks_file(mocks)
    console = render.console(stderr=True)
    found: dict[str, list[dict[str, Any]]] = {}
    failed = 0
    for file in files:
        try:
            faults = [fault.to_dict() for fault in validate(file, needs_model=model is None, mocks=given)]
        except ConfigError as error:  # no YAML at all; the other files are still looked at
            faults = [_fault(problem, file) for problem in error.problems]
        errors = sum(fault["severity"] == "error" for fault in faults)
        failed += bool(errors)
        found[str(file)] = faults
        for fault in faults:
            console.print(Text(_fault_line(fault), "red" if fault["severity"] == "error" else "yellow"))
        console.print(Text(f"{clean(str(file))}: {_count(errors, len(faults) - errors)}"))
    if as_json:
        print_json({"files": found, "ok": not failed})
    if failed:
        raise typer.Exit(ConfigError.exit_code)


def _fault(problem: Problem, file: Path) -> dict[str, Any]:
    """Return a problem of a file that cannot be read as a fault of a workflow."""
    line = problem.place.line or 0
    if line:  # the fault names file and line itself
        problem = problem.at(replace(problem.place, file=None, line=None))
    message = tell(problem, Voice.CLI)
    return {"path": str(file), "line": line, "node_id": None, "severity": "error", "message": message}


def _fault_line(fault: Mapping[str, Any]) -> str:
    if not fault["line"]:
        return clean(str(fault["message"]))
    node = f"node {fault['node_id']!r}: " if fault["node_id"] is not None else ""
    kind = "warning: " if fault["severity"] == "warning" else ""
    return clean(f"{fault['path']} line {fault['line']}: {kind}{node}{fault['message']}")


def _count(errors: int, warnings: int) -> str:
    if not errors and not warnings:
        return "nothing wrong"
    said = counted(errors, "error")
    return f"{said}, {counted(warnings, 'warning')}" if warnings else said


@app.command("graph")
def graph_flow(
    file: File,
    *,
    as_ascii: Annotated[bool, typer.Option("--ascii", help="Draw as text instead of Mermaid.")] = False,
) -> None:
    """Draw a workflow as Mermaid, or as text, offline. Virtual nodes are drawn inside their parent."""
    from autoprompt.workflow import Workflow

    typer.echo(Workflow.load(file).graph("ascii" if as_ascii else "mermaid"))


# --- the live view: nodes as a tree, with virtual nodes and passes below their node ---

_SIGNS = {"running": ("...", "cyan"), "succeeded": ("ok", "green"), "exception": ("handled", "yellow")}
_FAILED = ("failed", "bold red")
_MOST_SHOWN = 60  # nodes of a tree: of a long iteration the last ones
_FRAME_LINES = 6  # of the panel besides its tree


@dataclass
class _Entry:
    """One execution of a node. inside: virtual nodes that ran for it, and what a container repeats."""

    first: NodeEvent
    ended: NodeRunSucceeded | NodeRunFailed | None = None
    retries: int = 0
    inside: list[_Entry] = field(default_factory=list)

    @property
    def status(self) -> str:
        """The word for how it ended, as a run's records have it."""
        match self.ended:
            case None:
                return "running"
            case NodeRunException():
                return "exception"
            case NodeRunFailed():
                return "failed"
        return "succeeded"

    @property
    def error(self) -> str:
        return self.ended.error if isinstance(self.ended, NodeRunFailed) else ""


@dataclass
class _FlowView(LiveView):
    """What is known of a workflow at work. entries: its nodes in the order in which they started."""

    title = "autoprompt flow"

    name: str = ""
    entries: list[_Entry] = field(default_factory=list)
    by_id: dict[str, _Entry] = field(default_factory=dict)
    waiting: list[_Entry] = field(default_factory=list)  # virtual nodes whose parent has not started yet

    def tell(self, event: Mapping[str, Any]) -> Iterable[Line]:
        match read_event(event):
            case NodeRunStarted() as found:
                self._start(found)
            case NodeRunSucceeded() | NodeRunFailed() as found:
                entry = self._end(found)
                indent = "  " if found.is_virtual or found.in_node_id else ""
                yield Line(indent + _line(entry).plain, "lines")
            case NodeRunRetry() as found if found.id in self.by_id:
                self.by_id[found.id].retries = found.retry_index
            case GraphRunStarted() as found:
                self.name, self.run_id = found.workflow, found.run_id or ""
                yield Line(f"run {found.run_id}" if found.run_id else f"run of {self.name}", "lines")
            case WorkflowWarning() as found:
                node = f"{found.node_id}: " if found.node_id else ""
                yield Line(f"warning: {node}{found.message}", "always", "yellow")

    def parts(self, height: int) -> Iterator[RenderableType]:
        yield self.tree(max(1, height - _FRAME_LINES - len(self.lines)))

    def tree(self, most: int = _MOST_SHOWN) -> Tree:
        """Draw the nodes. most: of a level, the last ones."""
        made = Tree(Text(clean(self.name)))
        _grow(made, self.entries, most)
        for entry in self.waiting:
            made.add(_line(entry))
        return made

    def _start(self, event: NodeEvent) -> _Entry:
        if event.id in self.by_id:  # begun by an earlier process of the run
            return self.by_id[event.id]
        entry = self.by_id[event.id] = _Entry(event)
        if event.is_virtual:
            self.waiting.append(entry)
            return entry
        entry.inside += [child for child in self.waiting if _is_child(child.first, event)]
        self.waiting = [child for child in self.waiting if child not in entry.inside]
        container = self._container(event)
        (self.entries if container is None else container.inside).append(entry)
        return entry

    def _container(self, event: NodeEvent) -> _Entry | None:
        """Return the running container that the node is in a pass of; None outside of one."""
        around = tuple(event.passes)[:-1]
        found = [e for e in self.by_id.values() if e.first.node_id == event.in_node_id and e.ended is None]
        return next((e for e in reversed(found) if tuple(e.first.passes) == around), None)

    def _end(self, event: NodeRunSucceeded | NodeRunFailed) -> _Entry:
        entry = self._start(event)  # one may never have started: a node whose virtual nodes failed
        entry.ended = event
        return entry


def _nested(entries: Iterable[_Entry]) -> list[dict[str, Any]]:
    """Return the nodes as plain data, in the order in which they started; what ran inside of one is in it.

    Of how they did it only what failed in an iteration: the rest, such as prompts, is in the run's events.
    """
    found = []
    for entry in entries:
        ended = entry.ended
        record = {**entry.first.to_dict(), **({} if ended is None else ended.to_dict())}
        made = {name: value for name, value in record.items() if name not in ("event", "process_data")}
        made |= {"status": entry.status, "retries": entry.retries}
        if ended is not None and (failed := ended.process_data.get("failed_items")):
            made["process_data"] = {"failed_items": failed}
        if virtual := [child for child in entry.inside if child.first.is_virtual]:
            made["virtual_nodes"] = _nested(virtual)
        if inner := [child for child in entry.inside if not child.first.is_virtual]:
            made["inner_nodes"] = _nested(inner)
        found.append(made)
    return found


def _is_child(child: NodeEvent, parent: NodeEvent) -> bool:
    places = [(event.in_node_id, tuple(event.passes)) for event in (child, parent)]
    return child.parent_node_id == parent.node_id and places[0] == places[1]


def _grow(tree: Tree, entries: list[_Entry], most: int) -> None:
    for entry in entries[-most:]:
        _grow(tree.add(_line(entry)), entry.inside, most)


def _line(entry: _Entry) -> Text:
    first, ended = entry.first, entry.ended
    sign, style = _SIGNS.get(entry.status, _FAILED)
    place = "".join(f"[{number}]" for number in first.passes)
    named = f" ({first.node_title})" if first.node_title not in ("", first.node_id) else ""
    parts = []
    if ended is not None:
        parts.append(duration((ended.finished_at - ended.start_at).total_seconds()))
        tokens = ended.metadata.get("total_tokens") if isinstance(ended, NodeRunSucceeded) else None
        parts.append(counted(tokens, "token") if tokens else "")
    parts += [counted(entry.retries, "retry", "retries") if entry.retries else "", _error(entry)]
    rest = ", ".join(part for part in parts if part)
    text = f"{place} {first.node_id}{named}".lstrip() + (f": {rest}" if rest else "")
    return Text.assemble((f"{sign} ", style), clean(text))


def _error(entry: _Entry) -> str:
    """Return what failed, without what the line of a node inside says already."""
    for inner in entry.inside[-_MOST_SHOWN:]:
        if inner.error and inner.error in entry.error:
            return entry.error.replace(inner.error, "…", 1)
    return entry.error
