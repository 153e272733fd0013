"""A program of one's own under load: whose text each row was sent with, the cost of a call, and kills.

    # 5 candidates at once on 2,000 rows, as a function, an async function and a LangGraph graph
    python benchmarks/programs.py --rows 2000
    # a run killed with `kill -9` at random moments and resumed, beside one that was left alone
    python benchmarks/programs.py --kills 10

The endpoint answers with a hash of the system text that it saw, which shows rows under another candidate's
text. CPU is that of the process; what the same calls take without autoprompt is measured in it before.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from workbench import CLI, Folder, Report, Server, add_arguments, say, serve, write_rows

if TYPE_CHECKING:
    from autoprompt import RunConfig
    from autoprompt.measure.rows import Evaluation

FORMS = ("function", "async function", "graph")
CANDIDATES, AT_ONCE = 5, 16
MOST_MS, MOST_MB = 3.0, 600.0
SYSTEM = "Route the ticket to billing, tech or sales."

_ANSWERS = """
import asyncio, hashlib, json
async def handle(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\\r\\n")[0])
            system = json.loads(await reader.readexactly(length))["messages"][0]["content"]
            text = hashlib.sha256(system.encode()).hexdigest()[:12]
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
            answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
            body = json.dumps(answer | {"choices": [choice]}).encode()
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"
                         b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()
async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

_TWO_STEPS = """
import os
from openai import OpenAI

client = OpenAI(base_url=os.environ["PROGRAM_URL"], api_key="none")


def ask(system, user):
    turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return client.chat.completions.create(model="m", messages=turns).choices[0].message.content


def app(input):
    ask("Say in a line what the headline is about.", input)
    return ask("Choose the label, 0 or 1.", input)
"""


def hashed(system: str) -> str:
    return hashlib.sha256(system.encode()).hexdigest()[:12]


# --- many rows at once ---


def make_program(form: str, url: str) -> Any:
    from openai import AsyncOpenAI, OpenAI

    def turns(text: str) -> list[Any]:
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]

    if form == "function":
        client = OpenAI(base_url=url, api_key="none")

        def function(text: str) -> str | None:
            return client.chat.completions.create(model="m", messages=turns(text)).choices[0].message.content

        return function
    if form == "async function":
        waiting = AsyncOpenAI(base_url=url, api_key="none")

        async def coroutine(text: str) -> str | None:
            answer = await waiting.chat.completions.create(model="m", messages=turns(text))
            return answer.choices[0].message.content

        return coroutine
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, StateGraph
    from pydantic import SecretStr

    class State(TypedDict, total=False):
        text: str
        queue: str

    model = ChatOpenAI(model="m", base_url=url, api_key=SecretStr("none"))
    graph: Any = StateGraph(State)
    graph.add_node("route", lambda state: {"queue": model.invoke(turns(state["text"])).content})
    graph.add_edge(START, "route")
    graph.add_edge("route", END)
    return graph.compile()


def run_alone(form: str, program: Any, texts: Sequence[str]) -> None:
    """The same calls without autoprompt, as many at once."""
    if form == "async function":

        async def everything() -> None:
            places = asyncio.Semaphore(AT_ONCE)

            async def one(text: str) -> None:
                async with places:
                    await program(text)

            await asyncio.gather(*map(one, texts))

        asyncio.run(everything())
        return
    call: Callable[[str], Any] = (
        program if form == "function" else lambda text: program.invoke({"text": text})
    )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(call, texts))


def alone_ms(form: str, url: str, texts: Sequence[str]) -> float:
    """Return the ms of CPU that a call takes without autoprompt."""
    run_alone(form, make_program(form, url), texts[:50])  # imports and first connections do not count
    program = make_program(form, url)  # an asynchronous client belongs to one event loop
    begun = time.process_time()
    run_alone(form, program, [f"{text}, alone" for text in texts])
    return (time.process_time() - begun) * 1000 / len(texts)


def score_at_once(program: Any, config: RunConfig, texts: Sequence[str]) -> tuple[list[Evaluation], float]:
    """Score a candidate of each text on all rows, all at once; return that and the CPU's seconds."""
    from autoprompt.dataset.splits import load_checked
    from autoprompt.evaluation.task import given_program, open_task, probed
    from autoprompt.llm.kept.journal import Journal
    from autoprompt.llm.limits.budget import BudgetMeter
    from autoprompt.llm.models import open_models
    from autoprompt.measure.rows import evaluate_jobs
    from autoprompt.metrics import run_metric
    from autoprompt.records import Candidate
    from autoprompt.runs import RunStore
    from autoprompt.settings.resolve import complete

    with given_program(config, program) as named, ExitStack() as opened:
        whole = complete(named)
        assert whole.dataset is not None
        rows, _, _ = load_checked(whole.dataset, whole, input_of=())
        task, _ = probed(open_task(whole).fitted(rows), whole, rows)
        run = RunStore(whole.runs_dir).create({}, kind="optimize", name="load")
        task.write_original(run, rows)
        own = {one.name: one.text for one in task.components}
        (changed,) = (one.name for one in task.components if one.kind == "instruction")
        opened.enter_context(run.work())
        journal = opened.enter_context(Journal(run.journal_path))
        limits, unheard = BudgetMeter(), lambda _: None
        models = opened.enter_context(
            open_models(whole, None, limits, journal, unheard, run.traits_path, roles=("task",))
        )
        metric = run_metric(whole, (), models.client, rows)
        on_row = task.program(models.client("task"), metric, labels=(), rows=rows, folder=run)

        def score(text: str) -> Evaluation:
            jobs = [(Candidate(own | {changed: text}), rows)]
            return evaluate_jobs(on_row, jobs, metric, concurrency=AT_ONCE)[0]

        begun = time.process_time()
        with ThreadPoolExecutor(len(texts)) as pool:
            found = list(pool.map(score, texts))
        return found, time.process_time() - begun


