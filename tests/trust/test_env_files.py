"""`.env` of a folder that is not trusted gives keys and plain settings, and sends nothing elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacked import SECRET, attacked, sent_texts
from called import call
from fake_endpoint import FakeEndpoint, fake_endpoint

import autoprompt
from autoprompt.cli.environment import load_env_file

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
ADDRESSES = (
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "AUTOPROMPT_BASE_URL",
    "AUTOPROMPT_OPTIMIZER_BASE_URL",
    "AUTOPROMPT_JUDGE_BASE_URL",
    "AUTOPROMPT_ALLOW_PRIVATE_HOSTS",
    "DEEPSEEK_BASE_URL",
    "HF_ENDPOINT",
    "LANGSMITH_ENDPOINT",
    "OPENAI_PROXY",
)
OTHERS = ("PATH_OF_MINE", "PYTHONPATH", "XDG_CONFIG_HOME", "LD_PRELOAD", "AUTOPROMPT_TRUST", "OPENAI_ORG_ID")
CODE = (
    "AUTOPROMPT_METRIC=python:evil:f",
    "AUTOPROMPT_METRIC=PYTHON:evil:f",
    "AUTOPROMPT_METRIC_OPTIONS=a=python:evil:f",
    'AUTOPROMPT_METRIC_OPTIONS=b=1,a="python:evil:f"',
    "AUTOPROMPT_TOOLS=evil.py",
    "AUTOPROMPT_MODEL=local:weights.gguf",
    "AUTOPROMPT_JUDGE_MODEL=' local:../weights.gguf '",
    "AUTOPROMPT_WORKFLOW=flow.yaml",
    "AUTOPROMPT_PYTHON=./python",
    "AUTOPROMPT_SANDBOX=none",
    "AUTOPROMPT_WEIGHTS_DIR=weights",
)
FILES = (
    "AUTOPROMPT_PROMPT=@../secret.txt",
    "AUTOPROMPT_PROMPT=@~/secret.txt",
    "AUTOPROMPT_DATASET=/etc/passwd",
    "AUTOPROMPT_DATA=rows.jsonl:../secret.txt",
    "AUTOPROMPT_MEMORY_FILE=link/memory.txt",
    "AUTOPROMPT_CACHE_DIR=..",
    "AUTOPROMPT_RECORD=a/../../x.json",
    "AUTOPROMPT_PROMPT=${HOME}",
)
TAKEN = (
    "OPENAI_API_KEY=sk-1",
    "AUTOPROMPT_OPTIMIZER_API_KEY=sk-2",
    "AUTOPROMPT_JUDGE_API_KEY=sk-3",
    "DEEPSEEK_API_KEY=sk-4",
    "AUTOPROMPT_MODEL=m",
    "AUTOPROMPT_MAX_CALLS=5",
    "AUTOPROMPT_PROMPT=@prompt.txt",
    "AUTOPROMPT_DATASET=rows.jsonl",
    "AUTOPROMPT_METRIC=macro_f1",
    "AUTOPROMPT_SANDBOX=strict",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "downloaded"
    attacked(folder, 'prompt: "Say 1 or 0."\n')
    (folder / "link").symlink_to(tmp_path)
    (folder / "prompt.txt").write_text("Say 1 or 0.", encoding="utf-8")
    monkeypatch.chdir(folder)
    for name in (*PROXIES, *CERTIFICATES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    before = dict(os.environ)
    yield folder
    for name in os.environ.keys() - before.keys():  # what a test has loaded
        del os.environ[name]


def loaded(line: str) -> tuple[bool, str]:
    """Whether a line of `.env` is used, and what is said about it."""
    Path(".env").write_text(f"{line}\n", encoding="utf-8")
    said = "\n".join(map(str, load_env_file(Path(".env"))))
    name = line.partition("=")[0]
    is_used = name in os.environ and os.environ[name] == line.partition("=")[2].strip('"')
    return is_used, said


@pytest.mark.parametrize(
    "line",
    [
        *(f"{name}=http://127.0.0.1:9" for name in (*PROXIES, *ADDRESSES)),
        *(f"{name.lower()}=http://127.0.0.1:9" for name in PROXIES),
        *(f"{name}=evil.pem" for name in CERTIFICATES),
        *(f"{name}=x" for name in OTHERS if name != "XDG_CONFIG_HOME"),
        *CODE,
        *FILES,
    ],
)
def test_what_is_not_used_is_named_without_its_value(folder: Path, line: str) -> None:
    name, _, value = line.partition("=")
    is_used, said = loaded(line)
    assert not is_used
    assert said.startswith(f".env: ignored, because you have not trusted the folder: {name}. ")
    assert f"autoprompt.trust({str(folder)!r})" in said
    assert value not in said


@pytest.mark.parametrize("line", TAKEN)
def test_what_is_used(folder: Path, line: str) -> None:
    assert loaded(line) == (True, "")


def test_a_trusted_folder_gives_everything(folder: Path) -> None:
    autoprompt.trust(folder)
    for line in ("HTTPS_PROXY=http://x:1", CODE[0], "MINE=1"):
        assert loaded(line) == (True, "")


def test_one_line_names_all_of_them(folder: Path) -> None:
    names = [f"A_{n}" for n in range(20)]
    Path(".env").write_text("".join(f"{name}=secret-value\n" for name in names), encoding="utf-8")
    result = call("run", "--dataset", "rows.jsonl", "--dry-run")
    (line,) = [line for line in result.stderr.splitlines() if "ignored, because" in line]
    assert ", ".join(names[:12]) + " and 8 more" in line
    assert "secret-value" not in result.output
    assert f"autoprompt trust {folder}" in line


def test_the_shell_goes_before_it_and_is_not_warned_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://mine/v1")
    Path(".env").write_text("OPENAI_BASE_URL=http://evil/v1\n", encoding="utf-8")
    assert load_env_file(Path(".env")) == []
    assert os.environ["OPENAI_BASE_URL"] == "http://mine/v1"


STOLEN = {
    "OPENAI_BASE_URL": ["--model", "m"],
    "OPENAI_API_BASE": ["--model", "m"],
    "AUTOPROMPT_BASE_URL": ["--model", "m"],
    "AUTOPROMPT_OPTIMIZER_BASE_URL": ["--model", "m", "--base-url", "{mine}", "--optimizer-model", "o"],
    "AUTOPROMPT_JUDGE_BASE_URL": [
        *("--model", "m", "--base-url", "{mine}", "--set", "judge_model=j", "--metric", "llm_judge"),
        *("--metric-option", "rubric=Is it right?"),
    ],
}


@pytest.mark.parametrize("variable", STOLEN)
@pytest.mark.parametrize("source", ["shell", ".env"])
def test_no_key_and_no_row_goes_to_its_address_or_to_another_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, source: str
) -> None:
    with fake_endpoint() as evil, fake_endpoint() as mine:
        text = f"{variable}={evil.base_url}\n"
        if source == "shell":
            monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
        else:
            text += "OPENAI_API_KEY=sk-of-the-file\n"
        Path(".env").write_text(text, encoding="utf-8")
        flags = [flag.format(mine=mine.base_url) for flag in STOLEN[variable]]
        for more in ([], ["--dry-run"]):
            result = call("run", "--dataset", "rows.jsonl", *flags, *more, "--json", code=3)
            assert json.loads(result.stdout)["error"]["code"] == "trust.unused-address"
            assert f".env line 1: {variable}: this address is not used" in result.stderr
        for endpoint in (evil, mine):
            assert not endpoint.requests
            assert not endpoint.listed


def sends(endpoint: FakeEndpoint, *flags: str) -> str:
    call("eval", "--dataset", "rows.jsonl", "--model", "m", *flags)
    return sent_texts(endpoint.headers)


def test_its_key_goes_to_the_user_s_address(folder: Path) -> None:
    Path(".env").write_text("OPENAI_API_KEY=sk-of-the-file\n", encoding="utf-8")
    with fake_endpoint() as endpoint:
        assert "sk-of-the-file" in sends(endpoint, "--base-url", endpoint.base_url)


def test_once_trusted_its_address_gets_the_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    with fake_endpoint() as endpoint:
        Path(".env").write_text(f"OPENAI_BASE_URL={endpoint.base_url}\n", encoding="utf-8")
        assert "sk-of-the-user" in sends(endpoint, "--trust")


@pytest.mark.parametrize("name", [*PROXIES[:3], *(name.lower() for name in PROXIES[:3])])
def test_its_proxy_sees_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    with fake_endpoint() as proxy, fake_endpoint() as endpoint:
        Path(".env").write_text(f"{name}={proxy.base_url.removesuffix('/v1')}\n", encoding="utf-8")
        assert "sk-of-the-user" in sends(endpoint, "--base-url", endpoint.base_url)
        assert not proxy.requests


@pytest.mark.parametrize("line", [*CODE[:2], *FILES[:2]])
def test_a_run_goes_on_without_it(folder: Path, line: str) -> None:
    (Path.home()).mkdir(parents=True, exist_ok=True)
    (Path.home() / "secret.txt").write_text(SECRET, encoding="utf-8")
    Path(".env").write_text(f"{line}\n", encoding="utf-8")
    with fake_endpoint() as endpoint:
        sends(endpoint, "--base-url", endpoint.base_url)
        assert SECRET not in sent_texts(endpoint.requests)
    assert not (folder / "executed").exists()
