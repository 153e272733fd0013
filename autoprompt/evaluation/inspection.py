"""What a program sends, seen on a few rows: nothing is searched or scored."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from autoprompt.dataset.python_rows import Rows, with_rows
from autoprompt.dataset.splits import load_checked
from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.evaluation.checks import given_rows
from autoprompt.evaluation.task import given_program, input_of, open_task, probed
from autoprompt.records import OnEvent
from autoprompt.settings.records import RunConfig
from autoprompt.settings.resolve import complete

if TYPE_CHECKING:
    from autoprompt.programs.probe import ProgramView
    from autoprompt.programs.task import ProgramTask


def inspect_program(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    program: object | None = None,
    on_event: OnEvent | None = None,
) -> ProgramView:
    """Run a program on a few rows, and return what is seen: its prompts, calls, tools and what a row costs.

    Args:
        config: The dataset and its fields. `max_calls` and the other limits hold.
        rows: As in `optimize`.
        program: As in `optimize`.
        on_event: Gets a `rows_evaluated` event for each row.

    Raises:
        InputError: As in `optimize`: for what would make a run wrong, with file and line.
        ModelError: The program's endpoint fails.

    Examples:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from autoprompt import RunConfig, inspect_program
        >>> model = FakeListChatModel(responses=["billing"])
        >>> def desk(text: str) -> str:
        ...     return model.invoke([("system", "Route it to billing or tech."), ("user", text)]).content
        >>> rows = [{"text": f"ticket {n}", "target": ("billing", "tech")[n % 2]} for n in range(20)]
        >>> view = inspect_program(RunConfig(input_field="text"), rows=rows, program=desk)
        >>> [component.text for component in view.components]
        ['Route it to billing or tech.']
    """
    with given_program(config, program) as config, with_rows(config, given_rows(config, rows)) as config:
        config = complete(config)
        if config.program is None:
            raise ConfigError(Problem("program.none", "no program is given", Place(setting="program")))
        if config.dataset is None:
            fix = "Give {dataset}, or `rows` in Python."
            raise ConfigError(Problem("dataset.none", "no dataset", fix=fix, settings={"dataset": "<FILE>"}))
        task = open_task(config)
        examples, _, _ = load_checked(
            config.dataset, config, input_of=input_of(config, task), needs_target=lambda: False
        )
        found, _ = probed(task.fitted(examples), config, examples, on_event or (lambda _: None))
        view = cast("ProgramTask", found).view
        if view is None:
            raise TypeError("a probed program has a view")
        return view
