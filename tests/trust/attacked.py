"""A folder that somebody else has filled, and what must not come out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SECRET = "the secret of the user"
ROWS = [{"input": f"row {n}", "target": str(n % 2)} for n in range(40)]
# A workflow that asks the model m.
FLOW = """
nodes:
  - {id: start, type: start}
  - {id: say, type: llm, data: {model: m, prompt_template: [{role: user, text: hello}]}}
  - {id: end, type: end, data: {outputs: [{variable: said, value_selector: [say, text]}]}}
edges:
  - {source: start, target: say}
  - {source: say, target: end}
"""
# A module that leaves a file behind if it is imported or called.
EVIL = """\
from pathlib import Path

Path("executed").touch()


def f(answer, target):
    Path("executed").touch()
    return 1.0
"""


def attacked(folder: Path, sidecar: str = "", *, data: str = "rows.jsonl") -> Path:
    """Fill a folder with rows, a sidecar and a module; return the file of the rows.

    `folder.parent` has a file `secret.txt`, which no file of the folder may name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "secret.txt").write_text(SECRET, encoding="utf-8")
    (folder / "evil.py").write_text(EVIL, encoding="utf-8")
    path = folder / data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    if sidecar:
        (path.parent / "rows.task.yaml").write_text(sidecar, encoding="utf-8")
    return path


def sent_texts(requests: list[dict[str, Any]]) -> str:
    return json.dumps(requests)
