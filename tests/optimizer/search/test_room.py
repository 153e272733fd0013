"""How many rows a cap on calls has room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autoprompt.optimizer.search.plan import FEWEST_ENTRANTS, FEWEST_ROWS, Overhead, calls_for, rows_with_room
from autoprompt.records import Part

rows = st.integers(1, 700)
overheads = st.builds(Overhead, st.integers(1, 20), st.integers(1, 3), st.integers(1, 48))
movables = st.sets(st.sampled_from(["val", "test"]))


@given(st.integers(1, 4000), rows, rows, overheads, movables)
def test_rows_fit_as_many_as_there_is_room_for(
    max_calls: int, val: int, test: int, overhead: Overhead, movable: set[Part]
) -> None:
    found = rows_with_room(max_calls, val, test, overhead, movable=movable)
    whole: dict[Part, int] = {"val": val, "test": test}
    for part, size in whole.items():
        least = min(size, FEWEST_ROWS) if part in movable else size
        assert least <= found[part] <= size

    def takes(sizes: dict[Part, int]) -> int:
        return calls_for(FEWEST_ENTRANTS, sizes["val"], sizes["test"], overhead)

    if takes(whole) <= max_calls:
        assert found == whole
    elif movable and max(found[part] for part in movable) > FEWEST_ROWS:
        assert takes(found) <= max_calls
        one_more = max(found[part] for part in movable) + 1
        longer = {p: min(n, one_more) if p in movable else n for p, n in whole.items()}
        assert takes(longer) > max_calls


def test_the_longer_part_is_cut_first() -> None:
    found = rows_with_room(1000, 120, 500, Overhead(5), movable={"val", "test"})
    assert found["val"] == 120 < found["test"] < 500
