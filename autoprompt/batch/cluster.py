"""Trials as tasks of a Ray cluster. The only module that knows Ray; it is imported when a batch asks for it.

What all trials share (budget, rate, claims on questions, the response cache) is behind one actor, the hub,
on the driver's node: it needs no storage that the nodes share. Retries are the driver's and not Ray's, since
what a lost attempt had set aside has to be freed before the trial goes on.

Keys go to the workers as an argument of the task. Ray's own way, `env_vars` of a runtime environment, is not
used: its agent writes them in clear into `runtime_env_agent.log` (measured with Ray 2.60).
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

from autoprompt.batch.executor import Job, Outcome, Report
from autoprompt.batch.remote import Hub, HubLedger, SharedFolder, input_files, unpack, work
from autoprompt.batch.spec import ExecutorSettings
from autoprompt.batch.trials import Trial
from autoprompt.errors import AutopromptError, ConfigError, Place, Problem
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.ledger import Books, FileLedger
from autoprompt.text.display import ADDRESS_VARIABLES
from autoprompt.text.machine import install_extra

_EXECUTOR = Place(setting="executor")
# Keys and addresses that the models of a run read from the environment.
_OWN_VARIABLES = (
    "OPENAI_API_KEY",
    *ADDRESS_VARIABLES,
    "AUTOPROMPT_OPTIMIZER_API_KEY",
    "AUTOPROMPT_JUDGE_API_KEY",
)
_SLOTS_WITHOUT_CPUS = 8
_STOP_S = 30.0


class RayExecutor:
    """An `Executor` of Ray tasks. file: the ledger in the batch's folder.

    ledger: that one, or the hub's own where the hub is on a machine that does not see the folder; the file
    then follows at every `poll`.

    Raises:
        ConfigError: If Ray is not installed, no cluster answers, a variable is not set, or no node could ever
            run a trial.
    """

    def __init__(
        self,
        settings: ExecutorSettings,
        folder: Path,
        file: FileLedger,
        environ: Mapping[str, str],
    ) -> None:
        self._secrets = _variables(settings, environ)
        self._settings, self._file = settings, file
        self._ray = _connect(settings.address)
        self._jobs: dict[Any, Job] = {}
        self._hub_sees_folder = True
        self._data: dict[Path, Any] = {}
        self._place = SharedFolder(folder.absolute() / f".shared-{secrets.token_hex(8)}", Path.cwd())
        try:
            self.slots = settings.jobs or self._room()
            self._place.token.touch()
            self._start_hub()
        except BaseException:
            self.stop()
            raise

    @property
    def ledger(self) -> Books:
        return self._file if self._hub_sees_folder else HubLedger(self._hub, self._ray.get)

    def start(self, job: Job) -> None:
        settings = self._settings
        # A process for each trial: no variable and no memory stays for the next.
        task = self._ray.remote(max_calls=1)(work).options(
            num_cpus=settings.num_cpus,
            num_gpus=settings.num_gpus,
            resources=dict(settings.resources),
            max_retries=0,
            name=f"autoprompt {job.trial.id}",
        )
        # In a list, references stay references: a worker with the same storage fetches nothing.
        files = [(str(path), self._put(path)) for path in input_files(job.trial)]
        ref = task.remote(job.to_dict(), self._secrets, files, _memory(job.trial), self._place, self._hub)
        self._jobs[ref] = job

    def poll(self, timeout_s: float) -> list[Report]:
        if not self._jobs:
            return []
        ready, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=timeout_s)
        reports = [Report(trial, event) for trial, event in self._ask("take_events")]
        self._mirror()
        return reports + [self._ended(ref) for ref in ready]

    def stop(self) -> None:
        """End the tasks and the connection; a cluster that we have not started stays."""
        ray = self._ray
        if not ray.is_initialized():
            return
        for ref in self._jobs:
            ray.cancel(ref, force=True)
        if self._jobs:
            ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=_STOP_S)
        if getattr(self, "_hub", None) is not None:
            if not self._hub_sees_folder:
                self._mirror()
                self._ask("close")
            ray.kill(self._hub)
        self._jobs.clear()
        self._place.token.unlink(missing_ok=True)
        ray.shutdown()

    def _start_hub(self) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = self._ray
        here = ray.get_runtime_context().get_node_id()
        place = NodeAffinitySchedulingStrategy(node_id=here, soft=False)
        actor = ray.remote(Hub).options(num_cpus=0, scheduling_strategy=place, max_restarts=0)
        spent = {trial: (a.calls, a.tokens, a.cost_usd) for trial, a in self._file.spent().items()}
        caps = self._file.caps
        caps_given = (caps.max_calls, caps.max_tokens, caps.max_cost)
        self._hub = actor.remote(str(self._file.path), self._place, caps_given, spent)
        self._hub_sees_folder = bool(self._ask("sees_folder"))

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return self._ray.get(getattr(self._hub, method).remote(*arguments))
        except self._ray.exceptions.RayActorError as error:
            said = "the Ray cluster lost the actor that keeps the budget of the batch, so the batch stopped"
            fix = "Finished trials are kept. Run the batch again when the cluster is back."
            raise AutopromptError(Problem("batch.cluster-lost", said, fix=fix)) from error

    def _mirror(self) -> None:
        """Write down here what was spent there, where the hub's own file is on another machine."""
        if self._hub_sees_folder:
            return
        spent = {trial: Amount(*amounts) for trial, amounts in self._ask("spent").items()}
        self._file.write_spent(spent)

    def _ended(self, ref: Any) -> Report:
        job = self._jobs.pop(ref)
        name = job.trial.id
        exceptions = self._ray.exceptions
        try:
            answer = self._ray.get(ref)
        except (
            exceptions.RayTaskError,
            exceptions.RuntimeEnvSetupError,
            exceptions.TaskUnschedulableError,
        ) as error:
            said = str(getattr(error, "cause", None) or error).strip().splitlines()
            return Report(
                name, outcome=Outcome("failed", error=f"on the Ray worker: {said[-1] if said else error}")
            )
        except exceptions.RayError as error:
            return Report(
                name, outcome=Outcome("lost", error=f"Ray lost its worker ({type(error).__name__})")
            )
        if answer["parcel"] is not None:
            unpack(answer["parcel"], job)
        return Report(name, outcome=Outcome.from_dict(answer["outcome"]))

    def _room(self) -> int:
        """Return how many trials the cluster has room for.

        Raises:
            ConfigError: If it has none for even one.
        """
        has = self._ray.cluster_resources()
        settings = self._settings
        asked = {"CPU": settings.num_cpus, "GPU": settings.num_gpus, **settings.resources}
        for name, amount in asked.items():
            if amount > has.get(name, 0.0):
                said = f"a trial needs {amount:g} {name}, but the Ray cluster has {has.get(name, 0.0):g}"
                fix = "Lower the trial's need, or add nodes."
                raise ConfigError(Problem("batch.cluster-small", said, _EXECUTOR, fix))
        if not settings.num_cpus:
            return _SLOTS_WITHOUT_CPUS
        return max(1, math.floor(float(has["CPU"]) / settings.num_cpus))

    def _put(self, path: Path) -> Any:
        if path not in self._data:
            self._data[path] = self._ray.put(path.read_bytes())
        return self._data[path]


