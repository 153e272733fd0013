"""What a run is worth on rows that it never saw: optimize on one file, score on another, several seeds.

    python benchmarks/unseen.py --train clickbait.train.jsonl --unseen clickbait.val.jsonl \\
        --prompt "Is this headline clickbait? Answer clickbait or non_clickbait." --max-calls 400 --seeds 3

The run splits `--train` into its own train and val and keeps no test. Scoring on `--unseen` is outside the
run's budget.
Every run starts without memory; answers are cached, so a repetition with the same settings costs nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from autoprompt import EvaluationReport, RunConfig, evaluate, optimize
from autoprompt.stats import paired_difference_interval, paired_test


def main() -> None:
    args = arguments()
    shared: dict[str, Any] = {
        "prompt": args.prompt,
        "model": args.model,
        "base_url": args.base_url,
        "metric": args.metric,
        "no_memory": True,
        "runs_dir": args.runs_dir,
    }
    scoring = RunConfig(dataset=args.unseen, **shared)
    naive = evaluate(scoring)
    print(f"naive prompt: {naive.score:.3f} {_interval(naive.interval)} on {naive.n} unseen rows", flush=True)
    records = []
    for seed in range(args.seeds):
        config = RunConfig(
            train=args.train,
            no_test=True,
            preset=args.preset,
            max_calls=args.max_calls,
            seed=seed,
            **shared,
        )
        records.append(one_run(config, scoring, naive))
    mean = statistics.fmean(r["unseen"] for r in records)
    print(f"mean over {args.seeds} seeds: {mean:.3f}, from {naive.score:.3f}")
    if args.json:
        found = {"naive": naive.score, "n": naive.n, "mean": mean, "runs": records}
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--unseen", type=Path, required=True)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-calls", type=int, default=400)
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--model", default="local")
    parser.add_argument("--base-url")
    parser.add_argument("--metric", default="exact_match")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def one_run(config: RunConfig, scoring: RunConfig, naive: EvaluationReport) -> dict[str, Any]:
    """Optimize, score the best on the unseen rows beside the naive prompt, say what came out."""
    started = time.monotonic()
    result = optimize(config)
    seconds = time.monotonic() - started
    report = evaluate(scoring, candidate=result.best)
    before, after = ([row.score for row in r.evaluation.rows] for r in (naive, report))
    told = result.to_dict()
    record = {
        "seed": config.seed,
        "unseen": report.score,
        "ci95": list(report.interval),
        "gain_ci95": list(paired_difference_interval(before, after)),
        "p_value": paired_test(before, after, "two-sided"),
        "validation": told["validation"],
        "operator": result.best.operator,
        "demos": len(result.best.demos),
        "calls": told["calls"],
        "tokens": told["tokens"],
        "seconds": round(seconds, 1),
        "run_id": result.run_id,
    }
    print(
        f"seed {config.seed}: {report.score:.3f} {_interval(report.interval)}, p = {record['p_value']:.2g}; "
        f"{record['calls']} calls, {seconds:.0f} s, {record['operator']}, {record['demos']} demonstrations",
        flush=True,
    )
    return record


def _interval(interval: tuple[float, float]) -> str:
    return f"[{interval[0]:.3f}, {interval[1]:.3f}]"


if __name__ == "__main__":
    main()
