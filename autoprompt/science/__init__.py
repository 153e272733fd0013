"""The scientific workflow: a model puts up hypotheses, code in the sandbox tests them, a conclusion is drawn.

found = investigate("What is the mean fare?", data=["titanic.csv"])
print(found.conclusion)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from autoprompt.llm.adapter import Models
from autoprompt.llm.client import Client
from autoprompt.science.records import Investigation, PassRecord
from autoprompt.science.run import start
from autoprompt.settings.records import DEFAULT_PASSES, AgentSettings, PassSettings, Sandboxing, ScienceConfig

__all__ = ["Investigation", "PassRecord", "investigate"]


def investigate(
    task: str,
    *,
    io: str | None = None,
    data: str | Path | Iterable[str | Path] = (),
    client: Client | None = None,
    max_iterations: int = DEFAULT_PASSES,
    workdir: str | Path | None = None,
    sandbox: Sandboxing = "auto",
) -> Investigation:
    """Answer a question, or do a task, by experiments: passes of hypothesis, code and observation.

    io: what is to be read and written. data: files that the code finds in its work folder under their names.
    client: the model; default: the embedded one. max_iterations: passes, the last of which concludes; with
    1, one experiment and the conclusion. workdir: where the code works and leaves its files; default: a
    folder in the run's own. sandbox: "auto", "strict" or "none".
    Writes `runs/<id>/`; `autoprompt.resume` takes up one that was killed. Code that fails is an
    observation.

    Raises:
        SandboxError: Before anything is sent, if the sandbox cannot do what is asked or a file is missing.
        ModelError: If the endpoint fails.
        Interrupted: On Ctrl-C.
    """
    paths = (data,) if isinstance(data, str | Path) else data
    config = ScienceConfig(
        task=task,
        io=io,
        data=tuple(Path(path) for path in paths),
        agent=AgentSettings(search=PassSettings(max_iterations=max_iterations)),
        workdir=None if workdir is None else Path(workdir),
        sandbox=sandbox,
    )
    return start(config, models=None if client is None else Models(client))
