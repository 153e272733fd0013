"""Settings: one record, from flags, environment, YAML and sidecar, each value checked once.

Every name in YAML is the flag's name with `_`. Paths in YAML are relative to the YAML file.
Precedence: flag, AUTOPROMPT_... variable, config file, sidecar (NAME.task.yaml), the user's own file
(`autoprompt config`), OPENAI_... variables, default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_serializer, field_validator, model_validator

from autoprompt.errors import Place, Problem
from autoprompt.settings.kinds import (
    EMPTY,
    Address,
    AtOnce,
    FilePath,
    Host,
    Label,
    Name,
    Panel,
    Positive,
    PositiveFloat,
    PromptText,
    Refused,
    Settings,
    metric_name,
    setting,
    traffic_name,
)

Preset = Literal["quick", "standard", "thorough"]
Pick = Literal["cheapest", "highest"]  # which of the two tested ends a run returns
Sandboxing = Literal["auto", "strict", "none"]
DEFAULT_PASSES = 5  # of a scientific workflow; the one place that says so
JUDGED = "llm_judge"  # the metric that asks a model
LABEL_SET = "label_set"  # the metric whose answers are several labels at once
LOCAL = "local"  # names the embedded model, alone or in `local:NAME`
STARTS = ("program", "workflow", "prompt")  # each names what is optimized or scored: one of them may be given


def exclusive(one: str, other: str) -> Refused:
    """Return the error of two settings of which only one may be given."""
    said, fix = "cannot be combined with {related}", "Give one of them."
    return Refused(
        Problem("settings.exclusive", said, Place(setting=one), fix, related=(Place(setting=other),))
    )


def is_embedded(model: str | None) -> bool:
    """Return whether a name of a model is `local` or `local:NAME`."""
    return model is not None and model.partition(":")[0] == LOCAL


def has_address(model: str | None, base_url: str | None) -> bool:
    """Return whether these settings name a model that other programs can ask, too."""
    return (model is not None or base_url is not None) and not is_embedded(model)


def without_excluded(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings `known` without a `model` or `base_url` that one of those in `given` excludes."""
    excluded: set[str] = set()
    if is_embedded(given.get("model")):
        excluded.add("base_url")
    if "base_url" in given and is_embedded(known.get("model")):
        excluded.add("model")
    return {name: value for name, value in known.items() if name not in excluded}


def openai_address(environ: Mapping[str, str]) -> str:
    """Return the address that the OpenAI client's variables name, or "". The older variable counts last."""
    return environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE") or ""


class DataSettings(Settings):
    """Which rows, and how to read them."""

    dataset: FilePath | None = setting(
        None, "File with all rows: JSONL, JSON, CSV, TSV or Parquet.", Panel.START
    )
    train: FilePath | None = setting(
        None, "Rows that the analyst may read.", Panel.DATA, shown="split from `dataset`"
    )
    val: FilePath | None = setting(
        None, "Rows that decide between candidates.", Panel.DATA, shown="split from `dataset`"
    )
    test: FilePath | None = setting(
        None, "Rows for the final comparison.", Panel.DATA, shown="split from `dataset`"
    )
    no_test: bool = setting(False, "Keep no test rows; train and validate on all.", Panel.DATA)
    input_field: str = setting("input", "Field with the input.", Panel.DATA)
    target_field: str = setting("target", "Field with the expected answer.", Panel.DATA)
    group_field: str | None = setting(None, "Field whose equal values keep rows in one split.", Panel.DATA)
    labels: tuple[Label, ...] | None = setting(
        None, "All allowed answers.", Panel.DATA, shown="inferred from the targets"
    )
    metric: Annotated[str, BeforeValidator(metric_name)] = setting(
        "exact_match",
        "Scoring: `exact_match`, `macro_f1`, `contains`, `regex`, `numeric`, `json_match`, `label_set`, "
        "`llm_judge` or `python:MODULE:FUNCTION`.",
        Panel.DATA,
    )
    metric_options: dict[str, Any] = setting({}, "Options of the metric.", Panel.DATA)
    allow_conflicts: bool = setting(False, "Accept equal inputs with different targets.", Panel.DATA)
    max_dataset_mb: Positive = setting(1000, "Most megabytes of a file's rows, unpacked.", Panel.DATA)
    drop_leaks: bool = setting(False, "Drop rows that two of the split files share.", Panel.DATA)
    split_seed: int = setting(0, "Seed of the split; `seed` never moves a row.", Panel.DATA)
    max_val: Positive | None = setting(
        None,
        "Most validation rows to split from `dataset`.",
        Panel.DATA,
        shown="by preset, or what `max_calls` has room for",
    )
    max_test: Positive | None = setting(
        None,
        "Most test rows to split from `dataset`.",
        Panel.DATA,
        shown="by preset, or what `max_calls` has room for",
    )

    @model_validator(mode="after")
    def _test_is_given_or_left_out(self) -> Self:
        if self.test is not None and self.no_test:
            raise exclusive("test", "no_test")
        return self


