"""What is run on a row: a prompt with its demonstrations, sent to a model as one call.

In a prompt only `{identifier}` of a field of the row is a placeholder; every other brace is literal. The
field that holds the expected answer is never filled in: a model must not be told what it is asked for.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from autoprompt.errors import (
    BudgetExhausted,
    EndpointError,
    Problem,
    PromptError,
    RequestRefusedError,
    WithheldError,
)
from autoprompt.llm import portal
from autoprompt.llm.client import Client, Completion, Options, acomplete_of, own_acomplete
from autoprompt.records import Candidate, Demo, Example, Failure, Message, Prediction, record, text_of
from autoprompt.text.answers.labels import is_whole, read_answer
from autoprompt.text.answers.reasoning import OUTPUT_TOKENS, asks_to_reason, final_answer, is_marked
from autoprompt.text.answers.texts import is_unfinished_thought
from autoprompt.text.names import counted
from autoprompt.text.scripts import NAME

COMPONENT = "prompt"

_PLACEHOLDER = re.compile(rf"\{{({NAME})\}}")
_RETRIES = 2  # of an unreadable answer
# A retry is another sample, else the cache would give the same answer for ever; far from those of repeats.
_RETRY_SAMPLE = 1000


class Program(Protocol):
    """What is optimized. Safe to call from several threads at once.

    One with a true attribute `is_async` has `async def arun(example, candidate)` as well, and is awaited on
    the loop of `portal` instead of called in a thread for each row.
    """

    @property
    def components(self) -> Mapping[str, str]:
        """The texts to be optimized: name -> the naive text."""
        ...

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        """Answer one row with the candidate's texts. A failed row is a prediction with its `error`.

        Raises:
            AuthenticationError, RuntimeMissingError, EndpointError, BudgetExhausted: If no further row would
                fare better.
        """
        ...


@dataclass(frozen=True)
class PromptProgram:
    """One prompt, one call a row.

    prompt: the naive text. labels: the only answers allowed; they are sent as `Options.labels` and read
        tolerantly. read: another reader of the answer, usually `metric.read`; None from it is "unparsed".
    reasoning_tokens: longest answer where the prompt asks to reason first (`reading.reasoning`); labels are
        not enforced there, and the answer is what `final_answer` finds.
    read_marked: the reader of what stood behind "Answer:" there, where that is another than `read`.
    An unreadable answer can be asked for again (`Prediction.again`) at most twice, as another sample; one
    that comes back word for word, or that the budget has no call for, not so often. An empty answer is
    unparsed at once: the client has asked again already. A refusal, or an answer that a filter withheld, is
    a failed row, whatever labels it names.
    """

    client: Client
    prompt: str
    labels: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    read: Callable[[str], str | None] | None = None
    input_field: str = "input"
    target_field: str = "target"
    reasoning_tokens: int = OUTPUT_TOKENS
    read_marked: Callable[[str], str | None] | None = None

    @property
    def components(self) -> Mapping[str, str]:
        return {COMPONENT: self.prompt}

    @property
    def is_async(self) -> bool:
        """Whether a row that waits for its answer needs no thread."""
        return own_acomplete(self.client) is not None

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        return portal.run(self.arun(example, candidate))

    async def arun(self, example: Example, candidate: Candidate) -> Prediction:
        """Answer as `run` does, on the loop of `portal`."""
        prompt = candidate.components.get(COMPONENT, candidate.prompt)
        messages = render(
            prompt,
            candidate.demos,
            example,
            input_field=self.input_field,
            target_field=self.target_field,
        )
        is_reasoned = asks_to_reason(prompt)
        options = self._options(is_reasoned)
        return await self._ask(_Question(self, messages, options, is_reasoned, Prediction("", None)))

    async def _ask(self, question: _Question) -> Prediction:
        """Return one answer.

        An answer that is asked for again stays what it was where that fails: a prompt that cannot be read is
        not spared its zeros by a bad endpoint.
        """
        before, attempt, options = question.before, question.attempt, question.options
        is_reasoned = question.is_reasoned
        try:
            completion = await acomplete_of(self.client)(
                question.messages, _repeated_options(options, attempt)
            )
        except (EndpointError, RequestRefusedError, BudgetExhausted) as error:
            if isinstance(error, EndpointError) and error.is_fatal:
                raise
            if attempt:
                return replace(before, again=None)
            if isinstance(error, BudgetExhausted):
                raise
            return replace(before, error=str(error), failure=failure_of(error), again=None)
        usage = before.usage + completion.usage
        if completion.withheld:
            return Prediction(completion.text, None, usage, error=completion.withheld, failure="withheld")
        is_settled = not completion.text.strip() or completion.text == before.text or attempt == _RETRIES
        # What went round in circles, or thought without an end, would do so again, at the price of the
        # longest answer.
        is_settled |= completion.is_cut or is_unfinished_thought(completion.text)
        value = self._read(completion, is_reasoned)
        is_cut = completion.is_cut and not is_whole(completion.text, value, options.labels)
        probs = None if value is None else completion.label_probs
        found = Prediction(completion.text, value, usage, label_probs=probs, is_cut=is_cut)
        if value is not None or is_settled:
            return found
        return replace(found, again=replace(question, before=found, attempt=attempt + 1))

    @cached_property
    def _plain_options(self) -> Options:
        return replace(self.options, labels=self.labels) if self.labels else self.options

    def _options(self, is_reasoned: bool) -> Options:
        if is_reasoned:
            # No probabilities either: those of the first word would be none of a label.
            useful = self.options.useful_tokens
            return replace(
                self.options,
                labels=(),
                wants_label_probs=False,
                max_output_tokens=self.reasoning_tokens,
                useful_tokens=None if useful is None else max(useful, OUTPUT_TOKENS),
            )
        return self._plain_options

    def _read(self, completion: Completion, is_reasoned: bool) -> str | None:
        answer: str | None = completion.text
        read = self.read
        if is_reasoned:
            answer = final_answer(completion.text, is_cut=completion.is_cut)
            if is_marked(completion.text, is_cut=completion.is_cut):
                read = self.read_marked or read
        if answer is None:
            return None
        return read(answer) if read else read_answer(answer, self.labels)


@record
class _Question:
    """A request of a row, to be asked on the loop or, by a call, from any other thread.

    before: the answer of the attempt before, empty for the first one.
    """

    program: PromptProgram
    messages: Sequence[Message]
    options: Options
    is_reasoned: bool
    before: Prediction
    attempt: int = 0

    def __call__(self) -> Prediction:
        return portal.run(self.asked())

    def asked(self) -> Coroutine[Any, Any, Prediction]:
        return self.program._ask(self)


def failure_of(error: Exception) -> Failure:
    """Return the kind of failure of a row whose request ended in this error."""
    if isinstance(error, WithheldError):
        return "withheld"
    return "refused" if isinstance(error, RequestRefusedError) else "failed"


def placeholders(prompt: str, fields: Collection[str]) -> tuple[str, ...]:
    """Names of the fields that the prompt asks for, in order of their first occurrence."""
    return tuple(dict.fromkeys(name for name in _PLACEHOLDER.findall(prompt) if name in fields))


def unknown_placeholders(prompt: str, fields: Collection[str]) -> tuple[str, ...]:
    """Return the identifiers in braces that are no field and so stay as they are, in order."""
    return tuple(dict.fromkeys(name for name in _PLACEHOLDER.findall(prompt) if name not in fields))


def render(
    prompt: str,
    demos: Sequence[Demo],
    example: Example,
    *,
    input_field: str = "input",
    target_field: str = "target",
) -> list[Message]:
    """Return the messages of one row: instruction, demonstrations as turns, the row; constant parts first.

    Without a placeholder the prompt is the system message and the input the user message. With placeholders,
    the lines before the first one become the system message and the rest is filled in as the user message; a
    prompt with no such lines is one user message.
    Of a row that is a conversation the filled in prompt is the system message and the turns follow, unless it
    asks for the conversation itself: then that is filled in as a text.

    Raises:
        PromptError: For demonstrations that lack a field that the prompt asks for.
    """
    # A row whose input is made of several fields may have one of that name, too.
    fields = {input_field: example.input, **example.fields}
    if target_field != input_field:
        fields.pop(target_field, None)
    if sends_turns(prompt, (*example.turns, *(turn for demo in demos for turn in demo.turns)), input_field):
        return _conversation(_fill(prompt, fields), demos, example)
    if example.turns:
        fields[input_field] = example.full_text
    head, template = _split(prompt, fields)
    asked = placeholders(template, fields)
    messages = [Message("system", head)] if head else []
    for demo in demos:
        held = demo.held(input_field)
        if lacking := [name for name in asked if name not in held]:
            said = f"the prompt asks for {{{lacking[0]}}}, but a demonstration has no such field"
            fix = "Add it to the demonstration's `fields`, or remove the placeholder or the demonstrations."
            raise PromptError(Problem("prompt.demo-field", said, fix=fix))
        messages.append(Message("user", _fill(template, held) if template else demo.input))
        messages.append(Message("assistant", demo.output))
    messages.append(Message("user", _fill(template, fields) if template else example.input_text))
    return messages


def sends_turns(prompt: str, turns: Sequence[Message], input_field: str) -> bool:
    """Return whether a conversation is sent turn by turn behind the prompt, not as a text within it."""
    return bool(turns) and not placeholders(prompt, (input_field,))


def _conversation(system: str, demos: Sequence[Demo], example: Example) -> list[Message]:
    """Return the system message, whole conversations with their answers, and the row's own conversation."""
    messages = [Message("system", system)] if system.strip() else []
    for demo in demos:
        messages += [*(demo.turns or [Message("user", demo.input)]), Message("assistant", demo.output)]
    return [*messages, *(example.turns or [Message("user", example.input_text)])]


