"""From files to trials: combinations, names that stay, doubles, and everything that is wrong at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from batches import Home, write_metric
from fakes import write_rows

from autoprompt.batch.trials import Batch, check_unchanged, from_record, load_batch, select, to_record
from autoprompt.errors import ConfigError, StoreError, UsageError


def load(*files: Path, **environ: str) -> Batch:
    return load_batch(files, environ=environ)


def ids(batch: Batch) -> list[str]:
    return [trial.id for trial in batch.trials]


def test_a_matrix_is_every_combination_and_include_adds_to_it(home: Home) -> None:
    path = home.write(
        defaults=home.defaults(),
        matrix={"preset": ["quick", "standard"], "seed": [0, 1]},
        include=[{"seed": 7, "temperature": 0.5}],
    )
    found = load(path)
    assert [dict(trial.own) for trial in found.trials] == [
        {"preset": "quick", "seed": 0},
        {"preset": "quick", "seed": 1},
        {"preset": "standard", "seed": 0},
        {"preset": "standard", "seed": 1},
        {"temperature": 0.5, "seed": 7},
    ]
    last = found.trials[-1].config
    assert (last.seed, last.temperature, last.model, last.max_val) == (7, 0.5, "m", 12)
    lines = path.read_text(encoding="utf-8").splitlines()
    begins = next(
        number for number, line in enumerate(lines) if '"seed": 7' in line
    )  # the line before, from 1
    assert found.trials[-1].where == f"{path} line {begins}"
    assert found.name == "b"


def test_ids_stay_whatever_the_order_and_the_folder(home: Home) -> None:
    one = load(home.write(defaults=home.defaults(), matrix={"seed": [0, 1], "preset": ["quick", "standard"]}))
    moved = home.path / "elsewhere"
    moved.mkdir()
    write_rows(moved / "rows.jsonl", range(40))
    path = moved / "b.yaml"
    spec = {"matrix": {"preset": ["standard", "quick"], "seed": [1, 0]}, "defaults": home.defaults()}
    path.write_text(json.dumps(spec), encoding="utf-8")
    assert sorted(ids(load(path))) == sorted(ids(one))


@pytest.mark.parametrize("change", ["rows", "prompt", "cap"])
def test_what_changes_the_outcome_is_another_trial(home: Home, change: str) -> None:
    before = ids(load(home.write_batch()))
    more = {"prompt": {"prompt": "Another."}, "cap": {"max_calls": 500}}.get(change, {})
    if change == "rows":
        write_rows(home.path / "rows.jsonl", range(41))
    path = home.write(defaults=home.defaults(**more), matrix={"seed": [0, 1]})
    assert not set(before) & set(ids(load(path)))


def test_what_only_changes_its_pace_is_the_same_trial(home: Home) -> None:
    before = ids(load(home.write_batch()))
    path = home.write(defaults=home.defaults(concurrency=9, rpm=5, timeout=3), matrix={"seed": [0, 1]})
    assert ids(load(path)) == before


def test_doubles_run_once_and_it_is_said(home: Home) -> None:
    found = load(home.write_batch(seeds=(0, 1, 0), include=[{"seed": 1}]))
    assert len(found.trials) == 2
    assert [warning.partition(": ")[2] for warning in found.warnings] == [
        "seed=0 duplicates seed=0; it runs once",
        "seed=1 duplicates seed=1; it runs once",
    ]


def test_a_file_that_is_given_again_runs_once_and_it_is_said(home: Home) -> None:
    one, other = home.write("a.yaml", **home.defaults()), home.write("b.yaml", **home.defaults(seed=7))
    link = home.path / "link.yaml"
    link.symlink_to(one.name)
    (home.path / "sub").mkdir()
    found = load(one, other, one, link, home.path / "sub" / ".." / "a.yaml", one)
    assert [trial.label for trial in found.trials] == ["config=a", "config=b"]
    assert found.name == "a_b"
    assert list(found.warnings) == [
        f"{one}: given twice; it runs once",
        f"{link}: the same file as {one}; it runs once",
        f"{home.path / 'sub' / '..' / 'a.yaml'}: the same file as {one}; it runs once",
    ]
    batch = home.write_batch()
    found = load(batch, batch)
    assert (len(found.trials), list(found.warnings)) == (2, [f"{batch}: given twice; it runs once"])


def test_a_link_from_another_folder_names_other_data(home: Home) -> None:
    one = home.write("a.yaml", **home.defaults())
    (home.path / "sub").mkdir()
    write_rows(home.path / "sub" / "rows.jsonl", range(60))
    link = home.path / "sub" / "a.yaml"
    link.symlink_to(one)
    found = load(one, link)
    assert (len(found.trials), found.warnings) == (2, ())


def test_a_default_that_is_written_out_changes_nothing(home: Home) -> None:
    found = load(
        home.write(defaults=home.defaults(), include=[{"max_demos": 5}, {"max_demos": 5, "seed": 0}])
    )
    assert len(found.trials) == 1


def test_config_files_of_runs_are_a_trial_each(home: Home) -> None:
    files = [home.write(f"{name}.yaml", **home.defaults(seed=n)) for n, name in enumerate("ab")]
    files.append(home.write("c.yaml", **home.defaults(seed=7), max_drop=0.1))  # for `check`
    found = load(*files)
    assert [trial.label for trial in found.trials] == ["config=a", "config=b", "config=c"]
    assert found.name == "a_b_c"
    with pytest.raises(ConfigError, match=r"d\.yaml line \d+: replay: only `autoprompt check` can replay"):
        load(home.write("d.yaml", **home.defaults(seed=7), replay="a.jsonl"))


def test_a_prompt_from_a_file_is_looked_for_beside_the_yaml(home: Home) -> None:
    (home.path / "sub").mkdir()
    (home.path / "sub" / "zh.txt").write_text("这是 A 还是 B？\n", encoding="utf-8")
    path = home.write("sub/b.yaml", defaults=home.defaults(dataset="../rows.jsonl"),
                      include=[{"prompt": "@zh.txt"}])  # fmt: skip
    (trial,) = load(path).trials
    assert trial.config.prompt == "这是 A 还是 B？"
    assert trial.label == "prompt=@zh.txt"


def test_a_trials_own_settings_are_above_a_variable_and_defaults_below(home: Home) -> None:
    path = home.write(defaults=home.defaults(max_demos=3), matrix={"seed": [5]})
    (trial,) = load(path, AUTOPROMPT_SEED="9", AUTOPROMPT_MAX_DEMOS="7").trials
    assert (trial.config.seed, trial.config.max_demos) == (5, 7)


def test_everything_that_is_wrong_in_all_files_is_named_with_its_line(home: Home) -> None:
    files = [home.write(f"good{n}.yaml", **home.defaults(seed=n)) for n in range(8)]
    (home.path / "typo.yaml").write_text("dataset: rows.jsonl\nprompt: x\nsede: 3\n", encoding="utf-8")
    (home.path / "lost.yaml").write_text("prompt: x\ndataset: none.jsonl\n", encoding="utf-8")
    (home.path / "broken.yaml").write_text("prompt: [\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(*files, *(home.path / f"{name}.yaml" for name in ("typo", "lost", "broken")))
    lines = str(caught.value).splitlines()
    assert "typo.yaml line 3: sede: unknown key. Did you mean 'seed'?" in lines[0]
    assert "no such file" in lines[1]
    assert "none.jsonl: no such file" in lines[1]
    assert "broken.yaml line 2: not YAML" in lines[2]
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("matrix:\n  seeds: [1]\n", "line 2: matrix.seeds: unknown key. Did you mean 'seed'?"),
        ("matrix:\n  colour: [1]\n", "line 2: matrix.colour: unknown key. Known keys: max_calls,"),
        ("matrix:\n  seed: 3\n", "line 2: matrix.seed: expected a list of values, e.g. [3]"),
        ("matrix:\n  seed: []\n", "line 2: matrix.seed: expected a list"),
        ("matrix:\n  preset: [quick, slow]\n", "line 2: matrix.preset.1: expected 'quick'"),
        ("defaults:\n  promt: x\n", "line 2: defaults.promt: unknown key. Did you mean 'prompt'?"),
        ("matix:\n  seed: [1]\n", "line 1: matix: unknown key. Did you mean 'matrix'?"),
        ("name: ../x\nmatrix: {seed: [1]}\n", "line 1: name: '../x' is no name for a folder"),
        ("fail_fast: true\n", "line 1: no trials: add `matrix`, `include` or `defaults`"),
        ("executor:\n  kind: slurm\n", "line 2: executor.kind: expected 'local' or 'ray'"),
        ("executor: {num_cpus: 2}\nmatrix: {seed: [1]}\n", "num_cpus needs kind: ray; add it"),
        (
            "executor: {kind: ray, address: 'http://x'}\n",
            "expected auto, local, HOST:PORT or ray://HOST:PORT",
        ),
    ],
)
def test_faults_of_a_batch_file(home: Home, text: str, said: str) -> None:
    path = home.path / "b.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert said in str(caught.value)


def test_two_batch_files_are_no_batch(home: Home) -> None:
    with pytest.raises(UsageError, match="one after the other"):
        load(home.write_batch("one.yaml"), home.write_batch("two.yaml"))


def test_trials_are_chosen_by_setting_or_id(home: Home) -> None:
    path = home.write(defaults=home.defaults(), matrix={"preset": ["quick", "standard"], "seed": [0, 1]})
    trials = load(path).trials
    assert [t.label for t in select(trials, ["seed=1"])] == [
        "preset=quick, seed=1",
        "preset=standard, seed=1",
    ]
    assert [t.id for t in select(trials, [trials[2].id[:15]])] == [trials[2].id]
    assert len(select(trials, ["preset=q*", "standard-seed-0*"])) == 3
    assert len(select(trials, ["model=m"])) == 4
    with pytest.raises(UsageError, match="'seed=4' matches no trial; known: quick-seed-0"):
        select(trials, ["seed=4"])


def test_a_trial_comes_back_from_its_record(home: Home) -> None:
    (trial,) = load(home.write(defaults=home.defaults(labels=["A", "B"]), matrix={"seed": [3]})).trials
    again = from_record(json.loads(json.dumps(to_record(trial))))
    assert again.config.model_fields_set == trial.config.model_fields_set
    assert dict(again.config) | {"memory_file": 0} == dict(trial.config) | {"memory_file": 0}
    assert (again.id, again.own, again.where) == (trial.id, trial.own, trial.where)
    assert again.sha256 == trial.sha256
    assert set(trial.sha256) == {"dataset"}


@pytest.mark.parametrize("name", ["flow.yaml", "tools.py"])
def test_an_edited_workflow_makes_another_trial(home: Home, name: str) -> None:
    path = home.write_batch(defaults=home.write_workflow())
    before = load(path).trials
    assert set(before[0].sha256) == {"dataset", "workflow", "tools"}
    check_unchanged(before[0])
    with (home.path / name).open("a", encoding="utf-8") as stream:
        stream.write("# a word more\n")
    assert not {t.id for t in before} & {t.id for t in load(path).trials}
    with pytest.raises(StoreError, match=f"{name} changed since the batch of trial"):
        check_unchanged(before[0])


def test_a_mended_metric_makes_another_trial(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(home.path))
    path = home.write_batch(defaults=home.defaults(metric="python:metric_of_trials:m"))
    write_metric(home, monkeypatch, "metric_of_trials")
    before = load(path).trials
    assert set(before[0].sha256) == {"dataset", "metric"}
    check_unchanged(before[0])
    assert ids(load(path)) == [trial.id for trial in before]
    write_metric(home, monkeypatch, "metric_of_trials", "# kinder\n")
    assert not {t.id for t in before} & {t.id for t in load(path).trials}
    with pytest.raises(StoreError, match="the code of python:metric_of_trials:m changed since the batch"):
        check_unchanged(before[0])


def test_a_metric_that_is_not_there_is_named_with_its_line(home: Home) -> None:
    path = home.write_batch(defaults=home.defaults(metric="python:no_such_module_here:m"))
    with pytest.raises(ConfigError, match=r"b\.yaml line \d+: metric python:no_such_module_here:m: "):
        load(path)
