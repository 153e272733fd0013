"""`autoprompt init`: a folder to start from, with invented rows, their task and settings."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

# Target -> file among the starter's; a package cannot hold a .gitignore that does not apply to itself.
_FILES = {
    "README.md": "README.md",
    "autoprompt.yaml": "autoprompt.yaml",
    "datasets/tickets.jsonl": "datasets/tickets.jsonl",
    "datasets/tickets.task.yaml": "datasets/tickets.task.yaml",
    ".gitignore": "gitignore",
}


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where; made if it is not there.")] = Path(),
) -> None:
    """Make a starter folder: a small dataset, its task, a config. Nothing that is there is overwritten."""
    starter = resources.files("autoprompt.cli") / "starter"
    for name, source in _FILES.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write((starter / source).read_text(encoding="utf-8"))
        except FileExistsError:
            typer.echo(f"kept     {target} (it was there)")
        else:
            typer.echo(f"written  {target}")
    before = "" if folder == Path() else f"cd {folder} && "
    typer.echo(f"Next: {before}autoprompt run --config autoprompt.yaml --dry-run")
