"""What is wrong with a workflow, with its place: collected, so that one look shows all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from autoprompt.errors import Place, Problem
from autoprompt.settings.kinds import Loc, problems_of
from autoprompt.settings.yaml_file import YamlFile
from autoprompt.text.names import counted
from autoprompt.workflow.engine.errors import WorkflowDefinitionError

MOST_NODES = 2000  # checked in 3 s; the largest exports that are around have 200
MOST_FAULTS = 500
MOST_SHOWN = 20
_MAX_MESSAGE = 1000
Where = tuple[int | str, ...]


@dataclass(frozen=True, order=True)
class Fault:
    """One thing to fix. line: 1-based, 0 where the workflow came from no file. code: as in errors.md.

    missing_source: the node that an extraction names and that is not there.

    severity: a "warning" does not keep the workflow from running (an unused node, a tool that is not
    registered here).
    """

    line: int
    message: str
    node_id: str | None = None
    severity: Literal["error", "warning"] = "error"
    path: Path | None = field(default=None, compare=False)
    code: str = field(default="workflow.fault", compare=False)
    missing_source: str | None = field(default=None, compare=False)

    @property
    def problem(self) -> Problem:
        """The fault as a problem."""
        plain = Problem("workflow.fault", self.in_node, Place(self.path, self.line or None))
        return replace(plain, code=self.code)

    def __str__(self) -> str:
        return str(self.problem)

    @property
    def in_node(self) -> str:
        """The message, with the node that it is about."""
        return self.message if self.node_id is None else f"node {self.node_id!r}: {self.message}"

    def to_dict(self) -> dict[str, str | int | None]:
        return {
            "path": None if self.path is None else str(self.path),
            "line": self.line,
            "node_id": self.node_id,
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
        }


class Faults:
    """The faults of one workflow, file or mapping."""

    def __init__(self, file: YamlFile | None = None) -> None:
        self._file = file
        self._found: list[Fault] = []
        self._nodes = 0
        self._moved: dict[Where, Where] = {}

    def in_file(self, file: YamlFile | None) -> Faults:
        """Return a view that adds faults of another file, or of no file, to these."""
        view = Faults(file)
        view._found = self._found
        return view

    def move(self, places: Mapping[Where, Where]) -> None:
        """Take note of values that are written in other places of the file than their path says."""
        self._moved.update(places)

    def line(self, where: Where, *, is_key: bool = False) -> int:
        """Return 1-based line of a place in the file, 0 without a file."""
        if self._file is None:
            return 0
        for length in range(len(where), 0, -1):
            if where[:length] in self._moved:
                where = (*self._moved[where[:length]], *where[length:])
                break
        return self._file.line(where, is_key=is_key)

    def count_nodes(self, number: int, where: Where) -> None:
        """Count nodes of the workflow, virtual ones included.

        Raises:
            WorkflowDefinitionError: There are more than MOST_NODES.
        """
        self._nodes += number
        if self._nodes > MOST_NODES:
            place = "" if self._file is None else f"{self._file.path} line {self.line(where)}: "
            raise WorkflowDefinitionError(
                f"{place}at least {counted(self._nodes, 'node')}, expected at most {MOST_NODES:,}. Split "
                "the workflow."
            )

    def add(
        self,
        where: Where,
        message: str | Problem,
        node_id: str | None = None,
        *,
        severity: Literal["error", "warning"] = "error",
        is_key: bool = False,
        missing_source: str | None = None,
    ) -> None:
        """Add a fault.

        Args:
            message: A text, or a problem if the fault has a code of its own.
        """
        problem = message if isinstance(message, Problem) else Problem("workflow.fault", message)
        line = self.line(where, is_key=is_key)
        path = self._file.path if self._file is not None else None
        fault = Fault(line, problem.said, node_id, severity, path, problem.code, missing_source)
        self._append(fault)

    def add_invalid(
        self, where: Where, error: ValidationError, model: type[BaseModel], node_id: str | None
    ) -> None:
        """Add everything that a record found wrong with the value at `where`."""
        path = None if self._file is None else self._file.path

        def place_of(inner: Loc, is_key: bool) -> Place:
            line = self.line((*where, *inner), is_key=is_key)
            return Place(line=line, setting=".".join(map(str, inner)) or None, source="file")

        for problem in problems_of(error, model, place_of, word="key"):
            message = str(problem.at(replace(problem.place, line=None)))
            self._append(Fault(problem.place.line or 0, message, node_id, path=path))

    def _append(self, fault: Fault) -> None:
        """Add a fault.

        Raises:
            WorkflowDefinitionError: There are more than MOST_FAULTS. Finding what each meant takes time.
        """
        if len(fault.message) > _MAX_MESSAGE:  # it shows what is in the file
            fault = replace(fault, message=f"{fault.message[: _MAX_MESSAGE - 1]}…")
        self._found.append(fault)
        if len(self._found) > MOST_FAULTS:
            raise WorkflowDefinitionError(
                "\n".join(map(str, self.all[:MOST_SHOWN]))
                + f"\n... and more: the check ended after {MOST_FAULTS} faults. Fix these first."
            )

    def soften(self, node_ids: Sequence[str], why: str) -> None:
        """Turn the errors of nodes that cannot run into warnings.

        Args:
            why: The reason, which is added to each message in brackets.
        """
        spared = set(node_ids)
        self._found = [
            replace(fault, severity="warning", message=f"{fault.message} ({why})")
            if fault.node_id in spared and fault.severity == "error"
            else fault
            for fault in self._found
        ]

    @property
    def all(self) -> list[Fault]:
        """All faults in the order of their lines, each once."""
        return sorted(dict.fromkeys(self._found), key=lambda fault: (fault.line, fault.node_id or ""))

    @property
    def errors(self) -> list[Fault]:
        return [fault for fault in self.all if fault.severity == "error"]
