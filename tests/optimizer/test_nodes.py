"""What the first implementation of this loop got wrong, and ours must not; and who sees which rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fakes import (
    DEPTH,
    LABELS,
    PROMPT,
    Bench,
    TwoPrompts,
    World,
    bench,
    number_of,
    splits_of,
    target_of,
    unit,
    writer,
)
from test_graph import nodes_of, run

from autoprompt.llm.client import Completion, Options
from autoprompt.memory import ExperienceFile, tell
from autoprompt.optimizer.search.plan import (
    Depth,
    fewest_calls,
    fewest_optimizer_calls,
    interleave,
    make_plan,
)
from autoprompt.records import Candidate, Message, Usage

GAIN = World(base=0.2, rule_gain=0.5, demo_gain=0.4)
TEXTS = {"max_demos": 0}


def numbers(part: Any) -> set[int]:
    return {int(row.id[1:]) for row in part}


def asked(made: Bench) -> list[tuple[str, int]]:
    """(instruction, number of the row) of every task call, in order."""
    return [(call[0].content, number_of(call)) for call in made.task.calls]


def test_train_rows_never_decide_and_val_and_test_rows_are_never_shown() -> None:
    made = bench(GAIN.student)
    run(made)
    splits = made.context.splits
    train, hidden = numbers(splits.train), numbers(splits.val) | numbers(splits.test)
    requests = "\n".join(message.content for call in made.author.calls for message in call)
    shown = {int(n) for n in re.findall(r"item (\d+)", requests)}
    assert shown
    assert shown <= train
    demos = {
        int(n)
        for call in made.task.calls
        for message in call[1:-1]
        for n in re.findall(r"item (\d+)", message.content)
    }
    assert demos <= train
    assert not demos & hidden
    for event in made.kinds("candidate_settled"):
        assert event["rows"] <= len(made.context.plan.race)
    race = set(made.context.plan.race_ids)
    for entry in made.context.pool.entries:
        if entry.status == "rejected":
            assert set(entry.scores) <= race


def test_a_train_row_that_flips_everything_accepts_nobody() -> None:
    """The student gets better on train alone: a search that decided on train would be fooled."""

    def student(messages: list[Message], options: Options) -> Completion:
        number = number_of(messages)
        right = unit("row", number) < 0.4 or (number < 32 and "rule" in messages[0].content)
        return Completion(target_of(number) if right else LABELS[1 - LABELS.index(target_of(number))])

    final = run(made := bench(student, **TEXTS))
    assert made.kinds("best_changed") == []
    assert final["incumbent"] == final["original"]


def test_lessons_credit_only_prompts_that_were_evaluated_on_shared_rows(tmp_path: Path) -> None:
    made = bench(GAIN.student, memory=tmp_path / "memory.txt", max_iterations=2)
    run(made)
    simplified = {e["id"] for e in made.kinds("candidate_proposed") if e["operator"] in ("strip", "prune")}
    settled = {event["id"] for event in made.kinds("candidate_settled")} - simplified
    lessons = ExperienceFile(tmp_path / "memory.txt").load()
    assert lessons
    pool, race = made.context.pool, made.context.plan.race_ids
    pairs = set()
    for candidate_id in settled:
        candidate = pool[candidate_id].candidate
        old, new, _ = pool.shared(candidate.parents[0], candidate_id, race)
        pairs.add(
            (round(sum(old) / len(old), 4), round(sum(new) / len(new), 4), len(old), candidate.operator)
        )
    for event in made.kinds("lesson"):
        found = re.match(r"\[\w+ ([+-][\d.]+) on (\d+) rows\]", event["text"])
        assert found is not None
        gains = {(f"{new - old:+.2f}", str(n)) for old, new, n, _ in pairs}
        assert found.groups() in gains
    assert len(made.kinds("lesson")) == len(settled)


def test_round_one_teaches_nothing() -> None:
    made = bench(GAIN.student)
    run(made)
    first_lesson = next(i for i, e in enumerate(made.events) if e["event"] == "lesson")
    first_settled = next(i for i, e in enumerate(made.events) if e["event"] == "candidate_settled")
    assert first_settled < first_lesson


def test_the_parent_is_not_always_the_original() -> None:
    made = bench(GAIN.student, max_iterations=4)
    run(made)
    original = made.context.pool.original.candidate.id
    parents = {event["parents"][0] for event in made.kinds("candidate_proposed")}
    assert original in parents
    assert parents - {original}


def test_the_best_is_returned_and_not_the_last() -> None:
    """A writer who helps once and then only harms."""
    calls = 0

    def author(messages: list[Message], options: Options) -> Completion:
        nonlocal calls
        current = re.search(r"<current>\n(.*?)\n</current>", messages[-1].content, re.DOTALL)
        if current is None:
            return Completion("Think.")
        calls += 1
        extra = "Mind the rule." if calls == 1 else f"Believe the myth {calls}."
        return Completion(f"```\n{current.group(1)} {extra}\n```")

    made = bench(World(base=0.3, rule_gain=0.7).student, author, **TEXTS)
    final = run(made)
    best = made.context.pool[final["incumbent"]].candidate
    assert best.prompt == f"{PROMPT} Mind the rule."
    assert final["current_prompt"] == best.prompt
    written = [e["id"] for e in made.kinds("candidate_proposed") if e["operator"] in ("patch", "rewrite")]
    assert written[-1] != best.id
    assert "myth" in made.context.pool[written[-1]].candidate.prompt


def test_a_coin_flipping_model_returns_the_original_and_says_so() -> None:
    kept = 0
    for seed in range(5):
        made = bench(World(is_coin=True).student, seed=seed, splits=splits_of(32, 60, 10))
        final = run(made)
        kept += final["incumbent"] == final["original"]
        for event in made.kinds("confirmation"):
            assert event["confirmed"] is (final["incumbent"] == event["candidate"] != final["original"])
    assert kept >= 4


def test_the_test_is_opened_once_at_the_end_and_only_for_best_and_original() -> None:
    opened = []
    made = bench(GAIN.student)
    made.context.open_test = lambda: opened.append(len(made.task.calls)) or 1  # type: ignore[func-returns-value]
    final = run(made)
    test = numbers(made.context.splits.test)
    places = [i for i, (_, number) in enumerate(asked(made)) if number in test]
    assert len(opened) == 1
    assert places == list(range(opened[0], len(made.task.calls)))
    assert len(places) == 2 * len(test)
    assert final["incumbent"] != final["original"]
    demos = {len(made.task.calls[i]) for i in places}
    best = made.context.pool[final["incumbent"]].candidate
    assert demos == {2, 2 + 2 * len(best.demos)}
    assert final["test"]["opened"] == 1


def test_the_original_alone_runs_once_on_the_test() -> None:
    made = bench(World(base=0.5, rule_gain=0.0).student)
    final = run(made)
    test = numbers(made.context.splits.test)
    assert sum(number in test for _, number in asked(made)) == len(test)
    assert final["test"]["best"] == final["test"]["original"]


def test_a_winner_that_mumbles_leaves_the_original_its_test_rows() -> None:
    """Questions asked again are paid from what is free: the original's half of the test is not."""
    times = 0

    def student(messages: list[Message], options: Options) -> Completion:
        nonlocal times
        times += 1
        if "rule" in messages[0].content and number_of(messages) >= 92:  # the test rows
            return Completion(f"well {times}", Usage(20, 1))
        return World(base=0.3, rule_gain=0.7).student(messages, options)

    def author(messages: list[Message], options: Options) -> Completion:
        current = re.search(r"<current>\n(.*?)\n</current>", messages[-1].content, re.DOTALL)
        return Completion("Think." if current is None else f"```\n{current.group(1)} Mind the rule.\n```")

    won = 0
    for cap in range(210, 260, 5):
        made = bench(student, author, splits=splits_of(32, 60, 20), max_calls=cap, max_iterations=1, **TEXTS)
        final = run(made)
        assert made.context.budget.spent.calls <= cap
        assert final["test"]["original"]["total"] == final["test"]["best"]["total"] == 20
        if final["incumbent"] != final["original"]:
            won += 1
            assert final["test"]["best"]["correct"] == 0
    assert won > 3