def under_load(form: str, count: int, url: str, folder: Path) -> dict[str, Any]:
    """One form in this process: rows under another's text, ms of CPU a call, MB."""
    from autoprompt import RunConfig

    rows = [{"text": f"Ticket {n * 7919 % 100003}, day {n}", "queue": f"q{n}"} for n in range(count)]
    data = folder / "tickets.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = RunConfig(
        dataset=data,
        input_field="text",
        target_field="queue",
        base_url=url,
        optimizer_model="w",
        no_cache=True,
        no_memory=True,
        concurrency=AT_ONCE,
        metric="exact_match",
        runs_dir=folder / "runs",
    )
    alone = alone_ms(form, url, [row["text"] for row in rows])
    texts = [f"{SYSTEM} Variant {number}." for number in range(CANDIDATES)]
    found, seconds = score_at_once(make_program(form, url), config, texts)
    right = sum(
        row.prediction == hashed(text) for text, one in zip(texts, found, strict=True) for row in one.rows
    )
    return {
        "form": form,
        "rows": sum(len(one.rows) for one in found),
        "wrong": CANDIDATES * count - right,
        "alone_ms": round(alone, 2),
        "more_ms": round(seconds * 1000 / (CANDIDATES * count) - alone, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def show_load(count: int, report: Report) -> None:
    server = subprocess.Popen([sys.executable, "-c", _ANSWERS], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        for form in FORMS:
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, __file__, "--one", form, url, folder, "--rows", str(count)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                report.add(form, done.stderr[-500:], "runs", False)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            report.add(
                f"{form}: rows under another candidate's text", found["wrong"], "0", found["wrong"] == 0
            )
            cost = f"{found['more_ms']} ms beside {found['alone_ms']}"
            report.add(f"{form}: CPU of a call", cost, f"{MOST_MS} ms more", found["more_ms"] <= MOST_MS)
            memory = found["peak_mb"]
            report.add(f"{form}: memory", f"{memory} MB", f"{MOST_MB:.0f} MB", memory <= MOST_MB)
    finally:
        server.kill()


# --- kills ---


def run_command(folder: Folder, data: Path, server: Server) -> list[str]:
    """A run of the program of two steps, without demonstrations: the endpoint rewards better words alone."""
    (folder.path / "two_steps.py").write_text(_TWO_STEPS, encoding="utf-8")
    folder.environment |= {"PROGRAM_URL": server.base_url, "PYTHONPATH": str(folder.path)}
    source = ["--program", "two_steps:app", "--dataset", str(data), "--base-url", server.base_url]
    search = ["--optimizer-model", "w", "--preset", "quick", "--max-demos", "0", "--no-cache", "--no-memory"]
    return [CLI, "run", *source, *search, "--runs-dir", "runs", "--json", "--quiet"]


def show_kills(kills: int, seed: int, options: argparse.Namespace, report: Report) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        data = write_rows(Path(name) / "rows.jsonl", 160)
        with serve(options, data) as server:
            whole_folder = Folder(Path(name) / "whole")
            whole = whole_folder.finish(run_command(whole_folder, data, server))
            if whole.exit_code:
                report.add("a run that is left alone", whole.last_words, "exit code 0", False)
                return
            asked = server.idle_stats()["requests"]
            server.reset()
            folder = Folder(Path(name) / "killed")
            command = run_command(folder, data, server)
            before_folder = 0
            for number in range(kills):
                running = folder.start(command)
                time.sleep(rng.uniform(0.2, 0.6) * whole.seconds)
                running.kill()
                ended = running.wait()
                runs = folder.run_dirs()
                if not runs:  # nothing to resume: the command is given again
                    before_folder = server.idle_stats()["requests"]
                    continue
                if ended.exit_code == 0:
                    say(f"the run had ended before kill {number + 1}")
                    break
                command = folder.resume_command(runs[-1].name)
            done = ended if ended.exit_code == 0 else folder.finish(command)
            again = server.idle_stats()["requests"] - before_folder - asked
        best = [str(one.result.get("best", {}).get("id")) for one in (whole, done)]
        report.add("the best candidate, left alone and killed", " / ".join(best), "equal", best[0] == best[1])
        calls = [one.result.get("calls") for one in (whole, done)]
        report.add("calls, left alone and killed", f"{calls[0]} / {calls[1]}", "equal", calls[0] == calls[1])
        report.add("requests beyond those", again, f"{AT_ONCE} a kill", again <= AT_ONCE * kills)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--rows", type=int, default=400, help="rows of each of five candidates")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # a form, the endpoint, a folder
    options = parser.parse_args()
    if options.one is not None:
        form, url, folder = options.one
        print(json.dumps(under_load(form, options.rows, url, Path(folder))))
        return 0
    report = Report("programs")
    if options.kills:
        show_kills(options.kills, options.seed, options, report)
    else:
        show_load(options.rows, report)
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
