"""Warnings of rows that failed, were refused, broke off or could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autoprompt.errors import Problem
from autoprompt.metrics import Metric
from autoprompt.metrics.base import TextMetric
from autoprompt.records import EvaluatedRow
from autoprompt.text.answers.reasoning import OUTPUT_TOKENS
from autoprompt.text.names import counted

_FEWEST_UNREAD = 3  # answers; one or two of very few rows may be those rows' fault
MOST_LOST = 0.1  # of the answers: with more of them missing, a score says little
_LONGEST_ERROR = 300
# If no request was sent. Of a prompt only: the nodes of a workflow need not ask a model.
ALL_CACHED = Problem(
    "model.all-cached",
    "every answer came from the response cache, so today's model was not asked",
    fix="Use {no_cache} to ask it.",
    settings={"no_cache": True},
)
ROOM_OF_A_NODE = "max_tokens in the completion_params of its model, or max_output_tokens for all nodes"


def row_error(row: EvaluatedRow) -> str:
    """Return why a row failed, for a message that already says whether requests were refused or withheld."""
    if row.has_failed_step:  # its answer says why
        return row.prediction.removeprefix("(no answer: ").removesuffix(")")
    return str(row.error if row.is_refused or row.is_withheld else row.shown_error)


def first_error(rows: Iterable[EvaluatedRow]) -> str:
    """Return why rows failed, as `the first (3 times): HTTP 400: ...`; "" if none did."""
    return _first([row_error(row) for row in rows if row.has_failed])


def first_unread(rows: Iterable[EvaluatedRow]) -> str:
    """Return what could not be read as an answer, in the same form; "" where all could, or it is empty."""
    return _first([row.prediction for row in rows if row.is_unread and row.prediction.strip()])


def _first(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    times = texts.count(texts[0])
    said = " ".join(texts[0].split())
    shown = said if len(said) <= _LONGEST_ERROR else said[: _LONGEST_ERROR - 1] + "…"
    return f"the first{f' ({times} times)' if times > 1 else ''}: {shown.rstrip('.。')}"


def answer_warnings(
    rows: Sequence[EvaluatedRow], metric: Metric, labels: Sequence[str] = (), constrain: str | None = None
) -> list[Problem]:
    """Warn of what makes answers wrong though the words of a prompt need not be: one list for every command.

    Args:
        rows: As they were answered, each as often as it was asked.
        metric: What scored them.
        labels: The only answers allowed, if the model can be held to them.
        constrain: How the endpoint was asked to do so: "off" if it was not, None if it cannot be.
    """
    found = [
        unread_warning(rows, labels, constrain) or cut_warning(rows),
        _step_warning(rows),
        _metric_warning(metric, rows),
    ]
    return [problem for problem in found if problem]


def refusal_warnings(rows: Sequence[EvaluatedRow], what: str = "") -> list[Problem]:
    """Warn of requests that the endpoint rejected, and of answers that the model declined.

    what: The rows' own name, such as "test rows"; "" for their requests and answers.
    """
    found = (_refused_warning(rows, what or "requests"), _withheld_warning(rows, what or "answers"))
    return [problem for problem in found if problem]


def _refused_warning(rows: Sequence[EvaluatedRow], what: str) -> Problem | None:
    """Warn of requests that the endpoint rejected: the words are not what is wrong then. None for none."""
    refused = [row for row in rows if row.is_refused]
    if not refused:
        return None
    said = (
        f"the endpoint rejected {len(refused)} of {len(rows)} {what}, which counts as wrong answers; "
        f"{first_error(refused)}"
    )
    return Problem("model.requests-rejected", said)


def _withheld_warning(rows: Sequence[EvaluatedRow], what: str) -> Problem | None:
    """Warn if the model declined to answer, or a content filter took the answer. None for none."""
    withheld = [row for row in rows if row.is_withheld]
    if not withheld:
        return None
    said = (
        f"{len(withheld)} of {len(rows)} {what} were declined or taken by a content filter, which counts as "
        f"wrong; {first_error(withheld)}"
    )
    return Problem("model.answers-withheld", said)


def _step_warning(rows: Sequence[EvaluatedRow]) -> Problem | None:
    """Warn if a node or the program failed in many rows: the words may not be what is wrong then."""
    failed = [row for row in rows if row.has_failed_step]
    if len(failed) <= MOST_LOST * len(rows):
        return None
    said = f"{len(failed)} of {counted(len(rows), 'row')} failed, which counts as a wrong answer; "
    return Problem("model.rows-failed", said + first_error(failed))


def _metric_warning(metric: Metric, rows: Sequence[EvaluatedRow]) -> Problem | None:
    """Warn if many answers may be right by another reading or metric."""
    wrong = [(row.prediction, row.ground_truth) for row in rows if row.is_wrong]
    return metric.suspicion(wrong, len(rows)) if isinstance(metric, TextMetric) else None


def cut_warning(rows: Sequence[EvaluatedRow]) -> Problem | None:
    """Warn if many answers broke off before they could be read, or were a label."""
    cut = sum(row.is_cut for row in rows)
    if cut <= MOST_LOST * len(rows):
        return None
    said = f"{cut} of {counted(len(rows), 'answer')} broke off, so half a thought may count as the answer"
    room, settings = _room(rows)
    fix = f"Ask for the answer alone, or {room}."
    return Problem("model.answers-cut", said, fix=fix, settings=settings)


def room_of(model_of: str) -> tuple[str, Mapping[str, object]]:
    """Return what gives answers more room, with the settings that it names. model_of: as `Step` has it."""
    if model_of == "code":
        return "raise the limit on the answer's tokens where the program's code asks the model", {}
    if model_of == "node":
        return f"give the node room: {ROOM_OF_A_NODE}", {}
    settings = {"max_output_tokens": 4 * OUTPUT_TOKENS}
    return "give answers more room with {max_output_tokens}, or twice what is set", settings


def _room(rows: Sequence[EvaluatedRow]) -> tuple[str, Mapping[str, object]]:
    steps = (step for row in rows for step in row.trace)
    return room_of(next((step.model_of for step in steps if step.model_of), ""))


def unread_warning(
    rows: Sequence[EvaluatedRow], labels: Sequence[str] = (), constrain: str | None = None
) -> Problem | None:
    """Warn if at least half of the answers could not be read, and three: then see what the model says.

    For `labels` and `constrain` see `answer_warnings`. Rows in which a node or the program failed are the
    affair of `_step_warning`.
    """
    answered = [row for row in rows if not row.has_failed]
    unread = [row for row in answered if row.is_unparsed]
    if len(unread) < max(_FEWEST_UNREAD, len(answered) / 2):
        return None
    helps, settings = ["Say in the prompt what an answer must look like"], dict[str, object]()
    if labels:
        helps = ["Name the allowed answers in the prompt"]
        if constrain == "off":
            helps.append("hold the model to them with {constrain} (or grammar, if the endpoint has that)")
            settings["constrain"] = "json_schema"
        elif constrain is not None:
            helps[0] += ", as the endpoint ignores {constrain}"
            settings["constrain"] = constrain
    if cut := sum(row.is_cut for row in unread):
        room, needed = _room(rows)
        helps.append(f"{room} ({cut} broke off)")
        settings |= needed
    said = (
        f"{len(unread)} of {counted(len(answered), 'answer')} could not be read, which counts as wrong; "
        f"{first_unread(unread) or 'they are empty'}"
    )
    return Problem("model.answers-unread", said, fix=f"{', or '.join(helps)}.", settings=settings)
