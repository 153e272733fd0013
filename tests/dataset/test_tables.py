"""Rows in tables of other libraries, and in parts. The real libraries are tried if they are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from autoprompt import AutopromptError, Models, RunConfig, RunResult, estimate, evaluate, optimize, resume
from autoprompt.dataset.python_rows import parts_of, rows_of, to_frame
from autoprompt.errors import ConfigError, DatasetError
from autoprompt.llm import ScriptedClient
from autoprompt.runs import RunStore

ROWS = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
PARTS = {"train": ROWS[:20], "val": ROWS[20:40], "test": ROWS[40:]}


def models() -> Models:
    return Models(ScriptedClient(lambda messages: "A"))


class Pandas:
    """What tells a DataFrame of pandas: it iterates over its columns."""

    columns: tuple[str, ...] = ("input", "target")
    iloc = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def to_dict(self, orient: str) -> list[dict[Any, Any]]:
        assert orient == "records"
        return [{**row, 3: float("nan")} for row in ROWS]


class Polars:
    columns = ("input", "target")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def to_dicts(self) -> list[dict[str, Any]]:
        return ROWS


class HuggingFace(list):  # type: ignore[type-arg]
    features: ClassVar = {
        "input": SimpleNamespace(dtype="string"),
        "target": SimpleNamespace(names=["B", "A"], int2str=None),
    }


def hugging_face() -> HuggingFace:
    return HuggingFace({**row, "target": int(row["target"] == "A")} for row in ROWS)


def real(name: str, make: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: make(library(name))


def library(name: str) -> Any:
    found = pytest.importorskip(name)
    if found.__file__ is None:
        pytest.skip(f"{name} is a folder here, no package")  # `datasets/` of this project
    return found


TABLES: dict[str, Callable[[], Any]] = {
    "a list": lambda: ROWS,
    "like pandas": Pandas,
    "like polars": Polars,
    "like polars, lazy": lambda: SimpleNamespace(collect_schema=None, collect=Polars),
    "like PyArrow": lambda: SimpleNamespace(to_pylist=lambda: ROWS),
    "like Hugging Face": hugging_face,
    "pandas": real("pandas", lambda pandas: pandas.DataFrame(ROWS)),
    "polars": real("polars", lambda polars: polars.DataFrame(ROWS)),
    "polars, lazy": real("polars", lambda polars: polars.LazyFrame(ROWS)),
    "pyarrow": real("pyarrow", lambda pyarrow: pyarrow.Table.from_pylist(ROWS)),
    "datasets": real("datasets", lambda datasets: datasets.Dataset.from_list(ROWS)),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
def test_a_table_is_scored_as_its_rows(make: Callable[[], Any]) -> None:
    report = evaluate(RunConfig(prompt="A or B?"), rows=make(), models=models())
    assert [(row.input, row.ground_truth) for row in report.evaluation.rows] == [
        (row["input"], row["target"]) for row in ROWS
    ]


def test_a_class_without_a_label_is_no_target() -> None:
    unlabelled = HuggingFace([*hugging_face(), {"input": "item 60", "target": -1}])
    assert list(rows_of(unlabelled))[-1] == {"input": "item 60", "target": None}
    with pytest.raises(DatasetError, match=r"^rows\[60\]: the target 'target' is empty"):
        evaluate(RunConfig(prompt="A or B?"), rows=unlabelled, models=models())


def test_a_column_that_is_there_twice_is_refused() -> None:
    table = Pandas()
    table.columns = ("input", "target", "target")
    with pytest.raises(DatasetError, match=r"^rows has the column 'target' twice\. Rename one of them\.$"):
        evaluate(RunConfig(prompt="A or B?"), rows=table, models=models())


def test_a_series_of_pandas_is_no_table() -> None:
    series: Any = type("Series", (list,), {"iloc": (), "to_dict": lambda self: {}})(["item 1"])
    with pytest.raises(DatasetError, match=r"^rows\[0\]: 'item 1' is no row\. Give dicts"):
        evaluate(RunConfig(prompt="A or B?"), rows=series, models=models())


def test_missing_values_of_pandas_are_none() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([*ROWS, {"input": "item 60", "target": pandas.NA}])
    with pytest.raises(DatasetError, match=r"^rows\[60\]: the target 'target' is empty"):
        evaluate(RunConfig(prompt="A or B?"), rows=frame, models=models())
    dated = pandas.DataFrame([{**row, "day": pandas.NaT} for row in ROWS])
    assert evaluate(RunConfig(prompt="{input} {day}?"), rows=dated, models=models()).n == 60


@pytest.mark.parametrize(
    "names", [("train", "val", "test"), ("train", "validation", "test"), ("train", "dev", "test")]
)
def test_parts_are_the_parts_of_the_run(names: tuple[str, ...]) -> None:
    parts = dict(zip(names, PARTS.values(), strict=True))
    found = estimate(RunConfig(prompt="A or B?", max_calls=600), rows=parts, models=models())
    assert found.sizes == {"train": 20, "val": 20, "test": 20}


def test_a_dataset_dict_is_split_as_it_says() -> None:
    datasets = library("datasets")
    parts = datasets.DatasetDict({name: datasets.Dataset.from_list(rows) for name, rows in PARTS.items()})
    found = estimate(RunConfig(prompt="A or B?", max_calls=600), rows=parts, models=models())
    assert found.sizes == {"train": 20, "val": 20, "test": 20}


def test_a_missing_part_is_split_from_train() -> None:
    rows: Any = {"train": ROWS[:40], "test": ROWS[40:]}
    found = estimate(RunConfig(prompt="A or B?", max_calls=600), rows=rows, models=models())
    assert found.sizes["test"] == 20
    assert found.sizes["train"] + found.sizes["val"] == 40


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"a": ROWS}, r"^'a' is no known part; rows has 'a'\. Give rows=\{'train': \.\.\.,"),
        ({"val": ROWS, "dev": ROWS}, r"^'dev' is a second part for the same rows"),
        ({**PARTS, "val": []}, r"^rows\['val'\] is empty"),
        ({**PARTS, "val": [*ROWS[20:40], {"input": "x"}]}, r"^rows\['val'\] row 21: no field 'target'"),
        ({**PARTS, "test": [5]}, r"^rows\['test'\] row 1: 5 is no row"),
        (
            {**PARTS, "test": [{"input": {1, 2}, "target": "A"}]},
            r"^rows\['test'\] row 1: field 'input' holds set",
        ),
    ],
)
def test_a_fault_in_a_part_names_the_part(rows: Any, said: str) -> None:
    with pytest.raises(AutopromptError, match=said):
        estimate(RunConfig(prompt="A or B?", max_calls=600), rows=rows, models=models())


def test_an_evaluation_takes_one_part() -> None:
    with pytest.raises(
        DatasetError, match=r"^rows has the parts 'train', 'val', 'test', expected rows of one\."
    ):
        evaluate(RunConfig(prompt="A or B?"), rows=PARTS, models=models())


def test_one_row_is_no_part() -> None:
    assert parts_of({"input": "a", "target": "b"}) is None
    assert parts_of({}) is None


def run(folder: Path, seed: int = 0) -> RunResult:
    settings = {"runs_dir": folder / "runs", "no_memory": True, "no_cache": True, "max_calls": 600}
    return optimize(RunConfig(prompt="A or B?", seed=seed, **settings), rows=PARTS, models=models())


def test_parts_are_kept_for_resume_and_removed_with_their_last_run(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path, seed=1)
    (first.run_dir / "result.json").unlink()
    again = resume(first.run_id, runs_dir=tmp_path / "runs", models=models())
    assert isinstance(again, RunResult)
    assert again.verdict == first.verdict
    store, kept = RunStore(tmp_path / "runs"), tmp_path / "runs" / ".datasets"
    assert sorted(path.name.partition("-")[0] for path in kept.iterdir()) == ["test", "train", "val"]
    store.remove(first.run_id)
    assert len(list(kept.iterdir())) == 3
    store.remove(second.run_id)
    assert not kept.exists()


def test_results_become_tables_of_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    result = run(tmp_path)
    frame = result.to_pandas()
    assert list(frame.columns) == [
        *("id", "input", "expected", "original_answer", "original_score", "best_answer", "best_score")
    ]
    assert len(frame) == 20
    assert frame["best_score"].mean() == result.score == 0.5
    report = evaluate(RunConfig(prompt="A or B?"), rows=ROWS, against="B or A?", models=models())
    assert report.to_pandas()[["answer", "against_answer"]].drop_duplicates().values.tolist() == [["A", "A"]]


def test_without_pandas_its_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"^to_pandas\(\) needs pandas\. Install it: .*pandas"):
        to_frame([])
