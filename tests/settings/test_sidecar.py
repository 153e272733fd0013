from __future__ import annotations

from pathlib import Path

import pytest

from autoprompt.errors import ConfigError
from autoprompt.settings.sidecar import Task, find_sidecar, load_task


def task_of(folder: Path, text: str) -> Task:
    path = folder / "d.task.yaml"
    path.write_text(text, encoding="utf-8")
    return load_task(path)


def test_a_sidecar_says_what_the_task_is(tmp_path: Path) -> None:
    task = task_of(
        tmp_path,
        "prompt: 判断标题是否为标题党。\ntask: clickbait\ninput_field: headline\ntarget_field: label\n"
        "labels: [0, 1]\nmetric: numeric\nmetric_options: {tolerance: 0.5}\nmax_output_tokens: 8\n"
        "locked: [标题党]\n",
    )
    assert task.prompt == "判断标题是否为标题党。"
    assert task.labels == ("0", "1")
    assert task.metric_options == {"tolerance": 0.5}
    assert task.group_field is None
    assert "group_field" not in task.model_fields_set


def test_labels_mean_what_they_look_like(tmp_path: Path) -> None:
    assert task_of(tmp_path, "labels: [yes, no]").labels == ("yes", "no")
    assert task_of(tmp_path, "labels: [true, False]").labels == ("true", "false")
    assert task_of(tmp_path, "labels: [007, 1.5, 2024-01-01]").labels == ("007", "1.5", "2024-01-01")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("task: x\nlables: [a, b]", 2, "lables: unknown key. Did you mean 'labels'?"),
        ("targt: answer", 1, "targt: unknown key. Did you mean 'target_field'?"),
        ("prompt: p\nlabels:\n- a\n- [b]", 4, "labels.1"),
        ("labels: [a]", 1, "at least two labels"),
        ("labels: [a, a]", 1, "none twice"),
        ("task: x\n\nprompt: ' '", 3, "the prompt is empty"),
        ("max_output_tokens: 0", 1, "expected a number above 0, found 0"),
        ("prompt: say a\nlocked: [b]", 2, "does not hold the locked passage 'b'"),
    ],
)
def test_a_wrong_sidecar_is_named_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        task_of(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'd.task.yaml'} line {line}: ")
    assert said in str(caught.value)


def test_the_sidecar_lies_beside_the_dataset(tmp_path: Path) -> None:
    assert find_sidecar(tmp_path / "d.jsonl") is None
    shared = tmp_path / "d.task.yaml"
    shared.touch()
    assert find_sidecar(tmp_path / "d.csv") == shared
    assert find_sidecar(tmp_path / "d.train.jsonl") == shared
    assert find_sidecar(tmp_path / "d.v2.jsonl") is None
    own = tmp_path / "d.train.task.yaml"
    own.touch()
    assert find_sidecar(tmp_path / "d.train.jsonl") == own