class TraitSettings(Settings):
    """What a user knows about a model. None: it is measured, or a default holds."""

    thinks_first: bool | None = Field(
        default=None, description="Whether it writes thoughts, shown or hidden, before its answer."
    )
    has_system_role: bool | None = Field(default=None, description="Whether it takes a system message.")
    window_tokens: Positive | None = Field(
        default=None, description="Most tokens of a request and its answer together."
    )
    is_slow: bool | None = Field(
        default=None, description="Whether the search should avoid long answers, which take it seconds each."
    )
    rereads_prefix: bool | None = Field(
        default=None, description="Whether requests that begin alike are read faster than others."
    )
    writes_well: bool | None = Field(
        default=None, description="Whether it can write and analyze prompts, and not only describe answers."
    )


class RoleTraits(TraitSettings):
    """The same for every model; `optimizer` and `judge` hold what differs for the models of these roles."""

    optimizer: TraitSettings | None = None
    judge: TraitSettings | None = None


class ModelSettings(Settings):
    """Which models, and how they are called."""

    model: Name | None = setting(
        None,
        "Task model: `local`, `local:NAME`, or a name at the endpoint.",
        Panel.START,
    )
    base_url: Address | None = setting(None, "Base URL of an OpenAI-compatible endpoint.", Panel.START)
    optimizer_model: Name | None = setting(
        None, "Model that analyzes errors and writes prompts.", Panel.MODELS, shown="the task model"
    )
    optimizer_base_url: Address | None = setting(None, "Endpoint of the optimizer model.", Panel.MODELS)
    judge_model: Name | None = setting(
        None, "Model that grades for `llm_judge`.", Panel.MODELS, shown="the optimizer model"
    )
    judge_base_url: Address | None = setting(None, "Endpoint of the judge model.", Panel.MODELS)
    temperature: Annotated[float, Field(ge=0, le=2)] = setting(
        0.0, "Sampling temperature of the task model.", Panel.MODELS
    )
    max_output_tokens: Positive | None = setting(
        None, "Longest answer of the task model, thoughts included.", Panel.MODELS, shown="by task"
    )
    optimizer_max_output_tokens: Positive | None = setting(
        None, "Longest answer of analyst, writer and describer.", Panel.MODELS, shown="by role"
    )
    judge_max_output_tokens: Positive | None = setting(
        None, "Longest answer of the judge, thoughts included.", Panel.MODELS, shown="by role"
    )
    reasoning_effort: Name | None = setting(
        None,
        "Thinking before an answer, in the endpoint's words: `none`, `low`, `high`.",
        Panel.MODELS,
        shown="the endpoint's",
    )
    traits: RoleTraits | None = setting(
        None,
        f"Known traits of the models: {', '.join(f'`{name}`' for name in TraitSettings.model_fields)}.",
        Panel.MODELS,
        shown="measured",
    )
    timeout: Annotated[float | None, Field(gt=0)] = setting(
        None, "Seconds to wait for one answer.", Panel.MODELS, shown="120; 600 for local models"
    )
    concurrency: AtOnce = setting(
        "auto",
        "Requests at once; `auto` finds out how many the endpoint takes, up to 64.",
        Panel.MODELS,
        shown="auto; 1 for local models, 16 for programs",
    )
    rpm: Positive | None = setting(None, "Most requests a minute.", Panel.MODELS)
    tpm: Positive | None = setting(None, "Most tokens a minute.", Panel.MODELS)
    constrain: Literal["auto", "grammar", "json_schema", "off"] = setting(
        "auto", "Way to hold answers to the labels; `auto` asks the endpoint.", Panel.MODELS
    )
    transport: Literal["http", "langchain"] = setting(
        "http", "Client of plain completions: lean HTTP, or langchain-openai.", Panel.MODELS
    )
    price_input: Annotated[float, Field(ge=0)] | None = setting(
        None, "USD per million prompt tokens; needs `price_output`.", Panel.MODELS, shown="looked up"
    )
    price_output: Annotated[float, Field(ge=0)] | None = setting(
        None, "USD per million completion tokens; needs `price_input`.", Panel.MODELS, shown="looked up"
    )
    price_cached_input: Annotated[float, Field(ge=0)] | None = setting(
        None, "USD per million prompt tokens from the provider's cache.", Panel.MODELS, shown="`price_input`"
    )
    no_cache: bool = setting(False, "Do not reuse answers of other runs.", Panel.MODELS)
    cache_dir: FilePath | None = setting(
        None, "Folder of the response cache.", Panel.MODELS, shown="the user's cache folder"
    )


