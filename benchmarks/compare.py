"""autoprompt beside its peers: the same model, endpoint, rows and cap on calls; scored on rows none has seen.

    python benchmarks/compare.py --data FOLDER --tasks clickbait subj --seeds 0 --max-calls 400

--data holds NAME.train.jsonl (what each tool gets and splits as it likes) and NAME.val.jsonl (all of it
unseen), with `input` and `target`; the naive prompts are in benchmarks/peers/tasks.yaml. A cell is one tool
on one task with one seed; finished cells are kept in benchmarks/results/compare/ and skipped, so the command
can be broken off and called again. Calls and tokens are counted by a proxy in front of the endpoint, one
request at a time. The peers live in an environment of their own, made on first use (--peers-python: another).
--table prints what there is, and measures nothing.

    python benchmarks/compare.py --data FOLDER --tasks clickbait trec banking10 --seeds 0 1 --ends
        --tools autoprompt autoprompt-16 autoprompt-0 random-16 --results benchmarks/results/ends

--ends scores both ends of our runs with their tokens a call, and not the bests on the way. The number in a
tool's name is its most demonstrations; random-16 draws sets of 16 for the naive prompt, scores each on 50
rows of the train file, and keeps the highest: with our prompts, our grammar of labels and our parser. gepa
gets the same grammar then, for its task model.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from compare_table import print_table
from counting_proxy import CountingProxy
from peers.scoring import is_right

from autoprompt import Run, RunConfig, evaluate, optimize
from autoprompt.llm import local, weights
from autoprompt.llm.transport.wire import label_grammar
from autoprompt.records import Candidate, Demo

HERE = Path(__file__).parent
PEERS = HERE / "peers"
RESULTS = HERE / "results" / "compare"
OURS: dict[str, dict[str, Any]] = {
    "autoprompt": {},
    "autoprompt-16": {"max_demos": 16},
    "autoprompt-0": {"max_demos": 0},
}
RANDOM, RANDOM_DEMOS, RANDOM_ROWS = "random-16", 16, 50
TOOLS = {
    **dict.fromkeys((*OURS, RANDOM), None),
    "dspy-zero-shot": PEERS / "dspy_peer.py",
    "dspy-bootstrap-random-search": PEERS / "dspy_peer.py",
    "dspy-miprov2": PEERS / "dspy_peer.py",
    "dspy-gepa": PEERS / "dspy_peer.py",
    "gepa": PEERS / "gepa_peer.py",
}
ROLES = ("task", "writer")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with NAME.train.jsonl and NAME.val.jsonl")
    parser.add_argument("--tasks", nargs="+", default=["clickbait", "subj", "trec"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--max-calls", type=int, default=400)
    parser.add_argument("--threads", type=int, help="of the embedded model; default: the physical cores")
    parser.add_argument(
        "--busy", action="store_true", help="the machine does other work: times are not compared"
    )
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds of one cell")
    parser.add_argument("--peers-python", type=Path, help="interpreter that has dspy and gepa")
    parser.add_argument("--ends", action="store_true", help="score both ends, not the bests on the way")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print the table of finished cells")
    args = parser.parse_args()
    if not args.table:
        if args.data is None:
            parser.error("--data is needed to measure")
        measure(args)
    print_table(args.results)


def measure(args: argparse.Namespace) -> None:
    tasks = yaml.safe_load((PEERS / "tasks.yaml").read_text(encoding="utf-8"))
    args.results.mkdir(parents=True, exist_ok=True)
    missing = [c for c in cells(args) if not cell_path(args.results, *c).exists()]
    if any(TOOLS[tool] is not None for tool, _, _ in missing) and args.peers_python is None:
        args.peers_python = peers_environment()
    server = local.start(threads=args.threads)
    try:
        for number, (tool, task, seed) in enumerate(missing, 1):
            print(f"[{number}/{len(missing)}] {task}, seed {seed}: {tool} …", flush=True)
            cell = measure_cell(args, server, tool, task, seed, tasks[task])
            path = cell_path(args.results, tool, task, seed)
            path.write_text(json.dumps(cell, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"    {cell['status']}: {cell.get('accuracy')}, {cell['wall_s']} s", flush=True)
    finally:
        server.close()


def cells(args: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    for seed in args.seeds:
        for task in args.tasks:
            for tool in args.tools:
                yield tool, task, seed


def cell_path(results: Path, tool: str, task: str, seed: int) -> Path:
    return results / f"{task}.{seed}.{tool}.json"


def peers_environment() -> Path:
    """The peers' own interpreter under benchmarks/.peers, made on first use."""
    folder = HERE / ".peers"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"installing the peers into {folder} …", flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "-r", PEERS / "requirements.txt"], check=True
        )
        (folder / "ready").touch()
    return python


