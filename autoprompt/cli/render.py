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
from autoprompt.cli.progress import duration, money
from autoprompt.config import LOCAL, RunConfig
from autoprompt.dataset.faults import listed
from autoprompt.report import wording
from autoprompt.report.diff import Piece, diff_words, is_linewise
from autoprompt.report.records import TradeOff
from autoprompt.report.summary import read_trade_off
from autoprompt.setting_sources import flag_name
from autoprompt.stats import p_text
from autoprompt.store import RunFolder
from autoprompt.types import Demo

_DEMOS_SHOWN = 3
_PIPE_WIDTH = 110  # a pipe has no width of its own
_LONGEST_DEMO = 100
# before, after, style: the change can be read without colour too.
_DIFF_MARKS = {"same": ("", "", ""), "removed": ("[-", "-]", "red"), "added": ("{+", "+}", "green")}
# Of whole runs on the embedded model, reading of new prompts and writing included: `make run` on two cores
# with AVX-512 and a runtime of its own, and a run on one slow core.
_LOCAL_CALL_S = 0.7, 2.5
_REASONED = 10  # an answer that is worked out first takes so many times as long
_RAISED = ("max_tokens", "max_cost", "max_seconds")  # caps that are the user's own
VERDICT_STYLES = {"confirmed": "bold green", "not_confirmed": "bold yellow", "untested": "bold yellow"}


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
    told: Collection[str] = (),
) -> Iterator[RenderableType]:
    """The end of a run, part by part: the verdict first.

    told: warnings that the same reader has seen already.
    preset_cap: the cap on calls where the preset set it and not the user; None where that is not known.
    is_show: whether `runs show` asks, which is then no next step.
    """
    verdict = data["verdict"]
    yield Text(clean(data["message"]), VERDICT_STYLES.get(verdict, "bold"))
    if verdict == "untested" and "verified" not in data["message"]:
        yield Text(_unverified(data), VERDICT_STYLES[verdict])
    yield from (warning_line(warning) for warning in data.get("warnings", ()) if warning not in told)
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
    if data["p_value"] is not None:
        yield Text(
            f"{data['fixed']} rows fixed, {data['broken']} broken; {p_text(data['p_value'])} "
            f"(paired, exact); verdict: {data['verdict'].replace('_', ' ')}"
        )
    if opened := wording.opened_before(data.get("splits") or {}):
        yield Text(opened, "yellow")
    validation = data["validation"]
    is_original = data["best"].get("is_original", False)
    if validation["best"] is not None:
        rows = f" on {validation['rows']} rows" if validation.get("rows") else ""
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
    tokens = data["tokens"]
    judged = f", {tokens['judge']:,} of the judge" if "judge" in tokens else ""
    repeated = f" ({data['repeated_calls']:,} of them repeats)" if data.get("repeated_calls") else ""
    yield Text(
        f"{data['calls']:,} calls{repeated}, {sum(tokens.values()):,} tokens "
        f"({tokens['optimizer']:,} for writing{judged}), cost {money(data['cost_usd'])}, "
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
        return f"ended by {reason} ({flag_name(reason)} raises it: a new run asks nothing that the cache has)"
    if reason != "max_calls":
        return f"ended by {reason}"
    whose = "the cap on calls" if cap is None else f"the preset's cap of {cap:,} calls"
    if cap is not None and data.get("repeated_calls"):
        whose += ", for which repeats do not count"
    raised = "" if cap is None else " (--max-calls raises it)"
    if left := data.get("calls_left"):
        kept = "what was kept back for the final test" if data["best"]["n"] else "its final test"
        return f"ended with {left:,} calls left of {whose}, too few for a further round and {kept}{raised}"
    return f"ended by {whose}{raised}"


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
        yield Text(f"  {shortened(demo.shown)} -> {shortened(demo.output)}")
    if len(demos) > _DEMOS_SHOWN:
        yield Text(f"  ... and {len(demos) - _DEMOS_SHOWN} more", "dim")


def _reference(data: Mapping[str, Any]) -> str:
    return clean(RunFolder(Path(data["run_dir"])).reference)


def next_steps(data: Mapping[str, Any], *, is_show: bool = False) -> Iterator[Text]:
    run = _reference(data)
    yield Text()
    yield Text(f"Everything lies in {clean(data['run_dir'])}")
    yield Text("Next:")
    if not is_show:
        yield Text(f"  autoprompt runs show {run}")
    yield Text(f"  autoprompt report {run} --open")
    if len(data["best"]["components"]) > 1:
        yield Text(f"  autoprompt runs export {run} --to workflow.yaml")
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


def estimate(data: Mapping[str, Any], settings: RunConfig) -> RenderableType:
    """What `--dry-run` shows."""
    sizes = ", ".join(f"{count} {part}" for part, count in data["sizes"].items())
    model = settings.model or settings.base_url
    least = data.get("smallest_gain")
    judged = data.get("judge_calls", 0)
    calls = data["task_calls"] + data["optimizer_calls"] + judged
    if_at_once = (
        " if all is answered at once; a prompt that reasons first takes ten times as long a call. What is "
        "left is said on the way"
    )
    lines = [
        f"rows: {sizes}",
        _answers(data),
        f"at most {calls:,} calls ({clean(str(model))}), up to "
        f"{data['optimizer_calls']:,} of them the writer's{_judges(data) if judged else ''}"
        f"{'' if settings.max_calls else '; repeats after faults come on top'}",
        _tokens_and_cost(data),
        *_time(calls, settings, "the run then ends with what it has", if_at_once),
    ]
    if (at_best := data.get("smallest_gain_at_best", least)) is not None:
        reach, why = f"{at_best:+.2f}", ""
        if least is None or f"{at_best:.2f}" != f"{least:.2f}":
            reach = f"{at_best:+.2f} at best" if least is None else f"{at_best:+.2f} to {least:+.2f}"
            why = "; the less of train a winner is made from, the smaller"
        lines.append(
            f"smallest gain of right rows that these can confirm: about {reach}, if no row gets worse{why}"
        )
    lines += [f"warning: {clean(warning)}" for warning in data.get("warnings", ())]
    return Group(*(Text(line) for line in [*lines, "nothing was sent"]))


def evaluation_estimate(data: Mapping[str, Any], settings: RunConfig) -> RenderableType:
    """What `eval --dry-run` shows."""
    judged, model = data["judge_calls"], settings.model or settings.base_url
    asked = data["calls"] - judged
    of_both = f", {asked // 2:,} with each of the two prompts" if data["prompts"] > 1 else ""
    to_judge = f", and {judged:,} to the judge ({clean(data['judge_model'])})" if judged else ""
    beside = "repeats after faults come on top, and answers in the cache are free"
    labels = listed(data["labels"]) if data["labels"] else "free text"
    slower = _REASONED if data["is_reasoned"] else 1
    if_short = "" if data["labels"] or data["is_reasoned"] else " if answers are as long as the targets"
    lines = [
        f"rows: {data['rows']:,}",
        f"answers: {clean(labels)}",
        f"at most {asked:,} calls ({clean(str(model))}){of_both}{to_judge}; {beside}",
        f"about {data['tokens']:,} tokens{if_short}; cost: {money(data['cost_usd'])}",
        *_time(asked * slower, settings, "every row must be answered by then"),
        *(f"warning: {clean(warning)}" for warning in data["warnings"]),
    ]
    return Group(*(Text(line) for line in [*lines, "nothing was sent"]))


def _answers(data: Mapping[str, Any]) -> str:
    """What is asked for: a target field that was taken for another shows here."""
    if labels := data["labels"]:
        return f"answers: {clean(listed(labels))}"
    rows = sum(data["sizes"].values())
    return f"answers: free text, {data['different_targets']:,} different in {rows:,} rows"


def _time(calls: int, settings: RunConfig, at_the_end: str, beside: str = "") -> Iterator[str]:
    """What costs no money costs time. A server's time nobody knows.

    at_the_end: what holds when `--max-seconds` are over. beside: to be said of the embedded model's time.
    """
    if settings.max_seconds is not None:
        yield f"time: at most {duration(settings.max_seconds)} (--max-seconds); {at_the_end}"
    elif settings.model == LOCAL:
        least, most = (f"{calls * seconds / 60:,.0f}" for seconds in _LOCAL_CALL_S)
        about = "under a minute" if most == "0" else f"about {least} to {most} minutes"
        yield f"time: {about} on one or two cores{beside}"


def _tokens_and_cost(data: Mapping[str, Any]) -> str:
    """At most, and what so many calls take while prompts stay as short as the original."""
    said = f"up to about {data['tokens']:,} tokens; cost: "
    cost, short, short_cost = data["cost_usd"], data.get("short_tokens"), data.get("short_cost_usd")
    if not short or short >= data["tokens"]:
        return said + money(cost)
    priced = f" ({money(short_cost)})" if cost and short_cost is not None else ""
    upto = "up to " if priced else ""
    return f"{said}{upto}{money(cost)}; about {short:,} tokens{priced} if no prompt gets longer than yours"


def _judges(data: Mapping[str, Any]) -> str:
    """The judge's part of the calls and of the cost."""
    cost = data["judge_cost_usd"]
    price = "price unknown" if cost is None else f"about {money(cost)}"
    return f", about {data['judge_calls']:,} the judge's ({clean(data['judge_model'])}, {price})"