class Budget(Settings):
    """Limits, checked before a call is sent. All requests count: task, optimizer, judge, retries.

    Examples:
        >>> from autoprompt import Budget
        >>> Budget(max_calls=500, max_cost=0.5).max_cost
        0.5
    """

    max_calls: Positive | None = setting(None, "Most requests.", Panel.BUDGET)
    max_tokens: Positive | None = setting(None, "Most tokens, prompt and completion.", Panel.BUDGET)
    max_cost: PositiveFloat | None = setting(None, "Most US dollars.", Panel.BUDGET)
    max_seconds: PositiveFloat | None = setting(None, "Most seconds.", Panel.BUDGET)


class CallSettings(ModelSettings, Budget):
    """What everything that calls models has: which, and how much."""


class RunConfig(DataSettings, CallSettings):
    """All settings of `autoprompt run`. What is None is filled from sidecar, preset or environment.

    Examples:
        >>> from autoprompt import RunConfig
        >>> config = RunConfig(dataset="tickets.csv", prompt="Choose the team.", model="gpt-4o-mini")
        >>> config.metric, config.max_calls
        ('exact_match', None)
    """

    prompt: PromptText | None = setting(None, "Text of the prompt, or @FILE.", Panel.START)
    workflow: FilePath | None = setting(
        None, "Workflow (YAML) with its prompts, instead of one prompt.", Panel.PROGRAM
    )
    target_output: str | None = setting(
        None,
        "Output of the workflow to score.",
        Panel.DATA,
        shown="the only one, or the target field's",
    )
    mocks: FilePath | None = setting(
        None, "Outputs (YAML) that replace nodes of the workflow.", Panel.PROGRAM
    )
    tools: FilePath | None = setting(
        None, "Python file with @tool functions for the workflow; it is executed.", Panel.PROGRAM
    )
    allow_private_hosts: tuple[Host, ...] = setting(
        (), "Private hosts that the workflow may call: `HOST` or `HOST:PORT`.", Panel.PROGRAM
    )
    program: str | None = setting(
        None, "Your own program as `module:object`: a function, Runnable or graph.", Panel.PROGRAM
    )
    prompts_file: FilePath | None = setting(
        None, "YAML or JSON file in which the program keeps its prompts.", Panel.PROGRAM
    )
    allow_effects: bool = setting(False, "Run the program's tools that seem to write.", Panel.PROGRAM)
    program_changed_ok: bool = setting(
        False, "Resume although the program's source or the host that it asks has changed.", Panel.PROGRAM
    )
    preset: Preset = setting("standard", "Depth of the search.", Panel.START)
    max_iterations: Positive | None = setting(
        None, "Most rounds of writing.", Panel.SEARCH, shown="by preset"
    )
    seed: int = setting(0, "Seed of the search.", Panel.SEARCH)
    max_prompt_tokens: Positive = setting(
        4000, "Longest prompt to accept, demonstrations included.", Panel.SEARCH
    )
    max_demos: Annotated[int, Field(ge=0)] = setting(128, "Most demonstrations in a prompt.", Panel.SEARCH)
    traffic: Annotated[str, BeforeValidator(traffic_name)] = setting(
        "cold", "Calls to price a prompt for: `cold`, `warm`, or how many an hour.", Panel.SEARCH
    )
    pick: Pick = setting(
        "cheapest",
        "Prompt to return: the one with the `highest` score, or the `cheapest` that is about as good.",
        Panel.SEARCH,
    )
    no_reasoning: bool = setting(False, "Do not try reasoning before the answer.", Panel.SEARCH)
    locked: tuple[str, ...] = setting(
        (), "Passages of the prompt, or components, to keep unchanged.", Panel.SEARCH
    )
    task: str = setting("", "Description of the task for the memory.", Panel.SEARCH, shown="the prompt")
    memory_file: FilePath = setting(
        Path("memory/memory_experiences.txt"), "File of the experiences.", Panel.SEARCH
    )
    no_memory: bool = setting(False, "Neither read nor write experiences.", Panel.SEARCH)
    analyst: Literal["plain", "scientific"] = setting(
        "plain",
        "Analysis of errors: `plain` asks a model, `scientific` also tests hypotheses with code.",
        Panel.SEARCH,
    )
    sandbox: Sandboxing = setting("auto", "Confinement of the scientific analyst's code.", Panel.SEARCH)
    name: Name | None = setting(None, "Name of the run, for lists and reports.", Panel.OUTPUT)
    tags: tuple[Name, ...] = setting((), "Words to find the run by in lists.", Panel.OUTPUT)
    notes: str = setting("", "Text to show with the run.", Panel.OUTPUT)
    runs_dir: FilePath = setting(Path("runs"), "Folder of the runs.", Panel.OUTPUT)

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        given = [name for name in STARTS if getattr(self, name) is not None]
        if len(given) > 1:
            raise exclusive(*given[:2])
        return self


