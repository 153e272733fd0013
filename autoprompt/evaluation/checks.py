"""What can be refused before a call: rows of a program, demonstrations, metric, memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autoprompt.dataset.checks import content_key
from autoprompt.dataset.python_rows import Given, Rows, parts_of, rows_of, to_plain_rows
from autoprompt.dataset.splits import find_shown
from autoprompt.errors import DatasetError, Place, Problem, PromptError
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.measure.program import placeholders, sends_turns
from autoprompt.measure.task import Task, answering_of
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import check_targets, run_metric
from autoprompt.metrics.python_metric import try_metric
from autoprompt.records import Candidate, Example, Origin
from autoprompt.runs.provenance import seen_test
from autoprompt.settings.arguments import check_kind
from autoprompt.settings.records import RunConfig
from autoprompt.settings.trust import check_default
from autoprompt.text.answers.labels import read_label
from autoprompt.text.files import check_writable
from autoprompt.text.names import counted, listed, named, quoted


def given_rows(config: RunConfig, rows: Rows | None, *, is_split: bool = False) -> Given | None:
    """Return a program's rows with plain values, as they can be kept in files; see `to_plain_rows`.

    Args:
        config: The settings, with the fields that are read.
        rows: Dicts or a table; where they are split, also one for each part.
        is_split: Whether they may come in parts.

    Raises:
        ConfigError: `config` is no RunConfig.
        DatasetError: `rows` are no rows, such as a file's name, or parts where one table is expected.
    """
    check_kind(config, RunConfig)
    if rows is None:
        return None
    wanted = config.input_field, config.target_field, config.group_field
    if (parts := parts_of(rows)) is not None:
        if not is_split:
            said = f"rows has the parts {named([*parts])}, expected rows of one"
            raise DatasetError(
                Problem("dataset.one-part", said, fix="Give one of them, such as rows['test'].")
            )
        return {name: to_plain_rows(rows_of(part), wanted, name) for name, part in parts.items()}
    table = rows_of(rows)
    if (instead := _instead_of(table)) is not None:
        said = f"rows is {rows!r:.80}, expected dicts such as {{'input': ..., 'target': ...}}"
        raise DatasetError(Problem("dataset.not-rows", said, fix=instead))
    return {"dataset": to_plain_rows(table, wanted)}


def _instead_of(rows: object) -> str | None:
    """Return what to pass instead if `rows` is no list of rows; else None."""
    if isinstance(rows, str | Path):
        return f"Give a file as RunConfig(dataset={str(rows)!r})."
    if isinstance(rows, Mapping):
        return "Give a list of them."
    return None if isinstance(rows, Iterable) else "Give a list of them."


def _shown_rows(task: Task, candidate: Candidate, rows: Sequence[Example]) -> list[Problem]:
    """Return a warning if rows are demonstrations, or the text holds them: what is shown is no test."""
    demos = {demo.turns or content_key(demo.input) for demo in candidate.demos}
    demos |= {content_key(text) for text in task.shown}
    # A step of a workflow is shown the row within a message of its own.
    inputs = [*task.shown, *(demo.input for demo in candidate.demos)]
    shown = {row.id for row in find_shown([*candidate.components.values()], rows, inputs)}
    shown |= {row.id for row in rows if (row.turns or content_key(row.input_text)) in demos}
    if not shown:
        return []
    are = f"{len(shown):,} of the rows {'is' if len(shown) == 1 else 'are'}"
    said = f"{are} in the prompt, in its text or as demonstrations, so the score is too high"
    return [Problem("prompt.rows-shown", said, fix="Score the prompt on other rows.")]


def demo_warnings(
    task: Task, candidate: Candidate, rows: Sequence[Example], labels: Sequence[str], config: RunConfig
) -> list[Problem]:
    """Return warnings of a candidate's demonstrations.

    Raises:
        PromptError: If one cannot be filled in.
    """
    shown = _shown_rows(task, candidate, rows)
    if answering_of(task) is None:  # what is shown to a step is no row
        return shown
    _check_demos(candidate, rows, config)
    return [*shown, *_strange_demos(candidate, labels)]


def searched_warnings(candidates: Iterable[Candidate], rows: Sequence[Example]) -> list[Problem]:
    """Return warnings if the candidates' runs have looked at some of the rows, or if nothing tells that.

    An export that names no run gets none: it may have been written by hand.
    """
    origins = {one.origin.name: one.origin for one in candidates if one.origin is not None}
    known = [one for one in origins.values() if one.run_dir is not None or one.marks is not None]
    return [*filter(None, (_searched(origin, rows) for origin in known))]


def _searched(origin: Origin, rows: Sequence[Example]) -> Problem | None:
    is_seen = seen_test(origin)
    name = origin.name if origin.run_dir is not None else f"the run that made {origin.name}"
    if is_seen is None:
        said = f"cannot be read, so autoprompt cannot tell which of these rows {name} has already seen"
        return Problem("run.rows-unknown", said, Place(Path(str(origin.run_dir))))
    known = sum(is_seen(row.id) for row in rows)
    seen = f"{name} has already seen {known} of the {counted(len(rows), 'row')}"
    said = f"{seen}, so the score on them proves nothing"
    return Problem("run.rows-seen", said, fix="Score the prompt on other rows.") if known else None


def _strange_demos(candidate: Candidate, labels: Sequence[str]) -> list[Problem]:
    """Return a warning if a prompt's demonstrations show an answer that is none of the labels."""
    if not labels:
        return []
    strange = [demo.output for demo in candidate.demos if read_label(demo.output, labels) is None]
    if not strange:
        return []
    shown = listed([quoted(text) for text in dict.fromkeys(strange)], 5)
    show = "shows" if len(strange) == 1 else "show"
    said = (
        f"{len(strange)} of the prompt's demonstrations {show} an answer that is not a label "
        f"({listed([*labels])}): {shown}"
    )
    fix = "Correct it, or add it to {labels}."
    return [Problem("prompt.strange-demo", said, fix=fix, settings={"labels": None})]


