"""The values of a run: what each node has put out, by node and name, and how large a value may become."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from autoprompt.text.names import counted
from autoprompt.workflow.engine.errors import VariableNotFoundError

Values = Mapping[str, Mapping[str, Any]]

MAX_ID_PARTS = 50  # of an id with dots in it; a selector with more of them goes into a value
# Outputs of a node whose failure its error strategy has taken up.
ERROR_TYPE, ERROR_MESSAGE = "error_type", "error_message"
SCOPES = ("sys", "env", "conversation")  # of variables that belong to no node
MAX_SIZE = 50_000_000
"""Characters of one value, and of all that a node puts out or fills in."""
MAX_TOTAL = 4 * MAX_SIZE
"""Characters that the nodes of one graph put out together."""
MAX_DEPTH = 500
_MAX_BITS = 14_000  # of a product: Python writes out no number of more than 4,300 digits
_PART = 16  # characters that an entry of a list counts, whatever it holds


class _Missing:
    """Says that there is no value, where None is one."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


class VariablePool:
    """The values that a node can see. Made anew for each node; what it sets is kept apart in `writes`.

    values: node id -> name -> value. local_ids: short names of virtual nodes inside their parent,
    `ext_1` -> `tool1.ext_1`; they go before a node of the same name. names: the node's own inputs, each of
    which is a selector of one part.
    node_ids: all that the workflow has; empty: not known. room: of all that the node fills in.
    A selector is (node id, name, *path); the path goes into dicts by key and into lists by number. The id of
    a virtual node may come as one part or as two.
    """

    def __init__(
        self,
        values: Values,
        local_ids: Mapping[str, str] | None = None,
        writes: dict[str, dict[str, Any]] | None = None,
        names: Mapping[str, Any] | None = None,
        room: Room | None = None,
        node_ids: Collection[str] = (),
    ) -> None:
        self._values = values
        self._local_ids = dict(local_ids or {})
        self._names = dict(names or {})
        self.writes: dict[str, dict[str, Any]] = {} if writes is None else writes
        self._node_ids = node_ids
        self.room = room or Room()  # of all that the node fills in

    @property
    def values(self) -> dict[str, dict[str, Any]]:
        """All values, those set here included."""
        return merge_values(self._values, self.writes)

    def get(self, selector: Sequence[str]) -> Any:
        """Return the value of a variable.

        Raises:
            VariableNotFoundError: It has none, for example since its branch was not taken.
        """
        value = self._look_up(selector)
        if value is MISSING:
            if self.is_untaken(selector):
                node_id = self.split(selector)[0]
                raise VariableNotFoundError(selector, absent=node_id, has_failed=node_id in self._values)
            raise VariableNotFoundError(selector, self._known_names(selector))
        return value

    def get_if_ran(self, selector: Sequence[str]) -> Any:
        """Return the value of a variable; None if it is of a branch that was not taken.

        Raises:
            VariableNotFoundError: No node gives the variable.
        """
        value = self._look_up(selector)
        return None if value is MISSING and self.is_untaken(selector) else self.get(selector)

    def is_untaken(self, selector: Sequence[str]) -> bool:
        """Return whether the node that a selector names did not run, or left by the branch for failures."""
        node_id, _ = self.split(selector)
        if len(selector) < 2 or node_id in SCOPES or (self._node_ids and node_id not in self._node_ids):
            return False
        outputs = {**self._values.get(node_id, {}), **self.writes.get(node_id, {})}
        has_run = node_id in self._values or node_id in self.writes
        return not has_run or {ERROR_TYPE, ERROR_MESSAGE} <= outputs.keys()

    def find(self, selector: Sequence[str]) -> Any:
        """Return the value of a variable; None if it has none."""
        value = self._look_up(selector)
        return None if value is MISSING else value

    def has(self, selector: Sequence[str]) -> bool:
        return self._look_up(selector) is not MISSING

    def set(self, selector: Sequence[str], value: Any) -> None:
        """Give a variable of the conversation or of a loop a value. A node's outputs are returned, not set.

        Raises:
            ValueError: The selector names a part of a value.
            TooLargeError: The value is over the limit.
        """
        node_id, names = self.split(selector)
        if len(names) != 1:
            raise ValueError(
                f"{'.'.join(map(str, selector))} cannot be set. Name a node and one of its variables"
            )
        check_size(value)
        self.writes.setdefault(node_id, {})[names[0]] = value

    def global_id(self, node_id: str) -> str:
        """Return the id in the workflow of what is called `node_id` here."""
        return self._local_ids.get(node_id, node_id)

    def copy(self) -> VariablePool:
        """Return the same values for another attempt: what it sets, and the room it takes, is its own."""
        writes = {node_id: dict(names) for node_id, names in self.writes.items()}
        return VariablePool(self._values, self._local_ids, writes, node_ids=self._node_ids)

    def with_local_ids(self, local_ids: Mapping[str, str]) -> VariablePool:
        """Return this pool, in which virtual nodes can be named shortly; shares its writes."""
        local_ids = {**self._local_ids, **local_ids}
        return VariablePool(self._values, local_ids, self.writes, room=self.room, node_ids=self._node_ids)

    def with_names(self, names: Mapping[str, Any]) -> VariablePool:
        """Return this pool, in which a node's own inputs can be named too; shares its writes."""
        return VariablePool(self._values, self._local_ids, self.writes, names, self.room, self._node_ids)

    def with_values(self, values: Values) -> VariablePool:
        """Return other values, for what the same node asks of them under the names of its inputs."""
        return VariablePool(values, names=self._names, room=self.room, node_ids=self._node_ids)

    def split(self, selector: Sequence[str]) -> tuple[str, list[str]]:
        """Return (id of the node, name and path), by the nodes that have values: the longest id that fits."""
        parts = [str(part) for part in selector]
        if parts and parts[0] in self._local_ids:
            return self._local_ids[parts[0]], parts[1:]
        for length in range(min(len(parts) - 1, MAX_ID_PARTS), 1, -1):
            joined = ".".join(parts[:length])
            if joined in self._values or joined in self.writes:
                return joined, parts[length:]
        return (parts[0] if parts else ""), parts[1:]

    def _look_up(self, selector: Sequence[str]) -> Any:
        if len(selector) == 1:
            return self._names.get(str(selector[0]), MISSING)
        node_id, names = self.split(selector)
        if not names:
            return MISSING
        value = self._variable(node_id, names[0])
        for step in names[1:]:
            value = _inside(value, step)
        return value

    def _variable(self, node_id: str, name: str) -> Any:
        for values in (self.writes, self._values):
            if name in values.get(node_id, {}):
                return values[node_id][name]
        return MISSING

    def _known_names(self, selector: Sequence[str]) -> Iterable[str]:
        node_id, _ = self.split(selector)
        names = self.values.get(node_id)
        return (
            [f"{node_id}.{name}" for name in names]
            if names
            else [*self._names, *self._local_ids, *self.values]
        )


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step, MISSING)
    if (
        isinstance(value, list | tuple)
        and step.lstrip("-").isdigit()
        and -len(value) <= int(step) < len(value)
    ):
        return value[int(step)]
    return MISSING


