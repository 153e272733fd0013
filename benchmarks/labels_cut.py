"""What it saves that a label is not written out once it is decided, on the embedded model.

    python benchmarks/labels_cut.py

The same rows with the same prompt, by turns with and without the cut; ratios of time, since machines differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from unittest import mock

from autoprompt.llm import local
from autoprompt.llm.client import Options
from autoprompt.llm.transport import wire
from autoprompt.llm.transport.http import HttpTransport
from autoprompt.records import Message

DATA = Path(__file__).parents[1] / "datasets" / "clickbait.jsonl"
SETS = (
    ("clickbait", "non_clickbait"),
    ("objective", "subjective"),
    ("Description", "Entity", "Expression", "Human", "Location", "Number"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    lines = DATA.read_text(encoding="utf-8").splitlines()[: args.rows]
    rows = [json.loads(line)["headline"] for line in lines]
    server = local.start(threads=args.threads)
    try:
        for labels in SETS:
            compare(server, labels, rows, args.rounds)
    finally:
        server.close()


def compare(server: local.LocalServer, labels: tuple[str, ...], rows: list[str], rounds: int) -> None:
    ratios, equal, tokens = [], 0, [0, 0]
    ask(server, labels, rows[:1], sure=0)  # the prefix is read
    for _ in range(rounds):
        whole_s, whole, whole_tokens = ask(server, labels, rows, sure=10**9)
        cut_s, cut, cut_tokens = ask(server, labels, rows, sure=0)
        ratios.append(cut_s / whole_s)
        equal += sum(a == b for a, b in zip(whole, cut, strict=True))
        tokens = [tokens[0] + whole_tokens, tokens[1] + cut_tokens]
    print(
        f"{', '.join(labels)}: {statistics.median(ratios):.2f} of the time "
        f"({min(ratios):.2f}-{max(ratios):.2f}), {tokens[1] / tokens[0]:.2f} of the answers' tokens, "
        f"{equal} of {rounds * len(rows)} answers equal",
        flush=True,
    )


def ask(
    server: local.LocalServer, labels: tuple[str, ...], rows: list[str], *, sure: int
) -> tuple[float, list[str], int]:
    """Seconds, answers and their tokens; sure: answers after which labels are cut."""
    client = HttpTransport(server.base_url, server.model, server.api_key, constrain="grammar")
    system = Message("system", "What is this headline? Answer one of: " + ", ".join(labels))
    options = Options(labels=labels, wants_label_probs=True, max_output_tokens=64)
    started = time.perf_counter()
    with mock.patch.object(wire, "LABELS_BEFORE_CUT", sure):
        answers = [client.complete([system, Message("user", row)], options) for row in rows]
    seconds = time.perf_counter() - started
    client.close()
    return seconds, [a.text for a in answers], sum(a.usage.completion_tokens for a in answers)


if __name__ == "__main__":
    main()
