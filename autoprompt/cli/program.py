"""`autoprompt program`: what a program of the user's own sends, before anything is optimized."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import RunView, watching
from autoprompt.cli.output import below_here, clean, print_json
from autoprompt.errors import Problem, UsageError, Voice, tell
from autoprompt.report.numbers import money
from autoprompt.settings.records import ExportedSettings
from autoprompt.settings.resolve import resolve_measured
from autoprompt.settings.sources import flag_places
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.programs.probe import ProgramView
    from autoprompt.records import Step

_TAKES = {name: field for name, field in options.EVALUATION.items() if name not in ("prompt", "workflow")}
_FLAGS = (
    *("dataset", "program", "input_field", "target_field", "tools", "allow_effects", "base_url"),
    *("max_calls", "no_cache"),
)
_LONGEST = 200  # characters of a step's input and output

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Show what a program of your own sends.",
)


@app.callback()
def program() -> None:
    """Show what a program of your own sends."""


@app.command(cls=options.Panelled)
@options.with_settings(_FLAGS, _TAKES)
def show(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:OBJECT", help="The program; `module:make()` calls a factory.", show_default=False
        ),
    ] = None,
    *,
    flags: dict[str, Any],
    config: options.ConfigFile = None,
    as_json: options.Json = False,
    trust: options.Trust = False,
) -> None:
    """Run a program on a few rows, and show its prompts, calls, tools and what a row costs.

    Two rows run twice, up to six more once. Nothing is searched or scored.
    """
    if address is not None:
        if "program" in flags:
            place = flag_places(flags)["program"]
            problem = Problem("settings.exclusive", f"the program is also given as {address}", place)
            raise UsageError(problem)
        flags["program"] = address
    read_environment(is_trusted=trust)
    settings, _ = resolve_measured(ExportedSettings, flags, config_file=config, environ=os.environ)
    from autoprompt.evaluation.task import inspect_program

    with watching(render.console(stderr=True), RunView(), quiet=False) as (_, emit):
        view = inspect_program(settings, on_event=emit)
    console = render.console(stderr=as_json)
    if as_json:
        print_json({"program": settings.program, **view.to_dict()})
        return
    for line in _lines(str(settings.program), view):
        console.print(line)


def _lines(address: str, view: ProgramView) -> Iterator[Any]:
    calls = f"calls per row: {view.mean_calls:.3g} on average, {view.most_calls} at most"
    yield Text(f"{clean(address)}: {calls} ({counted(view.rows, 'row')} tried)")
    usage, rows = view.usage, max(1, view.rows)
    cost = None if usage.cost_usd is None else usage.cost_usd / rows
    sizes = f"{usage.prompt_tokens / rows:,.0f}, {usage.completion_tokens / rows:,.0f}"
    yield Text(f"tokens of a row, prompts and answers: about {sizes}; cost: {money(cost)}")
    if view.models:
        yield Text(f"models: {clean(', '.join(view.models))}")
    if view.tools:
        yield Text(f"tools: {clean(', '.join(view.tools))}")
    table = render.table("component", "kind", "called at", "text")
    for component in view.components:
        text = render.shortened(" ".join(component.text.split()))
        table.add_row(
            clean(component.name),
            component.kind,
            clean(below_here(view.place_of(component.name))),
            clean(text),
        )
    yield Text("")
    yield table
    yield Text("\nthe first row, call by call:")
    yield from map(_step, view.trace)
    for problem in view.warnings:
        yield Text(f"warning: {clean(tell(problem, Voice.CLI))}", "yellow")


def _step(step: Step) -> Text:
    got, gave = (render.shortened(" ".join(text.split()), _LONGEST) for text in (step.input, step.output))
    calls = "".join(f"\n    calls {call.name}({call.arguments})" for call in step.tool_calls)
    ended = f"failed: {step.error}" if step.error else "" if step.tool_calls else gave
    return Text(
        clean(f"  {step.node}\n    got {got or '-'}{calls}" + (f"\n    gave {ended}" if ended else ""))
    )
