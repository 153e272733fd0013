"""Who answers in a check: the models, what they say noted or not, or a recording of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from autoprompt.errors import Problem
from autoprompt.llm.client import CallRole, Client, Completion, Options
from autoprompt.llm.kept.recording import Recording, RecordingClient, ReplayClient, read_recording
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import Models, open_models
from autoprompt.records import Message, OnEvent
from autoprompt.settings.records import CheckConfig, RunConfig, is_embedded


class Answerers(Protocol):
    """The models of a check by role, whether they are asked or replayed."""

    def client(self, role: CallRole) -> Client: ...

    def concurrency(self) -> int: ...

    def warnings(self) -> list[Problem]: ...


class Sampled:
    """A client of one repeat: every request is another sample, so that no earlier answer is taken for it.

    repeat: from 0; the first asks as a run does, and shares its answers in the cache.
    """

    def __init__(self, inner: Client, repeat: int) -> None:
        self._inner, self._repeat = inner, repeat

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        seed = None if options.seed is None else options.seed + self._repeat
        return self._inner.complete(
            messages, replace(options, sample=options.sample + self._repeat, seed=seed)
        )

    def close(self) -> None:
        """The client is its owner's."""


class _Replayed:
    """A recording in the place of the models. Nothing is opened, so nothing can be sent."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self._recording, self._path, self._config = read_recording(path), path, config

    def client(self, role: CallRole) -> Client:
        return ReplayClient(self._recording, role, self._path)

    def concurrency(self) -> int:
        return 1

    def warnings(self) -> list[Problem]:
        named, recorded = self._config.model, self.client("task").name
        if named is None or is_embedded(named) or named == recorded:
            return []
        return [Problem.plain(f"the answers were recorded with {recorded}, and the settings name {named}")]


class _Recorded:
    """The models themselves, with what they say noted where that is asked for."""

    def __init__(self, models: Answerers, recording: Recording | None) -> None:
        self._models, self._recording = models, recording

    def client(self, role: CallRole) -> Client:
        client = self._models.client(role)
        return client if self._recording is None else RecordingClient(client, self._recording, role)

    def concurrency(self) -> int:
        return self._models.concurrency()

    def warnings(self) -> list[Problem]:
        return self._models.warnings()


@contextmanager
def open_answerers(
    config: RunConfig,
    limits: CheckConfig,
    models: Models | None,
    budget: BudgetMeter,
    recording: Recording | None,
    emit: OnEvent,
) -> Iterator[Answerers]:
    """The answerers that the settings name; models that were opened are closed at the end of the block."""
    if limits.replay is not None:
        yield _Replayed(limits.replay, config)
        return
    with open_models(config, models, budget, None, emit) as opened:
        yield _Recorded(opened, recording)