def _check_demos(candidate: Candidate, rows: Sequence[Example], config: RunConfig) -> None:
    """Raise PromptError if a demonstration of a prompt lacks a field that the prompt is filled in with."""
    fillable = {name for row in rows for name in row.fields} - {config.target_field}
    asked = placeholders(candidate.prompt, fillable)
    for number, demo in enumerate(candidate.demos, 1):
        if sends_turns(candidate.prompt, demo.turns, config.input_field):
            continue
        held = demo.held(config.input_field)
        if lacking := [name for name in asked if name not in held]:
            said = f"the prompt asks for {{{lacking[0]}}}, but its demonstration {number} does not have it"
            fix = 'Add it under "fields" there, or remove the demonstration.'
            raise PromptError(Problem("prompt.demo-field", said, fix=fix))


def check_metric(
    config: RunConfig, labels: tuple[str, ...], rows: Mapping[Path, Sequence[Example]]
) -> list[Problem]:
    """Check that the metric is known, that its options fit it, and that it can compare with every target.

    rows: Of each file. A metric of the user is called with rows' own targets as answers, see `try_metric`.

    Returns:
        Warnings of targets that it compares in part, or that do not score 1 as answers.

    Raises:
        ConfigError: For the metric and its options. DatasetError: For a target, with file and line.
    """
    unasked = ScriptedClient([])  # a judge's options are checked without its model
    every = [row for examples in rows.values() for row in examples]
    metric = run_metric(config, labels, lambda _: unasked, every)
    # A metric that asks a model would ask none here, and no target is the object that a program returns.
    tried = [] if hasattr(metric, "client") or config.program is not None else every
    return [*check_targets(metric, rows), *try_metric(metric, tried)]


def check_memory(config: RunConfig) -> None:
    """Check that the experience file can be read and written. Raises InputError that says how it cannot.

    Raises ConfigError as `read_memory` does.
    """
    if config.no_memory:
        return
    fix, settings = (
        "Name another file as {memory_file}, or use {no_memory}.",
        {"memory_file": None, "no_memory": True},
    )
    check_writable(config.memory_file, role="memory_file", makes_folders=True, fix=fix, settings=settings)
    read_memory(config)


def read_memory(config: RunConfig) -> None:
    """Check that the experience file can be read.

    Raises:
        InputError: It cannot.
        ConfigError: Nobody has named it, and a link in the working folder leads out of that. The folder may
            have come with data, and its link to a file of the user, which would be sent and rewritten.
    """
    if "memory_file" not in config.model_fields_set:
        check_default(config.memory_file, "memory_file")
    ExperienceFile(config.memory_file).load()
