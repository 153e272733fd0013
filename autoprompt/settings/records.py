"""Settings: one record, from flags, environment, YAML and sidecar, each value checked once.

Every name in YAML is the flag's name with `_`. Paths in YAML are relative to the YAML file.
Precedence: flag, AUTOPROMPT_... variable, config file, sidecar (NAME.task.yaml), OPENAI_... variables,
default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from autoprompt.errors import Place, Problem
from autoprompt.settings.faults import Refused
from autoprompt.settings.kinds import (
    EMPTY,
    Address,
    FilePath,
    Host,
    Label,
    Name,
    Positive,
    PositiveFloat,
    Settings,
    metric_name,
)

Preset = Literal["quick", "standard", "thorough"]
Sandboxing = Literal["auto", "strict", "none"]
DEFAULT_PASSES = 5  # of a scientific workflow; the one place that says so
JUDGED = "llm_judge"  # the metric that asks a model
LABEL_SET = "label_set"  # the metric whose answers are several labels at once
LOCAL = "local"  # names the embedded model, alone or in `local:NAME`
STARTS = ("workflow", "prompt")  # each names what is optimized or scored: one of them may be given


EMPTY_PROMPT = Problem(
    "prompt.empty", "the prompt is empty", fix="Give its text, or `@` and the path of a file with it."
)


def exclusive(one: str, other: str) -> Refused:
    """Return the error of two settings of which only one may be given."""
    said, fix = "cannot be combined with {related}", "Give one of them."
    return Refused(
        Problem("settings.exclusive", said, Place(setting=one), fix, related=(Place(setting=other),))
    )


def is_embedded(model: str | None) -> bool:
    """Whether a name of a model is `local` or `local:NAME`."""
    return model is not None and model.partition(":")[0] == LOCAL


def openai_address(environ: Mapping[str, str]) -> str:
    """The address that the OpenAI client's variables name, the older of them last; "" where none does."""
    return environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE") or ""


class DataSettings(Settings):
    """Which rows, and how to read them."""

    dataset: FilePath | None = Field(
        default=None, description="File with all rows: JSONL, JSON, CSV, TSV or Parquet."
    )
    train: FilePath | None = Field(
        default=None, description="Rows that the analyst may see, instead of a split."
    )
    val: FilePath | None = Field(
        default=None, description="Rows that decide between candidates, instead of a split."
    )
    test: FilePath | None = Field(
        default=None, description="Sealed rows for the verdict, instead of a split."
    )
    no_test: bool = Field(default=False, description="Keep no sealed test; all rows go to train and val.")
    input_field: str = Field(default="input", description="Field that holds the input.")
    target_field: str = Field(
        default="target",
        description="Field that holds the expected answer; for `json_match` also an object or a list, "
        "for `label_set` a list.",
    )
    group_field: str | None = Field(
        default=None, description="Rows equal in this field stay in one split, and count together in tests."
    )
    labels: tuple[Label, ...] | None = Field(
        default=None, description="The only answers allowed; inferred if not given."
    )
    metric: Annotated[str, BeforeValidator(metric_name)] = Field(
        default="exact_match",
        description=(
            "How an answer is scored: `exact_match`, `macro_f1`, `contains`, `regex`, `numeric`, "
            "`json_match`, `label_set`, `llm_judge` or `python:module:function`."
        ),
    )
    metric_options: dict[str, Any] = Field(default_factory=dict, description="Options of the metric.")
    allow_conflicts: bool = Field(
        default=False, description="Go on with equal inputs that have different targets."
    )
    max_dataset_mb: Positive = Field(
        default=1000, description="Reject a file whose rows take more megabytes unpacked."
    )
    drop_leaks: bool = Field(default=False, description="Drop rows that stand in two given split files.")
    split_seed: int = Field(default=0, description="Seed of the split; a change of `seed` never moves a row.")
    max_val: Positive | None = Field(
        default=None,
        description=(
            "At most this many validation rows of a split; a file of your own is used whole. Default: the "
            "preset's, or as many as `max_calls` has room for."
        ),
    )
    max_test: Positive | None = Field(
        default=None,
        description=(
            "At most this many test rows of a split; a file of your own is used whole. Default: the "
            "preset's, or as many as `max_calls` has room for."
        ),
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

    model: Name | None = Field(
        default=None, description="Task model: `local`, `local:NAME`, or a name at the endpoint."
    )
    base_url: Address | None = Field(default=None, description="Base URL of an OpenAI-compatible endpoint.")
    optimizer_model: Name | None = Field(
        default=None, description="Analyst and writer; default: the task model."
    )
    optimizer_base_url: Address | None = Field(default=None, description="Endpoint of the optimizer model.")
    judge_model: Name | None = Field(
        default=None, description="Judge of `llm_judge`; default: the optimizer model."
    )
    judge_base_url: Address | None = Field(default=None, description="Endpoint of the judge model.")
    temperature: Annotated[float, Field(ge=0, le=2)] = Field(default=0.0, description="Of task calls.")
    max_output_tokens: Positive | None = Field(
        default=None,
        description="Longest answer of the task model in tokens, thoughts included. By default the task "
        "decides, and a model that thinks gets more.",
    )
    optimizer_max_output_tokens: Positive | None = Field(
        default=None, description="Longest answer of analyst, writer and describer, thoughts included."
    )
    judge_max_output_tokens: Positive | None = Field(
        default=None, description="Longest answer of the judge, thoughts included."
    )
    reasoning_effort: Name | None = Field(
        default=None,
        description="How much every model thinks before it answers, in the endpoint's words: `none`, "
        "`minimal`, `low`, `medium`, `high`.",
    )
    traits: RoleTraits | None = Field(
        default=None,
        description="What you know about the models, in place of what is measured or assumed: "
        f"{', '.join(f'`{name}`' for name in TraitSettings.model_fields)}.",
    )
    timeout: Annotated[float | None, Field(gt=0)] = Field(
        default=None, description="Seconds to wait for one answer; default: 120, of the embedded model 600."
    )
    concurrency: Positive | None = Field(
        default=None, description="Requests at once; default: 1 for the embedded model, else 16."
    )
    rpm: Positive | None = Field(default=None, description="At most this many requests a minute.")
    tpm: Positive | None = Field(default=None, description="At most this many tokens a minute.")
    constrain: Literal["auto", "grammar", "json_schema", "off"] = Field(
        default="auto",
        description="How labels are enforced; `auto`: by what the endpoint is known to support.",
    )
    transport: Literal["http", "langchain"] = Field(
        default="http", description="Client of plain completions: lean HTTP, or langchain-openai."
    )
    price_input: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="USD per million prompt tokens of the task model; needs `price_output`, too.",
    )
    price_output: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="USD per million completion tokens of the task model; needs `price_input`, too.",
    )
    price_cached_input: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="USD per million prompt tokens that the provider reads from its cache; needs the two "
        "others. Default: `price_input`.",
    )
    no_cache: bool = Field(default=False, description="Do not reuse answers of other runs.")
    cache_dir: FilePath | None = Field(
        default=None, description="Where the response cache lies; default: the user's cache folder."
    )