class ExportedSettings(Settings):
    """Which prompt `autoprompt eval` and `autoprompt check` measure, where it is not `prompt`."""

    exported: FilePath | None = setting(
        None, "Exported prompt (YAML) to measure, with its demonstrations.", Panel.START
    )


class CheckConfig(ExportedSettings):
    """The gate of `autoprompt check`: what is compared, how much it may drop, and what is written.

    Examples:
        >>> from autoprompt import CheckConfig
        >>> CheckConfig(baseline="baselines/tickets.json", max_drop=0.02).max_drop
        0.02
    """

    baseline: FilePath | None = setting(None, "Scores to compare with: a JSON file in git.", Panel.START)
    max_drop: Annotated[float, Field(ge=0, le=1)] = setting(
        0.0, "Largest drop of the score that passes.", Panel.GATE
    )
    min_score: Annotated[float, Field(ge=0, le=1)] | None = setting(
        None, "Lowest score that passes.", Panel.GATE
    )
    repeat: Annotated[int, Field(ge=1, le=100)] | None = setting(
        None, "Answers to ask for each row.", Panel.GATE, shown="as in the baseline, else 1"
    )
    must_pass: tuple[str, ...] = setting(
        (), "Rows that may never fail, each by its `id` or whole input.", Panel.GATE
    )
    junit: FilePath | None = setting(None, "JUnit XML file to write, a testcase a row.", Panel.OUTPUT)
    github: bool = setting(False, "Write GitHub annotations and a step summary.", Panel.OUTPUT)
    record: FilePath | None = setting(None, "File to write the model's answers to.", Panel.GATE)
    replay: FilePath | None = setting(None, "File to take the answers from; nothing is sent.", Panel.GATE)

    @model_validator(mode="after")
    def _answers_are_recorded_or_replayed(self) -> Self:
        if self.record is not None and self.replay is not None:
            raise exclusive("record", "replay")
        return self


class ConfigFile(CheckConfig, RunConfig):
    """What a config file may hold: `run`, `eval`, `check` and `batch` read one file, each what is its own."""

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if self.prompt is not None and self.exported is not None:
            raise exclusive("prompt", "exported")
        return self


