"""Optimize the graph of `headlines.py` on the embedded model, which also writes: `make demo-program`."""

import os
import sys

from autoprompt.cli import main
from autoprompt.llm import local

server = local.start()
os.environ |= {
    "OPENAI_BASE_URL": server.base_url,
    "OPENAI_API_KEY": server.api_key,
    "EXAMPLE_MODEL": server.model,
}
command = ["run", "--program", "examples.headlines:graph", "--dataset", "clickbait.jsonl"]
command += ["--optimizer-model", "local", "--preset", "quick", "--concurrency", "2"]
sys.argv = ["autoprompt", *command, *sys.argv[1:]]
main()
