"""A found prompt in the forms that other programs read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autoprompt.brief import brief_of
from autoprompt.dataset.conversations import (
    SYSTEM_FIELD,
    NoConversationError,
    looks_like_turns,
    read_conversation,
)
from autoprompt.errors import ConfigError, InputError, Place, Problem, UsageError, command
from autoprompt.records import EXPORT_FORMATS, Candidate, Demo, Example, ExportFormat, Message, Origin, Role
from autoprompt.runs import RunFolder
from autoprompt.runs.listing import best_of
from autoprompt.runs.provenance import ExportedRun, exported_run
from autoprompt.settings.kinds import Label
from autoprompt.settings.prompt_file import export_form, is_workflow
from autoprompt.settings.yaml_file import load_yaml, top_keys
from autoprompt.text.files import read_plain, to_json, to_yaml
from autoprompt.text.inputs import protect
from autoprompt.text.names import listed

if TYPE_CHECKING:
    from autoprompt.measure.task import SourceForm  # reads rows: not to list runs
    from autoprompt.settings.records import RunConfig

_YAML = (".yaml", ".yml")
_EXPORT = command("runs export", "RUN", to="prompt.yaml")
_LANGCHAIN_ROLES = {"system": "system", "user": "human", "assistant": "ai"}


def export(
    candidate: Candidate,
    format: str,
    *,
    input_field: str = "input",
    target_field: str | None = None,
    fields: Collection[str] = (),
    labels: Sequence[str] | None = None,
    model: str | None = None,
    is_conversation: bool = False,
    run: Mapping[str, Any] | None = None,
) -> str:
    """Return the candidate as text that ends with a line end.

    text: the prompt alone, without demonstrations. yaml: components, demos, labels, model, fields, run.
    target_field: of a row, holds the expected answer; None where that is not known.
    labels: the only answers allowed; () for free answers, None where that is not known.
    langchain: what `langchain_core.load.load` reads as a ChatPromptTemplate; its variables are `input_field`
        and those of `fields`, the row's other fields, that the prompt asks for. All other braces are text.
    openai: a JSON list of messages, demonstrations as turns, `{input_field}` in the last user message.
    run: which run it comes from, as `exported_run` says it; None if it comes from none.
    is_conversation: whether a row's input is a conversation. In the form of langchain a placeholder takes its
        messages; in that of openai it goes in the place of the last message.
    The messages are those that a run sends (`autoprompt.measure.program.render`).

    Raises:
        InputError: For an unknown format, and for several components in a format that holds one prompt.
    """
    if format not in EXPORT_FORMATS:
        raise InputError(f"unknown format {format!r}; known: {', '.join(EXPORT_FORMATS)}")
    match cast(ExportFormat, format):
        case "text":
            return candidate.prompt.rstrip("\n") + "\n"
        case "yaml":
            known = {"labels": None if labels is None else list(labels), "model": model}
            made_by = {} if run is None else {"run": dict(run)}
            named = {"input_field": input_field, "target_field": target_field}
            return _yaml(candidate, fields, known, named, made_by, is_conversation=is_conversation)
        case "openai":
            row = {name: f"{{{name}}}" for name in (input_field, *fields)}
            turns = (Message("user", row[input_field]),) if is_conversation else ()
            messages = _messages(candidate, row, input_field, turns)
            return to_json([message.to_dict() for message in messages], indent=2) + "\n"
        case "langchain":
            return _langchain(candidate, (input_field, *fields), input_field, is_conversation=is_conversation)


class ExportedCall(BaseModel):
    """A call of a tool, as chat completions have it."""

    model_config = ConfigDict(extra="forbid")
    id: str = Field(description="Id of the call.")
    type: Literal["function"] = Field(default="function", description="Kind of the tool.")
    function: dict[Literal["name", "arguments"], str] = Field(
        description="Name of the tool, and its arguments as JSON."
    )


class ExportedTurn(BaseModel):
    """A message, as chat completions have it."""

    model_config = ConfigDict(extra="forbid")
    role: Role = Field(description="Who speaks.")
    content: str = Field(description="Text of the message.")
    tool_calls: tuple[ExportedCall, ...] = Field(default=(), description="Calls in an assistant's message.")
    tool_call_id: str = Field(default="", description="Call that a tool's message answers.")


class ExportedDemo(BaseModel):
    """A row that is shown to the model with its answer. It has `input` or `messages`."""

    model_config = ConfigDict(extra="forbid")
    input: str = Field(default="", description="Input of the row.")
    messages: tuple[ExportedTurn, ...] = Field(default=(), description="Conversation, instead of an input.")
    output: str = Field(description="The answer.")
    component: str = Field(
        default="", description="Component that it is shown with; empty for a single prompt."
    )
    fields: dict[str, str] = Field(
        default={}, description="Other fields of the row that the prompt asks for."
    )

    @model_validator(mode="after")
    def _asks(self) -> ExportedDemo:
        if ("input" in self.model_fields_set) == any(turn.role == "user" for turn in self.messages):
            raise ValueError("expected an input, or messages with a turn of the user")
        return self


class ExportFile(BaseModel):
    """A prompt with its demonstrations: what `runs export RUN --to prompt.yaml` writes."""

    model_config = ConfigDict(extra="forbid")
    components: dict[str, str] = Field(
        min_length=1, description="Text of each component; a single prompt has the one component `prompt`."
    )
    demos: tuple[ExportedDemo, ...] = Field(
        default=(), description="Demonstrations, in the order they are shown."
    )
    labels: tuple[Label, ...] | None = Field(
        default=None, description="The only answers; empty for free answers, null if unknown."
    )
    model: str | None = Field(default=None, description="Model that the prompt was found for.")
    input_field: str = Field(default="input", description="Field of a row that holds its input.")
    target_field: str | None = Field(default=None, description="Field of a row that holds the right answer.")
    asked: tuple[str, ...] = Field(
        default=(), description="Fields of a row that the prompt is filled in with."
    )
    is_conversation: bool = Field(default=False, description="Whether the input of a row is a conversation.")
    run: ExportedRun | None = Field(default=None, description="Run that it comes from.")


class Exported(NamedTuple):
    """An exported prompt, to be sent from your own program.

    Attributes:
        candidate: The prompt with its demonstrations.
        labels: The only answers allowed; () for free answers, None if unknown.
        input_field: Field of a row that holds its input.
        asked: Fields of a row that the prompt is filled in with; () if unknown.
        model: The model that the prompt was found for; None if unknown.
        target_field: Field of a row that holds the expected answer; None if unknown.
        is_conversation: Whether a row's input is a conversation.
        run_id: The run that it comes from; None if unknown.

    Examples:
        >>> from autoprompt import Exported
        >>> exported = Exported.load("prompt.yaml")
        >>> exported.messages("item 3")[-1]
        {'role': 'user', 'content': 'item 3'}
    """

    candidate: Candidate
    labels: tuple[str, ...] | None
    input_field: str = "input"
    asked: tuple[str, ...] = ()
    model: str | None = None
    target_field: str | None = None
    is_conversation: bool = False
    run_id: str | None = None

    def __repr__(self) -> str:
        return brief_of(self, self._asdict().items())

    @classmethod
    def load(cls, path: str | Path) -> Exported:
        """Return the prompt that `autoprompt runs export RUN --to prompt.yaml` wrote.

        Args:
            path: The file.

        Raises:
            ConfigError: The file is not such an export. The problem has the line. Other forms of export are
                refused: they hold no labels, and do not tell the field's braces from others.

        Examples:
            >>> from autoprompt import Exported
            >>> exported = Exported.load("prompt.yaml")
            >>> messages = exported.messages("It burns now")
        """
        file = Path(path)
        protect(file, "exported prompt")
        text = _text_of(file)
        form = None if text is None else export_form(text)
        if form in ("openai", "langchain"):
            said = (
                f"this is an export in {form} format, which lacks the labels and the input field; expected "
                "YAML"
            )
            fix = f"Export it with `{_EXPORT}`."
            raise ConfigError(Problem("export.other-form", said, Place(file), fix))
        if text is not None and form is None and is_workflow(text):
            said = "expected an exported prompt (YAML), found a workflow"
            fix = "Give it as {workflow}."
            raise ConfigError(Problem("export.is-workflow", said, Place(file), fix, {"workflow": file}))
        if text is not None and "components" not in text and file.suffix.lower() not in _YAML:
            said = f"expected an exported prompt (YAML) from `{_EXPORT}`"
            fix = "If it is the text of a prompt, give it as {prompt}."
            raise ConfigError(Problem("export.not-exported", said, Place(file), fix, {"prompt": f"@{file}"}))
        if text is not None and "placed" in top_keys(file):
            said = "expected one prompt, found the texts of a program"
            fix = "To score them, use `autoprompt eval` and give the program with {program}."
            raise ConfigError(Problem("export.of-program", said, Place(file), fix, {"program": None}))
        found = load_yaml(file, ExportFile)
        demos = tuple(Demo.from_dict(turn.model_dump()) for turn in found.demos)
        marks = None if found.run is None else found.run.marks
        origin = Origin(str(file), found.labels, found.input_field, found.target_field, marks=marks)
        candidate = Candidate(components=found.components, demos=demos, origin=origin)
        return cls(
            candidate,
            found.labels,
            found.input_field,
            found.asked,
            found.model,
            found.target_field,
            found.is_conversation,
            None if found.run is None else found.run.id,
        )

    def messages(self, row: str | list[Any] | Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what a run sends for this row, as `[{"role": ..., "content": ...}]`.

        Args:
            row: The input alone, a text or a conversation, or all fields that the prompt asks for.

        Raises:
            InputError: A field is missing, the input is null, or the row is neither text nor fields nor a
                conversation. Or the export has the prompts of a workflow.
        """
        from autoprompt.measure.program import placeholders  # reads answers: not to list runs

        if not isinstance(row, str | list | Mapping):
            raise InputError(f"expected the input as text, or fields by name, found {type(row).__name__}")
        given = row if isinstance(row, Mapping) else {self.input_field: row}
        turns = self._turns(given.get(self.input_field))
        if turns and turns[0].role == "system":
            given = {SYSTEM_FIELD: turns[0].content, **given}
            turns = turns[1:]
        if lacking := [name for name in self.asked if name not in given]:
            there = f"its fields are {', '.join(given)}" if given else "it is empty"
            raise InputError(
                f"the row has no {lacking[0]!r}; {there}, but the prompt asks for {', '.join(self.asked)}"
            )
        if self.asked:  # other braces are text, the answer's field among them
            given = {name: given[name] for name in given if name in (self.input_field, *self.asked)}
        is_asked = self.input_field in placeholders(self.candidate.prompt, (self.input_field,))
        is_unsent = not is_asked and not turns and not self.is_conversation
        if is_unsent and placeholders(self.candidate.prompt, given):  # other fields are all that is sent
            given = {**given, self.input_field: ""}
        if self.input_field not in given:
            raise InputError(f"the row has no {self.input_field!r}; its fields are {', '.join(given)}")
        if given[self.input_field] is None:
            raise InputError(f"{self.input_field!r} of the row is null, expected a text")
        messages = _messages(self.candidate, given, self.input_field, turns)
        return [message.to_dict() for message in messages]

    def _turns(self, value: object) -> tuple[Message, ...]:
        """Return the turns of an input that is a conversation, a system turn first if it begins with one."""
        from autoprompt.measure.program import placeholders  # reads answers: not to list runs

        is_filled_in = bool(placeholders(self.candidate.prompt, (self.input_field,)))
        if isinstance(value, str) and self.is_conversation and not is_filled_in:
            return (Message("user", value),)
        if not isinstance(value, list | dict) or (is_filled_in and not looks_like_turns(value)):
            return ()
        try:
            found = read_conversation(value)
        except NoConversationError as error:
            raise InputError(f"{self.input_field!r} of the row is not a conversation: {error}") from error
        if found.turns[-1].role == "assistant" and not is_filled_in:
            raise InputError(f"{self.input_field!r} of the row ends with an assistant turn")
        return found.turns if found.system is None else (Message("system", found.system), *found.turns)


