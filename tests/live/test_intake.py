"""What is acknowledged, and when."""

from functools import partial

from probsysid.live.alignment import Alignment
from probsysid.live.intake import MOST_HELD, Intake
from probsysid.live.messages import Message
from tests.live import lag
from tests.live.test_mqtt import CHANNELS

ROWS = lag.measure(200)


def intake(patience: int = 100) -> Intake:
    return Intake(CHANNELS, Alignment(lag.DT, inputs=1, patience=patience), None)


def push(given: Intake, done: list[int], name: int, first: int, last: int) -> None:
    part = ROWS[first:last]
    values = {"u": part[:, 1], "y": part[:, 2]}
    given.push(Message(values, part[:, 0], acknowledge=lambda saved: done.append(name)))


def test_a_message_that_waits_holds_no_other_up() -> None:
    """Brokers deliver few messages that are not acknowledged: what is waited for must not be behind them."""
    here, done = intake(), []
    send = partial(push, here, done)
    send(0, 0, 10)
    send(1, 20, 30)  # waits for those before
    send(2, 0, 10)  # again
    assert done == [0, 2]
    send(3, 10, 20)
    assert done == [0, 2, 1, 3] and here.saved == 30


def test_few_messages_wait() -> None:
    """Then those before them are a gap, before the broker holds everything back."""
    here, done = intake(), []
    push(here, done, 0, 0, 10)
    for k in range(MOST_HELD):
        assert done == [0]
        push(here, done, k + 1, 20 + k, 21 + k)
    assert len(done) == MOST_HELD + 1 and here.counts.gaps == 1
