"""The table of compare.py's finished cells: accuracy with intervals, calls, tokens, time, differences."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoprompt.stats import mcnemar_exact, p_text, paired_difference_interval, wilson_interval

OURS = "autoprompt"
RESAMPLES = 2000
COLUMNS = (
    "task",
    "seed",
    "tool",
    "unseen accuracy [95%]",
    "task calls",
    "tokens",
    "writer calls",
    "minutes",
    "threads",
    "demos",
    "tokens a call",
    "revision",
)

Cell = dict[str, Any]
Rows = Sequence[int]  # 1 for each unseen row that was answered rightly, else 0


def print_table(results: Path) -> None:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))]
    if not found:
        print(f"no finished cells in {results}")
        return
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for cell in sorted(found, key=lambda c: (c["task"], c["seed"], c["tool"] != OURS, c["tool"])):
        print(_line(cell))
    if any(cell.get("is_busy") for cell in found):
        print("\n* the machine did other work meanwhile")
    print()
    for line in [*_means(found), "", *_differences(found), *_reached(found), *_reported(found)]:
        print(line)


def _means(found: Sequence[Cell]) -> list[str]:
    """Mean accuracy of each tool on each task that a peer has a cell of, its 95% interval, number of seeds.

    The interval is of seeds and rows; of one seed it is of rows alone.
    """
    peers = sorted({cell["tool"] for cell in found} - {OURS})
    tasks = sorted({cell["task"] for cell in found if cell["tool"] != OURS})
    if not tasks:
        return []
    lines = [
        "| " + " | ".join(("task", "naive prompt", OURS, *peers)) + " |",
        "|" + " --- |" * (3 + len(peers)),
    ]
    for task in tasks:
        naive = [cell["naive"]["accuracy"] for cell in found if cell["task"] == task and "naive" in cell]
        parts = [f"{naive[0]:.3f}" if naive else ""]
        for tool in (OURS, *peers):
            cells = [cell for cell in found if (cell["task"], cell["tool"]) == (task, tool)]
            scored = [cell["correct"] for cell in cells if "correct" in cell]
            parts.append(_mean(scored) if scored else ", ".join(sorted({cell["status"] for cell in cells})))
        lines.append(f"| {task} | " + " | ".join(parts) + " |")
    return lines


def _mean(cells: Sequence[Rows]) -> str:
    rng = random.Random(0)
    draws = sorted(
        _drawn(cells, rng.choices(range(len(cells[0])), k=len(cells[0])), rng) for _ in range(RESAMPLES)
    )
    return f"{_accuracy(cells):.3f} {_bounds(draws, '.3f')} ({len(cells)})"


def _line(cell: Cell) -> str:
    accuracy = cell["status"]
    if "accuracy" in cell:
        low, high = wilson_interval(sum(cell["correct"]), cell["n"])
        accuracy = f"{cell['accuracy']:.3f} [{low:.3f}, {high:.3f}]"
    task, writer = cell["search"].get("task", {}), cell["search"].get("writer", {})
    tokens = sum(c.get("prompt_tokens", 0) + c.get("completion_tokens", 0) for c in (task, writer))
    parts = [cell["task"], cell["seed"], cell["tool"], accuracy, int(task.get("calls", 0)), int(tokens)]
    parts += [int(writer.get("calls", 0)), f"{cell['wall_s'] / 60:.1f}{'*' * cell.get('is_busy', False)}"]
    parts += [
        cell["threads"],
        cell.get("demos", ""),
        cell.get("tokens_per_call", ""),
        cell.get("revision", ""),
    ]
    return "| " + " | ".join(map(str, parts)) + " |"


def _differences(found: Sequence[Cell]) -> list[str]:
    """Ours against each peer on the tasks that both have cells of: a bootstrap over tasks, seeds and rows."""
    by_tool: dict[str, dict[str, list[list[int]]]] = defaultdict(lambda: defaultdict(list))
    unseen: dict[str, int] = {}
    for cell in found:
        if "correct" in cell:
            rows = len(cell["correct"])
            if rows != unseen.setdefault(cell["task"], rows):
                raise SystemExit(
                    f"{cell['task']}: {cell['tool']}, seed {cell['seed']}, was scored on {rows} rows, "
                    f"another cell on {unseen[cell['task']]}; they do not compare. Move one of them away."
                )
            by_tool[cell["tool"]][cell["task"]].append(cell["correct"])
    ours = by_tool.pop(OURS, {})
    lines = []
    for tool, theirs in sorted(by_tool.items()):
        pairs = [(ours[task], theirs[task]) for task in sorted(set(ours) & set(theirs))]
        if pairs:
            mean, low, high = difference(pairs)
            cells = f"{sum(len(a) for a, _ in pairs)} and {sum(len(b) for _, b in pairs)} cells"
            lines.append(
                f"{OURS} − {tool}: {mean:+.3f} [{low:+.3f}, {high:+.3f}] over {len(pairs)} tasks, {cells}"
            )
    return lines


def _reached(found: Sequence[Cell]) -> list[str]:
    """What ours needed until a best on its way was as good as the best optimizing peer at its end."""
    lines: list[str] = []
    shares: dict[str, list[float]] = defaultdict(list)
    for ours in (cell for cell in found if cell["tool"] == OURS and "correct" in cell and "bests" in cell):
        place = ours["task"], ours["seed"]
        peers = [c for c in found if (c["task"], c["seed"]) == place and c["tool"] != OURS]
        peers = [c for c in peers if "correct" in c and _spent(c)[0]]
        if not peers:
            continue
        best = max(peers, key=lambda c: c["accuracy"])
        calls, tokens = _spent(best)
        timed = ""
        if (times := _shares_of_time(ours, peers)) is not None:
            shares["minutes"].append(times[0])
            shares["minutes by call"].append(times[1])
            timed = f"; the whole run took {times[0]:.2f} of the fastest peer's time, {times[1]:.2f} by call"
        said = f"{place[0]}, seed {place[1]}: {best['tool']} ends with {best['accuracy']:.3f}; "
        if best["accuracy"] <= ours["naive"]["accuracy"]:
            lines.append(f"{said}the naive prompt is as good, so there is nothing to reach{timed}")
            continue
        first = next((b for b in ours["bests"] if b["accuracy"] >= best["accuracy"]), None)
        if first is None:
            shares["calls"].append(math.inf)
            shares["tokens"].append(math.inf)
            lines.append(f"{said}not reached{timed}")
            continue
        shares["calls"].append(first["calls"] / calls)
        shares["tokens"].append(first["tokens"] / tokens)
        lines.append(
            f"{said}reached with {first['calls'] / calls:.2f} of its calls and "
            f"{first['tokens'] / tokens:.2f} of its tokens{_by_a_best(ours, best, calls)}{timed}"
        )
    if shares:
        lines.append("median: " + ", ".join(f"{n} {statistics.median(v):.2f}" for n, v in shares.items()))
    return lines


def _shares_of_time(ours: Cell, peers: Sequence[Cell]) -> tuple[float, float] | None:
    """Our wall time by that of the fastest peer, as whole runs and by call.

    None where no quiet peer ran on as many threads.
    """
    quiet = [c for c in (ours, *peers) if not c.get("is_busy")]
    others = [c for c in quiet if c is not ours and c["threads"] == ours["threads"]]
    if ours not in quiet or not others:
        return None
    fastest = min(others, key=lambda c: c["wall_s"])
    share = ours["wall_s"] / fastest["wall_s"]
    return share, share * _spent(fastest)[0] / _spent(ours)[0]


def _by_a_best(ours: Cell, best: Cell, calls: int) -> str:
    """The same by what had become the best, a race later than its leaders; "" for cells that do not tell."""
    ended = [b for b in ours["bests"] if b.get("is_leader") is False]
    first = next((b for b in ended if b["accuracy"] >= best["accuracy"]), None)
    return "" if first is None else f" (by the end of a race: {first['calls'] / calls:.2f} of its calls)"


def _reported(found: Sequence[Cell]) -> list[str]:
    """The gain on validation that ours reported for its winner, beside the gain on the unseen rows."""
    lines: list[str] = []
    gaps: dict[str, list[float]] = defaultdict(list)
    for cell in found:
        told = cell.get("validation") or {}
        if cell["tool"] != OURS or told.get("best") is None or cell["operator"] == "original":
            continue
        pairs = list(zip(cell["naive"]["correct"], cell["correct"], strict=True))
        low, high = paired_difference_interval(*map(list, zip(*pairs, strict=True)))
        fixed, broken = sum(b > a for a, b in pairs), sum(b < a for a, b in pairs)
        gain, claimed = statistics.fmean(b - a for a, b in pairs), told["best"] - told["original"]
        gaps[cell["task"]].append(claimed - gain)
        lines.append(
            f"{cell['task']}, seed {cell['seed']}: reported gain {claimed:+.3f}, on unseen rows {gain:+.3f} "
            f"[{low:+.3f}, {high:+.3f}], {p_text(mcnemar_exact(fixed, broken))}; apart {claimed - gain:+.3f}"
        )
    if gaps:
        lines.append(_mean_gap(list(gaps.values())))
    return lines


def _mean_gap(tasks: Sequence[Sequence[float]]) -> str:
    """Reported minus true gains: their mean, with its 95% bootstrap interval over tasks, then their cells."""
    rng = random.Random(0)

    def drawn() -> float:
        chosen = rng.choices(tasks, k=len(tasks))
        return statistics.fmean(gap for gaps in chosen for gap in rng.choices(gaps, k=len(gaps)))

    every = [gap for gaps in tasks for gap in gaps]
    draws = sorted(drawn() for _ in range(RESAMPLES))
    return (
        f"reported minus true, mean of {len(every)} winners on {len(tasks)} tasks: "
        f"{statistics.fmean(every):+.3f} {_bounds(draws, '+.3f')}; {min(every):+.3f} to {max(every):+.3f}"
    )


def _spent(cell: Cell) -> tuple[int, int]:
    """Calls and tokens of the search, of all its models."""
    counts = cell["search"].values()
    tokens = sum(c.get("prompt_tokens", 0) + c.get("completion_tokens", 0) for c in counts)
    return int(sum(c.get("calls", 0) for c in counts)), int(tokens)


def difference(tasks: Sequence[tuple[Sequence[Rows], Sequence[Rows]]]) -> tuple[float, float, float]:
    """Mean over tasks of our accuracy minus theirs, with its 95% bootstrap interval.

    tasks: of each our cells and theirs, one for each seed, all over the same unseen rows. Tasks are drawn
    anew, then the seeds of either side (they need not be the same ones), then rows, the same for both sides.
    """
    mean = statistics.fmean(_accuracy(ours) - _accuracy(theirs) for ours, theirs in tasks)
    rng = random.Random(0)
    draws = sorted(
        statistics.fmean(_draw(ours, theirs, rng) for ours, theirs in rng.choices(tasks, k=len(tasks)))
        for _ in range(RESAMPLES)
    )
    return mean, *_ends(draws)


def _accuracy(cells: Sequence[Rows]) -> float:
    return statistics.fmean(map(statistics.fmean, cells))


def _draw(ours: Sequence[Rows], theirs: Sequence[Rows], rng: random.Random) -> float:
    rows = rng.choices(range(len(ours[0])), k=len(ours[0]))
    return _drawn(ours, rows, rng) - _drawn(theirs, rows, rng)


def _drawn(cells: Sequence[Rows], rows: Sequence[int], rng: random.Random) -> float:
    """Mean accuracy on these rows of as many cells, drawn anew."""
    return _accuracy([[cell[i] for i in rows] for cell in rng.choices(cells, k=len(cells))])


def _ends(draws: Sequence[float]) -> tuple[float, float]:
    """Of the 95% interval. draws: sorted."""
    return draws[int(0.025 * RESAMPLES)], draws[int(0.975 * RESAMPLES) - 1]


def _bounds(draws: Sequence[float], form: str) -> str:
    low, high = _ends(draws)
    return f"[{low:{form}}, {high:{form}}]"
