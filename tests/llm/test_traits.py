from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import autoprompt
from autoprompt.errors import StoreError
from autoprompt.llm.client import CallRole
from autoprompt.llm.endpoints import model_without_address, served_name
from autoprompt.llm.traits import KnownTraits, LearnedTraits, Traits, traits_of
from autoprompt.records import Usage
from autoprompt.settings.records import ModelSettings, without_excluded


def settings(**values: Any) -> ModelSettings:
    return ModelSettings.model_validate(values)


ENDPOINT = {"model": "m", "base_url": "http://127.0.0.1:1/v1"}


def test_the_embedded_model_and_an_endpoint_have_defaults_of_their_own() -> None:
    local, remote = (traits_of(settings(**s), "task", {}) for s in ({}, ENDPOINT))
    assert (local.concurrency, remote.concurrency) == (1, 64)
    assert (local.timeout_s, remote.timeout_s) == (600, 120)
    assert (local.window_tokens, remote.window_tokens) == (8192, 32768)
    assert (local.is_slow, local.rereads_prefix, local.writes_well) == (True, True, False)
    assert (remote.is_slow, remote.rereads_prefix, remote.writes_well) == (False, False, True)
    assert (local.thinks_first, remote.thinks_first) == (False, None)


@pytest.mark.parametrize(
    ("model", "thinks"), [("local:smollm2-135m", False), ("local:/models/own.gguf", None)]
)
def test_only_known_weights_are_known_not_to_think(model: str, thinks: bool | None) -> None:
    assert traits_of(settings(model=model), "task", {}).thinks_first is thinks


def test_what_the_user_says_goes_first() -> None:
    said = {"is_slow": True, "window_tokens": 4096, "judge": {"thinks_first": True, "window_tokens": 9000}}
    chosen = settings(**ENDPOINT, timeout=3, concurrency=2, traits=said, judge_max_output_tokens=99)
    task, judge = traits_of(chosen, "task", {}), traits_of(chosen, "judge", {})
    assert (task.timeout_s, task.concurrency, task.is_slow, task.window_tokens) == (3, 2, True, 4096)
    assert (task.thinks_first, task.output_tokens) == (None, None)
    assert (judge.is_slow, judge.thinks_first, judge.window_tokens, judge.output_tokens) == (
        True,
        True,
        9000,
        99,
    )
    assert {task.source("is_slow"), task.source("timeout_s")} == {"user"}
    assert task.source("thinks_first") == "default"


def test_what_is_measured_goes_before_a_default_and_behind_the_user() -> None:
    learned = LearnedTraits(
        "m", lambda _: traits_of(settings(**ENDPOINT, traits={"thinks_first": False}), "task", {})
    )
    known = learned.learn("task", thinks_first=True, thought_tokens=9)
    assert (known.thinks_first, known.source("thinks_first")) == (False, "user")
    assert (known.thought_tokens, known.source("thought_tokens")) == (9, "measured")
    assert learned.of("task") == known


def test_what_is_measured_is_there_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "traits.json"
    first = LearnedTraits("m", known=KnownTraits(path))
    first.of("optimizer")
    first.learn("task", thinks_first=True, thought_tokens=8000)
    first.learn_of_endpoint(refused=("seed",), has_system_role=False)
    again = LearnedTraits("m", known=KnownTraits(path))
    task, judge = again.of("task"), again.of("judge")
    assert (task.thinks_first, task.thought_tokens) == (True, 8000)
    assert (task.refused, task.has_system_role) == (("seed",), False)
    # The same model in another role: it thinks there, too.
    assert (judge.thinks_first, judge.refused) == (True, ("seed",))
    assert LearnedTraits("another", known=KnownTraits(path)).of("task") == Traits()


def test_that_a_model_does_not_think_in_one_role_says_nothing_of_another() -> None:
    learned = LearnedTraits("m")
    learned.learn("task", thinks_first=False)
    assert learned.of("optimizer").thinks_first is None


def test_a_model_that_thinks_gets_more_time() -> None:
    roles: tuple[CallRole, ...] = ("task",)
    for role in roles:
        learned = LearnedTraits("m", lambda _: traits_of(settings(**ENDPOINT), "task", {}))
        assert learned.of(role).patience_s is None
        assert learned.learn(role, thinks_first=True).patience_s == 600
    own = traits_of(settings(**ENDPOINT, timeout=30, traits={"thinks_first": True}), "task", {})
    assert own.patience_s is None


@pytest.mark.parametrize(
    "kept",
    [
        "{}",
        '{"traits": 5}',
        '{"traits": [{}]}',
        '{"traits": [{"role": "task", "endpoint": "e", "thought_tokens": "x"}]}',
        '{"traits": [{"role": "task", "endpoint": "e", "window_tokens": -1}]}',
        '{"traits": [{"role": "task", "endpoint": "e", "sources": {}}]}',
        '{"traits": [{"role": "boss", "endpoint": "e"}]}',
    ],
)
def test_a_damaged_file_of_traits_is_named(kept: str, tmp_path: Path) -> None:
    path = tmp_path / "traits.json"
    path.write_text(kept, encoding="utf-8")
    with pytest.raises(StoreError, match=r"traits\.json: this is not a list of measured traits"):
        KnownTraits(path)


