"""The end of a run as a person reads it."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from autoprompt.cli import render
from autoprompt.cli.output import clean
from autoprompt.cli.render import prompt_diff
from autoprompt.cli.run import evaluation_plan, run_plan
from autoprompt.errors import Problem
from autoprompt.evaluation.estimate import EvaluationEstimate
from autoprompt.optimizer.forecast import Estimate
from autoprompt.report import RunSummary
from autoprompt.report.records import Progress
from autoprompt.runs.result import Result
from autoprompt.settings.records import RunConfig

COST = {"unit": "usd", "amount": 0.00006, "cold": 0.00006, "warm": 0.00006}
RESULT: dict[str, Any] = {
    "schema_version": 3,
    "run_id": "r1",
    "run_dir": "runs/r1",
    "status": "finished",
    "stop_reason": "max_iterations",
    "verdict": "confirmed",
    "message": "Confirmed: 0.57 -> 0.86.",
    "metric": "exact_match",
    "original": {"score": 0.57, "ci95": [0.45, 0.68], "n": 72, "tokens_per_call": 61.2, "cost": COST},
    "best": {
        "score": 0.86,
        "ci95": [0.76, 0.92],
        "n": 72,
        "tokens_per_call": 371.0,
        "cost": {**COST, "amount": 0.0004},
        "components": {"prompt": "Answer 1 or 0 only."},
        "demos": [{"input": f"headline {n}", "output": str(n % 2)} for n in range(5)],
    },
    "ends": {
        "returned": "cheapest",
        "lines": ["Take it with `autoprompt runs export RUN:cdcdcd`."],
        "other": {"id": "cd" * 6, "score": 0.87, "ci95": [0.77, 0.93], "n": 72},
    },
    "p_value": 0.0001,
    "fixed": 24,
    "broken": 3,
    "validation": {"original": 0.6, "best": 0.84, "rows": 72},
    "calls": 1391,
    "tokens": {"task": 120_000, "optimizer": 4_000},
    "spending": {
        "task": {"prompt_tokens": 118_000, "completion_tokens": 2_000, "cost_usd": None},
        "optimizer": {"prompt_tokens": 3_000, "completion_tokens": 1_000, "cost_usd": None},
    },
    "cost_usd": None,
    "seconds": 431.0,
    "splits": {},
    "candidates": {"tried": 14, "accepted": 3},
    "model": "local",
    "optimizer_model": "local",
}


def shown(*parts: Any, width: int = 100) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False, emoji=False, color_system=None)
    for part in parts:
        render.show(part, console)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def ended(
    data: dict[str, Any],
    old: str = "",
    new: str = "",
    *,
    preset_cap: int | None = None,
    settings: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    **more: Any,
) -> Iterator[RenderableType]:
    """What is shown of a run with this `result.json`. old, new: the texts of its only prompt."""
    sides = {"original": {"prompt": old}, "best": {"prompt": new}}
    texts = {name: {**data[name], "components": texts} for name, texts in sides.items()}
    if len(data["original"].get("components", ())):
        texts = {}
    found = Result.from_dict({**data, **texts}, Path("runs/r1/result.json"))
    run = RunSummary(
        run_id="r1",
        path=Path("runs/r1"),
        kind="optimize",
        status="finished",
        created="",
        dataset="",
        model=data["model"],
        optimizer_model=data["optimizer_model"],
        metric=found.metric,
        verdict=found.verdict,
        headline="",
        explanation="",
        result=found,
        candidates=(),
        best_id="",
        lineage=(),
        steps=(),
        rounds=(),
        progress=Progress(),
        rows=(),
        rows_of="",
        confusion=(),
        spending=found.spending,
        calls=found.calls or 0,
        tokens=0,
        cost_usd=found.cost_usd,
        lessons_read=(),
        lessons=(),
        settings=settings or {},
        command="",
        split_sizes={},
        budget={"max_calls": preset_cap, **(limits or {})},
        warnings=(),
    )
    return render.result(run, **more)


def test_the_result() -> None:
    assert shown(*ended(RESULT, "Answer 1 or 0.", "Answer 1 or 0 only.")) == SHOWN.strip("\n")


def test_no_price_is_asked_for_of_a_model_whose_time_is_the_cost() -> None:
    best = {**RESULT["best"], "cost": {**COST, "unit": "seconds"}}
    text = shown(*ended({**RESULT, "best": best}, "Answer 1 or 0.", "Answer 1 or 0 only."))
    assert "cost unknown" in text
    assert "The price of" not in text


@pytest.mark.parametrize(
    ("original", "best", "said"),
    [
        ({"failed": 1}, {"unparsed": 2}, "1 test row failed and 2 answers could not be read (all tested"),
        ({}, {"unparsed": 1}, "1 answer could not be read (all tested"),
        ({"failed": 3}, {"is_original": True, "failed": 3}, "3 test rows failed"),
    ],
)
def test_lost_and_unread_rows_of_the_test_are_counted(
    original: dict[str, Any], best: dict[str, Any], said: str
) -> None:
    data = copy.deepcopy(RESULT)
    data["original"] |= original
    data["best"] |= best
    text = shown(*ended(data, "a", "b"))
    assert f"\n{said}" in text
    assert ("together" in text) == ("all tested" in said)


def test_of_several_prompts_each_changed_one_is_a_diff_under_its_name() -> None:
    data = copy.deepcopy(RESULT)
    texts = {"llm1.system": "Say it.", "tool1.ext_1.user": "Extract it.", "llm2.user": "Go on."}
    data["original"]["components"] = texts
    data["best"]["components"] = {**texts, "llm1.system": "Say it well."}
    data["best"]["demos"] = [{"input": "in", "output": "out", "component": "tool1.ext_1.user"}]
    text = shown(*ended(data, "joined", "joined, too"))
    assert "What changed in llm1.system\nSay it{+ well+}." in text
    assert (
        "What changed in tool1.ext_1.user\nDemonstrations shown before each of its inputs: 1\n  in -> out"
        in text
    )
    assert "Unchanged: llm2.user" in text
    assert "joined" not in text


def test_the_next_step_of_a_workflow_writes_its_file() -> None:
    data = copy.deepcopy(RESULT)
    assert "export r1 --to prompt." in shown(*ended(data, "a", "b"))
    data["original"]["components"] = {"llm1.system": "Say it."}
    data["best"]["components"] = {"llm1.system": "Say it well."}
    for data["best"]["demos"] in ([], [{"input": "in", "output": "out", "component": "llm1.system"}]):
        steps = shown(*ended(data, settings={"workflow": "apps/dify.yml"}))
        assert "  autoprompt runs export r1 --to dify.best.yml\n" in steps  # no other workflow's file
        steps = shown(*ended(data, settings={"workflow": "my flow.yaml"}))
        assert "  autoprompt runs export r1 --to 'my flow.best.yaml'\n" in steps


def test_no_gain_and_no_test() -> None:
    data = copy.deepcopy(RESULT)
    nothing = {"score": None, "ci95": None, "n": 0, "tokens_per_call": None}
    data["original"] = nothing
    data["best"] |= {**nothing, "demos": []}
    data |= {"verdict": "untested", "p_value": None, "cost_usd": 0.5}
    data["validation"] = {"original": None, "best": None, "rows": 0}
    text = shown(*ended(data, "same", "same"))
    assert "The prompt is unchanged." in text
    assert "95% interval" not in text
    assert "cost $0.50" in text
    assert "export r1 --to prompt.txt" in text


@pytest.mark.parametrize(
    ("settings", "is_original", "use"),
    [
        ({}, False, "runs export r1 --to prompt.yaml"),
        ({}, True, "runs export r1:ID --to prompt.yaml"),
        ({"program": "shop:app"}, False, "runs apply r1"),
        ({"program": "shop:app"}, True, "runs apply r1:ID"),
        ({"workflow": "flow.yaml"}, True, "runs export r1:ID --to flow.best.yaml"),
    ],
)
def test_what_to_do_about_a_gain_that_is_not_confirmed(
    settings: dict[str, Any], is_original: bool, use: str
) -> None:
    data = copy.deepcopy(RESULT)
    data["best"] |= {"is_original": is_original}

    def told(verdict: str, cap: int | None = 400) -> str:
        changed = {**data, "verdict": verdict}
        return " ".join(shown(*ended(changed, "a", "b", settings=settings, preset_cap=cap)).split())

    for verdict in ("not_confirmed", "untested"):
        said = "Not confirmed: more rows can confirm a smaller gain"
        if verdict == "untested" and not is_original:
            said = "Untested: no sealed test"
        assert told(verdict).endswith(
            f"{said}, and `autoprompt resume r1 --max-calls 800` searches further. To use a candidate "
            f"without that proof: `autoprompt {use}`."
        )
    assert "a smaller gain. To use" in told("not_confirmed", None)
    assert "Not confirmed: more" not in told("confirmed") + told("nothing_to_improve")


@pytest.mark.parametrize(
    ("limits", "seconds", "more"),
    [
        ({}, 40.0, "--max-calls 800"),
        ({"max_calls": 300}, 40.0, "--max-calls 900"),
        ({"max_tokens": 2_000_000}, 40.0, "--max-calls 800 --max-tokens 6000000"),
        ({"max_cost": 0.1}, 40.0, "--max-calls 800 --max-cost 0.3"),
        ({"max_seconds": 60}, 10.0, "--max-calls 800 --max-seconds 180"),
        ({"max_seconds": 60}, 60.0, "--max-calls 800 --max-seconds 480"),
    ],
)
def test_more_budget_is_advised_for_each_limit(limits: dict[str, Any], seconds: float, more: str) -> None:
    data = {**RESULT, "verdict": "not_confirmed", "calls": 100, "seconds": seconds}
    text = shown(*ended(data, "a", "b", preset_cap=400, settings=limits, limits=limits), width=300)
    assert f"`autoprompt resume r1 {more}` searches further" in text


def returned_original(**more: Any) -> dict[str, Any]:
    data = copy.deepcopy(RESULT)
    data["best"] |= {"is_original": True, "demos": []}
    data["validation"] = {
        "original": 0.5,
        "best": 0.5,
        "rows": 27,
        "confirmation": {
            "confirmed": False,
            "p_value": 0.21,
            "tried": 7,
            "chances": 3.5,
            "candidate": "abc123def456",
            "basis": "both",
            "raced": {"rows": 27, "groups": 27, "score": 0.8148, "other_score": 0.5},
            "fresh": {"rows": 18, "groups": 18, "score": 0.5, "other_score": 0.5186},
        },
    }
    return {**data, **more}


def test_a_winner_that_held_but_not_beyond_luck_is_told_apart() -> None:
    data = returned_original()
    confirmation = data["validation"]["confirmation"]
    confirmation["fresh"]["score"] = 0.6667
    text = shown(*ended(data, "a", "a"), width=300)
    assert (
        "ahead on fresh rows too, 0.667 against 0.519 on 18 rows, but not beyond chance, p = 0.21; needed: "
        "under 0.05, from race and fresh rows together, 7 candidates"
    ) in text
    confirmation["basis"] = "fresh"
    assert "needed: under 0.05, only fresh rows count after so many rounds" in told(data)
    confirmation["remembered"] = True
    alone = "only fresh rows count, because the run used earlier lessons"
    assert f"needed: under 0.05, {alone}" in told(data)
    confirmation["fresh"] |= {"rows": 0, "groups": 0}
    assert f"rows that selected it, is not confirmed: no fresh rows were left; {alone}" in told(data)


def told(data: dict[str, Any]) -> str:
    return shown(*ended(data, "a", "a"), width=300)


def test_a_small_p_value_has_no_power_of_ten() -> None:
    assert "broken; p = 0.00002 (paired, two-sided)" in told({**RESULT, "p_value": 1.5e-05})
    assert "broken; p < 0.00001 (paired, two-sided)" in told({**RESULT, "p_value": 1e-12})


def test_a_winner_that_did_not_hold_is_told() -> None:
    data = returned_original()
    text = shown(*ended(data, "a", "a"), width=200)
    assert (
        "candidate abc123, 0.815 on the rows that selected it, did not hold on fresh rows: "
        "0.500 against 0.519 on 18 rows, p = 0.21\n"
    ) in text
    assert "validation on 27 rows: original 0.500\n" in text
    data["validation"]["confirmation"]["fresh"] |= {"rows": 0, "groups": 0}
    assert (
        "candidate abc123, 0.815 against 0.500 on the 27 rows that selected it, is not better beyond chance, "
        "p = 0.21; so few rows cannot confirm a gain under +0.26" in shown(*ended(data, "a", "a"), width=200)
    )


def test_without_a_test_nothing_is_verified() -> None:
    lines = shown(*ended(returned_original(verdict="untested"), "a", "a")).splitlines()
    assert lines[1] == "no sealed test: nothing is verified"
    unopened = returned_original(verdict="untested", splits={"sizes": {"test": 5}})
    assert "the sealed test was not opened: nothing is verified" in shown(*ended(unopened, "a", "a"))
    said = {**RESULT, "verdict": "untested", "message": "0.5 -> 0.6. Nothing beyond that is verified."}
    assert shown(*ended(said, "a", "a")).count("verified") == 1


def test_a_warning_that_was_told_is_not_told_again() -> None:
    data = {**RESULT, "warnings": [Problem.plain(text).to_dict() for text in ("few rows", "a slow model")]}
    text = shown(*ended(data, "a", "b", shown={"few rows"}))
    assert "few rows" not in text
    assert "\nwarning: a slow model\n" in text


def test_warnings_stand_in_the_summary() -> None:
    text = shown(*ended({**RESULT, "warnings": [{"message": "few [rows]\x1b"}]}, "a", "b"))
    assert "\nwarning: few [rows]\n" in text


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("no_errors", "ended because the best prompt has no wrong training row left"),
        ("patience", "ended because its last rounds found nothing better"),
        ("max_tokens", "ended at the cap on tokens (resume the run with a larger --max-tokens)"),
        ("max_cost", "ended at the cap on cost (resume the run with a larger --max-cost)"),
    ],
)
def test_the_end_of_a_search_is_told_in_words(reason: str, said: str) -> None:
    assert said in shown(*ended({**RESULT, "stop_reason": reason}, "a", "b"), width=300)


def test_a_cap_says_whose_it_is() -> None:
    capped = {**RESULT, "stop_reason": "max_calls"}
    assert "ended at the preset's cap of 341 calls (--max-calls raises it)" in shown(
        *ended(capped, "a", "b", preset_cap=341), width=200
    )
    assert "ended at the cap on calls\n" in shown(*ended(capped, "a", "b"), width=200)
    text = shown(*ended({**capped, "repeated_calls": 96}, "a", "b", preset_cap=341), width=300)
    assert "1,391 calls (96 of them repeats), " in text
    assert "ended at the preset's cap of 341 calls, for which repeats do not count (--max" in text
    capped["calls_left"] = 30
    text = shown(*ended(capped, "a", "b", preset_cap=341), width=300)
    said = (
        "ended with 30 calls left of the preset's cap of 341 calls, too few for a further round and what was "
        "kept back for the final test (--max-calls"
    )
    assert said in text


@pytest.mark.parametrize(
    ("role", "settings", "model", "did"),
    [
        ("optimizer", {"optimizer_model": "w"}, "w", "wrote the candidates"),
        (
            "optimizer",
            {"program": "shop:app", "optimizer_model": "m", "price_input": 1},
            "m",
            "wrote the candidates",
        ),
        ("judge", {"judge_model": "j"}, "j", "graded the answers"),
        ("judge", {"optimizer_model": "w"}, "w", "graded the answers"),
    ],
)
def test_the_missing_price_is_that_of_the_model_without_one(
    role: str, settings: dict[str, Any], model: str, did: str
) -> None:
    data = copy.deepcopy(RESULT)
    usage = {"prompt_tokens": 3_000, "completion_tokens": 1_000}
    data["spending"] = {"task": {**usage, "cost_usd": 0.5}, role: {**usage, "cost_usd": None}}
    data |= {"model": "m", "optimizer_model": settings.get("optimizer_model", "m")}
    text = " ".join(shown(*ended(data, "a", "b", settings=settings)).split())
    assert f"The price of {model}, which {did}, is not known, so neither is the cost." in text
    assert "price_input" not in text  # which is the task model's


def test_a_price_that_is_not_set_is_asked_for_of_the_model_that_does_all() -> None:
    data = copy.deepcopy(RESULT)
    data["spending"]["task"]["cost_usd"] = 0.0  # all answers were in the cache
    assert "autoprompt config set price_input X" in shown(*ended(data, "a", "b"), width=200)


def test_texts_are_never_markup_or_control_codes() -> None:
    data = copy.deepcopy(RESULT)
    data["best"]["demos"] = [{"input": "[red]x[/red] :smile:\x1b[2J\n\nline", "output": "\u202e1"}]
    text = shown(*ended(data, "[b]old[/b]", "[b]new[/b]\x07"))
    assert "[red]x[/red] :smile:[2J line -> 1" in text
    assert "[b][-old-]{+new+}[/b]" in text


def test_alike_prompts_are_compared_by_words_others_by_lines() -> None:
    assert shown(prompt_diff("Say 1 or 0.", "Say 1 or 0 only.")) == "Say 1 or 0{+ only+}."
    assert shown(prompt_diff("one\nsame", "quite another text with many words\nsame")) == (
        "- one\n+ quite another text with many words\n  same"
    )


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\tb\nc", "a    b\nc"),
        ("\x00\x1b[31m\x9b1mx\x7f", "[31m1mx"),
        ("标题\u2066党\u2069", "标题党"),
        ("é\r", "é"),
        ("one\u200f\u061cway", "oneway"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def of_run(data: dict[str, Any], settings: RunConfig) -> RenderableType:
    return run_plan(Estimate(**data), settings)


def test_the_time_of_a_program_is_that_of_its_trial() -> None:
    data: dict[str, Any] = {
        **{"sizes": {"train": 40}, "task_calls": 900, "optimizer_calls": 100, "tokens": 1, "cost_usd": None},
        **{"max_iterations": 3, "warnings": (), "sent_calls": 10},
    }
    settings = RunConfig(program="app:answer", concurrency=8)
    text = " ".join(shown(of_run({**data, "call_s": 0.1}, settings)).split())
    assert "time: about 0:12, as a call of the trial took 0.1 s and 8 run at once" in text
    assert "time:" not in shown(of_run(data, settings))  # that of the embedded model says nothing


def test_an_estimate_says_that_nothing_was_sent() -> None:
    data: dict[str, Any] = {
        "sizes": {"train": 4, "val": 3, "test": 3},
        "task_calls": 1200,
        "optimizer_calls": 6,
        "tokens": 54321,
        "cost_usd": None,
        "smallest_gain": 0.14,
        "smallest_gain_at_best": 0.14,
        "max_iterations": 3,
        "warnings": (Problem.plain("few rows"),),
        "different_targets": 9,
    }
    assert shown(of_run(data, RunConfig.model_validate({"model": "gpt-x"}))).splitlines() == [
        "rows: 4 train, 3 val, 3 test",
        "answers: free text, 9 different in 10 rows",
        "at most 1,206 calls (gpt-x), up to 6 of them the writer's; retries come on top",
        "up to about 54,321 tokens; cost: unknown",
        "smallest gain that these rows can confirm: about +0.14, if no row gets worse",
        "warning: few rows",
        "nothing was sent",
    ]
    without = shown(of_run({**data, "different_targets": 0}, RunConfig(model="gpt-x")))
    assert "\nanswers: free text, scored without targets\n" in without
    prompts = (
        {"name": "route.system", "kind": "template", "place": f"{Path.cwd()}/shop/graph.py:40"},
        {"name": "confirm", "kind": "instruction", "place": ""},
    )
    assert shown(of_run({**data, "prompts": prompts}, RunConfig(program="shop.graph:app"))).splitlines()[
        1:4
    ] == [
        "prompts of the program: 2",
        "  route.system (template), sent from shop/graph.py:40",
        "  confirm (instruction)",
    ]
    ranged = {**data, "smallest_gain_at_best": 0.08}
    assert (
        "about +0.08 to +0.14, if no row gets worse; smaller if a winner is written from fewer train rows"
        in " ".join(shown(of_run(ranged, RunConfig(model="gpt-x"))).split())
    )
    grouped = {**ranged, "sizes": {"train": 40, "val": 60, "test": 40}, "val_groups": 14}
    assert (
        "smallest gain that these rows can confirm: a better score in about 0.08 to 0.14 of the 14 groups of "
        "validation, and a worse one in none"
        in " ".join(shown(of_run(grouped, RunConfig(model="gpt-x"))).split())
    )
    short = {**data, "short_tokens": 4321, "short_cost_usd": None}
    assert (
        "up to about 54,321 tokens; cost: unknown; about 4,321 tokens if no prompt gets longer"
        in " ".join(shown(of_run(short, RunConfig(model="gpt-x"))).split())
    )
    priced = {**short, "cost_usd": 1.25, "short_cost_usd": 0.11}
    assert "cost: up to $1.25; about 4,321 tokens ($0.11) if no prompt gets longer than yours" in " ".join(
        shown(of_run(priced, RunConfig(model="gpt-x"))).split()
    )
    unwritten = " ".join(shown(of_run({**data, "optimizer_calls": 0}, RunConfig(model="gpt-x"))).split())
    assert "at most 1,200 calls (gpt-x), none of them the writer's; retries" in unwritten
    local, capped = RunConfig(model="local"), RunConfig(model="gpt-x", max_seconds=90)
    said = "time: about 14 to 50 minutes on one or two cores if prompts ask for the answer only"
    assert said in " ".join(shown(of_run(data, local)).split())
    assert "time: at most 1:30 (--max-seconds); the run then" in shown(of_run(data, capped))
    judged = {**data, "judge_calls": 600, "judge_model": "gpt-y\x1b", "judge_cost_usd": 0.25}
    text = shown(of_run(judged, RunConfig.model_validate({"model": "gpt-x"})))
    said = "at most 1,806 calls (gpt-x), up to 6 of them the writer's, about 600 the judge's"
    assert f"{said} (gpt-y, about $0.25)" in " ".join(text.split())
    judged["judge_cost_usd"] = None
    text = shown(of_run(judged, RunConfig.model_validate({"model": "gpt-x"})))
    assert "the judge's (gpt-y, price unknown)" in " ".join(text.split())


SHOWN = """
Confirmed: 0.57 -> 0.86.

