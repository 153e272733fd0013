"""`autoprompt eval`: score one prompt on all rows of a dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from autoprompt.cli import options, render, scores
from autoprompt.cli.panel import watching
from autoprompt.cli.progress import duration, money
from autoprompt.cli.run import print_json, read_settings
from autoprompt.errors import BudgetExhausted, BudgetTooSmallError, Interrupted, UsageError
from autoprompt.store.files import check_writable, write_output

if TYPE_CHECKING:
    from autoprompt.api import EvaluationReport
    from autoprompt.types import Candidate

_PRICES = ("price_input", "price_output")  # of the run's model, and of no other
# What a run's best is scored with where no flag says otherwise: what the run itself used.
_FROM_RUN = (
    "workflow",
    "target_output",
    "tools",
    "input_field",
    "target_field",
    "metric",
    "metric_options",
    "model",
    "base_url",
    *_PRICES,
)
app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@options.with_settings(options.EVALUATION)
def evaluate(
    *,
    flags: dict[str, Any],
    config: options.ConfigFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"Write the rows too; the ending tells how: {', '.join(scores.ENDINGS)}.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="RUN", help="Score the best prompt of this run, demonstrations included."
        ),
    ] = None,
    candidate: options.CandidateId = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Score a prompt on a whole dataset, without optimization."""
    if output is not None:
        scores.check_ending(output)  # before anything is paid
        check_writable(output)
    from autoprompt import api

    scored: Candidate | None = None
    searched: set[str] = set()
    labels: tuple[str, ...] | None = None
    if run is not None:
        scored, searched, labels, known = _of_run(run, candidate, flags, runs_dir)
        flags = known | flags
    elif candidate is not None:
        raise UsageError("--candidate is one of a run: name it with --run RUN")
    settings = read_settings(flags, config)

    with watching(render.console(stderr=True), quiet=quiet) as (_, emit):
        try:
            report = api.evaluate(
                settings, candidate=scored, known_labels=labels, labels_of=f"run {run}", on_event=emit
            )
        except BudgetExhausted as error:
            raise BudgetTooSmallError(
                f"{error.cap} is too small to score every row ({error}). Raise it, or give fewer rows."
            ) from error
        except KeyboardInterrupt as error:
            raise Interrupted(
                "interrupted; with the cache on, the answers so far are not asked again"
            ) from error
    console = render.console(stderr=as_json)
    for line in _lines(report):
        console.print(Text(line))
    if warning := _not_unseen(searched, report):
        console.print(Text(f"warning: {warning}", "yellow"))
        report = replace(report, warnings=(*report.warnings, warning))
    if output is not None:
        write_output(output, scores.written(report, output))
        console.print(Text(f"rows: {output}"))
    if as_json:
        print_json(report.to_dict())


def _of_run(
    run: str, candidate: str | None, flags: Mapping[str, Any], runs_dir: Path
) -> tuple[Candidate, set[str], tuple[str, ...] | None, dict[str, Any]]:
    """Of a run: the candidate to score, ids of the rows it has searched with, labels, settings as flags."""
    from autoprompt import api
    from autoprompt.llm.endpoints import is_embedded
    from autoprompt.past_run import load_config
    from autoprompt.store import RunStore

    if given := [name for name in ("prompt", "workflow") if name in flags]:
        raise UsageError(f"--run and --{given[0]} exclude each other")
    folder = RunStore(runs_dir).open(run)  # once: meanwhile another may become the `last`
    scored = api.best_of(folder.path) if candidate is None else api.candidate_of(folder.path, candidate)
    known = load_config(folder).model_dump(include=set(_FROM_RUN))
    if flags.keys() & {"model", "base_url"}:
        known = {name: value for name, value in known.items() if name not in _PRICES}
    if is_embedded(flags.get("model") or ""):  # of the run's two, what the flag does not speak of is left out
        del known["base_url"]
    if "base_url" in flags and is_embedded(known["model"] or ""):
        del known["model"]
    if known["workflow"] is None:
        # Scored is the candidate. Its text is checked with the settings; a line end before it keeps one that
        # begins with "@" from being read as a file.
        known["prompt"] = f"\n{scored.prompt}"
    return scored, folder.rows_searched(), folder.read_labels(), known


def _not_unseen(searched: Collection[str], report: EvaluationReport) -> str:
    """What a score on rows that the run has searched with does not prove; "" where there are none."""
    known = sum(row.example_id in searched for row in report.evaluation.rows)
    if not known:
        return ""
    return f"{known} of the {report.n} rows took part in the search of this run: on those a score is no proof"


def _lines(report: EvaluationReport) -> list[str]:
    low, high = report.interval
    lines = [
        f"{report.metric} {report.score:.3f} (95% interval {low:.3f} to {high:.3f}) on {report.n} rows, "
        f"{report.model}"
    ]
    if report.unparsed or report.failed or report.unscored:
        missing = f"{report.unparsed} rows with an unreadable answer, {report.failed} that failed"
        lines.append(
            missing + (f", {report.unscored} that the judge gave no grade" if report.unscored else "")
        )
    lines.append(
        f"{report.calls:,} calls, {report.usage.total_tokens:,} tokens, cost {money(report.cost_usd)}, "
        f"{duration(report.seconds)}"
    )
    return lines
