"""`autoprompt models`: the embedded models, and fetching one ahead of its first use."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.live import watching
from autoprompt.cli.live_run import RunView
from autoprompt.cli.run import print_json
from autoprompt.llm.here import weights
from autoprompt.report.numbers import megabytes

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, no_args_is_help=True, help="List and download local models."
)


@app.command("list")
def list_models(*, as_json: options.Json = False) -> None:
    """List the models that need no endpoint, and whether their weights are here."""
    found = weights.table()
    if as_json:
        rows = [
            {
                "name": status.weights.name,
                "size_bytes": status.weights.size_bytes,
                "licence": status.weights.licence,
                "sha256": status.weights.sha256,
                "note": status.weights.note,
                "path": str(status.path),
                "is_present": status.is_present,
            }
            for status in found
        ]
        print_json({"models": rows})
        return
    made = render.table("model", "size", "licence", "here", "note", right=("size",))
    for status in found:
        known = status.weights
        here = "yes" if status.is_present else "no"
        cells = (f"local:{known.name}", megabytes(known.size_bytes), known.licence, here, known.note)
        made.add_row(*(Text(cell) for cell in cells))
    console = render.console()
    console.print(made)
    console.print(Text(f"Weights are in {weights.weights_dir()}. Download: autoprompt models pull [NAME]"))


@app.command()
def pull(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Name in `models list`, without `local:`.")
    ] = weights.DEFAULT,
    *,
    quiet: options.Quiet = False,
) -> None:
    """Download a model's weights and check their checksum. A broken download is continued."""

    def report(done: int, total: int, what: str) -> None:
        emit({"event": "weights_progress", "done_bytes": done, "total_bytes": total, "what": what})

    with watching(render.console(stderr=True), RunView(), quiet=quiet) as (_, emit):
        path = weights.pull(name.removeprefix("local:"), report)
    typer.echo(str(path))
