"""What is said of rows that failed, were refused, broke off or could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoprompt.records import REFUSED, STEP_FAILED, EvaluatedRow
from autoprompt.text.answers.reasoning import OUTPUT_TOKENS

_FEWEST_UNREAD = 3  # answers; one or two of very few rows may be those rows' fault
MOST_LOST = 0.1  # of the answers: with more of them missing, a score says little
_LONGEST_ERROR = 300
# Said where no request was sent. Of a prompt only: the nodes of a workflow need not ask a model.
ALL_CACHED = (
    "every answer came from the response cache: nothing was asked of the model as it is today "
    "(--no-cache asks it)"
)
_HELD = "hold the model to them: --constrain json_schema or grammar, whichever the endpoint has"
_ROOM = f"give room: --max-output-tokens {OUTPUT_TOKENS}, or twice what is set"
ROOM_OF_A_NODE = "max_tokens in the completion_params of its model; of an LLMNode, max_output_tokens"


def first_error(rows: Iterable[EvaluatedRow]) -> str:
    """Why rows failed, to stand behind how many did: `the first (3 times): HTTP 400: ...`; "" if none did."""
    return _first([row.error.removeprefix(REFUSED) for row in rows if row.error is not None])


def first_unread(rows: Iterable[EvaluatedRow]) -> str:
    """What could not be read as an answer, in the same form; "" where all could, or it is empty."""
    return _first([row.prediction for row in rows if row.is_unparsed and row.prediction.strip()])


def _first(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    times = texts.count(texts[0])
    said = " ".join(texts[0].split())
    shown = said if len(said) <= _LONGEST_ERROR else said[: _LONGEST_ERROR - 1] + "…"
    return f"the first{f' ({times} times)' if times > 1 else ''}: {shown.rstrip('.。')}"


def refused_warning(rows: Sequence[EvaluatedRow], what: str = "requests") -> str:
    """Said where the endpoint would not take requests: then the words are not what is wrong. "" for none."""
    refused = [row for row in rows if row.is_refused]
    if not refused:
        return ""
    return (
        f"{len(refused)} of {len(rows)} {what} were refused by the endpoint, which counts as wrong answers; "
        f"{first_error(refused)}"
    )


def step_warning(answers: Sequence[str]) -> str:
    """Said where a node failed in many rows of a workflow: then the words may not be what is wrong."""
    failed = [text for text in answers if text.startswith(STEP_FAILED)]
    if len(failed) <= MOST_LOST * len(answers):
        return ""
    return (
        f"in {len(failed)} of {len(answers)} rows a node failed, which counts as a wrong answer; "
        f"{_first([text.removeprefix(STEP_FAILED).removesuffix(')') for text in failed])}"
    )


def cut_warning(rows: Sequence[EvaluatedRow]) -> str:
    """Said where many answers broke off before they could be read, or were a label; "" where few did."""
    cut = sum(row.is_cut for row in rows)
    if cut <= MOST_LOST * len(rows):
        return ""
    return (
        f"{cut} of {len(rows)} answers broke off before they were whole, so that a word of half a thought "
        f"may count as the answer. Ask for the answer alone, or {_room(rows)}"
    )


def _room(rows: Sequence[EvaluatedRow]) -> str:
    """What gives answers more room: in a workflow each node has its own."""
    return f"give the node room: {ROOM_OF_A_NODE}" if any(row.trace for row in rows) else _ROOM


def unread_warning(rows: Sequence[EvaluatedRow], labels: Sequence[str] = ()) -> str:
    """Said where at least half of the answers could not be read, and three: then see what the model says.

    labels: the only answers allowed, where the model can be held to them. Rows in which a node failed are
    the affair of `step_warning`.
    """
    answered = [row for row in rows if row.error is None and not row.prediction.startswith(STEP_FAILED)]
    unread = [row for row in answered if row.is_unparsed]
    if len(unread) < max(_FEWEST_UNREAD, len(answered) / 2):
        return ""
    helps = ["Say in the prompt what an answer must look like"]
    if labels:
        helps = ["Name the allowed answers in the prompt", _HELD]
    if cut := sum(row.is_cut for row in unread):
        helps.append(f"{_room(rows)} ({cut} broke off)")
    return (
        f"{len(unread)} of {len(answered)} answers could not be read, which counts as wrong; "
        f"{first_unread(unread) or 'they are empty'}. {', or '.join(helps)}"
    )