class PassSettings(Settings):
    """How deep a scientific workflow digs. Its number may be assigned until the run begins."""

    model_config = ConfigDict(frozen=False, validate_assignment=True)

    max_iterations: Positive = setting(DEFAULT_PASSES, "Most passes.", Panel.EXPERIMENTS)


class AgentSettings(Settings):
    search: PassSettings = Field(default_factory=PassSettings, description="Depth.")


class ScienceConfig(CallSettings):
    """All settings of `autoprompt science`.

    Examples:
        >>> from autoprompt import ScienceConfig
        >>> ScienceConfig(task="Which product sells best?", max_iterations=4).max_iterations
        4

    `config.agent.search.max_iterations` is the number of passes that is used, whichever name gave it:
    `max_iterations` as an argument or a flag, or `agent` in YAML. It may be assigned.
    """

    timeout: Annotated[float | None, Field(gt=0)] = setting(
        600.0, "Seconds to wait for one answer: code and prose are long.", Panel.MODELS
    )
    task: str = setting("", "Question to answer or thing to make, in words.", Panel.START)
    io: str | None = setting(None, "Inputs and outputs in words, e.g. `save to output.txt`.", Panel.START)
    data: tuple[FilePath, ...] = setting((), "Data file to copy into the work folder.", Panel.START)
    max_iterations: Positive | None = setting(
        None,
        "Most passes: 2-3 to try, 3-4 for a simple question, 5-6 for a medium one, 7-10 for research.",
        Panel.EXPERIMENTS,
        shown=str(DEFAULT_PASSES),
    )
    agent: AgentSettings = setting(
        AgentSettings(),
        "Most passes, as `agent: {search: {max_iterations: N}}` in YAML.",
        Panel.EXPERIMENTS,
        shown=str(DEFAULT_PASSES),
    )
    sandbox: Sandboxing = setting(
        "auto",
        "Confinement of the code: `auto` the strongest here, `strict` all layers, `none` nothing.",
        Panel.EXPERIMENTS,
    )
    workdir: FilePath | None = setting(
        None, "Folder of the experiments.", Panel.EXPERIMENTS, shown="one in the run's folder"
    )
    python: FilePath | None = setting(
        None,
        "Interpreter of the experiments, with its libraries.",
        Panel.EXPERIMENTS,
        shown="the one that runs autoprompt",
    )
    experiment_seconds: Annotated[float, Field(gt=0)] = setting(
        60.0, "Most seconds of one experiment.", Panel.EXPERIMENTS
    )
    context_tokens: Positive | None = setting(
        None,
        "Window of the model; older passes are summarized.",
        Panel.MODELS,
        shown="32768; 8192 for local models",
    )
    seed: int = setting(0, "Seed to pass to the model.", Panel.EXPERIMENTS)
    runs_dir: FilePath = setting(Path("runs"), "Folder of the runs.", Panel.OUTPUT)

    @field_validator("task")
    @classmethod
    def _task_has_text(cls, value: str) -> str:
        if not value.strip():
            raise Refused(EMPTY)
        return value

    @model_validator(mode="after")
    def _says_one_number(self) -> Self:
        in_yaml = "agent" in self.model_fields_set and self.agent.search.max_iterations
        if self.max_iterations is not None and in_yaml and in_yaml != self.max_iterations:
            said = f"this is {self.max_iterations}, but another setting of the same number is {in_yaml}"
            own, other = Place(setting="max_iterations"), Place(setting="agent.search.max_iterations")
            raise Refused(Problem("settings.exclusive", said, own, "Give one of them.", related=(other,)))
        self._own_passes(self.max_iterations)
        return self

    @field_serializer("max_iterations")
    def _number_in_use(self, given: int | None) -> int | None:
        """One number, under both names: that in `agent` may have been assigned since."""
        return None if given is None else self.agent.search.max_iterations

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with a number of passes of its own; `max_iterations` in `update` sets it."""
        copied = super().model_copy(update=update, deep=deep)
        copied._own_passes((update or {}).get("max_iterations"))
        return copied

    def _own_passes(self, number: int | None) -> None:
        """Give this record a number of its own, which others may assign: `number`, or the one it has."""
        search = PassSettings(max_iterations=number or self.agent.search.max_iterations)
        self.__dict__["agent"] = AgentSettings(search=search)
