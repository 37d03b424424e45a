"""Every hook in the job: what it writes, that it goes away, and that a fault in it costs one message and nothing else."""

import gc
import signal
import sys
import threading
import types

import pytest
from decode import Trace
from fakehooks import SGD, Job, Layer, Node
from faketorch import Tensor
from memlab import backend as backends
from memlab import modules, names, session, warn, watch
from standin import StandIn, load

STEP, PHASE, USER, FAULT = 0, 1, 3, 4


@pytest.fixture
def job(monkeypatch):
    gc.collect()
    monkeypatch.setattr(names.NAMES, "_known", {})
    monkeypatch.setattr(names.NAMES, "_prefixes", {})
    monkeypatch.setattr(names.NAMES, "_has_plain_root", False)
    return Job(monkeypatch)


def start(tmp_path, job=None, **options):
    """A recording on the stand-in, hooked into the fake torch."""
    options = session.parse(dict(max_events=10**9, interval=1000.0, census=False, **options))
    current = session.start(tmp_path / "trace.msgpack", options, StandIn(load("cnn")))
    if job is not None:
        current._install_hooks(job.torch)
    return current


def model_of(job):
    block = Layer(job, up=Layer(job, weight=Tensor(64)), down=Layer(job))
    return Layer(job, block=block)


def train(job, model, optimizer, steps=1):
    for _ in range(steps):
        loss = model(Tensor(64))
        job.backward(Tensor(4, Node(job, [loss.grad_fn])))
        optimizer.step()


def marks_of(tmp_path):
    return [(kind, name, begins) for kind, name, _, begins in Trace(tmp_path / "trace.msgpack").marks]


def test_events_carry_the_module_that_runs_in_both_passes(tmp_path, job):
    start(tmp_path, job)
    model = model_of(job)
    job.backward(Tensor(4, Node(job, [model(Tensor(64)).grad_fn])))
    forward = [label for what, label in job.log if what == "forward"]
    assert forward == [f"memlab:forward:{name}" for name in ("block.up", "block.down", "block", "Layer")]
    backward = [label for what, label in job.log if what == "backward"]
    assert backward == [f"memlab:backward:{name}" for name in ("", "Layer", "block", "block.down", "block.up")]
    job.metadata = "mine"
    model(Tensor(64))
    assert job.metadata == "mine"  # what the caller had is there again


def test_a_module_that_fails_leaves_the_label_of_its_caller(tmp_path, job):
    start(tmp_path, job)
    with pytest.raises(RuntimeError, match="the job's own"):
        Layer(job, inner=Layer(job, fails=True))(Tensor(64))
    assert job.metadata == "" and warn.said() == []


def test_steps_and_phases_are_found_from_the_optimizer(tmp_path, job):
    start(tmp_path, job)
    model = model_of(job)
    train(job, model, SGD(job, [Tensor(64)]), steps=2)
    assert ("optimizer", "memlab:optimizer:SGD") in job.log and job.metadata == ""
    session.stop()
    begin, end = 1, 2
    one = lambda number: [
        (STEP, number, begin),
        *((PHASE, phase, side) for phase in ("forward", "backward", "optimizer") for side in (begin, end)),
        (STEP, number, end),
    ]
    assert marks_of(tmp_path) == one("1") + one("2")


def test_a_step_that_is_told_takes_over_from_the_optimizer(tmp_path, job):
    start(tmp_path, job)
    model, optimizer = model_of(job), SGD(job, [Tensor(64)])
    session.step()
    train(job, model, optimizer, steps=3)
    session.step()
    session.stop()
    assert [mark[1:] for mark in marks_of(tmp_path) if mark[0] == STEP] == [("1", 1), ("1", 2), ("2", 1)]