def measure_cell(
    args: argparse.Namespace, server: local.LocalServer, tool: str, task: str, seed: int, about: Any
) -> dict[str, Any]:
    train, unseen = (read_rows(args.data / f"{task}.{part}.jsonl") for part in ("train", "val"))
    labels = [] if about.get("free") else sorted({row["target"] for row in train})
    prompt = about["prompt"].replace("{labels}", ", ".join(labels))
    settings = {
        "tool": tool,
        "seed": seed,
        "prompt": prompt,
        "labels": labels,
        "max_calls": args.max_calls,
        "max_output_tokens": about.get("max_output_tokens", 200),
        "train": train,
        "unseen": unseen,
        "timeout": args.timeout,
        "peers_python": str(args.peers_python),
        "metric": about.get("metric", "exact_match"),
        "ends": args.ends,
        "grammar": label_grammar(tuple(labels)) if args.ends and labels else "",
    }
    with (
        CountingProxy(server.base_url, server.api_key) as proxy,
        tempfile.TemporaryDirectory() as folder,
    ):
        settings["base_url"] = proxy.base_url
        started = time.monotonic()
        run = run_random if tool == RANDOM else run_autoprompt if tool in OURS else run_peer
        with behind(proxy, server) if TOOLS[tool] is None else nullcontext():
            found = run(settings, proxy, Path(folder))
        wall_s = time.monotonic() - started
        cell = {
            "tool": tool,
            "task": task,
            "seed": seed,
            "max_calls": args.max_calls,
            "threads": args.threads or local.usable_cores(),
            "is_busy": args.busy,
            "revision": revision(),
            "wall_s": round(found.pop("search_s", wall_s), 1),
            "search": rounded(proxy.totals("search")),
            "score": rounded(proxy.totals("score")),
            **found,
        }
    if "answers" in cell:
        # The answers, not the rows: these may not be ours to publish.
        answers = cell.pop("answers")
        correct = [int(is_right(a, row["target"], settings)) for a, row in zip(answers, unseen, strict=True)]
        cell |= {"accuracy": sum(correct) / len(correct), "n": len(correct), "correct": correct}
    return cell


