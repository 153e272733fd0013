"""Recorded answers, read by this code and by another checkout: what is read otherwise now.

    python benchmarks/readings.py --beside ../OLD/.venv/bin/python
    python benchmarks/readings.py --record      # asks the embedded model anew

Without --beside the differences from the readings that are kept beside the answers.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDED = Path(__file__).parent / "results" / "readings.jsonl"
STARS = ("1", "2", "3", "4", "5")
SCALE = "1 (very boring) to 5 (very exciting)"
# dataset, its field, labels, prompts: short and long answers, scales, menus, reasons, confidence
TASKS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "clickbait.jsonl",
        "headline",
        ("clickbait", "non_clickbait"),
        (
            "Is this headline clickbait? Answer clickbait or non_clickbait.",
            "Is this headline clickbait? Repeat the options (clickbait, non_clickbait), then answer.",
            "Is this headline clickbait or non_clickbait? Explain in one sentence.",
            "Say clickbait or non_clickbait, with your confidence.",
        ),
    ),
    (
        "clickbait.jsonl",
        "headline",
        ("0", "1"),
        (
            "0 = news, 1 = clickbait. Which is it? Begin with 'Label (0 = news, 1 = clickbait):'.",
            "Is it clickbait (1) or not (0)? Give the label and how sure you are.",
        ),
    ),
    (
        "clickbait.jsonl",
        "headline",
        STARS,
        (
            f"Rate how exciting this headline is, from {SCALE}. Repeat the scale, then rate.",
            "Rate how exciting this headline is from 1 to 5, with a reason.",
        ),
    ),
    (
        "clickbait.jsonl",
        "headline",
        ("A", "B", "C"),
        ("What is it about? A) people B) nature C) things. Repeat the options, then answer with a letter.",),
    ),
    (
        "clickbait_zh.jsonl",
        "headline",
        ("标题党", "新闻"),
        ("这是标题党还是新闻？", "选项：标题党、新闻。先重复选项，再回答。"),
    ),
    ("clickbait_zh.jsonl", "headline", ("A", "B"), ("A. 标题党 B. 新闻。选择哪一项？先说明理由。",)),
    ("clickbait_zh.jsonl", "headline", STARS, ("给标题的吸引力打分（1-5分），先写出评分标准。",)),
    (
        "triage.jsonl",
        "message",
        ("L1", "L2", "L3"),
        ("Which queue: L1, L2 or L3? Name the queues and what they are for, then the queue.",),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", type=Path, help="the Python of another checkout, in its .venv")
    parser.add_argument("--record", action="store_true", help="ask the embedded model for new answers")
    parser.add_argument("--rows", type=int, default=10, help="rows for each prompt, with --record")
    parser.add_argument("--answers", type=Path, default=RECORDED)
    args = parser.parse_args()
    if args.record:
        record(args.answers, args.rows)
    answers = [*recorded(args.answers), *baseline()]
    here = readings(answers)
    there = [row.get("read") for row in answers]
    if args.beside:
        there = beside(args.beside, answers)
    else:
        answers = [row for row in answers if "read" in row]
    differ = 0
    for row, now, before in zip(answers, here, there, strict=False):
        if now != before:
            differ += 1
            print(f"{before!r} -> {now!r}: {row['text']!r} {row['labels']}")
    unread = sum(value is None for value in here)
    print(f"{len(answers)} answers, {unread} of them unreadable now; {differ} are read otherwise")


def record(path: Path, rows: int) -> None:
    from autoprompt.llm import local
    from autoprompt.llm.client import Options
    from autoprompt.llm.transport.http import HttpTransport
    from autoprompt.records import Message

    server = local.start()
    client = HttpTransport(server.base_url, server.model, server.api_key, timeout_s=600)
    with path.open("w", encoding="utf-8") as kept:
        for name, field, labels, prompts in TASKS:
            lines = (ROOT / "datasets" / name).read_text(encoding="utf-8").splitlines()
            for prompt in prompts:
                for line in random.Random(prompt).sample(lines, rows):
                    ask = [Message("system", prompt), Message("user", json.loads(line)[field])]
                    text = client.complete(ask, Options(max_output_tokens=64)).text
                    row = {"labels": labels, "prompt": prompt, "text": text}
                    row["read"] = readings([row])[0]
                    print(json.dumps(row, ensure_ascii=False), file=kept, flush=True)
    client.close()
    server.close()


def recorded(path: Path) -> Iterator[dict[str, object]]:
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def baseline() -> Iterator[dict[str, object]]:
    """The answers that `autoprompt check` is shown with."""
    lines = (ROOT / "baselines" / "clickbait.answers.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines[1:]):
        if "text" in row:
            yield {"labels": ("0", "1"), "text": row["text"]}


def readings(answers: list[dict[str, object]]) -> list[str | None]:
    from autoprompt.text.answers.labels import read_label

    return [read_label(str(row["text"]), tuple(row["labels"])) for row in answers]  # type: ignore[arg-type]


def beside(python: Path, answers: list[dict[str, object]]) -> list[str | None]:
    """The readings of another checkout, whose modules may be where they were before they moved."""
    code = (
        "import json, sys\n"
        "try:\n from autoprompt.text.answers.labels import read_label\n"
        "except ImportError:\n from autoprompt.reading.labels import read_label\n"
        "json.dump([read_label(text, labels) for text, labels in json.load(sys.stdin)], sys.stdout)"
    )
    asked = json.dumps([(row["text"], row["labels"]) for row in answers])
    python = python.absolute()
    found = subprocess.run(
        [python, "-c", code],
        input=asked,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=python.parents[2],
    )
    read: list[str | None] = json.loads(found.stdout)
    return read


if __name__ == "__main__":
    main()
