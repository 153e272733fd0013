"""Resume a run: restore its settings, the data that it read, and its last checkpoint."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt.errors import BudgetExhausted, ConfigError, Place, Problem, StoreError, command
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.limits.amounts import Spent
from autoprompt.metrics.judge import Grades
from autoprompt.metrics.user_code import code_digests
from autoprompt.optimizer.prepare import Preparation
from autoprompt.records import Candidate
from autoprompt.runs import RunFolder
from autoprompt.runs.folder import ORIGINAL_PROMPT, batch_of
from autoprompt.runs.resuming import (
    NO_BUDGET,
    NO_ERRORS,
    can_continue,
    places,
    searches_on,
    seen_from,
    stop_reason_of,
)
from autoprompt.settings.records import Budget, RunConfig
from autoprompt.text.display import HIDDEN
from autoprompt.text.files import file_sha256, read_json, read_text, to_json
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.optimizer.context import SearchContext
    from autoprompt.optimizer.result import RunResult


def dataset_facts(preparation: Preparation) -> dict[str, Any]:
    """Return what identifies the rows of a run, for `resume` to compare."""
    splits = preparation.splits
    return {
        "path": ", ".join(str(path) for path in splits.paths.values()),
        "sha256": splits.dataset_sha256,
        "split_seed": splits.split_seed,
        "sizes": splits.sizes,
        "parts": dict(splits.sha256),
        "groups": splits.group_counts,
    }


def restore(
    folder: RunFolder,
    preparation: Preparation,
    context: SearchContext,
    state: Mapping[str, Any],
    journal: Journal,
    *,
    is_finished: bool,
) -> None:
    """Restore pool, budget and journal to their state at the checkpoint.

    Raises:
        StoreError: The dataset has changed, this version of autoprompt splits it differently, or a finished
            run has used up a limit. Then no file of the run has changed.
    """
    known, found = state["dataset"]["sha256"], preparation.splits.dataset_sha256
    if known != found:
        said = f"{state['dataset']['path']} changed since run {folder.run_id} began ({_hashes(known, found)})"
        raise StoreError(Problem("run.data-changed", said, fix=_OLD_FILE))
    # A version of autoprompt that cuts them otherwise would let rows decide that the analyst has seen.
    began, now = state["dataset"], dataset_facts(preparation)
    if any(began[name] != now[name] for name in ("sizes", "parts", "groups")):
        said = (
            f"this version of autoprompt splits {began['path']} differently from the version that began run "
            f"{folder.run_id} (rows were {began['sizes']}, now {now['sizes']})"
        )
        raise StoreError(
            Problem("run.other-splits", said, fix="Resume with that version, or start a new run.")
        )
    records = [one for one in folder.read_candidate_records() if one["step"] <= state["pool_step"]]
    context.pool.restore(records)
    spent = Spent.from_dict(state["spent"])
    context.budget.restore(replace(spent, seconds=max(spent.seconds, journal.seconds)))
    if is_finished:
        _check_limits_left(folder, preparation, context, state)
    drop_candidates_after(folder, state["pool_step"])
    if state["original"] not in context.pool:
        original = context.add(Candidate(components=context.program.components))
        original.status = "accepted"
    journal.mark_counted(state["journal_position"])
    if state.get("grades"):
        context.grades = Grades(**state["grades"])
    if state.get("held"):
        context.budget.restore_hold(state["held"])
        return
    with suppress(BudgetExhausted):  # as in `predict`, which then ended the search; or the end is behind us
        ids = [state["incumbent"], *state["pending"]]
        context.hold_final(*(context.pool[i].candidate for i in ids))


def drop_candidates_after(folder: RunFolder, step: int) -> None:
    """Remove candidates written after the checkpoint, which a later resume would mix with its own."""
    records = list(folder.read_candidate_records())
    kept = [record for record in records if record["step"] <= step]
    if len(kept) < len(records):
        folder.rewrite_candidates(kept)


def load_config(folder: RunFolder) -> RunConfig:
    """Return the settings that a run was started with."""
    config = folder.read_settings(RunConfig)
    # The prompt's own file has the exact text.
    path = folder.path / ORIGINAL_PROMPT
    if config.prompt is None or not path.exists():  # killed between the two files
        return config
    return config.model_copy(update={"prompt": read_text(path)})


def limits_of(budget: Budget) -> dict[str, Any]:
    """Return the limits that are given.

    Raises:
        ConfigError: None is given.
    """
    limits = budget.model_dump(exclude_none=True)
    if not limits:
        fix = "Give {max_calls}, or another limit."
        raise ConfigError(Problem("run.no-limit", "no limit is given", fix=fix, settings={"max_calls": None}))
    return limits


def has_limits(folder: RunFolder, limits: Mapping[str, Any]) -> bool:
    """Return whether these are the limits that a run has already."""
    known = folder.read_config()
    return all(known.get(name) == value for name, value in limits.items())


def with_same_splits(folder: RunFolder, config: RunConfig, limits: Mapping[str, Any]) -> RunConfig:
    """Return the settings with new limits, and with the sizes of val and test that the run began with.

    A larger limit on calls changes no split: the rows of validation and test stay those of the run.
    """
    config = config.model_copy(update=limits)
    if "max_calls" not in {*folder.settings_changed(), *limits}:
        return config
    started = next((event for event in folder.read_events() if event.get("event") == "run_started"), {})
    sizes = started.get("sizes", {})
    parts = {"max_val": sizes.get("val"), "max_test": sizes.get("test")}
    return config.model_copy(update={name: size for name, size in parts.items() if size})


def check_can_continue(folder: RunFolder, result: RunResult) -> None:
    """Refuse to continue a finished run that more budget does not take further.

    Raises:
        StoreError: Its search ended because nothing was left to find, and its cheaper end was tested.
    """
    record = result.record
    if not can_continue(record.stop_reason, record.ends.reason):
        said = f"run {folder.run_id} is finished, and its search did not end at a limit"
        fix = f"Use new rows: `{command('run', from_=folder.reference, dataset='FILE')}`."
        raise StoreError(Problem("run.nothing-left", said, fix=fix))


def _check_limits_left(
    folder: RunFolder, preparation: Preparation, context: SearchContext, state: Mapping[str, Any]
) -> None:
    """Refuse to continue a finished run without room for a round and another ending.

    It would open its sealed test once more for nothing.
    """
    if (cap := _lacking(context, state)) is None:
        return
    used = counted(context.budget.spent.calls, "call")
    ahead = "the test of its cheaper prompt" if _is_search_over(state) else "a round and the final comparison"
    said = f"run {folder.run_id} has used {used}; the rest is too little for {ahead}"
    fix, settings = "Give more: the limit is for the whole run.", {}
    if cap == "max_calls" and (fewest := _fewest_calls(preparation, context, state)) is not None:
        fix, settings = "Give {max_calls} or more: the limit is for the whole run.", {"max_calls": fewest}
    raise StoreError(Problem("run.limit-used", said, Place(setting=cap), fix, settings))


def _lacking(context: SearchContext, state: Mapping[str, Any]) -> str | None:
    """Return the limit that leaves no room for a round and another ending; None if none does.

    If the search is over, there is no round: the ending is the cheaper end's, on its fresh rows and the test.
    """
    from autoprompt.optimizer.nodes import candidates_left  # LangGraph takes a second to import

    is_over, plan = _is_search_over(state), context.plan
    if is_over:
        context.plan = replace(plan, pick_calls=plan.calls(len(plan.fresh) + len(context.splits.test)))
    try:
        context.hold_final(context.pool[state["incumbent"]].candidate, is_simplified=is_over)
    except BudgetExhausted as error:
        return error.cap
    finally:
        context.plan = plan
    return None if is_over or candidates_left(context, state) else "max_calls"


def _is_search_over(state: Mapping[str, Any]) -> bool:
    """Return whether a finished run continues to test its cheaper end alone; see `Reopened.find`."""
    return bool(state.get("confirmation"))


def _fewest_calls(preparation: Preparation, context: SearchContext, state: Mapping[str, Any]) -> int | None:
    """Return the smallest limit on calls with room for what comes; None if none has it."""
    budget, used = context.budget, context.budget.spent.calls
    given, plan = budget.max_calls, context.plan

    def has_room(calls: int) -> bool:
        budget.max_calls, context.plan = calls, preparation.plan_within(calls)
        return _lacking(context, state) is None

    try:
        most = next((used + 2**n for n in range(4, 24) if has_room(used + 2**n)), None)
        if most is None:
            return None
        return bisect_left(range(most), True, used, key=has_room)
    finally:
        budget.max_calls, context.plan = given, plan


# What the final step adds to a search.
_AT_END = (
    *("pool_step", "tally", "tried", "memory_experiences", "helped"),
    *("grades", "spent", "journal_position"),
)


@dataclass(frozen=True, slots=True)
class Reopened:
    """Where the search of a finished run ended: the checkpoint there, and its state with what comes now.

    That is more rounds. If nothing is left to find, it is the test of the cheaper end, which no budget was
    left for: then `confirmation` says that the highest is confirmed already.
    """

    config: Any
    values: Mapping[str, Any]
    changes: Mapping[str, Any]

    @classmethod
    def find(cls, graph: Any, settings: Any, rounds: int) -> Reopened:
        """Find it, and change nothing yet.

        Args:
            graph: The compiled graph.
            settings: Its settings, with the run's thread.
            rounds: How many more there may be.

        Raises:
            StoreError: The checkpoint before the end is gone.
        """
        history = graph.get_state_history(settings)
        before = next((one for one in history if one.next == ("final_predict",)), None)
        if before is None:
            said = "the checkpoint before its end is gone, so the run cannot continue"
            raise StoreError(Problem("run.no-checkpoint", said, fix="Start a new run from its winner."))
        end = graph.get_state(settings).values
        # The last race was run in the final step, and the ending was paid for, too.
        raced = {name: end[name] for name in _AT_END if name in end}
        confirmed = end.get("confirmation", {}).get("candidate")
        known, changes = before.values, {**raced, "pending": []}
        is_over = not searches_on(stop_reason_of(known))
        if is_over and end.get("ends", {}).get("reason") == NO_BUDGET:
            kept = ("confirmation", "instead_of")
            changes |= {"incumbent": confirmed, "stop_reason": NO_ERRORS} | {name: end[name] for name in kept}
        else:
            changes |= {
                "incumbent": end.get("instead_of") or confirmed or known["incumbent"],
                "stop_reason": "",
                "plateau": 0,
                "max_iterations": known["iteration"] + rounds,
            }
        return cls(before.config, {**known, **changes}, changes)

    def go_back(self, graph: Any, settings: Any, context: SearchContext) -> Any:
        """Take the run back there; return the state."""
        best = context.pool[self.values["incumbent"]].candidate
        changes = {**self.changes, "current_prompt": best.prompt}
        graph.update_state(self.config, changes, as_node="memory")
        return graph.get_state(settings)


_OLD_FILE = "Put the old file back, or start a new run."
_INPUTS = "inputs.json"
_DATA = ("dataset", "train", "val", "test")


def keep_inputs(folder: RunFolder, preparation: Preparation) -> None:
    """Record the data files and metric code that a run begins with, and where its memory is, once."""
    if _noted(folder):
        return
    data = {
        name: {"sha256": file_sha256(path), "from_run": seen_from(folder, path)}
        for name, path in preparation.splits.paths.items()
    }
    config = preparation.config
    memory = seen_from(folder, config.memory_file)
    known = {"data": data, "memory": memory, "metric": code_digests(config.metric)}
    folder.write_text(_INPUTS, to_json(known, indent=2) + "\n")


def find_data(folder: RunFolder, config: RunConfig) -> RunConfig:
    """Return the settings of a run with the current paths of its data files and of its memory.

    If a file has moved, it is looked for relative to the run's folder and next to the runs folder. Only a
    file with the sha256 that the run began with is accepted. Of two memories, a copied run's is the one that
    was copied with it: what it learns does not go to the original.

    Raises:
        StoreError: A file is missing, has changed, or is not one that the run began with.
    """
    known = _noted(folder)
    if known is None:
        return config
    given = {name: path for name in _DATA if (path := getattr(config, name)) is not None}
    for name in given.keys() - known["data"].keys():
        place = Place(folder.config_path, setting=name, source="file")
        fix = "Remove it, or start a new run."
        raise StoreError(Problem("run.new-data", "the run did not begin with this file", place, fix))
    found = {name: _find(folder, path, **known["data"][name]) for name, path in given.items()}
    _, memory, _ = places(folder, config.memory_file, known["memory"])
    if memory.is_file():
        found["memory_file"] = memory
    return config.model_copy(update=found)


def _find(folder: RunFolder, path: Path, *, sha256: str, from_run: str) -> Path:
    *_, beside = near = places(folder, path, from_run)
    for place in near:
        if place.is_file() and file_sha256(place) == sha256:
            return place
    if path.is_file():
        said = f"this file changed since run {folder.run_id} began ({_hashes(sha256, file_sha256(path))})"
        raise StoreError(Problem("run.data-changed", said, Place(path), _OLD_FILE))
    elsewhere = f" or to {beside}" if beside != path.absolute() else ""
    said = f"no such file, but run {folder.run_id} began with it (sha256 {sha256})"
    fix = f"Copy the same file back{elsewhere}."
    raise StoreError(Problem("run.data-missing", said, Place(path), fix))


def _hashes(known: str, found: str) -> str:
    return f"sha256 was {known}, now {found}"


def check_metric_unchanged(folder: RunFolder, preparation: Preparation) -> None:
    """Refuse to resume a run whose metric has changed: its scores would come from two metrics.

    Code is identified by its content, so the module may be in another folder. A metric that was typed in has
    no code to compare.

    Raises:
        StoreError: The metric's code has changed, or one of its options was not kept.
    """
    config = preparation.config
    again = "Run the batch file again." if batch_of(folder) else f"Write it into {folder.config_path}."
    check_options_kept(folder.run_id, config, again)
    known, found = (_noted(folder) or {}).get("metric"), code_digests(config.metric)
    if not known or sorted(known.values()) == sorted(found.values()):
        return
    changed = [name for name, sha256 in found.items() if sha256 not in known.values()]
    hashes = _hashes(", ".join(known.values()), ", ".join(found.values()) or "unknown")
    said = (
        f"the metric {config.metric} changed since run {folder.run_id} began, in "
        f"{', '.join(changed or known)} ({hashes})"
    )
    cached = "" if config.no_cache else " Cached answers cost nothing."
    fix = f"Put the old code back, or start a new run.{cached}"
    raise StoreError(Problem("run.metric-changed", said, fix=fix))


def check_options_kept(run_id: str, config: RunConfig, again: str) -> None:
    """Refuse settings from a folder if a metric option was left out because it looked like a key.

    Args:
        again: How to give the option again, as a sentence.

    Raises:
        StoreError: The metric would score with `***` in place of the option.
    """
    if HIDDEN in json.dumps(config.metric_options, default=str):
        options = ", ".join(config.metric_options)
        said = (
            f"run {run_id} did not keep one of its metric_options ({options}), because it looked like a key"
        )
        raise StoreError(Problem("run.option-not-kept", said, fix=again))


def _noted(folder: RunFolder) -> dict[str, Any] | None:
    """Return what `keep_inputs` recorded; None for a run that has not begun."""
    path = folder.path / _INPUTS
    return read_json(path) if path.exists() else None
