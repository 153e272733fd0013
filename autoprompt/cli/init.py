"""`autoprompt init`: a folder to start from, with invented rows, their task and settings."""

from __future__ import annotations

import shlex
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_IGNORED = ".gitignore"
# Target -> file among the starter's; a package cannot hold a .gitignore that does not apply to itself.
_FILES = {
    "README.md": "README.md",
    "autoprompt.yaml": "autoprompt.yaml",
    "datasets/tickets.jsonl": "datasets/tickets.jsonl",
    "datasets/tickets.task.yaml": "datasets/tickets.task.yaml",
    _IGNORED: "gitignore",
}
_WORKFLOW = ".github/workflows/prompt-check.yml"
_CI_FILES = {"ci.yaml": "ci.yaml", _WORKFLOW: "prompt-check.yml"}
_MARK = "autoprompt.yaml"  # a folder that has it has been started already


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder to make or fill.")] = Path(),
    ci: Annotated[
        bool,
        typer.Option("--ci", help="Add a check for GitHub Actions."),
    ] = False,
) -> None:
    """Make a starter folder: a small dataset, its task and a config. Existing files are kept."""
    starter = resources.files("autoprompt.cli") / "starter"
    files = _FILES | (_CI_FILES if ci else {})
    if ci and (folder / _MARK).exists():
        files = _CI_FILES
    written = []
    for name, source in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write((starter / source).read_text(encoding="utf-8"))
        except FileExistsError:
            typer.echo(f"kept     {target} (it was there)")
        else:
            typer.echo(f"written  {target}")
            written.append(name)
    if lacking := _not_ignored(folder, starter):
        typer.echo(
            f"{folder / _IGNORED} lacks: {', '.join(lacking)}. Unless git ignores them already, add them"
        )
    if ci:
        (folder / "baselines").mkdir(exist_ok=True)
    before = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    if not ci:
        typer.echo(f"Next: {before}autoprompt run --config autoprompt.yaml --dry-run")
        return
    typer.echo("Next:")
    typer.echo(f"  set PACKAGE in {_WORKFLOW}: the address that pip installs autoprompt from")
    typer.echo("  name your model in ci.yaml, and give the workflow its key: the secret OPENAI_API_KEY")
    typer.echo(f"  {before}autoprompt check --config ci.yaml --update-baseline")
    there = [name for name in ("datasets", *_CI_FILES, "baselines") if (folder / name).exists()]
    tops = dict.fromkeys(name.partition("/")[0] for name in (*written, *there))
    typer.echo(f"  {before}git add {' '.join(tops)}")


def _not_ignored(folder: Path, starter: Traversable) -> list[str]:
    """The lines of our .gitignore that the folder's own, or none, does not have."""
    target = folder / _IGNORED
    has = target.read_text(encoding="utf-8", errors="replace") if target.is_file() else ""
    own = {line.strip().strip("/") for line in has.splitlines()}
    ours = (starter / _FILES[_IGNORED]).read_text(encoding="utf-8").split()
    return [line for line in ours if line.strip("/") not in own]
