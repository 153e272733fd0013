"""What a person sees of results: tables, scores, diffs. Texts of users are never markup or control codes."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from autoprompt.cli.output import clean, warning_text
from autoprompt.errors import Problem, Voice, flag_name, tell
from autoprompt.records import Demo
from autoprompt.report import wording
from autoprompt.report.diff import Piece, diff_words, is_linewise
from autoprompt.report.numbers import NONE, at_once, count, duration, interval, money, score, tokens
from autoprompt.report.summary import RunSummary
from autoprompt.runs import RunFolder
from autoprompt.runs.folder import batch_of
from autoprompt.runs.result import Result, Returned, TradeOff, Validation
from autoprompt.runs.resuming import NO_BUDGET, searches_on
from autoprompt.settings.records import Budget
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.measure.task import SourceForm

_DEMOS_SHOWN = 3
_PIPE_WIDTH = 110  # a pipe has no width of its own
_LONGEST_DEMO = 100
# before, after, style: the change can be read without colour too.
_DIFF_MARKS = {"same": ("", "", ""), "removed": ("[-", "-]", "red"), "added": ("{+", "+}", "green")}
_RAISED = ("max_tokens", "max_cost", "max_seconds")  # caps that are the user's own
VERDICT_STYLES = {
    "confirmed": "bold green",
    "nothing_to_improve": "bold green",
    "not_confirmed": "bold yellow",
    "untested": "bold yellow",
}


def console(*, stderr: bool = False) -> Console:
    """Return a console on which text is text: no markup, no emoji codes, no highlighting. Knows NO_COLOR.

    Where it is no terminal, sentences are not broken into lines, so that they can be searched.
    """
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.soft_wrap = True
        if "COLUMNS" not in os.environ:
            made.width = _PIPE_WIDTH
    return made


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table in the one style of this program."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def _unbroken(line: str, style: str = "") -> Text:
    """Return a line that holds a command. Broken into lines, its parts would be pasted as two commands."""
    return Text(line, style, no_wrap=True, overflow="ignore")


def show(part: RenderableType, console: Console) -> None:
    """Print a part of a page; `print` alone forgets which texts are never broken into lines."""
    is_unbroken = isinstance(part, Text) and part.no_wrap
    console.print(part, soft_wrap=True if is_unbroken else None)


def warning_line(warning: Problem | Mapping[str, Any] | str) -> Text:
    """Return a warning as people see it, in its colour."""
    problem = warning if isinstance(warning, Problem) else Problem.from_dict(warning)
    return Text(clean(warning_text(problem)), "yellow")


def natural_width(table: Table, console: Console) -> int:
    """Columns of the terminal that `table` takes where nothing is broken into lines."""
    unlimited = console.options.update(max_width=10_000)
    return Measurement.get(console, unlimited, table).maximum


@dataclass(frozen=True, slots=True)
class Fitting:
    """A table without the columns that matter least where the terminal has no room for all.

    dropped_first: names of columns, in the order in which they go. optional: those that go anyway if no cell
    of them has a value.
    """

    whole: Table
    dropped_first: Sequence[str]
    optional: Collection[str] = ()

    def within(self, width: int, console: Console) -> Table:
        """Return the table as this width has room for it, or without all that may go."""
        columns = [
            column
            for column in self.whole.columns
            if column.header not in self.optional or any(str(cell) != NONE for cell in column.cells)
        ]
        # Measured once: rich would measure every cell for each table that is tried, and again to print it.
        widths = {
            str(column.header): max(cell_len(str(text)) for text in (column.header, *column.cells))
            for column in columns
        }
        for doomed in (None, *self.dropped_first):
            columns = [column for column in columns if column.header != doomed]
            right = [str(column.header) for column in columns if column.justify == "right"]
            made = table(*(str(column.header) for column in columns), right=right)
            for column in made.columns:
                column.width = widths[str(column.header)]
            if is_fitting := natural_width(made, console) <= width:
                break
        if not is_fitting:
            for column in made.columns:
                column.width = None  # rich breaks the cells into lines
        for cells in zip(*(column.cells for column in columns), strict=True):
            made.add_row(*cells)
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        yield self.within(options.max_width, console)


def result(
    run: RunSummary, *, is_show: bool = False, shown: Collection[str] = ()
) -> Iterator[RenderableType]:
    """Yield the end of a finished run, part by part, for `show`: the verdict first.

    shown: Messages of warnings that the same reader has seen already.
    is_show: whether `runs show` asks, which is then no next step.
    """
    found = run.result
    yield Text(clean(found.message), VERDICT_STYLES.get(found.verdict, "bold"))
    if found.verdict == "untested" and found.best.is_original:  # else the message says it
        yield Text(f"{_why_untested(found)}: nothing is verified", VERDICT_STYLES[found.verdict])
    yield from (
        warning_line(warning) for warning in found.warnings if tell(warning, Voice.PYTHON) not in shown
    )
    yield Text()
    if found.best.n:
        yield _test_table(found)
        yield Text()
    yield from _facts(run)
    yield Text()
    if run.result.trade_off:
        yield from _trade_off(run, run.result.trade_off)
        yield Text()
    yield from _changes(found)
    yield from (_unbroken(clean(line)) for line in run.end_lines)
    yield from next_steps(run, is_show=is_show)


def _why_untested(found: Result) -> str:
    if not found.splits.sizes.get("test"):
        return "no sealed test"
    if found.splits.test_opened:
        return "the budget ended after too few rows of the sealed test"
    return "the sealed test was not opened"


def _test_table(found: Result) -> Table:
    """Best against original on the sealed test."""
    numbers = (found.metric, "95% interval", "rows", "tokens/call", "1,000 calls")
    made = table("sealed test", *numbers, right=numbers)
    for name, side in wording.tested_sides(found):
        cost = "" if side.cost is None else side.cost.shown
        cells = (score(side.score), interval(side.ci95), str(side.n), count(side.tokens_per_call), cost)
        made.add_row(name, *cells)
    return made


def _facts(run: RunSummary) -> Iterator[Text]:
    found, is_original = run.result, run.result.best.is_original
    if found.p_value is not None and found.verdict != "nothing_to_improve":
        yield Text(f"{wording.paired_test(found)}; verdict: {found.verdict.replace('_', ' ')}")
    if said := wording.baselines(found.baselines):
        yield Text(said)
    yield from _validation(found.validation, wording.whose(found), is_original=is_original)
    sides = [found.original] if is_original else [side for _, side in wording.tested_sides(found)]
    failed, unparsed = sum(side.failed for side in sides), sum(side.unparsed for side in sides)
    if failed or unparsed:
        lost = (f"{counted(failed, 'test row')} failed", f"{counted(unparsed, 'answer')} could not be read")
        said = " and ".join(part for part, number in zip(lost, (failed, unparsed), strict=True) if number)
        yield Text(said if is_original else f"{said} (all tested prompts together)", "yellow")
    used = {part.role: part.usage.total_tokens for part in run.spending}
    judged = f", {used['judge']:,} for judging" if "judge" in used else ""
    repeated = f" ({found.repeated_calls:,} of them repeats)" if found.repeated_calls else ""
    yield Text(
        f"{counted(run.calls, 'call')}{repeated}, {tokens(run.usage)}, "
        f"{used.get('optimizer', 0):,} of them for writing{judged}, cost {money(run.cost_usd)}, "
        f"{duration(found.seconds)}{at_once(found.concurrency)}; candidates: {found.candidates.tried} tried, "
        f"{found.candidates.accepted} accepted; {_ending(run)}"
    )
    is_timed = any(
        side.cost is not None and side.cost.unit == "seconds" for side in (found.original, found.best)
    )
    if run.cost_usd is None and not is_timed:  # a model of one's own has no price
        yield _unknown_price_of(run)


def _unknown_price_of(run: RunSummary) -> Text:
    """Say whose price is missing."""
    model, did = run.unpriced
    if not did:
        return unknown_price(model)
    return Text(f"The price of {clean(model)}, which {did}, is not known, so neither is the cost.", "yellow")


def unknown_price(model: str) -> Text:
    """Say that the price of the task model is missing, and how to give it, once."""
    return _unbroken(
        f"The price of {clean(model)} is not known. Set it once, in USD per million tokens: "
        "autoprompt config set price_input X; autoprompt config set price_output Y",
        "yellow",
    )


def _validation(found: Validation, whose: str, *, is_original: bool) -> Iterator[Text]:
    """Yield the scores before the test, and how the winner was confirmed or why it was not."""
    measure = f", {found.measure}" if found.measure else ""
    if found.best is not None:
        rows = f" on {counted(found.rows, 'row')}" if found.rows else ""
        best = "" if is_original else f", best {score(found.best)}"
        said = f"{rows}{measure}: original {score(found.original)}{best}"
        if not is_original and found.confirmation:
            said = f"{whose}{measure}: {wording.confirmation(found.confirmation)}"
        yield Text(f"validation{said}")
    if is_original and found.confirmation:
        yield Text(wording.not_confirmed(found.confirmation, found.measure))


def _trade_off(run: RunSummary, found: TradeOff) -> Iterator[RenderableType]:
    """Score against cost, and how to measure another candidate than the best."""
    yield Text(wording.trade_off(found, run.result.best.is_original), "bold")
    columns = ("race score", "1,000 calls", "tokens", "demos")
    made = table("candidate", *columns, right=columns)
    for choice in found.candidates:
        sizes = (f"{choice.tokens:,}", str(choice.demos))
        cells = (choice.name, score(choice.score), choice.shown_cost, *sizes)
        made.add_row(*(Text(clean(cell)) for cell in cells))
    yield made
    said = f"autoprompt eval --from {_reference(run)}:ID --dataset OTHER_ROWS"
    yield _unbroken(f"Score any of them on other rows: {said}", "dim")


def _ending(run: RunSummary) -> str:
    found, cap, reason = run.result, run.preset_cap, run.result.stop_reason
    if reason in _RAISED:
        raises = f"resume the run with a larger {flag_name(reason)}"
        if batch_of(RunFolder(run.path)) is not None:
            raises = f"give the batch a larger {reason}"
        return f"{wording.ended(reason)} ({raises})"
    if reason != "max_calls":
        return wording.ended(reason)
    whose = "the cap on calls" if cap is None else f"the preset's cap of {counted(cap, 'call')}"
    if cap is not None and found.repeated_calls:
        whose += ", for which repeats do not count"
    raised = "" if cap is None else " (--max-calls raises it)"
    if left := found.calls_left:
        kept = "what was kept back for the final test" if found.best.n else "its final test"
        ended = f"ended with {counted(left, 'call')} left of {whose}"
        return f"{ended}, too few for a further round and {kept}{raised}"
    return f"ended at {whose}{raised}"


def _changes(found: Result) -> Iterator[RenderableType]:
    before, after, demos = (
        found.original.components,
        found.best.components,
        found.best.demos,
    )
    if len(after) > 1:
        yield from _component_changes(before, found.best)
        return
    old, new = found.original.text, found.best.text
    if old == new and not demos:
        yield Text("The prompt is unchanged.")
        return
    if old == new:
        yield Text("The text of the prompt is unchanged.")
    else:
        yield Text("What changed in the prompt", "bold")
        yield prompt_diff(old, new)
    if demos:
        yield Text(f"Demonstrations shown before each row: {len(demos)}", "bold")
        yield from _demos(demos)


def _component_changes(before: Mapping[str, str], best: Returned) -> Iterator[RenderableType]:
    """Of a program of several prompts: each changed one as a diff under its name, and its demonstrations."""
    unchanged = []
    for name, text in best.components.items():
        demos = [demo for demo in best.demos if demo.component == name]
        if text == before.get(name) and not demos:
            unchanged.append(name)
            continue
        yield Text(f"What changed in {clean(name)}", "bold")
        if text != before.get(name):
            yield prompt_diff(before.get(name, ""), text)
        if demos:
            yield Text(f"Demonstrations shown before each of its inputs: {len(demos)}")
            yield from _demos(demos)
    if unchanged:
        yield Text(f"Unchanged: {clean(', '.join(unchanged))}")


def _demos(demos: Sequence[Demo]) -> Iterator[Text]:
    for demo in demos[:_DEMOS_SHOWN]:
        yield Text(f"  {shortened(demo.asked)} -> {shortened(demo.output)}")
    if len(demos) > _DEMOS_SHOWN:
        yield Text(f"  ... and {len(demos) - _DEMOS_SHOWN} more", "dim")


def _reference(run: RunSummary) -> str:
    return clean(RunFolder(run.path).reference)


def next_steps(run: RunSummary, *, is_show: bool = False) -> Iterator[Text]:
    """Yield where everything is, and the commands that use it."""
    from autoprompt.evaluation.task import source_form  # reads rows: not for `--help`

    name, form = _reference(run), source_form(run.settings)
    yield Text()
    yield Text(f"Everything is in {clean(str(run.path))}")
    yield Text("Next:")
    if not is_show:
        yield _unbroken(f"  autoprompt runs show {name}")
    yield _unbroken(f"  autoprompt report {name} --open")
    if form is not None and form.name == "program" and run.verdict == "confirmed":
        yield _unbroken(f"  autoprompt runs apply {name}")
    if form is not None:
        yield _unbroken(f"  autoprompt runs export {name} --to {clean(shlex.quote(form.file_name))}")
    elif run.result.best.demos:  # which a text file would not hold
        yield _unbroken(f"  autoprompt runs export {name} --to prompt.yaml")
    else:
        yield _unbroken(f"  autoprompt runs export {name} --to prompt.txt")
    yield _unbroken(f"  autoprompt eval --from {name} --dataset OTHER_ROWS")
    is_alone = batch_of(RunFolder(run.path)) is None
    if run.result.ends.reason == NO_BUDGET and is_alone and (more := _more_budget(run)):
        yield _unbroken(f"To test the cheaper prompt, too: `autoprompt resume {name} {more}`.", "yellow")
    if run.verdict in ("not_confirmed", "untested"):
        yield _unbroken(_unconfirmed(run, form), "yellow")


def _unconfirmed(run: RunSummary, form: SourceForm | None) -> str:
    """Say what can confirm a gain, and how to use a candidate without a proof."""
    name, found = _reference(run), run.result
    said = "Not confirmed: more rows can confirm a smaller gain"
    if run.verdict == "untested" and not found.best.is_original:
        said = f"Untested: {_why_untested(found)}"
    more = _more_budget(run)
    if more and searches_on(found.stop_reason) and batch_of(RunFolder(run.path)) is None:
        said += f", and `autoprompt resume {name} {more}` searches further"
    if not found.candidates.tried:
        return f"{said}."
    candidate = f"{name}:ID" if run.result.best.is_original else name
    use = f"runs export {candidate} --to prompt.yaml"
    if form is not None:
        use = (
            f"runs apply {candidate}"
            if form.name == "program"
            else f"runs export {candidate} --to {clean(shlex.quote(form.file_name))}"
        )
    return f"{said}. To use a candidate without that proof: `autoprompt {use}`."


# A preset's cap has room for several rounds. A limit that was given may just fit one, and a larger one keeps
# more back for the end: where 300 calls were tight, 600 were refused.
_MORE, _MORE_OF_GIVEN = 2, 3


def _more_budget(run: RunSummary) -> str:
    """Return larger limits, as flags, that have room for a further round and another ending."""
    more = {
        name: value * (_MORE_OF_GIVEN if run.settings.get(name) is not None else _MORE)
        for name in Budget.model_fields
        if (value := run.budget.get(name)) is not None
    }
    if "max_seconds" in more and run.result.calls:  # the time that so many calls take, as slow as they were
        seconds = (run.result.seconds or 0.0) / run.result.calls * more.get("max_calls", 0)
        more["max_seconds"] = max(math.ceil(seconds), more["max_seconds"])
    written = {name: value if isinstance(value, int) else format(value, "g") for name, value in more.items()}
    return " ".join(f"{flag_name(name)} {value}" for name, value in written.items())


def prompt_diff(old: str, new: str) -> RenderableType:
    """By words where the texts are alike, else line by line; -removed- and +added+ also without colour."""
    pieces = diff_words(clean(old), clean(new))
    if is_linewise(pieces):
        return Group(*(line for piece in pieces for line in _diff_lines(piece)))
    text = Text()
    for piece in pieces:
        before, after, style = _DIFF_MARKS[piece.kind]
        text.append(f"{before}{piece.text}{after}", style)
    return text


def _diff_lines(piece: Piece) -> Iterator[Text]:
    sign = {"same": "  ", "removed": "- ", "added": "+ "}[piece.kind]
    return (Text(sign + line, _DIFF_MARKS[piece.kind][2]) for line in piece.text.splitlines())


def shortened(text: str, longest: int = _LONGEST_DEMO) -> str:
    """Return the head of `text` as one line."""
    line = " ".join(clean(text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
