"""`autoprompt trust`: the folders whose files may name code, files elsewhere and addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoprompt.cli import clean, options
from autoprompt.cli.run import print_json
from autoprompt.errors import UsageError
from autoprompt.settings import trust as trusted

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def trust(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", parser=options.path, help="Folder to trust, including its subfolders."
        ),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the folder.")] = False,
    as_json: options.Json = False,
) -> None:
    """Trust a folder for good, or list the trusted ones.

    In a trusted folder, a sidecar, a `.env` and a run folder are treated as if you had written them: they may
    name code that is executed, files that are sent and addresses that get your key.
    """
    if folder is None:
        if remove:
            raise UsageError("--remove needs the folder: autoprompt trust FOLDER --remove")
        _list(as_json=as_json)
        return
    path = trusted.remove(folder) if remove else trusted.store(folder)
    if as_json:
        print_json({"folder": str(path), "trusted": not remove})
        return
    typer.echo(f"{'no longer trusted' if remove else 'trusted'}: {clean(str(path))}")


def _list(*, as_json: bool) -> None:
    folders = trusted.stored_folders()
    if as_json:
        print_json({"folders": [str(folder) for folder in folders]})
        return
    for folder in folders:
        typer.echo(clean(str(folder)))
    if not folders:
        typer.echo("No folder is trusted. Trust one with: autoprompt trust FOLDER", err=True)
