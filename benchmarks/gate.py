"""How often the gate of `autoprompt check` cries wolf, and how often it sees a wolf: simulated checks.

    python benchmarks/gate.py
    python benchmarks/gate.py --checks 200 --flips 0.2 --repeats 1
    python benchmarks/gate.py --flips 0.05 --broken 0 --more-flips 0.05

Every check is whole: a noisy model answers every row as often as there are repeats, the baseline is written
to a file and read again, the check asks the model anew, compares and decides.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from workbench import Report

from autoprompt import CheckConfig, Models, RunConfig, check
from autoprompt.gate import write_baseline
from autoprompt.llm import Message, Options, ScriptedClient

# At most 5% false alarms: of 1,000, more than 64 come by chance in under 2.5% of the trials.
MOST_FALSE_ALARMS = 64 / 1000
LEAST_CAUGHT = 0.9


@dataclass(frozen=True)
class World:
    """A model that is right on a share of the rows, breaks some, and flips a share of its answers anew.

    more_flips: the further share that it flips once it is broken, on whatever rows.
    """

    rows: int
    repeats: int
    flips: float
    accuracy: float
    broken: float
    more_flips: float = 0.0

    def model(self, seed: int, *, is_broken: bool) -> ScriptedClient:
        rng = random.Random(f"truth {seed}")
        right = [rng.random() < self.accuracy for _ in range(self.rows)]
        if is_broken:
            could = [n for n, value in enumerate(right) if value]
            for n in rng.sample(could, min(len(could), round(self.broken * self.rows))):
                right[n] = False
        noise = random.Random(f"noise {seed} {is_broken} {self.broken}")
        flips = self.flips + (self.more_flips if is_broken else 0.0)

        def answer(messages: list[Message], options: Options) -> str:
            number = int(messages[-1].content)
            return "yes" if right[number] ^ (noise.random() < flips) else "no"

        return ScriptedClient(answer)


def failed(world: World, seed: int, folder: Path, limits: CheckConfig) -> bool:
    """Whether the check of one simulated change fails."""
    config = RunConfig(
        dataset=folder / "rows.jsonl",
        prompt="Say yes.",
        labels=("yes", "no"),
        no_cache=True,
        concurrency=1,
    )
    limits = limits.model_copy(update={"baseline": folder / "baseline.json"})
    before = check(
        config,
        limits.model_copy(update={"repeat": world.repeats}),
        is_update=True,
        models=Models(world.model(seed, is_broken=False)),
    )
    assert limits.baseline is not None
    write_baseline(limits.baseline, before.measurement.as_baseline())
    # An unchanged prompt: the same truth, and noise of its own.
    now = world.model(seed, is_broken=True)
    return not check(config, limits, models=Models(now)).is_passed


def share_failed(world: World, checks: int, limits: CheckConfig) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [{"input": str(n), "target": "yes"} for n in range(world.rows)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return sum(failed(world, seed, folder, limits) for seed in range(checks)) / checks


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checks", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--flips", type=float, default=0.1, help="share of answers that are flipped")
    parser.add_argument("--accuracy", type=float, default=1.0, help="share of rows that the model knows")
    parser.add_argument("--broken", type=float, default=0.1, help="share of rows that truly break")
    parser.add_argument("--more-flips", type=float, default=0.0, help="flipped besides, where it broke")
    parser.add_argument("--max-drop", type=float, default=0.0)
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    options = parser.parse_args()
    limits = CheckConfig(max_drop=options.max_drop)
    settings = (options.rows, options.repeats, options.flips, options.accuracy)
    report = Report("gate")
    alarms = share_failed(World(*settings, broken=0.0), options.checks, limits)
    report.add(
        "false alarms, unchanged prompt",
        f"{alarms:.3f} of {options.checks:,}",
        f"<= {MOST_FALSE_ALARMS:.3f}",
        alarms <= MOST_FALSE_ALARMS,
    )
    broken = World(*settings, broken=options.broken, more_flips=options.more_flips)
    caught = share_failed(broken, options.checks, limits)
    more = f", {options.more_flips:.0%} more flips" if options.more_flips else ""
    report.add(
        f"caught, {options.broken:.0%} of the rows broken{more}",
        f"{caught:.3f} of {options.checks:,}",
        f">= {LEAST_CAUGHT:.3f}",
        caught >= LEAST_CAUGHT,
    )
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