def _connect(address: str) -> Any:
    """Ray, connected. Without its usage statistics, its dashboard, and its log lines among ours."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before the import, which reads it
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        fix = f"Install it: {install_extra('ray')}."
        raise ConfigError(Problem("batch.no-ray", "Ray is not installed", _EXECUTOR, fix)) from error
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        # Ray puts the folder that it is started in first in the `sys.path` of every worker. In the working
        # folder, a `pydantic.py` would go before the library there. Trials enter it by themselves.
        with chdir(sys.prefix):
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        said = str(error).strip().splitlines()
        hint = ""
        if address.startswith("ray://") and "RAY_AUTH_MODE" not in os.environ:
            # Ray's client does not say so: it waits for half a minute, and calls it a timeout.
            hint = " If the cluster needs a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
        reason = said[0] if said else type(error).__name__
        fix = f"Start one, give its address, or write `address: local`.{hint}"
        problem = Problem("batch.no-cluster", f"no Ray cluster at {address!r} ({reason})", _EXECUTOR, fix)
        raise ConfigError(problem) from error
    return ray


def _variables(settings: ExecutorSettings, environ: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in settings.env if name not in environ]
    if missing:
        said = f"env names {', '.join(missing)}, which is not set"
        fix = "Set it, or remove it from env."
        raise ConfigError(Problem("batch.no-variable", said, _EXECUTOR, fix))
    return {name: environ[name] for name in (*_OWN_VARIABLES, *settings.env) if environ.get(name)}


def _memory(trial: Trial) -> str | None:
    """Return the experiences that the trial begins with, for a worker that does not see the file."""
    path = trial.config.memory_file
    return path.read_text(encoding="utf-8") if not trial.config.no_memory and path.is_file() else None
