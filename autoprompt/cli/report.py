"""`autoprompt report` and `autoprompt ui`: runs as pages, written to a file or served on this machine."""

from __future__ import annotations

import webbrowser
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoprompt.cli import options
from autoprompt.cli.output import clean, unknown_ending
from autoprompt.errors import InputError, Place, Problem, UsageError
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.folder import member_folders
from autoprompt.text.files import to_json, write_output
from autoprompt.text.machine import install_extra

if TYPE_CHECKING:
    from autoprompt.report import RunSummary

ENDINGS = (".html", ".md", ".json", ".svg", ".png")
report_app = typer.Typer(rich_markup_mode=None, add_completion=False)
ui_app = typer.Typer(rich_markup_mode=None, add_completion=False)


@report_app.command()
def report(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Id of a run or its beginning, a folder of runs, or `last`."),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write: .html, .md, .json, or .svg and .png for the plot. "
            "[default: report.html in the run's folder]",
        ),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Write a run as a self-contained page, or as Markdown for a pull request.

    Runs at work and interrupted ones have a report too, of what they have found so far. Of a folder with
    many runs, such as a batch, the page compares them. The path is printed on stdout.
    """
    if output is not None and output.suffix.lower() not in ENDINGS:
        raise unknown_ending(output, ENDINGS)
    folder, has_many = _found(run, runs_dir)
    path = output or folder / "report.html"
    if output is not None:
        _protect(folder, has_many=has_many)
    if has_many:
        _write_many(folder, path, is_named=output is not None)
    else:
        _write_one(RunFolder(folder), path, is_named=output is not None)
    _offer(path, open_it=open_it)


def show_report(folder: RunFolder, *, open_it: bool) -> None:
    """Write the page of a run into its folder, and open it."""
    path = folder.path / "report.html"
    _write_one(folder, path, is_named=False)
    _offer(path, open_it=open_it)


def _offer(path: Path, *, open_it: bool) -> None:
    typer.echo(str(path))
    if open_it and not webbrowser.open(path.absolute().as_uri()):
        typer.echo(f"cannot open a browser; open {path} yourself", err=True)


def _found(run: str, runs_dir: Path) -> tuple[Path, bool]:
    """Return the folder that is meant, and whether it holds many runs."""
    path = Path(run)
    if member_folders(path):
        return path, True
    folder = RunStore(runs_dir).open(run).path
    return folder, bool(member_folders(folder))


def _protect(folder: Path, *, has_many: bool) -> None:
    for path in member_folders(folder) if has_many else (folder,):
        options.protect_run(RunFolder(path))


def _write_one(folder: RunFolder, path: Path, *, is_named: bool) -> None:
    from autoprompt.report import read_summary

    if folder.read_info().get("kind") == "workflow":
        said = f"run {folder.run_id} is a workflow run, which has no report"
        raise InputError(Problem("report.other-kind", said, fix="Look at it with: autoprompt ui."))
    summary = read_summary(folder)
    if path.suffix.lower() == ".png":
        from autoprompt.report.html import png

        write_output(path, png(summary))
    else:
        write_output(path, _text(summary, path.suffix.lower()), is_named=is_named)
    typer.echo(clean(summary.title), err=True)


def _text(summary: RunSummary, ending: str) -> str:
    match ending:
        case ".md":
            from autoprompt.report.markdown import markdown

            return markdown(summary)
        case ".json":
            return to_json(summary.to_dict(), indent=2) + "\n"
        case ".svg":
            from autoprompt.report.html import svg

            return svg(summary)
    from autoprompt.report.html import page

    return page(summary)


def _write_many(folder: Path, path: Path, *, is_named: bool) -> None:
    from autoprompt.report.trials import read_trials

    trials = read_trials(folder)
    if not trials.trials:
        known = ", ".join(str(found) for found in member_folders(folder)[:3])
        said, fix = "no `optimize` run is directly in this folder", f"Name the folder of a batch: {known}."
        raise InputError(Problem("report.no-runs", said, Place(folder), fix))
    match path.suffix.lower():
        case ".json":
            text = to_json(trials.to_dict(), indent=2) + "\n"
        case ".md":
            from autoprompt.report.markdown import trials_markdown

            text = trials_markdown(trials)
        case ".svg" | ".png":
            said = f"a plot shows one run, but {folder} has {len(trials.trials)}"
            place = Place(path, setting="output", source="flag")
            raise UsageError(Problem("report.many-runs", said, place, "Name one of them."))
        case _:
            from autoprompt.report.html import trials_page

            text = trials_page(trials)
    write_output(path, text, is_named=is_named)
    typer.echo(clean(trials.headline), err=True)


@ui_app.command()
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
        from autoprompt.web.app import bind, serve
    except ModuleNotFoundError as error:
        said, fix = f"{error.name} is not installed", f"Install it: {install_extra('ui')}."
        raise InputError(Problem("web.not-installed", said, fix=fix)) from error
    if runs_dir.exists() and not runs_dir.is_dir():
        fix = "Give the folder of the runs with {runs_dir}."
        raise InputError(Problem("run.no-folder", "not a folder", Place(runs_dir), fix, {"runs_dir": None}))
    with closing(bind(port)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"

        def tell() -> None:
            typer.echo(address)
            typer.echo(
                f"Serving the runs in {clean(str(runs_dir))} on this machine only. Stop with Ctrl-C.",
                err=True,
            )
            if opens:
                webbrowser.open(address)

        try:
            serve(runs_dir, listening, on_start=tell)
        except KeyboardInterrupt:  # the usual way to end it
            typer.echo("", err=True)