def _text_of(path: Path) -> str | None:
    """None for a file that cannot be read: `load_yaml` says why."""
    try:
        return read_plain(path)
    except (OSError, UnicodeDecodeError):
        return None


def read_one_prompt(path: Path) -> Exported:
    """Read an export of a single prompt.

    Raises:
        ConfigError: For the prompts of a workflow, too.
    """
    from autoprompt.measure.program import COMPONENT  # reads answers: not to list runs

    found = Exported.load(path)
    if [*found.candidate.components] != [COMPONENT]:
        said = (
            f"expected one prompt, found the prompts of a workflow ({', '.join(found.candidate.components)})"
        )
        fix = (
            f"Export the workflow with `{command('runs export', 'RUN', to='flow.yaml')}`, and give it as "
            "{workflow}."
        )
        raise ConfigError(
            Problem("export.of-workflow", said, Place(path), fix, {"workflow": Path("flow.yaml")})
        )
    return found


def read_export(path: Path, config: RunConfig) -> Exported:
    """Read an export of what the settings name: a program, else one prompt. Raises ConfigError."""
    if config.program is None:
        return read_one_prompt(path)
    from autoprompt.programs.export import ProgramFile  # reads requests: not to list runs

    candidate = ProgramFile.load(path).candidate(path)
    origin = candidate.origin or Origin(str(path))
    field = origin.input_field or "input"
    return Exported(candidate, origin.labels, field, target_field=origin.target_field)