def revision() -> str:
    """The commit that is measured; "" outside of a checkout."""
    command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run_peer(settings: dict[str, Any], proxy: CountingProxy, folder: Path) -> dict[str, Any]:
    """A peer in its own process; what it used until it began to score is the search."""
    out = folder / "out.json"
    (folder / "settings.json").write_text(json.dumps({**settings, "out": str(out)}), encoding="utf-8")
    command = [settings["peers_python"], str(TOOLS[settings["tool"]]), str(folder / "settings.json")]
    started = time.monotonic()
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "DSPY_CACHEDIR": str(folder / "cache"),
        "DO_NOT_TRACK": "1",
    }
    try:
        ended = subprocess.run(
            command, env=environment, timeout=settings["timeout"], capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return {"status": "timeout"}
    if ended.returncode or not out.exists():
        return {"status": "failed", "error": ended.stderr[-2000:]}
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    scoring_s = sum(count["busy_s"] for count in proxy.totals("score").values())
    return {"status": "finished", "search_s": time.monotonic() - started - scoring_s, **found}


@contextmanager
def behind(proxy: CountingProxy, server: local.LocalServer) -> Iterator[None]:
    """The embedded model is `server` seen through the proxy, under a name for each role."""

    def start(name: str, **_: Any) -> local.LocalServer:
        # No second user of the server: to close this one is to do nothing.
        return replace(server, base_url=proxy.base_url, model=name, _is_open=False)

    names = dict.fromkeys(ROLES, weights.KNOWN[weights.DEFAULT])
    with mock.patch.object(local, "start", start), mock.patch.dict(weights.KNOWN, names):
        yield


def run_autoprompt(settings: dict[str, Any], proxy: CountingProxy, folder: Path) -> dict[str, Any]:
    """Our own run on the embedded model, over the same proxy, which tells its roles apart by their names.

    Its bests on the way are scored too, outside the budget.
    """
    train, unseen = (write_rows(folder / f"{name}.jsonl", settings[name]) for name in ("train", "unseen"))
    shared = shared_settings(settings, folder)
    bests: list[dict[str, Any]] = []
    started = time.monotonic()
    config = RunConfig(
        train=train,
        no_test=True,
        max_calls=settings["max_calls"],
        seed=settings["seed"],
        **shared,
        **OURS[settings["tool"]],
    )
    result = optimize(config, on_event=lambda event: note_best(bests, event, proxy))
    search_s = time.monotonic() - started
    proxy.begin("score")
    scoring = RunConfig(dataset=unseen, **shared)
    run = Run.open(result.run_id, runs_dir=folder / "runs")
    original = Candidate(components=result.original.components)
    ends = {"naive": original, "best": result.best}
    if settings["ends"]:
        ends["highest"] = run.end("highest")
    by_id = {end.id: end for end in ends.values()}
    scores = {id: scored(scoring, end, proxy) for id, end in by_id.items()}
    answers = {id: score.pop("answers") for id, score in scores.items()}
    found: dict[str, Any] = {name: scores[end.id] for name, end in ends.items()}
    best = found.pop("best")
    if not settings["ends"]:
        for step in bests:
            step["accuracy"] = evaluate(scoring, candidate=run.candidates[step["id"]]).score
        found["bests"] = bests
    return {
        "status": "finished",
        "search_s": search_s,
        "answers": answers[result.best.id],
        **found,
        "tokens_per_call": best["tokens_per_call"],
        "validation": result.to_dict()["validation"],
        "verdict": result.verdict,
        "prompt": result.best_prompt,
        "demos": len(result.best.demos),
        "operator": result.best.operator,
    }


def run_random(settings: dict[str, Any], proxy: CountingProxy, folder: Path) -> dict[str, Any]:
    """Random search over sets of demonstrations, within the cap on calls."""
    rng = random.Random(settings["seed"])
    rows = rng.sample(settings["train"], len(settings["train"]))
    held_out, pool = rows[:RANDOM_ROWS], rows[RANDOM_ROWS:]
    shared = shared_settings(settings, folder)
    validation = RunConfig(dataset=write_rows(folder / "val.jsonl", held_out), **shared)
    candidates = [
        Candidate(
            components={"prompt": settings["prompt"]},
            demos=tuple(
                Demo(row["input"], row["target"], str(number))
                for number, row in enumerate(rng.sample(pool, RANDOM_DEMOS))
            ),
        )
        for _ in range(settings["max_calls"] // RANDOM_ROWS)
    ]
    started = time.monotonic()
    winner = max(candidates, key=lambda candidate: evaluate(validation, candidate=candidate).score or 0.0)
    search_s = time.monotonic() - started
    proxy.begin("score")
    unseen = RunConfig(dataset=write_rows(folder / "unseen.jsonl", settings["unseen"]), **shared)
    best = scored(unseen, winner, proxy)
    return {
        "status": "finished",
        "search_s": search_s,
        "answers": best.pop("answers"),
        "tokens_per_call": best["tokens_per_call"],
        "demos": len(winner.demos),
    }


def shared_settings(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Of a search and of what scores its outcome: the embedded model, in folders of their own."""
    return {
        "prompt": settings["prompt"],
        "model": f"local:{ROLES[0]}",
        "optimizer_model": f"local:{ROLES[1]}",
        "metric": settings["metric"],
        "labels": tuple(settings["labels"]),  # none: free answers
        "no_memory": True,
        "runs_dir": folder / "runs",
        "cache_dir": folder / "cache",
    }


def scored(config: RunConfig, candidate: Candidate, proxy: CountingProxy) -> dict[str, Any]:
    """Accuracy of a candidate on the rows of `config`, its answers, and its tokens a call by the endpoint."""
    before = proxy.totals("score").get(ROLES[0], {})
    report = evaluate(config, candidate=candidate)
    after = proxy.totals("score").get(ROLES[0], {})
    spent = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in after}
    tokens = spent.get("prompt_tokens", 0.0) + spent.get("completion_tokens", 0.0)
    return {
        "accuracy": report.score,
        "correct": [int(row.is_correct) for row in report.evaluation.rows],
        "answers": [row.prediction for row in report.evaluation.rows],
        "tokens_per_call": round(tokens / spent["calls"], 1) if spent.get("calls") else None,
        "demos": len(candidate.demos),
    }


def note_best(bests: list[dict[str, Any]], event: dict[str, Any], proxy: CountingProxy) -> None:
    """Add what has become the best, or leads a race that goes on, with what the search has spent so far."""
    if event["event"] not in ("best_changed", "rung_ended"):
        return
    is_leader = event["event"] == "rung_ended"
    found = event["leader"] if is_leader else event["id"]
    if any(b["id"] == found and (is_leader or not b["is_leader"]) for b in bests):
        return
    total = proxy.totals("search").values()
    bests.append(
        {
            "id": found,
            "is_leader": is_leader,
            "calls": sum(c["calls"] for c in total),
            "tokens": sum(c["prompt_tokens"] + c["completion_tokens"] for c in total),
        }
    )


def read_rows(path: Path) -> list[dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [{"input": r["input"], "target": r["target"]} for r in map(json.loads, lines)]


def write_rows(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def rounded(totals: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {m: {name: round(value, 1) for name, value in c.items()} for m, c in totals.items()}


if __name__ == "__main__":
    main()