def demo_turn(prompt: str, demo: Demo, input_field: str = "input") -> str:
    """Return what a demonstration says before its answer: the template filled in, or the input alone."""
    if sends_turns(prompt, demo.turns, input_field):
        return demo.full_text
    held = demo.held(input_field)
    _, template = _split(prompt, held)
    return _fill(template, held) if template else demo.input


def repeated_text(prompt: str, fields: Collection[str]) -> str:
    """Return what every demonstration is sent with: the template, "" for the input alone."""
    return _split(prompt, fields)[1]


def render_text(prompt: str, demos: Sequence[Demo]) -> str:
    """Prompt and demonstrations as one text for people, as in `best_prompt.txt`.

    The rows' fields are not known here: a word in braces is taken for one of them. Not in a step's prompt,
    whose demonstrations are sent as they are.
    """
    if not demos:
        return prompt
    turns = [
        f"{demo.shown if demo.turns else f'User: {demo.shown}'}\nAssistant: {demo.output}" for demo in demos
    ]
    count = counted(len(demos), "demonstration")
    how = "sent as turns of the chat between prompt and row"
    if demos[0].turns:
        how = "whole conversations, sent between prompt and row"
    elif _PLACEHOLDER.search(prompt) and not demos[0].component:
        how = "sent as turns of the chat before the row, each filled in at the placeholders as the row is"
    return "\n\n".join([prompt, f"--- {count}, {how} ---", *turns])


