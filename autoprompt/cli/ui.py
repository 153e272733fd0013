"""`autoprompt ui`: a local page over the runs."""

from __future__ import annotations

import webbrowser
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from autoprompt.cli import clean, options
from autoprompt.errors import InputError
from autoprompt.text.extras import install_extra

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def ui(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port on 127.0.0.1; 0 takes any free one. [default: 8642, or the next free one]",
            show_default=False,
        ),
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Show the runs in the browser: list, live view, reports, comparison. Read-only, this machine only.

    Prints the address and serves until Ctrl-C.
    """
    try:
        from autoprompt.web.server import bind, serve
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed. Install it: {install_extra('ui')}") from error
    if runs_dir.exists() and not runs_dir.is_dir():
        raise InputError(f"{runs_dir}: not a folder. Give the folder of the runs with --runs-dir.")
    with closing(bind(port)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"

        def tell() -> None:
            typer.echo(address)
            typer.echo(f"The runs in {clean(str(runs_dir))}, on this machine only. Ctrl-C ends it.", err=True)
            if opens:
                webbrowser.open(address)

        try:
            serve(runs_dir, listening, on_start=tell)
        except KeyboardInterrupt:  # the usual way to end it
            typer.echo("", err=True)
