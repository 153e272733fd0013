"""Results as cards in a notebook: what they show, escaped, without a network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autoprompt import Models, RunConfig, estimate, evaluate, optimize
from autoprompt.llm import Message, ScriptedClient
from autoprompt.report.cards import card

HOSTILE = '<img src=x onerror="alert(1)">'
ROWS = [{"input": f"item {n} {HOSTILE}", "target": "A" if n % 2 else "B"} for n in range(150)]


def knows(messages: list[Message]) -> str:
    number = int(re.findall(r"item (\d+)", messages[-1].content)[-1]) if "item" in messages[-1].content else 0
    return ("A" if number % 2 else "B") if "RULE" in messages[0].content else "A"


def models() -> Models:
    written = ScriptedClient(lambda messages: f"```\nA or B? RULE {HOSTILE}\n```")
    return Models(ScriptedClient(knows), optimizer=written)


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    folder = tmp_path_factory.mktemp("cards")
    return RunConfig(
        prompt="A or B?", preset="quick", max_demos=0, runs_dir=folder / "runs", no_memory=True, no_cache=True
    )


def test_a_run_s_card_has_the_verdict_the_prompt_and_the_rows(config: RunConfig) -> None:
    result = optimize(config, rows=ROWS, models=models())
    html = result._repr_html_()
    found = Tags(html)
    assert "Confirmed" in html
    assert '<p style="margin:.3em 0;font-weight:600">The new prompt is better. On ' in html
    assert "cost of 1,000 calls</th>" in html
    assert re.search(r"<td[^>]*>original</td><td[^>]*>0\.5\d*</td><td[^>]*>0\.\d+ to 0\.\d+</td>", html)
    assert "Fixed: " in html
    assert "A or B? RULE &lt;img src=x onerror=&#34;alert(1)&#34;&gt;</pre>" in html
    assert f"autoprompt report {result.run_dir} --open" in html
    assert "img" not in found.tags
    assert not {"script", "link", "style"} & {*found.tags}
    assert [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href")] == [
        "onclick"  # of the copy button
    ]


def test_a_run_s_card_outlives_its_folder(config: RunConfig, tmp_path: Path) -> None:
    result = optimize(config.model_copy(update={"runs_dir": tmp_path}), rows=ROWS, models=models())
    result.run_dir.rename(tmp_path / "elsewhere")
    html = result._repr_html_()
    assert "Confirmed" in html
    assert "Fixed: " not in html


def test_an_evaluation_s_card_has_the_rows_that_changed(config: RunConfig) -> None:
    scored = evaluate(config, rows=ROWS, models=models())
    assert "exact_match 0.500 on 150 rows." in card(scored)
    assert "Wrong: 75 rows, the first 10" in card(scored)
    better = evaluate(config, rows=ROWS, candidate="A or B? RULE", against="A or B?", models=models())
    assert "Better" in card(better)
    assert "75 fixed, 0 broken." in card(better)
    assert "Fixed: 75 rows, the first 10" in card(better)
    assert "Worse" in card(evaluate(config, rows=ROWS, against="A or B? RULE", models=models()))


def test_an_estimate_s_card_says_what_would_be_used_and_how_to_give_prices(config: RunConfig) -> None:
    found = estimate(config, rows=ROWS, models=models())
    assert f"At most {found.calls:,} calls, about {found.tokens:,} tokens" in found._repr_html_()
    asked = estimate(config, of="evaluate", rows=ROWS, models=models())
    assert "1 prompt on 150 rows." in asked._repr_html_()


def test_an_estimate_s_card_says_whose_price_is_missing(config: RunConfig) -> None:
    asked = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "optimizer_model": "w"}
    advice = "cost unknown: give price_input and price_output in the settings."
    unknown = estimate(config.model_copy(update=asked), rows=ROWS)
    assert unknown.unpriced == ("task", "optimizer")
    assert advice in unknown._repr_html_()
    priced = {**asked, "price_input": 1.0, "price_output": 4.0}
    found = estimate(config.model_copy(update=priced), rows=ROWS)
    assert "cost unknown, as the price of the writer is not known." in found._repr_html_()
    of_rows = estimate(config.model_copy(update=priced), of="evaluate", rows=ROWS)
    assert (of_rows.unpriced, "cost unknown" in of_rows._repr_html_()) == ((), False)


def test_other_records_have_no_card() -> None:
    with pytest.raises(TypeError, match=r"^RunConfig has no card$"):
        card(RunConfig())