def export_run(run: RunFolder, format: str, *, candidate: str | None = None) -> str:
    """Return the best candidate of a finished run. Raises StoreError if there is none yet. See `export`.

    candidate: the id of another one, or its beginning; of a run that need not be finished.
    format: one of `export_formats`. Raises UsageError for another one.
    """
    chosen, source = _chosen(run, candidate), _source(run, format)
    if source is not None:
        return source.write(run, chosen)
    config = run.read_config()
    return export(
        chosen,
        format,
        input_field=config.get("input_field") or "input",
        target_field=config.get("target_field"),
        fields=run.read_fields(),
        labels=run.read_labels(),
        model=config.get("model"),
        is_conversation=run.has_conversations(),
        run=exported_run(run, config) if format == "yaml" else None,
    )


def export_notes(run: RunFolder, format: str, *, candidate: str | None = None) -> list[str]:
    """Return what to know of the text that `export_run` returns, in sentences."""
    source = _source(run, format)
    return [] if source is None else source.notes(run, _chosen(run, candidate))


def export_formats(run: RunFolder) -> tuple[str, ...]:
    """Return the formats of a run: of one that has a source, that of the source and the texts alone.

    The other formats hold one prompt, which is no program of several.
    """
    from autoprompt.evaluation.task import source_form  # reads rows: not to list runs

    form = source_form(run.read_config())
    return EXPORT_FORMATS if form is None else ("text", form.name)


