"""The books of a batch: caps that many spend from at once, and what dead trials leave behind."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autoprompt.errors import BudgetExhausted, Interrupted, StoreError
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.demand import Demand
from autoprompt.llm.limits.ledger import Caps, FileLedger, Ticket
from autoprompt.text.machine import machine_problem

NOTHING = Amount()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def admitted(ledger: FileLedger, trial: str, calls: int = 0) -> Ticket:
    ticket = ledger.admit(trial, Amount(calls))
    assert ticket is not None
    return ticket


def asked(likely: Amount) -> Demand:
    """A request that takes this, with an answer of any length."""
    return Demand(likely, likely, likely, 0.0, 0.0, limit=0, enough=0, least=0, at_once=1)


def send(ledger: FileLedger, ticket: Ticket, *, from_block: bool = False, likely: Amount = NOTHING) -> bool:
    """Whether it was sent; else it has to wait."""
    return ledger.charge(ticket, from_block=from_block, demand=asked(likely)) is not None


def settle(ledger: FileLedger, ticket: Ticket, likely: Amount, used: Amount, *, sent: bool = True) -> None:
    ledger.settle(ticket, likely=likely, most=likely, used=used, sent=sent, from_block=False)


def test_calls_are_never_passed_by_threads_of_several_trials(path: Path) -> None:
    ledgers = [FileLedger(path, Caps(max_calls=100)) for _ in range(4)]
    tickets = [admitted(ledger, f"t{n}") for n, ledger in enumerate(ledgers)]

    def one(number: int) -> bool:
        try:
            send(ledgers[number % 4], tickets[number % 4])
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(one, range(300))) == 100
    assert sum(amount.calls for amount in ledgers[0].spent().values()) == 100


def test_calls_are_never_passed_by_processes(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from autoprompt.errors import BudgetExhausted\n"
        "from autoprompt.llm.limits.demand import NOTHING\n"
        "from autoprompt.llm.limits.ledger import Caps, FileLedger\n"
        "ledger = FileLedger(Path(sys.argv[1]), Caps(max_calls=60)); ticket = ledger.admit(sys.argv[2])\n"
        "sent = 0\n"
        "try:\n"
        "    for _ in range(50):\n"
        "        ledger.charge(ticket, from_block=False, demand=NOTHING); sent += 1\n"
        "except BudgetExhausted: pass\n"
        "print(sent)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    processes = [subprocess.Popen([*command, f"t{n}"], stdout=subprocess.PIPE, text=True) for n in range(3)]
    sent = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(sent) == 60


def test_what_one_trial_has_set_aside_another_cannot_send(path: Path) -> None:
    ledger = FileLedger(path, Caps(max_calls=10))
    one, other = admitted(ledger, "one"), admitted(ledger, "other")
    ledger.set_aside(one, held=Amount(4), blocks=Amount(3))
    assert ledger.calls_left(other) == 3
    with pytest.raises(BudgetExhausted, match="max_calls=10 of the batch"):
        ledger.set_aside(other, held=Amount(4), blocks=NOTHING)
    for _ in range(3):
        send(ledger, other)
    with pytest.raises(BudgetExhausted):
        send(ledger, other)
    send(ledger, one, from_block=True)  # it was kept for this
    assert ledger.spent() == {"one": Amount(1), "other": Amount(3)}


def test_a_dead_attempt_leaves_its_block_and_what_it_sent_counts(path: Path) -> None:
    ledger = FileLedger(path, Caps(max_calls=10, max_tokens=1000))
    dead = admitted(ledger, "t")
    ledger.set_aside(dead, held=Amount(2), blocks=Amount(8))
    send(ledger, dead, from_block=True, likely=Amount(1, tokens=100))
    again = admitted(ledger, "t")
    assert ledger.calls_left(again) == 7  # one sent, two still held for the trial's end
    assert ledger.spent() == {"t": Amount(1, 100)}  # nobody knows whether the endpoint had answered
    with pytest.raises(Interrupted, match="goes on elsewhere"):
        send(ledger, dead)
    settle(ledger, dead, Amount(1, 100), Amount(1, 50))
    assert ledger.spent() == {"t": Amount(1, 100)}


def test_an_ended_trial_holds_nothing_and_may_send_nothing(path: Path) -> None:
    ledger = FileLedger(path, Caps(max_calls=10))
    ticket = admitted(ledger, "t", 6)
    ledger.set_aside(ticket, held=Amount(3), blocks=NOTHING)
    ledger.release("t")
    assert ledger.calls_left(admitted(ledger, "other")) == 10
    with pytest.raises(Interrupted):
        send(ledger, ticket)


def test_a_trial_is_let_in_only_where_its_fewest_calls_are_left(path: Path) -> None:
    ledger = FileLedger(path, Caps(max_calls=10))
    first = admitted(ledger, "first", 6)
    assert ledger.admit("second", Amount(6)) is None
    second = admitted(ledger, "second", 4)
    assert (ledger.calls_left(first), ledger.calls_left(second)) == (6, 4)
    for _ in range(6):
        send(ledger, first)
    with pytest.raises(BudgetExhausted):
        send(ledger, first)


@pytest.mark.parametrize(
    ("caps", "amount"), [(Caps(max_tokens=100), Amount(0, 60)), (Caps(max_cost=1.0), Amount(0, 0, 0.6))]
)
def test_a_trial_is_let_in_only_where_its_least_tokens_and_money_are_left(
    path: Path, caps: Caps, amount: Amount
) -> None:
    ledger = FileLedger(path, caps)
    first = ledger.admit("first", amount)
    assert first is not None
    assert ledger.admit("second", amount) is None
    send(ledger, first, likely=amount)
    settle(ledger, first, amount, amount)
    assert ledger.admit("second", amount) is None  # what is kept has become what is spent
    ledger.release("first")
    assert ledger.admit("second", Amount(0, amount.tokens // 2, amount.cost_usd / 2)) is not None


def test_a_new_driver_keeps_what_interrupted_trials_hold(path: Path) -> None:
    ledger = FileLedger(path, Caps(max_calls=10))
    for name in ("waits", "gone"):
        ticket = admitted(ledger, name, 5)
        ledger.set_aside(ticket, held=Amount(2), blocks=Amount(3))
        assert ledger.claim(ticket, f"question of {name}")
    ledger.close()
    again = FileLedger(path, Caps(max_calls=10))
    again.begin({"waits"})
    other = admitted(again, "other")
    assert again.calls_left(other) == 8
    assert again.claim(other, "question of gone")


def test_tokens_and_cost_are_kept_for_what_is_on_the_wire(path: Path) -> None:
    ledger = FileLedger(path, Caps(max_tokens=250, max_cost=1.0))
    one, other = admitted(ledger, "one"), admitted(ledger, "other")
    likely = Amount(1, tokens=100, cost_usd=0.3)
    assert send(ledger, one, likely=likely)
    assert send(ledger, other, likely=likely)
    assert not send(ledger, one, likely=likely)  # until an answer shows what is left
    settle(ledger, one, likely, Amount(1, 40, 0.1))
    assert send(ledger, one, likely=likely)  # 40 + 100 + 100
    assert ledger.spent()["one"] == Amount(2, 40, 0.1)
    settle(ledger, one, likely, Amount(1, 100, 0.3))
    settle(ledger, other, likely, Amount(1, 100, 0.3))
    with pytest.raises(BudgetExhausted, match=r"max_tokens=250 reached: 240 tokens used, 100 more needed"):
        send(ledger, one, likely=likely)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_what_rounding_leaves_of_ended_requests_holds_nobody_up(path: Path, order: tuple[int, ...]) -> None:
    """0.1 + 0.2 + 0.3 - 0.1 - 0.2 - 0.3 is no request on its way whose end could be waited for."""
    ledger = FileLedger(path, Caps(max_cost=1.0))
    ticket, other = admitted(ledger, "a"), admitted(ledger, "b")
    amounts = [Amount(1, 1, cost) for cost in (0.1, 0.2, 0.3)]
    for amount in amounts:
        assert send(ledger, ticket, likely=amount)
    for number in order:
        settle(ledger, ticket, amounts[number], Amount(1, 1, 0.1))
    for asker in (ticket, other):
        with pytest.raises(BudgetExhausted, match="max_cost"):
            send(ledger, asker, likely=Amount(1, 1, 0.9))


def test_what_never_left_is_not_counted(path: Path) -> None:
    ledger = FileLedger(path, Caps(max_calls=1))
    ticket = admitted(ledger, "t")
    send(ledger, ticket)
    settle(ledger, ticket, NOTHING, NOTHING, sent=False)
    assert ledger.spent() == {"t": NOTHING}
    send(ledger, ticket)


def test_a_question_belongs_to_one_trial_at_a_time(path: Path) -> None:
    ledger = FileLedger(path)
    one, other = admitted(ledger, "one"), admitted(ledger, "other")
    assert ledger.claim(one, "q")
    assert not ledger.claim(other, "q")
    ledger.unclaim(other, "q")  # not its own
    assert not ledger.claim(other, "q")
    ledger.unclaim(one, "q")
    assert ledger.claim(other, "q")
    ledger.admit("other")  # the one that claimed it is dead
    assert ledger.claim(one, "q")


def test_the_rate_of_an_endpoint_is_kept_by_all_together(path: Path) -> None:
    clock = Clock()
    ledgers = [FileLedger(path, clock=clock) for _ in range(2)]
    entered = [ledgers[n % 2].enter("e", 10, 4, None)[0] for n in range(4)]
    assert entered == [0.0] * 4
    delay, number = ledgers[0].enter("e", 10, 4, None)
    assert number is None
    assert delay == pytest.approx(60.0, abs=0.01)
    assert ledgers[1].enter("another", 10, 4, None)[0] == 0.0
    clock.now += 60.0
    assert ledgers[1].enter("e", 10, 4, None)[0] == 0.0


def test_tokens_a_minute_are_set_right_by_the_answer(path: Path) -> None:
    clock = Clock()
    ledger = FileLedger(path, clock=clock)
    delay, number = ledger.enter("e", 500, None, 100)  # above the rate, but alone
    assert delay == 0.0
    assert number is not None
    assert ledger.enter("e", 10, None, 100)[0] > 0
    ledger.answered(number, 20)
    assert ledger.enter("e", 80, None, 100)[0] == 0.0
    assert ledger.enter("e", 1, None, 100)[0] > 0


def test_tokens_of_a_minute_ago_leave_room_for_others_at_the_same_endpoint(path: Path) -> None:
    clock = Clock()
    ledger = FileLedger(path, clock=clock)
    for _ in range(3):
        _, number = ledger.enter("e", 30, None, 100)
        assert number is not None
        ledger.answered(number, 25)
        ledger.enter("another", 90, None, 100)
        clock.now += 20.0
    # The first is a minute old: 50 of 100 are left, as much as two took.
    assert ledger.enter("e", 51, None, 100)[0] > 0
    assert ledger.enter("e", 50, None, 100)[0] == 0.0
    assert ledger.enter("another", 90, None, 100)[0] == 0.0
    assert ledger.enter("another", 90, None, 100)[0] > 0


def test_a_clock_that_is_set_back_holds_nobody_up(path: Path) -> None:
    clock = Clock()
    ledger = FileLedger(path, clock=clock)
    assert ledger.enter("e", 10, 1, None)[0] == 0.0
    clock.now -= 3600.0
    delay, _ = ledger.enter("e", 10, 1, None)
    assert 59 < delay < 61
    clock.now += 60.0
    assert ledger.enter("e", 10, 1, None)[0] == 0.0


def test_a_full_disk_is_said_and_room_on_it_is_used_again(path: Path) -> None:
    ledger = FileLedger(path)
    (pages,) = ledger._database.execute("PRAGMA page_count").fetchone()
    ledger._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError) as caught:
        ledger.admit("x" * 100_000)
    assert "no space is left on the disk" in str(machine_problem(caught.value))
    ledger._database.execute("PRAGMA max_page_count = 100000")
    admitted(ledger, "another")


def test_another_file_in_its_place_is_named(path: Path) -> None:
    path.write_text("no database at all, but long enough to be taken for one" * 5, encoding="utf-8")
    with pytest.raises(StoreError, match=r"ledger\.sqlite.*Move the file away"):
        FileLedger(path)