def merge_values(old: Values, new: Values) -> dict[str, dict[str, Any]]:
    """Return both, node by node and name by name; `new` wins. Its arguments stay as they are."""
    merged = {node_id: dict(names) for node_id, names in new.items()}
    return {**old, **{node_id: {**old.get(node_id, {}), **names} for node_id, names in merged.items()}}  # type: ignore[dict-item]


class TooLargeError(ValueError):
    """A value that would take too much memory."""


class Room:
    """Characters that are left to use."""

    def __init__(self, size: int = MAX_SIZE) -> None:
        self._size = self._left = size

    def take(self, size: int) -> None:
        """Use `size` of the characters.

        Raises:
            TooLargeError: Fewer are left.
        """
        self._left -= size
        if self._left < 0:
            raise TooLargeError(f"the values here have more than {counted(self._size, 'character')} together")


def check_size(value: Any) -> int:
    """Return the size of a value in characters. A part that it holds twice counts twice.

    Raises:
        TooLargeError: The value has more than MAX_SIZE characters, or is nested deeper than MAX_DEPTH.
    """
    size = 0
    opened: list[Iterator[Any]] = [iter((value,))]
    while opened:
        for part in opened[-1]:
            size += _PART
            if isinstance(part, str | bytes):
                size += len(part)
            elif isinstance(part, int):
                size += _digits(part)
            elif isinstance(part, list | tuple) and (of_kind := _KINDS.get(frozenset(map(type, part)))):
                size += _PART * len(part) + sum(map(of_kind, part))  # ten times as fast
            elif isinstance(part, Mapping | list | tuple):
                inner = chain.from_iterable(part.items()) if isinstance(part, Mapping) else part
                opened.append(iter(inner))
                break
            if size > MAX_SIZE:
                raise TooLargeError(f"a value has more than {MAX_SIZE:,} characters")
        else:
            opened.pop()
        if len(opened) > MAX_DEPTH:
            raise TooLargeError(f"a value is nested more than {MAX_DEPTH} levels deep")
    return size


def _digits(number: int) -> int:
    """Return about how many digits a number has, at least as many."""
    return number.bit_length() // 3


# What counts of an entry in a list of one kind, beside _PART.
_KINDS: dict[frozenset[type], Callable[[Any], int]] = {
    frozenset({str}): len,
    frozenset({int}): _digits,
    frozenset({float}): lambda _: 0,
}


def product(left: Any, right: Any) -> Any:
    """Return the product of two numbers.

    Raises:
        TooLargeError: The product has more digits than Python writes out.
    """
    are_whole = isinstance(left, int) and isinstance(right, int)
    if are_whole and left.bit_length() + right.bit_length() > _MAX_BITS:
        raise TooLargeError("a product has more than 4,000 digits")
    return left * right


def concatenated(left: Any, right: Any) -> Any:
    """Return the sum of two numbers, texts or lists.

    Raises:
        TooLargeError: The sum would have more than MAX_SIZE characters.
    """
    if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
        Room().take(sum(len(side) * (1 if isinstance(side, str) else _PART) for side in (left, right)))
    return left + right


def joined(texts: Iterable[str]) -> str:
    """Return the texts as one.

    Raises:
        TooLargeError: They have more than MAX_SIZE characters together.
    """
    found, room = [], Room()
    for text in texts:
        room.take(len(text))
        found.append(text)
    return "".join(found)
