"""`autoprompt runs`: what earlier runs did, side by side, and their prompts for other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.output import clean, print_json, print_text, unknown_ending
from autoprompt.errors import Place, Problem, StoreError, UsageError, Voice, tell
from autoprompt.records import EXPORT_FORMATS
from autoprompt.report.numbers import NONE, count, money, score
from autoprompt.runs import RunFolder, RunLine, RunStore
from autoprompt.runs.folder import is_usual
from autoprompt.runs.listing import best_of, summarize
from autoprompt.settings.prompt_file import export_form, is_export
from autoprompt.text.files import check_writable, write_output
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.programs.apply import Applied
    from autoprompt.report.two_runs import Compared, Comparison

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="List, show, compare, export, apply and delete runs.",
)
Run = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run or its beginning, its folder, or `last`.")
]
_DROPPED_FIRST = (
    "name",
    "cost",
    "calls",
    "highest",
    "1,000 calls",
    "model",
    "original",
    "verdict",
    "best",
    "status",
)
_CAPS = ("max_calls", "max_tokens", "max_cost", "max_seconds")
_SETTINGS = (
    "name",
    "tags",
    "notes",
    "dataset",
    "train",
    "val",
    "test",
    "prompt",
    "preset",
    "model",
    "base_url",
    "metric",
    "seed",
    "pick",
    "traffic",
    *_CAPS,
)
_LONGEST_SETTING = 100
_ENDINGS = {"": "text", ".txt": "text", ".md": "text", ".yaml": "yaml", ".yml": "yaml", ".json": "openai"}

Pick = Annotated[
    Literal["highest", "cheapest"] | None,
    typer.Option("--pick", help="Other tested prompt to take: the `highest` score, or the `cheapest`."),
]


def _folder_and_candidate(run: str, runs_dir: Path, pick: str | None) -> tuple[RunFolder, str | None]:
    """Return the run and the id of the candidate that is meant; None for what the run returns."""
    name, candidate = options.run_and_candidate(run)
    folder = RunStore(runs_dir).open(name)
    if pick is None:
        return folder, candidate
    if candidate is not None:
        said, fix = f"cannot be combined with the candidate of {run}", "Give one of them."
        raise UsageError(Problem("settings.exclusive", said, Place(setting="pick"), fix))
    return folder, folder.end_id(pick)


@app.command("list")
def list_runs(*, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """List all runs, newest first."""
    if not (runs_dir.is_dir() or is_usual(runs_dir)):  # the usual one comes with the first run
        fix = "Give the folder of your runs with {runs_dir}."
        said = "this is a file, not a folder" if runs_dir.is_file() else "no such folder"
        raise StoreError(Problem("run.no-folder", said, Place(runs_dir), fix, {"runs_dir": None}))
    found = RunStore(runs_dir).list()
    if as_json:
        print_json({"runs": [_summary(run) for run in found]})
        return
    console = render.console()
    if not found:
        console.print(Text(f"No runs in {runs_dir} yet. Start one: autoprompt run --dataset FILE"))
        return
    made = _fitting_table(found).within(console.width, console)
    # An id is there to be copied: where even it alone is too long, the terminal may break the line, not we.
    console.print(made, width=max(console.width, render.natural_width(made, console)), crop=False)
    for run in found:
        if run.problem:
            console.print(Text(f"{clean(run.run_id)}: {clean(run.problem)}", "yellow"))


def _fitting_table(found: list[RunLine]) -> render.Fitting:
    rows = [_cells(run) for run in found]
    made = render.table(*rows[0], right=("1,000 calls", "calls", "cost"))
    for row in rows:
        made.add_row(*(Text(clean(text)) for text in row.values()))
    return render.Fitting(made, _DROPPED_FIRST, ("name", "highest", "1,000 calls"))


def _cells(run: RunLine) -> dict[str, str]:
    return {
        "run": run.run_id,
        "name": run.name or NONE,
        "status": run.status,
        "model": run.model or NONE,
        "original": _shown_score(run.original, run.validation_original),
        "best": _shown_score(run.best, run.validation_best),
        "1,000 calls": NONE if run.best_call is None else run.best_call.shown,
        "highest": NONE if run.highest is None else _highest(run),
        "verdict": (run.verdict or NONE).replace("_", " "),
        "calls": count(run.calls),
        "cost": money(run.cost_usd) if run.calls is not None else NONE,
    }


def _highest(run: RunLine) -> str:
    """Return the score and the cost of the tested prompt that costs more than the best."""
    cost = "" if run.highest_call is None else f" ({run.highest_call.shown})"
    return f"{score(run.highest)}{cost}"


def _shown_score(tested: float | None, validation: float | None) -> str:
    """Return the score on the sealed test, else that on validation, marked as such."""
    return score(tested) if validation is None else f"{score(validation)} (validation)"


def _summary(run: RunLine) -> dict[str, Any]:
    return {**asdict(run), "path": str(run.path)}


@app.command()
def show(run: Run, *, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Show one run: its settings, candidates and result."""
    folder = RunStore(runs_dir).open(run)
    kind = folder.read_info().get("kind")
    if kind == "batch":
        _show_batch(folder, as_json=as_json)
        return
    if kind == "science":
        from autoprompt.cli.science import show_run

        show_run(folder, as_json=as_json)
        return
    if kind == "workflow":
        from autoprompt.cli.flow import show_run as show_flow

        show_flow(folder, as_json=as_json)
        return
    if as_json:
        facts = {
            "config": folder.read_config(),
            "candidates": list(folder.read_candidates().values()),
            "result": folder.read_result(),
        }
        print_json({**_summary(summarize(folder)), **facts})
        return
    console = render.console()
    for part in _shown(folder, console):
        render.show(part, console)


