"""What a search tries: texts with demonstrations, and where they come from."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from autoprompt.brief import brief
from autoprompt.records.rows import Demo


@dataclass(frozen=True, slots=True)
class Origin:
    """What a candidate is taken out of, so that it can be scored as it was there.

    name: of the run or the export, as messages say it. labels: the only answers there, () for free ones; None
        where that is not known. input_field, target_field: of an export, the fields of a row that hold its
        input and the expected answer.
    run_dir: of a run, absolute: its files say which rows it has looked at; None for an export.
    marks: of an export, those of the rows that its run has looked at, see `autoprompt.runs.provenance`; None
        if it names no run.
    places: of an export of a program, where its texts are in requests; None for others.
    """

    name: str
    labels: tuple[str, ...] | None = None
    input_field: str | None = None
    target_field: str | None = None
    run_dir: str | None = None
    marks: frozenset[bytes] | None = field(default=None, repr=False)
    places: tuple[Mapping[str, Any], ...] | None = field(default=None, hash=False, repr=False)

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Change:
    """What makes a candidate differ from its parent; `autoprompt.memory.words` tells it in a language.

    component: whose text and demonstrations; "" if the program has one prompt.
    added, removed: what the text says anew, and what no longer, whole.
    demos, how: demonstrations that are new, and how they were chosen: a key of `autoprompt.memory.HOW`,
        or "bare" if none is shown any more.
    cues: answers whose typical words are named. reasons: whether the model reasons first now.
    note: what a person wrote instead.
    """

    component: str = ""
    added: str = ""
    removed: str = ""
    demos: int = 0
    how: str = ""
    cues: int = 0
    reasons: bool = False
    note: str = ""

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        """Return what is set, as plain JSON; `from_dict` reads it."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that can win: the texts of a program's components, and the demonstrations shown with it.

    components: name -> prompt text; a single prompt has the one component "prompt".
    parents, operator, iteration, change: where it came from; they do not enter `id`.
    change: what was changed, for the memory and the report.
    told: ids of train rows whose answers its author has seen beside its demonstrations: no fair sample for
        it, unless all that they decided is what it shows.
    origin: the run or the export that it is taken out of, which is not written; None within a run.
    """

    components: Mapping[str, str]
    demos: tuple[Demo, ...] = ()
    parents: tuple[str, ...] = ()
    operator: str = "original"
    iteration: int = 0
    change: Change = Change()
    told: tuple[str, ...] = ()
    id: str = field(default="")
    origin: Origin | None = field(default=None, compare=False, repr=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        if not self.id:
            body = [sorted(self.components.items()), [demo.content for demo in self.demos]]
            # Half of a surrogate pair, which a model may write, has no form in UTF-8.
            text = json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")
            object.__setattr__(self, "id", hashlib.sha256(text).hexdigest()[:12])

    @property
    def prompt(self) -> str:
        """The text of the only component; of several, all of them under their names."""
        return one_text(self.components)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The only answers where it comes from, () for free ones; None where that is not known."""
        return None if self.origin is None else self.origin.labels

    def demos_of(self, component: str) -> tuple[Demo, ...]:
        """Return those that are shown with this component; of a single prompt, all."""
        return tuple(d for d in self.demos if d.component in ("", component))

    def changed_since(self, other: Candidate) -> tuple[str, ...]:
        """Names of the components whose text or demonstrations are not those of `other`."""
        return tuple(
            name
            for name, text in self.components.items()
            if text != other.components.get(name) or self.demos_of(name) != other.demos_of(name)
        )

    def active(self) -> AbstractContextManager[None]:
        """Return a block in which your own program runs with these texts and demonstrations.

        Threads and tasks that begin in the block have them too. `autoprompt.use` does the same for a process.

        Raises:
            ConfigError: They are those of a prompt or a workflow.
        """
        active = importlib.import_module("autoprompt.programs.using").active  # this module knows no programs
        found: AbstractContextManager[None] = active(self)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without `origin`, which is the same for the whole run; `from_dict` reads it."""
        parts = {"parents": list(self.parents), "told": list(self.told), "change": self.change.to_dict()}
        demos = [
            {**demo.to_dict(), "example_id": demo.example_id, "component": demo.component}
            for demo in self.demos
        ]
        data = {**asdict(replace(self, demos=())), "components": dict(self.components), **parts}
        del data["origin"]
        return data | {"demos": demos}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Candidate:
        demos = tuple(map(Demo.from_dict, data.get("demos", ())))
        lists = {name: tuple(data.get(name, ())) for name in ("parents", "told")}
        change = Change.from_dict(data.get("change", {}))
        return cls(**{**data, "demos": demos, "change": change, **lists})


def one_text(components: Mapping[str, str]) -> str:
    """Return the only text; of several all of them under their names."""
    if len(components) == 1:
        return next(iter(components.values()))
    return "\n\n".join(f"[{name}]\n{text}" for name, text in components.items())
