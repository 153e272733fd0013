"""A function of the user: what it gets, what it may return, and how it is found and tried."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoprompt import Models, evaluate
from autoprompt.errors import ConfigError
from autoprompt.evaluation.estimate import estimate_evaluation
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.metrics import get_metric
from autoprompt.metrics.arguments import ROLES, plan_call
from autoprompt.metrics.python_metric import PythonMetric, try_metric
from autoprompt.metrics.texts import ExactMatch
from autoprompt.records import Example, Prediction, Score
from autoprompt.settings.records import RunConfig

ROW = Example("r1", "Who?", "Ann", {"question": "Who?", "answer": "Ann", "id": "7"}, line=3)


def metric(function: Callable[..., Any], **options: Any) -> PythonMetric:
    call = plan_call("python:m:f", function, options)
    made = PythonMetric(function=function, call=call, options=options, name="python:m:f")
    return made.for_run([], "answer")


def score(function: Callable[..., Any], answer: str = "Ann", **options: Any) -> Score:
    return metric(function, **options).score(Prediction(answer, answer), ROW)


class Scalar:
    """As numpy's and torch's scalars, 0-d arrays and tensors of one element."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def item(self) -> Any:
        if isinstance(self._value, list):
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._value


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        *[(True, 1.0), (False, 0.0), (1, 1.0), (0.25, 0.25), (Decimal("0.5"), 0.5), (Fraction(1, 4), 0.25)],
        *[(Scalar(0.5), 0.5), (Scalar(True), 1.0), (Scalar(0.9999999403953552), 1.0), ("0.5", 0.5)],
        # What rounding leaves a hair beside 1 and 0.
        *[(1.0000000000000002, 1.0), (1.0000001192092896, 1.0), (-1e-17, 0.0), (1.00098, 1.0), (-0.0, 0.0)],
        # With a reason, and as other programs return it.
        *[
            ((0.5, "why"), 0.5),
            ({"score": Decimal("0.5")}, 0.5),
            ({"pass": True}, 1.0),
            ((Scalar(1), None), 1.0),
        ],
        *[
            (SimpleNamespace(score=0.5, feedback="why"), 0.5),
            (SimpleNamespace(value=True, rationale=""), 1.0),
        ],
    ],
)
def test_a_score_is_read_as_a_float(returned: Any, value: float) -> None:
    found = score(lambda prediction, example: returned)
    assert found.value == value
    assert type(found.value) is float


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        *[(returned, "why") for returned in ((0.5, "why"), {"score": 0.5, "reason": "why"})],
        *[
            ({"score": 0.5, name: "why"}, "why")
            for name in ("feedback", "comment", "rationale", "explanation")
        ],
        *[(SimpleNamespace(score=0.5, feedback="why"), "why"), ({"score": 1, "reason": None}, "")],
        *[(0.5, "answered 'Ann', expected 'Ann'")],
    ],
)
def test_a_reason_is_kept(returned: Any, said: str) -> None:
    assert score(lambda prediction, example: returned).reason == said


@pytest.mark.parametrize(
    "returned",
    [
        *(
            float("nan"),
            float("inf"),
            None,
            7,
            -0.5,
            1.01,
            "yes",
            [],
            {},
            1j,
            (0.5, "a", "b"),
            Decimal("NaN"),
        ),
        *(Scalar([0.1, 0.2]), object(), {"score": None}, {"reason": "why"}, b"1", Scalar(float("nan"))),
    ],
)
def test_what_is_no_score_is_named(returned: Any) -> None:
    with pytest.raises(ConfigError, match=r"python:m:f returned .* on row r1. Return a number in \[0, 1\]"):
        score(lambda prediction, example: returned)


def test_numpy_scores_are_read() -> None:
    numpy = pytest.importorskip("numpy")
    for returned in (numpy.float32(0.5), numpy.float16(0.5), numpy.array(0.5), numpy.array([0.5])):
        assert score(lambda prediction, example: returned).value == 0.5  # noqa: B023
    assert score(lambda prediction, example: numpy.bool_(True)).value == 1.0
    with pytest.raises(ConfigError, match="returned array"):
        score(lambda prediction, example: numpy.array([0.1, 0.2]))