def test_the_end_takes_every_hook_out(tmp_path, job):
    engine, excepthook, thread_hook = job.torch.autograd._engine_run_backward, sys.excepthook, threading.excepthook
    handler = signal.getsignal(signal.SIGTERM)
    start(tmp_path, job)
    assert job.hooks() == 4 and job.torch.autograd._engine_run_backward != engine and sys.excepthook != excepthook
    session.stop()
    assert job.hooks() == 0 and job.torch.autograd._engine_run_backward == engine
    assert (sys.excepthook, threading.excepthook) == (excepthook, thread_hook)
    assert signal.getsignal(signal.SIGTERM) == handler


def test_who_came_after_us_stays(tmp_path, job):
    start(tmp_path, job)
    ours = job.torch.autograd._engine_run_backward
    job.torch.autograd._engine_run_backward = later = lambda *args: ours(*args)
    hook = sys.excepthook
    sys.excepthook = another = lambda *found: hook(*found)
    session.stop()
    assert job.torch.autograd._engine_run_backward is later and sys.excepthook is another
    sys.excepthook = sys.__excepthook__


def test_a_torch_without_metadata_or_engine_is_said_once(tmp_path, job, capsys):
    del job.torch._C._cuda_setMemoryMetadata, job.torch.autograd._engine_run_backward
    start(tmp_path, job)
    train_hooks = job.before_forward + job.after_forward
    SGD(job, [Tensor(64)]).step()
    session.stop()
    assert train_hooks == [] and capsys.readouterr().err.count("cannot label allocations") == 1
    assert (PHASE, "optimizer", 1) in marks_of(tmp_path)


def fails(*args, **kwargs):
    raise OSError("this hook is broken")


def said(capsys):
    return capsys.readouterr().err.count("this hook is broken")


def test_a_fault_in_a_module_hook_ends_the_labels(tmp_path, job, capsys):
    start(tmp_path, job)
    model = model_of(job)
    modules._hooks._set = fails
    for _ in range(3):
        assert model(Tensor(64)).grad_fn is not None
    assert job.before_forward == job.after_forward == []
    assert said(capsys) == 1
    session.stop()
    assert Trace(tmp_path / "trace.msgpack").whole


def test_a_fault_when_a_module_is_left_ends_the_labels(tmp_path, job, capsys):
    start(tmp_path, job)
    model = model_of(job)
    modules._hooks._label_outputs = fails
    for _ in range(3):
        model(Tensor(64))
    assert job.before_forward == job.after_forward == [] and said(capsys) == 1


@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer"])
def test_a_fault_at_a_phase_is_told_once_and_the_job_trains_on(tmp_path, job, capsys, phase):
    current = start(tmp_path, job)
    mark = current.recorder.mark
    current.recorder.mark = lambda kind, name, begins=0: fails() if name == phase and begins == 1 else mark(kind, name, begins)
    model, optimizer = model_of(job), SGD(job, [Tensor(64)])
    train(job, model, optimizer, steps=3)
    assert job.log.count(("optimizer", job.log[-1][1])) == 3 and said(capsys) == 1
    session.stop()
    assert Trace(tmp_path / "trace.msgpack").whole


def test_a_fault_after_a_phase_is_told_once_for_each_hook(tmp_path, job, capsys):
    current = start(tmp_path, job)
    current.steps.leave = fails
    model, optimizer = model_of(job), SGD(job, [Tensor(64)])
    for _ in range(3):
        loss = model(Tensor(64))
        assert job.backward(Tensor(4, Node(job, [loss.grad_fn]))) == "gradients"
        optimizer.step()
        session.step()
    del current.steps.leave
    text = capsys.readouterr().err
    lines = [line for line in text.splitlines() if "this hook is broken" in line]
    assert len(lines) == len(set(lines)) > 2, text


def test_an_error_of_the_engine_is_the_jobs_and_ends_the_phase(tmp_path, job):
    def engine(*args):
        raise RuntimeError("the engine's own")

    job.torch.autograd._engine_run_backward = engine
    current = start(tmp_path, job)
    with pytest.raises(RuntimeError, match="the engine's own"):
        job.backward(Tensor(4, Node(job)))
    assert current.steps.phase is None and warn.said() == []


