"""What it is worth on a real model to show more demonstrations of the labels that are answered too seldom.

    python benchmarks/label_shares.py --data FOLDER --tasks subj trec --draws 6

Each draw is a balanced set of demonstrations out of NAME.train.jsonl. Rows of train that are not shown say
how far the answers lean; where a run would mend that (from `propose.LEANS` on), the set is shifted as a run
does it, and both sets are scored on rows of NAME.val.jsonl. Nothing is chosen by a score, so the mean
difference has no winner's curse; its interval (Student's t) is over draws. Answers are cached.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path
from statistics import fmean

import yaml
from demo_sets import ask, read_rows, showing, with_labels

from autoprompt.optimizer.propose.drafts import LEANS
from autoprompt.optimizer.search import demos
from autoprompt.stats import student_interval

TASKS = Path(__file__).parent / "peers" / "tasks.yaml"
SIZES = (16, 32, 48, 64)  # take turns


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with NAME.train and NAME.val.jsonl")
    parser.add_argument("--tasks", nargs="+", default=["subj", "trec", "banking10", "sms_spam"])
    parser.add_argument("--draws", type=int, default=4, help="demonstration sets for each task")
    parser.add_argument("--rows", type=int, default=100, help="unseen rows at most")
    parser.add_argument("--looked-at", type=int, default=32, help="rows of train that say how answers lean")
    parser.add_argument("--cache-dir", type=Path, help="answers are kept here")
    args = parser.parse_args()
    tasks = yaml.safe_load(TASKS.read_text(encoding="utf-8"))
    gains: list[float] = []
    for task in args.tasks:
        gains += measure(args, task, tasks[task]["prompt"])
    if (interval := student_interval(gains)) is not None:
        low, high = interval
        print(f"all: {fmean(gains):+.3f} [{low:+.3f}, {high:+.3f}] of {len(gains)} shifted sets")


def measure(args: argparse.Namespace, task: str, prompt: str) -> list[float]:
    """The gains of the shifted sets of one task, in shares of rows."""
    train = read_rows(args.data / f"{task}.train.jsonl")
    unseen = read_rows(args.data / f"{task}.val.jsonl")[: args.rows]
    prompt, labels = with_labels(prompt, train)
    gains = []
    for draw in range(args.draws):
        rng = random.Random(f"{task} {draw}")
        looked_at = set(rng.sample(range(len(train)), args.looked_at))
        told = [train[i] for i in sorted(looked_at)]
        rest = [row for i, row in enumerate(train) if i not in looked_at]
        shown = demos.balanced(rest, SIZES[draw % len(SIZES)], rng)
        even = showing(prompt, shown)
        answers = ask(told, labels, even, args.cache_dir)
        answered = Counter(row.prediction for row in answers.evaluation.rows)
        expected = Counter(row.target for row in told)
        leans = demos.lean(answered, expected)
        said = f"{task} {draw}: {len(shown)} demonstrations, answers lean {leans:.2f}"
        if leans < LEANS:
            print(f"{said}, not shifted", flush=True)
            continue
        shifted = demos.rebalanced(rest, [row.id for row in shown], answered, expected, rng)
        before, after = (
            ask(unseen, labels, c, args.cache_dir).score for c in (even, showing(prompt, shifted))
        )
        gains.append(after - before)
        print(f"{said}: {before:.3f} -> {after:.3f}", flush=True)
    return gains


if __name__ == "__main__":
    main()
