"""What words that are typical of each label are worth beside demonstrations, on a real model.

    python benchmarks/demo_cues.py --data FOLDER --task "trec=What type of question is this: {labels}?"

The rows of NAME.train.jsonl are parted in two halves. Balanced sets of --size demonstrations are drawn out of
one, --draws of each, and answer the other with and without the words, which are counted on the half of the
demonstrations. No other rows are read, so what is learned here was not learned on rows that measure.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from statistics import fmean

from demo_sets import ask, read_rows, showing

from autoprompt.optimizer.search import demos, phrases

HEADING = "Words that are typical of each answer:"
MOST = 8  # words of a label
REDRAWN = 4000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with NAME.train.jsonl")
    parser.add_argument("--task", action="append", required=True, metavar="NAME=PROMPT")
    parser.add_argument("--size", type=int, default=16, help="demonstrations of a set")
    parser.add_argument("--draws", type=int, default=2, help="sets of each half")
    parser.add_argument("--cache-dir", type=Path, help="answers are kept here")
    args = parser.parse_args()
    gains = [gain for task in args.task for gain in measure(args, *task.split("=", 1))]
    rng = random.Random(0)
    means = sorted(fmean(rng.choices(gains, k=len(gains))) for _ in range(REDRAWN))
    low, high = means[REDRAWN // 40], means[-1 - REDRAWN // 40]
    print(f"with the words: {fmean(gains):+.3f} [{low:+.3f}, {high:+.3f}], {len(gains)} sets drawn anew")


def measure(args: argparse.Namespace, task: str, prompt: str) -> list[float]:
    """Gain in accuracy by the words, of each set of one task."""
    rows = read_rows(args.data / f"{task}.train.jsonl")
    labels = tuple(sorted({row.target_text for row in rows}))
    prompt = prompt.replace("{labels}", ", ".join(labels))
    mixed = random.Random(task).sample(rows, len(rows))
    gains = []
    for draw in range(args.draws):
        for half in (0, 1):
            known, asked = mixed[half::2], mixed[1 - half :: 2]
            shown = demos.balanced(known, args.size, random.Random(f"{task} {draw} {half}"))
            told = "\n".join([prompt, "", HEADING, *phrases.as_lines(phrases.typical(known, MOST))])
            bare, helped = (
                fmean(
                    row.score
                    for row in ask(asked, labels, showing(text, shown), args.cache_dir).evaluation.rows
                )
                for text in (prompt, told)
            )
            print(f"{task}, {len(shown)} demonstrations: {bare:.3f}, with the words {helped:.3f}", flush=True)
            gains.append(helped - bare)
    return gains


if __name__ == "__main__":
    main()