def _show_batch(folder: RunFolder, *, as_json: bool) -> None:
    from autoprompt.batch.folder import BatchFolder
    from autoprompt.batch.run import stand
    from autoprompt.batch.table import BatchResult
    from autoprompt.cli.batch import print_parts, result_table

    batch = BatchFolder.open(folder)
    table, is_at_work = batch.read_table(), folder.is_locked()
    if not table:
        fix = f"Resume it with: autoprompt resume {folder.reference}."
        raise StoreError(Problem("batch.no-table", f"batch {folder.run_id} has no table yet", fix=fix))
    if not is_at_work and any(row["status"] == "running" for row in table["rows"]):
        table = stand(batch).to_dict()  # its driver was killed
    if as_json:
        print_json(table)
        return
    print_parts(result_table(BatchResult.from_dict(table), is_at_work=is_at_work))


def _shown(folder: RunFolder, console: Console) -> Iterator[RenderableType]:
    from autoprompt.cli.run_view import candidate_table, changed_rows, search_plot
    from autoprompt.report import read_summary

    run, width = read_summary(folder), console.width
    yield Text(f"{clean(run.run_id)}: {run.status}", "bold")
    yield Text(f"started {run.created}")
    for name in _SETTINGS:
        value = run.model if name == "model" else run.settings.get(name)
        if value not in (None, "", []):
            yield Text(f"  {name:12}{render.shortened(str(value), _LONGEST_SETTING)}")
    yield Text()
    drawn = search_plot(run, width, has_unicode=console.encoding.startswith("utf"))
    if drawn is not None:
        yield drawn
        yield Text()
    if run.candidates:
        yield candidate_table(run, console)
        yield Text()
    if not run.has_result:
        yield Text(clean(run.headline), "bold")
        yield Text(clean(run.explanation))
        return
    if not run.is_finished:
        yield Text(clean(run.explanation))
        yield Text()
    yield from changed_rows(run.rows, width=width)
    yield from render.result(run, is_show=True)