def test_a_fault_at_an_oom_is_told_once_and_the_oom_stays(tmp_path, capsys):
    current = start(tmp_path)
    current.recorder.write_state = fails
    for _ in range(2):
        assert current.recorder.backend.observer(0, 1 << 30, 3 << 30, 1 << 20) is None
    assert said(capsys) == 1
    del current.recorder.write_state


def test_a_fault_at_an_exception_is_told_once_and_the_exception_shows(tmp_path, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, value, traceback: shown.append(kind))
    monkeypatch.setattr(threading, "excepthook", lambda found: shown.append(found.exc_type))
    current = start(tmp_path)
    current.recorder.write_state = fails
    sys.excepthook(KeyError, KeyError("x"), None)
    for _ in range(2):
        thread = threading.Thread(target=lambda: {}["y"])
        thread.start()
        thread.join()
    assert shown == [KeyError] * 3 and said(capsys) == 1
    del current.recorder.write_state


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="SIGUSR1 is POSIX's")
def test_a_fault_at_a_signal_is_told_once_and_the_job_goes_on(tmp_path, capsys):
    current = start(tmp_path)
    current.recorder.write_state = fails
    for _ in range(2):
        signal.raise_signal(signal.SIGUSR1)
    assert said(capsys) == 1
    del current.recorder.write_state


def test_a_fault_at_exit_is_told_once(tmp_path, capsys):
    current = start(tmp_path)
    current.observers._end = fails
    current.observers._on_exit()
    current.observers._on_exit()
    assert said(capsys) == 1


def test_hooks_of_a_recording_that_is_over_do_nothing(tmp_path):
    current = start(tmp_path)
    session.stop()
    size = (tmp_path / "trace.msgpack").stat().st_size
    current.observers.on_oom(0, 1, 2, 3)
    current.observers._note_exception(KeyError)
    current.observers._on_exit()
    current._on_ready()
    assert (tmp_path / "trace.msgpack").stat().st_size == size and warn.said() == []


@pytest.mark.parametrize("method", ["devices", "start", "observe_oom"])
def test_a_backend_that_fails_at_the_beginning_is_told_once(tmp_path, capsys, method):
    backend = StandIn(load("cnn"))
    setattr(backend, method, fails)
    session.start(tmp_path / "trace.msgpack", session.parse(dict(interval=1000.0, census=False)), backend)
    backend.advance()
    session.stop()
    assert said(capsys) == 1 and Trace(tmp_path / "trace.msgpack").whole


def test_a_torch_that_cannot_be_recorded_is_said_in_the_trace(tmp_path, capsys):
    backend = StandIn(load("cnn"))

    def check():
        raise backends.Unusable("this PyTorch is built without CUDA")

    backend.check = check
    session.start(tmp_path / "trace.msgpack", session.parse(dict(interval=1000.0)), backend)
    backend.advance()
    session.stop()
    assert capsys.readouterr().err.count("built without CUDA") == 1
    assert any(mark[0] == FAULT for mark in marks_of(tmp_path)) and backend.snapshots == 0


def test_a_module_that_is_imported_later_is_watched_once(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    watch.when_imported("imported_late", lambda module: seen.append(module.value))
    assert seen == [] and "imported_late" not in sys.modules
    import imported_late  # noqa: F401

    del sys.modules["imported_late"]
    __import__("imported_late")
    assert seen == [7]
    watch.when_imported("imported_late", lambda module: seen.append(module.value))
    assert seen == [7, 7]
    del sys.modules["imported_late"]


def test_torch_itself_is_waited_for_and_a_fault_in_it_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))  # has nothing that is asked for
    session.start(tmp_path / "trace.msgpack", session.parse(dict(interval=1000.0, census=False)))
    assert capsys.readouterr().err.count("memlab: ") == 1
    session.stop()
    assert Trace(tmp_path / "trace.msgpack").whole