PACKAGE = Path(autoprompt.__file__).parent
# Where it is known which kind of model is asked; everywhere else its traits are.
KNOWS_KINDS = ("llm/", "settings/", "cli/doctor.py", "cli/machine.py")
KINDS = {"is_embedded", "is_local", "LOCAL", "EMBEDDED", "xllamacpp"}


def mentions(path: Path) -> Iterator[str]:
    """Lines that ask which kind of model there is: a name of that sense, or "local" beside a model."""
    text = path.read_text(encoding="utf-8")
    if not any(name in text for name in (*KINDS, '"local')):
        return
    for node in ast.walk(ast.parse(text)):
        names = {getattr(node, field, None) for field in ("id", "attr", "name")}
        is_name = bool(names & KINDS)
        is_compared = isinstance(node, ast.Compare | ast.Call) and any(
            isinstance(part, ast.Constant) and part.value in ("local", "local:") for part in ast.walk(node)
        )
        if is_name or (is_compared and "model" in ast.unparse(node)):
            yield f"{path.relative_to(PACKAGE)} line {node.lineno}: {ast.unparse(node)[:80]}"  # type: ignore[attr-defined]


def test_what_differs_between_models_is_asked_of_their_traits() -> None:
    paths = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]
    others = [path for path in paths if not path.startswith(KNOWS_KINDS)]
    assert len(others) > 100
    assert [line for path in others for line in mentions(PACKAGE / path)] == []
    assert list(mentions(PACKAGE / "llm" / "endpoints.py"))  # the search finds something


def test_how_long_a_call_takes_is_known_of_the_default_model_alone() -> None:
    chosen = ({"model": "local"}, {"model": "local:smollm2-135m"}, {"model": "local:/own.gguf"}, ENDPOINT)
    assert [traits_of(settings(**one), "task", {}).call_s for one in chosen] == [(0.7, 2.5), None, None, None]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("local", None),
        ("local:smollm2-135m", "smollm2-135m"),
        ("gpt-x", "gpt-x"),
        (None, None),
    ],
)
def test_answers_carry_the_name_of_the_model_that_is_served(model: str | None, name: str | None) -> None:
    assert served_name(model) == name


@pytest.mark.parametrize(
    ("provider", "name", "model"),
    [
        ("local", "smollm2-135m", "local:smollm2-135m"),
        ("local", "local", "local"),
        ("openai", "local:smollm2-135m", "local:smollm2-135m"),
        ("openai", "gpt-x", None),
    ],
)
def test_a_workflow_names_a_model_without_an_address(provider: str, name: str, model: str | None) -> None:
    assert model_without_address(provider, name) == model


def test_a_model_and_an_address_that_exclude_each_other_are_not_both_taken_over() -> None:
    of_run = {"model": "m", "base_url": "http://h/v1", "seed": 1}
    assert without_excluded(of_run, {"model": "local"}) == {"model": "m", "seed": 1}
    assert without_excluded(of_run, {"model": "other"}) == of_run
    embedded = {"model": "local:x", "base_url": None}
    assert without_excluded(embedded, {"base_url": "http://h/v1"}) == {"base_url": None}


def timed(*, read_s: float, write_s: float, cached: int = 30) -> Usage:
    """Of a request of 60 tokens whose answer has 20."""
    return Usage(60, 20, cached_tokens=cached, read_s=read_s, write_s=write_s)


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        (timed(read_s=0.2, write_s=2.0), (True, True)),  # 30 tokens read in 0.2 s, 20 written in 2 s
        (timed(read_s=0.2, write_s=2.0, cached=0), (True, False)),
        (timed(read_s=0.05, write_s=0.2), (False, True)),
        (timed(read_s=0.002, write_s=0.2), (False, False)),
        (Usage(60, 20, cached_tokens=30), (False, False)),  # the endpoint does not say
    ],
)
def test_the_speed_of_an_endpoint_is_measured(usage: Usage, found: tuple[bool, bool], tmp_path: Path) -> None:
    learned = LearnedTraits("m", known=KnownTraits(tmp_path / "traits.json"))
    learned.learn_speed("task", [usage] * 7)
    assert learned.of("task") == Traits()
    learned.learn_speed("task", [usage] * 8)
    again = LearnedTraits("m", known=KnownTraits(tmp_path / "traits.json"))
    for known in (learned.of("task"), again.of("task")):
        assert (known.is_slow, known.rereads_prefix) == found


def test_what_the_user_says_of_the_speed_goes_first() -> None:
    said = traits_of(settings(**ENDPOINT, traits={"is_slow": False, "rereads_prefix": False}), "task", {})
    learned = LearnedTraits("m", lambda _: said)
    learned.learn_speed("task", [timed(read_s=9.0, write_s=9.0)] * 8)
    assert (learned.of("task").is_slow, learned.of("task").rereads_prefix) == (False, False)
