"""Lost events, other recorders, allocators without a history, disks that are full: said once, and the job goes on."""

import errno
import os

import pytest
from decode import Trace
from memlab import chunks, session
from standin import StandIn, load

QUIET = dict(max_events=10**9, interval=1000.0)


def start(path, backend, **options):
    return session.start(path, session.parse({**QUIET, **options}), backend)


def test_events_between_reading_and_clearing_are_not_lost_but_read_later(tmp_path):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    recorder = start(path, backend).recorder
    backend.advance(100)
    backend.meanwhile = lambda standin: standin.advance(30)
    recorder.read()
    assert backend.clears == 0  # something moved: the ring stays
    backend.meanwhile = None
    recorder.read()
    assert backend.clears == 1
    backend.advance()
    session.stop()
    trace = Trace(path)
    assert len(trace.events[0]) == 382 and trace.trailer["clean"]


def test_events_that_are_lost_are_counted(tmp_path, capsys):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    recorder = start(path, backend).recorder
    backend.advance(100)
    recorder.read()
    backend.advance(40)
    backend.clear()  # somebody else empties the ring
    backend.advance()
    session.stop()
    trace = Trace(path)
    assert trace.process["lost_events"] == 40
    assert len(trace.events[0]) == 382 - 40
    assert not trace.trailer["clean"]
    assert (4, "lost 40 events") in [mark[:2] for mark in trace.marks]
    assert [row[0] for row in trace.warnings] == ["lost-events"]
    assert capsys.readouterr().err.count("lost") == 1


def test_a_history_that_was_switched_off_is_switched_on_again(tmp_path):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    recorder = start(path, backend).recorder
    backend.advance(100)
    recorder.read()
    backend.stop()
    backend.advance(40)
    recorder.read()
    backend.advance()
    session.stop()
    assert Trace(path).process["lost_events"] == 40


def test_counters_set_back_by_the_job_are_no_loss(tmp_path):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    recorder = start(path, backend).recorder
    backend.advance(200)
    recorder.read()
    counters, base = backend.counters, backend.counters(0)
    backend.counters = lambda device: {key: value - base[key] for key, value in counters(device).items()}
    recorder.read()
    backend.advance()
    session.stop()
    assert Trace(path).process["lost_events"] == 0


def test_another_recorder_keeps_its_history(tmp_path, capsys):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    backend._recording = True
    start(path, backend)
    backend.advance()
    session.stop()
    assert backend.is_recording() and backend.snapshots == backend.clears == 0
    assert "another recorder" in capsys.readouterr().err
    trace = Trace(path)
    assert trace.events == {} and trace.whole and any(mark[0] == 4 for mark in trace.marks)


def test_an_allocator_without_history_has_its_counters_recorded(tmp_path, capsys):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    backend.backend_name = "cudaMallocAsync"
    recorder = start(path, backend).recorder
    backend.advance(100)
    recorder.read()
    backend.advance()
    recorder.read()
    session.stop()
    trace = Trace(path)
    assert len(trace.samples) >= 2 and trace.process["other"]["backend"] == "cudaMallocAsync"
    assert capsys.readouterr().err.count("cudaMallocAsync") == 1


def test_a_nested_recording_is_left_out(tmp_path, capsys):
    import memlab

    backend = StandIn(load("cnn"))
    start(tmp_path / "outer.msgpack", backend)
    with memlab.record(tmp_path / "inner.msgpack"):
        backend.advance()
    assert session.current() is not None
    session.stop()
    assert not (tmp_path / "inner.msgpack").exists()
    assert len(Trace(tmp_path / "outer.msgpack").events[0]) == 382
    assert capsys.readouterr().err.count("running already") == 1


def test_a_path_that_cannot_be_written_is_said(tmp_path, capsys):
    backend = StandIn(load("cnn"))
    assert start(tmp_path / "no" / "such" / "folder", backend) is None
    assert not backend.is_recording()
    assert "cannot write" in capsys.readouterr().err
    session.stop()


class FullDisk:
    """A file that takes only so many bytes, as a full disk does: a short write first, then an error."""

    def __init__(self, path, room):
        self._file, self._room = open(path, "wb", buffering=0), room

    def write(self, data):
        if self._room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._file.write(data[: self._room])
        self._room -= written
        return written

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [700, 2_000, 2_500, 4_000])
def test_a_full_disk_ends_the_recording_and_leaves_whole_chunks(tmp_path, capsys, monkeypatch, room, analyzer):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    create = classmethod(lambda cls, path, writer: cls(FullDisk(path, room), writer))
    monkeypatch.setattr(chunks.ChunkFile, "create", create)
    recorder = start(path, backend).recorder
    while backend.left:
        backend.advance(20)
        recorder.read()
        recorder.flush()
    session.stop()
    trace = Trace(path)
    assert trace.rest == b"" and not trace.whole and path.stat().st_size <= room
    assert not backend.is_recording()
    assert capsys.readouterr().err.count("No space left") == 1
    assert "truncated" in analyzer("info", path) or "trailer" in analyzer("info", path)


def test_a_failing_backend_does_not_reach_the_job(tmp_path, capsys):
    path, backend = tmp_path / "trace.msgpack", StandIn(load("cnn"))
    session_ = start(path, backend)
    backend.snapshot = lambda: 1 // 0
    session_.recorder.at_step()
    session_.recorder.write_state()
    session.stop()
    assert Trace(path).whole
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="it knows"):
        session.parse({"stack": "python"})
    with pytest.raises(ValueError):
        session.parse({"stacks": "cpp"})
