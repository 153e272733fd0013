"""What more demonstrations are worth on a real model, and what it costs to prefer a shorter prompt.

    python benchmarks/demo_sizes.py --data FOLDER --task "trec=What type of question is this: {labels}?" \\
        --task "subj=Is the sentence subjective or objective?"

For each task balanced sets of 16, 32, 64 and 128 demonstrations are drawn out of NAME.train.jsonl, --draws of
each, and answer the rows of NAME.val.jsonl. Then races are drawn: four of the sets over --race of these rows.
The best is taken, as a run ranks them, or the shortest that is at most a margin behind it with at most 0.8 of
its length; what is taken is scored on the other rows. Answers are cached.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from statistics import fmean

from demo_sets import ask, read_rows, set_arguments, showing, with_labels

from autoprompt.optimizer.search import demos
from autoprompt.optimizer.search.pool import CONFIDENCE_WEIGHT

SIZES = (16, 32, 64, 128)
MARGINS = (None, 0.0, 0.03, 0.06)  # None: the best, however long
ENTRANTS = 4
RACES = 4000
SHORTER = 0.8


@dataclass(frozen=True)
class Shown:
    """A set of demonstrations and what it answered: score and confidence of each row."""

    length: int
    scores: list[float]
    confidences: list[float]

    def mean(self, rows: list[int]) -> float:
        return fmean(self.scores[row] for row in rows)

    def merit(self, rows: list[int]) -> float:
        return self.mean(rows) + CONFIDENCE_WEIGHT * fmean(self.confidences[row] for row in rows)


def main() -> None:
    parser = set_arguments(__doc__, files="NAME.train and NAME.val.jsonl", draws="sets of each size")
    parser.add_argument("--race", type=int, default=36, help="rows of a race")
    args = parser.parse_args()
    tasks = [measure(args, *task.split("=", 1)) for task in args.task]
    for margin in MARGINS:
        taken = [of for sets in tasks for of in races(sets, args.race, margin)]
        score, length = (fmean(values) for values in zip(*taken, strict=True))
        said = "the best" if margin is None else f"the shortest within {margin:.2f}"
        print(f"{said}: {score:.3f} on the other rows, {length:,.0f} characters of demonstrations")


def measure(args: argparse.Namespace, task: str, prompt: str) -> list[Shown]:
    """All sets of one task, answered."""
    train = read_rows(args.data / f"{task}.train.jsonl")
    unseen = read_rows(args.data / f"{task}.val.jsonl")
    prompt, labels = with_labels(prompt, train)
    found = []
    for size in SIZES:
        for draw in range(args.draws):
            shown = demos.balanced(train, size, random.Random(f"{task} {draw} {size}"))
            asked = showing(prompt, shown)
            answers = ask(unseen, labels, asked, args.cache_dir)
            scores = [row.score for row in answers.evaluation.rows]
            sure = [
                row.score if row.confidence is None else row.confidence for row in answers.evaluation.rows
            ]
            found.append(Shown(sum(len(d.input) + len(d.output) for d in asked.demos), scores, sure))
            print(f"{task}, {len(asked.demos)} demonstrations: {fmean(scores):.3f}", flush=True)
    return found


def races(sets: list[Shown], rows: int, margin: float | None) -> list[tuple[float, int]]:
    """Score on the rows that did not race, and length, of what each race takes."""
    rng = random.Random(0)
    every = range(len(sets[0].scores))
    taken = []
    for _ in range(RACES):
        raced = rng.sample(every, rows)
        others = sorted(set(every).difference(raced))
        entrants = rng.sample(sets, ENTRANTS)
        chosen = max(entrants, key=lambda entry: entry.merit(raced))
        if margin is not None:
            least = chosen.mean(raced) - margin - 1e-9
            shorter = [e for e in entrants if e.length <= SHORTER * chosen.length and e.mean(raced) >= least]
            chosen = min(shorter, key=lambda entry: entry.length, default=chosen)
        taken.append((chosen.mean(others), chosen.length))
    return taken


if __name__ == "__main__":
    main()