def dspy_metric(example: Any, pred: Any, trace: Any = None) -> bool:
    assert trace is None
    assert example.question == example["question"] == example.get("question") == "Who?"
    assert example.inputs() == {"question": "Who?", "id": "7"}
    assert example.toDict()["answer"] == example.target == "Ann"
    assert "missing" not in example
    assert pred == pred.answer == pred["answer"] == pred.get("answer")
    assert pred.get("x") is None
    assert type(pred.answer) is str
    return example.answer.lower() == pred.answer.lower()


def gepa_metric(gold: Any, pred: Any, trace: Any, pred_name: Any, pred_trace: Any) -> Any:
    assert trace is pred_name is pred_trace is None
    return SimpleNamespace(score=float(gold.answer == pred.answer), feedback=f"expected {gold.answer}")


def turned(target: str, prediction: str) -> bool:
    return (target, prediction) == ("Ann", prediction) and prediction == "Ann"


def sklearn(y_true: str, y_pred: str) -> bool:
    return y_true == y_pred == "Ann"


def mlflow(inputs: dict[str, str], outputs: Any, expectations: dict[str, str]) -> bool:
    assert inputs == {"question": "Who?", "id": "7"}
    return outputs == expectations["expected_response"] == expectations["answer"]


def langsmith(outputs: Any, reference_outputs: dict[str, str]) -> bool:
    return bool(outputs["answer"] == reference_outputs["answer"])


def by_keyword(*, outputs: Any, expectations: dict[str, str]) -> bool:
    return outputs.answer == expectations["answer"]


def with_input(input: str, output: str, expected: str) -> bool:
    return (input, expected) == ("Who?", "Ann") and output == expected


def answer_and_answer(prediction: str, answer: str) -> bool:
    return prediction == answer


def alone(prediction: str) -> bool:
    return prediction == "Ann"


def traced(prediction: Any, example: Any, trace: Any = None) -> bool:
    return bool(prediction.answer == example.answer == example.fields["answer"])


def unnamed(*given: Any) -> bool:
    answer, row = given
    return bool(answer == row.target)


def promptfoo(output: str, context: dict[str, Any]) -> Any:
    assert context["vars"] == context["test"]["vars"] == {"question": "Who?", "answer": "Ann", "id": "7"}
    assert context["prompt"] == ""
    assert context.get("config") == {}
    is_right = output == context["vars"]["answer"]
    return {"pass": is_right, "score": 1.0 if is_right else 0.0, "reason": "by the row"}


def with_a_row_called_context(prediction: str, context: Any) -> bool:
    return bool(prediction == context.fields["answer"])


class Comparison:
    def __call__(self, prediction: str, example: Example) -> bool:
        return prediction == example.target


@pytest.mark.parametrize(
    "function",
    [
        *(
            promptfoo,
            with_a_row_called_context,
            dspy_metric,
            gepa_metric,
            turned,
            sklearn,
            mlflow,
            langsmith,
            by_keyword,
            with_input,
        ),
        *(answer_and_answer, alone, traced, unnamed, Comparison()),
        lambda a, b: a == b.target,
        lambda a, expected: a == expected,
        lambda answer, example: answer == example.target,
        lambda example, prediction: prediction == example.answer,
        lambda gold, pred: gold == pred,
        lambda gold, pred: gold.answer == pred.answer and gold["question"] == "Who?",
        lambda prompt, completion, reference: (prompt, completion) == ("Who?", reference),
        lambda data_source, solution_str, ground_truth, extra_info=None: solution_str == ground_truth,
        lambda context, answer, ground_truth: (context, answer) == ("Who?", ground_truth),
        lambda text, output, example: (text, output) == ("Who?", example.target),
        lambda question, passage, answer, gold: passage.fields["id"] == "7" and answer == gold,
        lambda prediction, gt, metadata: prediction == gt == metadata.target,
        lambda actual_output, expected_output: actual_output == expected_output,
        lambda hypothesis, reference: hypothesis == reference,
        lambda pred, gold, trace=None: pred == gold == gold.answer,
        lambda example, pred, gold: example.question == "Who?" and pred.answer == gold,
        lambda example, pred, target, trace=None: example.question == "Who?" and pred == target,
    ],
)
def test_parameters_get_what_their_names_say(function: Callable[..., Any]) -> None:
    assert score(function).value == 1.0
    assert score(function, "Bob").value == 0.0