@app.command("diff")
def diff_runs(
    a: Annotated[
        str,
        typer.Argument(metavar="A", help="First RUN[:CANDIDATE]: a run, or `last`, and a candidate's id."),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Second RUN[:CANDIDATE].")],
    *,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Compare the best prompts of two runs, or two candidates, with a paired test on their common test rows.

    Names the command that compares them on rows of yours.
    """
    from autoprompt.report.two_runs import compare  # here, since only this command needs it

    sides = tuple(_compared(run, runs_dir) for run in (a, b))
    found = compare(*sides)
    if as_json:
        runs = {
            name: _summary(summarize(RunFolder(side.run.path)))
            for name, side in zip("ab", sides, strict=True)
        }
        print_json({**runs, **_differences(found), "compared": found.to_dict()})
        return
    console = render.console()
    for part in _side_by_side(found, console.width):
        render.show(part, console)


def _compared(run: str, runs_dir: Path) -> Compared:
    from autoprompt.report import read_summary
    from autoprompt.report.two_runs import Compared

    folder, candidate = _folder_and_candidate(run, runs_dir, None)
    if candidate is None:
        best_of(folder)  # an unfinished run has none to compare
    else:
        candidate = folder.find_candidate(candidate)["id"]
    return Compared.of(read_summary(folder), candidate)


def _differences(found: Comparison) -> dict[str, Any]:
    ids = found.sides[0].name, found.sides[1].name
    components = [
        {"name": text.name, "text_a": text.text_a, "text_b": text.text_b, "lines": text.unified(*ids)}
        for text in found.texts
    ]
    candidates = [side.candidate for side in found.sides]
    ids_of = (None if one is None else one.id for one in candidates)
    costs = (None if one is None or one.cost is None else one.cost.to_dict() for one in candidates)
    return {
        **dict(zip(("candidate_a", "candidate_b"), ids_of, strict=True)),
        **dict(zip(("cost_a", "cost_b"), costs, strict=True)),
        "components": components,
        "demos_a": found.count_demos(0),
        "demos_b": found.count_demos(1),
    }


def _side_by_side(found: Comparison, width: int) -> Iterator[RenderableType]:
    right = ("1,000 calls", "demos")
    made = render.table("", "original", "score", "verdict", *right, "model", right=right)
    for place, side in enumerate(found.sides):
        cells = (
            side.name,
            score(side.run.result.original.score),
            score(side.score),
            side.run.verdict.replace("_", " ") if side.tested_as == "best" else NONE,
            NONE if side.candidate is None else side.candidate.shown_cost or NONE,
            str(found.count_demos(place)),
            side.run.model or NONE,
        )
        made.add_row(*(Text(clean(cell)) for cell in cells))
    yield made
    if found.gain is None:
        yield Text(clean(f"The scores cannot be compared. {found.no_rows}"), "yellow")
    else:
        yield Text(f"{found.headline} (paired, two-sided). {found.meaning}")
    if found.command is not None:
        yield Text(clean(f"Compare both on the same rows: {found.command}"), "dim")
    yield Text()
    for text in found.texts:
        if text.is_equal:
            yield Text(f"{clean(text.name)}: the same text")
            continue
        if len(found.texts) > 1:
            yield Text(clean(text.name), "bold")
        half = max(30, width // 2 - 1)
        sides = [
            Panel(Text(clean(prompt)), title=Text(clean(side.name)), width=half)
            for side, prompt in zip(found.sides, (text.text_a, text.text_b), strict=True)
        ]
        yield Columns(sides, padding=(0, 0))
        yield render.prompt_diff(text.text_a, text.text_b)


@app.command()
def export(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN[:CANDIDATE]", help="Run, or `last`; and a candidate's id, or `original`."
        ),
    ],
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"Format: {', '.join(EXPORT_FORMATS)}; for a workflow text or workflow; for a program "
            "text or program. [default: text; workflow for workflows; program for programs]",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="File to write, such as the original prompt's."),
    ] = None,
    pick: Pick = None,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Write the prompt that the run returns, or another candidate, for people or for other programs.

    Without --format, the ending of --to decides: .yaml, .json (OpenAI messages), .txt or .md. The text holds
    the prompt without its demonstrations; the other formats have them. A workflow is written as its file with
    the best prompts and demonstrations in it, comments and layout kept, or as the texts of its prompts. The
    texts of a program are written as YAML, for `autoprompt.use` and `eval --from`.
    """
    from autoprompt.evaluation.exported import export_formats, export_notes, export_run  # not to list runs

    folder, candidate = _folder_and_candidate(run, runs_dir, pick)
    chosen = form or _format_for(folder, to)
    text = export_run(folder, chosen, candidate=candidate)
    for note in export_notes(folder, chosen, candidate=candidate):
        typer.echo(f"note: {clean(note)}", err=True)
    if (candidate is None or pick is not None) and _keeps_original(folder):
        typer.echo(f"note: {_other_candidates(folder, 'your own prompt', 'export')}", err=True)
    formats = export_formats(folder)
    _check_characters(text, formats, "utf-8" if to is not None else sys.stdout.encoding or "utf-8")
    if to is None:
        typer.echo(text, nl=False)
    else:
        options.protect_run(folder)
        check_writable(to, role="workflow")  # which gets its best prompts
        if export_form(text) is not None and to.is_file() and not is_export(to):
            said = "this file exists and is not an export"
            raise UsageError(Problem("export.other-file", said, Place(to), "Give another path."))
        done = "replaced" if to.is_file() else "written"
        write_output(to, text, role="workflow")
        typer.echo(f"{to}: {done} ({chosen})", err=True)
    best = (folder.read_result() or {}).get("best") if candidate is None else folder.find_candidate(candidate)
    demos = (best or {}).get("demos") or ()
    if chosen == "text" and demos:
        typer.echo(
            f"warning: its score includes {counted(len(demos), 'demonstration')} that text lacks. Use "
            f"another --format: {', '.join(formats[1:])}",
            err=True,
        )


@app.command()
def apply(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN[:CANDIDATE]", help="Run, or `last`; and a candidate's id, or `original`."
        ),
    ],
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the files, not only the diff.")] = False,
    pick: Pick = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    trust: options.Trust = False,
) -> None:
    """Put the best texts, or another candidate's, into the source of your own program.

    Shows a unified diff; --write writes the files. Only string literals and files of prompts that hold the
    original texts change. Exit code 1 if a text has no place there, or several: then nothing is written.
    """
    from autoprompt.cli.environment import read_environment  # here, since only this command needs them
    from autoprompt.optimizer.result import Run as OneRun

    read_environment(is_trusted=trust)
    folder, candidate = _folder_and_candidate(run, runs_dir, pick)
    folder.check_is_own()  # it names files and what comes into them
    applied = OneRun.open(folder.path).apply(candidate=candidate or "best", dry_run=not write)
    if as_json:
        print_json(applied.to_dict())
    else:
        print_text(applied.diff)
        _tell_applied(applied)
        if (candidate is None or pick is not None) and _keeps_original(folder):
            typer.echo(_other_candidates(folder, "your own texts", "apply", " --write"), err=True)
    if applied.unplaced:
        raise typer.Exit(1)


