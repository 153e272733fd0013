"""Runs one optimizer of DSPy on a task and answers the unseen rows with what it ended with.

Called by compare.py with the path of a JSON file of settings; writes its answers to `settings["out"]`.
The settings of each optimizer follow its documentation, sized so that bootstrapping and validation stay
within the cap of task calls: see benchmarks/docs/comparison.md.
"""

import json
import random
import sys
import urllib.request
from pathlib import Path
from typing import Literal

import dspy
from scoring import is_right

VALIDATION = 50  # of the train rows, for every optimizer that takes a validation set; at most half of them
# The small model goes round in circles up to any limit (66 s a reflection at 1,500), and a cell has an hour.
WRITER_TOKENS = 800


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    base_url = settings["base_url"]
    model = {"api_base": base_url, "api_key": "none", "num_retries": 0}
    task = dspy.LM("openai/task", temperature=0.0, max_tokens=settings["max_output_tokens"], **model)
    writer = dspy.LM("openai/writer", temperature=1.0, max_tokens=WRITER_TOKENS, **model)
    dspy.configure(lm=task)
    train = [example(row) for row in settings["train"]]
    random.Random(settings["seed"]).shuffle(train)
    held_out = min(VALIDATION, len(train) // 2)
    train, val = train[held_out:], train[:held_out]
    # Numbers are worked out before they are said, as DSPy's tutorial on mathematics does it.
    module = dspy.ChainOfThought if settings["metric"] == "numeric" else dspy.Predict
    program = module(signature(settings))
    best = optimized(settings["tool"], program, train, val, task, writer, settings)
    begin_scoring(base_url)
    answers = []
    for row in settings["unseen"]:
        try:
            answers.append(str(best(input=row["input"]).answer))
        except Exception as error:  # noqa: BLE001 an answer that DSPy cannot read is a wrong one
            answers.append(f"(unreadable: {type(error).__name__})")
    predictor = best.predictors()[0]
    found = {
        "answers": answers,
        "prompt": predictor.signature.instructions,
        "demos": len(predictor.demos),
    }
    Path(settings["out"]).write_text(json.dumps(found), encoding="utf-8")


def signature(settings):
    """The naive prompt as instruction; the labels as the type of the answer, as DSPy recommends."""
    labels = settings["labels"]
    kind = Literal[tuple(labels)] if labels else str
    fields = {"input": (str, dspy.InputField()), "answer": (kind, dspy.OutputField())}
    return dspy.Signature(fields, settings["prompt"])


def example(row):
    return dspy.Example(input=row["input"], answer=row["target"]).with_inputs("input")


def metrics(settings):
    """The score of an answer, and the same with the feedback that GEPA reflects on."""

    def metric(gold, prediction, trace=None):
        return float(is_right(str(prediction.answer), gold.answer, settings))

    def metric_with_feedback(gold, prediction, trace=None, pred_name=None, pred_trace=None):
        score = metric(gold, prediction)
        if score:
            return dspy.Prediction(score=score, feedback=f"Correct: {gold.answer}.")
        said = f"Wrong: answered {prediction.answer!r}, the right answer is {gold.answer!r}."
        return dspy.Prediction(score=score, feedback=said)

    return metric, metric_with_feedback


def optimized(tool, program, train, val, task, writer, settings):
    cap, seed = settings["max_calls"], settings["seed"]
    metric, metric_with_feedback = metrics(settings)
    if tool == "dspy-zero-shot":
        return program
    if tool == "dspy-bootstrap-random-search":
        # Zero-shot, labels only and plain bootstrapping are tried too, so three of the sets are not drawn.
        # A set costs its validation and about eight calls of bootstrapping.
        sets = max(1, cap // (len(val) + 8) - 3)
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            metric=metric,
            max_bootstrapped_demos=4,
            max_labeled_demos=16,
            num_candidate_programs=sets,
            num_threads=1,
        )
        random.seed(seed)
        return optimizer.compile(program, trainset=train, valset=val)
    if tool == "dspy-miprov2":
        # 6 bootstrapped sets, about 40 calls; each trial a minibatch of 20; a full validation at the start
        # and after every fifth trial.
        optimizer = dspy.MIPROv2(
            metric=metric,
            auto=None,
            num_candidates=6,
            prompt_model=writer,
            task_model=task,
            max_bootstrapped_demos=4,
            max_labeled_demos=16,
            num_threads=1,
            seed=seed,
        )
        full = 3 * len(val)
        return optimizer.compile(
            program,
            trainset=train,
            valset=val,
            num_trials=max(2, (cap - 40 - full) // 20),
            minibatch_size=20,
            minibatch_full_eval_steps=5,
        )
    if tool == "dspy-gepa":
        optimizer = dspy.GEPA(
            metric=metric_with_feedback,
            max_metric_calls=cap,
            reflection_lm=writer,
            num_threads=1,
            seed=seed,
        )
        return optimizer.compile(program, trainset=train, valset=val)
    raise SystemExit(f"unknown tool {tool}")


def begin_scoring(base_url):
    url = base_url.removesuffix("/v1") + "/phase/score"
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=30).close()


if __name__ == "__main__":
    main()