def test_an_answer_in_json_has_its_fields_as_attributes() -> None:
    def fields(example: Any, pred: Any, trace: Any = None) -> bool:
        assert pred["count"] == pred.count == 2
        with pytest.raises(
            AttributeError, match=r"the text has no field 'rationale'; it has 'answer', 'count'"
        ):
            _ = pred.rationale
        with pytest.raises(AttributeError, match="the row has no field 'gold'; the fields are 'input'"):
            _ = example.gold
        with pytest.raises(KeyError):
            pred["rationale"]
        return bool(pred.answer == example.answer)

    assert score(fields, '{"answer": "Ann", "count": 2}').is_correct


def test_values_have_the_types_of_the_row() -> None:
    typed = Example("r1", {"n": 1}, 2, {"n": {"n": 1}, "answer": 2, "flag": True})

    def f(example: Any, pred: Any, trace: Any = None) -> bool:
        assert (example.n, example.flag, example.answer, example.target) == ({"n": 1}, True, 2, 2)
        return bool(pred.answer == pred["answer"] == example.answer)

    assert metric(f).score(Prediction("2", "2"), typed).is_correct
    assert not metric(f).score(Prediction("two", "two"), typed).is_correct
    assert (
        metric(lambda prediction, target: int(prediction) == target)
        .score(Prediction("2", "2"), typed)
        .is_correct
    )
    assert metric(lambda gold, pred: gold == int(pred)).score(Prediction("2", "2"), typed).is_correct
    assert "scores 0" in str(try_metric(metric(lambda prediction, target: prediction == target), [typed])[0])


def test_options_are_keywords_and_win_over_names() -> None:
    def f(prediction: str, example: Example, label: str = "x", *, least: float) -> float:
        return least if label == "y" else 0.0

    assert score(f, label="y", least=0.5).value == 0.5
    with pytest.raises(ConfigError, match="missing a required argument: 'least'"):
        metric(f)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda expected, example: 1,
            "no parameter gets the answer; the parameters are 'expected', 'example'. Give it one called",
        ),
        (lambda a, b, c: 1, "missing a required argument: 'c'. Define it as"),
        (lambda: 1, "no parameter gets the answer"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        metric(function)


def test_an_attribute_that_is_a_field_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"AttributeError: .* Read a field of the row as example.fields\['answer'\]"
    ):
        score(lambda prediction, example: prediction == example.answer)


# --- found and tried ---


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


METRIC = "def accuracy(prediction, target):\n    return prediction == target\n"


