"""Runs the code blocks of a page in their order: python docs_runner.py BLOCKS.json, in the page's folder."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import types
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import yaml

# What sets up a machine or belongs to another tool is shown, and not done.
NOT_OURS = ("pip", "python3", "python", "make", "git", "ollama", "ray", "docker", "ssh", "vllm", ".")
FASTER = {"demo": ("--seconds", "0", "--no-open")}  # than a person wants it
SHELL = ("cat", "cp", "mkdir", "ls", "echo", "head", "sort")


def main(file: str) -> None:
    page = sys.modules["__main__"] = types.ModuleType(
        "__main__"
    )  # functions of a page are found by their name
    page.__file__ = str(Path("page.py").absolute())
    names = vars(page)
    printed = ""
    sys.path.insert(0, str(Path.cwd()))
    for block in json.loads(Path(file).read_text(encoding="utf-8")):
        where = f"{block['page']} line {block['line']}"
        try:
            printed = _run(block, names, printed)
        except BaseException as failure:
            raise SystemExit(
                f"{where}: {type(failure).__name__}: {failure}\nprinted:\n{printed}"
            ) from failure


def _run(block: dict[str, Any], names: dict[str, Any], printed: str) -> str:
    """Return what the block printed; for a block that shows an output, what it shows."""
    language, title, text = block["language"], block["title"], block["text"]
    if title == "Output":
        _compare(text, printed)
    elif title:
        path = Path(title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif language == "python":
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(text, f"{block['page']}:{block['line']}", "exec"), names)
        return out.getvalue()
    elif language == "sh":
        return "".join(map(_command, _lines(text)))
    elif language == "yaml":
        list(yaml.safe_load_all(text))
    elif language in ("json", "jsonl"):
        [json.loads(line) for line in ([text] if language == "json" else text.splitlines())]
    elif language not in ("text", "mermaid", ""):
        raise ValueError(f"nothing runs {language!r}: give it a title, or a language that is known")
    return printed


def _lines(text: str) -> list[str]:
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and line[0] != "#"]


def _command(line: str) -> str:
    expected = int(found[1]) if (found := re.search(r"# exit code (\d)", line)) else 0
    words = shlex.split(line, comments=True)
    if words[0] == "export":
        os.environ.update(word.split("=", 1) for word in words[1:])
        return ""
    if words[0] == "cd":
        os.chdir(words[1])
        return ""
    if words[0] in NOT_OURS:
        return ""
    if words[0] == "autoprompt":
        code, out = _autoprompt(words[1:])
    elif words[0] in SHELL:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        code, out = done.returncode, done.stdout + done.stderr
    else:
        raise ValueError(f"nothing runs {words[0]!r}: name it in tests/docs_runner.py")
    if code != expected:
        raise ValueError(f"{line}\nexit code {code}, not {expected}:\n{out}")
    return out


def _autoprompt(words: list[str]) -> tuple[int, str]:
    from autoprompt.cli import app

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(out), redirect_stderr(out):
        try:
            app(["--debug", *words, *FASTER.get(words[0], ())], prog_name="autoprompt")
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    out.seek(0)
    return code, out.read()


def _compare(shown: str, printed: str) -> None:
    """Every shown line was printed, in this order; "..." stands for anything."""
    left = printed.splitlines()
    for line in filter(str.strip, shown.splitlines()):
        pattern = re.compile(r"\s+".join(re.escape(w).replace(r"\.\.\.", ".*") for w in line.split()))
        if line.strip() == "...":
            continue
        at = next((n for n, said in enumerate(left) if pattern.fullmatch(said.strip())), None)
        if at is None:
            raise ValueError(f"not printed (in this order): {line!r}")
        left = left[at + 1 :]


if __name__ == "__main__":
    main(sys.argv[1])