def test_the_winner_is_confirmed_on_rows_that_the_search_has_not_used() -> None:
    made = bench(GAIN.student)
    final = run(made)
    plan, confirmation = made.context.plan, final["confirmation"]
    first = made.events.index(made.kinds("confirmation")[0])
    fresh = numbers(plan.fresh)
    before = [e for e in made.events[:first] if e["event"] == "rows_evaluated" and "race" in e["what"]]
    assert before
    used = [number for text, number in asked(made) if number in fresh]
    assert len(used) == 2 * len(fresh)  # winner and original, once each
    assert confirmation["fresh"]["rows"] >= len(fresh)
    assert confirmation["raced"]["rows"] == len(plan.race)
    assert confirmation["tried"] == final["tried"]


def test_an_empty_target_is_never_correct() -> None:
    from dataclasses import replace

    splits = splits_of(32, 60, 0)
    empty = replace(splits.train[0], target=" ")
    splits = replace(splits, train=(empty, *splits.train[1:]))
    made = bench(lambda m, o: Completion(" ") if "item 0" in m[-1].content else World(base=1.0).student(m, o))
    made.context.splits = splits
    (evaluation,) = made.context.ask([(Candidate({"prompt": PROMPT}), [empty])])
    assert evaluation.correct == 0
    assert evaluation.rows[0].score == 0.0
    assert evaluation.rows[0].reason


