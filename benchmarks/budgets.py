"""Caps on calls, tokens, cost and time: never passed by the server's count, and the best is reported.

    python benchmarks/budgets.py

max_calls is exact, with faults too; max_tokens and max_cost may be passed by the calls in flight; max_seconds
by the answers on their way. A cap too small for the run is exit 3 and names a minimum that works.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from faults import MIXED
from workbench import Finished, Folder, Report, Server, add_arguments, say, serve, write_rows

CONCURRENCY = 64  # the most that `concurrency: auto` sends
EXIT_INPUT = 3
PRICE_INPUT, PRICE_OUTPUT = 2.0, 8.0  # USD per million tokens
LATE_S = 5.0  # start of the process and end of the last step, on a busy machine


class Bench:
    def __init__(self, options: argparse.Namespace, flags: list[str], root: Path, data: Path, report: Report):
        self.options, self.flags, self.root, self.data, self.report = options, flags, root, data, report

    def run(self, name: str, server: Server, *flags: object) -> tuple[Finished, Folder]:
        server.reset()
        folder = Folder(self.root / name)
        return folder.finish(folder.run_command(self.data, server.base_url, *flags, *self.flags)), folder

    def check(
        self, what: str, finished: Finished, cap: str, measured: str, bound: str, *, is_kept: bool
    ) -> None:
        """A stopped run ends well, says why, and has a best prompt with what is known of it."""
        result = finished.result
        if finished.exit_code != 0 or not result:
            self.report.add(
                what, f"exit {finished.exit_code}: {finished.last_words}", "exit 0, a result", False
            )
            return
        best, stop = result["best"], result["stop_reason"]
        lost = best["failed"] + result["original"]["failed"]
        # Time is the one cap that what is kept back may not suffice for: a machine can become slower.
        is_best = bool(best["components"]) and (best["n"] > 0 or cap == "max_seconds")
        tested = f"{result['verdict']}, {best['n']} test rows, {lost} failed"
        self.report.add(
            what,
            f"{measured}; stopped by {stop}; {tested}",
            bound,
            is_kept and is_best and stop in (cap, *ENDS),
        )

    def calls(self) -> None:
        with serve(self.options, self.data) as server:
            refused, _ = self.run("calls-1", server, "--max-calls", 1)
            found = re.search(r"give --max-calls (\d+)", refused.stderr)
            least = int(found[1]) if found else 0
            requests = server.idle_stats()["requests"]
            measured = f"exit {refused.exit_code}, {requests} requests, minimum {least}"
            is_kept = refused.exit_code == EXIT_INPUT and least > 0 and requests == 0
            self.report.add("--max-calls 1", measured, "exit 3 and the minimum; nothing sent", is_kept)
            refused, _ = self.run("calls-less", server, "--max-calls", least - 1)
            measured = f"exit {refused.exit_code}"
            self.report.add(f"--max-calls {least - 1}", measured, "exit 3", refused.exit_code == EXIT_INPUT)
            for cap in (least, least + 1, least + 50, least + 300, least + 600):
                self.one_cap(server, cap, "")
        with serve(self.options, self.data, **MIXED) as server:
            for cap in (least, least + 50, least + 300):
                self.one_cap(server, cap, ", with faults")

    def one_cap(self, server: Server, cap: int, how: str) -> None:
        finished, _ = self.run(f"calls-{cap}{how}", server, "--max-calls", cap)
        requests, counted = server.idle_stats()["requests"], finished.result.get("calls")
        measured = f"{requests} requests at the server, {counted} counted"
        is_kept = requests <= cap and requests == counted
        self.check(f"--max-calls {cap}{how}", finished, "max_calls", measured, f"<= {cap}", is_kept=is_kept)

    def tokens_and_cost(self) -> None:
        with serve(self.options, self.data) as server:
            prices = ["--set", f"price_input={PRICE_INPUT}", "--set", f"price_output={PRICE_OUTPUT}"]
            whole, _ = self.run("whole", server, *prices)
            tokens, cost = sum(whole.result["tokens"].values()), whole.result["cost_usd"]
            say(f"without caps: {tokens} tokens, ${cost:.4f}")
            for share in (0.0005, 0.02, 0.3, 0.6, 0.9):
                self.one_token_cap(server, round(share * tokens))
                self.one_cost_cap(server, round(share * cost, 5), prices)
            finished, _ = self.run("unknown", server, "--max-cost", 1)
            measured = f"exit {finished.exit_code}: {finished.last_words[:120]}"
            self.report.add("--max-cost, price unknown", measured, "exit 3", finished.exit_code == EXIT_INPUT)

    def one_token_cap(self, server: Server, cap: int) -> None:
        finished, folder = self.run(f"tokens-{cap}", server, "--max-tokens", cap)
        if self.is_refusal(
            f"--max-tokens {cap}", finished, server, r"give --max-tokens (\d+)", "--max-tokens"
        ):
            return
        used, most = used_tokens(folder)
        bound = cap + CONCURRENCY * most
        measured = f"{used} tokens, {used / cap:.3f} of the cap"
        self.check(
            f"--max-tokens {cap}", finished, "max_tokens", measured, f"<= {bound}", is_kept=used <= bound
        )

    def one_cost_cap(self, server: Server, cap: float, prices: list[Any]) -> None:
        finished, folder = self.run(f"cost-{cap}", server, "--max-cost", cap, *prices)
        if self.is_refusal(
            f"--max-cost {cap}", finished, server, r"give --max-cost ([\d.]+)", "--max-cost", *prices
        ):
            return
        _, most = used_tokens(folder)
        cost = finished.result.get("cost_usd") or 0.0
        bound = cap + CONCURRENCY * most * PRICE_OUTPUT / 1e6
        measured = f"${cost:.5f}, {cost / cap:.3f} of the cap"
        self.check(
            f"--max-cost {cap}", finished, "max_cost", measured, f"<= {bound:.5f}", is_kept=cost <= bound
        )

    def is_refusal(
        self, what: str, finished: Finished, server: Server, least: str, flag: str, *more: Any
    ) -> bool:
        """A cap that is too small: is it said before anything is sent, and does the minimum named work?"""
        if finished.exit_code != EXIT_INPUT:
            return False
        found = re.search(least, finished.stderr)
        requests = server.idle_stats()["requests"]
        if found is None:
            self.report.add(what, f"exit 3: {finished.last_words}", "names a minimum", False)
            return True
        again, _ = self.run(f"least-{what}", server, flag, found[1], *more)
        measured = f"exit 3, {requests} requests, minimum {found[1]}; with it exit {again.exit_code}"
        verdict = again.result.get("verdict")
        is_kept = requests == 0 and again.exit_code == 0 and verdict != "untested"
        self.report.add(what, f"{measured}, {verdict}", "nothing sent; the minimum works", is_kept)
        return True

    def seconds(self) -> None:
        with serve(self.options, self.data, latency=0.1) as server:
            whole, _ = self.run("slow", server)
            seconds = whole.result["seconds"]
            for share in (0.3, 0.7):
                cap = round(share * seconds, 1)
                finished, _ = self.run(f"seconds-{cap}", server, "--max-seconds", cap)
                measured = f"{finished.seconds:.1f} s, the whole process"
                is_kept = finished.seconds <= cap + LATE_S
                bound = f"<= {cap} + {LATE_S:.0f} s"
                self.check(f"--max-seconds {cap}", finished, "max_seconds", measured, bound, is_kept=is_kept)


ENDS = ("max_iterations", "patience", "no_errors")  # a run may also end before its cap


def used_tokens(folder: Folder) -> tuple[int, int]:
    """Tokens of all answers in the journal, and of the largest one."""
    if not folder.run_dirs():
        return 0, 0
    lines = (folder.run_dirs()[-1] / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    used = [r.get("prompt_tokens", 0) + r.get("completion_tokens", 0) for r in records]
    return sum(used), max(used, default=0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument(
        "--only", choices=("calls", "tokens", "seconds"), action="append", help="default: all"
    )
    parser.add_argument("--rows", type=int, default=200)
    options, flags = parser.parse_known_args()
    report = Report("budgets")
    wanted = options.only or ("calls", "tokens", "seconds")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        data = options.data or write_rows(root / "rows.jsonl", options.rows)
        bench = Bench(options, flags, root, data, report)
        if "calls" in wanted:
            bench.calls()
        if "tokens" in wanted:
            bench.tokens_and_cost()
        if "seconds" in wanted:
            bench.seconds()
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
