"""Every public record has a `repr` of at most 400 characters, whatever it holds."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import autoprompt
from autoprompt import CheckConfig, Exported, RunConfig, RunResult, ScienceConfig
from autoprompt.brief import LONGEST
from autoprompt.evaluation.estimate import EvaluationEstimate
from autoprompt.gate.measurement import CaseScores
from autoprompt.optimizer.forecast import Estimate
from autoprompt.programs.probe import ProgramView
from autoprompt.records import Candidate, Demo, Message
from autoprompt.runs.result import Gain, Result, Returned, Side

LARGE: Any = "large text " * 1000


def homes() -> list[type]:
    """What the public modules name, and what no function names but gives."""
    modules = (importlib.import_module(f"autoprompt{name}") for name in ("", ".llm", ".metrics"))
    named = (getattr(module, name) for module in modules for name in module.__all__)
    return [*(found for found in named if isinstance(found, type)), Estimate, EvaluationEstimate, ProgramView]


def reached() -> list[type]:
    """The dataclasses that the public names lead to by their fields, properties and methods."""
    every: dict[str, list[type]] = {}
    for module in pkgutil.walk_packages(autoprompt.__path__, "autoprompt."):
        for name, found in vars(sys.modules.get(module.name)).items() if module.name in sys.modules else ():
            if dataclasses.is_dataclass(found) and found.__module__ == module.name:
                every.setdefault(name, []).append(found)
    wanted, seen = homes(), set()
    while wanted:
        found = wanted.pop()
        if found in seen or not found.__module__.startswith("autoprompt."):
            continue
        seen.add(found)
        here = vars(sys.modules[found.__module__])
        for name in re.findall(r"\w+", " ".join(annotations(found))):
            one = here.get(name)
            only = every.get(name, []) if one is None else []
            wanted += [one] if isinstance(one, type) else only if len(only) == 1 else []
    inner = ("autoprompt.llm.limits", "autoprompt.llm.kept")  # of `Models.open` alone
    return sorted(
        (one for one in seen if dataclasses.is_dataclass(one) and not one.__module__.startswith(inner)),
        key=lambda one: (one.__module__, one.__qualname__),
    )


def annotations(record: type) -> list[str]:
    functions = [found.fget if isinstance(found, property) else found for found in vars(record).values()]
    returned = [found.__annotations__.get("return") for found in functions if inspect.isfunction(found)]
    return [str(found) for found in (*inspect.get_annotations(record).values(), *returned)]


RECORDS = reached()


def test_the_records_that_matter_are_reached() -> None:
    names = {record.__name__ for record in RECORDS}
    assert names >= {
        "RunResult",
        "EvaluationReport",
        "CheckReport",
        "BatchResult",
        "Candidate",
        "EvaluatedRow",
    }
    assert len(RECORDS) > 40


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.__module__}.{record.__name__}")
def test_the_repr_of_a_record_is_short(record: type) -> None:
    made = object.__new__(record)
    for field in dataclasses.fields(record):
        is_number = re.fullmatch(
            r"(int|float|bool|Count|Share|Mean|Difference|Seconds)( \| None)?", str(field.type)
        )
        object.__setattr__(made, field.name, 0.123456789 if is_number else LARGE)
    try:
        text = repr(made)
    except (TypeError, AttributeError, KeyError):  # it shows what it makes of its fields
        assert record.__name__ in ("RunResult", "Run", "EvaluationReport", "CheckReport")
        return
    assert len(text) <= LONGEST == 400
    assert text.startswith(f"{record.__name__}(")


def test_settings_show_what_was_given() -> None:
    assert repr(RunConfig(prompt="A or B?", seed=3)) == "RunConfig(prompt='A or B?', seed=3)"
    locked = tuple(f"passage {number}" for number in range(500))
    full = RunConfig(prompt=LARGE, locked=locked, labels=locked, task=LARGE, metric_options={"rubric": LARGE})
    for settings in (full, ScienceConfig(task=LARGE), CheckConfig(must_pass=locked)):
        assert len(repr(settings)) <= LONGEST
        assert str(settings) == repr(settings)


def test_a_result_shows_its_verdict_and_scores(tmp_path: Path) -> None:
    candidate = Candidate({"prompt": LARGE}, tuple(Demo(LARGE, LARGE) for _ in range(50)))
    record = Result(
        run_id="r1",
        verdict="confirmed",
        best=Returned(score=0.9),
        original=Side(score=0.6),
        gain=Gain(0.3, (0.1, 0.5)),
        p_value=0.001,
        calls=600,
        stop_reason=LARGE,
    )
    assert repr(RunResult(record, candidate, candidate)) == (
        "RunResult(run_id='r1', verdict='confirmed', score=0.9, original_score=0.6, gain=0.3, p_value=0.001, "
        "calls=600, cost_usd=None)"
    )
    assert len(repr(candidate)) <= LONGEST
    assert len(repr(Exported(candidate, ("a",) * 400))) <= LONGEST
    assert len(repr(CaseScores((1.0,) * 900))) <= LONGEST


def test_fields_with_their_default_are_left_out() -> None:
    assert repr(Message("user", "Hello")) == "Message(role='user', content='Hello')"


def test_a_value_that_cannot_be_compared_is_shown() -> None:
    class Array:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth of an array is ambiguous")

        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            return "array([1])"

    assert repr(Message("user", "Hello", tool_calls=Array())) == (  # type: ignore[arg-type]
        "Message(role='user', content='Hello', tool_calls=array([1]))"
    )