def test_experiences_are_read_once_and_reach_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "memory.txt"
    run(bench(GAIN.student, memory=path, max_iterations=2))
    known = tell(ExperienceFile(path).select(PROMPT))
    made = bench(GAIN.student, memory=path, max_iterations=1, run_id="next")
    run(made)
    requests = [call[-1].content for call in made.author.calls if "<current>" in call[-1].content]
    assert requests
    assert known
    assert all(known in request for request in requests)


def test_a_broken_experience_is_told_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "memory.txt"
    path.write_text("# mine\n- [better] Mind the rule\n- [bettr +zz on rows] Mind it\n", encoding="utf-8")
    made = bench(GAIN.student, memory=path, max_iterations=2)
    run(made)
    (warning,) = made.kinds("warning")
    assert warning["message"].startswith(f"{path} line 3: '- [bettr +zz on rows] Mind it' is not an entry")


def test_an_experience_file_that_broke_costs_its_lessons_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.txt"
    path.write_bytes(b"\xff")
    made = bench(GAIN.student, memory=path, max_iterations=2)
    assert run(made)["confirmation"]["confirmed"]
    read, *kept = (warning["message"] for warning in made.kinds("warning"))
    assert read.startswith(f"lessons of earlier runs are not used: {path}: not UTF-8 text")
    assert kept
    assert all(said.startswith("cannot save the lessons of this run: ") for said in kept)


def test_without_fresh_rows_lessons_of_earlier_runs_are_not_used(tmp_path: Path) -> None:
    """What comes of them could not be confirmed: a second run would return the original whatever it found."""
    path, splits = tmp_path / "memory.txt", splits_of(32, 24, 20)
    for run_id in ("one", "two"):
        made = bench(GAIN.student, memory=path, splits=splits, max_iterations=2, run_id=run_id)
        assert made.context.plan.fresh == ()
        final = run(made)
        assert final["confirmation"]["confirmed"]
        assert not final["has_memory"]
    (warning,) = made.kinds("warning")
    assert warning["message"].startswith("lessons of earlier runs are not used, because every validation row")


def test_a_second_run_that_measures_the_same_again_adds_no_evidence(tmp_path: Path) -> None:
    path, splits = tmp_path / "memory.txt", splits_of(32, 24, 20)  # without fresh rows: the same search twice
    runs = []
    for run_id in ("one", "two"):
        run(bench(GAIN.student, memory=path, splits=splits, max_iterations=2, run_id=run_id))
        runs.append({entry.id: (entry.rows, entry.after) for entry in ExperienceFile(path).load()})
    assert runs[0]
    assert runs[1] == runs[0]


