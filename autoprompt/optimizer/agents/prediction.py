"""The predictor: a candidate's answers on rows, scored."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from autoprompt.measure.program import Program
from autoprompt.measure.rows import Grant, Job, OnExhausted, OnRow, evaluate_jobs
from autoprompt.metrics import Metric
from autoprompt.metrics.judge import Grades
from autoprompt.optimizer.agents.timed import Timed
from autoprompt.optimizer.search.order import asking_order
from autoprompt.records import Candidate, Evaluation, Example
from autoprompt.text.names import counted

# A search evaluates a few missing rows at times; that all of so few failed says nothing of the endpoint.
FEWEST_TO_FAIL = 5


class PredictionAgent:
    """Runs candidates of one program over rows.

    Usable alone: `PredictionAgent(program, metric).predict(prompt, rows)`.
    grant: what pays for questions that are asked again, see `evaluate_jobs`; else nobody counts them.
    """

    def __init__(
        self, program: Program, metric: Metric, *, concurrency: int = 1, grant: Grant = nullcontext
    ) -> None:
        self._program = Timed(program)
        self._metric = metric
        self._concurrency = concurrency
        self._grant = grant
        self.grades = Grades.of(metric)  # of all that was predicted, and of what was before a resume

    @property
    def metric(self) -> Metric:
        """What the rows are scored with."""
        return self._metric

    def pace(self, candidate: Candidate) -> float:
        """How many times as long as an average row one of the candidate's took so far; 1.0 where unknown."""
        return self._program.pace(candidate.id)

    @property
    def seconds_per_row(self) -> float:
        """So far, with the others that ran at the same time; 0.0 where no row has been sent."""
        return self._program.seconds_per_row

    def predict(
        self,
        prompt: str | Mapping[str, str] | Candidate,
        rows: Sequence[Example],
        *,
        on_row: OnRow | None = None,
    ) -> Evaluation:
        """The evaluation of one prompt: a text, texts by component, or a candidate. Rows keep their order.

        Components that a mapping leaves out keep the program's text. Raises ValueError for a component that
        the program has not, and for a text alone where it has several.
        """
        candidate = prompt if isinstance(prompt, Candidate) else Candidate(components=self._texts(prompt))
        return self.predict_jobs([(candidate, rows)], on_row=on_row)[0]

    def _texts(self, prompt: str | Mapping[str, str]) -> dict[str, str]:
        known = dict(self._program.components)
        if isinstance(prompt, str):
            if len(known) != 1:
                raise ValueError(
                    f"the program has {counted(len(known), 'prompt')}: give texts for {', '.join(known)}"
                )
            return dict.fromkeys(known, prompt)
        if unknown := [name for name in prompt if name not in known]:
            raise ValueError(f"no component {unknown[0]!r}; known: {', '.join(known)}")
        return {**known, **prompt}

    def predict_jobs(
        self,
        jobs: Sequence[Job],
        *,
        on_row: OnRow | None = None,
        on_exhausted: OnExhausted | None = None,
        may_all_fail: bool = False,
    ) -> list[Evaluation]:
        """Evaluations of several candidates, each on its own rows, as one batch.

        All rows of one candidate are sent before those of the next, so that an endpoint with a prefix cache
        reads each candidate's instruction once (see `asking_order`); with many requests at once no worker
        waits for a candidate to end. on_exhausted: as there. may_all_fail: no row that fails is an error, as
        the endpoint is known to answer. Raises what `evaluate_jobs` raises, and
        JudgeError where a judge has given hardly any grade.
        """
        started = time.monotonic()
        order = asking_order([candidate for candidate, _ in jobs])
        asked = evaluate_jobs(
            self._program,
            [jobs[place] for place in order],
            self._metric,
            concurrency=self._concurrency,
            on_row=on_row,
            fewest_to_fail=None if may_all_fail else FEWEST_TO_FAIL,
            grant=self._grant,
            on_exhausted=on_exhausted,
        )
        evaluations = [evaluation for _, evaluation in sorted(zip(order, asked, strict=True))]
        self._program.add_block(sum(len(rows) for _, rows in jobs), time.monotonic() - started)
        for evaluation in evaluations:
            self.grades.add(evaluation.rows)
        self.grades.check()
        return evaluations
