"""Run a program with the winner of a run, without a changed line: `use` and `Candidate.active`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoprompt.errors import ConfigError, Problem
from autoprompt.programs import hooks
from autoprompt.programs.export import ProgramFile
from autoprompt.programs.winner import Winner, set_everywhere, set_here
from autoprompt.records import Candidate


def use(what: str | Path | Candidate | None) -> None:
    """Run your program with a candidate's texts and demonstrations, in this process, from now on.

    Call it once, when the program starts. Requests are changed as they leave: nothing is counted or kept.

    Args:
        what: A file that `autoprompt runs export RUN --to program.yaml` wrote, or a candidate such as
            `result.best`. None ends it.

    Raises:
        ConfigError: The file is no export of a program. The problem has the line.

    Examples:
        >>> import autoprompt
        >>> autoprompt.use("program.yaml")  # doctest: +SKIP
        >>> autoprompt.use(None)
    """
    chosen = None if what is None else Winner.of(_candidate(what))
    was = set_everywhere(chosen)
    if chosen is not None and was is None:
        hooks.install()
    elif chosen is None and was is not None:
        hooks.uninstall()


@contextmanager
def active(candidate: Candidate) -> Iterator[None]:
    """Run your program with a candidate's texts and demonstrations while the block runs, in this context.

    Threads and tasks that begin in the block have them too.

    Raises:
        ConfigError: The candidate is no program's.
    """
    with set_here(Winner.of(candidate)):
        hooks.install()
        try:
            yield
        finally:
            hooks.uninstall()


def _candidate(what: object) -> Candidate:
    if isinstance(what, Candidate):
        return what
    if isinstance(what, str | Path):
        return ProgramFile.load(Path(what)).candidate(Path(what))
    said = f"expected the file of an export or a candidate, found {what!r:.80}"
    raise ConfigError(Problem("program.not-a-program", said, fix="Give `result.best`, or an export."))
