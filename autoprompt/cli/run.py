"""`autoprompt run`: optimize a prompt, watch it, show what came out."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import RunView, watching
from autoprompt.cli.output import below_here, clean, print_json
from autoprompt.errors import (
    ConfigError,
    Interrupted,
    Place,
    Problem,
    StoreError,
    UsageError,
    Voice,
    command,
    tell,
)
from autoprompt.llm.traits import said_traits, traits_of
from autoprompt.records import OnEvent, Origin
from autoprompt.report.numbers import duration, money
from autoprompt.runs import RunFolder
from autoprompt.runs.resuming import interrupted
from autoprompt.settings.places import placed
from autoprompt.settings.records import STARTS, RunConfig
from autoprompt.settings.resolve import CompleteConfig, resolve, with_known_fields, with_known_labels
from autoprompt.settings.sources import Placed, flag_places, plain
from autoprompt.text.names import counted, listed

if TYPE_CHECKING:
    from autoprompt.evaluation.estimate import EvaluationEstimate
    from autoprompt.optimizer.forecast import Estimate
    from autoprompt.optimizer.result import RunResult
    from autoprompt.records import Candidate


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=options.Panelled)
@options.with_settings(options.RUN_FLAGS, options.RUN)
def run(
    *,
    flags: dict[str, Any],
    source: options.Source = None,
    config: options.ConfigFile = None,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Optimize a prompt on a dataset.

    Every setting can also be in the --config file or in an AUTOPROMPT_... variable.
    """
    read_environment(is_trusted=trust)
    check_metric(flags)
    if source is not None:
        options.check_only_source(flags)
        # The text is put in below: here, one that begins with "@" would be read as a file.
        flags = {**flags, "prompt": Placed.taken_from("the prompt of --from")}
    settings = resolve(CompleteConfig, flags, config_file=config, environ=os.environ)
    if source is not None:
        start = _start(source, settings.runs_dir, quiet=quiet)
        origin = start.origin or Origin("")
        settings = with_known_fields(settings, origin.input_field, origin.target_field)
        settings, _ = with_known_labels(settings, origin.labels, origin.name)
        settings = settings.model_copy(update={"prompt": start.prompt})
    if dry_run:
        show_estimate(settings, as_json=as_json)
        return
    from autoprompt.optimizer import api

    watch(lambda emit: api.optimize(settings, on_event=emit), as_json=as_json, quiet=quiet)


def _start(source: str, runs_dir: Path, *, quiet: bool) -> Candidate:
    """Return the prompt to start from, which is a run's or an export's. Its text alone is optimized.

    Raises:
        UsageError: `source` names neither a run nor an export.
        ConfigError: There is no such export, or it holds several prompts.
        StoreError: There is no such run, somebody else may have made it, or it optimized no single prompt.
    """
    from autoprompt.evaluation.exported import read_one_prompt
    from autoprompt.optimizer.result import Run

    made = options.made(source)
    if isinstance(made, Path):
        found = read_one_prompt(made).candidate
    else:
        name, candidate = made
        run = Run.open(options.own_run(name, runs_dir).path)
        if (start := run.folder.read_config()).get("prompt") is None:
            kind = next((one for one in STARTS if start.get(one) is not None), STARTS[0])
            said = f"run {run.folder.run_id} optimized a {kind}, not one prompt"
            fix = f"Write its prompts to a file: `{command('runs export', run.folder.reference, to='FILE')}`."
            raise StoreError(Problem("prompt.of-several", said, Place(setting="from", source="flag"), fix))
        found = run.candidate(candidate or "best")
    if found.demos and not quiet:
        left_out = counted(len(found.demos), "demonstration is", "demonstrations are") + " left out"
        typer.echo(f"note: the text is optimized; its {left_out}, and the search chooses new ones", err=True)
    return found


