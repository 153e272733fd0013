"""Head and tail of an output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autoprompt.sandbox.launch import HeadAndTail
from autoprompt.text.names import counted


@given(st.lists(st.binary(max_size=30)), st.integers(2, 40))
def test_all_of_it_or_both_ends(parts: list[bytes], limit: int) -> None:
    output = HeadAndTail(limit)
    for part in parts:
        output.add(part)
    whole = b"".join(parts)
    half = limit // 2
    if len(whole) <= 2 * half:
        assert output.text() == whole.decode("utf-8", "replace")
    else:
        head, tail = whole[:half].decode("utf-8", "replace"), whole[-half:].decode("utf-8", "replace")
        assert output.text() == f"{head}\n[... {counted(len(whole) - 2 * half, 'byte')} left out ...]\n{tail}"
