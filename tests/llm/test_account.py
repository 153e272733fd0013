"""A run that spends from a batch: its budget, its rate, its cache, through their real parts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from autoprompt.errors import BudgetExhausted, EndpointError
from autoprompt.llm import Message, Options, ScriptedClient
from autoprompt.llm.client import Completion
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.recorded import RecordedClient
from autoprompt.llm.limits.amounts import Amount, Charge
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.demand import Demand
from autoprompt.llm.limits.ledger import Account, Caps, FileLedger
from autoprompt.llm.models import Shared, wrap
from autoprompt.llm.prices import Price
from autoprompt.llm.transport.failures import UnreachableError
from autoprompt.measure.program import PromptProgram
from autoprompt.measure.rows import evaluate_jobs
from autoprompt.metrics import get_metric
from autoprompt.records import Candidate, Example, Usage

ASKED = [Message("user", "1 or 0?")]
# A request of 60 tokens, for an answer of up to 1,024 where three are usual.
ROW = Demand(
    Amount(1, 63), Amount(0, 60), Amount(0, 60), 0.0, 0.0, limit=1024, enough=256, least=3, at_once=16
)


def charged(budget: BudgetMeter, demand: Demand = ROW, *, is_retry: bool = False) -> Charge:
    charge = budget.charge("task", is_retry=is_retry, demand=demand)
    assert charge is not None
    return charge


class Trials:
    """Trials of one batch, each with a budget and a client of its own."""

    def __init__(self, folder: Path, caps: Caps = Caps()) -> None:
        self.folder = folder
        self.ledger = FileLedger(folder / "ledger.sqlite", caps)
        self.cache = ResponseCache(folder)

    def budget(self, name: str, max_calls: int | None = None, fewest: int = 0) -> BudgetMeter:
        ticket = self.ledger.admit(name, Amount(fewest))
        assert ticket is not None
        return BudgetMeter(max_calls, account=Account(self.ledger, ticket))

    def client(
        self, budget: BudgetMeter, model: ScriptedClient, journal: Journal | None = None
    ) -> RecordedClient:
        return wrap(model, Shared(budget, journal, self.cache))

    def sent(self) -> dict[str, int]:
        return {name: amount.calls for name, amount in self.ledger.spent().items()}


def test_blocks_of_two_trials_never_take_the_same_calls(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_calls=10))
    one, other = trials.budget("one"), trials.budget("other")
    with one.block(6):
        assert other.calls_left() == 4
        with pytest.raises(BudgetExhausted, match="of the batch"), other.block(5):
            pytest.fail("must not start")
        one.charge("task")
        with other.block(4):
            other.charge("task")
    assert (one.calls_left(), other.calls_left()) == (8, 8)  # what was not sent is back


def test_what_is_held_for_the_test_is_there_for_the_block_that_uses_it(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_calls=10, max_tokens=1000))
    one, other = trials.budget("one"), trials.budget("other")
    one.hold(6, tokens=900)
    one.release_hold()  # the other trial must not come between this and the block
    with pytest.raises(BudgetExhausted), other.block(5):
        pytest.fail("must not start")
    with one.block(6, leaves_room=False):
        for _ in range(6):
            one.settle(charged(one, replace(ROW, prompt=Amount(0, 100), seen=Amount(0, 100))), Usage(100, 40))
    assert trials.ledger.spent()["one"] == Amount(6, 840)
    with other.block(4):
        pass


def free_answers(budget: BudgetMeter, rows: int) -> tuple[list[int], list[BudgetExhausted]]:
    """Rows that two prompts were answered on, and refusals: 63 tokens (or cents) a row, of up to 1,084."""
    together = threading.Barrier(4)

    def answer(_: object) -> Completion:
        with suppress(threading.BrokenBarrierError):
            together.wait(1)  # four are in flight at a time
        return Completion("yes", Usage(60, 3), finish_reason="stop")

    client = wrap(ScriptedClient(answer), Shared(budget), price=Price(1e4, 1e4), concurrency=4)
    jobs = [
        (
            Candidate(components={"prompt": f"Say {word}"}),
            [Example(id=f"{n:016x}", input=str(n), target="yes", fields={}) for n in range(rows)],
        )
        for word in ("yes", "yep")  # of one length, as they take as many tokens
    ]
    ended: list[BudgetExhausted] = []
    program = PromptProgram(client, "Say yes", options=Options(max_output_tokens=1024))
    metric = get_metric("exact_match", {})
    done = evaluate_jobs(program, jobs, metric, concurrency=4, on_exhausted=ended.append)
    return [sum(not row.is_unasked for row in evaluation.rows) for evaluation in done], ended


@pytest.mark.parametrize("caps", [Caps(max_tokens=12 * 63), Caps(max_cost=12 * 0.63)])
def test_what_was_kept_for_the_test_is_used_to_the_end(tmp_path: Path, caps: Caps) -> None:
    alone = BudgetMeter(max_tokens=caps.max_tokens, max_cost=caps.max_cost)
    in_batch = Trials(tmp_path, caps).budget("t")
    for budget in (alone, in_batch):
        budget.hold(12, tokens=12 * 63, cost_usd=12 * 0.63)
        budget.release_hold()
        with budget.block(12, leaves_room=False):
            assert free_answers(budget, rows=6) == ([6, 6], [])


def test_requests_on_their_way_keep_no_other_trial_from_beginning_a_block(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_tokens=1300))
    one, other = trials.budget("one"), trials.budget("other")
    with one.block(10, tokens=630):
        first, second, _ = (charged(one) for _ in range(3))
        assert first.limit == 256
        with other.block(10, tokens=630):
            assert charged(other).limit == 256
            assert other.charge("task", demand=ROW) is None  # together they could take more than the cap
            one.settle(first, Usage(60, 3))
            one.settle(second, Usage(60, 3))
            assert charged(other).limit == 256


def test_a_trial_cannot_use_what_another_has_set_aside(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_tokens=1260))
    one, other = trials.budget("one"), trials.budget("other")
    with one.block(10, tokens=630), other.block(10, tokens=630):
        charge = charged(one)
        assert charge.limit == 256
        one.settle(charge, Usage(60, 256))
        charge = charged(one)
        assert charge.limit == 254  # 630 - 316 - 60
        one.settle(charge, Usage(60, 254))
        with pytest.raises(BudgetExhausted, match="max_tokens=1260 reached: 630 tokens used, 630 kept back"):
            one.charge("task", demand=ROW)
        for _ in range(10):
            other.settle(charged(other), Usage(60, 3))
    assert sum(amount.tokens for amount in trials.ledger.spent().values()) == 1260


def test_asking_again_inside_a_block_draws_on_it(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_tokens=630))
    budget = trials.budget("t")
    with budget.block(10, tokens=630):
        for _ in range(8):
            budget.settle(charged(budget), Usage(60, 3))
        with budget.retries(2) as granted:
            for _ in range(granted):
                budget.settle(charged(budget, is_retry=True), Usage(60, 3))
    assert trials.ledger.spent()["t"] == Amount(10, 630)


def test_a_cap_of_the_batch_that_refused_something_is_told_from_the_trials_own(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_calls=10, max_tokens=100))
    capped, refused, held = trials.budget("capped", 5), trials.budget("refused"), trials.budget("held", 50)
    assert (held.calls_left(), held.own_calls_left(), refused.own_calls_left()) == (10, 50, None)
    with pytest.raises(BudgetExhausted), capped.block(6):
        pytest.fail("must not start")
    with pytest.raises(BudgetExhausted), refused.block(11):
        pytest.fail("must not start")
    with pytest.raises(BudgetExhausted):
        held.hold(1, tokens=101)
    assert (capped.cut_by, refused.cut_by, held.cut_by) == (set(), {"max_calls"}, {"max_tokens"})
    content = trials.budget("content")
    with pytest.raises(BudgetExhausted):
        content.hold(11, is_wish=True)
    content.hold(1)
    assert content.cut_by == set()


def test_a_hold_that_does_not_fit_holds_nothing(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_calls=10))
    one, other = trials.budget("one"), trials.budget("other")
    one.hold(3)
    with pytest.raises(BudgetExhausted):
        one.hold(11)
    assert one.held["calls"] == 0
    assert other.calls_left() == 10


def test_the_batchs_time_is_up_for_a_trial_that_has_just_begun(tmp_path: Path) -> None:
    now = 100.0
    trials = Trials(tmp_path)
    ticket = trials.ledger.admit("t")
    assert ticket is not None
    account = Account(trials.ledger, ticket, seconds_left=5.0)
    budget = BudgetMeter(max_seconds=60, clock=lambda: now, account=account)
    budget.charge("task")
    now += 5.5
    with pytest.raises(BudgetExhausted, match="max_seconds=5"):
        budget.hold(1, is_wish=True)
    assert budget.cut_by == set()
    with pytest.raises(BudgetExhausted, match="max_seconds=5"):
        budget.charge("task")
    assert budget.cut_by == {"max_seconds"}


def test_an_answer_that_another_trial_paid_for_counts_and_is_not_sent(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    model = ScriptedClient(lambda _: Completion("1", Usage(20, 1, 0.5)), identity="m")
    first, second = trials.budget("first", 5), trials.budget("second", 5)
    for budget in (first, second):
        with budget.block(1):
            assert trials.client(budget, model).complete(ASKED).text == "1"
    assert len(model.calls) == 1
    assert trials.sent() == {"first": 1, "second": 0}
    assert first.spent.to_dict() | {"seconds": 0} == second.spent.to_dict() | {"seconds": 0}
    assert second.spent.cost_usd == 0.5


def test_a_shared_answer_is_refused_where_a_sent_one_would_be(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    model = ScriptedClient(lambda _: "1", identity="m")
    trials.client(trials.budget("first"), model).complete(ASKED)
    capped = trials.budget("capped", 1)
    client = trials.client(capped, model)
    client.complete(ASKED)
    trials.client(trials.budget("third"), model).complete([Message("user", "another")])
    with pytest.raises(BudgetExhausted):
        client.complete([Message("user", "another")])


def test_a_replayed_shared_answer_counts_as_when_it_came(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    model = ScriptedClient(lambda _: "1", identity="m")
    trials.client(trials.budget("first"), model).complete(ASKED)
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        before = trials.budget("second")
        trials.client(before, model, journal).complete(ASKED)
    trials.cache.clear()
    with Journal(path) as journal:
        after = trials.budget("second")
        assert trials.client(after, model, journal).complete(ASKED).source == "journal"
    assert (before.spent.calls, after.spent.calls) == (1, 1)
    assert before.spent.usage == after.spent.usage
    assert len(model.calls) == 1


def test_a_question_on_the_wire_is_waited_for(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    is_asked, may_answer = threading.Event(), threading.Event()

    def slow(_: object) -> str:
        is_asked.set()
        assert may_answer.wait(20)
        return "1"

    model = ScriptedClient(slow, identity="m")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(trials.client(trials.budget("first"), model).complete, ASKED)
        assert is_asked.wait(20)
        second = pool.submit(trials.client(trials.budget("second"), model).complete, ASKED)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.2)
        may_answer.set()
        assert first.result(20).text == second.result(20).text == "1"
    assert len(model.calls) == 1


def test_a_question_whose_trial_failed_is_asked_by_the_next(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    failing = ScriptedClient([EndpointError("gone", is_fatal=True)], identity="m")
    with pytest.raises(EndpointError):
        trials.client(trials.budget("first"), failing).complete(ASKED)
    model = ScriptedClient(["1"], identity="m")
    assert trials.client(trials.budget("second"), model).complete(ASKED).text == "1"
    assert trials.sent() == {"first": 1, "second": 1}


def test_a_request_that_found_no_connection_is_free(tmp_path: Path) -> None:
    trials = Trials(tmp_path, Caps(max_calls=1))
    model = ScriptedClient([UnreachableError("refused"), "1"], identity="m")
    assert trials.client(trials.budget("t"), model).complete(ASKED).text == "1"
    assert trials.sent() == {"t": 1}


def test_a_rate_is_shared_by_clients_of_two_trials(tmp_path: Path) -> None:
    now = 1000.0
    ledger = FileLedger(tmp_path / "ledger.sqlite", clock=lambda: now)
    clients = []
    for name in ("one", "other"):
        ticket = ledger.admit(name)
        assert ticket is not None
        budget = BudgetMeter(account=Account(ledger, ticket))
        clients.append(wrap(ScriptedClient(lambda _: "1", identity="m"), Shared(budget), rpm=2))
    for client in clients:
        client.complete(ASKED, Options(sample=1))
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(clients[1].complete, ASKED, Options(sample=2))
        with pytest.raises(TimeoutError):
            waits.result(timeout=0.2)
        clients[1].close()
        with pytest.raises(Exception, match="stopped"):
            waits.result(timeout=20)
