"""`autoprompt resume`: go on with a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoprompt.cli import options
from autoprompt.cli.run import watch

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def resume(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Id, its beginning, folder of the run, or `last`.")
    ],
    *,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on with an interrupted run: no answer that is there already is asked for again.

    Of a finished run the result is shown.
    """
    from dotenv import load_dotenv

    load_dotenv(Path(".env"), override=False)
    from autoprompt import api

    watch(
        lambda emit: api.resume(run, runs_dir=runs_dir, on_event=emit),
        as_json=as_json,
        quiet=quiet,
    )
