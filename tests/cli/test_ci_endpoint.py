"""The check that `init --ci` writes, where the model is at an endpoint of one's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from called import call
from fake_endpoint import answer, fake_endpoint


@pytest.fixture(autouse=True)
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call("init", "--ci")


def test_the_lines_for_another_endpoint_make_a_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path = Path("ci.yaml")
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("max_cost")
    ]
    text = "\n".join(lines)
    for name in ("base_url", "max_calls"):
        assert f"\n# {name}: " in text
        text = text.replace(f"\n# {name}: ", f"\n{name}: ")
    with fake_endpoint(lambda body: answer("urgent")) as endpoint:
        path.write_text(text.replace("http://localhost:8000/v1", endpoint.base_url), encoding="utf-8")
        call("check", "--config", "ci.yaml", "--update-baseline")
    assert Path("baselines/tickets.json").is_file()


@pytest.mark.skipif(shutil.which("bash") is None, reason="the runner's shell")
def test_an_endpoint_without_keys_is_checked_where_any_word_is_given() -> None:
    text = Path(".github/workflows/prompt-check.yml").read_text(encoding="utf-8")
    secret = "OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}"
    before, _, after = text.partition(secret)
    assert "needs no key" in before.splitlines()[-2]
    (step,) = (
        step
        for step in yaml.safe_load(f"{before}OPENAI_API_KEY: none{after}")["jobs"]["check"]["steps"]
        if step.get("name") == "Compare with the baseline"
    )
    tools = Path("tools")
    tools.mkdir()
    (tools / "autoprompt").write_text('#!/bin/sh\necho "asked: $*"\nexit "${ENDED:-0}"\n', encoding="utf-8")
    (tools / "autoprompt").chmod(0o755)

    def said(key: str, exit_code: int = 0, ended: int = 0) -> str:
        environment = {"PATH": f"{tools.absolute()}:/usr/bin:/bin", "OPENAI_API_KEY": key}
        environment["ENDED"] = str(ended)
        bash = str(shutil.which("bash"))
        done = subprocess.run(
            [bash, "-e", "-c", step["run"]], env=environment, capture_output=True, text=True
        )
        assert done.returncode == exit_code, done
        return done.stdout

    assert said(step["env"]["OPENAI_API_KEY"]).startswith("asked: check --config ci.yaml")
    assert "nothing was checked" in (warned := said("", exit_code=3))
    assert "needs no key" in warned
    assert "::error" not in said("none") + said("none", exit_code=1, ended=1)  # the check has said it all
    for code, told in ((3, "(exit code 3)"), (4, "(exit code 4). Run the job again"), (70, "(exit code 70)")):
        assert told in said("none", exit_code=code, ended=code)