def render_candidate(candidate: Candidate) -> str:
    """All texts with their demonstrations for people; of several components each under its name."""
    if len(candidate.components) == 1:
        return render_text(candidate.prompt, candidate.demos)
    parts = (
        f"[{name}]\n{render_text(text, candidate.demos_of(name))}"
        for name, text in candidate.components.items()
    )
    return "\n\n".join(parts)


def component_diffs(original: Candidate, best: Candidate) -> str:
    """Return what `best` changed, as a unified diff for each changed component; "" for nothing."""
    parts: list[str] = []
    for name in best.changed_since(original):
        before, after = (
            render_text(one.components.get(name, ""), one.demos_of(name)).splitlines()
            for one in (original, best)
        )
        lines = difflib.unified_diff(before, after, f"{name} (original)", f"{name} (best)", lineterm="")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _repeated_options(options: Options, attempt: int) -> Options:
    """Return the options of a repeated question: another sample, with its own seed."""
    if not attempt:
        return options
    shift = _RETRY_SAMPLE * attempt
    seed = None if options.seed is None else options.seed + shift
    return replace(options, sample=options.sample + shift, seed=seed, is_retry=True)


def _split(prompt: str, fields: Collection[str]) -> tuple[str, str]:
    """(constant text, template of the user message); no template where that is the input alone."""
    first = next((m.start() for m in _PLACEHOLDER.finditer(prompt) if m[1] in fields), None)
    if first is None:
        return prompt, ""
    at = prompt.rfind("\n", 0, first) + 1
    head, template = prompt[:at].strip(), prompt[at:]
    return (head, template) if head else ("", prompt)


def _fill(template: str, fields: Mapping[str, object]) -> str:
    """One pass: braces inside a row's text stay what they are."""
    return _PLACEHOLDER.sub(lambda m: text_of(fields[m[1]]) if m[1] in fields else m[0], template)
