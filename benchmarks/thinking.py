"""A writer that thinks before it answers, beside one that does not: the gain on the sealed test, over seeds.

    python benchmarks/thinking.py                       # 10 seeds, 1000 and 4000 tokens of thoughts
    python benchmarks/thinking.py --think 20000 --seeds 3
    python benchmarks/thinking.py --data rows.jsonl --plain http://127.0.0.1:8222/v1 \\
        --thinking http://127.0.0.1:8223/v1 --thinking http://127.0.0.1:8224/v1

Without `--plain`, the simulated endpoint of `--server` is started once for each amount of thoughts. With it,
any OpenAI-compatible endpoints that know the rows of `--data` are asked. Each run has its own cache and
memory. A thinking writer's gain must be within 0.02 of the plain one's, seed by seed. Flags that are not its
own go to `autoprompt run`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from workbench import Folder, Report, add_arguments, say, serve, write_rows

WITHIN = 0.02
THOUGHTS = (1000, 4000)


@contextmanager
def endpoints(options: argparse.Namespace, data: Path) -> Iterator[dict[str, str]]:
    """Name -> base URL, the plain writer's first."""
    if options.plain:
        yield {"plain": options.plain} | {
            f"thinking {number}": url for number, url in enumerate(options.thinking, 1)
        }
        return
    with ExitStack() as stack:
        found = {}
        for think in (0, *(options.think or THOUGHTS)):
            server = stack.enter_context(serve(options, data, think=think))
            found[f"{think} tokens of thoughts" if think else "plain"] = server.base_url
        yield found


def gain_of(
    folder: Folder, data: Path, base_url: str, flags: list[str]
) -> tuple[float | None, dict[str, Any]]:
    """Best minus original on the sealed test, and the whole result. None: the run failed."""
    finished = folder.finish(folder.run_command(data, base_url, *flags))
    if finished.exit_code:
        say(f"  exit {finished.exit_code}: {finished.last_words}")
        return None, {}
    value = (finished.result.get("gain") or {}).get("value")
    return (None if value is None else float(value)), finished.result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--think", type=int, action="append", metavar="TOKENS", help="default: 1000 and 4000")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument(
        "--plain", metavar="URL", help="an endpoint whose writer does not think; needs --data"
    )
    parser.add_argument(
        "--thinking", metavar="URL", action="append", default=[], help="one whose writer does"
    )
    options, flags = parser.parse_known_args()
    report = Report("thinking writers")
    flags = ["--model", "sim", "--preset", "quick", *flags]
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        data = (options.data or write_rows(root / "rows.jsonl", options.rows)).absolute()
        with endpoints(options, data) as urls:
            for seed in range(options.seeds):
                one_seed(report, root / str(seed), data, urls, [*flags, "--seed", str(seed)])
    return report.finish(as_json=options.json)


def one_seed(report: Report, root: Path, data: Path, urls: dict[str, str], flags: list[str]) -> None:
    gains = {}
    for name, url in urls.items():
        gain, result = gain_of(Folder(root / name), data, url, flags)
        tokens, calls = result.get("tokens", {}).get("optimizer"), result.get("calls")
        say(f"{root.name} {name}: gain {gain}, {calls} calls, {tokens} tokens for writing")
        gains[name] = gain
    plain = gains.pop("plain")
    for name, gain in gains.items():
        is_near = plain is not None and gain is not None and abs(gain - plain) <= WITHIN
        report.add(
            f"seed {root.name}, {name}",
            f"gain {gain}",
            f"{plain} of the plain writer, within {WITHIN}",
            is_near,
        )


if __name__ == "__main__":
    sys.exit(main())
