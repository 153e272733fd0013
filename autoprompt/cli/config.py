"""`autoprompt config`: settings of models, prices and limits that hold for all runs of a user."""

from __future__ import annotations

from typing import Annotated

import typer

from autoprompt.cli import options
from autoprompt.cli.output import clean, print_json
from autoprompt.errors import Place, Problem, UsageError
from autoprompt.settings.records import CallSettings
from autoprompt.settings.sources import read_assignments
from autoprompt.settings.user_file import path, read, write

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Set models, prices and limits once, for all runs.",
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Setting, such as `price_input`.")]


@app.command("list")
def list_settings(*, as_json: options.Json = False) -> None:
    """Show the settings and the file that they are in."""
    found = read()
    if as_json:
        print_json({"file": str(path()), "settings": found})
        return
    for name, value in found.items():
        typer.echo(clean(f"{name}: {value}"))
    typer.echo(f"{path()}{'' if found else ': nothing is set'}", err=True)


@app.command("set")
def set_setting(
    name: Name, value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value, as in YAML.")]
) -> None:
    """Set one for all runs. Flags, variables, a config file and a dataset's sidecar override it.

    Prices are in USD per million tokens. If the file names a `model`, they count for that model alone.
    """
    write(read_assignments([f"{name}={value}"], CallSettings.model_fields, known=read()))
    typer.echo(f"{path()}: {clean(name)} set", err=True)


@app.command()
def unset(name: Name) -> None:
    """Take one out of the file."""
    found = read()
    if name not in found:
        fix = f"The file sets: {', '.join(found)}." if found else "The file sets nothing."
        raise UsageError(Problem("settings.not-set", f"{name!r:.80} is not set", Place(path()), fix))
    write({key: value for key, value in found.items() if key != name})
    typer.echo(f"{path()}: {name} unset", err=True)
