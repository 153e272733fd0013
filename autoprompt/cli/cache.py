"""`autoprompt cache`: answers kept between runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autoprompt.cli import options
from autoprompt.cli.run import print_json
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.report.numbers import megabytes
from autoprompt.text.names import counted

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Show or clear the response cache.",
)
Folder = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        metavar="FOLDER",
        envvar="AUTOPROMPT_CACHE_DIR",
        parser=options.path,
        help="Folder of the response cache.",
    ),
]


@app.command()
def show(*, cache_dir: Folder = None, as_json: options.Json = False) -> None:
    """Show where the cache is and how much it holds."""
    with closing(ResponseCache(cache_dir)) as cache:
        stats = cache.stats()
    if as_json:
        print_json({**asdict(stats), "path": str(stats.path)})
        return
    typer.echo(
        f"{stats.path}: {counted(stats.answers, 'answer')}, {megabytes(stats.size_bytes)} "
        f"of at most {megabytes(stats.max_bytes)}"
    )


@app.command()
def clear(*, cache_dir: Folder = None, yes: options.Yes = False) -> None:
    """Forget all answers. Run folders keep their own."""
    with closing(ResponseCache(cache_dir)) as cache:
        before = cache.stats()
        options.confirm(f"Forget {counted(before.answers, 'answer')} in {before.path} for good?", yes=yes)
        cache.clear()
    typer.echo(f"{before.path}: {counted(before.answers, 'answer')} forgotten", err=True)
