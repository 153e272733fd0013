"""CPU for reading an answer with 10, 77, 150, 1,000 and 10,000 labels.

    python benchmarks/many_labels.py [--beside ../OLD/.venv/bin/python] [--json]

An answer names its label in a sentence, so none is read by comparing it with the labels as a whole. Exits
with 1 if an answer takes five times as long with 10,000 labels as with ten, or the labels take a second to
be made ready.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

SIZES = (10, 77, 150, 1_000, 10_000)
ANSWERS = 200
_VERBS = ("activate", "block", "cancel", "change", "find", "freeze", "lose", "order", "refund", "report")
_NOUNS = (
    "card",
    "card payment",
    "card payment fee",
    "account",
    "exchange rate",
    "top up",
    "pin",
    "退款",
    "转账",
)
_KINDS = ("", "failed", "lost", "pending", "virtual", "wrong", "国际")
_MOST, _MOST_READY_S = 5.0, 1.0
_SLOWEST_S = 60.0  # that the other checkout may take for one size

Read = Callable[[str, Sequence[str]], str | None]


class Figures(TypedDict):
    labels: int
    ready_ms: float
    answer_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", type=Path, help="the Python of another checkout, in its .venv")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.beside:
        show(str(args.beside), [beside(args.beside, size) for size in args.sizes], is_json=args.json)
    found = [measured(reader(), size) for size in args.sizes]
    show("this code", found, is_json=args.json)
    slowest = max(one["answer_ms"] for one in found) / min(one["answer_ms"] for one in found)
    sys.exit(slowest > _MOST or max(one["ready_ms"] for one in found) > 1000 * _MOST_READY_S)


def labels(count: int) -> tuple[str, ...]:
    """Of one to six words, many of which begin alike; every ninth is Chinese."""
    numbered = (f"{verb} {kind} {noun} {number}" for number, kind, noun, verb in _parts())
    short = (f"{verb} {noun}" for noun in _NOUNS for verb in _VERBS)
    every = dict.fromkeys("_".join(label.split()) for label in itertools.chain(short, numbered))
    return tuple(itertools.islice(every, count))


def _parts() -> itertools.product[tuple[object, ...]]:
    return itertools.product(range(100), _KINDS, _NOUNS, _VERBS)  # type: ignore[return-value]


def reader() -> Read:
    try:
        from autoprompt.text.answers.labels import read_label
    except ImportError:  # a checkout of before the modules moved
        from autoprompt.reading.labels import read_label  # type: ignore[import-not-found,no-redef]
    found: Read = read_label
    return found


def measured(read: Read, count: int) -> Figures:
    known = labels(count)
    begun = time.process_time()
    read("None of them.", known)
    ready_s = time.process_time() - begun
    spent_s = 0.0
    asked = 0
    for at in range(ANSWERS):
        label = known[at * 7919 % count]
        answer = f"The customer wants to {label.replace('_', ' ')}, as far as the message says."
        begun = time.process_time()
        found = read(answer, known)
        spent_s += time.process_time() - begun
        asked += 1
        if found != label:
            raise SystemExit(f"{answer!r} is read as {found!r}")
        if spent_s > _SLOWEST_S / 2:
            break
    return {"labels": count, "ready_ms": 1000 * ready_s, "answer_ms": 1000 * spent_s / asked}


def beside(python: Path, count: int) -> Figures:
    code = f"import json, many_labels as m; print(json.dumps(m.measured(m.reader(), {count})))"
    python = python.absolute()
    environment = {"PYTHONPATH": f"{python.parents[2]}:{Path(__file__).parent}", "PATH": "/usr/bin:/bin"}
    try:
        run = subprocess.run(
            [python, "-c", code], capture_output=True, check=True, env=environment, timeout=3 * _SLOWEST_S
        )
    except subprocess.TimeoutExpired:
        return {"labels": count, "ready_ms": float("inf"), "answer_ms": float("inf")}
    found: Figures = json.loads(run.stdout)
    return found


def show(name: str, found: Sequence[Figures], *, is_json: bool) -> None:
    if is_json:
        print(json.dumps({"code": name, "figures": found}))
        return
    print(name)
    for one in found:
        ready, answer = f"{one['ready_ms']:8,.1f} ms", f"{one['answer_ms']:7.3f} ms"
        print(f"  {one['labels']:6,} labels: ready in {ready}, {answer} an answer")


if __name__ == "__main__":
    main()