def _chosen(run: RunFolder, candidate: str | None) -> Candidate:
    data = best_of(run) if candidate is None else run.find_candidate(candidate)
    return Candidate(components=data["components"], demos=tuple(map(Demo.from_dict, data.get("demos", ()))))


def _source(run: RunFolder, format: str) -> SourceForm | None:
    """Return the form of the run's source if that is meant.

    Raises:
        UsageError: For what the run lacks.
    """
    from autoprompt.evaluation.task import source_form  # reads rows: not to list runs

    form, known = source_form(run.read_config()), export_formats(run)
    if format not in known:
        why = "" if form is None or format not in EXPORT_FORMATS else f", because it optimized a {form.name}"
        said = f"run {run.run_id} cannot be exported as {format!r}{why}; known formats: {listed(known)}"
        raise UsageError(Problem("export.format", said, Place(setting="format"), "Give one of them."))
    return None if format in EXPORT_FORMATS else form


def _messages(
    candidate: Candidate, row: Mapping[str, object], input_field: str, turns: tuple[Message, ...] = ()
) -> list[Message]:
    from autoprompt.measure.program import render  # reads answers: not to list runs

    if len(candidate.components) != 1:
        raise InputError(
            f"this format has one prompt, but the candidate has {len(candidate.components)} "
            f"({', '.join(candidate.components)}). Use 'text' or 'yaml'."
        )
    example = Example(id="", input=row[input_field], target="", fields=row, turns=turns)
    # No field is the target's here: a row to be answered has none.
    return render(candidate.prompt, candidate.demos, example, input_field=input_field, target_field="")


def _langchain(candidate: Candidate, names: Sequence[str], input_field: str, *, is_conversation: bool) -> str:
    from langchain_core.load import dumpd
    from langchain_core.messages import convert_to_messages
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

    # NUL marks the variables until the braces of the text are doubled; no prompt can hold it.
    row = {name: f"\0{name}\0" for name in names}
    asked = (Message("user", row[input_field]),) if is_conversation else ()
    turns: list[Any] = []
    for message in _messages(candidate, row, input_field, asked):
        if asked and message is asked[0]:
            turns.append(MessagesPlaceholder(input_field))
            continue
        if message.tool_calls or message.role == "tool":
            turns += convert_to_messages([message.to_dict()])  # literal: no template has tool calls
            continue
        template = message.content.replace("{", "{{").replace("}", "}}")
        for name, mark in row.items():
            template = template.replace(mark, f"{{{name}}}")
        turns.append((_LANGCHAIN_ROLES[message.role], template))
    return to_json(dumpd(ChatPromptTemplate.from_messages(turns)), indent=2) + "\n"


def _yaml(
    candidate: Candidate,
    fields: Collection[str],
    known: Mapping[str, Any],
    named: Mapping[str, str | None],
    made_by: Mapping[str, Any],
    *,
    is_conversation: bool,
) -> str:
    """fields: of a row. named: which of them are the input's and the target's; None is left out."""
    # Where the fields of a row are not known, nobody can say which braces are filled in.
    from autoprompt.measure.program import placeholders  # reads answers: not to list runs

    is_known = bool(fields) and len(candidate.components) == 1
    asked = placeholders(candidate.prompt, (str(named["input_field"]), *fields)) if is_known else ()
    data: dict[str, Any] = {
        "components": dict(candidate.components),
        "demos": [demo.to_dict() for demo in candidate.demos],
        **known,
        **{name: field for name, field in named.items() if field is not None},
        **({"asked": list(asked)} if asked else {}),
        **({"is_conversation": True} if is_conversation else {}),
        **made_by,
    }
    return to_yaml(data)
