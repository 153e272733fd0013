"""Build the wheel, install it in a clean environment, and use it where no checkout is.

    python .ci/wheel.py [DIST]     # DIST: where the wheel and the source archive are kept

The packages that it needs come at the versions of requirements-dev.txt.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIMIZE = """
from pathlib import Path
import autoprompt
from autoprompt.llm import ScriptedClient

def answer(messages):
    asked = messages[-1].content
    if "<current>" in asked or "<prompt>" in asked:
        return "```\\nMind the prizes: ham or spam?\\n```"
    return "spam" if "Mind the prizes" in messages[0].content and "prize" in asked else "ham"

kinds = (("news", "ham"), ("prize", "spam"))
rows = [{"input": f"{kinds[n % 2][0]} {n}", "target": kinds[n % 2][1]} for n in range(120)]
settings = {"labels": ("ham", "spam"), "preset": "quick", "max_demos": 0, "no_memory": True}
config = autoprompt.RunConfig(prompt="ham or spam?", **settings)
result = autoprompt.optimize(config, rows=rows, models=autoprompt.Models(ScriptedClient(answer)))
assert "Mind the prizes" in result.best.prompt, result
assert Path(autoprompt.__file__).parents[1].name == "site-packages", autoprompt.__file__
"""


def call(*command: str | Path, cwd: Path | None = None) -> str:
    """Return what a command prints; an error if it fails."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(dist: Path) -> None:
    call(sys.executable, "-m", "build", "--outdir", dist, ROOT)
    (wheel,) = dist.glob("*.whl")
    call(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    with tempfile.TemporaryDirectory() as made:
        venv, folder = Path(made) / "venv", Path(made) / "folder"
        folder.mkdir()
        call(sys.executable, "-m", "venv", venv)
        python, autoprompt = venv / "bin" / "python", venv / "bin" / "autoprompt"
        pins = Path(made) / "pins.txt"
        lines = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
        pins.write_text("".join(f"{line.removesuffix(' ' + chr(92))}\n" for line in lines if line[0] != " "))
        call(python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", pins, wheel)
        version = call(autoprompt, "--version", cwd=folder).strip()
        call(autoprompt, "init", "starter", "--ci", cwd=folder)
        call(autoprompt, "run", "--config", "autoprompt.yaml", "--dry-run", cwd=folder / "starter")
        call(python, "-c", OPTIMIZE, cwd=folder)
        call(autoprompt, "report", "last", "-o", "report.html", cwd=folder)
        assert "Mind the prizes" in (folder / "report.html").read_text(encoding="utf-8")
    print(f"wheel: ok, {version}, {wheel.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - what the check says


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as kept:
            main(Path(kept))
