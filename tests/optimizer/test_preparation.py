"""What is settled before the first call."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fakes import PROMPT, run_config, write_rows

from autoprompt.dataset.checks import input_id
from autoprompt.errors import BudgetTooSmallError, ConfigError, DatasetError, PromptError, Voice, tell
from autoprompt.llm.prices import Prices
from autoprompt.measure.cost import FREE_OUTPUT_TOKENS, LABEL_OUTPUT_TOKENS
from autoprompt.optimizer import prepare as preparation
from autoprompt.optimizer.agents.scientific import MOST_CALLS
from autoprompt.optimizer.forecast import estimate_run
from autoprompt.optimizer.prepare import Preparation, prepare, smallest_gain_at_best, smallest_gain_of
from autoprompt.optimizer.search.plan import DEPTHS, FEWEST_ROWS, fewest_calls
from autoprompt.runs.listing import RunStore, record_opening
from autoprompt.settings.records import RunConfig
from autoprompt.settings.resolve import as_complete
from autoprompt.text.answers.reasoning import request
from autoprompt.text.scripts import estimate_tokens

MEANT = "Did you mean {input}?"
NO_FIELD = "is not a field of the rows (input, target), so it is sent unchanged."
SEALED = "is the target, which is never filled in, so it is sent unchanged. Remove it from the prompt."


def told(found: Preparation) -> list[str]:
    return [tell(warning, Voice.CLI) for warning in found.splits.warnings]


def prepared(folder: Path, **changes: Any) -> Preparation:
    return prepare(run_config(folder, **changes))


def test_rows_labels_plan_and_cap(tmp_path: Path) -> None:
    found = prepared(tmp_path)
    assert found.splits.sizes == {"train": 60, "val": 45, "test": 45}
    assert found.labels == ("A", "B")
    assert found.max_iterations == DEPTHS["quick"].max_iterations
    assert found.fields == ("input",)
    assert set(found.plan.race_ids + found.plan.fresh_ids) == {r.id for r in found.splits.val}
    assert found.max_calls >= fewest_calls(found.plan, 45, found.depth.writers)


def test_a_prompt_over_its_own_cap_is_warned_of(tmp_path: Path) -> None:
    tokens = estimate_tokens(PROMPT)
    assert not [w for w in told(prepared(tmp_path, max_prompt_tokens=tokens)) if "your prompt has" in w]
    (said,) = (w for w in told(prepared(tmp_path, max_prompt_tokens=5)) if "your prompt has" in w)
    assert said == (
        f"--set max_prompt_tokens: your prompt has about {tokens} tokens, more than 5, so the run tries "
        "no longer one. Raise the limit."
    )


def test_a_test_that_many_runs_have_opened_is_said_before_it_costs_anything(tmp_path: Path) -> None:
    test = prepared(tmp_path).splits.test
    path = RunStore(run_config(tmp_path).runs_dir).openings_path
    for run in range(15):
        warnings = [w for w in prepared(tmp_path).splits.warnings if w.code == "dataset.test-opened-often"]
        assert bool(warnings) == (run >= 5)
        # Not all the runs have opened every row.
        rows = test if run % 2 == 0 else test[:1]
        record_opening(path, [input_id(row.content) for row in rows], run_id=f"{run}")
    assert [w for w in told(prepared(tmp_path)) if "opened" in w] == [
        "15 runs have already opened these test rows, so a good score on them may be luck. Label 45 new rows "
        "and give them as --test FILE."
    ]


def test_an_analyst_who_tests_is_shown_more_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoprompt.optimizer.prepare.check_analyst", lambda _: None)  # pandas, a sandbox
    plain, tested = prepared(tmp_path), prepared(tmp_path, analyst="scientific", sandbox="none")
    assert (plain.plan.train_batch, tested.plan.train_batch) == (16, 48)
    assert tested.max_calls >= plain.max_calls + plain.max_iterations * 32
    writers = tested.depth.writers
    needed = fewest_calls(tested.plan, len(tested.splits.test), 2 * MOST_CALLS["scientific"] + writers)
    assert estimate_run(tested, Prices()).fewest_calls == needed
    rows = {"max_val": 45, "max_test": 45, "analyst": "scientific", "sandbox": "none"}
    assert prepared(tmp_path, **rows, max_calls=needed).max_calls == needed
    with pytest.raises(BudgetTooSmallError, match=f"Give max_calls={needed} or more"):
        prepared(tmp_path, **rows, max_calls=needed - 1)
    few = tmp_path / "few"
    few.mkdir()
    assert prepared(few, analyst="scientific", sandbox="none", rows=60).plan.train_batch == 20


def test_a_metric_that_cannot_be_used_is_refused_before_the_first_call(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'exact_match'"):
        prepared(tmp_path, metric="exactmatch")
    with pytest.raises(ConfigError, match="tolerence: metric numeric: unknown option"):
        prepared(tmp_path, metric="numeric", metric_options={"tolerence": 1})
    with pytest.raises(DatasetError) as caught:
        prepared(tmp_path, metric="numeric")
    first, others, second, more = str(caught.value).splitlines()
    assert re.match(r".*\.jsonl line 1: the target 'A' is no number; fix it, or choose another metric", first)
    assert "the target 'B' is no number" in second
    counts = [int(number) for number in re.findall(r"(\d+) more$", f"{others}\n{more}", re.M)]
    assert sum(counts) == 150 - 2 - 2 * 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "metric llm_judge needs the option 'rubric'"),
        ({"rubrik": "Is it kind?"}, "rubrik: metric llm_judge: unknown option. Its options: rubric."),
        ({"rubric": 3}, "rubric: metric llm_judge: expected a text, found 3"),
    ],
)
def test_the_options_of_a_judge_are_checked_without_its_model(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        prepared(tmp_path, metric="llm_judge", metric_options=options)


def test_reasoning_is_tried_where_answers_are_short_and_there_is_room(tmp_path: Path) -> None:
    assert prepared(tmp_path).can_reason
    assert not prepared(tmp_path, no_reasoning=True).can_reason
    assert not prepared(tmp_path, max_output_tokens=100).can_reason
    for length, is_short in ((20, True), (200, False)):
        path = tmp_path / f"{length}.jsonl"
        rows = [{"input": f"text {n}", "target": f"{n} " + "x" * length} for n in range(60)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        assert prepare(RunConfig(dataset=path, prompt=PROMPT)).can_reason is is_short


def test_a_prompt_that_asks_to_reason_without_room_for_it_is_warned_of(tmp_path: Path) -> None:
    prompt = f"{PROMPT}\n{request(PROMPT, ('A', 'B'))}"
    assert prepared(tmp_path, prompt=prompt).splits.warnings == ()
    (said,) = told(prepared(tmp_path, prompt=prompt, max_output_tokens=32))
    assert "but 32 tokens are too few for that" in said


def test_a_preset_caps_rows_unless_the_user_does(tmp_path: Path) -> None:
    assert prepared(tmp_path, rows=400).splits.sizes["val"] == 50
    assert prepared(tmp_path, max_val=80).splits.sizes["val"] == 80
    assert prepared(tmp_path, max_test=70).splits.sizes == {"train": 160, "val": 50, "test": 70}
    assert prepared(tmp_path, preset="standard").splits.sizes["val"] == 120


def test_the_users_numbers_go_before_the_presets(tmp_path: Path) -> None:
    found = prepared(tmp_path, max_iterations=9, max_calls=777)
    assert (found.max_iterations, found.max_calls) == (9, 777)


def test_the_cap_of_a_preset_has_room_for_the_test_of_a_cheaper_end(tmp_path: Path) -> None:
    one, both = (prepared(tmp_path, rows=400, pick=pick) for pick in ("highest", "cheapest"))
    assert both.max_calls - one.max_calls == both.plan.pick_calls
    assert both.plan.pick_calls == int(0.15 * one.max_calls) < len(both.plan.fresh) + len(both.splits.test)
    large = prepared(tmp_path, rows=400, preset="standard")
    assert large.plan.pick_calls == len(large.plan.fresh) + len(large.splits.test)


def test_a_cap_too_small_is_refused_with_the_smallest_that_works(tmp_path: Path) -> None:
    with pytest.raises(BudgetTooSmallError, match="max_calls") as error:
        prepared(tmp_path, max_calls=1)
    needed = int(str(error.value).split("Give max_calls=")[1].split()[0])
    with pytest.raises(BudgetTooSmallError, match=f"Give max_calls={needed} or more"):
        prepared(tmp_path, max_calls=needed - 1)
    found = prepared(tmp_path, max_calls=needed)
    assert (found.splits.sizes["val"], found.splits.sizes["test"]) == (FEWEST_ROWS, FEWEST_ROWS)
    assert needed == fewest_calls(found.plan, FEWEST_ROWS, found.depth.writers)


def test_a_large_file_is_used_as_far_as_the_calls_go(tmp_path: Path) -> None:
    found = prepared(tmp_path, rows=2000, preset="standard", max_calls=400)
    sizes = found.splits.sizes
    assert (sizes["train"], sizes["val"], sizes["test"]) == (800, 60, 60)
    (said,) = [w for w in told(found) if "not used" in w]
    assert said == (
        "1,080 rows are not used: test is limited to 60 by the limit of 400 calls and val is limited to 60 "
        "by the limit of 400 calls. To use them, give --max-calls 2582 and --set max_test=600 and "
        "--set max_val=600."
    )
    stored = RunConfig(**found.config.model_dump(exclude_none=True))
    assert prepare(as_complete(stored)).splits == found.splits
    all_of_it = prepared(tmp_path, preset="standard", max_calls=2582, max_test=600, max_val=600)
    assert not [w for w in told(all_of_it) if "not used" in w]


def test_what_the_user_has_capped_stays_whatever_the_calls(tmp_path: Path) -> None:
    found = prepared(tmp_path, rows=2000, preset="standard", max_calls=400, max_test=80)
    assert found.splits.sizes["test"] == 80
    assert FEWEST_ROWS <= found.splits.sizes["val"] < 60
    with pytest.raises(BudgetTooSmallError, match="600 test rows"):
        prepared(tmp_path, preset="standard", max_calls=400, max_test=600)


def test_no_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"no prompt to start from.*items\.task\.yaml"):
        prepared(tmp_path, prompt=None)


def test_a_locked_passage_must_be_in_the_prompt(tmp_path: Path) -> None:
    assert prepared(tmp_path, locked=("the item",)).text == PROMPT
    with pytest.raises(PromptError, match="does not hold the locked passage 'the thing'"):
        prepared(tmp_path, locked=("the thing",))


def test_every_row_has_the_fields_that_the_prompt_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "desks.jsonl"
    rows = [{"input": f"item {n}", "desk": f"d{n}", "target": "AB"[n % 2]} for n in range(40)]
    del rows[0]["desk"], rows[6]["desk"]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(DatasetError, match="no field 'desk', but the prompt asks for it") as refused:
        prepared(tmp_path, dataset=path, prompt="Sort {input} for {desk}, {nobody}.")
    first, also = str(refused.value).splitlines()
    assert (first.split(": ")[0], also) == (f"{path} line 1", "  likewise line 7")
    found = prepared(tmp_path, dataset=path, prompt="Sort {input}, {nobody}.")
    assert found.fields == ("input",)
    val = write_rows(tmp_path / "val.jsonl", range(100, 120))
    path.write_text("\n".join(map(json.dumps, rows[7:])), encoding="utf-8")
    with pytest.raises(DatasetError, match=r"val\.jsonl line 1: no field 'desk'"):
        prepared(tmp_path, dataset=path, val=val, prompt="Sort {input} for {desk}.")


def test_a_field_that_can_be_no_placeholder_is_said(tmp_path: Path) -> None:
    path = tmp_path / "spaced.jsonl"
    rows = [{"the text": f"item {n}", "note": "n", "target": "AB"[n % 2]} for n in range(40)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for text in ("{the text}", "{ the text }", "{{the text}}"):
        with pytest.raises(PromptError, match=f"{re.escape(text)} is not a placeholder"):
            prepared(tmp_path, dataset=path, input_field="the text", prompt=f"Sort {text} by {{note}}.")
    assert prepared(tmp_path, dataset=path, input_field="the text").fields == ("the text", "note")


def test_the_sidecar_says_what_the_config_does_not(tmp_path: Path) -> None:
    rows = [{"text": f"item {n}", "target": "AB"[n % 2]} for n in range(40)]
    path = tmp_path / "said.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    sidecar = tmp_path / "said.task.yaml"
    sidecar.write_text("prompt: '@p.txt'\ninput_field: text\nlocked: ['A or B']\n", encoding="utf-8")
    (tmp_path / "p.txt").write_text("@ all: A or B?\n", encoding="utf-8")
    found = prepare(RunConfig(dataset=path, preset="quick"))
    assert (found.text, found.config.input_field, found.config.locked) == (
        "@ all: A or B?", "text", ("A or B",),
    )  # fmt: skip
    assert prepare(found.config).text == found.text
    assert prepare(RunConfig(dataset=path, prompt=PROMPT, labels=("B", "A"))).config.locked == ()
    with pytest.raises(DatasetError, match="no field 'input'"):
        prepare(RunConfig(dataset=path, input_field="input"))
    stored = as_complete(found.config.model_copy(update={"prompt": "@nowhere"}))
    assert prepare(stored.model_copy(update={"locked": ()})).text == "@nowhere"


def test_a_prompt_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("Say A\nor B.\n", encoding="utf-8")
    assert prepared(tmp_path, prompt=f"@{tmp_path}/p.txt").text == "Say A\nor B."
    with pytest.raises(PromptError, match=r"prompt: .*none\.txt cannot be read"):
        prepared(tmp_path, prompt=f"@{tmp_path}/none.txt")


def test_a_missing_dataset_is_the_datasets_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError):
        prepared(tmp_path, dataset=tmp_path / "nowhere.jsonl")


def test_answers_are_short_for_labels_and_long_for_texts(tmp_path: Path) -> None:
    labels = prepared(tmp_path).task_options
    assert (labels.max_output_tokens, labels.labels) == (LABEL_OUTPUT_TOKENS, ("A", "B"))
    assert labels.wants_label_probs
    assert labels.seed == 0
    free = prepared(tmp_path, metric="contains").task_options
    assert (free.max_output_tokens, free.labels) == (FREE_OUTPUT_TOKENS, ())
    assert prepared(tmp_path, max_output_tokens=7).task_options.max_output_tokens == 7


def test_a_few_rows_are_enough_to_prepare(tmp_path: Path) -> None:
    small = write_rows(tmp_path / "small.jsonl", range(12))
    found = prepared(tmp_path, dataset=small)
    assert found.plan.fresh == ()
    assert any("mostly chance" in warning for warning in told(found))


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (
            "Sort {inputs}.",
            "{inputs} is not a field of the rows (input, target), so it is sent unchanged. " + MEANT,
        ),
        (
            "Sort {ticket}.",
            "{ticket} is not a field of the rows (input, target), so it is sent unchanged. " + MEANT,
        ),
        (
            "Sort {input}: {when}.",
            "{when} is not a field of the rows (input, target), so it is sent unchanged.",
        ),
        (
            'Sort {input}, as {"label": 1} or {}; never {else}',
            "{else} is not a field of the rows (input, target), so it is sent unchanged.",
        ),
        ('Sort {input}, as {"label": 1} or {}.', None),
        (
            "Sort {input}: {target}.",
            f"{{target}} {SEALED}",
        ),
    ],
)
def test_a_placeholder_that_is_no_field_is_warned_of(tmp_path: Path, prompt: str, said: str | None) -> None:
    found = [w for w in told(prepared(tmp_path, prompt=prompt)) if "sent unchanged" in w]
    assert found == ([said] if said else [])


def spaced_rows(folder: Path) -> Path:
    """A file whose columns are called as people call them."""
    path = folder / "spaced.jsonl"
    rows = [{"Text": f"item {n}", "Ticket Nr": str(n), "Label": "AB"[n % 2]} for n in range(40)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


RENAME = (
    "rename the field 'Ticket Nr' to Ticket_Nr and write {Ticket_Nr}, since placeholders are letters, digits "
    "and _"
)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Sort {Text}.", None),
        ('Sort {Text} as {"Ticket Nr": 1, "Label": {"a": 1}}.', None),
        (
            "Sort {Text} of {Ticket Nr}.",
            f"{{Ticket Nr}} is not a placeholder, so it is sent unchanged. {RENAME[0].upper()}{RENAME[1:]}.",
        ),
        ("Sort { Text }.", "{ Text } is not a placeholder, so it is sent unchanged. Write {Text}."),
        ("Sort {{ text }}.", "{{ text }} is not a placeholder, so it is sent unchanged. Write {Text}."),
        ("Sort {{ input }}.", "{{ input }} is not a placeholder, so it is sent unchanged. Write {Text}."),
        ("Sort {{Text}}.", "{{Text}} is sent with braces around the value of the field. Write {Text}."),
        (
            "Sort {Text}: {{ Label }}.",
            f"{{{{ Label }}}} {SEALED}",
        ),
        (
            "Sort {Text}: {{Label}}.",
            f"{{Label}} {SEALED}",
        ),
        (
            "Sort {Text} of {Ticket_Nr}.",
            "{Ticket_Nr} is not a field of the rows (Text, Ticket Nr, Label), so it is sent unchanged. "
            f"If you mean 'Ticket Nr', {RENAME}.",
        ),
        (
            "Sort {TEXT}.",
            "{TEXT} is not a field of the rows (Text, Ticket Nr, Label), so it is sent unchanged. "
            "Did you mean {Text}?",
        ),
    ],
)
def test_a_field_in_braces_that_is_not_filled_in_is_warned_of(
    tmp_path: Path, prompt: str, said: str | None
) -> None:
    fields = {"input_field": "Text", "target_field": "Label"}
    found = told(prepared(tmp_path, dataset=spaced_rows(tmp_path), prompt=prompt, **fields))
    assert [warning for warning in found if "{" in warning] == ([said] if said else [])


def test_the_preset_that_caps_the_rows_is_named(tmp_path: Path) -> None:
    found = prepared(tmp_path, rows=400)
    (said,) = [w for w in told(found) if "not used" in w]
    assert "test is limited to 50 by the preset quick and val is limited to 50" in said
    (own,) = [w for w in told(prepared(tmp_path, max_val=50, max_test=50)) if "not used" in w]
    assert "preset" not in own
    stored = RunConfig(**found.config.model_dump(exclude_none=True))
    assert prepare(as_complete(stored)).splits.warnings == found.splits.warnings


def test_rows_that_the_prompt_shows_as_examples_prove_nothing(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", range(1000, 1100))
    plain = prepared(tmp_path, dataset=rows)
    shown = [plain.splits.train[0], plain.splits.val[0], plain.splits.test[0]]
    few_shot = PROMPT + "".join(f"\n- {row.input}  -> {row.target}" for row in shown)
    found = prepared(tmp_path, dataset=rows, prompt=few_shot)
    for part in ("train", "val", "test"):
        assert list(getattr(found.splits, part)) == list(getattr(plain.splits, part))[1:]
    assert "3 rows left out of train, val and test: the prompt shows them as examples." in told(found)


@pytest.mark.parametrize("rows", [30, 45, 60, 90, 150, 300])
def test_the_smallest_gain_at_best_is_never_above_the_other(tmp_path: Path, rows: int) -> None:
    found = prepare(run_config(tmp_path, rows=rows))
    at_best = smallest_gain_at_best(found.plan, found.depth, found.splits.train)
    of_validation = smallest_gain_of(found.plan, found.depth)
    assert at_best is None or of_validation is None or at_best <= of_validation
    for kept in range(found.plan.train_batch, len(found.splits.train)):
        more = smallest_gain_at_best(found.plan, found.depth, found.splits.train[:kept])
        assert at_best is not None
        assert more is None or at_best <= more


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"preset": "standard"},
        {"model": "local:qwen2.5-coder-1.5b"},
    ],
)
@pytest.mark.parametrize(("labels", "writers"), [(None, 0), ((), 1)])
def test_the_embedded_model_writes_rules_of_free_answers_alone(
    labels: tuple[str, ...] | None, writers: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    changes = {**changes, "labels": labels}
    found = prepared(tmp_path, **changes)
    whole = prepare(run_config(tmp_path, **changes), has_own_models=True)
    assert found.depth == DEPTHS[found.config.preset].describing(has_labels=not writers)
    assert (found.analyst_calls, whole.analyst_calls) == (0, 1)
    assert whole.depth.rewrites
    # Rows must not change their part with who writes.
    assert found.splits == whole.splits
    calls = estimate_run(found, Prices()).optimizer_calls
    assert calls == writers * found.max_iterations < estimate_run(whole, Prices()).optimizer_calls
    # A cap at its least has room for what is asked, and not for an analysis that nobody makes.
    plan, tests = found.plan, len(found.splits.test)
    assert estimate_run(found, Prices()).fewest_calls == fewest_calls(plan, tests, 0) + writers
    assert (
        estimate_run(whole, Prices()).fewest_calls == fewest_calls(plan, tests, 0) + 2 + whole.depth.writers
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"preset": "thorough"},
        {"max_demos": 0},
        {"prompt": PROMPT * 40, "max_prompt_tokens": 100},  # no demonstration fits
        {"prompt": "{input}\n" + PROMPT * 40, "max_prompt_tokens": 600},  # which each would repeat
        {"model": "gpt", "base_url": "http://host/v1"},
        {"model": "gpt", "base_url": "http://host/v1", "optimizer_model": "local"},
        {"optimizer_model": "gpt", "optimizer_base_url": "http://host/v1"},
        {"model": "local:/models/of-my-own.gguf"},
    ],
)
def test_it_rewrites_where_more_is_asked_for_or_little_else_is_left(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    found = prepared(tmp_path, **changes)
    assert found.depth == DEPTHS[found.config.preset]
    assert found.analyst_calls == 1


def test_it_rewrites_with_another_analyst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "check_analyst", lambda _: None)  # pandas may be missing
    assert prepared(tmp_path, analyst="scientific").depth.rewrites


@pytest.mark.parametrize(("train", "rewrites"), [(7, True), (8, False)])
def test_it_rewrites_where_too_few_rows_could_be_described(
    train: int, rewrites: bool, tmp_path: Path
) -> None:
    files = {"train": range(train), "val": range(100, 160)}
    paths = {part: write_rows(tmp_path / f"{part}.jsonl", numbers) for part, numbers in files.items()}
    found = prepare(RunConfig(prompt=PROMPT, no_test=True, **paths))
    assert found.depth.rewrites is rewrites
