"""How many validation and test rows a cap on calls has room for, beside a search that is worth its calls.

A cap is a safety belt, and who sets one at 400 may have a file of 10,000 rows. A final comparison on 500 of
them alone would take 1,000 calls, and validation on 200 would leave a race of two candidates. Simulated with
150 rows and no test (`benchmarks/simulated.py --val`, four worlds, 30 seeds each): at 250 calls a mean gain
of 0.117 with 45 validation rows and 0.075 with all 75, at 200 calls 0.089 and 0.066, at 160 calls 0.068 with
28 rows and none with 75; at 320 and 400 calls no difference.
"""

from __future__ import annotations

from collections.abc import Collection

from autoprompt.optimizer.search.plan import FEWEST_ENTRANTS, Overhead, calls_for
from autoprompt.records import Part

FEWEST_ROWS = 28  # of a part that is cut shorter: fewer could confirm next to nothing


def rows_with_room(
    max_calls: int, val_rows: int, test_rows: int, overhead: Overhead, *, movable: Collection[Part]
) -> dict[Part, int]:
    """Rows of `val` and `test` that leave room for a first race of FEWEST_ENTRANTS candidates.

    movable: which of the two may be cut shorter; the longer one is first, and none below FEWEST_ROWS. Where
    that is not enough, the race has fewer candidates; where not even two fit, an error names that price.
    """
    sizes: dict[Part, int] = {"val": val_rows, "test": test_rows}

    def cut_to(most: int) -> dict[Part, int]:
        return {part: min(rows, most) if part in movable else rows for part, rows in sizes.items()}

    for most in range(max((sizes[part] for part in movable), default=0), FEWEST_ROWS, -1):
        rows = cut_to(most)
        if calls_for(FEWEST_ENTRANTS, rows["val"], rows["test"], overhead) <= max_calls:
            return rows
    return cut_to(FEWEST_ROWS)