@pytest.mark.parametrize(
    ("files", "name", "message"),
    [
        ({}, "tm_a:f", "no module 'tm_a' in {here}"),
        ({"tm_metrics.py": METRIC}, "tm_metric:f", "Did you mean python:tm_metrics:f (tm_metrics.py)?"),
        ({"lib/tm_b.py": METRIC}, "tm_b:accuracy", "Did you mean python:lib.tm_b:accuracy (lib/tm_b.py)?"),
        ({"a/b/tm_c.py": METRIC}, "tm_c:f", "Did you mean python:a.b.tm_c:f (a/b/tm_c.py)?"),
        ({"tm_d.py": METRIC}, "tm_d.py:f", "Did you mean python:tm_d:f (tm_d.py)?"),
        ({"lib/tm_e.py": METRIC}, "lib/tm_e.py:f", "Did you mean python:lib.tm_e:f (lib/tm_e.py)?"),
        ({"tm-f.py": METRIC}, "tm_f:f", "tm-f.py cannot be imported by that name: rename it to tm_f.py."),
        ({"tm_pkg/__init__.py": METRIC}, "tm_pgk:f", "Did you mean python:tm_pkg:f (tm_pkg/__init__.py)?"),
        ({"../tm_g.py": METRIC}, "tm_g:f", "run autoprompt from {above}, or add that folder to PYTHONPATH"),
        ({".venv/tm_h.py": METRIC}, "tm_h:f", "Run autoprompt from the folder of its file"),
        ({"tm_i.py": METRIC}, "tm_i:acuracy", "tm_i has no function 'acuracy'. Did you mean 'accuracy'?"),
        ({"tm_j.py": METRIC}, "tm_j:zzz", "tm_j has no function 'zzz'. Functions in tm_j.py: 'accuracy'."),
        (
            {"tm_k.py": "accuracy = 3\n"},
            "tm_k:accuracy",
            "accuracy cannot be called. Functions in tm_k.py: none.",
        ),
        ({"tm_l.py": METRIC}, "tm_l.accuracy", "such as python:tm_l:accuracy"),
        ({"json.py": METRIC}, "json:accuracy", "not json.py. Rename your file."),
        # A module that fails while it is imported, with the user's own line.
        (
            {"tm_m.py": "x = 1\nimport tm_absent\n"},
            "tm_m:f",
            "'tm_absent' (tm_m.py line 2). Install tm_absent",
        ),
        ({"tm_n.py": "x = 1\n\ny = zz\n"}, "tm_n:f", "NameError: name 'zz' is not defined (tm_n.py line 3)"),
        ({"tm_o.py": "x = 1\ndef f(:\n"}, "tm_o:f", "SyntaxError: invalid syntax (tm_o.py line 2)"),
        ({"tm_p.py": "import json\njson.loads('')\n"}, "tm_p:f", "(tm_p.py line 2)"),
        ({"tm_q.py": "raise SystemExit(2)\n"}, "tm_q:f", "SystemExit: 2 (tm_q.py line 1)"),
        ({"tm_r.py": "from json import nothing\n"}, "tm_r:f", "(tm_r.py line 1)"),
    ],
)
def test_what_is_not_found_is_explained(folder: Path, files: dict[str, str], name: str, message: str) -> None:
    here = folder / "here"
    here.mkdir()
    for path, text in files.items():
        write(here / path, text)
    import os

    os.chdir(here)
    with pytest.raises(ConfigError) as found:
        get_metric(f"python:{name}")
    assert message.format(here=here, above=folder) in str(found.value)


def test_a_failing_metric_names_its_own_line(folder: Path) -> None:
    write(
        folder / "tm_own.py", "import json\n\ndef f(prediction, target):\n    return json.loads(prediction)\n"
    )
    with pytest.raises(ConfigError, match=r"JSONDecodeError: .* \(tm_own\.py line 4\)"):
        get_metric("python:tm_own:f").score(Prediction("x", "x"), ROW)


def test_a_metric_is_tried_with_the_rows_own_target() -> None:
    asked: list[tuple[str, str]] = []

    def f(prediction: str, target: str) -> tuple[float, str]:
        asked.append((prediction, target))
        return 0.5, "too long"

    (warning,) = try_metric(metric(f), [ROW])
    assert (warning.code, warning.place) == ("metric.own-target", ROW.place)
    assert warning.said == "metric python:m:f scores 0.5 for this row's own target (too long)"
    assert asked == [("Ann", "Ann")]
    assert try_metric(metric(lambda prediction, target: prediction == target), [ROW]) == []
    without_reason = try_metric(metric(lambda prediction, target: 0), [ROW])
    assert without_reason[0].said == "metric python:m:f scores 0 for this row's own target"
    assert try_metric(get_metric("exact_match"), [ROW]) == []


TEN = [
    Example(f"r{n}", f"q{n}", f"t{n % 7}", {"question": f"q{n}", "answer": f"t{n % 7}"}) for n in range(10)
]


