"""How fast the embedded model reads and writes here, alone or beside a runtime of another build.

    python benchmarks/embedded_speed.py --beside OTHER_VENV/bin/python

A prompt of demonstrations that was never read, rows behind it, and an answer of some length. Beside another
interpreter (with autoprompt's packages) by turns, each in a process of its own, so that both meet the same
machine; the ratio is what counts. `make native` builds the runtime for this processor.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

FIGURES = {
    "read": "tokens a second of a new prompt of about 1,900 tokens",
    "rows": "rows a second behind a prompt that was read before, about 20 tokens each",
    "write": "tokens a second of an answer",
}
_ROWS = 100  # demonstrations in the prompt


def measure(threads: int | None) -> dict[str, float]:
    """One round with the runtime of this interpreter; each figure: more is faster."""
    import httpx

    from autoprompt.llm import local

    server = local.start(threads=threads)
    headers = {"Authorization": f"Bearer {server.api_key}"}
    with httpx.Client(
        base_url=server.base_url + "/", headers=headers, timeout=None, trust_env=False
    ) as client:

        def ask(text: str, tokens: int) -> dict[str, float]:
            body = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0}
            began = time.monotonic()
            timings = client.post("chat/completions", json=body).raise_for_status().json()["timings"]
            return {**timings, "seconds": time.monotonic() - began}

        ask("Say yes.", 1)  # the weights are read from disk by now
        shown = "\n".join(
            f"Headline: {n} things that nobody told you about. Answer: yes" for n in range(_ROWS)
        )
        read = ask(f"Is it clickbait?\n{shown}\nHeadline: none. Answer:", 1)
        rows = [ask(f"Is it clickbait?\n{shown}\nHeadline: The {n} talks end. Answer:", 1) for n in range(8)]
        write = ask("Tell a long story about a fox and a hen.", 64)
    server.close()
    return {
        "read": read["prompt_per_second"],
        "rows": 1 / statistics.median(row["seconds"] for row in rows[1:]),
        "write": write["predicted_per_second"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", type=Path, metavar="PYTHON", help="of an environment with another build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="default: as autoprompt chooses")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(json.dumps(measure(args.threads)))
        return
    pythons = [sys.executable, *([str(args.beside)] if args.beside else [])]
    found: dict[str, list[dict[str, float]]] = {python: [] for python in pythons}
    threads = ["--threads", str(args.threads)] if args.threads else []
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for _ in range(args.rounds):
        for python in pythons:
            once = [python, __file__, "--once", *threads]
            said = subprocess.run(once, env=here, check=True, capture_output=True, text=True).stdout
            found[python].append(json.loads(said))
    for name, meaning in FIGURES.items():
        medians = [statistics.median(one[name] for one in found[python]) for python in pythons]
        ratio = f"   ratio {medians[1] / medians[0]:.2f}" if args.beside else ""
        print(f"{name:6} {'   '.join(f'{m:7.2f}' for m in medians)}{ratio}   {meaning}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
