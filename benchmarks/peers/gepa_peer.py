"""Runs `gepa.optimize` on a task and answers the unseen rows with what it ended with. See dspy_peer.py."""

import json
import random
import sys
import urllib.request
from pathlib import Path

import gepa
import openai
from gepa.adapters.default_adapter.default_adapter import EvaluationResult
from scoring import is_right

VALIDATION = 50  # of the train rows, at most half of them: as in dspy_peer.py
WRITER_TOKENS = 800  # the same


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    client = openai.OpenAI(base_url=settings["base_url"], api_key="none", max_retries=0, timeout=600)

    extra = {"grammar": settings["grammar"]} if settings["grammar"] else {}

    def task(messages):
        return ask(client, "task", messages, 0.0, settings["max_output_tokens"], extra)

    def writer(prompt):
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return ask(client, "writer", messages, 1.0, WRITER_TOKENS)

    def evaluate(data, response):
        if is_right(read(response, settings["labels"]), data["answer"], settings):
            return EvaluationResult(score=1.0, feedback=f"Correct: {data['answer']}.")
        text = f"Wrong: the right answer is {data['answer']!r}."
        if settings["metric"] != "numeric":  # a number may be worked out before it is said
            text += " Answer with it alone."
        return EvaluationResult(score=0.0, feedback=text)

    rows = [
        {"input": row["input"], "additional_context": {}, "answer": row["target"]}
        for row in settings["train"]
    ]
    random.Random(settings["seed"]).shuffle(rows)
    held_out = min(VALIDATION, len(rows) // 2)
    prompt = settings["prompt"]
    if settings["labels"]:
        prompt += "\nAnswer with exactly one of: " + ", ".join(settings["labels"]) + ". Nothing else."
    result = gepa.optimize(
        seed_candidate={"system_prompt": prompt},
        trainset=rows[held_out:],
        valset=rows[:held_out],
        task_lm=task,
        evaluator=evaluate,
        reflection_lm=writer,
        max_metric_calls=settings["max_calls"],
        seed=settings["seed"],
    )
    best = result.best_candidate["system_prompt"]
    url = settings["base_url"].removesuffix("/v1") + "/phase/score"
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=30).close()
    answers = []
    for row in settings["unseen"]:
        messages = [{"role": "system", "content": best}, {"role": "user", "content": row["input"]}]
        answers.append(read(task(messages), settings["labels"]))
    found = {"answers": answers, "prompt": best, "demos": 0}
    Path(settings["out"]).write_text(json.dumps(found), encoding="utf-8")


def ask(client, model, messages, temperature, max_tokens, extra=None):
    answer = client.chat.completions.create(
        model=model, messages=messages, temperature=temperature, max_tokens=max_tokens, extra_body=extra
    )
    return answer.choices[0].message.content or ""


def read(response, labels):
    """The label in an answer: the whole of it, else the only one named; the answer itself without labels."""
    text = response.strip().strip(".\"'`*").strip()
    for label in labels:
        if text.lower() == label.lower():
            return label
    # A label within another one (clickbait in non_clickbait) is not named by it.
    rest, named = text.lower(), []
    for label in sorted(labels, key=len, reverse=True):
        if label.lower() in rest:
            named.append(label)
            rest = rest.replace(label.lower(), " ")
    return named[0] if len(named) == 1 else text


if __name__ == "__main__":
    main()
