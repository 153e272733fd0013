"""The life cycle that runs of all kinds share."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from autoprompt import Models, RunConfig
from autoprompt.errors import (
    AutopromptError,
    ConfigError,
    EmptyAnswersError,
    EndpointError,
    Interrupted,
    Problem,
    StoreError,
)
from autoprompt.llm import Message, ScriptedClient
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.runs import RunFolder
from autoprompt.runs.session import Session

MODELS = Models(ScriptedClient(lambda messages: "A"))


def run(folder: Path, error: BaseException | None, *, is_answered: bool, events: list[Any]) -> None:
    """A run that asks a model, or not, and then fails."""
    settings = {"prompt": "A or B?"}
    with Session.begin(settings, MODELS, events.append, kind="science", name="x", runs_dir=folder) as session:
        ask(session, error, is_answered=is_answered)


def ask(session: Session, error: BaseException | None, *, is_answered: bool) -> None:
    with session.asking(RunConfig(no_cache=True), BudgetMeter()):
        if is_answered:
            session.models.client("task").complete([Message("user", "A or B?")])
            assert session.synced_position() == 1
        session.emit({"event": "rows_evaluated", "done": 1, "total": 1})
        session.emit({"event": "node_started"})
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "is_answered", "is_kept"),
    [
        (EndpointError("gone"), True, True),
        (EndpointError("gone"), False, False),
        (EmptyAnswersError("empty"), True, False),  # empty answers are asked for again
        (ConfigError("wrong"), True, True),
        (ConfigError("wrong"), False, False),
        (ValueError("a bug"), False, True),
        (None, False, True),
    ],
)
def test_a_failed_run_is_kept_if_there_is_something_to_resume(
    tmp_path: Path, error: Exception | None, is_answered: bool, is_kept: bool
) -> None:
    events: list[dict[str, Any]] = []
    if error is None:
        run(tmp_path, None, is_answered=is_answered, events=events)
    else:
        with pytest.raises(type(error)):
            run(tmp_path, error, is_answered=is_answered, events=events)
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(folders) == is_kept
    said = [event["message"] for event in events if event["event"] == "warning"]
    if isinstance(error, AutopromptError) and not is_kept:
        assert said[-1].endswith(" removed: it has no answers to resume from.")
    elif isinstance(error, EndpointError):
        assert said == [f"stopped; the answers so far are saved. Resume with: autoprompt resume {folders[0]}"]
    else:
        assert said == []
    if is_kept:
        folder = RunFolder(folders[0])
        assert not folder.is_locked()
        logged = [event["event"] for event in folder.read_events()]
        assert logged[0] == "node_started"  # rows are in progress.json
        assert folder.progress_path.is_file()


@pytest.mark.parametrize(
    ("error", "is_answered", "is_noted"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True, True),
        (MemoryError(), True, True),
        (StoreError(Problem("machine.no-space", "no space is left on the disk")), True, True),
        (OSError(errno.ENOSPC, "No space left on device"), False, False),
        (ValueError("a bug"), True, False),
        (StoreError("wrong"), True, False),
    ],
)
def test_an_error_of_the_machine_says_how_to_resume_the_run_that_it_ended(
    tmp_path: Path, error: Exception, is_answered: bool, is_noted: bool
) -> None:
    with pytest.raises(type(error)) as caught:
        run(tmp_path, error, is_answered=is_answered, events=[])
    command = [f"autoprompt resume {path}" for path in tmp_path.iterdir() if path.is_dir()]
    noted = [f"What was running is kept. Then resume it with: {one}" for one in command] if is_noted else []
    assert getattr(caught.value, "__notes__", []) == noted


def test_ctrl_c_says_how_to_resume_and_the_run_is_resumed(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    with pytest.raises(Interrupted, match=r"the state is saved\. Resume with: autoprompt resume /"):
        run(tmp_path, KeyboardInterrupt(), is_answered=True, events=events)
    (path,) = (path for path in tmp_path.iterdir() if path.is_dir())
    folder = RunFolder(path)
    with Session.resume(folder, MODELS, events.append) as session:
        assert session.is_resumed
        with pytest.raises(StoreError, match="is held by process"), folder.lock():
            pass
        assert isinstance(MODELS.task, ScriptedClient)
        sent = len(MODELS.task.calls)
        ask(session, None, is_answered=True)
        assert len(MODELS.task.calls) == sent  # the journal had the answer
    with (
        pytest.raises(StoreError, match="began with models given in Python"),
        Session.resume(folder, None, None) as session,
    ):
        ask(session, None, is_answered=False)


def test_a_new_run_names_its_interrupted_twin(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(tmp_path, KeyboardInterrupt(), is_answered=True, events=[])
    events: list[dict[str, Any]] = []
    run(tmp_path, None, is_answered=False, events=events)
    assert "with the same settings, was interrupted after 1 call." in events[0]["message"]
