"""`autoprompt graph`: the optimization graph, drawn offline."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def graph(
    *,
    as_ascii: Annotated[bool, typer.Option("--ascii", help="Draw as text instead of Mermaid.")] = False,
) -> None:
    """Draw the optimization graph as Mermaid, or as text."""
    from autoprompt.optimizer.graph import graph_ascii, graph_mermaid

    typer.echo(graph_ascii() if as_ascii else graph_mermaid())