def test_what_helped_in_one_run_is_recalled_in_the_next(tmp_path: Path) -> None:
    def author(messages: list[Message], options: Options) -> Completion:
        is_analysis = "<current>" not in messages[-1].content
        return Completion("Think." if is_analysis else "ADD: Mind the rule (+1).")

    path = tmp_path / "memory.txt"
    first = bench(GAIN.student, author, memory=path, **TEXTS)
    assert run(first)["helped"] == ["Mind the rule (+1)."]
    assert ExperienceFile(path).helpful_additions(PROMPT) == ["Mind the rule (+1)."]
    second = bench(GAIN.student, author, memory=path, run_id="next", **TEXTS)
    run(second)
    recalled = [e.candidate for e in second.context.pool.entries if e.candidate.operator == "recall"]
    assert [c.prompt for c in recalled] == [f"{PROMPT}\nMind the rule (+1)."]


def test_lessons_that_differ_behind_the_cut_stay_apart(tmp_path: Path) -> None:
    def author(messages: list[Message], options: Options) -> Completion:
        is_analysis = "<current>" not in messages[-1].content
        end = f"Believe the myth {options.seed}."
        return Completion("Think." if is_analysis else f"ADD: {'Mind the rule of the house. ' * 15}{end}")

    path = tmp_path / "memory.txt"
    made = bench(World(base=0.7).student, author, memory=path, **TEXTS)
    run(made)
    lessons = [entry for entry in ExperienceFile(path).load() if "house" in entry.text]
    assert len({entry.text for entry in lessons}) == 1
    told = sum("house" in event["text"] for event in made.kinds("lesson"))
    assert len({entry.id for entry in lessons}) == len(lessons) == told > 1


def test_later_writers_are_told_what_did_harm() -> None:
    def author(messages: list[Message], options: Options) -> Completion:
        current = re.search(r"<current>\n(.*?)\n</current>", messages[-1].content, re.DOTALL)
        if current is None:
            return Completion("Think.")
        return Completion(f"```\n{current.group(1)} Believe the myth {options.seed}.\n```")

    made = bench(World(base=0.7).student, author, **TEXTS)
    run(made)
    harm = [e["text"] for e in made.kinds("lesson") if "Believe the myth" in e["text"]]
    asked = [call[-1].content for call in made.author.calls if "<current>" in call[-1].content]
    assert harm
    assert any(harm[0] in request for request in asked)


def test_two_components_are_optimized_one_at_a_time() -> None:
    made = bench(program=TwoPrompts(), max_demos=0, max_iterations=4)
    final = run(made)
    original = TwoPrompts.components
    changed = set()
    for entry in made.context.pool.entries[1:]:
        assert entry.candidate.components.keys() == original.keys()
        parent = made.context.pool[entry.candidate.parents[0]].candidate.components
        different = [name for name in original if entry.candidate.components[name] != parent[name]]
        assert len(different) == 1
        changed |= set(different)
    assert changed == set(original)
    assert "[look]" in final["current_prompt"]


def test_a_chinese_prompt_gets_chinese_requests() -> None:
    made = bench(World(base=0.4).student, prompt="判断这个条目是甲还是乙，只回答 A 或 B。", **TEXTS)
    run(made)
    requests = [call[-1].content for call in made.author.calls]
    assert any("分析" in r for r in requests)
    for request in requests:
        assert not re.search(r"You (study|improve)", request)
        assert "你负责" in request


def test_results_and_history_are_references_and_counts() -> None:
    made = bench(GAIN.student)
    final = run(made)
    assert set(final["results"]) == {"path", "correct", "total", "measured"}
    assert [(h["iteration"], h["split"]) for h in final["history"]] == [
        (1, "train"),
        (2, "train"),
        (3, "train"),
        (3, "test"),
    ]
    assert final["history"][-1]["results"] == final["test"]["best"] == final["results"]
    counts = {name: final["history"][-1][name] for name in ("error_count", "total_count")}
    has_errors = counts["error_count"] > 0
    told = {"has_errors": has_errors, "suggestions": "", "error_cases": [], "feedback": []}
    assert final["analysis"] == {**counts, **told}
    for entry in final["history"]:
        assert {"prompt", "error_count", "total_count", "suggestions"} <= set(entry)
        rows = made.files.predictions[Path(entry["results"]["path"]).stem]
        assert len(rows) == entry["total_count"] == entry["results"]["total"]
        assert sum(not row["is_correct"] for row in rows) == entry["error_count"]
        fields = {"input", "prediction", "ground_truth", "is_correct", "score", "reason", "error"}
        assert all(fields <= set(row) for row in rows)


