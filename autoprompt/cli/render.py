"""What a person sees of results: tables, scores, diffs. Texts of users are never markup or control codes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from autoprompt.cli import clean
from autoprompt.cli.panel import warning_line
from autoprompt.errors import flag_name
from autoprompt.records import Demo, Usage
from autoprompt.report import wording
from autoprompt.report.diff import Piece, diff_words, is_linewise
from autoprompt.report.numbers import duration, money, tokens
from autoprompt.report.records import TradeOff
from autoprompt.report.summary import read_trade_off
from autoprompt.runs import RunFolder
from autoprompt.stats import p_text
from autoprompt.text.names import counted

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
    """A console on which text is text: no markup, no emoji codes, no highlighting. Knows NO_COLOR.

    Where it is no terminal, sentences are not broken into lines, so that they can be searched.
    """
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.soft_wrap = True
        if "COLUMNS" not in os.environ:
            made.width = _PIPE_WIDTH
    return made


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table in the one style of this program."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def natural_width(table: Table, console: Console) -> int:
    """Columns of the terminal that `table` takes where nothing is broken into lines."""
    unlimited = console.options.update(max_width=10_000)
    return Measurement.get(console, unlimited, table).maximum


def score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def interval(bounds: Sequence[float] | None) -> str:
    return "-" if bounds is None else f"{bounds[0]:.3f} to {bounds[1]:.3f}"


def result(
    data: Mapping[str, Any],
    original_prompt: str,
    best_prompt: str,
    *,
    preset_cap: int | None = None,
    is_show: bool = False,
    shown: Collection[str] = (),
) -> Iterator[RenderableType]:
    """The end of a run, part by part: the verdict first.

    shown: Messages of warnings that the same reader has seen already.
    preset_cap: the cap on calls where the preset set it and not the user; None where that is not known.
    is_show: whether `runs show` asks, which is then no next step.
    """
    verdict = data["verdict"]
    yield Text(clean(data["message"]), VERDICT_STYLES.get(verdict, "bold"))
    if verdict == "untested" and "verified" not in data["message"]:
        yield Text(_unverified(data), VERDICT_STYLES[verdict])
    yield from (
        warning_line(warning) for warning in data.get("warnings", ()) if warning["message"] not in shown
    )
    yield Text()
    if data["best"]["n"]:
        yield _test_table(data)
        yield Text()
    yield from _facts(data, preset_cap)
    yield Text()
    if found := read_trade_off(data):
        yield from _trade_off(found, _reference(data), is_unchanged=data["best"].get("is_original", False))
        yield Text()
    if len(data["best"]["components"]) > 1 and "components" in data["original"]:
        yield from _component_changes(data)
    else:
        yield from _changes(data, original_prompt, best_prompt)
    yield from next_steps(data, is_show=is_show)


def preset_cap(run_dir: Path) -> int | None:
    """The cap on calls of a run that was given none; None where the user set it or the folder is gone."""
    folder = RunFolder(run_dir)
    if not folder.config_path.is_file() or folder.read_config().get("max_calls") is not None:
        return None
    started = (event for event in folder.read_events() if event.get("event") == "run_started")
    return next((event["budget"]["max_calls"] for event in started), None)


def _unverified(data: Mapping[str, Any]) -> str:
    splits = data.get("splits") or {}
    said = "no sealed test"
    if (splits.get("sizes") or {}).get("test", 0) > 0:
        said = "the sealed test was not opened"
        if splits.get("test_opened"):
            said = "too few rows of the sealed test were asked before the budget ended"
    return f"{said}: nothing is verified"


def _test_table(data: Mapping[str, Any]) -> Table:
    """Best against original on the sealed test."""
    numbers = (data["metric"], "95% interval", "rows", "tokens/call")
    made = table("sealed test", *numbers, right=numbers)
    for name in ("original", "best"):
        side = data[name]
        tokens = side["tokens_per_call"]
        made.add_row(
            Text(name),
            Text(score(side["score"])),
            Text(interval(side["ci95"])),
            Text(str(side["n"])),
            Text("-" if tokens is None else f"{tokens:.0f}"),
        )
    return made


def _facts(data: Mapping[str, Any], cap: int | None) -> Iterator[Text]:
    if data["p_value"] is not None and data["verdict"] != "nothing_to_improve":
        yield Text(
            f"{counted(data['fixed'], 'row')} fixed, {data['broken']} broken; {p_text(data['p_value'])} "
            f"(paired, exact); verdict: {data['verdict'].replace('_', ' ')}"
        )
    if said := wording.baselines(data.get("baselines")):
        yield Text(said)
    if opened := wording.opened_before(data):
        yield Text(opened, "yellow")
    validation = data["validation"]
    is_original = data["best"].get("is_original", False)
    if validation["best"] is not None:
        rows = f" on {counted(validation['rows'], 'row')}" if validation.get("rows") else ""
        measure = f", {validation['measure']}" if validation.get("measure") else ""
        best = "" if is_original else f", best {score(validation['best'])}"
        said = f"validation{rows}{measure}: original {score(validation['original'])}{best}"
        if not is_original and validation.get("confirmation"):
            said = f"validation{measure}: {wording.confirmation(validation['confirmation'])}"
        yield Text(said)
    if is_original and validation.get("confirmation"):
        yield Text(wording.not_confirmed(validation))
    sides = ("original",) if is_original else ("original", "best")
    failed = sum(data[side].get("failed", 0) for side in sides)
    unparsed = sum(data[side].get("unparsed", 0) for side in sides)
    if failed or unparsed:
        whose = "" if is_original else ", of both prompts"
        yield Text(f"answers missing on the test rows{whose}: {failed}; unreadable: {unparsed}", "yellow")
    parts = {role: Usage.from_record(part) for role, part in data.get("spending", {}).items()}
    writing = parts.get("optimizer", Usage()).total_tokens
    judged = f", {parts['judge'].total_tokens:,} for judging" if "judge" in parts else ""
    repeated = f" ({data['repeated_calls']:,} of them repeats)" if data.get("repeated_calls") else ""
    yield Text(
        f"{counted(data['calls'], 'call')}{repeated}, {tokens(sum(parts.values(), Usage()))}, "
        f"{writing:,} of them for writing{judged}, cost {money(data['cost_usd'])}, "
        f"{duration(data['seconds'])}; candidates: {data['candidates']['tried']} tried, "
        f"{data['candidates']['accepted']} accepted; {_ending(data, cap)}"
    )


def _trade_off(found: TradeOff, run: str, *, is_unchanged: bool) -> Iterator[RenderableType]:
    """Score against length, and how to measure another candidate than the best."""
    yield Text(wording.trade_off(found, is_unchanged), "bold")
    columns = ("score in the race", "prompt tokens, about", "demonstrations")
    made = table("candidate", *columns, right=columns)
    for choice in found.candidates:
        cells = (choice.name, score(choice.score), f"{choice.tokens:,}", str(choice.demos))
        made.add_row(*(Text(clean(cell)) for cell in cells))
    yield made
    said = f"autoprompt eval --run {run} --candidate ID --dataset OTHER_ROWS"
    yield Text(f"Measure one, original or best on other rows: {said}", "dim")


def _ending(data: Mapping[str, Any], cap: int | None) -> str:
    reason = str(data["stop_reason"])
    if reason in _RAISED:
        raises = f"{flag_name(reason)} raises it: a new run asks nothing that the cache has"
        return f"{wording.ended(reason)} ({raises})"
    if reason != "max_calls":
        return wording.ended(reason)
    whose = "the cap on calls" if cap is None else f"the preset's cap of {counted(cap, 'call')}"
    if cap is not None and data.get("repeated_calls"):
        whose += ", for which repeats do not count"
    raised = "" if cap is None else " (--max-calls raises it)"
    if left := data.get("calls_left"):
        kept = "what was kept back for the final test" if data["best"]["n"] else "its final test"
        ended = f"ended with {counted(left, 'call')} left of {whose}"
        return f"{ended}, too few for a further round and {kept}{raised}"
    return f"ended at {whose}{raised}"


def _changes(data: Mapping[str, Any], original: str, best: str) -> Iterator[RenderableType]:
    demos = data["best"]["demos"]
    if original == best and not demos:
        yield Text("The prompt is unchanged.")
        return
    if original == best:
        yield Text("The text of the prompt is unchanged.")
    else:
        yield Text("What changed in the prompt", "bold")
        yield prompt_diff(original, best)
    if demos:
        yield Text(f"Demonstrations shown before each row: {len(demos)}", "bold")
        yield from _demos(demos)


def _component_changes(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Of a program of several prompts: each changed one as a diff under its name, and its demonstrations."""
    before, after = data["original"]["components"], data["best"]["components"]
    unchanged = []
    for name, text in after.items():
        demos = [demo for demo in data["best"]["demos"] if demo.get("component") == name]
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


