"""`autoprompt memory`: what earlier runs learned, to read, to search, to forget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.output import clean, print_json, print_text, unknown_ending
from autoprompt.errors import Place, Problem, UsageError
from autoprompt.memory import EXPORT_FORMATS, Experience, ExperienceFile
from autoprompt.text.files import write_output
from autoprompt.text.inputs import protect
from autoprompt.text.names import counted

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Show, search, export and forget experiences.",
)
File = Annotated[
    Path,
    typer.Option(
        "--memory-file",
        metavar="FILE",
        envvar="AUTOPROMPT_MEMORY_FILE",
        parser=options.path,
        help="File of the experiences.",
    ),
]
_DEFAULT = Path("memory/memory_experiences.txt")
_MOST_SHOWN = 200  # as many as a file of ours holds by default; a table of 10,000 takes half a minute


@app.command()
def show(*, memory_file: File = _DEFAULT, as_json: options.Json = False) -> None:
    """List all experiences, the most important first."""
    known = ExperienceFile(memory_file).load()
    entries = sorted(known, key=lambda entry: (entry.verdict == "no_difference", -entry.priority))
    _print(
        memory_file, entries, as_json=as_json, nothing=f"{memory_file}: no experiences yet; a run writes them"
    )


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words to find, or a task in words.")],
    *,
    memory_file: File = _DEFAULT,
    as_json: options.Json = False,
) -> None:
    """Find experiences with these words, then those of similar tasks."""
    entries = ExperienceFile(memory_file).search(" ".join(words))
    _print(
        memory_file,
        entries,
        as_json=as_json,
        nothing=f"{memory_file}: nothing about {clean(' '.join(words))}",
    )


@app.command()
def forget(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="Ids of experiences, or their beginnings.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Forget all experiences.")] = False,
    yes: options.Yes = False,
    memory_file: File = _DEFAULT,
) -> None:
    """Delete experiences from the file for good."""
    if bool(ids) == everything:
        fix = "Give the ids of experiences, which `autoprompt memory show` lists, or --all."
        raise UsageError(Problem("usage.what-to-forget", "nothing to forget", fix=fix))
    file = ExperienceFile(memory_file)
    if everything:
        options.confirm(
            f"Forget all {counted(len(file.load()), 'experience')} in {memory_file} for good?", yes=yes
        )
    else:
        named = "; ".join(f"{entry.id} {clean(entry.text)}" for entry in file.find(ids or ()))
        options.confirm(f"Forget {named} in {memory_file} for good?", yes=yes)
    gone = file.forget(where=lambda _: True) if everything else file.forget(ids or ())
    for entry in gone:
        typer.echo(f"forgotten: {entry.id} {clean(entry.text)}", err=True)
    typer.echo(f"{memory_file}: {len(gone)} forgotten, {len(file.load())} left", err=True)


@app.command()
def export(
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help=f"Format: {', '.join(EXPORT_FORMATS)}. [default: json]"
        ),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="File to write.")] = None,
    memory_file: File = _DEFAULT,
) -> None:
    """Write all experiences in another format. Without --format, the ending of --to decides."""
    chosen = form or _format_for(to)
    if chosen not in EXPORT_FORMATS:
        said, fix = f"unknown format {chosen!r}", f"Use one of {', '.join(EXPORT_FORMATS)}."
        raise UsageError(Problem("usage.format", said, Place(setting="format", source="flag"), fix))
    text = ExperienceFile(memory_file).export(chosen)
    protect(memory_file, "memory_file")
    if to is None:
        print_text(text)
    else:
        write_output(to, text)
        typer.echo(f"{to}: written ({chosen})", err=True)


def _format_for(to: Path | None) -> str:
    ending = to.suffix.lower() if to else ""
    if not ending:
        return "json"
    if ending[1:] not in EXPORT_FORMATS:
        raise unknown_ending(Path(str(to)), [f".{name}" for name in EXPORT_FORMATS], flag="to")
    return ending[1:]


def _print(memory_file: Path, entries: Sequence[Experience], *, as_json: bool, nothing: str) -> None:
    for problem in ExperienceFile(memory_file).problems():
        typer.echo(f"warning: {memory_file} {clean(str(problem))}", err=True)
    if as_json:
        print_json({"path": str(memory_file), "experiences": [entry.to_dict() for entry in entries]})
        return
    if not entries:
        typer.echo(nothing)
        return
    made = render.table("id", "effect", "rows", "change", "task", right=("rows",))
    for entry in entries[:_MOST_SHOWN]:
        effect = entry.verdict.replace("_", " ") + ("" if entry.gain is None else f" {entry.gain:+.2f}")
        cells = (entry.id, effect, str(entry.rows), entry.text, entry.task)
        made.add_row(*(Text(clean(cell)) for cell in cells))
    render.console().print(made)
    if len(entries) > _MOST_SHOWN:
        typer.echo(
            f"{_MOST_SHOWN} of {len(entries):,} shown; all of them: --json, or autoprompt memory export",
            err=True,
        )
