"""The search on a simulated student: no model, hundreds of seeds in minutes, and the truth is known.

    # every world: gain, calls, bias of what is reported
    python benchmarks/simulated.py
    # how often a coin flip is given another prompt
    python benchmarks/simulated.py --world random --seeds 200
    # what each part of the search is worth; --rows 62: with so few
    python benchmarks/simulated.py --ablations
    # what the experience file is worth on a second task
    python benchmarks/simulated.py --memory

The student answers a row right with a chance that depends on which of its hidden rules the prompt states, on
the demonstrations shown, and on harmful advice. The writer proposes useful, useless and harmful edits. Both
are functions behind `ScriptedClient`, so the real graph, race, gate, memory and budget run; the true accuracy
of any prompt is the mean of the student's chances.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulation.ablations import ABLATIONS, WHOLE
from simulation.run import Outcome, simulate
from simulation.world import WORLDS, World

from autoprompt.optimizer.search.plan import DEPTHS


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Means with 95% intervals over seeds."""
    bias = [o.reported_gain - o.true_gain for o in outcomes if o.reported_gain is not None]
    gains = [o.true_gain for o in outcomes]
    return {
        "seeds": len(outcomes),
        "original": statistics.fmean(o.original for o in outcomes),
        "best": statistics.fmean(o.best for o in outcomes),
        "gain": statistics.fmean(gains),
        "gain_ci95": mean_ci(gains),
        "worst_gain": min(gains),
        "kept_original": sum(o.is_original for o in outcomes),
        "calls": statistics.fmean(o.calls for o in outcomes),
        "tokens": statistics.fmean(o.tokens for o in outcomes),
        "reported_minus_true": statistics.fmean(bias) if bias else None,
    }