def check_metric(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for a metric on the command line that is none."""
    if "metric" not in flags:
        return
    from autoprompt.metrics.registry import check_name

    try:
        check_name(plain(flags)["metric"])
    except ConfigError as error:
        raise UsageError(*(placed(problem, flag_places(flags)) for problem in error.problems)) from error


def show_estimate(settings: RunConfig, *, as_json: bool) -> None:
    from autoprompt.optimizer import api

    estimate = api.estimate(settings)
    render.console(stderr=as_json).print(run_plan(estimate, settings))
    if as_json:
        print_json(estimate.to_dict())


def watch(start: Callable[[OnEvent], RunResult], *, as_json: bool, quiet: bool) -> None:
    """Run `start` under the panel and show its result. Ctrl-C says how to go on."""
    # Progress goes to stderr, so that what is piped is the result alone.
    watcher = render.console(stderr=True)
    with watching(watcher, RunView(), quiet=quiet) as (progress, emit):
        try:
            result = start(emit)
        except KeyboardInterrupt as error:  # before or after the part of the run that saves by itself
            if not progress.run_id:
                raise Interrupted("interrupted before the first request") from error
            raise interrupted(RunFolder(Path(progress.run_dir))) from error
    console = render.console(stderr=as_json)
    show_result(result, console, progress.shown if _is_one_reader(watcher, console) else ())
    if as_json:
        print_json({**result.to_dict(), "sent_to": progress.sent_to})


def _is_one_reader(watcher: Console, console: Console) -> bool:
    """Return whether both go to the same place; to a file of its own the result is written whole."""
    try:
        return os.path.sameopenfile(watcher.file.fileno(), console.file.fileno())
    except (OSError, ValueError):  # no files at all
        return watcher.file is console.file


def show_result(result: RunResult, console: Console, shown: Collection[str] = ()) -> None:
    """Print a result. shown: warnings that the same reader has seen already."""
    from autoprompt.report import read_summary

    for part in render.result(read_summary(RunFolder(result.run_dir), with_rows=False), shown=shown):
        render.show(part, console)


# --- what a dry run shows: calls, tokens, cost and time ---

_REASONED = 10  # an answer that is worked out first takes so many times as long


def run_plan(found: Estimate, settings: RunConfig) -> RenderableType:
    """Return what `run --dry-run` shows."""
    sizes = ", ".join(f"{count} {part}" for part, count in found.sizes.items())
    model = _answering_model(settings)
    judged, writers, calls = found.judge_calls, found.optimizer_calls, found.calls
    if_at_once = (
        " if prompts ask for the answer only; calls of a prompt that reasons take ten times as long. The "
        "live panel shows the time left"
    )
    lines = [
        f"rows: {sizes}",
        *_prompts(found),
        _answers(found),
        f"at most {counted(calls, 'call')} ({clean(model)}), "
        f"{f'up to {writers:,}' if writers else 'none'} "
        f"of them the writer's{_judges(found) if judged else ''}"
        f"{'' if settings.max_calls else '; retries come on top'}",
        _tokens_and_cost(found),
        *_time(calls, settings, "the run then ends with its best so far", if_at_once, call_s=found.call_s),
    ]
    lines += _smallest_gain(found)
    lines += map(_warning, found.warnings)
    return Group(*(Text(line) for line in [*lines, _sent(found)]))


def _answering_model(settings: RunConfig) -> str:
    """Return what answers the rows."""
    return str(settings.program or settings.model or settings.base_url)


def _sent(found: Estimate | EvaluationEstimate) -> str:
    if not (sent := found.sent_calls):
        return "nothing was sent"
    return f"{counted(sent, 'call')} sent to try the program on a few rows; nothing else"


def _prompts(found: Estimate) -> Iterator[str]:
    """Yield the texts of a program that the search may change."""
    if found.prompts:
        yield f"prompts of the program: {len(found.prompts)}"
    for prompt in found.prompts:
        place = below_here(prompt["place"])
        yield clean(f"  {prompt['name']} ({prompt['kind']}){f', sent from {place}' if place else ''}")


def _warning(problem: Problem) -> str:
    return f"warning: {clean(tell(problem, Voice.CLI))}"


def _smallest_gain(found: Estimate) -> Iterator[str]:
    """Yield what the rows can confirm; of rows in groups, in how many of these there must be a gain."""
    least = found.smallest_gain
    at_best = found.smallest_gain_at_best
    if at_best is None:
        return
    reach, why = f"{at_best:+.2f}", ""
    if least is None or f"{at_best:.2f}" != f"{least:.2f}":
        reach = f"{at_best:+.2f} at best" if least is None else f"{at_best:+.2f} to {least:+.2f}"
        why = "; smaller if a winner is written from fewer train rows"
    groups = found.val_groups
    if groups in (0, found.sizes["val"]):
        yield f"smallest gain that these rows can confirm: about {reach}, if no row gets worse{why}"
        return
    yield (
        f"smallest gain that these rows can confirm: a better score in about {reach.replace('+', '')} of the "
        f"{counted(groups, 'group')} of validation, and a worse one in none{why}"
    )


def evaluation_plan(found: EvaluationEstimate, settings: RunConfig) -> RenderableType:
    """Return what `eval --dry-run` shows."""
    judged, model = found.judge_calls, _answering_model(settings)
    asked = found.calls - judged
    of_both = f", {asked // 2:,} with each of the two prompts" if found.prompts > 1 else ""
    to_judge = f", and {judged:,} to the judge ({clean(found.judge_model)})" if judged else ""
    beside = "retries come on top, up to two for an unreadable answer; answers in the cache are free"
    labels = listed(found.labels) if found.labels else "free text"
    slower = _REASONED if found.is_reasoned else 1
    if_short = "" if found.labels or found.is_reasoned else " if answers are as long as the targets"
    lines = [
        f"rows: {found.rows:,}",
        f"answers: {clean(labels)}",
        f"at most {counted(asked, 'call')} ({clean(model)}){of_both}{to_judge}; {beside}",
        f"about {counted(found.tokens, 'token')}{if_short}; cost: {money(found.cost_usd)}",
        *_time(asked * slower, settings, "every row must be answered by then", call_s=found.call_s),
        *map(_warning, found.warnings),
    ]
    return Group(*(Text(line) for line in [*lines, _sent(found)]))


def _answers(found: Estimate) -> str:
    """Return what is asked for: a target field that was taken for another shows here."""
    if labels := found.labels:
        return f"answers: {clean(listed(labels))}"
    if not found.different_targets:
        return "answers: free text, scored without targets"
    rows = sum(found.sizes.values())
    return f"answers: free text, {found.different_targets:,} different in {counted(rows, 'row')}"


def _time(
    calls: int, settings: RunConfig, at_the_end: str, beside: str = "", *, call_s: float | None
) -> Iterator[str]:
    """Yield what a run costs in time, if not in money. A server's time is known only if a program was tried.

    at_the_end: what holds when `--max-seconds` are over. beside: to be said of the time that is estimated.
    call_s: of a program's calls, as the trial measured it.
    """
    if settings.max_seconds is not None:
        yield f"time: at most {duration(settings.max_seconds)} (--max-seconds); {at_the_end}"
    elif settings.program is not None:
        if call_s:
            at_once = said_traits(settings, "task").concurrency
            about = duration(max(1.0, calls * call_s / at_once))
            yield f"time: about {about}, as a call of the trial took {call_s:.2g} s and {at_once} run at once"
    elif (range_s := traits_of(settings, "task").call_s) is not None:
        least, most = (f"{calls * seconds / 60:,.0f}" for seconds in range_s)
        about = (
            "under a minute" if most == "0" else f"about {least} to {most} minute{'' if most == '1' else 's'}"
        )
        yield f"time: {about} on one or two cores{beside}"


def _tokens_and_cost(found: Estimate) -> str:
    """At most, and what so many calls take while prompts stay as short as the original."""
    said = f"up to about {counted(found.tokens, 'token')}; cost: "
    cost, short, short_cost = found.cost_usd, found.short_tokens, found.short_cost_usd
    if not short or short >= found.tokens:
        return said + money(cost)
    priced = f" ({money(short_cost)})" if cost and short_cost is not None else ""
    upto = "up to " if priced else ""
    least = f"about {counted(short, 'token')}{priced} if no prompt gets longer than yours"
    return f"{said}{upto}{money(cost)}; {least}"


def _judges(found: Estimate) -> str:
    """Return the judge's part of the calls and of the cost."""
    cost = found.judge_cost_usd
    price = "price unknown" if cost is None else f"about {money(cost)}"
    return f", about {found.judge_calls:,} the judge's ({clean(found.judge_model)}, {price})"
