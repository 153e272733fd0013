"""Which rows of a look at train each draft of a round is shown.

The kinds of error are dealt out among the drafts, so that they differ by what they have seen and not by the
temperature alone (as GEPA's proposals, each with a minibatch of its own; Agrawal et al. 2025).
"""

from __future__ import annotations

from collections.abc import Sequence

from autoprompt.optimizer.agents.analyst import kinds_of_error, near_misses, spread
from autoprompt.optimizer.agents.shown_rows import MOST_ROWS, ShownRows
from autoprompt.optimizer.propose.steps import suspect_steps
from autoprompt.records import EvaluatedRow

RIGHT_ROWS = 2  # which must stay right
WRONG_ROWS = MOST_ROWS - RIGHT_ROWS


def deal(rows: Sequence[EvaluatedRow], number: int, drafts: int, component: str = "") -> ShownRows:
    """Return what draft `number` of `drafts` is shown of a look's rows.

    Its own kinds of error come first. Other kinds fill the rest, another part of them for each draft.
    component: the text of a program that it rewrites; rows in which another step is to blame come last.
    """
    wrong = [row for row in rows if row.is_wrong]
    if component:
        blamed = [row for row in wrong if any(component in s.components for s in suspect_steps(row))]
        wrong = (
            blamed if len(blamed) >= WRONG_ROWS // 2 else [*blamed, *(r for r in wrong if r not in blamed)]
        )
    kinds = kinds_of_error(wrong)
    own = [row for kind in kinds[number % drafts :: drafts] for row in kind]
    if kinds and not own:  # fewer kinds than drafts: a part of one
        kind, turn = kinds[number % len(kinds)], number // len(kinds)
        own = kind[turn % len(kind) :] + kind[: turn % len(kind)]
    own = spread(own, WRONG_ROWS)
    others = [row for row in wrong if row not in own]
    start = number * len(others) // drafts
    shown = [*own, *spread(others[start:] + others[:start], WRONG_ROWS - len(own))]
    return ShownRows(shown, _guards(rows, shown, number), component)


def _guards(rows: Sequence[EvaluatedRow], wrong: Sequence[EvaluatedRow], number: int) -> list[EvaluatedRow]:
    """Right rows of the answers that the wrong ones were given, the least sure first; another two in turn."""
    given = {row.prediction for row in wrong}
    right = near_misses([row for row in rows if row.is_correct], len(rows))
    right.sort(key=lambda row: row.ground_truth not in given)
    start = number * RIGHT_ROWS % max(1, len(right))
    return (right[start:] + right[:start])[:RIGHT_ROWS]