def test_each_round_looks_at_other_train_rows() -> None:
    made = bench(World(base=0.3, rule_gain=0.3).student, splits=splits_of(80, 60, 0))
    run(made)
    looks = [{r["example_id"] for r in made.files.predictions[f"{n:02d}-train"]} for n in (1, 2, 3)]
    assert all(len(look) == 16 for look in looks)
    assert not looks[0] & looks[1]
    assert not looks[1] & looks[2]


def test_all_of_train_is_looked_through_for_an_error() -> None:
    def student(messages: list[Message], options: Options) -> Completion:
        """Wrong on one row alone, of those that are looked at last."""
        number = number_of(messages)
        return Completion("C" if number == last else target_of(number))

    made = bench(student, max_iterations=2)
    order = interleave(made.context.splits.train)
    last = int(order[-1].id[1:])
    first = run(made)["history"][0]
    assert (first["error_count"], first["total_count"]) == (1, len(order))


def test_a_budget_that_ends_in_the_race_judges_by_the_rows_so_far() -> None:
    depth = Depth(max_iterations=2, calls_per_row=10, candidates=4, writers=2, patience=3)
    splits = splits_of(32, 80, 10)
    made = bench(GAIN.student, splits=splits, depth=depth, max_calls=260)
    final = run(made)
    assert made.context.budget.spent.calls <= 260
    assert final["test"]["original"]["total"] == 10
    assert nodes_of(made)[-1] == "final_predict"
    assert make_plan(splits.val) == made.context.plan


@pytest.mark.parametrize("cap", range(150, 400, 25))
def test_a_capped_search_always_reaches_the_test(cap: int) -> None:
    made = bench(GAIN.student, writer, max_calls=cap, splits=splits_of(32, 40, 15))
    final = run(made)
    assert made.context.budget.spent.calls <= cap
    assert final["test"]["original"]["total"] == final["test"]["best"]["total"] == 15


def test_a_cap_that_repeats_have_eaten_into_still_pays_for_one_race() -> None:
    splits = splits_of(32, 22, 0)
    fewest = fewest_calls(make_plan(splits.val), 0, fewest_optimizer_calls(DEPTH, 1))
    for cap, tried in ((fewest, 2), (fewest - 12, 2), (fewest - 20, 0)):
        state = run(bench(splits=splits, max_calls=cap))
        assert state["tried"] == tried, cap
        assert state["stop_reason"] == "max_calls"


def test_train_is_looked_at_again_only_where_another_round_has_room() -> None:
    splits = splits_of(32, 22, 0)
    one_round = fewest_calls(make_plan(splits.val), 0, fewest_optimizer_calls(DEPTH, 1))
    for cap, looks in ((one_round, 1), (20 * one_round, 2)):
        made = bench(GAIN.student, writer, splits=splits, max_calls=cap, max_iterations=2)
        run(made)
        ended = [
            event["what"] for event in made.kinds("rows_evaluated") if event["done"] == event["total"] == 16
        ]
        assert ended.count("train rows of the best") == looks


@pytest.mark.parametrize("max_calls", range(380, 460, 20))
def test_on_the_sealed_rows_best_and_original_are_asked_again_alike(max_calls: int) -> None:
    def student(messages: list[Message], options: Options) -> Completion:
        if number_of(messages) % 2 and not options.is_retry:
            return Completion("I cannot tell.", Usage(20, 1))
        return GAIN.student(messages, options)

    made = bench(student, max_calls=max_calls, **TEXTS)
    final = run(made)
    context = made.context
    best, original = (context.read_results(final["test"][name]) for name in ("best", "original"))
    unread = [{row.example_id for row in rows if row.is_unparsed} for rows in (best, original)]
    assert unread[0] == unread[1]
    assert context.budget.spent.calls <= max_calls
