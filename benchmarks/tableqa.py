"""Questions over tables, answered by the scientific workflow: how many are right, and what they took.

    python benchmarks/tableqa.py --questions QUESTIONS.jsonl --tables FOLDER --model local --max-iterations 3

A question is a JSON object a line: `id`, `input`, `target`. The data files of a question are those of the
folder that its input names, all of them where it names none. A number is right if it rounds to the target at
the target's decimals (the last number of the conclusion counts), a word if the conclusion is it or ends with
it. What is answered is kept in `--out`; the same command again goes on there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from autoprompt.errors import ModelError
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels
from autoprompt.science.records import Investigation
from autoprompt.science.run import start
from autoprompt.settings.records import ScienceConfig

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")


def main() -> int:
    arguments = _arguments()
    questions = [q for path in arguments.questions for q in _read(path)]
    questions = [q for q in questions if not arguments.only or q["id"] in arguments.only][: arguments.limit]
    kept = arguments.out / "answers.jsonl"
    done = {row["key"]: row for row in _read(kept)} if kept.exists() else {}
    rows = [done[key] for q in questions if (key := _key(q, arguments)) in done]
    left = [q for q in questions if _key(q, arguments) not in done]
    if rows:
        print(f"{len(rows)} of {len(questions)} were answered before", file=sys.stderr)
    arguments.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with (
        RoleModels(_config(arguments, "-", ()), budget=BudgetMeter()) as models,
        ThreadPoolExecutor(arguments.concurrency or 1) as pool,
        kept.open("a", encoding="utf-8") as file,
    ):
        if left:
            models.client("task")  # an embedded model stays loaded from one question to the next
        for future in as_completed(pool.submit(_answer, q, arguments) for q in left):
            row = future.result()
            rows.append(row)
            if not row["error"]:  # what failed is asked again the next time
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
            print(_line(row, len(rows), len(questions)), file=sys.stderr, flush=True)
    summary = _summary(rows, time.monotonic() - started, bool(left))
    if arguments.json:
        print(json.dumps({**summary, "rows": rows}, ensure_ascii=False, indent=2))
    else:
        _print(summary, rows)
    return 0 if summary["right"] >= (arguments.at_least or 0) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--tables", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--model", default="local")
    parser.add_argument("--base-url")
    parser.add_argument("--max-iterations", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=1, help="questions at once")
    parser.add_argument("--limit", type=int, help="only the first N questions")
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these questions")
    parser.add_argument("--sandbox", default="auto", choices=("auto", "strict", "none"))
    parser.add_argument("--out", type=Path, default=Path("tableqa-out"), metavar="FOLDER")
    parser.add_argument("--at-least", type=int, metavar="N", help="exit with 1 if fewer are right")
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _key(question: dict[str, Any], arguments: argparse.Namespace) -> str:
    """What an answer depends on, but for the code that is measured: after a change, take another --out."""
    parts = [question["id"], question["input"], arguments.model, arguments.base_url, arguments.max_iterations]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _config(arguments: argparse.Namespace, task: str, data: Iterable[Path]) -> ScienceConfig:
    return ScienceConfig(
        task=task,
        data=tuple(data),
        model=arguments.model,
        base_url=arguments.base_url,
        max_iterations=arguments.max_iterations,
        sandbox=arguments.sandbox,
        no_cache=arguments.no_cache,
        concurrency=arguments.concurrency,
        runs_dir=arguments.out / "runs",
    )


def _files(text: str, folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.is_file())
    return [path for path in found if path.name in text] or found


def _answer(question: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    row = {"key": _key(question, arguments), "id": question["id"], "target": question["target"], "error": ""}
    started = time.monotonic()
    try:
        data = _files(question["input"], arguments.tables)
        found = start(_config(arguments, question["input"], data))
    except ModelError as error:
        seconds = round(time.monotonic() - started, 1)
        return {**row, **_empty(), "error": f"{type(error).__name__}: {error}", "seconds": seconds}
    return {**row, **_measured(found, question["target"]), "seconds": round(time.monotonic() - started, 1)}


def _empty() -> dict[str, Any]:
    return {
        "answer": "",
        "is_right": False,
        "passes": 0,
        "experiments": 0,
        "failed": 0,
        "tokens": 0,
        "run": "",
    }


def _measured(found: Investigation, target: str) -> dict[str, Any]:
    run = [record for record in found.passes if record.code is not None]
    return {
        "answer": found.conclusion,
        "is_right": is_right(found.conclusion, target),
        "passes": len(found.passes),
        "experiments": len(run),
        "failed": sum(record.has_failed for record in run),
        "tokens": sum(record.usage.total_tokens for record in found.passes),
        "run": found.run_id,
    }


def is_right(answer: str, target: str) -> bool:
    """Whether a conclusion gives the target."""
    if _NUMBER.fullmatch(target.strip()):
        numbers = _NUMBER.findall(answer)
        decimals = len(target.strip().partition(".")[2])
        off = abs(_value(numbers[-1]) - _value(target)) if numbers else float("inf")
        return off <= 0.5 * 10**-decimals + 1e-9 if decimals else off < 1e-9
    said, wanted = _plain(answer), _plain(target)
    return said == wanted or said.endswith(f" {wanted}")


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s.+-]", " ", text.casefold()).split()).strip(". ")


def _line(row: dict[str, Any], number: int, total: int) -> str:
    mark = "right" if row["is_right"] else "WRONG"
    answer = " ".join((row["error"] or row["answer"]).split())[:70]
    return (
        f"{number}/{total} {row['id']}: {mark} {answer!r} (target {row['target']!r}); {row['passes']} passes,"
        f" {row['failed']} of {row['experiments']} experiments failed, {row['seconds']} s"
    )


def _summary(rows: list[dict[str, Any]], seconds: float, is_timed: bool) -> dict[str, Any]:
    count = len(rows)
    return {
        "questions": count,
        "right": sum(row["is_right"] for row in rows),
        "accuracy": sum(row["is_right"] for row in rows) / count if count else 0.0,
        "passes": sum(row["passes"] for row in rows),
        "experiments": sum(row["experiments"] for row in rows),
        "failed_experiments": sum(row["failed"] for row in rows),
        "tokens": sum(row["tokens"] for row in rows),
        "errors": sum(bool(row["error"]) for row in rows),
        "seconds_per_question": round(sum(row["seconds"] for row in rows) / count, 1) if count else 0.0,
        "wall_seconds": round(seconds, 1) if is_timed else None,
    }


def _print(summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    count = max(1, summary["questions"])
    print(f"right        {summary['right']} of {summary['questions']} ({summary['accuracy']:.3f})")
    print(f"passes       {summary['passes'] / count:.2f} a question")
    print(f"experiments  {summary['experiments']}, {summary['failed_experiments']} of them failed")
    print(f"tokens       {summary['tokens'] / count:,.0f} a question")
    print(f"time         {summary['seconds_per_question']} s a question")
    for row in rows:
        if not row["is_right"]:
            said = row["error"] or row["answer"]
            print(f"wrong: {row['id']}: {said!r}, target {row['target']!r} ({row['run']})")


if __name__ == "__main__":
    sys.exit(main())
