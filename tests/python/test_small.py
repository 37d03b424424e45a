"""Columns, gates, options and warnings by themselves."""

import random
import threading

import pytest
from decode import column
from memlab import columns, gate, warn
from memlab.intern import MAX_TEXT, Tables, clean


@pytest.mark.parametrize(
    "values",
    [[], [0], [5, 5, 5], [0, 255], [0, 256], [1, 2**32], [2**63, 2**64 - 1], [-(2**63), 0], [-5, 7], [2**64 - 1] * 3],
)
def test_a_column_gives_back_what_went_in(values):
    assert column(columns.offset(values), len(values)) == values
    assert column(columns.offset(values, True), len(values)) == values
    assert columns.offset(values, True)[1] > 0


def test_times_are_narrow_as_deltas():
    draw = random.Random(1)
    times = [1_795_962_240_000_000]
    for _ in range(1000):
        times.append(times[-1] + draw.randrange(200))
    packed = columns.delta(times)
    assert packed[1] == 1 and column(packed, len(times)) == times


def test_times_that_are_not_known_do_not_break_deltas():
    times = [-(2**63), 1_795_962_240_000_000, -(2**63)]
    assert [value % 2**64 for value in column(columns.delta(times), 3)] == [value % 2**64 for value in times]


def test_texts_are_cut_and_cleaned():
    assert clean("\ud800x") == "?x"
    assert len(clean("y" * 5000)) == MAX_TEXT


def test_tables_stay_bounded(monkeypatch):
    monkeypatch.setattr("memlab.intern.MAX_STACKS", 10)
    tables = Tables()
    ids = [tables.stack((number,)) for number in range(100)]
    assert ids == sorted(set(ids)) and len(tables._stacks) <= 11


def test_a_thread_passes_a_gate_once():
    door = gate.Gate()
    with door.passing() as first, door.passing() as second:
        assert (first, second) == (True, False)
    with door.passing() as again:
        assert again


def test_a_gate_that_stays_shut_is_given_up():
    door, held, done = gate.Gate(timeout=0.05), threading.Event(), threading.Event()

    def hold():
        with door.passing():
            held.set()
            done.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(5)
    with door.passing() as entered:
        assert not entered
    done.set()
    thread.join()


def test_what_a_signal_wants_is_done_after_the_gate():
    door, order = gate.Gate(), []
    with door.passing():
        gate.when_outside(lambda: order.append("signal"))
        order.append("work")
    assert order == ["work", "signal"]
    gate.when_outside(lambda: order.append("at once"))
    assert order[-1] == "at once"


def test_a_guarded_function_never_raises(capsys):
    @warn.guarded
    def faulty():
        raise RuntimeError("mine")

    assert faulty() is None and faulty() is None
    assert capsys.readouterr().err.count("mine") == 1
    assert warn.said()[0][1] == 2