def _keeps_original(folder: RunFolder) -> bool:
    return bool((folder.read_result() or {}).get("best", {}).get("is_original"))


def _other_candidates(folder: RunFolder, returned: str, verb: str, options: str = "") -> str:
    """Say that the run returned the original, and how to take another candidate."""
    run = folder.reference
    taken = f"autoprompt runs {verb} {run}:ID{options}"
    return (
        f"This run returned {returned}. To {verb} another candidate: {taken}; `autoprompt runs show {run}` "
        "lists them."
    )


def _tell_applied(applied: Applied) -> None:
    for warning in applied.warnings:
        typer.echo(f"warning: {clean(tell(warning, Voice.CLI))}", err=True)
    for text in applied.unplaced:
        at = f" (sent from {text.place})" if text.place.file is not None else ""
        typer.echo(
            clean(f"{text.name}{at}: {text.why}. Put this text there yourself:\n{text.text}"), err=True
        )
    if applied.unplaced:
        typer.echo("Nothing was written.", err=True)
    elif not applied.files:
        typer.echo("The source has these texts already.", err=True)
    elif applied.is_written:
        typer.echo(f"{', '.join(clean(str(path)) for path in applied.files)}: written", err=True)
    else:
        typer.echo("Nothing was written. Add --write to write it.", err=True)


