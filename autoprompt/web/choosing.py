"""Which runs the list shows, and in which order: the query of its address, understood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from autoprompt.web.library import Entry

STATES = ("running", "interrupted", "finished", "broken")
_Key = Callable[[Entry], float | str | None]

SORTS: dict[str, _Key] = {
    "created": lambda e: e.line.created or e.line.run_id,
    "run": lambda e: e.line.run_id,
    "dataset": lambda e: e.line.dataset,
    "model": lambda e: e.line.model,
    "state": lambda e: STATES.index(e.line.status) if e.line.status in STATES else None,
    "original": lambda e: e.line.original,
    "best": lambda e: e.line.best,
    "gain": lambda e: gain(e),
    "calls": lambda e: e.line.calls,
    "cost": lambda e: e.line.cost_usd,
}
# The order in which a first click sorts: what one looks for first.
_RISING = frozenset({"run", "dataset", "model", "state", "cost"})


def gain(entry: Entry) -> float | None:
    """Best minus original on the sealed test."""
    before, after = entry.line.original, entry.line.best
    return None if before is None or after is None else after - before


@dataclass(frozen=True, slots=True)
class Choice:
    """text: words that must all be found. kind, state: "" for all. sort: a key of SORTS."""

    text: str = ""
    kind: str = ""
    state: str = ""
    sort: str = "created"
    is_rising: bool = False

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Choice:
        """From the address; what is no choice is as if it were not there."""
        sort, order = query.get("sort", ""), query.get("order", "")
        sort = sort if sort in SORTS else "created"
        return cls(
            text=query.get("q", "").strip()[:200],
            kind=query.get("kind", ""),
            state=query.get("state", "") if query.get("state") in STATES else "",
            sort=sort,
            is_rising=order == "up" if order in ("up", "down") else sort in _RISING,
        )

    @property
    def is_narrowed(self) -> bool:
        return bool(self.text or self.kind or self.state)

    def address(self, sort: str = "") -> str:
        """The query that sorts by `sort`: a second time, the other way round."""
        sort = sort or self.sort
        is_rising = (not self.is_rising) if sort == self.sort else sort in _RISING
        given = {"q": self.text, "kind": self.kind, "state": self.state}
        order = {"sort": sort, "order": "up" if is_rising else "down"}
        return "?" + urlencode({**{k: v for k, v in given.items() if v}, **order})

    def apply(self, entries: Sequence[Entry]) -> list[Entry]:
        """What is chosen of `entries`, in order; runs without a value come last, either way."""
        chosen = [entry for entry in entries if self._takes(entry)]
        key = SORTS[self.sort]
        known = [entry for entry in chosen if key(entry) is not None]
        known.sort(key=lambda e: key(e), reverse=not self.is_rising)  # type: ignore[arg-type, return-value]
        return known + [entry for entry in chosen if key(entry) is None]

    def _takes(self, entry: Entry) -> bool:
        line = entry.line
        if (self.kind and line.kind != self.kind) or (self.state and line.status != self.state):
            return False
        found = " ".join(
            filter(None, (line.run_id, line.kind, line.status, line.dataset, line.model, line.verdict))
        )
        return all(word in found.casefold() for word in self.text.casefold().split())
