"""Templates a second: in the processes with limits, beside the same sandbox in this process without any.

    python benchmarks/templates.py [--seconds 2] [--threads 8]

Without limits, each template is read anew for each row, as autoprompt did until it had the processes. The two
take turns, so that whatever else the machine does falls on both. Exit code 1 if the processes are slower.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from autoprompt.sandbox.evaluator import LimitError, fill_template

ROUNDS = 3
LISTED = (
    "{% for row in rows %}{% if row.score > 3 %}- {{ row.name|upper }}: {{ '%.2f'|format(row.score) }}\n"
    "{% endif %}{% endfor %}"
)
TEMPLATES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "a prompt": (
        "Summarize {{ title }} for {{ reader|lower }}: {{ text }}",
        {"title": "A report", "reader": "Everyone", "text": "word " * 40},
    ),
    "a list of 100": (LISTED, {"rows": [{"name": f"row {n}", "score": n} for n in range(100)]}),
    "100 kB of text": (
        "Document:\n{{ text }}\n\n{{ question }}",
        {"text": "word " * 20_000, "question": "?"},
    ),
}
ENDLESS = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
_environment = ImmutableSandboxedEnvironment()


def unlimited(template: str, values: Mapping[str, Any]) -> str:
    return "".join(_environment.from_string(template).generate(dict(values)))


def a_second(
    fill: Callable[[str, Mapping[str, Any]], str],
    template: str,
    values: Mapping[str, Any],
    threads: int,
    seconds: float,
) -> float:
    end = time.perf_counter() + seconds

    def work(_: int) -> int:
        number = 0
        while time.perf_counter() < end:
            fill(template, values)
            number += 1
        return number

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads))) / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    started = time.perf_counter()
    fill_template("{{ 1 }}", {})
    print(f"first template {time.perf_counter() - started:.2f} s; {os.cpu_count()} processors")
    worst = 0.0
    for name, (template, values) in TEMPLATES.items():
        assert unlimited(template, values) == fill_template(template, values)
        for threads in (1, options.threads):
            pairs = [
                tuple(
                    a_second(fill, template, values, threads, options.seconds / ROUNDS)
                    for fill in (unlimited, fill_template)
                )
                for _ in range(ROUNDS)
            ]
            before, after = (statistics.median(figures) for figures in zip(*pairs, strict=True))
            worst = max(worst, before / after)
            print(
                f"{name}, {threads} thread{'s' * (threads > 1)}: {before:,.0f}/s without limits, "
                f"{after:,.0f}/s with them, {after / before:.1f} times"
            )
    started = time.perf_counter()
    try:
        fill_template(ENDLESS, {})
    except LimitError as error:
        print(f"{error}: ended after {time.perf_counter() - started:.1f} s")
    started = time.perf_counter()
    fill_template("{{ 1 }}", {})
    print(f"the next template {time.perf_counter() - started:.2f} s later")
    return 0 if worst <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
