"""Values of a kept run: what is written is what is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import InputError
from autoprompt.workflow.engine.plain import plain, read, written

KEYS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just("\0pairs")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(VALUES)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert read(written(value, "it")) == value
    assert repr(plain(value, "it")) == repr(value)


def test_json_without_marks_is_read_as_it_is() -> None:
    assert read('{"0": [1, {"a": null}]}') == {"0": [1, {"a": None}]}


@pytest.mark.parametrize("value", [{1, 2}, {(1, 2): 3}, object(), [b"x"]])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="node 'a' cannot be kept"):
        plain(value, "node 'a'")