def _demos(demos: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    for demo in map(Demo.from_dict, demos[:_DEMOS_SHOWN]):
        yield Text(f"  {shortened(demo.asked)} -> {shortened(demo.output)}")
    if len(demos) > _DEMOS_SHOWN:
        yield Text(f"  ... and {len(demos) - _DEMOS_SHOWN} more", "dim")


def _reference(data: Mapping[str, Any]) -> str:
    return clean(RunFolder(Path(data["run_dir"])).reference)


def next_steps(data: Mapping[str, Any], *, is_show: bool = False) -> Iterator[Text]:
    from autoprompt.measure.program import COMPONENT  # reads answers: not for `--help`

    run = _reference(data)
    yield Text()
    yield Text(f"Everything lies in {clean(data['run_dir'])}")
    yield Text("Next:")
    if not is_show:
        yield Text(f"  autoprompt runs show {run}")
    yield Text(f"  autoprompt report {run} --open")
    if list(data["best"]["components"]) != [COMPONENT]:  # of a workflow
        yield Text(f"  autoprompt runs export {run} --to flow.yaml")
    elif data["best"]["demos"]:  # which a text file would not hold
        yield Text(f"  autoprompt runs export {run} --to prompt.yaml")
    else:
        yield Text(f"  autoprompt runs export {run} --to prompt.txt")
    yield Text(f"  autoprompt eval --run {run} --dataset OTHER_ROWS")


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
    """The head of `text` as one line."""
    line = " ".join(clean(text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