class Budget(Settings):
    """Caps, checked before a call is sent. All requests count: task, optimizer, judge, retries."""

    max_calls: Positive | None = Field(default=None, description="At most this many requests.")
    max_tokens: Positive | None = Field(
        default=None, description="At most this many tokens, prompt and completion."
    )
    max_cost: PositiveFloat | None = Field(default=None, description="At most this many USD.")
    max_seconds: PositiveFloat | None = Field(default=None, description="At most this much time.")


class CallSettings(ModelSettings, Budget):
    """What everything that calls models has: which, and how much."""


class RunConfig(DataSettings, CallSettings):
    """All settings of `autoprompt run`. What is None is filled from sidecar, preset or environment."""

    prompt: str | None = Field(default=None, description="The prompt, or @FILE with it.")
    workflow: FilePath | None = Field(
        default=None, description="Workflow (YAML) with its prompts, instead of one prompt."
    )
    target_output: str | None = Field(
        default=None,
        description="The workflow's output that is scored; default: the only one, or the target field's.",
    )
    mocks: FilePath | None = Field(
        default=None, description="Outputs (YAML) that stand in for nodes of the workflow."
    )
    tools: FilePath | None = Field(
        default=None, description="Python file whose @tool functions the workflow calls; it is executed."
    )
    allow_private_hosts: tuple[Host, ...] = Field(
        default=(),
        description=(
            "Hosts of this machine or a private network that http-request nodes and HTTP tools of the "
            "workflow may ask, as `HOST` or `HOST:PORT`."
        ),
    )
    preset: Preset = Field(default="standard", description="How much to search.")
    max_iterations: Positive | None = Field(
        default=None, description="Rounds of writing; default: by preset."
    )
    seed: int = Field(default=0, description="Seed of the search.")
    max_prompt_tokens: Positive = Field(
        default=4000, description="Longest prompt that is accepted, with its demonstrations."
    )
    max_demos: Annotated[int, Field(ge=0)] = Field(
        default=128, description="Most demonstrations in a candidate; 0: none."
    )
    prefer_shorter: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="Prefer the shortest prompt at most this far below the best in the race; 0.03: 3 points.",
    )
    no_reasoning: bool = Field(
        default=False, description="Do not try whether reasoning before the answer helps; it costs tokens."
    )
    locked: tuple[str, ...] = Field(
        default=(),
        description="Passages of the prompt that must stay as they are; of a workflow, components too.",
    )
    task: str = Field(default="", description="What the task is about, for the memory; default: the prompt.")
    memory: FilePath = Field(
        default=Path("memory/memory_experiences.txt"), description="The experience file."
    )
    no_memory: bool = Field(default=False, description="Neither read nor write experiences.")
    analyst: Literal["plain", "scientific"] = Field(
        default="plain",
        description="Who reads the errors: a model at a look, or by hypotheses that code tests on the rows.",
    )
    sandbox: Sandboxing = Field(
        default="auto", description="How the code of the scientific analyst is confined."
    )
    runs_dir: FilePath = Field(default=Path("runs"), description="Where run folders lie.")

    @field_validator("prompt")
    @classmethod
    def _prompt_has_text(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise Refused(EMPTY_PROMPT)
        return value


class ExportedSettings(Settings):
    """Which prompt `autoprompt eval` and `autoprompt check` measure, where it is not `prompt`."""

    exported: FilePath | None = Field(
        default=None,
        description="Measure this prompt with its demonstrations, YAML of `runs export`, not `prompt`.",
    )


class CheckConfig(ExportedSettings):
    """The gate of `autoprompt check`: what is compared, what it bears, and what it writes."""

    baseline: FilePath | None = Field(
        default=None, description="The scores to compare with: a JSON file in git."
    )
    max_drop: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="A score drop up to this is no regression, however significant."
    )
    min_score: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="A score under this is a regression, whatever the baseline was."
    )
    repeat: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="Answers asked for each row; default: as many as the baseline holds, else 1.",
    )
    must_pass: tuple[str, ...] = Field(
        default=(),
        description="Rows that may never fail, each by its whole input or by the `id` in its file.",
    )
    junit: FilePath | None = Field(
        default=None, description="Write a JUnit XML file, one testcase for each row."
    )
    github: bool = Field(default=False, description="Write GitHub annotations and the step's summary.")
    record: FilePath | None = Field(default=None, description="Write the model's answers to this file.")
    replay: FilePath | None = Field(
        default=None, description="Take the answers from this file; nothing is sent anywhere."
    )

    @model_validator(mode="after")
    def _answers_are_recorded_or_replayed(self) -> Self:
        if self.record is not None and self.replay is not None:
            raise exclusive("record", "replay")
        return self