def _check_characters(text: str, formats: Sequence[str], encoding: str) -> None:
    """Refuse to write a prompt that would not be the one that was measured. formats: others of the run."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError as error:
        character = text[error.start]
        if 0xD800 <= ord(character) <= 0xDFFF:
            said = "the prompt contains half of a surrogate pair, which is not a character"
            escaped = "openai" if "openai" in formats else formats[-1]  # the form of its source
            problem = Problem("export.surrogate", said, fix="Use {format}.", settings={"format": escaped})
            raise StoreError(problem) from error
        said = f"stdout ({encoding}) cannot show {character!r} in the prompt"
        fix = "Use {to}, or set PYTHONIOENCODING=utf-8."
        raise StoreError(Problem("export.encoding", said, fix=fix, settings={"to": "<FILE>"})) from error


def _format_for(folder: RunFolder, to: Path | None) -> str:
    ending = to.suffix.lower() if to else ""
    if ending not in _ENDINGS:
        raise unknown_ending(Path(str(to)), filter(None, _ENDINGS), flag="to")
    from autoprompt.evaluation.task import source_form  # reads rows: not to list runs

    form = source_form(folder.read_config())
    return form.name if form is not None and ending in form.endings else _ENDINGS[ending]


_AGES = {"h": "hours", "d": "days", "w": "weeks"}
_LONGEST_AGE = 5  # digits: dates do not go back any further


def _age(text: str) -> timedelta:
    """Return the parser of `--older-than`: `12h`, `30d`, `8w`."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or len(number) > _LONGEST_AGE or unit not in _AGES:
        raise typer.BadParameter(f"expected hours, days or weeks such as 12h, 30d or 8w, found {text!r}")
    return timedelta(**{_AGES[unit]: int(number)})


@app.command("rm")
def remove(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Ids of the runs.")] = None,
    *,
    older_than: Annotated[
        timedelta | None,
        typer.Option(metavar="AGE", parser=_age, help="Runs that began longer ago: 12h, 30d, 8w."),
    ] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", min=0, help="All but the newest N runs.")] = None,
    yes: options.Yes = False,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Delete runs for good: those that are named, or old ones. Shows old ones before it asks.

    With both --older-than and --keep, a run must be old and not among the newest. Runs at work stay.
    """
    store, named = RunStore(runs_dir), list(runs or ())
    if bool(named) == (older_than is not None or keep is not None):
        said, fix = "name runs, or say which old ones", "Give RUN..., or --older-than AGE or --keep N."
        raise UsageError(Problem("usage.no-runs", said, fix=fix))
    if not named:
        found = _old(store.list(), older_than, keep)
        if not found:
            typer.echo("No run is that old.", err=True)
            return
        console = render.console(stderr=True)
        console.print(_fitting_table(found))
        named = [run.run_id for run in found]
        options.confirm(f"Delete these {counted(len(named), 'run')} for good?", yes=yes)
    else:
        for run in named:
            store.check_known(run)
        options.confirm(f"Delete {', '.join(clean(run) for run in named)} for good?", yes=yes)
    for run in named:
        typer.echo(f"{store.remove(run)}: deleted", err=True)


def _old(runs: Sequence[RunLine], older_than: timedelta | None, keep: int | None) -> list[RunLine]:
    """Return the runs to delete, of runs that are listed newest first.

    A broken run, which says no time, stays.
    """
    before = datetime.max if older_than is None else datetime.now(UTC).replace(tzinfo=None) - older_than
    return [
        run
        for run in runs[keep or 0 :]
        if (began := _time(run)) is not None and began < before and not RunFolder(run.path).is_locked()
    ]


def _time(run: RunLine) -> datetime | None:
    """When a run began, in UTC; None if its file does not say."""
    try:
        return datetime.fromisoformat(run.created).replace(tzinfo=None)  # written in UTC
    except ValueError:
        return None
