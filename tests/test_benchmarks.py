"""The benchmarks fit the product: whoever moves a name that they use hears of it here."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.fixture(autouse=True)
def _beside_each_other() -> Iterator[None]:
    """Their folder on the path and their names free: helpers of the tests have some of them, too."""
    before = dict(sys.modules)
    for path in BENCHMARKS.iterdir():
        sys.modules.pop(path.stem, None)
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]
    sys.modules |= {name: module for name, module in before.items() if name not in sys.modules}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_finds_what_it_imports(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_the_simulation_runs_and_every_part_can_be_switched_off() -> None:
    ablations = importlib.import_module("simulation.ablations").ABLATIONS
    run = importlib.import_module("simulation.run")
    world = importlib.import_module("simulation.world").WORLDS["both"]
    found = {}
    for name, switch_off in ablations.items():
        with ExitStack() as stack:
            switched = switch_off(stack)
            found[name] = run.simulate(world, 0, max_calls=300, **switched)
    assert all(outcome.calls <= 300 for outcome in found.values())
    assert len({outcome.trace for outcome in found.values()}) > 1


def test_what_a_prompt_is_worth_in_the_worlds_whose_authors_read() -> None:
    worlds = importlib.import_module("simulation.world").WORLDS
    assert worlds["interacting"].accuracy("rule0", ()) == pytest.approx(0.5 + 0.1 / 6)
    assert worlds["interacting"].accuracy("rule0 rule1", ()) == pytest.approx(0.5 + 2 * 0.4 / 6)
    boundaries = worlds["boundaries"]
    assert [boundaries.lesson(0, shown) for shown in ([0, 8, 1], [0, 8, 1, 9])] == ["lean0", "rule0"]
    assert boundaries.accuracy("lean0", ()) == pytest.approx(0.5)
    assert boundaries.accuracy("rule0", ()) == pytest.approx(0.6)
    assert worlds["examples"].chance(3, "", ["item 3", "item 11"]) == pytest.approx(0.9, abs=0.001)


def test_the_sandbox_that_an_ordinary_user_is_given_runs_without_the_rest(tmp_path: Path) -> None:
    importlib.import_module("sandbox_limits").copied_package(tmp_path)
    code = "from autoprompt.sandbox import Level, overruns, probe; from autoprompt.sandbox.child import linux"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, check=True)