class CheckFile(CheckConfig, RunConfig):
    """What a config file may hold: `run`, `eval`, `check` and `batch` read one file, each what is its own."""

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if self.prompt is not None and self.exported is not None:
            raise exclusive("prompt", "exported")
        return self


class PassSettings(Settings):
    """How deep a scientific workflow digs. Its number may be assigned until the run begins."""

    model_config = ConfigDict(frozen=False, validate_assignment=True)

    max_iterations: Positive = Field(default=DEFAULT_PASSES, description="Most passes.")


class AgentSettings(Settings):
    search: PassSettings = Field(default_factory=PassSettings, description="How deep it digs.")


class ScienceConfig(CallSettings):
    """All settings of `autoprompt science`.

    `config.agent.search.max_iterations` is the number of passes that is used, whichever name gave it:
    `max_iterations` as an argument or a flag, or `agent` in YAML. It may be assigned.
    """

    timeout: Annotated[float | None, Field(gt=0)] = Field(
        default=600.0, description="Seconds to wait for one answer: code and prose are long."
    )
    task: str = Field(default="", description="What is to be found out or made, in words.")
    io: str | None = Field(
        default=None, description="What is to be read and written, e.g. `save to output.txt`."
    )
    data: tuple[FilePath, ...] = Field(
        default=(), description="Data file, copied into the work folder; may be given several times."
    )
    max_iterations: Positive | None = Field(
        default=None,
        description=(
            "Most passes: 2-3 to try it, 3-4 for a simple question, 5-6 for a medium one, 7-10 for research. "
            f"The last one concludes; with 1, one experiment and the conclusion. [default: {DEFAULT_PASSES}]"
        ),
    )
    agent: AgentSettings = Field(
        default=AgentSettings(), description="`agent: {search: {max_iterations: N}}` says it in YAML, too."
    )
    sandbox: Sandboxing = Field(
        default="auto",
        description="`auto`: the strongest that works; `strict`: all layers or nothing; `none`: unconfined.",
    )
    workdir: FilePath | None = Field(
        default=None, description="Folder that the experiments work in; default: one in the run's own."
    )
    python: FilePath | None = Field(
        default=None, description="Interpreter of the experiments, with its libraries; default: this one."
    )
    experiment_seconds: Annotated[float, Field(gt=0)] = Field(
        default=60.0, description="Longest time of one experiment."
    )
    context_tokens: Positive | None = Field(
        default=None,
        description="The model's window; what is older is summarized. Default: 8192 embedded, else 32768.",
    )
    seed: int = Field(default=0, description="Passed on to the model.")
    runs_dir: FilePath = Field(default=Path("runs"), description="Where run folders lie.")

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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with a number of passes of its own; `max_iterations` in `update` sets it."""
        copied = super().model_copy(update=update, deep=deep)
        copied._own_passes((update or {}).get("max_iterations"))
        return copied

    def _own_passes(self, number: int | None) -> None:
        """Give this record a number of its own, which others may assign: `number`, or the one it has."""
        search = PassSettings(max_iterations=number or self.agent.search.max_iterations)
        self.__dict__["agent"] = AgentSettings(search=search)