def mean_ci(values: Sequence[float]) -> tuple[float, float]:
    """95% interval of a mean, by bootstrap over seeds."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(2000))
    return means[49], means[1949]


@dataclass(frozen=True)
class Size:
    """How much is simulated. rows: of train and validation together. val: those used. jobs: processes."""

    seeds: int
    rows: int
    jobs: int
    preset: str
    val: int | None = None
    is_embedded: bool = False


def outcomes(size: Size, cells: Sequence[tuple[str, str, int]]) -> dict[tuple[str, str, int], list[Outcome]]:
    """All seeds of each cell (world, what is switched off, cap on calls)."""
    tasks = [(*cell, size, seed) for cell in cells for seed in range(size.seeds)]
    with ProcessPoolExecutor(size.jobs) as workers:
        found = workers.map(one_run, tasks, chunksize=max(1, size.seeds // 4))
        return {cell: [next(found) for _ in range(size.seeds)] for cell in cells}


def one_run(task: tuple[str, str, int, Size, int]) -> Outcome:
    world, off, calls, size, seed = task
    val = max(size.rows // 2, min(40, size.rows - 20))  # as a run without a test cuts them
    sizes = {"train": size.rows - val, "val": size.val or val, "test": 0}
    with ExitStack() as stack:
        switched = {"is_embedded": size.is_embedded, **ABLATIONS[off](stack)}
        return simulate(WORLDS[world], seed, max_calls=calls, sizes=sizes, preset=size.preset, **switched)


def show_worlds(worlds: Sequence[World], size: Size, budgets: Sequence[int]) -> list[dict[str, Any]]:
    seeds = size.seeds
    print(
        f"{'world':16}{'calls':>7}{'original':>10}{'best':>8}{'gain':>8}{'95% interval':>18}{'worst':>8}"
        f"{'kept original':>15}{'reported - true':>17}{'tokens a row':>14}"
    )
    records = []
    for world in worlds:
        for calls in budgets:
            cell = (world.name, WHOLE, calls)
            s = summary(outcomes(size, [cell])[cell])
            bias = "-" if s["reported_minus_true"] is None else f"{s['reported_minus_true']:+.3f}"
            low, high = s["gain_ci95"]
            print(
                f"{world.name:16}{calls:7}{s['original']:10.3f}{s['best']:8.3f}{s['gain']:+8.3f}"
                f"   [{low:+.3f}, {high:+.3f}]{s['worst_gain']:+8.3f}"
                f"{s['kept_original']:9}/{seeds:<5}{bias:>17}{s['tokens']:14.0f}",
                flush=True,
            )
            records.append({"world": world.name, "max_calls": calls, **s})
    return records


def show_ablations(
    worlds: Sequence[World], size: Size, budgets: Sequence[int], parts: Sequence[str]
) -> list[dict[str, Any]]:
    """Gain with everything on minus gain with one part off, paired by world, budget and seed.

    parts: how the names of the ablations begin; none: all.
    """
    whole: list[float] = []
    records = []
    for name in (n for n in ABLATIONS if not parts or n.startswith((WHOLE, *parts))):
        cells = [(world.name, name, calls) for world in worlds for calls in budgets]
        found = outcomes(size, cells)
        gains = [o.true_gain for cell in cells for o in found[cell]]
        whole = whole or gains
        worth = [a - b for a, b in zip(whole, gains, strict=True)]
        low, high = mean_ci(worth)
        kept = sum(o.is_original for cell in cells for o in found[cell])
        tokens = statistics.fmean(o.tokens for cell in cells for o in found[cell])
        record = {
            "off": name,
            "gain": statistics.fmean(gains),
            "worth": statistics.fmean(worth),
            "tokens": tokens,
        }
        records.append({**record, "worth_ci95": (low, high), "kept_original": kept, "runs": len(gains)})
        print(
            f"{name:64} gain {record['gain']:+.3f}   worth {record['worth']:+.3f} [{low:+.3f}, {high:+.3f}]"
            f"   kept original {kept}/{len(gains)}   {tokens:.0f} tokens a row",
            flush=True,
        )
    return records


def show_memory(world: World, seeds: int, calls: int) -> dict[str, Any]:
    """A second task of the same kind, with and without what the first run wrote; and after an unrelated
    first one."""
    saved, unrelated_cost, reached = [], [], [0, 0]
    same, other = "sort the items into A and B by their kind", "translate menus from French for tourists"
    foreign = dataclasses.replace(world, name="foreign", rules=tuple(f"clue{n}" for n in range(3)))
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            file, unrelated = Path(folder) / "memory.txt", Path(folder) / "unrelated.txt"
            first = simulate(world, seed, max_calls=calls, memory=file, task=same)
            simulate(foreign, seed, max_calls=calls, memory=unrelated, task=other)
            second = seed + 10_000
            without = simulate(world, second, max_calls=calls, memory=Path(folder) / "empty.txt", task=same)
            having = simulate(world, second, max_calls=calls, memory=file, task=same)
            misled = simulate(world, second, max_calls=calls, memory=unrelated, task=same)
        needed = [calls_to_reach(o, first.best, calls) for o in (without, having)]
        saved.append(float(needed[0] - needed[1]))
        reached = [r + (n < calls) for r, n in zip(reached, needed, strict=True)]
        unrelated_cost.append(without.best - misled.best)
    low, high = mean_ci(saved)
    print(
        f"memory, {seeds} seeds, {calls} calls: calls saved until the first run's accuracy is reached: "
        f"{statistics.fmean(saved):.0f} [{low:.0f}, {high:.0f}]; "
        f"reached without {reached[0]}, with {reached[1]}; "
        f"accuracy lost to an unrelated memory: at most {max(unrelated_cost):.3f}"
    )
    return {
        "calls_saved": statistics.fmean(saved),
        "ci95": (low, high),
        "unrelated_cost": max(unrelated_cost),
    }


def calls_to_reach(outcome: Outcome, accuracy: float, most: int) -> int:
    """Calls until a best so far was truly as good; `most` where none was."""
    return next((calls for calls, truth in outcome.trace if truth >= accuracy - 1e-9), most)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", choices=WORLDS, action="append", help="default: all")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--calls", type=int, action="append", help="budgets; default: 400 and 1200")
    parser.add_argument("--rows", type=int, default=150, help="of train and validation together")
    parser.add_argument("--val", type=int, help="validation rows that are used; default: all")
    parser.add_argument(
        "--preset", choices=DEPTHS, default="standard", help="how many rounds; calls are --calls"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--embedded", action="store_true", help="rounds are as short as on that model")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--part", action="append", default=[], help="ablate this alone: how its name begins")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    budgets = args.calls or [400, 1200]
    size = Size(args.seeds, args.rows, args.jobs, args.preset, args.val, args.embedded)
    started = time.monotonic()
    found: Any
    if args.memory:
        found = show_memory(WORLDS["instructions"], args.seeds, budgets[-1])
    elif args.ablations:
        names = args.world or ["instructions", "demonstrations", "both", "reasoning"]
        found = show_ablations([WORLDS[n] for n in names], size, budgets, args.part)
    else:
        found = show_worlds([WORLDS[n] for n in args.world or WORLDS], size, budgets)
    print(f"{time.monotonic() - started:.0f} s")
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
