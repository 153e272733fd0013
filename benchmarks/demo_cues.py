"""What words that are typical of each label are worth beside demonstrations, on a real model.

    python benchmarks/demo_cues.py --data FOLDER --task "trec=What type of question is this: {labels}?"

The rows of NAME.train.jsonl are parted in two halves. Balanced sets of --size demonstrations are drawn out of
one, and answer the other with and without the words, which are counted on the half of the demonstrations and
stand in the prompt as a run has them. No other rows are read, so that nothing is learned from rows that
measure. The interval (Student's t) is over sets. Answers are cached.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from statistics import fmean

from demo_sets import ask, read_rows, set_arguments, showing, with_labels

from autoprompt.optimizer.propose.additions import CUES, HEADINGS, with_lines
from autoprompt.optimizer.search import demos, phrases
from autoprompt.records import Example
from autoprompt.stats import student_interval


def main() -> None:
    parser = set_arguments(__doc__, files="NAME.train.jsonl", draws="sets of each half")
    parser.add_argument("--size", type=int, default=16, help="demonstrations of a set")
    args = parser.parse_args()
    gains = [gain for task in args.task for gain in measure(args, *task.split("=", 1))]
    if (interval := student_interval(gains)) is not None:
        low, high = interval
        print(f"with the words: {fmean(gains):+.3f} [{low:+.3f}, {high:+.3f}] of {len(gains)} sets")


def measure(args: argparse.Namespace, task: str, prompt: str) -> list[float]:
    """The gains by the words of the sets of one task, in shares of rows."""
    rows = read_rows(args.data / f"{task}.train.jsonl")
    prompt, labels = with_labels(prompt, rows)
    mixed = random.Random(task).sample(rows, len(rows))

    def accuracy(text: str, shown: Sequence[Example], asked: Sequence[Example]) -> float:
        answered = ask(asked, labels, showing(text, shown), args.cache_dir).evaluation.rows
        return fmean(row.score for row in answered)

    gains = []
    for draw in range(args.draws):
        for half in (0, 1):
            known, asked = mixed[half::2], mixed[1 - half :: 2]
            shown = demos.balanced(known, args.size, random.Random(f"{task} {draw} {half}"))
            lines = [HEADINGS["cues"]["en"], *phrases.as_lines(phrases.typical(known, CUES[0]))]
            bare = accuracy(prompt, shown, asked)
            helped = accuracy(with_lines(prompt, lines, (), labels), shown, asked)
            print(f"{task}, {len(shown)} demonstrations: {bare:.3f}, with the words {helped:.3f}", flush=True)
            gains.append(helped - bare)
    return gains


if __name__ == "__main__":
    main()