@pytest.mark.parametrize(
    ("function", "called"),
    [
        (lambda text, passage, reference: text == passage, "text=answer, passage=row, reference=target"),
        (lambda prediction, solution: prediction == solution, "prediction=answer, solution=row"),
        (lambda prediction, target: prediction is None, "prediction=answer, target=target"),
        (
            lambda *, outputs, expectations: outputs == expectations,
            "outputs=answer, expectations=expectations",
        ),
    ],
)
def test_a_metric_that_gives_no_own_target_anything_is_refused(
    function: Callable[..., Any], called: str
) -> None:
    with pytest.raises(ConfigError, match=f"0 for the own targets of 5 rows. It was called with {called}"):
        try_metric(metric(function), TEN)


def test_a_metric_that_gives_some_own_targets_something_is_not() -> None:
    asked: list[str] = []

    def some(prediction: str, target: str) -> float:
        asked.append(target)
        return 0.1 if target == "t3" else 0.0

    (warning,) = try_metric(metric(some), TEN)
    assert asked == ["t0", "t1", "t2", "t3", "t4"]
    assert (warning.code, len(warning.also)) == ("metric.own-target", 4)
    (warning,) = try_metric(metric(lambda prediction, example: 0), TEN)  # no word of the target
    assert warning.code == "metric.own-target"
    assert try_metric(metric(lambda prediction, target: prediction == target), TEN) == []
    assert try_metric(metric(lambda prediction, target: 0), []) == []


def test_a_metric_that_ends_the_program_is_named() -> None:
    with pytest.raises(ConfigError, match=r"metric python:m:f failed on row r1: SystemExit: 2"):
        score(lambda prediction, example: sys.exit(2))


CALLS: list[str] = []


def counted(prediction: str, target: str) -> bool:
    CALLS.append(prediction)
    return prediction == target


def useless(prediction: str, target: str) -> str:
    return "fine"


def rows(path: Path) -> Path:
    lines = [json.dumps({"input": f"row {n}", "target": f"t{n}"}) for n in range(8)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_nothing_is_asked_before_the_metric_is_tried(tmp_path: Path) -> None:
    client = ScriptedClient(lambda _: "t1")
    config = RunConfig(dataset=rows(tmp_path / "d.jsonl"), prompt="Say", metric=counted)  # type: ignore[arg-type]
    CALLS.clear()
    evaluate(config, models=Models(client, client))
    assert CALLS[:9] == ["t0"] + ["t1"] * 8
    CALLS.clear()
    estimate_evaluation(config, models=Models(client, client))
    assert CALLS == ["t0"]
    bad = config.model_copy(update={"metric": f"python:{__name__}:useless"})
    sent: list[Any] = []
    client = ScriptedClient(lambda messages: sent.append(messages) or "x")
    with pytest.raises(ConfigError, match=r"returned 'fine' on .*d\.jsonl line 1. Return a number"):
        evaluate(bad, models=Models(client, client))
    assert not sent


def test_a_registered_metric_is_tried_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoprompt.metrics import registry

    answers: list[Any] = ["fine", KeyError("no such field")]

    class Own(ExactMatch):
        def score(self, prediction: Prediction, example: Example) -> Any:
            returned = answers.pop(0)
            if isinstance(returned, Exception):
                raise returned
            return returned

    monkeypatch.setitem(registry._FACTORIES, "own", Own)
    sent: list[Any] = []
    client = ScriptedClient(lambda messages: sent.append(messages) or "x")
    config = RunConfig(dataset=rows(tmp_path / "d.jsonl"), prompt="Say", metric="own")
    with pytest.raises(ConfigError, match=r"returned 'fine' on .*line 1. Return a Score with a value in"):
        evaluate(config, models=Models(client, client))
    with pytest.raises(ConfigError, match=r"failed on .*line 1: KeyError: 'no such field' \(.*line \d+\)"):
        evaluate(config, models=Models(client, client))
    assert not sent


def test_the_page_of_metrics_says_what_is_so(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "metrics.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    write(folder / "tm_page.py", code)
    assert get_metric("python:tm_page:is_answer").score(Prediction("x", "x"), ROW).reason == "expected Ann"
    table = page.partition("| parameter | gets |")[2].partition("| any other |")[0]
    names = re.findall(
        r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines()[2:] if "|" in line)
    )
    assert len(names) > 20
    assert set(names) <= set(ROLES)
