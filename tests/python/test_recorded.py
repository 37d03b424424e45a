"""Recorded snapshots, replayed in slices: the trace says what the snapshot says, to the byte."""

import json

import pytest
from decode import Trace
from memlab import session
from standin import TESTDATA, StandIn, load

#: The worker keeps out, so that the slices are the test's.
QUIET = dict(max_events=10**9, interval=1000.0)


def record(path, backend, slice_):
    session.start(path, session.parse(QUIET), backend)
    while backend.left:
        backend.advance(slice_)
        session.current().recorder.read()
    session.stop()


def source_of(name):
    return next(TESTDATA.glob(f"torch/{name}.pickle*"))


@pytest.mark.parametrize(
    "name, slice_",
    [("cnn", 50), ("gpt", 700), ("gpt", 10**6), ("gpt_cpp", 5000), ("streams", 100), ("varlen.expandable", 20_000),
     ("compiled", 3000), ("annotated", 300), ("leak_loss", 1000)],
)  # fmt: skip
def test_the_analyzer_finds_the_same_figures(name, slice_, tmp_path, analyzer):
    path = tmp_path / "trace.msgpack"
    record(path, StandIn(load(name)), slice_)
    ours = json.loads(analyzer("summary", "--json", path))["devices"]
    theirs = json.loads(analyzer("summary", "--json", source_of(name)))["devices"]
    assert ours == theirs


def test_every_event_is_there_as_recorded(tmp_path):
    snapshot, path = load("gpt"), tmp_path / "trace.msgpack"
    record(path, StandIn(snapshot), 900)
    trace = Trace(path)
    recorded = snapshot["device_traces"][0]
    assert len(trace.events[0]) == len(recorded)
    for row, entry in zip(trace.events[0], recorded):
        assert row[1:4] == (entry["time_us"], entry.get("addr", entry.get("device_free")), entry["size"])
        frames = [(trace.strings[f], trace.strings[n], line) for f, n, line in map(trace.frames.__getitem__, trace.stacks[row[4]])]
        assert frames == [(frame["name"], frame["filename"], frame["line"]) for frame in entry.get("frames", [])]
        assert trace.strings[row[5]] == entry.get("user_metadata", "")
    assert trace.whole and trace.trailer["clean"] and trace.process["lost_events"] == 0


def test_a_trace_takes_less_than_twelve_bytes_an_event(tmp_path):
    snapshot, path = load("gpt"), tmp_path / "trace.msgpack"
    record(path, StandIn(snapshot), 500)
    assert path.stat().st_size < 12 * len(snapshot["device_traces"][0])


def test_a_state_is_written_before_the_first_event_and_every_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr("memlab.recorder.STATE_EVENTS", 1000)
    snapshot, path = load("gpt"), tmp_path / "trace.msgpack"
    record(path, StandIn(snapshot), 300)
    states = [(facts["device"], facts["events"], facts["first"]) for facts in Trace(path).states]
    count = len(snapshot["device_traces"][0])
    between = [(0, events, 0) for events in range(1200, count, 1200)]
    assert len(between) > 3
    assert states[: 1 + len(between)] == [(0, 0, 0), *between]
    assert states[-1][1] == count


def test_no_state_is_written_of_a_read_in_which_something_happened(tmp_path, monkeypatch):
    monkeypatch.setattr("memlab.recorder.STATE_EVENTS", 1000)
    path, backend = tmp_path / "trace.msgpack", StandIn(load("gpt"))
    session.start(path, session.parse(QUIET), backend)
    backend.advance(1500)
    backend.meanwhile = lambda backend: backend.advance(1)
    session.current().recorder.read()
    backend.meanwhile = None
    session.current().recorder.flush()
    assert [facts["events"] for facts in Trace(path).states] == [0]
    session.current().recorder.read()
    session.current().recorder.flush()
    assert [facts["events"] for facts in Trace(path).states] == [0, 1501]
    session.stop()


def test_states_in_between_change_no_figure(tmp_path, monkeypatch, analyzer):
    monkeypatch.setattr("memlab.recorder.STATE_EVENTS", 1000)
    path = tmp_path / "trace.msgpack"
    record(path, StandIn(load("cnn")), 100)
    ours = json.loads(analyzer("summary", "--json", path))["devices"]
    assert ours == json.loads(analyzer("summary", "--json", source_of("cnn")))["devices"]


def test_the_same_stack_is_written_once(tmp_path):
    path = tmp_path / "trace.msgpack"
    record(path, StandIn(load("cnn")), 20)
    trace = Trace(path)
    assert len(set(trace.stacks)) == len(trace.stacks)
    assert len(set(trace.frames)) == len(trace.frames)


def test_samples_carry_counters_and_the_driver(tmp_path):
    path = tmp_path / "trace.msgpack"
    record(path, StandIn(load("cnn")), 100)
    samples = Trace(path).samples
    assert samples[0]["total_bytes"] == 140 << 30
    for sample in samples:
        allocs = sample["stats"]["allocation.all.allocated"]
        assert allocs == sum(row[0] == 0 for row in Trace(path).events[0][: sample["events"]])


def test_recording_ends_even_if_nothing_happened(tmp_path):
    path = tmp_path / "trace.msgpack"
    backend = StandIn({"device_traces": [[]], "segments": []})
    session.start(path, session.parse(QUIET), backend)
    session.stop()
    trace = Trace(path)
    assert trace.whole and trace.trailer["devices"] == []
