"""`autoprompt flow`: workflows run, checked and drawn."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.flow_view import FlowView, nested
from autoprompt.cli.live import watching
from autoprompt.cli.output import clean, json_text, print_json, print_line
from autoprompt.errors import ConfigError, Problem, UsageError, Voice, tell
from autoprompt.llm.endpoints import sentences
from autoprompt.runs.listing import summarize
from autoprompt.settings.kinds import Panel
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.runs import RunFolder
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
    flow = FlowRun(file, settings, runs_dir, mocks=stand_ins, tools=tools)
    show(flow, flow.stream(given), events, as_json, quiet)


def _settings(flags: dict[str, Any], config: Path | None, *, is_trusted: bool) -> Any:
    import os

    from autoprompt.cli.environment import read_environment
    from autoprompt.llm.endpoints import choose_model
    from autoprompt.settings.resolve import resolve_models

    read_environment(is_trusted=is_trusted)
    settings = resolve_models(flags, config_file=config, environ=os.environ)
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
        for line in sentences(sends) if sends is not None else ():
            typer.echo(clean(line), err=True)
        for event in stream:
            print_line(json_text(event.to_dict()))
        flow.check()
        return
    console = render.console(stderr=True)
    view = FlowView()
    try:
        with watching(console, view, quiet=quiet) as (_, emit):
            if sends is not None:
                emit(sends)
            for event in stream:
                emit(event.to_dict())
    finally:
        if console.is_terminal and not quiet:  # the panel is gone
            console.print(view.tree())
    flow.check()
    if as_json:
        name = "nodes" if "nodes" not in flow.outputs else "_nodes"
        print_json({**flow.outputs, name: nested(view.entries), "_sent_to": view.sent_to})
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
    view = FlowView()
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
        except ConfigError as error:  # no YAML at all; the other files are looked at all the same
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