sealed test     exact_match     95% interval   rows   tokens/call   1,000 calls
───────────────────────────────────────────────────────────────────────────────
original              0.570   0.450 to 0.680     72            61         $0.06
best                  0.860   0.760 to 0.920     72           371         $0.40
highest score         0.870   0.770 to 0.930     72             –

24 rows fixed, 3 broken; p = 0.0001 (paired, two-sided); verdict: confirmed
validation on 72 rows: original 0.600, best 0.840
1,391 calls, 124,000 tokens, 4,000 of them for writing, cost unknown, 7:11; candidates: 14 tried, 3
accepted; ended with its last planned round
The price of local is not known. Set it once, in USD per million tokens: autoprompt config set \
price_input X; autoprompt config set price_output Y

What changed in the prompt
Answer 1 or 0{+ only+}.
Demonstrations shown before each row: 5
  headline 0 -> 0
  headline 1 -> 1
  headline 2 -> 0
  ... and 2 more
Take it with `autoprompt runs export r1:cdcdcd`.

Everything is in runs/r1
Next:
  autoprompt runs show r1
  autoprompt report r1 --open
  autoprompt runs export r1 --to prompt.yaml
  autoprompt eval --from r1 --dataset OTHER_ROWS
"""


def test_what_an_evaluation_will_take_is_told_by_model_and_in_time() -> None:
    data: dict[str, Any] = {
        "rows": 100,
        "prompts": 2,
        "calls": 400,
        "judge_calls": 200,
        "judge_model": "strict",
        "tokens": 4321,
        "cost_usd": None,
        "labels": (),
    }
    local = RunConfig(model="local")

    def said(config: RunConfig = local, **changes: Any) -> str:
        return " ".join(shown(evaluation_plan(EvaluationEstimate(**{**data, **changes}), config)).split())

    assert (
        "at most 200 calls (local), 100 with each of the two prompts, and 200 to the judge (strict)" in said()
    )
    assert "4,321 tokens if answers are as long as the targets" in said()
    assert "time: about 2 to 8 minutes on" in said()
    assert "time: about 23 to 83 minutes on" in said(is_reasoned=True)
    assert "time: under a minute on" in said(calls=10, judge_calls=0)
    assert "by then" in said(RunConfig(model="gpt-x", max_seconds=90))


def test_commands_are_never_broken_into_lines() -> None:
    data = {**RESULT, "verdict": "not_confirmed"}
    wide, narrow = (shown(*ended(data, "a", "b"), width=width).splitlines() for width in (1000, 40))
    commands = [line for line in wide if "autoprompt " in line]
    assert len(commands) >= 5
    assert [line for line in narrow if line in commands] == commands
